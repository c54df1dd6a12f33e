"""Options of `scstream doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from scstream.cli.errors import reports_errors
from scstream.cli.options import File, Folder, Json, Sets, Sink, Source
from scstream.cli.resolve import flag_settings, resolve
from scstream.cli.settings import to_tables


@reports_errors
def doctor(
    ctx: typer.Context,
    file: File = None,
    *,
    source: Source = None,
    sink: Sink = None,
    sets: Sets = None,
    folder: Folder = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if there is a warning.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the machine and all systems of a pipeline, and report what they guarantee."""
    from scstream.cli.doctor import examine
    from scstream.cli.render import print_json, print_table

    flags = flag_settings(sets, folder, source=source, sink=sink)
    found = [
        {"where": where, "about": f.about, "level": f.level, "detail": ctx.obj.redact(f.detail)}
        for where, f in examine(to_tables(resolve(ctx.obj, file, flags)))
    ]
    if as_json:
        print_json(found)
    else:
        columns = ["level", "where", "about", "detail"]
        print_table(columns, [[each[name] for name in columns] for each in found])
    if strict and any(each["level"] == "warn" for each in found):
        raise typer.Exit(1)
