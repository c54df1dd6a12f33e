"""
What a cluster can look like
============================

Gaussian clusters are the default. Other rows ask for other families: counts, yes or no, categories,
or a table that mixes them. The same model, the same pictures.
"""

# %%
# Rows of seven kinds
# -------------------
#
# Three groups each. What differs is what a row is.

import matplotlib.pyplot as plt
import numpy as np

from scstream import ScStream, plot

rng = np.random.default_rng(0)
n_rows = 600
group = rng.integers(0, 3, n_rows)

places = np.array([[0.0, 0.0], [7.0, 2.0], [2.0, 7.0]])
gaussian = places[group] + rng.normal(size=(n_rows, 2)) @ [[1.5, 0.8], [0.0, 0.7]]

diagonal = places[group] + rng.normal(size=(n_rows, 2))
diagonal[rng.random(diagonal.shape) < 0.1] = np.nan  # missing entries

words = rng.dirichlet(np.full(30, 0.3), 3)
multinomial = rng.multinomial(40, words[group])

poisson = rng.poisson(np.array([[2, 20], [20, 3], [20, 20]])[group])

bernoulli = rng.random((n_rows, 12)) < rng.random((3, 12))[group]

chances = rng.dirichlet(np.full(4, 0.3), (3, 5))[group]  # five columns of four levels
categorical = (rng.random((n_rows, 5, 1)) > chances.cumsum(axis=2)[:, :, :-1]).sum(axis=2)

mixed = np.column_stack([diagonal[:, 0], categorical[:, 0], poisson])

# %%
# One model for each
# ------------------
#
# A table of mixed columns names a family for each group of columns.

tables = {
    "gaussian: one ellipse each": ("gaussian", gaussian),
    "diagonal: entries may be missing": ("diagonal", diagonal),
    "multinomial: bags of words": ("multinomial", multinomial),
    "poisson: counts of events": ("poisson", poisson),
    "bernoulli: yes or no": ("bernoulli", bernoulli),
    "categorical: levels": ("categorical", categorical),
    "a table of three kinds": (
        [("diagonal", [0]), ("categorical", [1]), ("poisson", [2, 3])],
        mixed,
    ),
}

figure, axes = plt.subplots(2, 4, figsize=(15, 7.5), layout="constrained")
for ax, (name, (family, rows)) in zip(axes.flat, tables.items(), strict=False):
    model = ScStream(family, random_state=0).fit(np.asarray(rows, dtype=float))
    plot.clusters(model, rows, ax=ax)
    ax.set_title(f"{name}\n{model.n_clusters_} clusters", fontsize=11)
    ax.xaxis.label.set_size(8)
    ax.yaxis.label.set_size(8)
axes.flat[-1].axis("off")

# %%
# Two columns are drawn as they are. More are projected onto the plane in which the clusters differ
# most, and the axes say of which columns they are made. Counts are drawn as shares of their row,
# levels as indicators. A missing entry is drawn at the mean of its cluster; the model itself does
# not fill it in, it leaves it out exactly.

# %%
# What to take away
# -----------------
#
# - ``family`` says what a cluster is; nothing else changes.
# - ``"diagonal"`` is the choice for many columns, few rows, or missing values; ``"gaussian"`` sees
#   correlations but needs more rows for them.
#
# Where it fails: a family is a promise about the shape of a cluster. Rings and moons keep no such
# promise: they are cut into several blobs.
