// Latest decisions: a table, newest first, that goes on by itself while it stands at the newest.

import { ask, positionAt } from "./api.js";
import { at, h, put, slot } from "./dom.js";
import { brief, count, figure, moment, num, plain, time } from "./words.js";

const PAGE = 50;
const filter = { arm: "", reward: "", before: null, until: null };
let parts = null;

/** What the list asks for now. */
export const wanted = () => ({ limit: PAGE, arm: filter.arm, reward: filter.reward, before: filter.before });

/** Whether the list stands at the newest, of all arms. */
export const live = () => !filter.arm && !filter.reward && filter.before === null;

/** From the newest on, whatever is there. */
export function newestFirst() {
  Object.assign(filter, { arm: "", reward: "", before: null, until: null });
  parts = null;
}

/** Lists the decisions before a time. */
export async function seek(state, t) {
  filter.before = await positionAt(state.experiment.name, t, state.position);
  filter.until = t;
  await state.reread("decisions");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  at("decisions").scrollIntoView({ behavior: still ? "auto" : "smooth" });
}

const COUNTS = { reward: "", default: "default", correction: "corrected" };

function note({ shadow, deferred, activated }) {
  const words = [shadow ? "incumbent’s" : "", deferred ? (activated ? "shown later" : "not shown yet") : ""];
  return words.filter(Boolean).join(", ");
}

function line(state, one) {
  const why = { type: "button", class: "plain", title: "Why?", click: () => state.open(one.id) };
  const none = h("span", { class: "soft" }, "none yet");
  const row = h("tr", { "data-decision": one.id },
    h("td", {}, time(one.t)),
    h("th", { scope: "row" }, h("button", why, plain(one.id))),
    h("td", {}, plain(one.arm)),
    h("td", { class: "number" }, num(one.propensity)),
    h("td", { class: "number" }, one.reward === null ? none : num(one.reward, figure(one.reward, 4))),
    h("td", { class: "soft" }, [COUNTS[one.counts] || "", note(one)].filter(Boolean).join(", ")),
    h("td", {}, plain(one.unit ?? "")));
  row.sign = JSON.stringify(one);
  return row;
}

/** Rows that are the same stay, with their focus. */
function fill(state, decisions) {
  const old = new Map([...parts.body.children].map((row) => [row.sign, row]));
  const rows = decisions.map((one) => old.get(JSON.stringify(one)) || line(state, one));
  if (rows.length === old.size && rows.every((row, i) => row === parts.body.children[i])) return;
  const focused = document.activeElement;
  parts.body.replaceChildren(...rows);
  if (focused.isConnected && parts.body.contains(focused)) focused.focus({ preventScroll: true });
}

function where() {
  if (filter.until) return `Before ${moment(filter.until)}. `;
  return filter.before ? "Older ones. " : "The newest, live. ";
}

function none({ searched }) {
  if (filter.arm || filter.reward) return `None of the ${count(searched)} that were looked through is like that.`;
  return filter.before ? "No decision here." : "Waiting for the first decision.";
}

export function drawDecisions(state) {
  const found = state.data.decisions;
  if (!found) return;
  if (!parts) begin(state);
  parts.table.hidden = !found.decisions.length;
  parts.tools.hidden = !found.decisions.length && !filter.arm && !filter.reward && !filter.before;
  fill(state, found.decisions);
  put(parts.says, parts.tools.hidden ? "" : where(), found.decisions.length ? "Choose an id to see why." : none(found));
  parts.older.hidden = found.before === null;
  parts.newest.hidden = filter.before === null;
  parts.older.onclick = () => move(state, { before: found.before, until: null });
}

async function move(state, change) {
  Object.assign(filter, change);
  await state.reread("decisions");
}

function armField(state) {
  const change = (event) => move(state, { arm: event.target.value.trim(), before: null, until: null });
  const names = state.experiment.arms;
  const option = (name) => h("option", { value: name }, brief(name, 60));
  if (names && names.length <= 50) return h("select", { change }, h("option", { value: "" }, "any"), names.map(option));
  return h("input", { type: "search", change, placeholder: "any", size: 14, spellcheck: "false" });
}

function begin(state) {
  const change = (event) => move(state, { reward: event.target.value, before: null, until: null });
  const choices = [["", "any"], ["some", "some"], ["none", "none yet"]];
  const rewards = h("select", { change }, choices.map(([value, words]) => h("option", { value }, words)));
  const when = h("input", { type: "datetime-local" });
  const jump = () => when.value && state.seek(Date.parse(when.value) / 1000);
  const back = () => {
    when.value = "";
    move(state, { before: null, until: null });
  };
  const body = h("tbody");
  const head = (text) => h("th", { scope: "col", class: text === "odds" || text === "reward" ? "number" : null }, text);
  const heads = h("tr", {}, ["time", "decision", "arm", "odds", "reward", "note", "unit"].map(head));
  const caption = h("caption", { class: "unseen" }, "Decisions, newest first");
  const lines = h("table", {}, caption, h("thead", {}, heads), body);
  parts = {
    body,
    table: lines,
    tools: h("div", { class: "row tools" },
      h("label", {}, "Arm ", armField(state)), h("label", {}, "Reward ", rewards), h("label", {}, "Before ", when),
      h("button", { type: "button", click: jump }, "Go")),
    says: h("p", { class: "says", role: "status" }),
    older: h("button", { type: "button", hidden: true }, "Older"),
    newest: h("button", { type: "button", hidden: true, click: back }, "Newest"),
  };
  slot("decisions").replaceChildren(
    parts.tools,
    parts.says,
    h("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Table of decisions" }, lines),
    h("div", { class: "row tools" }, parts.newest, parts.older));
}

/** The newest decision of a unit among the last 2,000; null: none. */
export async function ofUnit(experiment, unit) {
  let before = null;
  for (let looked = 0; looked < 10; looked += 1) {
    const found = await ask("/v1/decisions", { experiment, before, limit: 200 });
    const one = found.decisions.find((decision) => decision.unit === unit);
    if (one || found.before === null) return one ? one.id : null;
    before = found.before;
  }
  return null;
}
