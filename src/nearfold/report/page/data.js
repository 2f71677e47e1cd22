// Packed arrays (nearfold/report/packing.py) back into typed arrays.

const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%()*+,-./:;=?@^_{|}~";
const DIGIT_OF = new Uint8Array(128);
for (let i = 0; i < LETTERS.length; i += 1) DIGIT_OF[LETTERS.charCodeAt(i)] = i;

// Base 85: five letters for four bytes; of a last group of r + 1 letters r bytes count.
function readLetters(text) {
  const bytes = new Uint8Array(Math.ceil(text.length / 5) * 4);
  for (let at = 0, out = 0; at < text.length; at += 5, out += 4) {
    let word = 0;
    for (let i = at; i < at + 5; i += 1) word = word * 85 + (i < text.length ? DIGIT_OF[text.charCodeAt(i)] : 84);
    bytes[out] = word / 16777216;
    bytes[out + 1] = word >>> 16;
    bytes[out + 2] = word >>> 8;
    bytes[out + 3] = word;
  }
  return bytes.subarray(0, bytes.length - ((5 - (text.length % 5)) % 5));
}

async function unpackBytes(text, deflate) {
  const bytes = readLetters(text);
  if (!deflate) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpackCodes(packed) {
  const bytes = await unpackBytes(packed.data, packed.deflate);
  const width = Number(packed.type.slice(1));
  const count = bytes.length / width;
  const codes = new Uint32Array(count);
  for (let part = 0; part < width; part += 1) {
    const [start, step] = packed.planes ? [part * count, 1] : [part, width];
    const factor = 256 ** part;
    for (let i = 0; i < count; i += 1) codes[i] += bytes[start + i * step] * factor;
  }
  return codes;
}

// Whole numbers; -1 where there is no value.
export async function unpackIntegers(packed) {
  const codes = await unpackCodes(packed);
  const values = new Int32Array(codes.length);
  for (let i = 0; i < codes.length; i += 1) values[i] = codes[i] === packed.missing ? -1 : codes[i];
  return values;
}

// Numbers; NaN where there is no value.
export async function unpackFloats(packed) {
  const codes = await unpackCodes(packed);
  const { low, high, levels, missing, decimals } = packed;
  const values = new Float64Array(codes.length);
  for (let i = 0; i < codes.length; i += 1) {
    const column = i % low.length;
    const share = codes[i] / (levels - 1);
    // Two products: high - low may be beyond the largest number.
    const value = low[column] * (1 - share) + high[column] * share;
    if (codes[i] === missing) values[i] = NaN;
    else values[i] = decimals === null ? value : Number(value.toFixed(decimals));
  }
  return values;
}

// Ids: a plain list, or packed.
export async function unpackTexts(texts) {
  if (!texts || Array.isArray(texts)) return texts ?? null;
  if (texts.numbers) return Array.from(await unpackIntegers(texts.numbers), (number) => texts.prefix + number);
  return JSON.parse(new TextDecoder().decode(await unpackBytes(texts.texts, true)));
}

// A picture's points, centred, the longer half-width being 1; points without a place far away.
export async function unpackPlaces(packed) {
  const values = await unpackFloats(packed);
  const low = [Infinity, Infinity];
  const high = [-Infinity, -Infinity];
  for (let i = 0; i < values.length; i += 1) {
    if (values[i] < low[i % 2]) low[i % 2] = values[i];
    if (values[i] > high[i % 2]) high[i % 2] = values[i];
  }
  const middle = [low[0] / 2 + high[0] / 2, low[1] / 2 + high[1] / 2];
  const half = Math.max(high[0] / 2 - low[0] / 2, high[1] / 2 - low[1] / 2) || 1;
  const places = new Float32Array(values.length);
  for (let i = 0; i < values.length; i += 2) {
    const known = Number.isFinite(values[i]) && Number.isFinite(values[i + 1]);
    places[i] = known ? (values[i] - middle[0]) / half : 1e6;
    places[i + 1] = known ? (values[i + 1] - middle[1]) / half : 1e6;
  }
  return { values, places };
}
