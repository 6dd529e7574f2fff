// Gradient flow through a tanh network: h_t = tanh(gain·G h_{t-1} + scale·U x_t), G with spectral radius 1.
// The picture shows the spectral norm of dh_T/dh_{T-k} against the lag k, and where the states lie.

const LOW = -12; // the log axis ends here; what lies beyond is named at the edge
const HIGH = 9;
const SATURATED = 0.9;

/** The numbers that Python packed, one array of all seeds. */
function decode(model) {
  const bytes = Uint8Array.from(atob(model.get("packed")), (c) => c.charCodeAt(0));
  return Float64Array.from(new Int16Array(bytes.buffer), (value) => value / model.get("unit"));
}

/** G, its eigenvalues (real and imaginary parts), U and x of the chosen seed. */
function chosen(model, all) {
  const [dh, din, T] = model.get("sizes");
  const lengths = [dh * dh, dh, dh, dh * din, T * din];
  let at = model.get("seed") * lengths.reduce((sum, length) => sum + length, 0);
  const [G, real, imaginary, U, x] = lengths.map((length) => all.subarray(at, (at += length)));
  return { G, real, imaginary, U, x, dh, din, T };
}

/** States h_1…h_T, one array a step, starting from h_0 = 0. */
function runStates({ U, x, dh, din, T }, Wh, scale, linear) {
  let h = new Float64Array(dh);
  return Array.from({ length: T }, (_, t) => {
    const drive = matvec(U, x.subarray(t * din, (t + 1) * din));
    h = matvec(Wh, h).map((value, i) => value + scale * drive[i]);
    if (!linear) h = h.map(Math.tanh);
    return h;
  });
}

/** Spectral norm of dh_T/dh_{T-k} for k = 0…T-1: the product J_T J_{T-1} … grows by one factor a lag. */
function normsByLag(states, Wh, linear) {
  const n = states[0].length;
  let product = Float64Array.from({ length: n * n }, (_, i) => (i % (n + 1) === 0 ? 1 : 0));
  return states.toReversed().map((h) => {
    const norm = spectralNorm(product, n);
    if (!linear) product.forEach((value, i) => (product[i] = value * (1 - h[i % n] ** 2))); // J_t = diag(1 - h²) W_h
    product = matmul(product, Wh, n);
    return norm;
  });
}

/** Everything the picture shows, from the model's traits. Python's compute() gives the same numbers. */
function compute(model, all = decode(model)) {
  const base = chosen(model, all);
  const [gain, scale, linear] = ["gain", "input_scale", "linear"].map((name) => model.get(name));
  const Wh = base.G.map((value) => gain * value);
  const states = runStates(base, Wh, scale, linear);
  const norms = normsByLag(states, Wh, linear);
  const values = states.flatMap((h) => [...h]);
  const sigma = spectralNorm(Wh, base.dh);
  return {
    gain, linear, norms, values, sigma,
    radius: gain,
    bound: norms.map((_, k) => sigma ** k),
    saturated: values.filter((h) => Math.abs(h) > SATURATED).length / values.length,
    slope: linear ? 1 : values.reduce((sum, h) => sum + (1 - h * h), 0) / values.length,
    eigenvalues: Array.from(base.real, (re, i) => [gain * re, gain * base.imaginary[i]]),
  };
}

/** The finding, in words: what happens to the gradient over all lags. `power` writes 10 to a power. */
function finding({ norms }, power) {
  const lag = norms.length - 1;
  const exponent = Math.log10(norms[lag]);
  if (Math.abs(exponent) < 1) return ["Gradient ends within a factor of 10 of where it began, ", `${lag} steps back`];
  return [`Gradient ${exponent < 0 ? "falls" : "grows"} by `, power(Math.abs(exponent).toFixed(1)), ` over ${lag} steps`];
}

const share = (fraction) => (fraction > 0 && fraction < 0.005 ? "under 1" : fixed(100 * fraction));

function describe(result) {
  const words = finding(result, (exponent) => `10 to the power ${exponent}`).join("");
  const right = result.linear
    ? `Eigenvalues of W_h lie in a circle of radius ${result.radius.toFixed(2)}.`
    : `${share(result.saturated)} percent of the states are saturated.`;
  return `${words}. Left: norm against lag on a log scale, with the bound from the largest singular value. Right: ${right}`;
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

function lagPanel(result, panel) {
  const last = result.norms.length - 1;
  const x = linearScale([0, last], [0, panel.width]);
  const y = logScale([10 ** LOW, 10 ** HIGH], [panel.height, 0]);
  const curve = (values, attributes) => line(values.map((value, k) => [x(k), y(value)]), attributes);
  const powers = result.norms.map((_, k) => result.radius ** k);
  return svg(
    "g", {},
    axes(
      panel,
      { scale: x, ticks: steps(0, last, panel.width > 300 ? 10 : 20), format: String, label: "lag k (steps back)" },
      { scale: (e) => y(10 ** e), ticks: steps(LOW, HIGH, 3), format: powerOfTen, label: ["size of \u2202h", "T", " / \u2202h", "T\u2212k"] },
    ),
    clipped(
      panel,
      curve(result.bound, { class: "bound" }),
      curve(powers, { class: "radius" }),
      curve(result.norms, { class: "gradient" }),
    ),
    ...endLabels(panel, y, [
      ["gradient", "gradient", result.norms[last]],
      ["bound", "bound \u03c3\u1d4f", result.bound[last]],
      ["radius", "gain\u1d4f", powers[last]],
    ]),
  );
}

/** Each curve's name at its right end, with the value where the curve has left the plot. */
function endLabels(panel, y, curves) {
  const labels = curves.map(([kind, name, value]) => {
    const exponent = Math.log10(value);
    const off = exponent < LOW || exponent > HIGH ? `${exponent < 0 ? "\u2193" : "\u2191"} ${powerOfTen(Math.round(exponent))}` : "";
    const at = Math.min(Math.max(y(value), 0), panel.height);
    return { kind, name, off, y: at, height: off ? 44 : 24 };
  });
  const left = panel.left + panel.width + 8;
  return spread(labels, -10, panel.height + 10).map((label) => {
    const at = panel.top + label.y - (label.off ? 10 : 0);
    return svg(
      "g", {},
      svg("line", { class: label.kind, x1: left, x2: left + 18, y1: at, y2: at }),
      text(left + 24, at, label.name, { "dominant-baseline": "central", class: label.kind === "gradient" ? "strong" : null }),
      text(left + 24, at + 21, label.off, { "dominant-baseline": "central" }),
    );
  });
}

function statePanel(result, panel) {
  const data = histogram(result.values, -1, 1, 40);
  const most = Math.max(0.04, ...data.map((bar) => bar.value));
  const step = niceStep(most, 4);
  const top = Math.ceil(most / step - 1e-9) * step;
  const x = linearScale([-1, 1], [0, panel.width]);
  const y = linearScale([0, top], [panel.height, 0]);
  const band = (from, to) => svg("rect", { class: "band", x: x(from), width: x(to) - x(from), y: 0, height: panel.height });
  return svg(
    "g", {},
    clipped(panel, band(-1, -SATURATED), band(SATURATED, 1)),
    axes(
      panel,
      { scale: x, ticks: [-1, -0.5, 0, 0.5, 1], format: (value) => fixed(value, value % 1 ? 1 : 0), label: "state h (all units, all steps)" },
      { scale: y, ticks: steps(0, top, step), format: (value) => `${fixed(100 * value)}%`, label: `${share(result.saturated)}% of states have |h| > 0.9` },
    ),
    clipped(panel, bars(data, x, y, { class: "state" })),
  );
}

/** Without tanh the Jacobian is W_h itself, so its eigenvalues tell the story; the unit circle is the border. */
function eigenvaluePanel(result, panel) {
  const half = 3.2;
  const side = Math.min(panel.width, panel.height);
  const x = linearScale([-half, half], [(panel.width - side) / 2, (panel.width + side) / 2]);
  const y = linearScale([-half, half], [(panel.height + side) / 2, (panel.height - side) / 2]);
  const ticks = steps(-3, 3, 1);
  return svg(
    "g", {},
    axes(
      panel,
      { scale: x, ticks, format: fixed, label: "real part" },
      { scale: y, ticks, format: fixed, label: ["eigenvalues of W", "h", `: size up to ${result.radius.toFixed(2)}`] },
    ),
    clipped(
      panel,
      svg("circle", { class: "bound", cx: x(0), cy: y(0), r: x(1) - x(0), fill: "none" }),
      text(x(0), y(1) - 10, "size 1", { "text-anchor": "middle" }),
      dots(result.eigenvalues.map(([re, im]) => [x(re), y(im)]), 4, { class: "eigenvalue" }),
    ),
  );
}

/** Two panels side by side, or one above the other where there is no room. */
function layout(width) {
  const font = width < 1000 ? 16 : 18;
  const margin = 3.7 * font;
  const labels = 7.2 * font;
  const top = 2.4 * font;
  const below = 3.2 * font;
  if (width < 760) {
    const upper = { left: margin, top, width: width - margin - labels, height: 250, margin };
    const lower = { left: margin, top: upper.height + below + 2 * top, width: width - margin - 12, height: 190, margin };
    return { font, height: lower.top + lower.height + below, upper, lower };
  }
  const plot = width - 2 * margin - labels - 36;
  const upper = { left: margin, top, width: 0.58 * plot, height: 280, margin };
  const lower = { left: width - 0.42 * plot - 12, top, width: 0.42 * plot, height: 280, margin };
  return { font, height: top + 280 + below, upper, lower };
}

function drawPicture(result, width) {
  const { font, height, upper, lower } = layout(width);
  const states = result.linear ? eigenvaluePanel : statePanel;
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  return svg("svg", attributes, lagPanel(result, upper), states(result, lower));
}

/** Why the gradient does what it does: one sentence chosen by the numbers. */
function reason({ norms, sigma, radius, linear }) {
  const exponent = Math.log10(norms[norms.length - 1]);
  const peak = Math.log10(Math.max(...norms));
  if (sigma < 1) return "\u03c3 < 1: the gradient has to vanish.";
  if (exponent > 1) return "\u03c3 > 1 is necessary to explode, and here the gradient does.";
  if (linear && radius < 1) return "\u03c3 > 1 allows growth at first, but all eigenvalues are smaller than 1: it vanishes in the end.";
  if (peak > 1 && peak > exponent + 1) return "\u03c3 > 1: it grows first and shrinks later; the factors differ from step to step.";
  if (exponent > -1) return "\u03c3 > 1 allows growth; over these steps growing and shrinking nearly cancel.";
  if (radius > 1) return "\u03c3 > 1 allows growth, but the slopes 1 \u2212 h\u00b2 of tanh shrink the gradient faster.";
  return "\u03c3 > 1 allows growth, but does not cause it: necessary to explode, not sufficient.";
}

/** The numbers behind the sentence, as a list of texts and elements. */
function numbers({ norms, sigma, slope, linear }) {
  const last = norms.length - 1;
  return [
    "\u03c3, the largest singular value of W", html("sub", {}, "h"), `: ${sigma.toFixed(2)} \u00b7 `,
    linear ? "inputs do not matter without tanh" : `average of 1\u00a0\u2212\u00a0h\u00b2: ${slope.toFixed(2)}`,
    ` \u00b7 size at lag ${last}: ${scientific(norms[last])}`,
  ];
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const all = decode(model);
  const title = html("p", { class: "finding" });
  const why = html("p");
  const picture = html("div", { class: "picture" });
  const live = html("p", { class: "numbers", "aria-live": "polite" });
  const still = { linear: false, seed: 0 };
  const controls = html(
    "div", { class: "controls" },
    slider(view, "gain", { label: "gain", min: 0.2, max: 3, step: 0.05, format: (value) => value.toFixed(2) }),
    slider(view, "input_scale", { label: "input scale", min: 0, max: 3, step: 0.1, format: (value) => value.toFixed(1) }),
    slider(view, "seed", { label: "seed", min: 0, max: 7, step: 1 }),
    checkbox(view, "linear", { label: "linear (no tanh)" }),
  );
  const tries = html(
    "div", { class: "tries", role: "group", "aria-label": "things to try" },
    html("span", {}, "Things to try:"),
    preset(view, "vanish", { gain: 0.9, input_scale: 0.5, ...still }),
    preset(view, "explode", { gain: 2, input_scale: 0.1, ...still }),
    preset(view, "saturate", { gain: 2, input_scale: 3, ...still }),
    html("span", { class: "hint" }, "then change the seed: other weights, another curve."),
  );
  el.classList.add("explorer");
  el.replaceChildren(controls, tries, title, why, picture, live);
  redraw(view, picture, ["gain", "input_scale", "seed", "linear"], (width) => {
    const result = compute(model, all);
    title.replaceChildren(...finding(result, (exponent) => html("span", {}, "10", html("sup", {}, exponent))));
    picture.replaceChildren(drawPicture(result, width));
    why.textContent = reason(result);
    live.replaceChildren(...numbers(result));
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
