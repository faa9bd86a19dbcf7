// What is it worth? A row for each target, with its interval.

import { h, put, scrolling, slot, svg } from "./dom.js";
import { onAxis, scale, ticks } from "./scales.js";
import { brief, count, figure, many, num } from "./words.js";

const NAMES = { served: "what is served", uniform: "all arms evenly", policy: "what we would have done" };
const COLOURS = { served: 1, policy: 2, uniform: 8 };
const BEYOND = "The weighted mean lies outside of what is possible: a few rare draws carry it. The interval holds.";
const WHY = "Rewards are weighed by the odds that were logged, so that arms can be compared though they were shown to "
  + "different visitors. The intervals hold at all times: look as often as you like. Each is for its value by itself, "
  + "so two may overlap where the targets differ: oddsmith export and oddsmith evaluate compare targets on the same "
  + "decisions, with narrower intervals.";
const FEW = 5; // arms that are all shown, whatever is known of them

function nameOf({ kind, name }, shadow) {
  if (kind === "arm") return ["always ", h("b", {}, brief(name, 60))];
  return kind === "served" && shadow ? "what the incumbent did" : NAMES[kind] || name;
}

/** Whether the weighted mean can be the value; a few rare draws may carry it beyond all rewards. */
const inside = ({ is_cut: cut }) => !cut;

function drawn(row, place, marks) {
  const { value, low, high, kind } = row;
  const x = (number) => `${place(number).toFixed(2)}%`;
  return svg("svg", { class: `interval k${COLOURS[kind] || 7}`, height: 20, "aria-hidden": "true" },
    marks.map((mark) => svg("line", { class: "grid", x1: x(mark), x2: x(mark), y1: 0, y2: 20 })),
    svg("line", { class: "whisker", x1: x(low), x2: x(high), y1: 10, y2: 10 }),
    inside(row) ? svg("circle", { class: "dot", cx: x(value), cy: 10, r: kind === "served" ? 5 : 3.5 }) : null);
}

function axis(place, marks) {
  const anchor = (i) => (i === 0 ? "start" : i === marks.length - 1 ? "end" : "middle");
  const between = (i) => (i > 0 && i < marks.length - 1 ? "between" : null);
  const where = (mark, i) => ({ class: between(i), x: `${place(mark).toFixed(2)}%`, y: 13, "text-anchor": anchor(i) });
  const words = marks.map((mark, i) => svg("text", where(mark, i), onAxis(mark)));
  return svg("svg", { class: "interval chart", height: 18, "aria-hidden": "true" }, words);
}

function line(row, shadow, place, marks) {
  const head = h("th", { scope: "row" }, nameOf(row, shadow));
  const { value, low, high, n, ess, refused } = row;
  if (value === null) return h("tr", {}, head, h("td", { colspan: 3, class: "soft" }, refused || "no value yet"));
  const ends = h("span", { class: "soft" }, num(low), " to ", num(high));
  const middle = inside(row) ? h("b", {}, num(value)) : h("span", { title: BEYOND }, "?");
  return h("tr", {}, head,
    h("td", { class: "picture" }, drawn(row, place, marks)),
    h("td", { class: "number" }, middle, h("br"), ends),
    h("td", { class: "number", title: `as good as ${figure(ess)} draws of its own` }, num(n, count(n))));
}

function listed(rows, shadow, caption) {
  const ends = rows.filter(({ value }) => value !== null).flatMap(({ low, high }) => [low, high]);
  const marks = ends.length ? ticks(Math.min(...ends), Math.max(...ends), 3) : [0, 1];
  const place = scale([marks[0], marks.at(-1)], [2, 98]);
  const head = (text, number) => h("th", { scope: "col", class: number ? "number" : null }, text);
  const heads = [head("if it were"), head("reward a decision"), head("95 % interval", true), head("rewards", true)];
  const foot = h("tr", {}, h("td"), h("td", { class: "picture" }, axis(place, marks)), h("td"), h("td"));
  return scrolling(caption, h("table", { class: "worth" },
    h("caption", { class: "unseen" }, `${caption}: worth of a decision, with 95 % intervals`),
    h("thead", {}, h("tr", {}, heads)),
    h("tbody", {}, rows.map((row) => line(row, shadow, place, marks))),
    ends.length ? h("tfoot", {}, foot) : null));
}

/** Whether an arm only takes room: it has no value, or an interval of more than half of all that is possible. */
const vague = ({ value, low, high }, range) => value === null || high - low > (range.high - range.low) / 2;

/** The rows that are shown, and those of arms of which little is known, where there are many arms. */
function sorted(rows, range) {
  const arms = rows.filter(({ kind }) => kind === "arm");
  const behind = arms.length > FEW ? arms.filter((row) => vague(row, range)) : [];
  return [rows.filter((row) => !behind.includes(row)), behind];
}

export function drawWorth({ experiment, data: { values } }) {
  if (!values) return;
  const rows = values.values;
  const says = h("p", { class: "says" }, values.sentence || "It needs 30 rewards, and odds above 0 for every arm.");
  if (new Set(rows.map(({ refused }) => refused)).size < 2 && rows[0]?.value == null) return put(slot("worth"), says);
  const [shown, behind] = sorted(rows, experiment.reward);
  const open = slot("worth").querySelector("details")?.open;
  put(slot("worth"), says,
    listed(shown, experiment.shadow, "Values of targets"),
    behind.length ? h("details", { open }, h("summary", {}, `${many(behind.length, "arm")} of which little is known`),
      listed(behind, experiment.shadow, "Arms of which little is known")) : null,
    h("p", { class: "small soft" }, WHY));
  return undefined;
}
