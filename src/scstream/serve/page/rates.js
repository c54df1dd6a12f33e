/** Share of rows in no cluster, and mean log density, over time. */

import {
  drawCursor,
  drawLevels,
  drawTime,
  drawUnseen,
  drawWords,
  pointedMoment,
  scale,
  ticks,
  timeHeight,
  timeScale,
} from "./sheet.js";
import { number, percent } from "./words.js";

const TOP = 20;
const GAP = 26;

export function paintRates(context, { width, height, colours }) {
  const x = timeScale(width);
  const { summaries } = x;
  if (!summaries.length) {
    drawWords(context, "Nothing was learned yet.", { width, height, colours });
    return;
  }
  const bottom = height - timeHeight;
  const each = (bottom - TOP - GAP) / 2;
  drawTime(context, { x, top: TOP, bottom, colours });
  drawNovelty(context, summaries, { x, top: TOP, bottom: TOP + each, colours });
  drawDensity(context, summaries, { x, top: bottom - each, bottom, colours });
  drawUnseen(context, { x, top: TOP, bottom: TOP + each, colours });
  drawCursor(context, { x, top: TOP, bottom, colours });
}

export function ratesWords() {
  const summary = pointedMoment();
  if (!summary) return "";
  const novelty = summary.rows ? percent(summary.novel / summary.rows) : "no rows";
  return `${novelty} in no cluster, log density ${number(summary.density)}`;
}

function drawNovelty(context, summaries, { x, top, bottom, colours }) {
  const rate = summaries.map((m) => (m.rows ? m.novel / m.rows : null));
  const most = Math.max(...rate.map((r) => r ?? 0), 0.01);
  const at = ticks(0, most * 1.05, 3);
  const y = scale(0, Math.max(most * 1.05, at.at(-1)), bottom, top);
  title(context, "rows in no cluster", x.start, top, colours);
  drawLevels(context, { x, y, at, words: (v) => percentTick(v), colours });
  drawLine(context, summaries, rate, { x, y, colours });
}

const percentTick = (v) => `${number(100 * v)} %`;

function drawDensity(context, summaries, { x, top, bottom, colours }) {
  title(context, "mean log density of a row: higher fits better", x.start, top, colours);
  const known = summaries.filter((m) => m.density !== null);
  if (!known.length) return;
  let [low, high] = [
    Math.min(...known.map((m) => m.lowest)),
    Math.max(...known.map((m) => m.highest)),
  ];
  if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
  const y = scale(low - 0.05 * (high - low), high + 0.05 * (high - low), bottom, top);
  drawLevels(context, { x, y, at: ticks(y.from, y.to, 3), words: number, colours });
  context.beginPath();
  for (const m of known) context.lineTo(x(m.time), y(m.highest));
  for (const m of known.toReversed()) context.lineTo(x(m.time), y(m.lowest));
  context.globalAlpha = 0.18;
  context.fillStyle = colours.ink;
  context.fill();
  context.globalAlpha = 1;
  drawLine(
    context,
    summaries,
    summaries.map((m) => m.density),
    { x, y, colours },
  );
}

function title(context, words, left, top, colours) {
  context.fillStyle = colours.soft;
  context.textAlign = "left";
  context.textBaseline = "bottom";
  context.fillText(words, left, top - 4);
}

/** A line with gaps where there is no value, and a dot at its end. */
function drawLine(context, summaries, values, { x, y, colours }) {
  context.beginPath();
  let pen = false;
  values.forEach((value, i) => {
    if (value !== null) context[pen ? "lineTo" : "moveTo"](x(summaries[i].time), y(value));
    pen = value !== null;
  });
  context.strokeStyle = colours.ink;
  context.lineWidth = 1.4;
  context.stroke();
  const last = values.at(-1);
  if (last === null) return;
  context.beginPath();
  context.arc(x(summaries.at(-1).time), y(last), 2.5, 0, 2 * Math.PI);
  context.fillStyle = colours.ink;
  context.fill();
}
