// The spaces in order of their scores, with intervals that can be compared by eye.
import { linear } from "./charts.js";
import {
  draw, given, label, make, onLanguage, showBytes, showNumber, showScore, showSeconds, spaceWords, tell, worded, wordsOf,
} from "./text.js";

const TRACK = 170; // pixels of the interval's column

const VERDICTS = ["better", "failed", "not_shown", "reference", "uncompared", "unfinished", "worse"];

const COLUMNS = [
  { key: "name", words: "space" },
  { key: "n_dimensions", words: "dimensions", number: true },
  { key: "score", words: "score_column", number: true, wide: true },
  { key: "difference", words: "difference_column", points: "difference_points", number: true },
  { key: "verdict", words: "verdict" },
  { key: "fit_seconds", words: "fit_time", number: true },
  { key: "peak_bytes", words: "memory", number: true },
];

// show(space index): called when a line is chosen.
export function buildLeaderboard(payload, show) {
  const lines = payload.leaderboard;
  const state = { key: null, down: true };
  const body = make("tbody");
  const { is_share: isShare, lower_is_better: lowerIsBetter } = payload.score ?? {};
  const heads = COLUMNS.map((column) => headOf(column, isShare, () => {
    const first = column.key === "score" ? !lowerIsBetter : Boolean(column.number);
    state.down = state.key === column.key ? !state.down : first;
    state.key = column.key;
    fillBody();
  }));
  const scale = scaleOf(payload);

  function fillBody() {
    const { key } = state;
    const sorted = key ? [...lines].sort((a, b) => compare(a[key], b[key], state.down)) : lines;
    body.replaceChildren(...sorted.map((line) => lineOf(line, payload, scale, show)));
    COLUMNS.forEach((one, i) => {
      if (one.key === key) heads[i].setAttribute("aria-sort", state.down ? "descending" : "ascending");
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

function wordOf(column, isShare) {
  return (isShare && column.points) || column.words;
}

function headOf(column, isShare, sort) {
  const button = tell(make("button", { type: "button", onclick: sort }), wordOf(column, isShare));
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

function bracket(low, high, show) {
  return Number.isFinite(low) && Number.isFinite(high) ? ` [${show(low)}, ${show(high)}]` : "";
}

function scoreCell(line, scale, score) {
  if (!Number.isFinite(line.score) || !scale) return make("td", { class: "score" }, "–");
  const bare = (value) => showNumber(score?.is_share ? 100 * value : value, score?.is_share ? 1 : 3);
  return make("td", { class: "score" }, make("div", {}, intervalOf(line, scale),
    make("span", { class: "figures" }, make("b", {}, showScore(line.score, score)),
      make("span", { class: "quiet" }, bracket(line.low, line.high, bare)))));
}

// Differences of shares are in percentage points.
function differenceCell(line, score) {
  const compared = line.verdict !== "reference" && Number.isFinite(line.difference);
  if (!compared) return make("td", { class: "number difference quiet" }, "–");
  const [factor, digits] = score?.is_share ? [100, 1] : [1, 3];
  const show = (value) => (factor * value >= 0.5 * 10 ** -digits ? "+" : "") + showNumber(factor * value, digits);
  const chance = line.p < 0.001 ? " p < 0.001" : ` p = ${showNumber(line.p, 3)}`;
  return make("td", { class: "number difference" }, make("span", {}, show(line.difference)),
    make("span", { class: "quiet" }, bracket(line.difference_low, line.difference_high, show),
      Number.isFinite(line.p) ? chance : ""));
}

function nameCell(line, payload, show) {
  const name = given("span", spaceWords(line.name), { class: "name" });
  const shown = Number.isInteger(line.space);
  const inner = shown ? make("button", { type: "button", class: "link", onclick: (event) => {
    event.stopPropagation();
    show(line.space);
  } }, name) : name;
  if (shown) label(inner, "show_space", { name: spaceWords(line.name) });
  const winner = line.name === payload.winner ? worded("span", "winner", {}, { class: "badge" }) : null;
  const about = line.about ? given("small", line.about, { class: "about" }) : null;
  if (about) about.title = about.textContent; // the cell shows its first part only
  return make("th", { scope: "row" }, inner, winner, about);
}

function verdictCell(line) {
  const verdict = line.verdict === "noise" ? "not_shown" : line.verdict; // its former name
  const word = VERDICTS.includes(verdict) ? wordsOf(`verdict_${verdict}`) : verdict;
  return make("td", { class: "judged" }, given("span", word, { class: `verdict ${verdict}` }),
    line.note ? given("small", line.note) : null);
}

function lineOf(line, payload, scale, show) {
  const cells = [nameCell(line, payload, show),
    make("td", { class: "number" }, showNumber(line.n_dimensions)),
    scoreCell(line, scale, payload.score),
    differenceCell(line, payload.score),
    verdictCell(line),
    make("td", { class: "number" }, showSeconds(line.fit_seconds)),
    make("td", { class: "number" }, showBytes(line.peak_bytes))];
  // On a narrow screen a line is a card, and its cells name themselves.
  cells.forEach((cell, i) => tell(cell, wordOf(COLUMNS[i], payload.score?.is_share), {}, "data-name"));
  const row = make("tr", { class: line.name === payload.winner ? "winner" : null }, cells);
  if (Number.isInteger(line.space)) {
    row.classList.add("choosable");
    row.addEventListener("click", () => show(line.space));
  }
  return row;
}
