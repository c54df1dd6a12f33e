"""How well segments fit the mask of the surfer, and whether ids keep their meaning.

IoU is the intersection over the union of two sets of pixels. A mask is nobody's segment: the
surfer has a dark vest, bare arms and white shorts. So sets of segments are scored as well, those
that lie in the mask for the greater part: chosen in the frame itself, chosen ten frames before and
known by their ids, or chosen once, on the first frame. What is lost from the first of these to the
last is lost because ids changed their meaning.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.video.frames import Array, Labels, Mask

Ids = npt.NDArray[np.intp]
Row = dict[str, float]

LAG = 10  # frames


def iou(one: Mask, other: Mask) -> float:
    """Intersection over union; two empty sets are the same set."""
    union = np.count_nonzero(one | other)
    return np.count_nonzero(one & other) / union if union else 1.0


def best_segment(labels: Labels, mask: Mask) -> float:
    """The highest IoU that any single segment has with the mask."""
    size, inside = _areas(labels, mask)
    union = size + np.count_nonzero(mask) - inside
    return float(np.max(inside / np.maximum(union, 1.0), initial=0.0))


def majority(labels: Labels, mask: Mask) -> Ids:
    """Ids of the segments that have more than half of their pixels in the mask."""
    size, inside = _areas(labels, mask)
    return np.flatnonzero(2 * inside > size)


def union_iou(labels: Labels, mask: Mask, ids: Ids) -> float:
    """IoU of the mask with the union of some segments."""
    return iou(np.isin(labels, ids), mask)


def ids_in(labels: Labels) -> Ids:
    """Ids of the segments of a frame."""
    return np.flatnonzero(np.bincount(labels.ravel() + 1)[1:])


def score_frames(labels: list[Labels], masks: list[Mask]) -> list[Row]:
    """One row of scores for each frame; not a number where it has no frame to look back on."""
    chosen = [majority(*both) for both in zip(labels, masks, strict=True)]
    present = [ids_in(frame) for frame in labels]
    rows = []
    for number, (frame, mask) in enumerate(zip(labels, masks, strict=True)):
        before = number - LAG
        row = {
            "segments": float(len(present[number])),
            "best_segment": best_segment(frame, mask),
            "chosen_here": union_iou(frame, mask, chosen[number]),
            "chosen_before": np.nan,
            "chosen_first": union_iou(frame, mask, chosen[0]),
            "known_before": np.nan,
        }
        if before >= 0:
            row["chosen_before"] = union_iou(frame, mask, chosen[before])
            row["known_before"] = float(np.isin(frame, present[before]).mean())
        rows.append(row)
    return rows


def _areas(labels: Labels, mask: Mask) -> tuple[Array, Array]:  # (largest id + 1,) each
    """Pixels of every segment, and how many of them are in the mask; novel pixels are in none."""
    place = labels.ravel() + 1
    size = np.bincount(place).astype(np.float64)
    inside = np.bincount(place[mask.ravel()], minlength=len(size)).astype(np.float64)
    return size[1:], inside[1:]
