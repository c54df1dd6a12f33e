"""Tests of what runs on Ray, in a network namespace of their own: `python -m tests.on_ray`.

Ray listens on all addresses, whatever it is told; in here they lead nowhere. Arguments are those of
pytest.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ENTER = 'ip link set lo up && exec "$@"'


def command(arguments: list[str]) -> list[str]:
    """Return the command that runs pytest on this folder in a new network namespace."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
    if not any(Path(argument.split("::")[0]).exists() for argument in arguments):
        arguments = [str(Path(__file__).parent), *arguments]
    return [*alone, "sh", "-c", ENTER, "-", sys.executable, "-m", "pytest", *arguments]


if __name__ == "__main__":
    os.environ["SCSTREAM_OWN_NETWORK"] = "1"
    line = command(sys.argv[1:])
    os.execvp(line[0], line)
