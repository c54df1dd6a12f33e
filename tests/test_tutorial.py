"""The tutorial runs as written: its shell blocks are executed in order, on real servers."""

import doctest
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import NatsServer, PostgresServer

TUTORIAL = Path(__file__).resolve().parents[1] / "docs" / "tutorials" / "broker-to-table.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COUNTS = re.compile(r"([\d,]+) rows .* ([\d,]+) batches  K (\d+)  .*rejected (\d+)")
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    line: int  # of the opening fence, counted from 1
    code: str
    printed: str | None  # None: nothing is promised about the output
    screen: str | None  # what the line that is alive shows at the end


def blocks_of(text: str) -> list[Block]:
    fences = list(FENCE.finditer(text))
    blocks = []
    for number, fence in enumerate(fences):
        if fence[1] != "sh":
            continue
        results = {}
        for following in fences[number + 1 :]:
            if following[1] in ("sh", "console"):
                break
            results[following[1]] = following[2]
        line = text.count("\n", 0, fence.start()) + 1
        blocks.append(Block(line, fence[2], results.get("text"), results.get("screen")))
    return blocks


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, str]]:
    with (
        tempfile.TemporaryDirectory(prefix="scstream-postgres-") as folder,
        NatsServer(tmp_path / "nats", durable=True) as nats,
        PostgresServer(Path(folder)) as postgres,
    ):
        yield {"NATS_URL": nats.url, "PG_URL": postgres.url}


def run(block: Block, folder: Path, servers: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCSTREAM_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return subprocess.run(
        ["bash", "-euc", block.code],
        cwd=folder,
        env=kept | servers | {"PATH": path, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


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
    blocks = blocks_of(TUTORIAL.read_text(encoding="utf-8"))
    assert len(blocks) >= 8
    folder = tmp_path / "desk"
    folder.mkdir()
    for block in blocks:
        place = f"{TUTORIAL.name} line {block.line}"
        done = run(block, folder, servers)
        assert done.returncode == 0, f"{place}:\n{done.stdout}\n{done.stderr}"
        if block.printed is not None:
            same = doctest.OutputChecker().check_output(block.printed, done.stdout, LOOSE)
            assert same, f"{place} printed:\n{done.stdout}\n{done.stderr}"
        if block.screen is not None:
            check_screen(block.screen, done.stderr, place)


def test_a_block_is_compared_with_what_follows_it() -> None:
    fences = [("sh", "a"), ("text", "1"), ("sh", "b"), ("console", "c"), ("text", "2")]
    text = "words\n".join(f"```{kind}\n{content}\n```\n" for kind, content in fences)
    assert [(b.code, b.printed) for b in blocks_of(text)] == [("a\n", "1\n"), ("b\n", None)]


def test_other_numbers_on_the_screen_are_noticed() -> None:
    log = json.dumps({"event": "stopped", "rows": 10, "batches": 2, "clusters": 3, "rejected": 0})
    check_screen("10 rows  1/s  2 batches  K 3  lag 0  rejected 0  x", log, "here")
    with pytest.raises(AssertionError):
        check_screen("10 rows  1/s  2 batches  K 4  lag 0  rejected 0  x", log, "here")
