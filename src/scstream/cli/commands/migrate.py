"""Options of `scstream migrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import Json
from scstream.cli.resolve import resolve


@reports_errors
def migrate(
    ctx: typer.Context,
    old: Annotated[
        Path, typer.Argument(metavar="OLD.TOML", help="Settings file of the job that exists.")
    ],
    new: Annotated[
        Path, typer.Argument(metavar="NEW.TOML", help="Settings file of the job to start.")
    ],
    *,
    position: Annotated[
        str | None,
        typer.Option(
            metavar="same|start",
            help="Where the new job begins to read: where the old checkpoint ends, or at the start "
            "of its source. By default the same if the source is the same.",
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Rows with values of added columns, from which their prior is set."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what changes; write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a new job from the newest checkpoint of an old one; clusters keep ids and names.

    The new job gets a first checkpoint in a folder of its own. Settings that cannot change are
    refused with exit code 19. The old job may go on meanwhile, and is not changed. Start the new
    job with scstream run NEW.TOML --resume.
    """
    from scstream.cli.migrate import migrate_job, print_changes
    from scstream.cli.render import print_json

    result = migrate_job(
        resolve(ctx.obj, old),
        resolve(ctx.obj, new),
        position=position,
        sample=sample,
        dry_run=dry_run,
    )
    if as_json:
        print_json(result.to_dict(ctx.obj))
        return
    print_changes(result, ctx.obj)
    if not dry_run:
        typer.echo(str(result))
