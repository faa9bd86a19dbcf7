// Whether it is well: each number with a word (well, look, broken, wait), a reason, and what to do about it.

import { brief, count, figure, many, now, percent, span } from "./words.js";
import { rate, sum } from "./series.js";

/** Seconds without a reward, while decisions go on, that are nothing to wonder about. */
export const quiet = (experiment) => Math.max(3600, 2 * (experiment.window_s || 0));

function decisions({ series, served: live }) {
  if (!series) return null;
  const { perMinute, seconds } = rate(series, now());
  const text = { what: "Decisions a minute", value: perMinute, number: figure(perMinute, 2) };
  if (!sum(series.decisions)) return { ...text, word: "wait", why: "waiting for the first decision" };
  if (perMinute > 0) return { ...text, word: "well", why: `in the last ${span(seconds)}` };
  if (!live) return { ...text, word: "wait", why: "this store is looked at, not served" };
  const advice = "No decisions are asked for: look at the caller.";
  return { ...text, word: "look", why: `none in the last ${span(seconds)}`, advice };
}

function rewarded({ checks, experiment }) {
  if (!checks) return null;
  const { due, rewarded: came, share } = checks.rewarded;
  const text = { what: "Rewarded in time", value: share, number: percent(share) };
  const { word, sentence } = checks.open_windows;
  if (word !== "well") {
    const [why, ...advice] = sentence.split(/(?<=\.) /);
    return { ...text, word, why, advice: advice.join(" ") };
  }
  if (!due) return { ...text, word: "wait", why: "no decision is due yet" };
  const why = `${count(came)} of ${many(due, "decision")} due`;
  if (!came && due >= 30) {
    const advice = "No reward has ever come: send them to /v1/reward with the id of the decision.";
    return { ...text, word: "broken", why, advice };
  }
  if (share < 0.5 && experiment.default_reward === null) {
    const advice = "More than half of the decisions have no reward. If none means 0, set window_s and default_reward.";
    return { ...text, word: "look", why: `${why}; the others teach nothing`, advice };
  }
  return { ...text, word: "well", why };
}

function lastReward({ checks, experiment }) {
  if (!checks) return null;
  const [reward, decision] = [checks.last_reward_t, checks.last_decision_t];
  const text = { what: "Last reward", value: reward };
  if (reward === null) {
    const [word, advice] = decision === null ? ["wait", ""] : ["look", "Send a reward for a decision that was made."];
    return { ...text, number: "none", word, why: "no reward has come yet", advice };
  }
  const number = `${span(now() - reward)} ago`;
  const gap = decision === null ? 0 : decision - reward;
  if (gap <= quiet(experiment)) {
    const why = gap > 0 ? `${span(gap)} before the last decision` : "after the last decision";
    return { ...text, number, word: "well", why };
  }
  const advice = "Decisions are made and no rewards come: look at what sends them.";
  const word = gap > 86400 + quiet(experiment) ? "broken" : "look";
  return { ...text, number, word, why: `decisions went on for ${span(gap)} since`, advice };
}

function behind({ stats, checks }) {
  if (!stats) return null;
  const lag = Math.max(0, stats.head - stats.position);
  const text = { what: "Events behind", value: lag, number: count(lag) };
  const trouble = checks?.store_trouble || checks?.trouble;
  if (trouble) {
    const advice = "Ask oddsmith doctor what is wrong with the store.";
    return { ...text, what: "Store", number: "trouble", word: "broken", why: trouble, advice };
  }
  const warning = checks?.warning || stats.vitals.warning;
  if (warning) {
    return { ...text, word: "look", why: warning, advice: adviceOn(warning) };
  }
  return { ...text, word: "well", why: lag ? "it catches up" : `knows all up to ${count(stats.position)}` };
}

function adviceOn(warning) {
  if (warning.startsWith("statistics")) return "Decisions and learning go on. Report it to oddsmith's makers.";
  if (warning.startsWith("the clock")) return "Decisions and learning go on.";
  return "It decides with what it knew some time ago.";
}

function asleep({ stats, posterior }) {
  if (!stats) return null;
  const names = Object.keys(stats.experts).filter((name) => !posterior?.retired.includes(name));
  const made = stats.events.decision || 0;
  const times = (name) => sum(Object.values(stats.experts[name].failures));
  const often = names.filter((name) => times(name) > made / 100); // one in a hundred decisions
  const text = { what: "Experts that fail", value: often.length, number: `${often.length} of ${names.length}` };
  if (!names.length) return { ...text, number: "–", word: "well", why: "this policy asks no experts" };
  if (!often.length) {
    const all = sum(names.map(times));
    const why = all ? `${many(all, "failure")} in ${many(made, "decision")}` : "all of them answer";
    return { ...text, word: "well", why };
  }
  const some = often.slice(0, 2).map((name) => `${brief(name, 30)} ${count(times(name))} times`);
  const advice = "Experts that fail have no vote; the table of experts says why.";
  const word = often.length === names.length ? "broken" : "look";
  return { ...text, word, why: some.join(", ") + (often.length > 2 ? " …" : ""), advice };
}

function served({ checks }) {
  if (!checks) return null;
  const { n, e_value: evidence, word, sentence } = checks.served_as_logged;
  const text = { what: "Served as logged", value: evidence, number: n ? `${figure(evidence, 2)} : 1` : "–" };
  if (!n) return { ...text, word: "wait", why: "no draw to check yet" };
  if (word === "well") return { ...text, word, why: "is the evidence against it; an alarm needs more than 1,000 : 1" };
  const verify = "Run oddsmith verify on this store: it draws every decision of its own again from seed and id, and names "
    + "those that differ.";
  const advice = word === "look"
    ? `${verify} If none differs, look at decisions that came from elsewhere: incumbents, overrides, caches.`
    : `${verify} Until that is mended, values and intervals may be wrong.`;
  return { ...text, word, why: sentence, advice };
}

/** The six tiles, those that can be told. */
export function tiles(state) {
  const all = { rate: decisions, rewarded, last: lastReward, behind, asleep, served };
  const known = { ...state.data, experiment: state.experiment, served: state.served };
  return Object.entries(all).map(([id, tile]) => ({ id, ...tile(known) })).filter((tile) => tile.word);
}

/** The worst of the tiles, or null where all are well. */
export function worst(found) {
  return found.find((tile) => tile.word === "broken") || found.find((tile) => tile.word === "look") || null;
}
