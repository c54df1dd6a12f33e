"""Hostile model files by atheris: ``python -m tests.faults.reader_fuzz SECONDS`` runs for so long.

Half of the files are bytes as the fuzzer makes them. The other half are sound files whose header
or tensors were changed before they were sealed, so that every checksum holds and the fuzzer gets
to the checks of meaning. Whatever comes, the reader may only say that a file is damaged or too new.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from copy import deepcopy
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import atheris
import numpy as np

from scstream.errors import CheckpointCorrupt, CheckpointTooNew, InputError
from scstream.io import _packing, model_file
from scstream.model import Model, Settings
from tests.faults.fuzz import check_state

MOST_BYTES = 4 << 30  # of address space: what a file of a few kilobytes may never need
ODD = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, "", "x", [], {}, [[]]),
    *({"$tensor": "state.past"}, {"$tensor": "none"}, {"$float": "nan"}, {"$float": "inf"}),
    *({"$float": "x"}, {"$family": {"name": "gaussian", "hyperparameters": {}}}, "gaussian"),
)


def sound_models() -> list[bytes]:
    """Small model files of several families, with archives, histories and events."""
    rng = np.random.default_rng(0)
    models = []
    for family in ("gaussian", "diagonal", "multinomial", "categorical"):
        learner = Settings.of({"family": family, "random_state": 0, "n_jobs": 1})
        for shift in (0, 40, 0):
            if family in ("gaussian", "diagonal"):
                X = rng.normal(size=(30, 2)) + shift
            else:
                X = rng.integers(0, 3, size=(30, 3)).astype(float)
            learner, _, _ = learner.update(X)
        models.append(learner.to_bytes())
    return models


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to every entry of a header."""
    found = [path] if path else []
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(entry, (*path, key))
    return found


def change_header(choose: atheris.FuzzedDataProvider, header: dict[str, Any]) -> None:
    paths = places(header)
    path = paths[choose.ConsumeIntInRange(0, len(paths) - 1)]
    owner: Any = header
    for key in path[:-1]:
        if not isinstance(owner, dict | list):
            return
        owner = owner[key]
    action = choose.ConsumeIntInRange(0, 4)
    if action == 0 and isinstance(owner, dict):
        del owner[path[-1]]
    elif action == 1 and isinstance(owner, dict):
        owner[choose.ConsumeUnicodeNoSurrogates(6)] = owner.pop(path[-1])
    elif action == 2:
        owner[path[-1]] = [owner[path[-1]]] * choose.ConsumeIntInRange(0, 3)
    else:
        owner[path[-1]] = deepcopy(ODD[choose.ConsumeIntInRange(0, len(ODD) - 1)])


def change_tensors(choose: atheris.FuzzedDataProvider, tensors: dict[str, Any]) -> None:
    name = sorted(tensors)[choose.ConsumeIntInRange(0, len(tensors) - 1)]
    values = np.array(tensors[name])
    action = choose.ConsumeIntInRange(0, 5)
    if action == 0:
        del tensors[name]
    elif action == 1:
        tensors[choose.ConsumeUnicodeNoSurrogates(6) or "t"] = tensors.pop(name)
    elif action == 2:
        tensors[name] = values.reshape(-1)
    elif action == 3:
        tensors[name] = values[: choose.ConsumeIntInRange(0, 3)]
    elif action == 4:
        tensors[name] = values.astype(np.float64 if values.dtype == np.int64 else np.int64)
    elif values.size:
        odd = (np.nan, np.inf, -1.0, 1e308, -1e308, 5e-324)[choose.ConsumeIntInRange(0, 5)]
        with np.errstate(invalid="ignore"):
            values.reshape(-1)[choose.ConsumeIntInRange(0, values.size - 1)] = (
                odd if values.dtype == np.float64 else choose.ConsumeInt(8)
            )
        tensors[name] = values


def opened(model: bytes) -> tuple[str, dict[str, Any]]:
    """Header, as text, and tensors of a sound file."""
    header, tensors = _packing.unseal(model)
    del header["tensors"]
    return json.dumps(header), dict(tensors)


def changed(choose: atheris.FuzzedDataProvider, text: str, tensors: dict[str, Any]) -> bytes:
    """A sound file, changed in one to four places and sealed again."""
    header, tensors = json.loads(text), dict(tensors)
    for _ in range(choose.ConsumeIntInRange(1, 4)):
        if choose.ConsumeBool() and tensors:
            change_tensors(choose, tensors)
        else:
            change_header(choose, header)
    return _packing.seal(header, tensors)


def read(content: bytes, *, resealed: bool) -> None:
    """Read a file; one that is accepted must hold a sound model."""
    try:
        # A file may hold what rounding does to sums; the family repairs it.
        check_state(Model.from_bytes(content, name="fuzz"), rounding=4 * model_file._ROUNDING)
    except (CheckpointCorrupt, CheckpointTooNew):
        pass
    except InputError as error:  # a sealed file may say that its kernel was the user's own
        if not (resealed and "kernel" in str(error)):
            raise


def watch(*modules: ModuleType) -> None:
    """Let the fuzzer see which lines it reaches."""
    for module in modules:
        for value in list(vars(module).values()):
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                atheris.instrument_func(value)


def attack(content: bytes, models: list[tuple[str, dict[str, Any]]]) -> None:
    """Read what the fuzzer sends: as it is, or as a choice of changes to a sound file."""
    if not content or content[0] % 2:
        read(content[1:], resealed=False)
        return
    choose = atheris.FuzzedDataProvider(content[1:])
    text, tensors = models[choose.ConsumeIntInRange(0, len(models) - 1)]
    try:
        sealed = changed(choose, text, tensors)
    except (ValueError, TypeError, OverflowError):
        return  # what cannot be sealed cannot be a file
    read(sealed, resealed=True)


def main(seconds: int, seed: int = 1) -> None:
    models = sound_models()
    parts = [opened(model) for model in models]
    watch(_packing, model_file)
    with tempfile.TemporaryDirectory() as folder:
        for i, model in enumerate(models):
            Path(folder, f"raw-{i}").write_bytes(b"\1" + model)
            Path(folder, f"sealed-{i}").write_bytes(b"\0" + bytes(range(i, 100 + i)) * 3)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        os.chdir(folder)  # where libFuzzer leaves a file that breaks the reader
        arguments = ["fuzz", folder, f"-max_total_time={seconds}", f"-seed={seed}"]
        limits = ["-max_len=20000", "-rss_limit_mb=2048", "-print_final_stats=1"]
        atheris.Setup(
            [*arguments, *limits],
            lambda content: attack(content, parts),
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
