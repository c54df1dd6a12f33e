"""Video segmentation: ``python -m benchmarks video [--quick] [--method PART]``."""

from benchmarks.video.cli import main

__all__ = ["main"]
