"""Fail on import cycles between modules of a package.

    python .ci/cycles.py                 # scstream, from src
    python .ci/cycles.py PACKAGE FOLDER  # another package, from another folder

Imports inside functions count. Imports under `if TYPE_CHECKING` do not: they never run.
"""

import sys
from pathlib import Path

import grimp
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


def cycles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Return groups of modules that import each other, directly or through other modules."""
    modules = sorted(graph.modules)
    imports = np.zeros((len(modules), len(modules)), dtype=bool)
    for row, module in enumerate(modules):
        for other in graph.find_modules_directly_imported_by(module):
            imports[row, modules.index(other)] = True
    _, group = connected_components(csr_array(imports), connection="strong")
    shared = np.flatnonzero(np.bincount(group) > 1)
    return [[modules[row] for row in np.flatnonzero(group == each)] for each in shared]


def main(package: str = "scstream", folder: str = "src") -> int:
    """Print every cycle with the imports that make it, and return the exit code."""
    sys.path.insert(0, str(Path(folder).resolve()))
    graph = grimp.build_graph(package, exclude_type_checking_imports=True, cache_dir=None)
    found = cycles(graph)
    for group in found:
        print(f"import cycle among {', '.join(group)}:")
        for module in group:
            for other in sorted(graph.find_modules_directly_imported_by(module) & set(group)):
                for detail in graph.get_import_details(importer=module, imported=other):
                    print(f"    {module}:{detail['line_number']} {detail['line_contents'].strip()}")
    print(f"{len(graph.modules)} modules of {package}: {len(found) or 'no'} import cycles")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
