"""`scstream migrate`: a new job goes on with the clusters of an old one."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scstream.cli.migrate import MigrationResult, migrate_job
from scstream.cli.resolve import flag_settings, resolve
from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import Layer, to_tables
from scstream.errors import InputError, MigrationRefused
from scstream.stream.config import build
from scstream.stream.edit_queue import EditRequest, submit
from scstream.stream.follower import Follower
from scstream.stream.migration import SAME, START
from scstream.stream.store import FolderStore

N_ROWS, UNTIL = 1600, 4
BLUE = """
job = "blue"
threads = false
source = {{ kind = "file", path = "{folder}/rows.jsonl" }}
schema = {{ features = ["a", "b", "c"], keep = ["id"] }}
model = {{ family = "{family}", n_jobs = 1 }}
batch = {{ rows = 200 }}
sink = {{ kind = "file", path = "{folder}/blue.csv" }}
checkpoint = {{ folder = "{folder}/blue" }}
"""


def write_rows(path: Path, gap: float) -> None:
    """Write rows of three clusters, which overlap if the gap is small."""
    rng = np.random.default_rng(5)
    centre = gap * np.eye(4)[rng.integers(0, 3, N_ROWS)]
    rows = np.round(centre + rng.normal(size=(N_ROWS, 4)), 3)
    lines = [dict(zip("abcd", row, strict=True), id=i) for i, row in enumerate(rows.tolist())]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def blue(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A job that has learned four of eight batches, with a cluster that has a name."""
    # Labels of clusters that overlap depend on random numbers.
    family, gap = getattr(request, "param", ("gaussian", 2.2))
    write_rows(tmp_path / "rows.jsonl", gap)
    (tmp_path / "blue.toml").write_text(BLUE.format(folder=tmp_path, family=family))
    run(tmp_path, until=UNTIL - 1)
    submit(FolderStore(tmp_path / "blue"), EditRequest("name", 0, name="zero", author="ana"))
    run(tmp_path, until=UNTIL)
    return tmp_path


def job(folder: Path, *sets: str) -> Layer:
    """Return the settings of the old job with some changed."""
    return resolve(SecretRedactor(), folder / "blue.toml", flag_settings(list(sets)))


def green(folder: Path, *sets: str) -> Layer:
    """Return the settings of a new job: another name, sink and folder."""
    own = f"sink.path={folder}/green.csv", f"checkpoint.folder={folder}/green"
    return job(folder, "job=green", *own, *sets)


def run(folder: Path, layer: Layer | None = None, until: int | None = None) -> None:
    build(to_tables(layer or job(folder))).run(until=until)


def migrate(
    folder: Path, layer: Layer, *, position: str | None = None, dry_run: bool = False
) -> MigrationResult:
    sample = folder / "rows.jsonl"
    return migrate_job(job(folder), layer, position=position, sample=sample, dry_run=dry_run)


def labels(path: Path) -> dict[int, int]:
    """Return the cluster of every row by its id; each row is there once."""
    with path.open() as file:
        pairs = [(int(row["id"]), int(row["cluster"])) for row in csv.DictReader(file)]
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def agreement(folder: Path) -> float:
    """Return the share of the rows of the new job that have the same label in the old one."""
    old, new = labels(folder / "blue.csv"), labels(folder / "green.csv")
    assert sorted(new) == list(range(200 * UNTIL, N_ROWS))
    return float(np.mean([old[row] == label for row, label in new.items()]))


def test_blue_and_green_give_every_row_the_same_label(blue: Path) -> None:
    result = migrate(blue, green(blue))
    assert (result.batch, result.position) == (UNTIL, SAME)
    run(blue)
    run(blue, green(blue))
    assert agreement(blue) == 1.0
    one, other = (Follower.open(str(blue / name)).current() for name in ("blue", "green"))
    assert one.progress is not None
    assert other.progress is not None
    assert one.progress.digest == other.progress.digest
    assert one.model.names == other.model.names == {0: "zero"}
    assert one.model.events == other.model.events
    assert one.model.state.steering.undo[0].edit.author == "ana"
    assert other.model.state.steering.undo[0].edit.author == "ana"


@pytest.mark.parametrize(
    "change", ["model.half_life=40", "batch.rows=100", "model.alpha=2.5"], ids=str
)
def test_ids_are_kept_by_a_change_that_may_change_labels(blue: Path, change: str) -> None:
    migrate(blue, green(blue, change))
    before, after = (Follower.open(str(blue / name)).current() for name in ("blue", "green"))
    assert after.model.state.ids.tolist() == before.model.state.ids.tolist()
    name = change.removeprefix("model.").partition("=")[0]
    if change.startswith("model."):
        assert getattr(after.model.settings, name) == float(change.partition("=")[2])
    run(blue)
    run(blue, green(blue, change))
    assert 0.9 < agreement(blue) <= 1.0


def test_the_new_half_life_is_the_one_that_forgets(blue: Path) -> None:
    migrate(blue, green(blue, "model.half_life=1000"))
    run(blue)
    run(blue, green(blue, "model.half_life=1000"))
    one, other = (Follower.open(str(blue / name)).current().model for name in ("blue", "green"))
    assert other.state.total_weight > one.state.total_weight * 1.05


def test_other_kept_columns_are_written(blue: Path) -> None:
    layer = green(blue, 'schema.keep=["id:int", "d"]')
    migrate(blue, layer)
    run(blue, layer)
    with (blue / "green.csv").open() as file:
        assert {"id", "d"} < set(next(csv.DictReader(file)))


@pytest.mark.parametrize(
    ("blue", "features"),
    [
        (("gaussian", 6.0), "cab"),
        (("gaussian", 6.0), "ab"),
        (("gaussian", 6.0), "dca"),
        (("diagonal", 6.0), "dca"),
        (("auto", 6.0), "abcd"),
    ],
    ids=str,
    indirect=["blue"],
)
def test_ids_are_kept_with_other_columns(blue: Path, features: str) -> None:
    layer = green(blue, f"schema.features={json.dumps(list(features))}")
    result = migrate(blue, layer)
    assert "schema.features" in [change.setting for change in result.changes]
    before, after = (Follower.open(str(blue / name)).current() for name in ("blue", "green"))
    assert after.columns == tuple(features)
    assert after.model.state.ids.tolist() == before.model.state.ids.tolist()
    np.testing.assert_allclose(after.model.state.weight, before.model.state.weight)
    assert after.model.names == {0: "zero"}
    assert after.model.events == before.model.events
    run(blue)
    run(blue, layer)
    assert agreement(blue) > 0.99
    final = Follower.open(str(blue / "green")).current().model
    known = final.family.means(final.state.cluster_stats)
    if "d" in features:
        assert np.abs(known[:, features.index("d")]).max() < 0.5


def test_an_added_column_is_learned(blue: Path) -> None:
    """The old rows say nothing about it, so a few batches are enough."""
    lines = [json.loads(line) for line in (blue / "rows.jsonl").read_text().splitlines()]
    far = [{**line, "e": 50.0 if line["a"] > 1.0 else 0.0} for line in lines]
    path = blue / "other.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in far[200 * UNTIL :]))
    layer = green(blue, 'schema.features=["a","b","c","e"]', f"source.path={path}")
    migrate_job(job(blue), layer, sample=path)
    run(blue, layer)
    model = Follower.open(str(blue / "green")).current().model
    means = model.family.means(model.state.cluster_stats)
    assert 0 in model.state.ids
    right = means[:, 0] > 1.5
    assert right.any()
    assert (means[right, 3] > 30.0).all()
    assert (means[means[:, 0] < 0.5, 3] < 20.0).all()


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        (['schema.features=["a","b","c","e"]'], "schema.features adds e, whose scale is not known"),
        (['schema.features=["d"]'], "schema.features names none of the columns of the old job"),
        (['schema.features=["a","v[]"]'], r"schema.features names the new column v\[\] without"),
    ],
)
def test_columns_that_cannot_change_are_refused(blue: Path, sets: list[str], reason: str) -> None:
    with pytest.raises(MigrationRefused, match=f"^{reason}"):
        migrate_job(job(blue), green(blue, *sets))


def test_a_dry_run_says_what_changes_and_writes_nothing(blue: Path) -> None:
    result = migrate(blue, green(blue, "model.half_life=40"), dry_run=True)
    changes = {change.setting: (change.old, change.new) for change in result.changes}
    assert changes == {
        "job": ("blue", "green"),
        "model.half_life": (5.0, 40),
        "sink.path": (f"{blue}/blue.csv", f"{blue}/green.csv"),
        "checkpoint.folder": (f"{blue}/blue", f"{blue}/green"),
    }
    assert all(change.effect for change in result.changes)
    assert not (blue / "green").exists()


def test_the_old_store_is_only_read(blue: Path) -> None:
    before = {path.name: path.read_bytes() for path in (blue / "blue").iterdir()}
    migrate(blue, green(blue))
    assert {path.name: path.read_bytes() for path in (blue / "blue").iterdir()} == before


def test_another_source_is_read_from_its_start(blue: Path) -> None:
    (blue / "other.jsonl").write_text((blue / "rows.jsonl").read_text())
    layer = green(blue, f"source.path={blue}/other.jsonl")
    assert migrate(blue, layer).position == START
    run(blue, layer, until=UNTIL + 1)
    run(blue, layer)  # goes on where it stopped, and not at the start again
    assert sorted(labels(blue / "green.csv")) == list(range(N_ROWS))


def test_the_position_can_be_chosen(blue: Path) -> None:
    assert migrate(blue, green(blue), position=START).position == START
    run(blue, green(blue))
    assert sorted(labels(blue / "green.csv")) == list(range(N_ROWS))
    with pytest.raises(InputError, match="--position must be same or start"):
        migrate(blue, green(blue), position="end")


@pytest.mark.parametrize(
    ("sets", "setting"),
    [
        (['model.family="diagonal"'], "model.family"),
        (["model.random_state=3"], "model.random_state"),
        (['model.prior="weak"'], "model.prior"),
        (['model.algorithm="paper"'], "model.algorithm"),
        (['schema.time="id"', 'batch.time="event"'], "schema.time"),
        (['batch.time="processing"'], "batch.time"),
        (['steps=[{step="standardise"}]'], "steps"),
    ],
    ids=str,
)
def test_a_setting_that_cannot_change_is_refused_by_its_name(
    blue: Path, sets: list[str], setting: str
) -> None:
    with pytest.raises(MigrationRefused, match=rf"^{setting}") as refused:
        migrate(blue, green(blue, *sets))
    assert refused.value.exit_code == 19
    assert not (blue / "green").exists()


def test_a_second_migration_is_refused(blue: Path) -> None:
    migrate(blue, green(blue))
    for dry_run in (False, True):
        with pytest.raises(MigrationRefused, match=r"^checkpoint.folder of the new job is in use"):
            migrate(blue, green(blue), dry_run=dry_run)


def test_places_of_the_old_job_are_refused(blue: Path) -> None:
    for sets, setting in {
        f"checkpoint.folder={blue}/blue": "checkpoint.folder is the same",
        f"sink.path={blue}/blue.csv": "sink is the same for both jobs",
    }.items():
        with pytest.raises(MigrationRefused, match=setting):
            migrate(blue, green(blue, sets))


def test_a_job_that_has_learned_nothing_is_refused(blue: Path) -> None:
    empty = job(blue, f"checkpoint.folder={blue}/empty", f"sink.path={blue}/empty.csv")
    build(to_tables(empty)).run(until=0)
    with pytest.raises(MigrationRefused, match="has not learned any rows"):
        migrate_job(empty, green(blue), position=None, dry_run=True)


def test_a_keyed_job_is_refused(blue: Path) -> None:
    keyed: Any = job(blue, 'schema.key="id"'), green(blue, 'schema.key="id"')
    with pytest.raises(MigrationRefused, match=r"^schema.key asks for a model for every key"):
        migrate_job(*keyed, position=None, dry_run=True)


def test_a_changed_setting_names_the_command(blue: Path) -> None:
    with pytest.raises(InputError, match=r"other settings of model.half_life.*scstream migrate"):
        run(blue, job(blue, "model.half_life=9"))
    with pytest.raises(InputError, match=r"model.family, model.half_life.*start a new job with"):
        run(blue, job(blue, "model.half_life=9", "model.family=diagonal"))
