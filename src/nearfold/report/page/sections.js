// The parts of the report below the pictures. A part that has no data is left out.
import { barList, heatMap, lineChart, screeChart, shepardChart } from "./charts.js";
import { unpackFloats } from "./data.js";
import { given, label, make, onLanguage, say, showNumber, worded } from "./text.js";

const SHORT = new Set(["curves", "scree", "shepard", "confusion", "weights", "graph"]); // two stand side by side

const has = (list) => Array.isArray(list) && list.length > 0;

export function section(id, title, ...children) {
  return make("section", { id, class: SHORT.has(id) ? "short" : null, "aria-labelledby": `${id}-title` }, worded("h2", title, {}, { id: `${id}-title` }), children);
}

// All parts that the payload has something for, in order.
export async function buildSections(payload) {
  const parts = [
    has(payload.curves) ? section("curves", "curves", make("div", { class: "cards" }, payload.curves.map(curveCard))) : null,
    has(payload.scree) ? section("scree", "scree", make("div", { class: "cards" }, payload.scree.map(screeCard))) : null,
    has(payload.shepard) ? section("shepard", "shepard", worded("p", "shepard_help", {}, { class: "lead" }), await shepardPart(payload.shepard)) : null,
    has(payload.confusion) ? section("confusion", "confusion", worded("p", "confusion_help", {}, { class: "lead" }), confusionPart(payload.confusion)) : null,
    has(payload.weights) ? section("weights", "weights", weightsPart(payload.weights)) : null,
    payload.graph ? section("graph", "graph", graphPart(payload.graph)) : null,
    has(payload.schema) ? section("schema", "schema", schemaPart(payload.schema)) : null,
    has(payload.manifest) ? section("manifest", "manifest", manifestPart(payload.manifest)) : null,
  ];
  const built = parts.filter((part) => part !== null);
  const halves = make("div", { class: "halves" }, built.filter((part) => SHORT.has(part.id)));
  return [halves, ...built.filter((part) => !SHORT.has(part.id))];
}

function curveCard(curve) {
  return make("article", { class: "card" }, worded("h3", curve.title), lineChart(curve), curve.reason ? worded("p", curve.reason) : null);
}

function screeCard(scree) {
  return make("article", { class: "card" }, make("h3", {}, scree.name), screeChart(scree), scree.reason ? worded("p", scree.reason) : null);
}

// A select box for the space and what it shows.
function chooser(names, build) {
  const place = make("div", { class: "card" });
  const select = make("select", { onchange: () => show() }, names.map((name, i) => make("option", { value: i }, name)));
  label(select, "choose_space");
  const show = () => place.replaceChildren(...[build(Number(select.value))].flat());
  show();
  onLanguage(show);
  return make("div", { class: "choosing" }, names.length > 1 ? select : null, place);
}

async function shepardPart(parts) {
  const distances = await Promise.all(parts.map(async (part) => [await unpackFloats(part.original), await unpackFloats(part.embedded)]));
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
    return [make("p", {}, say("confusion_said", { space, right, all, share: showNumber((100 * right) / (all || 1), 1) })), heatMap(parts[i])];
  });
}

function weightsPart(parts) {
  return chooser(parts.map((part) => part.space), (i) => [parts[i].about ? worded("p", parts[i].about) : "",
    barList(parts[i].columns.map(String), parts[i].weights),
    parts[i].columns.length > 20 ? make("p", { class: "quiet" }, say("and_more", { n: parts[i].columns.length - 20 })) : ""]);
}

function graphPart(graph) {
  const lines = (graph.lines ?? []).map((line) => worded("li", line));
  const sizes = has(graph.sizes) && graph.sizes.length > 1
    ? make("div", {}, worded("h3", "pieces"), barList(graph.sizes.map((_, i) => String(i + 1)), graph.sizes))
    : null;
  return make("div", { class: "card" }, make("ul", { class: "said" }, lines), sizes);
}

function schemaPart(schema) {
  const cells = (line) => [make("th", { scope: "row" }, line.name),
    make("td", {}, roleWord(line.role)), make("td", {}, line.kind ?? ""),
    given("td", line.reason, { class: "quiet" })];
  const table = make("table", { class: "plain-table" },
    make("thead", {}, make("tr", {}, ["column", "role", "kind", "why"].map((key) => worded("th", key, {}, { scope: "col" })))),
    make("tbody", {}, schema.map((line) => make("tr", {}, cells(line)))));
  return make("details", { open: schema.length <= 12 }, worded("summary", "columns_count", { n: schema.length }),
    make("div", { class: "scroll" }, table));
}

// Known roles in the reader's language; others as they are.
function roleWord(role) {
  const known = ["feature", "label", "target", "id", "excluded", "constant", "text"];
  return known.includes(role) ? worded("span", `role_${role}`, {}, { class: `role ${role}` }) : make("span", {}, String(role ?? ""));
}

function manifestPart(manifest) {
  const lines = manifest.map(([name, value]) => make("tr", {}, given("th", name, { scope: "row" }), given("td", value)));
  return make("div", { class: "scroll" }, make("table", { class: "plain-table manifest" }, make("tbody", {}, lines)));
}
