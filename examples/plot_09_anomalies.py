"""
Detect anomalies in a sensor
============================

The anomaly score of a row is minus its log density before it is learned. The data are a series of
the Numenta Anomaly Benchmark, with labelled windows.
"""

# %%
# Load the series
# ---------------
#
# The series is the temperature inside a machine, one value every five minutes, 22,695 in all.
# Experts marked when it failed or was about to fail. The example looks for the file in the folder
# ``SCSTREAM_DATA``. Without it, a series with two faults is generated.

import io
import json
import os
import tarfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from scstream import ScStream

NAME = "realKnownCause/machine_temperature_system_failure.csv"
file = Path(os.environ.get("SCSTREAM_DATA", "../shared/data")) / "nab.tar.xz"


def real_series():
    with tarfile.open(file) as tar:
        parts = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    table = next(content for name, content in parts.items() if name.endswith(NAME))
    windows = next(content for name, content in parts.items() if name.endswith("windows.json"))
    table = pd.read_csv(io.BytesIO(table), parse_dates=["timestamp"])
    inside = np.zeros(len(table), dtype=bool)
    for first, last in json.loads(windows)[NAME]:
        inside |= table["timestamp"].between(first, last).to_numpy()
    return table["value"].to_numpy(), inside


def drawn_series():
    rng = np.random.default_rng(0)
    n = 12_000
    value = 85 + 6 * np.sin(np.arange(n) / 150) + np.cumsum(rng.normal(0, 0.15, n)) * 0.3
    inside = np.zeros(n, dtype=bool)
    for start in (5000, 9500):
        value[start : start + 150] -= np.linspace(0, 45, 150)
        inside[start - 200 : start + 300] = True
    return value + rng.normal(0, 0.5, n), inside


value, inside = real_series() if file.exists() else drawn_series()
print("series from", file.name if file.exists() else "a generator: the file was not found")
print(f"{len(value)} values, {inside.mean():.0%} of them in windows")

# %%
# Compute features
# ----------------
#
# A value alone contains little information. A row consists of the value, the difference from the
# last one and the mean of the last ten, scaled by the first 750 rows, which are known to be normal
# and are the first batch.

given = 750
columns = pd.DataFrame({"value": value})
columns["step"] = columns["value"].diff().fillna(0.0)
columns["mean of ten"] = columns["value"].rolling(10, min_periods=1).mean()
rows = ((columns - columns[:given].mean()) / columns[:given].std()).to_numpy()

# %%
# Score, then learn, fifty rows at a time
# ---------------------------------------

model = ScStream(half_life=given / 50, random_state=0)
model.partial_fit(rows[:given])
score = np.full(len(rows), np.nan)
for begin in range(given, len(rows), 50):
    batch = rows[begin : begin + 50]
    score[begin : begin + 50] = -model.score_samples(batch)
    model.partial_fit(batch)

# %%
# One row in a thousand is an alarm. The threshold of a row comes from the scores before it.

past = pd.Series(score).expanding(1000).quantile(0.999).shift().to_numpy()
alarms = np.flatnonzero((score > past) & (score > 0))
DAY = 288  # rows
alarms = alarms[np.diff(alarms, prepend=-DAY) >= DAY]  # the first of a day

starts = np.flatnonzero(np.diff(inside.astype(int), prepend=0) == 1)
ends = np.flatnonzero(np.diff(inside.astype(int), append=0) == -1)
hit = [bool(((alarms >= a) & (alarms <= b)).any()) for a, b in zip(starts, ends, strict=True)]
print(f"{len(alarms)} alarms, {inside[alarms].sum()} of them in a window")
print(f"{sum(hit)} of {len(hit)} windows have an alarm")

# %%
# Plot the result
# ---------------
#
# Labelled windows are shaded. Triangles are alarms; those of one day are drawn as one.

figure, (above, below) = plt.subplots(2, 1, figsize=(10, 5.5), sharex=True, layout="constrained")
above.plot(value, color="C0", linewidth=0.7)
above.set_ylabel("temperature")
below.plot(score, color="0.45", linewidth=0.6)
below.plot(past, color="C3", linewidth=1, linestyle="--", label="threshold")
below.plot(alarms, score[alarms], "v", color="C3", label="alarm")
below.set(ylabel="minus log density", xlabel="row", yscale="symlog")
below.legend(frameon=False, ncols=2)
for ax in (above, below):
    ax.fill_between(
        range(len(value)),
        0,
        1,
        where=inside,
        transform=ax.get_xaxis_transform(),
        color="C1",
        alpha=0.25,
        linewidth=0,
    )
    ax.spines[["top", "right"]].set_visible(False)

# %%
# Summary
# -------
#
# - Score before you learn: after learning every row is slightly less unusual.
# - The result depends on the features. Differences and running means are cheap.
# - Fifty rows per batch and a half-life as long as the normal beginning are reasonable choices;
#   they were not tuned.
#
# Limits: on all 58 series of the benchmark this recipe scores 48 of 100 by NAB's own rules, a
# moving z-score 40, and models for sequences more than 60: these use periods and what happened a
# week ago, which three columns do not contain. By rows it is no better than the other methods; see
# ``docs/evidence/density.md``. An anomaly that lasts is learned and is no longer reported.
