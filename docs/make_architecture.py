"""Draws the rooms of the package and lists them: `python docs/make_architecture.py`.

Rooms and their order are the layers of import-linter in pyproject.toml, which the gate enforces, so
the diagram and the table of docs/explanation/architecture.md cannot say anything else.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
DIAGRAM = PAGE.parent / "images" / "architecture.svg"
TABLE = re.compile(r"(?<=<!-- rooms -->\n).*?(?=<!-- end of rooms -->)", re.DOTALL)
ROOMS = {
    "testing": "conformance kits: hand in a family, a source or a sink of your own",
    "cli": "the command line: settings with an origin, `run`, `doctor`, `replay`",
    "serve": "HTTP: one writer, many readers over an immutable state",
    "stream": "moving rows: sources, sinks, batches, commit, checkpoints; one system per file",
    "observe": "what happened, for others: metrics, traces, alerts",
    "plot": "pictures: take Axes, return Axes",
    "river": "the face towards river: rows one by one",
    "bertopic": "the face towards BERTopic: topics that keep their ids",
    "mlflow": "the face towards MLflow: a model file and a Python function",
    "view": "a model as a picture, in numbers: what page and plots draw",
    "estimator": "the face towards scikit-learn: `ScStream`; no mathematics",
    "learner": "the model as a value, without scikit-learn; pipelines stand on it",
    "compute": "where arithmetic runs: threads, or the workers of a Ray cluster",
    "io": "doors: tables in, sentences for what cannot be used, model files",
    "core": "how clusters change: one batch is `step`, one sweep is `sweep`; pure",
    "families": "what a cluster is: exponential families with conjugate priors; pure",
    "datasets": "drifting streams whose truth is known",
    "metrics": "scores, batch by batch and over a stream",
    "machine": "what this machine has",
    "errors": "one tree of errors",
    "native": "which kernels are in use: numpy, or their compiled twins",
}
# What people call.
FACES = {"bertopic", "cli", "estimator", "mlflow", "plot", "river", "serve", "testing"}
PURE = {"core", "families"}
COLOURS = {"face": "#dbeafe", "pure": "#d1f2e2", "": "#f3f4f6"}
WIDTH, HIGH, GAP, LEFT = 700, 34, 10, 10


def layers() -> list[list[str]]:
    """Return the rooms of every layer, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [found] = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    return [[room.strip() for room in re.split(r"[|:]", layer)] for layer in found]


def table() -> str:
    """Return the rooms as a table, the lowest layer first."""
    lines = ["| layer | room | what |", "|---|---|---|"]
    for number, rooms in enumerate(reversed(layers()), 1):
        lines += [f"| {number} | `{room}` | {ROOMS[room]} |" for room in rooms]
    return "\n".join(lines) + "\n"


def diagram() -> str:
    """Return the rooms as SVG: a row for each layer, imports go down."""
    rows = layers()
    height = len(rows) * (HIGH + GAP) + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="14" role="img">',
        "<title>Rooms of scstream: each imports from rooms below it only</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<marker id="tip" markerWidth="8" markerHeight="8" refX="4" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#374151"/></marker>',
    ]
    for number, rooms in enumerate(rows):
        parts += boxes(rooms, GAP + number * (HIGH + GAP))
    bottom = GAP + len(rows) * (HIGH + GAP)
    parts.append(
        f'<line x1="{WIDTH - 40}" y1="{GAP}" x2="{WIDTH - 40}" y2="{bottom - GAP - 6}" '
        'stroke="#374151" stroke-width="2" marker-end="url(#tip)"/>'
        f'<text transform="translate({WIDTH - 16} {bottom / 2}) rotate(90)" text-anchor="middle" '
        'fill="#374151">imports go down only</text>'
    )
    return "\n".join([*parts, *legend(bottom + 6), "</svg>"]) + "\n"


def boxes(rooms: list[str], top: int) -> list[str]:
    """Return the boxes of one layer."""
    width = (WIDTH - 70 - LEFT - GAP * (len(rooms) - 1)) / len(rooms)
    out = []
    for place, room in enumerate(rooms):
        left = LEFT + place * (width + GAP)
        kind = "face" if room in FACES else "pure" if room in PURE else ""
        out.append(box(left, top, width, COLOURS[kind]))
        middle = left + width / 2
        out.append(
            f'<text x="{middle:g}" y="{top + 22}" text-anchor="middle" fill="#111827" '
            f'font-weight="bold">{escape(room)}</text>'
        )
    return out


def box(left: float, top: float, width: float, colour: str, *, high: int = HIGH) -> str:
    """Return one box."""
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{high}" rx="5" fill="{colour}" '
        'stroke="#6b7280"/>'
    )


def legend(top: int) -> list[str]:
    """Return what the colours mean."""
    meanings = (
        ("face", "what people call"),
        ("pure", "pure: numpy and scipy only"),
        ("", "inside"),
    )
    out = []
    for place, (kind, meaning) in enumerate(meanings):
        left = LEFT + place * 220
        out.append(box(left, top, 18, COLOURS[kind], high=18))
        out.append(f'<text x="{left + 26}" y="{top + 14}" fill="#111827">{meaning}</text>')
    return out


def page() -> str:
    """Return the page with the table of now."""
    return TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    DIAGRAM.write_text(diagram(), encoding="utf-8")
