"""Random odd streams: whatever comes, the model answers with a number or with a sentence."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from scipy import sparse

from scstream import Box, ScStream
from scstream.errors import InputError

FAMILIES = ("gaussian", "diagonal", "multinomial", "bernoulli", "poisson", "categorical")


def odd_rows(rng, family, d):
    """A few rows of the family, sometimes all alike, sometimes with a constant column."""
    n = int(rng.choice([1, 2, 3, 7, 20, 80]))
    if family in ("gaussian", "diagonal"):
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4)
        X += rng.integers(0, 3, (n, 1)) * 10.0 ** rng.integers(-2, 3)
    elif family in ("multinomial", "poisson"):
        X = rng.poisson(rng.choice([0.1, 3.0, 50.0]), (n, d)).astype(float)
    else:
        X = rng.integers(0, 2, (n, d)).astype(float)
    if rng.random() < 0.2:
        X[:] = X[0]
    if rng.random() < 0.2:
        X[:, 0] = X[0, 0]
    if family not in ("gaussian", "multinomial") and rng.random() < 0.3:
        X = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    return sparse.csr_array(X) if family == "multinomial" and rng.random() < 0.5 else X


def odd_model(rng, family, seed):
    return ScStream(
        family,
        algorithm=str(rng.choice(["default", "paper"])),
        prior=str(rng.choice(["auto", "weak"])),
        half_life=[None, 0.1, 1.0, 5.0][rng.integers(4)],
        kernel=Box(2.0) if rng.random() < 0.2 else None,
        max_clusters=int(rng.choice([1, 2, 5, 1000])),
        archive=bool(rng.integers(2)),
        random_state=seed,
    )


def assert_finite(model, X):
    for field in fields(model.state_):
        value = getattr(model.state_, field.name)
        if isinstance(value, np.ndarray):
            assert np.isfinite(value).all(), field.name
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert set(model.predict(X).tolist()) <= {-1, *model.state_.ids.tolist()}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_odd_stream_breaks_the_model(family):
    refused = learned = 0
    for seed in range(5):
        rng = np.random.default_rng([seed, FAMILIES.index(family)])
        d, time = int(rng.integers(1, 6)), 0.0
        model = odd_model(rng, family, seed)
        for _ in range(rng.integers(1, 8)):
            X = odd_rows(rng, family, d)
            weight = 3.0 * rng.random(X.shape[0]) if rng.random() < 0.3 else None
            time += float(rng.choice([0.0, 0.5, 1.0, 30.0]))
            try:
                model.partial_fit(X, time=time, sample_weight=weight)
            except InputError:
                refused += 1
                continue
            learned += 1
            assert_finite(model, X)
    assert learned > refused
