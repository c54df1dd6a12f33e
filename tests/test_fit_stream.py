"""`fit_stream`: the same model as batch by batch, from every form of a stream; and its line."""

import io
import os
import pty
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from scstream import ScStream, plot
from scstream.datasets import drifting_gaussians
from scstream.errors import InputError, TimeError
from tests.digests import digest

STREAM = drifting_gaussians(n_clusters=3, n_batches=4, batch_size=250, random_state=1)
BATCHES = [batch.X for batch in STREAM]
TIMES = [0.0, 0.5, 4.0, 4.5]


def by_hand(times: Any = (None,) * 4) -> str:
    model = ScStream(random_state=0)
    for X, time in zip(BATCHES, times, strict=True):
        model.partial_fit(X, time=time)
    return digest(model.state_)


class Timed:
    """Rows with a time, such as a library of one's own has."""

    def __init__(self, X: Any, time: Any) -> None:
        self.X, self.time = X, time


def test_every_form_gives_the_model_of_batch_by_batch() -> None:
    pd = pytest.importorskip("pandas")
    untimed: list[Any] = [
        BATCHES,
        iter(BATCHES),
        np.stack(BATCHES),
        [X.tolist() for X in BATCHES],
        [pd.DataFrame(X, columns=["X", "time"]) for X in BATCHES],  # columns, not attributes
    ]
    for batches in untimed:
        assert digest(ScStream(random_state=0).fit_stream(batches).state_) == by_hand()
    pairs = [*zip(BATCHES, TIMES, strict=True)]
    for batches in (pairs, [Timed(*pair) for pair in pairs], zip(BATCHES, TIMES, strict=True)):
        assert digest(ScStream(random_state=0).fit_stream(batches).state_) == by_hand(TIMES)
    numbered = ScStream(random_state=0).fit_stream(STREAM)
    assert digest(numbered.state_) == by_hand([0.0, 1.0, 2.0, 3.0])


def test_it_goes_on_and_returns_the_estimator() -> None:
    model = ScStream(random_state=0)
    assert model.fit_stream(BATCHES[:2]) is model
    assert digest(model.fit_stream(BATCHES[2:]).state_) == by_hand()
    assert digest(model.fit_stream([]).state_) == by_hand()


def test_every_batch_is_told() -> None:
    history = plot.History()
    ScStream(random_state=0).fit_stream(BATCHES, on_batch=history.record)
    assert len(history) == 4


def test_a_stream_is_read_one_batch_at_a_time() -> None:
    read: list[int] = []
    model = ScStream(random_state=0)

    def batches() -> Iterator[Any]:
        for number, X in enumerate(BATCHES):
            learned = model.state_.n_batches if number else 0
            read.append(learned)
            yield X

    model.fit_stream(batches())
    assert read == [0, 1, 2, 3]


def test_an_error_names_its_batch_and_keeps_those_before() -> None:
    model = ScStream(random_state=0)
    with pytest.raises(TimeError) as caught:
        model.fit_stream([(BATCHES[0], 5.0), (BATCHES[1], 6.0), (BATCHES[2], 1.0)])
    assert caught.value.__notes__ == ["This was batch 3 of the stream, counted from 1."]
    assert model.state_.n_batches == 2


@pytest.mark.parametrize("wrong", [BATCHES[0], sparse.csr_array(BATCHES[0]), "rows.csv", 3, None])
def test_what_is_no_stream_gets_a_sentence(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"batches (is a single table|must be a list)"):
        ScStream(random_state=0).fit_stream(wrong)


def test_a_table_is_no_stream() -> None:
    table = pytest.importorskip("pandas").DataFrame(BATCHES[0])
    with pytest.raises(InputError, match="single table"):
        ScStream(random_state=0).fit_stream(table)


def test_the_line_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(stream: Any, **how: Any) -> None:
        monkeypatch.setattr(sys, "stderr", stream)
        ScStream(random_state=0).fit_stream(BATCHES, **how)

    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal:
        written(terminal, progress=True)
        shown = os.read(reader, 1 << 16).decode()
        written(terminal)
        terminal.write("nothing else")
        terminal.flush()
        assert os.read(reader, 1 << 16).decode() == "nothing else"
    os.close(reader)
    assert shown.startswith("\r1 of 4 batches, 250 rows, ")
    assert "\r4 of 4 batches, 1,000 rows, 3 clusters, " in shown
    assert shown.endswith(" s\r\n")
    file = io.StringIO()
    written(file, progress=True)
    assert file.getvalue() == ""
