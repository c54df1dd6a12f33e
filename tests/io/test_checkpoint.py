"""The model file: goes on bit for bit, is never half written, and no damage goes unnoticed."""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save as to_safetensors
from scipy import sparse

from scstream import Box, ScStream, Windowed
from scstream.core.state import State
from scstream.errors import CheckpointCorrupt, CheckpointTooNew, InputError
from scstream.families import Gaussian, Multinomial
from scstream.io import model_file
from scstream.io._packing import unseal
from tests.digests import digest

Rows = NDArray[np.float64]


def gaussians(n_batches: int) -> Iterator[Rows]:
    rng = np.random.default_rng(0)
    for t in range(n_batches):
        centre = rng.integers(3, size=(80, 1)) * [9.0, -4.0] + 0.1 * t
        yield centre + rng.normal(size=(80, 2))


def counts(n_batches: int) -> Iterator[Rows]:
    rng = np.random.default_rng(0)
    share = rng.dirichlet(np.full(8, 0.3), size=3)
    for _ in range(n_batches):
        rows = [rng.multinomial(30, share[k]) for k in rng.integers(3, size=80)]
        yield np.array(rows, dtype=np.float64)


def sparse_counts(n_batches: int) -> Iterator[Any]:
    yield from (sparse.csr_array(X) for X in counts(n_batches))


def missing(n_batches: int) -> Iterator[Rows]:
    for X in gaussians(n_batches):
        X[::7, 1] = np.nan
        yield X


def slow_decay(age: Rows) -> Rows:
    return 1.0 / (1.0 + age)


STREAMS: dict[str, tuple[Callable[[int], Iterator[Any]], dict[str, Any]]] = {
    "gaussian": (gaussians, {}),
    "paper": (gaussians, {"algorithm": "paper"}),
    "multinomial": (counts, {"family": "multinomial"}),
    "multinomial CSR": (sparse_counts, {"family": "multinomial"}),
    "diagonal": (missing, {"family": "diagonal", "half_life": None}),
    "mixed": (missing, {"family": [("diagonal", [0]), ("gaussian", [1])]}),
    "box": (gaussians, {"kernel": Box(length=3.0)}),
    "archive": (gaussians, {"archive": True, "half_life": 0.7}),
    "prior": (gaussians, {"prior": {"mean": np.array([1, 2]), "psi": 2.0}}),
    "instance": (gaussians, {"family": Gaussian(np.zeros(2), 0.1, 5.0, np.eye(2))}),
}


@pytest.mark.parametrize(
    ("name", "n_jobs"),
    [
        *((name, 1) for name in STREAMS),
        *((name, n) for name in ("gaussian", "multinomial", "multinomial CSR") for n in (2, 4)),
    ],
)
def test_stop_save_load_resume_equals_uninterrupted(
    name: str, n_jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scstream.core.row_ranges._TYPICAL", 16)
    stream, params = STREAMS[name]
    uninterrupted = ScStream(random_state=0, **params)
    stopped = ScStream(random_state=0, n_jobs=n_jobs, **params)
    path = tmp_path / "m.scstream"
    for X in stream(6):
        uninterrupted.partial_fit(X)
        stopped.partial_fit(X).save(path)
        labels, stopped = stopped.labels_, ScStream.load(path)
        assert digest(labels) == digest(uninterrupted.labels_)
        for attribute in ("state_", "events_", "info_", "config_"):
            expected = getattr(uninterrupted, attribute)
            assert digest(getattr(stopped, attribute)) == digest(expected), attribute
        assert digest(stopped.predict_proba(X)) == digest(uninterrupted.predict_proba(X))
    hyper = [m.family_.hyperparameters() for m in (stopped, uninterrupted)]
    assert repr(hyper[0]) == repr(hyper[1])


def test_parameters_and_feature_names_are_restored(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(next(gaussians(1)), columns=["höhe", "width"])
    params: dict[str, Any] = {
        "prior": {"kappa": 0.5},
        "alpha": 3.0,
        "half_life": 7.0,
        "motion": False,
        "min_weight": 2.0,
        "n_jobs": 2,
        "late": "add",
        "max_events": 5,
        "random_state": 11,
    }
    model = ScStream(**params).fit(table)
    model.save(tmp_path / "m")
    again = ScStream.load(tmp_path / "m")
    assert again.get_params() == model.get_params()
    assert again.feature_names_in_.tolist() == ["höhe", "width"]
    assert again.n_features_in_ == 2
    with pytest.raises(InputError, match="width"):
        again.partial_fit(table[["höhe"]])


def test_objects_that_a_file_cannot_store_raise(tmp_path: Path) -> None:
    X = next(gaussians(1))
    model = ScStream(random_state=np.random.default_rng(3)).fit(X)
    model.save(tmp_path / "m")
    assert ScStream.load(tmp_path / "m").random_state == model.config_.seed
    unseeded = ScStream().fit(X)
    unseeded.save(tmp_path / "m")
    assert ScStream.load(tmp_path / "m").random_state is None
    assert ScStream.load(tmp_path / "m").config_.seed == unseeded.config_.seed
    instance = ScStream(Gaussian(np.zeros(2), 0.1, 5.0, np.eye(2)), random_state=0).fit(X)
    instance.save(tmp_path / "m")
    assert ScStream.load(tmp_path / "m").family.kappa == 0.1
    odd = ScStream(random_state=0).fit(X)
    odd.prior = object()
    settings = replace(odd.model_.settings, prior=odd.prior)
    odd.model_ = odd.model_.replace(settings=settings)
    with pytest.raises(InputError, match=r"prior.*cannot be saved"):
        odd.save(tmp_path / "m")


def test_the_parameters_that_the_next_batch_will_use_are_saved(tmp_path: Path) -> None:
    model = ScStream(random_state=0).fit(next(gaussians(1)))
    model.set_params(alpha=9.0).save(tmp_path / "m")
    again = ScStream.load(tmp_path / "m")
    assert again.alpha == again.config_.alpha == 9.0


def test_parameters_that_every_batch_reads_are_saved_as_they_are_now(tmp_path: Path) -> None:
    model = ScStream(random_state=0).fit(next(gaussians(1)))
    model.set_params(n_jobs=2, max_events=7).save(tmp_path / "m")
    again = ScStream.load(tmp_path / "m")
    assert (again.n_jobs, again.max_events) == (2, 7)
    assert again.model_.settings.n_jobs == 2


def test_an_unknown_family_is_not_written(tmp_path: Path) -> None:
    class Words(Multinomial):
        name = "words"

    model = ScStream(Words(np.ones(8)), random_state=0).fit(next(counts(1)))
    with pytest.raises(InputError, match="FAMILIES"):
        model.save(tmp_path / "m")


@pytest.mark.parametrize("kernel", [slow_decay, Windowed(slow_decay, capacity=3, epsilon=0.01)])
def test_a_custom_forgetting_kernel_must_be_passed_on_load(kernel: Any, tmp_path: Path) -> None:
    batches = list(gaussians(5))
    model = ScStream(kernel=kernel, random_state=0)
    for X in batches[:4]:
        model.partial_fit(X)
    model.save(tmp_path / "m")
    with pytest.raises(InputError, match="pass that kernel again"):
        ScStream.load(tmp_path / "m")
    again = ScStream.load(tmp_path / "m", kernel=kernel)
    by_function = ScStream.load(tmp_path / "m", kernel=slow_decay)
    assert by_function.config_ == again.config_ == model.config_
    for m in (model, again, by_function):
        m.partial_fit(batches[4])
    assert digest(model.state_) == digest(again.state_) == digest(by_function.state_)


def test_a_stored_forgetting_kernel_cannot_be_passed_on_load(tmp_path: Path) -> None:
    ScStream(random_state=0).fit(next(gaussians(1))).save(tmp_path / "m")
    with pytest.raises(InputError, match="holds its own kernel"):
        ScStream.load(tmp_path / "m", kernel=slow_decay)


def test_every_array_of_the_state_has_a_shape() -> None:
    """A new array of `State` or `Archive` needs a line in `_SHAPES`, and then a new golden file."""
    state = State.empty(Multinomial(np.ones(3)))
    arrays = {name for name, value in vars(state).items() if isinstance(value, np.ndarray)}
    arrays |= {f"archive.{name}" for name in vars(state.archive)}
    assert arrays == set(model_file._SHAPES)


# Writing


@pytest.fixture(scope="module")
def model() -> ScStream:
    model = ScStream(random_state=0)
    for X in gaussians(3):
        model.partial_fit(X)
    return model


def test_the_same_model_gives_the_same_bytes(model: ScStream, tmp_path: Path) -> None:
    for name in ("one", "two"):
        model.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    ScStream.load(tmp_path / "one").save(tmp_path / "three")
    assert (tmp_path / "three").read_bytes() == (tmp_path / "one").read_bytes()


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(
    call: str, model: ScStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.scstream"
    model.save(path)
    before = path.read_bytes()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="space"):
        patch.setattr(os, call, fail)
        ScStream(random_state=1).fit(next(gaussians(1))).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.scstream"]


def test_a_file_is_synced_before_its_rename_and_its_folder_after(
    model: ScStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    replace, fsync = os.replace, os.fsync

    def logged_fsync(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        calls.append("sync folder" if folder else "sync file")
        fsync(descriptor)

    def logged_replace(old: Any, new: Any) -> None:
        calls.append("rename")
        assert Path(old).parent == Path(new).parent
        replace(old, new)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "replace", logged_replace)
    model.save(tmp_path / "m")
    assert calls == ["sync file", "rename", "sync folder"]


# Damage


@pytest.fixture(scope="module")
def content(model: ScStream, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "m"
    model.save(path)
    return path.read_bytes()


def refuses(content: bytes, path: Path) -> str:
    path.write_bytes(content)
    with pytest.raises(CheckpointCorrupt, match="restore an older copy") as caught:
        ScStream.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_every_bit_flip_is_detected(content: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for bit in rng.choice(8 * len(content), size=1000, replace=False):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << (bit % 8)
        refuses(bytes(damaged), tmp_path / "m")


def test_every_truncation_is_detected(content: bytes, tmp_path: Path) -> None:
    for length in [*range(0, len(content), 64), len(content) - 1]:
        refuses(content[:length], tmp_path / "m")
    refuses(content + b"\0", tmp_path / "m")


def test_other_files_are_rejected(tmp_path: Path) -> None:
    for other in (b"", b"\0" * 7, b"\xff" * 4096, b"PK\x03\x04", b"\x80\x04.", b"{}" * 50):
        refuses(other, tmp_path / "m")
    refuses(to_safetensors({"a": np.zeros(3)}), tmp_path / "m")
    refuses(to_safetensors({"a": np.zeros(3)}, metadata={"scstream": "?"}), tmp_path / "m")
    with pytest.raises(FileNotFoundError):
        ScStream.load(tmp_path / "nowhere")


def forged(content: bytes, change: Callable[[dict[str, Any], dict[str, Rows]], None]) -> bytes:
    """Content after a change by somebody who knows how to compute the checksums."""
    header, tensors = unseal(content)
    tensors = {name: values.copy() for name, values in tensors.items()}
    change(header, tensors)
    header["tensors"] = {
        name: {
            "dtype": str(values.dtype),
            "shape": list(values.shape),
            "sha256": hashlib.sha256(values.tobytes()).hexdigest(),
        }
        for name, values in tensors.items()
    }
    text = json.dumps(header)
    seal = hashlib.sha256(text.encode()).hexdigest()
    return to_safetensors(tensors, metadata={"scstream": f"{seal}\n{text}"})


def test_a_rewritten_file_with_the_same_content_is_read(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(forged(content, lambda header, tensors: None))
    assert ScStream.load(tmp_path / "m").n_clusters_ == 3


def put(*keys: str, value: Any) -> Callable[[dict[str, Any], dict[str, Rows]], None]:
    def change(header: dict[str, Any], tensors: dict[str, Rows]) -> None:
        place = header
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


def poke(name: str, index: Any, value: float) -> Callable[[dict[str, Any], dict[str, Rows]], None]:
    def change(header: dict[str, Any], tensors: dict[str, Rows]) -> None:
        tensors[name][index] = value

    return change


def reshape(name: str, values: Any) -> Callable[[dict[str, Any], dict[str, Rows]], None]:
    def change(header: dict[str, Any], tensors: dict[str, Rows]) -> None:
        tensors[name] = np.asarray(values)

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (poke("state.past", (0, 0, 1), np.nan), "past is not finite"),
        (poke("state.past", (0, 0, 0), -1.0), "past has a negative count"),
        (poke("state.velocity", (0, 0), np.inf), "velocity is not finite"),
        (poke("state.ids", 0, 7), "ids are not in order"),
        (poke("state.ids", -1, 99), "ids are not in order"),
        (reshape("state.past", np.zeros((3, 2, 5))), "past has the shape"),
        (reshape("state.born", np.zeros(4)), "born has the shape"),
        (reshape("state.born", np.zeros((3, 1))), "born has 2 axes"),
        (reshape("state.born", np.zeros(3, dtype=np.int64)), "State.born has the wrong type"),
        (reshape("state.born", np.zeros(3, dtype=np.float32)), "F32"),
        (reshape("state.extra", np.zeros(3)), "unknown tensor 'state.extra'"),
        (reshape("family.hyperparameters.psi", -np.eye(2)), "positive definite"),
        (reshape("family.hyperparameters.psi", np.eye(3)), "psi"),
        (put("state", "time", value="noon"), "State.time"),
        (put("state", "n_batches", value=1.5), "State.n_batches"),
        (put("state", "unassigned_weight", value={"$float": "nan"}), "not finite"),
        (put("state", "colour", value=1), "'colour'"),
        (put("config", "alpha", value=-1.0), "alpha"),
        (put("config", "births", value=3), "Config.births"),
        (put("config", "surprise", value=3), "'surprise'"),
        (put("config", "kernel", value={"kind": "exponential", "half_life": -2.0}), "half_life"),
        (put("config", "kernel", value={"kind": "code"}), "'code'"),
        (put("family", "name", value="unheard"), "no family is called 'unheard'"),
        (put("family", "hyperparameters", value={}), "unknown tensor"),
        (put("n_clusters", value=4), "sizes"),
        (put("state", "unassigned_weight", value=-1.0), "negative"),
        (put("feature_names", value=["a"]), "feature names"),
        (put("events", value=[{"kind": "born"}]), "Event"),
        (put("config", "late", value="maybe"), "Config.late"),
        (put("events", value=7), "iterable"),
        (put("params", value={"colour": 1}), "colour"),
        (put("params", value=[1, 2]), ""),
        (put("schema", value="1"), ""),
    ],
)
def test_invalid_content_with_a_valid_checksum_is_rejected(
    change: Callable[[dict[str, Any], dict[str, Rows]], None],
    reason: str,
    content: bytes,
    tmp_path: Path,
) -> None:
    assert reason in refuses(forged(content, change), tmp_path / "m")


def test_random_content_with_a_valid_checksum_is_rejected(content: bytes, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rubbish = [None, True, -1, 10**30, 1e308, "", "x", [], {}, [[]], {"$tensor": "state.past"}]

    def mutate(header: dict[str, Any], tensors: dict[str, Rows]) -> None:
        place: Any = header
        while True:
            key = rng.choice(list(place)) if isinstance(place, dict) else rng.integers(len(place))
            inner = place[key]
            if not isinstance(inner, dict | list) or not inner or rng.random() < 0.3:
                break
            place = inner
        place[key] = rubbish[rng.integers(len(rubbish))]

    accepted = 0
    for _ in range(400):
        (tmp_path / "m").write_bytes(forged(content, mutate))
        try:
            ScStream.load(tmp_path / "m")
            accepted += 1
        except (CheckpointCorrupt, CheckpointTooNew):
            pass
    assert 0 < accepted < 300


def test_a_newer_format_is_rejected_with_advice(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(forged(content, put("schema", value=2)))
    with pytest.raises(CheckpointTooNew, match=r"format 2.*upgrade scstream"):
        ScStream.load(tmp_path / "m")
