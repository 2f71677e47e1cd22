// Colours that stay apart for readers with any common colour-vision deficiency, by day and night.
// nearfold.study.colours.py has the same ones.
import { SHAPES } from "./shapes.js";

// Okabe and Ito's, black replaced by what can be seen on dark paper, with a purple and a brown.
const BY_DAY = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7",
  "#56B4E9", "#B8A800", "#5D3A9B", "#7F7F7F", "#7A4A1E"];
const BY_NIGHT = ["#3D9BDC", "#E69F00", "#1DBF93", "#E8702A", "#DB8FBA",
  "#7CC8F5", "#D2C52E", "#A98BE0", "#A6A6A6", "#C08A5A"];
const CIVIDIS = ["#00224e", "#1a386f", "#434e6c", "#61656f", "#7d7c78",
  "#9b9476", "#bcae6c", "#dec958", "#fee838"];
const NO_VALUE = { light: "#c9ccd1", dark: "#4b5058" };

export function parseHex(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

export function categoryColour(index, dark) {
  if (index < 0) return dark ? NO_VALUE.dark : NO_VALUE.light;
  const colours = dark ? BY_NIGHT : BY_DAY;
  return colours[index % colours.length];
}

// Beyond ten classes colours return with another mark.
export function categoryShape(index) {
  return index < 0 ? 0 : Math.floor(index / BY_DAY.length) % SHAPES.length;
}

// The ends that vanish on the paper are left out: dark blue by night, light yellow by day.
export function rampColour(share, dark) {
  if (!(share >= 0)) return parseHex(dark ? NO_VALUE.dark : NO_VALUE.light);
  const at = (dark ? 0.22 + 0.78 * share : 0.94 * share) * (CIVIDIS.length - 1);
  const lower = Math.min(Math.floor(at), CIVIDIS.length - 2);
  const [a, b] = [parseHex(CIVIDIS[lower]), parseHex(CIVIDIS[lower + 1])];
  return a.map((part, i) => Math.round(part + (b[i] - part) * (at - lower)));
}

export function rgb([red, green, blue]) {
  return `rgb(${red}, ${green}, ${blue})`;
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}
