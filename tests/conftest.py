"""Hypothesis profiles, folders of shared data, and the order of slow tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PROJECT = Path(__file__).resolve().parents[1]

# No deadline: a shared machine may be slow without an error in the code.
# "dev" tries few examples, "gate" more of them, and "ci" as many, the same every time.
settings.register_profile("dev", deadline=None, max_examples=20)
settings.register_profile("gate", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=50,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


def shared_folder(variable: str, default: str) -> Path:
    folder = Path(os.environ.get(variable) or PROJECT.parent / "shared" / default)
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}: set {variable} to the folder of the shared {default}")
    return folder


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets, $SCSTREAM_DATA or ../shared/data."""
    return shared_folder("SCSTREAM_DATA", "data")


@pytest.fixture(scope="session")
def streams_dir() -> Path:
    """Folder of the fixed stream generators, $SCSTREAM_STREAMS or ../shared/streams."""
    return shared_folder("SCSTREAM_STREAMS", "streams")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start slow tests first, spread over the processes, so that none runs alone at the end."""
    n_parts = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    if n_parts == 1 or not slow:
        return
    others = [item for item in items if not item.get_closest_marker("slow")]
    size = -(-len(items) // n_parts)  # xdist gives each process a run of this many tests
    parts = [slow[start::n_parts] for start in range(n_parts)]
    for part in parts:
        n_more = size - len(part)
        part.extend(others[:n_more])
        del others[:n_more]
    items[:] = [item for part in parts for item in part] + others
