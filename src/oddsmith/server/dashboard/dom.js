// Elements made without markup: whatever comes from outside is a text node or an attribute, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; an attribute that is a function listens to the event of that name. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for a part of a figure. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

const there = (value) => value !== null && value !== undefined && value !== false;

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (there(value)) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(there));
  return element;
}

/** The element with this id. */
export const at = (id) => document.getElementById(id);

/** Where a panel draws. */
export const slot = (id) => at(id).querySelector("[data-slot]");

/** Replaces the children of an element only where they differ, so that a page that is read aloud stays quiet. */
export function put(element, ...children) {
  const fresh = h(element.tagName, {}, ...children);
  const old = element.cloneNode(true);
  for (const { name } of [...old.attributes]) old.removeAttribute(name);
  if (!fresh.isEqualNode(old)) element.replaceChildren(...fresh.childNodes);
}

/** A text for those who listen. */
export const hidden = (text) => h("span", { class: "unseen" }, text);

/** A table: columns are {head, cell(row), number}; the first is the head of its row. */
export function table(columns, rows, caption) {
  const kind = (column) => ({ class: column.number ? "number" : null });
  const cells = (row) => columns.map((column, i) =>
    h(i ? "td" : "th", { ...kind(column), scope: i ? null : "row" }, column.cell(row)));
  const head = (column) => h("th", { ...kind(column), scope: "col", title: column.title }, column.head);
  return h("table", {},
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, columns.map(head))),
    h("tbody", {}, rows.map((row) => h("tr", {}, cells(row)))));
}

/** A box that scrolls, and can be reached by keyboard. */
export function scrolling(label, content) {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, content);
}

/** Shapes that stand for words: a disc, a triangle, a square on its corner, a ring. */
export function shape(word) {
  const paths = {
    well: "M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14z",
    look: "M8 1l7.5 13.5h-15z",
    broken: "M8 0l8 8l-8 8l-8-8z",
    wait: "M8 1a7 7 0 1 0 0 14a7 7 0 1 0 0-14zm0 3a4 4 0 1 1 0 8a4 4 0 1 1 0-8z",
  };
  return svg("svg", { class: "shape", viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("path", { d: paths[word], "fill-rule": "evenodd" }));
}

/** A bar from 0 to 1. */
export function bar(share, k = 1) {
  return svg("svg", { class: `share k${k}`, height: 10, "aria-hidden": "true" },
    svg("rect", { class: "track", width: "100%", height: 10, rx: 2 }),
    svg("rect", { class: "bars", width: `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`, height: 10, rx: 2 }));
}

/** A text that can be copied by a button. */
export function copyable(text) {
  const button = h("button", { type: "button", click: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } }, "Copy");
  const box = { tabindex: "0", role: "group", "aria-label": "Command to copy" };
  return h("div", { class: "copy" }, h("pre", box, h("code", {}, text)), button);
}
