"""Ask for names of clusters: a function, a command or an HTTP server, such as a language model.

It is asked when a cluster is born, split or has changed much, in a thread of its own: learning
never waits. An answer that does not come in time, or is no name, leaves the cluster without one.
"""

from __future__ import annotations

import json
import logging
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from threading import Condition, Thread
from typing import Any, Self, TypeAlias
from urllib.parse import SplitResult

import numpy as np

from scstream.core.edits import MAX_NAME
from scstream.core.state import Event, ids_in
from scstream.descriptions import describe_clusters
from scstream.errors import InputError
from scstream.families.base import Array
from scstream.io.description import ClusterDescription
from scstream.io.header import Json
from scstream.model import Model
from scstream.observe.address import check_address, post_json, shown_address

Centres: TypeAlias = dict[int, tuple[Array, Array]]  # mean and standard deviation, by cluster
Ask: TypeAlias = Callable[[Json], str]  # takes the description of a cluster, returns its name
AUTHOR = "naming"
_N_FEATURES = 10
_MAX_QUEUED = 100
_MAX_ANSWER = 1 << 16  # bytes of a response
_PAUSE = 0.5  # seconds before the second attempt; doubled for further ones
_LOG = logging.getLogger(__name__)
_PROMPT = "Name this cluster of a data stream in one to four words. Answer with the name alone.\n\n"


def ask_command(command: Sequence[str], *, timeout: float = 30.0) -> Ask:
    """Return a function that runs a command: JSON on standard input, the name on standard output.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; no shell is involved.
    timeout : float
        Seconds after which the command is killed.

    Returns
    -------
    callable
        To be passed to `Namer`.

    Examples
    --------
    >>> import sys
    >>> from scstream.observe.naming import ask_command
    >>> program = "import json, sys; print('cluster', json.load(sys.stdin)['id'])"
    >>> ask_command([sys.executable, "-c", program])({"id": 7})
    'cluster 7'
    """

    def ask(request: Json) -> str:
        done = subprocess.run(
            list(command),
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=timeout,
            check=True,
        )
        return done.stdout[:_MAX_ANSWER].decode(errors="replace").strip()

    return ask


def ask_server(
    url: str, *, token: str | None = None, model: str | None = None, timeout: float = 30.0
) -> Ask:
    """Return a function that posts to an HTTP server.

    Parameters
    ----------
    url : str
        Where to post. The body is the description of the cluster, and the response
        ``{"name": "..."}``.
    token : str, optional
        Sent as ``Authorization: Bearer ...``.
    model : str, optional
        Name of a language model: the request then has the form of chat completions, which most
        servers of language models understand, and the answer is the name.
    timeout : float
        Seconds for the connection and for every read.

    Returns
    -------
    callable
        To be passed to `Namer`.

    Examples
    --------
    >>> from scstream.observe.naming import ask_server
    >>> ask_server("ftp://example.org")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: naming.url must begin with https:// or http://, ...
    """
    address = check_address(url, token=token, section="naming", option="url")

    def ask(request: Json) -> str:
        body = request if model is None else _chat(request, model)
        found = _posted(address, token, json.dumps(body).encode(), timeout)
        name = found["name"] if model is None else found["choices"][0]["message"]["content"]
        if not isinstance(name, str):
            raise ValueError("the response holds no name")
        return name

    return ask


def _chat(request: Json, model: str) -> Json:
    message = {"role": "user", "content": _PROMPT + request["text"]}
    return {"model": model, "messages": [message], "max_tokens": 20, "temperature": 0}


def _posted(address: SplitResult, token: str | None, content: bytes, timeout: float) -> Any:
    status, body = post_json(address, content, token=token, timeout=timeout, max_bytes=_MAX_ANSWER)
    if not 200 <= status < 300:
        raise ValueError(f"{shown_address(address)} answered with status {status}")
    return json.loads(body)


@dataclass
class Namer:
    """Names clusters as they appear.

    Parameters
    ----------
    ask : callable
        Takes the description of a cluster as a dict, returns its name; `ask_command` and
        `ask_server` make one. The dict has `id`, `why` ("born", "split" or "changed"), `share`,
        `features`, `exemplars`, `names` that other clusters have, and all of it as `text`.
    answer : callable, optional
        Called with id and name, in the thread of the namer. By default answers wait for `apply`.
    attempts : int
        How often it asks about one cluster.
    changed : float
        Ask again if the mean of a cluster has moved by so many standard deviations.

    Examples
    --------
    >>> from scstream import ScStream
    >>> from scstream.observe.naming import Namer
    >>> X = [[i / 50] for i in range(50)] + [[9 + i / 50] for i in range(50)]
    >>> model = ScStream(random_state=0).fit(X)
    >>> with Namer(lambda cluster: f"x0 {cluster['features'][0]['here']:.0f}") as namer:
    ...     namer.observe(model.model_)
    >>> namer.apply(model).names_
    {0: 'x0 9', 1: 'x0 0'}
    """

    ask: Ask
    answer: Callable[[int, str], None] | None = None
    attempts: int = 3
    changed: float = 3.0
    asked: int = 0  # clusters
    failed: int = 0  # clusters without an answer
    _given: dict[int, str] = field(default_factory=dict)  # names by this namer
    _centres: dict[int, Array] = field(default_factory=dict)  # when it asked
    _answers: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=1000))
    _queued: deque[Json] = field(default_factory=deque)
    _condition: Condition = field(default_factory=Condition)
    _closing: bool = False
    _thread: Thread | None = None

    def observe(self, model: Model, events: Sequence[Event] | None = None) -> None:
        """Queue the clusters that need a name; it returns at once.

        Parameters
        ----------
        model : Model
            The model after a batch.
        events : sequence of Event, optional
            What happened in the batch; by default what the model says about its last one.
        """
        happened = model.info.events if events is None else events
        born = [event for event in happened if event.kind in ("born", "split")]
        if not born and not self._centres:
            return
        centres = _centres(model)
        wanted = self._wanted(model, born, centres)
        if not wanted:
            return
        found = describe_clusters(model, n=_N_FEATURES)
        others = sorted(set(model.names.values()))
        for id_, why in wanted.items():
            self._centres[id_] = centres[id_][0]
            self._put(_request(found[id_], why, others))

    def apply(self, estimator: Any) -> Any:
        """Give the answers so far to clusters that have no name from people; return the estimator.

        Parameters
        ----------
        estimator : ScStream
            The model to name clusters of.

        Returns
        -------
        ScStream
            The same.
        """
        while self._answers:
            id_, name = self._answers.popleft()
            if id_ in estimator.clusters_.id and self.may_name(estimator.names_, id_):
                estimator.name(id_, name, author=AUTHOR)
                self._given[id_] = name
        return estimator

    def may_name(self, names: Mapping[int, str], id_: int) -> bool:
        """Return True if a cluster has no name, or one that this namer gave."""
        return id_ not in names or self._given.get(id_) == names[id_]

    def close(self, *, timeout: float = 60.0) -> None:
        """Ask about the clusters that are queued, and stop."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _wanted(self, model: Model, born: Sequence[Event], centres: Centres) -> dict[int, str]:
        """Return the clusters to ask about, and why: they are new, or have moved much."""
        alive, names = set(model.state.ids.tolist()), model.names
        for kept in (self._given, self._centres):
            for gone in kept.keys() - alive:
                del kept[gone]
        wanted: dict[int, str] = {}
        for event in born:
            wanted |= dict.fromkeys(sorted(ids_in([event])), event.kind)
        for id_, before in self._centres.items():
            centre, std = centres[id_]
            if len(before) == len(centre):
                moved = np.sqrt(np.mean(np.square((centre - before) / std)))
                if moved > self.changed:
                    wanted.setdefault(id_, "changed")
        return {i: why for i, why in wanted.items() if i in alive and self.may_name(names, i)}

    def _put(self, request: Json) -> None:
        with self._condition:
            if self._closing or len(self._queued) >= _MAX_QUEUED:
                self.failed += 1
                return
            self._queued.append(request)
            self._condition.notify()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="scstream-naming", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._queued or self._closing)
                if not self._queued:
                    return
                request = self._queued.popleft()
            self.asked += 1
            name = self._asked(request)
            if name is None:
                self.failed += 1
            elif self.answer is None:
                self._answers.append((request["id"], name))
            else:
                self._given[request["id"]] = name
                self.answer(request["id"], name)

    def _asked(self, request: Json) -> str | None:
        """Ask some times; return a name, or None."""
        for attempt in range(self.attempts):
            if attempt:
                with self._condition:
                    self._condition.wait_for(lambda: self._closing, _PAUSE * 2.0 ** (attempt - 1))
            try:
                return clean_name(self.ask(request))
            except (OSError, HTTPException, subprocess.SubprocessError) as error:
                reason = type(error).__name__
            except Exception as error:  # of a function of the user
                reason = f"{type(error).__name__}: {error}"
            _LOG.warning("cluster %d has no name yet: %s", request["id"], reason[:200])
        return None


def clean_name(text: str) -> str:
    """Return an answer as a name: its first line, without quotes and control characters."""
    lines = [line.strip().strip("\"'*`").strip() for line in str(text).strip().splitlines()]
    first = "".join(sign for sign in (lines[0] if lines else "") if sign.isprintable())
    if not first:
        raise InputError("the answer is empty")
    return first[:MAX_NAME].strip()


def _request(cluster: ClusterDescription, why: str, names: list[str]) -> Json:
    features = [
        {"feature": trait.label, "here": float(trait.value), "others": float(trait.others)}
        for trait in cluster.traits
    ]
    return {
        "id": cluster.id,
        "why": why,
        "share": cluster.share,
        "features": features,
        "exemplars": list(cluster.exemplars),
        "names": names[:100],
        "text": repr(cluster),
    }


def _centres(model: Model) -> Centres:
    """Return mean and standard deviation of every cluster, by id."""
    stats = model.state.cluster_stats
    means, stds = model.family.means(stats), model.family.stds(stats)
    stds = np.maximum(stds, np.finfo(float).tiny)
    return dict(zip(model.state.ids.tolist(), zip(means, stds, strict=True), strict=True))
