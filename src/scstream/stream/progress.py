"""`Progress`: what a checkpoint stores of a pipeline, apart from its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Self

from scstream.core.state import Event
from scstream.errors import InputError
from scstream.io._packing import record, unpack
from scstream.io.header import Json, Plain
from scstream.stream.batcher import NEVER, Offset, Offsets
from scstream.stream.changeable import changed_settings, rule_of
from scstream.stream.schema import Schema
from scstream.stream.sink import SinkPosition
from scstream.stream.source import Positions, Resume


@dataclass(frozen=True)
class Progress:
    """How far a pipeline has come: everything it needs to continue, except the model."""

    batch: int  # number of the next batch
    time: float = 0.0  # when the checkpoint was made, in seconds since 1970
    epoch: int = -1  # version that the running instance claimed when it started
    job: str = ""  # name of the pipeline
    settings: Plain = field(default_factory=dict)  # that labels depend on, as the user wrote them
    identity: Mapping[str, str] = field(default_factory=dict)  # `Source.identity` of the source
    offsets: Offsets = field(default_factory=dict)  # of the next rows, by partition
    sinks: Mapping[str, SinkPosition] = field(default_factory=dict)  # position of each, by name
    schema: Schema = field(default_factory=Schema)  # with the features of the first valid row
    watermark: float = NEVER  # time of the last batch, if batches have times
    digest: str = ""  # of all labels so far
    rows: int = 0  # number of rows so far
    rejected: int = 0  # number of rejected rows among them
    alerts: Plain = field(default_factory=dict)  # state of the alert rules
    edits: int = 0  # number of the next edit
    edit_events: tuple[Event, ...] = ()  # of edits before the next batch, not delivered yet

    def to_dict(self) -> Json:
        """Return the progress as plain JSON."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        offsets = {name: [offset.position, offset.row] for name, offset in self.offsets.items()}
        events = [asdict(event) for event in self.edit_events]
        return values | {
            "offsets": offsets,
            "schema": asdict(self.schema),
            "edit_events": events,
        }

    @classmethod
    def from_dict(cls, values: Plain) -> Self:
        """Undo `to_dict`; raises ValueError, TypeError or KeyError if the values are damaged."""
        values = dict(values)
        columns = values.pop("schema", {}).items()
        schema = record(Schema, {n: tuple(v) if isinstance(v, list) else v for n, v in columns})
        offsets = {}
        for partition, (position, row) in values.pop("offsets", {}).items():
            offsets[partition] = Offset(position, int(row))
        events = tuple(record(Event, event) for event in values.pop("edit_events", ()))
        return record(cls, values, schema=schema, offsets=offsets, edit_events=events)

    @classmethod
    def from_header(cls, header: Plain) -> Self:
        """Return the progress in the header of a checkpoint; raises as `from_dict` does."""
        return cls.from_dict(unpack(header["pipeline"]["progress"], {}))

    @property
    def positions(self) -> Positions:
        """Position of the next message, by partition."""
        return {partition: offset.position for partition, offset in self.offsets.items()}

    @property
    def resume(self) -> Resume:
        """What the source needs to continue."""
        return Resume(self.identity, self.positions)

    def check(self, job: str, settings: Plain) -> None:
        """Raise `InputError` unless the checkpoint is of this job with these settings."""
        if self.job != job:
            raise InputError(
                f"these checkpoints belong to the job {self.job!r}, not {job!r}; give every job a "
                "checkpoint folder of its own."
            )
        changed = changed_settings(self.settings, settings)
        if changed:
            anew = "start a new job with a checkpoint folder of its own"
            if all(rule_of(name).when == "migrate" for name in changed):
                anew = "start a new job that keeps the clusters with scstream migrate"
            raise InputError(
                f"the checkpoint was written with other settings of {', '.join(changed)}; restore "
                f"them, or {anew}."
            )

    def committed(self, sinks: Mapping[str, SinkPosition], *, epoch: int) -> Self:
        """Return the progress with the positions of flushed sinks."""
        return replace(self, sinks=dict(sinks), epoch=epoch)
