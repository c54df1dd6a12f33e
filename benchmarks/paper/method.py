"""What a method is: where its adapter stands, what it is told, and which knobs are tuned.

Nothing here imports a peer, and workers of any Python from 3.8 read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.paper.knobs import BOTH, COUNTS, REAL, Choice, Knob, Real, Whole


@dataclass(frozen=True)
class Method:
    """A method as data.

    The adapter is ``module.factory(n_features=, k=, kind=, seed=, **params)``: an object with
    ``learn(X)``, ``predict(X)`` (one whole number a row; -1 is noise) and ``n_clusters``. `k` is
    the true number of clusters, which only a method with `given_k` may look at.
    """

    name: str
    package: str  # as pip knows it: its version goes into the results
    module: str  # in benchmarks.paper.methods
    factory: str
    environment: str = ""  # "" is this interpreter; others are built from environments/<name>.txt
    given_k: bool = False
    kinds: frozenset[str] = BOTH
    sparse: bool = False  # takes CSR rows; others get dense ones
    space: tuple[Knob, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)  # beyond the package's own defaults

    def knobs(self, kind: str) -> tuple[Knob, ...]:
        """The knobs that mean something for a kind of rows."""
        return tuple(knob for knob in self.space if kind in knob.kinds)

    def untuned(self, kind: str) -> dict[str, Any]:
        """Parameters when nothing is tuned: the package's own defaults and what must be given."""
        return {**self.defaults, **{knob.name: knob.default for knob in self.knobs(kind)}}


# Rows of counts for a method of Euclidean distances: as they are, or square roots of unit length.
ROWS = Choice("rows", "raw", ("raw", "unit"), kinds=COUNTS)

# What the paper tuned: half-life and prior. Its form of prior is for rows that are standardised.
_PAPERS_KNOBS = (
    Real("half_life", 5.0, 0.5, 50.0),
    Choice("prior", "auto", ("auto", "given")),
    Real("freedom", 15.0, 2.0, 500.0, kinds=REAL),  # nu less the number of features
    Real("psi", 1.0, 0.03, 3.0, kinds=REAL),
    Real("concentration", 1.0, 1e-3, 10.0, kinds=COUNTS),
)

_OURS = (
    Method(*("scstream", "scstream", "ours", "default"), sparse=True, space=_PAPERS_KNOBS),
    # The paper tuned its prior on every set; untuned it gets ours, drawn from the first batch.
    Method(
        *("scstream, paper's algorithm", "scstream", "ours", "paper"),
        sparse=True,
        space=_PAPERS_KNOBS,
    ),
)

_SCIKIT_LEARN = (
    Method(
        *("scikit-learn MiniBatchKMeans", "scikit-learn", "sk", "mini_batch_kmeans"),
        given_k=True,
        sparse=True,
        space=(Whole("n_init", 3, 1, 10), Real("reassignment_ratio", 0.01, 1e-4, 0.5), ROWS),
    ),
    Method(
        *("scikit-learn Birch", "scikit-learn", "sk", "birch"),
        given_k=True,
        sparse=True,
        space=(Real("threshold", 0.5, 1e-2, 10.0), Whole("branching_factor", 50, 10, 200), ROWS),
    ),
    Method(
        *("scikit-learn GaussianMixture, warm start", "scikit-learn", "sk", "gaussian_mixture"),
        given_k=True,
        space=(
            Choice("covariance_type", "full", ("full", "diag")),
            Real("reg_covar", 1e-6, 1e-6, 1.0),
            Whole("max_iter", 100, 5, 200),
            ROWS,
        ),
    ),
    # Its default of one component is no mixture: 30 is where it is cut off.
    Method(
        *("scikit-learn BayesianGaussianMixture, refitted", "scikit-learn", "sk"),
        factory="bayesian_mixture",
        space=(
            Whole("n_components", 30, 10, 100),
            Choice("covariance_type", "full", ("full", "diag")),
            Real("weight_concentration_prior", 1 / 30, 1e-4, 10.0),
            Whole("window", 1, 1, 5),  # batches
            ROWS,
        ),
    ),
    Method(
        *("scikit-learn HDBSCAN, refitted", "scikit-learn", "sk", "hdbscan"),
        space=(
            Whole("min_cluster_size", 5, 3, 100),
            Whole("min_samples", 5, 1, 50),
            Whole("window", 1, 1, 5),  # batches
            ROWS,
        ),
    ),
)

_HALFLIFE = Real("halflife", 0.5, 1e-3, 0.9)  # the step of a centre towards a row
_SIGMA = Real("sigma", 1.0, 0.1, 30.0)  # spread of the centres at the start
_RIVER = (
    Method(
        *("river KMeans", "river", "river_", "kmeans"),
        given_k=True,
        space=(_HALFLIFE, _SIGMA, ROWS),
    ),
    Method(
        *("river STREAMKMeans", "river", "river_", "stream_kmeans"),
        given_k=True,
        space=(Whole("chunk_size", 10, 5, 1000), _HALFLIFE, _SIGMA, ROWS),
    ),
    Method(
        *("river CluStream", "river", "river_", "clustream"),
        given_k=True,
        space=(
            Whole("max_micro_clusters", 100, 50, 400),
            Whole("micro_cluster_r_factor", 2, 1, 5),
            Whole("time_window", 1000, 500, 20_000),
            _HALFLIFE,
            _SIGMA,
            ROWS,
        ),
    ),
    Method(
        *("river DenStream", "river", "river_", "denstream"),
        space=(
            Real("epsilon", 0.02, 5e-3, 20.0),
            Real("decaying_factor", 0.25, 1e-3, 1.0),
            Real("beta", 0.75, 0.55, 1.0, log=False),
            Real("mu", 2.0, 2.0, 20.0),
            ROWS,
        ),
    ),
    Method(
        *("river DBSTREAM", "river", "river_", "dbstream"),
        space=(
            Real("clustering_threshold", 1.0, 0.05, 20.0),
            Real("fading_factor", 0.01, 1e-4, 0.1),
            Whole("cleanup_interval", 2, 2, 1000),
            Real("intersection_factor", 0.3, 0.01, 0.5),
            Real("minimum_weight", 1.0, 1.0, 20.0),
            ROWS,
        ),
    ),
    Method(
        *("river TextClust", "river", "river_", "textclust"),
        kinds=COUNTS,
        sparse=True,
        space=(
            Real("radius", 0.3, 0.1, 0.95),
            Real("fading_factor", 5e-4, 1e-5, 1e-2),
            Whole("tgap", 100, 50, 1000),
            Choice("auto_r", False, (False, True)),
        ),
    ),
)

_HORIZON = Whole("horizon", 1000, 200, 20_000)  # rows
_MOA = (
    Method(
        *("MOA ClusTree", "capymoa", "capymoa_", "clustree", "capymoa"),
        given_k=True,
        space=(_HORIZON, Whole("height", 8, 4, 12), ROWS),
    ),
    Method(
        *("MOA CluStream", "capymoa", "capymoa_", "clustream", "capymoa"),
        given_k=True,
        space=(_HORIZON, Whole("kernels", 100, 50, 400), Whole("radius", 2, 1, 5), ROWS),
    ),
    Method(
        *("MOA StreamKM", "capymoa", "capymoa_", "stream_km", "capymoa"),
        given_k=True,
        space=(Whole("coreset", 10_000, 500, 10_000), ROWS),
    ),
    Method(
        *("MOA BICO", "capymoa", "capymoa_", "bico", "capymoa"),
        given_k=True,
        space=(Whole("features", 1000, 200, 5000), ROWS),
    ),
    Method(
        *("MOA DenStream", "capymoa", "capymoa_", "denstream", "capymoa"),
        space=(
            Real("epsilon", 0.02, 5e-3, 1.0),
            Real("beta", 0.2, 0.05, 1.0),
            Real("mu", 1.0, 1.0, 20.0),
            Real("offline", 2.0, 2.0, 10.0),
            Real("decay", 0.25, 1e-3, 1.0),
            ROWS,
        ),
    ),
    # Its cells have width 1; a grid over hundreds of counts has more cells than a number can hold.
    Method(
        *("MOA D-Stream", "capymoa", "capymoa_", "dstream", "capymoa"),
        kinds=REAL,
        space=(
            Real("size", 1.0, 0.05, 5.0),
            Real("decay", 0.998, 0.99, 0.9999, log=False),
            Real("dense", 3.0, 1.1, 10.0),
            Real("thin", 0.8, 0.1, 0.99, log=False),
        ),
    ),
)

_BNPY = (
    # Of a stream it must be told how many components and rows there will be at most.
    Method(
        *("bnpy SoVB", "bnpy", "bnpy_", "sovb", "bnpy"),
        sparse=True,
        space=(
            Whole("truncation", 30, 10, 300),
            Whole("population", 100_000, 1000, 10_000_000),
            Choice("initname", "randexamples", ("randexamples", "bregmankmeans")),
            Real("gamma0", 1.0, 0.1, 100.0),
            Real("rhodelay", 1.0, 1.0, 100.0),
            Real("rhoexp", 0.5, 0.5, 1.0, log=False),
            Real("sF", 1.0, 1e-2, 10.0, kinds=REAL),
            Real("kappa", 1e-4, 1e-5, 1.0, kinds=REAL),
            Choice("ECovMat", "eye", ("eye", "covdata"), kinds=REAL),
            Real("lam", 0.1, 1e-3, 10.0, kinds=COUNTS),
        ),
    ),
)

_COMPILED = (
    Method(
        *("faiss k-means, warm start", "faiss-cpu", "faiss_", "kmeans", "compiled"),
        given_k=True,
        space=(Whole("niter", 25, 1, 50), ROWS),
    ),
    Method(
        *("betula k-means", "betula-cluster", "betula_", "tree", "compiled"),
        given_k=True,
        defaults={"method": "kmeans"},
        space=(Real("decay", 1.0, 0.1, 1.0), Whole("max_leaves", 2000, 200, 5000), ROWS),
    ),
    Method(
        *("betula mixture", "betula-cluster", "betula_", "tree", "compiled"),
        given_k=True,
        space=(
            Choice("method", "gmm", ("gmm", "gmm-full")),
            Real("decay", 1.0, 0.1, 1.0),
            Whole("max_leaves", 2000, 200, 5000),
            ROWS,
        ),
    ),
    Method(
        *("betula DenStream", "betula-cluster", "betula_", "denstream", "compiled"),
        space=(
            Real("eps", 1.0, 0.05, 20.0),
            Real("decay", 0.25, 1e-5, 0.5),
            Real("mu", 10.0, 6.0, 100.0),
            ROWS,
        ),
    ),
    Method(
        *("betula DBSTREAM", "betula-cluster", "betula_", "dbstream", "compiled"),
        space=(
            Real("r", 1.0, 0.05, 20.0),
            Real("decay", 0.01, 1e-5, 0.5),
            Real("alpha", 0.1, 0.01, 0.9),
            Real("min_weight", 2.0, 1.0, 50.0),
            ROWS,
        ),
    ),
)

_ALL = (*_OURS, *_SCIKIT_LEARN, *_RIVER, *_MOA, *_BNPY, *_COMPILED)
METHODS: dict[str, Method] = {method.name: method for method in _ALL}
