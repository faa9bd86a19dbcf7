// Latest decisions: a table, newest first, that goes on by itself while it stands at the newest.

import { ask, positionAt } from "./api.js";
import { at, h, put, slot } from "./dom.js";
import { brief, count, figure, moment, num, plain, time } from "./words.js";

const PAGE = 50;
const filter = { arm: "", reward: "", before: null, until: null };
let parts = null;

/** What the list asks for now. */
export const wanted = () => ({ limit: PAGE, arm: filter.arm, reward: filter.reward, before: filter.before });

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
  at("decisions").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

const COUNTS = { reward: "", default: "default", correction: "corrected" };

function note({ shadow, deferred, activated }) {
  const words = [shadow ? "incumbent’s" : "", deferred ? (activated ? "shown later" : "not shown yet") : ""];
  return words.filter(Boolean).join(", ");
}

function line(state, one) {
  const row = h("tr", { "data-decision": one.id },
    h("td", {}, time(one.t)),
    h("th", { scope: "row" }, h("button", { type: "button", class: "plain", title: "Why?", click: () => state.open(one.id) }, plain(one.id))),
    h("td", {}, plain(one.arm)),
    h("td", { class: "number" }, num(one.propensity)),
    h("td", { class: "number" }, one.reward === null ? h("span", { class: "soft" }, "none yet") : num(one.reward, figure(one.reward, 4))),
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

export function drawDecisions(state) {
  const found = state.data.decisions;
  if (!found) return;
  if (!parts) begin(state);
  parts.table.hidden = !found.decisions.length;
  parts.tools.hidden = !found.decisions.length && !filter.arm && !filter.reward && !filter.before;
  fill(state, found.decisions);
  const filtered = filter.arm || filter.reward;
  const where = filter.until ? `Before ${moment(filter.until)}. ` : filter.before ? "Older ones. " : "The newest, live. ";
  const none = filtered ? `None of the ${count(found.searched)} decisions that were looked through is like that.` : filter.before ? "No decision here." : "Waiting for the first decision.";
  put(parts.says, parts.tools.hidden ? "" : where, found.decisions.length ? "Choose an id to see why." : none);
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
  if (names && names.length <= 50) return h("select", { change }, h("option", { value: "" }, "any"), names.map((name) => h("option", { value: name }, brief(name, 60))));
  return h("input", { type: "search", change, placeholder: "any", size: 14, spellcheck: "false" });
}

function begin(state) {
  const rewards = h("select", { change: (event) => move(state, { reward: event.target.value, before: null, until: null }) },
    [["", "any"], ["some", "some"], ["none", "none yet"]].map(([value, words]) => h("option", { value }, words)));
  const when = h("input", { type: "datetime-local" });
  const go = h("button", { type: "button", click: () => when.value && seek(state, Date.parse(when.value) / 1000) }, "Go");
  const body = h("tbody");
  const heads = [["time"], ["decision"], ["arm"], ["odds", 1], ["reward", 1], ["note"], ["unit"]];
  const lines = h("table", {}, h("caption", { class: "unseen" }, "Decisions, newest first"),
    h("thead", {}, h("tr", {}, heads.map(([head, number]) => h("th", { scope: "col", class: number ? "number" : null }, head)))), body);
  parts = {
    tools: h("div", { class: "row tools" }, h("label", {}, "Arm ", armField(state)), h("label", {}, "Reward ", rewards), h("label", {}, "Before ", when), go),
    body, says: h("p", { class: "says", role: "status" }), table: lines,
    older: h("button", { type: "button", hidden: true }, "Older"),
    newest: h("button", { type: "button", hidden: true, click: () => { when.value = ""; move(state, { before: null, until: null }); } }, "Newest"),
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
