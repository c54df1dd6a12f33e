"""Fresh processes to measure in: their own memory, environment and imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]


def reports(
    module: str, *args: object, environment: dict[str, str] | None = None, seconds: float = 600.0
) -> tuple[list[Any], str]:
    """Run a module that prints lines of JSON; return them, and why there are no more."""
    command = [sys.executable, "-m", module, *map(str, args)]
    try:
        done = subprocess.run(
            command,
            cwd=_ROOT,
            env=os.environ | (environment or {}),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return _lines((error.stdout or b"").decode()), f"not finished in {seconds:g} s"
    last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    return _lines(done.stdout), "" if done.returncode == 0 else last[0]


def _lines(text: str) -> list[Any]:
    """Complete lines only."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
