/** The selected cluster: its numbers, its name, which can be changed, and typical rows. */

import { store } from "./store.js";
import { title, unitById } from "./units.js";
import { count, number, percent, plural } from "./words.js";

const TOKEN = "scstream-write-token";
const SHOWN = 5; // exemplars
const AGAIN = 5000; // milliseconds after which exemplars are asked for again

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
  const unit = unitById(store.selected);
  if (!unit) return [`Cluster ${store.selected}`, gone(store.selected)];
  const { names, features, shown } = store.picture;
  const traits = shown.traits[unit.k].map(
    ([d, mean, std]) => `${names[d]} ${number(mean)}${std === null ? "" : ` ± ${number(std)}`}`,
  );
  const more = features > traits.length ? ", …" : "";
  const many = unit.clusters.length > 1;
  const who = title(unit.id);
  return [
    `${who[0].toUpperCase()}${who.slice(1)}: ${percent(unit.present)} of new rows, ` +
      `${percent(unit.share)} of the weight (${number(unit.weight)})`,
    ...(many ? [`${plural(unit.clusters.length, "cluster")}: ${someOf(unit.clusters)}`] : []),
    `${many ? `cluster ${unit.clusters[0]}, ` : ""}mean ± std: ${traits.join(", ")}${more}`,
  ];
}

const someOf = (ids) =>
  ids.slice(0, 12).join(", ") + (ids.length > 12 ? ` and ${count(ids.length - 12)} more` : "");

function gone(id) {
  const life = store.lineage.find((each) => each.id === id);
  if (life?.how === "merged") return `merged into cluster ${life.into}`;
  return life?.how === "died" ? "died" : "is not among the clusters that are drawn";
}

/** The form that names a cluster, and the one that asks for a token if the first is refused. */
export class Naming {
  constructor(form, door, says, readToken) {
    Object.assign(this, { form, door, says, readToken, cluster: null });
    form.addEventListener("submit", (event) => this.submit(event));
    door.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(TOKEN, door.elements["write-token"].value);
      door.reset();
      this.submit(event);
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.show(true);
    });
  }

  /** Show the name of the selected cluster, unless the reader is about to change it. */
  show(anew = false) {
    const unit = unitById(store.selected);
    const may = Boolean(store.picture?.editable) && unit?.clusters.length === 1;
    this.form.hidden = !may;
    if (!may || this.cluster !== unit.id) {
      this.door.hidden = true;
      this.says.textContent = "";
    }
    const input = this.form.elements["cluster-name"];
    if (may && (anew || this.cluster !== unit.id || this.known === input.value)) {
      this.known = input.value = unit.name ?? "";
    }
    this.cluster = may ? unit.id : null;
  }

  async submit(event) {
    event.preventDefault();
    const name = this.form.elements["cluster-name"].value.trim();
    const token = sessionStorage.getItem(TOKEN) ?? this.readToken();
    const headers = { "content-type": "application/json" };
    if (token) headers.authorization = `Bearer ${token}`;
    const address = new URL(`clusters/${this.cluster}/name`, document.baseURI);
    try {
      const body = JSON.stringify({ name: name || null });
      const answer = await fetch(address, { method: "POST", headers, body });
      if (answer.status === 401 || answer.status === 403) return this.ask();
      const { applied, detail } = await answer.json();
      const done = applied ? "Named." : "Sent; the pipeline applies it between two batches.";
      this.door.hidden = true;
      this.known = this.form.elements["cluster-name"].value;
      this.says.textContent = answer.ok ? done : `Not named: ${detail}`;
    } catch {
      this.says.textContent = "Not named: the service does not answer.";
    }
  }

  /** Ask for another token. */
  ask() {
    const refused = sessionStorage.getItem(TOKEN) !== null;
    sessionStorage.removeItem(TOKEN);
    this.door.hidden = false;
    this.says.textContent = refused ? "That token may not change names." : "";
    this.door.elements["write-token"].focus();
  }
}

let asked = { id: null, at: -Infinity };

/** Show typical rows of the selected cluster, if the service keeps any. */
export async function updateExemplars(list, readToken) {
  const unit = unitById(store.selected);
  const id = unit?.clusters[0] ?? null;
  if (asked.id === id && performance.now() - asked.at < AGAIN) return;
  if (asked.id !== id) list.replaceChildren();
  asked = { id, at: performance.now() };
  if (id === null || !store.picture.exemplars) return;
  const headers = readToken() ? { authorization: `Bearer ${readToken()}` } : {};
  const answer = await fetch(new URL(`clusters/${id}`, document.baseURI), { headers }).catch(
    () => null,
  );
  if (!answer?.ok || asked.id !== id) return;
  const { cluster } = await answer.json();
  list.replaceChildren(...(cluster.exemplars ?? []).slice(0, SHOWN).map(exemplar));
}

function exemplar(each) {
  const item = document.createElement("li");
  item.textContent = each.text ?? each.id ?? each.row?.map((v) => number(v)).join(", ") ?? "";
  return item;
}
