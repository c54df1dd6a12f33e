"""The `scstream` application: its commands, and the redaction of secrets on standard error."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, cast

import typer

from scstream import __version__
from scstream.cli.commands.bench import bench
from scstream.cli.commands.checkpoints import checkpoints, savepoint
from scstream.cli.commands.doctor import doctor
from scstream.cli.commands.edit import edit
from scstream.cli.commands.fit import fit
from scstream.cli.commands.inspect import inspect
from scstream.cli.commands.migrate import migrate
from scstream.cli.commands.predict import predict
from scstream.cli.commands.replay import replay
from scstream.cli.commands.replay_dead import replay_dead
from scstream.cli.commands.run import run
from scstream.cli.commands.serve import serve
from scstream.cli.commands.skip import skip
from scstream.cli.commands.top import top
from scstream.cli.commands.tune import tune
from scstream.cli.secrets import RedactedStream, SecretRedactor

COMMANDS = (
    run,
    doctor,
    replay,
    replay_dead,
    skip,
    savepoint,
    checkpoints,
    edit,
    migrate,
    fit,
    predict,
    inspect,
    top,
    tune,
    bench,
    serve,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Clusters streams: from a broker or a file to labels in a sink, each row exactly once.",
)


def run_app(arguments: list[str] | None = None) -> None:
    """Run a command and exit. Secrets are redacted from everything written to standard error."""
    redactor = SecretRedactor(os.environ)
    stderr = sys.stderr
    sys.stderr = cast(Any, RedactedStream(stderr, redactor))
    try:
        app(arguments, prog_name="scstream", obj=redactor)
    finally:
        sys.stderr = stderr


@app.callback(invoke_without_command=True)
def front(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Clusters streams: from a broker or a file to labels in a sink, each row exactly once."""
    if version:
        typer.echo(f"scstream {__version__}")
        raise typer.Exit


for command in COMMANDS:
    app.command()(command)
