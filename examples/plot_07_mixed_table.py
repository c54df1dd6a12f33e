"""
Cluster a mixed table with missing values
=========================================

Real tables contain numbers, categories, counts and missing entries. Give a family for every group
of columns. Missing entries are left out exactly, row by row; nothing is imputed.
"""

# %%
# Generate reports of machines
# ----------------------------
#
# A machine has four states, which the model does not know: temperature and vibration, the mode of
# operation, and errors per hour. In the second half of the stream the state "worn" becomes hotter
# from batch to batch.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scstream import ScStream, plot
from scstream.metrics import adjusted_rand

temperature, vibration, errors = [55, 70, 62, 85], [0.2, 0.5, 1.1, 0.9], [0.5, 1, 9, 4]
modes = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.5, 0.4, 0.1], [0.05, 0.15, 0.8]])


def readings(rng, number, missing):
    state = rng.choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])
    drift = np.where(state == 2, max(number - 10, 0) * 0.8, 0.0)
    table = pd.DataFrame(
        {
            "temperature": rng.normal(np.take(temperature, state) + drift, 3.0),
            "vibration": rng.gamma(16.0, np.take(vibration, state) / 16.0),
            "mode": (rng.random((400, 1)) > modes[state].cumsum(axis=1)[:, :2]).sum(axis=1),
            "errors": rng.poisson(np.take(errors, state)),
        }
    ).astype(float)
    return table.mask(rng.random(table.shape) < missing), state


print(readings(np.random.default_rng(0), 0, 0.2)[0].head())

# %%
# Give one family for each kind of column
# ---------------------------------------
#
# Columns are named; categories are integers from zero.

family = {
    "diagonal": ["temperature", "vibration"],
    "categorical": ["mode"],
    "poisson": ["errors"],
}


def run(missing, prepare=None):
    rng, history, scores = np.random.default_rng(1), plot.History(), []
    model = ScStream(family, random_state=0)
    for number in range(20):
        table, state = readings(rng, number, missing)
        table = table if prepare is None else prepare(table)
        if number:
            scores.append(adjusted_rand(state, model.predict(table)))
        model.partial_fit(table)
        history.record(model)
    return model, history, table, np.mean(scores)


model, history, table, score = run(0.2)
print(f"a fifth of the entries missing: {model.n_clusters_} clusters, mean ARI {score:.3f}")
print(model.clusters_)

# %%
# Plot the clusters
# -----------------
#
# Numbers, modes and counts are projected together; the axes are labelled with their columns. A
# missing entry is drawn at the mean of the cluster of its row.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
plot.clusters(model, table, ax=left)
left.xaxis.label.set_size(9)
left.yaxis.label.set_size(9)
plot.weights(history, ax=right)

# %%
# Compare with imputation
# -----------------------
#
# The same stream with more and more missing entries. For comparison, missing entries are also
# imputed with the mean of their column in the batch.

shares = [0.0, 0.2, 0.4, 0.6]
left_out = [run(share)[-1] for share in shares]


def filled(table):
    table = table.fillna(table.mean())
    return table.assign(mode=table["mode"].round(), errors=table["errors"].round())


filled_in = [run(share, filled)[-1] for share in shares]

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
ax.plot(shares, left_out, "-o", label="holes left out by the model")
ax.plot(shares, filled_in, "--s", label="holes filled with means")
ax.set(xlabel="share of entries missing", ylabel="mean ARI", ylim=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
for share, one, other in zip(shares, left_out, filled_in, strict=True):
    print(f"{share:.0%} missing: left out {one:.3f}, filled in {other:.3f}")

# %%
# Summary
# -------
#
# - Give a family for every group of columns, and pass the table with its missing entries.
# - Imputing means creates false clusters at the means; leaving entries out does not.
# - ``"diagonal"``, ``"categorical"``, ``"bernoulli"`` and ``"poisson"`` accept missing entries
#   anywhere; ``"gaussian"`` accepts rows that lack its whole group of columns.
#
# Limits: within a cluster the groups of columns are independent. If temperature and errors rise
# together inside one state, that state is divided into two clusters. And if entries are missing for
# a reason (a sensor that fails when it is hot), add a column that tells whether the entry is
# present.
