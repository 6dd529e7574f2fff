// The heads of a trained transformer, as data: where one of them looks, and the probability of a word without each.
// Left: the weights of one query as bars. Middle: all rows of this head. Right: the right word's probability, head by head.

const KINDS = ["encoder", "decoder", "cross"];
const TOP = 3; // the largest weights, which are named
const LEAST = 0.005; // a smaller change of a probability isn't one
const SETTINGS = ["sentence", "kind", "layer", "head", "step", "word"];

/** Everything the picture shows, from the model's traits. Python's compute() gives the same numbers. */
function compute(model) {
  const kind = model.get("kind");
  const { source, output, ...example } = model.get("examples")[model.get("sentence")];
  const heads = example.weights[kind];
  const layer = Math.min(model.get("layer"), heads.length - 1);
  const head = Math.min(model.get("head"), heads[0].length - 1);
  const step = Math.min(model.get("step"), output.length);
  const word = Math.min(model.get("word"), source.length);
  const encoder = kind === "encoder";
  const query = (encoder ? word : step) - 1;
  const share = (numbers) => numbers.map((number) => number / 1000);
  const weights = heads[layer][head].map(share);
  const row = weights[query];
  const table = KINDS.flatMap((name) => example.without[name].map((block, n) => [name, n, block.map((at) => at[step - 1][0] / 1000)]));
  const lowest = Math.min(...table.flatMap(([, , numbers]) => numbers));
  const [where, n, numbers] = table.find(([, , some]) => some.includes(lowest));
  return {
    kind, layer, head, step, word, queries: encoder ? source : output,
    keys: kind === "decoder" ? ["<bos>", ...output.slice(0, -1)] : source, query, weights, row,
    top: [...row.keys()].sort((a, b) => row[b] - row[a] || a - b).slice(0, TOP),
    followed: example.followed[step - 1], whole: share(example.whole[step - 1]),
    without: share(example.without[kind][layer][head][step - 1]), table, worst: [where, n, numbers.indexOf(lowest)], lowest,
    layers: heads.length, heads: heads[0].length, S: source.length, T: output.length,
  };
}

// ---- Words ------------------------------------------------------------------------------------------------------

const quoted = (word) => `\u201c${word}\u201d`;
const capital = (word) => word[0].toUpperCase() + word.slice(1);

/** The finding, as a list; `asking` and `lookedAt` say how a word that looks and one looked at are shown. */
function finding({ kind, layer, head, queries, keys, query, row, top }, asking, lookedAt) {
  const place = `${capital(kind)}, layer ${layer}, head ${head}: `;
  const doing = kind === "encoder" ? ["", " looks"] : ["writing ", ", it looks"];
  return [place + doing[0], asking(queries[query]), `${doing[1]} most at `, lookedAt(keys[top[0]]), ` (${row[top[0]].toFixed(2)})`];
}

/** What becomes of the right word without this head. */
function change({ followed, whole, without }) {
  const [before, after] = [whole[0], without[0]];
  if (Math.abs(before - after) < LEAST) return `Without this head ${quoted(followed[0])} keeps its probability of ${before.toFixed(2)}`;
  return `Without this head ${quoted(followed[0])} has probability ${after.toFixed(2)} instead of ${before.toFixed(2)}`;
}

function probabilities({ followed, whole, without }) {
  const listed = (numbers) => followed.map((word, i) => `${word} ${numbers[i].toFixed(2)}`).join(", ");
  return `All heads: ${listed(whole)}; without this one: ${listed(without)}`;
}

const numbers = ({ keys, row, top }) => `Weights: ${top.map((s) => `${keys[s]} (${s + 1}) ${row[s].toFixed(2)}`).join(", ")}`;

function describe(result) {
  const { followed, worst: [kind, layer, head], lowest, queries, keys } = result;
  return (
    `${finding(result, quoted, quoted).join("")}. ${change(result)}. ${numbers(result)}. ${probabilities(result)}. ` +
    `Lowest for ${quoted(followed[0])}: ${lowest.toFixed(2)} without ${kind}, layer ${layer}, head ${head}. ` +
    `Heat map: all ${queries.length} rows of this head over ${keys.length} words.`
  );
}

// ---- Drawing ----------------------------------------------------------------------------------------------------

const central = { "dominant-baseline": "central" };
const middle = { ...central, "text-anchor": "middle" };
const frame = (x, y, width, height, name) => svg("rect", { class: name, x, y, width, height, fill: "none", style: `stroke: ${COLORS.query}; stroke-width: 3.5` });

/** The words looked at with their numbers, a bar each as long as the weight. */
function barPanel({ keys, row, top }, { left, top: above, width, pitch, label, font }) {
  const start = left + label;
  const length = width - label - 3 * font; // of a bar of weight 1; its number stands behind
  const entries = keys.map((word, s) => {
    const at = above + (s + 0.5) * pitch;
    const strong = s === top[0] ? "strong" : null;
    return svg(
      "g", {},
      text(left + 1.4 * font, at, String(s + 1), { ...central, "text-anchor": "end" }),
      text(left + 2 * font, at, word, { ...central, class: strong }),
      svg("rect", { class: "weight", x: start, y: at - pitch / 2 + 2, width: length * row[s], height: pitch - 4 }),
      text(start + length * row[s] + 6, at, row[s].toFixed(2), { ...central, class: strong }),
    );
  });
  return svg(
    "g", { fill: COLORS.key }, text(left, above - 2.3 * font, "where it looks", { class: "strong" }), ...entries,
    svg("line", { class: "axis", x1: start, x2: start, y1: above, y2: above + keys.length * pitch }),
  );
}

/** The weights of all queries of this head: the darker, the larger. */
function mapPanel({ queries, keys, query, weights }, { left, top: above, pitch, label, cell, font }) {
  const start = left + label;
  const lines = queries.map((word, t) => svg(
    "g", { class: "row" },
    text(start - 8, above + (t + 0.5) * pitch, word, { ...central, "text-anchor": "end", class: t === query ? "strong" : null }),
    ...weights[t].map((weight, s) => svg("rect", { class: "grid", x: start + s * cell, y: above + t * pitch, width: cell, height: pitch, "fill-opacity": weight })),
  ));
  const columns = steps(0, keys.length - 1, cell < 20 ? 2 : 1); // columns of a number each
  return svg(
    "g", { fill: COLORS.key }, text(left, above - 2.3 * font, "all rows of this head", { class: "strong" }),
    ...columns.map((s) => text(start + (s + 0.5) * cell, above - 8, String(s + 1), { "text-anchor": "middle", "font-size": 14 })),
    ...lines, frame(start - 1, above + query * pitch - 1, keys.length * cell + 2, pitch + 2, "now"),
  );
}

/** For each head, the probability of the right word without it: the darker, the more is lost. */
function tablePanel({ kind, layer, head, followed, whole, table }, { left, top: above, width, font, pitch }) {
  const label = 5.6 * font;
  const cell = Math.min((width - label - 4) / table[0][2].length, 3.6 * font);
  const rows = table.map(([name, n, values], r) => svg(
    "g", { class: "block" },
    text(left, above + (r + 0.5) * pitch, `${name} ${n}`, { ...central, class: name === kind && n === layer ? "strong" : null }),
    ...values.flatMap((p, h) => [
      svg("rect", { class: "lost", x: left + label + h * cell, y: above + r * pitch, width: cell, height: pitch, "fill-opacity": 0.8 * Math.max(whole[0] - p, 0), style: "fill: var(--muted); stroke: var(--grid)" }),
      text(left + label + (h + 0.5) * cell, above + (r + 0.5) * pitch, cell < 2.3 * font ? p.toFixed(2).replace(/^0|\.00$/g, "") || "0" : p.toFixed(2), middle),
    ]),
  ));
  const own = table.findIndex(([name, n]) => name === kind && n === layer);
  return svg(
    "g", {}, text(left, above - 2.3 * font, `P(${quoted(followed[0])}) without one head`, { class: "strong" }),
    ...table[0][2].map((_, h) => text(left + label + (h + 0.5) * cell, above - 8, String(h), { "text-anchor": "middle" })),
    text(left, above - 8, "head"), ...rows, frame(left + label + head * cell, above + own * pitch, cell, pitch, "own"),
    text(left, above + table.length * pitch + 1.2 * font, `with all heads: ${whole[0].toFixed(2)}`),
  );
}

/** The panels side by side, or one above the other where there is no room. */
function layout({ queries, keys, table }, width) {
  const wide = width >= 1000;
  const font = wide ? 16 : 15;
  const room = (words) => font * (0.6 * Math.max(...words.map((word) => word.length)) + 0.8);
  const pitch = (count) => Math.min(Math.max(262 / count, 16.5), 27);
  const top = 3.4 * font;
  const bars = { font, left: 0, top, width: wide ? 0.31 * width : width, label: room(keys) + 2.3 * font, pitch: pitch(keys.length) };
  const barEnd = top + keys.length * bars.pitch;
  const map = { font, left: wide ? 0.34 * width : 0, top: wide ? top : barEnd + 4.2 * font, label: room(queries) + 8, pitch: pitch(queries.length) };
  map.cell = Math.min(((wide ? 0.31 * width : width) - map.label - 6) / keys.length, 34);
  const mapEnd = map.top + queries.length * map.pitch;
  const matrix = { font, left: wide ? 0.68 * width : 0, top: wide ? top : mapEnd + 4.2 * font, width: wide ? 0.32 * width : width, pitch: 29 };
  const end = matrix.top + table.length * matrix.pitch + 2 * font;
  return { font, height: Math.max(barEnd, mapEnd, end) + 4, bars, map, matrix };
}

function drawPicture(result, width) {
  const { font, height, bars, map, matrix } = layout(result, width);
  const attributes = { width, height, "font-size": font, role: "img", "aria-label": describe(result) };
  return svg("svg", attributes, barPanel(result, bars), mapPanel(result, map), tablePanel(result, matrix));
}

// ---- Controls ---------------------------------------------------------------------------------------------------

/** A slider whose end and whose shown value depend on the sentence and on the kind: part(result) is [value, end, text]. */
function boundSlider(view, name, label, min, part) {
  const format = () => part(compute(view.model))[2];
  const control = slider(view, name, { label, min, max: min, step: 1, format });
  const input = control.querySelector("input");
  const update = () => {
    const [value, end, shown] = part(compute(view.model));
    input.max = end;
    input.value = value;
    input.disabled = end === min;
    control.querySelector("output").textContent = shown;
    input.setAttribute("aria-valuetext", shown);
  };
  for (const other of ["sentence", "kind"]) follow(view, other, update);
  return control;
}

/** The menu of the sentences, over the whole width; a newly chosen one starts at its first words. */
function sentenceMenu(view) {
  const choices = view.model.get("examples").map(({ source }, n) => [n, `${n + 1}. ${source.join(" ")}`]);
  const menu = select(view, "sentence", { label: "sentence", choices });
  menu.setAttribute("style", "grid-template-columns: auto minmax(0, 1fr); column-gap: 12px");
  const input = menu.querySelector("select");
  input.setAttribute("style", "width: 100%");
  input.addEventListener("change", () => store(view.model, { step: 1, word: 1 }));
  return menu;
}

function badge(word, colors) {
  return html("span", { style: `${colors}; border-radius: 6px; padding: 0 8px` }, word);
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const title = html("p", { class: "finding" });
  const changed = html("p");
  const picture = html("div", { class: "picture" });
  const live = html("p", { class: "numbers", "aria-live": "polite" });
  const kinds = select(view, "kind", { label: "attention", choices: [["encoder", "encoder, self"], ["decoder", "decoder, self"], ["cross", "cross"]] });
  kinds.lastChild.style.gridColumn = "1 / 3"; // below its name, as wide as the sliders
  const worst = html("button", { type: "button", ...OWN_KEYS }, "most needed head");
  worst.addEventListener("click", () => {
    const [kind, layer, head] = compute(model).worst;
    store(model, { kind, layer, head });
  });
  const source = () => model.get("examples")[model.get("sentence")].source;
  const controls = html(
    "div", { class: "controls", style: "margin-top: 6px" },
    boundSlider(view, "step", "writes", 1, ({ step, T, followed }) => [step, T, `${step} ${followed[0]}`]),
    boundSlider(view, "word", "reads", 1, ({ word, S }) => [word, S, `${word} ${source()[word - 1]}`]),
    kinds,
    boundSlider(view, "layer", "layer", 0, ({ layer, layers }) => [layer, layers - 1, String(layer)]),
    boundSlider(view, "head", "head", 0, ({ head, heads }) => [head, heads - 1, String(head)]),
    worst,
  );
  el.classList.add("explorer");
  el.replaceChildren(sentenceMenu(view), controls, title, changed, picture, live);
  redraw(view, picture, SETTINGS, (width) => {
    const result = compute(model);
    const asking = (word) => badge(word, `background: ${COLORS.query}; color: #fff`);
    const lookedAt = (word) => badge(word, `background: ${COLORS.key}; color: #222`);
    title.replaceChildren(...finding(result, asking, lookedAt));
    changed.textContent = `${change(result)}.`;
    picture.replaceChildren(drawPicture(result, width));
    live.textContent = probabilities(result);
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
