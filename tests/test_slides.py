"""The slide decks in Chromium: every slide of every lecture, and proof that each kind of fault would be seen."""

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from ipywidgets import Widget
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import Browser

from browser import NOTEBOOKS, launched, moves_by_keyboard, need
from course_utils import plots
from course_utils.explorers import GradientFlow
from deck import build, chromium, inspection, packages

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Build the deck of a notebook (once), or of cells."""
    need(packages.installed() or packages.npm(), "npm", packages.INSTALL)
    folder, built = tmp_path_factory.mktemp("decks"), {}

    def make_deck(notebook: Path | list, name: str = "planted") -> Path:
        if isinstance(notebook, list):
            path = folder / f"{name}.ipynb"
            nbformat.write(as_notebook(notebook), path)
            return build.build(path, folder)
        if notebook not in built:
            built[notebook] = build.build(notebook, folder)
        return built[notebook]

    return make_deck


def as_notebook(cells: list) -> nbformat.NotebookNode:
    notebook = new_notebook(cells=cells)
    if any(VIEW in output.get("data", {}) for cell in cells for output in cell.get("outputs", [])):
        notebook.metadata["widgets"] = {STATE: Widget.get_manager_state()}
    return notebook


def text(source: str, kind: str = "slide", tags: tuple[str, ...] = ()) -> nbformat.NotebookNode:
    return new_markdown_cell(source, metadata={"slideshow": {"slide_type": kind}, "tags": list(tags)})


def code(source: str = "", data: dict | None = None, kind: str = "-", tags: tuple[str, ...] = (), alt: str = ""):
    outputs = [new_output("display_data", data, metadata={"image/png": {"alt": alt}} if alt else {})] if data else []
    metadata = {"slideshow": {"slide_type": kind}, "tags": list(tags)}
    return new_code_cell(source, metadata=metadata, outputs=outputs, execution_count=1)


def explorer() -> nbformat.NotebookNode:
    return code("GradientFlow()", {VIEW: GradientFlow()._repr_mimebundle_()[0][VIEW]}, tags=("hide-input",))


def png(width: float, height: float) -> dict[str, str]:
    figure = Figure(figsize=(width, height))
    figure.subplots().plot([0, 1], [0, 1])
    return {"image/png": base64.b64encode(plots.png(figure)).decode("ascii")}


SOUND = [
    text("# A lecture\n\nwith a subtitle"),
    text("Say hello to $h_t$.", "notes"),
    text("## A section\n\nand why it is here"),
    text("### Mathematics\n\n$$h_t = \\tanh(W_h h_{t-1})$$\n\nso $h_t$ stays in $(-1, 1)$. "
         "See [the next lecture](02_next.ipynb#a) and [a page](https://example.org/x.ipynb)."),
    text("> **Predict.** Does it grow?", "fragment"),
    text("> **Notice.** It doesn't.", "fragment"),
    text("<details><summary>Speaker notes</summary>\n\nThree minutes.\n\n</details>", "notes"),
    text("### Two columns"),
    code("x = 1\nprint(x)", {"text/plain": "1"}, tags=("left",)),
    code("secret_plot()", png(4.7, 3), tags=("right", "hide-input"), alt="a rising line"),
    text("### An exercise that is not shown", "skip"),
    text("### A long derivation\n\n<details><summary>Open</summary>\n\n" + "A step.\n\n" * 40 + "</details>\n\nDone."),
    text("### An explorer"),
    explorer(),
]


@pytest.fixture(scope="module")
def sound(make: Callable[..., Path]) -> Path:
    return make(SOUND, "sound")


# Every lecture


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_slide_of_a_lecture_is_sound(browser: Browser, make: Callable[..., Path], notebook: Path) -> None:
    report = inspection.inspect(browser, make(notebook))
    assert report.findings == []
    assert report.slides >= 5


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_lecture_has_its_notes_formulas_and_live_explorers(
    browser: Browser, make: Callable[..., Path], notebook: Path
) -> None:
    cells = nbformat.read(notebook, as_version=4).cells
    shown = build.arrange(cells)
    slides = sum(cell.metadata.before.startswith("<section>") for cell in shown)
    with inspection.opened(browser, make(notebook)) as (page, log):
        assert page.evaluate("Reveal.getTotalSlides()") == slides
        with_notes = page.locator(".slides > section:has(aside.notes)").count()
        assert with_notes > slides / 2, "most slides have speaker notes"
        if any(cell.cell_type == "markdown" and "$$" in cell.source for cell in shown):
            assert page.locator("mjx-container[display=true]").count() > 0
        for index in page.evaluate(
            "Reveal.getSlides().flatMap((s, i) => s.querySelector('.jupyter-widgets input[type=range]') ? [i] : [])"
        ):
            page.evaluate("index => Reveal.slide(index)", index)
            moves_by_keyboard(page, page.locator("section.present .jupyter-widgets").first)
            assert page.evaluate("Reveal.getIndices().h") == index
        assert (log.errors, log.requests) == ([], [])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_pdf_of_a_lecture_has_one_page_a_slide(browser: Browser, make: Callable[..., Path], notebook: Path) -> None:
    deck = make(notebook)
    slides = deck.read_text(encoding="utf-8").count("<section>")
    assert pages(inspection.to_pdf(browser, deck)) == slides


# What a deck can do, on a small one


def test_the_sound_deck_has_no_finding(browser: Browser, sound: Path) -> None:
    report = inspection.inspect(browser, sound)
    assert report.findings == []
    assert (report.slides, report.steps) == (6, 8)


def test_arrow_keys_leave_a_pressed_button(browser: Browser, sound: Path) -> None:
    with inspection.opened(browser, sound) as (page, _):
        number = page.locator(".slides > section:has(.explorer)").evaluate("s => Reveal.getIndices(s).h")
        page.evaluate("n => Reveal.slide(n)", number)
        button = page.locator(".present .explorer button").first
        button.focus()
        page.keyboard.press("Space")
        assert page.evaluate("Reveal.getIndices().h") == number, "Space presses the button"
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("Reveal.getIndices().h") == number - 1


def test_a_notebook_that_was_not_executed_gives_no_deck(make: Callable[..., Path]) -> None:
    cleared = code("print(1)")
    cleared.execution_count = None
    with pytest.raises(ValueError, match="not been executed"):
        make([text("# A lecture"), cleared])


def test_folded_notes_are_unfolded_and_links_lead_to_decks(browser: Browser, sound: Path) -> None:
    with inspection.opened(browser, sound) as (page, _):
        notes = page.locator("aside.notes").all_text_contents()
        assert any("Three minutes." in note for note in notes)
        assert not any("Speaker notes" in note for note in notes)
        links = [link.get_attribute("href") for link in page.locator("section a").all()]
        assert links == ["02_next.html#a", "https://example.org/x.ipynb"]


def test_speaker_view_shows_the_notes_with_their_formulas(browser: Browser, sound: Path) -> None:
    with inspection.opened(browser, sound) as (page, log):
        with page.expect_popup() as opening:
            page.keyboard.press("s")
        notes = opening.value.locator(".speaker-controls-notes .value")
        notes.get_by_text("Say hello to").wait_for()
        assert notes.locator("mjx-container svg path").count() > 0
        assert (log.errors, log.requests) == ([], [])


def test_tags_hide_inputs_and_skip_leaves_cells_out(browser: Browser, sound: Path) -> None:
    with inspection.opened(browser, sound) as (page, _):
        body = page.locator(".slides").text_content()
    assert "secret_plot" not in body and "not shown" not in body
    assert "print(x)" in body


def test_figures_keep_their_alternative_text(browser: Browser, sound: Path) -> None:
    with inspection.opened(browser, sound) as (page, _):
        assert page.locator("img").get_attribute("alt") == "a rising line"


def test_keys_in_a_slider_belong_to_it_until_escape(browser: Browser, sound: Path) -> None:
    with inspection.opened(browser, sound) as (page, _):
        page.evaluate("Reveal.slide(5)")
        view = page.locator("section.present .jupyter-widgets").first
        moves_by_keyboard(page, view)
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("Reveal.getIndices().h") == 4
        page.evaluate("Reveal.slide(5)")
        view.locator("input").first.focus()
        page.keyboard.press("PageUp")
        assert page.evaluate("Reveal.getIndices().h") == 4


def test_opened_details_stay_on_the_slide(browser: Browser, sound: Path) -> None:
    with inspection.opened(browser, sound) as (page, _):
        page.evaluate("Reveal.slide(4)")
        below = page.locator("section.present").get_by_text("Done.", exact=True).bounding_box()
        page.locator("section.present summary").click()
        box = page.locator("section.present .details-body").bounding_box()
        assert box["height"] > 200 and box["y"] >= 0 and box["y"] + box["height"] <= 720
        assert page.locator("section.present").get_by_text("Done.", exact=True).bounding_box() == below


def test_printed_slides_look_like_those_on_the_screen(browser: Browser, sound: Path) -> None:
    headings = """() => [...document.querySelectorAll('section')].map(slide => {
        const title = slide.querySelector('h1, h2, h3').getBoundingClientRect(), page = slide.getBoundingClientRect();
        return [title.left - page.left, title.top - page.top].map(Math.round); })"""
    with inspection.opened(browser, sound) as (page, _):
        shown = [page.evaluate(headings)[slide - 1] for slide, step in inspection.walk(page) if step == 0]
    with inspection.opened(browser, sound, "?print-pdf") as (page, _):
        page.wait_for_function("document.documentElement.dataset.pdf === 'ready'")
        assert page.evaluate(headings) == shown
    assert pages(inspection.to_pdf(browser, sound)) == 6


def pages(pdf: Path) -> int:
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf.read_bytes()))


# Faults, one a slide: each must be seen, and on its own slide

WIDE = "x = " + " + ".join(["a_long_name"] * 12)
SMALL_SVG = (
    '<img alt="a diagram" src="data:image/svg+xml;base64,'
    "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIHZpZXdCb3g9IjAgMCA0MDAgOTAiIHdpZHRoPSI0MDAiIGhlaWdodD0iOTAi"
    'Pjx0ZXh0IHg9IjkiIHk9IjQwIiBmb250LXNpemU9IjEyIj5zbWFsbDwvdGV4dD48L3N2Zz4=">'
)
FAULTS = {
    "overflow: bottom": ("overflow", [text("### Tall\n\n" + "A paragraph.\n\n" * 16)]),
    "overflow: in a later step": (
        "overflow",
        [text("### Tall\n\n" + "A line.\n\n" * 8), text("More.\n\n" * 8, "fragment")],
    ),
    "overflow: a figure": (
        "overflow",
        [text("### Figure\n\nA sentence.\n\nAnother."), code("", png(8, 4.5), alt="a line")],
    ),
    "cut: code": ("cut", [text("### Wide code"), code(WIDE)]),
    "small text": ("small text", [text('### Small\n\n<span style="font-size: 13px">tiny</span>')]),
    "small text: a diagram": ("small text", [text(f"### Diagram\n\n{SMALL_SVG}")]),
    "small text: a figure": ("small text", [text("### Figure"), code("", png(18, 4), alt="a wide line")]),
    "mathematics: error": ("mathematics", [text("### Formula\n\n$\\frac{1}{$")]),
    "mathematics: left alone": ("mathematics", [text('### Formula\n\n<span class="highlight">$x$</span>')]),
    "picture: no alternative text": ("picture", [text("### Figure"), code("", png(4, 2))]),
    "explorer: no state": (
        "explorer",
        [text("### Explorer"), code("", {"text/html": '<div class="jupyter-widgets jp-OutputArea-output"></div>'})],
    ),
}


@pytest.fixture(scope="module")
def faults(browser: Browser, make: Callable[..., Path]) -> dict[int, list[str]]:
    """The findings of a deck full of faults, by slide."""
    cells = [text("# Sound")] + [cell for _, planted in FAULTS.values() for cell in planted]
    report = inspection.inspect(browser, make(cells, "faults"))
    found = {slide: [] for slide in range(1, len(FAULTS) + 2)}
    for finding in report.findings:
        number = re.match(r"slide (\d+) [^:]*: (.*)", finding)
        found[int(number[1])].append(number[2])
    return found


def test_no_fault_is_seen_where_none_is(faults: dict[int, list[str]]) -> None:
    assert faults[1] == []


@pytest.mark.parametrize("number", range(len(FAULTS)), ids=list(FAULTS))
def test_a_planted_fault_is_seen(faults: dict[int, list[str]], number: int) -> None:
    kind = list(FAULTS.values())[number][0]
    assert {finding.split(":")[0] for finding in faults[number + 2]} == {kind}


@pytest.mark.parametrize(
    ("planted", "finding"),
    [
        ('<img src="https://example.org/x.png" alt="x">', "outside request: https://example.org/x.png"),
        ('<img src="beside.png" alt="x">', "outside request: file://"),
        (
            '<script>fetch("https://example.org/data").catch(() => {})</script>',
            "outside request: https://example.org/data",
        ),
        ('<script>new WebSocket("wss://example.org/live")</script>', "outside request: wss://example.org/live"),
        ('<script>console.error("planted")</script>', "console error: planted"),
        ('<script>throw new Error("planted")</script>', "console error: planted"),
    ],
    ids=["picture", "file beside the deck", "fetch", "socket", "console", "exception"],
)
def test_requests_and_errors_are_seen(browser: Browser, make: Callable[..., Path], planted: str, finding: str) -> None:
    deck = make([text("# Deck"), code("", {"text/html": planted})], "reaching")
    assert any(found.startswith(finding) for found in inspection.inspect(browser, deck).findings)


def test_a_picture_that_is_not_there_is_refused(make: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="figures/none.svg not found"):
        make([text("![nothing](figures/none.svg)")], "broken")


@pytest.mark.parametrize(
    ("slider", "message"),
    [("<input type=range>", "picture didn't change"), ("<input type=range min=1 max=1>", "didn't move the slider")],
)
def test_an_explorer_that_stands_still_is_seen(browser: Browser, slider: str, message: str) -> None:
    page = browser.new_page()
    page.set_content(f"<div>{slider}<svg></svg></div>")
    with pytest.raises(AssertionError, match=message):
        moves_by_keyboard(page, page.locator("div"), patience=0.2)
    page.close()


# What it needs


def test_without_chromium_a_test_is_skipped_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "find", lambda: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install chromium"), launched():
        pass
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium"), launched():
        pass


def test_without_npm_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packages, "STAMP", tmp_path / "none")
    monkeypatch.setattr(packages, "npm", lambda: None)
    with pytest.raises(packages.PackagesMissing, match="apt-get install npm"):
        packages.install()


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in packages.LOCK.read_text(encoding="utf-8")
