/** Lives of clusters as lanes: forks where they split, joins where they merge. */

import { store } from "./store.js";
import { isDim, isSelected, shortTitle, unitAt, unitById } from "./units.js";
import { shapeOf, tracePoint } from "./marks.js";
import { BOLD, drawCursor, drawTime, drawWords, FONT, line, timeHeight, timeScale } from "./sheet.js";
import { plural } from "./words.js";

const TOP = 10;
const THINNEST = 12; // height of a lane in pixels
const THICKEST = 28;
const ROOM = 30; // pixels that must be free between two lives in a lane

let leftOut = 0;

export function paintLineage(context, { width, height, colours }) {
  const x = timeScale(width);
  const bottom = height - timeHeight;
  if (!store.lineage.length) {
    drawWords(context, "No clusters yet.", { width, height, colours });
    return;
  }
  drawTime(context, { x, top: TOP, bottom, colours });
  const now = x.to;
  const seen = knownLives().filter(
    (life) => (life.end ?? now) >= x.from && (life.born ?? x.from) <= now,
  );
  const room = Math.max(1, Math.floor((bottom - TOP) / THINNEST));
  const { lanes, n, dropped } = inLanes(seen, x, room);
  leftOut = dropped + store.dropped;
  const step = Math.min(THICKEST, (bottom - TOP) / Math.max(n, 1));
  const drawing = { x, y: (id) => TOP + (lanes.get(id) + 0.5) * step, step, lanes, colours };
  const drawn = seen.filter((life) => lanes.has(life.id));
  for (const life of drawn) drawJoints(context, life, drawing);
  for (const life of drawn) drawLife(context, life, drawing);
  drawCursor(context, { x, top: TOP, bottom, colours });
  context.canvas.dataset.lives = drawn.length;
}

export function lineageWords() {
  return leftOut ? `${plural(leftOut, "cluster")} left out` : "";
}

/** All lives; the selected cluster has one even if the service has dropped it. */
function knownLives() {
  const unit = unitById(store.selected);
  if (!unit || store.lineage.some((life) => life.id === unit.id)) return store.lineage;
  const life = { id: unit.id, born: unit.born, parent: null, end: null, how: null, into: null };
  return [...store.lineage, { ...life, away: null, peak: unit.share }];
}

/** How much a life matters: the selected most, a present cluster by its new rows. */
function matter(life, present) {
  if (isSelected(life.id)) return Infinity;
  return life.end === null ? (present.get(life.id) ?? 0) : life.peak / 2;
}

/** Give every life a lane of its own while it lasts, near its parent's; drop what matters least. */
export function inLanes(lives, x, room) {
  const shown = store.picture?.shown;
  const present = new Map(shown?.id?.map((id, k) => [id, shown.present[k]]));
  const rank = new Map(lives.map((life) => [life.id, matter(life, present)]));
  let kept = lives.toSorted((a, b) => rank.get(b.id) - rank.get(a.id) || a.id - b.id);
  kept = kept.slice(0, 8 * room);
  for (;;) {
    const found = assigned(kept, x);
    if (found.n <= room) return { ...found, dropped: lives.length - kept.length };
    kept = kept.slice(0, Math.min(kept.length - 1, Math.ceil(0.9 * kept.length)));
  }
}

function assigned(lives, x) {
  const lanes = new Map();
  const freeFrom = []; // place on the screen from which a lane is free again
  for (const life of lives.toSorted(
    (a, b) => (a.born ?? -Infinity) - (b.born ?? -Infinity) || a.id - b.id,
  )) {
    const start = x(Math.max(life.born ?? x.from, x.from));
    const home = lanes.get(life.parent);
    const free = freeFrom
      .map((place, lane) => (place <= start ? lane : -1))
      .filter((lane) => lane >= 0);
    free.push(freeFrom.length);
    const lane =
      home === undefined
        ? free[0]
        : free.reduce((a, b) => (Math.abs(b - home) < Math.abs(a - home) ? b : a));
    freeFrom[lane] = life.end === null ? Infinity : x(life.end) + ROOM;
    lanes.set(life.id, lane);
  }
  return { lanes, n: freeFrom.length };
}

/** Curves to the cluster that a life came from, or went to. */
function drawJoints(context, life, { x, y, lanes, colours }) {
  context.lineWidth = 1.3;
  context.strokeStyle = colours.of(unitAt(life.id));
  context.globalAlpha = isDim(life.id) ? 0.25 : 1;
  const curve = (other, at, by) => {
    const far = Math.min(Math.max(x(at) + by, x.start), x.end);
    const middle = (x(at) + far) / 2;
    context.beginPath();
    context.moveTo(far, y(other));
    context.bezierCurveTo(middle, y(other), middle, y(life.id), x(at), y(life.id));
    context.stroke();
  };
  if (life.parent !== null && lanes.has(life.parent) && life.born >= x.from)
    curve(life.parent, life.born, -12);
  if (life.into !== null && lanes.has(life.into)) curve(life.into, life.end, 12);
  context.globalAlpha = 1;
}

function drawLife(context, life, { x, y, step, colours }) {
  const start = x(Math.max(life.born ?? x.from, x.from));
  const end = x(life.end ?? x.to);
  const middle = y(life.id);
  context.globalAlpha = isDim(life.id) ? 0.25 : 1;
  context.strokeStyle = context.fillStyle = colours.of(unitAt(life.id));
  const least = isSelected(life.id) ? 4 : 1.5;
  const width = Math.max(least, Math.min(0.62 * step, 1.2 * step * Math.sqrt(life.peak)));
  for (const [from, to] of stretches(life, start, end, x)) {
    context.fillRect(from, middle - width / 2, Math.max(to - from, 1), width);
  }
  context.lineWidth = 1.5;
  if (life.born !== null && life.born >= x.from && life.parent === null) {
    context.beginPath();
    context.arc(start, middle, 3.2, 0, 2 * Math.PI);
    context.fillStyle = colours.panel;
    context.fill();
    context.stroke();
  }
  if (life.how === "died") drawDeath(context, end, middle);
  context.globalAlpha = isDim(life.id) ? 0.6 : 1;
  if (life.end === null) {
    context.fillStyle = colours.of(unitAt(life.id));
    context.beginPath();
    tracePoint(context, shapeOf(unitAt(life.id)), end + 7, middle, 3);
    context.fill();
  }
  context.fillStyle = colours.ink;
  context.textAlign = "left";
  context.textBaseline = "middle";
  if (isSelected(life.id)) context.font = BOLD;
  context.fillText(shortTitle(life.id), end + (life.end === null ? 13 : 7), middle);
  context.font = FONT;
  context.globalAlpha = 1;
}

/** When a cluster was there: all the time, or with a gap before it came back. */
function stretches(life, start, end, x) {
  if (!life.away) return [[start, end]];
  const left = life.away[0] === null ? start : Math.max(x(life.away[0]), start);
  return [
    [start, left],
    [Math.max(x(life.away[1]), start), end],
  ];
}

function drawDeath(context, px, py) {
  line(context, px - 3, py - 3, px + 3, py + 3);
  line(context, px - 3, py + 3, px + 3, py - 3);
}
