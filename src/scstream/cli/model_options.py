"""Options that several commands about models have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from scstream.errors import missing_extra

try:
    import typer
except ImportError as error:
    raise missing_extra("typer", "cli") from error

Rows = Annotated[
    str,
    typer.Argument(
        metavar="ROWS",
        help="File, folder or pattern of CSV, JSON lines, Parquet or Arrow; - is stdin.",
    ),
]
Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Model file, or folder or s3:// address of checkpoints."),
]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="FORMAT",
        help="csv, jsonl, parquet or arrow; by default the name says so, stdin is jsonl.",
    ),
]
Settings = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="PIPELINE.TOML",
        help="Take schema, steps, model and batch from there.",
    ),
]
BatchRows = Annotated[
    int | None,
    typer.Option("--batch-rows", metavar="N", min=1, help="Rows of a batch; by default 1000."),
]
Family = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What a cluster is: gaussian, diagonal, multinomial, poisson, bernoulli ...",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
