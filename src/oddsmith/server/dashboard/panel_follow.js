// Whom does it follow? Weights of experts over time, stacked or on a log scale; marks are those that joined or left.

import { Chart } from "./chart.js";
import { bar, h, hidden, put, scrolling, slot, table } from "./dom.js";
import { brief, crowd, figure, many, moment, num, percent, time } from "./words.js";
import { colour, weights } from "./series.js";

let chart = null;
let log = false;

/** History within the range, the last point before it at its edge. */
function within(history, from) {
  const first = Math.max(0, history.t.findLastIndex((t) => t <= from));
  const cut = (values) => values.slice(first);
  const experts = Object.entries(history.experts).map(([name, values]) => [name, cut(values)]);
  return {
    t: cut(history.t).map((t) => Math.max(t, from)),
    experts: Object.fromEntries(experts),
    others: history.others && cut(history.others),
  };
}

/** With a point more where an expert joins: it has no weight before. */
function stepped({ t, experts, others }) {
  const columns = Object.values(experts);
  const joins = t.map((_, i) => i > 0 && columns.some((values) => values[i - 1] === null && values[i] !== null));
  const twice = (values) => values.flatMap((value, i) => (joins[i] ? [values[i - 1], value] : [value]));
  return {
    t: t.flatMap((time, i) => (joins[i] ? [time, time] : [time])),
    experts: Object.fromEntries(Object.entries(experts).map(([name, values]) => [name, twice(values)])),
    others: others && twice(others),
  };
}

function layers(rows) {
  const look = ({ name, values, rest }) => ({ name, values, k: rest ? 8 : colour("expert", name), format: percent });
  if (log) return rows.map((row) => ({ ...look(row), kind: "line" }));
  const below = rows[0].values.map(() => 0);
  return rows.map((row) => {
    const low = [...below];
    row.values.forEach((value, i) => { below[i] += value ?? 0; });
    return { ...look(row), kind: "area", low, high: [...below] };
  });
}

/** What became of the expert that joined last: the answer to "is the new model better?". */
function newest(history, rows, top) {
  const joined = history.marks.filter(({ kind }) => kind === "expert added").at(-1);
  const row = joined && rows.find(({ name }) => name === joined.name);
  if (!row) return null;
  const first = joined.share;
  const weight = row.values.at(-1);
  const moves = weight > 2 * first ? "it gains" : weight < first / 2 ? "it loses" : "no verdict yet";
  const verdict = weight > 0.5 ? "it leads, for it foresaw rewards best" : moves;
  const who = row === top ? "It" : h("b", {}, brief(joined.name, 60));
  return [who, ` joined ${moment(joined.t)} with ${percent(first)} and has ${percent(weight)} now: ${verdict}.`];
}

function sentence(history, posterior, rows) {
  const top = rows.filter(({ rest }) => !rest)[0];
  const most = `${brief(top.name, 40)} has the most weight, ${percent(top.values.at(-1))}, among ${crowd(posterior)}. `;
  return [most, newest(history, rows, top)];
}

/** Bars of the weights that it begins with. */
function prior(known) {
  const rows = Object.entries(known).sort(([, a], [, b]) => b - a);
  const columns = [
    { head: "expert", cell: ([name]) => brief(name, 60) },
    { head: hidden("as a bar"), cell: ([, weight]) => bar(weight) },
    { head: "weight", number: true, cell: ([, weight]) => num(weight, percent(weight)) },
  ];
  const says = h("p", { class: "says" }, "Nothing learnt yet: this is the prior.");
  return [says, scrolling("Prior", table(columns, rows, "The prior"))];
}

/** What a policy without experts knows, as it says it itself. */
function knowledge(posterior) {
  const entries = Object.entries(posterior?.posterior || {});
  const flat = (value) => (typeof value === "number" ? num(value) : h("code", {}, brief(JSON.stringify(value), 120)));
  const columns = [
    { head: "of", cell: ([name]) => brief(name, 60) },
    { head: "known", cell: ([, value]) => flat(value) },
  ];
  const words = `This policy weighs no experts. What it knows after ${many(posterior?.learnt ?? 0, "reward")}:`;
  const says = h("p", { class: "says" }, entries.length ? words : "This policy asks no experts.");
  return [says, entries.length ? scrolling("What is known", table(columns, entries, "What is known")) : null];
}

const AXES = {
  true: { low: 1e-6, high: 1, log: true, unit: "weight", format: (x) => figure(x, 1) },
  false: { low: 0, high: 1, unit: "share of the weight", format: percent },
};

export function drawFollow(state) {
  const { history, posterior, series } = state.data;
  if (!history) return;
  const place = slot("follow");
  if (!state.experiment.experts.length) return put(place, knowledge(posterior));
  if (!history.t.length || !posterior?.learnt) return put(place, prior(posterior?.posterior || {}));
  const last = history.t.at(-1);
  const begun = Math.max(Math.min(series?.t[0] ?? history.t[0], last), history.t[0]);
  const shown = stepped(within(history, begun));
  const rows = weights(shown);
  if (!chart || !place.contains(chart.element)) begin(place, state);
  put(place.querySelector(".says"), sentence(history, posterior, rows));
  const words = ({ kind, name }) => (kind === "correction" || !name ? kind : `${kind.replace("expert ", "")}: ${name}`);
  chart.show({
    t: shown.t, ends: shown.t, edges: [begun < last ? begun : begun - 60, last], layers: layers(rows), y: AXES[log],
    marks: history.marks.filter(({ t }) => t >= begun).slice(-6).map((mark) => ({ t: mark.t, name: words(mark) })),
    summary: rows.slice(0, 3).map(({ name, values }) => `${name} ${percent(values.at(-1))}`).join(", "),
  });
  return undefined;
}

function begin(place, state) {
  chart = new Chart("Weight of each expert over time", { pick: (t) => state.seek(t), height: 300 });
  const toggle = h("button", { type: "button", "aria-pressed": String(log), click: () => {
    log = !log;
    toggle.setAttribute("aria-pressed", String(log));
    drawFollow(state);
  } }, "log scale");
  place.replaceChildren(h("p", { class: "says" }), h("div", { class: "row tools" }, toggle), chart.element);
}

/** When an expert was added or retired, for the table of experts. */
export function since(history, name) {
  const mark = history?.marks.filter((one) => one.name === name && one.kind.startsWith("expert")).at(-1);
  return mark ? [mark.kind.replace("expert ", ""), " ", time(mark.t)] : "the start";
}
