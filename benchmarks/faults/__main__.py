"""``python -m benchmarks.faults``: the same as ``python -m benchmarks faults``."""

from benchmarks.faults.cli import main

if __name__ == "__main__":
    main()
