"""
Keep a thousand models, one for each device
===========================================

Every device, tenant or user has its own normal behaviour. A pool keeps one small model per key, as
many in memory as fit. A change in one of a thousand devices is an event of that device.
"""

# %%
# Generate a fleet
# ----------------
#
# There are a thousand devices; each has two or three operating points in two measurements. From the
# fourth round on, twenty of them have a new operating point.

import tempfile
import time

import matplotlib.pyplot as plt
import numpy as np

from scstream import plot
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.pool import ModelPool
from scstream.stream.store import FolderStore

N_KEYS, N_ROUNDS, N_ROWS, CHANGE = 1000, 6, 30, 3
rng = np.random.default_rng(0)
n_points = rng.integers(2, 4, N_KEYS)
places = rng.uniform(-10, 10, (N_KEYS, 4, 2))
changed = set(rng.choice(N_KEYS, 20, replace=False).tolist())


def measurements(number):
    key = rng.permutation(np.repeat(np.arange(N_KEYS), N_ROWS))
    extra = np.isin(key, list(changed)) & (number >= CHANGE)
    point = (rng.random(len(key)) * (n_points[key] + extra)).astype(int)
    rows = places[key, point] + rng.normal(0, 0.4, (len(key), 2))
    return rows, key


# %%
# Create the pool
# ---------------
#
# Rows of all devices come mixed; the pool sorts them by key. The result of a key depends only on
# its own rows, not on other keys, nor on which models are in memory: models that were not used
# recently are moved to a folder. ``scstream run`` does the same with ``key = "device"`` in its
# settings, and adds brokers, checkpoints and exactly-once delivery.

folder = tempfile.TemporaryDirectory()
pool = ModelPool.build(
    {"random_state": 0, "prior": "weak", "half_life": 4},
    Steps(),
    column="device",
    store=FolderStore(folder.name),
    memory="64MB",
)
seconds, in_memory, labels_seen = [], [], []
for number in range(N_ROUNDS):
    rows, key = measurements(number)
    begin = time.process_time()
    learned = pool.learn(SourceBatch(number, {}, float(number), Block.of(rows, device=key), ()))
    seconds.append(time.process_time() - begin)
    in_memory.append(pool.n_bytes)
    labels_seen.append(learned.labels)

rate = N_KEYS * N_ROWS / np.mean(seconds[1:])
print(f"{len(pool.keys)} models; {rate:,.0f} rows per CPU second after the first round")
print(f"{max(in_memory) / 1e6:.0f} MB of models in memory, {pool.n_evicted} spilled to the folder")

# %%
# Find devices that changed
# -------------------------
#
# A cluster that is born or split off after the first rounds is a change. Every model has its own
# events.

news = {}
for name in pool.keys:
    events = pool.model(name).model.events
    news[int(name)] = sum(
        event.kind in ("born", "split") and event.time >= CHANGE for event in events
    )

reported = {name for name, count in news.items() if count}
print(
    f"devices with a new cluster: {len(reported)}; "
    f"of the {len(changed)} changed: {len(reported & changed)}"
)

# %%
# Numbers of clusters, and one device that changed
# ------------------------------------------------

found = np.array([pool.model(str(k)).n_clusters for k in range(N_KEYS)])
steady = np.array([k not in changed for k in range(N_KEYS)])
print(f"right number of clusters: {(found == n_points)[steady].mean():.0%} of the steady devices")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
table = np.zeros((3, 6), dtype=int)
np.add.at(table, (n_points + ~steady - 2, np.minimum(found, 6) - 1), 1)
left.imshow(np.sqrt(table), cmap="Blues", aspect="auto")
for (row, column), count in np.ndenumerate(table):
    if count:
        dark = count > 0.4 * table.max()
        left.text(column, row, count, ha="center", va="center", color="white" if dark else "black")
left.set(
    xticks=range(6), xticklabels=[1, 2, 3, 4, 5, "6+"], yticks=range(3), yticklabels=[2, 3, 4],
    xlabel="clusters found", ylabel="operating points", title="devices",
)  # fmt: skip
name = min(changed)
plot.clusters(pool.model(str(name)).model, rows[key == name], ax=right)
right.set_title(f"device {name} after its change")
folder.cleanup()

# %%
# Summary
# -------
#
# - Thousands of small models are cheap: a model of a few clusters takes some kilobytes, and a batch
#   of a few rows about a millisecond.
# - The memory limit is a setting; models that do not fit are kept in the store.
#
# Limits: a model learns from its own rows only. With thirty rows in its first round, every seventh
# device was described too coarsely, with two operating points in one cluster, and some of the
# changes were not noticed. A larger first batch per key helps; keys share no information.
