"""Settings come from flags, variables, a file and defaults, in this order, and say from where."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scstream.cli.addresses import read_address
from scstream.cli.defaults import parse_raw, with_defaults
from scstream.cli.settings import (
    Setting,
    merge_layers,
    parse_value,
    read_environment,
    read_file,
    read_sets,
    to_tables,
)
from scstream.errors import InputError
from scstream.io.parameters import seed_for
from scstream.model import PARAMETERS
from scstream.stream.batcher import Batching
from scstream.stream.runner import CheckpointPolicy

FILE = """\
job = "demo"

[source]
kind = "nats"
url = "nats://${HOST}:4222"
stream = "rows"

[[steps]]
step = "standardise"

[batch]
rows = 100  # a comment
first = 50
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.toml"
    path.write_text(FILE)
    return path


def values(layer) -> dict[str, object]:
    return {".".join(key): given.value for key, given in layer.items()}


def test_flags_win_over_variables_over_the_file_over_defaults(file: Path) -> None:
    environment = {"HOST": "broker", "SCSTREAM_BATCH__ROWS": "200", "SCSTREAM_BATCH__FIRST": "60"}
    merged = parse_raw(
        merge_layers(
            read_file(file, environment),
            read_environment(environment),
            read_sets(["batch.rows=300"]),
        )
    )
    every = with_defaults(merged)
    found = {key[-1]: (each.value, each.origin) for key, each in every.items() if key[0] == "batch"}
    assert found["rows"] == (300, "--set")
    assert found["first"] == (60, "SCSTREAM_BATCH__FIRST")
    assert found["late"] == ("add", "default")
    assert every["job",] == Setting("demo", "pipeline.toml:1")
    assert every["source", "url"] == Setting("nats://broker:4222", "pipeline.toml:5 with HOST")
    assert to_tables(merged)["batch"] == {"rows": 300, "first": 60}


def test_origins_have_the_line_of_the_entry(file: Path) -> None:
    layer = read_file(file, {"HOST": "h"})
    lines = FILE.splitlines()
    for key, each in layer.items():
        number = int(each.origin.split()[0].partition(":")[2])
        assert key[-1] in lines[number - 1]


def test_a_missing_variable_is_named(file: Path) -> None:
    with pytest.raises(InputError, match=r"source.url in pipeline.toml:5 needs the variable HOST"):
        read_file(file, {})


def test_two_dollars_escape_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('job = "a $${HOST} b $5"')
    assert read_file(path, {})["job",].value == "a ${HOST} b $5"


def test_variables_are_expanded_inside_lists_and_tables(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text('[schema]\nkeep = ["${A}", "b"]\n[[steps]]\nstep = "${A}"\n')
    layer = read_file(path, {"A": "a"})
    assert layer["schema", "keep"].value == ["a", "b"]
    assert layer["steps",].value == [{"step": "a"}]


@pytest.mark.parametrize("text", ["x = ", "[source\n", "\xff"])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"p\.toml (is not TOML|cannot be read)"):
        read_file(path, {})


def test_other_variables_are_ignored() -> None:
    assert read_environment({"SCSTREAM_KERNELS": "numpy", "SCSTREAM_DATA": "/d", "PATH": "/"}) == {}


def test_a_variable_of_an_unknown_section_is_refused() -> None:
    with pytest.raises(InputError, match="SCSTREAM_SORCE__URL names the unknown section 'sorce'"):
        read_environment({"SCSTREAM_SORCE__URL": "x"})


@pytest.mark.parametrize("text", ["rows=5", "batch.rows", "batch.=1", "=3", ""])
def test_set_takes_a_section_a_key_and_a_value(text: str) -> None:
    with pytest.raises(InputError, match=r"--set takes section\.key=value"):
        read_sets([text])


def test_set_does_not_repeat_what_may_be_a_password() -> None:
    with pytest.raises(InputError) as caught:
        read_sets(["password=hunter2"])
    assert "hunter2" not in str(caught.value)


def test_text_options_are_not_parsed() -> None:
    layer = parse_raw(
        read_sets(
            [
                "job=2026",
                "source.kind=nats",
                "source.stream=123",
                "source.password=0123",
                "source.prefetch=7",
                'model.alpha="1"',
            ]
        )
    )
    assert values(layer) == {
        "job": "2026",
        "source.kind": "nats",
        "source.stream": "123",
        "source.password": "0123",
        "source.prefetch": 7,
        "model.alpha": "1",
    }


@given(st.text(max_size=30))
def test_a_text_gives_a_value_for_json_or_is_refused(text: str) -> None:
    try:
        value = parse_value(text, "batch.rows")
    except InputError:
        assert text[0] in "[{\"'"
    else:
        json.dumps(value)


@given(st.one_of(st.integers(-(2**60), 2**60), st.booleans(), st.lists(st.integers(0, 9))))
def test_plain_values_come_back(value: object) -> None:
    assert parse_value(json.dumps(value), "x") == value


def test_another_kind_inherits_no_options(file: Path) -> None:
    layer = merge_layers(
        read_file(file, {"HOST": "h"}), read_address("source", "kafka://a:1,b:2/t")
    )
    assert values({key: g for key, g in layer.items() if key[0] == "source"}) == {
        "source.kind": "kafka",
        "source.topic": "t",
        "source.servers": "a:1,b:2",
    }


def test_the_same_kind_keeps_its_other_options(file: Path) -> None:
    layer = merge_layers(read_file(file, {"HOST": "h"}), read_address("source", "nats://other:1"))
    assert layer["source", "url"].value == "nats://other:1"
    assert layer["source", "stream"].value == "rows"


@pytest.mark.parametrize(
    ("section", "text", "expected"),
    [
        ("source", "stdin", {"kind": "stdin"}),
        ("source", "file:a/b.csv", {"kind": "file", "path": "a/b.csv"}),
        ("source", "file:C:/b.csv", {"kind": "file", "path": "C:/b.csv"}),
        (
            "source",
            "nats://me:pw@h:4222/rows?prefetch=5",
            {"kind": "nats", "url": "nats://me:pw@h:4222", "stream": "rows", "prefetch": 5},
        ),
        (
            "sink",
            "nats://h/out/labels.eu",
            {"kind": "nats", "url": "nats://h", "stream": "out", "subject": "labels.eu"},
        ),
        (
            "sink",
            "postgresql://me@h:1/db?table=labels&sslmode=require",
            {
                "kind": "postgres",
                "url": "postgresql://me@h:1/db?sslmode=require",
                "table": "labels",
            },
        ),
        (
            "source",
            "redis://h:6379/0/rows",
            {"kind": "redis", "url": "redis://h:6379/0", "stream": "rows"},
        ),
    ],
)
def test_an_address_gives_the_settings_of_a_connector(section: str, text: str, expected) -> None:
    layer = parse_raw(read_address(section, text))
    assert {key[1]: given.value for key, given in layer.items()} == expected


@pytest.mark.parametrize("text", ["pigeon:x", "nats2://h/s", "stdin:x", "nats://h/a/b/c"])
def test_an_invalid_connector_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--source"):
        read_address("source", text)


def test_defaults_are_those_of_the_code() -> None:
    every = with_defaults({})
    for section, known in (
        ("model", {**PARAMETERS, "random_state": seed_for("scstream")}),
        ("batch", vars(Batching())),
    ):
        shown = {key[1]: each.value for key, each in every.items() if key[0] == section}
        assert shown == {name: value for name, value in known.items() if name != "kernel"}
    shown = {key[1]: each.value for key, each in every.items() if key[0] == "checkpoint"}
    own = {"folder": "checkpoints", "newest": 3, "hourly": 24, "lease": None}
    assert shown == {**own, **vars(CheckpointPolicy())}


def test_options_of_steps_are_shown_with_their_defaults() -> None:
    every = with_defaults({("steps",): Setting([{"step": "pca", "n": 2}], "p.toml:3")})
    assert every["steps", "1", "n"] == Setting(2, "p.toml:3")
    assert {each.origin for key, each in every.items() if key[0] == "steps"} == {
        "p.toml:3",
        "default",
    }
