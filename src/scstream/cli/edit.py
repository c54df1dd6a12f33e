"""`scstream edit`: edit the clusters of a pipeline or of a model file."""

from __future__ import annotations

import getpass
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from scstream.cli.render import print_json
from scstream.errors import InputError
from scstream.serve.model import LocalModel
from scstream.stream.edit_queue import EditRequest, submit
from scstream.stream.store import Store


def read_request(
    action: str, cluster: int | None, value: str | None, *, rows: Path | None, **options: Any
) -> EditRequest:
    """Build an edit from arguments of the command line."""
    if options["author"] is None:
        options["author"] = _user()
    values = {"action": action, "id": cluster, "time": time.time(), **options}
    if value is not None and action == "merge":
        if not value.isdigit():
            raise InputError(f"merge needs the ids of two clusters, got {value!r}.")
        values["other"] = int(value)
    elif value is not None:
        values["name"] = value
    if rows is not None:
        try:
            values["rows"] = json.loads(rows.read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(f"{rows} is no JSON list of rows: {error}.") from error
    return EditRequest.of(values)


def edit_pipeline(store: Store, request: EditRequest, *, as_json: bool) -> None:
    """Send an edit to a pipeline."""
    number = submit(store, request)
    if as_json:
        print_json({"edit": number, "applied": False})
    else:
        typer.echo(f"edit {number} was sent; the pipeline applies it before its next batch")


def edit_file(path: Path, request: EditRequest, *, as_json: bool) -> None:
    """Edit a model file."""
    model = LocalModel.open(str(path))
    _, events = model.edit(request)
    model.save(path)
    if as_json:
        print_json({"applied": True, "events": [asdict(event) for event in events]})
        return
    for event in events:
        other = "" if event.other is None else f", {event.other}"
        name = "" if event.name is None else f": {event.name}"
        typer.echo(f"{event.kind} {event.id}{other}{name}")


def _user() -> str:
    """Return the name of the user; a container may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
