"""
Clusters that return
====================

Weekly routines, seasonal products and returning users come back after an absence. This example
measures whether they come back under their old id.
"""

# %%
# Generate a stream whose clusters take turns
# -------------------------------------------
#
# There are twelve clusters in 32 dimensions, four of them active at a time. Every six batches two
# of the four become inactive and two others become active, new ones or old ones. Nothing moves.

import matplotlib.pyplot as plt
import numpy as np

from scstream import ScStream, plot
from scstream.datasets import recurring_gaussians
from scstream.metrics import FullStreamScore

shape = {"n_active": 4, "phase": 6, "swap": 2, "n_batches": 72, "batch_size": 400}
stream = recurring_gaussians(n_clusters=12, n_features=32, **shape, random_state=1)

# %%
# Compare three settings
# ----------------------
#
# - With ``half_life=5``, the default, an inactive cluster is removed after about fifty batches. Its
#   weight decays, its shape does not, and it is recognised when its rows come back.
# - With ``half_life=1`` it is removed after ten.
# - With ``half_life=1`` and the archive, a removed cluster is stored and returns under its old id.
#   The archive is off by default.

settings = {
    "half_life=5": {"half_life": 5},
    "half_life=1": {"half_life": 1},
    "half_life=1, archive": {"half_life": 1, "archive": True},
}


def follow(stream, **choices):
    model, history, score = ScStream(random_state=0, **choices), plot.History(), FullStreamScore()
    for batch in stream:
        if batch.time > 0:
            score.update(batch.y, model.predict(batch.X))
        model.partial_fit(batch.X)
        history.record(model)
    return history, score.nmi()


histories = {}
for name, choices in settings.items():
    history, nmi = follow(stream, **choices)
    histories[name] = history
    kinds = [event.kind for event in history.events]
    died, returned = kinds.count("died"), kinds.count("returned")
    print(
        f"{name:22} ids used: {len(history.ids):2d} for 12 clusters; died {died:2d}, "
        f"returned {returned:2d}; NMI over the whole stream {nmi:.3f}"
    )

# %%
# Clusters over time
# ------------------
#
# Dotted lines are inactive clusters. With a short half-life they end, and a cluster that comes back
# gets a new line below. With the archive the old line continues.

figure, axes = plt.subplots(3, 1, figsize=(9, 12), layout="constrained", sharex=True)
for ax, (name, history) in zip(axes, histories.items(), strict=True):
    plot.lineage(history, ax=ax)
    ax.set_ylabel(f"cluster\n{name}")

# %%
# How often an id changed
# -----------------------

active = np.zeros((12, 72), dtype=bool)
for batch in stream:
    active[np.unique(batch.y), int(batch.time)] = True
figure, ax = plt.subplots(figsize=(9, 3), layout="constrained")
ax.imshow(active, aspect="auto", cmap="Greys", vmax=2, interpolation="nearest")
ax.set(xlabel="batch", ylabel="true cluster", title="who is active")

# %%
# Clusters that overlap
# ---------------------
#
# With half as many columns the same clusters are closer together.

overlapping = recurring_gaussians(n_clusters=12, n_features=16, **shape, random_state=1)
history, nmi = follow(overlapping)
print(f"16 columns: ids used: {len(history.ids)} for 12 clusters; NMI {nmi:.3f}")

# %%
# Summary
# -------
#
# - A cluster that is inactive for less than about ten half-lives returns under its old id.
# - If clusters are inactive for longer, and you do not want a longer half-life, turn on the
#   archive. It restores some of the old ids, not all.
# - If ids matter to you, score over the whole stream, as here. A score per batch does not show that
#   a cluster came back under another id.
#
# Limits: if clusters overlap, a returning cluster and a new one beside it form one cluster for a
# while and then split, which uses up ids, as in the 16 columns above. The archive can also confuse
# a new cluster with an old one; therefore it is off by default.
