"""The live page on a stage: a tiny service on loopback, a stream with a plot, and a browser."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import uvicorn
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, expect, sync_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from scstream.core.config import Config
from scstream.core.state import Event, State
from scstream.core.steering import Steering
from scstream.families import Diagonal
from scstream.families.base import Family
from scstream.model import Model, Settings
from scstream.preprocess import Steps
from scstream.serve.live import Live, live_routes
from scstream.stream.model_version import ModelVersion

CSP = "default-src 'self'"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Guard:
    """What a service does around the page: a policy for content, and a token where one is set."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    (b"content-security-policy", CSP.encode()),
                ]
            await send(message)

        app = self.app if self._may(scope) else JSONResponse({"detail": "..."}, status_code=401)
        await app(scope, receive, guarded)

    def _may(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["path"] != "/live" or self.token is None:
            return True
        return Request(scope).headers.get("authorization") == f"Bearer {self.token}"


class Stage:
    """The page of a `Live`, served on a free port of the loopback; can be stopped and started."""

    def __init__(
        self,
        live: Live,
        *,
        app: ASGIApp | None = None,
        token: str | None = None,
        port: int = 0,
        buffer: int | None = None,
    ) -> None:
        self.live = live
        self.app = app or Guard(Starlette(routes=live_routes(live)), token)
        self.port = port
        self.buffer = buffer

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def __enter__(self) -> Self:
        self.server = uvicorn.Server(uvicorn.Config(self.app, log_level="warning"))
        self.socket = socket.create_server(("127.0.0.1", self.port))
        self.port = int(self.socket.getsockname()[1])
        if self.buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.buffer)
        work = partial(self.server.run, sockets=[self.socket])
        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *exception: object) -> None:
        self.live.close()
        self.server.should_exit = True
        self.thread.join(10.0)
        self.socket.close()
        assert not self.thread.is_alive(), "the service did not end although the page was closed"


class Show:
    """A model that learns batch by batch, and tells a `Live` of it."""

    def __init__(self, live: Live, *, names: tuple[str, ...] | None = None, **params: Any) -> None:
        self.live = live
        self.learner = Settings.of({"random_state": 0, "n_jobs": 1, **params}, names)
        self.batch = 0

    def learn(self, X: Any, *, when: Any = None) -> ModelVersion:
        when = float(self.batch) if when is None else when
        self.learner, labels, _ = self.learner.update(X, time=when)
        self.batch += 1
        model_version = self.model_version()
        self.live.add_version(model_version, X=X, labels=labels)
        return model_version

    def model_version(self, *, batch: int | None = None, age: float = 0.0) -> ModelVersion:
        """The model now, or as if it were that of another batch, or learned a while ago."""
        number = self.batch if batch is None else batch
        at = time.time() - age
        return ModelVersion(
            number, number, at, self.learner.settings.feature_names, self.learner, Steps()
        )


@dataclass(frozen=True)
class Actor:
    """A cluster with a life: from when to when, from where to where, how wide and how heavy."""

    begin: int
    end: int
    start: tuple[float, ...]
    stop: tuple[float, ...]
    scale: tuple[float, ...]
    tilt: float = 0.0
    weight: float = 1.0

    def render(self, rng: np.random.Generator, batch: int, n: int) -> NDArray[np.float64]:
        way = np.clip((batch - self.begin) / max(self.end - self.begin, 1), 0.0, 1.0)
        place = np.array(self.start) + way * (np.array(self.stop) - np.array(self.start))
        noise = rng.normal(size=(n, len(place))) * np.array(self.scale)
        if self.tilt and len(place) == 2:
            c, s = np.cos(self.tilt), np.sin(self.tilt)
            noise = noise @ np.array([[c, s], [-s, c]])
        return np.asarray(place + noise)


def play(
    actors: list[Actor], *, n_rows: int, n_batches: int, stray: float = 0.01, seed: int = 0
) -> Iterator[NDArray[np.float64]]:
    """Batches of rows of whoever is on stage, with a few strays among them."""
    rng = np.random.default_rng(seed)
    for batch in range(n_batches):
        there = [actor for actor in actors if actor.begin <= batch < actor.end]
        weight = np.array([actor.weight for actor in there])
        counts = rng.multinomial(n_rows, weight / weight.sum())
        rows = np.concatenate(
            [actor.render(rng, batch, n) for actor, n in zip(there, counts, strict=True)]
        )
        strays = rng.random(n_rows) < stray
        rows[strays] = rows.mean(axis=0) + 3 * rows.std(axis=0) * rng.normal(
            size=(int(strays.sum()), rows.shape[1])
        )
        yield rows[rng.permutation(n_rows)]


class Crowd:
    """Many clusters in many columns: a model whose statistics are those of the drawn rows.

    The weights of the clusters change slowly, every tenth batch a cluster dies, and one is born.
    """

    def __init__(self, live: Live, *, n_clusters: int, n_columns: int, n_rows: int = 600) -> None:
        self.live, self.n_rows, self.batch = live, n_rows, 0
        self.rng = np.random.default_rng(n_clusters)
        self.ids = np.arange(n_clusters)
        families = self.rng.normal(size=(1 + n_clusters // 15, n_columns))
        self.centres = 5.0 * families[self.rng.integers(len(families), size=n_clusters)]
        self.centres += 1.2 * self.rng.normal(size=self.centres.shape)
        self.centres[:, 3:] /= 4.0
        self.weight = self.rng.gamma(1.0, size=n_clusters) + 0.1
        self.phase = self.rng.uniform(0, 2 * np.pi, size=n_clusters)
        rows = self.centres[self.rng.integers(n_clusters, size=400)]
        self.family = Diagonal.weak_prior(rows + self.rng.normal(size=rows.shape))
        self.past = np.zeros((n_clusters, self.family.n_stats))
        self.born = np.zeros(n_clusters)
        self.last_seen = np.zeros(n_clusters)
        self.names: dict[int, str] = {}

    def learn(self) -> ModelVersion:
        """Draw a batch, and tell the page of it."""
        events: list[Event] = []
        if self.batch and self.batch % 10 == 0:
            events = self._replace_one()
        share = self.weight * (1.2 + np.sin(self.phase + self.batch / 25.0))
        labels = self.rng.choice(len(self.ids), size=self.n_rows, p=share / share.sum())
        rows = self.centres[labels] + self.rng.normal(size=(self.n_rows, self.centres.shape[1]))
        current = self.family.stats(rows, labels, len(self.ids))
        self.last_seen[np.unique(labels)] = self.batch
        self.past *= 0.97
        state = state_of(self.family, self.past).replace(
            current=np.repeat(current[:, None] / 2, 2, axis=1),
            ids=self.ids.copy(),
            born=self.born.copy(),
            last_seen=self.last_seen.copy(),
            time=float(self.batch),
            n_batches=self.batch + 1,
            steering=Steering(names=self.names.copy()),
        )
        self.past += current
        columns = tuple(f"f{d}" for d in range(rows.shape[1]))
        model = Model(self.family, Config(), state, settings=Settings(feature_names=columns))
        model = replace(model, info=replace(model.info, events=tuple(events)))
        self.batch += 1
        version = ModelVersion(self.batch, self.batch, time.time(), columns, model, Steps())
        self.live.add_version(version, X=rows, labels=self.ids[labels])
        return version

    def _replace_one(self) -> list[Event]:
        gone, new, now = int(self.ids[0]), int(self.ids[-1]) + 1, float(self.batch)
        self.ids = np.append(self.ids[1:], new)
        for name in ("centres", "weight", "phase", "past", "born", "last_seen"):
            setattr(self, name, np.roll(getattr(self, name), -1, axis=0))
        self.centres[-1] = self.rng.permutation(self.centres)[0] + self.rng.normal(
            size=self.centres.shape[1]
        )
        self.past[-1], self.born[-1] = 0.0, now
        return [Event("died", now, gone, 1.0), Event("born", now, new, 1.0)]


def model_version_of(family: Family, state: State) -> ModelVersion:
    names = tuple(f"f{d}" for d in range(family.n_features))
    model = Model(family, Config(), state, settings=Settings(feature_names=names))
    return ModelVersion(0, 1, 0.0, names, model, Steps())


def state_of(family: Family, stats: Any) -> State:
    """A state with these statistics, half of them on either side."""
    n = len(stats)
    halves = np.repeat(stats[:, None] / 2, 2, axis=1)
    ones = np.ones(n)
    return State.empty(family).replace(
        past=halves,
        fade=ones,
        current=np.zeros_like(halves),
        ids=np.arange(n),
        age=np.arange(n),
        born=ones,
        last_seen=ones,
        peak=ones,
        next_id=n,
        time=3.0,
        n_batches=4,
    )


INK = """([colour, id]) => {
  const canvas = document.getElementById(id);
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  let n = 0;
  for (let i = 0; i < data.length; i += 4) {
    n += data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255;
  }
  return n;
}"""  # pixels of exactly this colour
# A minute after the last batch a page says so, and a stage may stand for longer than that.
READY = "#state:is([data-state='live'], [data-state='stale'])"
ROWS = "#rows tr:not(.spacer)"
CHOSEN = "#rows tr[aria-selected=true]"


def complaints(page: Page) -> list[str]:
    """Errors and warnings of a page, as they come."""
    found: list[str] = []
    page.on("console", lambda m: found.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


def opened(page: Page, stage: Stage) -> Page:
    """Open the page, and wait until it has drawn the map."""
    page.goto(stage.address)
    page.wait_for_selector(READY)
    page.wait_for_selector('#map[data-names]:not([data-names="0"])')
    return page


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium of the system, without a screen."""
    expect.set_options(timeout=30_000)  # as other waits of Playwright
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=FLAGS, headless=True
        )
        try:
            yield chromium
        finally:
            chromium.close()
