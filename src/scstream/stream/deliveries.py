"""What a batch delivers: labels, dead letters, alerts, a summary, and a digest of all labels."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from scstream.core.state import Event
from scstream.io.budget import MAX_CONTENT
from scstream.observe.alerts import Alert
from scstream.observe.events import BatchSummary
from scstream.preprocess.block import Block, Columns, Reject
from scstream.stream.batcher import SourceBatch
from scstream.stream.json_messages import to_json
from scstream.stream.processor import Learned
from scstream.stream.sink import Delivery


def label_delivery(job: str, batch: int, learned: Learned, names: Iterable[str]) -> Delivery:
    """Return the labels of a batch, with the columns of these names."""
    block = learned.block
    columns = {name: block.extra[name] for name in names if name in block.extra}
    labels = {"cluster": learned.labels, **learned.label_columns, **columns}
    return _delivery(job, batch, block.row, labels)


def dead_letter_delivery(
    job: str, source_batch: SourceBatch, learned: Learned, *, features: Sequence[str]
) -> Delivery:
    """Return the rejected rows of a batch, with their offsets, reasons and contents."""
    rejects = [_with_content(r, source_batch.whole, features) for r in learned.block.rejects]
    origins = [source_batch.origin(reject.row) for reject in rejects]
    columns = {
        "partition": _texts(partition for partition, _ in origins),
        "position": _texts(str(offset.position) for _, offset in origins),
        "row": np.array([offset.row for _, offset in origins], dtype=np.int64),
        "reason": _texts(reject.reason for reject in rejects),
        "content": _texts(reject.content for reject in rejects),
        "complete": np.array([reject.complete for reject in rejects], dtype=bool),
    }
    index = np.array([reject.row for reject in rejects], dtype=np.int64)
    return _delivery(job, source_batch.batch, index, columns)


def alert_delivery(job: str, batch: int, alerts: Sequence[Alert]) -> Delivery:
    """Return the alerts of a batch, one row each."""
    columns = {
        "kind": _texts(alert.kind for alert in alerts),
        "value": np.array([alert.value for alert in alerts], dtype=np.float64),
        "detail": _texts(alert.detail for alert in alerts),
    }
    return _delivery(job, batch, np.arange(len(alerts), dtype=np.int64), columns)


def event_delivery(job: str, batch: int, events: Sequence[Event]) -> Delivery:
    """Return the events of clusters before and in a batch, one row each; other is -1 for none."""
    columns = {
        "kind": _texts(event.kind for event in events),
        "time": np.array([event.time for event in events], dtype=np.float64),
        "id": np.array([event.id for event in events], dtype=np.int64),
        "weight": np.array([event.weight for event in events], dtype=np.float64),
        "other": np.array([-1 if e.other is None else e.other for e in events], dtype=np.int64),
        "name": _texts(event.name or "" for event in events),
        "author": _texts(event.author or "" for event in events),
    }
    return _delivery(job, batch, np.arange(len(events), dtype=np.int64), columns)


def batch_summary(batch: int, learned: Learned, *, n_future: int = 0) -> BatchSummary:
    """Return the result of a batch in plain numbers, for logs, metrics and alerts."""
    info, block = learned.info, learned.block
    return BatchSummary(
        batch=batch,
        rows=block.n_rows,
        rejected=len(block.rejects),
        future=n_future,
        over_quota=learned.over_quota,
        keys=learned.n_keys,
        clusters=learned.n_clusters,
        novel=info.n_novel,
        log_density=info.log_density_before,
        screening_error=info.screening_error,
        events=Counter(event.kind for event in info.events),
    )


def chain_digest(before: str, labels: Delivery) -> str:
    """Return the digest of all labels so far, from that of the batches before."""
    digest = hashlib.sha256(f"{before}/{labels.batch}/".encode())
    for name in ("index", "cluster"):
        digest.update(np.ascontiguousarray(labels.columns[name], dtype="<i8").tobytes())
    return digest.hexdigest()


def _delivery(job: str, batch: int, index: NDArray[np.int64], columns: Columns) -> Delivery:
    numbers = np.full(len(index), batch, dtype=np.int64)
    return Delivery(job, batch, {"batch": numbers, "index": index, **columns})


def _with_content(reject: Reject, block: Block, features: Sequence[str]) -> Reject:
    """Return a reject with its row as JSON if it was valid when it was read, as a late row was."""
    i = int(np.searchsorted(block.row, reject.row))
    if reject.content or i == len(block.row) or block.row[i] != reject.row:
        return reject
    entries = block.X[[i]].toarray()[0] if issparse(block.X) else block.X[i]
    values = dict(zip(features, entries.tolist(), strict=False))
    values |= {name: column[i] for name, column in block.extra.items()}
    text = to_json(values).decode()
    return replace(reject, content=text[:MAX_CONTENT], complete=len(text) <= MAX_CONTENT)


def _texts(values: Iterable[str]) -> NDArray[np.object_]:
    return np.array(list(values), dtype=object)
