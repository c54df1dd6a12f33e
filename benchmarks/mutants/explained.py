"""Survivors that are equivalent to the program, or nearly so, with the reason."""

EQUIVALENT: dict[str, str] = {}
