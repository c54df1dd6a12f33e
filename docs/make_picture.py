"""Draw the animation of the README: a drifting stream and its clusters.

``python docs/make_picture.py`` writes ``docs/images/stream.gif``. Clusters appear, move, split,
merge and end; the model gets only the rows. It has a short half-life, so that a cluster that ends
is forgotten before the picture ends.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from scstream import ScStream, plot
from scstream.core.state import Event

Array = npt.NDArray[np.float64]

PICTURE = Path(__file__).parent / "images" / "stream.gif"
N_BATCHES = 72
_ROWS = 120  # of a cluster in a batch
_SHOWN = 420  # rows of a batch that are drawn, at most
_LINGER = 4  # batches for which an event is written
_SIZE, _DPI = (7.2, 6.6), 100  # inches: 720 pixels wide
_COLOURS = 160
_STYLE = {
    "font.size": 11.0,
    "axes.facecolor": "white",
    "figure.facecolor": "white",
    "text.color": "#222222",
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#222222",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
}


@dataclass(frozen=True)
class Actor:
    """A true cluster: its positions over time, given by way points."""

    times: tuple[float, ...]
    places: tuple[tuple[float, float], ...]
    spread: tuple[float, float] = (0.55, 0.35)
    turn: float = 0.0  # radians

    def rows(self, rng: np.random.Generator, time: float) -> Array:  # (N, 2)
        """Return the rows of one batch; none before the first way point and after the last."""
        if not self.times[0] <= time <= self.times[-1]:
            return np.zeros((0, 2))
        moments = time + rng.random(_ROWS)  # each row has its own time
        x, y = (np.interp(moments, self.times, axis) for axis in zip(*self.places, strict=True))
        cosine, sine = np.cos(self.turn), np.sin(self.turn)
        scatter = rng.standard_normal((_ROWS, 2)) * self.spread
        return np.column_stack([x, y]) + scatter @ [[cosine, sine], [-sine, cosine]]


STAGE = (
    Actor((0, 25, 50, 73), ((2, 6.6), (5, 7.6), (9, 6.9), (12, 7.2)), (0.75, 0.35), 0.3),
    Actor((0, 35, 73), ((13.5, 1.9), (11, 1.2), (8.6, 1.2)), (0.6, 0.4), -0.5),
    Actor((0, 8, 50, 73), ((4.2, 3.2), (4.2, 3.2), (2.0, 2.6), (2.0, 2.6)), (0.45, 0.4)),
    Actor((0, 8, 50, 73), ((4.2, 3.2), (4.2, 3.2), (6.4, 3.8), (6.4, 4.2)), (0.45, 0.4)),
    Actor((6, 20, 32), ((13.8, 7.6), (14.4, 6.0), (13.8, 4.6)), (0.4, 0.55)),
    Actor((20, 60, 73), ((11, 4.6), (6.4, 4.2), (6.4, 4.2)), (0.45, 0.4)),
    Actor((56, 73), ((14.2, 4.9), (11.6, 4.2)), (0.4, 0.4)),
)


def batches() -> Iterator[Array]:
    """Return the rows of every batch, in random order."""
    rng = np.random.default_rng(4)
    for time in range(N_BATCHES):
        yield rng.permutation(np.concatenate([actor.rows(rng, float(time)) for actor in STAGE]))


def draw_stage(ax: Axes, frame: plot.Frame, events: list[Event]) -> None:
    """Draw rows, clusters and the newest events."""
    plot.clusters(frame, ax=ax)
    ax.set(xlim=(-0.4, 16.4), ylim=(-0.6, 9.2), xticks=[], yticks=[], xlabel="", ylabel="")
    ax.spines[["left", "bottom"]].set_visible(False)
    now = frame.snapshot.state.time
    recent = [event for event in events if event.time > 0 and now - event.time < _LINGER]
    words = [_in_words(event) for event in recent]
    state = frame.snapshot.state
    ax.set_title(f"batch {now:.0f}: {state.n_clusters} clusters", loc="left", fontsize=12)
    ax.set_title(", ".join(words), loc="right", fontsize=12, fontweight="bold")


def _in_words(event: Event) -> str:
    said = {
        "split": f"{event.other} leaves {event.id}",
        "merged": f"{event.other} joins {event.id}",
    }
    alone = {"born": "appears", "died": "is forgotten", "returned": "returns"}
    return said.get(event.kind) or f"{event.id} {alone[event.kind]}"


def draw_course(ax: Axes, history: plot.History) -> None:
    """Draw the shares and the number of clusters so far."""
    plot.weights(history, ax=ax)
    ax.set(xlim=(-0.5, N_BATCHES - 0.5), xlabel="batch", ylabel="share")
    above = ax.child_axes[0]
    above.set(ylim=(2.2, 7.8), yticks=(3, 5, 7), ylabel="K")
    above.tick_params(labelsize=9)


def pictures() -> Iterator[Image.Image]:
    """Return one image per batch."""
    history, model = plot.History(), ScStream(half_life=2, random_state=0)
    for rows in batches():
        history.record(model.partial_fit(rows))
        frame = plot.frame(model, rows, labels=model.labels_, max_rows=_SHOWN)
        figure = Figure(figsize=_SIZE, layout="constrained")
        stage, course = figure.subplots(2, 1, height_ratios=(1.45, 1))
        draw_stage(stage, frame, history.events)
        draw_course(course, history)
        drawn = BytesIO()
        figure.savefig(drawn, dpi=_DPI)
        yield Image.open(drawn).convert("RGB")


def _beside(images: list[Image.Image]) -> Image.Image:
    """Return the images side by side, to choose one palette for all."""
    return Image.fromarray(np.concatenate([np.asarray(image) for image in images], axis=1))


def main() -> None:
    """Draw and write a looping GIF; the last picture stays longer."""
    with rc_context(_STYLE):
        images = list(pictures())
    # With one palette for all frames, parts that do not change are stored only once.
    palette = _beside(images[::6]).quantize(_COLOURS, Image.Quantize.MAXCOVERAGE)
    few = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    PICTURE.parent.mkdir(exist_ok=True)
    few[0].save(
        PICTURE,
        save_all=True,
        append_images=few[1:],
        duration=[140] * (len(few) - 1) + [1500],
        loop=0,
        optimize=False,
    )
    sys.stdout.write(f"{PICTURE}: {PICTURE.stat().st_size / 1e6:.2f} MB\n")


if __name__ == "__main__":
    main()
