"""Write the table of digests: ``python -m tests.frozen.make [STREAM ...]``, all streams by default.

Only when behaviour is to change.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from tests.frozen.digests import KERNELS, machine, on_kernels, row_of
from tests.frozen.streams import STREAMS

TABLE = Path(__file__).with_name("table.json")


def main() -> None:
    chosen = sys.argv[1:] or list(STREAMS)
    rows = json.loads(TABLE.read_text())["streams"] if sys.argv[1:] else {}
    for name in chosen:
        stream = STREAMS[name]
        began = time.perf_counter()
        rows[name] = {}
        for kernels in KERNELS:
            with on_kernels(kernels):
                rows[name][kernels] = row_of(stream())
        summary = rows[name]["native"]["summary"]
        shown = summary.get("clusters"), summary.get("kinds")
        print(f"{name:30} {time.perf_counter() - began:6.2f} s", *shown)
    lines = [
        f'  "{name}": {{\n' + ",\n".join(f'   "{k}": {json.dumps(row[k])}' for k in row) + "\n  }"
        for name, row in rows.items()
    ]
    streams = ",\n".join(lines)
    TABLE.write_text(
        f'{{\n "machine": {json.dumps(machine())},\n "streams": {{\n{streams}\n }}\n}}\n'
    )


if __name__ == "__main__":
    main()
