"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import scstream
from scstream.kernels import kernels_in_use


def describe() -> dict[str, Any]:
    """CPU, BLAS, threads, versions, and the kernels in use."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "blas": sorted(
            {_library(info) for info in threadpool_info() if info["user_api"] == "blas"}
        ),
        "kernels": kernels(),
        "versions": {
            "scstream": scstream.__version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
    }


def kernels() -> str:
    """Name the kernels in use."""
    name = kernels_in_use()
    return name if name == "numpy" else f"native, {name}"


def sentence(machine: dict[str, Any]) -> str:
    """The description as text."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores; {'; '.join(machine['blas'])}; "
        f"kernels: {machine['kernels']}; {versions}."
    )


def _library(info: dict[str, Any]) -> str:
    name, version = info["internal_api"], info.get("version")
    return f"{name} {version} ({info.get('architecture', '?')}), {info['num_threads']} thread(s)"


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    found = [re.search(rf"^{field}\s*:\s*(.*)$", text, re.M) for field in ("model name", "model")]
    if not all(found):
        return platform.processor() or platform.machine()
    name, model = (match.group(1) for match in found if match)
    widths = [isa for isa in ("avx512f", "avx2") if f" {isa} " in text]
    return f"{name} (model {model}{', ' + widths[0] if widths else ''})"
