"""What a model file says about itself."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from scstream import ScStream
from tests.cli.inside import fitted_folder, inside, json_output, refused, rows_of, sound


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted_folder(tmp_path_factory.mktemp("once"))


@pytest.fixture
def fitted(once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(once, tmp_path, dirs_exist_ok=True)


def test_json_agrees_with_the_estimator(fitted: Path) -> None:
    found, model = (
        json_output("inspect", "m.scstream", folder=fitted),
        ScStream.load(fitted / "m.scstream"),
    )
    table = model.clusters_
    assert found["family"] == "gaussian"
    assert found["features"] == ["x", "y"]
    assert found["n_clusters"] == len(found["clusters"]) == model.n_clusters_
    for name in ("id", "weight", "share", "born", "last_seen", "mean", "std"):
        np.testing.assert_array_equal(
            [each[name] for each in found["clusters"]], getattr(table, name), err_msg=name
        )
    assert found["events"] == [vars(event) for event in model.events_]
    assert (found["seed"], found["alpha"], found["half_life"]) == (model.config_.seed, 1.0, 5.0)
    assert [each["clusters"] for each in found["groups"]] == [[k] for k in table.id.tolist()]
    assert [each["weight"] for each in found["groups"]] == model.groups_.weight.tolist()
    assert found["pipeline"]["rows"] == 2050
    assert found["bytes"] == (fitted / "m.scstream").stat().st_size


def test_the_text_has_all_sections(fitted: Path) -> None:
    text = sound("inspect", "m.scstream", folder=fitted)
    lines = text.splitlines()
    assert lines[0].startswith("model       m.scstream, ")
    assert lines[1] == "family      gaussian, 2 features: x, y"
    assert lines[2].startswith("choice      gaussian, chosen by family='auto'")
    assert lines[3] == "learned     2,050 rows in 21 batches, up to time 1.9"
    assert lines[4] == "levels      4 groups of 4 clusters"
    assert "clusters, all 4" in lines
    heading = lines.index("clusters, all 4") + 1
    assert lines[heading].split() == ["id", "share", "weight", "born", "seen", *_UNLIKE]
    shares = [float(line.split()[1].rstrip("%")) for line in lines[heading + 1 : heading + 5]]
    assert shares == sorted(shares, reverse=True)
    assert "health" in lines
    assert "\x1b" not in text


_UNLIKE = ["unlike", "the", "others"]


def test_a_model_of_the_estimator_has_no_pipeline(folder: Path) -> None:
    model = ScStream(random_state=0, half_life=None)
    model.partial_fit(rows_of(folder / "rows.csv")[:300]).save(folder / "own")
    found = json_output("inspect", "own", folder=folder)
    assert found["pipeline"] is None
    assert found["half_life"] is None
    assert found["features"] == ["x0", "x1"]
    assert "never forgets" in sound("inspect", "own", folder=folder)


def test_one_cluster_has_its_unusual_features_first(folder: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    X[:300, 1] += 20.0
    (folder / "w.csv").write_text(
        "a,b,c\n" + "".join(",".join(map(str, row)) + "\n" for row in rng.permutation(X))
    )
    sound("fit", "w.csv", "--model", "w", folder=folder)
    each = json_output("inspect", "w", folder=folder)["clusters"]
    high = max(each, key=lambda cluster: cluster["mean"][1])["id"]
    found = json_output("inspect", "w", "--cluster", high, folder=folder)
    assert found["features"][0]["name"] == "b"
    far = [abs(feature["unusual"]) for feature in found["features"]]
    assert far == sorted(far, reverse=True)
    assert found["features"][0]["unusual"] > 0.9
    text = sound("inspect", "w", "--cluster", high, folder=folder)
    assert "b        +1.00 sd" in text
    detail = refused("inspect", "w", "--cluster", 99, folder=folder)
    assert detail.startswith("there is no cluster 99; there are: 0")


def test_redundant_columns_are_a_note(folder: Path) -> None:
    x = np.random.default_rng(0).normal(size=400)
    lines = "".join(f"{a},{a * 1e6 + 1e-9 * i}\n" for i, a in enumerate(x))
    (folder / "twice.csv").write_text("a,b\n" + lines)
    sound("fit", "twice.csv", "--model", "t", folder=folder)
    found = {each["about"]: each for each in json_output("inspect", "t", folder=folder)["health"]}
    assert found["condition"]["level"] == "note"
    assert "redundant columns" in found["condition"]["detail"]


def test_inactive_and_light_clusters_are_named(folder: Path) -> None:
    head, *lines = (folder / "rows.csv").read_text().splitlines(keepends=True)
    stays = [line for line in lines if float(line.split(",")[1]) < 2.5]
    (folder / "then.csv").write_text(head + "".join(lines[:300] + stays * 4))
    sound("fit", "then.csv", "--model", "t", "--batch-rows", 300, folder=folder)
    found = {
        each["about"]: each["detail"]
        for each in json_output("inspect", "t", folder=folder)["health"]
    }
    assert "2 clusters" in found["silence"]
    assert "no row in the last batch, the longest for" in found["silence"]


def test_control_characters_in_names_are_replaced(folder: Path) -> None:
    (folder / "odd.csv").write_text("a\x1b[2J,[red]b\n" + "1,2\n3,5\n" * 20)
    sound("fit", "odd.csv", "--model", "o", "--set", 'job="\\u001b[2J"', folder=folder)
    for words in (["inspect", "o"], ["inspect", "o", "--cluster", 0]):
        text = sound(*words, folder=folder)
        assert "\x1b" not in text
        assert "a?[2J" in text
        assert "[red]b" in text


def test_checkpoints_can_be_inspected(folder: Path) -> None:
    sound("run", "pipeline.toml", folder=folder)
    found = json_output("inspect", "state", folder=folder)
    assert found["version"] == max(int(p.name[8:]) for p in (folder / "state").glob("version-*"))
    assert found["pipeline"]["job"] == "demo"
    assert found["pipeline"]["batch"] == 21
    assert "position    file rows.csv, offset" in sound("inspect", "state", folder=folder)


def test_a_file_that_is_not_a_model_is_refused(folder: Path) -> None:
    assert "is not a model file" in refused("inspect", "rows.csv", folder=folder, code=1)
    assert "there is no file or folder none" in refused("inspect", "none", folder=folder)
    wrong = inside("inspect", "rows.csv", "--json", folder=folder)
    assert json.loads(wrong.stderr)["exit_code"] == wrong.exit_code == 1


def test_an_ascii_terminal_gets_ascii_bars(fitted: Path) -> None:
    done = inside("inspect", "m.scstream", folder=fitted, charset="ascii")
    assert done.exit_code == 0, done.output
    assert "####" in done.stdout
    assert done.stdout.isascii()
