"""`scstream predict`: predict the clusters of the rows of a file; nothing is learned."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import numpy as np

from scstream.cli.load import LoadedModel
from scstream.cli.progress import ProgressBar
from scstream.cli.render import console
from scstream.cli.rows import InputSize, explain_os_errors, input_name, read_chunks
from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import Tables
from scstream.compute.choose import thread_executor
from scstream.core.predictor import Prediction, Predictor
from scstream.core.state import NOVEL
from scstream.errors import InputError
from scstream.families.base import Rows
from scstream.io.schema import check_entries
from scstream.preprocess.block import Block, Columns, Reject
from scstream.stream import connectors
from scstream.stream.config import connector_options
from scstream.stream.model_version import ModelVersion
from scstream.stream.processor import unsuitable
from scstream.stream.schema import Schema
from scstream.stream.sink import Delivery, Sink


@dataclass
class PredictResult:
    """Counts of predicted and refused rows."""

    rows: int = 0
    novel: int = 0
    refused: int = 0
    first: int | None = None  # number of the first refused row
    why: str = ""  # its reason

    def __str__(self) -> str:
        return (
            f"{self.refused:,} of {self.rows:,} rows cannot be used; the first is row {self.first}:"
            f" {self.why}"
        )

    def count(self, block: Block, prediction: Prediction) -> None:
        """Count the rows of a block."""
        if block.rejects and self.first is None:
            self.first, self.why = self.rows + block.rejects[0].row, block.rejects[0].reason
        self.rows += block.n_rows
        self.refused += len(block.rejects)
        self.novel += int((prediction.label == NOVEL).sum())


def predict_file(
    loaded: LoadedModel,
    settings: Tables,
    sink: Sink,
    *,
    level: str = "cluster",
    resolution: float = 1.0,
    show_bar: bool = True,
) -> PredictResult:
    """Predict all rows of a source and write the predictions to a sink, chunk by chunk."""
    predictor = loaded.model.at(level=level, resolution=resolution)
    result, size = PredictResult(), InputSize.of(settings)
    schema = _input_schema(loaded, settings.get("schema", {}))
    source = connectors.source(**connector_options(settings["source"]))
    labels = settings.get("sink", {}).get("path")
    with explain_os_errors(input_name(settings), output=labels):
        reader = source.reader(schema)  # type: ignore[attr-defined]  # files and pipes have it
        with ProgressBar(size.total, shown=show_bar) as bar:
            for number, (rows, after) in enumerate(read_chunks(source, reader)):
                if not result.rows:
                    _check_width(loaded, reader.schema)
                    sink.open(None)
                start = result.rows
                block, prediction = predict_block(loaded.version, predictor, rows)
                result.count(block, prediction)
                columns = _columns(start, block, prediction, schema, level=level)
                sink.write(Delivery("predict", number, columns))
                if labels is None:
                    sink.flush()  # the reader of standard output waits for it
                bar.update(size.before(after), f"{result.rows:,} rows")
        if result.rows:
            sink.flush()
        sink.close()
    if result.rows and result.refused == result.rows:
        raise InputError(f"{result} No row was predicted.")
    return result


def predict_block(
    version: ModelVersion, predictor: Predictor, block: Block
) -> tuple[Block, Prediction]:
    """Preprocess rows, reject those that the pipeline would reject, and predict the others."""
    family = version.model.family
    if len(block.row):
        _, block = version.steps.apply(block)
    if not len(block.row):
        none = np.zeros(0)
        return block, Prediction(none.astype(np.int64), none, none, none)

    def check(X: Rows) -> None:
        check_entries(X, family)
        family.check(X)

    refused = unsuitable(check, block.X)
    block = block.reject([Reject(int(block.row[i]), why) for i, why in refused])
    return block, predictor.predict(block.X, run=thread_executor(-1).map)


def _input_schema(loaded: LoadedModel, given: Tables) -> Schema:
    """Return the columns of the model, the columns to keep, and names for unnamed features."""
    known = loaded.schema
    features = known.features if known.features is not None else given.get("features")
    return replace(known, features=features, keep=given.get("keep", ()))


def _check_width(loaded: LoadedModel, schema: Schema) -> None:
    if loaded.version.columns is not None or schema.features is None:
        return
    n_features = loaded.model.family.n_features
    if len(schema.features) != n_features:
        raise InputError(
            f"the rows have {len(schema.features)} columns of numbers ({', '.join(schema.features)}"
            f"), but the model has {n_features} unnamed features; name their columns in order with "
            '--set \'schema.features=["x", "y"]\'.'
        )


def _columns(
    start: int, block: Block, prediction: Prediction, schema: Schema, *, level: str
) -> Columns:
    return {
        "index": start + block.row,
        **{name: block.extra[name] for name in schema.keep if name in block.extra},
        level: prediction.label,
        "probability": prediction.probability,
        "novelty": prediction.novelty,
        "log_density": prediction.log_density,
    }


def print_result(
    result: PredictResult, redactor: SecretRedactor, *, as_json: bool, labels: str | None = None
) -> None:
    """Report refused rows on standard error, and the counts if `labels` names the output file."""
    if as_json:
        from scstream.cli.logs import JsonLog

        JsonLog(redactor).write("predicted", **vars(result))
        return
    if result.refused:
        sys.stderr.write(f"scstream: {result}\n")
    if labels is not None:
        text = f"{result.rows:,} rows, {result.novel:,} of them novel: {labels}"
        console(stderr=True).print(text, markup=False, soft_wrap=True)
