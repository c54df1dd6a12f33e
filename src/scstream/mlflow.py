"""Models in MLflow: stored as a model file, answered as a Python function; extra ``mlflow``."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw

from scstream import __version__
from scstream.core.predictor import Predictor
from scstream.errors import missing_extra
from scstream.estimator import ScStream
from scstream.io.header import Json

try:
    from mlflow import artifacts, pyfunc
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types import ColSpec, Schema
except ImportError as error:
    raise missing_extra("MLflow", "mlflow") from error

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

__all__ = ["load_model", "log_model", "save_model"]

_FILE = "model.scstream"
_NUMBERS = ("probability", "novelty", "log_density")
_ANSWERS = Schema([ColSpec("long", "cluster"), *(ColSpec("double", name) for name in _NUMBERS)])


def save_model(
    model: ScStream,
    path: str | os.PathLike[str],
    *,
    signature: ModelSignature | None = None,
    input_example: Any = None,
    **options: Any,
) -> None:
    """Write a model to a folder in the format of MLflow.

    The model is in it as the file that `ScStream.save` writes, which holds no code. What
    ``mlflow.pyfunc.load_model`` makes of the folder has a ``predict`` that takes rows and gives a
    pandas table with the columns ``cluster``, ``probability``, ``novelty`` and ``log_density``.

    Parameters
    ----------
    model : ScStream
        A model that has learned something.
    path : path
        Where to write; a folder that does not exist yet, or an empty one.
    signature : ModelSignature, optional
        Types of columns. By default those of the example and of the answers about it.
    input_example : table, optional
        Some rows, to be kept with the model.
    **options : object
        More arguments of ``mlflow.pyfunc.save_model``, such as ``metadata``.

    Examples
    --------
    >>> import tempfile
    >>> import mlflow
    >>> import pandas
    >>> from scstream import ScStream
    >>> from scstream.mlflow import save_model
    >>> rows = pandas.DataFrame({"size": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(ScStream(random_state=0).fit(rows), f"{folder}/sizes")
    ...     mlflow.pyfunc.load_model(f"{folder}/sizes").predict(rows[:2]).cluster.tolist()
    [0, 0]
    """
    with TemporaryDirectory() as folder:
        stored = _stored(model, folder, signature, input_example, options)
        pyfunc.save_model(path=os.fspath(path), **stored)


def log_model(
    model: ScStream,
    name: str = "model",
    *,
    signature: ModelSignature | None = None,
    input_example: Any = None,
    **options: Any,
) -> ModelInfo:
    """Log a model to MLflow's current run.

    Parameters
    ----------
    model : ScStream
        A model that has learned something.
    name : str
        Name of the model in MLflow.
    signature : ModelSignature, optional
        As in `save_model`.
    input_example : table, optional
        As in `save_model`.
    **options : object
        More arguments of ``mlflow.pyfunc.log_model``, such as ``registered_model_name``.

    Returns
    -------
    ModelInfo
        What MLflow says of it; ``model_uri`` is where to find it.

    Examples
    --------
    A model that has learned nothing is refused before a run is started.

    >>> from scstream import ScStream
    >>> from scstream.mlflow import log_model
    >>> log_model(ScStream(), "clusters")
    Traceback (most recent call last):
    sklearn.exceptions.NotFittedError: This ScStream instance is not fitted yet. ...
    """
    with TemporaryDirectory() as folder:
        stored = _stored(model, folder, signature, input_example, options)
        logged: ModelInfo = pyfunc.log_model(name=name, **stored)
        return logged


def load_model(model_uri: str, *, kernel: Any = None) -> ScStream:
    """Read back the model itself, which can go on learning.

    Parameters
    ----------
    model_uri : str
        Where it is: a folder, or an address such as ``models:/clusters/3``.
    kernel : Kernel or callable, optional
        The kernel of the model if it was a function: a file cannot hold one.

    Returns
    -------
    ScStream
        A model that goes on where the stored one stopped.

    Examples
    --------
    >>> import tempfile
    >>> from scstream import ScStream
    >>> from scstream.mlflow import load_model, save_model
    >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/sizes")
    ...     load_model(f"{folder}/sizes").partial_fit([[0.7]]).state_.n_batches
    2
    """
    folder = artifacts.download_artifacts(artifact_uri=model_uri)
    return ScStream.load(Path(folder, "data", _FILE), kernel=kernel)


class _Predictions:
    """The model as MLflow calls it."""

    def __init__(self, model: ScStream) -> None:
        self.model = model

    def predict(self, X: Any, params: Any = None) -> Any:
        """Return cluster, its probability, novelty and log density of every row."""
        prediction = self.model._predict(Predictor.predict, X, None)
        columns = {"cluster": prediction.label}
        columns |= {name: getattr(prediction, name) for name in _NUMBERS}
        table = nw.from_dict(columns, backend="pandas").to_native()
        if isinstance(X, type(table)):
            table.index = X.index
        return table

    def get_raw_model(self) -> ScStream:
        """Return the model; MLflow calls this by name."""
        return self.model


def _load_pyfunc(path: str) -> _Predictions:
    return _Predictions(ScStream.load(path))  # MLflow calls this by name


def _stored(model: ScStream, folder: str, signature: Any, example: Any, options: Json) -> Json:
    """Save the model in a folder; return the arguments that describe it to MLflow."""
    file = Path(folder, _FILE)
    model.save(file)
    if example is not None:
        _Predictions(model).predict(example)  # raises if the model rejects the example
        if signature is None:
            signature = ModelSignature(infer_signature(example).inputs, _ANSWERS)
    if "conda_env" not in options:
        # MLflow would otherwise load the model in another process to see what it imports.
        options = {"pip_requirements": [f"scstream=={__version__}", "pandas"]} | options
    how = {"loader_module": __name__, "data_path": str(file)}
    return how | {"signature": signature, "input_example": example} | options
