"""Experiments that need no peers and no files: ``python -m benchmarks.paper.own [--again NAME]``.

Streams are drawn by `scstream.datasets`. Each experiment is a table of its own; one whose file is
there already is not run again.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.cases import FRESH, births
from benchmarks.paper.standings import OURS, PAPER
from benchmarks.paper.store import FOLDER
from scstream import ScStream, datasets
from scstream.core import paper
from scstream.core.assign import LoadedRows
from scstream.core.config import Config
from scstream.core.moves import split_and_merge
from scstream.core.state import State, Transition
from scstream.core.sweep import label_key, mean_params, with_statistics
from scstream.families import Family
from scstream.metrics import DetectionDelay, adjusted_rand
from scstream.metrics import normalized_mutual_info as _nmi

GAUSSIANS, COUNTS = "2-D Gaussians", "100-D multinomials"
SETTLED, DRAWN, SAMPLED = "settled (the paper)", "predictive, drawn", "sampled"
# The priors that suit these streams best among a few; the paper gives none for counts.
_PRIORS: dict[str, dict[str, Any]] = {
    GAUSSIANS: {"prior": {"kappa": 0.01, "mean": 0.0, "nu": 10.0, "psi": 1.0}, "half_life": 1.0},
    COUNTS: {"family": "multinomial", "prior": {"concentration": 1.0}, "half_life": 5.0},
}
_SWEEPS = (1, 2, 3, 5, 7, 10)
_PATIENCE = 45.0  # CPU seconds that one method may take for the growth of its state

Row = dict[str, Any]
Swaps = dict[Any, Callable[[], AbstractContextManager[Any]]]


def run_own(quick: bool, folder: Path | None = None, again: str = "") -> dict[str, pd.DataFrame]:
    """Run the experiments that are not in the folder yet; a quick run keeps nothing by default."""
    folder = folder if quick or folder is not None else FOLDER
    found = {}
    for name, work in EXPERIMENTS.items():
        path = None if folder is None else folder / f"own-{name}.csv"
        if path is not None and path.exists() and again not in (name, "all"):
            found[name] = pd.read_csv(path)
            continue
        started = time.process_time()
        with threadpool_limits(1):
            found[name] = pd.DataFrame(list(work(quick)))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            found[name].to_csv(path, index=False, float_format="%.6g")
        print(f"{name}: {time.process_time() - started:.0f} s", file=sys.stderr, flush=True)
    return found


def _stream(name: str, seed: int, n_batches: int) -> datasets.Stream:
    if name == GAUSSIANS:
        return datasets.drifting_gaussians(20, 2, n_batches=n_batches, random_state=seed)
    size = 20 if n_batches < 10 else 100
    return datasets.drifting_multinomials(size, size, n_batches=n_batches, random_state=seed)


def _cases(quick: bool) -> Iterator[tuple[str, int, datasets.Stream]]:
    """Streams of a hundred batches: name, seed, stream."""
    n_batches = 6 if quick else 100
    for name, n_seeds in ((GAUSSIANS, 5), (COUNTS, 2)):
        for seed in list(FRESH)[: 1 if quick else n_seeds]:
            yield name, seed, _stream(name, seed, n_batches)


def follow(
    models: dict[Any, ScStream], stream: Iterable[datasets.LabelledBatch], last: Swaps | None = None
) -> dict[Any, Row]:
    """Scores of predictions and of learned labels, and CPU time, all without the first batch.

    The models take turns on every batch, so that a busy machine slows all of them alike.
    """
    notes: dict[Any, list[list[float]]] = {key: [] for key in models}
    for number, batch in enumerate(stream):
        for key, model in models.items():
            begin = time.process_time()
            predicted = model.predict(batch.X) if number else None
            with (last or {}).get(key, nullcontext)():
                model.partial_fit(batch.X)
            seconds = time.process_time() - begin
            if predicted is not None:
                scores = [metric(batch.y, predicted) for metric in (adjusted_rand, _nmi)]
                learned = adjusted_rand(batch.y, model.labels_)
                notes[key].append([*scores, learned, model.n_clusters_, seconds])
    return {key: _summary(np.array(columns)) for key, columns in notes.items()}


def _summary(notes: npt.NDArray[np.float64]) -> Row:
    """Means, and of CPU seconds the median: the machine has other things to do."""
    means = dict(zip(("ari", "nmi", "learned_ari", "k"), notes[:, :4].mean(axis=0), strict=True))
    return means | {"seconds": np.median(notes[:, 4])}


def _papers(name: str, **choices: Any) -> ScStream:
    settings: dict[str, Any] = _PRIORS[name] | choices
    return ScStream(algorithm="paper", n_jobs=1, **settings)


def sweeps(quick: bool) -> Iterator[Row]:
    """The paper's algorithm with T sampling sweeps, and ours beside it."""
    for name, seed, stream in _cases(quick):
        chosen = _SWEEPS[:2] if quick else _SWEEPS
        models = {(PAPER, t): _papers(name, n_sweeps=t, random_state=seed) for t in chosen}
        family = _PRIORS[name].get("family", "gaussian")
        models[OURS, 0] = ScStream(family, n_jobs=1, random_state=seed)
        for (method, t), row in follow(models, stream).items():
            yield {"stream": name, "method": method, "seed": seed, "n_sweeps": t} | row


def last_sweep(quick: bool) -> Iterator[Row]:
    """The paper's algorithm with other last sweeps, whose labels are the ones that are learned."""
    # No setting replaces the last sweep, so the function is replaced.
    replaced = partial(patch, "scstream.core.paper.predictive_sweep")
    last = {DRAWN: partial(replaced, drawn_sweep), SAMPLED: partial(replaced, paper.sampling_sweep)}
    for name, seed, stream in _cases(quick):
        models = {
            variant: _papers(name, random_state=seed) for variant in (SETTLED, DRAWN, SAMPLED)
        }
        for variant, row in follow(models, stream, last).items():
            yield {"stream": name, "variant": variant, "seed": seed} | row


def drawn_sweep(
    family: Family, config: Config, state: State, rows: LoadedRows, *, sweep: int
) -> Transition:
    """Draw every label by its posterior predictive probability, then split and merge."""
    key = label_key(config, state, sweep=sweep)
    params = mean_params(family, config, state, state, births=False, key=key)
    transition = with_statistics(state, rows.assign(params))
    return split_and_merge(family, config, paper.RULES, transition, sweep=sweep)


def birth_delay(quick: bool) -> Iterator[Row]:
    """Batches until each newborn is found; none if it is not."""
    for distance in ("far", "near"):
        for seed in list(FRESH)[: 1 if quick else None]:
            stream = births(seed, distance)
            stream = stream.take(15) if quick else stream
            for method in (OURS, PAPER):
                algorithm = "default" if method == OURS else "paper"
                model = ScStream(algorithm=algorithm, n_jobs=1, random_state=seed)
                watch = DetectionDelay(stream.births)
                for number, batch in enumerate(stream):
                    watch.update(number, batch.y, model.partial_fit(batch.X).labels_)
                for _, label in stream.births:
                    at = {"distance": distance, "method": method, "seed": seed, "label": label}
                    yield at | {"delay": watch.delays.get(label)}


def _recurring(quick: bool) -> Iterator[tuple[datasets.LabelledBatch, ScStream]]:
    """A stream on which every kind of event happens, and the model after each batch."""
    n_batches = 20 if quick else 120
    stream = datasets.recurring_gaussians(
        12, 32, n_active=6, phase=10, swap=3, n_batches=n_batches, random_state=1002
    )
    model = ScStream(archive=True, n_jobs=1, random_state=0)
    for batch in stream:
        yield batch, model.partial_fit(batch.X)


def lineage(quick: bool) -> Iterator[Row]:
    """Rows of each batch by true label and id."""
    for batch, model in _recurring(quick):
        pairs, rows = np.unique([batch.y, model.labels_], axis=1, return_counts=True)
        for label, cluster, n_rows in zip(*pairs.tolist(), rows.tolist(), strict=True):
            yield {"batch": int(batch.time), "label": label, "id": cluster, "rows": n_rows}


def events(quick: bool) -> Iterator[Row]:
    """What happened to the clusters of the same stream."""
    *_, (_, model) = _recurring(quick)
    for event in model.events_:
        other = -1 if event.other is None else event.other
        yield {"kind": event.kind, "batch": int(event.time), "id": event.id, "other": other}


def state_size(quick: bool) -> Iterator[Row]:
    """Bytes of the pickled model along a stream of 1000 batches."""
    from sklearn.cluster import Birch, MiniBatchKMeans

    n_batches = 10 if quick else 1000
    models: dict[str, Callable[[], Any]] = {
        OURS: partial(ScStream, n_jobs=1, random_state=0),
        PAPER: partial(ScStream, algorithm="paper", n_jobs=1, random_state=0),
        "scikit-learn MiniBatchKMeans": partial(MiniBatchKMeans, 20, n_init=3, random_state=0),
        "scikit-learn Birch": partial(Birch, n_clusters=20),
    }
    looks = set(np.unique(np.geomspace(1, n_batches, 40).astype(int)).tolist())
    for name, make in models.items():
        model, spent = make(), 0.0
        for number, batch in enumerate(_stream(GAUSSIANS, FRESH[0], n_batches), 1):
            begin = time.process_time()
            model.partial_fit(batch.X)
            spent += time.process_time() - begin
            if number in looks:
                yield {"method": name, "batch": number, "bytes": len(pickle.dumps(model))}
            if spent > _PATIENCE:
                break


EXPERIMENTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "births": birth_delay,
    "lineage": lineage,
    "events": events,
    "last-sweep": last_sweep,
    "sweeps": sweeps,
    "size": state_size,
}


def main() -> None:
    """Run what is missing, or one experiment again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small, and nothing is kept")
    parser.add_argument("--again", choices=[*EXPERIMENTS, "all"], default="", help="run again")
    chosen = parser.parse_args()
    run_own(chosen.quick, again=chosen.again)


if __name__ == "__main__":
    main()
