// Shared by all explorers: elements, numbers as text, scales, axes, marks and controls.
// algebra.js and the explorer's own script are appended to this one, so there is nothing to import or export here.

// Colors of the course that stand out on white and on dark alike; the others are variables in explorer.css.
const COLORS = { query: "#0072B2", key: "#E69F00", value: "#009E73" };

// ---- Elements ---------------------------------------------------------------------------------------------------

function element(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** An HTML element: html("p", {class: "numbers"}, "text", otherElement). */
function html(tag, attributes = {}, ...children) {
  return element(document.createElement(tag), attributes, children);
}

/** An SVG element, made the same way. */
function svg(tag, attributes = {}, ...children) {
  return element(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Text at (x, y); content is a string, or a list of strings of which every second one is a subscript. */
function text(x, y, content, attributes = {}) {
  const parts = [content].flat().map((part, i) => svg("tspan", { dy: i ? (i % 2 ? 5 : -5) : null, class: i % 2 ? "sub" : null }, part));
  return svg("text", { x, y, ...attributes }, ...parts);
}

// ---- Numbers as text --------------------------------------------------------------------------------------------

/** A number with a true minus sign. */
function fixed(value, digits = 0) {
  return value.toFixed(digits).replace("-", "\u2212");
}

/** The integer power of ten 10^exponent, written with superscript digits. */
function powerOfTen(exponent) {
  const digits = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
  return "10" + [...String(exponent)].map((c) => (c === "-" ? "\u207b" : digits[+c])).join("");
}

/** A number as 1.2 \u00d7 10\u207b\u00b3, or plainly where that is as short. */
function scientific(value) {
  const [digits, exponent] = value.toExponential(1).split("e");
  return Math.abs(exponent) < 2 ? value.toFixed(2) : `${digits} \u00d7 ${powerOfTen(Number(exponent))}`;
}

// ---- Scales -----------------------------------------------------------------------------------------------------

/** A function from data to pixels, straight from domain[0], domain[1] to range[0], range[1]. */
function linearScale(domain, range) {
  const slope = (range[1] - range[0]) / (domain[1] - domain[0]);
  return Object.assign((value) => range[0] + slope * (value - domain[0]), { domain, range });
}

/** The same for positive data on a logarithmic axis; 0 lies infinitely far away. */
function logScale(domain, range) {
  const scale = linearScale(domain.map(Math.log10), range);
  return Object.assign((value) => scale(Math.log10(value)), { domain, range });
}

/** Steps of 1, 2 or 5 times a power of ten that cut [0, top] into at most `count` parts. */
function niceStep(top, count = 5) {
  const power = 10 ** Math.floor(Math.log10(top / count));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => top / step <= count * (1 + 1e-9));
}

/** Numbers from low to high, `step` apart (both ends included). */
function steps(low, high, step) {
  return Array.from({ length: Math.floor((high - low) / step + 1e-9) + 1 }, (_, i) => low + i * step);
}

// ---- Panels, axes and marks -------------------------------------------------------------------------------------
// A panel is {left, top, width, height, margin}: the rectangle of one plot in the picture, in pixels; its tick labels
// have the margin to its left.

/** Axes of a panel; x and y are {scale, ticks, format, label}. Grid lines follow the ticks of y. */
function axes(panel, x, y) {
  const { left, top, width, height } = panel;
  const group = svg("g", { class: "axes" });
  for (const tick of y.ticks) {
    const at = top + y.scale(tick);
    group.append(
      svg("line", { class: "grid", x1: left, x2: left + width, y1: at, y2: at }),
      text(left - 8, at, y.format(tick), { "text-anchor": "end", "dominant-baseline": "central" }),
    );
  }
  for (const tick of x.ticks) {
    const at = left + x.scale(tick);
    group.append(
      svg("line", { class: "axis", x1: at, x2: at, y1: top + height, y2: top + height + 5 }),
      text(at, top + height + 22, x.format(tick), { "text-anchor": "middle" }),
    );
  }
  group.append(
    svg("line", { class: "axis", x1: left, x2: left + width, y1: top + height, y2: top + height }),
    text(left + width / 2, top + height + 44, x.label, { "text-anchor": "middle" }),
    text(left - panel.margin, top - 14, y.label, { class: "strong" }),
  );
  return group;
}

/** What is drawn in here has the panel's corner as its origin and is cut at the panel's edges. */
function clipped(panel, ...children) {
  const { left: x, top: y, width, height } = panel;
  return svg("svg", { x, y, width, height, role: "presentation" }, ...children);
}

/** A line through points [[x, y], …] in pixels. A point without finite coordinates leaves a gap. */
function line(points, attributes = {}) {
  let pen = "M";
  let path = "";
  for (const [x, y] of points) {
    const drawn = Number.isFinite(x) && Number.isFinite(y);
    if (drawn) path += `${pen}${x.toFixed(1)},${y.toFixed(1)}`;
    pen = drawn ? "L" : "M";
  }
  return svg("path", { d: path, fill: "none", ...attributes });
}

function dots(points, radius, attributes = {}) {
  return svg("g", attributes, ...points.map(([cx, cy]) => svg("circle", { cx, cy, r: radius })));
}

/** Upright bars: each is {from, to, value}; x and y are scales, and y(0) is the base line. */
function bars(data, x, y, attributes = {}) {
  const rectangles = data.map(({ from, to, value }) =>
    svg("rect", { x: x(from), width: Math.max(x(to) - x(from) - 1, 1), y: y(value), height: y(0) - y(value) }),
  );
  return svg("g", attributes, ...rectangles);
}

/** The shares of values in `count` equal bins over [low, high], as bars; values outside go to the end bins. */
function histogram(values, low, high, count) {
  const shares = new Array(count).fill(0);
  for (const value of values) {
    const bin = Math.floor(((value - low) / (high - low)) * count);
    shares[Math.min(Math.max(bin, 0), count - 1)] += 1 / values.length;
  }
  const width = (high - low) / count;
  return shares.map((value, i) => ({ from: low + i * width, to: low + (i + 1) * width, value }));
}

/** Move labels {y, height, …} (y is the center) up or down as little as needed, so that none overlap in [low, high]. */
function spread(labels, low, high) {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  let edge = low;
  for (const label of sorted) {
    label.y = Math.max(label.y, edge + label.height / 2);
    edge = label.y + label.height / 2;
  }
  edge = high;
  for (const label of sorted.reverse()) {
    label.y = Math.min(label.y, edge - label.height / 2);
    edge = label.y - label.height / 2;
  }
  return labels;
}

// ---- Controls, each bound to one trait of the model ---------------------------------------------------------------
// JupyterLab and slide decks take arrow keys for themselves unless the input carries this attribute.
const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };

function store(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

/** Call react whenever the trait changes, until the view ends. */
function listen(view, name, react) {
  view.model.on(`change:${name}`, react);
  view.cleanups.push(() => view.model.off(`change:${name}`, react));
}

function follow(view, name, show) {
  listen(view, name, show);
  show();
}

/** A labeled slider with its value beside it. options: label, min, max, step, format (value -> text); on a logarithmic
 *  slider, min, max and step are those of the exponent of ten. */
function slider(view, name, { label, min, max, step, format = String, logarithmic = false }) {
  const input = html("input", { type: "range", min, max, step, "aria-label": label, ...OWN_KEYS });
  const readout = html("output", { "aria-hidden": "true" });
  const read = () => (logarithmic ? 10 ** Number(input.value) : Number(input.value));
  input.addEventListener("input", () => store(view.model, { [name]: read() }));
  follow(view, name, () => {
    const value = view.model.get(name);
    input.value = logarithmic ? Math.log10(value) : value;
    readout.textContent = format(value);
    input.setAttribute("aria-valuetext", readout.textContent);
  });
  return html("label", { class: "control" }, html("span", {}, label), readout, input);
}

/** A labeled menu. options: label, choices [[value, text], …]. */
function select(view, name, { label, choices }) {
  const input = html("select", { "aria-label": label, ...OWN_KEYS });
  input.append(...choices.map(([, shown], i) => html("option", { value: i }, shown)));
  input.addEventListener("change", () => store(view.model, { [name]: choices[input.value][0] }));
  follow(view, name, () => (input.value = choices.findIndex(([value]) => value === view.model.get(name))));
  return html("label", { class: "control" }, html("span", {}, label), input);
}

function checkbox(view, name, { label }) {
  const input = html("input", { type: "checkbox", ...OWN_KEYS });
  input.addEventListener("change", () => store(view.model, { [name]: input.checked }));
  follow(view, name, () => (input.checked = view.model.get(name)));
  return html("label", { class: "control check" }, input, html("span", {}, label));
}

/** A button that sets several traits at once. */
function preset(view, label, values) {
  const button = html("button", { type: "button", ...OWN_KEYS }, label);
  button.addEventListener("click", () => store(view.model, values));
  return button;
}

/** Call draw(width) now, when one of the traits changes, and when the element gets another width. */
function redraw(view, element, names, draw) {
  let drawn = 0;
  const update = () => {
    drawn = element.clientWidth || drawn || 900; // an element on a hidden slide has no width yet
    draw(drawn);
  };
  const watcher = new ResizeObserver(() => {
    if (element.clientWidth && element.clientWidth !== drawn) update();
  });
  watcher.observe(element);
  view.cleanups.push(() => watcher.disconnect());
  const later = () => {
    view.frame ??= requestAnimationFrame(() => { view.frame = null; update(); }); // several changes, one picture
  };
  for (const name of names) listen(view, name, later);
  update();
}
