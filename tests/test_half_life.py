"""`half_life` as a number, a timedelta or text: one meaning, shown as it was given."""

import json
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from scstream import Config, ScStream
from scstream.errors import DataWarning, InputError
from scstream.io.durations import read_half_life
from scstream.stream.config import build
from scstream.stream.store import MemoryStore
from tests.digests import digest

HOURS = [
    "1h",
    "60 min",
    "0.5h30min",
    "3600S",
    timedelta(hours=1),
    np.timedelta64(1, "h"),
    np.timedelta64(3600 * 10**9, "ns"),
]
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(n: int = 150, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.choice([-5.0, 5.0], size=(n, 1)) + rng.normal(size=(n, 2))


def learned(half_life: Any, minutes: Any = (0, 20, 90)) -> ScStream:
    model = ScStream(half_life=half_life, random_state=0)
    for number, minute in enumerate(minutes):
        model.partial_fit(rows(seed=number), time=START + timedelta(minutes=minute))
    return model


@pytest.mark.parametrize("half_life", HOURS, ids=repr)
def test_all_forms_of_an_hour_give_one_model(half_life: Any) -> None:
    assert digest(learned(half_life).state_) == digest(learned(3600).state_)
    assert digest(learned(half_life).state_) != digest(learned(3601).state_)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("90s", 90), ("2 minutes", 120), ("1 day", 86400), ("2w", 14 * 86400)],
)
def test_units(text: str, seconds: float) -> None:
    assert read_half_life(text) == seconds


@pytest.mark.parametrize("half_life", HOURS, ids=repr)
def test_it_is_shown_cloned_and_saved_as_given(half_life: Any, tmp_path: Path) -> None:
    model = learned(half_life)
    assert model.get_params()["half_life"] is half_life
    assert model.config_.kernel.half_life == 3600
    copy = clone(model)
    assert copy.half_life == half_life
    assert type(copy.half_life) is type(half_life)
    model.save(tmp_path / "m.scstream")
    loaded = ScStream.load(tmp_path / "m.scstream")
    if isinstance(half_life, str):
        assert loaded.half_life == half_life
    else:  # numpy's become Python's
        assert loaded.half_life == timedelta(hours=1)
    later = START + timedelta(hours=3)
    states = [each.partial_fit(rows(seed=9), time=later).state_ for each in (model, loaded)]
    assert digest(states[0]) == digest(states[1])


@pytest.mark.parametrize(
    "wrong",
    [
        *("long", "", "1m", "1 month", "3600", "-1h", "1h and more"),
        *(timedelta(0), timedelta(days=-1), [1], 0, np.nan),
        *(np.timedelta64(1, "Y"), np.timedelta64(3), np.timedelta64("NaT")),
    ],
    ids=repr,
)
def test_others_are_refused_with_a_sentence(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"half_life must be .*'1h'.* never forget"):
        ScStream(half_life=wrong).fit(rows())


def test_other_parameters_know_the_forms() -> None:
    with pytest.raises(InputError, match="forgets nothing"):
        ScStream(half_life="1h", algorithm="exact").fit(rows(20))
    with pytest.raises(InputError, match="config= replaces half_life="):
        ScStream(half_life=np.timedelta64(1, "h"), config=Config()).fit(rows(20))


def test_a_batch_without_a_time_forgets_nothing_and_says_so() -> None:
    model = learned("1h")
    weight, time = model.state_.total_weight, model.state_.time
    with pytest.warns(DataWarning, match="half_life='1h' is a duration, but the batch has no time"):
        model.partial_fit(rows(150, seed=5))
    assert model.state_.time == time
    assert model.state_.total_weight == pytest.approx(weight + 150)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        ScStream(half_life="1h", random_state=0).fit(rows())  # a table has one time


def pipeline(folder: Path, half_life: Any, **batch: Any) -> Any:
    lines = [
        json.dumps({"x": row[0], "y": row[1], "at": 30.0 * number})
        for number, row in enumerate(rows(400).tolist())
    ]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return build(
        {
            "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
            "schema": {"features": ["x", "y"], "time": "at"},
            "model": {"half_life": half_life},
            "batch": {"rows": 100, **batch},
        },
        store=MemoryStore(),
    )


def test_settings_of_a_pipeline_take_text(tmp_path: Path) -> None:
    states = []
    for half_life in ("10min", 600.0):
        run = pipeline(tmp_path, half_life, time="event")
        run.run()
        states.append(digest(run.processor.model.state))
    assert states[0] == states[1]
    with pytest.raises(InputError, match=r"the time of a batch is its number; set batch.time"):
        pipeline(tmp_path, "10min")
