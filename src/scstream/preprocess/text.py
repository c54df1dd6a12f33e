"""Texts as counts of words: of those of a frozen vocabulary, or of all of them by hash."""

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
from scstream.preprocess.base import Names, Step, is_whole, option, refused
from scstream.preprocess.block import Block
from scstream.preprocess.stop_words import ENGLISH

_WORD = re.compile(r"\w\w+")


def words(text: str, stop: frozenset[str] = frozenset()) -> list[str]:
    """Return the words of a text in lower case: runs of two or more letters, digits or underscores.

    Examples
    --------
    >>> from scstream.preprocess.text import words
    >>> words("The cat, a CAT.", frozenset(["the"]))
    ['cat', 'cat']
    """
    found = _WORD.findall(unicodedata.normalize("NFC", text).lower())
    return [word for word in found if word not in stop] if stop else found


@lru_cache(maxsize=1 << 16)
def stable_hash(word: str) -> int:
    """Return 64 bits that depend on nothing but the word.

    Examples
    --------
    >>> from scstream.preprocess.text import stable_hash
    >>> stable_hash("cluster") % 1000
    287
    """
    content = word.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


@dataclass(frozen=True, eq=False)
class TextStep(Step):
    """A step that makes the columns anew, of the words of a column of text.

    Parameters
    ----------
    n : int
        Number of columns; of `count_words`, at most so many.
    column : str
        The column of text; where the step is built for a schema, by default its `text`.
    stop_words : "none", "english" or sequence of str
        Words not to count.
    empty : {"refuse", "keep"}
        What to do with a row without a word that counts: refuse it, or let it be a row of zeros,
        which says nothing and goes to a large cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.text import HashText
    >>> step = HashText(column="title", stop_words="english")
    >>> block, found = step.read(Block.of(np.zeros((2, 0)), title=["Rain and sun", None]))
    >>> found, block.rejects[0].reason
    ([['rain', 'sun']], "column 'title' holds NoneType, no text")
    """

    n: int = 2000
    column: str = "text"
    stop_words: str | Sequence[str] = "none"
    empty: str = "refuse"

    reads_text: ClassVar[bool] = True

    def __post_init__(self) -> None:
        option(self, is_whole(self.n, 1), "n", "a whole number from 1")
        column: Any = self.column
        named = isinstance(column, str) and column != ""
        option(self, named, "column", "the name of a column of text")
        must = "'none', 'english' or a list of words"
        stop: Any = self.stop_words
        listed = isinstance(stop, list | tuple) and all(isinstance(word, str) for word in stop)
        option(self, listed or stop in ("none", "english"), "stop_words", must)
        option(self, self.empty in ("refuse", "keep"), "empty", "'refuse' or 'keep'")
        if listed:
            object.__setattr__(self, "stop_words", tuple(stop))

    def read(self, block: Block) -> tuple[Block, list[list[str]]]:
        """Return the rows that have a text, and the words of each."""
        if self.column not in block.kept:
            raise InputError(
                f"{self.name} reads the column {self.column!r}, which does not come with the "
                "rows; name the column of text in the schema, or as `column` of the step."
            )
        texts = block.kept[self.column].tolist()
        absent = np.array([not isinstance(text, str) for text in texts], dtype=bool)
        if absent.any():
            kinds = [
                f"column {self.column!r} holds {type(text).__name__}, no text" for text in texts
            ]
            block = refused(block, absent, kinds)
        stop = _stop_words(self.stop_words)
        return block, [words(text, stop) for text in texts if isinstance(text, str)]

    def counted(self, block: Block, columns: Iterable[Sequence[int]], width: int) -> Block:
        """Return the block with counts of columns, as CSR, in place of its features."""
        lists = list(columns)
        row = np.repeat(np.arange(len(lists)), [len(found) for found in lists])
        column = np.array([c for found in lists for c in found], dtype=np.int64)
        ones = np.ones(len(row))
        X = sparse.coo_array((ones, (row, column)), shape=(len(lists), width)).tocsr()
        block = replace(block, X=X)
        if self.empty == "keep":
            return block
        bare = np.diff(X.indptr) == 0
        return refused(block, bare, f"column {self.column!r} holds no word that counts")


@dataclass(frozen=True, eq=False)
class HashText(TextStep):
    """Count words by the one of n columns that the hash of the word falls in.

    Nothing is learned: a word that is new tomorrow has its column today. Words that share a
    column cannot be told apart.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.text import HashText
    >>> block = Block.of(np.zeros((2, 0)), text=["red red blue", "green"])
    >>> _, block = HashText(n=100).take(block, time=None)
    >>> block.X.shape, block.X.sum(axis=1)
    ((2, 100), array([3., 1.]))
    """

    name: ClassVar[str] = "hash_text"

    def take(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Return the block with hashed counts, as CSR."""
        block, found = self.read(block)
        columns = ([stable_hash(word) % self.n for word in text] for text in found)
        return self, self.counted(block, columns, self.n)

    def feature_names(self, names: Names) -> Names:
        """Return None: a column stands for all words of its hash."""
        return None


@dataclass(frozen=True, eq=False)
class CountWords(TextStep):
    """Count the n words that are the most frequent ones of the first batch.

    Parameters
    ----------
    min_count : int
        Leave out words that the first batch has fewer times than this.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.preprocess.text import CountWords
    >>> block = Block.of(np.zeros((2, 0)), text=["red red blue", "blue green"])
    >>> step, block = CountWords(n=2, min_count=2).take(block, time=None)
    >>> step.feature_names(None), block.X.toarray().tolist()
    (('blue', 'red'), [[1.0, 2.0], [1.0, 0.0]])
    """

    n: int = 1000
    min_count: int = 2

    name: ClassVar[str] = "count_words"

    def __post_init__(self) -> None:
        super().__post_init__()
        option(self, is_whole(self.min_count, 1), "min_count", "a whole number from 1")

    def take(self, block: Block, *, time: float | None) -> tuple[Self, Block]:
        """Learn the vocabulary from the first block; return the block with counts, as CSR."""
        block, found = self.read(block)
        if not found:
            return self, block
        after = self if self.learned is not None else self._fit(found)
        assert after.learned is not None
        place = {word: i for i, word in enumerate(after.learned["words"])}
        columns = ([place[word] for word in text if word in place] for text in found)
        return after, self.counted(block, columns, len(place))

    def feature_names(self, names: Names) -> Names:
        """Return the words, once they are known."""
        return None if self.learned is None else tuple(self.learned["words"])

    def _fit(self, found: list[list[str]]) -> Self:
        counts = Counter(word for text in found for word in text)
        usual = [word for word, count in counts.items() if count >= self.min_count]
        if not usual:
            raise InputError(
                f"count_words finds no word that the first batch has {self.min_count} times or "
                "more; make the first batch larger (batch.first), or lower min_count."
            )
        usual.sort(key=lambda word: (-counts[word], word))
        return replace(self, learned={"words": sorted(usual[: self.n])})


def _stop_words(chosen: Any) -> frozenset[str]:
    if isinstance(chosen, str):
        return ENGLISH if chosen == "english" else frozenset()
    return frozenset(word.lower() for word in chosen)
