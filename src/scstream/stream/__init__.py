"""Moving data: from a source to labels in a sink, each row exactly once, for as long as it flows.

Read `runner` first, then `commit`. A source and a sink are small protocols (`source`, `sink`), one
file per system in `connectors`. Positions, time, disk and randomness are values or arguments, so
that the whole pipeline also runs inside a simulator.
"""
