"""A small picture of clusters as SVG: an ellipse and a dot for each, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from scstream.families.base import Array, Family, Labels
from scstream.view.columns import columns_of
from scstream.view.projection import Projection

_WIDE, _HIGH, _EDGE = 360, 220, 14  # pixels
_FOOT = 34  # pixels for the words of the axes
_N_SHOWN = 40  # clusters that are drawn
_N_LABELS = 12  # clusters whose ids are written, besides those with names
_LONGEST = 58  # characters of a line
_REACH = 2.0  # standard deviations of the ellipses
_LINE_HEIGHT = 24.0  # pixels of an ellipse in a picture of one column
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#999933")


@dataclass(frozen=True)
class _Mark:
    """Where a cluster is drawn, in pixels."""

    centre: Array  # (2,)
    radius: Array  # (2,)
    degrees: float


def cluster_svg(
    family: Family,
    stats: Array,
    ids: Labels,
    *,
    features: Sequence[str],
    names: Mapping[int, str] | None = None,
) -> str:
    """Draw the heaviest of clusters with these statistics (K, P); empty without clusters."""
    if not len(ids):
        return ""
    shown = np.argsort(-stats[:, 0], kind="stable")[:_N_SHOWN]
    stats, ids = stats[shown], ids[shown]
    columns = columns_of(family)
    centres, stds = columns.centres(stats), columns.stds(stats)
    weight = stats[:, 0]
    pooled = np.sqrt(np.average(stds**2, axis=0, weights=weight + 1e-300))
    projection = Projection.of(centres, weight, unit=columns.unit(pooled), stds=pooled)
    places = projection.place(centres)
    marks = _marks(places, columns.covariances(stats, projection.lens))
    drawn = "".join(
        _ellipse(mark, int(id)) for mark, id in zip(marks[::-1], ids[::-1], strict=True)
    )
    known = names or {}
    drawn += "".join(
        _label(mark, id, known.get(id))
        for place, (mark, id) in enumerate(zip(marks, ids.tolist(), strict=True))
        if place < _N_LABELS or id in known
    )
    words = projection.words(columns.column_names(features))
    axes = "".join(
        f'<text x="{_EDGE}" y="{_HIGH + 14 + 14 * n}">{escape(_short(f"{arrow} {word}"))}</text>'
        for n, (arrow, word) in enumerate(zip("→↑", words, strict=False))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH + _FOOT}" '
        f'width="{_WIDE}" height="{_HIGH + _FOOT}" role="img" font-family="sans-serif" '
        f'font-size="11" fill="currentColor" aria-label="{len(ids)} clusters">'
        f'<rect x="0.5" y="0.5" width="{_WIDE - 1}" height="{_HIGH - 1}" fill="none" '
        f'stroke="#8a8a8a" stroke-opacity="0.5"/>{drawn}{axes}</svg>'
    )


def _marks(places: Array, covariances: Array) -> list[_Mark]:  # (K, A), (K, A, A)
    """Fit places and ellipses into the picture; a very wide cluster may reach beyond it."""
    flat = places.shape[1] == 1
    if flat:
        places = np.column_stack([places, np.zeros(len(places))])
        covariances = np.einsum("kaa,ij->kij", covariances, np.diag([1.0, 0.0]))
    reach = _REACH * np.median(np.sqrt(np.einsum("kaa->ka", covariances)), axis=0)
    low, high = places.min(axis=0) - reach, places.max(axis=0) + reach
    room = np.array([_WIDE, _HIGH]) - 2.0 * _EDGE
    scale = room / np.where(high > low, high - low, 1.0)
    pixels = _EDGE + (places - low) * scale
    pixels[:, 1] = _HIGH / 2 if flat else _HIGH - pixels[:, 1]
    lens = np.diag(scale * [1.0, -1.0])
    marks = []
    for place, covariance in zip(pixels, lens @ covariances @ lens, strict=True):
        values, axes = np.linalg.eigh(covariance)
        radius = _REACH * np.sqrt(np.maximum(values, 0.0))[::-1]
        if flat:
            marks.append(_Mark(place, np.array([radius[0], _LINE_HEIGHT]), 0.0))
        else:
            angle = float(np.degrees(np.arctan2(axes[1, 1], axes[0, 1])))
            marks.append(_Mark(place, radius, angle))
    return marks


def _ellipse(mark: _Mark, id: int) -> str:
    (x, y), (long, short) = mark.centre, np.maximum(mark.radius, 1.0)
    colour = _COLOURS[id % len(_COLOURS)]
    return (
        f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{long:.1f}" ry="{short:.1f}" '
        f'transform="rotate({mark.degrees:.1f} {x:.1f} {y:.1f})" fill="{colour}" '
        f'fill-opacity="0.2" stroke="{colour}"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
    )


def _label(mark: _Mark, id: int, name: str | None) -> str:
    x, y = mark.centre
    text = _short(str(id) if name is None else f"{id} {name}", 18)
    if x < 0.6 * _WIDE:
        return f'<text x="{x + 4:.1f}" y="{y - 4:.1f}">{escape(text)}</text>'
    return f'<text x="{x - 4:.1f}" y="{y - 4:.1f}" text-anchor="end">{escape(text)}</text>'


def _short(text: str, longest: int = _LONGEST) -> str:
    """Return a text without control characters, cut where it is too long."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"
