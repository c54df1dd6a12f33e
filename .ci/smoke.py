"""Check that an installed scstream works on the expected kernels.

python .ci/smoke.py native|numpy
"""

import sys
from pathlib import Path

import scstream
from scstream.datasets import drifting_gaussians


def main(expected: str) -> None:
    """Learn three batches, and exit with a message if anything is unexpected."""
    home = Path(scstream.__file__).resolve().parent
    if Path(__file__).resolve().parents[1] / "src" in home.parents:
        sys.exit(f"this is not the installed package: {home}")
    if not (home / "serve" / "page" / "index.html").is_file():
        sys.exit("the package does not contain the live page")
    config = scstream.show_config(as_dict=True)
    if config["kernels"] != expected:
        sys.exit(f"{expected} kernels expected, got {config['kernels']}: {config['why']}")
    model = scstream.ScStream(random_state=0)
    for batch in drifting_gaussians(n_clusters=3, n_batches=3, batch_size=500, random_state=0):
        model.partial_fit(batch.X)
    if model.n_clusters_ != 3:
        sys.exit(f"3 clusters expected, got {model.n_clusters_}")
    scstream.show_config()


main(*sys.argv[1:])
