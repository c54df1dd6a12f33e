/** A canvas that fits its box on every screen, scales and ticks, and the axis of time. */

import { store, visible } from "./store.js";
import { palette } from "./marks.js";
import { clockName, tickWords } from "./words.js";

export const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
export const BOLD = `600 ${FONT}`;
const MARGIN = { left: 48, right: 44, names: 110 };
const AXIS = 20; // height of the axis of time

const due = new Set(); // sheets that wait to be drawn, one in each frame of the screen

function drawNext() {
  const [sheet] = due;
  due.delete(sheet);
  if (due.size) requestAnimationFrame(drawNext);
  sheet.draw();
}

export class Sheet {
  /** `paint(context, {width, height, colours})` draws all of it anew. */
  constructor(canvas, paint) {
    this.canvas = canvas;
    this.paint = paint;
    this.context = canvas.getContext("2d");
    new ResizeObserver(() => this.refresh()).observe(canvas);
  }

  /** Draw soon, once however often this is called. */
  refresh() {
    if (!due.size) requestAnimationFrame(drawNext);
    due.add(this);
  }

  draw() {
    const { canvas, context } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    if (
      canvas.width !== Math.round(width * ratio) ||
      canvas.height !== Math.round(height * ratio)
    ) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    context.lineJoin = "round";
    this.paint(context, { width, height, colours: palette() });
  }
}

/** A linear scale from [from, to] to [start, end]. */
export function scale(from, to, start, end) {
  const slope = (end - start) / (to - from || 1);
  const map = (value) => start + (value - from) * slope;
  map.back = (place) => from + (place - start) / slope;
  return Object.assign(map, { from, to, start, end });
}

const DATE_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  604800, 1209600, 2592000, 7776000, 31536000,
];

/** Round numbers between two values, about `n` of them. */
export function ticks(from, to, n, { integer = false, clock = "number" } = {}) {
  const rough = (to - from) / Math.max(n, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((k) => k * power).find((value) => value >= rough * 0.999);
  if (clock === "date" && rough >= 0.5)
    step = DATE_STEPS.find((s) => s >= rough) ?? DATE_STEPS.at(-1);
  if (integer || clock === "batch") step = Math.max(1, Math.round(step));
  const out = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + 1e-9 * step; i++)
    out.push(i * step || 0);
  return Object.assign(out, { step });
}

/** The place of time on every panel that has one. */
export function timeScale(width) {
  const { from, to, summaries } = visible();
  const named = store.picture?.shown?.name?.some(Boolean) && width > 500;
  const right = named ? MARGIN.names : MARGIN.right;
  return Object.assign(scale(from, to, MARGIN.left, width - right), { summaries });
}

/** Draw the axis of time below `bottom`, with lines up to `top`. */
export function drawTime(context, { x, top, bottom, colours }) {
  const clock = store.clock;
  const at = ticks(x.from, x.to, (x.end - x.start) / 75, { clock });
  context.strokeStyle = colours.faint;
  context.fillStyle = colours.soft;
  context.textBaseline = "top";
  context.lineWidth = 1;
  context.textAlign = "left";
  context.fillText(clockName(clock), 0, bottom + 5);
  const from = context.measureText(clockName(clock)).width + 6;
  context.textAlign = "center";
  for (const time of at) {
    line(context, x(time), top, x(time), bottom);
    const words = tickWords(time, clock, at.step);
    if (x(time) - context.measureText(words).width / 2 > from)
      context.fillText(words, x(time), bottom + 5);
  }
  context.strokeStyle = colours.line;
  line(context, x.start, bottom, x.end, bottom);
}

/** Height that `drawTime` needs below its bottom. */
export const timeHeight = AXIS;

/** Draw ticks of a vertical scale at the left. */
export function drawLevels(context, { x, y, at, words, colours, grid = true }) {
  context.fillStyle = colours.soft;
  context.strokeStyle = colours.faint;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.lineWidth = 1;
  for (const value of at) {
    if (grid) line(context, x.start, y(value), x.end, y(value));
    context.fillText(words(value), x.start - 6, y(value));
  }
}

/** Draw the summary that the reader points at. */
export function drawCursor(context, { x, top, bottom, colours }) {
  if (store.cursor === null || store.cursor < x.from || store.cursor > x.to) return;
  context.strokeStyle = colours.ink;
  context.lineWidth = 1;
  context.setLineDash([2, 3]);
  line(context, x(store.cursor), top, x(store.cursor), bottom);
  context.setLineDash([]);
}

/** The summary that the reader points at, or the last. */
export function pointedMoment() {
  const { summaries } = visible();
  if (store.cursor === null) return summaries.at(-1);
  return summaries.find((each) => each.time >= store.cursor) ?? summaries.at(-1);
}

/** Say that nobody looked before the first summary, where that leaves a gap. */
export function drawUnseen(context, { x, top, bottom, colours }) {
  const gap = x(x.summaries[0].time) - x.start;
  if (gap < 110) return;
  context.fillStyle = colours.soft;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText("before the page was served", x.start + gap / 2, (top + bottom) / 2, gap - 20);
}

/** Say in the middle why there is nothing to see. */
export function drawWords(context, words, { width, height, colours }) {
  context.fillStyle = colours.soft;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = FONT.replace("12px", "14px");
  context.fillText(words, width / 2, height / 2, width - 20);
  context.font = FONT;
}

/** Text with a rim of the colour of the paper, readable on anything. */
export function drawLabel(context, text, x, y, { ink, paper }) {
  context.lineWidth = 3;
  context.strokeStyle = paper;
  context.strokeText(text, x, y);
  context.fillStyle = ink;
  context.fillText(text, x, y);
}

export function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  context.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  context.stroke();
}
