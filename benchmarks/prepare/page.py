"""The page made of the table of runs."""

from __future__ import annotations

import pandas as pd

from benchmarks.prepare import words
from benchmarks.prepare.runs import COVERTYPE, DEFAULT, GIVEN, MAIN, MODELS, PAPER
from benchmarks.prepare.scalers import NONE, OFFLINE, WAYS
from benchmarks.results_io import EVIDENCE

_SAID = {
    "offline": OFFLINE,
    "frozen": "frozen after 1 batch",
    "five": "frozen after 5 batches",
    "ten": "frozen after 10 batches",
    "moving": "running, half-life 5 (the model's)",
    "fifty": "running, half-life 50",
    "never": "running, never forgets",
    "spread": "mean frozen, spread with half-life 5",
    "mean": "spread frozen, mean with half-life 5",
    "raw": NONE,
}
SETS = {"shuttle": "Shuttle", "kdd99": "KDD Cup 99", "electricity": "Electricity", "noaa": "NOAA"}


def write(found: pd.DataFrame) -> None:
    """Make the page."""
    parts = [
        words.HEAD.format(made_with=found["made_with"].iloc[0]),
        words.COVERTYPE,
        *(covertype_table(found, model) for model in MODELS),
        words.OTHERS,
        others_table(found),
        words.READING.format(**figures(found)),
    ]
    EVIDENCE.mkdir(parents=True, exist_ok=True)
    (EVIDENCE / "prepare.md").write_text("\n".join(parts))


def covertype_table(found: pd.DataFrame, model: str) -> str:
    """Every way to scale, for one model."""
    runs = found[(found["set"] == COVERTYPE) & (found["model"] == model)]
    lines = [
        f"Model: {words.MODELS[model]}; {runs['seed'].nunique()} seeds.\n",
        "| scaled by | ARI | NMI | full-NMI | K | ARI above the first line |",
        "|---|---|---|---|---|---|",
    ]
    for way in WAYS:
        each = runs[runs["way"] == way.name]
        cells = (
            way.name,
            *(spread(each[name]) for name in ("ari", "nmi", "full_nmi")),
            f"{each['k'].mean():.0f}",
            against(runs, way.name, "ari"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def others_table(found: pd.DataFrame) -> str:
    """The main ways on the other sets."""
    lines = [
        f"| scaled by | {' | '.join(f'{title}: ARI | full-NMI | K' for title in SETS.values())} |",
        f"|---|{'---|---|---|' * len(SETS)}",
    ]
    for way in MAIN:
        each = [chosen(found, name, way) for name in SETS]
        cells = [
            f"{spread(runs['ari'])} | {runs['full_nmi'].mean():.3f} | {runs['k'].mean():.0f}"
            for runs in each
        ]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def chosen(found: pd.DataFrame, name: str, way: str, model: str = DEFAULT) -> pd.DataFrame:
    """The runs of one cell."""
    return found[(found["set"] == name) & (found["way"] == way) & (found["model"] == model)]


def spread(values: pd.Series) -> str:
    """Mean and standard deviation over seeds."""
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"


def against(runs: pd.DataFrame, way: str, score: str) -> str:
    """Mean difference from offline scaling, seed by seed, and its standard error."""
    if way == OFFLINE:
        return ""
    by_seed = runs.pivot(index="seed", columns="way", values=score)
    off = by_seed[way] - by_seed[OFFLINE]
    return f"{off.mean():+.3f} ± {off.sem():.3f}"


def figures(found: pd.DataFrame) -> dict[str, float]:
    """Figures that the reading names: ARI, or what the end of the name says."""

    def mean(name: str, way: str, score: str = "ari", model: str = DEFAULT) -> float:
        return float(chosen(found, name, way, model)[score].mean())

    moving = chosen(found, "kdd99", _SAID["moving"])
    every = chosen(found, COVERTYPE, OFFLINE).set_index("seed")["ari_all"]
    said = {
        "kdd_moving_low": moving["ari"].min(),
        "kdd_moving_high": moving["ari"].max(),
        "first_seed": every[0],
        "all_seeds": every.mean(),
    }
    for word, way in _SAID.items():
        said |= {
            word: mean(COVERTYPE, way),
            f"paper_{word}": mean(COVERTYPE, way, model=PAPER),
            f"given_{word}": mean(COVERTYPE, way, model=GIVEN),
            f"kdd_{word}": mean("kdd99", way, "full_nmi"),
            f"kdd_{word}_ari": mean("kdd99", way),
            f"kdd_{word}_k": mean("kdd99", way, "k"),
            f"elec_{word}": mean("electricity", way),
            f"elec_{word}_k": mean("electricity", way, "k"),
            f"noaa_{word}": mean("noaa", way),
        }
    return said
