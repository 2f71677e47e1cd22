// What pointers and keys do to a scatter.

const STEP = 40; // pixels an arrow key moves the picture

// For pointing.js.
export function gesturesOf(scatter) {
  return {
    pan: (dx, dy) => scatter.pan(dx, dy),
    zoom: (factor, px, py) => scatter.zoom(factor, px, py),
    lasso: (path, done) => scatter.drawLasso(path, done),
    hover: (px, py) => scatter.emit("hover", scatter.pick(px, py), px, py),
    leave: () => scatter.emit("hover", -1, 0, 0),
    click: (px, py) => scatter.emit("click", scatter.pick(px, py), px, py),
    key: (name) => pressKey(scatter, name),
    wantsLasso: (event) => scatter.tool === "lasso" || event.shiftKey,
    wheelHint: () => scatter.emit("wheelhint"),
  };
}

// True if the key means something here.
function pressKey(scatter, name) {
  const actions = {
    ArrowLeft: () => scatter.pan(STEP, 0),
    ArrowRight: () => scatter.pan(-STEP, 0),
    ArrowUp: () => scatter.pan(0, STEP),
    ArrowDown: () => scatter.pan(0, -STEP),
    "+": () => scatter.zoom(1.25),
    "=": () => scatter.zoom(1.25),
    "-": () => scatter.zoom(0.8),
    0: () => scatter.reset(),
    l: () => scatter.setTool(scatter.tool === "lasso" ? "pan" : "lasso"),
    Escape: () => scatter.emit("clear"),
    Enter: () => scatter.pickMiddle(),
  };
  const action = actions[name.length === 1 ? name.toLowerCase() : name];
  action?.();
  return Boolean(action);
}
