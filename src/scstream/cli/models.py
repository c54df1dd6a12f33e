"""Commands about models: fit, predict, inspect, top, tune, bench."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from scstream.cli.calls import flags, guarded, resolved
from scstream.cli.model_options import BatchRows, Family, Force, Format, Model, Rows, Settings
from scstream.cli.options import Json, Sets
from scstream.cli.settings import Given, Layer, nested
from scstream.cli.veil import Veil
from scstream.errors import missing_extra

try:
    import typer
except ImportError as error:
    raise missing_extra("typer", "cli") from error

INTERRUPTED = 130  # exit code of a shell after an interrupt


@guarded
def fit(
    ctx: typer.Context,
    rows: Rows,
    *,
    model: Annotated[Path, typer.Option(metavar="FILE", help="The model file to write.")],
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the cluster of every row there; - is stdout."),
    ] = None,
    batch_rows: BatchRows = None,
    family: Family = None,
    half_life: Annotated[
        float | None,
        typer.Option(metavar="TIME", help="Time after which a row weighs half; inf never forgets."),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(metavar="X", help="How readily a new cluster is believed.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Makes the model repeatable: any number.")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Go on from a model file or from checkpoints."),
    ] = None,
    file: Settings = None,
    format: Format = None,
    sets: Sets = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn the rows of a file and write a model file.

    The file is for predict, inspect, serve and ScStream.load. Progress is a bar on a terminal, and
    JSON lines elsewhere. Ctrl-C and SIGTERM finish the batch in hand, write the model of the rows
    so far, and exit with 130.
    """
    from dataclasses import asdict

    from scstream.cli.fitting import fit as learn
    from scstream.cli.rows import STDIN, check_output, row_settings
    from scstream.cli.show import print_json

    check_output(model, force=force, needed=[rows])
    given = _model_flags(family=family, half_life=half_life, alpha=alpha, seed=seed)
    settings = row_settings(
        rows, format=format, file=file, sets=sets, flags=given | _batch_flags(batch_rows)
    )
    if labels is not None:
        settings["sink"] = _labels_to(labels, [rows, str(model)], as_json=as_json, force=force)
    try:
        fitted = learn(settings, model, ctx.obj, resume=resume, lines=as_json)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json and labels != STDIN:
        print_json(asdict(fitted))
    elif sys.stderr.isatty() and not as_json:
        from scstream.cli.fitting import say

        say(fitted)
    if fitted.interrupted:
        raise typer.Exit(INTERRUPTED)


@guarded
def predict(
    ctx: typer.Context,
    model: Model,
    rows: Rows,
    *,
    labels: Annotated[
        str,
        typer.Option(metavar="FILE", help="Where answers go: .csv, .jsonl, .parquet; - is stdout."),
    ] = "-",
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Pass this column on; may come often."),
    ] = None,
    format: Format = None,
    sets: Sets = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a row cannot be used.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Ask a model about the rows of a file.

    The answer for a row is its cluster (-1 if it belongs to none), the probability of that, the
    probability of a cluster not seen yet, and the log density. Nothing is learned, and memory does
    not grow with the file. A row that cannot be used is left out, counted and reported; `index`
    says which row of the file an answer is for, from 0.
    """
    from scstream.cli.asking import predict as ask
    from scstream.cli.asking import say
    from scstream.cli.opened import open_model, passed_over
    from scstream.cli.rows import STDIN, row_settings
    from scstream.stream.connectors import sink

    kept: Layer = {("schema", "keep"): Given(keep, "--keep")} if keep else {}
    settings = row_settings(rows, format=format, file=None, sets=sets, flags=kept)
    tell = passed_over(ctx.obj, lines=as_json)
    opened = open_model(model, options=_store_options(ctx.obj, sets), emit=tell)
    settings["sink"] = _labels_to(labels, [rows, model], as_json=as_json, force=force)
    asked = ask(
        opened,
        settings,
        sink(**settings["sink"]),
        shown=not as_json and not (labels == STDIN and sys.stdout.isatty()),
    )
    waited = labels != STDIN and sys.stderr.isatty()
    say(asked, ctx.obj, lines=as_json, labels=labels if waited else None)
    if strict and asked.refused:
        raise typer.Exit(1)


@guarded
def inspect(
    ctx: typer.Context,
    model: Model,
    *,
    cluster: Annotated[
        int | None,
        typer.Option(metavar="ID", help="One cluster: its features, unusual ones first."),
    ] = None,
    max_n: Annotated[
        int, typer.Option(metavar="N", min=1, help="Clusters, events or features to show.")
    ] = 12,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Say what a model is, and how healthy.

    Its family and settings, what it has learned, the heaviest clusters and what sets them apart,
    the newest events, and what to know before relying on it.
    """
    from scstream.cli.inspecting import cluster_facts, facts
    from scstream.cli.opened import open_model, passed_over
    from scstream.cli.portrait import show_cluster, show_model
    from scstream.cli.show import print_json

    tell = passed_over(ctx.obj, lines=as_json)
    opened = open_model(model, options=_store_options(ctx.obj, sets), emit=tell)
    if as_json:
        print_json(facts(opened) if cluster is None else cluster_facts(opened, cluster))
    elif cluster is None:
        show_model(opened, max_n=max_n)
    else:
        show_cluster(opened, cluster, max_n=max_n)


@guarded
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
        float, typer.Option(metavar="SECONDS", min=0.1, help="Seconds between two looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Holds the token of the service; or SCSTREAM_TOKEN."),
    ] = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Watch a pipeline or a service while it runs.

    Rows and their rate, clusters that grow and shrink, novelty, log density and events. Press q to
    quit, space to hold the picture. Where the standard output is no terminal one frame is printed;
    with --json one object for each look. It only reads.
    """
    from scstream.cli.moments import watched
    from scstream.cli.top import watch

    options = _store_options(ctx.obj, sets)
    watch(
        watched(place, options=options, token_file=token_file, veil=ctx.obj),
        every=every,
        once=once,
        lines=as_json,
    )


@guarded
def tune(
    ctx: typer.Context,
    rows: Rows,
    *,
    trials: Annotated[int, typer.Option(metavar="N", min=1, help="Settings to try.")] = 30,
    batches: Annotated[int, typer.Option(metavar="N", min=2, help="Batches to try them on.")] = 10,
    held_out: Annotated[
        int,
        typer.Option(metavar="N", min=2, help="Batches after those, to compare with the defaults."),
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
    file: Settings = None,
    format: Format = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Search settings of a model on the first batches.

    Half-life, alpha, prior, motion and family are searched; what is set with --family, --settings
    or --set stays as it is. Each batch is scored before it is learned: by the log density of its
    rows, or by agreement with true classes. The best settings are compared with the defaults on
    later batches that the search has not seen, and printed as TOML for run and fit --settings.
    """
    from scstream.cli.rows import row_settings
    from scstream.cli.show import print_json
    from scstream.cli.tuning import Search
    from scstream.cli.tuning import tune as search

    given = _model_flags(family=family) | _batch_flags(batch_rows)
    settings = row_settings(rows, format=format, file=file, sets=sets, flags=given)
    wanted = Search(
        trials=trials, batches=batches, held_out=held_out, truth=truth, score=score, seed=seed
    )
    tuned = search(settings, wanted, shown=not as_json)
    if as_json:
        print_json(tuned.plain())
    else:
        typer.echo(tuned.toml())


@guarded
def bench(
    ctx: typer.Context,
    *,
    features: Annotated[
        int, typer.Option("--features", "-d", metavar="D", min=1, help="Columns D.")
    ] = 16,
    clusters: Annotated[
        int, typer.Option("--clusters", "-k", metavar="K", min=1, help="Clusters K.")
    ] = 20,
    rows: Annotated[
        int, typer.Option("--rows", "-n", metavar="N", min=1, help="Rows N of a batch.")
    ] = 1000,
    batches: Annotated[int, typer.Option(metavar="N", min=3, help="Batches to learn.")] = 30,
    family: Annotated[str, typer.Option(metavar="NAME", help="gaussian or diagonal.")] = "gaussian",
    seed: Annotated[int, typer.Option(metavar="N", help="Draws the stream.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure how fast this machine is.

    ModelVersion, learning, predicting and saving are timed on rows that are drawn here, with one thread
    and with all.
    """
    from dataclasses import asdict

    from scstream.cli.benching import Stream, measure, show
    from scstream.cli.show import print_json

    stream = Stream(
        n_features=features,
        n_clusters=clusters,
        n_rows=rows,
        n_batches=batches,
        family=family,
        seed=seed,
    )
    measured = measure(stream, shown=not as_json)
    if as_json:
        print_json(asdict(measured))
    else:
        show(measured)


def _model_flags(*, seed: int | None = None, **given: object) -> Layer:
    named: dict[str, tuple[str, object]] = {"random_state": ("--seed", seed)}
    named |= {name: (f"--{name.replace('_', '-')}", value) for name, value in given.items()}
    return {
        ("model", name): Given(value, flag)
        for name, (flag, value) in named.items()
        if value is not None
    }


def _batch_flags(batch_rows: int | None) -> Layer:
    return {} if batch_rows is None else {("batch", "rows"): Given(batch_rows, "--batch-rows")}


def _labels_to(labels: str, needed: list[str], *, as_json: bool, force: bool) -> dict[str, object]:
    """Settings of the sink that a name stands for."""
    from scstream.cli.rows import STDIN, check_output
    from scstream.stream.connectors.files.paths import format_of

    if labels == STDIN:
        return {"kind": "stdout", "format": "jsonl" if as_json else "csv"}
    if format_of(labels) != "parquet":
        check_output(Path(labels), force=force, needed=needed)
    return {"kind": "file", "path": labels, "overwrite": force}


def _store_options(veil: Veil, sets: list[str] | None) -> dict[str, Any] | None:
    """`checkpoint.options`, from flags and variables: how an object store is reached."""
    checkpoint = nested(resolved(veil, None, flags(sets))).get("checkpoint", {})
    options: dict[str, Any] | None = checkpoint.get("options")
    return options
