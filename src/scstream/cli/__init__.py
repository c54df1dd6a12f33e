"""The command line. `commands` declares the options of each command; the other modules run it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from scstream.errors import missing_extra


def main() -> None:
    """Run the command line. Its libraries are imported only here."""
    for library in ("typer", "rich"):
        if find_spec(library) is None:
            sys.stderr.write(f"scstream: {missing_extra(library, 'cli')}\n")
            sys.exit(2)
    from scstream.cli.main import run_app

    run_app()
