// A small line chart of our own: SVG, a legend with dashes, values under the pointer.

import { el, say, svg } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 90;
const PADDING = 3;
const HEADROOM = 1.15; // so that a line does not run through the number at the top
const DASHES = ["none", "5 3", "1.5 3"];

/**
 * A chart with a title. `show` draws series, at most three: [{name, values}], null where nothing
 * is known, over `xs`, ascending.
 */
export class Chart {
  #shown = null;

  constructor({ title, write, writeX, most = null, about = "" }) {
    this.write = write;
    this.writeX = writeX;
    this.most = most;
    this.title = title;
    this.legend = el("ul", { class: "chart-legend" });
    this.plot = svg("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${title}: collecting`,
    });
    this.top = el("span");
    this.left = el("span");
    this.right = el("span");
    this.element = el(
      "figure",
      { class: "chart" },
      el("figcaption", { title: about }, title),
      this.legend,
      el("div", { class: "plot" }, this.top, this.plot),
      el("div", { class: "axis" }, this.left, this.right),
    );
    this.plot.addEventListener("pointermove", (event) => this.#point(event));
    this.plot.addEventListener("pointerleave", () => this.#showLast());
  }

  show(xs, series) {
    const known = series.flatMap(({ values }) => values.filter((value) => value != null));
    const top = this.most ?? niceTop(Math.max(0, ...known));
    this.#shown = { xs, series };
    const across = (x) => place(x, xs[0], xs.at(-1), WIDTH);
    const down = (value) => HEIGHT - place(Math.min(value, top), 0, top, HEIGHT - PADDING);
    const lines = series.map(({ values }, index) =>
      svg("path", {
        d: path(xs.map(across), values.map((value) => (value == null ? null : down(value)))),
        class: `line line-${index}`,
        "stroke-dasharray": DASHES[index],
        "vector-effect": "non-scaling-stroke",
      }),
    );
    this.cursor = svg("path", { class: "cursor", "vector-effect": "non-scaling-stroke" });
    this.plot.replaceChildren(...lines, this.cursor);
    this.across = across;
    say(this.top, known.length ? this.write(top) : "");
    say(this.left, xs.length ? this.writeX(xs[0]) : "");
    say(this.right, xs.length ? this.writeX(xs.at(-1)) : "collecting");
    this.plot.setAttribute("aria-label", `${this.title}. ${series.map((one) => this.#summary(one)).join(" ")}`);
    this.#showLast();
  }

  #summary({ name, values }) {
    const known = values.filter((value) => value != null);
    if (!known.length) return `${name}: nothing yet.`;
    const [last, least, most] = [known.at(-1), Math.min(...known), Math.max(...known)].map(this.write);
    return `${name}: ${last} last, from ${least} to ${most}.`;
  }

  #showLast() {
    if (!this.#shown) return;
    this.cursor.removeAttribute("d");
    this.#showAt(this.#shown.xs.length - 1);
  }

  #point(event) {
    if (!this.#shown?.xs.length) return;
    const box = this.plot.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * WIDTH;
    const places = this.#shown.xs.map(this.across);
    const nearest = places.reduce((best, x, index) => (Math.abs(x - at) < Math.abs(places[best] - at) ? index : best), 0);
    this.cursor.setAttribute("d", `M${places[nearest]} 0V${HEIGHT}`);
    this.#showAt(nearest);
  }

  #showAt(index) {
    this.legend.replaceChildren(
      ...this.#shown.series.map(({ name, values }, line) =>
        el("li", {}, sample(line), `${name} `, el("b", {}, this.write(values[index] ?? null))),
      ),
    );
  }
}

function sample(line) {
  const stroke = svg("path", { d: "M0 4H16", class: `line line-${line}`, "stroke-dasharray": DASHES[line] });
  return svg("svg", { viewBox: "0 0 16 8", class: "sample", "aria-hidden": "true" }, stroke);
}

function place(value, from, to, length) {
  return to > from ? ((value - from) / (to - from)) * length : 0;
}

// A value alone between nulls is a dot.
function path(xs, ys) {
  let isDown = false;
  return xs
    .map((x, index) => {
      const y = ys[index];
      const part = y == null ? "" : isDown ? `L${x} ${y}` : `M${x} ${y}h0.01`;
      isDown = y != null;
      return part;
    })
    .join("");
}

function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10, 20].map((step) => step * power).find((step) => step >= value * HEADROOM);
}
