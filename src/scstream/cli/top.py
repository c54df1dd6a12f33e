"""`scstream top`: look again and again, and draw what is seen; q quits, space holds."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any, Self

from scstream.cli.frame import View, frame
from scstream.cli.moments import History, Watched
from scstream.cli.show import console
from scstream.errors import StreamError, missing_extra

try:
    from rich.console import Console, Group
    from rich.live import Live
except ImportError as error:
    raise missing_extra("rich", "cli") from error

_TICK = 0.25  # seconds between two drawings, so that ages and sizes are right
_LINES = 24  # of a frame where there is no screen


class Keys:
    """Keys that are pressed at a terminal, one by one and without echo.

    Examples
    --------
    >>> from scstream.cli.top import Keys
    >>> with Keys(descriptor=None) as keys:
    ...     keys.wait(0.0)
    ''
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._before: Any = None

    def __enter__(self) -> Self:
        if self._descriptor is not None and os.name == "posix":
            import termios
            import tty

            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._before is not None and self._descriptor is not None:
            import termios

            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """Return what was pressed within so many seconds; nothing otherwise."""
        if self._before is None or self._descriptor is None:
            time.sleep(seconds)
            return ""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return ""
        return os.read(self._descriptor, 16).decode(errors="replace")


def watch(watched: Watched, *, every: float, once: bool, lines: bool) -> None:
    """Look at something until somebody quits, or once.

    Parameters
    ----------
    watched : Watched
        What to look at.
    every : float
        Seconds between two looks.
    once : bool
        Print one frame; so it is also where the standard output is no terminal.
    lines : bool
        Print one JSON object for each look.
    """
    history = History()
    for moment in watched.past():
        history.add(moment)
    screen = console()
    if lines:
        _print_lines(watched, history, every=every, once=once)
    elif once or not screen.is_terminal:
        _look(watched, history)
        _check_seen(watched, history)
        _print_frame(screen, history, watched.name)
    else:
        _live(screen, watched, history, every=every)


def _look(watched: Watched, history: History) -> None:
    moment = watched.look()
    if moment is not None:
        history.add(moment)


def _check_seen(watched: Watched, history: History) -> None:
    if not history.moments:
        raise StreamError(
            f"there is no sound checkpoint with a model in {watched.name} yet; wait until the "
            "pipeline has written one, or see with `scstream checkpoints` what there is."
        )


def _print_lines(watched: Watched, history: History, *, every: float, once: bool) -> None:
    if not once:
        _heed_signals()
    try:
        while True:
            _look(watched, history)
            if once:
                _check_seen(watched, history)
            if history.moments:
                sys.stdout.write(json.dumps(history.plain()) + "\n")
                sys.stdout.flush()
            if once:
                return
            time.sleep(every)
    except KeyboardInterrupt:
        return


def _print_frame(screen: Console, history: History, name: str) -> None:
    height = screen.height - 1 if screen.is_terminal else int(os.environ.get("LINES", _LINES))
    view = View(name, now=time.time(), width=screen.width, height=height, keys=False)
    for line in frame(history, view):
        line.rstrip()
        screen.print(line, soft_wrap=True)


def _live(screen: Console, watched: Watched, history: History, *, every: float) -> None:
    _look(watched, history)
    trouble, held, looked = "", False, time.monotonic()
    _heed_signals()
    descriptor = sys.stdin.fileno() if sys.stdin.isatty() else None
    try:
        with (
            Keys(descriptor) as keys,
            Live(console=screen, screen=True, auto_refresh=False) as live,
        ):
            while True:
                if not held and time.monotonic() - looked >= every:
                    trouble, looked = _look_patiently(watched, history), time.monotonic()
                view = View(watched.name, time.time(), *screen.size, held=held, trouble=trouble)
                live.update(Group(*frame(history, view)), refresh=True)
                pressed = keys.wait(_TICK)
                if "q" in pressed or "Q" in pressed:
                    return
                held ^= " " in pressed
    except KeyboardInterrupt:
        return


def _heed_signals() -> None:
    """End in order by a signal, also where a shell in the background made us deaf to interrupts."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def _look_patiently(watched: Watched, history: History) -> str:
    """Look; return why nothing was seen. Who writes may be away for a while."""
    try:
        _look(watched, history)
    except StreamError as error:
        return str(error)
    return ""
