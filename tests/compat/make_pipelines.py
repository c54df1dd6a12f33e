"""Write checkpoints of pipelines of this version, once per release; those of earlier ones stay.

    python tests/compat/make_pipelines.py

writes a folder ``pipelines-<version>`` with a store for every family and for a keyed job, and what
their models answer, as JSON.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream import __version__
from scstream.io.parameters import FAMILIES
from scstream.stream.config import build
from scstream.stream.follower import Follower

HERE = Path(__file__).parent
COLUMNS = ["a", "b", "c", "d"]
COUNTS = ("multinomial", "poisson", "categorical")
KEYED = "keyed"
OPTIONS: dict[str, dict[str, Any]] = {"subspace": {}, KEYED: {"family": "diagonal"}}


def rows(kind: str, n_rows: int = 240) -> NDArray[np.float64]:
    """Rows that depend on no random generator: they must be the same for ever."""
    draw = np.arange(n_rows * 32, dtype=np.int64)
    noise = ((draw**2 * 31 + draw * 7919) % 10007).reshape(n_rows, 4, 8).mean(axis=2) / 2500 - 2.0
    centres = 6.0 * np.eye(4)[np.arange(n_rows) % 3]
    X = np.asarray(np.round(centres + noise, 3))
    if kind == "bernoulli":
        return (X > 2.0).astype(float)
    return np.round(np.abs(X)) % 7 if kind in COUNTS else X


def settings(kind: str, folder: Path) -> dict[str, Any]:
    """Return the settings of the pipeline; it reads `rows.jsonl` of the folder."""
    model = OPTIONS.get(kind, {})
    product = {"family": {"gaussian": ["a", "b"], "poisson": ["c", "d"]}}
    model = product if kind == "product" else {"family": kind, **model}
    key = {"key": "who"} if kind == KEYED else {}
    return {
        "job": f"golden-{kind}",
        "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
        "schema": {"features": COLUMNS, **key},
        "model": {"random_state": 2022, "n_jobs": 1, **model},
        "batch": {"rows": 60},
        "sink": {"kind": "file", "path": str(folder / "labels.jsonl")},
        "checkpoint": {"folder": str(folder / "store"), "newest": 1, "hourly": 0, "digests": 0},
    }


def write_rows(kind: str, folder: Path, n_rows: int) -> None:
    """Write the first rows of a kind."""
    X = rows("poisson" if kind == "product" else kind, 240)[:n_rows].tolist()
    lines = [dict(zip(COLUMNS, x, strict=True), who=f"k{i % 3}") for i, x in enumerate(X)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def answers(kind: str, store: Path) -> Any:
    """Return what the newest checkpoint answers."""
    if kind == KEYED:
        return None
    X = rows("poisson" if kind == "product" else kind)[-30:]
    follower = Follower.open(str(store))
    return {
        "labels": follower.predict(X).values.tolist(),
        "scores": follower.score(X).values.tolist(),
    }


def main() -> None:
    target = HERE / f"pipelines-{__version__}"
    shutil.rmtree(target, ignore_errors=True)
    found = {}
    for kind in (*FAMILIES, KEYED):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_rows(kind, folder, 180)
            build(settings(kind, folder)).run()
            found[kind] = {
                "answers": answers(kind, folder / "store"),
                "labels": (folder / "labels.jsonl").read_text().count("\n"),
            }
            shutil.copytree(folder / "store", target / kind, ignore=lambda *_: [".lock"])
    (target / "answers.json").write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
