/** What is shown as one: a cluster, or a group of clusters at the level that the reader chose. */

import { store } from "./store.js";

export const LEVELS = 20; // positions of the slider; at the last one every cluster is by itself

let units = []; // by present share
let byId = new Map();
let unitOf = new Map(); // id of the unit of a cluster

/** Form the units of the present picture. */
export function formUnits() {
  unitOf = store.resolution === null ? new Map() : cut(store.tree, store.resolution);
  byId = new Map();
  const shown = store.picture?.shown;
  shown?.id?.forEach((cluster, k) => {
    const id = unitAt(cluster);
    const unit = byId.get(id);
    if (!unit) {
      byId.set(id, {
        id,
        name: null,
        k,
        clusters: [cluster],
        present: shown.present[k],
        share: shown.share[k],
        weight: shown.weight[k],
        born: shown.born[k],
        last_seen: shown.last_seen[k],
      });
    } else {
      unit.clusters.push(cluster);
      for (const sum of ["present", "share", "weight"]) unit[sum] += shown[sum][k];
      unit.born = Math.min(unit.born, shown.born[k]);
      unit.last_seen = Math.max(unit.last_seen, shown.last_seen[k]);
    }
    if (id === cluster) byId.get(id).name = shown.name[k];
  });
  for (const unit of byId.values()) {
    if (unit.clusters.length > 1) unit.name = store.picture.groups[unit.id] ?? unit.name;
  }
  units = [...byId.values()].sort((a, b) => b.present - a.present || a.id - b.id);
}

/** The units, the one with most new rows first. */
export const allUnits = () => units;
export const unitById = (id) => byId.get(id);

/** The unit that a cluster belongs to; a cluster that is gone is by itself. */
export const unitAt = (cluster) => unitOf.get(cluster) ?? cluster;

export const isSelected = (cluster) => unitAt(cluster) === store.selected;
export const isDim = (cluster) => store.selected !== null && !isSelected(cluster);

/** What a unit is called: its name if it has one, and its id. */
export function title(id, kind = true) {
  const unit = byId.get(id);
  const many = unit?.clusters.length > 1;
  const what = kind ? (many ? "group " : "cluster ") : "";
  return `${what}${id}${unit?.name ? ` ${unit.name}` : ""}`;
}

/** A short name to draw: the name if there is one, else the id. */
export function shortTitle(id, most = 16) {
  const name = byId.get(id)?.name;
  if (!name) return String(id);
  const letters = [...name];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : name;
}

/** The group of each cluster: what is joined up to the height 1 / resolution. */
export function cut(tree, resolution) {
  if (!tree) return new Map();
  const parent = tree.ids.map((_, k) => k);
  const root = (k) => {
    while (parent[k] !== k) k = parent[k] = parent[parent[k]];
    return k;
  };
  const oldest = tree.ids.map((_, k) => k);
  const highest = resolution === 0 ? Infinity : 1 / resolution;
  for (const [left, right, height] of tree.joins) {
    const [low, high] = [oldest[left], oldest[right]].sort((a, b) => a - b);
    oldest.push(low);
    if (height <= highest) parent[root(high)] = root(low);
  }
  return new Map(tree.ids.map((id, k) => [id, tree.ids[root(k)]]));
}

/** The resolution at a position of the slider, from one group at 0; null for clusters. */
export function resolutionAt(position, tree) {
  if (position >= LEVELS || !tree) return null;
  const n = Math.max(1, Math.round(tree.ids.length ** (position / LEVELS)));
  const heights = tree.joins.map(([, , height]) => height).sort((a, b) => a - b);
  const height = heights[tree.ids.length - n - 1];
  return n === 1 ? 0 : height > 0 ? (1 - 1e-9) / height : Infinity;
}

/** Select the unit that is `step` places further; the first or last where none is selected. */
export function stepped(step, ids) {
  if (!ids.length) return null;
  const at = ids.indexOf(store.selected);
  return ids[at < 0 ? (step > 0 ? 0 : ids.length - 1) : (at + step + ids.length) % ids.length];
}
