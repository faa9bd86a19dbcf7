// Experts, one row each; and the guarantee of the theory, as far as it covers them.

import { bar, h, hidden, put, scrolling, slot, table } from "./dom.js";
import { since } from "./panel_follow.js";
import { brief, count, figure, many, num, percent } from "./words.js";

const COMPARED = "Of its predictions: less is better, among experts that were asked for about as many rewards.";

function failures(kinds) {
  const some = Object.entries(kinds).filter(([, n]) => n > 0);
  return some.length ? some.map(([kind, n]) => `${kind} ${count(n)}`).join(", ") : "none";
}

function verdict({ refuted, e_value: evidence }) {
  if (refuted === undefined) return "–";
  return h("span", { title: `evidence against it: ${figure(evidence)}` }, refuted ? "refuted" : "not refuted");
}

export function drawExperts({ data: { stats, checks, history } }) {
  if (!stats) return;
  const judged = new Map((checks?.calibration || []).map((one) => [one.expert, one]));
  const rows = Object.entries(stats.experts).map(([name, one]) => ({ name, ...one, ...judged.get(name) }));
  rows.sort((a, b) => b.weight - a.weight);
  const columns = [
    { head: "expert", cell: ({ name }) => h("span", { title: name }, brief(name, 60)) },
    { head: hidden("as a bar"), cell: ({ weight }) => bar(weight) },
    { head: "weight", number: true, cell: ({ weight }) => num(weight, percent(weight)) },
    { head: "there since", cell: ({ name }) => since(history, name) },
    { head: "mean loss", number: true, title: COMPARED, cell: ({ loss }) => num(loss) },
    { head: "rewards", number: true, title: "That it was asked for", cell: ({ n }) => num(n, count(n ?? 0)) },
    { head: "calibration", title: "Whether rewards came as often as it foresaw", cell: verdict },
    { head: "failures", title: "Since this process began", cell: ({ failures: kinds }) => failures(kinds) },
    { head: "last reason", cell: ({ reason }) => (reason ? h("code", {}, brief(reason, 90)) : "") },
  ];
  const says = h("p", { class: "says" }, rows.length ? checks?.calibration_sentence : "This policy asks no experts.");
  const choices = checks?.choices_sentence ? h("p", { class: "says" }, checks.choices_sentence) : null;
  const clipped = checks?.clipped_sentence ? h("p", { class: "says" }, checks.clipped_sentence) : null;
  put(slot("experts"), says, choices, clipped, rows.length ? scrolling("Table of experts", table(columns, rows, "Experts")) : null);
}

export function drawGuarantee({ experiment, data: { checks } }) {
  const promised = checks?.guarantee;
  if (!promised) return;
  const { covered, bound, steps, eta, gamma, prior, exploration_paid: paid, sentence } = promised;
  const rows = [
    ["Regret, at most", covered ? bound : null, ` after ${many(steps ?? 0, "decision")}`],
    ["Paid for exploration", experiment.shadow ? null : paid, " decisions’ worth, the sum of gamma"],
    ["eta", eta, ""],
    ["gamma", gamma, ""],
    ["prior of the best expert", prior, ""],
  ].filter(([, value]) => value !== null && value !== undefined);
  const line = ([name, value, unit]) => [h("dt", {}, name), h("dd", {}, num(value, figure(value, 4)), unit)];
  put(slot("guarantee"), h("p", { class: "says" }, sentence), h("dl", {}, rows.flatMap(line)));
}
