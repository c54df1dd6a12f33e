"""What the page says between its tables."""

from __future__ import annotations

HEAD = """# Densities and anomalies: streams without classes

Made by `python -m benchmarks density` from `benchmarks/results/density-*.csv`; do not edit.
{made_with}; one thread.

Clusters have no right answer where nobody labelled them, but a density can be checked: how probable
were the rows before they were learned? And do improbable rows point to anomalies?
"""

FLIGHTS = """## US flights, January to June 2001

Three million flights in the order of time: minute of the day, delay and distance. Batches are slots
of the clock. All columns are whole numbers, on which a density has no bound: every entry gets
uniform noise of one unit, once and for every method alike. Columns are scaled by the first ten
days, which are learned and not scored; densities are those of scaled rows.

- *Nothing set* is `ScStream()`: time counted in batches, half-life five of them. With *half-life a
  week* it is told the time in minutes.
- Peers get a window as long as what ours remembers in sum: 7 batches, or 10 days for a half-life of
  a week; if that is more than 10,000 rows, as many of them at random. K is chosen by BIC on the
  first ten days and *given* to them; `BayesianGaussianMixture` is truncated there.
- A peer that is fitted anew for every batch is scored on batches spread evenly over the half year
  (column *batches*), because all of them would take hours. *Ours above* compares on the same
  batches: by how many nats per row `ScStream()` is better (negative: worse), and the standard error
  of that.
- The one density of several columns that river has is a Gaussian of all rows so far. It is stopped
  after ten CPU seconds.
"""

FLIGHTS_READING = """What this shows:

- **Batches of an hour.** The minute of the day is the clock itself: it moves on by an hour from
  batch to batch and falls back at midnight. `ScStream()` follows it: {hour:.2f} nats, and
  {hour_still:.2f} with motion switched off; a mixture that was fitted once knows the whole day
  ({once:.2f}), one that was fitted to the last hours knows the wrong ones. Every midnight is paid
  for: what moves on does not see the jump back.
- **Motion and a long memory do not go together.** Told to remember a week of hours it falls to
  {hour_week:.2f} with {hour_week_k:.0f} clusters: a cluster that moves takes its whole week along,
  and the hours that it leaves lose what was known of them. Without motion it gets
  {hour_week_still:.2f}.
- **Six hours** are the worst case: four batches a day, in which the clock leaps instead of moving.
  {six:.2f} nats, {six_still:.2f} with motion switched off.
- **Batches of a day** hold the whole period, and little is left that moves: {day:.3f} nats against
  {day_once:.3f} of the mixture that was fitted once, and {day_fine:.3f} with `coarseness` 0. That
  switch stands for the demand that a heavy cluster is only split for a clear gain, which makes
  clusters that people can name, and costs density.
- **Without the minute** nothing moves on, delays rise and fall with the hour: {bare:.3f} nats,
  {bare_still:.3f} without motion, and mixtures with the K that BIC found are better by
  {bare_behind:.3f} when they are fitted anew to the same seven hours. Where rows come and go with
  the clock, set `motion=False`, or let a batch hold a whole period.

In the figure the least probable days of three weeks have their dates; lines mark Saturdays.
"""

NAB = """## Numenta Anomaly Benchmark

{n} series with labelled windows. Rows are value, step and mean of the last ten values, scaled by
the first 15 % of the series (at most 750 rows), which are learned and not scored, as NAB has it.
Repeated values get Gaussian noise of a hundredth of the spread, the same for every method. The
score of a row is minus its log density before it is learned; ours learns 50 rows at once.
`GaussianMixture` (K by BIC on the first rows) and `IsolationForest` are fitted to the last 1000
rows and anew every 500; river's methods learn row by row. The last three see the value alone.

- *AUC* and *AP*: ROC AUC and average precision of rows in windows, mean over the series that have
  any. Windows are wide, {share:.0f} % of the rows, and most rows in them look like all others:
  nobody gets far.
- *NAB*: its own score, standard profile. Early detections count more, one threshold holds for all
  series, silence is 0 and perfection 100. *Even*: the same when a score is first compared with
  mean and spread of those before it in its series, which gives all series one scale.
- The scoring is written anew from its definition. The last line checks it: NAB publishes 39.6 for
  this detector.
"""

NAB_READING = """What this shows:

- By NAB's own score ours is at {ours:.1f} with nothing set, and between {low:.1f} and {high:.1f}
  over its three memories; the best peer is at {best_nab:.1f} ({best_nab_name}). With even scores
  ours is between {low_even:.1f} and {high_even:.1f}, the best peer at {best_even:.1f}
  ({best_even_name}).
- By rows ours does not lead. AUC: {auc:.3f}, {auc_above:+.3f} ± {auc_error:.3f} over the best
  ({best_auc_name}). AP: {ap:.3f}, {ap_above:+.3f} ± {ap_error:.3f} over the best ({best_ap_name}).
  The errors are over {n_pairs} series.
- Models of sequences, made for NAB, score above 60 (Numenta's HTM). They know of periods and of
  what a series did a week ago; three columns do not.

In the figure, ours with nothing set: windows are shaded, the line is the best threshold for all
series, marks are detections. The taxis' windows are holidays and a storm: most hold values that are
ordinary at another hour.
"""
