"""Tutorials run as written: one on real servers, one on real news."""

import json
import re
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import blocks_of, compare, files_of, read, run, told
from tests.servers import NatsServer, PostgresServer

PAGE = "docs/tutorials/broker-to-table.md"
NEWS = "docs/tutorials/news-topics.md"
NEWS_FILES = ("mstream_News-T.jsonl.gz", "minilm_news_t.npz")
COUNTS = re.compile(r"([\d,]+) rows .* ([\d,]+) batches  K (\d+)  .*rejected (\d+)")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, str]]:
    with (
        tempfile.TemporaryDirectory(prefix="scstream-postgres-") as folder,
        NatsServer(tmp_path / "nats", durable=True) as nats,
        PostgresServer(Path(folder)) as postgres,
    ):
        yield {"NATS_URL": nats.url, "PG_URL": postgres.url}


def check_screen(screen: str, log: str, place: str) -> None:
    """The counts on the screen are those of the log, apart from times."""
    shown = COUNTS.match(screen)
    assert shown is not None, place
    stopped = json.loads(log.splitlines()[-1])
    rows, batches, clusters, rejected = (int(number.replace(",", "")) for number in shown.groups())
    assert stopped["event"] == "stopped", place
    assert (stopped["rows"], stopped["batches"]) == (rows, batches), place
    assert (stopped["clusters"], stopped["rejected"]) == (clusters, rejected), place


@pytest.mark.slow
def test_the_tutorial_runs_and_prints_what_it_shows(
    tmp_path: Path, servers: dict[str, str]
) -> None:
    blocks = blocks_of(read(PAGE))
    screens = {one.line: other.code for one, other in pairwise(blocks) if other.kind == "screen"}
    executed = [block for block in blocks if block.kind == "sh"]
    assert len(executed) >= 8 and len(screens) == 1
    folder = tmp_path / "desk"
    folder.mkdir()
    for block in executed:
        place = f"{PAGE} line {block.line}"
        done = run(["bash", "-euc", block.code], folder, servers)
        assert done.returncode == 0, f"{place}:\n{done.stdout}\n{done.stderr}"
        compare(PAGE, block, done.stdout)
        if block.line in screens:
            check_screen(screens[block.line], done.stderr, place)


def test_other_numbers_on_the_screen_are_noticed() -> None:
    log = json.dumps({"event": "stopped", "rows": 10, "batches": 2, "clusters": 3, "rejected": 0})
    check_screen("10 rows  1/s  2 batches  K 3  lag 0  rejected 0  x", log, "here")
    with pytest.raises(AssertionError):
        check_screen("10 rows  1/s  2 batches  K 4  lag 0  rejected 0  x", log, "here")


@pytest.mark.slow
def test_the_news_are_followed_as_written(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bertopic", reason="BERTopic is not installed; the page says how")
    for name in NEWS_FILES:
        if not (data_dir / name).is_file():
            pytest.skip(f"no {name} in {data_dir}: set SCSTREAM_DATA to where it is")
    monkeypatch.setenv("SCSTREAM_DATA", str(data_dir))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    blocks = blocks_of(read(NEWS))
    for name, content in files_of(blocks).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    executed = [b for b in blocks if b.kind in ("python", "sh") and not (b.why_not or b.file)]
    assert len(executed) >= 9
    for block in executed:
        if block.kind == "python":
            compare(NEWS, block, told(NEWS, block, names))
            continue
        done = run(["bash", "-euc", block.code], tmp_path, {"SCSTREAM_DATA": str(data_dir)})
        assert done.returncode == 0, done.stderr
        compare(NEWS, block, done.stdout)
