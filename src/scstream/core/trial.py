"""Families on trial: all of them learn the same batches, one of them reports the labels.

Families are compared by the log density that they give to the rows of a batch before they learn
it (the prequential log density; Dawid 1984). The one that reports is replaced by a rival that
predicts better. Clusters then keep the ids of the clusters that had most of their rows. A trial
ends after `MAX_ROWS` rows, so that a long stream pays for one family only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from scstream.core.adapt import adapt
from scstream.core.assign import Executor
from scstream.core.config import Config
from scstream.core.inherit import inherit_ids
from scstream.core.ratios import log_joint
from scstream.core.state import Batch, Info, State
from scstream.families.base import Array, Family, Labels, unit_weight
from scstream.kernels import Kernels

Step = Callable[[Family, Config, State, Batch, Executor], tuple[State, Labels, Info]]

MAX_ROWS = 20_000  # of a trial
SAMPLE = 5_000  # rows of a larger first batch that decide
_MARGIN = 0.1  # nats per row by which a rival must be ahead
_MEMORY = 10_000.0  # rows after which a batch counts half
_N_ERRORS = 2.0  # standard errors by which a rival must be ahead
_HOPELESS = 4.0  # standard errors by which a rival may be behind
_TWO_BATCHES = 1.5  # or more, after fading
_MIN_BATCHES = 5.0  # that show that a rival is hopeless


class Learned(NamedTuple):
    """A family and its clusters after a batch."""

    family: Family
    state: State
    labels: Labels  # (N,)
    info: Info


@dataclass(frozen=True)
class Lead:
    """Faded sums, over batches, of what a rival is ahead in nats per row."""

    weight: float = 0.0
    square: float = 0.0  # of the weights
    first: float = 0.0
    second: float = 0.0

    def after(self, n_rows: int, nats: float) -> Self:
        """Return the sums after one more batch; a batch that nobody predicted is left out."""
        if not np.isfinite(nats) or not n_rows:
            return self
        left = 0.5 ** (n_rows / _MEMORY)
        return replace(
            self,
            weight=left * self.weight + n_rows,
            square=left * left * self.square + n_rows**2,
            first=left * self.first + n_rows * nats,
            second=left * self.second + n_rows * nats**2,
        )

    def reversed(self) -> Self:
        """Return the lead of the other side."""
        return replace(self, first=-self.first)

    @property
    def n_batches(self) -> float:
        """Number of batches of equal size that the sums are worth."""
        return self.weight**2 / self.square if self.square else 0.0

    @property
    def mean(self) -> float:
        """Mean lead in nats per row."""
        return self.first / self.weight if self.weight else 0.0

    @property
    def error(self) -> float:
        """Standard error of the mean lead; infinite for a single batch."""
        if self.n_batches < _TWO_BATCHES:
            return np.inf
        variance = max(self.second / self.weight - self.mean**2, 0.0)
        return float(np.sqrt(variance / (self.n_batches - 1.0)))


@dataclass(frozen=True, eq=False)
class Rival:
    """A family on trial that does not report."""

    name: str
    family: Family
    state: State
    rank: int  # among the families on trial; the first one reports in a tie
    lead: Lead = Lead()


@dataclass(frozen=True, eq=False)
class Choice:
    """How ``family="auto"`` chose the family of a model."""

    name: str  # of the family of the numeric columns
    reason: str  # what the first rows showed
    rank: int = 0  # among the families on trial
    verdict: str = ""  # of the trial
    n_rows: int = 0  # of the trial
    rivals: tuple[Rival, ...] = ()
    widths: Array | None = None  # (D,) steps of columns of few values; zero for other columns

    @property
    def sentence(self) -> str:
        """The choice and its reason."""
        trial = ""
        if self.rivals:
            names = " and ".join(rival.name for rival in self.rivals)
            trial = f"; on trial against {names} for {MAX_ROWS - self.n_rows:,} more rows"
        verdict = f"; {self.verdict}" if self.verdict else ""
        return f"chosen by family='auto' from {self.reason}{verdict}{trial}"

    def with_kernels(self, kernels: Kernels) -> Self:
        """Return this choice with other kernels for the rivals."""
        rivals = tuple(
            replace(rival, family=rival.family.with_kernels(kernels)) for rival in self.rivals
        )
        return replace(self, rivals=rivals)


def learn(
    step: Step, family: Family, config: Config, state: State, batch: Batch, executor: Executor
) -> Learned:
    """Learn a batch, and what clusters share."""
    state, labels, info = step(executor.with_kernels(family), config, state, batch, executor)
    adapted, state = adapt(family, state, batch)
    return Learned(adapted, state, labels, info)


def judge(
    config: Config, choice: Choice, own: Learned, others: list[Learned], batch: Batch
) -> tuple[Learned, Choice]:
    """Return what is reported of a batch that all families have learned, and the new choice."""
    first = own.state.n_batches == 1
    leads = [
        rival.lead.after(batch.n_rows, _lead(config, own, other, first=first))
        for rival, other in zip(choice.rivals, others, strict=True)
    ]
    surplus = [
        _surplus(lead, own, other, first=first, preferred=rival.rank < choice.rank)
        for rival, lead, other in zip(choice.rivals, leads, others, strict=True)
    ]
    rivals = [
        replace(rival, family=other.family, state=other.state, lead=Lead() if first else lead)
        for rival, other, lead in zip(choice.rivals, others, leads, strict=True)
    ]
    choice = replace(choice, n_rows=choice.n_rows + batch.n_rows)
    best = int(np.argmax(surplus))
    if surplus[best] > 0:
        own, choice, rivals = _promoted(choice, own, others[best], rivals, best, leads[best], batch)
    is_over = choice.n_rows >= MAX_ROWS
    lost = [
        rival
        for rival in rivals
        if is_over or (rival.rank > choice.rank and _is_hopeless(rival.lead))
    ]
    if lost and not choice.verdict:
        choice = replace(choice, verdict=_verdict(choice.name, lost[0].name, lost[0].lead))
    return own, replace(choice, rivals=tuple(rival for rival in rivals if rival not in lost))


def _verdict(winner: str, loser: str, lead: Lead) -> str:
    """Say how much better the winner is; `lead` is that of the loser."""
    if lead.mean >= 0:
        return f"{loser} does not describe new rows clearly better than {winner}"
    return f"{winner} describes rows better than {loser} by {-lead.mean:.2g} nats per row"


def _lead(config: Config, own: Learned, other: Learned, *, first: bool) -> float:
    """Nats per row that a rival is ahead in one batch.

    Nobody has predicted the first batch: there the marginal likelihoods of the partitions count.
    """
    if first:
        evidence = [
            log_joint(each.family, config.alpha, each.state.cluster_stats)
            / max(each.state.weight.sum(), 1.0)
            for each in (other, own)
        ]
        return float(evidence[0] - evidence[1])
    return other.info.log_density_before - own.info.log_density_before


def _surplus(lead: Lead, own: Learned, other: Learned, *, first: bool, preferred: bool) -> float:
    """Nats per row by which a rival is ahead of what it needs; positive if it is to report.

    A density can be approximated by many small clusters of a wrong shape. The family with more
    clusters must also gain what it costs to say to which of them a row belongs. A preferred rival
    needs no margin.
    """
    if first:
        return lead.mean - _MARGIN
    cost = _entropy(other.state) - _entropy(own.state)
    if preferred:
        return lead.mean + max(-cost, 0.0) if lead.n_batches >= _TWO_BATCHES else -np.inf
    return lead.mean - max(cost, 0.0) - _N_ERRORS * lead.error - _MARGIN


def _entropy(state: State) -> float:
    """Mean log probability, negated, of the cluster of a row."""
    share = state.weight[state.weight > 0] / max(state.weight.sum(), np.finfo(float).tiny)
    return float(-(share * np.log(share)).sum())


def _is_hopeless(lead: Lead) -> bool:
    return lead.n_batches >= _MIN_BATCHES and lead.mean + _HOPELESS * lead.error < 0


def _promoted(
    choice: Choice,
    own: Learned,
    other: Learned,
    rivals: list[Rival],
    place: int,
    lead: Lead,
    batch: Batch,
) -> tuple[Learned, Choice, list[Rival]]:
    """Let a rival report, and put the family that reported so far in its place."""
    name = rivals[place].name
    first = own.state.n_batches == 1
    verdict = _verdict(name, choice.name, lead.reversed())
    waiting = [replace(rival, lead=Lead()) for rival in rivals]
    behind = Lead() if first else lead.reversed()
    waiting[place] = Rival(choice.name, own.family, own.state, choice.rank, behind)
    if not first:
        other = _with_ids_of(own, other, batch)
    return other, replace(choice, name=name, rank=rivals[place].rank, verdict=verdict), waiting


def _with_ids_of(own: Learned, other: Learned, batch: Batch) -> Learned:
    """Give the clusters of a rival the ids of the clusters that had their rows."""
    weight = unit_weight(batch.rows, batch.weight)
    state, labels, info = inherit_ids(
        own.state, own.labels, other.state, other.labels, other.info, weight
    )
    events = (*own.info.events, *info.events)
    state = state.replace(n_batches=own.state.n_batches)
    return Learned(other.family, state, labels, replace(info, events=events))
