"""The tables, and the page made of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.density import figures, words
from benchmarks.density.detectors import OURS as OUR_DETECTOR
from benchmarks.density.flights import OURS, SETTINGS

RESULTS = Path(__file__).parents[1] / "results"
EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"


def save(tables: dict[str, pd.DataFrame]) -> None:
    """Write tables as ``density-*.csv``."""
    for name, table in tables.items():
        table.to_csv(RESULTS / f"density-{name}.csv", index=False, float_format="%.6g")


def write() -> None:
    """Make the page and its figures from the tables."""
    flights, days, nab, each, shown = (
        pd.read_csv(RESULTS / f"density-{name}.csv")
        for name in ("flights", "flights-days", "nab", "nab-series", "nab-shown")
    )
    EVIDENCE.mkdir(parents=True, exist_ok=True)
    figures.flights(days, EVIDENCE / "density-flights.png")
    threshold = float(nab.set_index("detector").loc[OUR_DETECTOR, "threshold"])
    figures.nab(shown, threshold, EVIDENCE / "density-nab.png")
    parts = [
        words.HEAD.format(made_with=flights["made_with"].iloc[0]),
        words.FLIGHTS,
        *(flights_table(flights, width) for width in SETTINGS),
        flights_reading(flights),
        "![Log density of flights over time](density-flights.png)\n",
        words.NAB.format(n=nab["n_series"].iloc[0], share=nab["share"].iloc[0]),
        nab_table(nab, each),
        nab_reading(nab, each),
        "![Scores of three series](density-nab.png)\n",
    ]
    (EVIDENCE / "density.md").write_text("\n".join(parts))


def flights_table(results: pd.DataFrame, width: str) -> str:
    """Lines of one length of batches, as a table."""
    lines = [
        f"Batches of {width}:\n",
        "| method | nats per row | ours above | K | batches | rows per CPU second |",
        "|---|---|---|---|---|---|",
    ]
    for row in results[results["batches_of"] == width].to_dict("records"):
        above = f"{row['ours_above']:+.3f} ± {row['ours_above_error']:.3f}"
        cells = (
            row["method"],
            f"{row['log_density']:.3f}",
            "" if row["method"] == OURS else above,
            f"{row['k']:.0f}{' (given)' if row['given_k'] else ''}",
            f"{row['n_batches']:,}",
            f"{row['rows_per_second']:,.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def nab_table(totals: pd.DataFrame, each: pd.DataFrame) -> str:
    """Lines of all detectors, as a table."""
    precision = each.pivot(index="series", columns="detector", values="ap").dropna()
    lines = [
        "| detector | AUC | AP | ours has the higher AP | NAB | NAB, even | rows per CPU second |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in totals.to_dict("records"):
        name = row["detector"]
        wins = int((precision[OUR_DETECTOR] > precision[name]).sum())
        cells = (
            name,
            f"{row['auc']:.3f}",
            f"{row['ap']:.3f}",
            "" if name == OUR_DETECTOR else f"{wins} of {len(precision)} series",
            f"{row['nab']:.1f}",
            f"{row['nab_calibrated']:.1f}",
            f"{row['rows_per_second']:,.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def flights_reading(results: pd.DataFrame) -> str:
    """What the tables of flights show."""
    table = results.set_index(["batches_of", "method"])
    nats = table["log_density"]
    still, week = "scstream, no motion", "scstream, half-life a week"
    once, bare = "GaussianMixture, fitted once", "one hour, without the minute"
    return words.FLIGHTS_READING.format(
        hour=nats["one hour", OURS],
        hour_still=nats["one hour", still],
        once=nats["one hour", once],
        hour_week=nats["one hour", week],
        hour_week_k=table["k"]["one hour", week],
        hour_week_still=nats["one hour", f"{week}, no motion"],
        six=nats["six hours", OURS],
        six_still=nats["six hours", still],
        day=nats["one day", OURS],
        day_once=nats["one day", once],
        day_fine=nats["one day", "scstream, coarseness 0"],
        bare=nats[bare, OURS],
        bare_still=nats[bare, still],
        bare_behind=-table["ours_above"][bare, "GaussianMixture, last 7 batches"],
    )


def nab_reading(totals: pd.DataFrame, each: pd.DataFrame) -> str:
    """What the table of NAB shows."""
    table = totals.set_index("detector")
    peers = table[~table.index.str.startswith("scstream")]
    leader = peers.idxmax(numeric_only=True)
    precision = each.pivot(index="series", columns="detector", values="ap").dropna()
    below = precision[OUR_DETECTOR] - precision[leader["ap"]]
    return words.NAB_READING.format(
        ours=table["nab"][OUR_DETECTOR],
        never=table["nab"]["scstream, never forgets"],
        best_peer=peers["nab"].max(),
        best_peer_name=leader["nab"],
        best_even=peers["nab_calibrated"].max(),
        best_even_name=leader["nab_calibrated"],
        auc=table["auc"][OUR_DETECTOR],
        best_auc=peers["auc"].max(),
        best_auc_name=leader["auc"],
        ap=table["ap"][OUR_DETECTOR],
        best_ap=peers["ap"].max(),
        best_ap_name=leader["ap"],
        ap_below=below.mean(),
        ap_error=below.std() / len(below) ** 0.5,
        n_pairs=len(below),
    )
