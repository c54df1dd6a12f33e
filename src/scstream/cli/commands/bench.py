"""Options of `scstream bench`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import Json


@reports_errors
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
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the random rows.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure how fast this machine is.

    Times reading, learning, predicting and saving on random rows, with one thread and with all.
    """
    from dataclasses import asdict

    from scstream.cli.bench import SyntheticStream, measure, print_result
    from scstream.cli.render import print_json

    stream = SyntheticStream(
        n_features=features,
        n_clusters=clusters,
        n_rows=rows,
        n_batches=batches,
        family=family,
        seed=seed,
    )
    result = measure(stream, show_bar=not as_json)
    if as_json:
        print_json(asdict(result))
    else:
        print_result(result)
