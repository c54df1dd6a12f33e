"""
Segment a video
===============

A frame is a batch, and a pixel is a row: red, green, blue and position. Clusters of such rows are
segments. Because ids last, you can follow a segment through the video by its id.
"""

# %%
# Load the video
# --------------
#
# The data are the first thirty frames of the sequence "kite-surf" of DAVIS 2016, every sixth pixel.
# The example looks for the file in the folder ``SCSTREAM_DATA``. Without it, a ball that flies over
# a meadow is generated.

import io
import os
import tarfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from PIL import Image

from scstream import ScStream, plot

file = Path(os.environ.get("SCSTREAM_DATA", "../shared/data")) / "davis_kite-surf_480p.tar"


def real_video():
    with tarfile.open(file) as tar:
        for number in range(30):
            content = tar.extractfile(f"JPEGImages/{number:05d}.jpg").read()
            yield np.asarray(Image.open(io.BytesIO(content)))[::6, ::6]


def drawn_video():
    rng = np.random.default_rng(0)
    down, across = np.mgrid[:80, :142]
    for number in range(30):
        frame = np.where(down[..., None] < 45, (120, 170, 230), (60, 140, 60)).astype(float)
        ball = np.hypot(down - 40 + 25 * np.sin(number / 9), across - 10 - 4 * number) < 9
        frame[ball] = (220, 80, 40)
        yield np.clip(frame + rng.normal(0, 6, frame.shape), 0, 255).astype(np.uint8)


frames = list(real_video() if file.exists() else drawn_video())
print("video from", file.name if file.exists() else "a generator: the file was not found")
height, width = frames[0].shape[:2]
print(f"{len(frames)} frames of {height} x {width} pixels")

# %%
# Learn one batch per frame
# -------------------------
#
# Colours and positions have different units. A Gaussian cluster learns its own scale in every
# column, so the rows need no scaling.

down, across = np.mgrid[:height, :width]


def rows_of(frame):
    return np.column_stack([frame.reshape(-1, 3), down.ravel(), across.ravel()]).astype(float)


model, history, segments = ScStream(random_state=0), plot.History(), []
for frame in frames:
    model.partial_fit(rows_of(frame))
    history.record(model)
    segments.append(model.labels_.reshape(height, width))

print(f"{model.n_clusters_} segments in the last frame, {len(history.ids)} ids in all")
for before in (1, 10, 29):
    kept = np.isin(segments[-1], np.unique(segments[-1 - before])).mean()
    print(f"{kept:.0%} of the pixels of the last frame have an id that is {before} frames old")

# %%
# Show the segments and the mean colour of each
# ---------------------------------------------
#
# In the second row every id has the colour of ``plot.colour_of``, in three shades: the same id has
# the same colour in every frame. Black pixels belong to no segment.

shade = np.array([1.0, 0.7, 0.45])


def by_id(labels):
    table = np.array(
        [(0.0, 0.0, 0.0)]
        + [
            np.multiply(to_rgb(plot.colour_of(i)), shade[i // 7 % 3])
            for i in range(labels.max() + 1)
        ]
    )
    return table[labels + 1]


def by_mean(labels, frame):
    flat = labels.ravel() + 1
    size = np.maximum(np.bincount(flat), 1)
    means = [np.bincount(flat, weights=frame[..., c].ravel()) / size for c in range(3)]
    return np.stack(means, axis=1)[labels + 1] / 255


figure, axes = plt.subplots(3, 3, figsize=(12, 7), layout="constrained")
for column, number in enumerate((0, len(frames) // 2, len(frames) - 1)):
    shown = frames[number], by_id(segments[number]), by_mean(segments[number], frames[number])
    for ax, image in zip(axes[:, column], shown, strict=True):
        ax.imshow(image)
        ax.axis("off")
    axes[0, column].set_title(f"frame {number}")

# %%
# Follow a segment by its id
# --------------------------
#
# This is the largest segment around the middle of the first frame that is not at the border, and
# the pixels with its id in later frames.

rim = set(segments[0][0]) | set(segments[0][-1]) | set(segments[0][:, 0]) | set(segments[0][:, -1])
middle = segments[0][height // 4 : -height // 4, width // 5 : -width // 5].ravel()
counted = np.bincount(middle[~np.isin(middle, list(rim | {-1}))])
chosen = int(counted.argmax()) if counted.size else int(np.bincount(middle + 1).argmax()) - 1
figure, axes = plt.subplots(1, 4, figsize=(13, 2.4), layout="constrained")
for ax, number in zip(axes, np.linspace(0, len(frames) - 1, 4).astype(int), strict=True):
    grey = np.repeat(frames[number].mean(axis=2, keepdims=True) / 400, 3, axis=2)
    grey[segments[number] == chosen] = to_rgb(plot.colour_of(1))
    ax.imshow(grey)
    ax.set_title(f"segment {chosen}, frame {number}", fontsize=10)
    ax.axis("off")

# %%
# Summary
# -------
#
# - Every frame is processed once, and no training data are needed.
# - From one frame to the next nearly all pixels keep the id of their segment. Over a second of a
#   moving camera most segments are replaced, because new parts of the scene get new ids.
#
# Limits: a segment is a region of similar colour and position, not an object. A surfer consists of
# several: vest, skin and shorts. If one segment or two describe a region about equally well, chance
# decides, and the decision is kept. ``docs/evidence/video.md`` compares it with masks drawn by
# people.
