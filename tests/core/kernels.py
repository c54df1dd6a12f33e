"""Run a test with the compiled kernels and with the numpy reference."""

from __future__ import annotations

import pytest

from scstream.kernels import Kernels, choose_kernels
from scstream.kernels.native import load_native

both_kernels = pytest.mark.parametrize("kernels", ["native", "numpy"])


def kernels_named(name: str) -> Kernels:
    """The kernels of that name; the test is skipped if they are not installed."""
    if name == "native" and load_native() is None:
        pytest.skip("the compiled kernels are not installed")
    return choose_kernels(name)
