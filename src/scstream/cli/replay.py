"""Learn batches again from a kept checkpoint, and compare the labels with those of the first time.

Nothing is written but memory, and nothing is acknowledged: the instance that runs does not notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from scstream.cli.checkpoints import kept_in
from scstream.cli.places import Scratch
from scstream.errors import InputError, NonDeterministicReplay
from scstream.io._packing import read_header
from scstream.stream.checkpoint_log import BOUNDARY, DIGEST, SAVEPOINT, VERSION, CheckpointLog
from scstream.stream.config import build
from scstream.stream.progress import Progress
from scstream.stream.runner import CheckpointPolicy, EventCallback, Pipeline, ignore_event
from scstream.stream.sink import NullSink
from scstream.stream.source import Positions, SourceWrapper
from scstream.stream.store import Store

_START = "replay"  # name of the savepoint in the scratch store
_NEVER = float("inf")
_SHARED = ("durable", "group")  # consumers that a broker knows, and that the pipeline itself uses


@dataclass(frozen=True)
class Verdict:
    """What a replay found.

    Parameters
    ----------
    first, stop : int
        Batches that were learned again: from the first, up to and without the other.
    compared : int
        In how many places the labels so far could be compared.

    Examples
    --------
    >>> from scstream.cli.replay import Verdict
    >>> print(Verdict(100, 300, 2))
    batches 100 to 299 gave the same labels again (compared after 2 of them)
    """

    first: int
    stop: int
    compared: int

    def __str__(self) -> str:
        return (
            f"batches {self.first} to {self.stop - 1} gave the same labels again "
            f"(compared after {self.compared} of them)"
        )


@dataclass
class _ReplayLog(CheckpointLog):
    """A ledger that compares the digest after every batch with those that are known."""

    expected: Mapping[int, str] = field(default_factory=dict)
    agreed: list[int] = field(default_factory=list)
    reached: int = -1

    def record_digest(self, batch: int, digest: str) -> None:
        self.reached = batch
        if batch not in self.expected:
            return
        if self.expected[batch] != digest:
            raise NonDeterministicReplay(
                f"the labels differ after batch {batch}, {self._since()}. The machine, the "
                "libraries or the rows are not those of the first time."
            )
        self.agreed.append(batch)

    def _since(self) -> str:
        if not self.agreed:
            return "the first one that can be compared"
        return f"and were still the same after batch {self.agreed[-1]}"


class _Onlooker(SourceWrapper):
    """A source that is read and never told what it may forget."""

    def acknowledge(self, positions: Positions) -> None:
        pass


def replay(
    settings: Mapping[str, Any],
    store: Store,
    *,
    start: str,
    to: int | None = None,
    emit: EventCallback = ignore_event,
    stop: Event | None = None,
) -> Verdict:
    """Learn batches again and compare; raises `NonDeterministicReplay` where labels differ.

    Parameters
    ----------
    settings : mapping
        Settings of the pipeline.
    store : Store
        Where its checkpoints are; it is only read.
    start : str
        Number of a version, or name of a savepoint.
    to : int, optional
        End before this batch; by default after the last one whose labels are known.
    emit : callable
        Is told what happens.
    stop : Event, optional
        Set it to end early.

    Returns
    -------
    Verdict
        What was compared.

    Examples
    --------
    See `scstream replay --help`.
    """
    content = _read(store, start)
    first = Progress.from_header(read_header(content)).batch
    expected = _known(store, first, to)
    scratch = Scratch(store)
    scratch.put(SAVEPOINT + _START, content)
    pipeline = _as_onlooker(settings, scratch, expected, emit)
    _check_cuts(pipeline, store, first)
    end = max(expected) + 1
    pipeline.run(savepoint=_START, until=end, stop=stop)
    log = pipeline.checkpoint_log
    assert isinstance(log, _ReplayLog)
    if log.reached + 1 < end and not (stop and stop.is_set()):
        raise NonDeterministicReplay(
            f"the source ends at batch {log.reached + 1}, but labels of batch {end - 1} are "
            "known; rows are missing now."
        )
    return Verdict(first, max(log.reached + 1, first), len(log.agreed))


def _read(store: Store, start: str) -> bytes:
    names = [SAVEPOINT + start]
    if start.isdigit():
        names.insert(0, f"{VERSION}{int(start):015d}")
    for name in names:
        if name in store.names(name):
            content = store.get(name)
            if content[:1] != b"{":
                return content
    kept = ", ".join(each.label for each in kept_in(store))
    raise InputError(f"there is no checkpoint or savepoint {start!r}; there are: {kept or 'none'}.")


def _known(store: Store, first: int, to: int | None) -> dict[int, str]:
    """Digests that are known of the labels up to and with a batch."""
    known = {
        int(name.removeprefix(DIGEST)): store.get(name).decode() for name in store.names(DIGEST)
    }
    for kept in kept_in(store):
        if kept.progress is not None and kept.progress.batch > 0:
            known[kept.progress.batch - 1] = kept.progress.digest
    later = {batch: digest for batch, digest in known.items() if batch >= first}
    if to is not None and later and to > max(later) + 1:
        raise InputError(
            f"labels are known up to batch {max(later)}, not up to batch {to - 1}; give a smaller "
            "--to, or none."
        )
    within = {batch: digest for batch, digest in later.items() if to is None or batch < to}
    if not within:
        raise InputError(
            f"there is nothing to compare with: no checkpoint or digest after batch {first} is kept"
            f"{'' if to is None else f' up to batch {to - 1}'}; start from an older one."
        )
    return within


def _as_onlooker(
    settings: Mapping[str, Any], scratch: Scratch, expected: Mapping[int, str], emit: EventCallback
) -> Pipeline:
    if "source" not in settings:
        raise InputError("replay needs the source of the pipeline; give its file, or --source.")
    if settings["source"].get("kind") in ("http", "stdin"):
        raise InputError(
            f"a source of kind {settings['source']['kind']!r} cannot be read twice, so that there "
            "is nothing to replay."
        )
    source = {name: value for name, value in settings["source"].items() if name not in _SHARED}
    pipeline = build({**settings, "source": source}, emit=emit, store=scratch)
    pipeline.source = _Onlooker(pipeline.source)
    pipeline.sink = pipeline.dead_letters = pipeline.alerts = NullSink()
    pipeline.checkpoint_log = _ReplayLog(scratch, expected=expected)
    pipeline.checkpoint_policy = CheckpointPolicy(batches=1 << 62, seconds=_NEVER, digests=1)
    return pipeline


def _check_cuts(pipeline: Pipeline, store: Store, first: int) -> None:
    """Where cuts were written down they are needed; old ones are pruned."""
    partitions = {
        partition for kept in kept_in(store) if kept.progress for partition in kept.progress.offsets
    }
    if pipeline.batching.records_boundaries(partitions) and not store.names(
        f"{BOUNDARY}{first:015d}"
    ):
        raise InputError(
            f"batch {first} was cut by the clock or over several partitions, and where it was cut is no "
            "longer kept; start from a newer checkpoint."
        )
