/** What the page knows, in bounded memory, and what the reader chose to look at. */

const MOST_MOMENTS = 600;
const YOUTH = 0.05; // as the service has it
const MOST_EVENTS = 500;
const MOST_SHARES = 24; // of a moment

export const store = {
  moments: [], // of the history, the oldest first
  events: [], // the oldest first
  lives: [], // of clusters
  forgotten: 0, // lives that nobody remembers
  picture: null,
  clock: "number", // what times are: "batch", "date" or "number"
  selected: null, // id of a cluster
  cursor: null, // a time
  span: 0, // batches that are shown, 0 for all
  paused: false,
  waiting: null, // the picture that came last in a pause
};

/** Take in what happened; `afresh` replaces what was known. Returns the events that are new. */
export function takeNews(news) {
  if (news.afresh) {
    store.moments = [];
    store.events = [];
  }
  for (const moment of news.moments) {
    store.moments.push(moment);
    if (store.moments.length > MOST_MOMENTS) thin(store.moments);
  }
  store.events.push(...news.events);
  store.events.splice(0, store.events.length - MOST_EVENTS);
  if (news.lives) store.lives = news.lives;
  store.forgotten = news.forgotten;
  store.clock = news.clock;
  return news.afresh ? [] : news.events;
}

/** Clusters that are drawn, in the order of their ids. */
export function shownIds() {
  return store.picture?.shown.id?.toSorted((a, b) => a - b) ?? [];
}

/** Select the cluster that is `step` places further; the first or last where none is selected. */
export function stepSelection(step) {
  const ids = shownIds();
  if (!ids.length) return;
  const at = ids.indexOf(store.selected);
  const next = at < 0 ? (step > 0 ? 0 : ids.length - 1) : (at + step + ids.length) % ids.length;
  store.selected = ids[next];
}

/** Moments that are shown, and from when to when. */
export function visible() {
  const last = store.moments.at(-1);
  if (!last) return { moments: [], from: 0, to: 1 };
  const moments = store.span
    ? store.moments.filter((moment) => moment.batch > last.batch - store.span)
    : [...store.moments];
  const [first] = moments;
  if (first.begin < first.time) moments.unshift({ ...first, time: first.begin });
  const event = store.span ? Infinity : (store.events[0]?.time ?? Infinity);
  const from = Math.min(first.begin, event);
  return { moments, from, to: last.time > from ? last.time : from + 1 };
}

/** Join those two neighbours that together are shortest for their age, as the service does. */
function thin(moments) {
  const newest = moments.at(-1).last + 1;
  let best = Infinity;
  let at = 0;
  for (let i = 0; i + 1 < moments.length; i++) {
    const length = moments[i + 1].last - moments[i].first + 1;
    const haste = length / (newest - moments[i + 1].last + YOUTH * MOST_MOMENTS);
    if (haste < best) [best, at] = [haste, i];
  }
  moments.splice(at, 2, joined(moments[at], moments[at + 1]));
}

/** Sum up two neighbours. */
export function joined(a, b) {
  const rows = a.rows + b.rows;
  const batches = a.batches + b.batches;
  const mean = (x, y) => (x * a.batches + y * b.batches) / batches;
  const either = (name, both) =>
    a[name] === null ? b[name] : b[name] === null ? a[name] : both(a[name], b[name]);
  const shares = new Map(a.ids.map((id, i) => [id, mean(a.shares[i], 0)]));
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
    fewest: Math.min(a.fewest, b.fewest),
    most: Math.max(a.most, b.most),
    density: either("density", (x, y) => (rows ? (x * a.rows + y * b.rows) / rows : y)),
    lowest: either("lowest", Math.min),
    highest: either("highest", Math.max),
    outside: mean(a.outside, b.outside),
    ids: heaviest.map(([id]) => id),
    shares: heaviest.map(([, share]) => share),
  };
}
