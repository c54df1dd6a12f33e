"""
Choose a family
===============

Gaussian clusters are the default. Counts, yes/no values, categories and tables that mix them need
other families. The model and the plots are the same.
"""

# %%
# Generate rows of seven kinds
# ----------------------------
#
# Each data set has three groups. Only the type of the rows differs.

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
# Fit one model for each
# ----------------------
#
# For a table of mixed columns, give a family for each group of columns.

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
# Two columns are drawn directly. More columns are projected onto the plane in which the clusters
# differ most, and the axes are labelled with the columns. Counts are drawn as shares of their row,
# levels as indicators. A missing entry is drawn at the mean of its cluster; the model itself does
# not impute it but leaves it out exactly.

# %%
# Summary
# -------
#
# - ``family`` sets the type of cluster; nothing else changes.
# - Use ``"diagonal"`` for many columns, few rows, or missing values. ``"gaussian"`` learns
#   correlations but needs more rows.
#
# Limits: a family fixes the shape of a cluster. Rings and moons do not have this shape and are
# divided into several clusters.
