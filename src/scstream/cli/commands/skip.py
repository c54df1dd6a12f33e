"""Options of `scstream skip`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import File, Folder, Json, Sets
from scstream.cli.resolve import flag_settings, resolve
from scstream.cli.settings import to_tables


@reports_errors
def skip(
    ctx: typer.Context,
    file: File = None,
    *,
    first: Annotated[
        str, typer.Option("--from", metavar="OFFSET", help="Offset of the first message.")
    ],
    last: Annotated[
        str | None,
        typer.Option("--to", metavar="OFFSET", help="Offset of the last; by default the first."),
    ] = None,
    partition: Annotated[str, typer.Option(metavar="P", help="Partition, for Kafka only.")] = "",
    sets: Sets = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Skip messages of the source that stop the pipeline, such as one that ends its process.

    The pipeline must be stopped. What is skipped is recorded beside the checkpoints, so that a
    resumed or replayed pipeline skips the same messages; each of them becomes one dead letter.
    Refused if rows of the messages are committed already.
    """
    from scstream.cli.render import print_json
    from scstream.cli.skip import skip_messages
    from scstream.cli.store import open_store

    settings = to_tables(resolve(ctx.obj, file, flag_settings(sets, folder)))
    recorded = skip_messages(
        settings, open_store(settings), first=first, last=last, partition=partition
    )
    if as_json:
        print_json({"partition": partition, "from": recorded.first, "to": recorded.last})
    else:
        typer.echo(f"the pipeline will skip {recorded}; start it with scstream run --resume")
