// In a sentence: how it is, whom it follows, what it is worth, what to do; the tiles under it; and shadow mode.

import { copyable, h, put, shape, slot } from "./dom.js";
import { quiet, tiles, worst } from "./judgement.js";
import { key } from "./api.js";
import { brief, many, now, num, percent, span, time } from "./words.js";

const EVERY = { shown: 2, spoken: 10 }; // seconds between two texts that are shown, and two that are read aloud
let told = { shown: 0, spoken: 0, about: "" };

/** A command that asks this service, with a key where it has keys. */
function command(route, body) {
  const head = key.get() ? ' -H "Authorization: Bearer $KEY"' : "";
  return `curl -s ${location.origin}/v1/${route}${head} -d '${JSON.stringify(body)}'`;
}

function firstDecision({ experiment, served }) {
  if (!served) return h("p", { class: "lead" }, "This store has no decision yet.");
  const arms = experiment.arms ? {} : { arms: ["article-17", "article-18"] };
  const body = { experiment: experiment.name, id: "visit-1", context: { hour: 9 }, ...arms };
  const words = [h("span", { class: "state" }, "No decision yet. "), "Ask for one, with a context of yours:"];
  return [h("p", { class: "lead" }, words), copyable(command("decide", body))];
}

function firstReward(experiment, latest) {
  const body = { experiment: experiment.name, id: latest ?? "visit-1", reward: experiment.reward.high };
  const words = "It learns from rewards. Send one for a decision that was made:";
  return [h("p", {}, words), copyable(command("reward", body))];
}

/** How it is: a word, what it does, and since when. */
function learning({ experiment, served, data: { checks, stats } }) {
  const made = many(stats.events.decision || 0, "decision");
  if (!checks) return ["wait", `It has made ${made}`, "."];
  const trouble = checks.trouble || checks.store_trouble;
  if (trouble) return ["broken", "It does not learn", `: ${trouble}. It has made ${made}.`];
  const learnt = checks.last_learnt_t;
  if (learnt === null) return ["look", "It decides and has learnt nothing yet", `: ${made}, no reward.`];
  const incumbent = experiment.shadow ? "; what visitors see is what the incumbent chose" : "";
  const rest = `: ${made}, the last thing learnt ${span(now() - learnt)} ago${incumbent}.`;
  if (!served) return ["wait", "This store is looked at, not served", rest];
  const idle = (checks.last_decision_t ?? learnt) - learnt > quiet(experiment);
  if (idle) return ["look", "It decides and no longer learns", rest];
  return ["well", experiment.shadow ? "It learns in shadow mode" : "It is learning", rest];
}

function follows({ data: { stats, posterior } }) {
  const there = Object.entries(stats?.experts || {}).filter(([name]) => !posterior?.retired.includes(name));
  const ranked = there.sort(([, a], [, b]) => b.weight - a.weight);
  if (ranked.length < 2) return null;
  const [[first, one], [second, two]] = ranked;
  if (one.weight - two.weight < 1e-9) return ` It prefers none of its ${ranked.length} experts yet.`;
  const then = ` (${percent(one.weight)}), then ${brief(second, 60)} (${percent(two.weight)}).`;
  return [" It follows ", h("b", {}, brief(first, 60)), then];
}

function advice({ experiment, data: { checks } }, trouble) {
  if (trouble) {
    const words = h("b", {}, `${trouble.what}: ${trouble.word}. `);
    return h("p", { class: `advice ${trouble.word}` }, shape(trouble.word), words, trouble.advice);
  }
  const safe = checks?.switch?.ready ? "is safe" : "is not yet safe";
  const words = experiment.shadow ? `It ${safe} to switch on: see “May I switch it on?”.` : "Nothing to do.";
  return h("p", { class: "advice soft" }, words);
}

function sentence(state, found) {
  const { checks, stats, values, decisions } = state.data;
  if (!(stats.events.decision > 0)) return firstDecision(state);
  const [word, head, rest] = learning(state);
  const latest = decisions?.decisions[0]?.id;
  const worth = values?.sentence ? ` ${values.sentence}` : null;
  return [
    h("p", { class: "lead" }, h("span", { class: `state ${word}` }, head), rest, follows(state), worth),
    advice(state, worst(found)),
    state.served && checks?.last_reward_t === null ? firstReward(state.experiment, latest) : null,
  ];
}

export function drawSentence(state) {
  const { checks, stats, values } = state.data;
  const found = tiles(state);
  drawTiles(found);
  if (!stats) return;
  const trouble = worst(found);
  const [begun, learnt] = [stats.events.decision > 0, checks?.last_learnt_t > 0];
  const about = [state.experiment.name, trouble?.id, trouble?.word, begun, learnt, Boolean(values)].join(" ");
  const isDue = (what) => about !== told.about || now() - told[what] >= EVERY[what];
  if (!isDue("shown")) return;
  const speaks = isDue("spoken");
  told = { about, shown: now(), spoken: speaks ? now() : told.spoken };
  slot("sentence").setAttribute("aria-live", speaks ? "polite" : "off"); // as of what is put there next
  put(slot("sentence"), sentence(state, found));
}

function drawTiles(found) {
  const tile = ({ id, what, value, number, word, why }) => h("li", { class: "tile", "data-tile": id },
    h("span", { class: "what" }, what),
    h("span", { class: "number" }, id === "last" && value !== null ? time(value, number) : num(value, number)),
    h("span", { class: `word ${word}` }, shape(word), word === "wait" ? "waiting" : word),
    h("span", { class: "why" }, why));
  put(slot("well"), h("ul", { class: "tiles" }, found.map(tile)));
}

const NAMES = { served: "What the incumbent did", policy: "What we would have done" };

function value({ kind, value: mean, low, high, n, refused }) {
  const ends = ["a decision is worth between ", num(low), " and ", num(high), ` (95 %, ${many(n, "reward")})`];
  return h("li", { class: "tile" },
    h("span", { class: "what" }, NAMES[kind]),
    h("span", { class: "number" }, num(mean)),
    h("span", { class: "why" }, refused || ends));
}

/** Shadow mode: what we would have done is worth, against what was done, and whether it is safe to switch. */
export function drawSwitch({ experiment, data: { checks, values } }) {
  slot("switch").parentElement.hidden = !experiment.shadow;
  if (!experiment.shadow) return;
  const verdict = checks?.switch;
  const sick = checks?.trouble || checks?.store_trouble;
  const word = verdict?.ready && !sick ? "well" : "wait";
  const [head, rest] = (verdict?.sentence || "Not yet: the planner has nothing to go on.").split(/(?<=:) (.*)/s);
  const how = ["To switch: ", h("code", {}, "shadow = false"), " in [service] of the policy file; start again."];
  put(slot("switch"),
    h("p", { class: "lead" }, h("span", { class: `state ${word}` }, shape(word), head), rest ? ` ${rest}` : ""),
    h("ul", { class: "pair" }, (values?.values || []).filter(({ kind }) => NAMES[kind]).map(value)),
    sick ? h("p", { class: "advice broken" }, shape("broken"), `Mend this first: ${sick}.`) : null,
    verdict?.ready && !sick ? h("p", { class: "small soft" }, how) : null);
}
