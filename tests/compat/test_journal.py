"""Journals of the HTTP source of every release stay readable, and the source goes on with them."""

import shutil
import zlib
from pathlib import Path

import pytest

from scstream import __version__
from scstream.stream.connectors.http import HttpSource, Journal
from scstream.stream.source import Resume
from tests.compat.make_journal import HERE, SEGMENT_BYTES, bodies

JOURNALS = sorted(HERE.glob("journal-*"))


def test_this_version_has_a_journal_of_more_than_one_file() -> None:
    assert len([*(HERE / f"journal-{__version__}").glob("rows-*")]) > 1


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.name)
def test_a_golden_journal_is_read_and_goes_on(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "journal")
    journal = Journal(tmp_path / "journal", segment_bytes=SEGMENT_BYTES)
    journal.open()
    assert journal.identity == (path / "identity").read_text()
    found = []
    while len(found) < journal.next:
        found += journal.read(len(found))
    assert [(entry.key, entry.body) for entry in found] == bodies()
    assert [entry.time for entry in found] == [1_700_000_000.0 + i for i in range(len(found))]
    for number, (key, body) in enumerate(bodies()):
        if key:
            assert journal.find_key(key) == (number, zlib.crc32(body))
    assert journal.append([("new", b"[7]")], now=0.0) == [len(found)]
    journal.close()
    source = HttpSource(port=0, journal=tmp_path / "journal")
    source.open(Resume({"journal": journal.identity}, {"": 4}))
    records = []
    while len(records) < 3:
        records += source.read(10, timeout=5)
    source.close()
    assert [record.value for record in records] == [*(body for _, body in bodies()[4:]), b"[7]"]
