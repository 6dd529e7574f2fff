// Where a decoder with attention looked in the source at each step. The weights come from a trained model, as data.
// Left: the weights of one step as bars on the source words. Right: those of all steps, a row each.

const TOP = 3; // the largest weights, which are named
const LATER = 0.35; // opacity of the steps that are still to come

/** Everything the picture shows, from the model's traits. Python's compute() gives the same numbers. */
function compute(model) {
  const example = model.get("examples")[model.get("sentence")];
  const step = Math.min(model.get("step"), example.output.length);
  const row = example.weights[step - 1];
  const order = [...row.keys()].sort((a, b) => row[b] - row[a] || a - b);
  const sum = (places) => places.reduce((total, i) => total + row[i], 0);
  const linked = (example.links ?? []).filter(([, j]) => j === step - 1).map(([i]) => i);
  return {
    ...example, step, row, top: order.slice(0, TOP), rest: sum(order.slice(TOP)), linked, on_gold: sum(linked),
    gold: model.get("gold"),
  };
}

// ---- Words ------------------------------------------------------------------------------------------------------

/** The finding, as a list; `written` and `lookedAt` say how a word of the output and one of the source are shown. */
function finding({ source, output, step, row, top }, written, lookedAt) {
  const end = ` (${row[top[0]].toFixed(2)})`;
  return [`Step ${step} of ${output.length} writes `, written(output[step - 1]), ", looking most at ", lookedAt(source[top[0]]), end];
}

const soFar = ({ output, step }) => `Written so far: ${output.slice(0, step - 1).join(" ") || "nothing yet"}`;

/** The largest weights with the words' numbers, and what is left for the others. */
function numbers({ source, row, top, rest }) {
  const named = top.map((i) => `${source[i]} (${i + 1}) ${row[i].toFixed(2)}`);
  const others = source.length - named.length;
  if (others) named.push(`${others === 1 ? "the other word" : `the other ${others} words`} ${rest.toFixed(2)}`);
  return `Weights: ${named.join(", ")}`;
}

function goldWords({ gold, source, links, linked, on_gold }) {
  if (!gold) return [];
  if (!links) return ["Gold alignment: none given for this sentence"];
  if (!linked.length) return ["Gold alignment: this word has no link"];
  const words = linked.map((i) => `${source[i]} (${i + 1})`).join(" and ");
  return [`Gold alignment: ${words}, with ${on_gold.toFixed(2)} of the weight`];
}

function describe(result) {
  const quoted = (word) => `\u201c${word}\u201d`;
  const map = `Heat map: all ${result.output.length} steps (rows) over ${result.source.length} source words (columns)`;
  const parts = [finding(result, quoted, quoted).join(""), soFar(result), numbers(result), ...goldWords(result), map];
  return `${parts.join(". ")}.`;
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

const central = { "dominant-baseline": "central" };
const box = (x, y, width, height, attributes) => svg("rect", { x, y, width, height, fill: "none", ...attributes });
const GOLD = { class: "gold", style: "stroke: var(--text); stroke-width: 2.5" };

/** Source words with their numbers, a bar each as long as the weight; gold words are boxed. */
function barPanel({ source, row, step, top, gold, linked }, { left, top: above, width, pitch, label, font }) {
  const start = left + label;
  const length = width - label - 3 * font; // of a bar of weight 1; its number stands behind
  const entries = source.map((word, i) => {
    const y = above + i * pitch;
    const at = y + pitch / 2;
    const strong = i === top[0] ? "strong" : null;
    return svg(
      "g", {},
      text(left + 1.4 * font, at, String(i + 1), { ...central, "text-anchor": "end" }),
      text(left + 2 * font, at, word, { ...central, class: strong }),
      svg("rect", { class: "weight", x: start, y: y + 2, width: length * row[i], height: pitch - 4 }),
      text(start + length * row[i] + 6, at, row[i].toFixed(2), { ...central, class: strong }),
      ...(gold && linked.includes(i) ? [box(left + 1.7 * font, y + 1, label - 2.1 * font, pitch - 2, GOLD)] : []),
    );
  });
  return svg(
    "g", { fill: COLORS.key },
    text(left, above - 2.3 * font, `weights of step ${step} on the source words`, { class: "strong" }),
    ...entries,
    svg("line", { class: "axis", x1: start, x2: start, y1: above, y2: above + source.length * pitch }),
  );
}

/** The weights of all steps: the darker, the larger. This step is framed, the later ones are pale. */
function mapPanel({ source, output, weights, step, gold, links }, { left, top: above, pitch, label, cell, font, wide }) {
  const start = left + label;
  const last = start + source.length * cell;
  const lines = output.map((word, t) => {
    const y = above + t * pitch;
    const name = { ...central, "text-anchor": "end", class: t === step - 1 ? "strong" : null, style: t < step ? null : "fill: var(--muted)" };
    const cells = weights[t].map((weight, i) =>
      svg("rect", { x: start + i * cell, y, width: cell, height: pitch, "fill-opacity": weight, class: "grid" }),
    );
    return svg(
      "g", { class: "step" },
      text(start - 8, y + pitch / 2, word, name),
      svg("g", { opacity: t < step ? 1 : LATER }, ...cells),
    );
  });
  const boxes = gold && links ? links.map(([i, j]) => box(start + i * cell + 2, above + j * pitch + 2, cell - 4, pitch - 4, GOLD)) : [];
  const y = above + (step - 1) * pitch;
  const heading = `all steps${boxes.length ? " (boxes: gold)" : ""}${wide ? ", columns: source words" : ""}`;
  const every = cell < 20 ? 2 : 1; // columns of a number each
  const columns = steps(0, source.length - 1, every);
  return svg(
    "g", { fill: COLORS.key },
    text(left, above - 2.3 * font, heading, { class: "strong" }),
    ...columns.map((i) => text(start + (i + 0.5) * cell, above - 8, String(i + 1), { "text-anchor": "middle", "font-size": 15 })),
    ...lines,
    ...boxes,
    box(start - 1, y - 1, last - start + 2, pitch + 2, { class: "now", style: `stroke: ${COLORS.query}; stroke-width: 4` }),
    svg("path", { d: `M${last + 14},${y + 2}v${pitch - 4}l-9,${-(pitch - 4) / 2}z`, fill: COLORS.query }),
  );
}

/** The panels side by side, or one above the other where there is no room. */
function layout({ source, output }, width) {
  const wide = width >= 800;
  const font = wide ? 17 : 15;
  const room = (words) => font * (0.6 * Math.max(...words.map((word) => word.length)) + 0.8);
  const pitch = (count) => Math.min(Math.max(290 / count, 17.5), 27);
  const bars = { font, left: 0, label: room(source) + 2.3 * font, pitch: pitch(source.length) };
  const map = { font, wide, label: room(output) + 8, pitch: pitch(output.length) };
  const share = wide ? 0.52 * width : width;
  map.cell = Math.min((share - map.label - 18) / source.length, 34);
  map.left = wide ? width - Math.max(map.label + map.cell * source.length + 18, 27 * font) : 0; // its heading has 27
  bars.width = wide ? Math.min(map.left - 30, 620) : width;
  bars.top = map.top = 3.4 * font;
  const end = bars.top + source.length * bars.pitch;
  if (!wide) map.top += end + 10;
  return { font, height: Math.max(end, map.top + output.length * map.pitch) + 4, bars, map };
}

function drawPicture(result, width) {
  const { font, height, bars, map } = layout(result, width);
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  return svg("svg", attributes, barPanel(result, bars), mapPanel(result, map));
}

// ---- Controls ---------------------------------------------------------------------------------------------------

/** A button that goes so many steps on or back, as far as there are any. */
function stepButton(view, label, by) {
  const button = html("button", { type: "button", ...OWN_KEYS }, label);
  button.addEventListener("click", () => {
    const { step, output } = compute(view.model);
    store(view.model, { step: Math.min(Math.max(step + by, 1), output.length) });
  });
  return button;
}

/** A menu of the sentences; a newly chosen one starts at its first step. */
function sentenceMenu(view) {
  const choices = view.model.get("examples").map(({ source }, n) => [n, `${n + 1}. ${source.join(" ")}`]);
  const menu = select(view, "sentence", { label: "sentence", choices });
  menu.setAttribute("style", "grid-template-columns: auto minmax(0, 1fr); column-gap: 12px");
  const input = menu.querySelector("select");
  input.setAttribute("style", "width: 100%");
  input.addEventListener("change", () => store(view.model, { step: 1 }));
  return menu;
}

/** A slider over the steps of the chosen sentence. */
function stepSlider(view) {
  const format = () => { const { step, output } = compute(view.model); return `${step} of ${output.length}`; };
  const control = slider(view, "step", { label: "decoder step", min: 1, max: 1, step: 1, format });
  const input = control.querySelector("input");
  follow(view, "sentence", () => {
    const { step, output } = compute(view.model);
    input.max = output.length;
    input.value = step;
    control.querySelector("output").textContent = format();
    input.setAttribute("aria-valuetext", format());
  });
  return control;
}

function goldBox(view) {
  const control = checkbox(view, "gold", { label: "show gold alignment" });
  follow(view, "sentence", () => (control.querySelector("input").disabled = !compute(view.model).links));
  return control;
}

function badge(word, colors) {
  return html("span", { style: `${colors}; border-radius: 6px; padding: 0 8px` }, word);
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const title = html("p", { class: "finding" });
  const written = html("p");
  const picture = html("div", { class: "picture" });
  const live = html("p", { class: "numbers", "aria-live": "polite" });
  const buttons = html(
    "div", { style: "display: flex; gap: 10px" }, stepButton(view, "\u2190 back", -1), stepButton(view, "next step \u2192", 1),
  );
  const controls = html("div", { class: "controls", style: "margin-top: 6px" }, stepSlider(view), buttons, goldBox(view));
  el.classList.add("explorer");
  el.replaceChildren(sentenceMenu(view), controls, title, written, picture, live);
  redraw(view, picture, ["sentence", "step", "gold"], (width) => {
    const result = compute(model);
    const query = (word) => badge(word, `background: ${COLORS.query}; color: #fff`);
    const key = (word) => badge(word, `background: ${COLORS.key}; color: #222`);
    title.replaceChildren(...finding(result, query, key));
    written.textContent = soFar(result);
    picture.replaceChildren(drawPicture(result, width));
    live.textContent = [numbers(result), ...goldWords(result)].join(". ");
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
