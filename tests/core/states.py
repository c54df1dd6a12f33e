"""States to operate on: random clusters with a past, a present and a ring of batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scstream.core.algorithms import ALGORITHMS
from scstream.core.assign import Executor
from scstream.core.cluster_edits import add_clusters
from scstream.core.config import Config
from scstream.core.state import NOVEL, Batch, Info, State, Transition
from scstream.families import Diagonal, Gaussian, Multinomial
from scstream.families.base import Family, Labels
from scstream.kernels import choose_kernels

FAMILIES = {
    name: family.with_kernels(choose_kernels())
    for name, family in {
        "gaussian": Gaussian(mean=np.zeros(2), kappa=0.1, nu=5.0, psi=np.eye(2)),
        "diagonal": Diagonal(mean=np.zeros(2), kappa=0.1, nu=3.0, psi=np.ones(2)),
        "multinomial": Multinomial(concentration=np.full(4, 0.5)),
    }.items()
}


def step(
    family: Family, config: Config, state: State, batch: Batch, executor: Executor
) -> tuple[State, Labels, Info]:
    """The step of the algorithm that the config names."""
    return ALGORITHMS[config.algorithm].step(family, config, state, batch, executor)


def rows_for(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if name == "multinomial":
        return rng.multinomial(9, rng.dirichlet(np.ones(4)), size=n).astype(float)
    return rng.normal(size=2) * 5.0 + rng.normal(size=(n, 2))


def with_clusters(family, subclusters, *, time: float = 0.0) -> State:  # (K, 2, P)
    """A state of newborn clusters with these halves."""
    start = Transition.of(replace(State.empty(family), time=time))
    return add_clusters(start, subclusters, np.full(len(subclusters), NOVEL)).state


def random_halves(name: str, sizes, rng: np.random.Generator) -> np.ndarray:  # (K, 2, P)
    """Statistics of random rows; `sizes` (K, 2) are the numbers of rows of the halves."""
    family = FAMILIES[name]
    out = []
    for n in np.asarray(sizes).ravel():
        rows = rows_for(name, int(n), rng)
        out.append(family.stats(rows, np.zeros(int(n), dtype=np.int64), 1)[0])
    return np.array(out).reshape(-1, 2, family.n_stats)


def random_state(name: str, sizes, *, seed: int = 0, n_history: int = 0) -> State:
    """Clusters with a past of twice these sizes, a ring of `n_history` batches, motion and all."""
    rng = np.random.default_rng(seed)
    family = FAMILIES[name]
    sizes = np.asarray(sizes)
    state = with_clusters(family, random_halves(name, sizes, rng), time=3.0)
    history = [random_halves(name, sizes, rng) for _ in range(n_history)]
    return replace(
        state,
        past=2.0 * random_halves(name, sizes, rng),
        history=np.array(history).reshape(n_history, *state.current.shape),
        history_times=np.arange(n_history) - 1.0,
        history_unassigned=np.ones(n_history),
        velocity=rng.normal(size=state.velocity.shape),
        born=-rng.random(state.n_clusters),
        unassigned_weight=1.5,
        unassigned_now=0.5,
    )
