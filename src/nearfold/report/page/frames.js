// When to draw, and how much: only after a change, and while things move only as many points as
// this machine draws smoothly. When they rest, all of them.

const REST = 140; // ms without a movement until everything is drawn again
const SLOW = 26; // ms per frame from which fewer points are drawn
const FAST = 18; // ms per frame up to which more are tried
const FEWEST = 6000;

export class Frames {
  // paint(count): draw so many points; travel(now): called first, while it returns true things move
  constructor(paint, travel) {
    this.paint = paint;
    this.travel = travel;
    this.share = 1; // of the points drawn while things move
    this.movedAt = -Infinity;
    this.total = 0;
  }

  redraw() {
    this.waiting ??= requestAnimationFrame((now) => this.frame(now));
  }

  // Something moves.
  stir() {
    this.stirred = true;
    this.movedAt = performance.now();
    this.redraw();
  }

  frame(now) {
    this.waiting = null;
    if (this.travel(now)) this.stir();
    const moving = this.stirred || now - this.movedAt < REST; // a slow frame may itself outlast REST
    this.stirred = false;
    if (moving && this.lastFrame) this.adapt(now - this.lastFrame);
    this.lastFrame = moving ? now : null;
    const count = moving ? Math.max(Math.min(FEWEST, this.total), Math.ceil(this.share * this.total)) : this.total;
    this.paint(count);
    clearTimeout(this.resting);
    if (count < this.total) this.resting = setTimeout(() => this.redraw(), REST + 20);
  }

  adapt(elapsed) {
    if (elapsed > SLOW) this.share *= 0.95 * Math.max(0.4, SLOW / elapsed);
    else if (elapsed < FAST) this.share *= 1.04;
    this.share = Math.min(1, Math.max(FEWEST / Math.max(this.total, FEWEST), this.share));
  }

  stop() {
    cancelAnimationFrame(this.waiting);
    clearTimeout(this.resting);
  }
}
