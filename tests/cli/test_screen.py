"""What a person sees on a terminal."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from pathlib import Path

import pytest

from tests.cli.shell import COMMAND, SECONDS, environment, write_rows

INTERRUPT = b"\x03"
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")


def on_terminal(
    *arguments: str, folder: Path, until: str | None = None, **more: str
) -> tuple[str, int]:
    """Run a command on a terminal; press Ctrl-C when it shows `until`."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(COMMAND[0], [*COMMAND, *arguments], environment(TERM="xterm-256color", **more))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    text, end = "", time.monotonic() + SECONDS
    with contextlib.suppress(OSError):  # the terminal is gone when the command has ended
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                text += os.read(terminal, 65536).decode()
            if until is not None and until in text:
                os.write(terminal, INTERRUPT)
                until = None
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return text, os.waitstatus_to_exitcode(status)


@pytest.fixture
def growing(folder: Path) -> Path:
    write_rows(folder / "rows.csv", 2000)
    file = folder / "pipeline.toml"
    file.write_text(file.read_text().replace('"rows.csv"', '"rows.csv"\nfollow = true'))
    return folder


def test_a_live_line_is_redrawn_until_an_interrupt(growing: Path) -> None:
    text, code = on_terminal("run", "pipeline.toml", folder=growing, until="2,000 rows")
    assert code == 0, text
    assert "started at batch 0, as instance 0 of demo" in text
    assert text.count("\x1b[2K") >= 2  # the line was drawn anew
    assert "lag 0" in text
    assert "\x1b[?25h" in text  # the cursor is back
    assert not any(line.startswith("{") for line in text.splitlines())
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).split("\r")[-2]
    assert re.fullmatch(
        r"2,000 rows  [\d,]+/s  20 batches  K 4  rejected 0  "
        r"checkpoint [\d.]+ s ago  in [\d.]+ s",
        last,
    ), last


def test_no_color_removes_colours(growing: Path) -> None:
    text, _ = on_terminal("run", "pipeline.toml", folder=growing, until="2,000 rows")
    assert COLOUR.search(text)
    plain, code = on_terminal(
        *("run", "pipeline.toml", "--resume"), folder=growing, until="0 rows", NO_COLOR="1"
    )
    assert code == 0, plain
    assert not COLOUR.search(plain)


def test_json_lines_on_a_terminal(growing: Path) -> None:
    text, code = on_terminal(
        *("run", "pipeline.toml", "--json"), folder=growing, until='"batch": 20, "version"'
    )
    assert code == 0, text
    assert text.startswith("{")
    assert "\x1b" not in text


def test_an_error_is_one_sentence(folder: Path) -> None:
    text, code = on_terminal("run", "--source", "file:none.csv", folder=folder)
    assert code == 2
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").splitlines()
    assert shown[-1] == "scstream: there is no file at none.csv; check the path."


def test_a_narrow_table_wraps_its_last_column_only(folder: Path) -> None:
    text, code = on_terminal("doctor", "pipeline.toml", folder=folder)
    assert code == 0, text
    assert "…" not in text
