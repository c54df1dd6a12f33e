"""Check that pages load nothing from other hosts, so they work offline and reveal no reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TAG = re.compile(r"<(?:script|link|img|iframe|source|video|audio|embed|object)\b[^>]*>", re.I)
ADDRESS = re.compile(
    r"\b(?:src|srcset|href|data|poster)\s*=\s*[\"']?\s*(?:https?:)?//([^/\"'\s>]+)"
)
STYLE = re.compile(r"(?:url\(|@import)\s*[\"']?\s*(?:https?:)?//([^/\"')\s]+)", re.I)
IDLE = re.compile(
    r"\brel\s*=\s*[\"']?(?:canonical|license|author|help)\b", re.I
)  # in links, not loaded


def other_hosts(content: str) -> set[str]:
    """Return the hosts from which a page or a style sheet loads something.

    Examples
    --------
    >>> from docs.other_hosts import other_hosts
    >>> other_hosts('<a href="https://a.org">a</a><script src="//b.org/b.js"></script>')
    {'b.org'}
    """
    loading = [tag for tag in TAG.findall(content) if not IDLE.search(tag)]
    found = {host for tag in loading for host in ADDRESS.findall(tag)}
    return found | set(STYLE.findall(content))


def strangers(folder: Path) -> Iterator[str]:
    """Yield a message for every file of a built site that loads from another host."""
    for file in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        hosts = other_hosts(file.read_text(encoding="utf-8", errors="replace"))
        if hosts:
            yield f"{file.relative_to(folder)} loads from {', '.join(sorted(hosts))}"
