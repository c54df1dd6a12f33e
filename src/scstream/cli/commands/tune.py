"""Options of `scstream tune`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import BatchRows, Family, Format, Json, Rows, Sets, SettingsFile
from scstream.cli.resolve import model_flags


@reports_errors
def tune(
    ctx: typer.Context,
    rows: Rows,
    *,
    trials: Annotated[int, typer.Option(metavar="N", min=1, help="Settings to try.")] = 30,
    batches: Annotated[int, typer.Option(metavar="N", min=2, help="Batches to try them on.")] = 10,
    held_out: Annotated[
        int,
        typer.Option(metavar="N", min=2, help="Later batches, to compare with the defaults."),
    ] = 10,
    truth: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="True classes, if you have them.")
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="density, ari or nmi; by default density, ari with --truth."
        ),
    ] = None,
    batch_rows: BatchRows = None,
    family: Family = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Makes the search repeatable.")] = 0,
    file: SettingsFile = None,
    format: Format = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Search for good model settings on the first batches.

    Searches half-life, alpha, prior, motion and family; what you set with --family, --settings or
    --set stays fixed. Each batch is scored before it is learned: by the log density of its rows, or
    by agreement with true classes. The best settings are compared with the defaults on later
    batches that the search has not seen, and printed as TOML for run and fit --settings.
    """
    from scstream.cli.render import print_json
    from scstream.cli.rows import row_settings
    from scstream.cli.tune import SearchOptions, tune_model

    flags = model_flags(batch_rows=batch_rows, family=family)
    settings = row_settings(rows, format=format, file=file, sets=sets, flags=flags)
    search = SearchOptions(
        trials=trials, batches=batches, held_out=held_out, truth=truth, score=score, seed=seed
    )
    result = tune_model(settings, search, show_bar=not as_json)
    if as_json:
        print_json(result.to_dict())
    else:
        typer.echo(result.to_toml())
