// Numbers, times and names as people read them. `num` keeps the exact number beside the rounded one.

import { h } from "./dom.js";

let skew = 0; // seconds that the server's clock is ahead of this one

/** Learns the server's clock from the header of an answer. */
export function hear(date) {
  const said = Date.parse(date || "");
  if (!Number.isNaN(said) && Math.abs(said - Date.now()) > 2000) skew = (said - Date.now()) / 1000;
}

/** Seconds since 1970 by the server's clock. */
export const now = () => Date.now() / 1000 + skew;

/** A count with commas. */
export const count = (n) => Math.round(n).toLocaleString("en");

/** A number with `digits` that matter. */
export function figure(x, digits = 3) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 10 ** digits) return count(x);
  if (size < 1e-4) return x.toExponential(1).replace("e-", "e−").replace(/^-/, "−");
  return Number(x.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 8 }).replace("-", "−");
}

/** A share in per cent; a share that is not quite nothing, or everything, is never shown as such. */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  const places = share > 0 && share < 0.0995 || share > 0.995 && share < 1 ? 1 : 0;
  return `${(100 * share).toFixed(places)} %`;
}

/** The number itself, for programs, and how it is written. */
export function num(value, text = figure(value)) {
  if (value === null || value === undefined) return "–";
  return h("data", { value: String(value), title: text === String(value) ? null : String(value) }, text);
}

/** How long ago, or how long, in one unit. */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const steps = [[86400 * 2, 86400, "d"], [5400, 3600, "h"], [90, 60, "min"], [0, 1, "s"]];
  const [, size, unit] = steps.find(([least]) => seconds >= least) || steps[3];
  return `${Math.max(0, Math.round(seconds / size))} ${unit}`;
}

export const ago = (t) => `${span(now() - t)} ago`;

const parts = (options) => new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...options });
const day = parts({ day: "numeric", month: "short" });
const minute = parts({ hour: "2-digit", minute: "2-digit" });
const second = parts({ hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const date = (t) => day.format(t * 1000);
export const clock = (t, exact = false) => (exact ? second : minute).format(t * 1000);

/** The day where it is not today, and the time. */
export function moment(t, exact = false) {
  return (date(t) === date(now()) ? "" : `${date(t)}, `) + clock(t, exact);
}

/** From when to when. */
export function stretch(from, to) {
  const exact = to - from < 60;
  return `${moment(from, exact)} to ${clock(to, exact)}`;
}

/** A time as an element: local, with UTC on hover. */
export function time(t, text = moment(t, true)) {
  if (t === null || t === undefined) return "–";
  const utc = new Date(t * 1000).toISOString();
  return h("time", { datetime: utc, title: utc.replace("T", " ").replace("Z", " UTC") }, text);
}

/** A text from outside; characters that turn the direction of writing, or cannot be seen, are spelt out. */
export function plain(text) {
  const spelt = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, spelt);
}

/** A name that is not too long to stand beside a line. */
export function brief(name, most = 18) {
  const whole = plain(name);
  return whole.length > most ? `${whole.slice(0, most - 1)}…` : whole;
}

/** How many experts act, and how many are retired. */
export function crowd({ posterior, retired }) {
  const gone = retired.length;
  return many(Object.keys(posterior).length - gone, "expert") + (gone ? `, ${count(gone)} retired` : "");
}

/** 1 decision, 2 decisions. */
export const many = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
