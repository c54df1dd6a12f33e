"""The flavour of MLflow, against MLflow itself, with folders as its stores."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import scstream
from scstream import ScStream
from scstream.errors import CheckpointCorrupt, InputError
from tests.digests import digest

mlflow = pytest.importorskip("mlflow", reason='it is not installed: pip install "scstream[mlflow]"')
pd = pytest.importorskip("pandas", reason='it is not installed: pip install "scstream[mlflow]"')

from mlflow.exceptions import MlflowException  # noqa: E402
from mlflow.models import infer_signature  # noqa: E402

from scstream.mlflow import load_model, log_model, save_model  # noqa: E402

COLUMNS = ["cluster", "probability", "novelty", "log_density"]


def table(n_rows: int = 200, *, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[rng.integers(3, size=n_rows)]
    return pd.DataFrame(centres + rng.normal(size=(n_rows, 2)), columns=["height", "width"])


@pytest.fixture
def model() -> ScStream:
    return ScStream(random_state=0).partial_fit(table()).partial_fit(table(seed=1))


@pytest.fixture
def folder(model: ScStream, tmp_path: Path) -> Path:
    save_model(model, tmp_path / "clusters", input_example=table(3))
    return tmp_path / "clusters"


def test_answers_are_those_of_the_model(model: ScStream, folder: Path) -> None:
    rows = table(50, seed=2)
    rows.iloc[-1] = [500.0, 500.0]
    rows.index = rows.index + 1000
    answers = mlflow.pyfunc.load_model(str(folder)).predict(rows)
    each = model.predict_proba(rows)
    assert list(answers.columns) == COLUMNS
    assert answers.index.equals(rows.index)
    assert np.array_equal(answers.cluster, model.predict(rows))
    assert answers.cluster.iloc[-1] == -1
    assert np.array_equal(answers.probability, each.max(axis=1))
    assert np.array_equal(answers.novelty, each[:, -1])
    assert np.array_equal(answers.log_density, model.score_samples(rows))


def test_arrays_and_sparse_counts(tmp_path: Path) -> None:
    from scipy import sparse

    rng = np.random.default_rng(0)
    counts = sparse.csr_array(rng.multinomial(20, rng.dirichlet(np.ones(8), 3)[np.arange(90) % 3]))
    model = ScStream("multinomial", random_state=0).fit(counts)
    save_model(model, tmp_path / "counts")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "counts"))
    assert np.array_equal(loaded.predict(counts).cluster, model.predict(counts))
    assert np.array_equal(loaded.predict(counts.toarray()).cluster, model.predict(counts))


def test_the_folder_holds_data_and_no_code(model: ScStream, folder: Path, tmp_path: Path) -> None:
    files = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert {"MLmodel", "data/model.scstream", "input_example.json"} < files
    assert {Path(file).suffix for file in files} == {"", ".scstream", ".json", ".yaml", ".txt"}
    model.save(tmp_path / "own.scstream")
    stored = (folder / "data" / "model.scstream").read_bytes()
    assert stored == (tmp_path / "own.scstream").read_bytes()


def test_what_it_needs_is_written_down(model: ScStream, folder: Path, tmp_path: Path) -> None:
    needs = (folder / "requirements.txt").read_text().split()
    assert {f"scstream=={scstream.__version__}", "pandas"} < set(needs)
    save_model(model, tmp_path / "own", pip_requirements=["scstream[plot]"])
    assert "scstream[plot]" in (tmp_path / "own" / "requirements.txt").read_text()
    environment = {"name": "mine", "dependencies": ["python=3.12"]}
    save_model(model, tmp_path / "conda", conda_env=environment)
    assert "name: mine" in (tmp_path / "conda" / "conda.yaml").read_text()


def test_the_example_gives_the_signature(folder: Path) -> None:
    loaded = mlflow.pyfunc.load_model(str(folder))
    assert loaded.metadata.signature.inputs.input_names() == ["height", "width"]
    answers = infer_signature(table(9), loaded.predict(table(9))).outputs
    assert loaded.metadata.signature.outputs == answers
    assert answers.input_names() == COLUMNS
    assert loaded.input_example.equals(table(3))
    swapped = table(9)[["width", "height"]].assign(colour="red")
    assert loaded.predict(swapped).equals(loaded.predict(table(9)))
    with pytest.raises(MlflowException, match="width"):
        loaded.predict(table(9)[["height"]])


def test_a_signature_that_is_given_is_kept(model: ScStream, tmp_path: Path) -> None:
    signature = infer_signature(table(5))
    save_model(model, tmp_path / "model", signature=signature, input_example=table(3))
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert loaded.metadata.signature == signature


def test_without_an_example_there_is_no_signature(model: ScStream, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model", metadata={"team": "sensors"})
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert loaded.metadata.signature is None
    assert loaded.metadata.metadata == {"team": "sensors"}
    with pytest.raises(InputError, match="same order"):
        loaded.predict(table(9)[["width", "height"]])


def test_the_model_itself_goes_on(model: ScStream, folder: Path) -> None:
    again = load_model(str(folder))
    raw = mlflow.pyfunc.load_model(str(folder)).get_raw_model()
    for each in (model, again, raw):
        each.partial_fit(table(seed=3))
    assert digest(again.state_) == digest(raw.state_) == digest(model.state_)


def test_a_kernel_of_ones_own_is_given_again(tmp_path: Path) -> None:
    kernel = scstream.Windowed(lambda age: np.exp(-age), epsilon=0.01)
    model = ScStream(kernel=kernel, random_state=0).fit(table())
    save_model(model, tmp_path / "model")
    again = load_model(str(tmp_path / "model"), kernel=kernel)
    assert digest(again.state_) == digest(model.state_)
    with pytest.raises(InputError, match="kernel"):
        mlflow.pyfunc.load_model(str(tmp_path / "model"))


def test_logged_with_a_run(
    model: ScStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a folder, where a database is usual
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    try:
        with mlflow.start_run():
            info = log_model(model, "clusters", registered_model_name="flows")
        for place in (info.model_uri, "models:/flows/1"):
            assert digest(load_model(place).state_) == digest(model.state_)
            answers = mlflow.pyfunc.load_model(place).predict(table(9))
            assert answers.cluster.tolist() == model.predict(table(9)).tolist()
    finally:
        mlflow.set_tracking_uri(before)


def test_what_is_refused(model: ScStream, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        save_model(ScStream(), tmp_path / "empty")
    with pytest.raises(InputError, match="depth"):
        save_model(model, tmp_path / "empty", input_example=pd.DataFrame({"depth": [1.0]}))
    assert not (tmp_path / "empty").exists()
    with pytest.raises(MlflowException, match="exists"):
        save_model(model, folder)
    (folder / "data" / "model.scstream").write_bytes(b"\x80\x04N.")  # a pickle
    with pytest.raises(CheckpointCorrupt):
        mlflow.pyfunc.load_model(str(folder))


def test_without_mlflow_the_error_says_how_to_install_it() -> None:
    program = "import sys; sys.modules['mlflow'] = None; import scstream.mlflow"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(scstream.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    wanted = (
        'MissingExtra: MLflow is not installed; install it with: pip install "scstream[mlflow]"'
    )
    assert wanted in done.stderr
