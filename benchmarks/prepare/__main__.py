"""``python -m benchmarks.prepare``: the same as ``python -m benchmarks prepare``."""

from benchmarks.prepare.cli import main

if __name__ == "__main__":
    main()
