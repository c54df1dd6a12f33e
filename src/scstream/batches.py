"""A stream of batches as users have it: arrays, tables, pairs with times, objects with rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from scipy import sparse

from scstream.compute.rows import RemoteRows
from scstream.errors import InputError
from scstream.io.progress_line import ProgressLine


class BatchesMixin:
    """`fit_stream` of an estimator that has `partial_fit`."""

    partial_fit: Callable[..., Any]

    def fit_stream(
        self,
        batches: Iterable[Any],
        *,
        time: str | None = None,
        progress: bool = False,
        on_batch: Callable[[Self], object] | None = None,
    ) -> Self:
        """Learn batch after batch, as `partial_fit` does; a model that has learned goes on.

        If a batch raises an error, the model has learned the batches before it, and the error has
        a note with the number of the batch.

        Parameters
        ----------
        batches : iterable
            The batches, each of them an array, table or CSR matrix; or a tuple of rows and their
            `time`; or an object with `X` and perhaps `time`, such as those of `scstream.datasets`.
            Every batch is read once and not kept.
        time : str, optional
            Name of the column of tables that holds the time of every row.
        progress : bool
            Whether to count batches, rows and clusters in a line on standard error. The line is
            written to a terminal or a notebook only.
        on_batch : callable, optional
            Is called with this estimator after every batch: ``history.record`` of a
            `scstream.plot.History`, say.

        Returns
        -------
        ScStream
            The fitted estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> from scstream.datasets import drifting_gaussians
        >>> stream = drifting_gaussians(n_clusters=3, n_batches=5, random_state=1)
        >>> ScStream(random_state=0).fit_stream(stream, progress=True).n_clusters_
        3
        >>> pairs = [([[0.1], [0.2], [0.3]], 10.0), ([[0.2], [0.4]], 15.0)]
        >>> ScStream(random_state=0).fit_stream(pairs).model_.time
        15.0
        """
        line = ProgressLine(shown=progress, total=_length(_checked(batches)))
        n_rows = 0
        try:
            for number, batch in enumerate(batches, 1):
                rows, own_time = _rows_and_time(batch)
                try:
                    model = self.partial_fit(rows, time=time if own_time is None else own_time)
                except (TypeError, ValueError) as error:
                    error.add_note(f"This was batch {number} of the stream, counted from 1.")
                    raise
                n_rows += len(model.labels_)
                line.update(number, n_rows, model.n_clusters_)
                if on_batch is not None:
                    on_batch(self)
        finally:
            line.close()
        return self


def _rows_and_time(batch: Any) -> tuple[Any, Any]:
    """Return the rows of a batch, and their time or None."""
    if isinstance(batch, tuple) and len(batch) == 2:
        return batch
    if _is_rows(batch) or not hasattr(batch, "X"):
        return batch, None
    return batch.X, getattr(batch, "time", None)


def _checked(batches: Any) -> Any:
    """Return the batches; raise `InputError` for something that is a single batch."""
    is_array = isinstance(batches, np.ndarray) and batches.ndim < 3
    if is_array or (_is_rows(batches) and not isinstance(batches, np.ndarray)):
        raise InputError(
            "batches is a single table; pass a list or a generator of such tables, or learn this "
            "one with partial_fit."
        )
    if isinstance(batches, str | bytes) or not isinstance(batches, Iterable):
        raise InputError(
            f"batches must be a list or another iterable of batches, got {type(batches).__name__}."
        )
    return batches


def _is_rows(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return False
    if isinstance(value, np.ndarray | RemoteRows) or sparse.issparse(value):
        return True
    from scstream.io.frames import is_table  # narwhals is loaded for tables only

    return is_table(value)


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except TypeError:  # a generator, or a stream without end
        return None
