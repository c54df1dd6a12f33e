"""Conformance kits: hand in your own implementation, they say which law it breaks."""

from scstream.testing.families import FAMILY_LAWS, check_family

__all__ = ["FAMILY_LAWS", "check_family"]
