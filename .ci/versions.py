"""The version stands in several files; this keeps them equal.

python .ci/versions.py check            fail if two files disagree
python .ci/versions.py set 0.2.0        write a version wherever one stands
python .ci/versions.py released v0.2.0  fail unless everything is ready for this tag
python .ci/versions.py notes v0.2.0     print what the changelog says of it
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMBER = r"(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)"
PLACES = {  # file, or files: what stands before the version
    "pyproject.toml": r'^version = "',
    "src/scstream/__init__.py": r'^__version__ = "',
    "CITATION.cff": r"^version: ",
    "conda/recipe.yaml": r"^  version: ",
    "deploy/**/*": r"(?:\bscstream:|^appVersion: |^version: )",
}
PLACEHOLDER = "scstream.example"  # a name that nobody can register
ADDRESSES = {  # file: what must name where the project lives, or whom to write to
    "pyproject.toml": r"^Source = \"https://\S+",
    "CITATION.cff": r"^repository-code: https://\S+",
    "SECURITY.md": r"<[^\s@<>]+@[^\s@<>]+>",
    "deploy/helm/scstream/Chart.yaml": r"^home: https://\S+",
    "deploy/Dockerfile": r"\bimage\.source=\"https://\S+",
}
BASE = re.compile(r"^ARG (\w*BASE)=(\S+)$", re.MULTILINE)
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def places() -> Iterator[tuple[Path, re.Pattern[str]]]:
    """Files that have the version, and how to find it there."""
    for name, before in PLACES.items():
        pattern = re.compile(f"({before}){NUMBER}", re.MULTILINE)
        files = [path for path in sorted(ROOT.glob(name)) if path.is_file()]
        yield from ((path, pattern) for path in files if pattern.search(_text(path)))


def versions() -> dict[str, set[str]]:
    """Versions that stand in each file, by its name."""
    return {
        str(path.relative_to(ROOT)): {version for _, version in pattern.findall(_text(path))}
        for path, pattern in places()
    }


def check() -> str:
    """Return the version; end with a sentence where files disagree, or one has none."""
    found = versions()
    if missing := [name for name in PLACES if "*" not in name and name not in found]:
        sys.exit(f"no version is found in {', '.join(missing)}")
    if len(set().union(*found.values())) != 1:
        lines = (f"{name}: {', '.join(sorted(numbers))}" for name, numbers in found.items())
        sys.exit("\n".join(["the files disagree about the version:", *lines]))
    return found["pyproject.toml"].pop()


def write(version: str) -> None:
    """Write a version wherever one stands."""
    if not re.fullmatch(NUMBER, version):
        sys.exit(f"{version!r} is not a version such as 0.2.0 or 0.2.0rc1")
    for path, pattern in places():
        path.write_text(pattern.sub(rf"\g<1>{version}", _text(path)), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


def released(tag: str) -> None:
    """End with a sentence for each thing that a release under this tag still lacks."""
    version = check()
    fragments = [path.name for path in (ROOT / "changelog.d").glob("*.*.md")]
    lacks = {
        f"the tag {tag} is not v{version}": tag != f"v{version}",
        f"CHANGELOG.md has no notes of {version}: just release-notes {version}": not notes(version),
        f"changelog.d still has {len(fragments)} fragments": bool(fragments),
        f"tests/compat has no model file of {version}: python tests/compat/make_golden.py": not (
            ROOT / f"tests/compat/golden-{version}.scstream"
        ).exists(),
    }
    sentences = [sentence for sentence, is_lacking in lacks.items() if is_lacking]
    sentences += [*placeholders(), *loose_bases()]
    if sentences:
        sys.exit("\n".join(sentences))
    sys.stdout.write(f"Everything says {version}.\n")


def placeholders() -> Iterator[str]:
    """Files whose address of the project or of its security contact is missing or invented."""
    for name, pattern in ADDRESSES.items():
        text = _text(ROOT / name)
        if not re.search(pattern, text, re.MULTILINE):
            yield f"{name} has no address of the project"
        elif PLACEHOLDER in text:
            yield f"{name} has a placeholder: write the real address instead of {PLACEHOLDER}"


def loose_bases() -> Iterator[str]:
    """Base images of the image that are named by a tag, which may change, not by a digest."""
    for argument, image in BASE.findall(_text(ROOT / "deploy" / "Dockerfile")):
        if not DIGEST.search(image):
            yield (
                f"deploy/Dockerfile: {argument}={image} has no digest; append the one that `docker "
                f"buildx imagetools inspect {image}` prints, as @sha256:..."
            )


def notes(version: str) -> str:
    """What the changelog says of a version; empty if nothing."""
    text = _text(ROOT / "CHANGELOG.md")
    section = re.search(rf"^## {re.escape(version)} .*\n((?:(?!## ).*\n)*)", text, re.MULTILINE)
    return section[1].strip() + "\n" if section else ""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check"]:
            sys.stdout.write(f"{check()}\n")
        case ["set", version]:
            write(version)
        case ["released", tag]:
            released(tag)
        case ["notes", tag]:
            sys.stdout.write(notes(tag.removeprefix("v")) or sys.exit(f"no notes of {tag}"))
        case _:
            sys.exit(__doc__)
