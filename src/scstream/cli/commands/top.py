"""Options of `scstream top`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import Json, Sets
from scstream.cli.resolve import store_options


@reports_errors
def top(
    ctx: typer.Context,
    place: Annotated[
        str,
        typer.Argument(
            metavar="[PLACE|URL]",
            help="Folder or s3:// address of checkpoints, or http://host:port of a service.",
        ),
    ] = "checkpoints",
    *,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Seconds between two updates.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token of the service; or SCSTREAM_TOKEN."),
    ] = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Watch a pipeline or a service while it runs.

    Shows rows and their rate, growing and shrinking clusters, novelty, log density and events.
    Press q to quit, space to pause. If standard output is not a terminal, one frame is printed;
    with --json, one object for each update. Nothing is changed: it only reads.
    """
    from scstream.cli.secrets import read_token
    from scstream.cli.service_client import ServiceMonitor
    from scstream.cli.summary import CheckpointMonitor
    from scstream.cli.top import Monitor, watch

    monitor: Monitor
    if place.startswith(("http://", "https://")):
        monitor = ServiceMonitor(place, token=read_token(token_file, ctx.obj))
    else:
        monitor = CheckpointMonitor(place, options=store_options(ctx.obj, sets))
    watch(monitor, every=every, once=once, as_json=as_json)
