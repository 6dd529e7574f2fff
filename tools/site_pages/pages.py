"""Notebook -> what its page says: all cells with their saved outputs, figures as files, headings with their places."""

import html
import re
import struct
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from nbformat import NotebookNode
from traitlets.config import Config

from deck.build import NOTEBOOK_LINK

HERE = Path(__file__).resolve().parent
HEADING = re.compile(r"<h([1-6])(?: [^>]*)?>(.*?)</h\1>", re.DOTALL)
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
IMAGE = re.compile(r'<img src="([^"]+)" alt="([^"]*)"[^>]*>')
QUOTE = re.compile(r"<blockquote>\s*(?=<p><strong>(\w+))")
NOTES = "<details><summary>Speaker notes</summary>"
IDENTIFIER = re.compile(r"\b(arXiv:|doi:|https://)([^\s<]*[^\s<.,;)])")
ADDRESSES = {"arXiv:": "https://arxiv.org/abs/", "doi:": "https://doi.org/", "https://": "https://"}
ELEMENT = re.compile(r"(<a .*?</a>|<[^>]+>)", re.DOTALL)
TEX = {r"\sqrt": "√", r"\times": "×", r"\cdot": "·", "^2": "²", "\\": "", "{": "", "}": ""}


@dataclass(frozen=True)
class Heading:
    """A heading: its level, the id it can be reached by, what it says as HTML and as text."""

    level: int
    id: str
    html: str
    text: str


@dataclass
class Page:
    """A page of the site: the name of its file, its title as text, its body as HTML, and what stands around it."""

    name: str
    title: str
    body: str
    headings: list[Heading] = field(default_factory=list)
    deck: str = ""
    widgets: bool = False
    short: str = ""  # what links from elsewhere call it
    pictures: dict[str, bytes] = field(default_factory=dict)  # path in the site -> content

    @property
    def label(self) -> str:
        """Its first heading, as HTML."""
        return self.headings[0].html

    @property
    def contents(self) -> list[Heading]:
        """The sections to list beside the page; none for a short one."""
        sections = [heading for heading in self.headings if heading.level == 2]
        return sections if len(sections) > 3 else []


def page(notebook: Path) -> Page:
    """The page of a notebook. Raises ValueError for one that was not executed or shows a picture that isn't there."""
    content = nbformat.read(notebook, as_version=4)
    if any(cell.cell_type == "code" and cell.execution_count is None for cell in content.cells):
        raise ValueError(f"{notebook} has not been executed: a page shows saved outputs (`make run` makes them)")
    made = Page(f"{notebook.stem}.html", "", "", widgets="widgets" in content.metadata)
    resources = {"metadata": {"name": notebook.stem}, "unique_key": notebook.stem}
    made.body, _ = _Exporter(made, notebook.parent).from_notebook_node(content, resources)
    if not made.headings or made.headings[0].level != 1:
        raise ValueError(f"{notebook}: its first heading must be of level 1")
    made.title = made.headings[0].text
    number = notebook.stem.split("_")[0]
    made.short = f"lecture {int(number)}" if number.isdigit() and int(number) else made.title
    return made


def rendered(markdown: str) -> str:
    """Markdown as HTML, where links to notebooks lead to their pages."""
    return NOTEBOOK_LINK.sub(r"\1.html", markdown2html_mistune(markdown).replace('"notebooks/', '"'))


def linked(text: str) -> str:
    """HTML in which identifiers of papers (arXiv:…, doi:…, https://…) are links."""

    def link(found: re.Match) -> str:
        return f'<a href="{ADDRESSES[found[1]]}{found[2]}">{found[0]}</a>'

    parts = ELEMENT.split(text)
    return "".join(part if part.startswith("<") else IDENTIFIER.sub(link, part) for part in parts)


def plain(text: str) -> str:
    """HTML with formulas as text on one line: Why $\\sqrt{d_k}$ -> Why √d_k."""

    def formula(found: re.Match) -> str:
        said = found[1]
        for tex, sign in TEX.items():
            said = said.replace(tex, sign)
        return said

    return re.sub(r"\$([^$]+)\$", formula, html.unescape(re.sub(r"<[^>]+>", "", text))).strip()


def headings(text: str, known: list[Heading]) -> str:
    """HTML whose headings carry ids; they are appended to `known`, and no id is given twice."""

    def mark(found: re.Match) -> str:
        level, inner = int(found[1]), found[2].strip()
        said = plain(inner)
        letters = unicodedata.normalize("NFKD", said).encode("ascii", "ignore").decode("ascii").lower()
        name = re.sub(r"[^a-z0-9]+", "-", letters.replace("'", "")).strip("-") or "section"
        used = {heading.id for heading in known} | {"main", "found"}
        unique = next(i for i in (name, *(f"{name}-{n}" for n in range(2, len(used) + 3))) if i not in used)
        known.append(Heading(level, unique, inner, said))
        return f'<h{level} id="{unique}">{inner}</h{level}>'

    return HEADING.sub(mark, text)


class _Exporter(HTMLExporter):
    def __init__(self, page: Page, folder: Path):
        config = Config()
        config.HTMLExporter.exclude_input_prompt = config.HTMLExporter.exclude_output_prompt = True
        config.HTMLExporter.exclude_anchor_links = True
        config.HTMLExporter.preprocessors = ["nbconvert.preprocessors.ExtractOutputPreprocessor"]
        extract = config.ExtractOutputPreprocessor
        extract.extract_output_types = {"image/png"}
        extract.output_filename_template = "figures/{unique_key}-{cell_index}-{index}{extension}"
        super().__init__(config=config, template_name="article", extra_template_basedirs=[str(HERE / "templates")])
        self.page, self.folder = page, folder

    def default_filters(self) -> Iterator[tuple[str, Callable]]:
        yield from super().default_filters()
        yield "figure", self.figure

    @pass_context
    def markdown2html(self, context: Context, source: str) -> str:
        text = NOTEBOOK_LINK.sub(r"\1.html", super().markdown2html(context, source))
        text = headings(linked(text), self.page.headings)
        text = TABLE.sub(lambda table: f'<div class="scroll">{table[0]}</div>', text)
        text = QUOTE.sub(lambda quote: f'<blockquote class="{quote[1].lower()}">', text)
        text = text.replace(NOTES, NOTES.replace("<details", '<details class="notes"'))
        return IMAGE.sub(lambda image: self._picture(html.unescape(image[1]), html.unescape(image[2])), text)

    @pass_context
    def figure(self, context: Context, output: NotebookNode) -> str:
        """A figure that a cell has drawn. (nbconvert drops its alternative text; the output's metadata have it.)"""
        path = output.metadata["filenames"]["image/png"]
        self.page.pictures[path] = context["resources"]["outputs"][path]
        return self._picture(path, output.metadata.get("image/png", {}).get("alt", ""))

    def _picture(self, path: str, alt: str) -> str:
        """An <img>, and its file noted for the site."""
        content = self.page.pictures.get(path)
        if content is None and (self.folder / path).is_file():
            content = (self.folder / path).read_bytes()
        if content is None:
            raise ValueError(f"picture {path} not found in {self.folder} (a page takes local files only)")
        self.page.pictures[path] = content
        width, height = size(content)
        return (
            f'<span class="figure"><img src="{html.escape(path)}" alt="{html.escape(alt)}" width="{width}" '
            f'height="{height}" loading="lazy"></span>'
        )


def size(picture: bytes) -> tuple[int, int]:
    """Width and height of a PNG, or of an SVG that states them, in px."""
    if picture.startswith(b"\x89PNG"):
        return struct.unpack(">II", picture[16:24])
    start = picture[: picture.index(b">", picture.index(b"<svg"))].decode("utf-8")
    found = [re.search(rf'\b{name}="(\d+)"', start) for name in ("width", "height")]
    if None in found:
        raise ValueError("an SVG must state its width and height in px")
    return int(found[0][1]), int(found[1][1])
