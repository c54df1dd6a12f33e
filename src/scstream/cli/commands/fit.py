"""Options of `scstream fit`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from scstream.cli.errors import INTERRUPTED, reports_errors
from scstream.cli.options import BatchRows, Family, Force, Format, Json, Rows, Sets, SettingsFile
from scstream.cli.resolve import model_flags


@reports_errors
def fit(
    ctx: typer.Context,
    rows: Rows,
    *,
    model: Annotated[Path, typer.Option(metavar="FILE", help="The model file to write.")],
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the cluster of every row there; - is stdout."),
    ] = None,
    batch_rows: BatchRows = None,
    family: Family = None,
    half_life: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time after which a row counts half: a number, or 1h; inf never forgets.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(metavar="X", help="Concentration: larger values create clusters more easily."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Makes the model repeatable: any number.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Continue from a model file or from checkpoints."),
    ] = None,
    file: SettingsFile = None,
    format: Format = None,
    sets: Sets = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn the rows of a file and write a model file.

    Use the file with predict, inspect, serve and ScStream.load. Progress is a bar on a terminal,
    and JSON lines elsewhere. Ctrl-C and SIGTERM finish the current batch, write the model of the
    rows so far, and exit with 130.
    """
    from dataclasses import asdict

    from scstream.cli.fit import fit_file, print_result
    from scstream.cli.render import print_json
    from scstream.cli.rows import STDIN, check_output, label_sink, row_settings

    check_output(model, force=force, inputs=[rows])
    flags = model_flags(
        batch_rows=batch_rows, seed=seed, family=family, half_life=half_life, alpha=alpha
    )
    settings = row_settings(rows, format=format, file=file, sets=sets, flags=flags)
    if labels is not None:
        settings["sink"] = label_sink(labels, [rows, str(model)], as_json=as_json, force=force)
    try:
        result = fit_file(settings, model, ctx.obj, resume=resume, as_json=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json and labels != STDIN:
        print_json(asdict(result))
    elif sys.stderr.isatty() and not as_json:
        print_result(result)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
