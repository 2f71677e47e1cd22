// The marks of points: how far a place is from a mark's edge, and the same marks as paths.
// Units are the mark's radius; y points down. paint_webgl.js says the same in the card's language.

export const SHAPES = ["disc", "square", "triangle", "diamond", "cross", "wedge"];

export function shapeDistance(shape, x, y) {
  const a = Math.abs(x);
  const b = Math.abs(y);
  if (shape === 1) return Math.max(a, b) - 0.86;
  if (shape === 2) return Math.max(0.873 * a - 0.488 * (y + 1), y - 0.7);
  if (shape === 3) return 0.707 * (a + b - 1.15);
  if (shape === 4) return Math.min(Math.max(a - 1.05, b - 0.36), Math.max(a - 0.36, b - 1.05));
  if (shape === 5) return Math.max(0.873 * a - 0.488 * (1 - y), -y - 0.7);
  return Math.hypot(x, y) - 1;
}

const CORNERS = [
  null,
  [[-0.86, -0.86], [0.86, -0.86], [0.86, 0.86], [-0.86, 0.86]],
  [[0, -1], [0.95, 0.7], [-0.95, 0.7]],
  [[0, -1.15], [1.15, 0], [0, 1.15], [-1.15, 0]],
  [[-0.36, -1.05], [0.36, -1.05], [0.36, -0.36], [1.05, -0.36], [1.05, 0.36], [0.36, 0.36],
   [0.36, 1.05], [-0.36, 1.05], [-0.36, 0.36], [-1.05, 0.36], [-1.05, -0.36], [-0.36, -0.36]],
  [[0, 1], [-0.95, -0.7], [0.95, -0.7]],
];

export function shapePath(shape, x, y, radius) {
  const show = (value) => value.toFixed(2);
  if (!CORNERS[shape]) {
    const r = show(radius);
    return `M${show(x - radius)} ${show(y)}a${r} ${r} 0 1 0 ${show(2 * radius)} 0` +
      `a${r} ${r} 0 1 0 ${show(-2 * radius)} 0z`;
  }
  return "M" + CORNERS[shape].map(([a, b]) => `${show(x + a * radius)} ${show(y + b * radius)}`).join("L") + "z";
}
