"""All figures of the pages."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.paper.figures import experiments
from benchmarks.paper.figures.boxes import boxes
from benchmarks.paper.figures.lineage import lineage
from benchmarks.paper.figures.over_time import clusters, cost, near_oracle
from benchmarks.paper.figures.pareto import pareto
from benchmarks.paper.standings import Results, title

_LONG = "gauss2d"  # the set on which cost is shown against the length of the stream


def draw(results: Results, own: dict[str, pd.DataFrame], folder: Path) -> None:
    """Draw what there are results for."""
    for name in results.lines["set"].unique():
        boxes(results, name, folder / f"paper-box-{name}.png")
    units = results.units(results.ranked)
    for unit, names in units.items():
        if len(names) > 1:
            panels = {title(name).removeprefix(f"{title(unit)}, "): [name] for name in names}
            pareto(results, panels, folder / f"own-pareto-{unit}.png")
    panels = {title(unit): names for unit, names in units.items()}
    pareto(results, panels, folder / "own-pareto.png")
    clusters(results, [names[0] for names in units.values()], folder / "own-clusters.png")
    if results.series["oracle_ari"].notna().any():
        near_oracle(results, folder / "own-oracle.png")
    if _LONG in set(results.lines["set"]) and "size" in own:
        cost(results, own["size"], _LONG, folder / "own-cost.png")
    if "sweeps" in own:
        experiments.sweeps(own["sweeps"], folder / "paper-sweeps.png")
    if "last-sweep" in own:
        experiments.last_sweep(own["last-sweep"], folder / "paper-last-sweep.png")
    if "births" in own:
        experiments.birth_delay(own["births"], folder / "own-births.png")
    if {"lineage", "events"} <= own.keys():
        lineage(own["lineage"], own["events"], folder / "own-lineage.png")
