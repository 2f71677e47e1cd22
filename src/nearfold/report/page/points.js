// The rows of the report: their ids, columns and spaces, unpacked when first needed.
import { categoryColour, categoryShape, parseHex, rampColour } from "./colours.js";
import { unpackFloats, unpackIntegers, unpackPlaces, unpackTexts } from "./data.js";
import { Grid } from "./grid.js";
import { make, say, showNumber, spaceWords, tell, wordsOf } from "./text.js";

const USUAL_K = 5;

export class Points {
  constructor(payload) {
    const points = payload.points ?? { n: 0, columns: [] };
    this.n = points.n;
    this.of = points.of ?? points.n;
    this.ids = null;
    this.packedIds = points.ids;
    this.columns = (points.columns ?? []).map((column) => new Column(askedName(column, payload), column));
    this.images = points.images ?? null; // rows that are pictures
    this.aboutData = points.about_data ?? null;
    this.spaces = (payload.spaces ?? []).map((space) => new Space(space));
    this.packedNeighbors = payload.original_neighbors ?? null;
    this.k = (this.packedNeighbors ?? {}).shape?.[1] ?? USUAL_K;
  }

  async load() {
    this.ids = await unpackTexts(this.packedIds);
    for (const column of this.columns) await column.load();
    if (this.packedNeighbors) this.neighborRows = await unpackIntegers(this.packedNeighbors);
    if (this.images) this.pixels = Uint8Array.from(await unpackIntegers(this.images.values));
  }

  // A row that is a picture, so many pixels wide; null where rows are not pictures.
  thumbnail(row, wide) {
    if (!this.pixels) return null;
    const { width, height } = this.images;
    const canvas = make("canvas", { width, height, class: "thumbnail", "aria-hidden": "true" });
    const image = new ImageData(width, height);
    for (let i = 0; i < width * height; i += 1) {
      const grey = this.pixels[row * width * height + i];
      image.data.set([grey, grey, grey, 255], 4 * i);
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    canvas.style.width = `${wide}px`;
    return canvas;
  }

  idOf(row) {
    return this.ids ? this.ids[row] : String(row);
  }

  // The nearest in the original space, or null where they are not in the file.
  originalNeighbors(row) {
    if (!this.neighborRows) return null;
    return listed(this.neighborRows, row, this.k);
  }

  // Everything points can be coloured by: columns first, then what each space says of each row.
  choices() {
    const found = this.columns.map((column, i) => ({ key: `c${i}`, column, group: null }));
    this.spaces.forEach((space, s) => {
      space.perRow.forEach((column, i) => found.push({ key: `s${s}r${i}`, column, group: space }));
      if (space.heldOut) found.push({ key: `s${s}h`, column: space.heldOut, group: space });
    });
    return found;
  }
}

// The column that was asked about is called by its own name, or at least in the reader's language.
function askedName({ name }, payload) {
  if (name !== payload.points.default_color || !["label", "target"].includes(name)) return name;
  return payload.score?.column ?? wordsOf(`role_${name}`);
}

// A column of values to colour by. `name` is a text, or words in both languages.
export class Column {
  constructor(name, { kind = "number", values, categories = [] }) {
    this.name = name;
    this.kind = kind;
    this.packed = values;
    this.decimals = values.decimals ?? null;
    this.digits = values.levels <= 255 ? 3 : 5; // more would be made up
    this.ownCategories = categories;
  }

  async load() {
    if (this.values) return this;
    this.values = await (this.kind === "category" ? unpackIntegers : unpackFloats)(this.packed);
    this.packed = null;
    if (this.kind === "number") [this.low, this.high] = rangeOf(this.values);
    else this.count();
    return this;
  }

  get title() {
    return typeof this.name === "string" ? this.name : say(this.name);
  }

  get categories() {
    return this.ownCategories.map((_, code) => this.categoryOf(code));
  }

  // Held out or not is said in our words; other categories come from the data.
  categoryOf(code) {
    const category = this.ownCategories[code];
    if (category === undefined) return say("no_value");
    return category !== null && typeof category === "object" ? say(category) : String(category);
  }

  count() {
    this.counts = new Array(this.ownCategories.length).fill(0);
    this.missing = 0;
    for (const code of this.values) {
      if (code < 0 || code >= this.counts.length) this.missing += 1;
      else this.counts[code] += 1;
    }
  }

  textOf(row) {
    const value = this.values[row];
    if (this.kind === "category") return this.categoryOf(value);
    if (Number.isNaN(value)) return say("no_value");
    if (this.decimals !== null) return value.toFixed(this.decimals).replace("-", "−");
    return showNumber(Number(value.toPrecision(this.digits)));
  }

  // Red, green, blue, shape of every point.
  look(dark) {
    const look = new Uint8Array(4 * this.values.length);
    const known = new Map();
    const styleOf = (value) => {
      if (this.kind === "number") return [...rampColour((value - this.low) / (this.high - this.low || 1), dark), 0];
      const index = value < this.ownCategories.length ? value : -1;
      return [...parseHex(categoryColour(index, dark)), categoryShape(index)];
    };
    for (let i = 0; i < this.values.length; i += 1) {
      const value = this.values[i];
      if (!known.has(value) && known.size < 70000) known.set(value, styleOf(value));
      look.set(known.get(value) ?? styleOf(value), 4 * i);
    }
    return look;
  }
}

// A space and its pictures: the usual one first, then other views of the same space.
export class Space {
  constructor(space) {
    this.name = space.name;
    this.nDimensions = space.n_dimensions;
    this.quality = space.quality ?? {};
    const usual = { name: space.shown ?? wordsOf("axes_1_2"), xy: space.xy, quality: space.picture_quality };
    this.views = [usual, ...(space.views ?? [])].map(({ name, xy, quality }) => ({ name, packed: xy, quality }));
    // Of a space of two dimensions all of it is in the picture.
    if (!(this.nDimensions > 2)) this.views[0].quality ??= this.quality;
    this.packedNeighbors = space.neighbors ?? null;
    this.perRow = (space.per_row ?? []).map(({ name, values }) => new Column(name, { values }));
    const kinds = [wordsOf("held_out_no"), wordsOf("held_out_yes")];
    this.heldOut = space.held_out
      ? new Column(wordsOf("held_out"), { kind: "category", values: space.held_out, categories: kinds })
      : null;
  }

  // Resolves to one of its views.
  async load(at = 0) {
    const view = this.views[at];
    if (!view.places) {
      const { values, places } = await unpackPlaces(view.packed);
      Object.assign(view, { coordinates: values, places, packed: null });
    }
    if (this.packedNeighbors && !this.neighborRows) {
      this.k = this.packedNeighbors.shape[1];
      this.neighborRows = await unpackIntegers(this.packedNeighbors);
    }
    for (const column of this.perRow) await column.load();
    return view;
  }

  get places() {
    return this.views[0].places;
  }

  tellTitle(element) {
    const name = spaceWords(this.name);
    return this.nDimensions ? tell(element, "space_title", { name, d: this.nDimensions }) : tell(element, name);
  }

  // True: measured in all dimensions of the space; false: on the two that are shown.
  get knowsNeighbors() {
    return Boolean(this.neighborRows);
  }

  neighborsOf(row, k) {
    if (this.neighborRows) return listed(this.neighborRows, row, this.k).slice(0, k);
    this.grid ??= new Grid(this.places);
    return this.grid.neighbors(row, k);
  }
}

function listed(rows, row, k) {
  return [...rows.subarray(row * k, (row + 1) * k)].filter((other) => other >= 0 && other !== row);
}

// The least and the greatest value that there is.
export function rangeOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low > high ? [0, 0] : [low, high];
}
