"""The search of `scstream tune`: optuna proposes settings, one after the other, from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scstream.errors import InputError, missing_extra

try:
    import optuna
except ImportError as error:
    raise missing_extra("optuna", "tune") from error

_DIGITS = 3  # of a number, so that what is printed is what was tried


@dataclass(frozen=True)
class Range:
    """Positive numbers between two, as many of them in every factor of ten.

    Examples
    --------
    >>> from scstream.cli.optuna import Range
    >>> Range(0.5, 50.0).low
    0.5
    """

    low: float
    high: float


Space = Mapping[str, Range | tuple[Any, ...]]  # numbers, or a choice


def search(
    space: Space,
    objective: Callable[[Mapping[str, Any]], float],
    *,
    first: Mapping[str, Any],
    trials: int,
    seed: int,
    tell: Callable[[int, float], None] = lambda n, best: None,
) -> tuple[dict[str, Any], float]:
    """Return the settings of the highest score, and that score.

    Parameters
    ----------
    space : mapping
        What may be chosen, by name.
    objective : callable
        The score of some settings; settings that cannot be used raise `InputError`.
    first : mapping
        Settings to try first: the defaults.
    trials : int
        How many settings to try.
    seed : int
        The same seed, the same settings.
    tell : callable
        Is told how many were tried and what the best score is.

    Returns
    -------
    dict, float
        The best settings and their score.

    Examples
    --------
    >>> from scstream.cli.optuna import Range, search
    >>> space = {"half_life": Range(1.0, 100.0), "motion": (True, False)}
    >>> first = {"half_life": 10.0, "motion": False}
    >>> search(space, lambda chosen: float(chosen["motion"]), first=first, trials=9, seed=0)[1]
    1.0
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.enqueue_trial(dict(first))

    def score(trial: optuna.Trial) -> float:
        chosen = {name: _suggested(trial, name, choice) for name, choice in space.items()}
        trial.set_user_attr("chosen", chosen)
        try:
            return objective(chosen)
        except InputError as error:
            raise optuna.TrialPruned(str(error)) from error

    def told(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        complete = [each for each in study.trials if each.value is not None]
        tell(trial.number + 1, max((each.value or 0.0 for each in complete), default=0.0))

    study.optimize(score, n_trials=trials, callbacks=[told])
    if all(trial.value is None for trial in study.trials):
        raise InputError("none of the settings could be tried on these rows; look at the rows.")
    best = study.best_trial
    return dict(best.user_attrs["chosen"]), float(best.value or 0.0)


def _suggested(trial: optuna.Trial, name: str, choice: Range | tuple[Any, ...]) -> Any:
    if isinstance(choice, Range):
        value = trial.suggest_float(name, choice.low, choice.high, log=True)
        return float(f"{value:.{_DIGITS}g}")
    return trial.suggest_categorical(name, choice)
