"""What scaling inside the pipeline costs: ``python -m benchmarks prepare``."""
