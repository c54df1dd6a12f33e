"""Write a journal of the HTTP source of this version, once per release; earlier ones stay.

    python tests/compat/make_journal.py

writes a folder ``journal-<version>`` with two files of the journal and its identity.
"""

import shutil
from pathlib import Path

from scstream import __version__
from scstream.stream.connectors.http import Journal

HERE = Path(__file__).parent
SEGMENT_BYTES = 200  # so that there are two files


def bodies() -> list[tuple[str, bytes]]:
    """Return idempotency keys and bodies: they must be the same for ever."""
    return [("" if i % 2 else f"key-{i}", b'{"x": %d, "name": "\xc3\xa4"}' % i) for i in range(6)]


def main() -> None:
    target = HERE / f"journal-{__version__}"
    shutil.rmtree(target, ignore_errors=True)
    journal = Journal(target, segment_bytes=SEGMENT_BYTES)
    journal.open()
    for number, body in enumerate(bodies()):
        journal.append([body], now=1_700_000_000.0 + number)
    journal.close()


if __name__ == "__main__":
    main()
