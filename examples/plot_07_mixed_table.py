"""
A table of mixed columns with missing values
============================================

Real tables have numbers, categories and counts side by side, and holes. A family for every group of
columns takes them together; a missing entry is left out exactly, row by row, and nothing is filled
in.
"""

# %%
# Machines that report
# --------------------
#
# Four states of a machine, known here, unknown to the model: temperature and vibration, the mode
# of operation, and errors per hour. In the second half of the stream the machine called "worn" runs
# hotter from batch to batch.

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
# One family for each kind of column
# ----------------------------------
#
# Columns are named; categories are whole numbers from zero.

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
        history.see(model)
    return model, history, table, np.mean(scores)


model, history, table, score = run(0.2)
print(f"a fifth of the entries missing: {model.n_clusters_} clusters, mean ARI {score:.3f}")
print(model.clusters_)

# %%
# The clusters
# ------------
#
# Numbers, modes and counts projected together: the axes say what they are made of. A missing entry
# is drawn at the mean of the cluster of its row.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
plot.clusters(model, table, ax=left)
left.xaxis.label.set_size(9)
left.yaxis.label.set_size(9)
plot.weights(history, ax=right)

# %%
# What missing values cost
# ------------------------
#
# The same stream with more and more holes, and beside it what people often do instead: fill holes
# with the mean of their column in the batch.

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
# What to take away
# -----------------
#
# - Name a family for every group of columns, and pass the table as it is, with its holes.
# - Filling in makes clusters of its own at the means; leaving out does not.
# - ``"diagonal"``, ``"categorical"``, ``"bernoulli"`` and ``"poisson"`` take holes anywhere;
#   ``"gaussian"`` accepts rows that miss its whole group of columns.
#
# Where it fails: within a cluster the groups of columns are taken as independent. If temperature
# and errors rise together inside one state, that state is cut in two. And holes that say something
# (a sensor that fails when it is hot) are treated as if they said nothing: add a column that says
# whether the entry is there.
