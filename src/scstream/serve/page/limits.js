/** From where to where the map goes: fixed with the axes, or following what matters. */

export const SIGMAS = 2;
const HEAVY = 0.96; // share of the weight whose ellipses must fit
const EASE = 0.25; // share of the way to new limits in one frame of the screen
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

let limits = null; // of the picture as it is drawn: [left, right, bottom, top]
let goal = null; // where they are going

/** Choose the limits anew with the next picture. */
export const forgetLimits = () => (goal = limits = null);

/** Centres and half axes of the clusters, the heaviest first. */
export function clusters({ kind, shown }) {
  return shown.id.map((id, k) => {
    const covariance = shown.covariance[k];
    const flat = kind === "line";
    const [a, b, d] = flat
      ? [0, 0, covariance?.[0]]
      : [covariance?.[0], covariance?.[1], covariance?.[3]];
    return {
      id,
      share: shown.share[k],
      place: shown.place[k],
      a,
      b,
      d,
      round: covariance !== undefined,
    };
  });
}

/** Places of the rows; those of one column by how many rows ago they came. */
export function rowPlaces({ kind, rows }) {
  if (!rows) return [];
  return kind === "line" ? rows.place.map(([v], i) => [i - rows.place.length + 1, v]) : rows.place;
}

/** Limits of what matters: ellipses that hold most of the weight, all centres, nearly all rows. */
function contentLimits(picture) {
  const drawn = clusters(picture);
  const across = [];
  const up = [];
  const enough = HEAVY * drawn.reduce((sum, { share }) => sum + share, 0);
  let weight = 0;
  for (const each of drawn) {
    const [cx, cy] = picture.kind === "line" ? [0, each.place[0]] : each.place;
    across.push(cx);
    up.push(cy);
    const whole = weight < enough || isSmall(each, across, up);
    const rx = whole ? SIGMAS * Math.sqrt(each.a ?? 0) : 0;
    const ry = whole ? SIGMAS * Math.sqrt(each.d ?? 0) : 0;
    weight += each.share;
    across.push(cx - rx, cx + rx);
    up.push(cy - ry, cy + ry);
  }
  const places = rowPlaces(picture);
  const inner = (values) => {
    const sorted = values.sort((p, q) => p - q);
    return [sorted[Math.floor(0.01 * sorted.length)], sorted[Math.ceil(0.99 * sorted.length) - 1]];
  };
  if (places.length) {
    across.push(...(picture.kind === "line" ? [places[0][0]] : inner(places.map(([px]) => px))));
    up.push(...inner(places.map(([, py]) => py)));
  }
  return [Math.min(...across), Math.max(...across), Math.min(...up), Math.max(...up)];
}

/** Whether the ellipse of a light cluster is not much wider than what was drawn before it. */
function isSmall({ a, d }, across, up) {
  const narrow = (variance, values) =>
    SIGMAS * Math.sqrt(variance ?? 0) <= 0.3 * (Math.max(...values) - Math.min(...values));
  return narrow(a, across) && narrow(d, up);
}

/** Go towards the limits of the content: those that the axes began with, or those of now. */
export function moveLimits(picture, box, follow) {
  const { kind, view, rows } = picture;
  const fitted = `${kind} ${view.number} ${view.fitted}`;
  const content = goal && !follow && goal.fitted === fitted ? null : contentLimits(picture);
  if (content && (!goal || goal.kind !== kind || !fits(content, goal) || !follow)) {
    goal = Object.assign(padded(content, 0.09, kind), { kind });
  }
  goal.fitted = fitted;
  if (kind === "line") goal[0] = 1 - Math.max(rows?.id.length ?? 0, 2);
  const target = picture.kind === "plane" ? sameUnit(goal, box) : goal;
  if (!limits || limits.kind !== picture.kind || stillness.matches) {
    limits = Object.assign([...target], { kind: picture.kind });
    return { limits, moving: false };
  }
  const size = [
    target[1] - target[0],
    target[1] - target[0],
    target[3] - target[2],
    target[3] - target[2],
  ];
  let moving = false;
  target.forEach((value, i) => {
    const way = value - limits[i];
    moving ||= Math.abs(way) > 0.002 * size[i];
    limits[i] += Math.abs(way) > 0.002 * size[i] ? EASE * way : way;
  });
  return { limits, moving };
}

function fits([left, right, bottom, top], to) {
  const enough = (low, high, from, until) =>
    low >= from && high <= until && high - low > 0.6 * (until - from);
  return enough(left, right, to[0], to[1]) && enough(bottom, top, to[2], to[3]);
}

function padded([left, right, bottom, top], share, kind) {
  const px = share * (right - left) || 1;
  const py = share * (top - bottom) || 1;
  return kind === "line"
    ? [left, 0.5, bottom - py, top + py]
    : [left - px, right + px, bottom - py, top + py];
}

/** Widen one of two ranges until a step is as long across as up. */
function sameUnit([left, right, bottom, top], box) {
  const across = (right - left) / (box.right - box.left);
  const up = (top - bottom) / (box.bottom - box.top);
  const more = (from, to, factor) => {
    const extra = ((to - from) * (factor - 1)) / 2;
    return [from - extra, to + extra];
  };
  if (across > up) return [left, right, ...more(bottom, top, across / up)];
  return [...more(left, right, up / across), bottom, top];
}
