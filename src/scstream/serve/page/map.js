/** Recent rows and the clusters as ellipses, in a plane that stays until the reader changes it. */

import { clusters, moveLimits, rowPlaces, SIGMAS } from "./limits.js";
import { store } from "./store.js";
import { allUnits, isDim, isSelected, shortTitle, unitAt } from "./units.js";
import { shapeOf, tracePoint } from "./marks.js";
import { BOLD, drawLabel, drawLevels, drawWords, FONT, line, scale, ticks } from "./sheet.js";
import { count, number, percent, plural } from "./words.js";

const EDGE = { left: 56, right: 14, top: 8, bottom: 42 };
const FADE = 0.75; // of the oldest row
const MOST_NAMES = 60; // that are tried
const MOST_ELLIPSES = 60; // the other clusters are drawn as small marks
const FAR = 0.05; // share of rows, or of clusters, beyond the edge that is worth a new view

let anchors = []; // places of the clusters on the screen, for the pointer

/** Draw the picture; returns whether the limits still move. */
export function paintMap(context, { width, height, colours }) {
  const picture = store.picture;
  if (!picture?.shown?.id) {
    drawWords(context, picture?.batch === undefined ? "No model yet." : "No clusters yet.", {
      width,
      height,
      colours,
    });
    return false;
  }
  const box = {
    left: EDGE.left,
    right: width - EDGE.right,
    top: EDGE.top,
    bottom: height - EDGE.bottom,
  };
  const { limits, moving } = moveLimits(picture, box, store.follow);
  const x = scale(limits[0], limits[1], box.left, box.right);
  const y = scale(limits[2], limits[3], box.bottom, box.top);
  drawAxes(context, picture, { x, y, box, colours });
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  context.clip();
  const drawn = clusters(picture);
  drawEllipses(context, drawn, { x, y, box, colours, kind: picture.kind });
  drawRows(context, picture, { x, y, colours });
  context.restore();
  const outside = drawOutside(context, picture, { x, y, box, colours });
  drawNames(context, drawn, { x, y, box, colours, kind: picture.kind });
  const far = anchors.filter((each) => !isInside(each, box));
  for (const each of far) if (isSelected(each.id)) drawAway(context, each, { box, colours });
  context.canvas.dataset.rows = picture.rows?.id.length ?? 0;
  context.canvas.dataset.ellipses = picture.shown.covariance.length;
  context.canvas.dataset.outside = outside;
  context.canvas.dataset.far = far.length;
  return moving;
}

/** Whether another view would show more: much is beyond the edge, or the axes fit badly. */
export function isPoor() {
  const { picture, follow } = store;
  if (!picture?.shown?.id || follow) return false;
  const { outside, far } = document.getElementById("map").dataset;
  const rows = picture.rows?.id.length ?? 0;
  return picture.view.poor || outside > FAR * rows || far > FAR * picture.shown.id.length;
}

/** Say what the picture shows. */
export function mapWords() {
  const picture = store.picture;
  if (!picture?.shown?.id) return "";
  const { kind, rows, shown } = picture;
  const seen = rows
    ? `${plural(rows.id.length, "recent row")}, fading with age; hollow circles: in no cluster` +
      (rows.predicted.includes(1) ? "; dark rim: asked about, not learned" : "")
    : "no rows were learned or asked about yet: ellipses only";
  const ellipse = kind === "line" ? "bands" : "ellipses";
  const n = Math.min(shown.covariance.length, MOST_ELLIPSES);
  const some = n < shown.id.length ? `of the ${n} with most new rows ` : "";
  const small = n < shown.id.length ? "; hollow marks: other clusters" : "";
  const { outside, far } = document.getElementById("map").dataset;
  const beyond = [
    Number(far) && plural(Number(far), "cluster"),
    Number(outside) && plural(Number(outside), "row"),
  ].filter(Boolean);
  const lost = beyond.length ? ` ${beyond.join(" and ")} beyond the edge.` : "";
  const how =
    kind === "plane"
      ? ` Two directions through ${count(picture.features)} features, which show ` +
        `${percent(picture.scatter)} of the differences between clusters.`
      : "";
  return (
    `${seen[0].toUpperCase()}${seen.slice(1)}. ${ellipse[0].toUpperCase()}${ellipse.slice(1)} ` +
    `${some}hold two standard deviations${small}.${how}${lost}`
  );
}

/** Say which features the directions are made of. */
export function axesWords() {
  const picture = store.picture;
  return picture?.kind === "plane" ? `Across: ${picture.axes[0]}. Up: ${picture.axes[1]}.` : "";
}

/** The cluster nearest to a place on the screen. */
export function clusterAt(px, py) {
  let best = null;
  for (const each of anchors) {
    const distance = Math.hypot(
      (px - each.x) / Math.max(each.rx, 14),
      (py - each.y) / Math.max(each.ry, 14),
    );
    if (distance < 1.1 && (!best || distance < best.distance)) best = { id: each.id, distance };
  }
  return best ? unitAt(best.id) : null;
}

function drawAxes(context, picture, { x, y, box, colours }) {
  const up = ticks(y.from, y.to, (box.bottom - box.top) / 60);
  drawLevels(context, { x, y, at: up, words: number, colours });
  context.textAlign = "center";
  context.textBaseline = "top";
  const flat = picture.kind === "line";
  for (const value of ticks(x.from, x.to, (box.right - box.left) / 110, { integer: flat })) {
    context.strokeStyle = colours.faint;
    line(context, x(value), box.top, x(value), box.bottom);
    context.fillStyle = colours.soft;
    context.textAlign = flat && value === 0 ? "right" : "center";
    context.fillText(
      flat ? (value ? count(-value) : "newest") : number(value),
      x(value),
      box.bottom + 5,
    );
  }
  context.strokeStyle = colours.line;
  line(context, box.left, box.bottom, box.right, box.bottom);
  line(context, box.left, box.top, box.left, box.bottom);
  context.fillStyle = colours.soft;
  context.textAlign = "right";
  context.fillText(
    flat ? "rows ago" : clipped(context, picture.axes[0], box.right),
    box.right,
    box.bottom + 22,
  );
  context.save();
  context.translate(4, box.top);
  context.rotate(-Math.PI / 2);
  context.fillText(clipped(context, picture.axes.at(-1), box.bottom - box.top), 0, 0);
  context.restore();
}

/** As much of a name as fits. */
function clipped(context, name, width) {
  let n = name.length;
  while (n > 1 && context.measureText(`${name.slice(0, n)}…`).width > width) n -= 1;
  return n < name.length - 1 ? `${name.slice(0, n)}…` : name;
}

const isInside = ({ x, y }, box) =>
  x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;

function drawEllipses(context, drawn, { x, y, box, colours, kind }) {
  anchors = [];
  const crowd = Math.min(1, Math.sqrt(30 / drawn.length));
  const order = drawn
    .map((each, rank) => ({ ...each, round: each.round && rank < MOST_ELLIPSES }))
    .reverse()
    .sort((p, q) => isSelected(p.id) - isSelected(q.id));
  for (const { round, ...each } of order) {
    const { id, a, b, d } = each;
    const [cx, cy] = kind === "line" ? [0, y(each.place[0])] : [x(each.place[0]), y(each.place[1])];
    const stepX = Math.abs(x(1) - x(0));
    const stepY = Math.abs(y(1) - y(0));
    const anchor = {
      id,
      x: cx,
      y: cy,
      rx: SIGMAS * Math.sqrt(a ?? 0) * stepX,
      ry: SIGMAS * Math.sqrt(d ?? 0) * stepY,
    };
    if (kind === "line")
      Object.assign(anchor, { x: (box.left + box.right) / 2, rx: box.right - box.left });
    anchors.push(anchor);
    context.beginPath();
    if (!round && !(isSelected(id) && a !== undefined)) {
      tracePoint(context, shapeOf(unitAt(id)), cx, cy, isSelected(id) ? 7 : 3.5);
      context.strokeStyle = colours.of(unitAt(id));
      context.globalAlpha = isDim(id) ? 0.3 : 1;
      context.lineWidth = isSelected(id) ? 3 : 1.2;
      context.stroke();
      context.globalAlpha = 1;
      continue;
    }
    if (kind === "line") {
      context.rect(box.left - 2, cy - anchor.ry, box.right - box.left + 4, 2 * anchor.ry);
    } else {
      traceEllipse(context, cx, cy, a * stepX ** 2, -b * stepX * stepY, d * stepY ** 2);
    }
    context.fillStyle = context.strokeStyle = colours.of(unitAt(id));
    const area = Math.PI * SIGMAS ** 2 * Math.sqrt(Math.max(a * d - b * b, 0)) * stepX * stepY;
    const wide = Math.min(
      1,
      (0.05 * (box.right - box.left) * (box.bottom - box.top)) / Math.max(area, 1),
    );
    const fill = isDim(id) ? 0.04 : isSelected(id) ? 0.2 : 0.13 * crowd;
    context.globalAlpha = fill * (kind === "line" ? 1 : wide);
    context.fill();
    context.globalAlpha = (isDim(id) ? 0.35 : 1) * (isSelected(id) ? 1 : crowd);
    context.lineWidth = isSelected(id) ? 3 : crowd < 0.6 ? 1 : 1.5;
    context.stroke();
    context.globalAlpha = 1;
  }
}

/** Trace the ellipse of a covariance [[a, b], [b, d]] in pixels. */
function traceEllipse(context, cx, cy, a, b, d) {
  const middle = (a + d) / 2;
  const radius = Math.hypot((a - d) / 2, b);
  const long = SIGMAS * Math.sqrt(Math.max(middle + radius, 0));
  const short = SIGMAS * Math.sqrt(Math.max(middle - radius, 0));
  context.ellipse(cx, cy, long, short, 0.5 * Math.atan2(2 * b, a - d), 0, 2 * Math.PI);
}

function drawRows(context, picture, { x, y, colours }) {
  const places = rowPlaces(picture);
  places.forEach(([px, py], i) => {
    const id = picture.rows.id[i];
    const predicted = picture.rows.predicted[i];
    context.globalAlpha = (isDim(id) ? 0.22 : 1) * (1 - FADE * (1 - (i + 1) / places.length));
    context.beginPath();
    const unit = unitAt(id);
    tracePoint(context, id < 0 ? 0 : shapeOf(unit), x(px), y(py), id < 0 ? 3.4 : 2.8);
    if (id >= 0) {
      context.fillStyle = colours.of(unit);
      context.fill();
    }
    if (id < 0 || predicted) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 1.1;
      context.stroke();
    }
  });
  context.globalAlpha = 1;
}

/** Point at rows beyond the edge; returns how many there are. */
function drawOutside(context, picture, { x, y, box, colours }) {
  let n = 0;
  context.fillStyle = colours.soft;
  for (const [px, py] of rowPlaces(picture)) {
    const [sx, sy] = [x(px), y(py)];
    const [cx, cy] = [
      Math.min(Math.max(sx, box.left), box.right),
      Math.min(Math.max(sy, box.top), box.bottom),
    ];
    if (Math.abs(cx - sx) < 1 && Math.abs(cy - sy) < 1) continue;
    n += 1;
    const angle = Math.atan2(sy - cy, sx - cx);
    context.save();
    context.translate(cx, cy);
    context.rotate(angle);
    context.beginPath();
    context.moveTo(5, 0);
    context.lineTo(-2, -3.5);
    context.lineTo(-2, 3.5);
    context.fill();
    context.restore();
  }
  return n;
}

/** Point at the selected cluster beyond the edge. */
function drawAway(context, { id, x, y }, { box, colours }) {
  const cx = Math.min(Math.max(x, box.left), box.right);
  const cy = Math.min(Math.max(y, box.top), box.bottom);
  context.save();
  context.translate(cx, cy);
  context.rotate(Math.atan2(y - cy, x - cx));
  context.beginPath();
  context.moveTo(0, 0);
  context.lineTo(-14, -8);
  context.lineTo(-14, 8);
  context.fillStyle = colours.of(unitAt(id));
  context.fill();
  context.restore();
  context.textAlign = cx > (box.left + box.right) / 2 ? "right" : "left";
  context.font = BOLD;
  const beside = cx > (box.left + box.right) / 2 ? -20 : 20;
  const words = shortTitle(unitAt(id));
  const level = Math.min(Math.max(cy, box.top + 12), box.bottom - 12);
  drawLabel(context, words, cx + beside, level, { ink: colours.ink, paper: colours.panel });
  context.font = FONT;
}

/** Write the names of the units, the selected and the largest first, where there is room. */
function drawNames(context, drawn, { x, y, box, colours, kind }) {
  const taken = [];
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = BOLD.replace("12px", "13px");
  const each = new Map(drawn.map((cluster) => [cluster.id, cluster]));
  const units = allUnits().toSorted((p, q) => isSelected(q.id) - isSelected(p.id));
  for (const unit of units.slice(0, MOST_NAMES)) {
    const { place, d } = each.get(unit.clusters[0]); // of most new rows
    const tall = SIGMAS * Math.sqrt(d ?? 0) * Math.abs(y(1) - y(0));
    const above = kind !== "line" && tall < 12 ? tall + 9 : 0; // beside what it would hide
    const words = shortTitle(unit.id);
    const half = 4 + context.measureText(words).width / 2;
    const [cx, cy] =
      kind === "line" ? [box.right - 4 - half, y(place[0])] : [x(place[0]), y(place[1]) - above];
    if (cx < box.left + half || cx > box.right - 4 || cy < box.top + 4 || cy > box.bottom - 4)
      continue;
    if (taken.some((t) => Math.abs(t.x - cx) < t.half + half && Math.abs(t.y - cy) < 14)) continue;
    taken.push({ x: cx, y: cy, half });
    context.globalAlpha = isDim(unit.id) ? 0.6 : 1;
    drawLabel(context, words, cx, cy, { ink: colours.ink, paper: colours.panel });
  }
  context.globalAlpha = 1;
  context.font = FONT;
  context.canvas.dataset.names = taken.length;
}
