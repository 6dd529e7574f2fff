// Arranges the slides and starts reveal.js. Runs once, when the slides are in the document and before MathJax.
"use strict";
(() => {
  const WIDTH = 1280, HEIGHT = 720;
  const root = document.querySelector(".reveal");
  const slides = [...root.querySelectorAll(".slides > section")];
  const element = (tag, className, text = "") =>
    Object.assign(document.createElement(tag), { className, textContent: text });

  // Cells tagged left and right, one after the other, stand side by side.
  const side = (block) => ["left", "right"].find((name) => block.querySelector(`.celltag_${name}`)
    || block.classList.contains(`celltag_${name}`));

  function columns(slide) {
    let grid = null;
    for (const block of [...slide.children]) {
      const name = side(block);
      if (!name) { grid = null; continue; }
      if (!grid) {
        grid = element("div", "columns");
        grid.append(element("div", "column"), element("div", "column"));
        block.before(grid);
      }
      const column = grid.children[name === "left" ? 0 : 1];
      column.append(block);
      if (column.querySelector(".celltag_wide")) column.classList.add("wide");
    }
  }

  // A block quote is a callout; its first bold word names its kind: "> **Notice.** …".
  function callouts(slide) {
    for (const quote of slide.querySelectorAll("blockquote")) {
      const first = quote.querySelector("p > strong:first-child");
      quote.classList.add("callout", (first ? first.textContent : "").toLowerCase().replace(/[^a-z]/g, "") || "plain");
    }
  }

  // Opened details lie over the slide and scroll by themselves: nothing else moves.
  function details(slide) {
    for (const block of slide.querySelectorAll("details")) {
      const body = element("div", "details-body");
      body.append(...[...block.childNodes].filter((node) => node.nodeName !== "SUMMARY"));
      body.tabIndex = 0;
      block.append(body);
      block.addEventListener("toggle", () => {
        const box = block.getBoundingClientRect(), page = slide.getBoundingClientRect();
        const scale = page.height / HEIGHT, below = page.bottom - box.bottom, above = box.top - page.top;
        body.classList.toggle("above", below < above);
        body.style.maxHeight = `${Math.max(below, above) / scale - 60}px`;
      });
    }
  }

  function kind(slide) {
    if (slide.querySelector("h1")) return "title-slide";
    const shown = [...slide.querySelectorAll(".jp-RenderedMarkdown > *")].filter((e) => !e.closest(".notes"));
    const bare = !slide.querySelector(".jp-CodeCell") && shown.length <= 2
      && shown[0]?.matches("h2") && (!shown[1] || (shown[1].matches("p") && !shown[1].querySelector("img")
        && !/\$\$|\\\[|\\begin/.test(shown[1].textContent)));
    return bare ? "section-slide" : "content-slide";
  }

  function footer(slide, number, section) {
    const line = element("footer", "deck-footer");
    line.append(element("span", "lecture", root.dataset.title), element("span", "section", section),
      element("span", "number", `${number} / ${slides.length}`));
    slide.append(line);
  }

  let section = "";
  slides.forEach((slide, index) => {
    callouts(slide);
    details(slide);
    slide.classList.add(kind(slide));
    section = slide.querySelector("h2")?.textContent ?? section;
    if (slide.classList.contains("title-slide")) slide.prepend(element("p", "course", root.dataset.course));
    else columns(slide);
    footer(slide, index + 1, section);
  });

  // Keys in a slider or a scrolling block belong to it, and Space and Enter to a button or a checkbox.
  // Escape gives them back to the deck; Page Up and Page Down (a presenter's remote) change the slide from anywhere.
  const holder = () => document.activeElement?.closest("details, button, input, select, textarea");
  const takes = (event) => holder() && (!holder().matches("button, input[type=checkbox]") || [" ", "Enter"].includes(event.key));
  document.addEventListener("keydown", (event) => {
    if (!holder() || !["Escape", "PageUp", "PageDown"].includes(event.key)) return;
    document.activeElement.blur();
    event.preventDefault();
    event.stopImmediatePropagation();
    if (event.key === "PageDown") Reveal.next();
    if (event.key === "PageUp") Reveal.prev();
  }, true);

  const fonts = Promise.all(["400 24px 'Source Sans 3'", "600 24px 'Source Sans 3'", "400 18px 'Source Code Pro'"]
    .map((font) => document.fonts.load(font)));

  // Until the explorers are drawn, slides must stay in place (reveal.js moves them for printing). Ten seconds at most.
  async function explorers() {
    const views = [...document.querySelectorAll('script[type$="widget-view+json"]')].map((script) => script.parentElement);
    const end = performance.now() + 10_000;
    while (!views.every((view) => view.querySelector(".widget-subarea *")) && performance.now() < end) {
      await new Promise((resume) => setTimeout(resume, 30));
    }
  }

  window.MathJax = {
    tex: { inlineMath: [["$", "$"], ["\\(", "\\)"]], processEscapes: true, tags: "ams" },
    svg: { fontCache: "local" },  // each formula carries its glyphs, so that the speaker view shows it too
    options: { enableMenu: false, ignoreHtmlClass: "jp-RenderedText|highlight" },
    startup: {
      pageReady: async () => {
        await fonts;
        await MathJax.startup.defaultPageReady();
        await explorers();
        await Reveal.initialize({
          width: WIDTH, height: HEIGHT, margin: 0, maxScale: 4, center: false, transition: "none",
          hash: true, hashOneBasedIndex: true, controls: true, controlsTutorial: false, progress: true,
          keyboardCondition: (event) => !takes(event), plugins: [RevealNotes],
          pdfMaxPagesPerSlide: 1, pdfSeparateFragments: false, scrollActivationWidth: null,
        });
        document.documentElement.dataset.deck = "ready";
      },
    },
  };
  Reveal.on("pdf-ready", () => { document.documentElement.dataset.pdf = "ready"; });
  // The widget manager asks for formulas in labels the way of MathJax 2.
  window.addEventListener("load", () => {
    MathJax.Hub = { Config() {}, Queue: (job) => { if (job?.[2]) MathJax.startup.promise.then(() => MathJax.typesetPromise([job[2]])); } };
  });
})();
