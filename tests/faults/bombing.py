"""Send bombs to a real service or pipeline: ``python -m tests.faults.bombing service|file|...``.

The process that gets them may use 1 GiB of address space in all (RLIMIT_AS), so that memory which
is only reserved counts, too. Prints a line of JSON: how many bodies were rejected and how, how
often the process ended by itself, and the most memory that it had.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from tests.faults.bomb_targets import TARGETS, Target
from tests.faults.bombs import Bomb, bombs, stream

LIMIT = 2**30  # bytes of address space
FEATURES = [f"x{j}" for j in range(14)]  # 2**20 rows of so many, and a text, just fit the budget
PATIENCE = 240.0  # seconds for one body
ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
_NO_MEMORY = re.compile("malloc|nable to allocate|memory is short|more memory than is free")
_SENTENCE = re.compile(r"\w+ .*\w.*[.']$", re.DOTALL)


@dataclass
class Tally:
    """What became of the bodies."""

    target: str
    bodies: int = 0
    rejected: int = 0  # by a response with a status of 400 to 499
    dead_lettered: int = 0
    accepted: int = 0  # they fit the budget, and their rows were used
    kills: int = 0
    peak: float = 0.0  # resident memory in MB
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def check(self, bomb: str, reason: str) -> None:
        """Note a reason that is not a sentence, or that says that memory ran out."""
        if not _SENTENCE.search(reason) or _NO_MEMORY.search(reason):
            self.wrong.append(f"{bomb}: {reason!r}")


class Limited:
    """A command of scstream with bounded memory; it is started again if it ends by itself."""

    def __init__(self, *arguments: str, log: Path, tally: Tally) -> None:
        limited = ["prlimit", f"--as={LIMIT}"]
        self._command = [*limited, sys.executable, "-m", "scstream.cli", *arguments]
        self._log, self._tally = log, tally
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "ARROW_DEFAULT_MEMORY_POOL": "system",  # the default one reserves 1 GiB
                    "MALLOC_ARENA_MAX": "2",  # every thread else reserves 64 MiB of addresses
                    "OPENBLAS_NUM_THREADS": "1",
                },
            )

    def check(self) -> None:
        """Count an end, and start again; a third end is a crash loop."""
        if self.process.poll() is not None:
            self._tally.kills += 1
            if self._tally.kills > 2:
                raise SystemExit(f"{self._tally}: {self._log.read_text()[-3000:]}")
            self._start()

    def measure(self) -> None:
        """Note the most memory that the process has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        if found := re.search(r"VmHWM:\s+(\d+)", status):
            self._tally.peak = max(self._tally.peak, round(int(found[1]) / 1024, 1))

    def stop(self, how: signal.Signals | None = signal.SIGTERM) -> None:
        """End in order, or wait for the end; anything but 0 counts as a kill."""
        if how is not None:
            self.measure()
            self.process.send_signal(how)
        while self.process.poll() is None:
            self.measure()
            time.sleep(0.05)
        if self.process.returncode != 0:
            self._tally.kills += 1
            self._tally.wrong.append(self._log.read_text()[-500:])


def through_service(chosen: Iterable[Bomb], folder: Path) -> Tally:
    """Post every bomb to `scstream serve`, plain and compressed, to predict and to learn."""
    tally, start = Tally("service"), time.monotonic()
    save_model(folder / "model.scstream")
    log = folder / "log.txt"
    options = ("--port", "0", "--learn", "--json")
    service = Limited("serve", str(folder / "model.scstream"), *options, log=log, tally=tally)
    url = _address(service, log)
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:
        for bomb in chosen:
            content = bomb.content
            for route, kind, encoding, body in _requests(bomb, content):
                headers = {"content-type": kind} | (
                    {"content-encoding": encoding} if encoding else {}
                )
                name = f"{bomb.format} {bomb.name} to {route} as {kind} {encoding}"
                _post(client, route, body, headers, name=name, tally=tally)
            service.measure()
            if service.process.poll() is not None:
                raise SystemExit(f"{bomb.name} ended the service: {log.read_text()[-3000:]}")
            assert client.get("/healthz").status_code == 200
    service.stop()
    tally.seconds = round(time.monotonic() - start, 1)
    return tally


def _requests(bomb: Bomb, content: bytes) -> Iterator[tuple[str, str, str, bytes]]:
    """Yield route, type, encoding and body of every way to send a bomb."""
    ways = {
        "arrow": [(ARROW, content)],
        "json": [(JSON, content), (JSON, b'{"rows":%b}' % content)],
        "columns": [(JSON, b'{"columns":%b}' % content)],
    }.get(bomb.format, [(ARROW, content), (JSON, content)])
    for kind, body in ways:
        for route in ("/predict", "/learn"):
            yield route, kind, "", body
        for encoding in ("gzip", "deflate"):  # a body that is compressed is never decompressed
            yield "/predict", kind, encoding, body


def _post(
    client: httpx.Client,
    route: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    name: str,
    tally: Tally,
) -> None:
    tally.bodies += 1
    answer = client.post(route, content=body, headers=dict(headers))
    if answer.status_code == 200:
        tally.accepted += 1
        return
    tally.rejected += 400 <= answer.status_code < 500
    if answer.status_code >= 500:
        tally.wrong.append(f"{name}: {answer.status_code} {answer.text[:200]}")
    tally.check(name, answer.json()["detail"])


def save_model(path: Path) -> None:
    """Save a model of `FEATURES` in which entries may be missing."""
    from scstream import ScStream

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, len(FEATURES))) + 8.0 * rng.integers(3, size=(300, 1))
    rows = pa.table(dict(zip(FEATURES, X.T, strict=True)))
    ScStream(family="diagonal", random_state=0).partial_fit(rows).save(path)


def _address(service: Limited, log: Path) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and service.process.poll() is None:
        found = re.search(r'"url": "([^"]+)"', log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    raise SystemExit(log.read_text())


# What a message of each format of a pipeline may be made of: bombs of these formats.
FORMATS = {
    "arrow": ("arrow", "parquet", "model"),
    "json": ("json", "gzip", "csv"),
    "columns": ("columns",),
    "floats": ("floats",),
    "floats32": ("floats32",),
}


def through_source(kind: str, chosen: Iterable[Bomb], folder: Path) -> Tally:
    """Send every bomb to a pipeline that reads a source; one pipeline for each format."""
    tally, start = Tally(kind), time.monotonic()
    chosen = list(chosen)
    with TARGETS[kind](folder) as target:
        for form, kinds in target.formats(FORMATS).items():
            some = [bomb for bomb in chosen if bomb.format in kinds]
            if some:
                _through_pipeline(target, form, some, folder / form, tally)
    tally.accepted = tally.bodies - tally.rejected - tally.dead_lettered
    tally.seconds = round(time.monotonic() - start, 1)
    return tally


def _through_pipeline(
    target: Target, form: str, chosen: list[Bomb], folder: Path, tally: Tally
) -> None:
    folder.mkdir()
    tally.bodies += len(chosen)
    file = folder / "pipeline.toml"
    file.write_text(_toml(_settings(target.prepare(form, folder), form, folder)))
    if target.ends:  # all messages are there before the start, and the pipeline ends after them
        for number, bomb in enumerate(chosen):
            target.send(bomb.content, name=f"{number:03d}")
    pipeline = Limited("run", str(file), "--resume-or-start", log=folder / "log.txt", tally=tally)
    letters = folder / "letters.jsonl"
    if not target.ends:
        target.send(_good(form), name="good")
        for number, bomb in enumerate(chosen):
            if detail := target.send(bomb.content, name=f"{number:03d}"):
                tally.rejected += 1
                tally.check(bomb.name, detail)
            marker, shown = _marker(form, number)
            target.send(marker, name="marker")
            _await(pipeline, letters, shown)
    pipeline.stop(None if target.ends else signal.SIGTERM)
    _judge(tally, letters, [_marker(form, number)[1] for number in range(len(chosen))])


def _judge(tally: Tally, letters: Path, markers: list[str]) -> None:
    """Check the dead letters, and count messages, or files, that have some."""
    found: set[str] = set()
    for line in chain.from_iterable(map(Path.open, letters.parent.glob("letters*.jsonl"))):
        letter = json.loads(line)
        tally.check(letter["position"], letter["reason"])
        if not any(marker in letter["reason"] + letter["content"] for marker in markers):
            found.add(letter["position"].partition("group")[0].partition("offset")[0])
    tally.dead_lettered += len(found)


def _await(pipeline: Limited, letters: Path, marker: str) -> None:
    """Wait until a pipeline has rejected the message with a marker."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        pipeline.check()
        if letters.exists() and marker.encode() in letters.read_bytes()[-10_000:]:
            pipeline.measure()
            return
        time.sleep(0.02)
    raise SystemExit(f"the pipeline does not come to {marker}")


def _settings(source: Mapping[str, Any], form: str, folder: Path) -> dict[str, Any]:
    return {
        "source": source,
        "schema": {"features": FEATURES}
        | ({} if form.startswith("floats") else {"keep": ["name"]}),
        "model": {"family": "diagonal"},
        "batch": {"rows": 50_000, "seconds": 0.05},
        "sink": {"kind": "file", "path": str(folder / "labels.csv")},
        "dead_letters": {"kind": "file", "path": str(folder / "letters.jsonl")},
        "checkpoint": {"folder": str(folder / "state")},
    }


def _toml(settings: Mapping[str, Mapping[str, Any]]) -> str:
    return "\n".join(
        f"[{section}]\n" + "\n".join(f"{name} = {json.dumps(v)}" for name, v in values.items())
        for section, values in settings.items()
    )


def _good(form: str) -> bytes:
    """Return a message of 200 rows to begin with."""
    X = np.random.default_rng(0).normal(size=(200, len(FEATURES)))
    if form.startswith("floats"):
        return X.astype("<f4" if form == "floats32" else "<f8").tobytes()
    if form == "arrow":
        return stream(pa.table(dict(zip(FEATURES, X.T, strict=True))))
    if form == "columns":
        return json.dumps(dict(zip(FEATURES, X.T.tolist(), strict=True))).encode()
    return b"\n".join(json.dumps(dict(zip(FEATURES, x, strict=True))).encode() for x in X.tolist())


def _marker(form: str, number: int) -> tuple[bytes, str]:
    """Return a message that is rejected, and what its dead letter has."""
    name = f"marker{number:03d}"
    if form.startswith("floats"):
        return bytes(1001 + 2 * number), f"has {1001 + 2 * number} bytes"
    if form == "arrow":
        return stream(pa.table({name: [1.0]})), name
    return json.dumps({name: [1.0]} if form == "columns" else name).encode(), name


def for_pipelines(kind: str) -> list[Bomb]:
    """Return all bombs, but of the rows that fit the budget and are learned only some.

    In a file every line is a row, so that lines which a message may not have become millions of
    dead letters: one kind of them is enough, and a part of it.
    """
    skipped = r"lz4 \w+ (2|30)|lz4 int8 200|zstd int8 (2|30)"
    if kind == "file":
        skipped += r"|lines of [^\[].*|lines of \[N.*"
    chosen = [bomb for bomb in bombs() if not re.fullmatch(skipped, bomb.name)]
    return [_shortened(bomb) if kind == "file" else bomb for bomb in chosen]


def _shortened(bomb: Bomb) -> Bomb:
    is_long = bomb.name in ("lines of []", r"a file of '1,1\n'")
    return bomb._replace(make=lambda: bomb.make()[: 2**20]) if is_long else bomb


def main() -> None:
    target = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        if target == "service":
            found = through_service(bombs(), Path(folder))
        else:
            found = through_source(target, for_pipelines(target), Path(folder))
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main()
