// Points without WebGL: stamps blended into an image by hand, which is far faster than asking a
// canvas for 100,000 circles. Same interface and the same look as paint_webgl.js.
import { SHAPES, shapeDistance } from "./shapes.js";

export class CanvasPainter {
  constructor() {
    this.kind = "canvas";
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.arrays = { from: null, to: null, look: null, state: null };
    this.stamps = { radius: 0 };
  }

  set(name, array) {
    this.arrays[name] = array;
  }

  resize(width, height) {
    this.canvas.width = width;
    this.canvas.height = height;
    this.image = this.context.createImageData(width, height);
    this.words = new Uint32Array(this.image.data.buffer);
  }

  draw(scene) {
    const [red, green, blue] = scene.background;
    this.words.fill((255 << 24) | (blue << 16) | (green << 8) | red);
    if (this.stamps.radius !== scene.radius) this.stamps = makeStamps(scene.radius);
    for (let pass = 0; pass <= (scene.selecting ? 1 : 0); pass += 1) this.drawPass(scene, pass === 1);
    this.context.putImageData(this.image, 0, 0);
  }

  drawPass(scene, ofSelected) {
    const { from, to, look, state } = this.arrays;
    const { width, height } = this.canvas;
    const { mix, scale, count, opacity, background } = scene;
    const half = this.stamps.half;
    const [left, top] = [width / 2 - scene.x * scale - half, height / 2 + scene.y * scale - half];
    for (let i = 0; i < count; i += 1) {
      if ((state[i] === 2) !== ofSelected) continue;
      const px = Math.round((from[2 * i] + (to[2 * i] - from[2 * i]) * mix) * scale + left);
      const py = Math.round(top - (from[2 * i + 1] + (to[2 * i + 1] - from[2 * i + 1]) * mix) * scale);
      if (px < -2 * half || py < -2 * half || px >= width || py >= height) continue;
      const faded = state[i] === 1;
      const fade = faded ? 0.6 : 0;
      const alpha = faded ? 0.35 * opacity : ofSelected ? Math.max(opacity, 0.9) : opacity;
      const red = look[4 * i] + (background[0] - look[4 * i]) * fade;
      const green = look[4 * i + 1] + (background[1] - look[4 * i + 1]) * fade;
      const blue = look[4 * i + 2] + (background[2] - look[4 * i + 2]) * fade;
      const cells = this.stamps[look[4 * i + 3]];
      const whole = px >= 0 && py >= 0 && px + 2 * half < width && py + 2 * half < height;
      blend(this.image.data, width, height, cells, whole, px, py, red, green, blue, alpha);
    }
  }

  destroy() {
    this.image = null;
  }
}

// One mark; every cell of it is (dx, dy, cover). `whole`: no cell of it is outside.
function blend(pixels, width, height, cells, whole, px, py, red, green, blue, alpha) {
  for (let c = 0; c < cells.length; c += 3) {
    const x = px + cells[c];
    const y = py + cells[c + 1];
    if (!whole && (x < 0 || y < 0 || x >= width || y >= height)) continue;
    const at = 4 * (y * width + x);
    const share = cells[c + 2] * alpha;
    pixels[at] += (red - pixels[at]) * share;
    pixels[at + 1] += (green - pixels[at + 1]) * share;
    pixels[at + 2] += (blue - pixels[at + 2]) * share;
  }
}

function makeStamps(radius) {
  const half = Math.ceil(radius * 1.15);
  const stamps = { radius, half };
  SHAPES.forEach((_, shape) => {
    const cells = [];
    for (let y = -half; y <= half; y += 1) {
      for (let x = -half; x <= half; x += 1) {
        const cover = Math.min(1, Math.max(0, 0.5 - shapeDistance(shape, x / radius, y / radius) * radius));
        if (cover > 0) cells.push(x + half, y + half, cover);
      }
    }
    stamps[shape] = Float32Array.from(cells);
  });
  return stamps;
}
