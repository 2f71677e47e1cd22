// Words and elements. Everything that comes from the data becomes text, never markup.

let language = "en";
let catalogues = { en: {}, zh: {} }; // language → key → template, from nearfold/messages
const told = new WeakMap(); // element → attribute ("" is its text) → what was told
const listeners = [];

export function getLanguage() {
  return language;
}

export function setWords(words) {
  catalogues = words;
}

// One of our words, or the name of a space, in both languages, to be told as Python's texts are.
export function wordsOf(key, otherwise) {
  return { en: catalogues.en[key] ?? otherwise, zh: catalogues.zh[key] ?? otherwise };
}

// Methods have a Chinese name; a space of the reader's own is called what it is called.
export function spaceWords(name) {
  return wordsOf(`method.${name}`, name);
}

// Say everything again that is on the page, in another language.
export function setLanguage(wanted) {
  language = wanted in catalogues ? wanted : "en";
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  for (const element of document.querySelectorAll("[data-told]")) {
    for (const [attribute, [thing, values]] of told.get(element)) put(element, attribute, thing, values);
  }
  for (const listener of listeners) listener();
}

export function onLanguage(listener) {
  listeners.push(listener);
}

// A key of the catalogue, or a text in both languages as it comes from Python ({en, zh}).
// {name} stands for a value, {n|row|rows} for one of two words by the number n. A value that is
// written differently in each language may be a function.
export function say(thing, values = {}) {
  if (thing === null || thing === undefined) return "";
  const text = typeof thing === "string" ? catalogues[language][thing] : thing[language] ?? thing.en;
  if (text === undefined) throw new Error(`no words for ${JSON.stringify(thing)}`);
  return String(text).replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (whole, name, one, many) => {
    const value = typeof values[name] === "function" ? values[name]() : values[name];
    if (value === undefined) return typeof thing === "string" ? "" : whole;
    if (one !== undefined) return Number(value) === 1 ? one : many;
    if (value !== null && typeof value === "object") return say(value);
    return typeof value === "number" ? showNumber(value) : String(value ?? "");
  });
}

function put(element, attribute, thing, values) {
  if (attribute) element.setAttribute(attribute, say(thing, values));
  else element.textContent = say(thing, values);
}

export function tell(element, thing, values = {}, attribute = "") {
  if (!told.has(element)) told.set(element, new Map());
  element.dataset.told = "";
  told.get(element).set(attribute, [thing, values]);
  put(element, attribute, thing, values);
  return element;
}

// A name for the eye (title) and for screen readers alike.
export function label(element, thing, values = {}) {
  tell(element, thing, values, "aria-label");
  return tell(element, thing, values, "title");
}

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

export function make(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function draw(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

// An element whose text is ours.
export function worded(tag, thing, values = {}, properties = {}) {
  return tell(make(tag, properties), thing, values);
}

// An element whose text comes from Python: plain, or in both languages.
export function given(tag, text, properties = {}) {
  if (text !== null && typeof text === "object") return worded(tag, text, {}, properties);
  return make(tag, properties, String(text ?? ""));
}

export function showNumber(value, digits = null) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (digits !== null) return value.toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1").replace("-", "−");
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US").replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(3) : String(Number(value.toPrecision(5)));
  return text.replace("-", "−");
}

// A share of 1 as a percentage; `digits` of it.
export function showShare(share, digits = 1) {
  return say("percent", { n: showNumber(100 * share, digits) });
}

// A score as it is written everywhere: a share as a percentage, others with three decimals.
export function showScore(value, score) {
  return score?.is_share ? showShare(value) : showNumber(value, 3);
}

export function showSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.095) return say("milliseconds", { n: Math.max(1, Math.round(1000 * seconds)) });
  if (seconds < 100) return say("seconds", { n: seconds.toFixed(1) });
  return say("minutes", { n: (seconds / 60).toFixed(1) });
}

export function showBytes(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const steps = ["B", "KB", "MB", "GB"];
  let step = 0;
  while (bytes >= 1024 && step < 3) {
    bytes /= 1024;
    step += 1;
  }
  return `${bytes.toFixed(step < 2 ? 0 : 1)} ${steps[step]}`;
}
