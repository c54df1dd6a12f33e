"""Options of `scstream run`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import File, Folder, Json, Sets, Sink, Source
from scstream.cli.resolve import flag_settings, print_settings, resolve
from scstream.cli.settings import Setting, to_tables


@reports_errors
def run(
    ctx: typer.Context,
    file: File = None,
    *,
    source: Source = None,
    sink: Sink = None,
    dead_letters: Annotated[
        str | None, typer.Option(metavar="KIND:REST", help="Sink for rows that cannot be used.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Name of the pipeline.")] = None,
    sets: Sets = None,
    folder: Folder = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from the newest checkpoint; fail without one."),
    ] = False,
    resume_or_start: Annotated[
        bool,
        typer.Option(
            "--resume-or-start", help="Continue if there is a checkpoint, else start: for services."
        ),
    ] = False,
    savepoint: Annotated[
        str | None, typer.Option("--from", metavar="SAVEPOINT", help="Continue from a savepoint.")
    ] = None,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Continue although the source has lost messages.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Start although another instance seems to run.")
    ] = False,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="Wait while another instance works, and take over when it stops; all instances "
            "need --standby or checkpoint.lease.",
        ),
    ] = False,
    until: Annotated[
        int | None, typer.Option(metavar="BATCH", min=0, help="Stop before this batch.")
    ] = None,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds between two progress lines in logs.")
    ] = 10.0,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve metrics for Prometheus at /metrics there."),
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve predictions and the live page there."),
    ] = None,
    spans: Annotated[
        bool, typer.Option("--spans", help="Export batches as OpenTelemetry spans.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print every setting and where it comes from."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a pipeline: read rows, learn them in batches, write labels and checkpoints.

    Flags override environment variables (SCSTREAM_SOURCE__URL is source.url), and variables
    override the file. A folder that holds checkpoints is refused without --resume, so that nobody
    continues by accident; name another folder to start anew. SIGTERM or Ctrl-C finish the current
    batch, commit and exit with 0; a second Ctrl-C exits at once. Progress and logs go to standard
    error.
    """
    flags = flag_settings(sets, folder, source=source, sink=sink, dead_letters=dead_letters)
    if job is not None:
        flags["job",] = Setting(job, "--job")
    settings = resolve(ctx.obj, file, flags)
    if standby:
        settings.setdefault(("checkpoint", "lease"), Setting("10s", "--standby"))
    if dry_run:
        print_settings(settings, ctx.obj, as_json=as_json)
        return
    from scstream.cli.exporters import Exporters
    from scstream.cli.run import check_start, run_pipeline

    tables = to_tables(settings)
    may_resume = resume or resume_or_start or standby or savepoint is not None
    check_start(tables, must_resume=resume, may_resume=may_resume)
    run_pipeline(
        tables,
        Exporters(metrics=metrics, serve=serve, spans=spans),
        ctx.obj,
        as_json=as_json,
        every=every,
        savepoint=savepoint,
        accept_gap=accept_gap,
        take_over=take_over,
        until=until,
    )
