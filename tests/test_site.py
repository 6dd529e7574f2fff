"""The website: each page once in Chromium, on a phone and wide, light and dark; what a reader does; the files."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import Browser, Page

from browser import NOTEBOOKS, launched, moves_by_keyboard, need
from deck import chromium, packages
from site_pages import build, pages, references

PHONE, WIDE = (390, 800), (1280, 900)
STEMS = [path.stem for path in NOTEBOOKS]
NAMES = ["index", *STEMS, "references"]
VIEW = "application/vnd.jupyter.widget-view+json"
READY = "document.documentElement.dataset.page === 'ready'"
COLORS = "() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; }"
UNFOLD = "document.querySelectorAll('details').forEach((block) => { block.open = true; })"
# All pictures, also those that wait until they are scrolled to; returns the addresses of those that don't load.
PICTURES = """async () => {
  const all = [...document.images];
  for (const image of all) image.loading = "eager";
  await Promise.all(all.map((image) => image.decode().catch(() => {})));
  return all.filter((image) => !image.naturalWidth).map((image) => image.src);
}"""
# MathJax's own elements are left out. The color of a token depends on its kind: one of each stands for thousands.
AXE = """async (rules) => {
  const seen = new Set();
  for (const token of document.querySelectorAll(".highlight pre span[class]")) {
    if (seen.has(token.className)) token.replaceWith(token.textContent);
    seen.add(token.className);
  }
  const options = { resultTypes: ["violations"], preload: false, ...(rules ? { runOnly: rules } : {}) };
  const { violations } = await axe.run({ exclude: [["mjx-container"]] }, options);
  return violations.filter((found) => ["serious", "critical"].includes(found.impact))
    .flatMap((found) => found.nodes.map((node) => `${found.id}: ${node.target.join(" ")} ${node.html.slice(0, 90)}`));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(packages.installed() or packages.npm(), "npm", packages.INSTALL)
    folder = tmp_path_factory.mktemp("built") / "site"
    build.build(NOTEBOOKS, folder)
    return folder


# What a browser sees of a page


@dataclass
class Seen:
    """What was found in a page: its width on a phone and on a wide screen, colors, faults, and its explorers."""

    widths: dict[str, int] = field(default_factory=dict)
    colors: dict[str, list[str]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    broken_pictures: list[str] = field(default_factory=list)
    explorers: int = 0
    log: chromium.Log = field(default_factory=chromium.Log)


def from_folder(folder: Path):
    """The rule for a page that may read what lies in its folder and nothing else."""
    own = folder.resolve().as_uri() + "/"
    return lambda url: url.startswith(own)


def look(browser: Browser, path: Path) -> Seen:
    """Open a page and go through everything that must be true of it, all details unfolded."""
    with chromium.page(browser, from_folder(path.parent), PHONE) as (page, log):
        seen = Seen(log=log)
        page.goto(path.resolve().as_uri())
        page.wait_for_function(READY)
        page.evaluate(UNFOLD)
        seen.broken_pictures = page.evaluate(PICTURES)
        for explorer in page.locator(".jupyter-widgets.jp-OutputArea-output").all():
            moves_by_keyboard(page, explorer)
            seen.explorers += 1
        page.add_script_tag(path=packages.MODULES / "axe-core/axe.min.js")
        for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(
                f"document.documentElement.dataset.jpThemeLight === '{str(scheme == 'light').lower()}'"
            )
            seen.colors[scheme] = page.evaluate(COLORS)
            seen.widths[scheme] = page.evaluate("document.scrollingElement.scrollWidth")
            seen.violations += page.evaluate(AXE, rules)
        page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        seen.widths["wide"] = page.evaluate("document.scrollingElement.scrollWidth")
    return seen


@pytest.fixture(scope="module", params=NAMES)
def seen(request: pytest.FixtureRequest, browser: Browser, site: Path) -> tuple[str, Seen]:
    return request.param, look(browser, site / f"{request.param}.html")


def test_a_page_needs_nothing_from_outside_and_has_no_error(seen: tuple[str, Seen]) -> None:
    assert (seen[1].log.requests, seen[1].log.errors) == ([], [])


def test_a_page_fits_a_phone_and_a_wide_screen(seen: tuple[str, Seen]) -> None:
    assert seen[1].widths == {"light": PHONE[0], "dark": PHONE[0], "wide": WIDE[0]}


def test_a_page_is_accessible_in_light_and_dark(seen: tuple[str, Seen]) -> None:
    assert seen[1].violations == []


def test_a_page_is_dark_where_the_system_is(seen: tuple[str, Seen]) -> None:
    (paper, ink), (dark_paper, dark_ink) = (map(brightness, seen[1].colors[scheme]) for scheme in ("light", "dark"))
    assert paper > 240 > 60 > ink and dark_paper < 60 < 200 < dark_ink


def test_every_picture_is_there(seen: tuple[str, Seen]) -> None:
    assert seen[1].broken_pictures == []


def test_every_explorer_moves_by_keyboard(seen: tuple[str, Seen]) -> None:
    name, found = seen
    notebook = dict(zip(STEMS, NOTEBOOKS)).get(name)
    assert found.explorers == (len(explorers(notebook)) if notebook else 0)


def brightness(color: str) -> float:
    """The mean of red, green and blue in rgb(r, g, b)."""
    return sum(map(float, color.removeprefix("rgb(").removesuffix(")").split(","))) / 3


def explorers(notebook: Path) -> list[dict]:
    """The outputs of a notebook that show an explorer which computes in the browser."""
    outputs = [output for cell in nbformat.read(notebook, 4).cells for output in cell.get("outputs", [])]
    return [o for o in outputs if VIEW in o.get("data", {}) and not o.metadata.get("needs_kernel")]


PLANTED = {
    "requests": '<img src="https://example.org/x.png" alt="x">',
    "errors": "<script>console.error('planted')</script>",
    "width": '<p style="width: 500px">too wide</p>',
    "color-contrast": '<p style="color: light-dark(#999, #fff)">pale</p>',
    "color-contrast in dark": '<p style="color: light-dark(#000, #444)">dim</p>',
    "button-name": "<button></button>",
    "scrollable-region-focusable": '<div style="width: 50px; overflow: auto"><p>incomprehensibilities</p></div>',
    "picture": '<img src="figures/none.png" alt="none">',
}


def test_planted_faults_are_seen(browser: Browser, site: Path) -> None:
    text = (site / "references.html").read_text(encoding="utf-8")
    (site / "planted.html").write_text(text.replace("<h1", "".join(PLANTED.values()) + "<h1", 1), encoding="utf-8")
    found = look(browser, site / "planted.html")
    (site / "planted.html").unlink()
    assert found.log.requests == ["https://example.org/x.png"]
    assert "planted" in found.log.errors
    assert found.widths["light"] > 500 and found.widths["wide"] == WIDE[0]
    rules = [violation.split(":")[0] for violation in found.violations]
    assert sorted(rules) == ["button-name", "color-contrast", "color-contrast", "scrollable-region-focusable"]
    assert any(source.endswith("figures/none.png") for source in found.broken_pictures)


# What a reader does


@pytest.fixture
def start(browser: Browser, site: Path) -> Iterator[Page]:
    with chromium.page(browser, from_folder(site), WIDE) as (page, log):
        page.goto((site / "index.html").as_uri())
        page.wait_for_function(READY)
        yield page
        assert (log.requests, log.errors) == ([], [])


def test_search_goes_to_a_heading_by_keyboard(start: Page) -> None:
    notebook = NOTEBOOKS[1]
    texts = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "markdown"]
    heading = re.search(r"^## 4 · (.+)", "\n".join(texts), re.MULTILINE)[1]
    start.keyboard.press("/")
    start.keyboard.type(f"4 {heading.upper()}")
    start.keyboard.press("ArrowDown")
    start.keyboard.press("ArrowUp")
    chosen = start.locator(f"#{start.locator('.search input').get_attribute('aria-activedescendant')}")
    assert chosen.get_attribute("aria-selected") == "true" and heading in chosen.text_content()
    start.keyboard.press("Enter")
    start.wait_for_url(f"**/{notebook.stem}.html#*")
    start.wait_for_function(READY)
    target = start.locator(":target")
    assert target.text_content() == f"4 · {heading}"
    assert 50 < target.bounding_box()["y"] < 200, "the heading is in view and not under the header"


def test_search_says_what_it_found_and_closes(start: Page) -> None:
    box, options = start.locator(".search input"), start.locator("[role=option]")
    box.fill("zebra zebra")
    assert start.locator(".search [role=status]").text_content() == "No headings found"
    assert options.count() == 0 and box.get_attribute("aria-expanded") == "false"
    box.fill(f"exercises {NOTEBOOKS[1].stem.upper()}")  # a section by its name and the name of its lecture
    assert options.count() >= 1 and box.get_attribute("aria-expanded") == "true"
    box.press("Escape")
    assert options.count() == 0


def test_the_choice_of_colors_is_remembered(start: Page, site: Path) -> None:
    light = start.evaluate(COLORS)
    start.get_by_role("button", name="Dark colors").press("Enter")
    dark = start.evaluate(COLORS)
    assert dark != light
    start.goto((site / "references.html").as_uri())
    assert start.evaluate(COLORS) == dark
    assert start.evaluate("document.documentElement.dataset.jpThemeLight") == "false", "explorers follow"
    start.get_by_role("button", name="Light colors").click()
    assert start.evaluate(COLORS) == light


def test_the_keyboard_reaches_the_text_first(start: Page) -> None:
    start.keyboard.press("Tab")
    outline = start.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert start.evaluate("document.activeElement.className") == "skip" and outline == "solid"
    start.keyboard.press("Enter")
    assert start.evaluate("document.activeElement.id") == "main"


# What the files say


class Outline(HTMLParser):
    """The ids, links, pictures, headings, elements, text and ways to the neighbors of an HTML file."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.links, self.pictures, self.headings, self.tags, self.text = [], [], [], [], [], []
        self.turns: dict[str, str] = {}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.tags.append((tag, given))
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src") if given.get(name)]
        if tag == "img":
            self.pictures.append(given)
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.headings.append(int(tag[1]))
        if "rel" in given and tag == "a":
            self.turns[given["rel"]] = given["href"]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def outlines(site: Path) -> dict[str, Outline]:
    return {f"{name}.html": Outline(site / f"{name}.html") for name in NAMES}


def test_every_link_leads_to_a_file_and_a_place_in_it(site: Path, outlines: dict[str, Outline]) -> None:
    lost = []
    for name, outline in outlines.items():
        assert len(outline.ids) == len(set(outline.ids)), name
        for link in outline.links:
            if link.startswith(("https://", "http://", "data:")):
                continue
            file, _, place = link.partition("#")
            target = outlines.get(file or name)
            if not (site / (file or name)).is_file() or (place and (target is None or place not in target.ids)):
                lost.append(f"{name}: {link}")
    assert lost == []


def test_previous_and_next_lead_through_all_pages(outlines: dict[str, Outline]) -> None:
    way = ["index.html"]
    while "next" in outlines[way[-1]].turns:
        way.append(outlines[way[-1]].turns["next"])
        assert outlines[way[-1]].turns["prev"] == way[-2]
    assert way == [f"{name}.html" for name in NAMES]
    assert "prev" not in outlines["index.html"].turns


def test_the_start_page_leads_to_every_page_and_deck(outlines: dict[str, Outline]) -> None:
    links = outlines["index.html"].links
    assert {f"{stem}.html" for stem in STEMS} | {f"slides/{stem}.html" for stem in STEMS} <= set(links)


def test_every_picture_has_a_text(outlines: dict[str, Outline]) -> None:
    bare = ("", "No description has been provided for this image")
    missing = [p["src"] for outline in outlines.values() for p in outline.pictures if p.get("alt", "").strip() in bare]
    assert missing == []


def test_headings_are_in_order(outlines: dict[str, Outline]) -> None:
    for name, outline in outlines.items():
        assert outline.headings[0] == 1 and outline.headings.count(1) == 1, name
        assert all(after <= before + 1 for before, after in zip(outline.headings, outline.headings[1:])), name


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_page_has_all_cells_with_the_notes_folded(outlines: dict[str, Outline], notebook: Path) -> None:
    cells, outline = nbformat.read(notebook, as_version=4).cells, outlines[f"{notebook.stem}.html"]
    classes = [((given.get("class") or "").split(), "open" in given) for _, given in outline.tags]
    assert sum("jp-Cell" in names for names, _ in classes) == len(cells)
    notes = [is_open for names, is_open in classes if "notes" in names]
    assert notes == [False] * sum("<summary>Speaker notes" in cell.source for cell in cells)
    text = squeezed("".join(outline.text))
    missing = [cell.source for cell in cells if cell.cell_type == "code" and squeezed(cell.source) not in text]
    assert missing == []


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_every_work_is_listed_once_with_the_lectures_that_cite_it(outlines: dict[str, Outline]) -> None:
    text = squeezed("".join(outlines["references.html"].text))
    for notebook in NOTEBOOKS:
        for entry in references.listed(notebook):
            assert text.count(squeezed(entry.replace("*", "").replace("`", ""))) == 1, entry
        assert f"{notebook.stem}.html" in outlines["references.html"].links or not references.listed(notebook)


def test_axe_core_is_not_in_the_site(site: Path) -> None:
    assert not any("axe" in path.name for path in site.rglob("*"))


# References, and what is refused


def write(path: Path, *markdown: str, code: bool = False) -> Path:
    cells = [new_markdown_cell(source) for source in markdown] + [new_code_cell("x = 1")] * code
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_a_work_cited_twice_is_one_entry(tmp_path: Path) -> None:
    of_first = "- Öz, B. (1999). A title? *Venue*. arXiv:1234.56789\n- Bell, A. (2001). Blog on b. A blog."
    of_second = (
        "- Öz, B., and others (1999). A title? arXiv:1234.56789.\n- Bell, A. (2001). Blog on b. *A blog*,\n  May."
    )
    first = write(tmp_path / "01_a.ipynb", f"# A\n\n## References\n\n{of_first}", "## More\n\n- no reference")
    second = write(tmp_path / "02_b.ipynb", f"# B\n\n## References\n\n{of_second}")
    cited = {path: pages.Page(path.name, "", "") for path in (first, second)}
    found = references.collected(cited)
    assert [entry.text.split(",")[0] for entry in found] == ["Bell", "Öz"]
    assert [len(entry.pages) for entry in found] == [2, 2]
    assert 'href="https://arxiv.org/abs/1234.56789"' in found[1].html


def test_a_work_of_the_same_authors_is_another(tmp_path: Path) -> None:
    entries = "# A\n\n## References\n\n- Cho, K. (2014). One thing. *V*.\n- Cho, K. (2014). Another thing. *V*."
    path = write(tmp_path / "01_a.ipynb", entries)
    found = references.collected({path: pages.Page("a.html", "", "")})
    assert len(found) == 2 and len({entry.id for entry in found}) == 2


def test_equal_headings_get_places_of_their_own() -> None:
    known: list[pages.Heading] = []
    text = pages.headings("<h2>Why $\\sqrt{d_k}$?</h2><h2 id='x'>Why √d_k?</h2><h3><em>Über</em> uns</h3>", known)
    assert [heading.text for heading in known] == ["Why √d_k?", "Why √d_k?", "Über uns"]
    assert [heading.id for heading in known] == ["why-d-k", "why-d-k-2", "uber-uns"]
    assert text.startswith('<h2 id="why-d-k">Why $\\sqrt{d_k}$?</h2>')


README = "# Course\n\nIt says what it is.\n\n| | lecture | question |\n|---|---|---|\n"


@pytest.mark.parametrize(
    ("name", "cells", "readme", "message"),
    [
        ("01_a", ["# A"], README, "no row"),
        ("01_a", ["# A"], "# Course\n\n| [A](01_a.ipynb) | Why? |\n", "must begin with its title and a paragraph"),
        ("01_a", ["no heading"], README, "first heading must be of level 1"),
        ("01_a", ["# A\n\n![x](figures/none.svg)"], README, "figures/none.svg not found"),
        ("not_run", ["# A"], README, "has not been executed"),
    ],
)
def test_what_cannot_be_shown_is_refused(tmp_path: Path, name: str, cells: list, readme: str, message: str) -> None:
    need(packages.installed() or packages.npm(), "npm", packages.INSTALL)
    notebook = write(tmp_path / f"{name}.ipynb", *cells, code=name == "not_run")
    (tmp_path / "README.md").write_text(readme, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        build.build([notebook], tmp_path / "site", tmp_path / "README.md")


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    need(packages.installed() or packages.npm(), "npm", packages.INSTALL)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="other things"):
        build.build([], tmp_path)
    assert (tmp_path / "thesis.tex").exists()
