"""Models to ask, and the service around them, in this process or in one of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI

from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.serve.app import create_app
from scstream.serve.model import LocalModel
from scstream.serve.settings import ServiceSettings
from scstream.stream.model_version import ModelVersion

CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])


def rows(n_rows: int, *, seed: int = 0) -> np.ndarray:  # (N, 2)
    rng = np.random.default_rng(seed)
    return CENTRES[rng.integers(0, 3, n_rows)] + rng.normal(size=(n_rows, 2))


@cache
def model_version(*, names: tuple[str, ...] | None = ("x", "y"), **params: Any) -> ModelVersion:
    """A model of three clusters in two columns that has learned three batches."""
    learner = Settings.of({"random_state": 0} | params, feature_names=names)
    for seed in range(3):
        learner, _, _ = learner.update(rows(300, seed=seed))
    return ModelVersion(5, 3, 1.0, names, learner, Steps())


def app(**settings: Any) -> FastAPI:
    return create_app(LocalModel(model_version()), ServiceSettings(**settings))


class Client:
    """Asks an app without a network; one event loop for all requests."""

    def __init__(self, app: FastAPI, **headers: str) -> None:
        self.app = app
        self._headers = headers

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=("127.0.0.1", 7))
            base = "http://127.0.0.1:8765"
            async with httpx.AsyncClient(
                transport=transport, base_url=base, headers=self._headers
            ) as client:
                return await client.request(method, path, **how)

        return asyncio.run(go())

    def get(self, path: str, **how: Any) -> httpx.Response:
        return self.request("GET", path, **how)

    def post(self, path: str, content: bytes, kind: str = "application/json", **headers: str):
        return self.request(
            "POST", path, content=content, headers={"content-type": kind, **headers}
        )

    def predict(self, **body: Any) -> httpx.Response:
        return self.post("/predict", json.dumps(body).encode())


def columns(X: np.ndarray, names: tuple[str, ...] = ("x", "y")) -> dict[str, list[float]]:
    return {name: X[:, j].tolist() for j, name in enumerate(names)}


def refused(answer: httpx.Response, status: int) -> Mapping[str, str]:
    """The refusal, which must be a sentence."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert set(content) == {"error", "detail"} and content["error"].isidentifier()
    assert len(content["detail"].split()) > 3 and content["detail"].endswith((".", "'")), content
    return content
