"""Options of `scstream replay-dead`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import File, Folder, Json, Sets
from scstream.cli.resolve import flag_settings, resolve
from scstream.cli.settings import to_tables


@reports_errors
def replay_dead(
    ctx: typer.Context,
    file: File = None,
    *,
    reason: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only letters whose reason contains this text."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="KIND:REST", help="Where to send them; by default the source."),
    ] = None,
    sets: Sets = None,
    folder: Folder = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count; send and record nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Send dead letters to the broker of the source again, as new messages.

    Letters come from files of JSON lines and must be complete; others are counted and left. What
    was sent is recorded beside the checkpoints, so a letter is sent once however often the command
    runs. If it is killed, up to 500 letters may be sent twice; NATS then stores them once.
    """
    from scstream.cli.addresses import read_address
    from scstream.cli.defaults import parse_raw
    from scstream.cli.render import print_json
    from scstream.cli.replay_dead import replay_letters
    from scstream.cli.store import open_store

    settings = to_tables(resolve(ctx.obj, file, flag_settings(sets, folder)))
    target = None
    if to is not None:
        layer = read_address("source", to)
        for key, setting in layer.items():
            ctx.obj.collect(key[-1], setting.value)
        target = to_tables(parse_raw(layer))["source"]
    result = replay_letters(
        settings, open_store(settings), to=target, reason=reason, dry_run=dry_run
    )
    if as_json:
        print_json(vars(result))
    else:
        typer.echo(str(result))
