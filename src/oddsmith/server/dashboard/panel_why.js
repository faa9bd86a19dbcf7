// Why? A drawer about one decision: odds, experts by weight, their votes and predictions, its context and its events.

import { ask } from "./api.js";
import { at, bar, copyable, h, hidden, put, scrolling, slot, table } from "./dom.js";
import { brief, count, figure, many, moment, num, percent, plain, span, time } from "./words.js";

const MOST_ENTRIES = 60; // of an object or a list of the context
const MOST_ARMS = 12;
const MOST_EXPERTS = 50;

/** A value of JSON as a tree of lists. */
function tree(value) {
  if (typeof value === "number") return num(value, figure(value, 6));
  if (value === null || typeof value !== "object") return plain(value);
  const entries = Array.isArray(value) ? value.map((one, i) => [i + 1, one]) : Object.entries(value);
  if (!entries.length) return "empty";
  const line = ([name, one]) => [h("dt", {}, plain(name)), h("dd", {}, tree(one))];
  const left = entries.length - MOST_ENTRIES;
  return h("dl", {}, entries.slice(0, MOST_ENTRIES).map(line), left > 0 ? line(["…", `${left} more`]) : null);
}

function contextOf({ context, context_hidden: unseen }) {
  if (unseen) return h("p", {}, "Contexts are not shown here (", h("code", {}, "show_contexts = false"), ").");
  if (context === "erased") return h("p", {}, "The context was erased, as the setting erase_after_days asks.");
  return tree(context);
}

/** Who wanted it: how much of the weight, and whether the heaviest expert. */
function wanted({ arm, experts, shadow }) {
  if (!experts?.length || shadow) return "";
  const part = experts.reduce((total, { weight, votes }) => total + weight * (votes[arm] ?? 0), 0);
  if (!part) return " No expert voted for it: it was drawn to explore.";
  const [{ expert, weight, votes }] = experts;
  const vote = votes[arm] > 0 ? "one of them" : "not one of them";
  const first = experts.length > 1 ? `; the heaviest, ${brief(expert, 60)} (${percent(weight)}), was ${vote}` : "";
  return ` Experts with ${percent(part)} of the weight voted for it${first}.`;
}

function earned({ events, reward }, made) {
  if (reward === null) return " No reward counts yet.";
  const came = events.find(({ kind }) => kind === "reward");
  const when = came && made ? `, ${span(came.time - made.time)} later.` : ", the default, for none came in time.";
  return [" It earned ", num(reward), when];
}

function sentence(record) {
  const made = record.events.find(({ kind }) => kind === "decision");
  const arm = h("b", {}, plain(record.arm));
  const others = Object.keys(record.odds).length - 1;
  return h("p", { class: "lead" },
    record.shadow ? ["The incumbent chose ", arm, ", which had odds of "] : [arm, " was drawn with odds of "],
    num(record.propensity), made ? [" at ", time(made.time, moment(made.time, true))] : null,
    ` against ${many(others, "other arm")}.`, wanted(record), earned(record, made));
}

function oddsOf({ arm, odds, shadow }) {
  const ranked = Object.entries(odds).sort(([, a], [, b]) => b - a);
  const shown = ranked.filter(([name], i) => i < MOST_ARMS || name === arm);
  const named = (name) => h("b", {}, `${plain(name)} (${shadow ? "chosen" : "drawn"})`);
  const columns = [
    { head: "arm", cell: ([name]) => (name === arm ? named(name) : plain(name)) },
    { head: hidden("as a bar"), cell: ([name, share]) => bar(share, name === arm ? 1 : 8) },
    { head: "odds", number: true, cell: ([, share]) => num(share) },
  ];
  const left = ranked.length - shown.length;
  const more = left ? h("p", { class: "small soft" }, `and ${many(left, "other arm")}`) : null;
  return [table(columns, shown, "Odds of arms"), more];
}

function votesOf(votes) {
  const ranked = Object.entries(votes).sort(([, a], [, b]) => b - a);
  if (!ranked.length) return "asleep";
  const words = ([name, part]) => (part > 0.9995 ? brief(name, 24) : `${brief(name, 24)} ${percent(part)}`);
  return ranked.slice(0, 3).map(words).join(", ") + (ranked.length > 3 ? " …" : "");
}

function expertsOf({ arm, experts, reward }, { low, high }) {
  if (!experts?.length) return h("p", {}, "This policy keeps no votes of experts.");
  const foreseen = ({ predicted }) => (predicted === null ? null : low + predicted * (high - low));
  const off = (one) => (one.predicted === null || reward === null ? null : Math.abs(foreseen(one) - reward));
  const columns = [
    { head: "expert", cell: ({ expert }) => brief(expert, 40) },
    { head: "weight", number: true, cell: ({ weight }) => num(weight, percent(weight)) },
    { head: "voted for", cell: ({ votes }) => votesOf(votes) },
    { head: `foresaw for ${brief(arm, 16)}`, number: true, cell: (one) => num(foreseen(one)) },
    { head: "off by", number: true, cell: (one) => num(off(one)) },
  ];
  const rows = experts.slice(0, MOST_EXPERTS);
  return scrolling("Experts of this decision", table(columns, rows, "Experts by their weight in this decision"));
}

function eventsOf({ events }) {
  const columns = [
    { head: "time", cell: (event) => time(event.time) },
    { head: "event", cell: ({ kind, key }) => (key ? `${kind} (${brief(key, 24)})` : kind) },
    { head: "value", number: true, cell: ({ kind, value }) => (kind === "decision" ? "" : num(value)) },
    { head: "sent by", cell: ({ sender }) => plain(sender || "") },
    { head: "position", number: true, cell: ({ position }) => num(position, count(position)) },
  ];
  return scrolling("Events of this decision", table(columns, events, "Events of this decision"));
}

/** Shows the drawer; what the service says of a decision that is not there is thrown. */
export async function openWhy({ experiment }, id) {
  const path = `/v1/decisions/${encodeURIComponent(id)}`;
  const record = await ask(path, { experiment: experiment.name, explain: true });
  const quoted = `'${id.replaceAll("'", "'\\''")}'`;
  const where = ` at position ${count(record.position)}, made by the state of position ${count(record.seen)}.`;
  put(slot("why"),
    h("p", { class: "soft" }, "Decision ", h("b", {}, plain(id)), where),
    sentence(record),
    h("h3", {}, record.shadow ? "Odds of the incumbent" : "Odds of the arms"), oddsOf(record),
    h("h3", {}, "What the experts said"), expertsOf(record, experiment.reward),
    h("h3", {}, "Context"), contextOf(record),
    h("h3", {}, "What became of it"), eventsOf(record),
    h("h3", {}, "Prove it"), copyable(`oddsmith history STORE ${quoted} && oddsmith verify STORE`));
  if (!at("why").open) at("why").showModal();
  at("why").scrollTop = 0;
}
