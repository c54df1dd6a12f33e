"""Preparation of rows: steps are pure, go on after a save bit for bit, and agree with oracles."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.preprocessing import StandardScaler

from scstream.errors import InputError
from scstream.io._packing import pack, seal, unpack, unseal
from scstream.preprocess import STEPS, Steps
from scstream.preprocess.block import Block
from scstream.preprocess.project import projection_matrix
from scstream.preprocess.scale import std
from scstream.preprocess.stop_words import ENGLISH
from scstream.preprocess.text import words

NAMES = ("x", "y", "z")
WORDS = ["red", "green", "blue", "the", "and", "Été", "a", "x1", "", "!"]

numeric = st.sampled_from(
    [
        [{"step": "select", "columns": ["z", "x"]}],
        [{"step": "select", "drop": ["y"]}, {"step": "standardise", "clip": 2.0}],
        [{"step": "standardise"}, {"step": "pca", "n": 2, "whiten": True}],
        [{"step": "standardise", "mode": "running", "half_life": 2.0}],
        [{"step": "standardise", "mode": "running", "half_life": float("inf"), "centre": False}],
        [{"step": "random_projection", "n": 2, "seed": 3}, {"step": "standardise"}],
        [{"step": "random_projection", "n": 5, "kind": "signs"}],
    ]
)
textual = st.sampled_from(
    [
        [{"step": "hash_text", "n": 7}],
        [{"step": "hash_text", "n": 50, "stop_words": "english", "empty": "keep"}],
        [{"step": "count_words", "n": 3, "min_count": 1}],
        [{"step": "count_words", "min_count": 1, "stop_words": ["red"]}],
        [
            {"step": "hash_text", "n": 30},
            {"step": "standardise", "mode": "running", "centre": False},
            {"step": "random_projection", "n": 2, "kind": "signs"},
        ],
    ]
)


anything = st.floats(-1e100, 1e100)
moderate = st.integers(-(10**6), 10**6).map(lambda k: k / 64)  # no spread so small that it vanishes


@st.composite
def number_batches(draw, entry=moderate, least=4):
    """Several batches of three columns, and their times or none."""
    n = draw(st.integers(2, 4))
    sizes = draw(st.lists(st.integers(least, 12), min_size=n, max_size=n))
    rows = [draw(hnp.arrays(np.float64, (size, 3), elements=entry)) for size in sizes]
    gaps = draw(st.none() | st.lists(st.floats(0, 5), min_size=n, max_size=n))
    times = [None] * n if gaps is None else np.cumsum(gaps).tolist()
    return [(Block.of(X), time) for X, time in zip(rows, times, strict=True)]


@st.composite
def text_batches(draw):
    """Several batches of texts, some of them empty; the first has words."""
    text = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
    batches = []
    for _ in range(draw(st.integers(2, 4))):
        texts = ["blue green red x1 red", *draw(st.lists(text, min_size=1, max_size=6))]
        batches.append((Block.of(np.zeros((len(texts), 0)), text=texts), None))
    return batches


cases = st.one_of(
    st.tuples(numeric, number_batches(moderate | anything)),
    st.tuples(textual, text_batches()),
)


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def same(left, right):
    """Bit for bit, rejects included."""
    assert sparse.issparse(left.X) == sparse.issparse(right.X)
    np.testing.assert_array_equal(dense(left.X), dense(right.X))
    np.testing.assert_array_equal(left.row, right.row)
    assert left.rejects == right.rejects


def as_bytes(steps):
    tensors = {}
    return seal({"steps": pack(steps.save(), "steps", tensors)}, tensors)


def through_a_file(steps):
    header, tensors = unseal(as_bytes(steps))
    loaded = Steps.load(unpack(header["steps"], tensors))
    assert not tensors
    return loaded


def alone(table):
    return Steps.build([table])


@given(cases)
def test_saved_steps_continue_with_equal_bits(case):
    tables, batches = case
    steps = Steps.build(tables).with_columns(NAMES)
    again = through_a_file(steps)
    for block, time in batches:
        steps, expected = steps.apply(block, time=time)
        again, found = again.apply(block, time=time)
        same(found, expected)
        again = through_a_file(again)
        assert again.options() == steps.options()
        assert again.feature_names(NAMES) == steps.feature_names(NAMES)


@given(cases)
def test_apply_changes_neither_steps_nor_block(case):
    tables, batches = case
    steps = Steps.build(tables).with_columns(NAMES)
    for block, time in batches:
        before, entries = as_bytes(steps), block.X.copy()
        after, first = steps.apply(block, time=time)
        _, second = steps.apply(block, time=time)
        same(first, second)
        np.testing.assert_array_equal(block.X, entries)
        assert as_bytes(steps) == before
        steps = after


@given(cases)
def test_every_row_is_output_or_rejected_once_and_columns_have_their_names(case):
    tables, batches = case
    steps = Steps.build(tables).with_columns(NAMES)
    for block, time in batches:
        steps, out = steps.apply(block, time=time)
        assert out.n_rows == block.n_rows
        assert sorted([*out.row, *(r.row for r in out.rejects)]) == list(range(block.n_rows))
        assert out.X.shape[0] == len(out.row)
        assert all(len(values) == len(out.row) for values in out.extra.values())
        names = steps.feature_names(NAMES)
        assert names is None or len(names) == out.X.shape[1]


@given(number_batches(), st.integers(-20, 20), st.integers(0, 2))
def test_frozen_standardise_removes_the_unit_of_a_column(batches, power, column):
    unit = np.ones(3)
    unit[column] = 2.0**power  # a power of two changes no digits
    plain = other = alone({"step": "standardise"})
    varies = np.ptp(batches[0][0].X, axis=0) > 0
    for block, _ in batches:
        plain, expected = plain.apply(block)
        other, found = other.apply(Block.of(block.X * unit))
        factor = np.where(varies, 1.0, unit)  # a column that did not vary keeps its unit
        np.testing.assert_array_equal(found.X, expected.X * factor)


@given(st.integers(0, 9), st.floats(-100, 100), st.floats(0.01, 100))
def test_standardise_is_invariant_to_shift_and_scale(seed, shift, stretch):
    rows = np.random.default_rng(seed).normal(size=(3, 20, 2))
    plain = other = alone({"step": "standardise"})
    for X in rows:
        plain, expected = plain.apply(Block.of(X))
        other, found = other.apply(Block.of(shift + stretch * X))
        np.testing.assert_allclose(found.X, expected.X, rtol=1e-6, atol=1e-6)


@given(number_batches(least=1))
def test_running_without_half_life_equals_scaling_by_all_rows_so_far(batches):
    steps = alone({"step": "standardise", "mode": "running", "half_life": float("inf")})
    seen = []
    for block, time in batches:
        seen.append(block.X)
        steps, found = steps.apply(block, time=time)
        rows = np.concatenate(seen)
        scaler = StandardScaler().fit(rows)
        learned = steps.steps[0].learned
        size = np.abs(rows).max(axis=0) + 1.0
        np.testing.assert_allclose(learned["mean"] / size, scaler.mean_ / size, atol=1e-12)
        np.testing.assert_allclose(
            learned["squares"] / len(rows) / size**2, scaler.var_ / size**2, atol=1e-12
        )
        clear = np.sqrt(scaler.var_) > 1e-6 * size
        np.testing.assert_allclose(
            found.X[:, clear], scaler.transform(block.X)[:, clear], rtol=1e-6, atol=1e-6
        )


@given(number_batches(least=1), st.floats(0.1, 10))
def test_running_weights_batches_by_their_age(batches, half_life):
    steps = alone({"step": "standardise", "mode": "running", "half_life": half_life})
    times: list[float] = []
    for block, time in batches:
        next_time = times[-1] + len(block.row) / 1000 if times else 0.0
        times.append(next_time if time is None else time)
        steps, _ = steps.apply(block, time=time)
    age = times[-1] - np.array(times)
    weight = np.repeat(2.0 ** (-age / half_life), [len(block.row) for block, _ in batches])
    rows = np.concatenate([block.X for block, _ in batches])
    mean = np.average(rows, axis=0, weights=weight)
    variance = np.average((rows - mean) ** 2, axis=0, weights=weight)
    learned, size = steps.steps[0].learned, np.abs(rows).max(axis=0) + 1.0
    np.testing.assert_allclose(learned["mean"] / size, mean / size, atol=1e-12)
    found = learned["squares"] / learned["weight"]
    np.testing.assert_allclose(found / size**2, variance / size**2, atol=1e-12)


def test_a_late_batch_counts_as_if_it_had_come_in_time():
    rng = np.random.default_rng(1)
    old, new = (Block.of(rng.normal(size=(5, 2))) for _ in range(2))
    table = {"step": "standardise", "mode": "running", "half_life": 3.0}
    in_time, _ = alone(table).apply(old, time=1.0)[0].apply(new, time=4.0)
    late, _ = alone(table).apply(new, time=4.0)[0].apply(old, time=1.0)
    for name in ("weight", "mean", "squares", "time"):
        found, expected = (steps.steps[0].learned[name] for steps in (late, in_time))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(number_batches())
def test_frozen_scale_is_that_of_the_first_batch(batches):
    steps = alone({"step": "standardise"})
    first = batches[0][0].X
    scaler = StandardScaler().fit(first)
    clear = np.sqrt(scaler.var_) > 1e-6 * (np.abs(first).max(axis=0) + 1.0)
    for block, time in batches:
        steps, found = steps.apply(block, time=time)
        expected = scaler.transform(block.X)[:, clear]
        np.testing.assert_allclose(found.X[:, clear], expected, rtol=1e-6, atol=1e-6)


@given(st.floats(-1e80, 1e80), st.integers(2, 50))
def test_a_constant_column_becomes_zero_and_keeps_its_unit(value, n_rows):
    for mode in ("frozen", "running"):
        steps, block = alone({"step": "standardise", "mode": mode}).apply(
            Block.of(np.full((n_rows, 1), value))
        )
        assert (block.X == 0.0).all()
        steps, block = steps.apply(Block.of(np.full((n_rows, 1), value)))
        assert (block.X == 0.0).all()
        assert std(steps.steps[0].learned) == [1.0]


def test_missing_entries_stay_missing_and_are_ignored():
    X = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan], [np.nan, 9.0, np.nan]])
    steps, block = alone({"step": "standardise"}).apply(Block.of(X))
    expected = [[-1.0, np.nan, np.nan], [1.0, -1.0, np.nan], [np.nan, 1.0, np.nan]]
    np.testing.assert_array_equal(block.X, expected)
    later = np.array([[2.0, 7.0, 4.0]])
    np.testing.assert_array_equal(steps.apply(Block.of(later))[1].X, [[0.0, 0.0, 4.0]])


@pytest.mark.parametrize("table", [{"step": "pca", "n": 1}, {"step": "random_projection", "n": 1}])
def test_rows_with_missing_entries_cannot_be_projected(table):
    X = np.array([[1.0, 2.0], [np.nan, 1.0], [3.0, 5.0], [4.0, 4.0]])
    _, block = alone(table).apply(Block.of(X))
    assert block.row.tolist() == [0, 2, 3]
    assert block.rejects[0].row == 1
    assert table["step"] in block.rejects[0].reason


def test_clip_bounds_the_output():
    steps, _ = alone({"step": "standardise", "clip": 3.0}).apply(Block.of(np.array([[0.0], [2.0]])))
    _, block = steps.apply(Block.of(np.array([[1.5], [100.0], [-1e9]])))
    np.testing.assert_array_equal(block.X, [[0.5], [3.0], [-3.0]])


def test_a_row_that_a_step_makes_too_large_is_rejected():
    steps, _ = alone({"step": "standardise"}).apply(Block.of(np.array([[0.0], [1e-90]])))
    _, block = steps.apply(Block.of(np.array([[1e-90], [1e90]])))
    assert block.row.tolist() == [0]
    assert "no model can take" in block.rejects[0].reason


def test_a_block_without_valid_rows_changes_nothing():
    steps = Steps.build([{"step": "standardise"}, {"step": "pca", "n": 2}])
    after, block = steps.apply(Block.rejected("torn"))
    assert after is steps
    assert block.n_rows == 1


@pytest.mark.parametrize("layout", ["F", "strided", "float32"])
def test_the_memory_layout_of_rows_does_not_change_results(layout):
    X = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32).astype(np.float64)
    other = {
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "float32": X.astype(np.float32),
    }[layout]
    steps = Steps.build([{"step": "standardise"}, {"step": "pca", "n": 3}])
    same(steps.apply(Block.of(X))[1], steps.apply(Block.of(other))[1])


def test_entries_of_a_sparse_row_may_come_in_any_order():
    tidy = sparse.csr_array(np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]))
    untidy = sparse.csr_array(
        (np.array([3.0, 0.5, 0.5, 2.0]), np.array([2, 0, 0, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    steps = alone({"step": "standardise", "centre": False})
    same(steps.apply(Block.of(untidy))[1], steps.apply(Block.of(tidy))[1])
    assert untidy.nnz == 4


@given(st.integers(0, 5))
def test_sparse_and_dense_rows_are_scaled_and_selected_alike(seed):
    X = np.random.default_rng(seed).poisson(0.7, size=(20, 3)).astype(float)
    steps = Steps.build(
        [{"step": "select", "drop": ["y"]}, {"step": "standardise", "centre": False, "clip": 2.5}]
    ).with_columns(NAMES)
    after, found = steps.apply(Block.of(sparse.csr_array(X)))
    known, expected = steps.apply(Block.of(X))
    assert sparse.issparse(found.X) and found.X.format == "csr"
    np.testing.assert_allclose(found.X.toarray(), expected.X, rtol=1e-12)
    for name in ("mean", "squares"):
        left, right = (s.steps[1].learned[name] for s in (after, known))
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_pca_agrees_with_scikit_learn_up_to_sign(whiten, seed):
    rng = np.random.default_rng(seed)
    first, later = (rng.normal(size=(200, 8)) @ rng.normal(size=(8, 8)) for _ in range(2))
    oracle = PCA(4, whiten=whiten, svd_solver="full").fit(first)
    steps, _ = alone({"step": "pca", "n": 4, "whiten": whiten}).apply(Block.of(first))
    _, found = steps.apply(Block.of(later))
    np.testing.assert_allclose(np.abs(found.X), np.abs(oracle.transform(later)), rtol=1e-7)


def test_the_largest_entry_of_each_pca_axis_is_positive():
    X = np.random.default_rng(5).normal(size=(50, 6))
    for rows in (X, -X):
        steps, _ = alone({"step": "pca", "n": 6}).apply(Block.of(rows))
        axes = steps.steps[0].learned["axes"]
        assert (axes[np.abs(axes).argmax(axis=0), range(6)] > 0).all()


def test_whitening_does_not_scale_constant_directions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1)) @ np.array([[3.0, 4.0]])
    _, block = alone({"step": "pca", "n": 2, "whiten": True}).apply(Block.of(X))
    assert block.X[:, 0].std(ddof=1) == pytest.approx(1.0)
    assert np.abs(block.X[:, 1]).max() < 1e-12


@pytest.mark.parametrize("kind", ["gaussian", "signs"])
def test_random_projection_keeps_squared_distances_on_average(kind):
    """Squared length over 4000 columns: its standard deviation is at most 0.05, the bound is 5."""
    X = np.random.default_rng(0).normal(size=(1, 64))
    steps = alone({"step": "random_projection", "n": 4000, "kind": kind, "seed": 1})
    _, block = steps.apply(Block.of(X))
    assert (block.X**2).sum() / (X**2).sum() == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize("kind", ["gaussian", "signs"])
def test_random_projection_is_the_same_with_every_kernel_and_seed_by_seed(kind, monkeypatch):
    drawn = {}
    for kernels in ("numpy", "auto"):
        projection_matrix.cache_clear()
        monkeypatch.setenv("SCSTREAM_KERNELS", kernels)
        drawn[kernels] = dense(projection_matrix(40, 6, 9, kind))
    np.testing.assert_array_equal(drawn["numpy"], drawn["auto"])
    assert (drawn["numpy"] != dense(projection_matrix(40, 6, 10, kind))).any()
    sparse_rows = sparse.csr_array(np.eye(40))
    steps = alone({"step": "random_projection", "n": 6, "seed": 9, "kind": kind})
    np.testing.assert_array_equal(steps.apply(Block.of(sparse_rows))[1].X, drawn["numpy"])


def test_the_random_projection_of_a_seed_never_changes():
    """What a seed stands for must not change: model files hold the seed, not the matrix."""
    first = dense(projection_matrix(3, 2, 0, "gaussian"))[:, 0] * np.sqrt(2.0) * 2**20
    assert np.round(first).tolist() == [-1673365, 218866, -565541]
    signs = dense(projection_matrix(9, 3, 0, "signs"))
    assert (
        "".join("0+-"[int(sign)] for sign in np.sign(signs).ravel())
        == "+00000+00-000000-000+-00000"
    )


SCRIPT = """
import hashlib
import numpy as np
from scstream.preprocess.block import Block
from scstream.preprocess import Steps
X = np.random.default_rng(0).normal(size=(3000, 200))
block = Block.of(X, text=[f"row{i % 7} word{i % 11} thing" for i in range(len(X))])
digest = hashlib.sha256()
for tables in (
    [{"step": "standardise"}, {"step": "pca", "n": 20}],
    [{"step": "random_projection", "n": 30}, {"step": "standardise", "mode": "running"}],
    [{"step": "hash_text", "n": 64}, {"step": "random_projection", "n": 8, "kind": "signs"}],
    [{"step": "count_words"}, {"step": "pca", "n": 5}],
):
    _, prepared = Steps.build(tables).apply(block)
    digest.update(prepared.X.tobytes())
print(digest.hexdigest())
"""


def test_neither_blas_threads_nor_the_hash_seed_change_results():
    digests = set()
    for threads, hash_seed in (("1", "0"), ("2", "1"), ("4", "2")):
        environment = {"OPENBLAS_NUM_THREADS": threads, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", SCRIPT]
        run = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=True
        )
        digests.add(run.stdout)
    assert len(digests) == 1


TEXTS = [
    "The red fox and the grey fox.",
    "A fox, a hen: und der grüne Wald",
    "nothing here but words words words",
]


def test_words_are_those_of_scikit_learn():
    analyse = CountVectorizer().build_analyzer()
    assert [words(text) for text in TEXTS] == [analyse(text) for text in TEXTS]


def test_combining_and_composed_letters_are_the_same_word():
    assert words("O\u0308l und Gas") == words("\u00d6l und Gas") == ["\u00f6l", "und", "gas"]


def test_hashed_counts_are_those_of_scikit_learn_up_to_the_order_of_columns():
    """With 2**20 columns these few words do not meet in one, for either hash."""
    n = 1 << 20
    oracle = HashingVectorizer(n_features=n, alternate_sign=False, norm=None).transform(TEXTS)
    block = Block.of(np.zeros((3, 0)), text=TEXTS)
    _, found = alone({"step": "hash_text", "n": n}).apply(block)
    assert found.X.format == "csr" and found.X.dtype == np.float64
    ours = {tuple(column) for column in found.X[:, np.unique(found.X.indices)].toarray().T}
    theirs = {tuple(column) for column in oracle[:, np.unique(oracle.indices)].toarray().T}
    assert ours == theirs
    assert found.X.nnz == oracle.nnz


def test_counted_words_are_those_of_scikit_learn():
    block = Block.of(np.zeros((3, 0)), text=TEXTS)
    oracle = CountVectorizer().fit(TEXTS)
    steps, found = alone({"step": "count_words", "min_count": 1}).apply(block)
    np.testing.assert_array_equal(found.X.toarray(), oracle.transform(TEXTS).toarray())
    assert steps.feature_names(None) == tuple(oracle.get_feature_names_out())
    later = ["unseen fox fox", "the hen"]
    _, found = steps.apply(Block.of(np.zeros((2, 0)), text=later))
    np.testing.assert_array_equal(found.X.toarray(), oracle.transform(later).toarray())


def test_the_vocabulary_is_the_most_frequent_words_without_stop_words():
    texts = ["the the the sea sea sun", "sun sea rain", "fog rain"]
    block = Block.of(np.zeros((3, 0)), text=texts)
    steps, _ = alone({"step": "count_words", "n": 2, "stop_words": "english"}).apply(block)
    assert steps.feature_names(None) == ("rain", "sea")  # of two that tie, the first by alphabet
    steps, _ = alone({"step": "count_words", "min_count": 3}).apply(block)
    assert steps.feature_names(None) == ("sea", "the")
    steps, _ = alone({"step": "count_words", "n": 1, "stop_words": ["The"]}).apply(block)
    assert steps.feature_names(None) == ("sea",)


def test_stop_words_are_words():
    assert all(words(word) == [word] for word in ENGLISH)


@pytest.mark.parametrize("name", ["hash_text", "count_words"])
def test_rows_without_text_or_words_are_rejected(name):
    table = {"step": name} | ({"min_count": 1} if name == "count_words" else {})
    texts = np.array(["good text", None, "", 5, "!?", "more text"], dtype=object)
    block = Block.of(np.zeros((6, 0)), body=texts)
    _, found = Steps.build([table], text="body").apply(block)
    assert found.row.tolist() == [0, 5]
    assert [r.row for r in found.rejects] == [1, 2, 3, 4]
    assert "NoneType" in found.rejects[0].reason
    assert "no word" in found.rejects[1].reason
    _, found = Steps.build([table | {"empty": "keep"}], text="body").apply(block)
    assert found.row.tolist() == [0, 2, 4, 5]


def test_lone_surrogates_are_words_like_others():
    block = Block.of(np.zeros((1, 0)), text=np.array(["ab\udc80cd ok"], dtype=object))
    _, found = alone({"step": "hash_text", "n": 10}).apply(block)
    assert found.X.sum() >= 1


@pytest.mark.parametrize(
    ("tables", "detail"),
    [
        ([{"n": 3}], "step 1 of the pipeline has no name"),
        ([{"step": "standardize"}], "'standardize', which does not exist; choose one of select"),
        ([{"step": ["pca"]}], "which does not exist"),
        ([{"step": "pca", "n": 2}, {"step": "pca", "m": 2}], "step 2 of the pipeline, pca, has no"),
        ([{"step": "pca", "learned": {}}], "has no option 'learned'"),
        ([{"step": "pca", "n": 0}], "whole number from 1, got 0"),
        ([{"step": "pca", "n": True}], "whole number from 1, got True"),
        ([{"step": "pca", "n": 2, "whiten": "yes"}], "true or false"),
        ([{"step": "standardise", "mode": "fast"}], "'frozen' or 'running', got 'fast'"),
        ([{"step": "standardise", "half_life": 5.0}], "only in mode 'running'"),
        ([{"step": "standardise", "mode": "running", "half_life": 0}], "positive number, got 0"),
        ([{"step": "standardise", "mode": "running", "half_life": float("nan")}], "got nan"),
        ([{"step": "standardise", "clip": "3"}], "positive number, got '3'"),
        ([{"step": "standardise", "centre": 1}], "true or false, got 1"),
        ([{"step": "random_projection", "n": 2, "seed": -1}], "whole number from 0, got -1"),
        ([{"step": "random_projection", "n": 2, "kind": "dense"}], "'gaussian' or 'signs'"),
        ([{"step": "select"}], "either 'columns' or 'drop'"),
        ([{"step": "select", "columns": ["x"], "drop": ["y"]}], "either 'columns' or 'drop'"),
        ([{"step": "select", "columns": "x"}], "different names of columns, got 'x'"),
        ([{"step": "select", "columns": ["x", "x"]}], "different names"),
        ([{"step": "select", "drop": []}], "different names"),
        ([{"step": "hash_text", "n": 2.0}], "whole number from 1, got 2.0"),
        ([{"step": "hash_text", "column": ""}], "name of a column of text"),
        ([{"step": "hash_text", "stop_words": "german"}], "'none', 'english' or a list"),
        ([{"step": "hash_text", "empty": "drop"}], "'reject' or 'keep', got 'drop'"),
        ([{"step": "count_words", "min_count": 0}], "whole number from 1, got 0"),
        ([{"step": "standardise"}, {"step": "hash_text"}], "would have no effect"),
    ],
)
def test_a_wrong_configuration_raises(tables, detail):
    with pytest.raises(InputError) as error:
        Steps.build(tables)
    assert detail in str(error.value)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("tables", "detail"),
    [
        ([{"step": "select", "columns": ["w"]}], "'w', but the rows have the columns x, y, z"),
        ([{"step": "select", "drop": ["x", "y", "z"]}], "drops every column"),
        (
            [{"step": "random_projection", "n": 2}, {"step": "select", "drop": ["x"]}],
            "columns without names",
        ),
    ],
)
def test_errors_name_missing_columns(tables, detail):
    with pytest.raises(InputError, match=detail):
        Steps.build(tables).with_columns(NAMES)


@pytest.mark.parametrize(
    ("table", "X", "detail"),
    [
        ({"step": "select", "drop": ["x"]}, np.ones((2, 3)), "call with_columns first"),
        ({"step": "standardise"}, np.ones((1, 3)), "one valid row"),
        ({"step": "standardise"}, sparse.csr_array(np.eye(3)), "centre = false"),
        ({"step": "pca", "n": 4}, np.ones((9, 3)), "4 columns of 3"),
        ({"step": "pca", "n": 2}, np.ones((2, 3)), "only 2 valid rows"),
        ({"step": "pca", "n": 2}, sparse.csr_array((5, 2000)), "random_projection before pca"),
        ({"step": "hash_text"}, np.ones((2, 3)), "the column 'text', but the rows do not have it"),
    ],
)
def test_an_unsuitable_first_batch_raises(table, X, detail):
    with pytest.raises(InputError, match=detail):
        alone(table).apply(Block.of(X))


def test_a_first_batch_without_words_raises():
    block = Block.of(np.zeros((2, 0)), text=["one", "two"])
    with pytest.raises(InputError, match="no word that occurs 2 times"):
        alone({"step": "count_words"}).apply(block)


@pytest.mark.parametrize(
    "table", [{"step": "standardise"}, {"step": "pca", "n": 2}, {"step": "select", "drop": ["x"]}]
)
def test_another_number_of_columns_raises(table):
    steps, _ = alone(table).with_columns(NAMES).apply(Block.of(np.eye(3)))
    with pytest.raises(InputError, match="was fitted to 3 columns and now gets 2"):
        steps.apply(Block.of(np.ones((4, 2))))


def test_feature_names_of_the_model():
    def named(*tables):
        return Steps.build(tables).feature_names(NAMES)

    assert named() == NAMES
    assert named({"step": "standardise"}) == NAMES
    assert named({"step": "select", "columns": ["z", "x"]}) == ("z", "x")
    assert named({"step": "pca", "n": 2}) == ("pca0", "pca1")
    assert named({"step": "random_projection", "n": 2}) is None
    assert named({"step": "hash_text"}) is None
    assert named({"step": "count_words"}) is None  # not yet


@pytest.mark.parametrize(
    "table",
    [
        {"step": "select", "drop": ["x"]},
        {"step": "standardise", "mode": "running", "half_life": 3.0},
        {"step": "random_projection", "n": 2, "kind": "signs"},
        {"step": "pca", "n": 2, "whiten": True},
        {"step": "hash_text", "stop_words": ["an"]},
        {"step": "count_words", "column": "title", "stop_words": "english"},
    ],
    ids=lambda table: table["step"],
)
def test_options_build_the_same_step_again(table):
    steps = Steps.build([table], text="body")
    assert Steps.build(steps.options()).options() == steps.options()
    assert table.items() <= steps.options()[0].items()
    assert table["step"] in STEPS
