"""A folder with a pipeline in it."""

from pathlib import Path

import pytest

from tests.cli.shell import PIPELINE, write_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "rows.csv", 2050)
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    return tmp_path
