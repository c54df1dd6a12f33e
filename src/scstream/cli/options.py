"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path | None, typer.Argument(metavar="[PIPELINE.TOML]", help="Settings file.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="One setting, such as batch.rows=500."),
]
Source = Annotated[
    str | None,
    typer.Option(metavar="KIND:REST", help="file:rows.csv, nats://host:4222/stream, stdin ..."),
]
Sink = Annotated[str | None, typer.Option(metavar="KIND:REST", help="file:labels.csv, stdout ...")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
Folder = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="DIR", help="Folder or s3:// address of checkpoints."),
]
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
        help="csv, jsonl, parquet or arrow; by default from the file name, jsonl for stdin.",
    ),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="PIPELINE.TOML",
        help="Read schema, steps, model and batch from this file.",
    ),
]
BatchRows = Annotated[
    int | None,
    typer.Option("--batch-rows", metavar="N", min=1, help="Rows per batch; by default 1000."),
]
Family = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Distribution of a cluster: auto, gaussian, diagonal, direction, multinomial ...",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
