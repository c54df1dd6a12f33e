"""The doctor says what a pipeline runs on and what its systems promise."""

import json
from pathlib import Path

from tests.cli.shell import scstream


def found(done) -> list[dict[str, str]]:
    return json.loads(done.stdout)


def test_without_a_pipeline_only_the_machine_is_checked(tmp_path: Path) -> None:
    done = scstream("doctor", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    about = {each["about"] for each in found(done)}
    assert {"scstream", "numpy", "scipy", "kernels", "cores", "memory", "disk", "fsync"} <= about
    assert list(tmp_path.iterdir()) == []


def test_findings_are_printed_as_a_table(tmp_path: Path) -> None:
    done = scstream("doctor", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["level", "where", "about", "detail"]
    assert any("p50" in line and "p99" in line for line in lines)


def test_a_valid_pipeline_has_no_warning(folder: Path) -> None:
    done = scstream("doctor", "pipeline.toml", "--json", "--strict", folder=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    where = {each["where"] for each in found(done)}
    assert {"versions", "machine", "checkpoint", "source", "sink"} <= where
    assert not (folder / "state").exists()
    assert not (folder / "labels.csv").exists()


def test_strict_exits_with_1_on_a_warning(folder: Path) -> None:
    words = ("doctor", "pipeline.toml", "--source", "file:none.csv", "--json")
    done = scstream(*words, folder=folder)
    assert done.returncode == 0, done.stderr
    assert [each["about"] for each in found(done) if each["level"] == "warn"] == ["path"]
    assert scstream(*words, "--strict", folder=folder).returncode == 1


def test_an_unreachable_broker_is_a_finding(folder: Path) -> None:
    done = scstream(
        *("doctor", "--source", "nats://127.0.0.1:9/rows", "--json", "--strict"), folder=folder
    )
    assert done.returncode == 1, done.stderr
    detail = [each for each in found(done) if each["where"] == "source"]
    assert detail
    assert all(each["level"] == "warn" for each in detail)


def test_invalid_settings_are_refused_by_doctor(folder: Path) -> None:
    done = scstream("doctor", "pipeline.toml", "--set", "batch.rows=0", folder=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("scstream: batch.rows must be")
