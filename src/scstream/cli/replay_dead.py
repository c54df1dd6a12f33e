"""`scstream replay-dead`: send dead letters to a broker again, each of them once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from scstream.cli.settings import Tables
from scstream.errors import CheckpointCorrupt, InputError
from scstream.io.header import Json
from scstream.io.records import sealed, unsealed
from scstream.stream import connectors
from scstream.stream.config import FORMAT
from scstream.stream.store import Store, number_of, numbered_name, numbered_names

SENDERS = {
    "kafka": "kafka.sender.KafkaSender",
    "nats": "nats.sender.NatsSender",
    "redis": "redis.sender.RedisSender",
}
REPLAYED = "replayed-"  # names in the store: which letters were sent
_CHUNK = 500  # letters that are sent between two records
Key = tuple[int, int]  # batch and index


@dataclass(frozen=True)
class Result:
    """How many dead letters were sent, and why others were not."""

    sent: int
    before: int
    incomplete: int
    other: int

    def __str__(self) -> str:
        return (
            f"{self.sent} dead letters were sent. Left: {self.before} sent before, "
            f"{self.incomplete} that are not complete, {self.other} with another reason."
        )


def replay_letters(
    settings: Tables,
    store: Store,
    *,
    to: Tables | None = None,
    reason: str | None = None,
    dry_run: bool = False,
) -> Result:
    """Send the complete dead letters whose reason contains a text, unless they were sent before."""
    target = _target(settings, to)
    known = _replayed(store)
    job, counts = settings.get("job", "scstream"), {"before": 0, "incomplete": 0, "other": 0}
    due: list[tuple[Key, bytes]] = []
    for letter in _letters(_path(settings)):
        key = (int(letter["batch"]), int(letter["index"]))
        if reason is not None and reason not in letter["reason"]:
            counts["other"] += 1
        elif key in known:
            counts["before"] += 1
        elif not letter.get("complete", False):
            counts["incomplete"] += 1
        else:
            due.append((key, letter["content"].encode()))
    if due and not dry_run:
        _send(target, job, due, store)
    return Result(len(due), **counts)


def _send(target: Tables, job: str, due: list[tuple[Key, bytes]], store: Store) -> None:
    """Send letters; after each part, record what was sent before more is."""
    options = {name: value for name, value in target.items() if name != "kind"}
    module, _, name = f"{connectors.__name__}.{SENDERS[target['kind']]}".rpartition(".")
    sender: Any = getattr(import_module(module), name)(**options)
    try:
        for start in range(0, len(due), _CHUNK):
            part = due[start : start + _CHUNK]
            messages = [(f"{job}/dead/{b}/{i}", content) for (b, i), content in part]
            sender.send(messages)
            _record(store, [key for key, _ in part])
    finally:
        sender.close()


def _record(store: Store, keys: list[Key]) -> None:
    names = numbered_names(store, REPLAYED)
    number = number_of(REPLAYED, names[-1]) + 1 if names else 0
    while not store.put_new(numbered_name(REPLAYED, number), sealed({"letters": keys})):
        number += 1


def _replayed(store: Store) -> set[Key]:
    found: set[Key] = set()
    for name in numbered_names(store, REPLAYED):
        try:
            found |= {(batch, index) for batch, index in unsealed(store.get(name))["letters"]}
        except (ValueError, TypeError, LookupError) as error:
            raise CheckpointCorrupt(
                f"{name}, which says what dead letters were sent, is damaged ({error}); restore it "
                "from a copy, or remove it, and its letters are sent again."
            ) from None
    return found


def _path(settings: Tables) -> Path:
    table = settings.get("dead_letters", {})
    path = Path(str(table.get("path", "")))
    lines = (".jsonl", ".ndjson", ".json")
    is_lines = table.get("format", "auto") == "jsonl" or path.suffix.lower() in lines
    if table.get("kind") != "file" or not is_lines:
        raise InputError(
            "replay-dead reads dead letters from files of JSON lines; dead_letters has another "
            "kind or format. Export them to such a file, and name it with --set dead_letters.path="
            "FILE and --set dead_letters.kind=file."
        )
    return path


def _letters(path: Path) -> Iterator[Json]:
    """Yield the letters of the closed files and of the open one, the oldest first."""
    closed = sorted(path.parent.glob(f"{path.stem}.{'[0-9]' * 8}*{path.suffix}"))
    for file in (*closed, path):
        if not file.exists():
            continue
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.endswith("\n"):
                    break  # the pipeline is writing it
                yield _letter(line, f"line {number} of {file}")


def _letter(line: str, where: str) -> Json:
    try:
        letter = json.loads(line)
        if letter.keys() >= {"batch", "index", "reason", "content"}:
            return dict(letter)
    except (ValueError, AttributeError):
        pass
    raise InputError(f"{where} is not a dead letter; give the file that [dead_letters] names.")


def _target(settings: Tables, to: Tables | None) -> Tables:
    target: Tables = to or settings.get("source", {})
    if target.get("kind") not in SENDERS:
        raise InputError(
            f"dead letters cannot be sent to a source of kind {target.get('kind')!r}; name a "
            f"broker with --to, one of {', '.join(SENDERS)}."
        )
    if to is None and target.get("format", FORMAT) != "json":
        raise InputError(
            f"dead letters are JSON, and the source reads {target['format']!r}; send them with "
            "--to to a place that a pipeline with format 'json' reads."
        )
    return target
