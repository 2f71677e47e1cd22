// Points by WebGL2: one draw call, two places per point and a mix of them for the morph.
// Same interface as scatter_canvas.js. A context that is lost is built again when it returns.

const VERTEX = `#version 300 es
in vec2 a_from;
in vec2 a_to;
in vec4 a_look;   // red, green, blue, shape / 255
in float a_state; // 0 as it is, 1 faded, 2 selected
uniform float u_mix;
uniform vec2 u_centre;
uniform vec2 u_scale;
uniform float u_radius;
uniform float u_opacity;
uniform float u_selected; // which points this pass draws
uniform vec3 u_background;
out vec4 v_colour;
flat out int v_shape;
out float v_half;
void main() {
  vec2 place = (mix(a_from, a_to, u_mix) - u_centre) * u_scale;
  bool selected = a_state > 1.5;
  bool faded = a_state > 0.5 && !selected;
  bool drawn = selected == (u_selected > 0.5);
  gl_Position = drawn ? vec4(place, 0.0, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  v_half = u_radius * 1.15 + 1.0;
  gl_PointSize = 2.0 * v_half;
  v_shape = int(a_look.a * 255.0 + 0.5);
  vec3 colour = faded ? mix(a_look.rgb, u_background, 0.6) : a_look.rgb;
  v_colour = vec4(colour, faded ? 0.35 * u_opacity : selected ? max(u_opacity, 0.9) : u_opacity);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec4 v_colour;
flat in int v_shape;
in float v_half;
uniform float u_radius;
out vec4 colour;
float edge(vec2 p) {
  vec2 a = abs(p);
  if (v_shape == 0) return length(p) - 1.0;
  if (v_shape == 1) return max(a.x, a.y) - 0.86;
  if (v_shape == 2) return max(0.873 * a.x - 0.488 * (p.y + 1.0), p.y - 0.7);
  if (v_shape == 3) return 0.707 * (a.x + a.y - 1.15);
  if (v_shape == 4) return min(max(a.x - 1.05, a.y - 0.36), max(a.x - 0.36, a.y - 1.05));
  return max(0.873 * a.x - 0.488 * (1.0 - p.y), -p.y - 0.7);
}
void main() {
  vec2 p = (gl_PointCoord * 2.0 - 1.0) * v_half / u_radius;
  float cover = clamp(0.5 - edge(p) * u_radius, 0.0, 1.0);
  float alpha = v_colour.a * cover;
  colour = vec4(v_colour.rgb * alpha, alpha);
}`;

const ATTRIBUTES = { from: 0, to: 1, look: 2, state: 3 };
const UNIFORMS = ["mix", "centre", "scale", "radius", "opacity", "selected", "background"];

let knownSlow = false; // asked once per page

export class WebglPainter {
  // Null when the browser has no WebGL2, or only a slow one and that is not insisted on.
  static create(evenSlow, restored) {
    if (knownSlow && !evenSlow) return null;
    const canvas = document.createElement("canvas");
    const wanted = { alpha: false, antialias: false, depth: false, failIfMajorPerformanceCaveat: !evenSlow };
    const gl = canvas.getContext("webgl2", wanted);
    knownSlow = !gl || isSoftware(gl);
    return gl && (evenSlow || !knownSlow) ? new WebglPainter(canvas, gl, restored) : null;
  }

  constructor(canvas, gl, restored) {
    this.kind = "webgl2";
    this.canvas = canvas;
    this.gl = gl;
    this.arrays = { from: null, to: null, look: null, state: null };
    this.build();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.build();
      restored();
    });
  }

  build() {
    const { gl } = this;
    const program = gl.createProgram();
    for (const [type, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(type);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    for (const [name, place] of Object.entries(ATTRIBUTES)) gl.bindAttribLocation(program, place, `a_${name}`);
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
      throw new Error(gl.getProgramInfoLog(program) || "the shaders did not link");
    }
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.uniforms = {};
    for (const name of UNIFORMS) this.uniforms[name] = gl.getUniformLocation(program, `u_${name}`);
    this.buffers = {};
    for (const name of Object.keys(ATTRIBUTES)) {
      this.buffers[name] = gl.createBuffer();
      if (this.arrays[name]) this.upload(name);
    }
  }

  upload(name) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, this.arrays[name], gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(ATTRIBUTES[name]);
    if (name === "look") gl.vertexAttribPointer(ATTRIBUTES.look, 4, gl.UNSIGNED_BYTE, true, 0, 0);
    else if (name === "state") gl.vertexAttribPointer(ATTRIBUTES.state, 1, gl.UNSIGNED_BYTE, false, 0, 0);
    else gl.vertexAttribPointer(ATTRIBUTES[name], 2, gl.FLOAT, false, 0, 0);
  }

  // What is drawn: `from` and `to` (x, y per point), `look` (r, g, b, shape), `state`.
  set(name, array) {
    this.arrays[name] = array;
    this.upload(name);
  }

  resize(width, height) {
    this.canvas.width = width;
    this.canvas.height = height;
  }

  // scene: mix, x, y, scale (device pixels per unit), radius, opacity, count, background, selecting
  draw(scene) {
    const { gl, uniforms, canvas } = this;
    if (gl.isContextLost()) return;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...scene.background.map((part) => part / 255), 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!scene.count) return;
    gl.uniform1f(uniforms.mix, scene.mix);
    gl.uniform2f(uniforms.centre, scene.x, scene.y);
    gl.uniform2f(uniforms.scale, (2 * scene.scale) / canvas.width, (2 * scene.scale) / canvas.height);
    gl.uniform1f(uniforms.radius, scene.radius);
    gl.uniform1f(uniforms.opacity, scene.opacity);
    gl.uniform3f(uniforms.background, ...scene.background.map((part) => part / 255));
    // Selected points go on top: a second pass, only when there are any.
    for (let pass = 0; pass <= (scene.selecting ? 1 : 0); pass += 1) {
      gl.uniform1f(uniforms.selected, pass);
      gl.drawArrays(gl.POINTS, 0, scene.count);
    }
  }

  destroy() {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

// A program that plays the graphics card takes four times as long as our own canvas does.
function isSoftware(gl) {
  let name = gl.getParameter(gl.RENDERER);
  const details = name === "WebKit WebGL" ? gl.getExtension("WEBGL_debug_renderer_info") : null;
  if (details) name = gl.getParameter(details.UNMASKED_RENDERER_WEBGL);
  return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}
