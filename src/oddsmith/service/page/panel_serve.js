// What does it serve? Mean odds of arms over time, and how often they were drawn: the two lie on each other.

import { Chart } from "./chart.js";
import { h, put, scrolling, slot, table } from "./dom.js";
import { arms, colour, heaviest, merged, nothing, ratio, room, sum } from "./series.js";
import { brief, count, figure, many, moment, num, percent, time } from "./words.js";

const MOST = 6; // arms with a line of their own
const MISLEADS = "Mean of the rewards that came. It misleads: each arm was shown to other visitors than the others. What is it worth? has weighted values.";
const ORDERS = {
  share: ["by share", (a, b) => b.drawn - a.drawn],
  newest: ["newest", (a, b) => (b.since ?? 0) - (a.since ?? 0)],
  risen: ["risen", (a, b) => (b.moved ?? 0) - (a.moved ?? 0)],
  fallen: ["fallen", (a, b) => (a.moved ?? 0) - (b.moved ?? 0)],
};
let chart = null;
let order = "share";
let buttons = null;

function layersOf(rows, decisions) {
  return rows.flatMap(({ name, columns, rest }) => {
    const k = rest ? 8 : colour("arm", name);
    const there = (values) => ratio(values, decisions).map((share, i) => (columns.odds_sum[i] > 0 ? share : null));
    return [
      { name, kind: "line", values: there(columns.odds_sum), k, format: percent },
      { name: `${brief(name, 20)}, drawn`, kind: "dots", values: there(columns.drawn), k, format: percent, label: false },
    ];
  });
}

function reads(layers, i) {
  const one = (line, j) => line.values[i] !== null && `${brief(line.name, 24)} ${percent(line.values[i])} (drawn ${percent(layers[2 * j + 1].values[i])})`;
  return layers.filter(({ kind }) => kind === "line").map(one).filter(Boolean);
}

function listOf(rows) {
  const sign = (moved) => (moved === null ? "–" : num(moved, `${moved >= 0.0005 ? "+" : moved <= -0.0005 ? "−" : ""}${Math.abs(100 * moved).toFixed(1)} points`));
  return table([
    { head: "arm", cell: ({ name, rest }) => h("span", { title: name }, rest ? h("i", {}, "others") : brief(name, 60)) },
    { head: "drawn", number: true, cell: ({ drawn, mean, rewarded }) => h("span", { title: mean === null ? null : `${figure(mean)} over ${rewarded}. ${MISLEADS}` }, num(drawn, count(drawn))) },
    { head: "share", number: true, cell: ({ share }) => num(share, percent(share)) },
    { head: "mean odds", number: true, cell: ({ odds }) => num(odds, percent(odds)) },
    { head: "moved", number: true, title: "Mean odds in the last third of the range, less those in the first", cell: ({ moved }) => sign(moved) },
    { head: "first drawn", number: true, title: "In this range", cell: ({ since }) => (since === null ? "–" : time(since, moment(since))) },
  ], rows, "Arms in this range");
}

function sentence(rows, state) {
  const top = rows.filter(({ rest }) => !rest).sort((a, b) => b.drawn - a.drawn)[0];
  const risen = rows.filter(({ rest }) => !rest).sort(ORDERS.risen[1])[0];
  const shadow = state.experiment.shadow ? " In shadow mode these are the arms that the incumbent showed." : "";
  const moved = risen.moved > 0.02 ? ` ${risen === top ? "It" : brief(risen.name, 40)} has risen most, by ${figure(100 * risen.moved, 2)} points.` : "";
  return `${brief(top.name, 40)} is drawn most, in ${percent(top.share)} of ${many(state.data.series.decisions.reduce((a, b) => a + b, 0), "decision")}.${moved}${shadow} Lines are the odds, dots how often it was drawn: they should lie on each other.`;
}

export function drawServe(state) {
  const { series } = state.data;
  if (!series) return;
  const place = slot("serve");
  if (!sum(series.decisions)) return put(place, h("p", { class: "says" }, nothing(state)));
  const buckets = merged(series, room(series));
  const rows = arms(buckets).filter(({ drawn, odds }) => drawn || odds);
  if (!chart || !place.contains(chart.element)) begin(place, state);
  const layers = layersOf(heaviest(rows, MOST), buckets.decisions);
  put(place.querySelector(".says"), sentence(rows, state));
  chart.show({
    t: buckets.t, ends: buckets.ends, edges: buckets.edges, layers, reads: (i) => reads(layers, i),
    summary: rows.slice(0, 3).map(({ name, share }) => `${name} ${percent(share)}`).join(", "),
    y: { low: 0, high: Math.max(0.1, ...layers.flatMap(({ values }) => values.map((value) => value ?? 0))), unit: "share of decisions", format: percent },
  });
  const ranked = [...rows.filter(({ rest }) => !rest).sort(ORDERS[order][1]), ...rows.filter(({ rest }) => rest)];
  put(place.querySelector(".arms"), scrolling("Arms in this range", listOf(ranked)));
  return undefined;
}

function begin(place, state) {
  chart = new Chart("Odds of arms, and how often they were drawn", { pick: (t) => state.seek(t) });
  const press = (name) => {
    order = name;
    for (const button of buttons.children) button.setAttribute("aria-pressed", String(button.value === order));
    drawServe(state);
  };
  buttons = h("div", { class: "choice", role: "group", "aria-label": "Order of arms" }, Object.entries(ORDERS).map(([name, [words]]) =>
    h("button", { type: "button", value: name, "aria-pressed": String(name === order), click: () => press(name) }, words)));
  place.replaceChildren(h("p", { class: "says" }), chart.element, h("div", { class: "row tools" }, h("h3", {}, "Arms"), buttons), h("div", { class: "arms" }));
}
