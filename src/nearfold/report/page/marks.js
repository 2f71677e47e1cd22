// What is drawn over the points: a clicked point, its neighbours before and now, the hovered one.
import { draw } from "./text.js";

const STYLE = {
  light: { original: "#d55e00", space: "#0b6e4f", centre: "#111418", halo: "rgba(255,255,255,0.9)" },
  dark: { original: "#ff9d57", space: "#5be0b4", centre: "#ffffff", halo: "rgba(20,23,28,0.9)" },
};

const HOLLOW = { fill: "none", "stroke-width": 2 };

// marks: {centre, original, space, hover}: rows or lists of rows.
export function paintMarks(context, scatter, marks, dark) {
  const style = dark ? STYLE.dark : STYLE.light;
  const reach = scatter.radius + 4;
  if (marks.centre >= 0) {
    const at = scatter.screenOf(marks.centre);
    // Dashes and squares for before, lines and circles for now: colour is not the only sign.
    paintLinks(context, scatter, at, marks.original, style.original, [5, 4]);
    paintLinks(context, scatter, at, marks.space, style.space, []);
    for (const row of marks.original) {
      outline(context, squarePath(scatter.screenOf(row), reach + 2), style.original, style.halo);
    }
    for (const row of marks.space) {
      outline(context, circlePath(scatter.screenOf(row), reach), style.space, style.halo);
    }
    outline(context, circlePath(at, reach + 2), style.centre, style.halo, 3);
  }
  if (marks.hover >= 0) {
    outline(context, circlePath(scatter.screenOf(marks.hover), reach), style.centre, style.halo, 1.5);
  }
}

function paintLinks(context, scatter, [x, y], rows, colour, dashes) {
  context.setLineDash(dashes);
  context.strokeStyle = colour;
  context.lineWidth = 1.4;
  context.beginPath();
  for (const row of rows) {
    context.moveTo(x, y);
    context.lineTo(...scatter.screenOf(row));
  }
  context.stroke();
  context.setLineDash([]);
}

// The same as elements of an SVG; what is only hovered is left out.
export function marksSvg(scatter, marks, dark) {
  const style = dark ? STYLE.dark : STYLE.light;
  if (!(marks.centre >= 0)) return [];
  const [x, y] = scatter.screenOf(marks.centre);
  const reach = scatter.radius + 4;
  const ring = (row, radius, stroke) => {
    const [cx, cy] = scatter.screenOf(row);
    return draw("circle", { cx, cy, r: radius, stroke, ...HOLLOW });
  };
  const box = (row) => {
    const [px, py] = scatter.screenOf(row);
    const side = 2 * (reach + 2);
    const corner = { x: px - side / 2, y: py - side / 2 };
    return draw("rect", { ...corner, width: side, height: side, stroke: style.original, ...HOLLOW });
  };
  const line = (row, stroke, dashes) => {
    const [x2, y2] = scatter.screenOf(row);
    return draw("line", { x1: x, y1: y, x2, y2, stroke, "stroke-width": 1.4, "stroke-dasharray": dashes });
  };
  return [
    ...marks.original.map((row) => line(row, style.original, "5 4")),
    ...marks.space.map((row) => line(row, style.space, null)),
    ...marks.original.map(box),
    ...marks.space.map((row) => ring(row, reach, style.space)),
    ring(marks.centre, reach + 2, style.centre),
  ];
}

function circlePath([x, y], radius) {
  const path = new Path2D();
  path.arc(x, y, radius, 0, 2 * Math.PI);
  return path;
}

function squarePath([x, y], half) {
  const path = new Path2D();
  path.rect(x - half, y - half, 2 * half, 2 * half);
  return path;
}

function outline(context, path, colour, halo, width = 2) {
  context.lineWidth = width + 2;
  context.strokeStyle = halo;
  context.stroke(path);
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke(path);
}
