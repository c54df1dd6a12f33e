"""Lock files: exact versions of everything, for repeatable installs and for the advisory check.

python .ci/locks.py write            bring the locks up to pyproject.toml; versions stay if they can
python .ci/locks.py upgrade          the same with the newest versions
python .ci/locks.py check            fail if a lock is stale, as far as can be told from here
python .ci/locks.py check --offline  look at the files only

The locks name no index, so they install from any; hashes say that the files are the right ones.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "requirements"
OLDEST = "3.11"
FOR_DEVELOPERS = frozenset({"bench", "dev", "docs", "test"})  # extras; all others are for users
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
HASHED = re.compile(r"^[A-Za-z0-9._-]+==[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", re.MULTILINE)
LEAK = re.compile(r"\w+://|file:|(?:^|\s)/[\w.-]+/|--(?:index-url|extra-index-url|find-links)")


class Lock(NamedTuple):
    """What a lock is made of: a file of requirements, extras of it, and whether it has hashes."""

    source: Path
    extras: tuple[str, ...]
    hashes: bool


def locks() -> dict[str, Lock]:
    """The locks by name; an extra that pyproject.toml gains is in them from then on."""
    project = ROOT / "pyproject.toml"
    return {
        "package": Lock(project, user_extras(), True),
        "tools": Lock(FOLDER / "tools.in", (), True),
        "build": Lock(FOLDER / "build.in", (), True),
        "dev": Lock(project, ("dev",), False),
    }


def user_extras() -> tuple[str, ...]:
    """Extras of the package that are not for its developers."""
    return tuple(sorted(set(_project()["optional-dependencies"]) - FOR_DEVELOPERS))


def wanted(lock: Lock) -> Iterator[Requirement]:
    """Requirements that a lock must satisfy, those of extras of our own followed."""
    if lock.source.suffix == ".in":
        lines = (line.partition("#")[0].strip() for line in lock.source.read_text().splitlines())
        yield from (Requirement(line) for line in lines if line)
        return
    project = _project()
    yield from map(Requirement, project["dependencies"])
    todo, done = list(lock.extras), set[str]()
    while todo:
        extra = todo.pop()
        done.add(extra)
        for requirement in map(Requirement, project["optional-dependencies"][extra]):
            if requirement.name == project["name"]:
                todo += requirement.extras - done
            else:
                yield requirement


def faults(name: str, lock: Lock) -> Iterator[str]:
    """What is wrong with a lock, as far as its text tells."""
    path = FOLDER / f"{name}.lock"
    if not path.exists():
        yield f"{path.name} is missing"
        return
    text = path.read_text()
    if leak := LEAK.search(text):
        yield f"{path.name} names an index or a path: {leak[0].strip()}"
    pins: dict[str, list[Version]] = {}
    for package, version in PINNED.findall(text):
        pins.setdefault(canonicalize_name(package), []).append(Version(version))
    for requirement in wanted(lock):
        versions = pins.get(canonicalize_name(requirement.name))
        if versions is None:
            yield f"{path.name} lacks {requirement}"
        elif not all(requirement.specifier.contains(v, prereleases=True) for v in versions):
            yield f"{path.name} has {requirement.name} {versions[0]}, but {requirement} is wanted"
    if lock.hashes and len(PINNED.findall(text)) != len(HASHED.findall(text)):
        yield f"{path.name} has a version without a hash"


def compiled(lock: Lock, output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Let uv resolve into a file; versions that the file has are kept where they can be."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        sys.exit("uv is needed to resolve the locks; install it: pip install uv")
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-annotate", *options]
    command += [word for extra in lock.extras for word in ("--extra", extra)]
    command += ["--generate-hashes"] if lock.hashes else []
    name = {"UV_CUSTOM_COMPILE_COMMAND": "python .ci/locks.py write"}
    return subprocess.run(
        [*command, lock.source, "--output-file", output],
        cwd=ROOT,
        env=os.environ | name,
        capture_output=True,
        text=True,
        check=False,
    )


def stale(name: str, lock: Lock) -> str | None:
    """Why a lock does not resolve to itself; None if it does."""
    path = FOLDER / f"{name}.lock"
    with tempfile.TemporaryDirectory() as folder:
        again = Path(shutil.copy(path, folder))
        done = compiled(lock, again)
        if done.returncode == 0:
            same = PINNED.findall(again.read_text()) == PINNED.findall(path.read_text())
            return None if same else f"{path.name} resolves to other versions"
    if "Failed to fetch" in done.stderr or "error sending request" in done.stderr:
        _say(f"{path.name} was not resolved: no package index can be reached from here.")
        return None
    return f"{path.name} does not resolve: {done.stderr.strip()}"


def write(*options: str) -> None:
    """Write every lock."""
    FOLDER.mkdir(exist_ok=True)
    for name, lock in locks().items():
        path = FOLDER / f"{name}.lock"
        done = compiled(lock, path, *options)
        if done.returncode:
            sys.exit(f"{path.name} cannot be made: {done.stderr.strip()}")
        _say(f"{path.name}: {len(PINNED.findall(path.read_text()))} packages")


def check(*, offline: bool) -> None:
    """End with a sentence for each fault of each lock."""
    found = [fault for name, lock in locks().items() for fault in faults(name, lock)]
    if not found and not offline:
        found = [fault for name, lock in locks().items() if (fault := stale(name, lock))]
    if found:
        sys.exit("\n".join([*found, "Run `python .ci/locks.py write` and commit the locks."]))
    _say("The locks are what pyproject.toml and requirements/*.in ask for.")


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["upgrade"]:
            write("--upgrade")
        case ["check", *words] if words in ([], ["--offline"]):
            check(offline=bool(words))
        case _:
            sys.exit(__doc__)
