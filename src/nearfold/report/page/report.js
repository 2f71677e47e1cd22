// The page: the answer first, then the proof.
import { isDark } from "./colours.js";
import { csvCell } from "./export.js";
import { buildLeaderboard } from "./leaderboard.js";
import { Bench } from "./pictures.js";
import { Points } from "./points.js";
import { buildSections, section } from "./sections.js";
import { getLanguage, given, label, make, setLanguage, setWords, showScore, worded } from "./text.js";

const LONG_HEADLINE = 160; // letters

function buildTop(payload, follow) {
  const language = make("button", { type: "button", id: "language", class: "quiet-button" });
  const nameLanguage = () => {
    language.textContent = getLanguage() === "zh" ? "English" : "中文";
    language.lang = getLanguage() === "zh" ? "en" : "zh-Hans";
  };
  language.addEventListener("click", () => {
    setLanguage(getLanguage() === "zh" ? "en" : "zh");
    nameLanguage();
  });
  nameLanguage();
  const theme = label(make("button", { type: "button", id: "theme", class: "quiet-button", onclick: () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    follow();
  } }, "◐"), "theme");
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => follow());
  return make("div", { class: "top" }, make("span", { class: "brand" }, "Nearfold"),
    make("span", { class: "what" }, payload.title ?? ""), language, theme);
}

function buildHeader(payload) {
  const title = given("h1", payload.headline ?? payload.title ?? "Nearfold");
  title.classList.toggle("long", title.textContent.length > LONG_HEADLINE);
  const lines = (payload.details ?? []).map((line) => given("p", line));
  const part = (name, style) => (payload[name] ? given("p", payload[name], { class: style }) : null);
  const notices = (payload.notices ?? []).map((notice) => given("li", notice));
  return make("header", {}, title, lines.length ? make("div", { class: "details" }, lines) : null,
    part("final", "final"), part("source", "quiet"), part("holds_rows", "quiet small"),
    notices.length ? make("ul", { class: "notices", role: "note" }, notices) : null);
}

// What the score is, and what its intervals and p-values hold for.
function scoreWords(payload) {
  const score = payload.score ?? {};
  const { name = "", k = null, chance = null, help = null, column = null } = score;
  const corrected = payload.corrected_for ?? score.corrected_for ?? 0;
  const line = worded("p", help ?? (k ? "score_help" : "score_only"), { score: name, k }, { class: "lead" });
  const rest = [
    column ? worded("span", "score_of", { column }) : null,
    score.lower_is_better ? worded("span", "lower_better") : null,
    Number.isFinite(chance) ? worded("span", "chance_said", { chance: () => showScore(chance, score) }) : null,
    payload.minimal_gain ? given("span", payload.minimal_gain) : null,
    corrected > 1 ? worded("span", "corrected", { n: corrected }) : null,
  ].filter(Boolean);
  return make("div", {}, line, make("p", { class: "quiet" }, rest.map((part) => [part, " "])));
}

// Which two spaces are seen first: the winner on the right, the reference on the left.
function firstSpaces(payload) {
  const lines = payload.leaderboard ?? [];
  const indexOf = (test) => lines.find((line) => test(line) && Number.isInteger(line.space))?.space;
  const right = indexOf((line) => line.name === payload.winner) ?? indexOf(() => true) ?? 0;
  const left = indexOf((line) => line.verdict === "reference" && line.space !== right);
  return [left ?? (right === 0 ? payload.spaces.length - 1 : 0), right];
}

function buildPictures(points, bench) {
  const part = section("pictures", "pictures");
  if (points.n < points.of) part.append(worded("p", "sampled", { n: points.n, of: points.of }, { class: "notice" }));
  part.append(worded("p", "pictures_help", {}, { class: "lead" }));
  if (points.aboutData) part.append(given("p", points.aboutData, { class: "quiet" }));
  part.append(bench.element);
  part.append(worded("p", "keys_help", {}, { class: "quiet small" }));
  return part;
}

async function build(payload) {
  const page = document.getElementById("page");
  const points = new Points(payload);
  await points.load();
  const painter = ["canvas", "webgl"].find((kind) => new URLSearchParams(location.search).has(kind)) ?? null;
  const bench = points.n && points.spaces.length ? new Bench(points, payload, painter) : null;
  const show = (space) => {
    if (!bench) return;
    bench.choose(bench.right, space);
    document.getElementById("pictures").scrollIntoView({ behavior: bench.pace() ? "smooth" : "auto" });
  };
  const main = make("main", {}, buildHeader(payload));
  if (payload.leaderboard?.length) {
    main.append(section("leaderboard", "leaderboard", scoreWords(payload), buildLeaderboard(payload, show)));
  }
  if (bench) main.append(buildPictures(points, bench));
  main.append(...(await buildSections(payload)));
  page.append(buildTop(payload, () => bench?.follow()), main, worded("footer", "made_by"));
  if (bench) await bench.start(...firstSpaces(payload));
  return { points, bench, csvCell, left: bench?.left.scatter, right: bench?.right.scatter };
}

async function start() {
  const payload = JSON.parse(document.getElementById("payload").textContent);
  setWords(payload.words);
  setLanguage(payload.lang ?? "en");
  // For tests and for curious readers: everything that is on the page.
  window.nearfold = await build(payload);
  document.documentElement.dataset.ready = "true";
}

// The sentence for this is in the page itself: the words may be what is broken.
start().catch((error) => {
  const broken = document.getElementById("broken");
  broken.hidden = false;
  broken.append(` ${error.message}`);
  throw error;
});
