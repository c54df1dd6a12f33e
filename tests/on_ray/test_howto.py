"""The page about Ray runs as written, in one process, on the cluster of the tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.blocks import blocks_of, compare, read, told

PAGE = "docs/howto/ray.md"
BLOCKS = blocks_of(read(PAGE))


@pytest.mark.usefixtures("cluster")
def test_the_page_runs_and_prints_what_it_shows() -> None:
    names: dict[str, Any] = {}
    executed = [block for block in BLOCKS if block.kind == "python"]
    assert len(executed) >= 5
    for block in executed:
        compare(PAGE, block, told(PAGE, block, names))
