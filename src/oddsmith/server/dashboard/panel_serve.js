// What does it serve? Mean odds of arms over time, and how often they were drawn: the two lie on each other.

import { Chart } from "./chart.js";
import { h, put, scrolling, slot, table } from "./dom.js";
import { live } from "./panel_decisions.js";
import { arms, colour, heaviest, merged, nothing, ratio, room, sum } from "./series.js";
import { brief, count, figure, many, moment, num, percent, time } from "./words.js";

const MOST = 6; // arms with a line of their own
const MISLEADS = "Mean of the rewards that came. It misleads: each arm was shown to other visitors than the others. "
  + "“What is it worth?” has weighted values.";
const OTHERS = "All other arms, and draws of these before they were among the twenty most drawn.";
const FRESH = { drawn: null, mean: null, share: null, odds: null, moved: null, since: null };
const ORDERS = {
  share: ["by share", (a, b) => (b.drawn ?? 0) - (a.drawn ?? 0)],
  newest: ["newest", (a, b) => (b.since ?? Infinity) - (a.since ?? Infinity) || 0],
  risen: ["risen", (a, b) => (b.moved ?? 0) - (a.moved ?? 0)],
  fallen: ["fallen", (a, b) => (a.moved ?? 0) - (b.moved ?? 0)],
};
let chart = null;
let order = "share";
let known = []; // rows of the arms that have sums
let buttons = null;

/** Two layers an arm, one after the other: odds as a line, draws as dots. */
function layersOf(rows, decisions) {
  return rows.flatMap(({ name, columns, rest }) => {
    const look = { k: rest ? 8 : colour("arm", name), format: percent };
    const there = (sums) => ratio(sums, decisions).map((share, i) => (columns.odds_sum[i] > 0 ? share : null));
    return [
      { ...look, name, kind: "line", values: there(columns.odds_sum) },
      { ...look, name: `${brief(name, 20)}, drawn`, kind: "dots", values: there(columns.drawn), label: false },
    ];
  });
}

function reads(layers, i) {
  const lines = layers.filter(({ kind }) => kind === "line");
  const drawn = (j) => percent(layers[2 * j + 1].values[i]);
  const words = ({ name, values }, j) => `${brief(name, 24)} ${percent(values[i])} (drawn ${drawn(j)})`;
  return lines.map((line, j) => line.values[i] !== null && words(line, j)).filter(Boolean);
}

function signed({ moved }) {
  const sign = moved >= 0.0005 ? "+" : moved <= -0.0005 ? "−" : "";
  return moved === null ? "–" : num(moved, `${sign}${Math.abs(100 * moved).toFixed(1)}`);
}

function drawnOf({ drawn, mean, rewarded }) {
  if (drawn === null) return h("span", { class: "soft", title: "Counted with the others so far" }, "new");
  const hint = mean === null ? null : `${figure(mean)} over ${count(rewarded)}. ${MISLEADS}`;
  return h("span", { title: hint }, num(drawn, count(drawn)));
}

const first = ({ since }) => (since ? time(since, moment(since)) : "–");

const COLUMNS = [
  { head: "arm", cell: ({ name, rest }) => h("span", { title: rest ? OTHERS : name }, brief(name, 60)) },
  { head: "lately", number: true, title: "In the latest decisions", cell: ({ newly }) => num(newly, percent(newly)) },
  { head: "drawn", number: true, cell: drawnOf },
  { head: "share", number: true, cell: ({ share }) => num(share, percent(share)) },
  { head: "odds", number: true, title: "Mean odds", cell: ({ odds }) => num(odds, percent(odds)) },
  { head: "moved, points", number: true, title: "Mean odds in the last third, less those in the first", cell: signed },
  { head: "since", number: true, title: "First drawn in this range", cell: first },
];

function sentence(rows, state) {
  const named = rows.filter(({ rest }) => !rest);
  const top = named.toSorted(ORDERS.share[1])[0];
  const risen = named.toSorted(ORDERS.risen[1])[0];
  const all = many(sum(state.data.series.decisions), "decision");
  const who = risen === top ? "It" : brief(risen.name, 40);
  const [[now, share] = []] = [...lately(state)].sort(([, a], [, b]) => b - a);
  const late = share > 0.5 && now !== top.name ? ` Lately it is ${brief(now, 40)}, in ${percent(share)}.` : "";
  return [
    `${brief(top.name, 40)} is drawn most, in ${percent(top.share)} of ${all}.${late}`,
    risen.moved > 0.02 ? ` ${who} has risen most, by ${figure(100 * risen.moved, 2)} points.` : "",
    state.experiment.shadow ? " In shadow mode these are the arms that the incumbent showed." : "",
    state.experiment.arms ? "" : " An arm is counted by name from when it was among the twenty drawn most.",
    " Lines are the odds, dots how often it was drawn: they should lie on each other.",
  ].join("");
}

export function drawServe(state) {
  const { series } = state.data;
  if (!series) return;
  const place = slot("serve");
  if (!sum(series.decisions)) return put(place, h("p", { class: "says" }, nothing(state)));
  const buckets = merged(series, room(series));
  const { t, starts, ends, edges } = buckets;
  const rows = arms(buckets).filter(({ drawn, odds }) => drawn || odds);
  if (!chart || !place.contains(chart.element)) begin(place, state);
  const layers = layersOf(heaviest(rows, MOST), buckets.decisions);
  const high = Math.max(0.1, ...layers.flatMap(({ values }) => values.map((value) => value ?? 0)));
  put(place.querySelector(".says"), sentence(rows, state));
  chart.show({
    t, starts, ends, edges, layers, reads: (i) => reads(layers, i),
    summary: rows.slice(0, 3).map(({ name, share }) => `${name} ${percent(share)}`).join(", "),
    y: { low: 0, high, unit: "share of decisions", format: percent },
  });
  known = rows;
  return drawArms(state);
}

/** Shares of arms among the latest decisions; empty while older ones are listed. */
function lately({ data: { decisions } }) {
  const shares = new Map();
  if (!decisions || !live()) return shares;
  const part = 1 / decisions.decisions.length;
  for (const { arm } of decisions.decisions) shares.set(arm, (shares.get(arm) ?? 0) + part);
  return shares;
}

/** The list of arms: those with sums of their own, and those that are too new for it. */
export function drawArms(state) {
  const place = slot("serve").querySelector(".arms");
  if (!place) return;
  const shares = lately(state);
  const named = known.filter(({ rest, drawn }) => !rest && drawn);
  const fresh = [...shares.keys()].filter((name) => !named.some((row) => row.name === name));
  const rows = [...named, ...fresh.map((name) => ({ ...FRESH, name }))].sort(ORDERS[order][1]);
  const all = [...rows, ...known.filter(({ rest }) => rest)];
  const told = all.map((row) => ({ ...row, newly: shares.get(row.name) ?? null }));
  put(place, scrolling("Arms in this range", table(COLUMNS, told, "Arms in this range")));
}

function begin(place, state) {
  chart = new Chart("Odds of arms, and how often they were drawn", { pick: (t) => state.seek(t) });
  const press = (name) => {
    order = name;
    for (const button of buttons.children) button.setAttribute("aria-pressed", String(button.value === order));
    drawArms(state);
  };
  const button = ([name, [words]]) => h("button", {
    type: "button", value: name, "aria-pressed": String(name === order), click: () => press(name),
  }, words);
  const group = { class: "choice", role: "group", "aria-label": "Order of arms" };
  buttons = h("div", group, Object.entries(ORDERS).map(button));
  const tools = h("div", { class: "row tools" }, h("h3", {}, "Arms"), buttons);
  place.replaceChildren(h("p", { class: "says" }), chart.element, tools, h("div", { class: "arms" }));
}
