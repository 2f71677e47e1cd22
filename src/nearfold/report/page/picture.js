// One picture: a choice of space, tools, the scatter, what is known of the space.
import { isDark, parseHex } from "./colours.js";
import { keep, pictureSvg } from "./export.js";
import { marksSvg, paintMarks } from "./marks.js";
import { createScatter } from "./scatter.js";
import { label, make, say, showNumber, tell, worded } from "./text.js";

// The numbers of a space that are told under its picture, and their words.
const QUALITIES = {
  trustworthiness: "trustworthiness",
  continuity: "continuity",
  overlap: "overlap",
  shepard: "distances",
  stress: "stress",
};

export class Picture {
  // side: "left" or "right"; bench: the pair of pictures this one belongs to
  constructor(side, bench, painter) {
    this.side = side;
    this.bench = bench;
    this.marks = { centre: -1, original: [], space: [], hover: -1 };
    this.host = make("div", { class: "host" });
    this.hint = worded("p", "wheel_hint", {}, { class: "hint", hidden: true });
    this.caption = make("figcaption");
    this.element = make("figure", { class: "picture" }, this.buildBar(), this.host, this.caption);
    this.painter = painter;
  }

  // After the element is on the page: a scatter needs to know its size.
  start() {
    this.scatter = createScatter(this.host, { painter: this.painter });
    label(this.scatter.overlay, `picture_${this.side}`);
    this.scatter.overlay.removeAttribute("title");
    this.host.append(this.hint);
    this.scatter.setMarks((context, scatter) => paintMarks(context, scatter, this.marks, isDark()));
    this.scatter.on("hover", (row, x, y) => this.bench.hover(this, row, x, y));
    this.scatter.on("click", (row) => this.bench.click(row));
    this.scatter.on("lasso", (rows) => this.bench.selectRows(rows));
    this.scatter.on("clear", () => this.bench.clear());
    this.scatter.on("tool", (tool) => this.showTool(tool));
    this.scatter.on("wheelhint", () => this.showHint());
    this.showTool("pan");
  }

  buildBar() {
    this.choice = make("select", { onchange: () => this.bench.choose(this, Number(this.choice.value)) });
    this.bench.points.spaces.forEach((space, i) => {
      const size = space.nDimensions ? ` (${space.nDimensions})` : "";
      this.choice.append(make("option", { value: i }, space.name + size));
    });
    label(this.choice, `choose_${this.side}`);
    const button = (key, sign, onclick) =>
      label(make("button", { type: "button", class: "tool", onclick }, sign), key);
    this.panButton = button("tool_pan", "✥", () => this.scatter.setTool("pan"));
    this.lassoButton = button("tool_lasso", "◌", () => this.scatter.setTool("lasso"));
    return make("div", { class: "bar" }, this.choice,
      make("span", { class: "tools", role: "group" }, this.panButton, this.lassoButton),
      make("span", { class: "tools", role: "group" },
        button("zoom_in", "+", () => this.scatter.zoom(1.5)),
        button("zoom_out", "−", () => this.scatter.zoom(1 / 1.5)),
        button("zoom_reset", "⤢", () => this.scatter.reset())),
      make("span", { class: "tools", role: "group" },
        button("save_png", "PNG", () => this.savePng()),
        button("save_svg", "SVG", () => this.saveSvg())));
  }

  showTool(tool) {
    this.panButton.setAttribute("aria-pressed", String(tool === "pan"));
    this.lassoButton.setAttribute("aria-pressed", String(tool === "lasso"));
  }

  showHint() {
    this.hint.hidden = false;
    clearTimeout(this.hiding);
    this.hiding = setTimeout(() => (this.hint.hidden = true), 1600);
  }

  // The paper of the page, read from its style, so that there is one list of colours.
  follow() {
    const paper = getComputedStyle(document.documentElement).getPropertyValue("--picture").trim();
    this.scatter.setBackground(parseHex(paper));
  }

  async show(space, ms) {
    this.space = space;
    await space.load();
    this.describe();
    if (ms > 0) await this.scatter.morph(space.places, ms);
    else this.scatter.setPositions(space.places);
  }

  describe() {
    const known = Object.keys(QUALITIES).filter((key) => Number.isFinite(this.space.quality[key]));
    const facts = known.map((key) => {
      const name = tell(worded("span", QUALITIES[key]), `${QUALITIES[key]}_help`, {}, "title");
      return make("span", { class: "fact" }, name, make("b", {}, showNumber(this.space.quality[key], 3)));
    });
    const shown = this.space.shown ? worded("span", this.space.shown) : null;
    this.caption.replaceChildren(make("p", {}, shown), make("p", { class: "facts" }, facts));
  }

  mark(marks) {
    Object.assign(this.marks, marks);
    this.scatter.redraw();
  }

  fileName(ending) {
    return `${this.bench.title} - ${this.space.name}.${ending}`;
  }

  async savePng() {
    keep(await this.scatter.toPNG(), this.fileName("png"));
  }

  async saveSvg() {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    const legend = this.bench.legendItems();
    const note = say(this.space.shown) || say("axes_1_2");
    const marks = marksSvg(this.scatter, this.marks, isDark());
    keep(await pictureSvg(this.scatter, { title: this.space.name, note, legend, ink, marks }), this.fileName("svg"));
  }
}
