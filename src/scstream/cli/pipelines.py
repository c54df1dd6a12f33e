"""Commands about pipelines: run, doctor, replay, savepoint, checkpoints."""

from __future__ import annotations

from typing import Annotated

from scstream.cli.calls import flags, guarded, print_settings, resolved, store
from scstream.cli.options import File, Folder, Json, Sets
from scstream.cli.settings import Given, nested
from scstream.cli.veil import Veil
from scstream.errors import missing_extra

try:
    import typer
except ImportError as error:
    raise missing_extra("typer", "cli") from error


@guarded
def run(
    ctx: typer.Context,
    file: File = None,
    *,
    source: Annotated[
        str | None,
        typer.Option(metavar="KIND:REST", help="file:rows.csv, nats://host:4222/stream, stdin ..."),
    ] = None,
    sink: Annotated[
        str | None, typer.Option(metavar="KIND:REST", help="file:labels.csv, stdout ...")
    ] = None,
    dead_letters: Annotated[
        str | None, typer.Option(metavar="KIND:REST", help="Where rows go that cannot be used.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Name of the pipeline.")] = None,
    sets: Sets = None,
    folder: Folder = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint; one must be there.")
    ] = False,
    resume_or_start: Annotated[
        bool,
        typer.Option(
            "--resume-or-start", help="Go on if there is a checkpoint, else begin: for services."
        ),
    ] = False,
    savepoint: Annotated[
        str | None, typer.Option("--from", metavar="SAVEPOINT", help="Go on from a savepoint.")
    ] = None,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on although the source has lost messages.")
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Start although another instance seems to run.")
    ] = False,
    until: Annotated[
        int | None, typer.Option(metavar="BATCH", min=0, help="End before this batch.")
    ] = None,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between two lines of counts in logs.")
    ] = 10.0,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Metrics for Prometheus, at /metrics there."),
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Answer questions, and show the page, there."),
    ] = None,
    spans: Annotated[
        bool, typer.Option("--spans", help="Make spans of OpenTelemetry of batches.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only print every setting and where it comes from."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a pipeline: read rows, learn them in batches, write labels, keep checkpoints.

    Flags win over variables (SCSTREAM_SOURCE__URL is source.url), variables over the file. A folder
    that holds checkpoints is refused without --resume, so that nobody goes on by accident; begin
    anew with another folder. SIGTERM or Ctrl-C finish the batch in hand, commit and exit with 0; a
    second Ctrl-C ends at once. Counts and logs go to the standard error.
    """
    given = flags(sets, folder, source=source, sink=sink, dead_letters=dead_letters)
    if job is not None:
        given["job",] = Given(job, "--job")
    layer = resolved(ctx.obj, file, given)
    if dry_run:
        print_settings(layer, ctx.obj, as_json=as_json)
        return
    from scstream.cli.onlookers import Onlookers
    from scstream.cli.running import Start
    from scstream.cli.running import run as run_pipeline

    start = Start(
        resume=resume,
        resume_or_start=resume_or_start,
        savepoint=savepoint,
        accept_gap=accept_gap,
        take_over=take_over,
        until=until,
    )
    onlookers = Onlookers(metrics=metrics, serve=serve, spans=spans)
    run_pipeline(nested(layer), start, ctx.obj, lines=as_json, every=every, onlookers=onlookers)


@guarded
def doctor(
    ctx: typer.Context,
    file: File = None,
    *,
    source: Annotated[str | None, typer.Option(metavar="KIND:REST", help="A source.")] = None,
    sink: Annotated[str | None, typer.Option(metavar="KIND:REST", help="A sink.")] = None,
    sets: Sets = None,
    folder: Folder = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if there is a warning.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Look at the machine and at all systems of a pipeline, and say what they promise."""
    from scstream.cli.doctor import examine
    from scstream.cli.show import print_json, table

    veil: Veil = ctx.obj
    settings = nested(resolved(veil, file, flags(sets, folder, source=source, sink=sink)))
    found = [
        {"where": where, "about": f.about, "level": f.level, "detail": veil.hide(f.detail)}
        for where, f in examine(settings)
    ]
    if as_json:
        print_json(found)
    else:
        names = ["level", "where", "about", "detail"]
        table(names, [[each[name] for name in names] for each in found])
    if strict and any(each["level"] == "warn" for each in found):
        raise typer.Exit(1)


@guarded
def replay(
    ctx: typer.Context,
    file: File = None,
    *,
    start: Annotated[
        str,
        typer.Option("--from", metavar="VERSION|SAVEPOINT", help="Checkpoint to begin with."),
    ],
    to: Annotated[
        int | None, typer.Option(metavar="BATCH", min=1, help="End before this batch.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="KIND:REST", help="The source.")] = None,
    sets: Sets = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Learn batches again and compare the labels with those of the first time.

    Nothing is written and nothing is acknowledged, so that an instance may run meanwhile. Exits
    with 0 if all labels are the same, and with 15 if not.
    """
    from scstream.cli.places import open_store
    from scstream.cli.replay import replay as learn_again
    from scstream.cli.running import Drain
    from scstream.cli.show import print_json

    settings = nested(resolved(ctx.obj, file, flags(sets, folder, source=source)))
    with Drain() as drain:
        verdict = learn_again(settings, open_store(settings), start=start, to=to, stop=drain.stop)
    if as_json:
        print_json({"equal": True, **vars(verdict)})
    else:
        typer.echo(str(verdict))


@guarded
def savepoint(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes, underscores.")],
    *,
    sets: Sets = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Keep the newest checkpoint for ever, under a name; the pipeline may run meanwhile."""
    from scstream.cli.checkpoints import save
    from scstream.cli.show import print_json

    kept = save(store(ctx.obj, flags(sets, folder)), name)
    batch = kept.progress and kept.progress.batch
    if as_json:
        print_json({"savepoint": name, "batch": batch, "bytes": kept.n_bytes})
    else:
        typer.echo(f"savepoint {name}: batch {batch} is next; start from it with --from {name}")


@guarded
def checkpoints(
    ctx: typer.Context, *, sets: Sets = None, folder: Folder = None, as_json: Json = False
) -> None:
    """List the checkpoints and savepoints of a pipeline, the newest first."""
    import time

    from scstream.cli.checkpoints import kept_in, owners_of, show
    from scstream.cli.show import print_json

    there = store(ctx.obj, flags(sets, folder))
    if not as_json:
        show(there)
        return
    owners = owners_of(there)
    print_json([kept.plain(owners, now=time.time()) for kept in kept_in(there)])
