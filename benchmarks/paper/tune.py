"""Tuning, the same for every method: optuna's TPE on the first batches, by prequential ARI.

The first trial is the method as it is, untuned; a tuned method is therefore never worse on the
batches that it was tuned on. Where the paper published what its own tuning found, a method with
such a prior tries that second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import optuna

from benchmarks.paper.knobs import Choice, Knob, Real, Whole
from benchmarks.paper.method import Method

FAILED = -1.0  # below any ARI
_N_RANDOM = 4  # trials, the first included, before the sampler has a model

Params = dict[str, Any]


class Judgement(NamedTuple):
    """Mean ARI of a trial, and the CPU seconds it took."""

    ari: float
    seconds: float


class Tuned(NamedTuple):
    """The best parameters, all trials in their order, and the CPU seconds of all of them."""

    params: Params
    trials: list[tuple[Params, float]]
    seconds: float


def tune(
    method: Method,
    kind: str,
    judge: Callable[[Params, float], Judgement],
    *,
    n_trials: int,
    limit: float,
    seed: int,
    hint: Params | None = None,
) -> Tuned:
    """Try parameters until trials or CPU seconds run out; of equals the earlier one is best.

    `judge` runs parameters within so many CPU seconds. The second trial is a `hint`, if the method
    has all of its knobs.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_N_RANDOM)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    knobs, untuned = method.knobs(kind), method.untuned(kind)
    start = {knob.name: untuned[knob.name] for knob in knobs}
    study.enqueue_trial(start)
    if hint and hint.keys() <= start.keys():
        study.enqueue_trial(start | hint)
    trials: list[tuple[Params, float]] = []
    spent = 0.0
    for _ in range(n_trials if knobs else 1):
        trial = study.ask()
        params = {**untuned, **{knob.name: _suggested(trial, knob) for knob in knobs}}
        ari, seconds = judge(params, limit - spent)
        study.tell(trial, ari)
        trials.append((params, ari))
        spent += seconds
        if spent >= limit:
            break
    best = max(trials, key=lambda tried: tried[1])[0]
    return Tuned(best, trials, spent)


def _suggested(trial: optuna.Trial, knob: Knob) -> Any:
    match knob:
        case Real():
            return trial.suggest_float(knob.name, knob.low, knob.high, log=knob.log)
        case Whole():
            return trial.suggest_int(knob.name, knob.low, knob.high, log=knob.log)
        case Choice():
            return trial.suggest_categorical(knob.name, knob.values)
    raise TypeError(f"{knob} is not a knob that can be tuned.")
