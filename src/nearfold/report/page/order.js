// The order in which points are drawn.

// Values (`width` per point) in another order.
export function gather(values, order, width, Kind) {
  const gathered = new Kind(values.length);
  for (let i = 0; i < order.length; i += 1) {
    for (let part = 0; part < width; part += 1) gathered[width * i + part] = values[width * order[i] + part];
  }
  return gathered;
}

// The same order each time: no class covers all others, and any first part is a fair sample.
export function shuffled(n) {
  const order = Uint32Array.from({ length: n }, (_, i) => i);
  let state = 12345;
  for (let i = n - 1; i > 0; i -= 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 4294967296) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}
