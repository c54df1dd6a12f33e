"""Speed against the hardware's limit and against k-means: ``python -m benchmarks.speed``.

A ratio is measured in one run, candidate and bare engine by turns, because machines are shared: an
absolute time is not stable from run to run, a ratio is.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
