"""Run the quickstart of the README and check its output and its time."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
from pathlib import Path

_MAX_SECONDS = 30.0
_PAIR = re.compile(r"```python\n(.*?)```\s*```text\n(.*?)```", re.DOTALL)


def main() -> None:
    """Execute the first block that shows its output, and compare."""
    readme = Path(__file__).parents[1] / "README.md"
    code, expected = _PAIR.search(readme.read_text(encoding="utf-8")).groups()
    start = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(code, "quickstart", "exec"), {"__name__": "quickstart"})
    seconds = time.monotonic() - start
    if shown.getvalue() != expected:
        sys.exit(f"the quickstart printed\n{shown.getvalue()}and not\n{expected}")
    if seconds > _MAX_SECONDS:
        sys.exit(f"the quickstart took {seconds:.0f} s")
    sys.stdout.write(f"quickstart: {seconds:.1f} s, output as in the README\n")


main()
