"""What all commands share: settings from everywhere, and errors as sentences with an exit code."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from scstream.cli.settings import (
    Given,
    Layer,
    layered,
    nested,
    read_environment,
    read_file,
    read_sets,
)
from scstream.cli.veil import Veil
from scstream.errors import InputError, MissingExtra, ScStreamError, StreamError, missing_extra

try:
    import typer
except ImportError as error:
    raise missing_extra("typer", "cli") from error

if TYPE_CHECKING:
    from scstream.stream.store import Store

UNEXPECTED = 70  # exit code of a defect
Command = TypeVar("Command", bound=Callable[..., None])


def guarded(command: Command) -> Command:
    """Turn errors of a command into a sentence and an exit code; a defect shows its traceback."""

    @functools.wraps(command)
    def act(*positional: Any, **named: Any) -> None:
        is_service = command.__name__ in ("run", "serve")
        logged = named["as_json"] or (is_service and not sys.stderr.isatty())
        try:
            command(*positional, **named)
        except (typer.Exit, BrokenPipeError):
            raise
        except ScStreamError as error:
            _say(error, str(error), code_of(error), logged=logged)
            raise typer.Exit(code_of(error)) from None
        except Exception as error:
            _say(error, traceback.format_exc().rstrip(), UNEXPECTED, logged=logged)
            raise typer.Exit(UNEXPECTED) from None

    return cast(Command, act)


def code_of(error: ScStreamError) -> int:
    """Return the exit code that an error ends the program with.

    Examples
    --------
    >>> from scstream.cli.calls import code_of
    >>> from scstream.errors import InputError, SourceGap
    >>> code_of(SourceGap("...")), code_of(InputError("..."))
    (12, 2)
    """
    if isinstance(error, StreamError):
        return error.exit_code
    return 2 if isinstance(error, InputError | MissingExtra) else 1


def _say(error: Exception, detail: str, code: int, *, logged: bool) -> None:
    if logged:
        from scstream.cli.logs import Log

        Log(Veil()).tell("error", error=type(error).__name__, detail=detail, exit_code=code)
    else:
        sys.stderr.write(f"scstream: {detail}\n")


def resolved(veil: Veil, file: Path | None, *flags: Layer) -> Layer:
    """Return all settings that were given; the veil learns the secrets among them first.

    Examples
    --------
    >>> from scstream.cli.calls import flags, resolved
    >>> from scstream.cli.veil import Veil
    >>> resolved(Veil(), None, flags(["batch.rows=500"]))["batch", "rows"].value
    500
    """
    layers = [] if file is None else [read_file(file, os.environ)]
    merged = layered(*layers, read_environment(os.environ), *flags)
    for key, given in merged.items():
        veil.learn(key[-1], given.value)
    from scstream.cli.defaults import settled

    return settled(merged)


def flags(sets: list[str] | None, folder: str | None = None, **ends: str | None) -> Layer:
    """Return the settings that flags give; `--set` is the most particular of them.

    Examples
    --------
    >>> from scstream.cli.calls import flags
    >>> [".".join(key) for key in flags(["batch.rows=500"], "state", sink="stdout")]
    ['sink.kind', 'checkpoint.folder', 'batch.rows']
    """
    layer: Layer = {}
    for section, text in ends.items():
        if text is not None:
            from scstream.cli.shortcuts import read_shortcut

            layer |= read_shortcut(section, text)
    if folder is not None:
        layer["checkpoint", "folder"] = Given(folder, "--checkpoint")
    return layered(layer, read_sets(sets or []))


def print_settings(layer: Layer, veil: Veil, *, as_json: bool) -> None:
    """Print every setting of a pipeline, what it is and where it comes from.

    Examples
    --------
    >>> from scstream.cli.calls import flags, print_settings, resolved
    >>> from scstream.cli.veil import Veil
    >>> print_settings(resolved(Veil(), None, flags([], source="stdin")), Veil(), as_json=True)
    {"job": {"value": "scstream", "origin": "default"}, "source.kind": {"value": "stdin", ...
    """
    from scstream.cli.defaults import complete
    from scstream.cli.places import Scratch
    from scstream.cli.show import print_json, table
    from scstream.stream.config import build

    build(nested(layer), store=Scratch())  # what cannot be meant is refused here
    shown = {
        ".".join(key): (veil.shown(key[-1], given.value), given.origin)
        for key, given in complete(layer).items()
    }
    if as_json:
        print_json({name: {"value": value, "origin": o} for name, (value, o) in shown.items()})
    else:
        rows = [[name, _written(value), origin] for name, (value, origin) in shown.items()]
        table(["setting", "value", "from"], rows)


def _written(value: Any) -> str:
    """A value as TOML writes it; nothing for nothing."""
    return "" if value is None else json.dumps(value, default=str)


def store(veil: Veil, layer: Layer) -> Store:
    """Open the checkpoints that flags or variables name."""
    from scstream.cli.places import open_store

    return open_store(nested(resolved(veil, None, layer)))
