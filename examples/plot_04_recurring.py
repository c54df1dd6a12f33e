"""
Clusters that rest and return
=============================

Weekly routines, seasonal products, users who come back: what was seen before returns after a
silence. The question is whether it comes back under its old id.
"""

# %%
# A stream whose clusters take turns
# ----------------------------------
#
# Twelve clusters in 32 dimensions, four of them active at a time. Every six batches two of the
# four go to rest and two others come, new ones or old ones. Nothing moves.

import matplotlib.pyplot as plt
import numpy as np

from scstream import ScStream, plot
from scstream.datasets import recurring_gaussians
from scstream.metrics import FullStreamScore

shape = {"n_active": 4, "phase": 6, "swap": 2, "n_batches": 72, "batch_size": 400}
stream = recurring_gaussians(n_clusters=12, n_features=32, **shape, random_state=1)

# %%
# Three memories
# --------------
#
# - ``half_life=5``, the default, lets a silent cluster go after some fifty batches: its weight
#   fades, its shape does not, and when its rows come back it is known again.
# - ``half_life=1`` forgets it after ten.
# - ``half_life=1`` with the archive: a cluster that is let go is put away, and returns under its
#   old id. This is a switch, and off by default.

settings = {
    "half_life=5": {"half_life": 5},
    "half_life=1": {"half_life": 1},
    "half_life=1, archive": {"half_life": 1, "switches": {"archive": True}},
}


def follow(stream, **choices):
    model, history, score = ScStream(random_state=0, **choices), plot.History(), FullStreamScore()
    for batch in stream:
        if batch.time > 0:
            score.update(batch.y, model.predict(batch.X))
        model.partial_fit(batch.X)
        history.see(model)
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
# Lanes
# -----
#
# Dotted lines are clusters that wait. With a short memory they end, and what comes back gets a new
# lane below; with the archive the old lane goes on.

figure, axes = plt.subplots(3, 1, figsize=(9, 12), layout="constrained", sharex=True)
for ax, (name, history) in zip(axes, histories.items(), strict=True):
    plot.lineage(history, ax=ax)
    ax.set_ylabel(f"cluster\n{name}")

# %%
# How often the truth changed
# ---------------------------

active = np.zeros((12, 72), dtype=bool)
for batch in stream:
    active[np.unique(batch.y), int(batch.time)] = True
figure, ax = plt.subplots(figsize=(9, 3), layout="constrained")
ax.imshow(active, aspect="auto", cmap="Greys", vmax=2, interpolation="nearest")
ax.set(xlabel="batch", ylabel="true cluster", title="who is active")

# %%
# Where clusters overlap
# ----------------------
#
# In half as many columns the same clusters lie closer together.

overlapping = recurring_gaussians(n_clusters=12, n_features=16, **shape, random_state=1)
history, nmi = follow(overlapping)
print(f"16 columns: ids used: {len(history.ids)} for 12 clusters; NMI {nmi:.3f}")

# %%
# What to take away
# -----------------
#
# - A cluster that rests for less than about ten half-lives returns by itself, under its old id.
# - If clusters rest longer than you want to remember the rest of the past, use
#   ``archive=True``. It brings back some of the old ids, not all.
# - Score ids over the whole stream, as here, if ids matter to you: a score per batch does not see
#   that a cluster came back under another name.
#
# Where it fails: where clusters overlap, a returning cluster and a newcomer beside it are taken
# for one for a while and then split, and ids are used up, as in the 16 columns above. The archive
# can also take a newcomer for an old acquaintance; that is why it is off by default.
