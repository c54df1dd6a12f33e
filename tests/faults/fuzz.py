"""Messages of every bad kind, through the reader into a model, which must stay sound."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import fields
from random import Random
from typing import Any

import numpy as np

from scstream.model import Model, Settings
from scstream.preprocess import Steps
from scstream.stream.messages import reader
from scstream.stream.processor import learn_block
from scstream.stream.schema import Schema

FAMILIES = ("gaussian", "gaussian", "diagonal", "poisson", "bernoulli", "multinomial")
FORMATS = ("json", "json", "columns", "floats")
LENGTH = 25  # batches of one stream
NAMES = ("a", "b", "c", "d")
ODD_NUMBERS = (
    *(float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 1e101, -1e101, 1e99, -1e99),
    *(5e-324, -1e-310, 2.2e-308, 0.0, -0.0, 1e12, -1e15, 1e-300, 2**53 + 1.0),
)
ODD_VALUES = ("seven", "", None, True, [1.0], {"x": 1}, 10**400, -(10**30), "NaN", "1e5", "\ud800")


def numbers(random: Random, family: str, n: int, d: int) -> list[list[Any]]:
    """Rows that a family likes, some of them with a shape that is hard on it."""
    if family in ("gaussian", "diagonal"):
        scale, far = 10.0 ** random.randint(-6, 6), 10.0 ** random.randint(-3, 9)
        rows = [
            [random.gauss(0.0, scale) + far * random.randint(0, 2) for _ in range(d)]
            for _ in range(n)
        ]
    elif family == "bernoulli":
        rows = [[float(random.random() < 0.4) for _ in range(d)] for _ in range(n)]
    else:
        max_n = random.choice((1, 5, 1000, 10**9))
        rows = [[float(random.randint(0, max_n)) for _ in range(d)] for _ in range(n)]
    if random.random() < 0.15:
        rows = [list(rows[0]) for _ in rows]  # duplicates
    if random.random() < 0.15:
        for row in rows:
            row[0] = rows[0][0]  # a constant column
    return rows


def spoil(random: Random, rows: list[list[Any]]) -> None:
    """Put odd entries into rows, and change the width of some."""
    for row in rows:
        if random.random() < 0.15:
            row[random.randrange(len(row))] = random.choice(ODD_NUMBERS)
        if random.random() < 0.05:
            row[random.randrange(len(row))] = random.choice(ODD_VALUES)
        if random.random() < 0.03:
            row.append(1.0)
        if random.random() < 0.03:
            row.pop()


def message(random: Random, family: str, *, format: str, d: int) -> bytes:
    """One message: rows, odd rows, no rows, or rubbish."""
    chance = random.random()
    if chance < 0.02:
        return random.randbytes(random.randint(0, 60))
    if chance < 0.04:
        return b""
    rows = numbers(random, family, random.choice((1, 1, 2, 3, 5, 8, 12)), d)
    if random.random() < 0.6:
        spoil(random, rows)
    text = _written(rows, format=format, d=d)
    return text[: random.randint(0, len(text))] if chance < 0.06 else text


def _written(rows: list[list[Any]], *, format: str, d: int) -> bytes:
    if format == "floats":
        return b"".join(struct.pack("<d", _number(value)) for row in rows for value in row)
    if format == "columns":
        columns = {
            name: [row[i] if i < len(row) else None for row in rows]
            for i, name in enumerate(NAMES[:d])
        }
        return json.dumps(columns).encode()
    objects = [dict(zip(NAMES, row, strict=False)) for row in rows]
    return "\n".join(json.dumps(row) for row in objects).encode()


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def check_state(learner: Model, *, rounding: float = 0.0) -> None:
    """Every number is finite, counts are not negative, covariances are positive definite.

    `rounding` is the share of the largest eigenvalue by which one may be negative.
    """
    state, family = learner.state, learner.family
    for entry in fields(state):
        value = getattr(state, entry.name)
        if isinstance(value, np.ndarray):
            assert np.isfinite(value).all(), f"{entry.name} is not finite"
    assert (state.cluster_stats[..., 0] >= 0).all()
    assert np.isfinite(family.predictive_params(state.cluster_stats)).all()
    if family.name == "gaussian":
        _, _, _, scale = family._posterior(state.cluster_stats)  # type: ignore[attr-defined]
        slack = rounding * np.abs(scale).max(axis=(1, 2), initial=0.0)
        # Raises if a matrix is not positive definite.
        np.linalg.cholesky(scale + slack[:, None, None] * np.eye(scale.shape[-1]))


def streams(seed: int) -> Iterator[tuple[Model, np.ndarray, int]]:
    """Yield, for ever, the model after every batch, its labels and the number of refused rows."""
    random = Random(seed)
    while True:
        family, format, d = random.choice(FAMILIES), random.choice(FORMATS), random.randint(1, 4)
        learner = Settings.of(
            {
                "family": family,
                "prior": random.choice(("auto", "auto", "weak")),
                "half_life": random.choice((None, 0.5, 10.0)),
                "max_clusters": random.choice((1, 3, 50)),
                "n_jobs": 1,
                "random_state": random.randrange(1000),
            }
        )
        source = reader(
            format, Schema(features=NAMES[:d], missing=learner.family_kind.handles_missing)
        )
        steps, time = Steps(), 0.0
        for _ in range(LENGTH):
            block = source.read(message(random, family, format=format, d=d))
            time += random.choice((0.0, 1.0, 1.0, 1000.0))
            learner, steps, block, labels = learn_block(learner, steps, block, time=time)
            yield learner, labels, len(block.rejects)
