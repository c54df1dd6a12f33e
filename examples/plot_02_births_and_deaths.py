"""
Births and deaths, and how to see them
======================================

Clusters that nobody announced appear, and others fall silent. The model tells what happened as
events, and ``scstream.plot`` draws them.
"""

# %%
# A stream with births
# --------------------
#
# Every eight batches a cluster is born and the oldest one stops sending rows. The stream knows
# when: that is the truth to compare with.

import matplotlib.pyplot as plt
import numpy as np

from scstream import ScStream, plot
from scstream.datasets import births_and_deaths

stream = births_and_deaths(
    n_clusters=5,
    weight=0.2,
    birth_every=8,
    deaths=True,
    n_batches=48,
    batch_size=500,
    separation=16,
    random_state=4,
)
print("true births (batch, label):", stream.births)
print("true deaths (batch, label):", stream.deaths)

# %%
# What the model noticed
# ----------------------

model, history = ScStream(half_life=3, random_state=0), plot.History()
born = dict(stream.births)
for batch in stream:
    model.partial_fit(batch.X)
    history.see(model)
    if batch.time in born:
        newborn = batch.y == born[int(batch.time)]
        identity = np.bincount(model.labels_[newborn] + 1).argmax() - 1
        fresh = any(event.id == identity for event in model.info_.events)
        print(
            f"batch {batch.time:2.0f}: {newborn.sum()} rows of a newborn, most of them labelled "
            f"{identity}, {'an id born now' if fresh else 'an id known before'}"
        )

# %%
# All that happened after the first batch:

for event in history.events:
    if event.time > 0:
        other = "" if event.other is None else f" (with {event.other})"
        print(f"batch {event.time:2.0f}: {event.kind} {event.id}{other}, weight {event.weight:.0f}")

# %%
# Lives of clusters
# -----------------
#
# One lane for every id: as long as the cluster lived, as thick as it was heavy, dotted while it
# waits without rows. A cluster that falls silent is not dropped at once. It grows lighter, keeps
# its shape, and dies when less than one row is left of it.

figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
plot.lineage(history, ax=ax)
for number in born:
    ax.axvline(number, color="grey", linestyle=":", linewidth=1, zorder=0)

# %%
# Shares over time
# ----------------
#
# Bands are shares of the *faded* number of rows, so a cluster that is silent leaves slowly.

figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
plot.weights(history, ax=ax)

# %%
# Novelty
# -------
#
# The share of rows that belong to no cluster, after the batch was learned, and how well rows are
# explained. Few rows stay outside: enough of them in one place found a cluster in the same batch.
# The mean log density falls when mass moves to where the model did not expect it.

figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
plot.novelty(history, ax=ax)

# %%
# What to take away
# -----------------
#
# - ``model.events_`` is the machine-readable form of these pictures; the pictures are drawn from
#   a ``History``, whose memory is bounded.
# - A newborn with a hundred rows is found in the batch in which it appears.
# - Death is slow on purpose: it takes about ``half_life * log2(weight)`` batches of silence, here
#   some twenty-five. A shorter ``half_life`` forgets sooner.
#
# Where it fails: one of the five newborns came to the place of a cluster that had just fallen
# silent. The model takes it for a return and gives it the old id; from positions alone nobody could
# tell. A cluster born on top of a living one is found late, when rows have shown that there are
# two, and a handful of rows (fewer than ``birth_floor``, 5) founds nothing.
