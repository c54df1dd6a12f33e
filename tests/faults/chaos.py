"""A bad network between a client and a server: resets, torn frames, latency and black holes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from typing import Literal, Self, get_args

Mode = Literal["pass", "reset", "torn", "latency", "black hole"]
MODES: tuple[Mode, ...] = get_args(Mode)
CHUNK = 1 << 16
RESET = struct.pack("ii", 1, 0)  # linger for no time: closing sends a reset instead of an end


class ChaosProxy:
    """Passes bytes between clients and a server on the loopback, as well as `mode` lets it.

    "reset" refuses clients and throws out those that are there. "torn" lets a random number of
    bytes through on every connection, stops in the middle of what comes then, and resets. "latency"
    waits before every piece. "black hole" holds everything back until another mode comes.

    Parameters
    ----------
    port : int
        Where the server listens.
    seed : int
        Of the random choices.
    latency : float
        Seconds of waiting per piece in the mode "latency".
    """

    def __init__(self, port: int, *, seed: int = 0, latency: float = 0.02) -> None:
        self.server_port = port
        self.port = 0
        self.latency = latency
        self.n_resets = 0
        self._rng = random.Random(seed)
        self._mode: Mode = "pass"
        self._links: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._ready = threading.Event()
        self._weather: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    @property
    def mode(self) -> Mode:
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        assert mode in MODES, mode
        self._do(self._switch(mode))

    def cut(self) -> None:
        """Reset the connections that are there, and let new ones come."""
        self._do(self._cut())

    def storm(self, *, calm: float = 0.15, fault: float = 0.1) -> None:
        """Switch modes at random until `mode` is set; seconds that each lasts are means."""

        async def begin() -> None:
            self._weather = self._loop.create_task(self._storm(calm, fault))

        self._do(begin())

    def _do(self, act) -> None:
        asyncio.run_coroutine_threadsafe(act, self._loop).result(timeout=10.0)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._link, "127.0.0.1", 0, limit=CHUNK)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        server.close()
        await self._switch("reset")
        pending = asyncio.all_tasks() - {asyncio.current_task()}
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _switch(self, mode: Mode) -> None:
        if self._weather is not None:
            self._weather.cancel()
            self._weather = None
        await self._turn(mode)

    async def _turn(self, mode: Mode) -> None:
        self._mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        if mode == "reset":
            await self._cut()

    async def _cut(self) -> None:
        for writer in list(self._links):
            self._reset(writer)

    async def _storm(self, calm: float, fault: float) -> None:
        while True:
            await self._turn("pass")
            await asyncio.sleep(self._rng.expovariate(1.0 / calm))
            await self._turn(self._rng.choice(MODES[1:]))
            await asyncio.sleep(self._rng.expovariate(1.0 / fault))

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a client to the server until one of them, or the mode, ends it."""
        self._links.add(writer)
        try:
            if self._mode == "reset":
                raise ConnectionResetError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            self._reset(writer)
            return
        self._links.add(far_writer)
        ways = [
            asyncio.ensure_future(self._carry(reader, far_writer)),
            asyncio.ensure_future(self._carry(far_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # the proxy ends
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, far_writer):
                self._reset(end)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        budget = int(10 ** self._rng.uniform(0.0, 5.5))  # bytes until the tear, on many scales
        with contextlib.suppress(OSError):
            while piece := await reader.read(CHUNK):
                while self._mode == "black hole":
                    await self._changed.wait()
                if self._mode == "latency":
                    await asyncio.sleep(self.latency)
                if self._mode == "torn":
                    torn = len(piece) > budget
                    piece = piece[:budget]
                    budget -= len(piece)
                    if torn:
                        writer.write(piece)
                        await writer.drain()
                        return
                writer.write(piece)
                await writer.drain()

    def _reset(self, writer: asyncio.StreamWriter) -> None:
        if writer not in self._links:
            return
        self._links.discard(writer)
        self.n_resets += 1
        link = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()
