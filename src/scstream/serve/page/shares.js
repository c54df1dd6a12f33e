/** How many clusters there are, and their shares as a stacked stream. */

import { store } from "./store.js";
import { allUnits, shortTitle, title, unitAt } from "./units.js";
import { patternOf, readableOn } from "./marks.js";
import {
  BOLD,
  drawCursor,
  drawLabel,
  drawLevels,
  drawTime,
  drawUnseen,
  drawWords,
  FONT,
  pointedMoment,
  scale,
  timeHeight,
  timeScale,
} from "./sheet.js";
import { count, percent, plural, timeWords } from "./words.js";

const MOST_PRESENT = 40; // layers of the units with most new rows
const MOST_PAST = 10; // further layers of those that were large
const SPARE = 6; // places that a layer may fall behind before another takes its place
const NEAREST = 2; // pixels between two points
const K_HEIGHT = 44;
const GAP = 20;
const REACH = 11; // pixels on either side of a name
const PLACES = 150; // that are tried for a name

export function paintShares(context, { width, height, colours }) {
  const x = timeScale(width);
  const summaries = x.summaries.length === 1 ? [x.summaries[0], x.summaries[0]] : x.summaries;
  if (!summaries.length) {
    drawWords(context, "Nothing was learned yet.", { width, height, colours });
    return;
  }
  const bottom = height - timeHeight;
  const top = 8 + K_HEIGHT + GAP;
  drawTime(context, { x, top: 8, bottom, colours });
  drawCount(context, summaries, { x, top: 8, bottom: 8 + K_HEIGHT, colours });
  const y = scale(0, 1, bottom, top);
  drawLevels(context, {
    x,
    y,
    at: [0, 0.5, 1],
    words: (v) => `${100 * v} %`,
    colours,
    grid: false,
  });
  const places = points(summaries, x);
  const drawn = spaced(places);
  const layers = stacked(drawn.map((i) => summaries[i]));
  const at = drawn.map((i) => places[i]);
  drawLayers(context, layers, at, { y, colours });
  drawUnseen(context, { x, top, bottom, colours });
  drawCursor(context, { x, top: 8, bottom, colours });
  context.canvas.dataset.layers = layers.length;
}

export function sharesWords() {
  const summary = pointedMoment();
  if (!summary) return "";
  let sum = null;
  summary.ids.forEach((id, i) => {
    if (unitAt(id) === store.selected) sum += summary.shares[i];
  });
  const share = sum === null ? "" : `, ${title(store.selected)} ${percent(sum)}`;
  const when = `${store.clock === "batch" ? "batch " : ""}${timeWords(summary.time, store.clock)}`;
  return `${when}: ${plural(summary.clusters, "cluster")}${share}`;
}

/** Number of clusters as a line, with the range where summaries were joined. */
function drawCount(context, summaries, { x, top, bottom, colours }) {
  const most = Math.max(...summaries.map((m) => m.max_clusters), 1);
  const y = scale(0, most, bottom, top);
  const marks = most > 1 ? [0, most] : [0, 1];
  drawLevels(context, { x, y, at: marks, words: count, colours });
  const at = points(summaries, x);
  context.beginPath();
  at.forEach((px, i) => context.lineTo(px, y(summaries[i].max_clusters)));
  for (let i = at.length - 1; i >= 0; i--) context.lineTo(at[i], y(summaries[i].min_clusters));
  context.globalAlpha = 0.18;
  context.fillStyle = colours.ink;
  context.fill();
  context.globalAlpha = 1;
  context.beginPath();
  at.forEach((px, i) => {
    if (i) context.lineTo(px, y(summaries[i - 1].clusters));
    context.lineTo(px, y(summaries[i].clusters));
  });
  context.strokeStyle = colours.ink;
  context.lineWidth = 1.5;
  context.stroke();
  context.fillStyle = colours.ink;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.font = BOLD;
  context.fillText(count(summaries.at(-1).clusters), x.end + 5, y(summaries.at(-1).clusters));
  context.font = FONT;
}

/** Places of the summaries; a single one, which comes twice, is drawn as a short stretch. */
function points(summaries, x) {
  return summaries[0] === summaries[1] ? [x.end - 26, x.end] : summaries.map((m) => x(m.time));
}

/** Indices of places that are not too near to each other, and of the last. */
function spaced(places) {
  const kept = [];
  places.forEach((place, i) => {
    if (!kept.length || place - places[kept.at(-1)] >= NEAREST) kept.push(i);
  });
  if (kept.at(-1) !== places.length - 1) kept[kept.length - 1] = places.length - 1;
  return kept.length > 1 || places.length < 2 ? kept : [0, places.length - 1];
}

let present = new Set(); // units that have a layer for their new rows

/** Units with a layer: those with most new rows, the selected, and some that were large. */
function layered(summaries) {
  const ids = allUnits().map((unit) => unit.id);
  const stay = ids.slice(0, MOST_PRESENT + SPARE).filter((id) => present.has(id));
  present = new Set([...stay.slice(0, MOST_PRESENT), ...ids].slice(0, MOST_PRESENT));
  const total = new Map();
  for (const { ids: each, shares } of summaries.filter((_, i) => i % 8 === 0)) {
    each.forEach((id, i) => total.set(unitAt(id), (total.get(unitAt(id)) ?? 0) + shares[i]));
  }
  const past = [...total].filter(([id]) => !present.has(id)).sort((a, b) => b[1] - a[1]);
  const chosen = new Set([...present, ...past.slice(0, MOST_PAST).map(([id]) => id)]);
  if (store.selected !== null) chosen.add(store.selected);
  return [...chosen].sort((a, b) => a - b);
}

/** Lower and upper edge of every layer at every summary: units by id, the rest, no cluster. */
export function stacked(summaries) {
  const layers = layered(summaries).map((id) => ({ id, low: [], high: [] }));
  const place = new Map(layers.map(({ id }, n) => [id, n]));
  const rest = { id: "rest", low: [], high: [] };
  const outside = { id: "outside", low: [], high: [] };
  for (const summary of summaries) {
    const share = new Float64Array(layers.length);
    summary.ids.forEach((id, i) => {
      const n = place.get(unitAt(id));
      if (n !== undefined) share[n] += summary.shares[i];
    });
    let level = 0;
    layers.forEach((layer, n) => {
      layer.low.push(level);
      layer.high.push((level += share[n]));
    });
    const ceiling = Math.max(1 - summary.outside, level);
    rest.low.push(level);
    rest.high.push(ceiling);
    outside.low.push(ceiling);
    outside.high.push(Math.max(1, ceiling));
  }
  return [...layers, rest, outside];
}

function drawLayers(context, layers, at, { y, colours }) {
  const labels = [];
  for (const layer of layers) {
    const known = typeof layer.id === "number";
    const dim = known && store.selected !== null && store.selected !== layer.id;
    const thick = Math.max(...at.map((_, i) => y(layer.low[i]) - y(layer.high[i])));
    trace(context, layer, at, y);
    context.globalAlpha = dim ? 0.25 : 1;
    context.fillStyle = groundOf(context, layer, colours);
    context.fill();
    const pattern = known && thick > 5 && patternOf(context, layer.id, colours);
    if (pattern) {
      context.fillStyle = pattern;
      context.fill();
    }
    context.globalAlpha = 1;
    context.lineWidth = Math.min(1, 0.2 * thick);
    context.strokeStyle = colours.panel;
    if (known) context.stroke();
    const best = roomiest(layer, at, y);
    if (best.height >= 12) labels.push({ ...best, layer, dim });
  }
  const chosen = layers.find(({ id }) => id === store.selected);
  const isThere = (_, i) => chosen.high[i] > chosen.low[i];
  if (chosen && at.some(isThere)) {
    const part = [at.findIndex(isThere), at.findLastIndex(isThere) + 1]; // of its life
    const [low, high] = [chosen.low.slice(...part), chosen.high.slice(...part)];
    trace(context, { low, high }, at.slice(...part), y);
    context.lineWidth = 2.5;
    context.strokeStyle = colours.of(chosen.id);
    context.stroke();
  }
  const others = Math.max(allUnits().length - layers.length + 2, 0);
  for (const label of labels) drawName(context, label, at, others, colours);
  context.font = FONT;
}

function trace(context, layer, at, y) {
  context.beginPath();
  at.forEach((px, i) => context.lineTo(px, y(layer.high[i])));
  for (let i = at.length - 1; i >= 0; i--) context.lineTo(at[i], y(layer.low[i]));
  context.closePath();
}

function groundOf(context, { id }, colours) {
  if (typeof id === "number") return colours.of(id);
  return id === "rest" ? colours.line : hatch(context, colours);
}

/** Write the name of a layer on a rim of its colour. */
function drawName(context, { layer, x, middle, dim }, at, others, colours) {
  const known = typeof layer.id === "number";
  const rest = others ? `${count(others)} others` : "others";
  const name = known ? shortTitle(layer.id) : layer.id === "rest" ? rest : "none";
  const plain = !known || dim;
  const ink = plain ? colours.ink : readableOn(colours.of(layer.id));
  const paper = plain ? colours.panel : colours.of(layer.id);
  context.textAlign = x < at[0] + 60 ? "left" : x > at.at(-1) - 60 ? "right" : "center";
  context.textBaseline = "middle";
  context.font = BOLD;
  drawLabel(context, name, x, middle, { ink, paper });
}

/** Where a layer has most room for its name: between the highest floor and the lowest ceiling. */
function roomiest(layer, at, y) {
  let best = { height: 0 };
  const step = Math.ceil(at.length / PLACES);
  for (let i = 0; i < at.length; i += step) {
    if (at[i] - at[0] < REACH || at.at(-1) - at[i] < REACH) continue;
    let [floor, ceiling] = [layer.low[i], layer.high[i]];
    const widen = (j) => {
      floor = Math.max(floor, layer.low[j]);
      ceiling = Math.min(ceiling, layer.high[j]);
    };
    for (let j = i - 1; at[i] - at[j] <= REACH; j--) widen(j);
    for (let j = i + 1; at[j] - at[i] <= REACH; j++) widen(j);
    const height = y(floor) - y(ceiling);
    if (height > best.height) best = { height, x: at[i], middle: (y(floor) + y(ceiling)) / 2 };
  }
  return best;
}

/** A pattern for rows that belong to no cluster. */
function hatch(context, colours) {
  const tile = new OffscreenCanvas(6, 6);
  const pen = tile.getContext("2d");
  pen.strokeStyle = colours.soft;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift, 6);
    pen.lineTo(shift + 6, 0);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}
