"""``python -m benchmarks.video``: the same as ``python -m benchmarks video``."""

from benchmarks.video.cli import main

if __name__ == "__main__":
    main()
