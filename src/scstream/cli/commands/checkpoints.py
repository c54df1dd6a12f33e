"""Options of `scstream checkpoints` and `scstream savepoint`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import Folder, Json, Sets
from scstream.cli.resolve import flag_settings, resolve
from scstream.cli.settings import to_tables


@reports_errors
def savepoint(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes, underscores.")],
    *,
    sets: Sets = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Keep the newest checkpoint for ever, under a name; the pipeline may run meanwhile."""
    from scstream.cli.checkpoints import create_savepoint
    from scstream.cli.render import print_json
    from scstream.cli.store import open_store

    store = open_store(to_tables(resolve(ctx.obj, None, flag_settings(sets, folder))))
    info = create_savepoint(store, name)
    batch = info.progress and info.progress.batch
    if as_json:
        print_json({"savepoint": name, "batch": batch, "bytes": info.n_bytes})
    else:
        typer.echo(f"savepoint {name}: batch {batch} is next; start from it with --from {name}")


@reports_errors
def checkpoints(
    ctx: typer.Context, *, sets: Sets = None, folder: Folder = None, as_json: Json = False
) -> None:
    """List the checkpoints and savepoints of a pipeline, the newest first."""
    from scstream.cli.checkpoints import print_checkpoints
    from scstream.cli.store import open_store

    store = open_store(to_tables(resolve(ctx.obj, None, flag_settings(sets, folder))))
    print_checkpoints(store, as_json=as_json)
