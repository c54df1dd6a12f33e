"""Rows made to found clusters: groups at ever new places, on a lattice that grows outwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scstream.metrics import adjusted_rand
from scstream.model import Settings
from tests.faults.soak import resident

HALF_LIFE = 10
N_CALM, N_ATTACK = 20, 200  # batches
N_ROWS, N_GROUPS = 500, 40  # of a batch
CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0], [20.0, 0.0]])
SPACING = 20.0


@dataclass(frozen=True)
class Siege:
    """What an attack did, batch by batch."""

    n_clusters: NDArray[np.int64]
    n_born: NDArray[np.int64]  # born or split off
    agreement: NDArray[np.float64]  # of the labels of calm rows with the truth; NaN in the attack
    memory: NDArray[np.float64]  # resident megabytes

    @property
    def attack(self) -> slice:
        return slice(N_CALM, N_CALM + len(self.n_clusters) - N_CALM - 2 * HALF_LIFE)

    @property
    def n_above(self) -> int:
        """Batches with more than max(8, K / 4) births and splits."""
        before = np.concatenate([[0], self.n_clusters[:-1]])
        above = self.n_born > np.maximum(8, before // 4)
        return int(above[self.attack].sum())


def lattice(n_points: int) -> NDArray[np.float64]:
    """Points in order of their distance from the origin."""
    reach = int(np.ceil(np.sqrt(n_points))) + 1
    axis = np.arange(-reach, reach + 1)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    nearest = np.argsort((points**2).sum(axis=1), kind="stable")[:n_points]
    return points[nearest] * SPACING


def siege(*, max_clusters: int, n_attack: int = N_ATTACK, seed: int = 0) -> Siege:
    """Some calm batches, the attack, and two half-lives of calm."""
    rng = np.random.default_rng(seed)
    points = lattice(n_attack * N_GROUPS)
    learner = Settings.of(
        {"random_state": 0, "max_clusters": max_clusters, "half_life": HALF_LIFE, "n_jobs": 1}
    )
    found: list[tuple[float, ...]] = []
    for batch in range(N_CALM + n_attack + 2 * HALF_LIFE):
        attacked = batch - N_CALM
        truth = rng.integers(0, len(CENTRES), N_ROWS)
        centres = CENTRES[truth]
        if 0 <= attacked < n_attack:
            truth = attacked * N_GROUPS + np.arange(N_ROWS) % N_GROUPS
            centres = points[truth]
        learner, labels, _ = learner.update(centres + rng.normal(size=(N_ROWS, 2)))
        n_born = sum(event.kind in ("born", "split") for event in learner.info.events)
        is_calm = not 0 <= attacked < n_attack
        agreement = adjusted_rand(truth, labels) if is_calm else np.nan
        found.append((learner.state.n_clusters, n_born, agreement, resident()))
    n_clusters, n_born, agreement, memory = np.array(found).T
    return Siege(n_clusters.astype(int), n_born.astype(int), agreement, memory)
