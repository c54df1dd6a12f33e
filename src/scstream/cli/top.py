"""`scstream top`: poll a pipeline or a service and draw frames; q quits, space pauses."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live

from scstream.cli.render import console, print_json
from scstream.cli.service_client import ServiceMonitor
from scstream.cli.summary import CheckpointMonitor, History
from scstream.cli.top_frame import View, frame
from scstream.errors import StreamError

Monitor = CheckpointMonitor | ServiceMonitor
_REDRAW_SECONDS = 0.25  # so that ages and the size of the terminal are current
_LINES = 24  # of a frame if there is no terminal


class Keys:
    """Reads single keys from a terminal without echo."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._attributes: Any = None

    def __enter__(self) -> Self:
        if self._descriptor is not None and os.name == "posix":
            import termios
            import tty

            self._attributes = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._attributes is not None and self._descriptor is not None:
            import termios

            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._attributes)

    def wait(self, seconds: float) -> str:
        """Return the keys pressed within a time; empty if there are none."""
        if self._attributes is None or self._descriptor is None:
            time.sleep(seconds)
            return ""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return ""
        return os.read(self._descriptor, 16).decode(errors="replace")


def watch(monitor: Monitor, *, every: float, once: bool, as_json: bool) -> None:
    """Show frames until the user quits; one frame if `once` or if there is no terminal."""
    history = History()
    history.summaries.extend(monitor.past())
    out = console()
    if as_json:
        _print_json(monitor, history, every=every, once=once)
    elif once or not out.is_terminal:
        _poll(monitor, history)
        _check_not_empty(monitor, history)
        height = out.height - 1 if out.is_terminal else int(os.environ.get("LINES", _LINES))
        view = View(monitor.name, time.time(), out.width, height, shows_keys=False)
        for line in frame(history, view):
            line.rstrip()
            out.print(line, soft_wrap=True)
    else:
        _live(out, monitor, history, every=every)


def _poll(monitor: Monitor, history: History) -> None:
    summary = monitor.poll()
    if summary is not None:
        history.summaries.append(summary)


def _check_not_empty(monitor: Monitor, history: History) -> None:
    if not history.summaries:
        raise StreamError(
            f"there is no valid checkpoint with a model in {monitor.name} yet; wait until the "
            "pipeline has written one, or list them with `scstream checkpoints`."
        )


def _print_json(monitor: Monitor, history: History, *, every: float, once: bool) -> None:
    if not once:
        _interrupt_on_signals()
    with suppress(KeyboardInterrupt):
        while True:
            _poll(monitor, history)
            if once:
                _check_not_empty(monitor, history)
            if history.summaries:
                print_json(history.to_dict())
                sys.stdout.flush()
            if once:
                return
            time.sleep(every)


def _live(out: Console, monitor: Monitor, history: History, *, every: float) -> None:
    _poll(monitor, history)
    error, paused, polled = "", False, time.monotonic()
    _interrupt_on_signals()
    descriptor = sys.stdin.fileno() if sys.stdin.isatty() else None
    with (
        suppress(KeyboardInterrupt),
        Keys(descriptor) as keys,
        Live(console=out, screen=True, auto_refresh=False) as live,
    ):
        while True:
            if not paused and time.monotonic() - polled >= every:
                error = ""
                try:
                    _poll(monitor, history)
                except StreamError as away:  # it may be reachable again later
                    error = str(away)
                polled = time.monotonic()
            view = View(monitor.name, time.time(), *out.size, paused=paused, error=error)
            live.update(Group(*frame(history, view)), refresh=True)
            pressed = keys.wait(_REDRAW_SECONDS)
            if "q" in pressed or "Q" in pressed:
                return
            paused ^= " " in pressed


def _interrupt_on_signals() -> None:
    """Raise KeyboardInterrupt on signals, also if a background shell had them ignored."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
