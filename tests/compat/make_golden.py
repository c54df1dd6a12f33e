"""Write the model file of this version, once per release; files of earlier releases stay.

    python tests/compat/make_golden.py

writes ``golden-<version>.scstream`` and, beside it, what the model answers, as JSON.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scstream import ScStream, __version__

HERE = Path(__file__).parent


def batches(n_batches: int) -> list[NDArray[np.float64]]:
    """Rows that depend on no random generator: they must be the same for ever."""
    draw = np.arange(1440, dtype=np.int64)
    noise = ((draw**2 * 31 + draw * 7919) % 10007).reshape(90, 2, 8).mean(axis=2) / 2500 - 2.0
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[np.arange(90) % 3]
    return [centres + 0.25 * t + np.roll(noise, t, axis=0) for t in range(n_batches)]


def main() -> None:
    *learned, asked = batches(6)
    model = ScStream(half_life=8.0, random_state=2022)
    for X in learned:
        model.partial_fit(X)
    model.save(HERE / f"golden-{__version__}.scstream")
    answers = {
        "labels": model.predict(asked).tolist(),
        "scores": model.score_samples(asked).tolist(),
        "ids": model.state_.ids.tolist(),
        "weights": model.state_.weight.tolist(),
    }
    (HERE / f"golden-{__version__}.json").write_text(json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
