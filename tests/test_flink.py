"""The Flink recipe: its settings can be built, fit its SQL, and read what Flink writes."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scstream.cli.settings import read_file, to_tables
from scstream.stream.config import build
from scstream.stream.store import MemoryStore
from tests.docs.blocks import NAME, blocks_of, run

PAGE = Path(__file__).resolve().parents[1] / "docs" / "howto" / "flink.md"
BLOCKS = blocks_of(PAGE.read_text(encoding="utf-8"))
TABLE = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\) WITH \((.*?)\n\);", re.DOTALL)
OPTION = re.compile(r"'([^']+)' = '([^']*)'")
PAIRS = [("prepare.sql", "flink.toml"), ("backfill.sql", "backfill.toml")]


def file_of(name: str) -> str:
    found = [b.code for b in BLOCKS if (first := NAME.match(b.code)) and first[1] == name]
    assert len(found) == 1, f"{PAGE.name} has {len(found)} blocks {name}"
    return found[0]


def table_of(sql: str, name: str) -> tuple[set[str], dict[str, str]]:
    """Columns and options of a table."""
    columns, options = {found[1]: (found[2], found[3]) for found in TABLE.finditer(sql)}[name]
    named = {line.split()[0] for line in columns.strip().splitlines()}
    return named - {"WATERMARK"}, dict(OPTION.findall(options))


@pytest.mark.parametrize(("sql", "toml"), PAIRS)
def test_the_settings_can_be_built_and_fit_the_sql(
    sql: str, toml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / toml
    file.write_text(file_of(toml), encoding="utf-8")
    settings: dict[str, Any] = tomllib.loads(file_of(toml))
    pipeline = build(to_tables(read_file(file, {})), store=MemoryStore())
    assert pipeline.job == settings["job"]

    columns, options = table_of(file_of(sql), "prepared")
    schema, source = settings["schema"], settings["source"]
    asked = {*schema["features"], *schema["keep"], *([schema["time"]] if "time" in schema else [])}
    assert asked <= columns
    if options["connector"] == "kafka":
        assert options["topic"] == source["topic"]
        assert options["properties.bootstrap.servers"] == source["servers"]
        assert options["sink.delivery-guarantee"] == "exactly-once"
        assert source["options"]["isolation.level"] == "read_committed"
    else:
        assert options["path"] == f"file://{source['path']}"
        assert (options["format"], source["format"]) == ("json", "jsonl")


def test_the_columns_are_those_of_the_message_on_the_page() -> None:
    message = json.loads(next(block.code for block in BLOCKS if block.kind == "json"))
    for sql, _ in PAIRS:
        assert table_of(file_of(sql), "prepared")[0] == message.keys()


def test_parts_that_flink_names_are_read_and_those_in_work_are_not(tmp_path: Path) -> None:
    folder, run_id = tmp_path / "prepared", "6d57ac59-e68c-4d90-bb7d-ee4f9eaf6a14"
    folder.mkdir()
    message = next(block.code for block in BLOCKS if block.kind == "json")
    for writer in range(2):
        (folder / f"part-{run_id}-{writer}-0").write_text(message * 30)
    (folder / f".part-{run_id}-1-1.inprogress.0d5d").write_text('{"sensor":"s0"')
    (tmp_path / "backfill.toml").write_text(file_of("backfill.toml"))
    done = run(["scstream", "run", "backfill.toml", "--set", "source.path=prepared"], tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "backfill.csv").open() as file:
        labels = list(csv.DictReader(file))
    assert [row["sensor"] for row in labels] == ["s0"] * 60
    assert labels[0]["ts"] == json.loads(message)["ts"]
