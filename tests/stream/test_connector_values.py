"""Positions, ids and values that connectors read and write; no servers are needed."""

import threading
from pathlib import Path

import pytest

from scstream.errors import InputError, SinkError, SourceChanged, StreamError
from scstream.stream.connectors import has_option
from scstream.stream.connectors.files.csv_lines import csv_line
from scstream.stream.connectors.files.fingerprint import Fingerprint, check_progress, progress_text
from scstream.stream.connectors.files.paths import format_of
from scstream.stream.connectors.message_writer import MessageWriter
from scstream.stream.connectors.nats.connection import nanoseconds
from scstream.stream.connectors.nats.stream_position import parse_position
from scstream.stream.connectors.outage import Outage
from scstream.stream.connectors.redis.connection import format_id, parse_id, previous_id
from scstream.stream.sink import Delivery
from tests.stream.memory import delivery


def test_times_of_jetstream_keep_nanoseconds():
    assert nanoseconds("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert nanoseconds("1970-01-01T00:00:01.000000001Z") == 1_000_000_001
    assert nanoseconds("1970-01-01T00:00:02Z") == 2_000_000_000


def test_positions_of_a_nats_stream_have_sequence_time_and_side():
    assert parse_position("42@1700000000000000000+") == (42, 1_700_000_000_000_000_000, True)
    assert parse_position("42@7") == (42, 7, False)
    assert parse_position(42) == (42, 0, False)
    with pytest.raises(InputError, match="not a position"):
        parse_position("noon")


def test_ids_of_redis_entries():
    assert parse_id(b"1700000000000-3") == (1_700_000_000_000, 3)
    assert format_id((7, 1)) == "7-1"
    assert previous_id((5, 1)) == (5, 0)
    assert previous_id((5, 0)) == (4, 2**64 - 1)
    assert previous_id((0, 0)) == (0, 0)


def test_fields_of_csv_are_quoted_and_none_is_empty():
    assert csv_line([1.5, None, "a,b"]) == b'1.5,,"a,b"\n'


def test_the_ending_of_a_name_gives_the_format():
    assert [format_of(name) for name in ("rows.CSV", "rows.ndjson", "rows")] == [
        "csv",
        "jsonl",
        None,
    ]


def test_fingerprints_are_written_as_text():
    fingerprint = Fingerprint.of_bytes(7, b"ab")
    assert Fingerprint.parse(str(fingerprint)) == fingerprint
    assert Fingerprint.parse("") == ("", 0, "")


def test_a_change_of_bytes_that_were_read_is_detected(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("x\n1\n2\n")
    progress = progress_text("rows.csv", path, 6)
    check_progress({"rows.csv": path}, progress)
    path.write_text("x\n1\n3\n4\n")
    with pytest.raises(SourceChanged, match="other bytes before byte 6"):
        check_progress({"rows.csv": path}, progress)


def test_messages_have_the_index_of_their_row():
    assert [index for index, _ in MessageWriter("json").messages(delivery(0, 3))] == [0, 1, 2]
    assert [index for index, _ in MessageWriter("columns").messages(delivery(0, 3))] == [0]
    backwards = {name: values[::-1] for name, values in delivery(0, 3).columns.items()}
    with pytest.raises(SinkError, match="not in order of `index`"):
        MessageWriter("json").messages(Delivery("job", 0, backwards))


def test_an_outage_pauses_longer_after_each_failure_and_ends_at_its_timeout():
    outage = Outage("the server", None)
    assert outage.pause == 0.0
    pauses = []
    for _ in range(12):
        outage.failed("no answer")
        pauses.append(outage.pause)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
    outage.ended()
    assert outage.pause == 0.0
    with pytest.raises(StreamError, match="has been unavailable for 0 s: no answer"):
        Outage("the server", 0.0).failed("no answer")


def test_closing_ends_the_pause_of_an_outage():
    closing = threading.Event()
    closing.set()
    with pytest.raises(StreamError, match="was closed"):
        Outage("the server", None).wait(closing)


def test_options_of_a_connector_are_known():
    assert has_option("sink", "file", "path")
    assert not has_option("sink", "file", "pfad")
