"""Word counts of texts: by hash, or for a vocabulary fitted to the first batch."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from scstream.errors import InputError
from scstream.preprocess.base import Names, Step, check_option, is_whole, reject_rows
from scstream.preprocess.block import Block
from scstream.preprocess.stop_words import ENGLISH

_WORD = re.compile(r"\w\w+")


def words(text: str, stop: frozenset[str] = frozenset()) -> list[str]:
    """Return the words of a text in lower case: two or more letters, digits or underscores."""
    found = _WORD.findall(unicodedata.normalize("NFC", text).lower())
    return [word for word in found if word not in stop] if stop else found


@lru_cache(maxsize=1 << 16)
def stable_hash(word: str) -> int:
    """Return a 64-bit hash that is the same in every process and on every machine."""
    content = word.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


@dataclass(frozen=True, eq=False)
class TextStep(Step):
    """A step that replaces all columns by word counts of a text column.

    Parameters
    ----------
    n : int
        Number of columns; for `count_words`, the maximum.
    column : str
        The text column; in a pipeline the default is the `text` column of the schema.
    stop_words : "none", "english" or sequence of str
        Words that are not counted.
    empty : {"reject", "keep"}
        What to do with a row that has no counted word: reject it, or keep it as a row of zeros,
        which carries no information and joins a large cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.text import HashText
    >>> step = HashText(column="title", stop_words="english")
    >>> block, found = step.read(Block.of(np.zeros((2, 0)), title=["Rain and sun", None]))
    >>> found, block.rejects[0].reason
    ([['rain', 'sun']], "column 'title' holds NoneType, not text")
    """

    n: int = 2000
    column: str = "text"
    stop_words: str | Sequence[str] = "none"
    empty: str = "reject"

    reads_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_option(self, is_whole(self.n, 1), "n", "a whole number from 1")
        column: Any = self.column
        named = isinstance(column, str) and column != ""
        check_option(self, named, "column", "the name of a column of text")
        must = "'none', 'english' or a list of words"
        stop: Any = self.stop_words
        listed = isinstance(stop, list | tuple) and all(isinstance(word, str) for word in stop)
        check_option(self, listed or stop in ("none", "english"), "stop_words", must)
        check_option(self, self.empty in ("reject", "keep"), "empty", "'reject' or 'keep'")
        if listed:
            object.__setattr__(self, "stop_words", tuple(stop))

    def read(self, block: Block) -> tuple[Block, list[list[str]]]:
        """Return the block without rows that have no text, and the words of each row."""
        if self.column not in block.extra:
            raise InputError(
                f"{self.name} reads the column {self.column!r}, but the rows do not have it; name "
                "the text column in the schema, or as the option `column` of the step."
            )
        texts = block.extra[self.column].tolist()
        absent = np.array([not isinstance(text, str) for text in texts], dtype=bool)
        if absent.any():
            kinds = [
                f"column {self.column!r} holds {type(text).__name__}, not text" for text in texts
            ]
            block = reject_rows(block, absent, kinds)
        stop = _stop_words(self.stop_words)
        return block, [words(text, stop) for text in texts if isinstance(text, str)]

    def counted(self, block: Block, columns: Iterable[Sequence[int]], width: int) -> Block:
        """Return the block with counts (CSR) as features; `columns` lists each row's words."""
        lists = list(columns)
        row = np.repeat(np.arange(len(lists)), [len(found) for found in lists])
        column = np.array([c for found in lists for c in found], dtype=np.int64)
        ones = np.ones(len(row))
        X = sparse.coo_array((ones, (row, column)), shape=(len(lists), width)).tocsr()
        block = replace(block, X=X)
        if self.empty == "keep":
            return block
        empty = np.diff(X.indptr) == 0
        return reject_rows(block, empty, f"column {self.column!r} has no word that is counted")


@dataclass(frozen=True, eq=False)
class HashText(TextStep):
    """Count words in n columns; the hash of a word chooses its column.

    Nothing is fitted, so words that appear later are counted too. Words with the same hash share
    a column.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.text import HashText
    >>> block = Block.of(np.zeros((2, 0)), text=["red red blue", "green"])
    >>> _, block = HashText(n=100).apply(block, time=None)
    >>> block.X.shape, block.X.sum(axis=1)
    ((2, 100), array([3., 1.]))
    """

    name: ClassVar[str] = "hash_text"

    def apply(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Return the block with hashed counts, as CSR."""
        block, found = self.read(block)
        columns = ([stable_hash(word) % self.n for word in text] for text in found)
        return self, self.counted(block, columns, self.n)

    def feature_names(self, names: Names) -> Names:
        """Return None: a column counts all words with its hash."""
        return None


@dataclass(frozen=True, eq=False)
class CountWords(TextStep):
    """Count the n most frequent words of the first batch.

    Parameters
    ----------
    min_count : int
        Ignore words that occur fewer times than this in the first batch.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.text import CountWords
    >>> block = Block.of(np.zeros((2, 0)), text=["red red blue", "blue green"])
    >>> step, block = CountWords(n=2, min_count=2).apply(block, time=None)
    >>> step.feature_names(None), block.X.toarray().tolist()
    (('blue', 'red'), [[1.0, 2.0], [1.0, 0.0]])
    """

    n: int = 1000
    min_count: int = 2

    name: ClassVar[str] = "count_words"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self, is_whole(self.min_count, 1), "min_count", "a whole number from 1")

    def apply(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Fit the vocabulary to the first block; return the block with counts, as CSR."""
        block, found = self.read(block)
        if not found:
            return self, block
        after = self if self.learned is not None else self._fit(found)
        assert after.learned is not None
        place = {word: i for i, word in enumerate(after.learned["words"])}
        columns = ([place[word] for word in text if word in place] for text in found)
        return after, self.counted(block, columns, len(place))

    def feature_names(self, names: Names) -> Names:
        """Return the words of the vocabulary; None before it is fitted."""
        return None if self.learned is None else tuple(self.learned["words"])

    def _fit(self, found: list[list[str]]) -> Self:
        counts = Counter(word for text in found for word in text)
        usual = [word for word, count in counts.items() if count >= self.min_count]
        if not usual:
            raise InputError(
                f"count_words found no word that occurs {self.min_count} times or more in the "
                "first batch; make the first batch larger (batch.first), or lower min_count."
            )
        usual.sort(key=lambda word: (-counts[word], word))
        return replace(self, learned={"words": sorted(usual[: self.n])})


def _stop_words(chosen: Any) -> frozenset[str]:
    if isinstance(chosen, str):
        return ENGLISH if chosen == "english" else frozenset()
    return frozenset(word.lower() for word in chosen)
