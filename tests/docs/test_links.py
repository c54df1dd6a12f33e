"""Links between pages lead somewhere, anchors included, and files that pages name are there."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pytest

from docs import outline
from tests.docs.blocks import ROOT, pages, read

PAGES = [*pages(), *(f"benchmarks/results/{name}.md" for name in ("ablation", "accuracy", "speed"))]
CODE = re.compile(r"^```.*?^```$|^(?: {4,}|\t).*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.M
)
SOURCE = re.compile(r"(?:src|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
NAMED = re.compile(r"`((?:src|tests|docs|benchmarks|native|deploy|examples)/[\w./-]+\.\w+)`")
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:|//")


def targets(text: str) -> list[str]:
    """Links of a page to the repository."""
    prose = CODE.sub(lambda code: " " * len(code[0]), text)
    found = [first or second for first, second in LINK.findall(prose)] + SOURCE.findall(prose)
    return [target for target in found if not OUTSIDE.match(target)]


def anchors(text: str) -> set[str]:
    """Anchors of the headings of a page, as repository hosts and MyST make them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


def fault(page: str, target: str) -> str | None:
    path, _, anchor = unquote(target).partition("#")
    place = ROOT / PurePosixPath(page).parent / path if path else ROOT / page
    if not place.exists():
        return f"{target} is not there"
    if ROOT not in place.resolve().parents:
        return f"{target} lies outside of the repository"
    if anchor and place.suffix == ".md" and anchor not in anchors(place.read_text("utf-8")):
        return f"{target} has no such heading"
    return None


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    faults = [found for target in targets(read(page)) if (found := fault(page, target))]
    assert not faults, f"{page}: {'; '.join(faults)}"


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_are_there(page: str) -> None:
    missing = [name for name in NAMED.findall(read(page)) if not (ROOT / name).exists()]
    assert not missing, f"{page}: {', '.join(missing)}"


def test_every_page_is_in_the_outline() -> None:
    alone, sections = outline.outline()
    listed = {*alone, outline.INDEX, "docs/decisions/0000-template.md"}
    listed |= {page for section in sections for page in section.pages}
    deep = {  # pages of the evidence are listed there
        f"docs/evidence/{Path(target).name}" for target in targets(read("docs/evidence/index.md"))
    }
    left = [page for page in pages() if page.startswith("docs/") and page not in listed | deep]
    assert not left, f"docs/index.md does not list {', '.join(left)}"


def test_the_outline_is_read_as_it_is_written() -> None:
    text = "# D\n\nWords.\n\n- [README](../README.md): what\n- How-to\n  - [A](howto/a.md#b): x\n"
    alone, (section,) = outline.outline(text + "  - [B](howto/b.md)\n")
    assert alone == ["README.md"]
    assert (section.title, section.path) == ("How-to", "docs/generated/how-to.md")
    assert section.pages == ("docs/howto/a.md", "docs/howto/b.md")
    assert "](../howto/a.md#b): x" in section.text


@pytest.mark.parametrize(
    ("target", "detail"),
    [
        ("docs/index.md", None),
        ("docs/index.md#documentation", None),
        ("docs/index.md#nonsense", "no such heading"),
        ("docs/nonsense.md", "not there"),
        ("../..", "outside"),
    ],
)
def test_links_that_lead_nowhere_are_noticed(target: str, detail: str | None) -> None:
    found = fault("README.md", target)
    assert found is None if detail is None else detail in str(found)


def test_what_is_a_link_and_what_is_code() -> None:
    text = '[a](b.md) `[c](d.md)` ![e](f.png "g")\n\n```md\n[h](i.md)\n```\n[j]: k.md\n<https://l>'
    assert targets(text + "\n[m](https://n)\n") == ["b.md", "f.png", "k.md"]
    assert anchors("# Two of *them*, `x`: why?\n## a\n## a\n") == {"two-of-them-x-why", "a", "a-1"}
