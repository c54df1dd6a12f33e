"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from scstream.errors import missing_extra

try:
    import typer
except ImportError as error:
    raise missing_extra("typer", "cli") from error

File = Annotated[Path | None, typer.Argument(metavar="[PIPELINE.TOML]", help="Settings.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="One setting, such as batch.rows=500."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
Folder = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="DIR", help="Folder or s3:// address of checkpoints."),
]
