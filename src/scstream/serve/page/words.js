/** Numbers, times and events as people read them. */

const plain = [3, 4].map((n) => new Intl.NumberFormat("en", { maximumSignificantDigits: n }));
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-3)) return value.toExponential(2).replace("-", "−");
  return plain[digits - 3].format(value).replace("-", "−");
}

export const count = (value) => whole.format(value);

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** How long ago, or for how long. */
export function duration(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** A tick on the axis of time; `step` says how fine it must be. */
export function tickWords(time, clock, step) {
  if (clock !== "date") return timeWords(time, clock);
  const [day, hours] = stamp(time);
  if (step >= 86400) return day;
  if (step >= 6 * 3600) return `${day.slice(5)} ${hours.slice(0, 5)}`;
  return hours.slice(0, step >= 60 ? 5 : 8);
}

/** A time of the model: a batch, a number, or a date without what it shares with `now`. */
export function timeWords(time, clock, now = time) {
  if (time === null || time === undefined) return "–";
  if (clock === "batch") return count(time);
  if (clock === "number") return number(time);
  const [day, hours] = stamp(time);
  const today = stamp(now)[0];
  if (day === today) return hours.slice(0, 8);
  return day.slice(0, 4) === today.slice(0, 4) ? `${day.slice(5)} ${hours.slice(0, 5)}` : day;
}

const stamp = (time) => new Date(1000 * time).toISOString().split("T");

/** What the axis of time counts. */
export const clockName = (clock) => ({ batch: "batch", date: "UTC" })[clock] ?? "time";

export function eventWords({ kind, id, other, author, name }) {
  const by = author ? ` by ${author}` : "";
  const who = kind === "group_named" ? `group ${id}` : `cluster ${id}`;
  if (kind === "split") return `${who} split${by}: ${other} is new`;
  if (kind === "merged") return `cluster ${other} merged into ${id}${by}`;
  if (kind === "died") return author ? `${who} was removed${by}` : `${who} died`;
  if (kind === "returned") return `${who} came back`;
  if (kind === "grouped" || kind === "ungrouped") return `${who} and ${other} were ${kind}${by}`;
  if (kind.endsWith("named")) return name ? `${who} was named “${name}”${by}` : `${who} lost its name${by}`;
  return `${who} was ${kind}${by}`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
