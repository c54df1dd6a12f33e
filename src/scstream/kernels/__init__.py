"""The numerical kernels: a numpy reference and a compiled implementation with the same methods.

A model chooses its kernels once, when it starts or is loaded, and its family carries them. The
environment variable ``SCSTREAM_KERNELS`` sets the choice for models that do not make one:

"auto"
    The compiled kernels if they are installed, otherwise numpy. This is the default.
"native"
    The compiled kernels; an error if they are not installed.
"numpy"
    The reference.

``SCSTREAM_ISA`` selects the instruction set of the compiled kernels of this process, such as
"avx2". By default it is the best that this machine offers.
"""

from __future__ import annotations

import os

from scstream.errors import InputError
from scstream.kernels.native import load_native, select_isa
from scstream.kernels.reference import REFERENCE, ClusterDraws, Kernels

__all__ = [
    "REFERENCE",
    "ClusterDraws",
    "Kernels",
    "adopt_kernels",
    "choose_kernels",
    "kernels_in_use",
]


def choose_kernels(choice: str | None = None) -> Kernels:
    """Return the kernels for a model: "auto", "native" or "numpy"; None asks the environment."""
    if choice is None:
        choice = os.environ.get("SCSTREAM_KERNELS", "auto")
    if choice not in ("auto", "native", "numpy"):
        raise InputError(f"SCSTREAM_KERNELS must be 'auto', 'native' or 'numpy', not {choice!r}.")
    native = None if choice == "numpy" else load_native()
    if native is None and choice == "native":
        raise InputError(
            "the compiled kernels are not installed; install a wheel for this platform or a C++17 "
            "compiler, or unset SCSTREAM_KERNELS to use the numpy kernels."
        )
    return REFERENCE if native is None else native


def kernels_in_use() -> str:
    """Return the name of the kernels of new models: "numpy", or an instruction set."""
    return choose_kernels().name


def adopt_kernels(name: str) -> None:
    """Use the kernels of another process, by their name, for all new models of this process."""
    os.environ["SCSTREAM_KERNELS"] = "numpy" if name == "numpy" else "native"
    if name != "numpy":
        select_isa(name)
