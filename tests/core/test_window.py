"""Kernels by themselves; what they do to streams is in tests/laws/test_kernels.py."""

from __future__ import annotations

import numpy as np
import pytest

from scstream.core.window import Box, Exponential, Windowed
from scstream.errors import InputError

KERNELS = [
    Exponential(2.0),
    Exponential(None),
    Box(5.0),
    Windowed(lambda age: 1.0 / (1.0 + age), capacity=3, epsilon=0.1),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_forgetting_kernels_start_at_one_and_never_increase(kernel):
    weight = kernel.weight(np.linspace(0.0, 30.0, 301))
    assert weight.shape == (301,)
    assert weight[0] == 1.0
    assert (np.diff(weight) <= 0).all()
    assert (weight >= 0).all()


def test_weight_is_one_half_after_one_half_life():
    kernel = Exponential(half_life=3.0)
    age = np.array([0.0, 3.0, 6.0, 1.5])
    np.testing.assert_allclose(kernel.weight(age), [1.0, 0.5, 0.25, 0.5**0.5], rtol=1e-15)
    assert kernel.capacity == 0
    assert (Exponential(None).weight(age) == 1.0).all()


def test_forgetting_kernels_reject_invalid_parameters():
    for wrong in (0.0, -1.0, np.nan):
        with pytest.raises(InputError, match="half_life must be positive"):
            Exponential(half_life=wrong)
        with pytest.raises(InputError, match="box window must be positive"):
            Box(length=wrong)
    for function in (lambda age: 2.0 + age, lambda age: age - 1.0, lambda age: age * np.nan):
        with pytest.raises(InputError, match="weights between 0 and 1"):
            Windowed(function).weight(np.array([0.0, 1.0]))
