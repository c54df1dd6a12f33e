"""The pictures of the README: committed, small enough, and made of what the results say."""

import runpy

import pytest
from PIL import Image

from tests.conftest import PROJECT

DOCS = PROJECT / "docs"


def test_the_moving_picture_is_small_and_loops() -> None:
    path = DOCS / "images" / "stream.gif"
    assert path.stat().st_size < 1_500_000
    with Image.open(path) as picture:
        assert picture.width == 720
        assert picture.n_frames > 50
        assert picture.info["loop"] == 0


def test_the_stage_of_the_moving_picture_has_every_kind_of_change() -> None:
    script = runpy.run_path(str(DOCS / "make_picture.py"), run_name="picture")
    sizes = [len(rows) for rows in script["batches"]()]
    assert len(sizes) == script["N_BATCHES"]
    assert min(sizes) < sizes[25] > sizes[45], "clusters appear and vanish"


def test_the_comparison_shows_wins_and_losses_of_all_sets() -> None:
    script = runpy.run_path(str(DOCS / "make_comparison.py"), run_name="comparison")
    results = script["Results"].read(PROJECT / "benchmarks" / "results" / "paper")
    found = script["entries"](results)
    assert set(found.index) == set(results.units(results.ranked))
    assert (found["lead"] > 0).any()
    assert (found["lead"] < 0).any()
    line = found.loc["kdd99"]
    peers = script["peers"](results.of("kdd99"))
    assert line["lead"] == pytest.approx(max(line["tuned"], line["untuned"]) - peers["ari"].max())
