"""`scstream skip`: record messages that the pipeline does not read."""

from __future__ import annotations

import time

from scstream.cli.settings import Tables
from scstream.errors import InputError
from scstream.stream.skips import Skip, record_skip
from scstream.stream.store import Store

_UNNUMBERED = ("file", "stdin")


def skip_messages(
    settings: Tables, store: Store, *, first: str, last: str | None, partition: str
) -> Skip:
    """Record that messages of the source are skipped; raises `InputError`."""
    kind = settings.get("source", {}).get("kind")
    if kind in _UNNUMBERED:
        raise InputError(
            f"a source of kind {kind!r} has no numbered messages to skip; correct or remove the "
            "rows in it, or start a new job without them."
        )
    if (kind == "kafka") != partition.isdigit():
        raise InputError(
            "give --partition, a number, for a Kafka source, and leave it out for all others."
        )
    return record_skip(store, Skip(first, last or first, partition), now=time.time())
