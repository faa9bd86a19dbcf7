// The page: which experiment, range and decision (all three in the address), and the loop that keeps it up to date.

import { Refused, ask, key, patience } from "./api.js";
import { at, h, put } from "./dom.js";
import { drawDecisions, newestFirst, ofUnit, seek } from "./panel_decisions.js";
import { drawExperts, drawGuarantee } from "./panel_experts.js";
import { drawFollow } from "./panel_follow.js";
import { drawSentence, drawSwitch } from "./panel_sentence.js";
import { drawArms, drawServe } from "./panel_serve.js";
import { openWhy } from "./panel_why.js";
import { drawReward } from "./panel_reward.js";
import { drawWorth } from "./panel_worth.js";
import { Reading, pause } from "./reading.js";
import { ago, clock, count, crowd, many, now, plain } from "./words.js";

const PANELS = [
  [drawSentence, "stats", "checks", "series", "values", "decisions"], [drawSwitch, "checks", "values"],
  [drawAbout, "posterior"], [drawFollow, "history", "posterior", "series"], [drawServe, "series"], [drawArms, "decisions"],
  [drawWorth, "values"], [drawReward, "series"],
  [drawDecisions, "decisions"], [drawExperts, "stats", "checks", "history"], [drawGuarantee, "checks"],
];
const NAMES = ["experiment", "range", "decision"]; // in the address
const state = { experiments: [], experiment: null, range: "day", served: true, data: {}, position: 0, known: 0,
  answered: null };
const reading = new Reading(state);
let turn = new AbortController();
let paused = false;
let failures = 0;

state.open = (id) => { address({ decision: id }); return show(id); };
state.seek = (t) => seek(state, t).catch(trouble);
state.reread = (name) => reading.read(name, turn.signal).then(() => draw(name)).catch(trouble);

/** What the address says after the hash. */
const said = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** What a link asks for before the hash, as /?experiment=shop, goes behind it, where the address is kept. */
function moveQuery() {
  const asked = [...new URLSearchParams(location.search)].filter(([name]) => NAMES.includes(name));
  if (!location.search) return;
  const entries = new URLSearchParams({ ...Object.fromEntries(asked), ...said() });
  history.replaceState(null, "", `${location.pathname}#${entries}`);
}

function address(change) {
  const entries = Object.entries({ ...said(), ...change }).filter(([, value]) => value);
  history.replaceState(null, "", `#${new URLSearchParams(entries)}`);
}

/** Who has not chosen a range sees the last hour of an experiment that has just begun, and else the last day. */
function fit({ range: shown, decisions }) {
  const busy = decisions.filter((n) => n > 0).length;
  if (said().range || shown !== "day" || busy > 3 || !busy) return;
  range("hour");
  reading.forget("series");
}

function draw(name) {
  if (!state.experiment) return;
  if (name === "series") fit(state.data.series);
  for (const [panel, ...needs] of PANELS) if (needs.includes(name)) panel(state);
  state.answered = now();
  tick();
}

function tick() {
  const { answered, known } = state;
  const well = `as of position ${count(known)}, ${answered === null ? "" : ago(answered)}${paused ? " (paused)" : ""}`;
  const late = h("span", { class: "broken" }, `no news since ${answered === null ? "" : clock(answered)}`);
  put(at("asof"), answered === null ? "" : failures ? late : well);
  at("main").classList.toggle("stale", failures > 0);
}

function notice(word, ...words) {
  put(at("notice"), words.length ? h("p", { class: `notice ${word}` }, ...words) : null);
}

/** Whether nothing is shown but the form that asks for a key. */
function locked(yes) {
  at("key").hidden = !yes;
  at("main").classList.toggle("locked", yes);
}

async function show(id) {
  put(at("find-says"), "");
  try {
    await openWhy(state, id);
  } catch (error) {
    const found = error.status === 404 ? await ofUnit(state.experiment.name, id).catch(() => null) : null;
    if (found) return state.open(found);
    address({ decision: "" });
    const none = `No decision has the id ${plain(id)}, and none of the last 2,000 the unit.`;
    put(at("find-says"), error.status === 404 ? none : error.message);
  }
  return undefined;
}

/** What kind of experiment it is; the posterior, once it is here, tells retired experts apart. */
function drawAbout({ experiment: known, data: { posterior } }) {
  const arms = known.arms ? many(known.arms.length, "arm") : "arms that come with calls";
  const told = Object.keys(posterior?.posterior || {}).length > 0;
  const experts = known.experts.length && (told ? crowd(posterior) : many(known.experts.length, "expert"));
  const words = [arms, experts, `policy ${known.policy}`, known.shadow && "shadow mode", known.sticky && "sticky"];
  put(at("about"), words.filter(Boolean).join(" · "));
}

function choose(name) {
  const known = state.experiments.find((one) => one.name === name) || state.experiments[0];
  if (!known || known.name === state.experiment?.name) return;
  state.experiment = known;
  reading.forget();
  newestFirst();
  at("experiment").value = known.name;
  at("title").textContent = known.name;
  document.title = `${known.name} · oddsmith`;
  drawAbout(state);
  at("find-id").placeholder = known.sticky ? "id of a decision, or unit" : "id of a decision";
}

async function begin(signal) {
  const { experiments, version, served } = await ask("/v1/experiments", {}, signal);
  if (!experiments.length) throw new Refused(403, "this key may read no experiment of this service");
  Object.assign(state, { experiments, served });
  put(at("experiment"), experiments.map(({ name }) => h("option", { value: name }, name)));
  at("which").hidden = experiments.length < 2;
  locked(false);
  put(at("version"), `oddsmith ${version}.`);
  choose(said().experiment);
  if (said().decision) show(said().decision);
}

/** Says what is wrong; true if only a person can go on. */
function trouble(error) {
  if (error.name === "AbortError") return false;
  if (error.status === 401 || error.status === 403) {
    const wrong = "This key is not in force. Give another one with the scope read.";
    const none = "This service has keys. Give one with the scope read; it stays in this tab only.";
    put(at("key-why"), error.status === 403 ? `Not allowed: ${error.message}.` : key.get() ? wrong : none);
    locked(true);
    notice("wait");
    at("key-text").focus();
    return true;
  }
  failures += 1;
  const said = `The service says: ${error.message.replace(/([^.?!])$/, "$1.")}`;
  const what = error.status ? said : "The service does not answer. Is it running?";
  const since = error.status ? " What is shown is of " : " No answer since ";
  const when = state.answered === null ? "" : `${since}${clock(state.answered)}.`;
  notice("broken", `${what}${when} Trying again by itself.`);
  tick();
  return false;
}

async function loop() {
  for (;;) {
    turn = new AbortController();
    try {
      if (paused || document.hidden) await pause(1e6, turn.signal);
      if (!state.experiments.length) await begin(turn.signal);
      await reading.refresh(draw, turn.signal);
      if (!reading.broken) {
        failures = 0;
        notice("well");
      }
      await reading.news(turn.signal);
    } catch (error) {
      const stuck = trouble(error);
      if (error.name !== "AbortError") await pause(stuck ? 1e6 : patience(failures), turn.signal).catch(() => null);
    }
  }
}

/** Calls off what is under way, and goes on at once. */
const again = () => turn.abort();

function range(name) {
  if (!["hour", "day", "week", "all"].includes(name)) return;
  state.range = name;
  for (const button of at("range").children) button.setAttribute("aria-pressed", String(button.value === name));
}

function listen() {
  at("range").addEventListener("click", ({ target }) => {
    if (!target.value) return;
    range(target.value);
    address({ range: state.range });
    reading.forget("series");
    again();
  });
  at("experiment").addEventListener("change", ({ target }) => {
    choose(target.value);
    address({ experiment: target.value, decision: "" });
    again();
  });
  at("pause").addEventListener("click", ({ target }) => {
    paused = !paused;
    target.setAttribute("aria-pressed", String(paused));
    tick();
    again();
  });
  at("theme").addEventListener("change", ({ target }) => theme(target.value));
  at("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    key.set(at("key-text").value.trim());
    at("key-text").value = "";
    Object.assign(state, { experiments: [], experiment: null });
    again();
  });
  at("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const id = at("find-id").value.trim();
    if (id && state.experiment) state.open(id);
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address keeps what is shown
    at("sentence").focus();
  });
  at("why-close").addEventListener("click", () => at("why").close());
  at("why").addEventListener("close", () => address({ decision: "" }));
  at("why").addEventListener("click", ({ target }) => target === at("why") && at("why").close());
  document.addEventListener("visibilitychange", again);
  addEventListener("hashchange", () => {
    range(said().range);
    choose(said().experiment);
    if (said().decision && state.experiment) show(said().decision);
    again();
  });
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  at("theme").value = name;
  localStorage.setItem("oddsmith-theme", name);
}

theme(localStorage.getItem("oddsmith-theme") || "");
moveQuery();
range(said().range || state.range);
listen();
setInterval(tick, 1000);
setInterval(() => state.experiment && !paused && drawSentence(state), 10000);
loop();
