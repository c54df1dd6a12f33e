"""The command that answers over HTTP: serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from scstream.cli.calls import flags, guarded, resolved
from scstream.cli.options import Json, Sets
from scstream.cli.settings import nested
from scstream.errors import missing_extra

try:
    import typer
except ImportError as error:
    raise missing_extra("typer", "cli") from error


@guarded
def serve(
    ctx: typer.Context,
    model: Annotated[
        str, typer.Argument(help="Model file, or folder or s3:// address of checkpoints.")
    ],
    *,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Holds the token; by default $SCSTREAM_TOKEN."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Another name under which the service is asked."),
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Believe X-Forwarded-For, of this machine only.")
    ] = False,
    learn: Annotated[bool, typer.Option("--learn", help="Allow POST /learn.")] = False,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what was learned there.")
    ] = None,
    save_every: Annotated[
        int, typer.Option(metavar="BATCHES", min=1, help="And so often, besides at the end.")
    ] = 100,
    every: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.05, help="Time between looks for a checkpoint."),
    ] = 2.0,
    stale: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Not ready with an older checkpoint; 0: any."),
    ] = 0.0,
    drain: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Time to go on after SIGTERM, not ready."),
    ] = 0.0,
    max_body: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="Longest body of a request.")
    ] = 2**24,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows of a request.")] = 100_000,
    max_requests: Annotated[int, typer.Option(min=1, help="Most requests at a time.")] = 64,
    max_connections: Annotated[int, typer.Option(min=1, help="Most connections.")] = 1000,
    body_seconds: Annotated[float, typer.Option(help="Time for a body to arrive.")] = 10.0,
    answer_seconds: Annotated[float, typer.Option(help="Time for an answer.")] = 30.0,
    threads: Annotated[int, typer.Option(min=1, help="Threads for large questions.")] = 2,
    page: Annotated[bool, typer.Option(help="Show the live page at /.")] = True,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every request, without what it holds.")
    ] = False,
    spans: Annotated[
        bool, typer.Option("--spans", help="Make spans of OpenTelemetry of requests.")
    ] = False,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Answer questions about rows over HTTP, from a model file or a pipeline that is running.

    A folder or s3:// address of checkpoints is followed: newer checkpoints are taken as they come.
    SIGTERM or Ctrl-C turn /readyz to 503, finish what is being answered and exit with 0; a second
    Ctrl-C does not wait. Logs go to the standard error. GET /docs describes all routes.
    """
    from scstream.cli.serving import Place, run
    from scstream.cli.token import read_token
    from scstream.serve.settings import ServiceSettings

    token = read_token(token_file, ctx.obj)
    settings = ServiceSettings(
        host=host,
        port=port,
        token=token,
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
    layer = resolved(ctx.obj, None, flags(sets, model))
    place = Place(model, nested(layer), every=every, save=save, save_every=save_every)
    run(place, settings, ctx.obj, lines=as_json, page=page, spans=spans)
