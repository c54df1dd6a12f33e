"""Settings are searched on the first batches and judged on later ones."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from scstream.cli.tune import SearchOptions, TuneBatch, collect_batches, prequential_scores
from scstream.errors import InputError
from scstream.metrics import adjusted_rand
from scstream.model import Model, Settings
from scstream.stream.config import build
from scstream.stream.store import MemoryStore
from tests.cli.inside import json_output, refused, sound

SMALL = ("--batch-rows", 100, "--batches", 6, "--held-out", 6, "--trials", 8)


def write_jumping(path: Path, *, n_batches: int = 12, seed: int = 0) -> None:
    """Two clusters that are somewhere else in every batch: the past is of no use."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        file.write("x,y,class\n")
        for _ in range(n_batches):
            centres = rng.uniform(-3, 3, (2, 2)) + np.array([[-8, 0], [8, 0]])
            which = rng.integers(0, 2, 100)
            rows = centres[which] + 0.2 * rng.normal(size=(100, 2))
            file.writelines(f"{x},{y},{c}\n" for (x, y), c in zip(rows, which, strict=True))


def test_better_settings_are_printed_as_toml(tmp_path: Path) -> None:
    write_jumping(tmp_path / "rows.csv")
    features = ("--set", 'schema.features=["x", "y"]')
    text = sound("tune", "rows.csv", *SMALL, "--trials", 15, *features, folder=tmp_path)
    settings = tomllib.loads(text)
    assert "The best is better by +" in text
    assert settings["model"]
    (tmp_path / "tuned.toml").write_text(text)
    build({"source": {"kind": "file", "path": "rows.csv"}, **settings}, store=MemoryStore())
    sound("fit", "rows.csv", "--model", "m", "--settings", "tuned.toml", folder=tmp_path)
    found = json_output("inspect", "m", folder=tmp_path)
    assert found["half_life"] == settings["model"].get("half_life", 5.0)


def test_equally_good_defaults_are_reported(folder: Path) -> None:
    text = sound("tune", "rows.csv", *SMALL, folder=folder)
    assert "# The defaults are as good: the difference is " in text
    assert tomllib.loads(text) == {}
    found = json_output("tune", "rows.csv", *SMALL, folder=folder)
    assert found["is_better"] is False
    assert (found["batches"], found["held_out"], found["trials"]) == (6, 6, 8)
    same = f"best {found['best']:.4g}, defaults {found['default']:.4g}."
    assert same in text  # the same seed, the same search
    assert f"the difference is {found['gain']:+.3g} nats per row" in text
    assert not (folder / "checkpoints").exists()


def test_given_settings_stay_fixed(folder: Path) -> None:
    chosen = ("--family", "gaussian", "--set", "model.half_life=4", "--set", "model.alpha=2")
    words = ("tune", "rows.csv", *SMALL, "--trials", 3, *chosen)
    assert set(json_output(*words, folder=folder)["model"]) <= {"prior", "motion"}
    more = ("--set", 'model.prior="weak"', "--set", "model.motion=true")
    assert refused(*words, *more, folder=folder).startswith("all settings that could be searched")


def test_agreement_with_true_classes(tmp_path: Path) -> None:
    write_jumping(tmp_path / "rows.csv")
    words = ("tune", "rows.csv", *SMALL, "--trials", 3)
    found = json_output(*words, "--truth", "class", folder=tmp_path)
    assert found["score"] == "ari"
    assert 0.5 < found["default"] <= 1.0
    assert (
        json_output(*words, "--truth", "class", "--score", "nmi", folder=tmp_path)["score"] == "nmi"
    )
    assert "needs --truth" in refused(*words, "--score", "ari", folder=tmp_path)
    assert "there is no score 'f1'" in refused(*words, "--score", "f1", folder=tmp_path)
    assert "no column 'klass'" in refused(*words, "--truth", "klass", folder=tmp_path)


def test_scores_are_of_rows_that_were_not_learned_yet(folder: Path) -> None:
    settings = {
        "source": {"kind": "file", "path": str(folder / "rows.csv")},
        "batch": {"rows": 100},
        "model": {"random_state": 0},
    }
    model, batches = collect_batches(settings, SearchOptions(batches=3, held_out=2))
    assert [batch.X.shape for batch in batches] == [(100, 2)] * 5
    own = Settings.of({"random_state": 0}, feature_names=("x", "y"))
    densities, agreements = [], []
    truth = [(batch.X > 2.5) @ [1, 2] for batch in batches]
    for number, batch in enumerate(batches):
        if isinstance(own, Model):
            prediction = own.at().predict(batch.X)
            densities.append(prediction.log_density.mean())
            agreements.append(adjusted_rand(truth[number], prediction.label))
        own = own.update(batch.X).model
    np.testing.assert_allclose(prequential_scores(model, batches, "density"), densities, rtol=1e-12)
    known = [TuneBatch(batch.X, None, true) for batch, true in zip(batches, truth, strict=True)]
    assert prequential_scores(model, known, "ari") == agreements


def test_too_few_rows_are_refused(folder: Path) -> None:
    detail = refused("tune", "rows.csv", "--batch-rows", 1000, folder=folder)
    assert detail.startswith("the rows give 3 usable batches, but tune needs 4")
    assert "there is no file" in refused("tune", "none.csv", folder=folder)
    with pytest.raises(InputError, match="needs --truth"):
        SearchOptions(score="nmi")
