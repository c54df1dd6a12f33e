"""A dead letter has the whole content of its row up to a bound, and says whether it has."""

import json

import pytest

from scstream.io.budget import MAX_CONTENT, MAX_CONTENTS
from scstream.stream.messages import reader
from scstream.stream.schema import Schema
from tests.stream.memory import MemorySink, MemorySource
from tests.stream.test_runner import messages, pipeline


def rejects_of(message, *, format="json", features=("x",)):
    return reader(format, Schema(features=features)).read(message).rejects


def line(n):
    text = json.dumps({"x": "no number", "text": ""})
    return text.replace('""', f'"{"a" * (n - len(text))}"')


@pytest.mark.parametrize("n", [2000, MAX_CONTENT, MAX_CONTENT + 1])
def test_the_content_is_whole_up_to_a_bound(n):
    rejects = rejects_of(f"{line(n)}\n{line(100)}".encode())
    assert [r.content for r in rejects] == [line(n)[:MAX_CONTENT], line(100)]
    assert [r.complete for r in rejects] == [n <= MAX_CONTENT, True]


@pytest.mark.parametrize("format", ["json", "columns"])
def test_a_message_that_cannot_be_parsed_is_whole_too(format):
    broken = b"{" * 3000
    [reject] = rejects_of(broken, format=format)
    assert (reject.content.encode(), reject.complete) == (broken, True)
    [reject] = rejects_of(b"\xff{", format=format)
    assert not reject.complete


def test_the_contents_of_a_message_are_bounded_together():
    n = MAX_CONTENTS // MAX_CONTENT + 8
    rejects = rejects_of("\n".join([line(MAX_CONTENT)] * n).encode())
    assert len(rejects) == n
    assert sum(len(r.content) for r in rejects) == MAX_CONTENTS
    assert [r.complete for r in rejects] == [True] * (n - 8) + [False] * 8


def test_values_that_were_altered_by_reading_are_not_complete():
    [reject] = rejects_of(b'{"x": [[1, 2]]}', format="columns")
    assert not reject.complete


def test_the_sink_gets_what_is_complete(tmp_path):
    letters = MemorySink()
    source = MemorySource({"": [*messages(200), line(2000).encode(), b"\xff"]})
    pipeline(tmp_path, source, MemorySink(), dead_letters=letters).run()
    assert [row["complete"] for row in letters.rows] == [True, False]
    assert letters.rows[0]["content"] == line(2000)
