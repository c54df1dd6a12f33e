"""Draw the packages of scstream and list them: `python docs/make_architecture.py`.

The packages and their order are the layers of import-linter in pyproject.toml, which `.ci/run`
checks. So the diagram and the table of docs/explanation/architecture.md match the code.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
DIAGRAM = PAGE.parent / "images" / "architecture.svg"
TABLE = re.compile(r"(?<=<!-- packages -->\n).*?(?=<!-- end of packages -->)", re.DOTALL)
PACKAGES = {
    "testing": "conformance tests for your own family, source or sink",
    "cli": "the command line, one file per command",
    "serve": "the HTTP service: one model that learns, many readers of immutable states",
    "stream": "pipelines: sources, sinks, batches, commit, checkpoints; one folder per system",
    "distributed": "everything that uses Ray: large batches, keyed models, replicas",
    "observe": "events, history, metrics, traces, alerts",
    "plot": "plots; every function takes Axes and returns Axes",
    "river": "adapter for river: rows one by one",
    "bertopic": "adapter for BERTopic: topics that keep their ids",
    "mlflow": "adapter for MLflow: a model file and a Python function",
    "view": "the numbers behind the live page and the plots",
    "estimator": "adapter for scikit-learn: `ScStream`; no mathematics",
    "batches": "`fit_stream`: a stream as users have it",
    "edit": "`name`, `merge`, `split`, `pin` and other edits of an estimator",
    "row_times": "rows with a time each, learned in their order",
    "fitted": "methods and attributes that every holder of a fitted model shares",
    "explain": "what people ask a fitted model: its clusters, what distinguishes them, why",
    "descriptions": "what distinguishes the clusters of a model",
    "posterior": "samples of the posterior of one table",
    "model": "settings before the first batch, then the fitted model as an immutable value",
    "first_batch": "family and prior by the first rows; a whole table at once",
    "editing": "edits by people, between two batches",
    "learning": "one batch: rows that are held, families on trial, columns of another type",
    "preprocess": "steps before the model: scaling, projection, text, columns",
    "compute": "executors: one thread or several",
    "io": "model files, tables, validation of rows and parameters",
    "core": "how clusters change: pure functions over immutable state",
    "families": "what a cluster is: exponential families with conjugate priors; pure",
    "datasets": "generators of drifting streams with known labels",
    "metrics": "scores, batch by batch and over a whole stream",
    "machine": "cores and memory of this machine",
    "errors": "all exception classes",
    "kernels": "numerical kernels: numpy reference and compiled implementation",
}
# Packages that users call.
PUBLIC = {"bertopic", "cli", "estimator", "mlflow", "plot", "river", "serve", "testing"}
PURE = {"core", "families"}
COLOURS = {"public": "#dbeafe", "pure": "#d1f2e2", "": "#f3f4f6"}
WIDTH, HIGH, GAP, LEFT = 700, 34, 10, 10


def layers() -> list[list[str]]:
    """Return the packages of every layer, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [found] = [contract["layers"] for contract in contracts if contract["id"] == "layers"]
    return [[package.strip() for package in re.split(r"[|:]", layer)] for layer in found]


def table() -> str:
    """Return the packages as a table, the lowest layer first."""
    lines = ["| layer | package | contents |", "|---|---|---|"]
    for number, packages in enumerate(reversed(layers()), 1):
        lines += [f"| {number} | `{package}` | {PACKAGES[package]} |" for package in packages]
    return "\n".join(lines) + "\n"


def diagram() -> str:
    """Return the packages as SVG: one row per layer, imports go down."""
    rows = layers()
    height = len(rows) * (HIGH + GAP) + 56
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="14" role="img">',
        "<title>Packages of scstream: each imports only from packages below it</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<marker id="tip" markerWidth="8" markerHeight="8" refX="4" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#374151"/></marker>',
    ]
    for number, packages in enumerate(rows):
        parts += boxes(packages, GAP + number * (HIGH + GAP))
    bottom = GAP + len(rows) * (HIGH + GAP)
    parts.append(
        f'<line x1="{WIDTH - 40}" y1="{GAP}" x2="{WIDTH - 40}" y2="{bottom - GAP - 6}" '
        'stroke="#374151" stroke-width="2" marker-end="url(#tip)"/>'
        f'<text transform="translate({WIDTH - 16} {bottom / 2}) rotate(90)" text-anchor="middle" '
        'fill="#374151">imports go down only</text>'
    )
    return "\n".join([*parts, *legend(bottom + 6), "</svg>"]) + "\n"


def boxes(packages: list[str], top: int) -> list[str]:
    """Return the boxes of one layer."""
    width = (WIDTH - 70 - LEFT - GAP * (len(packages) - 1)) / len(packages)
    out = []
    for place, package in enumerate(packages):
        left = LEFT + place * (width + GAP)
        kind = "public" if package in PUBLIC else "pure" if package in PURE else ""
        out.append(box(left, top, width, COLOURS[kind]))
        middle = left + width / 2
        out.append(
            f'<text x="{middle:g}" y="{top + 22}" text-anchor="middle" fill="#111827" '
            f'font-weight="bold">{escape(package)}</text>'
        )
    return out


def box(left: float, top: float, width: float, colour: str, *, high: int = HIGH) -> str:
    """Return one box."""
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{high}" rx="5" fill="{colour}" '
        'stroke="#6b7280"/>'
    )


def legend(top: int) -> list[str]:
    """Return the legend of the colours."""
    meanings = (
        ("public", "called by users"),
        ("pure", "pure: numpy and scipy only"),
        ("", "internal"),
    )
    out = []
    for place, (kind, meaning) in enumerate(meanings):
        left = LEFT + place * 220
        out.append(box(left, top, 18, COLOURS[kind], high=18))
        out.append(f'<text x="{left + 26}" y="{top + 14}" fill="#111827">{meaning}</text>')
    return out


def page() -> str:
    """Return the page with the current table."""
    return TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    DIAGRAM.write_text(diagram(), encoding="utf-8")
