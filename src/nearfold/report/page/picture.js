// One picture: a choice of space, tools, the scatter, what is known of the space.
import { isDark, parseHex } from "./colours.js";
import { keep, picturePng, pictureSvg } from "./export.js";
import { marksSvg, paintMarks } from "./marks.js";
import { createScatter } from "./scatter.js";
import { given, label, make, say, showNumber, spaceWords, tell, worded } from "./text.js";

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
    this.choice.append(...this.bench.points.spaces.map((space, i) => space.tellTitle(make("option", { value: i }))));
    label(this.choice, `choose_${this.side}`);
    const chooseView = () =>
      this.bench.choose(this, Number(this.choice.value), this.bench.pace(), Number(this.viewChoice.value));
    this.viewChoice = label(make("select", { class: "view", hidden: true, onchange: chooseView }), "choose_view");
    const button = (key, sign, onclick) =>
      label(make("button", { type: "button", class: "tool", onclick }, sign), key);
    this.panButton = button("tool_pan", "✥", () => this.scatter.setTool("pan"));
    this.lassoButton = button("tool_lasso", "◌", () => this.scatter.setTool("lasso"));
    const group = (...buttons) => make("span", { class: "tools", role: "group" }, buttons);
    return make("div", { class: "bar" }, this.choice, this.viewChoice, make("span", { class: "toolbar" },
      group(this.panButton, this.lassoButton),
      group(button("zoom_in", "+", () => this.scatter.zoom(1.5)),
        button("zoom_out", "−", () => this.scatter.zoom(1 / 1.5)),
        button("zoom_reset", "⤢", () => this.scatter.reset())),
      group(button("save_png", "PNG", () => this.savePng()), button("save_svg", "SVG", () => this.saveSvg()))));
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

  async show(space, ms, at = 0) {
    this.space = space;
    this.view = await space.load(at);
    this.choice.value = String(this.bench.points.spaces.indexOf(space));
    this.viewChoice.replaceChildren(...space.views.map(({ name }, i) => given("option", name, { value: i })));
    this.viewChoice.value = String(at);
    this.viewChoice.hidden = space.views.length < 2;
    this.describe();
    if (ms > 0) await this.scatter.morph(this.view.places, ms);
    else this.scatter.setPositions(this.view.places);
  }

  // What is drawn, and how well it agrees with the data: the picture, and the space that it is of.
  describe() {
    const { nDimensions: d, quality } = this.space;
    const columns = [];
    if (this.view.quality) columns.push([worded("th", "quality_picture"), this.view.quality]);
    if (d > 2) columns.push([worded("th", "quality_space", { d }), quality]);
    const isKnown = (key) => columns.some(([, values]) => Number.isFinite(values[key]));
    const lines = Object.keys(QUALITIES).filter(isKnown).map((key) => {
      const name = tell(worded("th", QUALITIES[key], {}, { scope: "row" }), `${QUALITIES[key]}_help`, {}, "title");
      return make("tr", {}, name, columns.map(([, values]) => make("td", {}, showNumber(values[key], 3))));
    });
    const head = make("tr", {}, worded("th", "quality"), columns.map(([name]) => name));
    const named = this.space.views.length > 1; // by the selector
    this.caption.replaceChildren(named ? "" : given("p", this.view.name),
      lines.length ? make("table", { class: "quality" }, make("thead", {}, head), make("tbody", {}, lines)) : "");
  }

  mark(marks) {
    Object.assign(this.marks, marks);
    this.scatter.redraw();
  }

  fileName(ending) {
    return `${this.bench.title} - ${this.space.name}.${ending}`;
  }

  // What is told around the points in a file.
  about() {
    return {
      title: `${this.bench.title} · ${say(spaceWords(this.space.name))}`,
      note: say(this.view.name),
      legend: this.bench.legend.items(),
      ink: getComputedStyle(document.documentElement).getPropertyValue("--ink").trim(),
    };
  }

  async savePng() {
    keep(await picturePng(this.scatter, this.about()), this.fileName("png"));
  }

  async saveSvg() {
    const marks = marksSvg(this.scatter, this.marks, isDark());
    keep(pictureSvg(this.scatter, this.about(), marks), this.fileName("svg"));
  }
}
