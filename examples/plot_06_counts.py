"""
Counts that drift: clusters of words
====================================

Rows are counts, as of words in a text or clicks by kind. ``family="multinomial"`` compares shares,
not lengths, takes sparse rows as they are, and follows clusters whose shares change slowly.
"""

# %%
# A stream of counts
# ------------------
#
# Ten kinds of rows over forty outcomes; in the course of the stream the shares of every kind move,
# bit by bit, to entirely new ones. Rows come as a sparse matrix.

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
# Two memories and a rival
# ------------------------
#
# Gaussian clusters are moved along their way; counts cannot be moved like that, so here it is
# forgetting alone that follows the drift, and ``half_life`` decides how fast. Mini-batch k-means is
# told that there are ten clusters, and sees shares instead of counts.


def shares_of(X):
    return X / X.sum(axis=1, keepdims=True)


methods = {
    "half_life=2": (ScStream("multinomial", half_life=2, random_state=0), sparse.csr_array),
    "half_life=10": (ScStream("multinomial", half_life=10, random_state=0), sparse.csr_array),
    "mini-batch k-means, told K": (MiniBatchKMeans(10, n_init=3, random_state=0), shares_of),
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
            history.see(model)
            if batch.time in (0, 59):
                frames.append(plot.frame(model, rows))
    print(
        f"{name:28} mean ARI {np.mean(scores[name]):.3f}, NMI over the whole stream "
        f"{whole.nmi():.3f}, ids used {len(ids)}"
    )
best = [adjusted_rand(batch.y, batch.oracle()) for batch in stream]
print(f"{'oracle':28} mean ARI {np.mean(best):.3f}")

# %%
# How the scores went
# -------------------

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
# Forty outcomes, seen from where the clusters differ most; rows are drawn as shares. Ellipses are
# what chance alone would do to a row of sixty draws.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for ax, frame, name in zip(axes, frames, ("first batch", "last batch"), strict=True):
    plot.clusters(frame, ax=ax)
    ax.set_title(name)
    ax.xaxis.label.set_size(8)
    ax.yaxis.label.set_size(8)

# %%
# What a cluster is about
# -----------------------
#
# ``clusters_`` holds the share of every outcome; the largest ones name a cluster.

table = methods["half_life=2"][0].clusters_
for cluster in list(table)[:5]:
    top = np.argsort(-cluster.mean)[:4]
    words = ", ".join(f"{table.feature_names[d]} {cluster.mean[d]:.0%}" for d in top)
    print(f"cluster {cluster.id}: {cluster.share:.0%} of the rows; {words}")

# %%
# What to take away
# -----------------
#
# - Give counts as they are, dense or CSR; no scaling, no embedding.
# - A cluster whose shares move keeps its id if the memory is short against the move: ten ids for
#   ten clusters with ``half_life=2``. With a long memory the old version stays behind, a new id is
#   founded beside it, and ids are used up; labels within a batch are nearly as good.
#
# Where it fails: in *gradual* drift (``kind="gradual"``) a row comes from the old or from the new
# version of its cluster, and the two are two distributions. The model makes two clusters of them,
# which is what it sees, but not what the labels say.
