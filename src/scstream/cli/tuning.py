"""`scstream tune`: which settings foretell the next batch best, and whether that lasts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from scstream.cli.bar import Bar
from scstream.cli.optuna import Range, Space, search
from scstream.cli.places import Scratch
from scstream.cli.rows import reading
from scstream.core.predictor import Predictor
from scstream.errors import InputError
from scstream.families.base import Labels, Rows
from scstream.model import Model, Settings, thread_executor
from scstream.stream.batcher import SourceBatch
from scstream.stream.config import build
from scstream.stream.processor import Learned, OneModel
from scstream.stream.runner import CheckpointPolicy

SCORES = ("density", "ari", "nmi")
_NEVER = 1 << 62
_WORTH = {"density": 0.01, "ari": 0.005, "nmi": 0.005}  # a smaller gain is not worth a setting
_PARED = 0.1  # part of the gain that a setting may cost which is put back to its default
_FEWEST = 4  # batches: two to search on and two to compare on
_UNITS = {"density": "nats per row", "ari": "of ARI", "nmi": "of NMI"}
_NAMES = {"density": "mean log density", "ari": "mean ARI", "nmi": "mean NMI"}
_CONTINUOUS = ("gaussian", "diagonal")


@dataclass(frozen=True)
class Search:
    """What to search for, and how long.

    Examples
    --------
    >>> from scstream.cli.tuning import Search
    >>> Search(truth="class").kind, Search().kind
    ('ari', 'density')
    """

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
        """Which score."""
        return self.score or ("density" if self.truth is None else "ari")


@dataclass(frozen=True)
class Lot:
    """A batch as the model learns it."""

    X: Rows  # (N, D)
    time: float | None
    truth: Labels | None  # (N,)


@dataclass(frozen=True)
class Tuned:
    """What was found.

    Parameters
    ----------
    score : str
        What was compared.
    chosen : mapping
        The best settings, as far as they are not the defaults.
    trials : int
        How many settings were tried.
    batches, held_out : int
        How many batches they were tried on, and compared on.
    searched, searched_default : float
        Score of the best settings, and of the defaults, where the search was.
    best, default : float
        The same on later batches.
    gain, error : float
        Mean difference of the two there, and two standard errors of that.

    Examples
    --------
    >>> from scstream.cli.tuning import Tuned
    >>> tuned = Tuned("density", {"half_life": 20.0}, 30, 10, 10, -1.0, -1.5, -1.1, -1.4, 0.3, 0.1)
    >>> print(tuned.toml().splitlines()[-1], tuned.is_better)
    half_life = 20.0 True
    """

    score: str
    chosen: Mapping[str, Any]
    trials: int
    batches: int
    held_out: int
    searched: float
    searched_default: float
    best: float
    default: float
    gain: float
    error: float

    @property
    def is_better(self) -> bool:
        """Whether the settings are worth having, and better beyond what chance explains."""
        return bool(self.chosen) and self.gain > max(self.error, _WORTH[self.score])

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        values = {name: value for name, value in asdict(self).items() if name != "chosen"}
        plain = {
            n: None if isinstance(v, float) and math.isnan(v) else v for n, v in values.items()
        }
        return {"model": dict(self.chosen), "is_better": self.is_better, **plain}

    def toml(self) -> str:
        """Return it as a file of settings: words as comments, and the settings."""
        name, unit = _NAMES[self.score], _UNITS[self.score]
        lines = [
            f"# {self.trials} settings tried on {self.batches} batches, each scored before it was "
            "learned.",
            f"# There, {name}: best {self.searched:.4g}, defaults {self.searched_default:.4g}.",
            f"# On {self.held_out} later batches, which the search has not seen: best "
            f"{self.best:.4g}, defaults {self.default:.4g}.",
        ]
        gained = f"{self.gain:+.3g} {unit} (two standard errors: {self.error:.2g})"
        if self.is_better:
            lines.append(f"# The best is better by {gained}.")
        else:
            lines.append(f"# The defaults are as good: the difference is {gained}.")
        mark = "" if self.is_better else "# "
        return "\n".join([*lines, *(mark + line for line in _toml(self.chosen))])


def tune(settings: Mapping[str, Any], wanted: Search, *, shown: bool = True) -> Tuned:
    """Search settings of a model on the first batches of a source.

    Parameters
    ----------
    settings : mapping
        Settings of a pipeline; what its `model` says is not searched.
    wanted : Search
        What to search for.
    shown : bool
        Draw a bar if the standard error is a terminal.

    Returns
    -------
    Tuned
        The best settings, and how good they are on later batches.
    """
    learner, lots = collected(settings, wanted)
    n_tried = _split(len(lots), wanted)
    space = _space(learner, lots, settings.get("model", {}))
    if not space:
        raise InputError("everything that could be searched is set already; leave some of it out.")
    defaults = {name: getattr(learner, name) for name in space}

    def scored(chosen: Mapping[str, Any], among: Sequence[Lot]) -> list[float]:
        return prequential(replace(learner, **chosen), among, wanted.kind)

    def objective(chosen: Mapping[str, Any]) -> float:
        return _mean(scored(chosen, lots[:n_tried]), lots[1:n_tried])

    with Bar(wanted.trials, shown=shown) as bar:
        best, value = search(
            space,
            objective,
            first=defaults,
            trials=wanted.trials,
            seed=wanted.seed,
            tell=lambda n, best: bar.move(n, f"{n} settings  best {best:.4g}"),
        )
    before = scored(defaults, lots)
    start = _mean(before[: n_tried - 1], lots[1:n_tried])
    best = _pared(best, defaults, objective, least=value - _PARED * (value - start))
    after = scored(best, lots)
    later, old, new = lots[n_tried:], before[n_tried - 1 :], after[n_tried - 1 :]
    gains = np.array(new) - np.array(old)
    return Tuned(
        score=wanted.kind,
        chosen={name: value for name, value in best.items() if value != defaults[name]},
        trials=wanted.trials,
        batches=n_tried,
        held_out=len(later),
        searched=_mean(after[: n_tried - 1], lots[1:n_tried]),
        searched_default=start,
        best=_mean(new, later),
        default=_mean(old, later),
        gain=_mean(gains.tolist(), later),
        error=2.0 * float(gains.std(ddof=1)) / math.sqrt(len(gains)),
    )


def collected(settings: Mapping[str, Any], wanted: Search) -> tuple[Settings, list[Lot]]:
    """Return the first batches as a pipeline would learn them, and the model before any of them."""
    schema = dict(settings.get("schema", {}))
    if wanted.truth is not None:
        schema["keep"] = [*schema.get("keep", ()), wanted.truth]
    pipeline = build({**settings, "schema": schema}, store=Scratch())
    pipeline.checkpoint_policy = CheckpointPolicy(batches=_NEVER, seconds=float("inf"), digests=0)
    lots: list[Lot] = []

    def on_batch(source_batch: SourceBatch, learned: Learned) -> None:
        if len(learned.block.row):
            truth = _classes(learned.block.extra, wanted.truth)
            lots.append(Lot(learned.block.X, source_batch.time, truth))

    pipeline.on_batch = on_batch
    with reading(str(settings["source"].get("path", "standard input"))):
        pipeline.run(until=wanted.batches + wanted.held_out)
    if len(lots) < _FEWEST:
        raise InputError(
            f"the rows make {len(lots)} batches of sound rows, and {_FEWEST} are needed at least; "
            "give more rows, or smaller batches with --batch-rows."
        )
    assert isinstance(pipeline.processor, OneModel)
    return pipeline.processor.settings, lots


def prequential(learner: Settings | Model, lots: Sequence[Lot], score: str) -> list[float]:
    """Return the score of every batch but the first, each asked about before it is learned.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.tuning import Lot, prequential
    >>> from scstream.model import Settings
    >>> lot = Lot(np.arange(20.0)[:, None] % 7, None, np.arange(20) % 7)
    >>> len(prequential(Settings(random_state=0), [lot, lot, lot], "density"))
    2
    """
    judge = _judge(score)
    scores = []
    for number, lot in enumerate(lots):
        if number and isinstance(learner, Model):
            scores.append(judge(learner.at(lot.time), lot))
        learner = learner.update(lot.X, time=lot.time).model
    return scores


def _pared(
    best: Mapping[str, Any],
    defaults: Mapping[str, Any],
    objective: Callable[[Mapping[str, Any]], float],
    *,
    least: float,
) -> dict[str, Any]:
    """Put back to its default whatever does not matter."""
    kept = dict(best)
    for name in best:
        without = {**kept, name: defaults[name]}
        if without != kept and objective(without) >= least:
            kept = without
    return kept


def _judge(score: str) -> Callable[[Predictor, Lot], float]:
    run = thread_executor(-1).map
    if score == "density":
        return lambda predictor, lot: float(predictor.log_density(lot.X, run=run).mean())
    from scstream.metrics import adjusted_rand, normalized_mutual_info

    agreement = adjusted_rand if score == "ari" else normalized_mutual_info

    def agreed(predictor: Predictor, lot: Lot) -> float:
        assert lot.truth is not None
        return agreement(lot.truth, predictor.labels(lot.X, run=run))

    return agreed


def _classes(kept: Mapping[str, Any], truth: str | None) -> Labels | None:
    if truth is None:
        return None
    if truth not in kept or all(value is None for value in kept[truth]):
        raise InputError(f"the rows have no column {truth!r} of true classes; check --truth.")
    _, classes = np.unique([str(value) for value in kept[truth]], return_inverse=True)
    return np.asarray(classes, dtype=np.int64)


def _split(n_lots: int, wanted: Search) -> int:
    """Batches to search on; where there are fewer than wanted, in the same proportion."""
    whole = wanted.batches + wanted.held_out
    part = wanted.batches if n_lots >= whole else round(n_lots * wanted.batches / whole)
    return min(max(part, 2), n_lots - 2)


def _space(learner: Settings, lots: Sequence[Lot], fixed: Mapping[str, Any]) -> Space:
    """What may be chosen: whatever the user has not."""
    times = [lot.time for lot in lots if lot.time is not None]
    batch_interval = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    batch_interval = batch_interval if batch_interval > 0 else 1.0
    space: dict[str, Range | tuple[Any, ...]] = {
        "half_life": Range(batch_interval, 300.0 * batch_interval),
        "alpha": Range(1e-3, 1e3),
        "prior": ("auto", "weak"),
    }
    family = learner.family
    if family in _CONTINUOUS:
        space["motion"] = (True, False)
        if lots[0].X.shape[1] > 1:
            space["family"] = _CONTINUOUS
    return {name: each for name, each in space.items() if name not in fixed}


def _mean(scores: Sequence[float], lots: Sequence[Lot]) -> float:
    """Mean over rows."""
    return float(np.average(scores, weights=[lot.X.shape[0] for lot in lots]))


def _toml(chosen: Mapping[str, Any]) -> list[str]:
    own = [f"{name} = {json.dumps(value)}" for name, value in chosen.items()]
    return ["[model]", *own] if own else []
