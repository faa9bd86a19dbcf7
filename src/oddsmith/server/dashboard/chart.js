// A figure over time: lines, dots, stacked areas, bands and bars; a reading line by pointer and by arrow keys; the same
// numbers as a table. It is drawn anew on new data and on a new width, and keeps its focus and its reading.

import { h, scrolling, svg, table } from "./dom.js";
import { brief, moment, num, stretch, time } from "./words.js";
import { decades, onAxis, scale, ticks, timeTicks } from "./scales.js";

const KEYS = {
  ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity,
};
const WIDE = 520; // pixels from which names stand beside lines

export class Chart {
  /** `title` is what is drawn; `pick(t)` is called for a time that was chosen by click or Enter. */
  constructor(title, { pick = null, height = 220 } = {}) {
    this.title = title;
    this.pick = pick;
    this.height = height;
    this.reading = null;
    this.svg = svg("svg", { class: "chart", "aria-hidden": "true", focusable: "false" });
    this.readout = h("p", { class: "readout" });
    this.reader = h("div", {
      class: "reader", role: "slider", tabindex: "0", "aria-orientation": "horizontal",
      keydown: (event) => this.#key(event),
      pointermove: (event) => this.#read(this.#nearest(event)),
      pointerleave: () => this.reader === document.activeElement || this.#read(null),
      click: () => this.#choose(),
    }, this.svg);
    this.legend = h("ul", { class: "legend" });
    this.rows = h("div");
    this.details = h("details", { toggle: () => this.#table() }, h("summary", {}, "as a table"), this.rows);
    this.element = h("figure", {}, this.reader, this.legend, this.readout, this.details);
    new ResizeObserver(() => this.data && this.#paint()).observe(this.element);
  }

  /** Shows `data`: times `t` between `edges`, with `starts` and `ends`;
   * `layers` {name, kind, values, low, high, k, format}; the axis `y` {low, high, log, unit, format};
   * `marks` {t, name}; a `summary` for those who listen. */
  show(data) {
    this.data = data;
    this.reader.setAttribute("aria-label", `${this.title}. ${data.summary}`);
    this.reader.setAttribute("aria-valuemin", "0");
    this.reader.setAttribute("aria-valuemax", String(Math.max(0, data.t.length - 1)));
    this.#paint();
    this.#table();
    return this.element;
  }

  #paint() {
    const width = Math.max(240, this.element.clientWidth || 600);
    const wide = width >= WIDE;
    const { t, layers, y, marks = [], edges } = this.data;
    const named = layers.filter((layer) => layer.label !== false);
    const right = wide ? Math.min(150, 24 + 7.2 * Math.max(...named.map((layer) => brief(layer.name).length), 1)) : 12;
    const box = { left: 46, right: width - right, top: marks.length ? 50 : 20, bottom: this.height - 24 };
    const marksY = y.log ? decades(y.low, y.high) : ticks(y.low, y.high);
    const ends = y.log ? [y.low, y.high] : [marksY[0], marksY.at(-1)];
    this.x = scale(edges, [box.left, box.right]);
    this.y = scale(ends, [box.bottom, box.top], y.log);
    this.box = box;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.svg.setAttribute("height", String(this.height));
    this.line = svg("line", { class: "reading", y1: box.top, y2: box.bottom, visibility: "hidden" });
    this.svg.replaceChildren(
      ...marksY.map((tick) => svg("g", {},
        svg("line", { class: "grid", x1: box.left, x2: box.right, y1: this.y(tick), y2: this.y(tick) }),
        svg("text", { x: box.left - 8, y: this.y(tick) + 4, "text-anchor": "end" }, (y.format || onAxis)(tick)))),
      svg("text", { x: 0, y: 10 }, y.unit),
      ...timeTicks(...edges, Math.max(2, (box.right - box.left) / 68)).map(([at, words]) => svg("g", {},
        svg("line", { class: "axis", x1: this.x(at), x2: this.x(at), y1: box.bottom, y2: box.bottom + 4 }),
        svg("text", { x: this.x(at), y: this.height - 5, "text-anchor": "middle" }, words))),
      svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
      ...layers.map((layer) => this.#layer(layer, t)),
      ...marks.map((mark, i) => this.#mark(mark, i)),
      ...(wide ? this.#names(named) : []),
      this.line);
    this.legend.replaceChildren(...(wide && !this.data.legend ? [] : (this.data.legend || named).map(entry)));
    this.#read(this.reading);
  }

  #layer({ kind, values, low, high, k }, t) {
    const place = (i, value) => `${this.x(t[i]).toFixed(1)} ${this.y(value).toFixed(1)}`;
    if (kind === "dots") {
      return svg("g", { class: `k${k}` }, values.map((value, i) => value === null ? null
        : svg("circle", { class: "dot", r: 3, cx: this.x(t[i]).toFixed(1), cy: this.y(value).toFixed(1) })));
    }
    const bar = (value, i) => (value ? this.#bar(value, i) : null);
    if (kind === "bars") return svg("g", { class: `k${k}` }, high.map(bar));
    const along = (run, ends) => `M${run.map((i) => place(i, ends[i])).join("L")}`;
    const lines = () => runs(values).map((run) => `${along(run, values)}${run[1] ? "" : "h0"}`).join("");
    if (kind === "line") return svg("path", { class: `line k${k}`, d: lines() });
    const outline = (run) => `${along(run, high)}L${along(run.toReversed(), low).slice(1)}Z`;
    const alone = runs(high).every((run) => run.length === 1); // an area needs two points, or an outline
    return svg("path", { class: `${kind}${alone ? " alone" : ""} k${k}`, d: runs(high).map(outline).join("") });
  }

  #bar(value, i) {
    const [from, to, top] = [this.x(this.data.starts[i]), this.x(this.data.ends[i]), this.y(value)];
    const height = Math.max(0, this.box.bottom - top);
    return svg("rect", { class: "bars", x: from + 0.5, width: Math.max(0.5, to - from - 1), y: top, height });
  }

  /** What happened then, on two lines in turn so that neighbours do not overlap. */
  #mark({ t, name }, i) {
    const near = this.x(t) > (this.box.left + this.box.right) / 2;
    const top = this.box.top - (i % 2 ? 6 : 20);
    const words = { x: this.x(t) + (near ? -4 : 4), y: top, "text-anchor": near ? "end" : "start" };
    return svg("g", {},
      svg("line", { class: "mark", x1: this.x(t), x2: this.x(t), y1: top - 8, y2: this.box.bottom }),
      svg("text", words, brief(name, 34)));
  }

  /** Names beside the ends of lines, moved apart where they would overlap. */
  #names(layers) {
    const last = (values) => values.findLast((value) => value !== null) ?? null;
    const sides = ({ low, high, values }) => (low ? [last(low), last(high)] : [last(values), last(values)]);
    const ends = layers.map((layer) => ({ layer, sides: sides(layer) })).filter((end) => end.sides[0] !== null);
    for (const end of ends) end.y = (this.y(end.sides[0]) + this.y(end.sides[1])) / 2;
    ends.sort((a, b) => a.y - b.y);
    const most = Math.floor((this.box.bottom - this.box.top) / 14) + 1;
    const shown = ends.slice(0, most);
    shown.forEach((end, i) => { end.y = Math.max(end.y, i ? shown[i - 1].y + 14 : this.box.top); });
    shown.toReversed().forEach((end, i, all) => { end.y = Math.min(end.y, i ? all[i - 1].y - 14 : this.box.bottom); });
    return shown.map(({ layer, y }) => svg("g", { class: `k${layer.k}` },
      svg("line", { class: "line", x1: this.box.right + 4, x2: this.box.right + 14, y1: y, y2: y }),
      svg("text", { class: "name", x: this.box.right + 18, y: y + 4 }, brief(layer.name))));
  }

  #nearest(event) {
    const { t } = this.data;
    const here = event.clientX - this.svg.getBoundingClientRect().left;
    const far = (i) => Math.abs(this.x(t[i]) - here);
    return t.length ? t.reduce((best, _, i) => (far(i) < far(best) ? i : best), 0) : null;
  }

  #key(event) {
    const last = this.data.t.length - 1;
    const here = this.reading ?? last + 1;
    if (event.key in KEYS) {
      event.preventDefault();
      this.#read(Math.max(0, Math.min(last, here + KEYS[event.key])));
    } else if (event.key === "Enter") this.#choose();
  }

  #choose() {
    if (this.pick && this.reading !== null) this.pick(this.data.ends?.[this.reading] ?? this.data.t[this.reading]);
  }

  #read(i) {
    const { t, layers, hint, reads } = this.data;
    this.reading = i === null || !t.length ? null : Math.min(i, t.length - 1);
    const on = this.reading !== null;
    this.line.setAttribute("visibility", on ? "visible" : "hidden");
    if (!on) {
      this.readout.replaceChildren(hint || "Point at it, or use the arrow keys, to read values.");
      this.reader.setAttribute("aria-valuenow", String(Math.max(0, t.length - 1)));
      this.reader.setAttribute("aria-valuetext", "not reading");
      return;
    }
    for (const end of ["x1", "x2"]) this.line.setAttribute(end, this.x(t[this.reading]));
    const one = (layer) => `${brief(layer.name, 28)} ${layer.format(layer.values[this.reading])}`;
    const said = reads ? reads(this.reading) : layers.filter((layer) => layer.read !== false).map(one);
    const when = this.#when(this.reading);
    this.readout.replaceChildren(h("b", {}, when), ` · ${said.join(" · ")}`);
    this.reader.setAttribute("aria-valuenow", String(this.reading));
    this.reader.setAttribute("aria-valuetext", `${when}: ${said.join(", ")}`);
  }

  /** A time, or from when to when. */
  #when(i) {
    const { t, starts, ends } = this.data;
    return starts ? stretch(starts[i], ends[i]) : moment(t[i], true);
  }

  #table() {
    if (!this.details.open || !this.data) return;
    const { t, starts = t, layers } = this.data;
    const cell = ({ values, format }) => (i) => num(values[i], format(values[i]));
    const column = (layer) => ({ head: brief(layer.name, 28), number: true, cell: cell(layer) });
    const told = layers.filter((layer) => layer.read !== false).map(column);
    const newest = t.map((_, i) => t.length - 1 - i);
    const whole = table([{ head: "time", cell: (i) => time(starts[i], this.#when(i)) }, ...told], newest, this.title);
    this.rows.replaceChildren(scrolling(`${this.title}, as a table`, whole));
  }
}

/** Stretches of places where there is a value. */
function runs(values) {
  const found = [];
  values.forEach((value, i) => {
    if (value === null || value === undefined) return;
    if (i && found.length && found.at(-1).at(-1) === i - 1) found.at(-1).push(i);
    else found.push([i]);
  });
  return found;
}

/** A line, or a patch, and its name. */
function entry({ name, k, kind }) {
  const line = svg("path", { class: `line k${k}`, d: "M0 6H28" });
  const drawn = kind === "line" ? line : svg("rect", { class: "area", width: 28, height: 12 });
  const mark = svg("svg", { class: `k${k}`, viewBox: "0 0 28 12", "aria-hidden": "true" }, drawn);
  return h("li", {}, mark, brief(name, 40));
}
