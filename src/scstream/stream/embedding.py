"""Embeddings of a text column, made batch by batch before the batch is learned.

Servers and graphics cards do not compute the same bits twice. The vectors of a batch are therefore
recorded beside the checkpoints before they are used: a batch that is learned again after a crash
gets the vectors of the first time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import Event
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scstream.errors import CheckpointCorrupt, NonDeterministicReplay, StreamError
from scstream.io._packing import seal, unseal
from scstream.io.model_file import DAMAGE
from scstream.preprocess.base import reject_rows
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.connectors.outage import Outage
from scstream.stream.embed_calls import Embed, Refused, read_vectors
from scstream.stream.findings import Finding
from scstream.stream.store import Store, numbered_name
from scstream.stream.vectors import MAX_WIDTH, entry_names

EMBEDDING = "embedding-"  # records of batches in the store
_Vector: TypeAlias = NDArray[np.float32] | str  # a text says why there is none


class Embedder:
    """Replaces the columns of batches by embeddings of their texts, or adds them to the columns.

    Parameters
    ----------
    embed : callable
        Takes a list of texts and returns a vector for each; `embed_function` and `embed_server`
        make one.
    column : str
        The column of texts.
    id : str, optional
        A column of ids. Rows with the same id have the same vector, which is made once as long as
        it is among the last `cache` ones. By default the text is the id.
    rows : int
        Most texts of one call.
    cache : int
        Number of vectors in memory.
    retry_timeout : float or None
        Seconds without success after which the pipeline ends; None tries for ever.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.stream.batcher import SourceBatch
    >>> from scstream.stream.embedding import Embedder
    >>> from scstream.stream.store import MemoryStore
    >>> embedder = Embedder(lambda texts: [[len(text), 1.0] for text in texts], column="title")
    >>> texts = np.array(["rain", "sun"], dtype=object)
    >>> batch = SourceBatch(0, {}, None, Block.of(np.zeros((2, 0)), title=texts), ())
    >>> embedder.apply(batch, MemoryStore()).block.X.tolist()
    [[4.0, 1.0], [3.0, 1.0]]
    >>> embedder.feature_names(("price",))
    ('price', 'title[0]', 'title[1]')
    """

    def __init__(
        self,
        embed: Embed,
        *,
        column: str,
        id: str | None = None,
        rows: int = 64,
        cache: int = 10_000,
        retry_timeout: float | None = 300.0,
    ) -> None:
        self.column = column
        self._embed = embed
        self._id = id
        self._rows = rows
        self._cache_size = cache
        self._retry_timeout = retry_timeout
        self._cache: OrderedDict[Any, _Vector] = OrderedDict()  # least recently used first
        self._width: int | None = None
        self._stop = Event()

    def begin(self, log: CheckpointLog, stop: Event) -> None:
        """Prepare for a run: records are deleted with the checkpoints; `stop` ends attempts."""
        log.records = tuple(dict.fromkeys((*log.records, EMBEDDING)))
        self._stop = stop

    def apply(self, source_batch: SourceBatch, store: Store) -> SourceBatch:
        """Return a batch with the vectors of its texts as columns."""
        block = source_batch.block
        if not len(block.row):
            return source_batch
        texts = block.extra[self.column].tolist()
        vectors = self._recorded(source_batch.batch, texts, store)
        if vectors is None:
            vectors = self._made(texts, self._ids(block))
            if not store.put_new(*_record(source_batch.batch, texts, vectors)):
                vectors = self._recorded(source_batch.batch, texts, store) or vectors
        return replace(source_batch, block=self._with_vectors(block, vectors))

    def feature_names(self, names: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the names of all columns; None before there is a vector."""
        if self._width is None:
            return None
        return (*(names or ()), *entry_names(self.column, self._width))

    def doctor(self) -> list[Finding]:
        """Embed one text."""
        vectors = read_vectors(self._embed(["scstream doctor"]), 1)
        detail = f"an embedding has {len(vectors[0])} entries"
        return [Finding("ok", "embedding", detail)]

    def _ids(self, block: Block) -> list[Any]:
        return list(block.extra[self._id or self.column].tolist())

    def _made(self, texts: list[Any], ids: list[Any]) -> list[_Vector]:
        """Return the vectors of texts; those that are not in memory are made."""
        found: dict[Any, _Vector] = {}
        missing: dict[Any, str] = {}
        for id_, text in zip(ids, texts, strict=True):
            if not isinstance(text, str):
                found[id_] = f"column {self.column!r} holds {type(text).__name__}, not text"
            elif id_ in self._cache:
                self._cache.move_to_end(id_)
                found[id_] = self._cache[id_]
            else:
                missing.setdefault(id_, text)
        wanted = list(missing)
        for start in range(0, len(wanted), self._rows):
            part = wanted[start : start + self._rows]
            for id_, vector in zip(part, self._called([missing[i] for i in part]), strict=True):
                found[id_] = self._cache[id_] = vector
        while len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)
        return [found[id_] for id_ in ids]

    def _called(self, texts: list[str]) -> list[_Vector]:
        """Return the vectors of one call; texts that it refuses are found by calls for halves."""
        outage = Outage("the embeddings", self._retry_timeout)
        while True:
            try:
                return [self._checked(v) for v in read_vectors(self._embed(texts), len(texts))]
            except Refused as error:
                if len(texts) == 1:
                    return [f"no embedding of the text: {error}"]
                middle = len(texts) // 2
                return [*self._called(texts[:middle]), *self._called(texts[middle:])]
            except StreamError:
                raise
            except Exception as error:  # a function of the user may raise anything
                outage.failed(f"{type(error).__name__}: {error}")
                outage.wait(self._stop)

    def _checked(self, vector: NDArray[np.float32]) -> _Vector:
        width = self._width = self._width or len(vector)
        if not 0 < len(vector) <= MAX_WIDTH:
            raise StreamError(f"an embedding has {len(vector)} entries; 1 to {MAX_WIDTH:,} can be.")
        if len(vector) != width:
            raise StreamError(
                f"an embedding has {len(vector)} entries, others have {width}; the model of the "
                "server or of the function has changed. Restore it, or start a new job."
            )
        return vector if np.isfinite(vector).all() else "the embedding of the text holds NaN"

    def _with_vectors(self, block: Block, vectors: Sequence[_Vector]) -> Block:
        bad = np.array([isinstance(vector, str) for vector in vectors], dtype=bool)
        if bad.any():
            block = reject_rows(block, bad, [str(v) if isinstance(v, str) else "" for v in vectors])
        made = [vector for vector in vectors if not isinstance(vector, str)]
        self._width = self._width or (len(made[0]) if made else None)
        width = self._width or 0
        rows = np.array(made, dtype=np.float64).reshape(len(made), width)
        return replace(block, X=np.hstack([block.X, rows]))

    def _recorded(self, batch: int, texts: list[Any], store: Store) -> list[_Vector] | None:
        """Return the vectors that were recorded for a batch, if it was learned before."""
        name = numbered_name(EMBEDDING, batch)
        try:
            content = store.get(name)
        except KeyError:
            return None
        try:
            header, tensors = unseal(content, dtypes={"F32": np.float32})
            if header["texts"] != _hash_of(texts):
                raise NonDeterministicReplay(
                    f"the texts of batch {batch} are not those of the first time; restore them, "
                    "or start a new job with checkpoints and a sink of its own."
                )
            reasons = {int(row): str(reason) for row, reason in header["reasons"].items()}
            made: Iterator[_Vector] = iter(tensors["vectors"])
            return [reasons[i] if i in reasons else next(made) for i in range(len(texts))]
        except (*DAMAGE, StopIteration) as error:
            raise CheckpointCorrupt(
                f"{name}, the embeddings of a batch, is damaged ({error}); restore it from a copy "
                "of the checkpoints, or delete it: then they are made again."
            ) from error


def _record(batch: int, texts: list[Any], vectors: Sequence[_Vector]) -> tuple[str, bytes]:
    """Return name and content of the record of a batch."""
    reasons = {str(i): vector for i, vector in enumerate(vectors) if isinstance(vector, str)}
    made = [vector for vector in vectors if not isinstance(vector, str)]
    header = {"batch": batch, "texts": _hash_of(texts), "reasons": reasons}
    tensor = np.array(made, dtype=np.float32).reshape(len(made), -1 if made else 0)
    return numbered_name(EMBEDDING, batch), seal(header, {"vectors": tensor})


def _hash_of(texts: list[Any]) -> str:
    found = sha256()
    for text in texts:
        content = str(text).encode("utf-8", "surrogatepass")
        found.update(len(content).to_bytes(8, "little") + content)
    return found.hexdigest()
