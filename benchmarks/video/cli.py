"""Video segmentation: ``python -m benchmarks video [--quick] [--method PART]``.

Segments the kite-surf sequence with every method and seed, scores the surfer's segments against
the mask, and writes ``benchmarks/results/video.json`` and ``video.csv`` (a line for each frame),
``docs/evidence/video.md`` and its contact sheet. ``--quick`` and ``--method`` print only.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from typing import Any

import numpy as np

from benchmarks.results_io import EVIDENCE, RESULTS
from benchmarks.speed.machine import describe
from benchmarks.video.frames import KiteSurf, Labels, Video
from benchmarks.video.loop import Run, run
from benchmarks.video.methods import METHODS, N_SEEDS, OURS, RIVAL, Method
from benchmarks.video.page import page
from benchmarks.video.score import Row, ids_in, score_frames
from benchmarks.video.sheet import contact_sheet, rows_of_sheet, save

_DEFAULT_K = 40  # of k-means, where scstream was not run
_N_SHOWN = 6


def measure(
    video: Video, methods: list[Method], n_seeds: int
) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, list[Labels]]]:
    """Run the methods: figures, a line for each frame, and the labels to be shown."""
    masks = [video.mask(number) for number in range(video.n_frames)]
    load, k = _load(), _DEFAULT_K
    found: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    shown: dict[str, list[Labels]] = {}
    for method in methods:
        for seed in range(min(n_seeds, method.n_seeds)):
            print(f"{method.name}, seed {seed}:", end=" ", file=sys.stderr, flush=True)
            done = run(method.make(seed, k), video, method.position)
            scores = score_frames(done.labels, masks)
            row = {"method": method.name, "seed": seed}
            found.append(row | {"table": method.table} | summary(done, scores))
            lines += [row | line for line in _frames(done, scores)]
            if method.name in (OURS, RIVAL) and seed == 0:
                shown[method.name] = done.labels
            print(f"{done.frames_per_second:.1f} frames per second", file=sys.stderr)
        if method.name == OURS:
            k = round(sum(row["segments"] for row in found) / len(found))
    height, width = masks[0].shape
    facts = {"n_frames": video.n_frames, "height": height, "width": width}
    results = {"machine": describe(), "load": load, "video": facts, "k": k, "runs": found}
    return results, lines, shown


def summary(done: Run, scores: list[Row]) -> dict[str, float]:
    """Figures of a run: means over frames, and times."""
    names = scores[0].keys()
    known = {name: np.array([row[name] for row in scores]) for name in names}
    means = {name: _mean(values) for name, values in known.items()}
    return means | {
        "first_segments": scores[0]["segments"],
        "last_segments": scores[-1]["segments"],
        "ids": float(len(set().union(*(ids_in(frame) for frame in done.labels)))),
        "frames_per_second": done.frames_per_second,
        "first_seconds": done.model[0],
        "model_seconds": _mean(np.array(done.model[1:])),
        "decode_seconds": _mean(np.array(done.decode)),
        "cpu_seconds": done.cpu / len(done.model),
    }


def write(
    results: dict[str, Any],
    lines: list[dict[str, Any]],
    video: Video,
    shown: dict[str, list[Labels]],
) -> None:
    """Save figures, frames, page and contact sheet."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "video.json").write_text(json.dumps(results, indent=1) + "\n")
    with (RESULTS / "video.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
    numbers = np.linspace(0, video.n_frames - 1, _N_SHOWN).round().astype(int).tolist()
    save(contact_sheet(rows_of_sheet(video, shown), numbers), EVIDENCE / "video-contact.png")
    (EVIDENCE / "video.md").write_text(page(results))


def main(argv: list[str] | None = None) -> None:
    """Run, print the page, and save it unless only a part was run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks video", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few small frames, one seed")
    parser.add_argument("--method", default="", help="only methods whose name contains this")
    choice = parser.parse_args(argv)
    try:
        video = KiteSurf(12, every=6) if choice.quick else KiteSurf()
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    methods = [method for method in METHODS if choice.method in method.name]
    if choice.quick:
        methods = [method for method in methods if method.table == "methods"]
    if not methods:
        sys.exit(f"No method has {choice.method!r} in its name.")
    results, lines, shown = measure(video, methods, 1 if choice.quick else N_SEEDS)
    print(page(results))
    if not choice.quick and not choice.method:
        write(results, lines, video, shown)


def _frames(done: Run, scores: list[Row]) -> list[dict[str, float]]:
    times = zip(done.model, done.decode, strict=True)
    return [
        {"frame": number}
        | {name: round(value, 4) for name, value in row.items()}
        | {"model_seconds": round(model, 4), "decode_seconds": round(decode, 4)}
        for number, (row, (model, decode)) in enumerate(zip(scores, times, strict=True))
    ]


def _load() -> float:
    """How many other programs want a core."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def _mean(values: np.ndarray) -> float:
    """Mean of the numbers among them."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
