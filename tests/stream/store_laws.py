"""What every `Store` must do. Each law takes an empty store and raises where it is broken."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from scstream.errors import InputError
from scstream.stream.store import Store

WRITERS = 8
CONTENT = bytes(range(256)) * 5


def keeps_what_is_put(store: Store) -> None:
    store.put("a", CONTENT)
    store.put("empty", b"")
    assert store.get("a") == CONTENT
    assert store.get("empty") == b""
    store.put("a", b"shorter")
    assert store.get("a") == b"shorter"


def reads_parts(store: Store) -> None:
    """As `bytes` are sliced: a part that is not there is empty, one beyond the end is cut."""
    store.put("a", CONTENT)
    store.put("empty", b"")
    size = len(CONTENT)
    for start, length in [(0, 1), (7, 100), (7, -1), (0, size), (size - 1, 9), (0, size + 9)]:
        stop = size if length < 0 else start + length
        assert store.get("a", start, length) == CONTENT[start:stop], (start, length)
    for start, length in [(0, 0), (9, 0), (size, -1), (size, 5), (size + 50, 5)]:
        assert store.get("a", start, length) == b"", (start, length)
    assert store.get("empty", 0, 4) == b""


def misses_what_is_not_there(store: Store) -> None:
    for part in [(0, -1), (0, 0), (3, 4)]:
        with pytest.raises(KeyError):
            store.get("nothing", *part)
    store.delete("nothing")
    assert store.names() == []


def lists_sorted(store: Store) -> None:
    for name in ["b-10", "a-2", "a-10", "A", "b", "a.txt", "a_"]:
        store.put(name, name.encode())
    assert store.names() == sorted(["b-10", "a-2", "a-10", "A", "b", "a.txt", "a_"])
    assert store.names("a-") == ["a-10", "a-2"]
    assert store.names("b") == ["b", "b-10"]
    assert store.names("c") == []


def forgets_what_is_deleted(store: Store) -> None:
    store.put("a", b"1")
    store.put("b", b"2")
    store.delete("a")
    store.delete("a")
    assert store.names() == ["b"]
    with pytest.raises(KeyError):
        store.get("a")
    assert store.put_new("a", b"again")
    assert store.get("a") == b"again"


def takes_a_name_once(store: Store) -> None:
    assert store.put_new("a", b"first")
    assert not store.put_new("a", b"second")
    assert not store.put_new("a", b"first")
    assert store.get("a") == b"first"
    store.put("b", b"first")
    assert not store.put_new("b", b"second")
    assert store.get("b") == b"first"


def lets_one_of_many_win(store: Store) -> None:
    """Also with equal contents: who lost must not believe to have won."""
    for name, content in [("own", "{}"), ("equal", "same"), ("own-2", "{}"), ("equal-2", "same")]:
        wins = _race(lambda k, n=name, c=content: store.put_new(n, c.format(k).encode()))
        assert len(wins) == 1, (name, wins)
        assert store.get(name) == content.format(wins[0]).encode()


def refuses_odd_names(store: Store) -> None:
    odd = ["", ".", "..", "../a", "a/b", "/a", ".draft-1", "a b", "ä", "a\n", "x" * 65]
    for name in odd:
        for act in (
            lambda n: store.put(n, b""),
            lambda n: store.put_new(n, b""),
            store.get,
            store.delete,
        ):
            with pytest.raises(InputError, match="cannot be a name"):
                act(name)
    assert store.names() == []


def sweeps_nothing_that_counts(store: Store) -> None:
    store.put("a", b"1")
    store.put_new("b", b"2")
    store.sweep()
    assert store.names() == ["a", "b"]
    assert store.get("a") + store.get("b") == b"12"


LAWS: list[Callable[[Store], None]] = [
    keeps_what_is_put,
    reads_parts,
    misses_what_is_not_there,
    lists_sorted,
    forgets_what_is_deleted,
    takes_a_name_once,
    lets_one_of_many_win,
    refuses_odd_names,
    sweeps_nothing_that_counts,
]


def _race(put_new: Callable[[int], bool]) -> list[int]:
    """Start writers at once; return those that were told to have won."""
    line = threading.Barrier(WRITERS)
    wins: list[int] = []

    def writer(number: int) -> None:
        line.wait()
        if put_new(number):
            wins.append(number)

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wins
