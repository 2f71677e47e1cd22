// The spaces in order of their scores, with intervals that can be compared by eye.
import { linear } from "./charts.js";
import { draw, given, label, make, onLanguage, showBytes, showNumber, showSeconds, tell, worded } from "./text.js";

const TRACK = 190; // pixels of the interval's column

const VERDICTS = ["better", "failed", "noise", "reference", "uncompared", "unfinished", "worse"];

const COLUMNS = [
  { key: "name", words: "space", of: (line) => line.name },
  { key: "n_dimensions", words: "dimensions", of: (line) => line.n_dimensions, number: true },
  { key: "score", words: "score_column", of: (line) => line.score, number: true, wide: true },
  { key: "difference", words: "difference_column", of: (line) => line.difference, number: true },
  { key: "verdict", words: "verdict", of: (line) => line.verdict },
  { key: "fit_seconds", words: "fit_time", of: (line) => line.fit_seconds, number: true },
  { key: "peak_bytes", words: "memory", of: (line) => line.peak_bytes, number: true },
];

// show(space index): called when a line is chosen.
export function buildLeaderboard(payload, show) {
  const lines = payload.leaderboard;
  const state = { key: null, down: true };
  const body = make("tbody");
  const heads = COLUMNS.map((column) => headOf(column, () => {
    state.down = state.key === column.key ? !state.down : Boolean(column.number);
    state.key = column.key;
    fillBody();
  }));
  const scale = scaleOf(payload);

  function fillBody() {
    const column = COLUMNS.find((one) => one.key === state.key);
    const sorted = column ? [...lines].sort((a, b) => compare(column.of(a), column.of(b), state.down)) : lines;
    body.replaceChildren(...sorted.map((line) => lineOf(line, payload, scale, show)));
    COLUMNS.forEach((one, i) => {
      if (one.key === state.key) heads[i].setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else heads[i].removeAttribute("aria-sort");
    });
  }

  fillBody();
  onLanguage(fillBody);
  const table = make("table", { class: "leaderboard" },
    worded("caption", "leaderboard_caption", {}, { class: "unseen" }),
    make("thead", {}, make("tr", {}, heads)), body);
  return make("div", { class: "scroll", tabindex: 0 }, table);
}

function headOf(column, sort) {
  const button = tell(make("button", { type: "button", onclick: sort }), column.words);
  return make("th", { scope: "col", class: column.number && !column.wide ? "number" : null }, button);
}

// Lines without a value stay at the end, whichever way the others are sorted.
function compare(a, b, down) {
  const known = (value) => value !== null && value !== undefined;
  if (!known(a) || !known(b)) return Number(known(b)) - Number(known(a));
  const order = typeof a === "number" ? a - b : String(a).localeCompare(String(b));
  return down ? -order : order;
}

function scaleOf(payload) {
  const ends = payload.leaderboard.flatMap((line) => [line.score, line.low, line.high]).filter(Number.isFinite);
  if (!ends.length) return null;
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const reference = payload.leaderboard.find((line) => line.verdict === "reference");
  const map = linear(low, high, 8, TRACK - 8);
  const within = (value) => (Number.isFinite(value) && value >= low && value <= high ? value : null);
  return { map, reference: within(reference?.score), chance: within(payload.score?.chance) };
}

function intervalOf(line, scale) {
  const size = { viewBox: `0 0 ${TRACK} 24`, width: TRACK, height: 24 };
  const svg = draw("svg", { ...size, class: "interval", "aria-hidden": "true" });
  for (const kind of ["chance", "reference"]) {
    if (scale[kind] === null) continue;
    const at = scale.map(scale[kind]);
    svg.append(draw("line", { x1: at, x2: at, y1: 0, y2: 24, class: kind }));
  }
  if (Number.isFinite(line.low) && Number.isFinite(line.high)) {
    const [x1, x2] = [scale.map(line.low), scale.map(line.high)];
    svg.append(draw("line", { x1, x2, y1: 12, y2: 12, class: `reach ${line.verdict}` }));
  }
  svg.append(draw("circle", { cx: scale.map(line.score), cy: 12, r: 4.5, class: `dot ${line.verdict}` }));
  return svg;
}

function bracket(low, high, digits) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return "";
  return `[${showNumber(low, digits)}, ${showNumber(high, digits)}]`;
}

function signed(value, digits) {
  return (value > 0 ? "+" : "") + showNumber(value, digits);
}

function scoreCell(line, scale) {
  if (!Number.isFinite(line.score) || !scale) return make("td", { class: "number" }, "–");
  return make("td", { class: "score" }, make("div", {}, intervalOf(line, scale),
    make("span", { class: "figures" }, make("b", {}, showNumber(line.score, 4)),
      make("span", { class: "quiet" }, ` ${bracket(line.low, line.high, 3)}`))));
}

function differenceCell(line) {
  const compared = line.verdict !== "reference" && Number.isFinite(line.difference);
  if (!compared) return make("td", { class: "number quiet" }, "–");
  const chance = line.p < 0.001 ? " p < 0.001" : ` p = ${showNumber(line.p, 3)}`;
  const p = Number.isFinite(line.p) ? make("span", { class: "quiet" }, chance) : null;
  return make("td", { class: "number" }, make("span", {}, signed(line.difference, 4)),
    make("span", { class: "quiet" }, ` ${bracket(line.difference_low, line.difference_high, 3)}`), p);
}

function nameCell(line, payload, show) {
  const name = make("span", { class: "name" }, line.name);
  const shown = line.space !== null && line.space !== undefined;
  const inner = shown ? make("button", { type: "button", class: "link", onclick: (event) => {
    event.stopPropagation();
    show(line.space);
  } }, name) : name;
  if (shown) label(inner, "show_space", { name: line.name });
  const winner = line.name === payload.winner ? worded("span", "winner", {}, { class: "badge" }) : null;
  const about = line.about ? given("small", line.about, { class: "about" }) : null;
  if (about) about.title = about.textContent; // the cell shows its first part only
  return make("th", { scope: "row" }, inner, winner, about);
}

function lineOf(line, payload, scale, show) {
  const known = VERDICTS.includes(line.verdict);
  const style = { class: `verdict ${line.verdict}` };
  const word = known ? worded("span", `verdict_${line.verdict}`, {}, style) : given("span", line.verdict);
  const verdict = make("td", {}, word);
  if (line.note) verdict.append(given("small", line.note));
  const row = make("tr", { class: line.name === payload.winner ? "winner" : null },
    nameCell(line, payload, show),
    make("td", { class: "number" }, showNumber(line.n_dimensions)),
    scoreCell(line, scale),
    differenceCell(line),
    verdict,
    make("td", { class: "number" }, showSeconds(line.fit_seconds)),
    make("td", { class: "number" }, showBytes(line.peak_bytes)));
  if (line.space !== null && line.space !== undefined) {
    row.classList.add("choosable");
    row.addEventListener("click", () => show(line.space));
  }
  return row;
}
