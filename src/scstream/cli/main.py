"""The commands of `scstream`; what they need is loaded when one of them is used."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, cast

from scstream import __version__
from scstream.cli import models, pipelines, services
from scstream.cli.veil import Veil, VeiledStream
from scstream.errors import missing_extra

try:
    import typer
except ImportError as error:
    raise missing_extra("typer", "cli") from error

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Clusters streams: from a broker or a file to labels in a sink, each row exactly once.",
)


def run_app(arguments: list[str] | None = None) -> None:
    """Run a command and exit; no secret goes through the standard error."""
    veil = Veil(os.environ)
    below = sys.stderr
    sys.stderr = cast(Any, VeiledStream(below, veil))
    try:
        app(arguments, prog_name="scstream", obj=veil)
    finally:
        sys.stderr = below


@app.callback(invoke_without_command=True)
def front(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Clusters streams: from a broker or a file to labels in a sink, each row exactly once."""
    if version:
        typer.echo(f"scstream {__version__}")
        raise typer.Exit


for command in (
    pipelines.run,
    pipelines.doctor,
    pipelines.replay,
    pipelines.savepoint,
    pipelines.checkpoints,
    models.fit,
    models.predict,
    models.inspect,
    models.top,
    models.tune,
    models.bench,
    services.serve,
):
    app.command()(command)
