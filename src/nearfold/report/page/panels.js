// Beside the pictures: the legend, the selection, the neighbours of a clicked point, the tooltip.
import { categoryColour, categoryShape, isDark, rampColour, rgb } from "./colours.js";
import { rangeOf } from "./points.js";
import { shapePath } from "./shapes.js";
import { draw, label, make, say, showNumber, spaceWords, worded } from "./text.js";

const MOST_LEGEND = 300;
const MOST_IN_FILE = 60; // classes in the legend of a saved picture
const MOST_SHARES = 8;
const MOST_TOLD = 14; // columns in a tooltip

export function swatch(index, colour = null) {
  return draw("svg", { viewBox: "-7 -7 14 14", width: 14, height: 14, class: "mark", "aria-hidden": "true" },
    draw("path", { d: shapePath(categoryShape(index), 0, 0, 5), fill: colour ?? categoryColour(index, isDark()) }));
}

function markOf(column, row) {
  if (!column?.values) return null;
  const value = column.values[row];
  if (column.kind === "category") return swatch(value < column.counts.length ? value : -1);
  return swatch(-1, rgb(rampColour((value - column.low) / (column.high - column.low || 1), isDark())));
}

function rampStops() {
  return Array.from({ length: 9 }, (_, i) => rgb(rampColour(i / 8, isDark())));
}

function endText(end) {
  return showNumber(Number(end.toPrecision(4)));
}

export class Legend {
  constructor(bench) {
    this.bench = bench;
    this.pressed = new Set();
    this.body = make("div");
    this.element = make("section", { class: "panel legend" }, worded("h3", "legend"), this.body);
  }

  update() {
    const column = this.bench.colour?.column;
    this.element.hidden = !column;
    if (!column?.values) return;
    this.body.replaceChildren(make("p", { class: "column" }, column.title),
      column.kind === "number" ? this.ramp(column) : this.list(column));
    this.press(this.pressed);
  }

  ramp(column) {
    const bar = make("div", { class: "ramp" });
    bar.style.background = `linear-gradient(to right, ${rampStops().join(", ")})`;
    const ends = [column.low, column.high].map((end) => make("span", {}, endText(end)));
    return make("div", {}, bar, make("div", { class: "ends" }, ends));
  }

  list(column) {
    const classes = column.counts.length;
    const codes = Array.from({ length: Math.min(classes, MOST_LEGEND) }, (_, code) => code);
    if (column.missing) codes.push(-1);
    const items = codes.map((code) => {
      const press = { type: "button", "data-code": code, onclick: () => this.toggle(code) };
      const button = make("button", press, swatch(code),
        make("span", { class: "name" }, column.categoryOf(code)),
        make("span", { class: "count" }, showNumber(code < 0 ? column.missing : column.counts[code])));
      return make("li", {}, label(button, "highlight", { name: column.categoryOf(code) }));
    });
    const rest = classes - MOST_LEGEND;
    if (rest > 0) items.push(make("li", { class: "quiet" }, say("and_more", { n: rest })));
    return make("ul", {}, items);
  }

  // For a file: the name of the column, its first classes or its scale.
  items() {
    const column = this.bench.colour?.column;
    if (!column) return null;
    const { title, low, high } = column;
    if (column.kind === "number") {
      return { title, classes: [], scale: { low: endText(low), high: endText(high), stops: rampStops() } };
    }
    const shown = column.categories.slice(0, MOST_IN_FILE);
    const classes = shown.map((name, i) => ({ name, colour: categoryColour(i, isDark()), shape: categoryShape(i) }));
    if (column.missing) classes.push({ name: say("no_value"), colour: categoryColour(-1, isDark()), shape: 0 });
    const more = column.categories.length - shown.length;
    return { title, classes, scale: null, more: more > 0 ? say("and_more", { n: more }) : null };
  }

  toggle(code) {
    const codes = new Set(this.pressed);
    if (!codes.delete(code)) codes.add(code);
    this.bench.selectCategories(codes);
  }

  press(codes) {
    this.pressed = codes;
    for (const button of this.body.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(codes.has(Number(button.dataset.code))));
    }
  }
}

export class SelectionPanel {
  constructor(bench) {
    this.bench = bench;
    this.size = 0;
    this.body = make("div", { "aria-live": "polite" });
    this.element = make("section", { class: "panel selection" }, worded("h3", "selection"), this.body);
  }

  update() {
    const { selection, points, colour } = this.bench;
    this.size = selection ? selection.reduce((sum, one) => sum + (one ? 1 : 0), 0) : 0;
    if (!this.size) {
      this.body.replaceChildren(make("p", { class: "quiet" }, say("nothing_selected")));
      return;
    }
    const save = { type: "button", class: "csv", onclick: () => this.bench.saveCsv() };
    const csv = worded("button", "save_csv", {}, save);
    const clear = worded("button", "clear", {}, { type: "button", onclick: () => this.bench.select(null) });
    this.body.replaceChildren(make("p", {}, make("b", {}, say("selected_count", { n: this.size, of: points.n }))),
      colour?.column.values ? this.summary(colour.column, selection) : "",
      make("div", { class: "row" }, csv, clear), make("p", { class: "quiet small" }, say("csv_rounding")));
  }

  summary(column, selection) {
    return column.kind === "category" ? this.shares(column, selection) : this.range(column, selection);
  }

  shares(column, selection) {
    const counts = new Map();
    selection.forEach((one, row) => {
      if (!one) return;
      const code = column.values[row] < column.counts.length ? column.values[row] : -1;
      counts.set(code, (counts.get(code) ?? 0) + 1);
    });
    const sorted = [...counts].sort((a, b) => b[1] - a[1]);
    const lines = sorted.slice(0, MOST_SHARES).map(([code, count]) => {
      const bar = make("i", { class: "bar" });
      bar.style.width = `${(100 * count) / this.size}%`;
      return make("tr", {}, make("th", { scope: "row" }, swatch(code), column.categoryOf(code)),
        make("td", { class: "track" }, bar), make("td", { class: "number" }, showNumber(count)));
    });
    const rest = sorted.length - MOST_SHARES;
    const more = rest > 0 ? make("p", { class: "quiet" }, say("and_more", { n: rest })) : null;
    return make("div", {}, make("table", { class: "bars" }, lines), more);
  }

  range(column, selection) {
    const chosen = [...column.values].filter((value, row) => selection[row] && !Number.isNaN(value));
    if (!chosen.length) return make("p", {}, say("no_value"));
    const mean = chosen.reduce((sum, value) => sum + value / chosen.length, 0);
    const [low, high] = rangeOf(chosen);
    const show = (value) => showNumber(Number(value.toPrecision(4)));
    const values = { name: column.title, mean: show(mean), low: show(low), high: show(high) };
    return make("p", {}, say("selected_range", values));
  }
}

export class NeighborPanel {
  constructor(bench) {
    this.bench = bench;
    this.body = make("div", { "aria-live": "polite" });
    this.element = make("section", { class: "panel neighbors" }, worded("h3", "neighbors"), this.body);
  }

  update() {
    const { clicked, points, left, right, colour } = this.bench;
    if (clicked < 0 || !left.space?.places) {
      this.body.replaceChildren(make("p", { class: "quiet" }, say("nothing_clicked")));
      return;
    }
    const original = points.originalNeighbors(clicked);
    const parts = [make("p", {}, points.thumbnail(clicked, 56), markOf(colour?.column, clicked),
      make("b", {}, ` ${points.idOf(clicked)}`))];
    if (original) parts.push(this.list(say("in_original"), original, null, "original"));
    for (const space of new Set([left.space, right.space])) {
      if (!space?.places) continue;
      const rows = space.neighborsOf(clicked, points.k);
      const title = make("span");
      if (space.knowsNeighbors) space.tellTitle(title);
      else title.append(say("in_picture", { name: spaceWords(space.name) }));
      parts.push(this.list(title, rows, original, "space"));
    }
    this.body.replaceChildren(...parts);
  }

  list(title, rows, original, kind) {
    const { points, colour } = this.bench;
    const common = original ? rows.filter((row) => original.includes(row)).length : null;
    const items = rows.map((row) => {
      const value = colour?.column.values ? ` · ${colour.column.textOf(row)}` : "";
      const tick = () => label(make("span", { class: "kept", role: "img" }, "✓"), "kept");
      const press = { type: "button", class: "link", "data-row": row, onclick: () => this.bench.click(row) };
      return make("li", {}, points.thumbnail(row, 24), markOf(colour?.column, row), make("button", press, points.idOf(row)),
        make("span", { class: "quiet" }, value), original?.includes(row) ? tick() : null);
    });
    const count = common === null ? "" : ` ${say("overlap_count", { n: common, of: original.length })}`;
    const sign = make("i", { class: `sign ${kind}` });
    return make("div", { class: `near ${kind}` },
      make("h4", {}, sign, title, make("span", { class: "quiet" }, count)), make("ol", {}, items));
  }
}

export class Tooltip {
  constructor(bench) {
    this.bench = bench;
    this.element = make("div", { class: "tooltip", role: "tooltip", hidden: true });
    document.body.append(this.element);
  }

  show(picture, row, x, y) {
    this.element.hidden = row < 0;
    if (row < 0) return;
    const { points, colour } = this.bench;
    const all = new Set([colour?.column, ...points.columns, ...(picture.space?.perRow ?? [])]);
    const columns = [...all].filter((column) => column?.values);
    const lines = columns.slice(0, MOST_TOLD).map((column) =>
      make("tr", {}, make("th", {}, column.title), make("td", {}, column.textOf(row))));
    const rest = columns.length - MOST_TOLD;
    if (rest > 0) lines.push(make("tr", {}, make("td", { colspan: 2 }, say("and_more", { n: rest }))));
    const name = make("b", {}, markOf(colour?.column, row), points.idOf(row));
    this.element.replaceChildren(name, points.thumbnail(row, 72) ?? "", make("table", {}, lines));
    const box = picture.host.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const right = box.left + x + 16 + width < window.innerWidth;
    const below = box.top + y + 14 + height < window.innerHeight;
    this.element.style.left = `${Math.max(4, box.left + x + (right ? 16 : -16 - width))}px`;
    this.element.style.top = `${Math.max(4, box.top + y + (below ? 14 : -14 - height))}px`;
  }
}
