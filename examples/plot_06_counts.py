"""
Cluster counts that drift
=========================

Rows are counts, for example of words in a text or clicks by kind. ``family="multinomial"`` compares
proportions, accepts sparse rows, and follows clusters whose proportions change slowly.
"""

# %%
# Generate a stream of counts
# ---------------------------
#
# There are ten kinds of rows over forty outcomes. During the stream the proportions of every kind
# move gradually to entirely new ones. Rows are a sparse matrix.

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans

from scstream import ScStream, plot
from scstream.datasets import drifting_multinomials
from scstream.metrics import FullStreamScore, adjusted_rand

stream = drifting_multinomials(
    n_clusters=10,
    n_features=40,
    n_trials=60,
    kind="incremental",
    n_batches=60,
    transition=50,
    batch_size=250,
    random_state=5,
)

# %%
# Compare two half-lives and k-means
# ----------------------------------
#
# Gaussian clusters are moved along their velocity. Counts cannot be moved like that, so only
# forgetting follows the drift, and ``half_life`` determines how fast. Mini-batch k-means is given
# the number of clusters, ten, and proportions instead of counts.


def shares_of(X):
    return X / X.sum(axis=1, keepdims=True)


methods = {
    "half_life=2": (ScStream("multinomial", half_life=2, random_state=0), sparse.csr_array),
    "half_life=10": (ScStream("multinomial", half_life=10, random_state=0), sparse.csr_array),
    "mini-batch k-means, given K": (MiniBatchKMeans(10, n_init=3, random_state=0), shares_of),
}
scores, frames, history = {}, [], plot.History()
for name, (model, prepared) in methods.items():
    scores[name], whole, ids = [], FullStreamScore(), set()
    for batch in stream:
        rows = prepared(batch.X)
        if batch.time > 0:
            predicted = model.predict(rows)
            scores[name].append(adjusted_rand(batch.y, predicted))
            whole.update(batch.y, predicted)
            ids |= set(predicted.tolist()) - {-1}
        model.partial_fit(rows)
        if name == "half_life=2":
            history.record(model)
            if batch.time in (0, 59):
                frames.append(plot.frame(model, rows))
    print(
        f"{name:28} mean ARI {np.mean(scores[name]):.3f}, NMI over the whole stream "
        f"{whole.nmi():.3f}, ids used {len(ids)}"
    )
best = [adjusted_rand(batch.y, batch.oracle()) for batch in stream]
print(f"{'oracle':28} mean ARI {np.mean(best):.3f}")

# %%
# Scores over time
# ----------------

figure, ax = plt.subplots(figsize=(9, 3.5), layout="constrained")
for (name, column), style in zip(scores.items(), ("-o", "-^", "--s"), strict=True):
    ax.plot(range(1, 60), column, style, label=name, markersize=3)
ax.set(xlabel="batch", ylabel="adjusted Rand index", ylim=(0, 1.03))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

# %%
# The first and the last batch
# ----------------------------
#
# The forty outcomes are projected onto the plane in which the clusters differ most; rows are drawn
# as proportions. Ellipses show the variation of a row of sixty draws by chance alone.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for ax, frame, name in zip(axes, frames, ("first batch", "last batch"), strict=True):
    plot.clusters(frame, ax=ax)
    ax.set_title(name)
    ax.xaxis.label.set_size(8)
    ax.yaxis.label.set_size(8)

# %%
# Describe a cluster
# ------------------
#
# ``clusters_`` contains the proportion of every outcome; the largest ones describe a cluster.

table = methods["half_life=2"][0].clusters_
for cluster in list(table)[:5]:
    top = np.argsort(-cluster.mean)[:4]
    words = ", ".join(f"{table.feature_names[d]} {cluster.mean[d]:.0%}" for d in top)
    print(f"cluster {cluster.id}: {cluster.share:.0%} of the rows; {words}")

# %%
# Summary
# -------
#
# - Pass counts directly, dense or CSR, without scaling or embedding.
# - A cluster whose proportions move keeps its id if the half-life is short compared with the
#   movement: ten ids for ten clusters with ``half_life=2``. With a long half-life the old version
#   remains and a new id is created beside it; labels within a batch are nearly as good.
#
# Limits: in *gradual* drift (``kind="gradual"``) a row comes from the old or from the new version
# of its cluster. These are two distributions, and the model makes two clusters of them, while the
# true label is one.
