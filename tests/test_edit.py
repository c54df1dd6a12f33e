"""Edits by people: what they change, that they hold, and that they can be taken back."""

import numpy as np
import pytest
from sklearn.base import clone

from scstream import ScStream
from scstream.errors import InputError
from scstream.model import Model

FAMILIES = ["gaussian", "diagonal", "subspace", "direction", "multinomial", "poisson"]


def batch(seed: int, centres=((0.0, 0.0), (8.0, 0.0), (0.0, 8.0)), n: int = 200) -> np.ndarray:
    """Rows of clusters with unit variance."""
    rng = np.random.default_rng(seed)
    which = rng.integers(len(centres), size=n)
    return np.asarray(centres)[which] + rng.normal(size=(n, 2))


def fitted(n_batches: int = 3, **parameters) -> ScStream:
    model = ScStream(random_state=0, **parameters)
    for seed in range(n_batches):
        model.partial_fit(batch(seed))
    return model


def rows_of(family: str, seed: int, n: int = 300) -> np.ndarray:
    """Rows of three clusters in the domain of a family."""
    rng = np.random.default_rng(seed)
    which = rng.integers(3, size=n)
    if family in ("multinomial", "poisson"):
        rates = np.array([[20, 1, 1, 5], [1, 20, 1, 5], [1, 1, 20, 5]])
        return rng.poisson(rates[which]).astype(float) + (family == "multinomial") * 1.0
    centres = 6.0 * np.eye(3, 8)
    return centres[which] + 0.3 * rng.normal(size=(n, 8))


def same_predictions(first: ScStream, second: ScStream, rows: np.ndarray) -> bool:
    """Bit for bit."""
    return np.array_equal(first.predict(rows), second.predict(rows)) and np.array_equal(
        first.score_samples(rows), second.score_samples(rows)
    )


def copied(model: ScStream) -> ScStream:
    other = clone(model)
    other._keep(Model.from_bytes(model.model_.to_bytes()))
    return other


def ids_of(model: ScStream) -> list[int]:
    return model.clusters_.id.tolist()


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_a_merge_by_hand_holds_for_200_batches_and_without_hold_it_does_not(algorithm):
    centres = ((0.0, 0.0), (4.5, 0.0))
    held = ScStream(random_state=0, algorithm=algorithm, half_life=20.0, alpha=10.0)
    for seed in range(5):
        held.partial_fit(batch(seed, centres, 500))
    assert held.n_clusters_ == 2
    free = copied(held)
    held.merge(0, 1)
    free.merge(0, 1, hold=False)
    for seed in range(5, 205):
        rows = batch(seed, centres, 100)
        held.partial_fit(rows)
        if seed < 60:
            free.partial_fit(batch(seed, centres, 500))
    assert ids_of(held) == [0]
    assert free.n_clusters_ > 1


def test_a_split_by_hand_is_not_merged_again():
    rng = np.random.default_rng(0)
    held = ScStream(random_state=0).partial_fit(rng.normal(size=(500, 2)))
    held.split(0)
    new = held.events_[-1].other
    assert ids_of(held) == [0, new]
    free = copied(held)
    free.unpin(0)
    for _ in range(40):
        rows = rng.normal(size=(200, 2))
        held.partial_fit(rows)
        free.partial_fit(rows)
    assert {0, new} <= set(ids_of(held))
    assert ids_of(free) == [0]


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_a_pinned_cluster_without_rows_lives_and_keeps_its_rows(algorithm):
    model = ScStream(random_state=0, half_life=2.0, algorithm=algorithm)
    for seed in range(3):
        model.partial_fit(batch(seed), time=seed)
    there = int(model.predict([[0.0, 8.0]])[0])
    free = copied(model)
    model.pin(there)
    for seed in range(3, 203):
        rows = batch(seed, ((0.0, 0.0), (8.0, 0.0)), 100)
        model.partial_fit(rows, time=seed)
        free.partial_fit(rows, time=seed)
    assert there in ids_of(model)
    assert there not in ids_of(free)
    if algorithm == "default":  # the paper's clusters lose their shapes with their weights
        assert (model.predict(np.array([[0.0, 8.0], [0.5, 7.5]])) == there).all()


def test_a_pinned_cluster_survives_a_long_pause_of_the_stream():
    model = fitted(half_life=1.0).pin(1)
    model.partial_fit(batch(9, ((0.0, 0.0),)), time=1e6)
    assert 1 in ids_of(model)


def test_a_pinned_cluster_is_not_merged_when_there_is_no_room():
    model = fitted(max_clusters=4)
    assert model.n_clusters_ == 3
    weight = model.clusters_.weight
    lightest = ids_of(model)[int(np.argmin(weight))]
    model.pin(lightest)
    for seed in range(20):
        model.partial_fit(batch(50 + seed, ((0.0, 0.0), (8.0, 0.0), (0.0, 8.0), (8.0, 8.0))))
    assert lightest in ids_of(model)


def test_a_seed_is_found_by_its_first_rows():
    rng = np.random.default_rng(1)
    known = np.array([20.0, 20.0]) + rng.normal(size=(20, 2))
    model = ScStream(random_state=0, half_life=3.0).seed(known, name="spare")
    for seed in range(30):
        model.partial_fit(batch(seed), time=seed)
    assert model.names_ == {0: "spare"}
    assert model.n_clusters_ == 4
    first = np.array([20.0, 20.0]) + rng.normal(size=(5, 2))
    model.partial_fit(np.concatenate([batch(99), first]), time=30)
    assert (model.labels_[-5:] == 0).all()
    assert model.events_[0].kind == "born" and model.events_[0].name == "spare"


def test_a_seed_before_the_first_batch_is_found_by_that_batch():
    rng = np.random.default_rng(2)
    model = ScStream(random_state=0).seed(rng.normal(size=(20, 2)), name="zero")
    model.partial_fit(batch(0))
    near_zero = np.linalg.norm(batch(0), axis=1) < 2
    assert (model.labels_[near_zero] == 0).mean() > 0.95


@pytest.mark.parametrize("family", FAMILIES)
def test_undo_restores_every_prediction_bit_for_bit(family):
    model = ScStream(family, random_state=0)
    for seed in range(3):
        model.partial_fit(rows_of(family, seed))
    assert model.n_clusters_ >= 2
    rows = rows_of(family, 9)
    before = copied(model)
    first, second = ids_of(model)[:2]
    for edit in (
        lambda: model.merge(first, second),
        lambda: model.split(first),
        lambda: model.remove(second),
        lambda: model.seed(rows[:30]),
        lambda: model.move(rows[:50], second),
        lambda: model.name(first, "a name"),
        lambda: model.pin(first),
        lambda: model.merge(first, second, level="group"),
    ):
        edit()
        model.undo()
        assert same_predictions(model, before, rows)
        assert model.names_ == {}
    model.merge(first, second)
    model.name(first, "both")
    model.undo().undo()
    assert same_predictions(model, before, rows)
    # The models learn the same afterwards.
    model.partial_fit(rows)
    before.partial_fit(rows)
    assert same_predictions(model, before, rows_of(family, 10))


def test_edits_change_what_they_should():
    model, rows = fitted(), batch(77)
    before = copied(model)
    model.merge(0, 1)
    assert not same_predictions(model, before, rows)
    model.undo().move(rows[:40], 1)
    assert not same_predictions(model, before, rows)


def test_undo_after_more_batches_brings_merged_clusters_back():
    model = fitted().name(1, "right")
    weight = model.state_.weight.sum()
    model.merge(0, 1)
    for seed in range(5):
        model.partial_fit(batch(100 + seed))
    total = model.state_.weight.sum()
    model.undo()
    assert ids_of(model) == [0, 1, 2]
    assert model.names_ == {1: "right"}
    assert model.state_.weight.sum() == pytest.approx(total)
    model.partial_fit(batch(200))
    assert ids_of(model) == [0, 1, 2]
    labels = model.predict([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    assert len(set(labels.tolist())) == 3
    assert weight > 0


def test_undo_after_more_batches_of_the_other_edits():
    model = fitted().split(0)
    new = model.events_[-1].other
    model.partial_fit(batch(50))
    assert new not in ids_of(model.undo())
    model.remove(2).partial_fit(batch(51, ((0.0, 0.0), (8.0, 0.0))))
    assert 2 in ids_of(model.undo())
    model.pin(1).partial_fit(batch(52))
    assert model.undo().state_.steering.pinned == ()
    model.seed(batch(0, ((30.0, 30.0),), 20)).partial_fit(batch(53))
    seeded = max(ids_of(model))
    assert seeded not in ids_of(model.undo())
    model.move(batch(0, n=5), 1).partial_fit(batch(54))
    with pytest.raises(InputError, match="cannot be moved back"):
        model.undo()


def test_names_follow_merges_of_the_sampler_and_end_with_their_cluster():
    rng = np.random.default_rng(0)
    model = ScStream(random_state=0).partial_fit(rng.normal(size=(500, 2)))
    model.split(0, hold=False)
    new = model.events_[-1].other
    model.name(new, "half")
    for _ in range(60):
        model.partial_fit(rng.normal(size=(200, 2)))
    assert ids_of(model) == [0]
    assert model.names_ == {0: "half"}
    model = fitted(half_life=1.0)
    model.name(int(model.predict([[0.0, 8.0]])[0]), "gone soon")
    for seed in range(40):
        model.partial_fit(batch(seed, ((0.0, 0.0), (8.0, 0.0))), time=1 + seed)
    assert model.names_ == {}


@pytest.mark.parametrize("edits", [1, 3])
def test_a_file_holds_edits_and_how_to_undo_them(edits, tmp_path):
    model, rows = fitted(), batch(77)
    plain = copied(model)
    model.name(0, "zero")
    if edits > 1:
        model.merge(1, 2).pin(1)
    model.save(tmp_path / "m.scstream")
    loaded = ScStream.load(tmp_path / "m.scstream")
    assert loaded.names_ == {0: "zero"}
    assert loaded.events_ == model.events_
    for seed in range(5):
        loaded.partial_fit(batch(300 + seed))
        model.partial_fit(batch(300 + seed))
    assert same_predictions(loaded, model, rows)
    again = ScStream.load(tmp_path / "m.scstream")
    for _ in range(edits):
        again.undo()
    assert same_predictions(again, plain, rows)


def test_a_file_without_edits_does_not_mention_them():
    assert b"steering" not in fitted().model_.to_bytes()


def test_groups_are_edited_like_clusters():
    model = fitted()
    assert len(model.groups_) == 3
    model.merge(0, 2, level="group").name(0, "family", level="group")
    assert model.groups_.members(0).tolist() == [0, 2]
    assert set(model.predict(batch(1), level="group").tolist()) == {0, 1}
    for seed in range(10):
        model.partial_fit(batch(400 + seed))
    assert model.groups_.members(0).tolist() == [0, 2]
    assert model.state_.steering.group_names == {0: "family"}
    model.split(0, level="group")
    assert len(model.groups_) == 3
    assert len(model.groups_at(0)) >= 2  # people's word holds at every resolution
    model.pin(1, level="group")
    assert model.state_.steering.pinned == (1,)
    model.remove(1, level="group")
    assert ids_of(model) == [0, 2]


def test_events_of_edits_have_an_author():
    model = fitted().name(1, "right", author="ana").merge(0, 1, author="bo")
    named, merged = model.events_[-2:]
    assert (named.kind, named.id, named.name, named.author) == ("named", 1, "right", "ana")
    assert (merged.kind, merged.id, merged.other, merged.author) == ("merged", 0, 1, "bo")
    assert {event.author for event in model.events_[:-2]} == {None}
    undone = model.undo().events_[-1]
    assert (undone.kind, undone.id, undone.other) == ("split", 0, 1)


def test_rows_that_wait_follow_an_edit():
    model = fitted()
    model.partial_fit(batch(5)[:10])
    assert model.model_.held is not None
    model.merge(0, 1)
    assert set(model.model_.held.label.tolist()) <= {-1, 0, 2}


def test_an_edit_that_cannot_be_done_says_why_and_changes_nothing():
    model = fitted()
    before = model.model_
    for call, sentence in (
        (lambda: model.name(99, "x"), "no cluster 99; there are 0, 1, 2"),
        (lambda: model.merge(1, 1), "itself"),
        (lambda: model.name(1, "a\nb"), "line breaks"),
        (lambda: model.name(1, "x" * 201), "200"),
        (lambda: model.merge(0, 7, level="group"), "no group 7"),
        (model.undo, "no edit to undo"),
        (lambda: model.seed(np.zeros((0, 2))), "row"),
        (lambda: model.name(1, "x", level="topic"), "level"),
        (lambda: model.move([[1.0, 2.0, 3.0]], 1), "features"),
    ):
        with pytest.raises((InputError, ValueError), match=sentence):
            call()
        assert model.model_ is before


def test_only_the_last_edits_are_kept():
    model = fitted()
    for number in range(25):
        model.name(0, f"name {number}")
    assert len(model.state_.steering.undo) == 10
    for _ in range(10):
        model.undo()
    assert model.names_ == {0: "name 14"}
