"""Writes docs/reference/cli.md from the commands: `python -m docs.make_cli_reference`.

Names, defaults and descriptions come from the functions of the commands. An option without help
is an error.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from typer.models import ArgumentInfo, CommandInfo, Context, OptionInfo

from scstream import errors
from scstream.cli.main import app

PAGE = Path(__file__).with_name("reference") / "cli.md"
HEAD = """\
# Commands

Made by `python -m docs.make_cli_reference` from the code; do not edit.

`pip install "scstream[cli]"` installs the command `scstream`; `serve` also needs the extra `serve`,
and `tune` the extra `tune`. The following holds for all commands:

- `--json` prints JSON: one object, or one line for each event or row.
- Results go to standard output; progress, logs and errors go to standard error.
- Progress bars and live lines are shown on terminals only. `NO_COLOR=1` removes colours; no
  information is given by colour alone.
- An error is one sentence: what is wrong, where, and what to do. With `--json` it is a line of JSON
  with `detail` and `exit_code`.
- Flags override variables such as `SCSTREAM_BATCH__ROWS`, and variables override a settings file.
- Passwords and tokens are replaced by `***` in all output.
- MODEL may also be a folder or `s3://` address of checkpoints; the newest valid one is used. Give
  the options of an object store as `--set checkpoint.options.NAME=VALUE`, or as a variable,
  `SCSTREAM_CHECKPOINT__OPTIONS__NAME`."""
OWN_CODES = {  # besides those of errors
    0: "success; also after SIGTERM or Ctrl-C stopped a pipeline in order",
    1: "another error: read the message; also `doctor --strict` with a warning and "
    "`predict --strict` with a refused row",
    2: "an invalid flag, setting, path or column, or a missing library",
    70: "a bug, with a traceback; please report it",
    130: "interrupted: `run` by a second Ctrl-C, `fit` by the first one, with the model written",
}
PICTURES = {
    "inspect": ["![The picture that scstream inspect prints](../images/inspect.png)"],
    "top": ["![The screen of scstream top](../images/top.png)"],
}


class Line(NamedTuple):
    """One line of a table."""

    name: str
    default: str
    meaning: str


def page() -> str:
    """Return the whole page."""
    return "\n\n".join([HEAD, codes(), *map(section, app.registered_commands)]) + "\n"


def codes() -> str:
    """Return the table of exit codes."""
    known = OWN_CODES | {
        error.exit_code: _begun(inspect.cleandoc(error.__doc__ or "").splitlines()[0])
        for error in errors.StreamError.__subclasses__()
    }
    known[errors.SinkError.exit_code] += "; also if the disk under it is full"
    lines = [f"| {code} | {known[code]} |" for code in sorted(known)]
    return "\n".join(["## Exit codes", "", "| code | meaning |", "|---|---|", *lines])


def section(command: CommandInfo) -> str:
    """Return the section of a command."""
    act = command.callback
    assert act is not None
    name = command.name or act.__name__
    arguments, options = [], []
    usage = [f"scstream {name}"]
    for parameter, info, kind in parameters(act):
        line = line_of(parameter, info, kind)
        if isinstance(info, ArgumentInfo):
            arguments.append(line)
            usage.append(line.name.strip("`"))
        else:
            options.append(line)
            if parameter.default is inspect.Parameter.empty:
                usage.append(line.name.strip("`"))
    words = re.sub(r"\n(?!\n)(?<!\n\n)", " ", inspect.cleandoc(act.__doc__ or ""))
    parts = [f"## scstream {name}", f"```text\n{' '.join(usage)} [OPTIONS]\n```", words]
    parts += [table("argument", arguments)] * bool(arguments)
    return "\n\n".join([*parts, table("option", options), *PICTURES.get(name, ())])


def parameters(
    act: Callable[..., Any],
) -> Iterator[tuple[inspect.Parameter, ArgumentInfo | OptionInfo, Any]]:
    """Yield the parameters of a command, without the context."""
    hints = get_type_hints(act, include_extras=True)
    for name, parameter in inspect.signature(act).parameters.items():
        if hints[name] is Context or "Context" in str(hints[name]):
            continue
        kind, info = get_args(hints[name])
        yield parameter, info, kind


def line_of(parameter: inspect.Parameter, info: ArgumentInfo | OptionInfo, kind: Any) -> Line:
    """Return the line of an option."""
    assert info.help, f"{parameter.name} has no help"
    if isinstance(info, ArgumentInfo):
        return Line(f"`{info.metavar or parameter.name.upper()}`", default(parameter), info.help)
    first = [info.default] if isinstance(info.default, str) else []  # so typer has it
    flags = [*first, *(info.param_decls or ())]
    if kind is bool:
        flags = flags or [f"--{parameter.name}", f"--no-{parameter.name}"]
        return Line(", ".join(f"`{flag}`" for flag in flags), default(parameter), info.help)
    flags = flags or [f"--{parameter.name.replace('_', '-')}"]
    value = info.metavar or _word(kind)
    return Line(", ".join(f"`{flag} {value}`" for flag in flags), default(parameter), info.help)


def default(parameter: inspect.Parameter) -> str:
    """Return the default as text; empty if there is none."""
    if parameter.default is inspect.Parameter.empty:
        return "needed"
    if parameter.default is None or parameter.default is False:
        return ""
    return "on" if parameter.default is True else f"`{parameter.default}`"


def table(what: str, lines: list[Line]) -> str:
    """Return lines as a table."""
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([f"| {what} | default | meaning |", "|---|---|---|", *rows])


def _begun(sentence: str) -> str:
    """Return a sentence as the cell of a table: lower case, no full stop."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _word(kind: Any) -> str:
    plain = [each for each in (get_args(kind) or (kind,)) if each is not NoneType]
    return {"int": "N", "float": "X", "str": "TEXT", "Path": "FILE"}[plain[0].__name__]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
