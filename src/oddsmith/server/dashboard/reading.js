// What the page knows, and how it keeps up: each answer is asked for anew when the log has grown, not too often.

import { ask, changes } from "./api.js";
import { wanted } from "./panel_decisions.js";
import { now } from "./words.js";

/** Each answer: its route, what it is asked with, the least seconds between two times, and the most, if any. */
const ANSWERS = {
  decisions: { path: "/v1/decisions", every: 1, query: wanted },
  checks: { path: "/v1/checks", every: 2, most: 10 },
  stats: { path: "/v1/stats", every: 2, most: 10 },
  posterior: { path: "/v1/posterior", every: 5 },
  history: { path: "/v1/posterior/history", every: 5 },
  values: { path: "/v1/values", every: 5 },
  series: { path: "/v1/series", every: 5, query: (state) => ({ range: state.range }) },
};
const SOON = 0.3; // seconds that are not worth another turn
const LONG = { hour: 5, day: 15, week: 30, all: 30 };

export class Reading {
  constructor(state) {
    this.state = state;
    this.forget();
  }

  /** All has to be asked for again. */
  forget(name = null) {
    if (name) this.asked.delete(name);
    else [this.asked, this.state.data, this.state.position, this.state.known] = [new Map(), {}, 0, 0];
  }

  /** Whether an answer is missing because it was refused. */
  get broken() {
    return [...this.asked.values()].some(({ failed }) => failed);
  }

  #every(name) {
    return name === "series" ? LONG[this.state.range] : ANSWERS[name].every;
  }

  /** Seconds until `name` should be asked for: none if it never was; where nothing is new, as long as may be. */
  #wait(name) {
    const last = this.asked.get(name);
    if (!last) return 0;
    const old = last.position < this.state.position || last.failed;
    return Math.max(0, last.at - now() + (old ? this.#every(name) : ANSWERS[name].most ?? Infinity));
  }

  /** Asks for what is due, and draws each as it comes; the first refusal is thrown once all have answered. */
  async refresh(draw, signal) {
    this.refreshed = now();
    const names = Object.keys(ANSWERS).filter((name) => this.#wait(name) <= SOON);
    const refusals = [];
    await Promise.all(names.map((name) => this.read(name, signal).then(() => draw(name), (error) => {
      if (error.name !== "AbortError") this.asked.set(name, { at: now(), position: 0, failed: true });
      refusals.push(error);
    })));
    const worst = refusals.find(({ status }) => status === 401 || status === 403) || refusals[0];
    if (worst) throw worst;
  }

  async read(name, signal) {
    const { path, query } = ANSWERS[name];
    const at = now();
    const answer = await ask(path, { experiment: this.state.experiment.name, ...query?.(this.state) }, signal);
    this.state.data[name] = answer;
    this.asked.set(name, { at, position: answer.position });
    this.state.position = Math.max(this.state.position, answer.position);
    if (name === "decisions") return; // they are read from the log, which may be ahead of the state
    this.state.known = Math.max(this.state.known, answer.position);
  }

  /** Until something is worth asking for: the log has grown, or what is known to be old may be asked for again. */
  async news(signal) {
    const soonest = Math.min(25, ...Object.keys(ANSWERS).map((name) => this.#wait(name)));
    const answer = await changes(this.state.experiment.name, this.state.position, soonest, signal);
    this.state.position = Math.max(this.state.position, answer.position);
    return pause(Math.max(0, this.refreshed + 1 - now()), signal);
  }
}

/** Sleeps for some seconds, or until it is called off. */
export function pause(seconds, signal) {
  return new Promise((done, stop) => {
    let timer = null;
    const off = () => {
      clearTimeout(timer);
      stop(new DOMException("called off", "AbortError"));
    };
    if (signal.aborted) return off();
    timer = setTimeout(() => {
      signal.removeEventListener("abort", off);
      done();
    }, 1000 * seconds);
    return signal.addEventListener("abort", off, { once: true });
  });
}
