// A mask of attention, built from its rules or cell by cell, and the softmax of fixed scores under it.
// Left: the mask, a table whose cells are turned round by click or key. Right: the weights that it leaves.

const MOST = 8; // queries, and keys
const PITCH = 28; // height of a row, in both panels
const GRID_STYLE = `
.explorer .mask { border-collapse: collapse; table-layout: fixed; margin: 0; font: inherit; font-size: 16px; color: inherit; }
.explorer .mask tr { height: ${PITCH}px; background: none; }
.explorer .mask :is(th, td) { padding: 0; line-height: 1; height: ${PITCH}px; text-align: center; white-space: nowrap; overflow: hidden; }
.explorer .mask th { border: 0; background: none; font-weight: 400; }
.explorer .mask th[scope=row] { text-align: right; padding-right: 8px; }
.explorer .mask th.chosen { font-weight: 600; }
.explorer .mask td { border: 1px solid var(--muted); cursor: pointer; }
.explorer .mask td[aria-selected=true] { background: var(--grid); }
.explorer .mask td.leak { border: 3px solid var(--text); font-weight: 600; }
.explorer .mask td:focus-visible { outline: 3px solid var(--focus); outline-offset: -3px; }
.explorer .pair { display: grid; gap: 6px 36px; align-items: start; }`;

function softmax(scores, allowed) {
  const most = Math.max(...scores.filter((_, s) => allowed[s]));
  const e = scores.map((score, s) => (allowed[s] ? Math.exp(score - most) : 0));
  const total = e.reduce((sum, value) => sum + value, 0);
  return e.map((value) => (total ? value / total : 0));
}

const padded = (words, length) => [...words, ...new Array(length).fill("<pad>")].slice(0, length);

/** Everything the picture shows, from the model's traits. Python's compute() gives the same numbers. */
function compute(model) {
  const [kind, causal, padding, window, S] = ["kind", "causal", "padding", "window", "S"].map((name) => model.get(name));
  const [source, target] = model.get("sentences")[model.get("sentence")];
  const cross = kind === "cross";
  const keys = padded(kind === "decoder" ? target : source, S);
  const T = cross ? model.get("T") : Math.min(model.get("T"), S);
  const queries = cross ? padded(target, T) : keys.slice(S - T);
  const first = cross ? 0 : S - T; // place of the first query
  const byHand = new Set(model.get("toggled").map(String));
  const mask = queries.map((_, t) => keys.map((word, s) => {
    const near = cross || ((!causal || s <= first + t) && (!window || Math.abs(first + t - s) < window));
    return (near && !(padding && word === "<pad>")) !== byHand.has(`${t},${s}`);
  }));
  const weights = mask.map((allowed, t) => softmax(model.get("scores")[first + t].slice(0, S), allowed));
  const cells = mask.flatMap((allowed, t) => allowed.flatMap((may, s) => (may ? [[t, s]] : [])));
  return {
    kind, queries, keys, mask, weights,
    leaks: kind === "decoder" ? cells.filter(([t, s]) => s > first + t) : [],
    empty: queries.flatMap((_, t) => (mask[t].includes(true) ? [] : [t])),
    on_pads: queries.map((query, t) => keys.reduce((sum, key, s) => sum + (key === "<pad>" && query !== "<pad>" ? weights[t][s] : 0), 0)),
    row: Math.min(model.get("row"), T - 1),
  };
}

// ---- Words ------------------------------------------------------------------------------------------------------

/** What matters most: a look at the future, then a query without keys, then weight on <pad>. */
function finding({ queries, keys, mask, leaks, empty, on_pads }) {
  const query = (t) => `uery ${t + 1} \u201c${queries[t]}\u201d`;
  if (leaks.length === 1) return `Leak: q${query(leaks[0][0])} sees key ${leaks[0][1] + 1} \u201c${keys[leaks[0][1]]}\u201d, which comes later`;
  if (leaks.length) return `Leak: ${leaks.length} cells let a query see a key that comes later`;
  if (empty.length === 1) return `Q${query(empty[0])} may attend to nothing: its weights are zeros`;
  if (empty.length) return `${empty.length} queries may attend to nothing: their weights are zeros`;
  const most = on_pads.indexOf(Math.max(...on_pads));
  if (on_pads[most] > 0) return `Q${query(most)} gives ${on_pads[most].toFixed(2)} of its weight to <pad>`;
  const counts = mask.map((allowed) => allowed.filter(Boolean).length);
  const [low, high] = [Math.min(...counts), Math.max(...counts)];
  return `Each query may attend to ${low === high ? low : `${low} to ${high}`} of ${keys.length} keys`;
}

/** Why: one sentence chosen by the numbers. */
function reason({ kind, leaks, empty, on_pads }) {
  if (leaks.length) return "In training the next token can be read off there; when the model writes, that token isn't there yet.";
  if (empty.length) return "A softmax over no key at all is 0/0: torch.softmax of such a row is NaN, masked_softmax makes it zeros.";
  if (Math.max(...on_pads) > 0) return "A sentence's result then depends on how long the others in its batch are.";
  if (kind === "decoder") return "The query at a place predicts the token after it, from the tokens up to that place.";
  if (kind === "encoder") return "An encoder may read in both directions: the whole source is there from the start.";
  return "Queries come from the decoder, keys from the source, all of which is there: nothing to hide but the padding.";
}

const words = (name, list) => `${name}: ${list.map((word, i) => `${i + 1} ${word}`).join(", ")}`;

/** The mask of one query as torch's two functions want it. */
function polarities({ mask, row }) {
  const [attend, ignore] = [true, false].map((sign) => mask[row].map((may) => (may === sign ? "T" : "F")).join(" "));
  return `Query ${row + 1} in torch: SDPA (True = attend) ${attend}, MultiheadAttention (True = ignore) ${ignore}`;
}

function describe(result) {
  const { queries, keys, mask } = result;
  const seen = mask.map((allowed) => allowed.flatMap((may, s) => (may ? [s + 1] : [])).join(" ") || "nothing");
  const rows = seen.map((some, t) => `${t + 1} to ${some}`).join("; ");
  return (
    `${finding(result)}. ${words("Keys", keys)}. ${words("Queries", queries)}. ` +
    `Which query attends to which keys: ${rows}. ${polarities(result)}.`
  );
}

// ---- The mask, a table with one stop of the tab key ---------------------------------------------------------------

const isLeak = ({ leaks }, t, s) => leaks.some(([query, key]) => query === t && key === s);

function toggle(model, t, s) {
  const others = model.get("toggled").filter((cell) => String(cell) !== `${t},${s}`);
  const before = model.get("toggled").length;
  store(model, { toggled: others.length < before ? others : [...others, [t, s]] });
}

function maskTable(view) {
  const { model } = view;
  const table = html("table", { class: "mask", role: "grid", "aria-label": "mask: queries in rows, keys in columns", ...OWN_KEYS });
  let at = [0, 0]; // the cell that has the focus, or gets it next
  const cell = ([t, s]) => table.rows[t + 1].cells[s + 1];
  const go = (t, s, focus) => {
    const last = [table.rows.length - 2, table.rows[0].cells.length - 2];
    cell(at).tabIndex = -1;
    at = [t, s].map((place, i) => Math.min(Math.max(place, 0), last[i]));
    cell(at).tabIndex = 0;
    if (focus) cell(at).focus();
    if (at[0] !== model.get("row") && focus) store(model, { row: at[0] });
  };
  const placeOf = (target) => {
    const td = target.closest("td");
    return td && [td.parentNode.rowIndex - 1, td.cellIndex - 1];
  };
  table.addEventListener("click", ({ target }) => {
    const place = placeOf(target);
    if (!place) return;
    go(...place, true);
    toggle(model, ...place);
  });
  table.addEventListener("keydown", (event) => {
    const [t, s] = at;
    const moves = { ArrowUp: [t - 1, s], ArrowDown: [t + 1, s], ArrowLeft: [t, s - 1], ArrowRight: [t, s + 1], Home: [t, 0], End: [t, MOST] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) go(...moves[event.key], true);
    else if (event.key === " " || event.key === "Enter") toggle(model, t, s);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  const build = (T, S) => {
    const numbers = Array.from({ length: S }, (_, s) => html("th", { scope: "col", role: "columnheader" }, String(s + 1)));
    const row = () => html("tr", { role: "row" }, html("th", { scope: "row", role: "rowheader" }), ...numbers.map(() => html("td", { role: "gridcell", tabindex: -1 })));
    table.replaceChildren(html("tr", { role: "row" }, html("th", { role: "columnheader" }), ...numbers), ...Array.from({ length: T }, row));
    at = [Math.min(at[0], T - 1), Math.min(at[1], S - 1)];
    cell(at).tabIndex = 0;
  };
  const show = (result, label, size) => {
    const { queries, keys, mask, row } = result;
    if (table.rows.length !== queries.length + 1 || table.rows[0].cells.length !== keys.length + 1) build(queries.length, keys.length);
    table.style.width = `${label + keys.length * size}px`;
    table.rows[0].cells[0].style.width = `${label}px`;
    queries.forEach((query, t) => {
      const [name, ...cells] = table.rows[t + 1].cells;
      name.textContent = `${query} ${t + 1}`;
      name.className = t === row ? "chosen" : "";
      name.style.color = query === "<pad>" ? "var(--muted)" : "";
      cells.forEach((td, s) => {
        const [may, leak] = [mask[t][s], isLeak(result, t, s)];
        td.textContent = may ? (leak ? "!" : "\u2713") : "";
        td.className = leak ? "leak" : "";
        td.setAttribute("aria-selected", may);
        const end = may ? `may attend${leak ? ", but comes later" : ""}` : "hidden";
        td.setAttribute("aria-label", `query ${t + 1} ${query}, key ${s + 1} ${keys[s]}: ${end}`);
      });
    });
  };
  return { table, show };
}

// ---- The weights ------------------------------------------------------------------------------------------------

function drawWeights(result, { label, cell, font }) {
  const { queries, keys, mask, weights, empty, row } = result;
  const [width, height] = [label + keys.length * cell, (queries.length + 1) * PITCH];
  const middle = { "text-anchor": "middle", "dominant-baseline": "central" };
  const y = (t) => (t + 1) * PITCH;
  const x = (s) => label + s * cell;
  const show = (weight) => (cell < 40 ? weight.toFixed(2).replace(/^0|\.00$/g, "") || "0" : weight.toFixed(2));
  const rows = queries.map((query, t) =>
    svg(
      "g", { class: "row" },
      text(label - 8, y(t) + PITCH / 2, `${query} ${t + 1}`, {
        ...middle, "text-anchor": "end", class: t === row ? "strong" : null, style: query === "<pad>" ? "fill: var(--muted)" : null,
      }),
      ...weights[t].flatMap((weight, s) => [
        svg("rect", { class: "weight grid", x: x(s), y: y(t), width: cell, height: PITCH, fill: COLORS.key, "fill-opacity": weight }),
        ...(mask[t][s] ? [text(x(s) + cell / 2, y(t) + PITCH / 2, show(weight), middle)] : []),
        ...(isLeak(result, t, s) ? [svg("rect", { class: "leak", x: x(s) + 1.5, y: y(t) + 1.5, width: cell - 3, height: PITCH - 3, fill: "none", style: "stroke: var(--text); stroke-width: 3" })] : []),
      ]),
      ...(empty.includes(t) ? [text(label + (keys.length * cell) / 2, y(t) + PITCH / 2, keys.length * cell < 120 ? "0" : "nothing: all 0", middle)] : []),
    ),
  );
  const frame = { class: "now", fill: "none", style: `stroke: ${COLORS.query}; stroke-width: 3` };
  return svg(
    "svg", { width, height: height + 3, "font-size": font, role: "img", "aria-label": describe(result) },
    ...keys.map((_, s) => text(x(s) + cell / 2, PITCH / 2, String(s + 1), middle)),
    ...rows,
    svg("rect", { ...frame, x: label - 1, y: y(row) - 1, width: keys.length * cell, height: PITCH + 2 }),
  );
}

/** Both panels side by side, or one above the other where there is no room; their cells have the same size. */
function layout({ queries, keys }, width) {
  const wide = width >= 700;
  const font = 16;
  const label = 9.2 * Math.max(...queries.map((word) => word.length)) + 40;
  const room = wide ? (width - 36) / 2 : width;
  return { font, wide, label, cell: Math.min(Math.floor((room - label - 2) / keys.length), 50) };
}

function render({ model, el }) {
  const view = { model, cleanups: [] };
  const title = html("p", { class: "finding", "aria-live": "polite" });
  const why = html("p");
  const keyLine = html("p");
  const torch = html("p", { class: "numbers" });
  const picture = html("div", { class: "picture" });
  const { table, show } = maskTable(view);
  const weights = html("div", {});
  const heading = (words) => html("strong", {}, words);
  const left = html("div", {}, heading("mask: \u2713 = may attend (click, or arrows and Space)"), table);
  const right = html("div", {}, heading("weights: softmax of fixed scores under the mask"), weights);
  const pair = html("div", { class: "pair" }, left, right);
  picture.append(pair);
  const onlySelf = (control) => {
    follow(view, "kind", () => (control.querySelector("input").disabled = model.get("kind") === "cross"));
    return control;
  };
  const menu = (name, label, choices) => {
    const control = select(view, name, { label, choices });
    control.lastChild.style.gridColumn = "1 / 3"; // below its name, as wide as the sliders
    return control;
  };
  const kinds = [["encoder", "encoder, self"], ["decoder", "decoder, self"], ["cross", "cross"]];
  const controls = html(
    "div", { class: "controls" },
    slider(view, "T", { label: "queries T", min: 1, max: MOST, step: 1 }),
    slider(view, "S", { label: "keys S", min: 1, max: MOST, step: 1 }),
    onlySelf(slider(view, "window", { label: "window", min: 0, max: MOST - 1, step: 1, format: (size) => (size ? String(size) : "none") })),
    menu("kind", "attention", kinds),
    menu("sentence", "sentence", model.get("sentences").map(([source], n) => [n, `${n + 1} (${source.length} words)`])),
    html("div", {}, onlySelf(checkbox(view, "causal", { label: "causal" })), checkbox(view, "padding", { label: "hide <pad>" })),
  );
  const plain = { kind: "decoder", sentence: 1, T: 8, S: 8, causal: true, padding: true, window: 0, toggled: [] };
  const tries = html(
    "div", { class: "tries", role: "group", "aria-label": "things to try" },
    html("span", {}, "Things to try:"),
    preset(view, "causal and padding", plain),
    preset(view, "leak", { ...plain, toggled: [[2, 3]], row: 2 }),
    preset(view, "fully masked", { ...plain, window: 2, row: 7 }),
    preset(view, "see the padding", { ...plain, kind: "cross", padding: false, row: 1 }),
    preset(view, "undo clicks", { toggled: [] }),
  );
  el.classList.add("explorer");
  el.replaceChildren(html("style", {}, GRID_STYLE), controls, tries, title, why, keyLine, picture, torch);
  redraw(view, picture, ["kind", "sentence", "T", "S", "causal", "padding", "window", "toggled", "row"], (width) => {
    const result = compute(model);
    const plan = layout(result, width);
    pair.style.gridTemplateColumns = plan.wide ? "1fr 1fr" : "1fr";
    title.textContent = finding(result);
    why.textContent = reason(result);
    keyLine.textContent = words("Keys", result.keys);
    show(result, plan.label, plan.cell);
    weights.replaceChildren(drawWeights(result, plan));
    torch.textContent = polarities(result);
  });
  return () => view.cleanups.forEach((end) => end());
}

export { compute };
export default { render };
