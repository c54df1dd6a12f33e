"""Options of `scstream edit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import Folder, Json, Sets
from scstream.cli.resolve import flag_settings, resolve
from scstream.cli.settings import to_tables


@reports_errors
def edit(
    ctx: typer.Context,
    action: Annotated[
        str,
        typer.Argument(help="name, merge, split, pin, unpin, move, seed, remove or undo."),
    ],
    cluster: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="The cluster, or the group.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Argument(metavar="[VALUE]", help="The name, or for merge the id that is absorbed."),
    ] = None,
    *,
    group: Annotated[
        bool, typer.Option("--group", help="The ids are of groups, not of clusters.")
    ] = False,
    rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rows to move or seed: a JSON list of lists of numbers."),
    ] = None,
    loose: Annotated[
        bool, typer.Option("--loose", help="The algorithm may undo a merge or split later.")
    ] = False,
    author: Annotated[str | None, typer.Option(help="Who edits; by default the user name.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of the model, if there are many.")] = None,
    batch: Annotated[int | None, typer.Option(min=0, help="Not before this batch.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Edit this model file instead.")
    ] = None,
    sets: Sets = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Edit the clusters of a pipeline, which may run meanwhile, or of a model file.

    The pipeline applies edits in their order, between two batches, and exactly once:
    scstream edit name 7 billing; scstream edit merge 3 9; scstream edit undo.
    """
    from scstream.cli.edit import edit_file, edit_pipeline, read_request
    from scstream.cli.store import open_store

    request = read_request(
        action,
        cluster,
        value,
        level="group" if group else "cluster",
        rows=rows,
        hold=not loose,
        author=author,
        key=key,
        batch=batch,
    )
    if model is not None:
        edit_file(model, request, as_json=as_json)
        return
    store = open_store(to_tables(resolve(ctx.obj, None, flag_settings(sets, folder))))
    edit_pipeline(store, request, as_json=as_json)
