"""The Python scripts of the folder .ci, as modules."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    """Import .ci/<name>.py; such scripts import each other by name."""
    folder = str(ROOT / ".ci")
    sys.path.insert(0, folder)
    try:
        return import_module(name)
    finally:
        sys.path.remove(folder)
