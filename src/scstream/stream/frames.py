"""Lists of byte strings over a socket, between this process and one that decodes for it."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

Part = bytes | memoryview
_SEPARATE = 1 << 16  # bytes from which a part is sent, or pickled, without copying it


def send(channel: socket.socket, parts: Sequence[Part]) -> None:
    """Send byte strings; copy only small ones."""
    joined = [struct.pack(f"<q{len(parts)}q", len(parts), *map(len, parts))]
    for part in parts:
        if len(part) < _SEPARATE:
            joined.append(bytes(part))
            continue
        channel.sendall(b"".join(joined))
        channel.sendall(part)
        joined = []
    if joined:
        channel.sendall(b"".join(joined))


def receive(channel: socket.socket) -> list[memoryview]:
    """Return what `send` sent; raise EOFError if the other process has ended."""
    (n_parts,) = struct.unpack("<q", _exactly(channel, 8))
    sizes = struct.unpack(f"<{n_parts}q", _exactly(channel, 8 * n_parts))
    content = _exactly(channel, sum(sizes))
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    return [content[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def pack(value: Any) -> list[Part]:
    """Return a value as byte strings; large arrays are not copied."""
    large: list[Part] = []

    def keep_apart(buffer: pickle.PickleBuffer) -> bool:
        content = buffer.raw()
        if len(content) < _SEPARATE:
            return True  # inside the pickle
        large.append(content)
        return False

    return [pickle.dumps(value, protocol=5, buffer_callback=keep_apart), *large]


def unpack(parts: Sequence[Part]) -> Any:
    """Undo `pack`; arrays use the memory of the parts."""
    return pickle.loads(parts[0], buffers=parts[1:])


def _exactly(channel: socket.socket, size: int) -> memoryview:
    content = np.empty(size, dtype=np.uint8).data  # not filled with zeros first
    got = 0
    while got < size:
        n_bytes = channel.recv_into(content[got:])
        if not n_bytes:
            raise EOFError
        got += n_bytes
    return content
