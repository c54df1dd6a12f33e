"""`scstream tune`: search for model settings that predict the next batch best."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from scstream.cli.fit import NO_CHECKPOINTS
from scstream.cli.optuna import Chosen, Range, Space, search
from scstream.cli.progress import ProgressBar
from scstream.cli.rows import explain_os_errors, input_name
from scstream.cli.settings import Tables
from scstream.compute.choose import thread_executor
from scstream.core.predictor import Predictor
from scstream.errors import InputError
from scstream.families.base import Labels, Rows
from scstream.model import Model, Settings
from scstream.preprocess.block import Columns
from scstream.stream.batcher import SourceBatch
from scstream.stream.config import build
from scstream.stream.processor import Learned, OneModel
from scstream.stream.store import MemoryStore

SCORES = ("density", "ari", "nmi")
_MIN_GAIN = {"density": 0.01, "ari": 0.005, "nmi": 0.005}  # a smaller gain needs no new settings
_SIMPLIFY_LOSS = 0.1  # part of the gain that resetting one setting to its default may cost
_MIN_BATCHES = 4  # two to search on and two to compare on
_UNITS = {"density": "nats per row", "ari": "of ARI", "nmi": "of NMI"}
_NAMES = {"density": "mean log density", "ari": "mean ARI", "nmi": "mean NMI"}
_CONTINUOUS = ("auto", "gaussian", "diagonal")


@dataclass(frozen=True)
class SearchOptions:
    """The options of `scstream tune`."""

    trials: int = 30
    batches: int = 10
    held_out: int = 10
    truth: str | None = None
    score: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.score not in (None, *SCORES):
            raise InputError(f"there is no score {self.score!r}; there are: {', '.join(SCORES)}.")
        if self.score in ("ari", "nmi") and self.truth is None:
            raise InputError(f"--score {self.score} needs --truth, the column of true classes.")

    @property
    def kind(self) -> str:
        """The score to use."""
        return self.score or ("density" if self.truth is None else "ari")


@dataclass(frozen=True)
class TuneBatch:
    """A preprocessed batch."""

    X: Rows  # (N, D)
    time: float | None
    truth: Labels | None  # (N,)


@dataclass(frozen=True)
class TuneResult:
    """The best settings and their scores."""

    score: str  # name of the score
    chosen: Chosen  # the best settings that are not the defaults
    trials: int
    batches: int  # that the search used
    held_out: int  # later batches
    searched: float  # score of the best settings on the batches of the search
    searched_default: float
    best: float  # score of the best settings on the later batches
    default: float
    gain: float  # mean difference on the later batches
    error: float  # two standard errors of the gain

    @property
    def is_better(self) -> bool:
        """Whether the gain is large enough to matter and not due to chance."""
        return bool(self.chosen) and self.gain > max(self.error, _MIN_GAIN[self.score])

    def to_dict(self) -> dict[str, object]:
        """Return it for JSON, with None for NaN."""
        values = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
            if name != "chosen"
        }
        return {"model": dict(self.chosen), "is_better": self.is_better, **values}

    def to_toml(self) -> str:
        """Return the settings as TOML, with the scores as comments."""
        name, unit = _NAMES[self.score], _UNITS[self.score]
        lines = [
            f"# {self.trials} settings tried on {self.batches} batches, each scored before it was "
            "learned.",
            f"# There, {name}: best {self.searched:.4g}, defaults {self.searched_default:.4g}.",
            f"# On {self.held_out} later batches, which the search has not seen: best "
            f"{self.best:.4g}, defaults {self.default:.4g}.",
        ]
        gain = f"{self.gain:+.3g} {unit} (two standard errors: {self.error:.2g})"
        if self.is_better:
            lines.append(f"# The best is better by {gain}.")
        else:
            lines.append(f"# The defaults are as good: the difference is {gain}.")
        mark = "" if self.is_better else "# "
        return "\n".join([*lines, *(mark + line for line in _toml_lines(self.chosen))])


def tune_model(settings: Tables, options: SearchOptions, *, show_bar: bool = True) -> TuneResult:
    """Search model settings on the first batches of a source; given settings stay fixed."""
    model, batches = collect_batches(settings, options)
    n_searched = _n_searched(len(batches), options)
    space = _search_space(model, batches, settings.get("model", {}))
    if not space:
        raise InputError("all settings that could be searched are given; remove some of them.")
    defaults = {name: getattr(model, name) for name in space}

    def scores(chosen: Chosen, among: Sequence[TuneBatch]) -> list[float]:
        return prequential_scores(replace(model, **chosen), among, options.kind)

    def objective(chosen: Chosen) -> float:
        return _mean(scores(chosen, batches[:n_searched]), batches[1:n_searched])

    with ProgressBar(options.trials, shown=show_bar) as bar:
        best, value = search(
            space,
            objective,
            first=defaults,
            trials=options.trials,
            seed=options.seed,
            report=lambda n, best: bar.update(n, f"{n} settings  best {best:.4g}"),
        )
    before = scores(defaults, batches)
    start = _mean(before[: n_searched - 1], batches[1:n_searched])
    best = _simplify(best, defaults, objective, at_least=value - _SIMPLIFY_LOSS * (value - start))
    after = scores(best, batches)
    later, old, new = batches[n_searched:], before[n_searched - 1 :], after[n_searched - 1 :]
    gains = np.array(new) - np.array(old)
    return TuneResult(
        score=options.kind,
        chosen={name: value for name, value in best.items() if value != defaults[name]},
        trials=options.trials,
        batches=n_searched,
        held_out=len(later),
        searched=_mean(after[: n_searched - 1], batches[1:n_searched]),
        searched_default=start,
        best=_mean(new, later),
        default=_mean(old, later),
        gain=_mean(gains.tolist(), later),
        error=2.0 * float(gains.std(ddof=1)) / math.sqrt(len(gains)),
    )


def collect_batches(settings: Tables, options: SearchOptions) -> tuple[Settings, list[TuneBatch]]:
    """Return the first batches as a pipeline would learn them, and the settings of the model."""
    schema = dict(settings.get("schema", {}))
    if options.truth is not None:
        schema["keep"] = [*schema.get("keep", ()), options.truth]
    pipeline = build({**settings, "schema": schema}, store=MemoryStore())
    pipeline.checkpoint_policy = NO_CHECKPOINTS
    batches: list[TuneBatch] = []

    def on_batch(source_batch: SourceBatch, learned: Learned) -> None:
        if len(learned.block.row):
            truth = _class_labels(learned.block.extra, options.truth)
            batches.append(TuneBatch(learned.block.X, source_batch.time, truth))

    pipeline.on_batch = on_batch
    with explain_os_errors(input_name(settings)):
        pipeline.run(until=options.batches + options.held_out)
    if len(batches) < _MIN_BATCHES:
        raise InputError(
            f"the rows give {len(batches)} usable batches, but tune needs {_MIN_BATCHES}; give "
            "more rows, or smaller batches with --batch-rows."
        )
    assert isinstance(pipeline.processor, OneModel)
    return pipeline.processor.settings, batches


def prequential_scores(
    model: Settings | Model, batches: Sequence[TuneBatch], score: str
) -> list[float]:
    """Return the score of every batch but the first, each predicted before it is learned."""
    score_batch = _scorer(score)
    scores = []
    for number, batch in enumerate(batches):
        if number and isinstance(model, Model):
            scores.append(score_batch(model.at(batch.time), batch))
        model = model.update(batch.X, time=batch.time).model
    return scores


def _simplify(
    best: Chosen,
    defaults: Chosen,
    objective: Callable[[Chosen], float],
    *,
    at_least: float,
) -> Chosen:
    """Reset every setting to its default if the score stays high enough without it."""
    kept = dict(best)
    for name in best:
        without = {**kept, name: defaults[name]}
        if without != kept and objective(without) >= at_least:
            kept = without
    return kept


def _scorer(score: str) -> Callable[[Predictor, TuneBatch], float]:
    run = thread_executor(-1).map
    if score == "density":
        return lambda predictor, batch: float(predictor.log_density(batch.X, run=run).mean())
    from scstream.metrics import adjusted_rand, normalized_mutual_info

    agreement = adjusted_rand if score == "ari" else normalized_mutual_info

    def score_labels(predictor: Predictor, batch: TuneBatch) -> float:
        assert batch.truth is not None
        return agreement(batch.truth, predictor.labels(batch.X, run=run))

    return score_labels


def _class_labels(extra: Columns, truth: str | None) -> Labels | None:
    if truth is None:
        return None
    if truth not in extra or all(value is None for value in extra[truth]):
        raise InputError(f"the rows have no column {truth!r} of true classes; check --truth.")
    _, classes = np.unique([str(value) for value in extra[truth]], return_inverse=True)
    return np.asarray(classes, dtype=np.int64)


def _n_searched(n_batches: int, options: SearchOptions) -> int:
    """Return the batches to search on; in the same proportion if there are too few."""
    total = options.batches + options.held_out
    share = options.batches / total
    n_searched = options.batches if n_batches >= total else round(n_batches * share)
    return min(max(n_searched, 2), n_batches - 2)


def _search_space(model: Settings, batches: Sequence[TuneBatch], fixed: Tables) -> Space:
    """Return the settings to search: those that the user has not fixed."""
    times = [batch.time for batch in batches if batch.time is not None]
    batch_interval = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    batch_interval = batch_interval if batch_interval > 0 else 1.0
    space: dict[str, Range | tuple[Any, ...]] = {
        "half_life": Range(batch_interval, 300.0 * batch_interval),
        "alpha": Range(1e-3, 1e3),
        "prior": ("auto", "weak"),
    }
    if model.family in _CONTINUOUS:
        space["motion"] = (True, False)
        if batches[0].X.shape[1] > 1:
            space["family"] = _CONTINUOUS
    return {name: each for name, each in space.items() if name not in fixed}


def _mean(scores: Sequence[float], batches: Sequence[TuneBatch]) -> float:
    """Return the mean over rows."""
    return float(np.average(scores, weights=[batch.X.shape[0] for batch in batches]))


def _toml_lines(chosen: Chosen) -> list[str]:
    lines = [f"{name} = {json.dumps(value)}" for name, value in chosen.items()]
    return ["[model]", *lines] if lines else []
