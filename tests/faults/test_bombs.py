"""Bodies that describe far more than they hold are rejected with a sentence, in little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from scstream.io.budget import MAX_ROWS
from tests.faults.bombs import bombs


def test_bombs_are_read_in_one_gigabyte(tmp_path: Path) -> None:
    """One process reads all of them; what fits the budget is read, the rest is rejected."""
    made = bombs()
    assert len(made) >= 60
    read = [bomb for bomb in made if bomb.format != "gzip"]
    for number, bomb in enumerate(read):
        (tmp_path / f"{number:02d}.{bomb.format}").write_bytes(bomb.content)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.bombed", str(tmp_path)],
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == len(read)
    for bomb, found in zip(read, outcomes, strict=True):
        reason = found["reason"]
        assert "malloc" not in reason, bomb.name  # memory ran out before a check saw it
        assert reason.endswith(".") or 1 < found["rows"] <= 2 * MAX_ROWS, bomb.name
    assert sum(bool(found["reason"]) for found in outcomes) >= 45
