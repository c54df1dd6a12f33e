"""The search of `scstream tune`, by optuna."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scstream.errors import InputError, missing_extra

try:
    import optuna
except ImportError as error:
    raise missing_extra("optuna", "tune") from error

_DIGITS = 3  # numbers are rounded so that the printed value is the one that was tried


@dataclass(frozen=True)
class Range:
    """Positive numbers, sampled uniformly on a logarithmic scale."""

    low: float
    high: float


Chosen = Mapping[str, Any]  # values by setting
Space = Mapping[str, Range | tuple[Any, ...]]  # a range of numbers, or choices


def search(
    space: Space,
    objective: Callable[[Chosen], float],
    *,
    first: Chosen,
    trials: int,
    seed: int,
    report: Callable[[int, float], None] = lambda n, best: None,
) -> tuple[Chosen, float]:
    """Return the settings with the highest score, and the score.

    `first` is tried first; settings for which the objective raises `InputError` are skipped.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.enqueue_trial(dict(first))

    def score(trial: optuna.Trial) -> float:
        chosen = {name: _suggest(trial, name, choice) for name, choice in space.items()}
        trial.set_user_attr("chosen", chosen)
        try:
            return objective(chosen)
        except InputError as error:
            raise optuna.TrialPruned(str(error)) from error

    def callback(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        complete = [each for each in study.trials if each.value is not None]
        report(trial.number + 1, max((each.value or 0.0 for each in complete), default=0.0))

    study.optimize(score, n_trials=trials, callbacks=[callback])
    if all(trial.value is None for trial in study.trials):
        raise InputError("no settings could be tried on these rows; check the rows.")
    best = study.best_trial
    return dict(best.user_attrs["chosen"]), float(best.value or 0.0)


def _suggest(trial: optuna.Trial, name: str, choice: Range | tuple[Any, ...]) -> Any:
    if isinstance(choice, Range):
        value = trial.suggest_float(name, choice.low, choice.high, log=True)
        return float(f"{value:.{_DIGITS}g}")
    return trial.suggest_categorical(name, choice)
