// What came back? The mean reward of the decisions of each time, and how many decisions there were.

import { Chart } from "./chart.js";
import { h, put, slot } from "./dom.js";
import { interval, merged, nothing, ratio, room, sum } from "./series.js";
import { count, figure, many, num, percent } from "./words.js";

let chart = null;
let volume = null;

function sentence(buckets, total) {
  const defaults = sum(buckets.defaults);
  const share = percent(defaults / sum(buckets.decisions));
  return [
    "A decision earned ", num(sum(buckets.reward_sum) / total), ` on average (${many(total, "reward")}). `,
    defaults ? `${share} of decisions count with the default, for no reward came in time. ` : "",
    "Each reward stands at the time of its decision; the band is a 95 % interval.",
  ];
}

export function drawReward(state) {
  const { series } = state.data;
  if (!series) return;
  const place = slot("reward");
  const total = sum(series.rewards); // decisions that count, those with the default among them
  if (!total) {
    const none = "No reward has come for the decisions of this range yet.";
    return put(place, h("p", { class: "says" }, sum(series.decisions) ? none : nothing(state)));
  }
  const buckets = merged(series, Math.min(32, room(series)));
  if (!chart || !place.contains(chart.element)) begin(place, state);
  put(place.querySelector(".says"), sentence(buckets, total));
  drawMean(buckets, state.experiment.reward, total);
  drawVolume(buckets);
  return undefined;
}

function drawMean({ t, starts, ends, edges, rewards, reward_sum: sums }, range, total) {
  const values = ratio(sums, rewards);
  const spans = values.map((value, i) => interval(value, rewards[i], range));
  const [low, high] = [0, 1].map((end) => spans.map((span) => span[end]));
  const words = (from, to) => `${figure(from)} to ${figure(to)}`;
  const unit = `reward a decision, possible ${words(range.low, range.high)}`;
  const there = [...low, ...high].filter((end) => end !== null);
  chart.show({
    t, starts, ends, edges, summary: `${figure(sum(sums) / total)} on average`,
    layers: [
      { name: "95 % interval", kind: "band", values: low, low, high, k: 1, read: false, label: false },
      { name: "mean reward", kind: "line", values, k: 1, format: figure },
    ],
    reads: (i) => [`mean ${figure(values[i])}`, `95 % interval ${words(low[i], high[i])}`, many(rewards[i], "reward")],
    y: { low: Math.min(...there), high: Math.max(...there), unit },
  });
}

function drawVolume({ decisions, rewards, defaults, t, starts, ends, edges }) {
  const look = { kind: "bars", format: count, label: false };
  const bars = (name, values, k, high = values) => ({ ...look, name, values, high, k });
  const real = rewards.map((n, i) => n - defaults[i]);
  const settled = bars("with the default", defaults, 5, rewards);
  const layers = [bars("decisions", decisions, 8), settled, bars("with a reward", real, 3)];
  if (!sum(defaults)) layers.splice(1, 1);
  const some = (values, i, what) => `${count(values[i])} with ${what}`;
  volume.show({
    t, starts, ends, edges, layers, legend: layers,
    summary: `${many(sum(decisions), "decision")}, ${many(sum(real), "reward")}`,
    hint: "A click on a time, or Enter, lists the decisions before it.",
    reads: (i) => [many(decisions[i], "decision"), some(real, i, "a reward"), some(defaults, i, "the default")],
    y: { low: 0, high: Math.max(1, ...decisions), unit: "decisions", format: count },
  });
}

function begin(place, state) {
  const pick = (t) => state.seek(t);
  chart = new Chart("Mean reward of the decisions of each time", { pick });
  volume = new Chart("Decisions of each time, and what became of them", { pick, height: 130 });
  place.replaceChildren(h("p", { class: "says" }), chart.element, h("h3", {}, "How many decisions?"), volume.element);
}
