"""Goes through a deck in Chromium, slide by slide and step by step: what is wrong, pictures, PDF."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page

from deck import chromium

SIZE = (1280, 720)
LIMITS = {
    "smallest": 14,  # px of text on the slide
    "tolerance": 2,  # px over an edge
    "figureText": 20,  # px in a PNG of 12-pt text at the course's 120 dpi
}
MEASURE = (Path(__file__).resolve().parent / "measure.js").read_text(encoding="utf-8")
# After a step: two frames, so that what depends on the layout has been drawn.
SETTLE = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass
class Report:
    """What was found in one deck: the number of slides and of steps, and a sentence for each thing that is wrong."""

    deck: Path
    slides: int = 0
    steps: int = 0
    findings: list[str] = field(default_factory=list)


@contextmanager
def opened(browser: Browser, deck: Path, query: str = "") -> Iterator[tuple[Page, chromium.Log]]:
    """A deck opened from disk, ready: fonts loaded, formulas typeset, explorers drawn."""
    with chromium.page(browser, chromium.from_disk(deck), SIZE) as (page, log):
        page.goto(deck.resolve().as_uri() + query)
        page.wait_for_function("document.documentElement.dataset.deck === 'ready'", timeout=60_000)
        yield page, log


def inspect(browser: Browser, deck: Path, pictures: Path | None = None) -> Report:
    """Look at every slide and every step of a deck; with a folder, save a PNG of each."""
    report = Report(deck)
    with opened(browser, deck) as (page, log):
        report.slides = page.evaluate("Reveal.getTotalSlides()")
        for slide, step in walk(page):
            report.steps += 1
            seen = page.evaluate(MEASURE, LIMITS)
            report.findings += [f"slide {slide} «{seen['title']}»: {kind}: {text}" for kind, text in seen["findings"]]
            if pictures:
                pictures.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=pictures / f"{deck.stem}-{slide:03d}-{step}.png")
        report.findings += [f"outside request: {url}" for url in dict.fromkeys(log.requests)]
        report.findings += [f"console error: {text}" for text in dict.fromkeys(log.errors)]
    report.findings = list(dict.fromkeys(report.findings))
    return report


def walk(page: Page) -> Iterator[tuple[int, int]]:
    """Go through an opened deck from its first slide; yields (slide, step), counted from 1 and from 0."""
    page.evaluate("Reveal.slide(0, 0, -1)")
    while True:
        page.evaluate(SETTLE)
        at = page.evaluate("Reveal.getIndices()")
        yield at["h"] + 1, (-1 if at.get("f") is None else at["f"]) + 1
        if page.evaluate("Reveal.isLastSlide() && !Reveal.availableFragments().next"):
            return
        page.evaluate("Reveal.next()")


def to_pdf(browser: Browser, deck: Path) -> Path:
    """Print a deck to PDF beside it, one page a slide, all steps shown; returns the path."""
    path = deck.with_suffix(".pdf")
    with opened(browser, deck, "?print-pdf") as (page, _):
        page.wait_for_function("document.documentElement.dataset.pdf === 'ready'", timeout=60_000)
        page.evaluate(SETTLE)
        page.pdf(path=path, prefer_css_page_size=True, print_background=True, tagged=True)
    return path
