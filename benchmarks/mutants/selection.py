"""Which mutants are tried: those chosen by hand, and a sample of every module."""

from __future__ import annotations

from benchmarks.mutants.chosen import chosen_mutants
from benchmarks.mutants.operators import SOURCES, Mutant, all_mutants

_LINES_PER_MUTANT = 100
_FOLDERS = ("core", "families")
# The exact sampler has statistical tests of minutes, and planted errors of its own (tests/exact).
_LEFT_OUT = ("__init__", "exact", "exact_moves", "partition")


def modules() -> list[str]:
    """Names of the modules that are changed."""
    files = [
        path for folder in _FOLDERS for path in sorted((SOURCES / "scstream" / folder).glob("*.py"))
    ]
    names = [
        f"scstream.{path.parent.name}.{path.stem}" for path in files if path.stem not in _LEFT_OUT
    ]
    return [*names, "scstream.kernels.reference"]


def selected_mutants(*, quick: bool = False) -> list[Mutant]:
    """One mutant for so many lines of each module, at least one; the same ones every time."""
    if quick:
        return [mutant for module in modules() for mutant in sample(module, 1)]
    sampled = [mutant for module in modules() for mutant in sample(module, size(module))]
    return list(dict.fromkeys([*chosen_mutants(), *sampled]))


def sample(module: str, n: int) -> list[Mutant]:
    """The first mutants of a module in the order of their hashes."""
    return sorted(all_mutants(module), key=lambda mutant: mutant.rank)[:n]


def size(module: str) -> int:
    path = SOURCES.joinpath(*module.split(".")).with_suffix(".py")
    return max(1, round(len(path.read_text().splitlines()) / _LINES_PER_MUTANT))
