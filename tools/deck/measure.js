// What is wrong with the slide that is shown? Returns {title, findings: [[kind, message], …]}. Lengths in slide pixels.
({ smallest, tolerance, figureText }) => {
  const slide = Reveal.getCurrentSlide(), scale = Reveal.getScale();
  const page = document.querySelector(".reveal .slides").getBoundingClientRect();
  const footer = slide.querySelector(".deck-footer");
  const bottom = footer && getComputedStyle(footer).visibility !== "hidden"
    ? (footer.getBoundingClientRect().top - page.top) / scale - 6 : page.height / scale;
  const limit = { left: 0, top: 0, right: page.width / scale, bottom };
  const findings = new Map();
  // One finding a place: where many pieces share it (the words of a code line), the worst speaks for all.
  const find = (kind, message, place = message, size = 0) => {
    const known = findings.get(kind + place);
    if (!known || known.size < size) findings.set(kind + place, { kind, message, size });
  };
  const name = (e) => `<${e.tagName.toLowerCase()}> “${(e.textContent || e.getAttribute("alt") || "").trim().replace(/\s+/g, " ").slice(0, 50)}”`;
  const ours = (node) => [...node.childNodes].filter((n) => n.nodeType === 3 && n.textContent.trim());
  const CLOSED = "aside.notes, .deck-footer, mjx-assistive-mml, defs, style, script, title, desc";
  const PICTURES = /^(img|svg|canvas|video|button|input|select|textarea)$/i;

  const box = (r) => ({ left: (r.left - page.left) / scale, top: (r.top - page.top) / scale,
    right: (r.right - page.left) / scale, bottom: (r.bottom - page.top) / scale });

  function rectangles(element, texts) {
    if (!texts.length || element.ownerSVGElement) return [element.getBoundingClientRect()];
    return texts.flatMap((text) => {
      const range = document.createRange();
      range.selectNodeContents(text);
      return [...range.getClientRects()];
    });
  }

  // Which ancestor hides how much of a rectangle? What scrolls on purpose (opened details) hides nothing.
  function cut(element, whole) {
    let hidden = 0, by = null;
    for (let parent = element.parentElement; parent && parent !== slide; parent = parent.parentElement) {
      if (parent.classList.contains("details-body")) return { hidden: 0 };
      if (!/auto|scroll|hidden|clip/.test(getComputedStyle(parent).overflow)) continue;
      const r = box(parent.getBoundingClientRect());
      const here = Math.max(r.left - whole.left, whole.right - r.right, r.top - whole.top, whole.bottom - r.bottom);
      if (here > hidden) [hidden, by] = [here, parent];
    }
    return { hidden, by };
  }

  function cutMessage(element, by, hidden) {
    if (!by.matches(".highlight")) return `${name(element)}: ${hidden} px are cut off`;
    const longest = by.textContent.split("\n").reduce((a, b) => (b.length > a.length ? b : a));
    return `code is ${hidden} px too wide: “${longest.trim().slice(0, 40)}…” (${longest.length} characters)`;
  }

  const cutters = [];
  function position(element, texts) {
    if (element.matches("svg svg")) return; // the frame of a plot, which cuts lines off on purpose; its texts are measured
    for (const raw of rectangles(element, texts)) {
      if (raw.width < 1 || raw.height < 1) continue;
      const r = box(raw), { hidden, by } = cut(element, r);
      if (hidden > tolerance + 2) {
        if (!cutters.includes(by)) cutters.push(by);
        find("cut", cutMessage(element, by, Math.round(hidden)), cutters.indexOf(by), hidden);
      } else for (const edge of Object.keys(limit)) {
        const over = edge === "left" || edge === "top" ? limit[edge] - r[edge] : r[edge] - limit[edge];
        if (over > tolerance) find("overflow", `${name(element)}: ${Math.round(over)} px over the ${edge} edge`, edge, over);
      }
    }
  }

  function textSize(element) {
    const size = parseFloat(getComputedStyle(element).fontSize);
    const matrix = element.ownerSVGElement && element.getScreenCTM();
    return matrix ? size * Math.hypot(matrix.a, matrix.b) / scale : size;
  }

  function readable(size, element, what = name(element)) {
    if (size < smallest - 0.05) find("small text", `${what}: ${size.toFixed(1)} px`);
  }

  // The text of an embedded SVG file, measured in a shadow tree, where its styles touch nothing.
  function svgFile(image) {
    const host = document.createElement("div");
    host.style.cssText = `position: absolute; visibility: hidden; width: ${image.clientWidth}px`;
    const bytes = Uint8Array.from(atob(image.src.split(",")[1]), (c) => c.charCodeAt(0));
    host.attachShadow({ mode: "open" }).innerHTML = new TextDecoder().decode(bytes).replace(/<\?xml[^>]*>|<!DOCTYPE[^>]*>/g, "");
    slide.append(host);
    const svg = host.shadowRoot.querySelector("svg");
    svg.setAttribute("width", image.clientWidth);
    svg.setAttribute("height", image.clientHeight);
    for (const text of svg.querySelectorAll("text, tspan")) {
      if (ours(text).length) readable(textSize(text), text, `diagram text “${text.textContent.trim().slice(0, 40)}”`);
    }
    host.remove();
  }

  function picture(image) {
    if (!image.naturalWidth) return find("picture", `${name(image)} doesn't load`);
    if (!image.alt.trim()) find("picture", "a picture has no alternative text");
    if (image.src.startsWith("data:image/svg+xml;base64")) svgFile(image);
    else readable(figureText * image.clientWidth / image.naturalWidth, image,
      `figure ${image.naturalWidth}×${image.naturalHeight} px shown at ${image.clientWidth} px: its 12-pt text`);
  }

  for (const element of slide.querySelectorAll("*")) {
    if (element.closest(CLOSED) || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.matches("[data-mml-node=merror]")) find("mathematics", `error: ${element.closest("mjx-container").textContent.slice(0, 80)}`);
    if (element.closest("mjx-container svg") && element.tagName !== "svg") continue;
    const texts = ours(element);
    if (texts.length || element.matches("button, select, input:not([type=range], [type=checkbox], [type=radio])")) readable(textSize(element), element);
    if (texts.length || PICTURES.test(element.tagName) || element.matches("blockquote, .highlight, table")) position(element, texts);
    if (element.tagName === "MJX-CONTAINER") readable(parseFloat(getComputedStyle(element).fontSize), element, "formula");
    if (element.tagName === "IMG") picture(element);
    if (!element.closest("pre, code")) for (const text of texts) {
      if (/\$[^$]+\$|\\\(|\\\[|\\begin\{/.test(text.textContent)) find("mathematics", `not typeset: ${text.textContent.trim().slice(0, 60)}`);
    }
  }
  for (const view of slide.querySelectorAll(".jupyter-widgets.jp-OutputArea-output")) {
    if (!view.querySelector(".widget-subarea *") || view.querySelector(".jupyter-widgets-error-widget")) find("explorer", "isn't shown");
  }
  return { title: slide.querySelector("h1, h2, h3")?.textContent.trim() ?? "",
    findings: [...findings.values()].map(({ kind, message }) => [kind, message]) };
}
