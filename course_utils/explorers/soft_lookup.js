// A soft dictionary: weights = softmax(-(q - k)²/2τ) over keys k on a line, output = the weighted sum of their values.
// Left: values over keys, and the output as a curve over all queries. Right: scores and weights, a row for each key.

const FINE = 0.01; // step between the queries of the curve
const HARD = 0.99; // a weight from which on one key decides alone
const EVEN = 0.05; // all weights lie within this: all keys count alike
const RANGE = [-3, 3]; // of queries
const HEIGHTS = [-1.4, 2.4]; // of values and outputs
const MARK = { query: `stroke: ${COLORS.query}; stroke-width: 3`, value: `stroke: ${COLORS.value}; stroke-width: 4` };

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

function softmax(scores) {
  const most = Math.max(...scores);
  const e = scores.map((score) => Math.exp(score - most));
  const total = e.reduce((sum, value) => sum + value, 0);
  return e.map((value) => value / total);
}

/** Everything the picture shows, from the model's traits. Python's compute() gives the same numbers. */
function compute(model) {
  const [q, tau, entries] = ["query", "temperature", "entries"].map((name) => model.get(name));
  const [names, keys, values] = [0, 1, 2].map((column) => entries.map((entry) => entry[column]));
  const scoresOf = (query) => keys.map((key) => -((query - key) ** 2) / (2 * tau));
  const scores = scoresOf(q);
  const weights = softmax(scores);
  const queries = steps(...RANGE, FINE);
  return {
    q, tau, names, keys, values, scores, weights, output: dot(weights, values), queries,
    mean: values.reduce((sum, value) => sum + value, 0) / values.length,
    curve: queries.map((query) => dot(softmax(scoresOf(query)), values)),
  };
}

// ---- Words ------------------------------------------------------------------------------------------------------

/** The temperature as text, with two digits that count. */
const tauText = (tau) => (tau >= 10 ? tau.toFixed(0) : tau >= 1 ? tau.toFixed(1) : tau.toPrecision(2));

/** A number with two decimals, never minus zero. */
const plain = (value) => fixed(Math.abs(value) < 0.005 ? 0 : value, 2);

const isHard = ({ weights }) => Math.max(...weights) >= HARD;
const isEven = ({ weights }) => Math.max(...weights) - Math.min(...weights) < EVEN;

/** The finding, in words: what comes back, and from where. */
function finding(result) {
  const { tau, names, weights, output } = result;
  const start = `\u03c4 = ${tauText(tau)} returns ${plain(output)}`;
  const [first, second] = [...weights.keys()].sort((a, b) => weights[b] - weights[a] || a - b);
  if (isHard(result)) return `${start}, the value of ${names[first]} alone`;
  if (isEven(result)) return `${start}, near the mean: all keys count alike`;
  const share = (i) => `${names[i]} (${weights[i].toFixed(2)})`;
  return `${start}, with most weight on ${share(first)} and ${share(second)}`;
}

/** Why: one sentence chosen by the numbers. */
function reason(result) {
  if (isHard(result)) return "The best score is ahead of the others by much more than 1, so softmax is nearly a hard look-up: the nearest key takes all.";
  if (isEven(result)) return "Divided by so large a \u03c4, the scores hardly differ: the query no longer matters.";
  const width = Math.sqrt(result.tau);
  return `The nearer the key, the larger its weight. The curve is kernel regression: a Gaussian kernel of width \u221a\u03c4 = ${width.toPrecision(2)}.`;
}

const numbers = ({ names, weights }) => `Weights: ${names.map((name, i) => `${name} ${weights[i].toFixed(2)}`).join(", ")}`;

function describe(result) {
  return (
    `${finding(result)}. Query at ${plain(result.q)}. ${numbers(result)}. ` +
    "Left: the six values over their keys, and the output as a curve over all queries. Right: score and weight of each key."
  );
}

/** The formula of the picture, as elements. */
function formula() {
  const symbol = (letter) => html("span", {}, html("i", {}, letter), html("sub", {}, "i"));
  return [
    symbol("\u03b1"), " = softmax(", symbol("e"), "),  score ", symbol("e"), " = \u2212(", html("i", {}, "q"), " \u2212 ", symbol("k"),
    ")\u00b2 / 2\u03c4,  output = \u03a3 ", symbol("\u03b1"), "\u00a0", symbol("v"),
    "; for keys of equal length, the scores q\u00b7k / \u03c4 give the same weights",
  ];
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

const central = { "dominant-baseline": "central" };

/** A score with as many decimals as it needs. */
const scoreText = (score) => (score <= -10 ? fixed(score, score <= -100 ? 0 : 1) : plain(score));

function curvePanel(result, panel) {
  const { q, names, keys, values, weights, output, queries, curve, mean } = result;
  const x = linearScale([RANGE[0] - 0.2, RANGE[1] + 0.2], [0, panel.width]);
  const y = linearScale(HEIGHTS, [panel.height, 0]);
  const right = q > 1.4; // then words stand to the left of the query
  const beside = { ...central, "text-anchor": right ? "end" : "start" };
  const at = x(q) + (right ? -14 : 14);
  const stem = (key, i) => svg("line", { style: `stroke: ${COLORS.key}; stroke-width: 3`, x1: x(key), x2: x(key), y1: y(values[i]), y2: panel.height });
  const value = (key, i) => svg("circle", { class: "value", cx: x(key), cy: y(values[i]), r: 5 + 9 * Math.sqrt(weights[i]), fill: COLORS.value, style: "stroke: var(--text)" });
  return svg(
    "g", {},
    axes(
      panel,
      { scale: x, ticks: steps(...RANGE, 1), format: fixed, label: "query q and keys k" },
      { scale: y, ticks: [-1, 0, 1, 2], format: fixed, label: "values v (dots), output (curve)" },
    ),
    clipped(
      panel,
      svg("line", { class: "radius", x1: 0, x2: panel.width, y1: y(mean), y2: y(mean) }),
      ...keys.map(stem),
      svg("line", { class: "query", style: `${MARK.query}; stroke-dasharray: 8 5`, x1: x(q), x2: x(q), y1: 0, y2: panel.height }),
      line(queries.map((query, i) => [x(query), y(curve[i])]), { class: "output", style: MARK.value }),
      ...keys.map(value),
      svg("path", { class: "returned", fill: COLORS.query, style: "stroke: var(--text)", d: `M${x(q)},${y(output) - 10}l10,10l-10,10l-10,-10z` }),
      ...names.map((name, i) => text(x(keys[i]) + 6, panel.height - 12, name, { class: "strong", ...central })),
      text(at, 12, `q = ${plain(q)}`, { ...beside, class: "strong" }),
    ),
    text(panel.left + panel.width + 8, panel.top + y(mean), ["mean"], central),
    text(panel.left + panel.width + 8, panel.top + y(mean) + 20, [fixed(mean, 2)], central),
  );
}

/** A row for each key: its name and place, its score, a bar as long as its weight, its value; below, the sum. */
function tablePanel({ names, keys, values, scores, weights, output }, { left, top, width, font }) {
  const pitch = 1.95 * font;
  const [score, bar, value] = [9.2 * font, 10 * font, width];
  const length = value - bar - 6.6 * font; // of a bar of weight 1; its number stands behind
  const end = { ...central, "text-anchor": "end" };
  const row = (name, i) => {
    const at = top + (i + 0.5) * pitch;
    const stop = left + bar + length * weights[i];
    return svg(
      "g", {},
      text(left, at, name, { ...central, class: "strong" }),
      text(left + 4 * font, at, fixed(keys[i], 1), end),
      text(left + score, at, scoreText(scores[i]), end),
      svg("rect", { class: "weight", fill: COLORS.key, x: left + bar, y: at - 0.34 * pitch, width: length * weights[i], height: 0.68 * pitch }),
      text(stop + 6, at, weights[i].toFixed(2), central),
      text(left + value, at, fixed(values[i], 1), end),
    );
  };
  const below = top + names.length * pitch;
  const heading = (x, words, attributes = {}) => text(left + x, top - 14, words, { class: "strong", ...attributes });
  return svg(
    "g", {},
    heading(4 * font, ["key k", "i"], { "text-anchor": "end" }),
    heading(score, ["score e", "i"], { "text-anchor": "end" }),
    heading(bar, ["weight \u03b1", "i"]),
    heading(value, ["value v", "i"], { "text-anchor": "end" }),
    ...names.map(row),
    svg("line", { class: "axis", x1: left + bar, x2: left + bar, y1: top, y2: below }),
    svg("line", { class: "axis", x1: left, x2: left + value, y1: below + 4, y2: below + 4 }),
    text(left, below + 4 + pitch / 2, "output, the weighted sum of the values", central),
    text(left + value, below + 4 + pitch / 2, plain(output), { ...end, class: "strong" }),
  );
}

/** The panels side by side, or one above the other where there is no room. */
function layout(width) {
  const wide = width >= 900;
  const font = width < 500 ? 15 : width < 1000 ? 16 : 18;
  const margin = 2.6 * font;
  const full = wide ? 0.58 * width : width;
  const curve = { left: margin, top: 2.2 * font, width: full - margin - 3.6 * font, height: 235, margin };
  const below = curve.top + curve.height + 54;
  const table = wide
    ? { left: full + 0.5 * font, top: curve.top, width: width - full - 0.5 * font - 4, font }
    : { left: 4, top: below + 2.2 * font, width: width - 8, font };
  return { font, height: wide ? below : table.top + 7 * 1.95 * font + 8, curve, table };
}

function drawPicture(result, width) {
  const { font, height, curve, table } = layout(width);
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  return svg("svg", attributes, curvePanel(result, curve), tablePanel(result, table));
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const title = html("p", { class: "finding", "aria-live": "polite" });
  const why = html("p");
  const picture = html("div", { class: "picture" });
  const controls = html(
    "div", { class: "controls" },
    slider(view, "query", { label: "query q", min: RANGE[0], max: RANGE[1], step: 0.05, format: plain }),
    slider(view, "temperature", { label: "temperature \u03c4 (log scale)", min: -2, max: 2, step: 0.05, logarithmic: true, format: tauText }),
  );
  const tries = html(
    "div", { class: "tries", role: "group", "aria-label": "things to try" },
    html("span", {}, "Things to try:"),
    preset(view, "hard look-up", { temperature: 0.01 }),
    preset(view, "soft look-up", { temperature: 0.3 }),
    preset(view, "mean of all", { temperature: 100 }),
    html("span", { class: "hint" }, "then move the query from left to right."),
  );
  el.classList.add("explorer");
  el.replaceChildren(controls, tries, title, why, html("p", { class: "formula" }, ...formula()), picture);
  redraw(view, picture, ["query", "temperature"], (width) => {
    const result = compute(model);
    title.textContent = finding(result);
    why.textContent = reason(result);
    picture.replaceChildren(drawPicture(result, width));
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
