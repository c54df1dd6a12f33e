"""Which tests need more than the runtime dependencies, pytest and hypothesis.

Every test and every docstring example outside `LIGHT` gets the marker `needs_extra`: it needs an
optional library, a server, a browser or another program. `pytest -m "not needs_extra"` does not
even import those files, so it works where nothing of that is installed. See CONTRIBUTING.md.
"""

from functools import cache
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent

# Files and folders that need the runtime dependencies only.
LIGHT = [
    "src/scstream/core",
    "src/scstream/datasets",
    "src/scstream/errors.py",
    "src/scstream/estimator.py",
    "src/scstream/fitted.py",
    "src/scstream/families",
    "src/scstream/io",
    "src/scstream/metrics",
    "src/scstream/model.py",
    "src/scstream/preprocess",
    "tests/compat",
    "tests/core",
    "tests/datasets",
    "tests/families",
    "tests/frozen",
    "tests/imports",
    "tests/io",
    "tests/laws",
    "tests/metrics",
    "tests/native",
    "tests/statistics",
    "tests/stream/test_batcher.py",
    "tests/test_estimator.py",
    "tests/test_show_config.py",
    "tests/test_sklearn_contract.py",
]
# Files among them whose examples use pandas.
NOT_LIGHT = ["src/scstream/io/frames.py"]
TIMEOUT = 600  # seconds for one test, where pytest-timeout is installed


@cache
def is_light(path: Path) -> bool:
    """Return True if a file needs only the runtime dependencies, pytest and hypothesis."""
    inside = path.relative_to(PROJECT)
    return (
        any(inside.is_relative_to(place) for place in LIGHT) and inside.as_posix() not in NOT_LIGHT
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files that need extras alone if their tests would be deselected anyway."""
    if "not needs_extra" not in config.option.markexpr or collection_path.is_dir():
        return None
    return True if not is_light(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that need extras, and limit the time of each test."""
    limited = config.pluginmanager.hasplugin("timeout")
    for item in items:
        if not is_light(item.path):
            item.add_marker("needs_extra")
        if limited and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TIMEOUT))
