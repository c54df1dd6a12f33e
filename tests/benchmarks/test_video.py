"""The video benchmark: laws of its scores, and the loop on a made video of a few small frames."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

pytest.importorskip("PIL")

from benchmarks.video import cli
from benchmarks.video.frames import rows_of
from benchmarks.video.loop import run
from benchmarks.video.methods import METHODS, OURS, RIVAL, ours
from benchmarks.video.score import best_segment, iou, majority, score_frames, union_iou
from benchmarks.video.sheet import by_id, by_mean, palette

MASKS = arrays(np.bool_, (5, 7))
LABELS = arrays(np.int32, (5, 7), elements=st.integers(-1, 4))


class MadeVideo:
    """A red square walks over water that gets darker downwards."""

    n_frames = 4

    def frame(self, number):
        rng = np.random.default_rng(number)
        frame = np.empty((40, 60, 3))
        frame[:] = np.linspace(160, 60, 40)[:, None, None] * [0.2, 0.8, 1.0]
        frame[self.mask(number)] = [220, 40, 30]
        return np.clip(frame + rng.normal(0, 4, frame.shape), 0, 255).astype(np.uint8)

    def mask(self, number):
        mask = np.zeros((40, 60), dtype=bool)
        mask[12:24, 6 + 3 * number : 18 + 3 * number] = True
        return mask


@given(MASKS, MASKS)
def test_iou_is_a_likeness(one, other):
    assert 0.0 <= iou(one, other) <= 1.0
    assert iou(one, other) == iou(other, one)
    assert iou(one, one) == 1.0
    assert (iou(one, other) == 1.0) == np.array_equal(one, other)


@given(LABELS, MASKS)
def test_best_segment_is_the_best_of_all(labels, mask):
    each = [iou(labels == number, mask) for number in np.unique(labels[labels >= 0])]
    if mask.any():
        assert best_segment(labels, mask) == pytest.approx(max(each, default=0.0))


@given(LABELS, MASKS)
def test_the_union_that_is_chosen_has_its_majority_in_the_mask(labels, mask):
    chosen = majority(labels, mask)
    assert not (chosen < 0).any()
    for number in np.unique(labels[labels >= 0]):
        inside = mask[labels == number].mean()
        assert (number in chosen) == (inside > 0.5)


@given(LABELS, MASKS, st.permutations(range(5)))
def test_scores_do_not_depend_on_the_numbers_of_ids(labels, mask, names):
    renamed = np.append(names, -1)[labels]
    assert best_segment(renamed, mask) == best_segment(labels, mask)
    one, other = (union_iou(x, mask, majority(x, mask)) for x in (labels, renamed))
    assert one == other


def test_ids_that_change_their_meaning_are_noticed():
    video = MadeVideo()
    masks = [video.mask(number) for number in range(12)]
    steady = [np.where(mask, 1, 0) for mask in masks]
    swapped = [labels if number < 11 else 1 - labels for number, labels in enumerate(steady)]
    kept, lost = (score_frames(labels, masks)[-1] for labels in (steady, swapped))
    assert kept["chosen_first"] == kept["chosen_before"] == kept["chosen_here"] == 1.0
    assert lost["chosen_here"] == lost["best_segment"] == 1.0
    assert lost["chosen_first"] == lost["chosen_before"] == 0.0
    fresh = score_frames([*steady[:11], steady[11] + 2], masks)[-1]
    assert kept["known_before"] == 1.0
    assert fresh["known_before"] == 0.0


def test_rows_are_colours_and_places():
    frame = MadeVideo().frame(0)
    rows = rows_of(frame, 0.5).reshape(40, 60, 5)
    np.testing.assert_array_equal(rows[..., :3], frame)
    np.testing.assert_array_equal(rows[7, 9, 3:], [3.5, 4.5])


def test_the_square_is_found_and_followed():
    video = MadeVideo()
    done = run(ours(0, 0), video)
    assert [labels.shape for labels in done.labels] == [(40, 60)] * 4
    assert len(done.model) == len(done.decode) == 4
    assert done.wall >= sum(done.model)
    scores = score_frames(done.labels, [video.mask(number) for number in range(4)])
    assert min(row["chosen_first"] for row in scores) > 0.8


def test_painting():
    labels = np.array([[0, 0, 1], [1, 24, -1]])
    frame = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    colours = by_id(labels)
    assert len(np.unique(palette(), axis=0)) == 24
    np.testing.assert_array_equal(colours[0, 0], colours[1, 1])
    assert not np.array_equal(colours[0, 0], colours[0, 2])
    assert not colours[1, 2].any()
    np.testing.assert_allclose(by_mean(labels, frame)[0, 0], frame[0, :2].mean(axis=0), atol=0.5)


def test_the_command_writes_everything(monkeypatch, tmp_path, capsys):
    methods = [method for method in METHODS if method.name in (OURS, RIVAL)]
    monkeypatch.setattr(cli, "METHODS", methods)
    monkeypatch.setattr(cli, "N_SEEDS", 1)
    monkeypatch.setattr(cli, "KiteSurf", MadeVideo)
    monkeypatch.setattr(cli, "RESULTS", tmp_path)
    monkeypatch.setattr(cli, "EVIDENCE", tmp_path)
    cli.main([])
    assert (tmp_path / "video.md").read_text() in capsys.readouterr().out
    assert (tmp_path / "video-contact.png").stat().st_size < 700_000
    assert len((tmp_path / "video.csv").read_text().splitlines()) == 1 + 2 * 4
    found = json.loads((tmp_path / "video.json").read_text())
    assert [row["method"] for row in found["runs"]] == [OURS, RIVAL]


def test_a_missing_file_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("SCSTREAM_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="set SCSTREAM_DATA"):
        cli.main(["--quick"])
