"""What every test shares: hypothesis profiles and the places of the shared data."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PROJECT = Path(__file__).resolve().parents[1]

# No deadline: the machines that run the tests are shared, and a slow example is not a wrong one.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", deadline=None)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


def shared_folder(variable: str, default: str) -> Path:
    folder = Path(os.environ.get(variable) or PROJECT.parent / "shared" / default)
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}: set {variable} to where the shared {default} live")
    return folder


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets, $SCSTREAM_DATA or ../shared/data."""
    return shared_folder("SCSTREAM_DATA", "data")


@pytest.fixture(scope="session")
def streams_dir() -> Path:
    """Folder of the fixed stream generators, $SCSTREAM_STREAMS or ../shared/streams."""
    return shared_folder("SCSTREAM_STREAMS", "streams")
