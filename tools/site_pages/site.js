// What every page of the site does: colors, contents, search, formulas, boxes that scroll. Runs in <head>.
"use strict";
(() => {
  const root = document.documentElement;

  // Light or dark: as the system says, until the reader chooses; the choice is remembered.
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("colors"); } catch { /* no storage: a choice lasts as long as the page */ }
  const colors = () => chosen ?? (system.matches ? "dark" : "light");

  function paint() {
    if (chosen) root.dataset.colors = chosen; // else the style sheet follows the system by itself
    root.dataset.jpThemeLight = String(colors() === "light"); // for the explorers
    const button = document.querySelector(".theme");
    if (!button) return;
    button.textContent = colors() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `${button.textContent} colors`);
  }
  paint();
  system.addEventListener("change", paint);

  function toggle() {
    chosen = colors() === "dark" ? "light" : "dark";
    try { localStorage.setItem("colors", chosen); } catch { /* see above */ }
    paint();
  }

  // The contents lie open beside a wide page, and are folded above a narrow one.
  function contents() {
    const list = document.querySelector(".contents details"), wide = matchMedia("(min-width: 70em)");
    if (!list) return;
    const unfold = () => { list.open = wide.matches; };
    unfold();
    wide.addEventListener("change", unfold);
  }

  // Search over the headings of all pages. Every word must occur in the heading, or in the title or the file name of its page.
  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

  function find(query) {
    const words = fold(query).split(/\s+/).filter(Boolean);
    const score = (entry) => words.reduce((sum, word) => sum + (` ${entry.own}`.includes(` ${word}`) ? 0 : entry.own.includes(word) ? 1 : 3), entry.level / 10);
    return entries().filter((entry) => words.length && words.every((word) => entry.all.includes(word)))
      .map((entry) => ({ ...entry, score: score(entry) })).sort((a, b) => a.score - b.score).slice(0, 12);
  }

  let index = null;
  function entries() {
    index ??= window.headings.flatMap(([page, title, list]) => list.map(([id, text, level]) => (
      { page, title, id, text, level, own: fold(text), all: fold(`${text} ${title} ${page}`) })));
    return index;
  }

  function search() {
    const input = document.querySelector(".search input"), list = document.getElementById("found");
    const status = document.querySelector(".search [role=status]");
    let found = [], at = -1;

    function show(results) {
      found = results;
      list.replaceChildren(...found.map(({ text, title, level }, i) => {
        const option = Object.assign(document.createElement("li"), { id: `found-${i}`, textContent: text });
        option.setAttribute("role", "option");
        if (level > 1) option.append(Object.assign(document.createElement("small"), { textContent: title }));
        option.addEventListener("pointerdown", (event) => { event.preventDefault(); go(i); });
        return option;
      }));
      list.hidden = !found.length;
      input.setAttribute("aria-expanded", String(!list.hidden));
      status.textContent = input.value.trim() ? `${found.length || "No"} headings found` : "";
      choose(found.length ? 0 : -1);
    }

    function choose(i) {
      at = i;
      [...list.children].forEach((option, j) => option.setAttribute("aria-selected", String(j === i)));
      if (i < 0) return input.removeAttribute("aria-activedescendant");
      input.setAttribute("aria-activedescendant", `found-${i}`);
      list.children[i].scrollIntoView({ block: "nearest" });
    }

    function go(i) {
      const { page, id } = found[i];
      input.value = "";
      show([]);
      input.blur();
      location.href = `${page}#${id}`;
    }

    input.addEventListener("input", () => show(find(input.value)));
    input.addEventListener("blur", () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); });
    input.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && found.length) choose((at + step + found.length) % found.length);
      else if (event.key === "Enter" && at >= 0) go(at);
      else if (event.key === "Escape") { input.value = ""; show([]); }
      else return;
      event.preventDefault();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input, select, textarea")) return;
      event.preventDefault();
      input.focus();
    });
  }

  // What is wider than the page scrolls in a box of its own, which takes the focus, so that arrow keys move it.
  const BOXES = ".scroll, .highlight, .jp-RenderedText, .jp-RenderedHTML, .figure, mjx-container";
  function boxes() {
    const formulas = [...document.querySelectorAll("mjx-container:not([display])")];
    formulas.forEach((formula) => formula.classList.remove("wide"));
    const wide = formulas.filter((formula) => formula.offsetWidth > (formula.parentElement.clientWidth || Infinity));
    wide.forEach((formula) => formula.classList.add("wide"));
    for (const box of document.querySelectorAll(BOXES)) {
      const scrolls = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX === "auto";
      if (!scrolls) { box.removeAttribute("tabindex"); continue; }
      box.tabIndex = 0;
      if (box.matches("mjx-container")) continue;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", "Scrolls sideways");
    }
  }

  // Formulas and explorers grow after the page was opened: return to the heading that the address names.
  function settle() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && !moved) target.scrollIntoView();
  }
  let moved = false;
  for (const kind of ["wheel", "touchmove", "keydown"]) addEventListener(kind, () => { moved = true; }, { once: true, passive: true });

  async function explorers() {
    const views = [...document.querySelectorAll('script[type$="widget-view+json"]')].map((script) => script.parentElement);
    const end = performance.now() + 60_000;
    while (!views.every((view) => view.querySelector(".widget-subarea *")) && performance.now() < end) {
      await new Promise((resume) => setTimeout(resume, 30));
    }
  }

  window.MathJax = {
    tex: { inlineMath: [["$", "$"], ["\\(", "\\)"]], processEscapes: true, tags: "ams" },
    options: { enableMenu: false, ignoreHtmlClass: "jp-RenderedText|highlight|search" },
    startup: {
      pageReady: async () => {
        await MathJax.startup.defaultPageReady();
        boxes();
        settle();
        await explorers();
        boxes();
        settle();
        root.dataset.page = "ready";
      },
    },
  };
  // The widget manager asks for formulas in labels the way of MathJax 2.
  window.addEventListener("load", () => {
    MathJax.Hub = { Config() {}, Queue: (job) => { if (job?.[2]) MathJax.startup.promise.then(() => MathJax.typesetPromise([job[2]])); } };
  });

  document.addEventListener("DOMContentLoaded", () => {
    paint();
    document.querySelector(".theme").addEventListener("click", toggle);
    contents();
    search();
    document.addEventListener("toggle", boxes, true);
    new ResizeObserver(boxes).observe(document.querySelector("main"));
  });
})();
