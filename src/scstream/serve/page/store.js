/** What the page knows, in bounded memory, and what the reader chose to look at. */

const MAX_SUMMARIES = 600;
const YOUTH = 0.05; // as the service has it
const MOST_EVENTS = 500;
const MOST_SHARES = 400; // of a summary, as the service has it
const UNIT = 1e-5; // of the shares that are sent

export const store = {
  summaries: [], // of the history, the oldest first
  events: [], // the oldest first
  lineage: [], // of clusters
  dropped: 0, // clusters that the service no longer keeps
  picture: null,
  clock: "number", // what times are: "batch", "date" or "number"
  tree: null, // of groups
  resolution: null, // of groups that are shown, null for clusters
  selected: null, // id of a cluster, or of a group
  cursor: null, // a time
  span: 0, // batches that are shown, 0 for all
  follow: false, // whether axes and limits of the map change by themselves
  paused: false,
  waiting: null, // the picture that came last in a pause
};

/** Take in what happened; `reset` replaces what was known. Returns the events that are new. */
export function takeNews(news) {
  if (news.reset) {
    store.summaries = [];
    store.events = [];
  }
  for (const summary of news.summaries) {
    store.summaries.push(decoded(summary));
    if (store.summaries.length > MAX_SUMMARIES) thin(store.summaries);
  }
  store.events.push(...news.events);
  store.events.splice(0, store.events.length - MOST_EVENTS);
  if (news.lineage) store.lineage = news.lineage;
  store.dropped = news.dropped;
  store.clock = news.clock;
  return news.reset ? [] : news.events;
}

/** A summary with ids and shares as numbers: differences and small units were sent. */
export function decoded(summary) {
  let id = 0;
  return {
    ...summary,
    ids: Float64Array.from(summary.ids, (step) => (id += step)),
    shares: Float32Array.from(summary.shares, (share) => share * UNIT),
  };
}

/** Moments that are shown, and from when to when. */
export function visible() {
  const last = store.summaries.at(-1);
  if (!last) return { summaries: [], from: 0, to: 1 };
  const summaries = store.span
    ? store.summaries.filter((summary) => summary.batch > last.batch - store.span)
    : [...store.summaries];
  const [first] = summaries;
  if (first.begin < first.time) summaries.unshift({ ...first, time: first.begin });
  const event = store.span ? Infinity : (store.events[0]?.time ?? Infinity);
  const from = Math.min(first.begin, event);
  return { summaries, from, to: last.time > from ? last.time : from + 1 };
}

/** Join those two neighbours that together are shortest for their age, as the service does. */
function thin(summaries) {
  const newest = summaries.at(-1).last + 1;
  let best = Infinity;
  let at = 0;
  for (let i = 0; i + 1 < summaries.length; i++) {
    const length = summaries[i + 1].last - summaries[i].first + 1;
    const haste = length / (newest - summaries[i + 1].last + YOUTH * MAX_SUMMARIES);
    if (haste < best) [best, at] = [haste, i];
  }
  summaries.splice(at, 2, joined(summaries[at], summaries[at + 1]));
}

/** Sum up two neighbours. */
export function joined(a, b) {
  const rows = a.rows + b.rows;
  const batches = a.batches + b.batches;
  const mean = (x, y) => (x * a.batches + y * b.batches) / batches;
  const either = (name, both) =>
    a[name] === null ? b[name] : b[name] === null ? a[name] : both(a[name], b[name]);
  const shares = new Map();
  a.ids.forEach((id, i) => shares.set(id, mean(a.shares[i], 0)));
  b.ids.forEach((id, i) => shares.set(id, (shares.get(id) ?? 0) + mean(0, b.shares[i])));
  const heaviest = [...shares].sort((x, y) => y[1] - x[1]).slice(0, MOST_SHARES);
  heaviest.sort((x, y) => x[0] - y[0]);
  return {
    ...b,
    begin: a.begin,
    first: a.first,
    batches,
    rows,
    novel: a.novel + b.novel,
    min_clusters: Math.min(a.min_clusters, b.min_clusters),
    max_clusters: Math.max(a.max_clusters, b.max_clusters),
    density: either("density", (x, y) => (rows ? (x * a.rows + y * b.rows) / rows : y)),
    lowest: either("lowest", Math.min),
    highest: either("highest", Math.max),
    outside: mean(a.outside, b.outside),
    ids: Float64Array.from(heaviest, ([id]) => id),
    shares: Float32Array.from(heaviest, ([, share]) => share),
  };
}
