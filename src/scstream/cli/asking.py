"""`scstream predict`: what a model says about the rows of a file; nothing is learned."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scstream.cli.bar import Bar
from scstream.cli.opened import Opened
from scstream.cli.rows import Extent, chunks, reading
from scstream.cli.show import console
from scstream.cli.veil import Veil
from scstream.core.predictor import Prediction
from scstream.core.state import NOVEL
from scstream.errors import InputError
from scstream.families.base import Rows
from scstream.io.schema import check_entries
from scstream.model import thread_executor
from scstream.preprocess.block import Block, Reject
from scstream.stream import connectors
from scstream.stream.model_version import ModelVersion
from scstream.stream.processor import unsuitable
from scstream.stream.schema import Schema
from scstream.stream.sink import Delivery, Sink


@dataclass
class Asked:
    """How many rows were asked about, and what became of them.

    Examples
    --------
    >>> from scstream.cli.asking import Asked
    >>> print(Asked(rows=2050, novel=3, refused=1, first=17, why="column 'x' is missing."))
    1 of 2,050 rows cannot be used; the first is row 17: column 'x' is missing.
    """

    rows: int = 0
    novel: int = 0
    refused: int = 0
    first: int | None = None  # of the refused
    why: str = ""

    def __str__(self) -> str:
        return (
            f"{self.refused:,} of {self.rows:,} rows cannot be used; the first is row {self.first}:"
            f" {self.why}"
        )

    def count(self, block: Block, verdict: Prediction) -> None:
        """Count the rows of a block."""
        if block.rejects and self.first is None:
            self.first, self.why = self.rows + block.rejects[0].row, block.rejects[0].reason
        self.rows += block.n_rows
        self.refused += len(block.rejects)
        self.novel += int((verdict.label == NOVEL).sum())


def predict(
    opened: Opened, settings: Mapping[str, Any], sink: Sink, *, shown: bool = True
) -> Asked:
    """Ask a model about every row, and write what it says.

    Memory does not grow with the number of rows.

    Parameters
    ----------
    opened : Opened
        The model.
    settings : mapping
        The source, and of the schema what is kept, or other names of the features.
    sink : Sink
        Where answers go.
    shown : bool
        Draw a bar if the standard error is a terminal.

    Returns
    -------
    Asked
        How many rows there were.
    """
    asked, extent = Asked(), Extent.of(settings)
    schema = _schema(opened, settings.get("schema", {}))
    source = connectors.source(**settings["source"])
    labels = settings.get("sink", {}).get("path")
    with reading(str(settings["source"].get("path", "standard input")), labels=labels):
        reader = source.reader(schema)  # type: ignore[attr-defined]  # files and pipes have it
        with Bar(extent.total, shown=shown) as bar:
            for number, (rows, after) in enumerate(chunks(source, reader)):
                if not asked.rows:
                    _check_width(opened, reader.schema)
                    sink.open(None)
                start = asked.rows
                block, verdict = judged(opened.reading, rows)
                asked.count(block, verdict)
                sink.write(Delivery("predict", number, _columns(start, block, verdict, schema)))
                if labels is None:
                    sink.flush()  # who reads the standard output waits for it
                bar.move(extent.at(after), f"{asked.rows:,} rows")
        if asked.rows:
            sink.flush()
        sink.close()
    if asked.rows and asked.refused == asked.rows:
        raise InputError(f"{asked} No row was asked about.")
    return asked


def judged(model: ModelVersion, block: Block) -> tuple[Block, Prediction]:
    """Prepare rows as the pipeline would, refuse those that it would refuse, and ask about them.

    Parameters
    ----------
    model : ModelVersion
        The model.
    block : Block
        Some rows.

    Returns
    -------
    Block, Prediction
        The rows, and the answers for those that are not refused.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.asking import judged
    >>> from scstream.model import Settings
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> model = ModelVersion(0, 1, 0.0, None, model, Steps())
    >>> block, verdict = judged(model, Block.of(np.array([[3.0], [900.0]])))
    >>> verdict.label, block.rejects
    (array([ 1, -1]), ())
    """
    if len(block.row):
        _, block = model.steps.apply(block)
    if not len(block.row):
        none = np.zeros(0)
        return block, Prediction(none.astype(np.int64), none, none, none)

    def check(X: Rows) -> None:
        check_entries(X, model.model.family)
        model.model.family.check(X)

    refused = unsuitable(check, block.X)
    block = block.reject([Reject(int(block.row[i]), why) for i, why in refused])
    return block, model.model.at().predict(block.X, run=thread_executor(-1).map)


def _schema(opened: Opened, given: Mapping[str, Any]) -> Schema:
    """The columns of the model; a caller may keep others, and name those that have no names."""
    known = opened.schema
    features = known.features if known.features is not None else given.get("features")
    return replace(known, features=features, keep=given.get("keep", ()))


def _check_width(opened: Opened, schema: Schema) -> None:
    if opened.reading.columns is not None or schema.features is None:
        return
    n_features = opened.reading.model.family.n_features
    if len(schema.features) != n_features:
        raise InputError(
            f"the rows have {len(schema.features)} columns of numbers ({', '.join(schema.features)}"
            f"), and the model has {n_features} without names; say which of them it learned, in "
            'their order, with --set \'schema.features=["x", "y"]\'.'
        )


def _columns(start: int, block: Block, verdict: Prediction, schema: Schema) -> dict[str, Any]:
    return {
        "index": start + block.row,
        **{name: block.extra[name] for name in schema.keep if name in block.extra},
        "cluster": verdict.label,
        "probability": verdict.probability,
        "novelty": verdict.novelty,
        "log_density": verdict.log_density,
    }


def say(asked: Asked, veil: Veil, *, lines: bool, labels: str | None = None) -> None:
    """Tell on the standard error what became of the rows, or to people only what went wrong.

    Parameters
    ----------
    asked : Asked
        What became of them.
    veil : Veil
        Knows the secrets.
    lines : bool
        Write a line of JSON.
    labels : str, optional
        The file with the answers, if somebody waited at a terminal for it.

    Examples
    --------
    >>> from scstream.cli.asking import Asked, say
    >>> from scstream.cli.veil import Veil
    >>> say(Asked(rows=2050), Veil(), lines=False)
    """
    if lines:
        from scstream.cli.logs import Log

        Log(veil).tell("predicted", **vars(asked))
        return
    if asked.refused:
        sys.stderr.write(f"scstream: {asked}\n")
    if labels is not None:
        words = f"{asked.rows:,} rows, {asked.novel:,} of them novel: {labels}"
        console(stderr=True).print(words, markup=False, soft_wrap=True)
