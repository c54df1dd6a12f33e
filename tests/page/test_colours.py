"""The colours of the page, measured: readable on the paper, and apart for every eye."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import scstream.serve

STYLE = Path(scstream.serve.__file__).parent / "page" / "style.css"
Array = NDArray[np.float64]
N_COLOURS, N_SHAPES = 20, 5

# Full loss of one kind of cone (Machado, Oliveira and Fernandes 2009), in linear RGB.
EYES = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def themes() -> dict[str, dict[str, Array]]:
    """Colours by name in linear RGB."""
    blocks = re.findall(r':root(\[data-theme="dark"\])? \{(.*?)\}', STYLE.read_text(), re.DOTALL)
    return {
        "dark" if dark else "light": {
            name: linear(colour) for name, colour in re.findall(r"--(\w+): (#\w{6});", block)
        }
        for dark, block in blocks
    }


def linear(colour: str) -> Array:
    value = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one: Array, other: Array) -> float:
    light = sorted(float(colour @ [0.2126, 0.7152, 0.0722]) + 0.05 for colour in (one, other))
    return light[1] / light[0]


def oklab(colour: Array) -> Array:
    return np.cbrt(np.clip(colour, 0, 1) @ TO_LMS.T) @ TO_OKLAB.T


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_is_readable_and_marks_are_visible(theme: str) -> None:
    colours = themes()[theme]
    for ground in ("panel", "paper"):
        for text in ("ink", "soft", "accent", "warn"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for mark in range(N_COLOURS):
        assert contrast(colours[f"c{mark}"], colours["panel"]) >= 3.0, mark


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_clusters_with_the_same_mark_are_apart_for_every_eye(theme: str, eye: str) -> None:
    """Ids less than twenty apart have the same shape if they differ by 5, 10 or 15.

    Okabe and Ito's palette without black and yellow has 0.076 by this measure.
    """
    colours = themes()[theme]
    seen = [oklab(colours[f"c{mark}"] @ EYES[eye].T) for mark in range(N_COLOURS)]
    pairs = [(a, b) for a, b in combinations(range(N_COLOURS), 2) if (a - b) % N_SHAPES == 0]
    assert min(float(np.linalg.norm(seen[a] - seen[b])) for a, b in pairs) >= 0.17


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_colours_are_apart(theme: str) -> None:
    colours = themes()[theme]
    seen = [oklab(colours[f"c{mark}"]) for mark in range(N_COLOURS)]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) >= 0.08


def test_a_hundred_neighbours_have_different_marks() -> None:
    """The two formulas of marks.js, which know nothing but the id: a mark is kept for life."""
    text = (STYLE.parent / "marks.js").read_text()
    assert f"N_COLOURS = {N_COLOURS};" in text and f"N_SHAPES = {N_SHAPES};" in text
    assert "(id) => id % N_COLOURS;" in text
    assert "(id) => (id + Math.floor(id / N_COLOURS)) % N_SHAPES;" in text
    ids = np.arange(1000)
    marks = list(zip(ids % N_COLOURS, (ids + ids // N_COLOURS) % N_SHAPES, strict=True))
    assert all(len(set(marks[first : first + 100])) == 100 for first in range(900))


def test_both_themes_name_the_same_colours() -> None:
    found = themes()
    assert set(found["light"]) == set(found["dark"]) and len(found["light"]) == 8 + N_COLOURS
