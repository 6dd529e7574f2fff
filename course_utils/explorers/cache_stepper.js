// One self-attention layer writes token after token, with and without a cache of keys and values.
// Left: which queries, keys and values a step computes, and which it reads. Right: all multiplications so far.

const LENGTHS = [2, 16]; // smallest and largest T
const WIDTHS = [64, 128, 256, 512, 1024]; // of the model
const BYTES = 4; // of a number in the cache
const PAUSE = 900; // milliseconds between two steps when it plays
const ROWS = ["query", "key", "value"];
const SETTINGS = ["step", "T", "d_model"];

/** Everything the picture shows, from the model's traits. Python's compute() gives the same numbers. */
function compute(model) {
  const [T, D] = ["T", "d_model"].map((name) => model.get(name));
  const step = Math.min(model.get("step"), T);
  const all = steps(1, T, 1);
  const without = all.map((t) => 4 * t * D ** 2 + 2 * t ** 2 * D);
  const with_cache = all.map((t) => 4 * D ** 2 + 2 * t * D);
  const so_far = [without, with_cache].map((counts) => counts.slice(0, step).reduce((sum, count) => sum + count, 0));
  return { step, T, D, without, with_cache, so_far, ratio: so_far[0] / so_far[1], bytes: 2 * step * D * BYTES };
}

/** What happens to a token's query, key or value: "computed", "read", or nothing. */
function stateOf(step, cached, row, token) {
  if (cached ? token === step : token <= step) return "computed";
  return cached && row !== "query" && token < step ? "read" : "";
}

// ---- Words ------------------------------------------------------------------------------------------------------

/** A number of multiplications, short. */
function countText(number) {
  if (number >= 1e9) return `${(number / 1e9).toFixed(1)} billion`;
  return number >= 1e6 ? `${(number / 1e6).toFixed(1)} million` : number.toLocaleString("en-US");
}

function finding({ step, ratio }) {
  if (step === 1) return "Step 1: nothing to read yet, with and without a cache the same is computed";
  const read = step > 2 ? `${step - 1} keys and values read` : "1 key and value read";
  return `Step ${step}: ${read}, 1 computed; ${ratio.toFixed(1)} times cheaper so far`;
}

function reason({ step }) {
  if (step === 1) return "The first token has nothing before it; its key and value go into the cache.";
  return "No token attends to a later one, so the keys and values of those before never change; their queries are not needed again.";
}

function numbers({ step, without, with_cache, so_far, bytes }) {
  const now = [without, with_cache].map((counts) => countText(counts[step - 1]));
  const [all, few] = so_far.map(countText);
  return `Multiplications: this step ${now[0]} without and ${now[1]} with a cache, so far ${all} and ${few}. Cache: ${(bytes / 1024).toFixed(1)} KiB`;
}

function describe(result) {
  const { step, T } = result;
  return (
    `${finding(result)}. ${numbers(result)}. Left: tokens 1 to ${T}; without a cache ${step} queries, keys and values are ` +
    `computed, with a cache 1 of each, and ${step - 1} keys and values are read. ` +
    "Right: multiplications so far against the step, for both."
  );
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

const middle = { "text-anchor": "middle", "dominant-baseline": "central" };

/** Queries, keys and values of all tokens: filled where computed now, a ring where read. */
function tokenPanel({ step, T }, cached, { left, top, width, font, pitch }) {
  const start = left + 1.6 * font;
  const cell = Math.min((width - 1.6 * font) / T, 40);
  const cells = ROWS.flatMap((row, r) => [
    text(left + 0.6 * font, top + (r + 0.5) * pitch, row[0].toUpperCase(), middle),
    ...steps(1, T, 1).map((token) => {
      const state = stateOf(step, cached, row, token);
      const [x, y] = [start + (token - 1) * cell, top + r * pitch];
      const style = `stroke-width: 2; stroke: ${state ? COLORS[row] : "var(--grid)"}; fill: ${state === "computed" ? COLORS[row] : "none"}`;
      const mark = { computed: { r: 4, style: "fill: #fff" }, read: { r: 4, style: "fill: none; stroke: var(--text); stroke-width: 1.5" } }[state];
      return svg(
        "g", {},
        svg("rect", { class: `cell ${row} ${state}`, x: x + 2, y: y + 2, width: cell - 4, height: pitch - 4, rx: 3, style }),
        ...(mark ? [svg("circle", { cx: x + cell / 2, cy: y + pitch / 2, ...mark })] : []),
      );
    }),
  ]);
  const every = cell < 20 ? 2 : 1;
  return svg(
    "g", { class: cached ? "cached" : "uncached" },
    text(left, top - 1.9 * font, cached ? "with a cache" : "without a cache", { class: "strong" }),
    ...steps(1, T, every).map((token) => text(start + (token - 0.5) * cell, top - 0.6 * font, String(token), { ...middle, class: token === step ? "strong" : null })),
    ...cells,
  );
}

function totalPanel({ step, T, without, with_cache }, panel) {
  const totals = [without, with_cache].map((counts) => {
    let sum = 0;
    return counts.map((count) => (sum += count));
  });
  const top = totals[0][T - 1];
  const unit = niceStep(top, 4);
  const x = linearScale([1, T], [0, panel.width]);
  const y = linearScale([0, top], [panel.height, 6]);
  const every = T > 8 ? 3 : 1;
  const names = ["without a cache", "with a cache"].map((name, i) => ({ name, i, y: y(totals[i][T - 1]), height: 22 }));
  const mark = (i) => `stroke: var(--text); stroke-width: 3.5; stroke-dasharray: ${i ? "none" : "8 5"}`;
  return svg(
    "g", {},
    axes(
      panel,
      { scale: x, ticks: steps(1, T, every), format: String, label: "step" },
      { scale: y, ticks: steps(0, Math.floor(top / unit), 1).map((count) => count * unit), format: (count) => String(+(count / 1e6).toPrecision(3)), label: "multiplications so far, in millions" },
    ),
    svg("line", { class: "radius", x1: panel.left + x(step), x2: panel.left + x(step), y1: panel.top, y2: panel.top + panel.height }),
    ...totals.map((sums, i) => svg(
      "g", { transform: `translate(${panel.left},${panel.top})` },
      line(sums.map((total, t) => [x(t + 1), y(total)]), { class: "total", style: mark(i) }),
      svg("circle", { class: "here", cx: x(step), cy: y(sums[step - 1]), r: 6.5, style: "fill: var(--text)" }),
    )),
    ...spread(names, 0, panel.height).map(({ name, y: at }) => text(panel.left + panel.width + 10, panel.top + at, name, { "dominant-baseline": "central" })),
  );
}

/** The two rows of tokens beside the curves, or all below each other where there is no room. */
function layout(width) {
  const wide = width >= 900;
  const font = wide ? 17 : 15;
  const pitch = 27;
  const tokens = (n) => ({ font, pitch, left: 0, top: 3.1 * font + n * (3 * pitch + 3.4 * font), width: wide ? 0.54 * width : width });
  const below = tokens(1).top + 3 * pitch;
  const margin = 3.4 * font;
  const names = 9.4 * font;
  const panel = wide
    ? { left: 0.57 * width + margin, top: 3.1 * font, width: 0.43 * width - margin - names, height: below - 3.1 * font - 48, margin }
    : { left: margin, top: below + 3.4 * font, width: width - margin - names, height: 180, margin };
  return { font, height: wide ? below + 6 : panel.top + panel.height + 52, tokens: [tokens(0), tokens(1)], panel };
}

function drawPicture(result, width) {
  const { font, height, tokens, panel } = layout(width);
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  return svg("svg", attributes, tokenPanel(result, false, tokens[0]), tokenPanel(result, true, tokens[1]), totalPanel(result, panel));
}

// ---- Controls ---------------------------------------------------------------------------------------------------

/** A button that goes so many steps on or back, as far as there are any. */
function stepButton(view, label, by) {
  const button = html("button", { type: "button", ...OWN_KEYS }, label);
  button.addEventListener("click", () => {
    const { step, T } = compute(view.model);
    store(view.model, { step: Math.min(Math.max(step + by, 1), T) });
  });
  return button;
}

/** A button that plays the steps from here, or from the first one at the end, and stops at the last. */
function playButton(view) {
  const { model } = view;
  const button = html("button", { type: "button", ...OWN_KEYS }, "play");
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "play";
  };
  button.addEventListener("click", () => {
    if (timer !== null) return stop();
    const { step, T } = compute(model);
    if (step === T) store(model, { step: 1 });
    button.textContent = "pause";
    timer = setInterval(() => {
      const now = compute(model);
      if (now.step < now.T) store(model, { step: now.step + 1 });
      if (now.step + 1 >= now.T) stop();
    }, PAUSE);
  });
  view.cleanups.push(stop);
  return button;
}

function stepSlider(view) {
  const format = () => { const { step, T } = compute(view.model); return `${step} of ${T}`; };
  const control = slider(view, "step", { label: "step t", min: 1, max: LENGTHS[1], step: 1, format });
  const input = control.querySelector("input");
  follow(view, "T", () => {
    const { step, T } = compute(view.model);
    input.max = T;
    input.value = step;
    control.querySelector("output").textContent = format();
    input.setAttribute("aria-valuetext", format());
  });
  return control;
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const title = html("p", { class: "finding" });
  const why = html("p");
  const legend = html("p", {}, "\u25cf computed now, \u25cb read from the cache");
  const picture = html("div", { class: "picture" });
  const live = html("p", { class: "numbers", "aria-live": "polite" });
  const width = select(view, "d_model", { label: "width D", choices: WIDTHS.map((D) => [D, String(D)]) });
  width.lastChild.style.gridColumn = "1 / 3"; // below its name, as wide as the sliders
  const controls = html(
    "div", { class: "controls" },
    stepSlider(view),
    slider(view, "T", { label: "tokens T", min: LENGTHS[0], max: LENGTHS[1], step: 1 }),
    width,
  );
  const buttons = html("div", { class: "tries" }, stepButton(view, "\u2190 back", -1), stepButton(view, "next step \u2192", 1), playButton(view));
  el.classList.add("explorer");
  el.replaceChildren(controls, buttons, title, why, legend, picture, live);
  redraw(view, picture, SETTINGS, (room) => {
    const result = compute(model);
    title.textContent = finding(result);
    why.textContent = reason(result);
    picture.replaceChildren(drawPicture(result, room));
    live.textContent = numbers(result);
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
