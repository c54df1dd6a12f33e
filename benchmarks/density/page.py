"""The tables, and the page made of them."""

from __future__ import annotations

import pandas as pd

from benchmarks.density import figures, words
from benchmarks.density.detectors import OURS as OUR_DETECTOR
from benchmarks.density.flights import OURS, SETTINGS
from benchmarks.results_io import EVIDENCE, RESULTS


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
        words.NAB.format(n=nab["n_series"].iloc[0], share=100 * nab["share"].iloc[0]),
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
    is_ours = table.index.str.startswith("scstream")
    ours, peers = table[is_ours], table[~is_ours]
    best = peers.idxmax(numeric_only=True)
    said = {
        "ours": ours["nab"][OUR_DETECTOR],
        "low": ours["nab"].min(),
        "high": ours["nab"].max(),
        "low_even": ours["nab_calibrated"].min(),
        "high_even": ours["nab_calibrated"].max(),
        "best_nab": peers["nab"].max(),
        "best_nab_name": best["nab"],
        "best_even": peers["nab_calibrated"].max(),
        "best_even_name": best["nab_calibrated"],
    }
    for name in ("auc", "ap"):
        values = each.pivot(index="series", columns="detector", values=name).dropna()
        above = values[OUR_DETECTOR] - values[best[name]]
        said |= {name: values[OUR_DETECTOR].mean(), f"best_{name}_name": best[name]}
        said |= {f"{name}_above": above.mean(), f"{name}_error": above.sem(), "n_pairs": len(above)}
    return words.NAB_READING.format(**said)
