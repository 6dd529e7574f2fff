// What one forward pass costs at least, against its length, for a transformer and an LSTM of its size on a simple machine.
// Top: what its operations are spent on. Left: time. Right: memory. course_utils/costs.py has the formulas with sources.

const SETTINGS = ["decoder", "machine", "T", "bytes_per_number", "fused"];
const LIMITS = { operations: "operations", traffic: "memory traffic", steps: "serial steps" };
const UNITS = [["\u00b5s", 1e-6], ["ms", 1e-3], ["s", 1], ["min", 60], ["h", 3600], ["days", 86400]];
const PREFIXES = ["", "k", "M", "G", "T", "P"];
const SIZES = PREFIXES.flatMap((prefix, power) => [1, 10, 100].map((n) => [`${n} ${prefix}B`, n * 1000 ** power]));
const MOST_TICKS = 5;

// ---- Numbers: Python's compute() gives the same -------------------------------------------------------------------

const sum = (values) => values.reduce((total, value) => total + value, 0);

function decoderFlops({ n_layers: L, d_model: D, d_ff: F }, T) {
  return { projections: 8 * T * D * D * L, looking: 4 * T * T * D * L, feed_forward: 4 * T * D * F * L };
}

function decoderBytes({ n_layers: L, d_model: D, n_heads: H, d_ff: F }, T, each, fused) {
  return { parameters: L * (4 * D * D + 2 * D * F) * each, cache: 2 * L * T * D * each, weights: fused ? 0 : H * T * T * each };
}

const lstmFlops = ({ n_layers: L, d_model: D }, T) => 16 * T * D * D * L;
const lstmBytes = ({ n_layers: L, d_model: D }, each) => ({ parameters: 8 * D * D * L * each, state: 2 * L * D * each });

/** The largest of three limits, and its name. */
function bound(machine, each, flops, moved, steps) {
  const limits = {
    operations: flops / machine.flops_per_second[each],
    traffic: moved / machine.bytes_per_second,
    steps: steps * machine.step_seconds,
  };
  const seconds = Math.max(...Object.values(limits));
  return { seconds, limit: Object.keys(limits).find((name) => limits[name] === seconds) };
}

function decoderBound(size, T, machine, each, fused) {
  const { parameters, weights } = decoderBytes(size, T, each, fused);
  const moved = parameters + 2 * size.n_layers * weights; // weights go out to memory and come back
  return bound(machine, each, sum(Object.values(decoderFlops(size, T))), moved, size.n_layers);
}

function lstmBound(size, T, machine, each) {
  return bound(machine, each, lstmFlops(size, T), lstmBytes(size, each).parameters, T + size.n_layers - 1);
}

/** The largest length whose bytes fit into the capacity, by bisection; 0 if none does. */
function longestFit(needed, capacity) {
  let [fits, fails] = [0, capacity + 1];
  while (fails - fits > 1) {
    const middle = Math.floor((fits + fails) / 2);
    if (needed(middle) <= capacity) fits = middle;
    else fails = middle;
  }
  return fits;
}

/** Everything the picture shows, from the model's traits. */
function compute(model) {
  const [decoder, name, T, each, fused] = SETTINGS.map((setting) => model.get(setting));
  const [size, machine, lengths] = [model.get("decoders")[decoder], model.get("machines")[name], model.get("lengths")];
  const flops = decoderFlops(size, T);
  const held = decoderBytes(size, T, each, fused);
  const needed = (length) => sum(Object.values(decoderBytes(size, length, each, fused)));
  const [own, lstm] = [decoderBound(size, T, machine, each, fused), lstmBound(size, T, machine, each)];
  return {
    size, machine, each, T, lengths,
    decoder_seconds: lengths.map((length) => decoderBound(size, length, machine, each, fused).seconds),
    lstm_seconds: lengths.map((length) => lstmBound(size, length, machine, each).seconds),
    decoder_bytes: lengths.map(needed),
    ...flops, share: flops.looking / sum(Object.values(flops)), crossover: 2 * size.d_model + size.d_ff,
    seconds: own.seconds, limit: own.limit, lstm: lstm.seconds, lstm_limit: lstm.limit,
    ...held, total: needed(T), lstm_bytes: sum(Object.values(lstmBytes(size, each))),
    capacity: machine.memory_bytes, longest: longestFit(needed, machine.memory_bytes),
  };
}

// ---- Words ------------------------------------------------------------------------------------------------------

/** The value with so many significant digits, without an exponent or zeros at the end. */
const round = (value, digits) => String(Number(value.toPrecision(digits)));
const count = (tokens) => tokens.toLocaleString("en-US");

function amount(value, unit) {
  let power = 0;
  for (; value >= 999.5; power++) value /= 1000;
  return `${round(value, 3)} ${PREFIXES[power]}${unit}`;
}

function timeText(seconds) {
  const [unit, size] = UNITS.filter(([, unitSize], i) => i === 0 || seconds >= 0.995 * unitSize).pop();
  return `${round(seconds / size, seconds >= 99.5 * size ? 3 : 2)} ${unit}`;
}

function percent(share) {
  if (share < 0.005) return "under 1%";
  return share > 0.995 ? "over 99%" : `${(100 * share).toFixed(0)}%`;
}

const finding = ({ T, share }) => `At ${count(T)} tokens looking takes ${percent(share)} of the transformer's operations`;

function why({ crossover, seconds, limit, lstm, lstm_limit }) {
  return (
    `It takes half at T = 2D + F = ${count(crossover)}. One pass takes at least ${timeText(seconds)} ` +
    `(${LIMITS[limit]}), an LSTM's ${timeText(lstm)} (${LIMITS[lstm_limit]}).`
  );
}

function memory({ parameters, cache, weights, total, capacity, longest }) {
  const [held, kept, sumOfAll, most] = [parameters, cache, total, capacity].map((value) => amount(value, "B"));
  const written = weights ? `weights of a layer ${amount(weights, "B")}` : "no weights";
  const fit = longest ? `Up to ${count(longest)} tokens fit.` : "Not even one token fits.";
  return `Parameters ${held} + keys, values ${kept} + ${written} = ${sumOfAll} of ${most}${total > capacity ? ", too much" : ""}. ${fit}`;
}

function describe(result) {
  return (
    `${finding(result)}. ${why(result)} ${memory(result)} ` +
    "Left: the least time of a transformer and of an LSTM against the length. Right: the bytes of both, and " +
    "the machine's memory. All axes are logarithmic."
  );
}

/** The sizes and the limits behind the curves. */
function given({ size, machine, each }) {
  const { n_layers, d_model, n_heads, d_ff } = size;
  const sizes = `${n_layers} layers, D = ${count(d_model)}, H = ${n_heads}, F = ${count(d_ff)}`;
  const rates = [amount(machine.flops_per_second[each], "FLOP/s"), amount(machine.bytes_per_second, "B/s")].join(", ");
  return `${sizes} \u00b7 ${rates}, ${timeText(machine.step_seconds)} for a serial step (assumed)`;
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

/** A bar over the whole width: looking, and the rest in two parts. */
function operationsBar({ projections, looking, feed_forward, share }, { width, font }) {
  const all = projections + looking + feed_forward;
  const parts = [[share, COLORS.key, 1], [projections / all, "var(--muted)", 1], [feed_forward / all, "var(--muted)", 0.45]];
  let left = 0;
  const rectangles = parts.map(([part, fill, opacity], i) => {
    const x = left;
    left += part * width;
    return svg("rect", { class: ["looking", "projections", "feed-forward"][i], x, y: 1.5 * font, width: part * width, height: 16, style: `fill: ${fill}; fill-opacity: ${opacity}` });
  });
  const both = `projections ${percent(projections / all)}, feed-forward ${percent(feed_forward / all)}`;
  return svg(
    "g", {}, ...rectangles,
    text(0, font, `looking ${percent(share)}`, { class: "strong" }),
    text(width, font, width < 480 ? `the rest ${percent(1 - share)}` : both, { "text-anchor": "end" }),
  );
}

/** A logarithmic panel against the length. curves: [{name, values, color}]; yAxis: {low, high, known ticks, label}. */
function curvePanel({ T, lengths }, panel, curves, y, ticks, label, ...marks) {
  const x = logScale([lengths[0], lengths.at(-1)], [0, panel.width]);
  const right = panel.left + panel.width;
  const names = curves.map(({ name, values }) => ({ name, y: y(values.at(-1)), height: 1.25 * panel.font }));
  const drawn = curves.filter(({ color }) => color);
  return svg(
    "g", {},
    axes(
      panel,
      { scale: x, ticks: lengths.filter((_, i) => i % (panel.width > 320 ? 4 : 8) === 0), format: count, label: "" },
      { scale: y, ticks: ticks.map(([, value]) => value), format: (value) => ticks.find(([, at]) => at === value)[0], label },
    ),
    text(panel.left + panel.width + panel.labels, panel.top + panel.height + 22, "tokens", { "text-anchor": "end" }),
    clipped(
      panel, ...marks.map((mark) => mark(x)),
      svg("line", { class: "radius", x1: x(T), x2: x(T), y1: 0, y2: panel.height }),
      ...drawn.map(({ name, values, color }) => line(values.map((value, i) => [x(lengths[i]), y(value)]), { class: name, style: `stroke: ${color}; stroke-width: 3.5; stroke-linejoin: round` })),
    ),
    ...drawn.map(({ here, color }) => svg("circle", { class: "here", cx: panel.left + x(T), cy: panel.top + y(here), r: 6.5, style: `fill: var(--jp-layout-color0, white); stroke: ${color}; stroke-width: 3` })),
    ...spread(names, 0, panel.height).map(({ name, y: at }) => text(right + 10, panel.top + at, name, { "dominant-baseline": "central" })),
  );
}

/** A logarithmic scale over whole powers of ten, and the named values that lie on it, thinned where they are many. */
function axisOf(values, known, height) {
  const domain = [10 ** Math.floor(Math.log10(Math.min(...values))), 10 ** Math.ceil(Math.log10(Math.max(...values)))];
  const inside = known.filter(([, value]) => value >= domain[0] && value <= domain[1]);
  const step = Math.ceil(inside.length / MOST_TICKS);
  return { y: logScale(domain, [height, 0]), ticks: inside.filter((_, i) => i % step === 0) };
}

function timePanel(result, panel) {
  const { decoder_seconds, lstm_seconds, seconds, lstm, crossover } = result;
  const known = UNITS.map(([unit, value]) => [`1 ${unit.replace("days", "day")}`, value]);
  const { y, ticks } = axisOf([...decoder_seconds, ...lstm_seconds], known, panel.height);
  const half = (x) => svg(
    "g", {}, svg("line", { class: "bound", x1: x(crossover), x2: x(crossover), y1: 0, y2: panel.height }),
    text(x(crossover) - 7, 0.9 * panel.font, "2D + F", { "text-anchor": "end" }),
  );
  const curves = [
    { name: "transformer", values: decoder_seconds, here: seconds, color: "var(--text)" },
    { name: "LSTM", values: lstm_seconds, here: lstm, color: "var(--state)" },
  ];
  return curvePanel(result, panel, curves, y, ticks, "time of one pass, at least", half);
}

function memoryPanel(result, panel) {
  const { decoder_bytes, lstm_bytes, total, capacity, lengths } = result;
  const { y, ticks } = axisOf([...decoder_bytes, lstm_bytes, capacity], SIZES, panel.height);
  const most = () => svg("line", { class: "bound", x1: 0, x2: panel.width, y1: y(capacity), y2: y(capacity) });
  const curves = [
    { name: "transformer", values: decoder_bytes, here: total, color: "var(--text)" },
    { name: "LSTM", values: lengths.map(() => lstm_bytes), here: lstm_bytes, color: "var(--state)" },
    { name: `all ${amount(capacity, "B")}`, values: [capacity] },
  ];
  return curvePanel(result, panel, curves, y, ticks, "memory", most);
}

/** The two panels side by side, or one below the other where there is no room; above them the bar. */
function layout(width) {
  const font = width < 1000 ? 15 : 17;
  const wide = width >= 760;
  const [margin, labels, top, height] = [4.6 * font, 7 * font, 3.5 * font + 20, 180];
  const room = wide ? (width - 24) / 2 : width;
  const row = height + 28 + 2.4 * font;
  const panel = (n) => ({
    font, margin, labels, height, width: room - margin - labels,
    left: margin + (wide ? n * (room + 24) : 0), top: top + (wide ? 0 : n * row),
  });
  return { font, width, height: top + height + 30 + (wide ? 0 : row), panels: [panel(0), panel(1)] };
}

function drawPicture(result, width) {
  const { font, height, panels } = layout(width);
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  return svg("svg", attributes, operationsBar(result, { width, font }), timePanel(result, panels[0]), memoryPanel(result, panels[1]));
}

/** A menu below its name, as wide as the sliders. */
function menu(view, name, label, choices) {
  const control = select(view, name, { label, choices });
  Object.assign(control.lastChild.style, { gridColumn: "1 / 3", minWidth: 0, width: "100%" });
  return control;
}

/** The view of a trait of powers of two as a trait of exponents, for a slider. */
function asExponent({ model, cleanups }) {
  const power = {
    get: (name) => Math.log2(model.get(name)),
    set: (name, exponent) => model.set(name, 2 ** exponent),
    save_changes: () => model.save_changes(),
    on: (event, call) => model.on(event, call),
    off: (event, call) => model.off(event, call),
  };
  return { cleanups, model: power };
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const [title, reason, sizes, note] = [html("p", { class: "finding" }), html("p"), html("p"), html("p", {}, model.get("note"))];
  note.style.fontSize = sizes.style.fontSize = "15px";
  const picture = html("div", { class: "picture" });
  const live = html("p", { class: "numbers", "aria-live": "polite" });
  const names = (trait) => Object.keys(model.get(trait)).map((name) => [name, name]);
  const controls = html(
    "div", { class: "controls" },
    menu(view, "decoder", "model", names("decoders")),
    menu(view, "machine", "machine", names("machines")),
    slider(asExponent(view), "T", { label: "length T", min: 4, max: 20, step: 1, format: (exponent) => count(2 ** exponent) }),
    menu(view, "bytes_per_number", "bytes per number", [[4, "4"], [2, "2"]]),
    checkbox(view, "fused", { label: "fused attention" }),
  );
  const still = { decoder: "GPT-2 small", machine: "NVIDIA A100 80 GB", bytes_per_number: 2 };
  const tries = html(
    "div", { class: "tries", role: "group", "aria-label": "things to try" },
    html("span", {}, "Things to try:"),
    preset(view, "short text", { ...still, T: 1024, fused: true }),
    preset(view, "long text", { ...still, T: 65536, fused: true }),
    preset(view, "write the weights out", { ...still, T: 65536, fused: false }),
    html("span", { class: "hint" }, "then change the machine: what limits the LSTM now?"),
  );
  el.classList.add("explorer");
  el.replaceChildren(controls, tries, title, reason, picture, live, sizes, note);
  redraw(view, picture, SETTINGS, (width) => {
    const result = compute(model);
    title.textContent = finding(result);
    reason.textContent = why(result);
    picture.replaceChildren(drawPicture(result, width));
    live.textContent = memory(result);
    sizes.textContent = given(result);
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
