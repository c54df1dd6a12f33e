/** How many clusters there are, and their shares as a stacked stream. */

import { store } from "./store.js";
import { readableOn } from "./marks.js";
import {
  BOLD,
  drawCursor,
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

const MOST_LAYERS = 24;
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
  const layers = stacked(summaries);
  drawLayers(context, layers, points(summaries, x), { y, colours });
  drawUnseen(context, { x, top, bottom, colours });
  drawCursor(context, { x, top: 8, bottom, colours });
  context.canvas.dataset.layers = layers.length;
}

export function sharesWords() {
  const summary = pointedMoment();
  if (!summary) return "";
  const share = summary.ids.includes(store.selected)
    ? `, cluster ${store.selected} ${percent(summary.shares[summary.ids.indexOf(store.selected)])}`
    : "";
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

/** Lower and upper edge of every layer at every summary: clusters by id, the rest, no cluster. */
export function stacked(summaries) {
  const total = new Map();
  for (const { ids, shares } of summaries) {
    ids.forEach((id, i) => total.set(id, (total.get(id) ?? 0) + shares[i]));
  }
  const heaviest = [...total].sort((a, b) => b[1] - a[1]).slice(0, MOST_LAYERS);
  const ids = heaviest.map(([id]) => id).sort((a, b) => a - b);
  const layers = ids.map((id) => ({ id, low: [], high: [] }));
  const rest = { id: "rest", low: [], high: [] };
  const outside = { id: "outside", low: [], high: [] };
  for (const summary of summaries) {
    const share = new Map(summary.ids.map((id, i) => [id, summary.shares[i]]));
    let level = 0;
    for (const layer of layers) {
      layer.low.push(level);
      layer.high.push((level += share.get(layer.id) ?? 0));
    }
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
    context.beginPath();
    at.forEach((px, i) => context.lineTo(px, y(layer.high[i])));
    for (let i = at.length - 1; i >= 0; i--) context.lineTo(at[i], y(layer.low[i]));
    context.closePath();
    const known = typeof layer.id === "number";
    const dim = store.selected !== null && store.selected !== layer.id;
    context.fillStyle = known
      ? colours.of(layer.id)
      : layer.id === "rest"
        ? colours.line
        : hatch(context, colours);
    context.globalAlpha = dim && known ? 0.25 : 1;
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = Math.min(
      1,
      0.2 * Math.max(...at.map((_, i) => y(layer.low[i]) - y(layer.high[i]))),
    );
    context.strokeStyle = colours.panel;
    if (known) context.stroke();
    const best = roomiest(layer, at, y);
    if (best.height >= 12) labels.push({ ...best, layer, dim: dim && known });
  }
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = BOLD;
  for (const { layer, x, middle, dim } of labels) {
    const known = typeof layer.id === "number";
    const name = known ? String(layer.id) : layer.id === "rest" ? "others" : "none";
    context.fillStyle = known && !dim ? readableOn(colours.of(layer.id)) : colours.ink;
    context.fillText(name, x, middle);
  }
  context.font = FONT;
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
