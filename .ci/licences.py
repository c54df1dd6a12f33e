"""Licences of all that scstream brings along, as the installed packages declare them.

python .ci/licences.py          fail on a licence that is on neither list
python .ci/licences.py --list   print a line for each package as well

Run it where all extras are installed. What everybody installs must be permissive; an extra may also
bring a library whose own files stay open (MPL, LGPL): it is imported, neither changed nor shipped.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import NamedTuple

from locks import ROOT, Lock, user_extras, wanted
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PERMISSIVE = frozenset(
    {
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0"),
        *("MIT-CMU", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    }
)
IN_EXTRAS = PERMISSIVE | {"LGPL-3.0-only", "LGPL-3.0-or-later", "MPL-2.0"}
SPDX = {  # what packages without an expression say, in the field or in their classifiers
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
TOKEN = re.compile(r"[()]|\b(?:AND|OR)\b|[\w.+-]+(?: WITH [\w.+-]+)?")


class Found(NamedTuple):
    """A package, its licence as an SPDX expression, and the extra that brings it, if one does."""

    name: str
    licence: str
    extra: str


def accepted(expression: str, allowed: frozenset[str]) -> bool:
    """Whether an SPDX expression can be met with allowed licences only."""
    tokens = TOKEN.findall(expression)

    def either() -> bool:
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value = both() or value
        return value

    def both() -> bool:
        value = single()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value = single() and value
        return value

    def single() -> bool:
        if not tokens:
            return False
        token = tokens.pop(0)
        if token != "(":
            return token in allowed
        value = either()
        return bool(tokens) and tokens.pop(0) == ")" and value

    return either() and not tokens


def licence(package: Distribution) -> str:
    """Licence of a package as an SPDX expression; its own words where they are no such."""
    fields = package.metadata.json
    if expression := fields.get("license_expression"):
        return str(expression)
    stated = str(fields.get("license", "")).strip()
    if stated in SPDX or (stated and "\n" not in stated and accepted(stated, IN_EXTRAS)):
        return SPDX.get(stated, stated)
    kinds = [
        line.rpartition(" :: ")[2]
        for line in fields.get("classifier", [])
        if line.startswith("License :: ")
    ]
    words = sorted({SPDX.get(kind, kind) for kind in kinds})
    return " AND ".join(words) or stated.partition("\n")[0] or "none declared"


def closure(extra: str) -> dict[str, Distribution | None]:
    """Every package that scstream brings with an extra; None for one that is not installed."""
    found: dict[str, Distribution | None] = {}
    todo = list(wanted(Lock(ROOT / "pyproject.toml", (extra,) if extra else (), hashes=False)))
    seen = set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        step = (name, frozenset(requirement.extras))
        if step in seen or not _applies(requirement):
            continue
        seen.add(step)
        try:
            found[name] = package = distribution(name)
        except PackageNotFoundError:
            found[name] = None
        else:
            todo += _asked_for(package, requirement.extras)
    return found


def _asked_for(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for requirement in map(Requirement, package.requires or []):
        if any(_applies(requirement, extra) for extra in ("", *extras)):
            requirement.marker = None
            yield requirement


def _applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def survey() -> list[Found]:
    """Every package, under the first that brings it: scstream itself, then its extras by name."""
    found: dict[str, Found] = {}
    for extra in ("", *user_extras()):
        for name, package in closure(extra).items():
            words = "not installed" if package is None else licence(package)
            found.setdefault(name, Found(name, words, extra))
    return sorted(found.values())


def main(*words: str) -> None:
    """Check all, and end with a sentence for each package that is not in order."""
    packages = survey()
    if words == ("--list",):
        for name, stated, extra in packages:
            sys.stdout.write(f"{name:28} {extra or 'mandatory':10} {stated}\n")
    wrong = [
        f"{name}, which {f'the extra {extra}' if extra else 'everybody'} installs: {stated}"
        for name, stated, extra in packages
        if not accepted(stated, IN_EXTRAS if extra else PERMISSIVE)
    ]
    if wrong:
        wrong += ["Leave the package out, or add its licence to .ci/licences.py with a reason."]
        sys.exit("\n".join(wrong))
    sys.stdout.write(f"{len(packages)} packages, all with licences that are on the list.\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
