/** The clusters as a table that can be sorted and searched. */

import { store } from "./store.js";
import { allUnits } from "./units.js";
import { markElement } from "./marks.js";
import { count, percent, plural, timeWords } from "./words.js";

const REST = 3000; // milliseconds between two changes of the order
const HEIGHT = 25; // pixels of a row
const MARGIN = 10; // rows beyond what is in sight that are in the table

/** By column: what it sorts by, whether the largest comes first, and its words. */
const COLUMNS = {
  id: [(unit) => unit.id, false],
  name: [(unit) => unit.name?.toLowerCase() ?? "\uffff", false, (unit) => unit.name ?? ""],
  present: [(unit) => unit.present, true, (unit) => percent(unit.present)],
  share: [(unit) => unit.share, true, (unit) => percent(unit.share)],
  born: [(unit) => unit.born, true, (unit) => when(unit.born)],
  last_seen: [(unit) => unit.last_seen, true, (unit) => when(unit.last_seen)],
};
const when = (time) => timeWords(time, store.clock, store.picture.time);

const rows = new Map(); // elements by id
let order = []; // ids from top to bottom
let sorting = { column: "present", down: true };
let wanted = ""; // by the search
let sorted = -Infinity; // when the order changed last

/** Sort by a column; a second time the other way round. */
export function sortBy(column) {
  const down = COLUMNS[column][1];
  sorting = { column, down: sorting.column === column ? !sorting.down : down };
  sortAnew();
}

export function searchFor(text) {
  wanted = text.trim().toLowerCase();
  sortAnew();
}

/** Choose the order anew the next time. */
export const sortAnew = () => (sorted = -Infinity);

/** Ids of the rows from top to bottom. */
export const listed = () => order;

/** Bring the table up to date; rows stay where they are while the reader is at them. */
export function updateTable(table) {
  const units = new Map(allUnits().filter(isWanted).map((unit) => [unit.id, unit]));
  const body = table.tBodies[0];
  const busy = body.matches(":hover, :focus-within") && sorted > -Infinity;
  const due = !busy && performance.now() - sorted > REST;
  if (due || order.length !== units.size || order.some((id) => !units.has(id))) arrange(units, due);
  const near = inSight(body);
  place(body, near);
  const reachable = units.has(store.selected) ? store.selected : near.ids[0];
  for (const id of near.ids) {
    const row = rows.get(id);
    fill(row, units.get(id));
    row.ariaRowIndex = String(order.indexOf(id) + 2);
    row.tabIndex = id === reachable ? 0 : -1;
    row.ariaSelected = String(id === store.selected);
  }
  table.ariaRowCount = String(order.length + 1);
  table.dataset.names = allUnits().some(({ name }) => name) || Boolean(store.picture?.editable);
  for (const head of table.tHead.querySelectorAll("th")) {
    const mine = head.dataset.column === sorting.column;
    head.ariaSort = mine ? (sorting.down ? "descending" : "ascending") : "none";
  }
}

/** Whether the search finds a unit; the selected one is always there. */
function isWanted({ id, name, clusters }) {
  if (!wanted || id === store.selected) return true;
  return clusters.some((c) => String(c) === wanted) || Boolean(name?.toLowerCase().includes(wanted));
}

/** Choose the order: anew if it is due, else new rows come last. */
function arrange(units, due) {
  if (!due) {
    const known = order.filter((id) => units.has(id));
    const seen = new Set(known);
    order = [...known, ...[...units.keys()].filter((id) => !seen.has(id))];
    return;
  }
  const [value] = COLUMNS[sorting.column];
  const sign = sorting.down ? -1 : 1;
  order = [...units.values()]
    .sort((a, b) => {
      const [p, q] = [value(a), value(b)];
      return p === q ? a.id - b.id : p < q ? -sign : sign;
    })
    .map(({ id }) => id);
  sorted = performance.now();
}

/** Rows that are in sight or near, with the selected one, and how many are above and below. */
function inSight(body) {
  const { scrollTop, clientHeight } = body.closest(".scroll");
  const first = Math.max(0, Math.floor(scrollTop / HEIGHT) - MARGIN);
  const last = Math.min(order.length, Math.ceil((scrollTop + clientHeight) / HEIGHT) + MARGIN);
  const ids = order.slice(first, last);
  const at = order.indexOf(store.selected);
  const above = at >= 0 && at < first;
  const below = at >= last;
  if (above) ids.unshift(store.selected);
  if (below) ids.push(store.selected);
  return { ids, above: first - above, below: order.length - last - below };
}

/** Put rows into the table, and empty ones in place of those out of sight; move as few as can be. */
function place(body, { ids, above, below }) {
  const kept = new Set(ids);
  for (const [id, row] of rows) {
    if (kept.has(id)) continue;
    row.remove();
    rows.delete(id);
  }
  for (const id of ids) if (!rows.has(id)) rows.set(id, newRow(id));
  let next = body.firstElementChild;
  for (const row of [spacers[0], ...ids.map((id) => rows.get(id)), spacers[1]]) {
    if (row === next) next = next.nextElementSibling;
    else body.insertBefore(row, next);
  }
  [above, below].forEach((n, i) => {
    spacers[i].hidden = n === 0;
    spacers[i].style.height = `${n * HEIGHT}px`;
  });
}

/** Move the focus to the row of the selected cluster, if the focus is in the table. */
export function focusSelected(body) {
  const at = order.indexOf(store.selected);
  if (at < 0) return;
  const scroll = body.closest(".scroll");
  const room = scroll.clientHeight - 2 * HEIGHT;
  if (at * HEIGHT < scroll.scrollTop) scroll.scrollTop = at * HEIGHT;
  if (at * HEIGHT > scroll.scrollTop + room) scroll.scrollTop = at * HEIGHT - room;
  if (body.contains(document.activeElement)) rows.get(store.selected).focus({ preventScroll: true });
}

const spacers = [0, 1].map(() => {
  const row = document.createElement("tr");
  row.className = "spacer";
  row.ariaHidden = "true";
  row.insertCell();
  return row;
});

function newRow(id) {
  const row = document.createElement("tr");
  row.cluster = id;
  for (const column of Object.keys(COLUMNS)) row.insertCell().className = column;
  row.cells[0].append(markElement(id), String(id), document.createElement("small"));
  return row;
}

function fill(row, unit) {
  const more = unit.clusters.length > 1 ? ` +${count(unit.clusters.length - 1)}` : "";
  write(row.cells[0].lastElementChild, more);
  Object.values(COLUMNS).forEach(([, , words], i) => {
    if (words) write(row.cells[i], words(unit));
  });
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** How many clusters the page leaves out. */
export function leftOutWords() {
  const picture = store.picture;
  if (!picture?.shown?.id) return "";
  const left = picture.clusters - picture.shown.id.length;
  const all = plural(picture.clusters, "cluster");
  return left > 0 ? `${count(picture.shown.id.length)} of ${all}, those with most new rows` : "";
}

/** How many rows the search finds. */
export function foundWords() {
  return wanted ? `${count(order.length)} found` : leftOutWords();
}
