"""Fork a process for every command that a client sends: ``python -m tests.warm.server SOCKET``."""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import NoReturn

from scstream.cli.main import app, run_app

_PRELOADED = (
    "scstream.cli.run",
    "scstream.cli.fit",
    "scstream.cli.edit",
    "scstream.cli.inspect",
    "scstream.cli.load",
    "scstream.stream.config",
    "scstream.stream.connectors.files",
    "scstream._native",
    "scstream.estimator",
    "pyarrow",
)


def serve(path: str) -> None:
    """Accept clients until standard input ends; every client gets a process that waits for it."""
    for name in _PRELOADED:
        __import__(name)
    with redirect_stdout(StringIO()), suppress(SystemExit):
        app(["--version"])  # typer imports more when a command runs
    assert threading.active_count() == 1, "a thread does not survive a fork"
    gc.freeze()  # the collector would copy every page
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        os.write(1, b"ready\n")
        while True:
            ready, _, _ = select.select([listener, 0], [], [])
            if listener not in ready:
                return
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # its end is the end of the server
                attend(connection)
            connection.close()


def attend(connection: socket.socket) -> None:
    """Run the command of one client in a process; kill it if the client is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as stream:
        arguments, folder, environment = json.loads(stream.read(int.from_bytes(size, "big")))
    pid = os.fork()
    if pid == 0:
        connection.close()
        become(files, folder, environment)
        sys.argv = ["scstream", *arguments]
        run_to_the_end()
    for file in files:
        os.close(file)
    connection.sendall(b"%d\n" % pid)
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):
        connection.sendall(b"%d\n" % code)
    os._exit(0)


def run_to_the_end() -> NoReturn:
    """Run the command, and leave without taking a large interpreter apart."""
    code: object = 1
    try:
        run_app()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def become(files: list[int], folder: str, environment: dict[str, str]) -> None:
    """Take over what a client has: files, folder and variables."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    serve(sys.argv[1])
