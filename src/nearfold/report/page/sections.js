// The parts of the report below the pictures. A part that has no data is left out.
import { barList, heatMap, lineChart, screeChart, shepardChart } from "./charts.js";
import { unpackFloats } from "./data.js";
import { given, label, make, onLanguage, say, showNumber, showShare, spaceWords, tell, worded, wordsOf } from "./text.js";

const SHORT = new Set(["curves", "scree", "shepard", "confusion", "weights", "graph"]); // two stand side by side
const MOST_BARS = 20;

const isThere = (part) => Boolean(part) && (!Array.isArray(part) || part.length > 0);

export function section(id, title, ...children) {
  const head = worded("h2", title, {}, { id: `${id}-title` });
  return make("section", { id, "aria-labelledby": head.id }, head, children);
}

// All parts that the payload has something for, in order.
export async function buildSections(payload) {
  const lead = (words) => worded("p", words, {}, { class: "lead" });
  const cards = (list, card) => make("div", { class: "cards" }, list.map(card));
  const builders = {
    curves: (curves) => cards(curves, (curve) => curveCard(curve, payload.score?.is_share)),
    scree: (screes) => cards(screes, screeCard),
    shepard: async (parts) => [lead("shepard_help"), await shepardPart(parts)],
    confusion: (parts) => [lead("confusion_help"), confusionPart(parts)],
    weights: weightsPart,
    graph: graphPart,
    schema: schemaPart,
    manifest: (manifest) => [payload.command ? commandPart(payload.command) : null, manifestPart(manifest)],
  };
  const built = [];
  for (const [id, build] of Object.entries(builders)) {
    if (isThere(payload[id])) built.push(section(id, id, await build(payload[id])));
  }
  const halves = make("div", { class: "halves" }, built.filter((part) => SHORT.has(part.id)));
  return [halves, ...built.filter((part) => !SHORT.has(part.id))];
}

function curveCard(curve, isShare) {
  const reason = curve.reason ? worded("p", curve.reason) : null;
  const chart = make("div", {}, lineChart(curve, isShare));
  onLanguage(() => chart.replaceChildren(lineChart(curve, isShare))); // ticks are written differently
  return make("article", { class: "card" }, worded("h3", curve.title), chart, reason);
}

function screeCard(scree) {
  const reason = scree.reason ? worded("p", scree.reason) : null;
  const chart = make("div", {}, screeChart(scree));
  onLanguage(() => chart.replaceChildren(screeChart(scree)));
  return make("article", { class: "card" }, given("h3", spaceWords(scree.name)), chart, reason);
}

// A select box for the space and what it shows.
function chooser(names, build) {
  const place = make("div", { class: "card" });
  const options = names.map((name, i) => given("option", spaceWords(name), { value: i }));
  const select = make("select", { onchange: () => show() }, options);
  label(select, "choose_space");
  const show = () => place.replaceChildren(...[build(Number(select.value))].flat());
  show();
  onLanguage(show);
  return make("div", { class: "choosing" }, names.length > 1 ? select : null, place);
}

async function shepardPart(parts) {
  const distances = await Promise.all(parts.map(({ original, embedded }) =>
    Promise.all([unpackFloats(original), unpackFloats(embedded)])));
  return chooser(parts.map((part) => part.space), (i) => {
    const { correlation } = parts[i];
    const space = spaceWords(parts[i].space);
    const known = Number.isFinite(correlation);
    const said = known ? say("shepard_said", { space, r: showNumber(correlation, 3) }) : say(space);
    return [make("p", {}, said), shepardChart([...distances[i][0]], [...distances[i][1]])];
  });
}

function confusionPart(parts) {
  return chooser(parts.map((part) => part.space), (i) => {
    const { counts } = parts[i];
    const space = spaceWords(parts[i].space);
    const all = counts.flat().reduce((a, b) => a + b, 0);
    const right = counts.reduce((sum, line, j) => sum + line[j], 0);
    const share = showShare(right / (all || 1));
    return [make("p", {}, say("confusion_said", { space, right, all, share })), heatMap(parts[i])];
  });
}

function weightsPart(parts) {
  return chooser(parts.map((part) => part.space), (i) => {
    const { about, columns, weights, low, high } = parts[i];
    const [shown, total] = [Math.min(columns.length, MOST_BARS), parts[i].total ?? columns.length];
    return [
      about ? worded("p", about) : "",
      barList(columns.map(String), weights, MOST_BARS, low && high ? [low, high] : null),
      total > shown ? make("p", { class: "quiet" }, say("shown_of", { n: shown, of: total })) : "",
    ];
  });
}

function graphPart(graph) {
  const lines = (graph.lines ?? []).map((line) => worded("li", line));
  const card = make("div", { class: "card" }, make("ul", { class: "said" }, lines));
  if (graph.sizes?.length > 1) {
    const names = graph.sizes.map((_, i) => String(i + 1));
    card.append(worded("h3", "pieces"), barList(names, graph.sizes, MOST_BARS));
  }
  return card;
}

function schemaPart(schema) {
  const use = schema.some((line) => line.use); // how the column is used: newer reports say
  const cells = (line) => [make("th", { scope: "row" }, line.name),
    make("td", {}, known("role", line.role, { class: `role ${line.role}` })), make("td", {}, known("kind", line.kind)),
    use ? given("td", line.use) : null, given("td", line.reason, { class: "quiet" })];
  const heads = ["column", "role", "kind", ...(use ? ["use"] : []), "why"];
  const table = make("table", { class: "plain-table" },
    make("thead", {}, make("tr", {}, heads.map((key) => worded("th", key, {}, { scope: "col" })))),
    make("tbody", {}, schema.map((line) => make("tr", {}, cells(line)))));
  return make("details", { open: schema.length <= 12 }, worded("summary", "columns_count", { n: schema.length }),
    make("div", { class: "scroll" }, table));
}

// A role or a kind that we have a word for, in the reader's language; others as they are.
function known(group, value, properties = {}) {
  if (typeof value !== "string") return given("span", value);
  return given("span", wordsOf(`${group}_${value.replaceAll(" ", "_")}`, value), properties);
}

function commandPart(command) {
  const code = make("code", {}, command);
  const button = worded("button", "copy", {}, { type: "button", class: "copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(command);
      tell(button, "copied");
    } catch { // not allowed here: select it for the reader's own keys
      getSelection().selectAllChildren(code);
    }
  } });
  return make("div", { class: "command" }, worded("h3", "command"), make("pre", {}, code), button);
}

function manifestPart(manifest) {
  const lines = manifest.map(([name, value]) =>
    make("tr", {}, given("th", name, { scope: "row" }), given("td", value)));
  const table = make("table", { class: "plain-table manifest" }, make("tbody", {}, lines));
  return make("div", { class: "scroll" }, table);
}
