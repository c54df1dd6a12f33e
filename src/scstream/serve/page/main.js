/** Wires the stream of the service to the panels, and the reader's choices to all of them. */

import { Feed } from "./feed.js";
import { store, takeNews, visible } from "./store.js";
import { allUnits, formUnits, LEVELS, resolutionAt, stepped, unitAt } from "./units.js";
import { Sheet, timeScale } from "./sheet.js";
import { forgetLimits } from "./limits.js";
import { axesWords, clusterAt, isPoor, mapWords, paintMap } from "./map.js";
import { paintShares, sharesWords } from "./shares.js";
import { lineageWords, paintLineage } from "./lineage.js";
import { paintRates, ratesWords } from "./rates.js";
import {
  focusSelected,
  foundWords,
  leftOutWords,
  listed,
  searchFor,
  sortAnew,
  sortBy,
  updateTable,
} from "./table.js";
import { detailLines, Naming, updateDetail, updateExemplars } from "./detail.js";
import { eventsWords, speakEvents, updateEvents } from "./events.js";
import { count, duration, number, percent, plural } from "./words.js";

const TREE_SECONDS = 10; // after which the tree of groups is asked for again
const OLD = 60; // seconds without a batch that are worth a word
const $ = (id) => document.getElementById(id);
const say = (id, text) => {
  if ($(id).textContent !== text) $(id).textContent = text;
};

const map = new Sheet($("map"), (context, size) => {
  if (paintMap(context, size)) map.refresh();
  say("map-says", mapWords());
  $("fit").classList.toggle("wanted", isPoor());
});
const panels = [
  map,
  new Sheet($("shares"), paintShares),
  new Sheet($("lineage"), (context, size) => {
    paintLineage(context, size);
    say("lineage-readout", lineageWords());
  }),
  new Sheet($("rates"), paintRates),
];

let connection = { state: "waiting" };
let age = null; // of the last batch, in seconds, when it was told
let heard = performance.now();

const feed = new Feed(new URL("live", document.baseURI), (kind, value) => {
  if (kind === "state") showConnection(value);
  if (kind === "history") takeHistory(value);
  if (kind === "picture") show(value);
});

const naming = new Naming($("naming"), $("naming-door"), $("naming-says"), () => feed.token);

function takeHistory(news) {
  const fresh = takeNews(news);
  age = news.age;
  heard = performance.now();
  if (store.paused) return;
  updateEvents($("events"), fresh, news.reset);
  speakEvents($("spoken"), fresh);
  redrawSoon();
}

/** Show a new picture; during a pause the newest one waits. */
function show(picture) {
  if (store.paused) {
    store.waiting = picture;
    return;
  }
  store.picture = "batch" in picture ? picture : null;
  if (picture.view && !store.follow) feed.view = String(picture.view.number);
  redrawSoon();
}

/** Hold the picture, or go on with all that came meanwhile. */
function pause(paused) {
  store.paused = paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  if (!paused) {
    updateEvents($("events"), [], true);
    show(store.waiting ?? store.picture ?? {});
    store.waiting = null;
  }
  showState();
}

let soon;

/** Bring everything up to date with the next frame of the screen, once for all that has come. */
function redrawSoon() {
  soon ??= requestAnimationFrame(() => {
    soon = undefined;
    redraw();
    showState();
    document.documentElement.dataset.batch = store.picture?.batch ?? "";
  });
}

/** Bring everything on the page up to date. */
function redraw() {
  formUnits();
  for (const panel of panels) panel.refresh();
  updateTable($("table"));
  updateDetail($("detail"));
  naming.show();
  updateExemplars($("exemplars"), () => feed.token);
  showLevel();
  showFigures();
  say("map-axes", axesWords());
  say("map-left-out", leftOutWords());
  say("clusters-readout", foundWords());
  say("shares-readout", sharesWords());
  say("rates-readout", ratesWords());
  say("events-readout", eventsWords());
}

function showFigures() {
  const last = store.summaries.at(-1);
  say("n-clusters", store.picture ? count(store.picture.clusters) : "–");
  say("n-batches", store.picture ? count(store.picture.batch) : "–");
  say("novelty", last?.rows ? percent(last.novel / last.rows) : "–");
  say("density", last ? number(last.density, 3) : "–");
}

function showConnection(value) {
  connection = { ...value, since: performance.now() };
  $("door").hidden = value.state !== "locked";
  if (value.state === "locked") {
    say("door-says", value.refused ? "That token was refused." : "");
    $("token").focus();
  }
  showState();
}

/** Say how things stand; called every second, for time passes. */
function showState() {
  const batchAge = age === null ? null : age + (performance.now() - heard) / 1000;
  say("age", batchAge === null ? "–" : batchAge < 1 ? "now" : `${duration(batchAge)} ago`);
  const [state, words] = stateWords(batchAge);
  if ($("state").dataset.state !== state) $("spoken").textContent = words;
  $("state").dataset.state = state;
  say("state", words);
}

function stateWords(batchAge) {
  const { state, since, again, reason } = connection;
  if (state === "locked") return ["lost", "a token is needed"];
  if (state === "lost") {
    const left = Math.max(0, Math.ceil((again - (performance.now() - since)) / 1000));
    return ["lost", `${reason}; next try in ${left} s`];
  }
  if (state === "waiting") return ["waiting", "connecting"];
  if (store.paused) return ["paused", "paused"];
  if (!store.picture) return ["waiting", "connected, no model yet"];
  if (batchAge > OLD) return ["stale", `live, but no new batch for ${duration(batchAge)}`];
  return ["live", "live"];
}

/** Select a cluster everywhere; null for none. */
function select(id) {
  store.selected = id;
  redraw();
  focusSelected($("rows"));
  $("spoken").textContent = id === null ? "No cluster is selected." : detailLines().join(". ");
}

const step = (by) => select(stepped(by, listed()));

let asking = false; // for the tree, which can take seconds

/** Show clusters, or groups of them, at a position of the slider. */
async function showAt(position) {
  if (asking) return;
  if (position < LEVELS && !store.tree) {
    asking = true;
    showLevel();
    await askForTree();
    asking = false;
  }
  store.resolution = resolutionAt(Number($("level").value), store.tree);
  formUnits();
  sortAnew();
  if (store.selected !== null) store.selected = unitAt(store.selected);
  redraw();
}

async function askForTree() {
  const headers = feed.token ? { authorization: `Bearer ${feed.token}` } : {};
  const answer = await fetch(new URL("live/tree", document.baseURI), { headers }).catch(() => null);
  if (answer?.ok) store.tree = await answer.json();
}

function showLevel() {
  const n = allUnits().length;
  const { resolution } = store;
  const fine = Number.isFinite(resolution) ? `, resolution ${number(resolution, 3)}` : "";
  const lacking = asking ? "computing groups" : "too many for groups";
  const none = $("level").value < LEVELS ? lacking : "clusters";
  const words = resolution === null ? none : `${plural(n, "group")}${fine}`;
  say("level-says", words);
  $("level").ariaValueText = words;
}

/** Take other axes and limits of the map. */
function look(view) {
  store.follow = view === "follow";
  $("follow").ariaPressed = String(store.follow);
  forgetLimits();
  feed.look(view);
}

/** Move the summary that is pointed at by one. */
function stepCursor(by) {
  const { summaries } = visible();
  if (!summaries.length) return;
  const last = summaries.length - 1;
  const at = store.cursor === null ? last + 1 : summaries.findIndex((m) => m.time >= store.cursor);
  point(summaries[Math.min(Math.max(at + by, 0), last)].time);
  $("spoken").textContent = `${sharesWords()}; ${ratesWords()}`;
}

function point(time) {
  store.cursor = time;
  for (const panel of panels.slice(1)) panel.refresh();
  say("shares-readout", sharesWords());
  say("rates-readout", ratesWords());
}

function onKeys(element, keys) {
  element.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

const none = () => {
  point(null);
  select(null);
};
const forward = () => step(1);
const back = () => step(-1);
const choosing = { ArrowDown: forward, ArrowUp: back, Escape: none };

onKeys($("map"), { ...choosing, ArrowRight: forward, ArrowLeft: back });
onKeys($("rows"), {
  ...choosing,
  Enter: () => choose(document.activeElement),
  " ": () => choose(document.activeElement),
  F2: () => {
    select(document.activeElement.cluster);
    $("cluster-name").select();
  },
});
$("rows").addEventListener("click", (event) => choose(event.target.closest("tr")));

/** Select the cluster of a row, or none if it is selected. */
function choose(row) {
  if (row?.cluster !== undefined) select(store.selected === row.cluster ? null : row.cluster);
}

$("table").tHead.addEventListener("click", (event) => {
  const head = event.target.closest("th");
  if (!head) return;
  sortBy(head.dataset.column);
  updateTable($("table"));
});
$("table").closest(".scroll").addEventListener("scroll", () => updateTable($("table")));

$("search").addEventListener("input", () => {
  searchFor($("search").value);
  updateTable($("table"));
  say("clusters-readout", foundWords());
});
onKeys($("search"), {
  ArrowDown: () => $("rows").querySelector("[tabindex='0']")?.focus(),
  Enter: () => select(listed().find((id) => id !== store.selected) ?? store.selected),
  Escape: () => {
    $("search").value = "";
    $("search").dispatchEvent(new Event("input"));
    $("rows").querySelector("[tabindex='0']")?.focus();
  },
});
document.addEventListener("keydown", (event) => {
  const writing = event.target.closest("input, select, textarea");
  if (event.key !== "/" || writing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  $("search").focus();
});

$("fit").addEventListener("click", () => look("fit"));
$("follow").addEventListener("click", () => look(store.follow ? "fit" : "follow"));
$("level").addEventListener("input", () => showAt(Number($("level").value)));
setInterval(async () => {
  if (store.resolution === null || store.paused || document.hidden) return;
  await askForTree();
  redraw();
}, 1000 * TREE_SECONDS);

$("map").addEventListener("click", (event) => select(clusterAt(event.offsetX, event.offsetY)));

for (const { canvas } of panels.slice(1)) {
  onKeys(canvas, { ...choosing, ArrowRight: () => stepCursor(1), ArrowLeft: () => stepCursor(-1) });
  canvas.addEventListener("pointermove", (event) => {
    const x = timeScale(canvas.clientWidth);
    point(Math.min(Math.max(x.back(event.offsetX), x.from), x.to));
  });
  canvas.addEventListener("pointerleave", () => point(null));
}

$("span").addEventListener("change", () => {
  store.span = Number($("span").value);
  redraw();
});

$("pause").addEventListener("click", () => pause(!store.paused));

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  feed.use($("token").value);
  $("token").value = "";
});

const darkness = matchMedia("(prefers-color-scheme: dark)");

/** Use the theme that was chosen here, else that of the system. */
function dress() {
  const theme = localStorage.getItem("scstream-theme") ?? (darkness.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  $("dark").setAttribute("aria-pressed", String(theme === "dark"));
  for (const panel of panels) panel.refresh();
}

$("dark").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("scstream-theme", next);
  dress();
});
darkness.addEventListener("change", dress);

dress();
redraw();
setInterval(showState, 1000);
feed.connect();
