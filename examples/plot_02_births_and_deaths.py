"""
Detect births and deaths
========================

New clusters appear, and others end. The model reports these changes as events, and
``scstream.plot`` draws them.
"""

# %%
# Generate a stream with births
# -----------------------------
#
# Every eight batches a cluster is born and the oldest one ends. The stream contains these times, so
# we can compare them with the events of the model.

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
# Compare births with events
# --------------------------

model, history = ScStream(half_life=3, random_state=0), plot.History()
born = dict(stream.births)
for batch in stream:
    model.partial_fit(batch.X)
    history.record(model)
    if batch.time in born:
        new = batch.y == born[int(batch.time)]
        identity = np.bincount(model.labels_[new] + 1).argmax() - 1
        fresh = any(event.id == identity for event in model.info_.events)
        print(
            f"batch {batch.time:2.0f}: {new.sum()} rows of a new cluster, most of them labelled "
            f"{identity}, {'an id born now' if fresh else 'an id known before'}"
        )

# %%
# All events after the first batch:

for event in history.events:
    if event.time > 0:
        other = "" if event.other is None else f" (with {event.other})"
        print(f"batch {event.time:2.0f}: {event.kind} {event.id}{other}, weight {event.weight:.0f}")

# %%
# Clusters over time
# ------------------
#
# Each id has a horizontal line from its birth to its death. Its thickness is the weight; it is
# dotted while the cluster receives no rows. Such a cluster is not removed at once: it loses weight,
# keeps its shape, and dies when its weight is less than one row.

figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
plot.lineage(history, ax=ax)
for number in born:
    ax.axvline(number, color="grey", linestyle=":", linewidth=1, zorder=0)

# %%
# Shares over time
# ----------------
#
# Bands are shares of the weight *after forgetting*, so the share of a cluster without rows
# decreases slowly.

figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
plot.weights(history, ax=ax)

# %%
# Novelty
# -------
#
# The plot shows the share of rows that belong to no cluster after the batch was learned, and the
# mean log density. Few rows stay without a cluster, because enough of them in one place form a
# cluster in the same batch. The mean log density falls when rows appear where the model did not
# expect them.

figure, ax = plt.subplots(figsize=(9, 4.5), layout="constrained")
plot.novelty(history, ax=ax)

# %%
# Summary
# -------
#
# - ``model.events_`` contains the same information as these plots. The plots use a ``History``,
#   whose memory is limited.
# - A new cluster with a hundred rows is found in the batch in which it appears.
# - A death takes about ``half_life * log2(weight)`` batches without rows, here about twenty-five.
#   With a shorter ``half_life`` it takes less.
#
# Limits: one of the five new clusters appeared at the position of a cluster that had just ended.
# The model treats it as a return and gives it the old id; positions alone do not tell the
# difference. A cluster that is born on top of an active one is found late, when there is evidence
# for two, and fewer than ``min_birth_weight`` (5) rows form no cluster.
