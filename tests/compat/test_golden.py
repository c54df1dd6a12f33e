"""Model files of every release stay readable, and answer what they answered."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from scstream import ScStream, __version__

HERE = Path(__file__).parent
GOLDEN = sorted(HERE.glob("golden-*.scstream"))

spec = importlib.util.spec_from_file_location("make_golden", HERE / "make_golden.py")
assert spec is not None
assert spec.loader is not None
make_golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_golden)


def test_this_version_has_a_golden_file() -> None:
    assert HERE / f"golden-{__version__}.scstream" in GOLDEN


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_file_is_read_and_goes_on(path: Path) -> None:
    answers = json.loads(path.with_suffix(".json").read_text())
    asked = make_golden.batches(6)[-1]
    model = ScStream.load(path)
    assert model.state_.ids.tolist() == answers["ids"]
    assert model.state_.weight.tolist() == pytest.approx(answers["weights"], rel=1e-9)
    assert model.predict(asked).tolist() == answers["labels"]
    assert model.score_samples(asked) == pytest.approx(answers["scores"], rel=1e-9)
    model.partial_fit(asked)
    assert np.isfinite(model.state_.past).all()
