// Whom does it follow? Weights of experts over time, stacked or on a log scale, with marks for those that joined or left.

import { Chart } from "./chart.js";
import { bar, h, put, scrolling, slot, table } from "./dom.js";
import { brief, figure, many, moment, num, percent, time } from "./words.js";
import { colour, weights } from "./series.js";

let chart = null;
let log = false;

/** History within the range, the last point before it at its edge. */
function within(history, from) {
  const first = Math.max(0, history.t.findLastIndex((t) => t <= from));
  const cut = (values) => values.slice(first);
  return {
    t: cut(history.t).map((t) => Math.max(t, from)), marks: history.marks,
    experts: Object.fromEntries(Object.entries(history.experts).map(([name, values]) => [name, cut(values)])),
    others: history.others && cut(history.others),
  };
}

function layers(rows) {
  if (log) return rows.map(({ name, values, rest }) => ({ name, kind: "line", values, k: rest ? 8 : colour("expert", name), format: percent }));
  const below = rows[0].values.map(() => 0);
  return rows.map(({ name, values, rest }) => {
    const low = [...below];
    values.forEach((value, i) => { below[i] += value ?? 0; });
    return { name, kind: "area", values, low, high: [...below], k: rest ? 8 : colour("expert", name), format: percent };
  });
}

/** What the newest mark has led to: the answer to "is the new model better?". */
function newest(history, rows, top) {
  const joined = history.marks.filter(({ kind }) => kind === "expert added").at(-1);
  const row = joined && rows.find(({ name }) => name === joined.name);
  if (!row) return null;
  const weight = row.values.at(-1);
  const first = row.values.find((value) => value !== null);
  const moves = weight > 2 * first ? "it gains" : weight < first / 2 ? "it loses" : "no verdict yet";
  const verdict = weight > 0.5 ? "it leads, for it foresaw rewards best" : moves;
  return [row === top ? "It" : h("b", {}, brief(joined.name, 60)), ` joined ${moment(joined.t)} with ${percent(first)} and has ${percent(weight)} now: ${verdict}.`];
}

function sentence(history, rows) {
  const top = rows.filter(({ rest }) => !rest)[0];
  const told = newest(history, rows, top);
  return [`${brief(top.name, 40)} has most of the weight, ${percent(top.values.at(-1))} of ${many(Object.keys(history.experts).length, "expert")}. `, told];
}

/** Bars of the weights that it begins with. */
function prior(weightsNow) {
  const rows = Object.entries(weightsNow).sort(([, a], [, b]) => b - a);
  return [h("p", { class: "says" }, "Nothing learnt yet: this is the prior."),
    scrolling("Prior", table([{ head: "expert", cell: ([name]) => brief(name, 60) }, { head: h("span", { class: "unseen" }, "as a bar"), cell: ([, weight]) => bar(weight) },
      { head: "weight", number: true, cell: ([, weight]) => num(weight, percent(weight)) }], rows, "The prior"))];
}

/** What a policy without experts knows, as it says it itself. */
function knowledge(posterior) {
  const entries = Object.entries(posterior?.posterior || {});
  if (!entries.length) return h("p", { class: "says" }, "This policy asks no experts and tells nothing of what it knows.");
  const flat = (value) => (typeof value === "number" ? num(value) : h("code", {}, brief(JSON.stringify(value), 120)));
  return [h("p", { class: "says" }, `This policy weighs no experts. What it knows after ${many(posterior.learnt, "reward")}:`),
    scrolling("What is known", table([{ head: "of", cell: ([name]) => brief(name, 60) }, { head: "known", cell: ([, value]) => flat(value) }], entries, "What is known"))];
}

export function drawFollow(state) {
  const { history, posterior, series } = state.data;
  if (!history) return;
  const place = slot("follow");
  const names = Object.keys(history.experts);
  if (!names.length) return put(place, knowledge(posterior));
  if (!history.t.length || !posterior?.learnt) return put(place, prior(posterior?.posterior || {}));
  const edges = [Math.min(series?.t[0] ?? history.t[0], history.t.at(-1)), history.t.at(-1)];
  const begun = Math.max(edges[0], history.t[0]);
  const shown = within(history, begun);
  const rows = weights(shown);
  if (!chart || !place.contains(chart.element)) begin(place, state);
  put(place.querySelector(".says"), sentence(history, rows));
  const marks = history.marks.filter(({ t }) => t >= begun).slice(-6)
    .map(({ t, kind, name }) => ({ t, name: kind === "correction" ? "correction" : `${kind.replace("expert ", "")}: ${name}` }));
  chart.show({
    t: shown.t, ends: shown.t, edges: begun < edges[1] ? [begun, edges[1]] : [begun - 60, edges[1]], marks,
    layers: layers(rows), summary: rows.slice(0, 3).map(({ name, values }) => `${name} ${percent(values.at(-1))}`).join(", "),
    y: log ? { low: 1e-6, high: 1, log: true, unit: "weight", format: (x) => figure(x, 1) } : { low: 0, high: 1, unit: "share of the weight", format: percent },
  });
  return undefined;
}

function begin(place, state) {
  chart = new Chart("Weight of each expert over time", { pick: (t) => state.seek(t), height: 300 });
  const toggle = h("button", { type: "button", "aria-pressed": "false", click: () => {
    log = !log;
    toggle.setAttribute("aria-pressed", String(log));
    drawFollow(state);
  } }, "log scale");
  place.replaceChildren(h("p", { class: "says" }), h("div", { class: "row tools" }, toggle), chart.element);
}

/** When an expert was added or retired, for the table of experts. */
export function since(history, name) {
  const mark = history?.marks.filter((one) => one.name === name && one.kind.startsWith("expert")).at(-1);
  return mark ? [mark.kind.replace("expert ", ""), " ", time(mark.t)] : "the beginning";
}
