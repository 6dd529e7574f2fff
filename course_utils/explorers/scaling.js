// One query, eight keys: logits (q + mean)·(k_j + mean) times a power of d_k, their softmax, and the largest singular
// value of its Jacobian diag(p) - ppᵀ. Left: this seed, key by key. Right: all seeds against d_k, for three scales.

const LOWEST = -12; // the log axis ends at this power of ten; what lies below is named at its edge
const TIE = 0.1; // a norm above it is far from saturated
const SCALES = [
  { name: "none", power: 0, label: ["none"], words: () => ["unscaled"], dash: null },
  { name: "1/sqrt(d_k)", power: -0.5, label: ["1/\u221ad", "k"], words: (dk) => ["divided by \u221a", dk], dash: "10 6" },
  { name: "1/d_k", power: -1, label: ["1/d", "k"], words: (dk) => ["divided by ", dk], dash: "2 5" },
];
const SETTINGS = ["d_k", "scale", "mean", "seed"];

// ---- Numbers: Python's compute() gives the same -------------------------------------------------------------------

/** What Python packed: of each seed and width, q·k_j of each key, the sum of each key, the sum of q, all over √d_k. */
function decode(model) {
  const bytes = Uint8Array.from(atob(model.get("packed")), (c) => c.charCodeAt(0));
  return Float64Array.from(new Int16Array(bytes.buffer), (value) => value / model.get("unit"));
}

function sizesOf(model) {
  const [seeds, widths, keys] = model.get("sizes");
  return { seeds, widths, keys };
}

/** The scaled logits of a seed at width 2^exponent. */
function logitsOf(all, { widths, keys }, seed, exponent, mean, power) {
  const start = (seed * widths + exponent) * (2 * keys + 1);
  const q = all[start + 2 * keys];
  const dk = 2 ** exponent;
  const [root, shift, scale] = [Math.sqrt(dk), dk * mean * mean, dk ** power];
  const out = new Float64Array(keys);
  for (let j = 0; j < keys; j++) out[j] = (root * (all[start + j] + mean * (all[start + keys + j] + q)) + shift) * scale;
  return out;
}

function softmax(logits) {
  let [most, total] = [-Infinity, 0];
  for (const value of logits) most = Math.max(most, value);
  const e = new Float64Array(logits.length);
  for (let j = 0; j < e.length; j++) total += e[j] = Math.exp(logits[j] - most);
  for (let j = 0; j < e.length; j++) e[j] /= total;
  return e;
}

/** In nats: 0 where one weight is 1, log S where all are equal. */
const entropyOf = (weights) => -weights.reduce((sum, p) => (p > 0 ? sum + p * Math.log(p) : sum), 0);

/** Largest singular value of J = diag(p) - ppᵀ, its largest eigenvalue λ. J v = λ v says v_i = (p·v) p_i / (p_i - λ); times
 *  p_i and summed, with Σ p_i = 1, this is Σ p_i / (p_i - λ) = 0. The sum rises from -∞ to ∞ between the two largest p. */
function jacobianNorm(p) {
  let [high, low] = [0, 0];
  for (const value of p) {
    if (value > high) [high, low] = [value, high];
    else if (value > low) low = value;
  }
  while (high - low > 1e-13 * high) {
    const middle = (low + high) / 2;
    let sum = 0;
    for (let i = 0; i < p.length; i++) sum += p[i] / (p[i] - middle);
    if (sum < 0) low = middle;
    else high = middle;
  }
  return high;
}

function median(values) {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length / 2;
  return (sorted[Math.ceil(half) - 1] + sorted[Math.floor(half)]) / 2;
}

/** For each scale and width, over all seeds: the mean of entropy / log S, and the median of the norm. */
function overSeeds(all, sizes, mean) {
  const seeds = Array.from({ length: sizes.seeds }, (_, seed) => seed);
  return SCALES.map(({ power }) => {
    const points = Array.from({ length: sizes.widths }, (_, exponent) => {
      const weights = seeds.map((seed) => softmax(logitsOf(all, sizes, seed, exponent, mean, power)));
      const share = weights.reduce((sum, p) => sum + entropyOf(p), 0) / sizes.seeds / Math.log(sizes.keys);
      return { share, norm: median(weights.map(jacobianNorm)) };
    });
    return { shares: points.map(({ share }) => share), norms: points.map(({ norm }) => norm) };
  });
}

/** Everything the picture shows, from the model's traits; `curves` depends on the mean alone. */
function compute(model, all = decode(model), curves = overSeeds(all, sizesOf(model), model.get("mean"))) {
  const sizes = sizesOf(model);
  const [dk, name, mean, seed] = SETTINGS.map((setting) => model.get(setting));
  const chosen = SCALES.findIndex((scale) => scale.name === name);
  const exponent = Math.log2(dk);
  const logits = logitsOf(all, sizes, seed, exponent, mean, SCALES[chosen].power);
  const weights = softmax(logits);
  const center = logits.reduce((sum, value) => sum + value, 0) / sizes.keys;
  const spread = Math.sqrt(logits.reduce((sum, value) => sum + (value - center) ** 2, 0) / (sizes.keys - 1));
  const entropy = entropyOf(weights);
  return {
    dk, exponent, mean, seed, chosen, ...sizes, logits, weights, center, spread, entropy,
    share: entropy / Math.log(sizes.keys), norm: jacobianNorm(weights), curves,
    typical: curves[chosen].norms[exponent],
  };
}

// ---- Words ------------------------------------------------------------------------------------------------------

/** A number with two digits, as [d × , 10^n] where it is under 0.001. `power` writes 10 to a power. */
function short(value, power) {
  if (value >= 99.5) return [fixed(value)];
  if (value >= 0.001) return [value.toPrecision(2)];
  const [digits, exponent] = value.toExponential(0).split("e");
  return [`${digits} \u00d7 `, power(exponent)];
}

const plain = (value) => short(value, (exponent) => powerOfTen(Number(exponent))).join("");

/** The finding, in words. `symbol` gives d_k and `power` 10 to a power, as they are written here. */
function finding({ dk, chosen, weights, norm }, symbol, power) {
  return [
    "At ", symbol(), ` = ${dk}, `, ...SCALES[chosen].words(symbol()),
    `: weights up to ${Math.max(...weights).toFixed(2)}, gradient shrinks to `, ...short(norm, power), " or less",
  ];
}

function describe(result) {
  const power = (exponent) => `10 to the power ${Number(exponent)}`;
  const { mean, spread, entropy, share, keys, seeds, typical } = result;
  return (
    `${finding(result, () => "d_k", power).join("")}.${mean ? ` Mean of the entries: ${mean.toFixed(1)}.` : ""} ` +
    `Left: ${keys} logits with standard deviation ${short(spread, power).join("")}, and their weights with entropy ` +
    `${entropy.toFixed(2)} nats, ${fixed(100 * share)} percent of log ${keys}. ` +
    `Right: mean entropy and median norm of the Jacobian over ${seeds} seeds against d_k, for three scales; ` +
    `here the median is ${short(typical, power).join("")}.`
  );
}

/** Why: one sentence chosen by the numbers. */
function reason(result) {
  const { dk, mean, chosen, spread, norm, typical } = result;
  const root = plain(Math.sqrt(dk));
  if (dk === 1) return "With one number in each vector, the three scales are the same.";
  if (mean > 0) return meanReason(result);
  if (chosen === 1 && norm > TIE) return `Dividing by ${root} keeps the spread near 1, at every d_k: the weights differ, and gradient passes.`;
  if (chosen === 1) return `Dividing by ${root} keeps the spread near 1, at every d_k; with this seed one key is far ahead all the same.`;
  if (chosen === 2) return `A spread of about 1/${root} makes the weights nearly equal; and of what passes, about 1/${root} reaches the query.`;
  const spreads = `Logits spread by about \u221ad_k = ${root} (here ${plain(spread)})`;
  if (norm <= TIE) return `${spreads}: softmax sees only differences, and one key takes nearly all the weight.`;
  if (typical > TIE) return `${spreads}: softmax is not saturated yet. Raise d_k.`;
  return `With this seed another key comes close to the first; with half of the seeds the factor is under ${plain(typical)}.`;
}

/** A mean m adds d_k m² to each logit, and makes the variance among the keys of a query d_k (1 + m²). */
function meanReason({ dk, mean, chosen, norm }) {
  const shift = plain(mean * mean * dk ** (1 + SCALES[chosen].power));
  const times = fixed(Math.sqrt(1 + mean * mean), 2);
  const saturated = norm > TIE ? "not saturated here." : "one key takes nearly all.";
  const end = [saturated, "the same at every d_k.", "still tiny."][chosen];
  return `Mean ${mean.toFixed(1)} adds about ${shift} to all logits, which softmax ignores; but they spread ${times} times as far: ${end}`;
}

/** The numbers behind the sentence, for the ear as well. */
function numbers({ center, spread, entropy, keys, norm, typical, seeds }) {
  return (
    `logits: mean ${fixed(Math.round(10 * center) / 10 + 0, 1)}, standard deviation ${plain(spread)} \u00b7 ` +
    `entropy ${entropy.toFixed(2)} of ${Math.log(keys).toFixed(2)} nats \u00b7 norm of the Jacobian ${plain(norm)}, median of ${seeds} seeds ${plain(typical)}`
  );
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

/** Bars from the base line up or down, one a key, with the key's name below and maybe the value above. */
function barPanel(values, panel, y, ticks, format, label, style, shown) {
  const x = linearScale([0.4, values.length + 0.6], [0, panel.width]);
  const wide = x(0.7) - x(0);
  const rectangles = Array.from(values, (value, j) =>
    svg("rect", {
      x: x(j + 1) - wide / 2, width: wide, style,
      y: Math.min(y(value), y(0)), height: Math.max(Math.abs(y(value) - y(0)), 1),
    }),
  );
  const labels = shown ? Array.from(values, (value, j) =>
    text(panel.left + x(j + 1), panel.top + y(value) - 11, shown(value), { "text-anchor": "middle", "dominant-baseline": "central" }),
  ) : [];
  const names = Array.from(values, (_, j) => text(panel.left + x(j + 1), panel.top + panel.height + 22, ["k", String(j + 1)], { "text-anchor": "middle" }));
  return svg(
    "g", {},
    axes(panel, { scale: x, ticks: [], format: String, label: "" }, { scale: y, ticks, format, label }),
    clipped(panel, ...rectangles),
    svg("line", { class: "axis", x1: panel.left, x2: panel.left + panel.width, y1: panel.top + y(0), y2: panel.top + y(0) }),
    ...labels, ...names,
  );
}

function logitPanel({ logits, spread }, panel) {
  const [low, high] = [Math.min(0, ...logits), Math.max(0, ...logits)];
  const step = niceStep(high - low, 4);
  const ticks = steps(Math.ceil(low / step), Math.floor(high / step), 1).map((count) => count * step);
  const y = linearScale([low, high], [panel.height - (low < 0 ? 3 : 0), high > 0 ? 3 : 0]);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const label = `logits: standard deviation ${plain(spread)}`;
  return barPanel(logits, panel, y, ticks, (value) => fixed(value + 0, digits), label, "fill: var(--muted)");
}

function weightPanel({ weights, entropy, share, keys }, panel) {
  const y = linearScale([0, 1.25], [panel.height, 0]);
  const label = `weights: entropy ${entropy.toFixed(2)} nats${panel.wordy ? `, ${fixed(100 * share)}% of log ${keys}` : ""}`;
  return barPanel(weights, panel, y, [0, 0.5, 1], String, label, `fill: ${COLORS.key}`, (p) => p.toFixed(2));
}

/** A curve for each scale against d_k, the chosen one thick; a ring where this seed is; names at the right ends. */
function curvePanel(result, panel, key, own, y, yAxis, color) {
  const { widths, exponent, chosen, curves } = result;
  const x = linearScale([0, widths - 1], [0, panel.width]);
  const inside = (value) => Math.min(Math.max(y(value), 0), panel.height);
  const mark = (i) => `stroke: var(${color}); stroke-linejoin: round; stroke-width: ${i === chosen ? 4.5 : 2.2}; stroke-dasharray: ${SCALES[i].dash ?? "none"}`;
  const drawn = curves.map((curve, i) => line(curve[key].map((value, e) => [x(e), y(value)]), { style: mark(i) }));
  const names = curves.map((curve, i) => ({ i, y: inside(curve[key][widths - 1]), height: 24 }));
  const left = panel.left + panel.width + 14;
  const ticks = steps(0, widths - 1, panel.width > 300 ? 2 : 5);
  return svg(
    "g", {},
    axes(panel, { scale: x, ticks, format: (e) => String(2 ** e), label: "" }, yAxis),
    text(panel.left + panel.width + 30, panel.top + panel.height + 22, ["d", "k"]),
    clipped(panel, svg("line", { class: "radius", x1: x(exponent), x2: x(exponent), y1: 0, y2: panel.height }), ...drawn),
    ownMark(panel.left + x(exponent), panel.top + inside(own), y(own) > panel.height, color),
    ...spread(names, 0, panel.height).map(({ i, y: at }) =>
      svg(
        "g", {},
        svg("line", { style: mark(i), x1: left, x2: left + 26, y1: panel.top + at, y2: panel.top + at }),
        text(left + 32, panel.top + at, SCALES[i].label, { "dominant-baseline": "central", class: i === chosen ? "strong" : null }),
      ),
    ),
  );
}

/** A ring, or a triangle that points down to a value below the axis. */
function ownMark(x, y, below, color) {
  const path = below ? "M-8,-9 L8,-9 L0,4 Z" : "M-6.5,0 a6.5,6.5 0 1,0 13,0 a6.5,6.5 0 1,0 -13,0 Z";
  const style = `fill: var(--jp-layout-color0, white); stroke: var(${color}); stroke-width: 3`;
  return svg("path", { d: path, class: "own", transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, style });
}

function entropyPanel(result, panel) {
  const y = linearScale([0, 1.08], [panel.height, 0]);
  const label = `entropy / log ${result.keys}${panel.wordy ? `: mean of ${result.seeds} seeds (ring: this seed)` : ", mean"}`;
  return curvePanel(result, panel, "shares", result.share, y, { scale: y, ticks: [0, 0.5, 1], format: (value) => `${100 * value}%`, label }, "--text");
}

function normPanel(result, panel) {
  const y = logScale([10 ** LOWEST, 1], [panel.height, 0]);
  const label = `norm of the Jacobian${panel.wordy ? `: median of ${result.seeds} seeds` : ", median"}`;
  const yAxis = { scale: (e) => y(10 ** e), ticks: steps(LOWEST, 0, 4), format: powerOfTen, label };
  return curvePanel(result, panel, "norms", result.norm, y, yAxis, "--gradient");
}

/** Two rows: key by key on the left, against d_k on the right; or all four below each other where there is no room. */
function layout(width) {
  const font = width < 1000 ? 16 : 18;
  const margin = 3.7 * font;
  const labels = 6.2 * font;
  const [above, below] = [33, 33];
  const narrow = width < 760;
  const height = narrow ? 140 : 108;
  const room = narrow ? width - margin : (width - 2 * margin - 24) / 2;
  const row = above + height + below;
  const panel = (column, place) => ({
    left: margin + (column && !narrow ? room + margin + 24 : 0),
    top: above + place * row, width: room - (column ? labels : 12), height, margin, wordy: room + margin > 29 * font,
  });
  const panels = narrow ? [panel(0, 0), panel(0, 1), panel(1, 2), panel(1, 3)] : [panel(0, 0), panel(0, 1), panel(1, 0), panel(1, 1)];
  return { font, height: (narrow ? 4 : 2) * row, panels };
}

function drawPicture(result, width) {
  const { font, height, panels } = layout(width);
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  const draw = [logitPanel, weightPanel, entropyPanel, normPanel];
  return svg("svg", attributes, ...draw.map((part, i) => part(result, panels[i])));
}

/** The view of a trait of powers of two as a trait of exponents, for a slider. */
function asExponent(view) {
  const { model } = view;
  return {
    cleanups: view.cleanups,
    model: {
      get: (name) => Math.log2(model.get(name)),
      set: (name, exponent) => model.set(name, 2 ** exponent),
      save_changes: () => model.save_changes(),
      on: (event, call) => model.on(event, call),
      off: (event, call) => model.off(event, call),
    },
  };
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const all = decode(model);
  const { widths, seeds } = sizesOf(model);
  const title = html("p", { class: "finding" });
  const why = html("p");
  const picture = html("div", { class: "picture" });
  const live = html("p", { class: "numbers", "aria-live": "polite" });
  const menu = select(view, "scale", { label: "scale", choices: SCALES.map(({ name }) => [name, name.replace("sqrt(d_k)", "\u221ad_k")]) });
  menu.lastChild.style.gridColumn = "1 / 3"; // below its name, as wide as the sliders
  const controls = html(
    "div", { class: "controls" },
    slider(asExponent(view), "d_k", { label: "width d_k", min: 0, max: widths - 1, step: 1, format: (e) => String(2 ** e) }),
    menu,
    slider(view, "mean", { label: "mean of entries", min: 0, max: 1, step: 0.1, format: (value) => value.toFixed(1) }),
    slider(view, "seed", { label: "seed", min: 0, max: seeds - 1, step: 1 }),
  );
  const still = { d_k: 256, mean: 0, seed: 0 };
  const tries = html(
    "div", { class: "tries", role: "group", "aria-label": "things to try" },
    html("span", {}, "Things to try:"),
    preset(view, "saturate", { ...still, scale: "none" }),
    preset(view, "divide by \u221ad_k", { ...still, scale: "1/sqrt(d_k)" }),
    preset(view, "divide by d_k", { ...still, scale: "1/d_k" }),
    html("span", { class: "hint" }, "then move d_k from end to end, and change the seed."),
  );
  let curves = null;
  el.classList.add("explorer");
  el.replaceChildren(controls, tries, title, why, picture, live);
  redraw(view, picture, SETTINGS, (width) => {
    const mean = model.get("mean");
    if (curves?.mean !== mean) curves = { mean, values: overSeeds(all, sizesOf(model), mean) };
    const result = compute(model, all, curves.values);
    const symbol = () => html("span", {}, "d", html("sub", {}, "k"));
    title.replaceChildren(...finding(result, symbol, (exponent) => html("span", {}, "10", html("sup", {}, fixed(Number(exponent))))));
    picture.replaceChildren(drawPicture(result, width));
    why.textContent = reason(result);
    live.textContent = numbers(result);
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
