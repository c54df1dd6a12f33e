"""
Find templates in log lines
===========================

Lines of a log are templates with values, such as "session opened for user root". Clusters of word
counts find the templates, and a line of a new kind has a high novelty.
"""

# %%
# Load the log
# ------------
#
# The data are two thousand lines of each of several systems from Loghub, with their true templates.
# The example looks for the file in the folder ``SCSTREAM_DATA``. Without it, one small log is
# generated.

import csv
import io
import os
import re
import tarfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from scstream import ScStream, plot
from scstream.metrics import adjusted_rand

SYSTEMS = ("Apache", "BGL", "HDFS", "Linux", "OpenSSH", "Proxifier", "Spark", "Zookeeper")
file = Path(os.environ.get("SCSTREAM_DATA", "../shared/data")) / "loghub_2k.tar.xz"


def real_logs():
    logs = {}
    with tarfile.open(file) as tar:
        for name in sorted(tar.getnames()):
            system = name.split("/")[0]
            if name.endswith(".csv") and system in SYSTEMS:
                text = io.TextIOWrapper(tar.extractfile(name), "utf-8", "replace")
                table = list(csv.DictReader(text))
                templates = np.array([line["EventId"] for line in table])
                logs[system] = [line["Content"] for line in table], templates
    return logs


def made_up_log():
    rng = np.random.default_rng(0)
    templates = [
        "Failed password for invalid user {} from {} port {} ssh2",
        "Connection closed by {} [preauth] after {} tries {}",
        "pam_unix(sshd:session): session opened for user {} by uid {} {}",
        "Received disconnect from {}: {}: Bye Bye [preauth] {}",
        "reverse mapping checking getaddrinfo for {} [{}] failed {}",
    ]
    known = rng.choice(5, 2000, p=[0.4, 0.2, 0.2, 0.15, 0.05])
    known[:800] = np.minimum(known[:800], 3)  # the last one appears later
    fills = rng.integers(0, 9999, (2000, 3))
    lines = [templates[k].format(*fill) for k, fill in zip(known, fills, strict=True)]
    return {"made up": (lines, known.astype(str))}


logs = real_logs() if file.exists() else made_up_log()
print("logs from", file.name if file.exists() else "a generator: the file was not found")
for system, (lines, templates) in logs.items():
    print(f"{system:10} {len(set(templates)):3d} templates; {lines[0][:70]}")

# %%
# Count words
# -----------
#
# Numbers, addresses and host names are not part of a template, so runs of digits become one word.
# Hashing needs no vocabulary: a new word already has a column.


def words(line):
    return re.findall(r"[a-z_]+|0", re.sub(r"\S*\d\S*", " 0 ", line.lower()))


count = HashingVectorizer(
    n_features=256, analyzer=words, alternate_sign=False, norm=None, dtype=np.float64
)

# %%
# Set a prior
# -----------
#
# A template uses a few words out of hundreds. The automatic prior does not assume this: it is the
# one that explains the first batch best, among priors that are less extreme. A small
# ``concentration`` expresses it. Both models predict and learn batches of two hundred lines; with
# ``half_life=None`` a template is never forgotten.


def follow(lines, templates, prior):
    model = ScStream("multinomial", prior=prior, half_life=None, random_state=0)
    history, found, novelty = plot.History(), [], []
    for begin in range(0, len(lines), 200):
        rows = count.transform(lines[begin : begin + 200])
        if begin:
            found.append(model.predict(rows))
            novelty.append(model.predict_proba(rows)[:, -1])
        model.partial_fit(rows)
        history.record(model)
    score = adjusted_rand(templates[200:], np.concatenate(found))
    return model, history, np.concatenate(novelty), score


priors = {"automatic": "auto", "few words": {"concentration": 0.01}}
runs = {
    (system, name): follow(*log, prior)
    for system, log in logs.items()
    for name, prior in priors.items()
}
for system in logs:
    scores = [
        f"{name}: ARI {run[-1]:.2f}, {run[0].n_clusters_:2d} clusters"
        for (one, name), run in runs.items()
        if one == system
    ]
    print(f"{system:10} {'; '.join(scores)}")

# %%
# Agreement with the templates
# ----------------------------

figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
places = np.arange(len(logs))
for shift, name, look in ((-0.15, "automatic", "o"), (0.15, "few words", "s")):
    scores = [runs[system, name][-1] for system in logs]
    ax.plot(places + shift, scores, look, markersize=9, label=f"prior: {name}")
ax.set(xticks=places, xticklabels=list(logs), ylabel="adjusted Rand index", ylim=(0, 1.05))
ax.grid(axis="y", alpha=0.3)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower right")

# %%
# Clusters of one system
# ----------------------
#
# The output shows the first line of each cluster as an example.

system = "Spark" if "Spark" in logs else "made up"
lines, templates = logs[system]
model, history, novelty, _ = runs[system, "few words"]
labels = model.predict(count.transform(lines))
for cluster in model.clusters_:
    if cluster.share > 0.01:
        example = lines[int(np.flatnonzero(labels == cluster.id)[0])]
        print(f"{cluster.id:3d} {cluster.share:5.0%}  {example[:76]}")

# %%
# Detect new lines
# ----------------
#
# The last column of ``predict_proba`` is the probability of a new cluster. A line is truly new if
# its template was in no batch before.

batch_of = np.arange(len(templates)) // 200
first = {one: batch_of[templates == one].min() for one in set(templates)}
new = np.array([first[t] == b for t, b in zip(templates, batch_of, strict=True)])[200:]

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
plot.lineage(history, ax=left, max_clusters=16)
right.hist(
    [novelty[~new], novelty[new]],
    np.linspace(0, 1, 11),
    label=["template seen before", "new template"],
    log=True,
    color=["C0", "C1"],
)
right.set(xlabel="probability of a new cluster", ylabel="lines")
right.spines[["top", "right"]].set_visible(False)
right.legend(frameon=False)
print(
    f"{system}: {new.sum()} lines of new templates, {(novelty[new] > 0.5).mean():.0%} of them look "
    f"new; of the {(~new).sum()} others {(novelty[~new] > 0.5).mean():.1%} do"
)

# %%
# Summary
# -------
#
# - Hashed counts and ``family="multinomial"`` give a log monitor in a few lines.
# - Use what you know: here one number in ``prior`` has the largest effect.
#
# Limits: templates that differ in one word form one cluster, because the model only counts words; a
# parser for logs separates them better. A template with fewer than five lines in a batch forms no
# cluster until more have come.
