"""Colours, boxes and moving pictures."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from scstream import ScStream, plot
from scstream.datasets import drifting_gaussians
from scstream.errors import InputError
from scstream.metrics import prequential


def luminance(colour: str) -> float:
    parts = np.array(to_rgb(colour))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_looks_belong_to_ids() -> None:
    looks = [(plot.colour_of(each), plot.marker_of(each)) for each in range(42)]
    assert len(set(looks)) == 42
    assert looks == [(plot.colour_of(each + 42), plot.marker_of(each + 42)) for each in range(42)]
    assert len({colour for colour, _ in looks[:7]}) == 7


@pytest.mark.parametrize("cluster_id", [-1, *range(7)])
def test_colours_are_seen_on_white_and_on_black(cluster_id: int) -> None:
    assert contrast(plot.colour_of(cluster_id), "white") > 2
    assert contrast(plot.colour_of(cluster_id), "black") > 3


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_text_is_read_in_light_and_dark_styles(style: str) -> None:
    with pyplot.style.context(style):
        ax = Figure().subplots()
        plot.clusters(ScStream(random_state=0).fit(np.arange(12.0).reshape(6, 2)), ax=ax)
        ground = ax.get_facecolor()
        assert all(contrast(text.get_color(), ground) > 7 for text in ax.texts)
        assert ax.texts


def test_boxes_stand_in_the_order_of_their_means() -> None:
    scores = {"best": [0.9, 0.8, 1.0], "worst": [0.1, np.nan, 0.3], "middle": [0.5, 0.6, 0.5]}
    ax = Figure().subplots()
    assert plot.boxes(scores, "nmi", ax=ax, highlight=["best"]) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == ["worst", "middle", "best"]
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == ["normal"] * 2 + ["bold"]
    means = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert means == pytest.approx([0.2, 1.6 / 3, 0.9])
    quarters = ax.patches[2].get_path().vertices[:, 0]
    assert (quarters.min(), quarters.max()) == pytest.approx((0.85, 0.95))
    assert ax.get_xlabel() == "NMI"


def test_boxes_take_prequential_results() -> None:
    stream = drifting_gaussians(3, n_batches=4, batch_size=200, random_state=0)
    result = prequential(ScStream(random_state=0), stream)
    ax = plot.boxes({"scstream": result}, "purity", ax=Figure().subplots())
    (mean,) = (line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o")
    assert mean == pytest.approx(result.purity.mean())
    with pytest.raises(InputError, match="no scores"):
        plot.boxes({}, ax=Figure().subplots())
    with pytest.raises(InputError, match="leave it out"):
        plot.boxes({"nothing": [np.nan]}, ax=Figure().subplots())


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_the_same_stream_gives_the_same_film(n_features: int, tmp_path: Path) -> None:
    def film(name: str) -> bytes:
        model, frames = ScStream(random_state=0), []
        stream = drifting_gaussians(
            3, n_features, n_batches=3, batch_size=200, separation=8.0, random_state=0
        )
        for batch in stream:
            frames.append(plot.frame(model.partial_fit(batch.X), batch.X, max_rows=50))
        ax = Figure(figsize=(2, 2)).subplots()
        plot.animate(frames, ax=ax, interval=50).save(tmp_path / name, "pillow", dpi=40)
        return (tmp_path / name).read_bytes()

    assert film("one.gif") == film("two.gif")
    with Image.open(tmp_path / "one.gif") as image:
        assert image.n_frames == 3
    assert pyplot.get_fignums() == []


def test_axes_of_a_film_stay_and_hold_everything() -> None:
    model, frames = ScStream(random_state=0), []
    for batch in drifting_gaussians(3, 4, n_batches=3, batch_size=1000, random_state=0):
        frames.append(plot.frame(model.partial_fit(batch.X), batch.X, labels=model.labels_))
    ax = Figure().subplots()
    movie = plot.animate(frames, ax=ax)
    limits = set()
    for number in range(3):
        movie._draw_frame(number)
        limits.add((ax.get_xlim(), ax.get_ylim()))
        low, high = np.transpose([ax.get_xlim(), ax.get_ylim()])
        for marks in ax.collections:
            assert ((marks.get_offsets() >= low) & (marks.get_offsets() <= high)).all()
        assert ax.get_title(loc="left") == f"time {number}"
    movie._draw_was_started = True  # matplotlib warns of films that nobody saw
    assert len(limits) == 1
    with pytest.raises(InputError, match="no frames"):
        plot.animate([], ax=ax)


def test_a_missing_matplotlib_is_named() -> None:
    program = "import sys; sys.modules['matplotlib'] = None\nimport scstream.plot"
    told = [sys.executable, "-c", program]
    done = subprocess.run(told, check=False, capture_output=True, text=True)
    assert 'pip install "scstream[plot]"' in done.stderr
