"""Rows pushed over HTTP: each body is on the disk before it is answered, and read from there.

The journal is the source: it has positions, keeps its order and survives a crash. The server only
appends to it.
"""

from scstream.stream.connectors.http.journal import Journal
from scstream.stream.connectors.http.packing import Entry
from scstream.stream.connectors.http.source import HttpSource

__all__ = ["Entry", "HttpSource", "Journal"]
