"""Conformance kits: pass your own implementation; the kit reports which law it breaks."""

from scstream.testing.families import FAMILY_LAWS, check_family
from scstream.testing.sink_laws import SINK_LAWS, check_sink
from scstream.testing.source_laws import SOURCE_LAWS, check_source

__all__ = [
    "FAMILY_LAWS",
    "SINK_LAWS",
    "SOURCE_LAWS",
    "check_family",
    "check_sink",
    "check_source",
]
