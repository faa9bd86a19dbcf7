// Axes: from numbers to places, and where the ticks stand. Times are local.

import { clock, date, figure } from "./words.js";

const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

/** A scale from [low, high] to places [from, to]; with `log`, decades are equally long. */
export function scale([low, high], [from, to], log = false) {
  const f = log ? Math.log10 : (x) => x;
  const width = f(high) - f(low) || 1;
  const place = (x) => from + ((f(log ? Math.max(x, low) : x) - f(low)) / width) * (to - from);
  place.low = low;
  place.high = high;
  return place;
}

/** Ticks at 1, 2 or 5 times a power of ten, about `most` of them, and the ends that they reach. */
export function ticks(low, high, most = 4) {
  if (!(high > low)) return ticks(low - (Math.abs(low) || 1) / 2, low + (Math.abs(low) || 1) / 2, most);
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Powers of ten. */
export function decades(low, high) {
  const first = Math.round(Math.log10(low));
  const last = Math.round(Math.log10(high));
  return Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
}

/** Ticks at round local times, at most `most`, with their words. */
export function timeTicks(low, high, most) {
  const step = STEPS.find((s) => (high - low) / s <= most) || Math.ceil((high - low) / most / 604800) * 604800;
  const marks = [];
  const offset = (t) => new Date(t * 1000).getTimezoneOffset() * 60;
  let t = Math.ceil((low - offset(low)) / step) * step + offset(low);
  for (; t <= high; t += step) {
    const midnight = clock(t, true) === "00:00:00";
    marks.push([t, step >= 86400 || midnight ? date(t) : clock(t, step < 60)]);
  }
  return marks;
}

/** A number on an axis. */
export const onAxis = (x) => figure(Math.abs(x) < 1e-12 ? 0 : x, 4);
