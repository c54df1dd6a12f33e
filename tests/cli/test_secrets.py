"""A canary: a password never comes out of any command, whatever goes wrong."""

from pathlib import Path

import pytest

from tests.cli.shell import scstream

CANARY = "c4n4ry-p%40ss"
FORMS = (CANARY, "c4n4ry-p@ss")
WAYS = {
    "url in a flag": (["--source", f"nats://me:{CANARY}@127.0.0.1:9/rows?retry_timeout=0.3"], {}),
    "token in a flag": (["--source", f"nats://{CANARY}@127.0.0.1:9/rows?retry_timeout=0.3"], {}),
    "url in a variable": (
        ["--source", "nats://127.0.0.1:9/rows?retry_timeout=0.3"],
        {"SCSTREAM_SINK__KIND": "postgres", "SCSTREAM_SINK__TABLE": "t"}
        | {"SCSTREAM_SINK__URL": f"postgresql://me:{CANARY}@127.0.0.1:9/db"}
        | {"SCSTREAM_SINK__PATIENCE": "0.3"},
    ),
    "password of libpq": (
        ["--source", "nats://127.0.0.1:9/rows?retry_timeout=0.3"],
        {"SCSTREAM_SINK__KIND": "postgres", "SCSTREAM_SINK__TABLE": "t"}
        | {"SCSTREAM_SINK__URL": f"host=127.0.0.1 port=9 password={CANARY}"}
        | {"SCSTREAM_SINK__PATIENCE": "0.3"},
    ),
    "variable in the file": (["secret.toml"], {"BROKER_PASSWORD": CANARY}),
    "option that does not exist": (["pipeline.toml", "--set", f"source.password={CANARY}"], {}),
    "setting that does not exist": (["pipeline.toml", "--set", f"model.token={CANARY}"], {}),
    "no value at all": (["pipeline.toml", "--set", f"password={CANARY}"], {}),
    "too many arguments": (["pipeline.toml", f"nats://me:{CANARY}@h/rows"], {}),
    "not a kind": (["--source", f"ntas://me:{CANARY}@h/rows"], {}),
}
SECRET = """\
[source]
kind = "nats"
url = "nats://me:${BROKER_PASSWORD}@127.0.0.1:9"
stream = "rows"
retry_timeout = 0.3
"""
CONNECTING = ("url in a flag", "url in a variable", "variable in the file", "not a kind")
FURTHER = {
    "run with JSON": ["run", "--json"],
    "dry run in JSON": ["run", "--dry-run", "--json"],
    "doctor in JSON": ["doctor", "--json"],
    "replay": ["replay", "--from", "1"],
}
PAIRS = [
    *((["run"], way) for way in WAYS),
    *((command, way) for command in (["run", "--dry-run"], ["doctor"]) for way in CONNECTING),
    *((command, "variable in the file") for command in FURTHER.values()),
]


@pytest.mark.parametrize(("command", "way"), PAIRS)
def test_no_secret_is_printed(folder: Path, command: list[str], way: str) -> None:
    (folder / "secret.toml").write_text(SECRET)
    words, more = WAYS[way]
    done = scstream(*command, *words, folder=folder, **more)
    assert not any(form in done.stdout + done.stderr for form in FORMS)
    assert done.stdout + done.stderr


def test_a_dry_run_shows_that_there_is_a_secret(folder: Path) -> None:
    (folder / "secret.toml").write_text(SECRET)
    done = scstream("run", "secret.toml", "--dry-run", folder=folder, BROKER_PASSWORD=CANARY)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("source.url"))
    assert row.split() == [
        *("source.url", '"nats://***@127.0.0.1:9"'),
        *("secret.toml:3", "with", "BROKER_PASSWORD"),
    ]


def test_no_secret_is_printed_in_a_traceback(folder: Path) -> None:
    (folder / "secret.toml").write_text(SECRET)
    (folder / "sitecustomize.py").write_text(
        "import scstream.stream.config as c\n"
        "def build(settings, **more): raise ZeroDivisionError(settings['source']['url'])\n"
        "c.build = build\n"
    )
    done = scstream(
        *("run", "secret.toml"), folder=folder, BROKER_PASSWORD=CANARY, PYTHONPATH=str(folder)
    )
    assert done.returncode == 70
    assert "ZeroDivisionError: nats://***@127.0.0.1:9" in done.stderr
    assert not any(form in done.stderr for form in FORMS)


def test_no_secret_is_kept_in_a_checkpoint(folder: Path) -> None:
    done = scstream(
        *("run", "pipeline.toml", "--until", "2"), folder=folder, BROKER_PASSWORD=CANARY
    )
    assert done.returncode == 0, done.stderr
    for path in (folder / "state").iterdir():
        assert CANARY.encode() not in path.read_bytes()
