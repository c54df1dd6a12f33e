"""The contact sheet: frames across, ways to look at their segments down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from benchmarks.video.frames import Labels, Mask, Pixels, Video
from benchmarks.video.score import Ids, majority

Paint = Callable[[int], Pixels]  # of a frame, by its number

_CELL = 260  # width, in pixels
_GAP, _TITLE = 4, 24
# The hues of Okabe and Ito, which people of any colour vision tell apart, each in three shades.
_HUES = ("E69F00", "56B4E9", "009E73", "F0E442", "0072B2", "D55E00", "CC79A7", "999999")
_SHADES = (1.0, 0.62, 0.36)
_KEPT = np.array([230, 159, 0])


def palette() -> Pixels:  # (24, 3)
    """Colours of ids; an id and its successors get hues that differ."""
    hues = np.array([[int(hue[i : i + 2], 16) for i in (0, 2, 4)] for hue in _HUES])
    shades = np.concatenate([shade * np.roll(hues, 3 * n, 0) for n, shade in enumerate(_SHADES)])
    return shades.astype(np.uint8)


def by_id(labels: Labels) -> Pixels:
    """A fixed colour for every id, black for novel pixels; ids 24 apart share one."""
    colours = palette()
    painted: Pixels = colours[labels % len(colours)]
    painted[labels < 0] = 0
    return painted


def by_mean(labels: Labels, frame: Pixels) -> Pixels:
    """The mean colour of its pixels for every segment."""
    place = labels.ravel() + 1
    size = np.maximum(np.bincount(place), 1)
    sums = [np.bincount(place, weights=frame[..., c].ravel()) for c in range(3)]
    means = np.stack(sums, axis=1) / size[:, None]
    painted: Pixels = means.round().astype(np.uint8)[labels + 1]
    return painted


def marked(labels: Labels, frame: Pixels, mask: Mask, ids: Ids) -> Pixels:
    """The segments of some ids in orange on a grey frame, the border of the mask in white."""
    grey = np.repeat(frame.mean(axis=2, keepdims=True) / 2, 3, axis=2)
    grey[np.isin(labels, ids)] = _KEPT
    grey[_border(mask)] = 255
    return grey.astype(np.uint8)


def rows_of_sheet(video: Video, shown: dict[str, list[Labels]]) -> dict[str, Paint]:
    """The rows, by their titles: the video, then three views of each method."""
    rows: dict[str, Paint] = {"video: frame 0": video.frame}
    for name, labels in shown.items():
        rows |= _views(video, name, labels)
    return rows


def _views(video: Video, name: str, labels: list[Labels]) -> dict[str, Paint]:
    kept = majority(labels[0], video.mask(0))
    followed = (
        "segments in the mask on frame 0, followed by id (orange); border of the mask (white)"
    )
    return {
        f"{name}: mean colour of each segment": lambda n: by_mean(labels[n], video.frame(n)),
        f"{name}: one colour for each id, the same in all frames": lambda n: by_id(labels[n]),
        f"{name}: {followed}": lambda n: marked(labels[n], video.frame(n), video.mask(n), kept),
    }


def contact_sheet(rows: dict[str, Paint], numbers: list[int]) -> Image.Image:
    """Put painted frames together, with titles."""
    height, width = next(iter(rows.values()))(numbers[0]).shape[:2]
    cell = (_CELL, round(_CELL * height / width))
    across = len(numbers) * (_CELL + _GAP) - _GAP
    sheet = Image.new("RGB", (across, len(rows) * (cell[1] + _TITLE)), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=15)
    for down, (title, paint) in enumerate(rows.items()):
        top = down * (cell[1] + _TITLE)
        pen.text((2, top + 3), title, fill="black", font=font)
        for place, number in enumerate(numbers):
            left = place * (_CELL + _GAP)
            if down == 0 and place:
                pen.text((left + 2, top + 3), f"frame {number}", fill="black", font=font)
            image = Image.fromarray(paint(number)).resize(cell, Image.Resampling.NEAREST)
            sheet.paste(image, (left, top + _TITLE))
    return sheet


def save(sheet: Image.Image, path: Path) -> None:
    """Write a PNG of 256 colours, a third of the size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    few = sheet.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def _border(mask: Mask) -> Mask:
    """Pixels of the mask that touch a pixel outside it."""
    around = np.pad(mask, 1)
    inner = around[:-2, 1:-1] & around[2:, 1:-1] & around[1:-1, :-2] & around[1:-1, 2:]
    return mask & ~inner
