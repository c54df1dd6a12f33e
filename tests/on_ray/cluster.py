"""A real Ray cluster on this machine: nodes started by `ray start`, that may come and go."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

_LIMIT = 300.0  # seconds that a node may take to start on a busy machine
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    "OPENBLAS_NUM_THREADS": "1",
}


class Node:
    """One `ray start`, in a process group of its own."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        ray = Path(sys.executable).with_name("ray")
        self._line = [str(ray), "start", "--block", "--node-ip-address=127.0.0.1", *arguments]
        self._log = log
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                self._line,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_QUIET},
                start_new_session=True,
            )

    def wait(self) -> None:
        """Wait until it runs. Start again if Ray gave up: it does so after 30 seconds."""
        deadline = time.monotonic() + _LIMIT
        while b"Ray runtime started" not in self._log.read_bytes():
            assert time.monotonic() < deadline, self._log.read_text()
            if self.process.poll() is not None:
                self.kill()
                self._start()
            time.sleep(0.2)

    def kill(self) -> None:
        """End the node and its workers at once, as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """A head node of some processors, and as many further nodes as are added.

    The folder must have a short path: Ray makes sockets in it.
    """

    def __init__(self, *, n_cpus: int = 4, store_mb: int = 512) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray-"))
        self._port = free_port()
        self._n_started = 0
        self.nodes: list[Node] = []
        self._start(
            ["--head", f"--port={self._port}", "--include-dashboard=false"], n_cpus, store_mb
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def connect(self) -> None:
        """Make this process a driver of the cluster."""
        import ray

        os.environ.update(_QUIET)
        self.nodes[0].wait()
        deadline = time.monotonic() + _LIMIT
        while True:
            try:
                ray.init(address=self.address, log_to_driver=False, logging_level="ERROR")
                return
            except (ConnectionError, RuntimeError, ValueError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def add_node(self, *, n_cpus: int = 1, store_mb: int = 128) -> Node:
        """Start another node and wait until the cluster knows it."""
        import ray

        before = len(alive())
        node = self._start([f"--address={self.address}"], n_cpus, store_mb)
        node.wait()
        deadline = time.monotonic() + _LIMIT
        while ray.is_initialized() and len(alive()) <= before:
            assert time.monotonic() < deadline, "the node does not come"
            time.sleep(0.1)
        return node

    def _start(self, arguments: list[str], n_cpus: int, store_mb: int) -> Node:
        self._n_started += 1
        node = Node(
            [
                *arguments,
                f"--num-cpus={n_cpus}",
                f"--object-store-memory={store_mb * 2**20}",
                f"--temp-dir={self.folder}",
            ],
            self.folder / f"node{self._n_started}.log",
        )
        self.nodes.append(node)
        return node

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        import ray

        ray.shutdown()
        for node in reversed(self.nodes):
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def alive() -> list[str]:
    """Ids of the nodes that the cluster believes in."""
    import ray

    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
