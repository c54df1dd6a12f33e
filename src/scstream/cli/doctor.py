"""What scstream runs on, and what the systems around it promise, in findings."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from scstream.cli.places import Scratch, is_folder, open_store
from scstream.cli.show import size
from scstream.errors import ScStreamError
from scstream.machine import show_config
from scstream.stream.config import FOLDER, build
from scstream.stream.findings import Finding

Found = tuple[str, Finding]  # where, and what
_PATIENCE = 15.0  # seconds for a system to answer
_SYNCS = 20
_SLOW = 0.05  # seconds: a checkpoint syncs a file and a folder, twice


def examine(settings: Mapping[str, Any] | None) -> Iterator[Found]:
    """Yield findings about the machine and, with settings, about everything that they name.

    Examples
    --------
    >>> from scstream.cli.doctor import examine
    >>> where, finding = next(examine(None))
    >>> where, finding.about, finding.level
    ('versions', 'scstream', 'ok')
    """
    yield from (("versions", finding) for finding in _versions())
    yield from (("machine", finding) for finding in _machine())
    table = (settings or {}).get("checkpoint", {})
    place = str(table.get("folder", FOLDER))
    if is_folder(place):
        yield from (("checkpoint", finding) for finding in _disk(Path(place)))
    if settings and not {"source", "sink", "dead_letters"}.isdisjoint(settings):
        yield from _systems(settings, place)


def _versions() -> Iterator[Finding]:
    config = show_config(as_dict=True)
    for name in ("scstream", "python", "numpy", "scipy"):
        yield Finding("ok", name, str(config[name]))
    kernels = f"{config['kernels']}: {config['why']}"
    if config["isa"] is None:
        detail = f"{kernels}; labels are the same, and take longer"
        yield Finding("note", "kernels", detail)
    else:
        yield Finding("ok", "kernels", kernels)
        yield Finding("ok", "instruction set", f"{config['isa']} of {', '.join(config['isas'])}")
    for blas in config["blas"]:
        detail = f"{blas['name']} {blas['version']}, {blas['threads']} threads outside of batches"
        yield Finding("ok", "BLAS", detail)


def _machine() -> Iterator[Finding]:
    config = show_config(as_dict=True)
    yield Finding("ok", "platform", str(config["platform"]))
    there = os.cpu_count() or config["cores"]
    detail = f"{config['cores']} of {there} may be used; model.n_threads = -1 takes them all"
    yield Finding("ok", "cores", detail)
    memory = _memory()
    if memory is not None:
        total, free = memory
        few = free < 500e6
        yield Finding("warn" if few else "ok", "memory", f"{size(free)} of {size(total)} are free")


def _memory() -> tuple[float, float] | None:
    """Bytes in all and free; those of the control group if it has less."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    values = {line.split(":")[0]: float(line.split()[1]) * 1024 for line in lines}
    total, free = values["MemTotal"], values["MemAvailable"]
    try:
        max_n = float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = float(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no control group, or "max"
        return total, free
    return min(total, max_n), min(free, max(max_n - used, 0.0))


def _disk(folder: Path) -> Iterator[Finding]:
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())
    if there != folder.absolute():
        yield Finding("note", "folder", f"{folder} is not there yet; measured in {there}")
    if not os.access(there, os.W_OK):
        yield Finding("warn", "folder", f"{there} cannot be written to; checkpoints would fail")
        return
    free = shutil.disk_usage(there).free
    yield Finding("warn" if free < 1e9 else "ok", "disk", f"{size(free)} are free in {there}")
    times = _sync_times(there)
    middle, worst = times[len(times) // 2], times[int(len(times) * 0.99)]
    detail = f"p50 {middle * 1e3:.2f} ms, p99 {worst * 1e3:.2f} ms over {len(times)} of 4 kB"
    if middle > _SLOW:
        detail += "; checkpoints will hold labels up, so write fewer (checkpoint.seconds)"
    yield Finding("note" if middle > _SLOW else "ok", "fsync", detail)


def _sync_times(folder: Path) -> list[float]:
    """Seconds that a sync of a small write takes, sorted."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(b"\0" * 4096)
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return sorted(times)


def _systems(settings: Mapping[str, Any], place: str) -> Iterator[Found]:
    pipeline = build(settings, store=Scratch())
    try:
        for name in ("source", "sink", "dead_letters", "alerts"):
            yield from _asked(name, getattr(pipeline, name))
    finally:
        pipeline.close()
    if not is_folder(place):
        yield from _asked("checkpoint", open_store(settings))


def _asked(name: str, system: Any) -> Iterator[Found]:
    """What a system says of itself; one that cannot be reached is a finding, too."""
    ask: Callable[[], list[Finding]] | None = getattr(system, "doctor", None)
    if ask is None:
        if name == "sink":
            yield name, Finding("note", "sink", "there is none: labels are learned and not kept")
        return
    answer = Queue[list[Finding] | Exception]()
    Thread(target=lambda: answer.put(_outcome(ask)), daemon=True).start()
    try:
        found = answer.get(timeout=_PATIENCE)
    except Empty:
        detail = f"no answer within {_PATIENCE:g} s: the server is away, or the address is wrong"
        found = [Finding("warn", "connection", detail)]
    if isinstance(found, ScStreamError | OSError):
        found = [Finding("warn", "connection", str(found))]
    elif isinstance(found, Exception):
        raise found
    yield from ((name, finding) for finding in found)


def _outcome(ask: Callable[[], list[Finding]]) -> list[Finding] | Exception:
    try:
        return ask()
    except Exception as error:
        return error
