"""The settings of a command: file, environment and flags together, parsed and printed."""

from __future__ import annotations

import json
import os
from pathlib import Path

from scstream.cli.secrets import SecretRedactor
from scstream.cli.settings import (
    Key,
    Layer,
    Setting,
    Tables,
    merge_layers,
    read_environment,
    read_file,
    read_sets,
    to_tables,
)


def resolve(redactor: SecretRedactor, file: Path | None, *flags: Layer) -> Layer:
    """Return all given settings, parsed. The redactor collects the secrets first."""
    from scstream.cli.defaults import parse_raw  # loads numpy, which --help must not

    layers = [] if file is None else [read_file(file, os.environ)]
    merged = merge_layers(*layers, read_environment(os.environ), *flags)
    for key, setting in merged.items():
        redactor.collect(key[-1], setting.value)
    return parse_raw(merged)


def flag_settings(
    sets: list[str] | None, folder: str | None = None, **addresses: str | None
) -> Layer:
    """Return the settings given by flags; `--set` overrides the others."""
    layer: Layer = {}
    for section, text in addresses.items():
        if text is not None:
            from scstream.cli.addresses import read_address

            layer |= read_address(section, text)
    if folder is not None:
        layer["checkpoint", "folder"] = Setting(folder, "--checkpoint")
    return merge_layers(layer, read_sets(sets or []))


def model_flags(
    *, batch_rows: int | None = None, seed: int | None = None, **parameters: object
) -> Layer:
    """Return the settings of `--batch-rows`, `--seed` and of flags named after model parameters."""
    given: dict[Key, tuple[object, str]] = {
        ("batch", "rows"): (batch_rows, "--batch-rows"),
        ("model", "random_state"): (seed, "--seed"),
    }
    for name, value in parameters.items():
        given["model", name] = (value, f"--{name.replace('_', '-')}")
    return {
        key: Setting(value, flag, raw=key == ("model", "half_life"))  # a number, or text
        for key, (value, flag) in given.items()
        if value is not None
    }


def store_options(redactor: SecretRedactor, sets: list[str] | None) -> Tables | None:
    """Return `checkpoint.options` from flags and variables: how to reach an object store."""
    tables = to_tables(resolve(redactor, None, flag_settings(sets)))
    options: Tables | None = tables.get("checkpoint", {}).get("options")
    return options


def print_settings(layer: Layer, redactor: SecretRedactor, *, as_json: bool) -> None:
    """Print every setting of a pipeline with its value and origin, secrets redacted."""
    from scstream.cli.defaults import with_defaults
    from scstream.cli.render import print_json, print_table
    from scstream.stream.config import build
    from scstream.stream.store import MemoryStore

    build(to_tables(layer), store=MemoryStore())  # raises if the settings are not valid
    shown = {
        ".".join(key): (redactor.redact_value(key[-1], setting.value), setting.origin)
        for key, setting in with_defaults(layer).items()
    }
    if as_json:
        print_json({name: {"value": value, "origin": o} for name, (value, o) in shown.items()})
        return
    rows = [
        [name, "" if value is None else json.dumps(value, default=str), origin]
        for name, (value, origin) in shown.items()
    ]
    print_table(["setting", "value", "from"], rows)
