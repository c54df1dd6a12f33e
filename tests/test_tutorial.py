"""The tutorial runs as written: its shell blocks are executed in order, on real servers."""

import json
import re
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of, compare, read, run
from tests.servers import NatsServer, PostgresServer

PAGE = "docs/tutorials/broker-to-table.md"
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
