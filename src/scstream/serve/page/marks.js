/** How a cluster looks: a colour and a shape that follow from its id alone, for ever. */

export const N_COLOURS = 20;
export const N_SHAPES = 5;

/** Ids less than 20 apart have different colours, and less than 100 apart different marks. */
export const colourOf = (id) => id % N_COLOURS;
export const shapeOf = (id) => (id + Math.floor(id / N_COLOURS)) % N_SHAPES;

let known; // the palette of the theme in use

/** Colours of the theme in use, by name. */
export function palette() {
  const { theme } = document.documentElement.dataset;
  if (known?.theme !== theme) known = { theme, ...colours() };
  return known;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue(`--${name}`).trim();
  const clusters = Array.from({ length: N_COLOURS }, (_, i) => named(`c${i}`));
  return {
    panel: named("panel"),
    ink: named("ink"),
    soft: named("soft"),
    line: named("line"),
    faint: named("faint"),
    accent: named("accent"),
    of: (id) => clusters[colourOf(id)],
  };
}

/** Black or white, whichever is read better on a colour "#rrggbb". */
export function readableOn(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => linear(parseInt(colour.slice(i, i + 2), 16) / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

function linear(value) {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
}

/** Add a mark to the path of a context; the sizes look alike. */
export function tracePoint(context, shape, x, y, r) {
  if (shape === 0) {
    context.moveTo(x + r, y);
    context.arc(x, y, r, 0, 2 * Math.PI);
  } else if (shape === 1) {
    context.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  } else {
    const corners = CORNERS[shape];
    context.moveTo(x + r * corners[0][0], y + r * corners[0][1]);
    for (const [dx, dy] of corners.slice(1)) context.lineTo(x + r * dx, y + r * dy);
    context.closePath();
  }
}

const CORNERS = {
  2: [
    [0, -1.2],
    [1.14, 0.88],
    [-1.14, 0.88],
  ],
  3: [
    [0, -1.25],
    [1.25, 0],
    [0, 1.25],
    [-1.25, 0],
  ],
  4: [
    [0, 1.2],
    [1.14, -0.88],
    [-1.14, -0.88],
  ],
};

const patterns = new Map();

/** A pattern over the colour of an area, by the shape of the mark; none for the first shape. */
export function patternOf(context, id, { panel }) {
  const shape = shapeOf(id);
  if (!shape) return null;
  const key = `${shape} ${panel}`;
  if (!patterns.has(key)) patterns.set(key, context.createPattern(tile(shape, panel), "repeat"));
  return patterns.get(key);
}

/** A small piece of a pattern: slanted lines, dots, lines slanted the other way, or level lines. */
function tile(shape, colour) {
  const canvas = new OffscreenCanvas(8, 8);
  const pen = canvas.getContext("2d");
  pen.strokeStyle = pen.fillStyle = colour;
  pen.globalAlpha = 0.5;
  pen.beginPath();
  if (shape === 2) pen.arc(4, 4, 1.3, 0, 2 * Math.PI);
  else if (shape === 4) pen.rect(0, 3.5, 8, 1);
  else
    for (const shift of [-8, 0, 8]) {
      pen.moveTo(shift, shape === 1 ? 8 : 0);
      pen.lineTo(shift + 8, shape === 1 ? 0 : 8);
    }
  if (shape === 1 || shape === 3) pen.stroke();
  else pen.fill();
  return canvas;
}

/** The mark of a cluster as an element; it is only for the eye. */
export function markElement(id) {
  return symbol(`mark${shapeOf(id)}`, `mark k${colourOf(id)}`);
}

export function symbol(name, className) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(space, "use"));
  svg.firstChild.setAttribute("href", `#${name}`);
  return svg;
}
