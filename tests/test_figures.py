"""The hand-drawn diagrams: valid, self-contained, readable on any page, and used by a notebook.

`problems(svg)` returns one sentence per broken rule. The first half of this file states the rules, the second applies
them to every figure, and then proves each rule on a small good figure with one planted fault.
"""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
FIGURES = sorted((NOTEBOOKS / "figures").glob("*.svg"))

NOMINAL_WIDTH = 1100  # pixels at which a figure is shown
MIN_FONT = 14  # pixels at that width
MAX_BYTES = 20_000
SLIDE_BOX = (1200, 540)  # what a 1280×720 slide leaves for a picture under its title
MIN_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3

COURSE_COLORS = {"#0072b2", "#e69f00", "#d55e00", "#009e73", "#8e5bb5", "#c8102e"}  # query, key (fill, line), value, …
TINTS = {"#f1e9f8"}  # state, as the fill of a node
GRAYS = {"#ffffff", "#f5f5f5", "#ececec", "#c8c8c8", "#666666", "#555555", "#222222"}
COLORS = COURSE_COLORS | TINTS | GRAYS

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "desc", "style", "defs", "marker", "g", "use", "text", "tspan"} | {
    "rect", "circle", "ellipse", "line", "path", "polyline", "polygon"
}  # fmt: skip
INHERITED = ("fill", "font-size", "text-anchor")


# ---- a small reader of SVG: enough to know the size, color and background of every text ------------------------------


@dataclass
class Painted:
    """One text run or filled shape at its place in the figure, in painting order."""

    kind: str
    style: dict[str, str]
    x: float
    y: float
    width: float = 0.0
    height: float = 0.0
    label: str = ""

    def covers(self, x: float, y: float) -> bool:
        if self.kind == "circle":
            return (x - self.x) ** 2 + (y - self.y) ** 2 <= self.width**2
        return self.x <= x <= self.x + self.width and self.y <= y <= self.y + self.height


@dataclass
class Stylesheet:
    """The rules of a figure's <style>. Only `name` and `.name` selectors are allowed, so the cascade stays simple."""

    rules: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, css: str) -> "Stylesheet":
        sheet = cls()
        for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", re.sub(r"/\*.*?\*/", "", css, flags=re.S)):
            pairs = [pair.split(":", 1) for pair in body.split(";") if pair.strip()]
            if not re.fullmatch(r"\.?[\w-]+", selector.strip()) or any(len(pair) != 2 for pair in pairs):
                sheet.complaints.append(f"style: can't read the rule {selector.strip()!r}")
            else:
                sheet.rules.append((selector.strip(), {key.strip(): value.strip() for key, value in pairs}))
        return sheet

    def classes(self) -> set[str]:
        return {selector[1:] for selector, _ in self.rules if selector.startswith(".")}

    def style(self, element: ET.Element, parent: dict[str, str]) -> dict[str, str]:
        """The element's own properties, weakest source first: parent, attributes, rules by name, rules by class."""
        style = {key: parent[key] for key in INHERITED if key in parent}
        style |= {key: value for key, value in element.attrib.items() if key in (*INHERITED, "opacity", "fill-opacity")}
        classes = element.get("class", "").split()
        for by_class in (False, True):
            for selector, body in self.rules:
                if selector == local(element) or (selector.startswith(".") and selector[1:] in classes):
                    if selector.startswith(".") == by_class:
                        style |= body
        return style


def local(element: ET.Element) -> str:
    return element.tag.removeprefix(SVG) if isinstance(element.tag, str) else ""


def number(element: ET.Element, name: str) -> float:
    return float(element.get(name, "0"))


def painted(
    element: ET.Element, sheet: Stylesheet, ids: dict[str, ET.Element], parent: dict[str, str], at: tuple[float, float]
) -> Iterator[Painted]:
    """Walk the figure as a browser paints it: <use> put in place, <defs> left out, translations added up."""
    name, style = local(element), sheet.style(element, parent)
    moved = re.fullmatch(r"translate\(([-\d.]+)[ ,]+([-\d.]+)\)", element.get("transform", "translate(0 0)"))
    if name in ("defs", "style", "title", "desc") or moved is None:  # another transform: `structure` complains
        return
    x, y = at[0] + float(moved[1]), at[1] + float(moved[2])
    if name == "use":
        target = ids.get(element.get("href", "")[1:])
        if target is not None and local(target) != "use":
            yield from painted(target, sheet, ids, style, (x + number(element, "x"), y + number(element, "y")))
    elif name == "rect":
        yield Painted(
            "rect", style, x + number(element, "x"), y + number(element, "y"),
            number(element, "width"), number(element, "height"),
        )  # fmt: skip
    elif name == "circle":
        yield Painted("circle", style, x + number(element, "cx"), y + number(element, "cy"), number(element, "r"))
    elif name == "text":
        place = (x + number(element, "x"), y + number(element, "y"))
        for run, text in runs(element, sheet, parent):
            yield Painted("text", run, *place, label=text)
    else:
        for child in element:
            yield from painted(child, sheet, ids, style, (x, y))


def runs(element: ET.Element, sheet: Stylesheet, parent: dict[str, str]) -> Iterator[tuple[dict[str, str], str]]:
    """The pieces of a <text> with the style of each."""
    style = sheet.style(element, parent)
    if element.text and element.text.strip():
        yield style, element.text.strip()
    for child in element:
        yield from runs(child, sheet, style)
        if child.tail and child.tail.strip():
            yield style, child.tail.strip()


def pixels(size: str) -> float:
    match = re.fullmatch(r"([\d.]+)(px)?", size)
    return float(match[1]) if match else 0.0  # unknown units count as too small


def luminance(color: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# ---- the rules ------------------------------------------------------------------------------------------------------


def structure(svg: str, root: ET.Element) -> Iterator[str]:
    if len(svg.encode()) > MAX_BYTES:
        yield f"file: larger than {MAX_BYTES} bytes"
    box = root.get("viewBox", "").split()
    if len(box) != 4 or box[:2] != ["0", "0"]:
        yield "viewBox: missing, or not of the form 0 0 width height"
    elif float(box[3]) * SLIDE_BOX[0] > float(box[2]) * SLIDE_BOX[1]:
        yield f"viewBox: too tall for a slide, at most {SLIDE_BOX[1]} high at {SLIDE_BOX[0]} wide"
    for name in ("title", "desc"):
        found = root.find(SVG + name)
        if found is None or not (found.text or "").strip():
            yield f"{name}: missing or empty"
        elif found.get("id") not in root.get("aria-labelledby", "").split():
            yield f"{name}: not named by aria-labelledby"
    for element in root.iter():
        if local(element) not in ELEMENTS:
            yield f"element <{local(element)}> is not allowed"
        if local(element) in ("text", "tspan") and {"style", "transform", "opacity"} & set(element.attrib):
            yield "text: style, transform and opacity are not allowed on it"
        if not re.fullmatch(r"translate\([-\d.]+[ ,]+[-\d.]+\)", element.get("transform", "translate(0 0)")):
            yield "transform: only translate(x y) is allowed"


def self_contained(svg: str, root: ET.Element) -> Iterator[str]:
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    if len(ids) != len(set(ids)):
        yield "id: used twice"
    css = "".join(element.text or "" for element in root.iter(SVG + "style"))
    if "<!DOCTYPE" in svg or "<!ENTITY" in svg or "<?xml-stylesheet" in svg:
        yield "declaration: document types, entities and linked style sheets are not allowed"
    if "@" in css:
        yield "style: at-rules (imports, fonts, media) are not allowed"
    links = re.findall(r"url\(([^)]*)\)", css)
    for element in root.iter():
        for key, value in element.attrib.items():
            links += re.findall(r"url\(([^)]*)\)", value)
            if key.split("}")[-1] in ("href", "src"):
                links.append(value)
            if key.startswith("on"):
                yield f"attribute {key}: event handlers are not allowed"
            if key.startswith("{"):
                yield f"attribute {key}: foreign namespaces (editor metadata) are not allowed"
            if key == "style":
                yield "attribute style: use a class"
    for link in links:
        if link.strip("'\"")[:1] != "#":
            yield f"reference {link}: leaves the file"
        elif link.strip("'\"")[1:] not in ids:
            yield f"reference {link}: points to nothing"


def colors(svg: str, root: ET.Element) -> Iterator[str]:
    css = "".join(element.text or "" for element in root.iter(SVG + "style"))
    values = re.findall(r"(?<![\w-])(?:fill|stroke|color|stop-color)\s*:\s*([^;}]+)", css)
    values += [element.get(key) for element in root.iter() for key in ("fill", "stroke", "color") if element.get(key)]
    for value in sorted({value.strip() for value in values} - COLORS - {"none"} - links_to_self(values)):
        yield f"color {value}: not one of the course's colors"


def links_to_self(values: list[str]) -> set[str]:
    return {value.strip() for value in values if value.strip().startswith("url(#")}


def classes(svg: str, root: ET.Element) -> Iterator[str]:
    sheet = Stylesheet.read("".join(element.text or "" for element in root.iter(SVG + "style")))
    yield from sheet.complaints
    used = {name for element in root.iter() for name in element.get("class", "").split()}
    yield from (f"class {name}: used, but has no rule" for name in sorted(used - sheet.classes()))
    yield from (f"class {name}: has a rule, but is not used" for name in sorted(sheet.classes() - used))


def legible(svg: str, root: ET.Element) -> Iterator[str]:
    sheet = Stylesheet.read("".join(element.text or "" for element in root.iter(SVG + "style")))
    ids = {element.get("id"): element for element in root.iter() if element.get("id")}
    box = [float(value) for value in root.get("viewBox", "0 0 1200 500").split()]
    everything = list(painted(root, sheet, ids, {}, (0.0, 0.0)))
    panel = next(iter(everything), None)
    if (
        panel is None or panel.kind != "rect" or panel.width * panel.height < 0.97 * box[2] * box[3]
        or luminance(known(panel.style.get("fill"))) < 0.8 or {"opacity", "fill-opacity"} & set(panel.style)
    ):  # fmt: skip
        yield "panel: the first thing painted must be an opaque light rectangle over the whole figure"
        return
    for index, text in enumerate(everything):
        if text.kind != "text":
            continue
        if pixels(text.style.get("font-size", "0")) * NOMINAL_WIDTH / box[2] < MIN_FONT:
            yield f"text {text.label!r}: smaller than {MIN_FONT} px when the figure is {NOMINAL_WIDTH} px wide"
        if not (0 < text.x < box[2] and 0 < text.y < box[3]):
            yield f"text {text.label!r}: starts outside the figure"
        ground = background(text, everything[:index])
        if contrast(known(text.style.get("fill")), ground) < MIN_CONTRAST:
            yield f"text {text.label!r}: contrast below {MIN_CONTRAST} on {ground}"


def background(text: Painted, below: list[Painted]) -> str:
    """The fill of the topmost rectangle or circle under a text's anchor (paths are not followed)."""
    inward = {"middle": 0, "end": -3}.get(text.style.get("text-anchor", "start"), 3)
    for shape in reversed(below):
        fill = shape.style.get("fill", "#000000")
        if shape.kind != "text" and fill != "none" and shape.covers(text.x + inward, text.y - 5):
            return known(fill)
    return "#ffffff"


def known(color: str | None) -> str:
    """A computable color: black, SVG's default, where none is given or it isn't of the form #rrggbb."""
    return color if color and re.fullmatch(r"#[0-9a-f]{6}", color) else "#000000"


def problems(svg: str) -> list[str]:
    """Every rule that a figure's text breaks, one sentence each; an empty list for a good figure."""
    try:
        root = ET.fromstring(svg)
    except ET.ParseError as error:
        return [f"XML: {error}"]
    if root.tag != SVG + "svg":
        return ["root: not an <svg> in the SVG namespace"]
    return [line for rule in (structure, self_contained, colors, classes, legible) for line in rule(svg, root)]


# ---- the figures ----------------------------------------------------------------------------------------------------


def test_there_are_figures():
    assert FIGURES, "no SVG in notebooks/figures: the other tests would check nothing"


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_a_figure_keeps_every_rule(path: Path):
    assert problems(path.read_text(encoding="utf-8")) == []


def test_diagrams_and_plots_share_their_colors():
    from course_utils.plots import COLORS as PLOT_COLORS

    meanings = ("query", "key", "value", "state", "gradient", "reference")
    assert {PLOT_COLORS[name].lower() for name in meanings} <= COLORS


def test_ids_differ_between_figures():
    """Two figures may be inlined into one page, where equal ids would cross their arrows."""
    owners: dict[str, list[str]] = {}
    for path in FIGURES:
        for name in re.findall(r'\sid="([^"]+)"', path.read_text(encoding="utf-8")):
            owners.setdefault(name, []).append(path.name)
    assert {name: files for name, files in owners.items() if len(files) > 1} == {}


def references(notebook: dict) -> list[tuple[str, str | None]]:
    """(file name, alt text) of each figure that a notebook shows; alt is None where it isn't a Markdown image."""
    found: list[tuple[str, str | None]] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        shown = re.findall(r"!\[([^\]]*)\]\((?:\./)?figures/([^)\s]+)", source)
        found += [(name, alt) for alt, name in shown]
        named = set(re.findall(r"figures/([\w.-]+\.svg)", source)) - {name for _, name in shown}
        found += [(name, None) for name in sorted(named)]
    return found


def complaints_about_use(notebooks: dict[str, dict], figures: set[str]) -> list[str]:
    """What is wrong between the notebooks and the folder of figures."""
    shown = [(book, name, alt) for book, content in notebooks.items() for name, alt in references(content)]
    lines = [f"{book}: figures/{name} doesn't exist" for book, name, _ in shown if name not in figures]
    bare = [(book, name) for book, name, alt in shown if alt is not None and not alt.strip()]
    lines += [f"{book}: figures/{name} has no alt text" for book, name in bare]
    return lines + [f"{name}: no notebook shows it" for name in sorted(figures - {name for _, name, _ in shown})]


def test_every_figure_is_shown_and_every_shown_figure_exists():
    books = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    if not books:
        pytest.skip("no notebooks yet")
    assert complaints_about_use(books, {path.name for path in (NOTEBOOKS / "figures").iterdir()}) == []


# ---- each rule, proven on a figure that breaks it --------------------------------------------------------------------

GOOD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 500" aria-labelledby="t d">
  <title id="t">A title</title>
  <desc id="d">A description</desc>
  <style>
    text { font-size: 18px; fill: #222222; }
    .panel { fill: #ffffff; }
    .dark { fill: #222222; }
    .light { fill: #ffffff; }
    .sub { font-size: 16px; }
  </style>
  <defs><g id="node"><circle class="dark" cx="0" cy="0" r="20"/></g></defs>
  <rect class="panel" x="1" y="1" width="1198" height="498" rx="16"/>
  <g transform="translate(100 100)"><use href="#node" x="50" y="20"/>
  <text class="light" x="50" y="26">h<tspan class="sub" dy="5">t</tspan></text></g>
  <text x="600" y="300">plain</text>
</svg>"""

BAD = {
    "not XML": ("</g>", "", "XML:"),
    "not SVG": ("http://www.w3.org/2000/svg", "http://example.org/other", "root:"),
    "no title": ('<title id="t">A title</title>', "", "title: missing"),
    "empty title": ("A title", " ", "title: missing"),
    "no description": ('<desc id="d">A description</desc>', "", "desc: missing"),
    "unnamed description": ('labelledby="t d"', 'labelledby="t"', "desc: not named"),
    "no viewBox": ('viewBox="0 0 1200 500" ', "", "viewBox: missing"),
    "too tall": ("0 0 1200 500", "0 0 1100 500", "viewBox: too tall"),
    "too large": ("plain", "plain" + " " * 20_000, "file: larger"),
    "script": ("<defs>", "<script>1</script><defs>", "element <script>"),
    "foreign object": ("<defs>", "<foreignObject/><defs>", "element <foreignObject>"),
    "picture": ("<defs>", '<image href="#node"/><defs>', "element <image>"),
    "editor element": ("<defs>", '<x:view xmlns:x="urn:editor"/><defs>', "element <{urn:editor}view>"),
    "editor attribute": ("<defs>", '<defs xmlns:x="urn:editor" x:label="1">', "foreign namespaces"),
    "event handler": ("<defs>", '<defs onload="1">', "attribute onload"),
    "style attribute": ("<defs>", '<defs style="fill: none">', "attribute style"),
    "scaled": ("translate(100 100)", "scale(2)", "transform: only"),
    "faded text": ('x="600" y="300"', 'x="600" y="300" opacity="0.5"', "text: style, transform and opacity"),
    "link out": ('href="#node"', 'href="other.svg#node"', "leaves the file"),
    "web font": (".panel {", "@font-face { src: url(#node) } .panel {", "at-rules"),
    "picture from the web": ("#ffffff; }\n    .dark", "#ffffff; mask: url(https://a.org/a) }\n    .dark", "leaves"),
    "dangling link": ('href="#node"', 'href="#nodes"', "points to nothing"),
    "document type": ("<svg", "<!DOCTYPE svg>\n<svg", "declaration:"),
    "id twice": ("<defs>", '<defs id="t">', "id: used twice"),
    "unknown color": ("18px; fill: #222222", "18px; fill: #222223", "color #222223"),
    "named color": ('rx="16"/>', 'rx="16" stroke="tomato"/>', "color tomato"),
    "color in an attribute": ("<circle", '<circle stroke="#00ff00"', "color #00ff00"),
    "unknown class": ('class="panel"', 'class="panel panle"', "class panle: used"),
    "dead rule": (".dark {", ".lost { fill: none } .dark {", "class lost: has a rule"),
    "selector": (".dark {", "g .dark { fill: none } .dark {", "can't read the rule"),
    "small text": ("font-size: 18px", "font-size: 15px", "'plain': smaller"),
    "small subscript": ("font-size: 16px", "font-size: 12px", "'t': smaller"),
    "relative size": ("font-size: 16px", "font-size: 70%", "'t': smaller"),
    "pale text on the panel": ('<text x="600"', '<text class="light" x="600"', "'plain': contrast below"),
    "dark text on a dark node": ('class="light" x="50"', 'x="50"', "'h': contrast below"),
    "text outside": ('x="600"', 'x="1300"', "'plain': starts outside"),
    "no panel": ('width="1198"', 'width="598"', "panel:"),
    "dark panel": (".panel { fill: #ffffff", ".panel { fill: #222222", "panel:"),
    "transparent panel": ('class="panel"', 'class="panel" fill-opacity="0.1"', "panel:"),
}


def test_the_small_good_figure_keeps_every_rule():
    assert problems(GOOD) == []


@pytest.mark.parametrize("name", BAD)
def test_a_broken_figure_is_refused_for_its_own_reason(name: str):
    old, new, reason = BAD[name]
    assert old in GOOD, "the planted change does nothing"
    found = problems(GOOD.replace(old, new, 1))
    assert any(reason in line for line in found), found


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("![A cell](figures/missing.svg)", "a.ipynb: figures/missing.svg doesn't exist"),
        ("SVG('figures/missing.svg')", "a.ipynb: figures/missing.svg doesn't exist"),
        ("![](figures/cell.svg)", "a.ipynb: figures/cell.svg has no alt text"),
        ("no picture", "cell.svg: no notebook shows it"),
    ],
)
def test_a_wrong_reference_is_found(source: str, reason: str):
    assert reason in complaints_about_use({"a.ipynb": {"cells": [{"source": [source]}]}}, {"cell.svg"})


def test_a_right_reference_passes():
    book = {"cells": [{"source": ["Look:\n", "\n", "![A cell with a loop](figures/cell.svg)"]}]}
    assert complaints_about_use({"a.ipynb": book}, {"cell.svg"}) == []


def test_contrast_agrees_with_known_values():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)  # WCAG's well-known lightest gray on white
