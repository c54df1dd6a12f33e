"""Fuzzed messages through reader and model: no crash, no NaN, no indefinite covariance."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from scstream import learning
from scstream import model as model_module
from scstream.errors import ScStreamError
from scstream.families import Gaussian
from scstream.model import Model
from scstream.stream import checks
from tests.faults.fuzz import check_state, streams

N_BATCHES = 1_000  # `python -m benchmarks faults` learns more


@pytest.mark.slow
def test_fuzzed_batches_leave_a_sound_model():
    n_rows = n_refused = n_learned = 0
    for model, labels, refused in islice(streams(0), N_BATCHES):
        n_rows += len(labels)
        n_refused += refused
        if isinstance(model, Model):
            check_state(model)
            n_learned += bool(len(labels))
            assert set(labels.tolist()) <= {-1, *model.state.ids.tolist()}
    assert n_refused > 0.05 * n_rows  # the fuzz is odd,
    assert n_learned > 0.5 * N_BATCHES  # and most of it is learned all the same


def test_fuzzing_finds_missing_input_checks(monkeypatch):
    """Without the input checks odd rows break the model, and the fuzz test notices."""
    for module in (learning, model_module):
        monkeypatch.setattr(module, "check_entries", lambda rows, family: None)
    monkeypatch.setattr(Gaussian, "check", lambda family, rows: None)
    monkeypatch.setattr(checks, "LARGEST", np.inf)
    errors = (AssertionError, ArithmeticError, ValueError, RuntimeWarning, np.linalg.LinAlgError)
    with pytest.raises(errors) as caught, np.errstate(all="ignore"):
        for model, _, _ in islice(streams(0), N_BATCHES):
            if isinstance(model, Model):
                check_state(model)
    assert not isinstance(caught.value, ScStreamError)
