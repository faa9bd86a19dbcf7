// Why? A drawer about one decision: odds, experts by weight, their votes and predictions, its context and its events.

import { ask } from "./api.js";
import { at, bar, copyable, h, put, scrolling, slot, table } from "./dom.js";
import { brief, count, figure, many, moment, num, percent, plain, span, time } from "./words.js";

/** A value of JSON as a tree of lists. */
function tree(value) {
  if (value === null || typeof value !== "object") return typeof value === "number" ? num(value, figure(value, 6)) : plain(value);
  const entries = Array.isArray(value) ? value.map((one, i) => [i + 1, one]) : Object.entries(value);
  if (!entries.length) return "empty";
  const shown = entries.slice(0, 60).flatMap(([name, one]) => [h("dt", {}, plain(name)), h("dd", {}, tree(one))]);
  return h("dl", {}, shown, entries.length > 60 ? [h("dt", {}, "…"), h("dd", {}, `${entries.length - 60} more`)] : null);
}

function contextOf(record) {
  if (record.context === "erased" && !record.context_hidden) return h("p", {}, "The context was erased, as the setting erase_after_days asks.");
  if (record.context_hidden) return h("p", {}, "Contexts are not shown here (", h("code", {}, "show_contexts = false"), ").");
  return tree(record.context);
}

function sentence(record) {
  const made = record.events.find(({ kind }) => kind === "decision");
  const others = Object.keys(record.odds).length - 1;
  const who = record.shadow ? ["The incumbent chose ", h("b", {}, plain(record.arm)), ", which had odds of "]   : [h("b", {}, plain(record.arm)), " was drawn with odds of "];
  const came = record.events.find(({ kind }) => kind === "reward");
  const reward = record.reward === null ? "No reward counts yet." : [`It earned `, num(record.reward), came && made ? `, ${span(came.time - made.time)} later.` : ", the default, for none came in time."];
  const leader = record.experts?.[0];
  const vote = leader && (leader.votes[record.arm] ?? 0);
  const whose = leader && record.experts.length > 1 ? [` The heaviest expert then, ${brief(leader.expert, 60)} (${percent(leader.weight)}), ${vote > 0 ? "voted for it" : "voted for another arm"}.`] : null;
  return h("p", { class: "lead" }, who, num(record.propensity), made ? [" at ", time(made.time, moment(made.time, true))] : null, ` against ${many(others, "other arm")}.`, whose, " ", reward);
}

function oddsOf(record) {
  const ranked = Object.entries(record.odds).sort(([, a], [, b]) => b - a);
  const place = ranked.findIndex(([name]) => name === record.arm);
  const shown = ranked.slice(0, 12);
  if (place >= 12) shown.push(ranked[place]);
  return [table([
    { head: "arm", cell: ([name]) => (name === record.arm ? h("b", {}, `${plain(name)} (${record.shadow ? "chosen" : "drawn"})`) : plain(name)) },
    { head: h("span", { class: "unseen" }, "as a bar"), cell: ([name, odds]) => bar(odds, name === record.arm ? 1 : 8) },
    { head: "odds", number: true, cell: ([, odds]) => num(odds) },
  ], shown, "Odds of arms"), ranked.length > shown.length ? h("p", { class: "small soft" }, `and ${many(ranked.length - shown.length, "other arm")}`) : null];
}

function votesOf(votes) {
  const ranked = Object.entries(votes).sort(([, a], [, b]) => b - a);
  if (!ranked.length) return "asleep";
  const words = ranked.slice(0, 3).map(([name, part]) => (part > 0.9995 ? brief(name, 24) : `${brief(name, 24)} ${percent(part)}`));
  return words.join(", ") + (ranked.length > 3 ? " …" : "");
}

function expertsOf(record, experiment) {
  if (!record.experts?.length) return h("p", {}, "This policy keeps no votes of experts.");
  const { low, high } = experiment.reward;
  const unit = (x) => (x === null ? null : low + x * (high - low));
  return scrolling("Experts of this decision", table([
    { head: "expert", cell: ({ expert }) => brief(expert, 40) },
    { head: "weight", number: true, cell: ({ weight }) => num(weight, percent(weight)) },
    { head: "voted for", cell: ({ votes }) => votesOf(votes) },
    { head: "foresaw", number: true, title: "The reward that it foresaw for the arm that was drawn", cell: ({ predicted }) => num(unit(predicted)) },
    { head: "off by", number: true, cell: ({ predicted }) => (predicted === null || record.reward === null ? "–" : num(Math.abs(unit(predicted) - record.reward))) },
  ], record.experts.slice(0, 50), "Experts by their weight in this decision"));
}

function eventsOf(record) {
  const value = ({ kind, value: number }) => (number === null || kind === "decision" ? "" : num(number));
  return table([
    { head: "time", cell: (event) => time(event.time) },
    { head: "event", cell: ({ kind, key }) => (key ? `${kind} (${brief(key, 24)})` : kind) },
    { head: "value", number: true, cell: value },
    { head: "sent by", cell: ({ sender }) => plain(sender || "") },
    { head: "position", number: true, cell: ({ position }) => num(position, count(position)) },
  ], record.events, "Events of this decision");
}

/** Shows the drawer; what the service says of a decision that is not there is thrown. */
export async function openWhy(state, id) {
  const { experiment } = state;
  const path = `/v1/decisions/${encodeURIComponent(id)}`;
  const record = await ask(path, { experiment: experiment.name, explain: true });
  const quoted = `'${id.replaceAll("'", "'\\''")}'`;
  put(slot("why"),
    h("p", { class: "soft" }, "Decision ", h("b", {}, plain(id)), ` at position ${count(record.position)}, made by the state of position ${count(record.seen)}.`),
    sentence(record),
    h("h3", {}, "Odds of the arms"), oddsOf(record),
    h("h3", {}, "What the experts said"), expertsOf(record, experiment),
    h("h3", {}, "Context"), contextOf(record),
    h("h3", {}, "What became of it"), eventsOf(record),
    h("h3", {}, "Prove it"), copyable(`oddsmith history STORE ${quoted} && oddsmith verify STORE`));
  if (!at("why").open) at("why").showModal();
  at("why").scrollTop = 0;
}
