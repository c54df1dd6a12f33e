/** The clusters as a table, and the numbers of the one that is selected. */

import { shownIds, store } from "./store.js";
import { markElement } from "./marks.js";
import { count, number, percent, plural, timeWords } from "./words.js";

const rows = new Map(); // elements by id

/** Bring the table up to date; rows stay where they are as long as their cluster is there. */
export function updateTable(body, select) {
  const shown = store.picture?.shown ?? {};
  const place = new Map((shown.id ?? []).map((id, k) => [id, k]));
  for (const [id, row] of rows) {
    if (place.has(id)) continue;
    row.remove();
    rows.delete(id);
  }
  let before = null;
  for (const id of shownIds().reverse()) {
    const row = rows.get(id) ?? newRow(id, select);
    if (!rows.has(id)) {
      rows.set(id, row);
      body.insertBefore(row, before);
    }
    fill(row, place.get(id), shown);
    before = row;
  }
  const reachable = rows.get(store.selected) ?? body.firstElementChild;
  for (const row of rows.values()) {
    const button = row.firstElementChild.firstElementChild;
    button.tabIndex = row === reachable ? 0 : -1;
    button.setAttribute("aria-pressed", String(row.cluster === store.selected));
  }
}

/** Move the focus to the row of the selected cluster, if the focus is in the table. */
export function focusSelected(body) {
  if (body.contains(document.activeElement))
    rows.get(store.selected)?.querySelector("button").focus();
}

function newRow(id, select) {
  const row = document.createElement("tr");
  row.cluster = id;
  for (let i = 0; i < 5; i++) row.append(document.createElement("td"));
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-label", `cluster ${id}`);
  button.append(markElement(id), String(id));
  button.addEventListener("click", () => select(store.selected === id ? null : id));
  row.firstElementChild.append(button);
  return row;
}

function fill(row, k, shown) {
  const { clock, picture } = store;
  const words = [
    percent(shown.share[k]),
    number(shown.weight[k]),
    timeWords(shown.born[k], clock, picture.time),
    timeWords(shown.last_seen[k], clock, picture.time),
  ];
  words.forEach((text, i) => {
    const cell = row.children[i + 1];
    if (cell.textContent !== text) cell.textContent = text;
  });
}

/** How many clusters the page leaves out. */
export function leftOutWords() {
  const picture = store.picture;
  if (!picture?.shown?.id) return "";
  const left = picture.clusters - picture.shown.id.length;
  const all = plural(picture.clusters, "cluster");
  return left > 0 ? `the heaviest ${count(picture.shown.id.length)} of ${all}` : "";
}

/** The numbers of the selected cluster. */
export function updateDetail(element) {
  const lines = detailLines();
  if (element.dataset.words === lines.join("\n")) return;
  element.dataset.words = lines.join("\n");
  element.replaceChildren(
    ...lines.map((text, i) => {
      const line = document.createElement("p");
      line.textContent = text;
      if (i === 0 && store.selected !== null) line.className = "who";
      return line;
    }),
  );
}

export function detailLines() {
  if (store.selected === null)
    return ["Choose a cluster by a click or by arrow keys to see its numbers."];
  const shown = store.picture?.shown;
  const k = shown?.id?.indexOf(store.selected) ?? -1;
  if (k < 0) return [`Cluster ${store.selected}`, gone(store.selected)];
  const traits = shown.traits[k].map(
    ([d, mean, std]) =>
      `${store.picture.names[d]} ${number(mean)}${std === null ? "" : ` ± ${number(std)}`}`,
  );
  const more = store.picture.features > traits.length ? ", …" : "";
  return [
    `Cluster ${store.selected}: ${percent(shown.share[k])} of the weight`,
    `mean ± std: ${traits.join(", ")}${more}`,
  ];
}

function gone(id) {
  const life = store.lineage.find((each) => each.id === id);
  if (life?.how === "merged") return `merged into cluster ${life.into}`;
  return life?.how === "died" ? "died" : "is not among the clusters that are drawn";
}
