"""The methods of the comparison: the contract of their adapters, their knobs, and the worker."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from benchmarks.paper import environments, worker
from benchmarks.paper.method import METHODS

BATCH, K = 80, 4
PAIRS = [
    pytest.param(method, kind, id=f"{method.name}, {kind}")
    for method in METHODS.values()
    for kind in sorted(method.kinds)
]
HERE = [pair for pair in PAIRS if not pair.values[0].environment]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    label = rng.integers(K, size=3 * BATCH)
    share = 0.02 + np.kron(np.eye(K), np.ones(3))
    counts = rng.multinomial(12, (share / share.sum(axis=1, keepdims=True))[label])
    return {"real": rng.normal(size=(len(label), 2)) + 9.0 * label[:, None], "counts": counts}


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    np.save(folder / "real.npy", rows["real"])
    csr = sparse.csr_array(rows["counts"])
    parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
    np.savez(folder / "counts.npz", **parts, shape=csr.shape)
    return {"real": str(folder / "real.npy"), "counts": str(folder / "counts.npz")}


def request(files, method, kind, out, **changes):
    asked = {"method": method, "params": METHODS[method].untuned(kind), "seed": 5, "kind": kind}
    asked |= {"data": files[kind], "batch": BATCH, "k": K, "first": None, "limit": None}
    return asked | {"out": str(out)} | changes


@pytest.mark.parametrize(("method", "kind"), HERE)
def test_a_method_labels_every_row_and_can_be_repeated(method, kind, files, tmp_path):
    found = []
    for out in (tmp_path / "first.npz", tmp_path / "again.npz"):
        answer = worker.answer(request(files, method.name, kind, out))
        assert answer["error"] is None
        assert (answer["batches"], answer["rows"]) == (3, 3 * BATCH)
        assert answer["version"].startswith(f"{method.package} ")
        with np.load(out) as file:
            found.append(dict(file))
    first, again = found
    assert first["labels"].dtype == np.int64
    assert first["labels"].shape == (3 * BATCH,)
    for name in ("k", "predict_seconds", "learn_seconds"):
        assert first[name].shape == (3,)
    np.testing.assert_array_equal(first["labels"], again["labels"])
    np.testing.assert_array_equal(first["k"], again["k"])


@pytest.mark.parametrize(("method", "kind"), PAIRS)
def test_untuned_parameters_lie_in_the_space(method, kind):
    untuned, knobs = method.untuned(kind), method.knobs(kind)
    assert len({knob.name for knob in knobs}) == len(knobs)
    for knob in knobs:
        assert knob.holds(untuned[knob.name]), knob
    assert json.loads(json.dumps(untuned)) == untuned


def test_what_is_on_record_is_the_default_of_the_package():
    from river import cluster
    from sklearn.cluster import Birch, MiniBatchKMeans

    from scstream import ScStream

    ours, defaults = METHODS["scstream"].untuned("real"), ScStream().get_params()
    assert {name: ours[name] for name in ours.keys() & defaults.keys()}.items() <= defaults.items()
    for name, model in (
        ("river DBSTREAM", cluster.DBSTREAM()),
        ("river DenStream", cluster.DenStream()),
        ("river TextClust", cluster.TextClust()),
        ("scikit-learn Birch", Birch()),
        ("scikit-learn MiniBatchKMeans", MiniBatchKMeans(n_init=3)),
    ):
        method = METHODS[name]
        for parameter, value in method.untuned(min(method.kinds)).items():
            assert parameter == "rows" or getattr(model, parameter) == value, (name, parameter)


def test_the_registry_loads_no_peer():
    code = "import benchmarks.paper.method, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=environments.ROOT, capture_output=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.decode().split()}
    assert not loaded & {"numpy", "scstream", "sklearn", "river", "capymoa", "bnpy", "faiss"}


@pytest.mark.parametrize("name", ["KMeans", "STREAMKMeans", "CluStream", "DBSTREAM", "DenStream"])
def test_all_rows_at_a_time_get_the_labels_that_river_gives_one_by_one(name, rows):
    from benchmarks.paper.methods import river_

    more = {"DenStream": {"n_samples_init": 100, "epsilon": 2.0}}.get(name, {})
    make = {"STREAMKMeans": "stream_kmeans"}.get(name, name.lower())
    told = {"n_features": 2, "k": K, "kind": "real", "seed": 5}
    adapter = getattr(river_, make)(**told, **more)
    learned, asked = rows["real"][:200], rows["real"][200:]
    adapter.learn(learned)
    singly = [
        copy.deepcopy(adapter.model).predict_one(dict(enumerate(row))) for row in asked.tolist()
    ]
    np.testing.assert_array_equal(adapter.predict(asked), singly)
    assert len(set(singly)) > 1


def test_all_texts_at_a_time_get_the_labels_that_river_gives_one_by_one(rows):
    from benchmarks.paper.methods import river_
    from benchmarks.paper.methods.text import words

    adapter = river_.textclust(n_features=12, k=K, kind="counts", seed=5)
    adapter.learn(rows["counts"][: 2 * BATCH])
    asked = rows["counts"][2 * BATCH :]
    singly = [adapter.model.predict_one(row) for row in words(asked)]
    np.testing.assert_array_equal(adapter.predict(asked), singly)
    assert adapter.n_clusters > 1


def test_rows_are_presented_as_asked(rows):
    counts = rows["counts"].copy()
    counts[0] = 0
    dense = worker.present(counts, "unit", sparse=False)
    thin = worker.present(sparse.csr_matrix(counts), "unit", sparse=True)
    np.testing.assert_allclose(thin.toarray(), dense)
    np.testing.assert_allclose((dense**2).sum(axis=1)[1:], 1.0)
    assert not dense[0].any()
    raw = worker.present(sparse.csr_matrix(counts), "raw", sparse=False)
    assert isinstance(raw, np.ndarray) and raw.dtype == np.float64
    np.testing.assert_array_equal(raw, counts)


def test_a_worker_outlives_what_methods_print_raise_and_waste(files, tmp_path):
    out = tmp_path / "out.npz"
    name = "scikit-learn MiniBatchKMeans"
    talk = {"verbose": 1}
    asked = [
        request(files, name, "real", out, params={"no_such_thing": 1}),
        request(files, name, "real", out, params=talk),
        request(files, "river CluStream", "real", out, limit=1e-9),
        request(files, name, "real", out, first=2),
    ]
    with environments.launch("", stderr=subprocess.DEVNULL) as child:
        lines, _ = child.communicate("".join(json.dumps(each) + "\n" for each in asked), timeout=60)
    wrong, loud, slow, right = map(json.loads, lines.splitlines())
    assert wrong["batches"] == 0 and "no_such_thing" in wrong["error"]
    assert (loud["batches"], loud["error"]) == (3, None)
    assert slow["batches"] < 3 and slow["error"] is None
    assert (right["batches"], right["rows"], right["error"]) == (2, 2 * BATCH, None)


@pytest.mark.parametrize("name", sorted({m.environment for m in METHODS.values()} - {""}))
def test_an_environment_says_its_python_and_pins_what_it_needs(name):
    first, *needed = (environments.REQUIREMENTS / f"{name}.txt").read_text().splitlines()
    assert first.startswith("# python 3.")
    assert needed and all("==" in line for line in needed)


def test_an_environment_that_cannot_be_had_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("SCSTREAM_CACHE", str(tmp_path))
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    (tmp_path / "odd.txt").write_text("# python 3.99\nnothing==1\n")
    with pytest.raises(environments.Unavailable, match=r"Python 3\.99 is not on this machine"):
        environments.interpreter("odd")
    assert str(environments.interpreter("")) == sys.executable
