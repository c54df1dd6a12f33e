"""``python -m benchmarks.density`` is ``python -m benchmarks density``."""

from benchmarks.density import main

if __name__ == "__main__":
    main()
