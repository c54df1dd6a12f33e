"""The page of commands is that of the code, and every command keeps the manners of the house."""

import inspect

import pytest
from docs.make_cli_reference import PAGE, codes, line_of, page, parameters, section
from typer.models import CommandInfo, OptionInfo
from typer.testing import CliRunner

from scstream import errors
from scstream.cli.main import app

COMMANDS = {command.callback.__name__: command for command in app.registered_commands}
LONGEST = 64  # characters of the first sentence of a command


def test_the_page_is_that_of_the_code() -> None:
    same = PAGE.read_text(encoding="utf-8") == page()
    assert same, "the code has other commands; run python -m docs.make_cli_reference"


def test_every_command_is_there_and_prints_json() -> None:
    assert {"run", "fit", "predict", "inspect", "top", "tune", "bench", "doctor"} <= set(COMMANDS)
    for name, command in COMMANDS.items():
        assert f"## scstream {name}\n" in page()
        assert "| `--json` |" in section(command), name


@pytest.mark.parametrize("name", ["fit", "predict", "inspect", "top", "tune", "bench"])
def test_help_is_short_and_exact(name: str) -> None:
    callback = COMMANDS[name].callback
    first = inspect.cleandoc(callback.__doc__).splitlines()[0]
    assert len(first) <= LONGEST
    assert first.endswith(".")
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "100"}).output
    for parameter, info, kind in parameters(callback):
        words = line_of(parameter, info, kind)
        assert words.meaning.endswith((".", "..."))
        if isinstance(info, OptionInfo):
            assert words.name.split("`")[1].split()[0] in shown


def test_every_exit_code_is_there() -> None:
    table = codes()
    for error in errors.StreamError.__subclasses__():
        assert f"| {error.exit_code} |" in table
    for code in (0, 1, 2, 70, 130):
        assert f"| {code} |" in table


def test_an_option_that_says_nothing_is_an_error() -> None:
    def silent(*, loud: "int" = 1) -> None: ...

    parameter = inspect.signature(silent).parameters["loud"]
    with pytest.raises(AssertionError, match="loud has no help"):
        line_of(parameter, OptionInfo(), int)
    assert isinstance(COMMANDS["fit"], CommandInfo)
