"""The pages of evidence: ``python -m benchmarks paper --page``.

One page of verdicts and summaries, and one page for each set or group of sets. Everything on them
is computed from the stored results; nothing is run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from benchmarks.paper import captions, figures, tables
from benchmarks.paper.bars import Verdict, verdicts, video
from benchmarks.paper.own import EXPERIMENTS
from benchmarks.paper.published import caveat, published
from benchmarks.paper.standings import Results, title
from benchmarks.paper.store import FOLDER
from benchmarks.results_io import EVIDENCE

_MADE = "Made by `python -m benchmarks paper --page` from `benchmarks/results/paper`."
_READING = """\
Every method goes through a stream batch by batch (1000 rows unless said): it predicts labels, these
are scored, then it learns the batch. Scores are means over batches, full-stream NMI (full-NMI) is
over all rows at once and so punishes ids that do not last. *Tuned* means a fixed number of trials
of optuna on the first ten batches, by ARI, for every method alike; *untuned* means the package's
own defaults: the user has used no labels of the set. (Our defaults were chosen on some of these
sets; docs/explanation/settings.md names them.) A method marked † is told the true number of
clusters. Times are CPU seconds on one core, prediction and learning together. A run that reaches
its limit of CPU time is scored on the batches that it reached."""


def main(folder: Path = FOLDER, docs: Path = EVIDENCE) -> None:
    """Write the pages and their figures."""
    if not (folder / "runs.csv").exists():
        sys.exit(f"There are no results in {folder}; make them by `python -m benchmarks paper`.")
    results = Results.read(folder)
    own = read_own(folder)
    docs.mkdir(parents=True, exist_ok=True)
    figures.draw(results, own, docs)
    pages = {unit: unit_page(results, unit, docs) for unit in results.units()}
    for unit, text in pages.items():
        (docs / f"{unit}.md").write_text(text)
    (docs / "index.md").write_text(index_page(results, own, folder, docs, known=set(pages)))


def read_own(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables of our own experiments that are there."""
    paths = {name: folder / f"own-{name}.csv" for name in EXPERIMENTS}
    return {name: pd.read_csv(path) for name, path in paths.items() if path.exists()}


def index_page(
    results: Results, own: dict[str, pd.DataFrame], folder: Path, docs: Path, *, known: set[str]
) -> str:
    """Verdicts, ranks, a line for each set, figures, running times."""
    found = [*verdicts(results), video(folder.parent / "video.json")]
    parts = [
        ["# Evidence", _MADE, provenance(results), _READING, *_others(docs, known)],
        ["## What was promised", _tally(found), *_block(tables.verdict_table(found))],
        [
            "## Mean ranks",
            _RANKS,
            *_block(tables.rank_table(results)),
            tables.untuned_place(results),
        ],
        ["## Set by set", _SUMMARY, *_block(tables.summary_table(results))],
        ["## Speed against accuracy", *_block(tables.front_table(results))],
        ["## Running time", _TIMES, *_block(tables.time_table(results))],
        ["## The paper's figures", _BOXES, *_figures(captions.papers(own), docs)],
        ["## Our own figures", *_figures(captions.ours(own), docs)],
    ]
    return "\n\n".join(piece for part in parts for piece in part if piece) + "\n"


_RANKS = (
    "1 is best. Ranks are taken on each set among the methods that ran on it, equal scores share "
    "their ranks; the sets of one group count once. Methods that ran on less than half of "
    "the sets stand last and take no place. *All* are ranks among all methods, *infer K* among "
    "those that are not told K. Sorted by the first column."
)
_SUMMARY = (
    "Mean ARI. Bold: a peer above both of ours, tuning that gains more than .03, and a set on "
    "whose Pareto front we are not. Peers are taken at their better setting."
)
_TIMES = (
    "CPU milliseconds for 1000 rows, untuned, prediction and learning; last, the median over sets "
    "of the time over ours."
)
_BOXES = "Box plots of every batch stand on the pages of the sets, linked above."


def unit_page(results: Results, unit: str, docs: Path) -> str:
    """All methods on one set, or on each set of a group."""
    names = results.units()[unit]
    pieces = [f"# {title(unit)}", "[Evidence](index.md)"]
    if published(unit):
        pieces.append(
            "Lines marked *published* are figures of Dinari and Freifeld (AISTATS 2022), not of "
            f"ours. {caveat(unit)}".strip()
        )
    if len(names) > 1:
        pieces += _picture(docs, f"own-pareto-{unit}.png", "Speed against accuracy")
    for name in names:
        pieces += [f"## {title(name)}"] if len(names) > 1 else []
        pieces += [_facts(results, name), *_picture(docs, f"paper-box-{name}.png", _BOX)]
        pieces += [*_block(tables.metric_table(results, name)), *_failed(results, name)]
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


_BOX = "Box plots: quartiles, whiskers from 5 to 95 %"


def provenance(results: Results) -> str:
    """Machine, versions and size of the comparison in a few sentences."""
    runs = results.runs
    machines = "; ".join(sorted(set(runs["machine"]) - {""}))
    versions = ", ".join(sorted(set(runs["version"]) - {""}))
    return (
        f"{len(runs)} runs of {runs['method'].nunique()} methods on {runs['set'].nunique()} sets; "
        f"{runs['seed'].nunique()} seed(s). {machines}. {versions}."
    )


def _tally(found: list[Verdict]) -> str:
    count = {word: sum(v.verdict == word for v in found) for word in ("reached", "missed")}
    rest = len(found) - sum(count.values())
    unknown = f", {rest} not measured" if rest else ""
    return f"{count['reached']} reached, {count['missed']} missed{unknown}."


def _facts(results: Results, name: str) -> str:
    line = results.of(name).iloc[0]
    n_batches, k = int(line["batches"]), line["k_true_mean"]
    oracle = line["oracle_ari"]
    best = "" if pd.isna(oracle) else f" The Bayes classifier has ARI {oracle:.3f}."
    return (
        f"{n_batches} batches, {k:.1f} classes in a batch on average.{best} Bold: the best of all, "
        "and the best of those that infer K."
    )


def _failed(results: Results, name: str) -> list[str]:
    mine = results.failures[results.failures["set"] == name]
    said = [f"- {r['method']}, {r['mode']}: {r['error']}" for r in mine.to_dict("records")]
    return ["Without a score:", "\n".join(said)] if said else []


def _others(docs: Path, known: set[str]) -> list[str]:
    """Links to pages of the folder that are made elsewhere."""
    links = []
    for path in sorted(docs.glob("*.md")):
        if path.stem not in known | {"index"}:
            heading = path.read_text().splitlines()[0].lstrip("# ")
            links.append(f"- [{heading}]({path.name})")
    return ["Beside this page:", "\n".join(links)] if links else []


def _figures(wanted: list[captions.Caption], docs: Path) -> list[str]:
    pieces = []
    for caption in wanted:
        picture = _picture(docs, caption.file, caption.heading)
        pieces += [f"### {caption.heading}", caption.text, *picture] if picture else []
    return pieces


def _picture(docs: Path, name: str, said: str) -> list[str]:
    return [f"![{said}]({name})"] if (docs / name).exists() else []


def _block(lines: list[str]) -> list[str]:
    return ["\n".join(lines)]


if __name__ == "__main__":
    main()
