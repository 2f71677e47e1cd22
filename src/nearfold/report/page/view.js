// Which part of the plane a picture shows. Places are in units where all points lie in -1 to 1.

const MARGIN = 0.92; // of the picture's half-width is filled by the points
const ZOOMS = [0.3, 500];

export class View {
  constructor() {
    this.width = 1;
    this.height = 1;
    this.reset();
  }

  reset() {
    Object.assign(this, { x: 0, y: 0, zoom: 1 });
  }

  // CSS pixels per unit.
  get scale() {
    return (MARGIN * Math.min(this.width, this.height) * this.zoom) / 2;
  }

  toScreen(x, y) {
    return [(x - this.x) * this.scale + this.width / 2, this.height / 2 - (y - this.y) * this.scale];
  }

  toPlace(px, py) {
    return [(px - this.width / 2) / this.scale + this.x, (this.height / 2 - py) / this.scale + this.y];
  }

  set(x, y, zoom) {
    Object.assign(this, { x, y, zoom: Math.min(ZOOMS[1], Math.max(ZOOMS[0], zoom)) });
  }

  pan(dx, dy) {
    this.set(this.x - dx / this.scale, this.y + dy / this.scale, this.zoom);
  }

  // The place under the pointer stays there.
  zoomAt(factor, px, py) {
    const [x, y] = this.toPlace(px, py);
    this.set(this.x, this.y, this.zoom * factor);
    const [nowX, nowY] = this.toPlace(px, py);
    this.set(this.x + x - nowX, this.y + y - nowY, this.zoom);
  }
}
