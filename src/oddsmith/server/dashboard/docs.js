// The forms of /docs: each makes its call, with the key of this tab, and shows what comes back as text.

import { key } from "./api.js";

const theme = localStorage.getItem("oddsmith-theme");
if (theme) document.documentElement.dataset.theme = theme;

for (const place of document.querySelectorAll(".origin")) place.textContent = location.origin;

const field = document.getElementById("key-text");
field.value = key.get();
field.addEventListener("input", () => key.set(field.value.trim()));
document.getElementById("key-form").addEventListener("submit", (event) => event.preventDefault());

/** The address and the settings of the call that a form describes. */
function call(form) {
  const { method, path } = form.dataset;
  const headers = key.get() ? { Authorization: `Bearer ${key.get()}` } : {};
  const settings = { method, headers, cache: "no-store", credentials: "omit" };
  if (method === "POST") {
    headers["Content-Type"] = "application/json";
    return [path, { ...settings, body: form.querySelector("textarea").value }];
  }
  const given = [...new FormData(form)].filter(([, value]) => value !== "");
  const within = given.filter(([name]) => path.includes(`{${name}}`));
  const query = new URLSearchParams(given.filter(([name]) => !path.includes(`{${name}}`)));
  const place = within.reduce((text, [name, value]) => text.replace(`{${name}}`, encodeURIComponent(value)), path);
  return [query.size ? `${place}?${query}` : place, settings];
}

/** JSON with lines, or the text as it came. */
function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

async function send(form) {
  const button = form.querySelector("button");
  const status = form.parentElement.querySelector("[role=status]");
  const shown = form.parentElement.querySelector(".answer");
  const began = performance.now();
  button.disabled = true;
  status.textContent = "Asking …";
  try {
    const answer = await fetch(...call(form));
    shown.textContent = readable(await answer.text());
    const took = Math.round(performance.now() - began);
    status.textContent = `${answer.status} ${answer.ok ? "answered" : "refused"}, in ${took} ms`;
  } catch {
    shown.textContent = "";
    status.textContent = "The service does not answer.";
  }
  shown.hidden = !shown.textContent;
  button.disabled = false;
}

for (const form of document.querySelectorAll("form.try")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}
