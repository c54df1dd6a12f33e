"""Options of `scstream replay`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import File, Folder, Json, Sets, Source
from scstream.cli.resolve import flag_settings, resolve
from scstream.cli.settings import to_tables


@reports_errors
def replay(
    ctx: typer.Context,
    file: File = None,
    *,
    start: Annotated[
        str,
        typer.Option("--from", metavar="VERSION|SAVEPOINT", help="Checkpoint to start from."),
    ],
    to: Annotated[
        int | None, typer.Option(metavar="BATCH", min=1, help="Stop before this batch.")
    ] = None,
    source: Source = None,
    sets: Sets = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Learn batches again and compare the labels with those of the first run.

    Nothing is written and nothing is acknowledged, so the pipeline may run meanwhile. Exits with 0
    if all labels are equal, and with 15 if not.
    """
    from scstream.cli.render import print_json
    from scstream.cli.replay import replay_batches
    from scstream.cli.signals import GracefulStop
    from scstream.cli.store import open_store

    settings = to_tables(resolve(ctx.obj, file, flag_settings(sets, folder, source=source)))
    with GracefulStop() as signals:
        result = replay_batches(
            settings, open_store(settings), start=start, to=to, stop=signals.stop
        )
    if as_json:
        print_json({"equal": True, **vars(result)})
    else:
        typer.echo(str(result))
