// Files to keep: rows as CSV, pictures as PNG and SVG.
import { fitText, textWidth } from "./charts.js";
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

// Selected rows with their columns and where they are in the views shown (view → its name).
export function selectionCsv(points, selection, views) {
  const head = ["id", ...points.columns.map((column) => column.title)];
  for (const name of views.values()) head.push(`${name} x`, `${name} y`);
  const lines = [head];
  for (let row = 0; row < points.n; row += 1) {
    if (!selection[row]) continue;
    const line = [points.ids ? points.idOf(row) : row];
    for (const column of points.columns) line.push(rawValue(column, row));
    for (const { coordinates } of views.keys()) {
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
  return String(text).replace(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]|\p{Surrogate}/gu, "\uFFFD");
}

const TOP = 34; // pixels above the points
const LINE = 20; // of the legend

// All but the points. title, note: texts above and below; legend: from panels.js, or null.
function frameSvg({ width, height, background }, { title, note, legend, ink }) {
  const texts = legend ? [legend.title, ...legend.classes.map(({ name }) => name)] : [];
  const side = legend ? Math.min(260, Math.max(150, 44 + Math.max(...texts.map(textWidth)))) : 0;
  const long = Math.max(height + 30, LINE * (texts.length + 3));
  const size = { width: Math.ceil(width + side), height: Math.ceil(TOP + long) };
  const svg = draw("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, fill: ink,
    "font-family": "system-ui, sans-serif", "font-size": 12 });
  const write = (x, y, text, style = {}) => svg.append(draw("text", { x, y, ...style }, xmlText(text)));
  svg.append(draw("rect", { ...size, fill: rgb(background) }));
  write(10, 22, title, { "font-size": 15, "font-weight": 600 });
  write(10, TOP + height + 18, note);
  if (!legend) return svg;
  write(width + 12, TOP + 12, fitText(legend.title, side - 20), { "font-weight": 600 });
  legend.classes.forEach(({ name, colour, shape }, i) => {
    const y = TOP + LINE * (i + 1) + 12;
    svg.append(draw("path", { d: shapePath(shape, width + 18, y - 4, 5), fill: colour }));
    write(width + 30, y, fitText(name, side - 40));
  });
  if (legend.more) write(width + 30, TOP + LINE * texts.length + 12, legend.more);
  if (legend.scale) svg.append(...scaleSvg(legend.scale, width + 12, TOP + LINE + 2, side - 30));
  return svg;
}

// A bar of the colours from low to high.
function scaleSvg({ low, high, stops }, x, y, width) {
  const colours = stops.map((colour, i) => draw("stop", { offset: i / (stops.length - 1), "stop-color": colour }));
  return [draw("linearGradient", { id: "scale" }, colours),
    draw("rect", { x, y, width, height: 12, rx: 4, fill: "url(#scale)" }),
    draw("text", { x, y: y + 28 }, low), draw("text", { x: x + width, y: y + 28, "text-anchor": "end" }, high)];
}

const serialise = (svg) => new XMLSerializer().serializeToString(svg);

// scatter: what is seen; marks: elements over the points (in an image they are part of it).
export function pictureSvg(scatter, about, marks) {
  const { width, height, n } = scatter;
  const large = n > MOST_SHAPES;
  const note = large ? `${about.note} ${say("svg_image", { n })}` : about.note;
  const svg = frameSvg(scatter, { ...about, note });
  const image = () => draw("image", { width, height, href: scatter.snapshot().toDataURL("image/png") });
  const inner = large ? image() : [...pointsOf(scatter), ...marks];
  svg.append(draw("g", { transform: `translate(0 ${TOP})` }, inner));
  return new Blob(['<?xml version="1.0" encoding="UTF-8"?>\n', serialise(svg)], { type: "image/svg+xml" });
}

// The same at twice the density of the screen.
export async function picturePng(scatter, about) {
  const svg = frameSvg(scatter, about);
  const points = scatter.snapshot();
  const density = points.width / scatter.width;
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(serialise(svg))}`;
  await image.decode();
  const [width, height] = ["width", "height"].map((side) => Math.round(density * svg.getAttribute(side)));
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0, width, height);
  context.drawImage(points, 0, Math.round(density * TOP));
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
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
