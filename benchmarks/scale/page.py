"""The page of scale, from the tables that the parts wrote."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from benchmarks.results_io import EVIDENCE
from benchmarks.scale import figure, words
from benchmarks.scale.tables import COMING, CORES_FOR, JSON, read
from benchmarks.speed.machine import sentence

Row = dict[str, Any]
Lines = list[list[str]]


def write() -> None:
    """Make the page and its figure; parts that were not run are left out."""
    found = json.loads(JSON.read_text())
    figure.draw(read("sim"), EVIDENCE / "scale-efficiency.png")
    parts = [
        words.HEAD.format(machine=sentence(found["machine"])),
        *section("One core", words.RATES, rates(found["rates"])),
        *section("Cores for a million rows a second", words.CORES, cores(found["cores"])),
        *section("", words.TERMS, terms(found["cores"])),
        *section("When not to use the engine", rule(found), worth(found["worth"])),
        *section("Efficiency against workers", words.FIGURE, []),
        *section("The arithmetic of the notes", words.NOTES, notes(found)),
        *section(
            "Our executor against threads and bare Ray",
            words.OVERHEAD.format(load=load()),
            overhead(),
        ),
        *section("The engine alone", words.ENGINE, engine()),
        *section("What the engine survives", words.STABILITY, stability()),
        *others(),
    ]
    (EVIDENCE / "scale.md").write_text("\n".join(parts).rstrip() + "\n")


def section(title: str, detail: str, lines: Lines) -> list[str]:
    """A title, what there is to say, and a table; nothing if the table has only a head."""
    if len(lines) == 1:
        return []
    return [*([f"## {title}", ""] if title else []), detail, *table(lines)]


def table(lines: Lines) -> list[str]:
    if not lines:
        return []
    head, *body = lines
    out = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(cells)} |" for cells in out] + [""]


def rates(rows: list[Row]) -> Lines:
    lines = [["D", "K", "precision", "rows/s, whole batch", "rows/s, one pass", "µs per row, pass"]]
    for r in rows:
        lines.append(
            [
                f"{r['d']}",
                f"{r['k']}",
                r["precision"],
                f"{_round(r['fit_rows_per_s']):,} (batch of {r['n_rows']:,})",
                f"{_round(r['pass_rows_per_s']):,}",
                f"{1e6 * r['sampling']:.3g}",
            ]
        )
    return lines


def cores(rows: list[Row]) -> Lines:
    lines = [["D", "K", "precision", "sweeps", "cores, kernels alone", "engine", "cores, in all"]]
    lines[0] += ["smallest batch, star", "smallest batch, reduce-scatter"]
    for r in rows:
        least = r.get("least batch", {})
        lines.append(
            [
                f"{r['d']}",
                f"{r['k']}",
                r["precision"],
                f"{r['sweeps']}",
                f"{r['kernels']:.2g}" if r["kernels"] < 10 else f"{r['kernels']:.0f}",
                "yes" if r["engine"] else "no",
                _nodes(r),
                _count(least.get("star")) if r["engine"] else "",
                _count(least.get("reduce-scatter")) if r["engine"] else "",
            ]
        )
    return lines


def _nodes(r: Row) -> str:
    """Cores by the size of the batch that comes."""
    if not r["engine"]:
        return f"{r['cores']}"
    found = [(n_rows, r[f"nodes {n_rows}"]) for n_rows in COMING]
    said = [f"{16 * n} ({n} nodes) at {n_rows:,}" for n_rows, n in found if n]
    return "; ".join(said) or "not reached"


def terms(rows: list[Row]) -> Lines:
    found = [r for r in rows if "terms" in r]
    names = ("parameters", "asked pass", "serialisation", "scheduling", "broadcast", "pass")
    names += ("reduction", "moves", "labels")
    lines = [["D", "K", "precision", "sweeps", "nodes", "rows", "scheme", *names]]
    for r in found:
        spent = r["terms"]
        lines.append(
            [
                *(f"{r[name]}" for name in ("d", "k", "precision", "sweeps")),
                f"{spent['nodes']}",
                f"{spent['rows']:,}",
                spent["scheme"],
                *(f"{spent[name]:.3g}" for name in names),
            ]
        )
    return lines


def rule(found: Row) -> str:
    """The plain rule, with the figures of float64."""
    rates = {(r["d"], r["k"], r["precision"]): r["sampling"] for r in found["rates"]}
    double, single = (rates[64, 1000, precision] for precision in ("float64", "float32"))
    flops = 2 * 1000 * (64**2 + 3 * 64) / double
    said = [
        f"{r['resident, seconds of one node']:.2g} s at D = {r['d']}, K = {r['k']}"
        for r in found["worth"]
        if r["precision"] == "float64" and r["resident"]
    ]
    return words.RULE.format(
        flops=f"{flops:.1e}".replace("e+", "e"), single=double / single, seconds=", ".join(said)
    )


def worth(rows: list[Row]) -> Lines:
    lines = [["D", "K", "precision", "rows on the nodes", "one node takes", "rows on the driver"]]
    for r in rows:
        seconds = r["resident, seconds of one node"]
        lines.append(
            [
                *(f"{r[name]}" for name in ("d", "k", "precision")),
                _count(r["resident"]),
                "" if seconds is None else f"{seconds:.2g} s",
                _count(r["from the driver"]),
            ]
        )
    return lines


def notes(found: Row) -> Lines:
    """What the notes said beside what is simulated, D = 64, K = 1000, float64 unless said."""
    by = {(r["d"], r["k"], r["precision"]): r for r in found["rates"]}
    need = {
        (r["precision"], r["sweeps"]): r for r in found["cores"] if (r["d"], r["k"]) == CORES_FOR[2]
    }
    told, least = found["notes"], found["notes"]["least batch, 26 nodes"]
    double, single = need["float64", 1], need["float32", 1]
    moved = {
        scheme: " / ".join(f"{1e3 * told[f'{scheme}, {g} Gb/s']:.0f}" for g in (10, 25, 100))
        for scheme in ("star", "reduce-scatter")
    }
    lines = [["figure", "notes", "here"]]
    lines += [
        ["cores, T = 1, kernels alone, float64", "429", f"{double['kernels']:.0f}"],
        ["the same, float32", "70 to 90", f"{single['kernels']:.0f}"],
        ["cores with all that a batch needs, float64", "", _nodes(double)],
        ["the same, float32", "", _nodes(single)],
        ["bytes of a plan, out", "16 MB", f"{told['plan_bytes'] / 1e6:.0f} MB"],
        ["bytes of the sums of a subtree, back", "16 MB", f"{told['sums_bytes'] / 1e6:.0f} MB"],
        ["32 nodes, ms at 10 / 25 / 100 Gb/s, tree or star", "164 / 66 / 16", moved["star"]],
        ["the same, reduce-scatter", "32 / 13 / 3", moved["reduce-scatter"]],
        ["smallest batch, 26 nodes, 25 Gb/s, tree or star", "1.3e6", _count(least["star"])],
        ["the same, reduce-scatter", "3.4e5", _count(least["reduce-scatter"])],
        [
            "the same, if every worker had one subtree",
            "",
            _count(least["reduce-scatter, one subtree a worker"]),
        ],
        ["one thread, whole batch, D=2 K=20, rows/s", "6 M", _rate(by[2, 20, "float64"], "fit")],
        ["one thread, pass, D=64 K=100", "0.16 M", _rate(by[64, 100, "float64"], "pass")],
        ["one thread, pass, D=64 K=1000", "15 k", _rate(by[64, 1000, "float64"], "pass")],
        ["one thread, pass, D=128 K=1000", "3 k", _rate(by[128, 1000, "float64"], "pass")],
    ]
    return lines


def overhead() -> Lines:
    lines = [["figure", "ratio of medians", "of minima", "bar", "verdict", "ms", "against, ms"]]
    for r in read("overhead"):
        lines.append(
            [
                r["figure"],
                f"{float(r['value']):.2f}",
                f"{float(r['minima']):.2f}",
                r["bar"],
                r["verdict"],
                f"{1e3 * float(r['seconds']):,.1f}",
                f"{1e3 * float(r['other_seconds']):,.1f}",
            ]
        )
    return lines


def load() -> str:
    """How busy the machine was while the executor was measured."""
    found = [float(r["load"]) for r in read("overhead") if r.get("load")]
    return f"{found[0]:.1f}" if found else "unknown"


def engine() -> Lines:
    lines = [["MB each way", "way", "median, ms", "p90, ms", "least, ms", "over threads"]]
    lines[0].append("over actors with put")
    for r in read("engine"):
        if r["figure"] == "round":
            lines.append(
                [
                    f"{float(r['megabytes']):g}",
                    r["way"],
                    *(f"{float(r[f'{name}_ms']):.3g}" for name in ("median", "p90", "least")),
                    f"{float(r['over_threads']):.2g}",
                    f"{float(r['over_actors']):.2f}",
                ]
            )
    return lines


def stability() -> Lines:
    """What was done several times with one outcome stands in one line."""
    same: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for r in read("stability"):
        key = (r["case"], r["what"], r["outcome"], r.get("then") or "")
        same.setdefault(key, []).append(r)
    lines = [["case", "what", "outcome", "then", "times", "seconds"]]
    for key, rows in same.items():
        names = [name for name in rows[0] if name.endswith("_s") and rows[0][name]]
        middle = {name: median(float(r[name]) for r in rows) for name in names}
        timed = ", ".join(f"{name[:-2]} {value:.3g}" for name, value in middle.items())
        lines.append([*key, f"{len(rows)}", timed.removeprefix("seconds ")])
    return lines


def others() -> list[str]:
    """Tables of the parts that are about one thing."""
    out = []
    for name, (title, said) in words.OTHERS.items():
        rows = read(name)
        if rows:
            lines = [list(rows[0]), *([_cell(value) for value in r.values()] for r in rows)]
            out += section(title, f"{said}\n\n`python -m benchmarks scale {name}`\n", lines)
    return out


def _cell(value: str) -> str:
    try:
        return f"{float(value):.4g}" if "." in value else value
    except ValueError:
        return value


def _rate(rate: Row, what: str) -> str:
    return f"{_round(rate[f'{what}_rows_per_s']):,}"


def _count(value: int | None) -> str:
    return "none up to 29 million" if value is None else f"{value:,}"


def _round(value: float) -> int:
    """Three figures are all that a shared machine is good for."""
    return int(float(f"{value:.3g}"))
