"""Sets as uncompressed files, written once, that workers of any interpreter can open.

They lie in ``SCSTREAM_CACHE``, by default ``benchmarks/.cache``, in a folder named after the set
and the source of its recipe: a changed recipe makes a new folder.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.paper import environments
from benchmarks.paper.progress import say
from benchmarks.paper.sets import DataSet, IntArray, n_batches
from scstream import datasets


@dataclass(frozen=True)
class Stored:
    """A set on disk: where its rows are, and the labels that only the parent sees."""

    data: Path
    y: IntArray
    oracle: IntArray | None
    n_features: int
    batch: int

    @property
    def n_batches(self) -> int:
        """Batches of the whole stream."""
        return n_batches(len(self.y), self.batch)

    @property
    def k(self) -> int:
        """True clusters over the whole stream."""
        return len(np.unique(self.y))

    @property
    def size(self) -> int:
        """Cells of the table: what a run costs, roughly."""
        return len(self.y) * self.n_features


def stored(dataset: DataSet) -> Stored:
    """Open a set, and write it first if it is not there."""
    folder = environments.cache() / "sets" / f"{dataset.name}-{_fingerprint()}"
    if not folder.exists():
        say(f"{dataset.name} is being read or drawn for the first time.")
        _write(dataset, folder)
    data = next(folder.glob("X.np*"))
    oracle = folder / "oracle.npy"
    return Stored(
        data,
        np.load(folder / "y.npy", mmap_mode="r"),
        np.load(oracle, mmap_mode="r") if oracle.exists() else None,
        int(np.load(folder / "shape.npy")[1]),
        dataset.batch,
    )


def _write(dataset: DataSet, folder: Path) -> None:
    X, y, oracle = dataset.load()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        whole = Path(place, "whole")
        whole.mkdir()
        if sp.issparse(X):
            parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
            np.savez(whole / "X.npz", **parts)
        else:
            np.save(whole / "X.npy", X)
        np.save(whole / "shape.npy", X.shape)
        np.save(whole / "y.npy", y)
        if oracle is not None:
            np.save(whole / "oracle.npy", oracle)
        whole.rename(folder)


@cache
def _fingerprint() -> str:
    """A name for the source of all recipes."""
    here, generators = Path(__file__).parent, Path(datasets.__file__).parent
    own = (here / f"{name}.py" for name in ("files", "recurring", "sets", "truth"))
    sources = b"".join(path.read_bytes() for path in (*own, *sorted(generators.glob("*.py"))))
    return hashlib.sha256(sources).hexdigest()[:8]
