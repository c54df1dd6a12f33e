"""Options of `scstream serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import Json, Model, Sets
from scstream.cli.resolve import flag_settings, resolve
from scstream.cli.settings import to_tables


@reports_errors
def serve(
    ctx: typer.Context,
    model: Model,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the token; by default $SCSTREAM_TOKEN."),
    ] = None,
    write_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the token to edit clusters; by default $SCSTREAM_WRITE_TOKEN.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another host name that requests may use."),
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Trust X-Forwarded-For from this machine.")
    ] = False,
    learn: Annotated[bool, typer.Option("--learn", help="Allow POST /learn.")] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the learned model there.")
    ] = None,
    save_every: Annotated[
        int, typer.Option(metavar="BATCHES", min=1, help="Batches between saves; also at the end.")
    ] = 100,
    every: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.05, help="Seconds between checks for checkpoints."),
    ] = 2.0,
    stale: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Not ready without a heartbeat, or a checkpoint, for so long; 0: any.",
        ),
    ] = 0.0,
    drain: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Seconds to keep serving after SIGTERM."),
    ] = 0.0,
    max_body: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="Largest body of a request.")
    ] = 2**24,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows of a request.")] = 100_000,
    max_requests: Annotated[int, typer.Option(min=1, help="Most requests at a time.")] = 64,
    max_connections: Annotated[int, typer.Option(min=1, help="Most connections.")] = 1000,
    body_seconds: Annotated[float, typer.Option(help="Time limit to receive a body.")] = 10.0,
    answer_seconds: Annotated[float, typer.Option(help="Time limit to answer.")] = 30.0,
    threads: Annotated[int, typer.Option(min=1, help="Threads for large requests.")] = 2,
    page: Annotated[bool, typer.Option(help="Show the live page at /.")] = True,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every request, without its content.")
    ] = False,
    spans: Annotated[
        bool, typer.Option("--spans", help="Export requests as OpenTelemetry spans.")
    ] = False,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Serve predictions over HTTP, from a model file or from a running pipeline.

    A folder or s3:// address of checkpoints is followed: new checkpoints are loaded as they appear.
    SIGTERM or Ctrl-C turn /readyz to 503, finish the current requests and exit with 0; a second
    Ctrl-C does not wait. Logs go to standard error. GET /docs describes all routes.
    """
    from scstream.cli.secrets import WRITE_TOKEN, read_token
    from scstream.cli.serve import serve_model
    from scstream.serve.settings import ServiceSettings

    token = read_token(token_file, ctx.obj)
    settings = ServiceSettings(
        host=host,
        port=port,
        token=token,
        write_token=read_token(write_token_file, ctx.obj, variable=WRITE_TOKEN),
        learn=learn,
        hosts=tuple(allow_host or ()),
        proxy=behind_proxy,
        body_bytes=max_body,
        bodies_bytes=max(2**27, max_body),
        rows=max_rows,
        requests=max_requests,
        connections=max_connections,
        body_seconds=body_seconds,
        answer_seconds=answer_seconds,
        threads=threads,
        stale=stale,
        drain=drain,
        access_log=access_log,
    )
    tables = to_tables(resolve(ctx.obj, None, flag_settings(sets, model)))
    serve_model(
        model,
        settings,
        ctx.obj,
        tables=tables,
        every=every,
        save=save,
        save_every=save_every,
        as_json=as_json,
        page=page,
        spans=spans,
    )
