"""Options of `scstream predict`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import Force, Format, Json, Model, Rows, Sets
from scstream.cli.resolve import store_options
from scstream.cli.settings import Layer, Setting


@reports_errors
def predict(
    ctx: typer.Context,
    model: Model,
    rows: Rows,
    *,
    labels: Annotated[
        str,
        typer.Option(metavar="FILE", help="Output file: .csv, .jsonl, .parquet; - is stdout."),
    ] = "-",
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Copy this column to the output; repeatable."),
    ] = None,
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help="Predict each row's cluster or group.")
    ] = "cluster",
    resolution: Annotated[
        float, typer.Option(help="Of groups: larger values give more and finer groups.")
    ] = 1.0,
    format: Format = None,
    sets: Sets = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a row cannot be used.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict the clusters of the rows of a file.

    The output has, for each row, its cluster (-1 if it belongs to none), the probability of that
    cluster, the probability of a cluster not seen yet, and the log density; `--level group` gives
    its group of clusters instead. Nothing is learned, and memory does not grow with the file. A row
    that cannot be used is skipped, counted and reported; `index` is the number of the row in the
    file, from 0.
    """
    from scstream.cli.load import load_model, skip_reporter
    from scstream.cli.predict import predict_file, print_result
    from scstream.cli.rows import STDIN, label_sink, row_settings
    from scstream.stream.connectors import sink

    flags: Layer = {("schema", "keep"): Setting(keep, "--keep")} if keep else {}
    settings = row_settings(rows, format=format, file=None, sets=sets, flags=flags)
    emit = skip_reporter(ctx.obj, as_json=as_json)
    loaded = load_model(model, options=store_options(ctx.obj, sets), emit=emit)
    settings["sink"] = label_sink(labels, [rows, model], as_json=as_json, force=force)
    result = predict_file(
        loaded,
        settings,
        sink(**settings["sink"]),
        level=level,
        resolution=resolution,
        show_bar=not as_json and not (labels == STDIN and sys.stdout.isatty()),
    )
    shows_file = labels != STDIN and sys.stderr.isatty()
    print_result(result, ctx.obj, as_json=as_json, labels=labels if shows_file else None)
    if strict and result.refused:
        raise typer.Exit(1)
