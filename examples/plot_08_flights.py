"""
Use dates: a half-life in days
==============================

Batches of a real stream do not come at equal intervals. Pass the time to ``partial_fit``;
``half_life`` then has the unit of the time, here a week.
"""

# %%
# Load three months of flights
# ----------------------------
#
# The rows are hour, delay in minutes and distance in hundreds of miles of every fourth US flight
# from January to March 2001. The example looks for the file in the folder ``SCSTREAM_DATA``.
# Without it, a small similar stream with two stormy days is generated.

import os
from pathlib import Path

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np

from scstream import ScStream, plot

START, DAYS = np.datetime64("2001-01-01"), 90
rng = np.random.default_rng(0)
file = Path(os.environ.get("SCSTREAM_DATA", "../shared/data")) / "flights_2001h1.npz"


def real_flights():
    with np.load(file) as stored:
        minute = np.cumsum(stored["minute_step"].astype(np.int64))[::4]
        delay, distance = stored["delay"][::4], stored["distance"][::4]
    return minute, delay, distance


def drawn_flights():
    n = 4000 * DAYS
    day = np.sort(rng.integers(0, DAYS, n))
    minute = 1440 * day + rng.beta(2.5, 2.5, n) * 1080 + 300
    stormy = np.isin(day, (54, 55))
    delay = rng.normal(-4, 8, n) + rng.exponential(np.where(stormy, 90, 25), n) * (
        rng.random(n) < np.where(stormy, 0.6, 0.25)
    )
    distance = np.exp(rng.choice([5.6, 6.6, 7.7], n, p=[0.4, 0.4, 0.2]) + rng.normal(0, 0.2, n))
    order = np.argsort(minute)
    return minute[order].astype(int), delay[order], distance[order]


minute, delay, distance = real_flights() if file.exists() else drawn_flights()
print("flights from", file.name if file.exists() else "a generator: the file was not found")

# %%
# All columns are integers, for which a density has no bound; uniform noise of one unit makes them
# continuous.

noise = rng.random((2, len(minute)))
rows = np.column_stack([minute % 1440 / 60, delay + noise[0], (distance + noise[1]) / 100])
day = minute // 1440

# %%
# Predict a day, then learn it
# ----------------------------
#
# Dates count in seconds, so the half-life is in seconds too. The mean log density of a day before
# it is learned shows how usual the day was.

WEEK = 7 * 24 * 3600
model, history, ordinary = ScStream(half_life=WEEK, random_state=0), plot.History(), []
for number in range(DAYS):
    today = rows[day == number]
    evening = START + np.timedelta64(number + 1, "D")
    if number >= 7:
        ordinary.append((START + number, model.score_samples(today, time=evening).mean()))
    model.partial_fit(today, time=evening)
    history.record(model)

print(f"{(day < DAYS).sum()} flights, {model.n_clusters_} clusters, {len(history.ids)} ids used")
for cluster in sorted(model.clusters_, key=lambda cluster: -cluster.share)[:6]:
    hour, late, miles = cluster.mean
    print(
        f"cluster {cluster.id:2d}, {cluster.share:4.0%}: about {hour:2.0f} o'clock, "
        f"{late:4.0f} minutes late, {100 * miles:5.0f} miles"
    )

# %%
# Stormy days
# -----------

dates, density = zip(*ordinary, strict=True)
figure, ax = plt.subplots(figsize=(10, 3.8), layout="constrained")
ax.plot(dates, density, marker=".", color="C0")
for place in sorted(np.argsort(density)[:4]):
    side = "right" if density[place + 1] < density[place] else "left"
    at = {"xytext": (6 if side == "left" else -6, -4), "textcoords": "offset points"}
    ax.annotate(str(dates[place])[5:], (dates[place], density[place]), ha=side, **at)
ax.set_ylabel("mean log density of the day")
ax.xaxis.set_major_formatter(mdates.ConciseDateFormatter(ax.xaxis.get_major_locator()))
ax.spines[["top", "right"]].set_visible(False)

# %%
# Shares over three months
# ------------------------
#
# ``history.time`` is in seconds since 1970; convert the axis as you like.

figure, ax = plt.subplots(figsize=(10, 4.5), layout="constrained")
plot.weights(history, ax=ax)
ax.xaxis.set_major_locator(plt.MultipleLocator(WEEK * 2))
ax.xaxis.set_major_formatter(lambda value, _: str(np.datetime64(int(value), "s"))[5:10])
ax.set_xlabel("date")

# %%
# Summary
# -------
#
# - With ``time=``, the past decays more over a longer gap between batches.
# - ``score_samples(rows, time=...)`` before learning measures how usual a batch is. The least usual
#   days of this winter were stormy.
# - A batch is a whole day here, so the hour of the day is an ordinary column.
#
# Limits: flights form one cloud without gaps, and the clusters divide it into Gaussian pieces;
# their number has no meaning for aviation. With batches of six hours the hour jumps between
# batches, which looks like motion: ``docs/evidence/density.md`` has the figures, and the remedy is
# to turn ``motion`` off.
