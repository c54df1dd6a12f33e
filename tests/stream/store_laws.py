"""The laws of every `Store`. Each law takes an empty store and raises if it is broken."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from scstream.errors import InputError
from scstream.stream.store import Store

WRITERS = 8
CONTENT = bytes(range(256)) * 5


def put_and_get_return_the_same_bytes(store: Store) -> None:
    store.put("a", CONTENT)
    store.put("empty", b"")
    assert store.get("a") == CONTENT
    assert store.get("empty") == b""
    store.put("a", b"shorter")
    assert store.get("a") == b"shorter"


def get_reads_ranges(store: Store) -> None:
    """Ranges work like slices of `bytes`: they end at the end of the object."""
    store.put("a", CONTENT)
    store.put("empty", b"")
    size = len(CONTENT)
    for start, length in [(0, 1), (7, 100), (7, -1), (0, size), (size - 1, 9), (0, size + 9)]:
        stop = size if length < 0 else start + length
        assert store.get("a", start, length) == CONTENT[start:stop], (start, length)
    for start, length in [(0, 0), (9, 0), (size, -1), (size, 5), (size + 50, 5)]:
        assert store.get("a", start, length) == b"", (start, length)
    assert store.get("empty", 0, 4) == b""


def missing_objects_raise_key_error(store: Store) -> None:
    for part in [(0, -1), (0, 0), (3, 4)]:
        with pytest.raises(KeyError):
            store.get("nothing", *part)
    store.delete("nothing")
    assert store.names() == []


def names_are_sorted(store: Store) -> None:
    for name in ["b-10", "a-2", "a-10", "A", "b", "a.txt", "a_"]:
        store.put(name, name.encode())
    assert store.names() == sorted(["b-10", "a-2", "a-10", "A", "b", "a.txt", "a_"])
    assert store.names("a-") == ["a-10", "a-2"]
    assert store.names("b") == ["b", "b-10"]
    assert store.names("c") == []


def deleted_objects_are_gone(store: Store) -> None:
    store.put("a", b"1")
    store.put("b", b"2")
    store.delete("a")
    store.delete("a")
    assert store.names() == ["b"]
    with pytest.raises(KeyError):
        store.get("a")
    assert store.put_new("a", b"again")
    assert store.get("a") == b"again"


def put_new_writes_a_name_once(store: Store) -> None:
    assert store.put_new("a", b"first")
    assert not store.put_new("a", b"second")
    assert not store.put_new("a", b"first")
    assert store.get("a") == b"first"
    store.put("b", b"first")
    assert not store.put_new("b", b"second")
    assert store.get("b") == b"first"


def put_new_succeeds_for_one_of_many_writers(store: Store) -> None:
    """Also with equal contents: the losers must return False."""
    for name, content in [("own", "{}"), ("equal", "same"), ("own-2", "{}"), ("equal-2", "same")]:
        wins = _race(lambda k, n=name, c=content: store.put_new(n, c.format(k).encode()))
        assert len(wins) == 1, (name, wins)
        assert store.get(name) == content.format(wins[0]).encode()


def replace_needs_the_newest_revision(store: Store) -> None:
    with pytest.raises(KeyError):
        store.read("r")
    first = store.replace("r", b"one", revision=None)
    assert first is not None
    assert store.replace("r", b"two", revision=None) is None
    second = store.replace("r", b"two", revision=first)
    assert second not in (None, first)
    assert store.read("r") == (b"two", second)
    third = store.replace("r", b"three", revision=second)
    for stale in (None, first, second):
        assert store.replace("r", b"late", revision=stale) is None
    assert store.read("r") == (b"three", third)
    assert len(store.names("r")) == 1  # nothing is left of older revisions


def replace_succeeds_for_one_of_many_writers(store: Store) -> None:
    revision = None
    for turn in range(3):  # never the same content twice: a revision may be a hash of the content
        contents = [f"{turn} {writer}".encode() for writer in range(WRITERS)]
        wins = _race(
            lambda k, c=contents, r=revision: store.replace("r", c[k], revision=r) is not None
        )
        content, revision = store.read("r")
        assert [contents[k] for k in wins] == [content]


def invalid_names_are_rejected(store: Store) -> None:
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


def sweep_keeps_objects(store: Store) -> None:
    store.put("a", b"1")
    store.put_new("b", b"2")
    store.sweep()
    assert store.names() == ["a", "b"]
    assert store.get("a") + store.get("b") == b"12"


LAWS: list[Callable[[Store], None]] = [
    put_and_get_return_the_same_bytes,
    get_reads_ranges,
    missing_objects_raise_key_error,
    names_are_sorted,
    deleted_objects_are_gone,
    put_new_writes_a_name_once,
    put_new_succeeds_for_one_of_many_writers,
    replace_needs_the_newest_revision,
    replace_succeeds_for_one_of_many_writers,
    invalid_names_are_rejected,
    sweep_keeps_objects,
]


def _race(put_new: Callable[[int], bool]) -> list[int]:
    """Start writers at once; return those whose `put_new` returned True."""
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
