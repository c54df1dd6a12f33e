"""A network of our own for everything that starts Ray, which listens on all addresses."""

from __future__ import annotations

import os
import sys

_INSIDE = "SCSTREAM_OWN_NETWORK"
_ENTER = 'ip link set lo up && exec "$@"'


def command(arguments: list[str]) -> list[str]:
    """Return the command that runs this part of the benchmarks in a new network namespace."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    own = [sys.executable, "-m", "benchmarks", "scale", *arguments]
    return [*alone, "sh", "-c", _ENTER, "-", *own]


def go_inside(arguments: list[str]) -> None:
    """Run these arguments again inside, unless this is inside; then return."""
    if os.environ.get(_INSIDE):
        return
    os.environ[_INSIDE] = "1"
    line = command(arguments)
    os.execvp(line[0], line)
