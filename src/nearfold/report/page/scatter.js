// A scatter of many points in an element: pan, zoom, hover, click, lasso, select, morph.
// It knows nothing of reports. Places are in units where the whole picture is about -1 to 1.
//
//   const scatter = createScatter(host, { label: "a picture" });
//   scatter.setPositions(xy); scatter.setColors(look); scatter.setSelection(chosen);
//   scatter.on("lasso", (rows) => ...); await scatter.morph(otherXy, 900);
//
// Events: hover(row, x, y), click(row, x, y) with row -1 for none; lasso(rows); clear; view; tool;
// wheelhint.
import { Frames } from "./frames.js";
import { Grid } from "./grid.js";
import { gesturesOf } from "./hands.js";
import { gather, shuffled } from "./order.js";
import { WebglPainter } from "./paint_webgl.js";
import { Pointing } from "./pointing.js";
import { CanvasPainter } from "./scatter_canvas.js";
import { View } from "./view.js";

const LASSO_COLOUR = "#d55e00";

// options: painter ("canvas": do not try WebGL; "webgl": even where a program plays the graphics
// card, which is slower than our own canvas), label (for screen readers)
export function createScatter(host, options = {}) {
  return new Scatter(host, options);
}

export class Scatter {
  constructor(host, options) {
    this.host = host;
    this.handlers = {};
    this.n = 0;
    this.positions = new Float32Array(0);
    this.selection = null;
    this.window = new View();
    this.size = 5;
    this.opacity = 0.8;
    this.background = [255, 255, 255];
    this.tool = "pan";
    this.mix = 0; // how far the points are on their way to `target`
    this.target = null;
    this.frames = new Frames((count) => this.paint(count), (now) => this.travel(now));
    const { painter } = options;
    const webgl = painter === "canvas" ? null : WebglPainter.create(painter === "webgl", () => this.redraw());
    this.painter = webgl ?? new CanvasPainter();
    this.painter.canvas.setAttribute("aria-hidden", "true");
    this.overlay = document.createElement("canvas");
    this.overlay.tabIndex = 0;
    this.overlay.setAttribute("role", "application");
    if (options.label) this.overlay.setAttribute("aria-label", options.label);
    host.append(this.painter.canvas, this.overlay);
    this.pointing = new Pointing(this.overlay, gesturesOf(this));
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(host);
    this.resize();
  }

  get kind() {
    return this.painter.kind;
  }

  on(event, handler) {
    (this.handlers[event] ??= []).push(handler);
    return this;
  }

  emit(event, ...values) {
    for (const handler of this.handlers[event] ?? []) handler(...values);
  }

  // --- what is drawn ---

  setPositions(xy) {
    if (xy.length !== 2 * this.n) this.begin(xy.length / 2);
    this.positions = xy;
    this.grid = null;
    this.mix = 0;
    const places = gather(xy, this.order, 2, Float32Array);
    this.painter.set("from", places);
    this.painter.set("to", places);
    this.redraw();
  }

  // Another number of points: everything else that was set is void.
  begin(n) {
    this.n = n;
    this.frames.total = n;
    this.order = shuffled(n);
    this.setColors(new Uint8Array(4 * n).fill(128).map((value, i) => (i % 4 === 3 ? 0 : value)));
    this.setSelection(null);
  }

  // Four bytes per point: red, green, blue, shape (shapes.js).
  setColors(look) {
    this.look = look;
    this.painter.set("look", gather(look, this.order, 4, Uint8Array));
    this.redraw();
  }

  // One byte per point, not zero where it is selected; null: no selection.
  setSelection(chosen) {
    this.selection = chosen;
    const states = new Uint8Array(this.n);
    if (chosen) for (let i = 0; i < this.n; i += 1) states[i] = chosen[this.order[i]] ? 2 : 1;
    this.painter.set("state", states);
    this.redraw();
  }

  setSizes(size, opacity) {
    this.size = size;
    this.opacity = opacity;
    this.redraw();
  }

  setBackground(rgb) {
    this.background = rgb;
    this.redraw();
  }

  setTool(tool) {
    this.tool = tool;
    this.overlay.style.cursor = tool === "lasso" ? "crosshair" : "";
    this.emit("tool", tool);
  }

  // paint(context, scatter) draws on top of the points: rings, lines.
  setMarks(paint) {
    this.marks = paint;
    this.redraw();
  }

  // --- where things are ---

  get view() {
    const { x, y, zoom } = this.window;
    return { x, y, zoom };
  }

  set view({ x, y, zoom }) {
    this.window.set(x, y, zoom);
    this.moved();
  }

  moved() {
    this.frames.stir();
    this.emit("view", this.view);
  }

  get width() {
    return this.window.width;
  }

  get height() {
    return this.window.height;
  }

  screenOf(row) {
    return this.window.toScreen(this.positions[2 * row], this.positions[2 * row + 1]);
  }

  // Points grow a little as one comes nearer.
  get radius() {
    return (this.size / 2) * Math.min(3, Math.max(0.8, this.window.zoom ** 0.3));
  }

  index() {
    this.grid ??= new Grid(this.positions);
    return this.grid;
  }

  // The row under a pixel, or -1.
  pick(px, py) {
    if (this.target) return -1; // on the way somewhere
    return this.index().nearest(...this.window.toPlace(px, py), (this.radius + 4) / this.window.scale);
  }

  // Rows inside a path of pixels.
  lasso(path) {
    return this.index().inside(path.map(([px, py]) => this.window.toPlace(px, py)));
  }

  // --- hands ---

  pan(dx, dy) {
    this.window.pan(dx, dy);
    this.moved();
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    this.window.zoomAt(factor, px, py);
    this.moved();
  }

  reset() {
    this.window.reset();
    this.moved();
  }

  drawLasso(path, done) {
    this.path = done ? null : path;
    if (done) this.emit("lasso", this.lasso(path));
    this.redraw();
  }

  pickMiddle() {
    const row = this.index().nearest(this.window.x, this.window.y, 10);
    this.emit("click", row, ...(row < 0 ? [0, 0] : this.screenOf(row)));
  }

  // --- movement ---

  // Move all points to other places in `ms`; resolves when they are there.
  morph(to, ms) {
    if (this.target) this.land();
    if (!(ms > 0) || to.length !== this.positions.length) {
      this.setPositions(to);
      return Promise.resolve();
    }
    this.target = to;
    this.painter.set("to", gather(to, this.order, 2, Float32Array));
    this.journey = { start: null, ms };
    this.redraw();
    return new Promise((resolve) => {
      this.landed = resolve;
    });
  }

  // One step of the way; false when nothing is on its way.
  travel(now) {
    if (!this.target) return false;
    this.journey.start ??= now;
    const time = Math.min(1, (now - this.journey.start) / this.journey.ms);
    this.mix = time * time * (3 - 2 * time);
    if (time === 1) this.land();
    return time < 1;
  }

  land() {
    const [to, landed] = [this.target, this.landed];
    this.target = null;
    this.setPositions(to);
    landed();
  }

  // --- drawing ---

  redraw() {
    this.frames.redraw();
  }

  resize() {
    this.window.width = Math.max(1, this.host.clientWidth);
    this.window.height = Math.max(1, this.host.clientHeight);
    this.density = Math.min(2, window.devicePixelRatio || 1);
    const [width, height] = [this.width, this.height].map((length) => Math.round(length * this.density));
    this.painter.resize(width, height);
    this.overlay.width = width;
    this.overlay.height = height;
    this.paint(this.n); // at once: a canvas that has been resized is empty
  }

  paint(count, density = this.density) {
    this.drawn = count;
    this.painter.draw({
      mix: this.mix,
      x: this.window.x,
      y: this.window.y,
      scale: this.window.scale * density,
      radius: this.radius * density,
      opacity: this.opacity,
      count,
      background: this.background,
      selecting: Boolean(this.selection),
    });
    const context = this.overlay.getContext("2d");
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.paintOver(context);
  }

  paintOver(context) {
    if (!this.target) this.marks?.(context, this);
    if (!this.path?.length) return;
    context.beginPath();
    for (const [x, y] of this.path) context.lineTo(x, y);
    context.closePath();
    context.fillStyle = `${LASSO_COLOUR}22`;
    context.fill();
    context.lineWidth = 1.5;
    context.setLineDash([5, 4]);
    context.strokeStyle = LASSO_COLOUR;
    context.stroke();
    context.setLineDash([]);
  }

  // The picture as it is seen, at twice the density of the screen.
  snapshot(factor = 2) {
    const density = this.density * factor;
    const picture = document.createElement("canvas");
    picture.width = Math.round(this.width * density);
    picture.height = Math.round(this.height * density);
    const context = picture.getContext("2d");
    this.painter.resize(picture.width, picture.height);
    this.paint(this.n, density);
    context.drawImage(this.painter.canvas, 0, 0); // in the same task: a card may forget it afterwards
    context.setTransform(density, 0, 0, density, 0, 0);
    this.paintOver(context);
    this.resize();
    return picture;
  }

  destroy() {
    this.watcher.disconnect();
    this.frames.stop();
    this.painter.destroy();
    this.painter.canvas.remove();
    this.overlay.remove();
  }
}
