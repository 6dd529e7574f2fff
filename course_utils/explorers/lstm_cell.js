// One LSTM unit with gates set by hand: c_t = f_t c_{t-1} + i g_t, h_t = o tanh(c_t), and dc_T/dc_{T-k} by lag k.
// The two panels share their time axis: the lower one counts back from the end, so that gradients run to the left.

const LOWEST = -6; // the log axis ends at this power of ten; what lies below is named in the key
const CELL = { style: "stroke: var(--state); stroke-width: 4; stroke-linejoin: round" };
const OUTPUT = { style: "stroke: var(--state); stroke-width: 3.5; stroke-dasharray: 3 5" };
const WRITTEN = { style: "stroke: var(--muted); stroke-width: 8" };
const GRADIENT = { class: "gradient" };
const RNN = { class: "bound" };

/** Everything the picture shows, from the model's traits. Python's compute() gives the same numbers. */
function compute(model) {
  const [f, i, o, reset, g] = ["f", "i", "o", "reset", "candidates"].map((name) => model.get(name));
  const T = g.length;
  const written = g.map((value) => i * value);
  const forget = g.map((_, t) => (t + 1 === reset ? 0 : f));
  const c = [0];
  const rnnStates = [0];
  written.forEach((value, t) => {
    c.push(forget[t] * c[t] + value);
    rnnStates.push(Math.tanh(f * rnnStates[t] + value));
  });
  const gradient = [1];
  const rnn = [1];
  for (let t = T; t > 0; t--) {
    gradient.push(gradient[T - t] * forget[t - 1]);
    rnn.push(rnn[T - t] * f * (1 - rnnStates[t] ** 2));
  }
  const pulses = steps(1, T, 1).filter((step) => g[step - 1] !== 0);
  const lag = T - pulses[0];
  return {
    f, i, o, reset, T, c, h: c.map((value) => o * Math.tanh(value)), written, gradient, rnn, pulses, lag,
    left: gradient[lag], rnnLeft: rnn[lag],
  };
}

// ---- Words ------------------------------------------------------------------------------------------------------

/** A number from 0 to 1, as plain as it can be. */
const plain = (value) => (value === 0 || value === 1 ? String(value) : scientific(value));

/** A number from 0 to 1 as a power of 10, or plainly where it is close to 1. */
function size(value, power) {
  if (value === 0 || value === 1) return String(value);
  const exponent = Math.log10(value);
  return exponent > -0.05 ? value.toFixed(2) : power(fixed(exponent, 1));
}

/** The finding, in words: what is left of the first pulse, and of the gradient. `power` writes 10 to a power. */
function finding({ i, left, lag, T }, power) {
  const gradient = size(left, power);
  const end = ` over ${lag} steps`;
  if (i === 0) return ["The input gate is 0, so nothing is written; gradient ", gradient, end];
  const share = left === 0 ? "nothing" : left === 1 ? "all" : left < 0.005 ? "less than 0.01" : left.toFixed(2);
  return [`At step ${T}, ${share} of the first pulse is left; gradient `, gradient, end];
}

function describe(result) {
  const { f, i, o, reset, T, c, h, lag, rnnLeft } = result;
  const power = (exponent) => `10 to the power ${exponent}`;
  const gates = `f = ${f.toFixed(2)}, i = ${i.toFixed(2)}, o = ${o.toFixed(2)}${reset ? `, reset at step ${reset}` : ""}`;
  return (
    `${finding(result, power).join("")}. Gates: ${gates}. ` +
    `Top: cell and output over ${T} steps, ending at ${fixed(c[T], 2)} and ${fixed(h[T], 2)}. ` +
    "Bottom: gradient along the cell path against the lag on a log axis; " +
    `in a tanh network with weight f it is ${size(rnnLeft, power)} at lag ${lag}.`
  );
}

/** Why: one sentence chosen by the numbers. */
function reason({ f, i, reset, T, left, lag, pulses }) {
  if (i === 0) return "No pulse gets past a closed input gate; what the cell would hold still passes gradient back.";
  if (reset > pulses[0] && f > 0) {
    return `f is 0 at step ${reset}: nothing older reaches step ${T}, and no gradient goes back beyond it.`;
  }
  if (f === 0) return "f = 0: the cell is emptied at every step and holds the newest input alone.";
  if (f === 1) return "f = 1: the cell only adds, so nothing fades. tanh shrinks the state at every step, even with weight 1.";
  const keeps = `Each step keeps ${f.toFixed(2)} of the cell and of its gradient`;
  return left < 0.005 ? `${keeps}: after ${lag} steps both are gone.` : `${keeps}: what is left is the product of all f.`;
}

/** The numbers behind the sentence, for the ear as well. */
function numbers({ T, c, h, lag, left, rnnLeft }) {
  const end = (name, value) => [name, html("sub", {}, String(T)), ` = ${fixed(value, 2)}`];
  return [
    `At lag ${lag}: cell path ${plain(left)}, tanh RNN with weight f ${plain(rnnLeft)} \u00b7 `,
    ...end("c", c[T]), ", ", ...end("h", h[T]),
  ];
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

/** Names to the right of a panel, each with a sample of its line and maybe a note, at a height in the panel. */
function key(panel, entries) {
  const left = panel.left + panel.width + 12;
  return entries.map(({ mark, name, y, note }) =>
    svg(
      "g", {},
      svg("line", { ...mark, x1: left, x2: left + 20, y1: panel.top + y, y2: panel.top + y }),
      text(left + 26, panel.top + y, name, { "dominant-baseline": "central" }),
      text(left + 26, panel.top + y + 21, note ?? "", { "dominant-baseline": "central" }),
    ),
  );
}

/** The name of a panel's time axis, to the right of its tick labels. */
const axisName = (panel, name) => text(panel.left + panel.width + 24, panel.top + panel.height + 22, name);

function timeAxis(panel, T, format) {
  const scale = linearScale([0, T], [0, panel.width]);
  return { scale, ticks: steps(0, T, panel.width > 300 ? 10 : 20), format, label: "" };
}

/** A dotted line at the step of the reset. */
function resetLine({ reset }, x, panel) {
  return reset ? [svg("line", { class: "radius", x1: x(reset), x2: x(reset), y1: 0, y2: panel.height })] : [];
}

function tracePanel(result, panel) {
  const { T, c, h, written, pulses, reset } = result;
  const axis = timeAxis(panel, T, String);
  const x = axis.scale;
  const y = linearScale([-0.8, 1.5], [panel.height, 0]);
  const curve = (values, mark) => line(values.map((value, t) => [x(t), y(value)]), mark);
  const stems = pulses.map((t) => svg("line", { ...WRITTEN, x1: x(t), x2: x(t), y1: y(0), y2: y(written[t - 1]) }));
  const names = [
    { mark: CELL, name: ["cell c", "t"], y: y(c[T]), height: 25 },
    { mark: OUTPUT, name: ["output h", "t"], y: y(h[T]), height: 25 },
    { mark: WRITTEN, name: ["input i\u00b7g", "t"], y: y(-0.4), height: 25 },
  ];
  const late = reset > T / 2;
  const mark = text(x(reset) + (late ? -8 : 8), 11, reset ? "reset: f = 0" : "", {
    "text-anchor": late ? "end" : "start", "dominant-baseline": "central",
  });
  return svg(
    "g", {},
    axes(
      panel, axis,
      { scale: y, ticks: [-0.5, 0, 0.5, 1], format: (value) => fixed(value, 1), label: ["cell c", "t", " and output h", "t", " = o tanh c", "t"] },
    ),
    axisName(panel, "step t"),
    clipped(panel, ...stems, ...resetLine(result, x, panel), curve(c, CELL), curve(h, OUTPUT), mark),
    ...key(panel, spread(names, 0, panel.height)),
  );
}

function gradientPanel(result, panel) {
  const { T, gradient, rnn, pulses, left, rnnLeft } = result;
  const axis = timeAxis(panel, T, (step) => String(T - step));
  const x = axis.scale;
  const y = logScale([10 ** LOWEST, 10 ** 0.5], [panel.height, 0]);
  const curve = (values, mark) => line(values.map((value, lag) => [x(T - lag), y(value)]), mark);
  const seen = pulses.filter((step) => gradient[T - step] > 0);
  return svg(
    "g", {},
    axes(
      panel, axis,
      { scale: (e) => y(10 ** e), ticks: steps(LOWEST, 0, 2), format: powerOfTen, label: ["gradient \u2202c", String(T), " / \u2202c", `${T}\u2212k`, " (dots: pulses)"] },
    ),
    axisName(panel, "lag k"),
    clipped(
      panel,
      ...resetLine(result, x, panel),
      curve(rnn, RNN),
      curve(gradient, GRADIENT),
      dots(seen.map((step) => [x(step), y(gradient[T - step])]), 6, { style: "fill: var(--gradient)" }),
    ),
    ...key(panel, [
      { mark: GRADIENT, name: "cell path", note: plain(left), y: 14 },
      { mark: RNN, name: "tanh RNN", note: plain(rnnLeft), y: 66 },
    ]),
  );
}

/** One panel above the other, on the same time axis. */
function layout(width) {
  const font = width < 1000 ? 16 : 18;
  const margin = 3.7 * font;
  const above = 33;
  const shape = { left: margin, width: width - margin - 8.2 * font, height: width < 760 ? 150 : 110, margin };
  const upper = { ...shape, top: above };
  const lower = { ...shape, top: upper.top + shape.height + 26 + above };
  return { font, height: lower.top + shape.height + 30, upper, lower };
}

function drawPicture(result, width) {
  const { font, height, upper, lower } = layout(width);
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  return svg("svg", attributes, tracePanel(result, upper), gradientPanel(result, lower));
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const title = html("p", { class: "finding" });
  const why = html("p");
  const picture = html("div", { class: "picture" });
  const live = html("p", { class: "numbers", "aria-live": "polite" });
  const gate = (name, label) => slider(view, name, { label, min: 0, max: 1, step: 0.01, format: (value) => value.toFixed(2) });
  const controls = html(
    "div", { class: "controls" },
    gate("f", "forget gate f"),
    gate("i", "input gate i"),
    gate("o", "output gate o"),
    slider(view, "reset", { label: "reset at step", min: 0, max: 40, step: 1, format: (step) => (step ? String(step) : "never") }),
  );
  const tries = html(
    "div", { class: "tries", role: "group", "aria-label": "things to try" },
    html("span", {}, "Things to try:"),
    preset(view, "remember", { f: 1, i: 0.4, o: 1, reset: 0 }),
    preset(view, "forget", { f: 0.5, i: 1, o: 1, reset: 0 }),
    preset(view, "overwrite", { f: 1, i: 1, o: 1, reset: 12 }),
    html("span", { class: "hint" }, "then move f in small steps below 1."),
  );
  el.classList.add("explorer");
  el.replaceChildren(controls, tries, title, why, picture, live);
  redraw(view, picture, ["f", "i", "o", "reset"], (width) => {
    const result = compute(model);
    title.replaceChildren(...finding(result, (exponent) => html("span", {}, "10", html("sup", {}, exponent))));
    picture.replaceChildren(drawPicture(result, width));
    why.textContent = reason(result);
    live.replaceChildren(...numbers(result));
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
