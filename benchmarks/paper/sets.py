"""The labelled streams of the comparison: what they are, in which order, and on which scale.

Measured rows are standardised over the whole stream, as the paper does; a column that never
changes becomes zero. Drawn streams stay as their recipe draws them, and counts stay counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.paper import files
from benchmarks.paper.recurring import recurring_order
from benchmarks.paper.truth import gaussian_labels, multinomial_labels
from scstream import datasets

IntArray = npt.NDArray[np.int64]
_SHUFFLE = 20220331  # seed of the shuffled 20 Newsgroups
_RECURRING = 20220332  # seed of the order of the ImageNet100 stand-in
_N_BUCKETS = 2000
_QUICK_BATCH = 250


class Table(NamedTuple):
    """A labelled stream in its order."""

    X: Any  # (N, D) numbers, or counts as whole numbers or CSR
    y: IntArray  # (N,)
    oracle: IntArray | None = None  # (N,) labels of the Bayes classifier, where the truth is known


@dataclass(frozen=True)
class DataSet:
    """A stream by name; it is read or drawn when asked for."""

    name: str
    title: str
    kind: str  # "real" or "counts"
    load: Callable[[], Table]
    batch: int = 1000
    group: str = ""  # the sets of one group count once in mean ranks
    quick: bool = False  # belongs to the quick run
    full: bool = True  # belongs to the full run; others run only if named
    published: dict[str, Any] | None = None  # what the paper's tuning found for its own method


def n_batches(n_rows: int, batch: int) -> int:
    """Batches of a stream: what is left at the end is one more if it is at least half of one."""
    return n_rows // batch + (2 * (n_rows % batch) >= batch)


def standardise(X: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Subtract the mean of each column and divide by its standard deviation."""
    rows = np.asarray(X, dtype=np.float64)
    constant = rows.min(axis=0) == rows.max(axis=0)
    scale = np.where(constant, 1.0, rows.std(axis=0))
    scaled: npt.NDArray[np.float64] = (rows - rows.mean(axis=0)) / scale
    scaled[:, constant] = 0.0
    return scaled


def numbered(labels: npt.ArrayLike) -> IntArray:
    """Labels of any kind as 0, 1, ..."""
    return np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)


def _gauss2d(n_rows: int) -> Table:
    drawn = files.recipe("gen_gauss2d").generate(n=n_rows)
    return Table(drawn["X"], drawn["y"].astype(np.int64), gaussian_labels(drawn, batch=1000))


def _multinomial() -> Table:
    drawn = files.recipe("gen_multinomial").generate(n=1_000_000)
    oracle = multinomial_labels(drawn, batch=1000, width=20.0)
    return Table(drawn["X"], drawn["y"].astype(np.int64), oracle)


def _recurring64() -> Table:
    drawn = files.recipe("gen_recurring").generate()
    oracle = gaussian_labels(drawn, batch=1000)
    return Table(drawn["X"].astype(np.float64), drawn["y"].astype(np.int64), oracle)


def _generated(stream: datasets.Stream) -> Table:
    batches = list(stream)
    X, y = np.concatenate([b.X for b in batches]), np.concatenate([b.y for b in batches])
    return Table(X, y, np.concatenate([b.oracle() for b in batches]))


def _gauss2d_quick() -> Table:
    stream = datasets.drifting_gaussians(8, 2, batch_size=_QUICK_BATCH, random_state=1)
    return _generated(stream.take(20))


def _counts_quick() -> Table:
    stream = datasets.drifting_multinomials(8, 30, batch_size=_QUICK_BATCH, random_state=1)
    return _generated(stream.take(20))


def _arrays(name: str) -> Table:
    X, y = files.arrays(name)
    return Table(standardise(X), numbered(y))


def _table(name: str) -> Table:
    X, y = files.table(name)
    return Table(standardise(X), numbered(y))


def _kdd() -> Table:
    # Bytes and durations stay as heavy-tailed as they are: no logarithm is taken.
    X, y = files.kdd()
    return Table(standardise(X), numbered(y))


def _imagenet() -> Table:
    """The leading 64 components, standardised, in the order of `recurring_order`."""
    X, y = files.arrays("tiny_imagenet100_feat")
    rows = recurring_order(y, seed=_RECURRING).rows
    return Table(standardise(X[rows, :64]), y[rows].astype(np.int64))


def _newsgroups(tokens: str, order: str) -> Table:
    """Articles by the date they were posted, or shuffled; some have none of the words."""
    counts, y, date = files.newsgroups(tokens)
    by_date = np.argsort(date, kind="stable")
    shuffled = np.random.default_rng(_SHUFFLE).permutation(len(y))
    rows = by_date if order == "bydate" else shuffled
    return Table(sp.csr_matrix(counts[rows]), y[rows].astype(np.int64))


def hashed(texts: list[list[str]]) -> sp.csr_matrix:
    """Counts of words by the bucket that CRC-32 of the word falls in.

    A vocabulary would be made of words that a stream has yet to bring; buckets are known before
    the first row, and cost some collisions.
    """
    columns = [zlib.crc32(word.encode()) % _N_BUCKETS for words in texts for word in words]
    rows = np.repeat(np.arange(len(texts)), [len(words) for words in texts])
    counts = sp.coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(texts), _N_BUCKETS))
    return counts.tocsr()


def _short_text(name: str) -> Table:
    texts, y = files.short_text(name)
    return Table(hashed(texts), numbered(y))


def _newsgroup_sets() -> list[DataSet]:
    tokens = {"all": "all words", "nostop": "no stop words", "body_nostop": "bodies"}
    orders = {"bydate": "by date", "shuffled": "shuffled"}
    return [
        DataSet(
            f"20news-{t}-{o}",
            f"20 Newsgroups, {tokens[t]}, {orders[o]}",
            "counts",
            partial(_newsgroups, t, o),
            group="20news",
        )
        for t in tokens
        for o in orders
    ]


def _quick_sets() -> list[DataSet]:
    size: dict[str, Any] = {"batch": _QUICK_BATCH, "quick": True, "full": False}
    return [
        DataSet("gauss2d-quick", "2-D Gaussians, short", "real", _gauss2d_quick, **size),
        DataSet("counts-quick", "Multinomials, short", "counts", _counts_quick, **size),
    ]


def _papers_prior(*, half_life: float, nu: float, psi: float, n_features: int) -> dict[str, Any]:
    """The prior that the paper gives for a set, in the words of our knobs."""
    return {"prior": "given", "half_life": half_life, "freedom": nu - n_features, "psi": psi}


_SETS = (
    DataSet(
        *("gauss2d", "2-D Gaussians", "real", partial(_gauss2d, 1_000_000)),
        published=_papers_prior(half_life=1.0, nu=4.0, psi=1.02, n_features=2),
    ),
    DataSet("gauss2d-1e7", "2-D Gaussians, 1e7", "real", partial(_gauss2d, 10**7), full=False),
    DataSet("multinomial", "100-D multinomials", "counts", _multinomial),
    DataSet("recurring64", "64-D Gaussians, recurring", "real", _recurring64),
    DataSet(
        *("covertype", "CoverType", "real", partial(_arrays, "covtype")),
        published=_papers_prior(half_life=5.0, nu=25.0, psi=0.78, n_features=10),
    ),
    *_newsgroup_sets(),
    DataSet(
        *("imagenet100-recurring", "ImageNet100 stand-in, recurring", "real", _imagenet),
        published=_papers_prior(half_life=5.0, nu=562.0, psi=0.51, n_features=64),
    ),
    DataSet("kdd99", "KDD Cup 99", "real", _kdd),
    DataSet("electricity", "Electricity", "real", partial(_table, "elec2")),
    DataSet("noaa", "NOAA weather", "real", partial(_table, "noaa_weather")),
    DataSet("shuttle", "Shuttle", "real", partial(_arrays, "shuttle")),
    DataSet("outdoor", "Outdoor", "real", partial(_arrays, "outdoor"), batch=200, quick=True),
    DataSet("keystroke", "Keystroke", "real", partial(_arrays, "keystroke"), batch=100),
    DataSet("news-t", "News-T", "counts", partial(_short_text, "News-T")),
    DataSet("tweets-t", "Tweets-T", "counts", partial(_short_text, "Tweets-T")),
    *_quick_sets(),
)
SETS: dict[str, DataSet] = {each.name: each for each in _SETS}
