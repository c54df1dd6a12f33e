"""`scstream doctor`: check the machine and the systems that a pipeline uses."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from scstream.cli.render import format_size
from scstream.cli.settings import Tables
from scstream.cli.store import is_local, open_store
from scstream.errors import ScStreamError
from scstream.machine import show_config
from scstream.stream.config import FOLDER, build
from scstream.stream.findings import Finding
from scstream.stream.store import MemoryStore

Located = tuple[str, Finding]  # what was checked, and what was found
_TIMEOUT = 15.0  # seconds for a system to answer
_SYNCS = 20
_SLOW_SYNC = 0.05  # seconds: a checkpoint syncs a file and a folder, twice


def examine(settings: Tables | None) -> Iterator[Located]:
    """Yield findings about the machine and, if given, about the systems of a pipeline."""
    yield from (("versions", finding) for finding in _versions())
    yield from (("machine", finding) for finding in _machine())
    table = (settings or {}).get("checkpoint", {})
    place = str(table.get("folder", FOLDER))
    if is_local(place):
        yield from (("checkpoint", finding) for finding in _disk(Path(place)))
    if settings and not {"source", "sink", "dead_letters"}.isdisjoint(settings):
        yield from _systems(settings, place)


def _versions() -> Iterator[Finding]:
    config = show_config(as_dict=True)
    for name in ("scstream", "python", "numpy", "scipy"):
        yield Finding("ok", name, str(config[name]))
    kernels = f"{config['kernels']}: {config['why']}"
    if config["isa"] is None:
        yield Finding("note", "kernels", f"{kernels}; slower, with the same labels")
    else:
        yield Finding("ok", "kernels", kernels)
        yield Finding("ok", "instruction set", f"{config['isa']} of {', '.join(config['isas'])}")
    for blas in config["blas"]:
        detail = f"{blas['name']} {blas['version']}, {blas['threads']} threads outside of batches"
        yield Finding("ok", "BLAS", detail)


def _machine() -> Iterator[Finding]:
    config = show_config(as_dict=True)
    yield Finding("ok", "platform", str(config["platform"]))
    cores = os.cpu_count() or config["cores"]
    detail = f"{config['cores']} of {cores} may be used; model.n_jobs = -1 uses them all"
    yield Finding("ok", "cores", detail)
    memory = _memory()
    if memory is not None:
        total, free = memory
        detail = f"{format_size(int(free))} of {format_size(int(total))} are free"
        yield Finding("warn" if free < 500e6 else "ok", "memory", detail)


def _memory() -> tuple[float, float] | None:
    """Return total and free bytes; those of the control group if they are fewer."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    values = {line.split(":")[0]: float(line.split()[1]) * 1024 for line in lines}
    total, free = values["MemTotal"], values["MemAvailable"]
    try:
        limit = float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
        used = float(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no control group, or no limit ("max")
        return total, free
    return min(total, limit), min(free, max(limit - used, 0.0))


def _disk(folder: Path) -> Iterator[Finding]:
    parents = (folder.absolute(), *folder.absolute().parents)
    existing = next(path for path in parents if path.is_dir())
    if existing != folder.absolute():
        yield Finding("note", "folder", f"{folder} does not exist yet; measured in {existing}")
    if not os.access(existing, os.W_OK):
        yield Finding("warn", "folder", f"{existing} is not writable; checkpoints would fail")
        return
    free = shutil.disk_usage(existing).free
    detail = f"{format_size(free)} are free in {existing}"
    yield Finding("warn" if free < 1e9 else "ok", "disk", detail)
    times = _sync_times(existing)
    median, worst = times[len(times) // 2], times[int(len(times) * 0.99)]
    detail = f"p50 {median * 1e3:.2f} ms, p99 {worst * 1e3:.2f} ms over {len(times)} of 4 kB"
    if median > _SLOW_SYNC:
        detail += "; checkpoints will delay labels, so write fewer of them (checkpoint.seconds)"
    yield Finding("note" if median > _SLOW_SYNC else "ok", "fsync", detail)


def _sync_times(folder: Path) -> list[float]:
    """Return the seconds to sync a small write, sorted."""
    times = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(b"\0" * 4096)
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return sorted(times)


def _systems(settings: Tables, place: str) -> Iterator[Located]:
    pipeline = build(settings, store=MemoryStore())
    try:
        for name in ("source", "sink", "dead_letters", "alerts"):
            yield from _check_system(name, getattr(pipeline, name))
        yield from _check_system("embed", pipeline.embedder)
    finally:
        pipeline.close()
    if not is_local(place):
        yield from _check_system("checkpoint", open_store(settings))


def _check_system(name: str, system: Any) -> Iterator[Located]:
    """Yield the findings of a connector; an unreachable system is a finding, too."""
    check: Callable[[], list[Finding]] | None = getattr(system, "doctor", None)
    if check is None:
        if name == "sink":
            yield name, Finding("note", "sink", "there is no sink: labels are not kept")
        return
    result = Queue[list[Finding] | Exception]()
    Thread(target=lambda: result.put(_result_or_error(check)), daemon=True).start()
    try:
        found = result.get(timeout=_TIMEOUT)
    except Empty:
        detail = f"no answer within {_TIMEOUT:g} s: the server is down or the address is wrong"
        found = [Finding("warn", "connection", detail)]
    if isinstance(found, ScStreamError | OSError):
        found = [Finding("warn", "connection", str(found))]
    elif isinstance(found, Exception):
        raise found
    yield from ((name, finding) for finding in found)


def _result_or_error(check: Callable[[], list[Finding]]) -> list[Finding] | Exception:
    try:
        return check()
    except Exception as error:
        return error
