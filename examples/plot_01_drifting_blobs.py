"""
Drifting blobs, followed as they move
=====================================

Six clusters wander about the plane. Every batch is predicted first and learned afterwards, once,
and then dropped. The model is not told how many clusters there are, nor that they move.
"""

# %%
# The stream
# ----------
#
# Streams of ``scstream.datasets`` know their truth: every batch has true labels ``y``, and
# ``oracle()`` gives the labels that the best possible classifier would give, one that knows the
# true clusters at every moment. Nobody can be expected to do better than the oracle.

import matplotlib.pyplot as plt
import numpy as np

from scstream import ScStream, plot
from scstream.datasets import drifting_gaussians
from scstream.metrics import adjusted_rand

stream = drifting_gaussians(n_clusters=6, n_batches=24, batch_size=600, speed=0.35, random_state=4)

# %%
# Predict, then learn
# -------------------
#
# ``plot.frame`` keeps the model as it was after a batch, with some rows; states never change, so
# this costs little. ``plot.History`` keeps a few numbers per cluster for the pictures over time.

model = ScStream(random_state=0)
history, frames, scores = plot.History(), [], []

for batch in stream:
    if batch.time > 0:
        predicted = model.predict(batch.X)
        scores.append((adjusted_rand(batch.y, predicted), adjusted_rand(batch.y, batch.oracle())))
    model.partial_fit(batch.X)
    history.see(model)
    frames.append(plot.frame(model, batch.X, max_rows=300))

ours, best = np.mean(scores, axis=0)
print(f"clusters found: {model.n_clusters_}, ids ever used: {len(history.ids)}")
print(f"adjusted Rand index of predictions: {ours:.3f}, of the oracle: {best:.3f}")

# %%
# A moving picture
# ----------------
#
# Ellipses are two standard deviations wide. A cluster keeps its id, and with it its colour and
# marker, for as long as it lives; the axes stay where they are.

figure, ax = plt.subplots(figsize=(6, 5))
movie = plot.animate(frames, ax=ax, interval=200)

# %%
# Three moments of it
# -------------------

figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharex=True, sharey=True, layout="constrained")
for ax, number in zip(axes, (0, 12, 23), strict=True):
    plot.clusters(frames[number], ax=ax)
    ax.set_title(f"batch {number}")

# %%
# What to take away
# -----------------
#
# - One call per batch, ``partial_fit``, and one question, ``predict``, which changes nothing.
# - The model expects a moving cluster where it will be when the next batch is due: it estimates
#   velocities. That is why predictions stay close to the oracle although everything moves.
# - Ids are names. They are given once and not reused, so labels of different batches can be
#   compared.
#
# Where it fails: two clusters that cross look like one while they lie on top of each other. The
# rows then have one id for a while, and after the crossing one of the two may go on under a new id.
# No method that sees positions alone can know better.
