"""A hostile or damaged model file is refused with one error, and takes no memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from scstream.errors import CheckpointCorrupt
from scstream.io import model_file
from scstream.model import Model
from tests.faults.reader_fuzz import attack, opened, sound_models

SECONDS = 15  # of atheris
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def models():
    return sound_models()


def test_a_truncated_file_is_rejected(models):
    for model in models:
        for length in range(0, len(model), 64):
            with pytest.raises(CheckpointCorrupt):
                Model.from_bytes(model[:length], name="cut")


def test_a_flipped_bit_is_detected(models):
    random = Random(0)
    for _ in range(1000):
        content = bytearray(random.choice(models))
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        with pytest.raises(CheckpointCorrupt):
            Model.from_bytes(bytes(content), name="flipped")


def attacks(models, n):
    random, parts = Random(0), [opened(model) for model in models]
    for _ in range(n):
        attack(b"\0" + random.randbytes(60), parts)


def test_a_sealed_file_with_changed_content_is_rejected_or_valid(models):
    attacks(models, 1500)


@pytest.mark.parametrize(
    ("name", "value"),
    [("_check_state", lambda *_: None), ("DAMAGE", (ValueError, LookupError))],
)
def test_a_reader_without_checks_is_detected(models, monkeypatch, name, value):
    monkeypatch.setattr(model_file, name, value)
    with pytest.raises((AssertionError, TypeError, AttributeError)):
        attacks(models, 3000)


@pytest.mark.slow
def test_atheris_finds_nothing():
    """In a process of its own with bounded memory: libFuzzer ends it at the first other error."""
    fuzz = subprocess.run(
        [sys.executable, "-m", "tests.faults.reader_fuzz", str(SECONDS)],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS + 120,
    )
    assert fuzz.returncode == 0, fuzz.stderr[-3000:]
    runs = re.search(r"number_of_executed_units: (\d+)", fuzz.stderr)
    assert runs, fuzz.stderr[-3000:]
    assert int(runs[1]) > 250
