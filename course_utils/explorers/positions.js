// Sinusoidal positions: pair i of PE(p) is sin and cos of p ω_i. Left: all vectors as a heat map. Middle: the dot product
// of two of them against their distance. Right: one pair as an arrow, at p and at p + k, turned by k ω_i.

const WIDTHS = [4, 64]; // smallest and largest D
const PLACES = 64; // p is one of 0 … 63
const FARTHEST = 64; // distance k
const ROWS = PLACES + FARTHEST;
const SETTINGS = ["p", "k", "D", "pair"];
const MUTED = [118, 118, 118]; // of -1
const STATE = [142, 91, 181]; // of 1

/** Everything the picture shows, from the model's traits. Python's compute() gives the same numbers. */
function compute(model) {
  const [p, k, D] = SETTINGS.map((name) => model.get(name));
  const pair = Math.min(model.get("pair"), D / 2 - 1);
  const frequency = (i) => 10000 ** ((-2 * i) / D);
  const vector = (place) => steps(0, D - 1, 1).map((j) => (j % 2 ? Math.cos : Math.sin)(place * frequency(Math.floor(j / 2))));
  const table = steps(0, ROWS - 1, 1).map(vector);
  const dot = (a, b) => table[a].reduce((sum, value, j) => sum + value * table[b][j], 0);
  const dots = steps(0, FARTHEST, 1).map((distance) => dot(p, p + distance));
  const omega = frequency(pair);
  const angle = k * omega;
  const ofPair = (place) => table[place].slice(2 * pair, 2 * pair + 2);
  return {
    p, k, q: p + k, D, table, dots, dot: dots[k], at_zero: dot(0, k), pair, omega, angle,
    before: ofPair(p), after: ofPair(p + k),
    rotation: [[Math.cos(angle), Math.sin(angle)], [-Math.sin(angle), Math.cos(angle)]],
  };
}

// ---- Words ------------------------------------------------------------------------------------------------------

/** A number with two decimals, never minus zero. */
const plain = (value) => fixed(Math.abs(value) < 0.005 ? 0 : value, 2);
const vectorText = ([sine, cosine]) => `(${plain(sine)}, ${plain(cosine)})`;
const degreesOf = (angle) => (angle * 180) / Math.PI;

function finding({ k, D, dot }) {
  return `At distance ${k} the dot product is ${k ? plain(dot) : `D/2 = ${D / 2}`}, at every place`;
}

/** The angle in degrees; beyond a turn, what is left of it, too. */
function angleText({ angle }) {
  const degrees = degreesOf(angle);
  return `${degrees.toFixed(1)}\u00b0${degrees >= 360 ? `, which is ${(degrees % 360).toFixed(1)}\u00b0 after full turns` : ""}`;
}

const dotText = ({ p, k, q, dot, at_zero }) => `PE(${p}) \u00b7 PE(${q}) = ${plain(dot)}, PE(0) \u00b7 PE(${k}) = ${plain(at_zero)}`;
const turnText = (result) => `Pair ${result.pair} turns by ${angleText(result)}`;

function describe(result) {
  const { p, q, D, before, after } = result;
  return (
    `${finding(result)}. ${dotText(result)}. ${turnText(result)}, from ${vectorText(before)} at place ${p} to ` +
    `${vectorText(after)} at place ${q}. Left: the ${D} numbers of ${ROWS} places as a heat map. ` +
    "Middle: the dot product against the distance. Right: the pair as two arrows on a circle."
  );
}

/** The block of R_k that turns (sin, cos) of the pair, with its numbers. */
function rotationText({ p, q, rotation: [[cos, sin]], before, after }) {
  const numbers = [[cos, sin], [-sin, cos]].map((row) => row.map(plain).join(", ")).join("; ");
  return `(sin, cos) at place ${q} = [${numbers}] \u00b7 (sin, cos) at place ${p}: ${vectorText(after)} from ${vectorText(before)}`;
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

/** The table as an image, a pixel a number; the last one is kept, since it depends on D alone. */
function mapOf(view, { table, D }) {
  if (view.map?.D === D) return view.map.url;
  const canvas = Object.assign(document.createElement("canvas"), { width: D, height: ROWS });
  const pixels = new ImageData(D, ROWS);
  table.flat().forEach((value, n) => {
    pixels.data.set([...(value < 0 ? MUTED : STATE), Math.round(255 * Math.abs(value))], 4 * n);
  });
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  view.map = { D, url: canvas.toDataURL() };
  return view.map.url;
}

function mapPanel(view, result, panel) {
  const { D, p, q, pair } = result;
  const { left, top, width, height } = panel;
  const x = linearScale([0, D], [0, width]);
  const y = linearScale([0, ROWS], [0, height]);
  const mark = (place, color) => svg("line", { class: "place", style: `stroke: ${color}; stroke-width: 4`, x1: -2, x2: width, y1: y(place + 0.5), y2: y(place + 0.5) });
  return svg(
    "g", {},
    axes(
      panel,
      { scale: x, ticks: [0, D / 2, D], format: String, label: "number" },
      { scale: y, ticks: steps(0, ROWS, 32), format: String, label: "PE at each place (gray \u22121, purple 1)" },
    ),
    svg("image", { href: mapOf(view, result), x: left, y: top, width, height, preserveAspectRatio: "none", style: "image-rendering: pixelated" }),
    clipped(
      panel, mark(p, COLORS.query), mark(q, COLORS.key),
      svg("rect", { class: "pair", x: x(2 * pair), y: 1, width: x(2), height: height - 2, fill: "none", style: "stroke: var(--text); stroke-width: 2" }),
    ),
  );
}

function dotPanel({ dots: values, k, D }, panel) {
  const x = linearScale([0, FARTHEST], [0, panel.width]);
  const low = Math.min(0, ...values);
  const y = linearScale([low, D / 2], [panel.height - 4, 6]);
  const step = niceStep(D / 2 - low, 4);
  const ticks = steps(Math.ceil(low / step), Math.floor(D / 2 / step), 1).map((count) => count * step);
  return svg(
    "g", {},
    axes(
      panel,
      { scale: x, ticks: steps(0, FARTHEST, 16), format: String, label: "distance k" },
      { scale: y, ticks, format: (value) => fixed(value + 0), label: "PE(p) \u00b7 PE(p + k)" },
    ),
    clipped(
      panel,
      line(values.map((value, distance) => [x(distance), y(value)]), { class: "dots", style: "stroke: var(--text); stroke-width: 3" }),
      svg("line", { class: "radius", x1: x(k), x2: x(k), y1: y(low), y2: y(values[k]) }),
      svg("circle", { class: "here", cx: x(k), cy: y(values[k]), r: 8, fill: COLORS.key, style: "stroke: var(--text)" }),
    ),
  );
}

function circlePanel(result, { left, top, width, height, font }) {
  const { p, q, pair, angle, before, after } = result;
  const radius = Math.min(width - 3 * font, height) / 2 - 8;
  const [cx, cy] = [left + radius + 8, top + height / 2];
  const at = ([sine, cosine], length = radius) => [cx + length * cosine, cy - length * sine];
  const arrow = (vector, color, name) => {
    const [x, y] = at(vector);
    return svg(
      "g", {}, svg("line", { class: name, style: `stroke: ${color}; stroke-width: 4`, x1: cx, y1: cy, x2: x, y2: y }),
      svg("circle", { cx: x, cy: y, r: 7, fill: color }),
    );
  };
  const start = Math.atan2(before[0], before[1]);
  const turned = Math.min(angle, 2 * Math.PI);
  const sweep = steps(0, 60, 1).map((n) => start + (turned * n) / 60).map((a) => at([Math.sin(a), Math.cos(a)], 0.35 * radius));
  const key = (color, words, n) => svg(
    "g", {}, svg("line", { style: `stroke: ${color}; stroke-width: 4`, x1: left, x2: left + 22, y1: top + height + 16 + 22 * n, y2: top + height + 16 + 22 * n }),
    text(left + 28, top + height + 21 + 22 * n, words),
  );
  return svg(
    "g", {},
    text(left, top - 14, `pair ${pair}: turned by ${degreesOf(angle).toFixed(1)}\u00b0`, { class: "strong" }),
    svg("circle", { class: "radius", cx, cy, r: radius, fill: "none" }),
    svg("line", { class: "grid", x1: cx - radius, x2: cx + radius, y1: cy, y2: cy }),
    svg("line", { class: "grid", x1: cx, x2: cx, y1: cy - radius, y2: cy + radius }),
    text(cx + radius + 10, cy + 5, "cos"),
    line(sweep, { class: "turn", style: "stroke: var(--text); stroke-width: 2.5" }),
    arrow(before, COLORS.query, "before"), arrow(after, COLORS.key, "after"),
    key(COLORS.query, `at p = ${p}`, 0), key(COLORS.key, `at q = p + k = ${q}`, 1),
  );
}

/** Three panels side by side, or below each other where there is no room. */
function layout(width) {
  const font = width < 1000 ? 15 : 17;
  const wide = width >= 1000;
  const margin = 2.6 * font;
  const top = 2.2 * font;
  const height = wide ? 215 : 190;
  const row = top + height + 52;
  const panel = (n, from, to) => ({
    font, margin, height, left: (wide ? from * width : 0) + margin, top: top + (wide ? 0 : n * row),
    width: (wide ? (to - from) * width : width) - margin - 14,
  });
  return { font, height: wide ? row : 3 * row, panels: [panel(0, 0, 0.38), panel(1, 0.38, 0.72), panel(2, 0.72, 1)] };
}

function drawPicture(view, result, width) {
  const { font, height, panels } = layout(width);
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  return svg("svg", attributes, mapPanel(view, result, panels[0]), dotPanel(result, panels[1]), circlePanel(result, panels[2]));
}

/** A slider over the pairs that there are with this D. */
function pairSlider(view) {
  const format = () => { const { pair, omega } = compute(view.model); return `${pair}, \u03c9 = ${omega.toPrecision(2)}`; };
  const control = slider(view, "pair", { label: "pair i", min: 0, max: WIDTHS[1] / 2 - 1, step: 1, format });
  const input = control.querySelector("input");
  follow(view, "D", () => {
    input.max = view.model.get("D") / 2 - 1;
    input.value = compute(view.model).pair;
    control.querySelector("output").textContent = format();
    input.setAttribute("aria-valuetext", format());
  });
  return control;
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const title = html("p", { class: "finding" });
  const why = html("p");
  const picture = html("div", { class: "picture" });
  const live = html("p", { class: "numbers", "aria-live": "polite" });
  const controls = html(
    "div", { class: "controls" },
    slider(view, "p", { label: "place p", min: 0, max: PLACES - 1, step: 1 }),
    slider(view, "k", { label: "distance k", min: 0, max: FARTHEST, step: 1 }),
    slider(view, "D", { label: "width D", min: WIDTHS[0], max: WIDTHS[1], step: 2 }),
    pairSlider(view),
  );
  const tries = html(
    "div", { class: "tries", role: "group", "aria-label": "things to try" },
    html("span", {}, "Things to try:"),
    preset(view, "same place", { k: 0 }),
    preset(view, "fastest pair", { pair: 0 }),
    preset(view, "slowest pair", { pair: WIDTHS[1] / 2 - 1 }),
    html("span", { class: "hint" }, "then move p alone: what changes, and what doesn't?"),
  );
  el.classList.add("explorer");
  el.replaceChildren(controls, tries, title, why, picture, live);
  redraw(view, picture, SETTINGS, (width) => {
    const result = compute(model);
    title.textContent = finding(result);
    why.textContent = `${dotText(result)}: the same. ${turnText(result)}.`;
    picture.replaceChildren(drawPicture(view, result, width));
    live.textContent = rotationText(result);
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
