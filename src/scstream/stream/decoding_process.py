"""A process that decodes messages for a pipeline: `python -m scstream.stream.decoding_process`.

It gets a reader, then groups of messages, and answers each group with its rows: their size, and
then the rows, which the pipeline takes when it has the memory for them. It ends when the
pipeline does, however that ends: the operating system then closes the other side of the socket.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread

from scstream.io.budget import MAX_READ
from scstream.preprocess.block import Block
from scstream.stream.frames import pack, receive, send, unpack
from scstream.stream.schema import Reader


def serve(channel: socket.socket) -> None:
    """Answer until the other side of the socket is closed."""
    groups: SimpleQueue[list[memoryview] | None] = SimpleQueue()
    # Always received at once: two processes that both wait to send would wait for ever.
    Thread(target=_receive_all, args=(channel, groups), daemon=True).start()
    first = groups.get()
    if first is None:
        return
    reader: Reader = unpack(first)
    try:
        for messages in iter(groups.get, None):
            for n_bytes, result in _decoded(reader, messages):
                send(channel, [n_bytes.to_bytes(8, "little")])
                send(channel, pack(result))
    except OSError:
        pass  # nobody waits for the answer


def _receive_all(channel: socket.socket, groups: SimpleQueue[list[memoryview] | None]) -> None:
    try:
        while True:
            groups.put(receive(channel))
    except (EOFError, OSError):
        groups.put(None)


def _decoded(
    reader: Reader, messages: list[memoryview]
) -> Iterator[tuple[int, list[Block] | Exception]]:
    """Yield the rows of messages with their size; in parts if they need much memory."""
    blocks: list[Block] = []
    n_bytes = 0
    try:
        for message in messages:
            if n_bytes >= MAX_READ:
                yield n_bytes, blocks
                blocks, n_bytes = [], 0
            blocks.append(reader.read(bytes(message)))
            n_bytes += blocks[-1].n_bytes
        yield n_bytes, blocks
    except Exception as error:  # raised again in the pipeline
        yield 0, error


def main() -> None:
    """Serve the socket whose descriptor is the only argument."""
    for ignored in (signal.SIGINT, signal.SIGTERM):  # the pipeline still has batches to finish
        signal.signal(ignored, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        serve(channel)


if __name__ == "__main__":
    main()
