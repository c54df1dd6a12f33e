"""The page of the docs, from the stored figures."""

from __future__ import annotations

from typing import Any

from benchmarks.speed.machine import sentence
from benchmarks.video.methods import OURS, RIVAL
from benchmarks.video.score import LAG

Row = dict[str, Any]

_COLUMNS = {
    "segments": ("segments, mean", "{:.0f}"),
    "ids": ("ids in all", "{:.0f}"),
    "best_segment": ("best single segment", "{:.2f}"),
    "chosen_here": ("union chosen here", "{:.2f}"),
    "chosen_before": (f"chosen {LAG} frames before", "{:.2f}"),
    "chosen_first": ("chosen on frame 0", "{:.2f}"),
    "known_before": (f"pixels with an id {LAG} frames old", "{:.2f}"),
}
_TIMES = {
    "frames_per_second": ("frames per second", "{:.1f}"),
    "first_seconds": ("first frame, s", "{:.2f}"),
    "model_seconds": ("later frames: model, s", "{:.3f}"),
    "decode_seconds": ("decoding, s", "{:.3f}"),
    "cpu_seconds": ("CPU per frame, s", "{:.3f}"),
}

_HEAD = """# Video: segments that keep their names

Made by `python -m benchmarks video`, which reads the kite-surf sequence of DAVIS 2016 from the
folder in `SCSTREAM_DATA`; `--quick` looks at a few small frames and writes nothing. Every frame of
every run is in `benchmarks/results/video.csv`.

The paper's experiment: {n_frames} frames of {height} x {width} pixels. A frame is one batch of
{n_rows:,} rows with five columns: red, green, blue, row and column, as they are.

    model = ScStream()
    for frame in video:
        labels = model.partial_fit(rows_of(frame)).labels_

No frame is seen twice and nothing is known about the surfer. Mini-batch k-means is given the
number of segments that scstream found, {k}.

![Contact sheet](video-contact.png)
"""

_SCORES = """
## The surfer against the DAVIS mask

Intersection over union, mean over frames and over seeds (the number in brackets). A segment belongs
to a union if more than half of it lies in the mask. Chosen in the frame itself, the union says how
well borders are met; chosen earlier and found again by id, whether ids keep their meaning.

"""

_READING = """
- The surfer is not one segment: vest, skin and shorts differ more from each other than one part of
  the sea from the next. Lines of the kite, two pixels wide, belong to the mask; they are lost.
- Seeds differ: {spread}.
  What is in one segment on the first frame, and what in two, is decided by chance where both are
  about as good, and is then kept.
- Positions. A Gaussian cluster learns its own scale in each column, so scstream takes pixels as
  they are. For k-means the scale decides everything: as they are, positions outweigh colours, and
  segments are tiles that hide the surfer; at .1 it sorts colours and hardly looks at positions, so
  that its segments are speckled. .1 is the best scale for it, chosen with the mask in hand.
- Nothing is set for scstream. The switch `coarseness`, which stops the growth of the number of
  segments (see the knobs), has its default because of this video and of streams drawn at random.
- The ids of k-means never change, by construction. scstream makes new ones where something comes
  into view, here the mountains, the shore and another kite, and keeps the others.
"""

_KNOBS = """
## What the knobs do

Frames are no mixtures of Gaussians: seen often enough, every segment is significantly something
else. Without `coarseness` scstream therefore cuts segments as long as the video lasts. The vague
prior is not fitted to the texture of the first frame and finds larger segments.

"""

_SPEED = """
## Speed

Bar: 5 frames per second on two cores, decoding included. {verdict} "Frames per second" is wall time
of the whole loop; the next frame is decoded, and its rows are made, in a thread while the model
learns. CPU time counts all threads and hardly depends on what else the machine does.

"""

_FIRST = """
The first frame costs more than the others: a sample of it is grouped and settled, then the whole
frame is swept up to 15 times, until clusters come and go no more. With the prior "auto" samples are
grouped up to five times more, to fit it. The paper's algorithm starts from one cluster and may take
500 sweeps.
"""


def page(results: dict[str, Any]) -> str:
    """All tables, with what is to be read from them."""
    runs, facts = results["runs"], results["video"]
    methods, knobs = (_means(runs, table) for table in ("methods", "knobs"))
    out = _HEAD.format(**facts, k=results["k"], n_rows=facts["height"] * facts["width"])
    out += _SCORES + table(methods, _COLUMNS) + _READING.format(spread=_spread(runs))
    verdict = _verdict(methods, results["load"], results["machine"]["cores"])
    out += _SPEED.format(verdict=verdict) + table(methods, _TIMES) + _FIRST
    if knobs:
        columns = {"first_segments": ("segments, frame 0", "{:.0f}")}
        columns |= {"last_segments": ("last frame", "{:.0f}")} | _COLUMNS
        columns |= {"frames_per_second": _TIMES["frames_per_second"]}
        out += _KNOBS + table(methods + knobs, columns)
    return out + f"\n{sentence(results['machine'])} Load before the run: {results['load']:.1f}.\n"


def table(rows: list[Row], columns: dict[str, tuple[str, str]]) -> str:
    """A table of Markdown."""
    lines = [["", *(title for title, _ in columns.values())], ["---"] * (len(columns) + 1)]
    for row in rows:
        cells = [_cell(row[name], how) for name, (_, how) in columns.items()]
        lines.append([f"{row['method']} ({row['n_seeds']})", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(value: float, how: str) -> str:
    text = how.format(value)
    return text.removeprefix("0") if text.startswith("0.") else text


def _means(runs: list[Row], table_: str) -> list[Row]:
    """One row for each method of a table: means over its seeds."""
    names = dict.fromkeys(run["method"] for run in runs if run["table"] == table_)
    out = []
    for name in names:
        same = [run for run in runs if run["method"] == name]
        numbers = [key for key, value in same[0].items() if isinstance(value, int | float)]
        means = {key: sum(run[key] for run in same) / len(same) for key in numbers}
        out.append({"method": name, "n_seeds": len(same)} | means)
    return out


def _spread(runs: list[Row]) -> str:
    """How far the seeds of the two main methods are apart."""
    parts = []
    for name in (OURS, RIVAL):
        found = [run["chosen_first"] for run in runs if run["method"] == name]
        if found:
            low, high = (_cell(value, "{:.2f}") for value in (min(found), max(found)))
            parts.append(f"{low} to {high} for {name}")
    return "chosen on frame 0, " + ", ".join(parts)


def _verdict(methods: list[Row], load: float, cores: int) -> str:
    ours = next((row for row in methods if row["method"] == OURS), None)
    if ours is None:
        return ""
    if ours["frames_per_second"] >= 5:
        return "Reached."
    busy = f" Measure again: the machine was busy (load {load:.1f})." if load > cores / 2 else ""
    return f"**Missed.**{busy}"
