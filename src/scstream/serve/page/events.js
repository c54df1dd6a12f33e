/** What happened, newest first, and spoken now and then. */

import { store } from "./store.js";
import { symbol } from "./marks.js";
import { count, eventWords, plural, timeWords } from "./words.js";

const MOST = 100; // that are listed
const MOST_SPOKEN = 3;
const BETWEEN = 4000; // milliseconds between two announcements

const KNOWN = ["born", "split", "merged", "died", "returned"];

let waiting = [];
let timer;

/** List the newest events; those that are listed already are left as they are. */
export function updateEvents(list, fresh, reset) {
  if (reset) list.replaceChildren();
  const news = reset ? store.events.slice(-MOST) : fresh;
  list.querySelector(".nothing")?.remove();
  for (const event of news) list.prepend(item(event));
  while (list.childElementCount > MOST) list.lastElementChild.remove();
  if (!list.childElementCount) list.append(nothing());
}

/** Say events to a screen reader: a few at a time, and not all the time. */
export function speakEvents(region, fresh) {
  waiting.push(...fresh);
  if (!waiting.length || timer) return;
  timer = setTimeout(() => {
    timer = undefined;
    const words = waiting.slice(-MOST_SPOKEN).map(eventWords);
    const more =
      waiting.length > MOST_SPOKEN ? `${plural(waiting.length, "event")}, the last: ` : "";
    region.textContent = `${more}${words.join("; ")}.`;
    waiting = [];
  }, BETWEEN);
}

export function eventsWords() {
  return store.events.length ? `newest ${count(Math.min(store.events.length, MOST))}` : "";
}

function item(event) {
  const entry = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = timeWords(event.time, store.clock, store.summaries.at(-1)?.time);
  const words = document.createElement("span");
  words.textContent = eventWords(event);
  entry.append(time, symbol(signOf(event.kind), "sign"), words);
  return entry;
}

const signOf = (kind) => (KNOWN.includes(kind) ? kind : "edited");

function nothing() {
  const entry = document.createElement("li");
  entry.className = "nothing";
  entry.textContent = "Nothing has happened yet.";
  return entry;
}
