"""`clusters_` and `events_` as tables."""

import pickle
from typing import Any

import numpy as np
import pytest

from scstream import ScStream
from scstream.errors import InputError
from scstream.io.clusters import ClusterTable
from scstream.io.event_list import EventList

HOSTILE = "<img src=x onerror=alert(1)> & \"quoted\" 'name'\nnext line"


def three_clusters(seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0]])
    return np.concatenate(
        [
            rng.normal(centre, 1.0, (n, 3))
            for centre, n in zip(centres, (300, 200, 100), strict=True)
        ]
    )


@pytest.fixture(scope="module")
def model() -> ScStream:
    return ScStream(random_state=0).fit(three_clusters())


def renamed(table: ClusterTable, names: dict[int, str], features: tuple[str, ...]) -> ClusterTable:
    return ClusterTable(**{**vars(table), "names": names, "feature_names": features})


def test_clusters_are_found_by_id(model: ScStream) -> None:
    table = model.clusters_
    assert len(table) == 3
    for cluster in table:
        assert table[cluster.id].mean.tolist() == cluster.mean.tolist()
        assert table[np.int64(cluster.id)].id == cluster.id
        assert cluster.id in table
    assert 99 not in table
    assert "0" not in table


@pytest.mark.parametrize("wrong", [99, "0", True, 1.0, None, -1])
def test_an_unknown_id_is_answered_with_the_known_ones(model: ScStream, wrong: Any) -> None:
    with pytest.raises(InputError, match=r"there is no cluster .*; the ids are 0, 1, 2\."):
        model.clusters_[wrong]


def test_a_printed_line_names_the_features_that_distinguish(model: ScStream) -> None:
    lines = repr(model.clusters_).splitlines()[1:]
    weights = [float(line.split()[1]) for line in lines]
    assert weights == sorted(weights, reverse=True)
    far = [cluster for cluster in model.clusters_ if cluster.mean.max() > 5]
    assert len(far) == 2
    for cluster in far:
        line = next(line for line in lines if line.split()[0] == str(cluster.id))
        assert line.split("  ")[-1].startswith(f"x{np.argmax(cluster.mean)} "), line


def test_the_printed_table_is_sorted_and_limited(model: ScStream) -> None:
    text = model.clusters_.to_string(2, by="id")
    assert [line.split()[0] for line in text.splitlines()] == ["id", "2", "1", "..."]
    assert text.endswith("... and 1 more")
    with pytest.raises(InputError, match="sorted by id, weight"):
        model.clusters_.to_string(by="colour")


def test_names_get_a_column(model: ScStream) -> None:
    table = renamed(model.clusters_, {1: "billing"}, ("a", "b", "c"))
    assert repr(table).splitlines()[0].split()[:2] == ["id", "name"]
    assert table[1].name == "billing"
    assert table[0].name is None
    assert "(billing)" in repr(table[1])
    assert list(table.to_dict())[:3] == ["id", "name", "weight"]
    assert "name" not in model.clusters_.to_dict()


@pytest.mark.needs_extra
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_hold_the_table(model: ScStream, library: str) -> None:
    pytest.importorskip(library)
    table = renamed(model.clusters_, {1: "billing"}, ("a", "b", "c"))
    frame = getattr(table, f"to_{library}")()
    assert type(frame).__module__.startswith(library)
    assert list(frame.columns) == list(table.to_dict())
    assert [value if value == "billing" else None for value in frame["name"]] == [
        None,
        "billing",
        None,
    ]
    np.testing.assert_array_equal(frame["mean_c"].to_numpy(), table.mean[:, 2])
    events = model.events_
    frame = getattr(events, f"to_{library}")()
    assert list(frame["kind"]) == [event.kind for event in events]
    assert list(frame["id"]) == [event.id for event in events]
    assert len(getattr(EventList(), f"to_{library}")()) == 0


def test_hostile_names_are_escaped(model: ScStream) -> None:
    table = renamed(model.clusters_, {1: HOSTILE}, (HOSTILE, "b", HOSTILE))
    html = table._repr_html_()
    assert "<img" not in html
    assert "&lt;img" in html
    assert html.count("<tr>") == 4
    assert len(repr(table).splitlines()) == 4


def test_events_stay_a_list(model: ScStream) -> None:
    events = model.events_
    assert isinstance(events, list)
    assert events == list(model.model_.events)
    assert repr(events) == repr(list(model.model_.events))
    assert events._repr_html_().count("<tr>") == 1 + len(events)
    assert pickle.loads(pickle.dumps(events)) == events
    long = EventList(events * 50)
    assert "... and" in long._repr_html_()
    assert "<p>" not in EventList()._repr_html_()


def test_tables_are_pure(model: ScStream) -> None:
    before = model.model_.to_bytes()
    repr(model.clusters_)
    model.clusters_._repr_html_()
    model.clusters_[0].mean[:] = 7.0
    model.events_.clear()
    assert model.model_.to_bytes() == before
    assert pickle.loads(pickle.dumps(model.clusters_)).id.tolist() == [0, 1, 2]
