// In a sentence: how it is, whom it follows, what it is worth, what to do; and the tiles under it.

import { copyable, h, put, shape, slot } from "./dom.js";
import { tiles, worst } from "./judgement.js";
import { key } from "./api.js";
import { brief, count, many, now, num, percent, span, time } from "./words.js";

const EVERY = 10; // seconds between two texts that are read aloud
let told = { at: 0, about: "" };

/** A command that asks this service, with a key where it has keys. */
function command(route, body) {
  const head = key.get() ? ` -H "Authorization: Bearer $KEY"` : "";
  return `curl -s ${location.origin}/v1/${route}${head} -d '${JSON.stringify(body)}'`;
}

function firstDecision(experiment) {
  const arms = experiment.arms ? {} : { arms: ["article-17", "article-18"] };
  const body = { experiment: experiment.name, id: "visit-1", context: { hour: 9 }, ...arms };
  return [h("p", { class: "lead" }, h("span", { class: "state" }, "No decision yet. "), "Ask for one, with a context of yours:"), copyable(command("decide", body))];
}

function firstReward(experiment, latest) {
  const body = { experiment: experiment.name, id: latest ?? "visit-1", reward: experiment.reward.high };
  return [h("p", {}, "It learns from rewards. Send one for a decision that was made:"), copyable(command("reward", body))];
}

function learning({ experiment, data: { checks, stats } }) {
  const made = many(stats.events.decision || 0, "decision");
  if (checks?.trouble) return ["broken", "It does not learn", `: ${checks.trouble}. It has made ${made}.`];
  const learnt = checks?.last_learnt_t ?? null;
  if (learnt === null) return ["look", "It decides and has learnt nothing yet", `: ${made}, no reward.`];
  const idle = (checks.last_decision_t ?? learnt) - learnt;
  const [word, text] = idle > Math.max(3600, 2 * (experiment.window_s || 0)) ? ["look", "It decides and no longer learns"] : ["well", experiment.shadow ? "It learns in shadow mode" : "It is learning"];
  return [word, text, `: ${made}, the last thing learnt ${span(now() - learnt)} ago${experiment.shadow ? "; what visitors see is what the incumbent chose" : ""}.`];
}

function follows({ data: { stats } }) {
  const ranked = Object.entries(stats?.experts || {}).sort(([, a], [, b]) => b.weight - a.weight);
  if (ranked.length < 2) return null;
  const [[first, one], [second, two]] = ranked;
  if (one.weight - two.weight < 1e-9) return ` It prefers none of its ${ranked.length} experts yet.`;
  return [" It follows ", h("b", {}, brief(first, 60)), ` (${percent(one.weight)}), then ${brief(second, 60)} (${percent(two.weight)}).`];
}

function sentence(state, found) {
  const { checks, stats, values, decisions } = state.data;
  if (!(stats.events.decision > 0)) return firstDecision(state.experiment);
  const [word, head, rest] = learning(state);
  const trouble = worst(found);
  const todo = trouble ? trouble.todo : state.experiment.shadow && checks?.switch ? `It ${checks.switch.ready ? "is safe to switch on" : "is not yet safe to switch on"}: see “May I switch it on?”.` : "Nothing to do.";
  return [
    h("p", { class: "lead" }, h("span", { class: `state ${word}` }, head), rest, follows(state), values?.sentence ? ` ${values.sentence}` : null),
    h("p", { class: `todo ${trouble ? trouble.word : "soft"}` }, trouble ? [shape(trouble.word), h("b", {}, `${trouble.what}: ${trouble.word}. `)] : null, todo),
    checks && checks.last_reward_t === null ? firstReward(state.experiment, decisions?.decisions[0]?.id) : null,
  ];
}

export function drawSentence(state) {
  const found = tiles(state);
  drawTiles(state, found);
  const { stats, checks, values } = state.data;
  if (!stats) return;
  const about = `${state.experiment.name} ${worst(found)?.id} ${worst(found)?.word} ${stats.events.decision > 0} ${Boolean(checks)} ${Boolean(values)}`;
  if (about === told.about && now() - told.at < EVERY) return;
  told = { about, at: now() };
  put(slot("sentence"), sentence(state, found));
}

function drawTiles(state, found) {
  const tile = ({ id, what, value, number, word, why }) => h("li", { class: "tile", "data-tile": id },
    h("span", { class: "what" }, what),
    h("span", { class: "number" }, id === "last" && value !== null ? time(value, number) : num(value, number)),
    h("span", { class: `word ${word}` }, shape(word), word === "wait" ? "waiting" : word),
    h("span", { class: "why" }, why));
  put(slot("well"), h("ul", { class: "tiles" }, found.map(tile)));
}

/** Shadow mode: what we would have done is worth, against what was done, and whether it is safe to switch. */
export function drawSwitch({ experiment, data: { checks, values } }) {
  slot("switch").parentElement.hidden = !experiment.shadow;
  if (!experiment.shadow) return;
  const verdict = checks?.switch;
  const pair = (values?.values || []).filter(({ kind }) => kind === "served" || kind === "policy");
  const name = { served: "What the incumbent did", policy: "What we would have done" };
  const word = verdict ? (verdict.ready ? "well" : "wait") : "wait";
  put(slot("switch"),
    h("p", { class: "lead" }, h("span", { class: `state ${word}` }, shape(word), verdict?.ready ? "Yes, it is safe." : "Not yet."), " ", verdict?.sentence || "The planner has nothing to go on yet."),
    h("ul", { class: "pair" }, pair.map(({ kind, value, low, high, n, refused }) => h("li", { class: "tile" },
      h("span", { class: "what" }, name[kind]),
      h("span", { class: "number" }, value === null ? "–" : num(value)),
      h("span", { class: "why" }, refused || ["a decision is worth between ", num(low), " and ", num(high), ` (95 %, ${count(n)} decisions)`])))),
    verdict?.ready ? h("p", { class: "small soft" }, "To switch: set ", h("code", {}, "shadow = false"), " in the policy file’s table [service], and start the service again.") : null);
}
