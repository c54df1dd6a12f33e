"""
Follow drifting clusters
========================

Six clusters move in the plane. The example predicts every batch first and then learns it once. The
model does not know how many clusters there are, nor that they move.
"""

# %%
# Generate the stream
# -------------------
#
# Streams of ``scstream.datasets`` have true labels: every batch has ``y``, and ``oracle()`` returns
# the labels of the best possible classifier, which knows the true clusters at every time. No method
# can do better than the oracle.

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
# ``plot.frame`` stores the model after a batch, together with some rows; this is cheap, because
# states are immutable. ``plot.History`` stores a few numbers per cluster for plots over time.

model = ScStream(random_state=0)
history, frames, scores = plot.History(), [], []

for batch in stream:
    if batch.time > 0:
        predicted = model.predict(batch.X)
        scores.append((adjusted_rand(batch.y, predicted), adjusted_rand(batch.y, batch.oracle())))
    model.partial_fit(batch.X)
    history.record(model)
    frames.append(plot.frame(model, batch.X, max_rows=300))

ours, best = np.mean(scores, axis=0)
print(f"clusters found: {model.n_clusters_}, ids ever used: {len(history.ids)}")
print(f"adjusted Rand index of predictions: {ours:.3f}, of the oracle: {best:.3f}")

# %%
# Animate the clusters
# --------------------
#
# Ellipses show two standard deviations. A cluster keeps its id, and with it its colour and marker.
# The axes are fixed.

figure, ax = plt.subplots(figsize=(6, 5))
movie = plot.animate(frames, ax=ax, interval=200)

# %%
# Three batches
# -------------

figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharex=True, sharey=True, layout="constrained")
for ax, number in zip(axes, (0, 12, 23), strict=True):
    plot.clusters(frames[number], ax=ax)
    ax.set_title(f"batch {number}")

# %%
# Summary
# -------
#
# - Call ``partial_fit`` once per batch. ``predict`` does not change the model.
# - The model estimates velocities and expects a moving cluster where it will be at the next batch.
#   Therefore predictions stay close to the oracle although everything moves.
# - Ids are not reused, so you can compare labels of different batches.
#
# Limits: two clusters that cross look like one while they overlap. Their rows have one id for a
# while, and after the crossing one of the two may get a new id. Positions alone do not contain the
# information to avoid this.
