"""`scstream skip` records what the pipeline skips, and refuses what it cannot keep."""

import pytest

from scstream.stream.skips import read_skips
from scstream.stream.store import FolderStore
from tests.cli.inside import json_output, refused, sound
from tests.stream.memory import MemorySink, MemorySource
from tests.stream.test_runner import messages, pipeline


@pytest.fixture
def job(tmp_path):
    """A stopped pipeline that has committed three batches."""
    pipeline(tmp_path / "state", MemorySource({"": messages()}), MemorySink()).run(until=3)
    (tmp_path / "job.toml").write_text(
        'job = "test"\nsource = {kind = "nats", url = "nats://unused:1", stream = "rows"}\n'
        'checkpoint = {folder = "state"}\n'
    )
    return tmp_path


def recorded(job):
    skips = read_skips(FolderStore(job / "state"), {"name": "one"})
    return [(skip.partition, skip.first, skip.last) for skip in skips]


def test_skips_are_recorded_and_named(job):
    said = sound("skip", "job.toml", "--from", 40, folder=job)
    assert said == "the pipeline will skip message 40; start it with scstream run --resume\n"
    found = json_output("skip", "job.toml", "--from", 42, "--to", 44, folder=job)
    assert found == {"partition": "", "from": "42", "to": "44"}
    assert recorded(job) == [("", "40", "40"), ("", "42", "44")]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--from", 1), "committed already"),
        (("--from", "x"), "is no offset"),
        (("--from", 40, "--to", 39), "swap them"),
        (("--from", 40, "--partition", 0), "for a Kafka source"),
        (("--from", 40, "--set", "source.kind=kafka"), "for a Kafka source"),
        (("--from", 40, "--set", "source.kind=file"), "no numbered messages"),
    ],
)
def test_what_cannot_be_skipped_is_refused(job, arguments, sentence):
    assert sentence in refused("skip", "job.toml", *arguments, folder=job)
    assert recorded(job) == []


def test_a_running_pipeline_must_be_stopped(job):
    with FolderStore(job / "state").lock():
        sentence = refused("skip", "job.toml", "--from", 40, folder=job, code=14)
    assert "already uses the checkpoints" in sentence and recorded(job) == []


def test_a_pipeline_that_never_started_has_nothing_to_skip(job):
    (job / "new").mkdir()
    found = refused("skip", "job.toml", "--from", 40, "--checkpoint", "new", folder=job)
    assert "no checkpoint yet" in found
    assert not FolderStore(job / "new").names()
