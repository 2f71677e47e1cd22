// Two pictures side by side: one selection, one colouring, one clicked point; a morph between them.
import { isDark } from "./colours.js";
import { keep, selectionCsv } from "./export.js";
import { Legend, NeighborPanel, SelectionPanel, Tooltip } from "./panels.js";
import { Picture } from "./picture.js";
import { make, onLanguage, say, spaceWords, tell, worded } from "./text.js";

const MORPH = 1100; // ms

export class Bench {
  constructor(points, payload, painter) {
    this.points = points;
    this.title = payload.title ?? "nearfold";
    this.selection = null;
    this.clicked = -1;
    this.morphed = false;
    this.choices = points.choices();
    this.pictures = ["left", "right"].map((side) => new Picture(side, this, painter));
    [this.left, this.right] = this.pictures;
    this.legend = new Legend(this);
    this.selected = new SelectionPanel(this);
    this.neighbors = new NeighborPanel(this);
    this.tooltip = new Tooltip(this);
    const usual = payload.points?.default_color;
    this.colour = this.choices.find((one) => one.column.name === usual) ?? this.choices[0] ?? null;
    this.element = make("div", { class: "bench" }, this.buildControls(),
      make("div", { class: "pair" }, this.left.element, this.right.element),
      make("aside", { class: "side" }, this.legend.element, this.selected.element, this.neighbors.element));
    onLanguage(() => this.say());
  }

  buildControls() {
    this.colourChoice = make("select", { id: "colour", onchange: () => this.colourBy(this.colourChoice.value) });
    this.fillColours();
    const [size, opacity] = usualLook(this.points.n);
    const slider = (id, low, high, step, value) =>
      make("input", { type: "range", id, min: low, max: high, step, value, oninput: () => this.resize() });
    this.sizeSlider = slider("size", 1.5, 14, 0.5, size);
    this.opacitySlider = slider("opacity", 0.1, 1, 0.05, opacity);
    this.morphButton = worded("button", "morph", {}, { type: "button", onclick: () => this.morph() });
    const named = (key, control) => make("label", {}, worded("span", key), control);
    return make("div", { class: "controls" }, named("colour_by", this.colourChoice),
      named("point_size", this.sizeSlider), named("opacity", this.opacitySlider), this.morphButton);
  }

  fillColours() {
    this.colourChoice.replaceChildren();
    const groups = new Map([[null, this.colourChoice]]);
    for (const { key, column, group } of this.choices) {
      if (!groups.has(group)) {
        groups.set(group, make("optgroup", { label: say(spaceWords(group.name)) }));
        this.colourChoice.append(groups.get(group));
      }
      groups.get(group).append(make("option", { value: key }, column.title));
    }
    if (this.colour) this.colourChoice.value = this.colour.key;
  }

  // Once on the page.
  async start(leftSpace, rightSpace) {
    this.pictures.forEach((picture) => picture.start());
    this.follow();
    this.resize();
    await this.choose(this.left, leftSpace, 0);
    await this.choose(this.right, rightSpace, 0);
    if (this.colour) await this.colourBy(this.colour.key);
    this.select(null);
  }

  // Colours of the paper and the points, after day became night.
  follow() {
    for (const picture of this.pictures) picture.follow();
    this.recolour();
  }

  say() {
    this.fillColours();
    this.legend.update();
    this.selected.update();
    this.neighbors.update();
    this.tellMorph();
  }

  // --- spaces ---

  // at: which of the space's views
  async choose(picture, index, ms = this.pace(), at = 0) {
    picture.chosen = this.points.spaces[index];
    picture.chosenAt = at;
    const before = picture.scatter.n;
    if (picture === this.left) this.morphed = false;
    await picture.show(picture.chosen, before ? ms : 0, at);
    if (this.morphed) await this.left.show(this.right.chosen, ms, at); // it lies over the right one
    if (!before) this.recolour(); // the first points: now there is something to colour
    this.tellMorph();
    this.showNeighbors();
  }

  // The left picture's points travel to where they are in the right one, and back.
  async morph() {
    this.morphed = !this.morphed;
    this.tellMorph();
    const { chosen, chosenAt } = this.morphed ? this.right : this.left;
    await this.left.show(chosen, this.pace(), chosenAt);
    this.showNeighbors();
  }

  tellMorph() {
    const [left, right] = this.pictures.map(({ chosen }) => (chosen ? spaceWords(chosen.name) : ""));
    tell(this.morphButton, this.morphed ? "morph_back" : "morph", { left, right });
    this.morphButton.setAttribute("aria-pressed", String(this.morphed));
  }

  pace() {
    return window.matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : MORPH;
  }

  // --- looks ---

  async colourBy(key) {
    this.colour = this.choices.find((one) => one.key === key);
    this.colourChoice.value = key;
    await this.colour.column.load();
    this.legend.press(new Set()); // what was pressed are classes of another column
    this.recolour();
    this.selected.update();
    this.neighbors.update();
  }

  recolour() {
    const column = this.colour?.column;
    const look = column?.values ? column.look(isDark()) : new Uint8Array(4 * this.points.n).fill(0);
    for (const picture of this.pictures) if (picture.scatter?.n) picture.scatter.setColors(look);
    this.legend.update();
  }

  resize() {
    const [size, opacity] = [Number(this.sizeSlider.value), Number(this.opacitySlider.value)];
    for (const picture of this.pictures) picture.scatter.setSizes(size, opacity);
  }

  // --- selection ---

  selectRows(rows) {
    if (!rows.length) return this.select(null);
    const chosen = new Uint8Array(this.points.n);
    for (const row of rows) chosen[row] = 1;
    return this.select(chosen);
  }

  selectCategories(codes) {
    const { values, counts } = this.colour.column;
    const isChosen = (code) => codes.has(code < counts.length ? code : -1);
    this.select(codes.size ? Uint8Array.from(values, (code) => Number(isChosen(code))) : null, codes);
  }

  // codes: the classes of the legend that made this selection, if any did
  select(chosen, codes = new Set()) {
    this.selection = chosen;
    for (const picture of this.pictures) picture.scatter.setSelection(chosen);
    this.legend.press(codes);
    this.selected.update();
  }

  clear() {
    this.select(null);
    this.click(-1);
  }

  saveCsv() {
    const shown = new Map(this.pictures.map(({ chosen, chosenAt }) => {
      const view = chosen.views[chosenAt];
      return [view, chosenAt ? `${chosen.name} (${say(view.name)})` : chosen.name];
    }));
    const text = selectionCsv(this.points, this.selection, shown);
    keep(new Blob([text], { type: "text/csv" }), `${this.title} - ${this.selected.size}.csv`);
  }

  // --- one point ---

  hover(picture, row, x, y) {
    for (const one of this.pictures) one.mark({ hover: row });
    this.tooltip.show(picture, row, x, y);
  }

  click(row) {
    this.clicked = row;
    this.showNeighbors();
  }

  showNeighbors() {
    const original = this.clicked < 0 ? [] : this.points.originalNeighbors(this.clicked) ?? [];
    for (const picture of this.pictures) {
      if (!picture.space?.places) continue;
      const space = this.clicked < 0 ? [] : picture.space.neighborsOf(this.clicked, this.points.k);
      picture.mark({ centre: this.clicked, original, space });
    }
    this.neighbors.update();
  }
}

// Fewer points may be larger and denser.
function usualLook(n) {
  if (n <= 500) return [8, 0.85];
  if (n <= 3000) return [6, 0.8];
  if (n <= 20000) return [4, 0.7];
  return [2.5, 0.6];
}
