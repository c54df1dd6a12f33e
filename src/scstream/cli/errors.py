"""How commands report errors: one sentence or one JSON line on standard error, and an exit code."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar, cast

import typer

from scstream.cli.secrets import SecretRedactor
from scstream.errors import InputError, MissingExtra, ScStreamError, StreamError

INTERRUPTED = 130  # exit code of a shell after an interrupt
UNEXPECTED = 70  # exit code of a bug
Command = TypeVar("Command", bound=Callable[..., None])


def reports_errors(command: Command) -> Command:
    """Report the errors of a command. A bug (any other exception) is shown with its traceback."""

    @functools.wraps(command)
    def wrapper(*positional: Any, **named: Any) -> None:
        is_service = command.__name__ in ("run", "serve")
        as_json = named["as_json"] or (is_service and not sys.stderr.isatty())
        try:
            command(*positional, **named)
        except (typer.Exit, BrokenPipeError):
            raise
        except ScStreamError as error:
            _report(error, str(error), exit_code(error), as_json=as_json)
            raise typer.Exit(exit_code(error)) from None
        except Exception as error:
            _report(error, traceback.format_exc().rstrip(), UNEXPECTED, as_json=as_json)
            raise typer.Exit(UNEXPECTED) from None

    return cast(Command, wrapper)


def exit_code(error: ScStreamError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, StreamError):
        return error.exit_code
    return 2 if isinstance(error, InputError | MissingExtra) else 1


def _report(error: Exception, detail: str, code: int, *, as_json: bool) -> None:
    if as_json:
        from scstream.cli.logs import JsonLog

        log = JsonLog(SecretRedactor())  # main.py redacts what is written to standard error
        log.write("error", error=type(error).__name__, detail=detail, exit_code=code)
    else:
        sys.stderr.write(f"scstream: {detail}\n")
