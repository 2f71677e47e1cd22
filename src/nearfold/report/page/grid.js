// Points in square cells: who is under the pointer, who is nearest, who is inside a lasso.

const FAR = 1e5; // points without a place are put beyond this and never found

export class Grid {
  // xy: x0, y0, x1, y1, ...
  constructor(xy) {
    this.xy = xy;
    const n = xy.length / 2;
    let [left, low, right, high] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < n; i += 1) {
      const x = xy[2 * i];
      if (Math.abs(x) > FAR) continue;
      const y = xy[2 * i + 1];
      if (x < left) left = x;
      if (x > right) right = x;
      if (y < low) low = y;
      if (y > high) high = y;
    }
    if (left > right) [left, low, right, high] = [0, 0, 0, 0];
    const width = Math.max(right - left, 1e-9);
    const height = Math.max(high - low, 1e-9);
    this.cell = Math.max(Math.sqrt((width * height) / Math.max(n / 2, 1)), Math.max(width, height) / 1000);
    this.left = left;
    this.low = low;
    this.columns = Math.floor(width / this.cell) + 1;
    this.lines = Math.floor(height / this.cell) + 1;
    this.sortIntoCells(n);
  }

  sortIntoCells(n) {
    const cellOf = new Int32Array(n);
    this.first = new Uint32Array(this.columns * this.lines + 1);
    for (let i = 0; i < n; i += 1) {
      const far = Math.abs(this.xy[2 * i]) > FAR;
      cellOf[i] = far ? -1 : this.lineOf(this.xy[2 * i + 1]) * this.columns + this.columnOf(this.xy[2 * i]);
      if (!far) this.first[cellOf[i] + 1] += 1;
    }
    for (let c = 0; c < this.first.length - 1; c += 1) this.first[c + 1] += this.first[c];
    const next = this.first.slice(0, -1);
    this.rows = new Uint32Array(this.first[this.first.length - 1]);
    for (let i = 0; i < n; i += 1) if (cellOf[i] >= 0) this.rows[next[cellOf[i]]++] = i;
  }

  columnOf(x) {
    return Math.min(this.columns - 1, Math.max(0, Math.floor((x - this.left) / this.cell)));
  }

  lineOf(y) {
    return Math.min(this.lines - 1, Math.max(0, Math.floor((y - this.low) / this.cell)));
  }

  // Call visit(row) for every point in the cells that touch a box.
  visit(left, low, right, high, visit) {
    const [c0, c1] = [this.columnOf(left), this.columnOf(right)];
    for (let line = this.lineOf(low); line <= this.lineOf(high); line += 1) {
      const start = line * this.columns;
      for (let at = this.first[start + c0]; at < this.first[start + c1 + 1]; at += 1) visit(this.rows[at]);
    }
  }

  // The nearest point within a radius, or -1.
  nearest(x, y, radius) {
    let best = -1;
    let least = radius * radius;
    this.visit(x - radius, y - radius, x + radius, y + radius, (row) => {
      const dx = this.xy[2 * row] - x;
      const dy = this.xy[2 * row + 1] - y;
      const square = dx * dx + dy * dy;
      if (square < least || (square === least && (best < 0 || row < best))) [best, least] = [row, square];
    });
    return best;
  }

  // The k points nearest to a point, itself left out, nearest first; ties by row.
  neighbors(row, k) {
    const [x, y] = [this.xy[2 * row], this.xy[2 * row + 1]];
    if (Math.abs(x) > FAR) return [];
    const all = Math.max(this.columns, this.lines) * this.cell;
    for (let reach = 1.5 * this.cell; ; reach *= 2) {
      const found = [];
      this.visit(x - reach, y - reach, x + reach, y + reach, (other) => {
        if (other === row) return;
        const square = (this.xy[2 * other] - x) ** 2 + (this.xy[2 * other + 1] - y) ** 2;
        if (square <= reach * reach || reach > all) found.push([square, other]);
      });
      if (found.length >= k || reach > all) {
        found.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
        return found.slice(0, k).map((pair) => pair[1]);
      }
    }
  }

  // Rows inside a closed polygon [[x, y], ...], by the even-odd rule, in order.
  inside(polygon) {
    const xs = polygon.map((p) => p[0]);
    const ys = polygon.map((p) => p[1]);
    const found = [];
    if (polygon.length < 3) return found;
    this.visit(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys), (row) => {
      if (isInside(polygon, this.xy[2 * row], this.xy[2 * row + 1])) found.push(row);
    });
    return found.sort((a, b) => a - b);
  }
}

function isInside(polygon, x, y) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i, i += 1) {
    const [xi, yi] = polygon[i];
    const [xj, yj] = polygon[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}
