"""Read bombs with 1 GiB of address space to spare: ``python -m tests.faults.bombed FOLDER``.

Set ARROW_DEFAULT_MEMORY_POOL=system: the allocator of pyarrow reserves a gigabyte of addresses.

Prints a line of JSON for each file: its name, rows and rejects, and the first reason.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet  # noqa: F401  # loaded before the limit, as in a process that runs

from scstream.errors import CheckpointCorrupt
from scstream.model import read_checkpoint
from scstream.preprocess.block import Block
from scstream.stream.connectors.files import FileSource
from scstream.stream.messages import reader
from scstream.stream.schema import Schema

SPARE = 2**30  # bytes
SCHEMA = Schema(tuple(f"x{j}" for j in range(10)), keep=("name",), missing=True)


def limit_memory() -> None:
    """Allow this process 1 GiB of address space more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def blocks_of(path: Path, format: str) -> list[Block]:
    """Return what a pipeline would get of a body."""
    if format != "parquet":
        schema = replace(SCHEMA, keep=()) if format.startswith("floats") else SCHEMA
        return [reader(format, schema).read(path.read_bytes())]
    source = FileSource(path=path, format=format)
    read = source.reader(SCHEMA)
    source.open(None)
    found = []
    while not source.done:
        for record in source.read(1, 0):
            value = record.value
            block = value if isinstance(value, Block) else read.read(value)
            found.append(Block(block.n_rows, block.row, block.X[:0], {}, block.rejects[:1]))
    source.close()
    return found


def outcome(path: Path, format: str) -> dict[str, object]:
    if format == "model":
        try:
            read_checkpoint(path.read_bytes(), name=path.name)
        except CheckpointCorrupt as error:
            return {"rows": 0, "reason": str(error)}
    blocks = blocks_of(path, format)
    reasons = [block.rejects[0].reason for block in blocks if block.rejects]
    return {"rows": sum(b.n_rows for b in blocks), "reason": reasons[0] if reasons else ""}


def main() -> None:
    limit_memory()
    for path in sorted(Path(sys.argv[1]).iterdir()):
        format = path.suffix[1:]
        sys.stdout.write(json.dumps({"name": path.name, **outcome(path, format)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
