// What the service is asked, with a key if it has keys; a key stays in this tab and never goes into an address.

import { hear } from "./words.js";

const KEPT = "oddsmith-key";

/** An answer that is none: `status` 0 means that nothing came back. */
export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEPT) || "",
  set: (text) => (text ? sessionStorage.setItem(KEPT, text) : sessionStorage.removeItem(KEPT)),
};

/** What GET `path` answers, for these values of its query; those that are null or "" are left out. */
export async function ask(path, query = {}, signal = undefined) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const address = given.length ? `${path}?${new URLSearchParams(given)}` : path;
  const headers = key.get() ? { Authorization: `Bearer ${key.get()}` } : {};
  let answer;
  try {
    answer = await fetch(address, { headers, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service does not answer");
  }
  hear(answer.headers.get("date"));
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.error || `The service answers ${answer.status}.`);
  return body;
}

/** Waits until the state knows more than up to a position, for so many seconds at most. */
export const changes = (experiment, after, wait, signal) => ask("/v1/changes", { experiment, after, wait }, signal);

/** Seconds until the next try after so many failures: 1, 2, 4 … 30. */
export const patience = (failures) => Math.min(30, 2 ** Math.max(0, failures - 1));

/** The position before which all decisions are older than a time, found by halving the log. */
export async function positionAt(experiment, t, head, signal) {
  let low = 0;
  let high = head + 2;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const { decisions } = await ask("/v1/decisions", { experiment, before: middle, limit: 1 }, signal);
    if (!decisions.length || decisions[0].t < t) low = middle;
    else high = decisions[0].position + 1;
  }
  return low;
}
