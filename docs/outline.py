"""The outline of the documentation: `docs/index.md` lists all pages in their order.

The page is plain Markdown, so it can be read on a repository host too. Sphinx needs tables of
contents and a page for every section; this module makes both from that list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
INDEX = "docs/index.md"
GENERATED = PurePosixPath("docs/generated")  # generated pages, not committed
EXAMPLES, GALLERY = "examples/README.rst", "docs/auto_examples/index.rst"

_SECTION = re.compile(r"- ([^\[\n]+)$")
_LINK = re.compile(r"\s*- \[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")
_TARGET = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")


@dataclass(frozen=True)
class Section:
    """A heading of the outline and the pages below it."""

    title: str
    pages: tuple[str, ...]  # paths from the root of the repository
    text: str  # the list itself, with links relative to `GENERATED`

    @property
    def path(self) -> str:
        """Path of the page of the section: a listed page called index, or a generated one."""
        own = [page for page in self.pages if page.endswith("/index.md")]
        return own[0] if own else str(GENERATED / f"{self.title.lower().replace(' ', '-')}.md")

    @property
    def folders(self) -> set[str]:
        """Folders whose pages belong to this section, listed or not."""
        return {str(PurePosixPath(page).parent) for page in self.pages if page.endswith(".md")}


def outline(text: str | None = None) -> tuple[list[str], list[Section]]:
    """Return the pages without a section, and the sections."""
    text = (ROOT / INDEX).read_text(encoding="utf-8") if text is None else text
    alone, sections = [], []
    for item in re.split(r"^(?=- )", text, flags=re.MULTILINE)[1:]:
        head, _, rest = item.partition("\n")
        title, link = _SECTION.match(head), _LINK.match(head)
        if title:
            pages = tuple(_pages(rest))
            sections.append(Section(title[1].strip(), pages, _moved(rest)))
        elif link:
            alone.append(_from_root(link[1]))
    return alone, sections


def children(page: str, pages: list[str]) -> list[str]:
    """Return the table of contents of a page; `pages` are all pages."""
    alone, sections = outline()
    if page == INDEX:
        start = [page for page in (alone[0], GALLERY) if page in pages]
        end = [page for page in alone[1:] if page != EXAMPLES]
        others = [page for page in pages if "/" not in page and page not in alone]
        return [*start, *(section.path for section in sections), *end, *others]
    for section in sections:
        if section.path == page:
            others = [each for each in pages if str(PurePosixPath(each).parent) in section.folders]
            listed = [*section.pages, *(each for each in others if each not in _listed(sections))]
            return [each for each in dict.fromkeys(listed) if each != page]
    return []


def write_sections() -> None:
    """Write the pages of sections without an index page."""
    for section in outline()[1]:
        file = ROOT / section.path
        if section.path.startswith(f"{GENERATED}/"):
            content = f"# {section.title}\n\n{section.text}"
            file.parent.mkdir(exist_ok=True)
            if not file.exists() or file.read_text(encoding="utf-8") != content:
                file.write_text(content, encoding="utf-8")


def _pages(text: str) -> Iterator[str]:
    for line in text.splitlines():
        link = _LINK.match(line)
        if link and link[1].endswith((".md", ".rst")):
            yield _from_root(link[1])


def _moved(text: str) -> str:
    """Return a list without its indent, with links relative to the folder of generated pages."""
    lines = [line.removeprefix("  ") for line in text.splitlines()]
    return _TARGET.sub(
        lambda link: f"]({os.path.relpath(_from_root(link[1]), GENERATED)})",
        "\n".join(lines) + "\n",
    )


def _from_root(target: str) -> str:
    return os.path.normpath(str(PurePosixPath(INDEX).parent / target))


def _listed(sections: list[Section]) -> set[str]:
    return {page for section in sections for page in (*section.pages, section.path)}
