"""Every block of code in README and documentation runs, or says why it does not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from scstream.cli.settings import read_file, to_tables
from scstream.families import FAMILIES
from scstream.stream.config import build
from scstream.stream.store import MemoryStore
from tests.docs import blocks
from tests.docs.blocks import Block, blocks_of

PAGES = blocks.pages()
WHERE = {
    "KAFKA_PASSWORD": "hunter2",
    "NATS_URL": "nats://me:hunter2@broker:4222",
    "PG_URL": "postgresql://me:hunter2@db:5432/shop",
    "REDIS_URL": "redis://me:hunter2@broker:6379/0",
    "ROWS_TOKEN": "hunter2",
}
SETTINGS = [
    (page, name)
    for page in PAGES
    for name in blocks.pipelines_of(blocks_of(blocks.read(page)))
    if page != "docs/howto/flink.md"  # tests/test_flink.py builds them beside their SQL
]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks.own(page)])
def test_the_page_runs_and_prints_what_it_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known = dict(FAMILIES)
    try:
        blocks.run_page(page, tmp_path)
    finally:  # a page shows how to add one
        FAMILIES.clear()
        FAMILIES.update(known)


@pytest.mark.parametrize(("page", "name"), SETTINGS)
def test_settings_can_be_built(
    page: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the journal of a recipe goes
    monkeypatch.setitem(sys.modules, "my_vectors", SimpleNamespace(embed=list))  # a reader's own
    file = tmp_path / name
    file.write_text(blocks.pipelines_of(blocks_of(blocks.read(page)))[name], encoding="utf-8")
    pipeline = build(to_tables(read_file(file, WHERE)), store=MemoryStore())
    assert "hunter2" not in f"{pipeline.source!r} {pipeline.sink!r} {pipeline.dead_letters!r}"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page: str) -> None:
    left = blocks.orphans(page, blocks_of(blocks.read(page)))
    places = [f"line {block.line} ({block.kind or 'no language'})" for block in left]
    assert not left, (
        f"{page}: nobody runs {', '.join(places)}; run them, or write <!-- not run: why --> above."
    )


def test_who_is_said_to_run_a_page_knows_it() -> None:
    for (page, kind), test in blocks.RUN_BY.items():
        assert Path(page).name in (blocks.ROOT / test).read_text(encoding="utf-8")
        assert any(block.kind == kind for block in blocks_of(blocks.read(page))), (page, kind)


def test_a_block_is_compared_with_a_text_block_directly_below() -> None:
    text = "```sh\na\n```\n\n```text\n1\n```\n\n```sh\nb\n```\nwords\n```text\n2\n```\n"
    found = [(b.line, b.code, b.printed) for b in blocks_of(text) if b.kind == "sh"]
    assert found == [(1, "a\n", "1\n"), (9, "b\n", None)]


def test_a_mark_counts_for_the_block_below_it_only() -> None:
    text = "<!-- not run: no broker -->\n\n```console\na\n```\n\n```console\nb\n```\n"
    first, second = blocks_of(text)
    assert (first.why_not, second.why_not) == ("no broker", None)
    assert blocks.orphans("page.md", [first, second]) == [second]


@pytest.mark.parametrize(
    ("block", "is_left"),
    [
        (Block(1, "console", 'pip install "scstream[cli]"\n'), False),
        (Block(1, "console", "pip install scstream\nscstream run a.toml\n"), True),
        (Block(1, "dockerfile", "FROM scratch\n"), True),
        (Block(1, "", "what is it?\n"), True),
        (Block(1, "text", "1\n"), False),
    ],
)
def test_blocks_that_nobody_runs_are_noticed(block: Block, is_left: bool) -> None:
    assert bool(blocks.orphans("page.md", [block])) == is_left


def test_settings_without_a_name_and_two_files_of_one_name_are_noticed() -> None:
    with pytest.raises(AssertionError, match="name of their file"):
        blocks.pipelines_of([Block(1, "toml", 'job = "a"\n')])
    with pytest.raises(AssertionError, match="two of a"):
        blocks.pipelines_of([Block(1, "toml", "# a.toml\n"), Block(5, "toml", "# a.toml\n")])


def test_other_output_is_noticed() -> None:
    block = Block(1, "python", "print(1)\n", printed="2\n")
    with pytest.raises(AssertionError, match="line 1 printed"):
        blocks.compare("page.md", block, blocks.told("page.md", block, {}))
