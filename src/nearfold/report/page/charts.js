// Small charts as SVG. Colours come from the style sheet, so that they follow day and night.
import { draw, given, make, say, showNumber, showShare, spaceWords, tell, worded } from "./text.js";

const WIDTH = Math.min(620, Math.max(320, window.innerWidth - 72)); // small letters would shrink further on a phone
const LONGEST_LABEL = 110; // pixels

const ruler = document.createElement("canvas").getContext("2d");

// Pixels of a text of the charts (12 px).
export function textWidth(text) {
  ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

// As much of a text as there is room for.
export function fitText(text, room) {
  if (textWidth(text) <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && textWidth(`${letters.join("")}…`) > room) letters.pop();
  return `${letters.join("")}…`;
}

export function niceTicks(low, high, count = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

export function linear(low, high, from, to) {
  const width = high - low || 1;
  return (value) => from + ((value - low) / width) * (to - from);
}

function logarithmic(low, high, from, to) {
  const scale = linear(Math.log(low), Math.log(high), from, to);
  return (value) => scale(Math.log(value));
}

const finite = (values) => values.filter((value) => Number.isFinite(value));

function spread(values, margin = 0.06) {
  const known = finite(values);
  if (!known.length) return [0, 1];
  const [low, high] = known.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [known[0], known[0]]);
  const room = (high - low || Math.abs(high) || 1) * margin;
  return [low - room, high + room];
}

// The frame of a chart: axes, ticks, names. Returns the element and the two scales. `isShare`: the
// values are shares, written as percentages.
export function frame({ xs, ys, xTicks, xName, yName, height = 300, label, xLog = false, isShare = false }) {
  const yTicks = niceTicks(...ys);
  const decimals = yTicks.length > 1 && yTicks[1] - yTicks[0] < 0.0099 ? 1 : 0;
  const showTick = (tick) => (isShare ? showShare(tick, decimals) : showNumber(tick));
  const left = 36 + Math.max(...yTicks.map((tick) => textWidth(showTick(tick))));
  const [right, top, bottom] = [WIDTH - 14, 14, height - 46];
  const x = (xLog ? logarithmic : linear)(...xs, left, right);
  const y = linear(...ys, bottom, top);
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart", role: "img" });
  tell(svg, label, {}, "aria-label");
  for (const tick of yTicks) {
    svg.append(draw("line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "grid" }));
    svg.append(draw("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, showTick(tick)));
  }
  for (const tick of xTicks ?? niceTicks(...xs, 7)) {
    svg.append(draw("line", { x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 4, class: "axis" }));
    svg.append(draw("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle" }, showNumber(tick)));
  }
  svg.append(draw("line", { x1: left, x2: right, y1: bottom, y2: bottom, class: "axis" }));
  const middle = { "text-anchor": "middle", class: "name" };
  svg.append(tell(draw("text", { x: (left + right) / 2, y: height - 8, ...middle }), xName));
  const turned = `translate(13 ${(top + bottom) / 2}) rotate(-90)`;
  svg.append(tell(draw("text", { transform: turned, ...middle }), yName));
  return { svg, x, y, left, right, top, bottom };
}

function lineThrough(points) {
  return points.length ? "M" + points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L") : "";
}

// Ticks at the values that were tried, thinned so that they do not touch.
function ticksAt(values, scale) {
  const kept = [];
  for (const value of [...new Set(values)].sort((a, b) => a - b)) {
    const room = 8 + textWidth(showNumber(value));
    if (!kept.length || scale(value) - scale(kept[kept.length - 1]) >= room) kept.push(value);
  }
  return kept;
}

// Score against d': lines with bands; the chosen d' and the best one are marked.
export function lineChart(curve, isShare) {
  const series = curve.series.map((one) => ({ ...one, low: one.low ?? one.y, high: one.high ?? one.y }));
  const allX = series.flatMap((one) => one.x);
  const xs = [Math.min(...allX), Math.max(...allX)];
  const ys = spread(series.flatMap((one) => [...one.y, ...one.low, ...one.high]));
  const xLog = xs[0] > 0 && xs[1] / xs[0] > 20;
  const xTicks = ticksAt(allX, (xLog ? logarithmic : linear)(...xs, 60, WIDTH - 14));
  const names = { xName: curve.x_name, yName: curve.y_name, label: curve.title };
  const { svg, x, y } = frame({ xs, ys, xTicks, xLog, isShare, ...names });
  series.forEach((one, i) => {
    const known = one.x.map((_, j) => j).filter((j) => Number.isFinite(one.y[j]));
    const through = (values) => known.map((j) => [x(one.x[j]), y(values[j] ?? one.y[j])]);
    const band = lineThrough([...through(one.high), ...through(one.low).reverse()]);
    svg.append(draw("path", { d: `${band}z`, class: `band line${i % 8}` }));
    svg.append(draw("path", { d: lineThrough(through(one.y)), class: `line line${i % 8}` }));
    for (const [cx, cy] of through(one.y)) svg.append(draw("circle", { cx, cy, r: 2.6, class: `dot line${i % 8}` }));
    for (const kind of ["best", "chosen"]) {
      const j = one.x.indexOf(one[kind]);
      if (j >= 0) svg.append(turningPoint(kind, x(one.x[j]), y(one.y[j]), one, i));
    }
  });
  return make("figure", {}, svg, lineLegend(series));
}

function turningPoint(kind, px, py, one, i) {
  const mark = draw("circle", { cx: px, cy: py, r: kind === "chosen" ? 7 : 5, class: `${kind} line${i % 8}` });
  const words = kind === "chosen" ? "chosen_at" : "best_at";
  return draw("g", {}, mark, tell(draw("title"), words, { name: spaceWords(one.name), d: one[kind] }));
}

function lineLegend(series) {
  const items = series.map((one, i) => {
    const key = draw("svg", { viewBox: "0 0 22 10", width: 22, height: 10, "aria-hidden": "true" },
      draw("line", { x1: 0, x2: 22, y1: 5, y2: 5, class: `line line${i % 8}` }));
    const chosen = one.chosen === null || one.chosen === undefined ? null
      : worded("span", "chosen_d", { d: one.chosen }, { class: "quiet" });
    return make("li", {}, key, given("span", spaceWords(one.name)), chosen);
  });
  return make("ul", { class: "keys" }, items);
}

// Shares of variance as bars, their sum as a line, what noise would give as a dashed line.
export function screeChart(scree) {
  const shown = Math.min(scree.share.length, 50);
  const most = Math.max(1e-9, ...(scree.cumulative ?? []).slice(0, shown), ...scree.share.slice(0, shown));
  const { svg, x, y, bottom } = frame({ xs: [0.5, shown + 0.5], ys: [0, most * 1.04], label: "scree", isShare: true,
    xName: "axis_number", yName: "share_of_variance",
    xTicks: niceTicks(1, shown, 8).filter((tick) => Number.isInteger(tick) && tick >= 1) });
  const wide = Math.max(1.5, (x(2) - x(1)) * 0.7);
  for (let i = 0; i < shown; i += 1) {
    const top = y(scree.share[i]);
    const size = { width: wide, height: Math.max(0, bottom - top) };
    const bar = draw("rect", { x: x(i + 1) - wide / 2, y: top, ...size, class: "bar" });
    bar.append(draw("title", {}, `${i + 1}: ${showShare(scree.share[i])}`));
    svg.append(bar);
  }
  const through = (values) => lineThrough(values.slice(0, shown).map((value, i) => [x(i + 1), y(value)]));
  if (scree.cumulative) svg.append(draw("path", { d: through(scree.cumulative), class: "line line1" }));
  if (scree.noise) svg.append(draw("path", { d: through(scree.noise), class: "line noise" }));
  const key = (style, words) => make("li", {}, make("i", { class: `swatch ${style}` }), worded("span", words));
  return make("figure", {}, svg, make("ul", { class: "keys" }, key("bar", "share_each"),
    scree.cumulative ? key("line1", "share_sum") : null, scree.noise ? key("noise", "share_noise") : null));
}

// Distances before and after, a small square per pair.
export function shepardChart(original, embedded, most = 4000) {
  const { svg, x, y } = frame({ xs: spread([0, ...original]), ys: spread([0, ...embedded]),
    xName: "distance_before", yName: "distance_after", label: "shepard", height: 360 });
  const step = Math.max(1, original.length / most);
  let path = "";
  for (let at = 0; at < original.length; at += step) {
    const i = Math.floor(at);
    if (Number.isFinite(original[i]) && Number.isFinite(embedded[i])) {
      path += `M${(x(original[i]) - 1).toFixed(1)} ${(y(embedded[i]) - 1).toFixed(1)}h2v2h-2z`;
    }
  }
  svg.append(draw("path", { d: path, class: "pairs" }));
  return make("figure", {}, svg);
}

// True classes down, predicted across; a cell's depth is its share of the line. Names that are
// wider than a cell stand upright above it, as many as do not touch.
export function heatMap({ labels, counts }) {
  const n = labels.length;
  const names = labels.map((text) => fitText(String(text), LONGEST_LABEL));
  const widest = Math.max(...names.map(textWidth));
  const left = 30 + widest;
  const cell = Math.max(6, Math.min(44, Math.floor((Math.min(WIDTH, 520) - left) / n)));
  const upright = widest > cell - 4;
  const top = 24 + (upright ? widest : 14);
  const [width, height] = [Math.max(left + n * cell, left + textWidth(say("predicted"))) + 8, top + n * cell + 8];
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart heat", role: "img" });
  svg.style.maxWidth = `${width}px`;
  tell(svg, "confusion", {}, "aria-label");
  svg.append(tell(draw("text", { x: left, y: 12, class: "name" }), "predicted"));
  const side = { transform: `translate(12 ${top + (n * cell) / 2}) rotate(-90)`, "text-anchor": "middle" };
  svg.append(tell(draw("text", { ...side, class: "name" }), "true_class"));
  const every = Math.ceil(15 / cell);
  names.forEach((name, i) => {
    if (i % every) return;
    const middle = (i + 0.5) * cell;
    svg.append(draw("text", { x: left - 6, y: top + middle + 4, "text-anchor": "end", class: "of" }, name));
    svg.append(draw("text", { ...nameAbove(name, upright, left + middle, top - 5), class: "as" }, name));
  });
  counts.forEach((line, i) => drawHeatLine(svg, line, i, { labels, left, top, cell }));
  return make("figure", {}, svg);
}

function nameAbove(name, upright, x, y) {
  if (!upright) return { x, y, "text-anchor": "middle" };
  // Chinese is written downwards, not turned.
  if (/\p{Script=Han}/u.test(name)) return { x, y, "writing-mode": "vertical-rl", "text-anchor": "end" };
  return { transform: `translate(${x + 4} ${y}) rotate(-90)` };
}

function drawHeatLine(svg, line, i, { labels, left, top, cell }) {
  const sum = line.reduce((a, b) => a + b, 0) || 1;
  line.forEach((count, j) => {
    const [px, py] = [left + j * cell, top + i * cell];
    const box = draw("rect", { x: px, y: py, width: cell - 1, height: cell - 1, class: i === j ? "right" : "wrong" });
    // A few errors must be seen beside many right answers: the root, not the share itself.
    box.style.fillOpacity = count ? (0.12 + 0.88 * Math.sqrt(count / sum)).toFixed(3) : "0";
    box.append(draw("title", {}, say("confusion_cell", { of: String(labels[i]), as: String(labels[j]), n: count })));
    svg.append(box);
    if (cell >= 22 && count) {
      const strong = count / sum > 0.35;
      const middle = { x: px + cell / 2, y: py + cell / 2 + 4, "text-anchor": "middle" };
      svg.append(draw("text", { ...middle, class: strong ? "on" : "off" }, String(count)));
    }
  });
}

// Names with bars; negative ones to the left.
// `ends`: the intervals, as [lows, highs], where there are some.
export function barList(names, values, most, ends = null) {
  const short = (value) => showNumber(Number(value.toPrecision(3)));
  const order = values.map((_, i) => i).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, most);
  const largest = Math.max(1e-300, ...order.map((i) => Math.abs(values[i])));
  const list = make("table", { class: "bars" });
  for (const i of order) {
    const bar = make("i", { class: values[i] < 0 ? "bar minus" : "bar" });
    bar.style.width = `${(100 * Math.abs(values[i])) / largest}%`;
    list.append(make("tr", {},
      make("th", { scope: "row", title: names[i] }, names[i]),
      make("td", { class: "track" }, bar),
      make("td", { class: "number" }, short(values[i])),
      ends ? make("td", { class: "number quiet" }, `[${short(ends[0][i])}, ${short(ends[1][i])}]`) : null));
  }
  return list;
}
