"""Options of `scstream inspect`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import Json, Model, Sets
from scstream.cli.resolve import store_options


@reports_errors
def inspect(
    ctx: typer.Context,
    model: Model,
    *,
    cluster: Annotated[
        int | None,
        typer.Option(metavar="ID", help="One cluster: its features, the most unusual first."),
    ] = None,
    max_n: Annotated[
        int, typer.Option(metavar="N", min=1, help="Clusters, events or features to show.")
    ] = 12,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Describe a model and report its health.

    Shows its family and settings, what it has learned, the heaviest clusters and how they differ
    from the others, the newest events, and what to know before relying on it.
    """
    from scstream.cli.inspect import describe_cluster, describe_model
    from scstream.cli.inspect_text import print_cluster, print_model
    from scstream.cli.load import load_model, skip_reporter
    from scstream.cli.render import print_json

    emit = skip_reporter(ctx.obj, as_json=as_json)
    loaded = load_model(model, options=store_options(ctx.obj, sets), emit=emit)
    if as_json:
        print_json(describe_model(loaded) if cluster is None else describe_cluster(loaded, cluster))
    elif cluster is None:
        print_model(loaded, max_n=max_n)
    else:
        print_cluster(loaded, cluster, max_n=max_n)
