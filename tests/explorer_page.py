"""What the tests of explorers share: one on a blank page in Chromium, and what must be true of every explorer.

A test file takes the fixtures over by name: `chromium, show = explorer_page.chromium, explorer_page.show`.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator

import pytest
from playwright.sync_api import Browser, Page

from browser import launched
from course_utils.explorers.base import Explorer

Open = Callable[..., Page]
PAGE = """<!doctype html><meta charset="utf-8"><style>body { margin: 0 }</style><body></body>"""
# What anywidget hands to render(): a model with get, set, on, off and save_changes.
STUB = """
class Model {
  constructor(values) { this.values = values; this.listeners = []; this.saves = 0; }
  get(name) { return this.values[name]; }
  set(name, value) {
    if (this.values[name] === value) return;
    this.values[name] = value;
    for (const [event, call] of [...this.listeners]) if (event === "change:" + name) call();
  }
  on(event, call) { this.listeners.push([event, call]); }
  off(event, call) { this.listeners = this.listeners.filter(([e, c]) => e !== event || c !== call); }
  save_changes() { this.saves += 1; }
}
async function start([script, style, values]) {
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  window.view = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  window.model = new Model(values);
  window.el = document.body.appendChild(document.createElement("div"));
  window.end = await view.default.render({ model, el });
}
"""
# Texts that stick out of the picture, texts under 14 px, and pairs of texts that overlap.
LAYOUT = """() => {
  const box = document.querySelector('svg[role=img]').getBoundingClientRect();
  const texts = [...document.querySelectorAll('svg text')].filter(text => text.textContent);
  const rects = texts.map(text => text.getBoundingClientRect());
  const outside = r => r.left < box.left || r.right > box.right + 1 || r.top < box.top || r.bottom > box.bottom;
  const cross = (a, b) => a.left + 2 < b.right && b.left + 2 < a.right && a.top + 8 < b.bottom && b.top + 8 < a.bottom;
  const size = element => parseFloat(getComputedStyle(element).fontSize);
  const small = [...el.querySelectorAll('p, span, output, button, text')].filter(element => size(element) < 14);
  const words = list => list.map(element => element.textContent);
  const pairs = texts.flatMap((text, i) => texts.slice(0, i).map((other, j) => [i, j]));
  const overlapping = pairs.filter(([i, j]) => cross(rects[i], rects[j]));
  return [words(texts.filter((_, i) => outside(rects[i]))), words(small),
          overlapping.map(([i, j]) => words([texts[i], texts[j]]))];
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def show(chromium: Browser) -> Iterator[Open]:
    """A function that shows an explorer on a blank page; afterwards the pages must have had no error."""
    pages, errors = [], []

    def open_page(explorer: Explorer, width: int = 1168, height: int = 720) -> Page:
        page = chromium.new_page(viewport={"width": width, "height": height})
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.set_content(PAGE)
        page.add_script_tag(content=STUB)
        own = set(explorer.trait_names(sync=True)) - set(Explorer.class_trait_names(sync=True))
        page.evaluate("start", [explorer._esm, explorer._css, {name: getattr(explorer, name) for name in own}])
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert errors == [], errors


def frame(page: Page) -> None:
    """Wait until the page is drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def change(page: Page, **values) -> None:
    page.evaluate("values => { for (const name in values) model.set(name, values[name]); }", values)
    frame(page)


def set_to(page: Page, kind: type[Explorer], setting: tuple) -> None:
    """Change all settings of an explorer, in their order."""
    change(page, **dict(zip(kind.settings, setting, strict=True)))


def curve(page: Page) -> str:
    return page.locator("svg path.gradient").get_attribute("d")


def said(page: Page) -> str:
    """The alt text of the picture."""
    return page.get_by_role("img").get_attribute("aria-label").replace("\N{MINUS SIGN}", "-")


def reached_by_tab(page: Page) -> list[str]:
    """The names of all controls in the order of the tab key; each must show that it has the focus."""
    names = []
    for _ in range(page.locator("input, button, select").count()):
        page.keyboard.press("Tab")
        name, *focus = page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e);
                return [e.ariaLabel || e.closest('label')?.innerText || e.innerText, s.outlineStyle, s.outlineWidth,
                        e.dataset.lmSuppressShortcuts]; }"""
        )
        names.append(name.strip())
        assert focus == ["solid", "3px", "true"], (name, focus)
    return names


def nothing_is_cut(page: Page, kind: type[Explorer], settings: Iterable[tuple], widths: Iterable[int]) -> None:
    """No text sticks out, is too small or overlaps another, at any of the widths."""
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        for setting in settings:
            set_to(page, kind, setting)
            needed, wrong = page.evaluate("document.documentElement.scrollWidth"), page.evaluate(LAYOUT)
            assert needed <= width, (width, setting, needed)
            assert wrong == [[], [], []], (width, setting, wrong)


def closing_removes_listeners(page: Page) -> None:
    assert page.evaluate("model.listeners.length") > 0, "the view listens to nothing"
    page.evaluate("end()")
    left = page.evaluate("model.listeners.length")
    assert left == 0, f"{left} listeners are left"


def gives_view_picture_and_text(explorer: Explorer, text: str) -> None:
    """What a notebook stores of the explorer."""
    data, metadata = explorer._repr_mimebundle_()
    assert data["text/plain"] == text, data["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in data, sorted(data)
    assert data["image/png"].startswith(b"\x89PNG"), data["image/png"][:8]
    assert metadata["image/png"]["alt"] == explorer.alt, metadata


def stands_alone(explorer: Explorer, most: int) -> None:
    """The state has less than `most` characters, and script and style need nothing from elsewhere."""
    state = {key: value for key, value in explorer.get_state().items() if key not in ("layout", "tooltip")}
    size = len(json.dumps(state))
    assert size < most, f"{size} characters"
    outside = r"^\s*import\b|https?://(?!www\.w3\.org/2000/svg)|\bimport\(|fetch\("
    found = re.search(outside, explorer._esm, re.MULTILINE) or re.search(r"@import|url\(", explorer._css)
    assert not found, found
