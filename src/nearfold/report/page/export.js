// Files to keep: rows as CSV, pictures as PNG and SVG.
import { rgb } from "./colours.js";
import { shapePath } from "./shapes.js";
import { draw, say } from "./text.js";

const MOST_SHAPES = 20000; // in an SVG; more points become one image inside it

// A spreadsheet runs a cell that begins with one of these, the wide forms of Chinese and Japanese
// keyboards included.
const RUNS = /^\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|^[\t\r]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

export function csvCell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  let text = String(value);
  if (typeof value === "string" && RUNS.test(text) && !NUMBER.test(text)) text = `'${text}`;
  return /[",\n\r\t;]/.test(text) || text !== text.trim() ? `"${text.replaceAll('"', '""')}"` : text;
}

// The mark at the start tells spreadsheets that this is UTF-8.
export function toCsv(lines) {
  return `\uFEFF${lines.map((line) => line.map(csvCell).join(",")).join("\r\n")}\r\n`;
}

export function keep(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\p{L}\p{N}._ -]+/gu, "_").replace(/^\.+/, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Selected rows with their columns and where they are in the spaces shown.
export function selectionCsv(points, selection, spaces) {
  const head = ["id", ...points.columns.map((column) => column.title)];
  for (const space of spaces) head.push(`${space.name} x`, `${space.name} y`);
  const lines = [head];
  for (let row = 0; row < points.n; row += 1) {
    if (!selection[row]) continue;
    const line = [points.ids ? points.idOf(row) : row];
    for (const column of points.columns) line.push(rawValue(column, row));
    for (const { coordinates } of spaces) {
      line.push(...[0, 1].map((axis) => Number(coordinates[2 * row + axis].toPrecision(6))));
    }
    lines.push(line);
  }
  return toCsv(lines);
}

function rawValue(column, row) {
  const value = column.values[row];
  if (column.kind === "category") return value in column.ownCategories ? column.categoryOf(value) : "";
  return column.decimals === null ? Number(value.toPrecision(6)) : value;
}

// Control characters are not allowed in XML, whatever a label holds.
function xmlText(text) {
  // eslint-disable-next-line no-control-regex
  return String(text).replace(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/g, "\uFFFD");
}

// scatter: what is seen; title, note: texts above and below; legend: [{name, colour, shape}];
// marks: elements over the points (in an image they are part of it).
export async function pictureSvg(scatter, { title, note, legend, ink, marks }) {
  const { width, height } = scatter;
  const [top, side] = [34, legend.length ? 170 : 0];
  const lines = Math.max(height + 30, 20 * legend.length);
  const size = { width: width + side, height: top + lines };
  const svg = draw("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, fill: ink,
    "font-family": "system-ui, sans-serif", "font-size": 12 });
  svg.append(draw("rect", { ...size, fill: rgb(scatter.background) }));
  svg.append(draw("text", { x: 10, y: 22, "font-size": 15, "font-weight": 600 }, xmlText(title)));
  const inner = draw("g", { transform: `translate(0 ${top})` });
  const large = scatter.n > MOST_SHAPES;
  if (large) inner.append(draw("image", { width, height, href: await asDataUrl(await scatter.toPNG(2)) }));
  else inner.append(...pointsOf(scatter), ...marks);
  svg.append(inner);
  const said = large ? `${note} ${say("svg_image", { n: scatter.n })}` : note;
  svg.append(draw("text", { x: 10, y: top + height + 18 }, xmlText(said)));
  legend.forEach(({ name, colour, shape }, i) => {
    svg.append(draw("path", { d: shapePath(shape, width + 16, top + 8 + 20 * i, 5), fill: colour }));
    svg.append(draw("text", { x: width + 28, y: top + 12 + 20 * i }, xmlText(name)));
  });
  const text = new XMLSerializer().serializeToString(svg);
  return new Blob(['<?xml version="1.0" encoding="UTF-8"?>\n', text], { type: "image/svg+xml" });
}

function pointsOf(scatter) {
  const marks = [];
  const { look, selection, radius, opacity, width, height } = scatter;
  for (const selectedPass of [false, true]) {
    for (let at = 0; at < scatter.n; at += 1) {
      const row = scatter.order[at];
      if (Boolean(selection?.[row]) !== selectedPass) continue;
      const [x, y] = scatter.screenOf(row);
      if (x < -radius || y < -radius || x > width + radius || y > height + radius) continue;
      const faded = selection && !selectedPass;
      marks.push(draw("path", {
        d: shapePath(look[4 * row + 3], x, y, radius),
        fill: rgb(look.subarray(4 * row, 4 * row + 3)),
        "fill-opacity": (faded ? 0.14 : 1) * opacity,
      }));
    }
  }
  return marks;
}

function asDataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
