// What is it worth? A row for each target with its interval; and rewards over time.

import { Chart } from "./chart.js";
import { h, put, scrolling, slot, svg } from "./dom.js";
import { interval, merged, nothing, ratio, room, sum } from "./series.js";
import { onAxis, scale, ticks } from "./scales.js";
import { brief, count, figure, many, num, percent } from "./words.js";

let chart = null;
let volume = null;

const NAMES = { served: "what is served", uniform: "all arms evenly", policy: "what we would have done" };

function nameOf({ kind, name }, shadow) {
  if (kind === "arm") return ["always ", h("b", {}, brief(name, 60))];
  return kind === "served" && shadow ? "what the incumbent did" : NAMES[kind] || name;
}

function drawn({ value, low, high, kind }, place, marks) {
  const x = (number) => `${place(number).toFixed(2)}%`;
  return svg("svg", { class: `interval k${{ served: 1, policy: 2, uniform: 8 }[kind] || 7}`, height: 20, "aria-hidden": "true" },
    marks.map((mark) => svg("line", { class: "grid", x1: x(mark), x2: x(mark), y1: 0, y2: 20 })),
    svg("line", { class: "whisker", x1: x(low), x2: x(high), y1: 10, y2: 10 }),
    kind === "served" ? svg("circle", { class: "dot", cx: x(value), cy: 10, r: 5 }) : svg("circle", { class: "dot", cx: x(value), cy: 10, r: 3.5 }));
}

function axis(place, marks) {
  return svg("svg", { class: "interval chart", height: 18, "aria-hidden": "true" }, marks.map((mark, i) =>
    svg("text", { x: `${place(mark).toFixed(2)}%`, y: 13, "text-anchor": i === 0 ? "start" : i === marks.length - 1 ? "end" : "middle" }, onAxis(mark))));
}

export function drawWorth({ experiment, data: { values } }) {
  if (!values) return;
  const rows = values.values;
  if (!rows.length) return put(slot("worth"), h("p", { class: "says" }, values.sentence || "It needs 30 rewards, and odds above 0 for every arm."));
  const told = rows.filter(({ value }) => value !== null);
  const ends = told.flatMap(({ low, high }) => [low, high]);
  const marks = ends.length ? ticks(Math.min(...ends), Math.max(...ends), 3) : [0, 1];
  const place = scale([marks[0], marks.at(-1)], [2, 98]);
  const line = (row) => h("tr", { "data-target": row.name },
    h("th", { scope: "row" }, nameOf(row, experiment.shadow)),
    row.value === null ? h("td", { colspan: 3, class: "soft" }, row.refused || "no value yet")
      : [h("td", { class: "picture" }, drawn(row, place, marks)),
        h("td", { class: "number" }, h("b", {}, num(row.value)), h("br"), h("span", { class: "soft" }, num(row.low), " to ", num(row.high))),
        h("td", { class: "number", title: `as good as ${figure(row.ess)} draws of its own` }, num(row.n, count(row.n)))]);
  put(slot("worth"),
    h("p", { class: "says" }, values.sentence),
    scrolling("Values of targets", h("table", { class: "worth" },
      h("caption", { class: "unseen" }, "Worth of a decision, with 95 % intervals"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "if it were"), h("th", { scope: "col" }, "reward a decision"), h("th", { scope: "col", class: "number" }, "95 % interval"), h("th", { scope: "col", class: "number" }, "rewards"))),
      h("tbody", {}, rows.map(line)),
      ends.length ? h("tfoot", {}, h("tr", {}, h("td"), h("td", { class: "picture" }, axis(place, marks)), h("td"), h("td"))) : null)),
    h("p", { class: "small soft" }, "Rewards are weighed by the odds that were logged, so that arms can be compared though they were shown to different visitors. The intervals hold at all times: look as often as you like."));
  return undefined;
}

export function drawReward(state) {
  const { series } = state.data;
  if (!series) return;
  const place = slot("reward");
  const { reward: range } = state.experiment;
  const total = sum(series.rewards) + sum(series.defaults);
  if (!total) return put(place, h("p", { class: "says" }, sum(series.decisions) ? "No reward has come for the decisions of this range yet." : nothing(state)));
  const buckets = merged(series, Math.min(32, room(series)));
  const counted = buckets.rewards.map((n, i) => n + buckets.defaults[i]);
  const mean = ratio(buckets.reward_sum, counted);
  const ends = mean.map((value, i) => interval(value, counted[i], range));
  if (!chart || !place.contains(chart.element)) {
    chart = new Chart("Mean reward of the decisions of each time", { pick: (t) => state.seek(t) });
    volume = new Chart("Decisions of each time, and what became of them", { pick: (t) => state.seek(t), height: 130 });
    place.replaceChildren(h("p", { class: "says" }), chart.element, h("h3", {}, "How many decisions?"), volume.element);
  }
  const all = sum(buckets.reward_sum) / total;
  put(place.querySelector(".says"), "A decision earned ", num(all), ` on average (${many(total, "reward")}). `,
    sum(buckets.defaults) ? `${percent(sum(buckets.defaults) / sum(buckets.decisions))} of decisions count with the default, for no reward came in time. ` : "",
    "Each reward stands at the time of its decision; the band is a 95 % interval.");
  const low = ends.map(([end]) => end);
  const high = ends.map(([, end]) => end);
  chart.show({
    t: buckets.t, ends: buckets.ends, edges: buckets.edges,
    layers: [
      { name: "95 % interval", kind: "band", values: low, low, high, k: 1, read: false, label: false, format: figure },
      { name: "mean reward", kind: "line", values: mean, k: 1, format: figure },
    ],
    summary: `${figure(all)} on average`,
    y: { low: Math.min(...low.filter((x) => x !== null)), high: Math.max(...high.filter((x) => x !== null)), unit: `reward a decision, possible ${figure(range.low)} to ${figure(range.high)}` },
  });
  drawVolume(buckets);
  return undefined;
}

function drawVolume({ decisions, rewards, defaults, t, starts, ends, edges }) {
  const bars = (name, values, k) => ({ name, kind: "bars", values, k, format: count, label: false });
  const layers = [bars("decisions", decisions, 8), bars("count with the default", rewards.map((n, i) => n + defaults[i]), 5), bars("with a reward", rewards, 3)];
  if (!sum(defaults)) layers.splice(1, 1);
  volume.show({
    t, starts, ends, edges, layers, legend: layers, summary: `${many(sum(decisions), "decision")}, ${many(sum(rewards), "reward")}`,
    hint: "A click on a time, or Enter, lists the decisions before it.",
    reads: (i) => [many(decisions[i], "decision"), `${count(rewards[i])} with a reward`, `${count(defaults[i])} with the default`],
    y: { low: 0, high: Math.max(1, ...decisions), unit: "decisions", format: count },
  });
}
