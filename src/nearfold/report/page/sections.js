// The parts of the report below the pictures. A part that has no data is left out.
import { barList, heatMap, lineChart, screeChart, shepardChart } from "./charts.js";
import { unpackFloats } from "./data.js";
import { given, label, make, onLanguage, say, showNumber, worded } from "./text.js";

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
    curves: (curves) => cards(curves, curveCard),
    scree: (screes) => cards(screes, screeCard),
    shepard: async (parts) => [lead("shepard_help"), await shepardPart(parts)],
    confusion: (parts) => [lead("confusion_help"), confusionPart(parts)],
    weights: weightsPart,
    graph: graphPart,
    schema: schemaPart,
    manifest: manifestPart,
  };
  const built = [];
  for (const [id, build] of Object.entries(builders)) {
    if (isThere(payload[id])) built.push(section(id, id, await build(payload[id])));
  }
  const halves = make("div", { class: "halves" }, built.filter((part) => SHORT.has(part.id)));
  return [halves, ...built.filter((part) => !SHORT.has(part.id))];
}

function curveCard(curve) {
  const reason = curve.reason ? worded("p", curve.reason) : null;
  return make("article", { class: "card" }, worded("h3", curve.title), lineChart(curve), reason);
}

function screeCard(scree) {
  const reason = scree.reason ? worded("p", scree.reason) : null;
  return make("article", { class: "card" }, make("h3", {}, scree.name), screeChart(scree), reason);
}

// A select box for the space and what it shows.
function chooser(names, build) {
  const place = make("div", { class: "card" });
  const options = names.map((name, i) => make("option", { value: i }, name));
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
    const { space, correlation } = parts[i];
    const said = Number.isFinite(correlation) ? say("shepard_said", { space, r: showNumber(correlation, 3) }) : space;
    return [make("p", {}, said), shepardChart([...distances[i][0]], [...distances[i][1]])];
  });
}

function confusionPart(parts) {
  return chooser(parts.map((part) => part.space), (i) => {
    const { counts, space } = parts[i];
    const all = counts.flat().reduce((a, b) => a + b, 0);
    const right = counts.reduce((sum, line, j) => sum + line[j], 0);
    const share = showNumber((100 * right) / (all || 1), 1);
    return [make("p", {}, say("confusion_said", { space, right, all, share })), heatMap(parts[i])];
  });
}

function weightsPart(parts) {
  return chooser(parts.map((part) => part.space), (i) => {
    const { about, columns, weights } = parts[i];
    const rest = columns.length - MOST_BARS;
    return [
      about ? worded("p", about) : "",
      barList(columns.map(String), weights, MOST_BARS),
      rest > 0 ? make("p", { class: "quiet" }, say("and_more", { n: rest })) : "",
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
  const cells = (line) => [make("th", { scope: "row" }, line.name),
    make("td", {}, roleWord(line.role)), make("td", {}, line.kind ?? ""),
    given("td", line.reason, { class: "quiet" })];
  const heads = ["column", "role", "kind", "why"].map((key) => worded("th", key, {}, { scope: "col" }));
  const table = make("table", { class: "plain-table" },
    make("thead", {}, make("tr", {}, heads)),
    make("tbody", {}, schema.map((line) => make("tr", {}, cells(line)))));
  return make("details", { open: schema.length <= 12 }, worded("summary", "columns_count", { n: schema.length }),
    make("div", { class: "scroll" }, table));
}

// Known roles in the reader's language; others as they are.
function roleWord(role) {
  const known = ["feature", "label", "target", "id", "excluded", "constant", "text"];
  if (!known.includes(role)) return given("span", role);
  return worded("span", `role_${role}`, {}, { class: `role ${role}` });
}

function manifestPart(manifest) {
  const lines = manifest.map(([name, value]) =>
    make("tr", {}, given("th", name, { scope: "row" }), given("td", value)));
  const table = make("table", { class: "plain-table manifest" }, make("tbody", {}, lines));
  return make("div", { class: "scroll" }, table);
}
