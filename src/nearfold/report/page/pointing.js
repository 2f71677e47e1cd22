// What hands do to a picture: drag, pinch, wheel, keys. It knows places on the element, no data.

const CLICK_REACH = 4; // pixels a hand may shake during a click

// target: pan(dx, dy), zoom(factor, x, y), lasso(path, done), hover(x, y), leave(), click(x, y),
// key(name) → true if it was used, wantsLasso(event), wheelHint()
export class Pointing {
  constructor(element, target) {
    this.element = element;
    this.target = target;
    this.pointers = new Map();
    this.path = null;
    const on = (name, handle, options) => element.addEventListener(name, handle.bind(this), options);
    on("pointerdown", this.down);
    on("pointermove", this.move);
    on("pointerup", this.up);
    on("pointercancel", this.cancel);
    on("pointerleave", () => target.leave());
    on("wheel", this.wheel, { passive: false });
    on("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.key(event.key)) event.preventDefault();
    });
  }

  place(event) {
    const box = this.element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.button !== 0) return;
    this.element.setPointerCapture(event.pointerId);
    const place = this.place(event);
    this.pointers.set(event.pointerId, place);
    this.start = place;
    this.moved = this.pointers.size > 1;
    this.path = this.pointers.size === 1 && this.target.wantsLasso(event) ? [place] : null;
  }

  move(event) {
    const place = this.place(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.target.hover(...place);
      return;
    }
    if (Math.hypot(place[0] - this.start[0], place[1] - this.start[1]) > CLICK_REACH) this.moved = true;
    if (this.path) {
      this.path.push(place);
      this.target.lasso(this.path, false);
      return;
    }
    if (!this.moved) return;
    if (this.pointers.size === 2) this.pinch(event.pointerId, before, place);
    else this.target.pan(place[0] - before[0], place[1] - before[1]);
    this.pointers.set(event.pointerId, place);
  }

  pinch(id, before, place) {
    const [, other] = [...this.pointers].find(([key]) => key !== id);
    const apart = (a) => Math.max(1, Math.hypot(a[0] - other[0], a[1] - other[1]));
    this.target.zoom(apart(place) / apart(before), (place[0] + other[0]) / 2, (place[1] + other[1]) / 2);
  }

  up(event) {
    if (!this.pointers.delete(event.pointerId)) return;
    const path = this.path;
    this.path = null;
    if (path && this.moved) this.target.lasso(path, true);
    else if (!this.moved) this.target.click(...this.place(event));
  }

  cancel(event) {
    this.pointers.delete(event.pointerId);
    if (this.path) this.target.lasso([], false);
    this.path = null;
  }

  // The wheel scrolls the page past a picture, and zooms one that has been chosen.
  wheel(event) {
    const chosen = document.activeElement === this.element;
    if (!chosen && !event.ctrlKey && !event.metaKey) {
      this.target.wheelHint();
      return;
    }
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    this.target.zoom(Math.exp(-0.002 * lines * event.deltaY), ...this.place(event));
  }
}
