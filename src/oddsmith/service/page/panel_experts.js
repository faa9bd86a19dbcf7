// Experts, one row each; and the guarantee of the theory, as far as it covers them.

import { bar, h, put, scrolling, slot, table } from "./dom.js";
import { since } from "./panel_follow.js";
import { brief, count, figure, many, num, percent } from "./words.js";

function failures(kinds) {
  const some = Object.entries(kinds).filter(([, n]) => n > 0);
  return some.length ? some.map(([kind, n]) => `${kind} ${count(n)}`).join(", ") : "none";
}

export function drawExperts({ data: { stats, checks, history } }) {
  if (!stats) return;
  const judged = new Map((checks?.calibration || []).map((one) => [one.expert, one]));
  const rows = Object.entries(stats.experts).map(([name, one]) => ({ name, ...one, ...judged.get(name) })).sort((a, b) => b.weight - a.weight);
  if (!rows.length) return put(slot("experts"), h("p", { class: "says" }, "This policy asks no experts."));
  const verdict = ({ refuted, e_value: evidence }) => (refuted === undefined ? "–" : h("span", { title: `evidence against it: ${figure(evidence)}` }, refuted ? "refuted" : "not refuted"));
  put(slot("experts"),
    h("p", { class: "says" }, checks?.calibration_sentence || ""),
    scrolling("Experts", table([
      { head: "expert", cell: ({ name }) => h("span", { title: name }, brief(name, 60)) },
      { head: h("span", { class: "unseen" }, "as a bar"), cell: ({ weight }) => bar(weight) },
      { head: "weight", number: true, cell: ({ weight }) => num(weight, percent(weight)) },
      { head: "there since", cell: ({ name }) => since(history, name) },
      { head: "mean loss", number: true, title: "What its predictions have cost, a decision: less is better", cell: ({ loss }) => num(loss) },
      { head: "calibration", title: "Whether rewards came as often as it foresaw", cell: verdict },
      { head: "failures", cell: ({ failures: kinds }) => failures(kinds) },
      { head: "last reason", cell: ({ reason }) => (reason ? h("code", {}, brief(reason, 90)) : "") },
    ], rows, "Experts")));
  return undefined;
}

export function drawGuarantee({ data: { checks } }) {
  const promised = checks?.guarantee;
  if (!promised) return;
  const { covered, bound, steps, eta, gamma, prior, exploration_paid: paid, sentence } = promised;
  const rows = [
    ["Regret, at most", bound === null || bound === undefined ? "–" : [num(bound, figure(bound, 4)), ` after ${many(steps, "decision")}`]],
    ["Paid for exploration", paid === null || paid === undefined ? "–" : [num(paid, figure(paid, 4)), " decisions’ worth, the sum of gamma"]],
    ["eta", num(eta)], ["gamma", num(gamma)], ["prior of the best expert", num(prior)],
  ];
  put(slot("guarantee"),
    h("p", { class: "says" }, sentence),
    covered ? h("dl", {}, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])) : null);
}
