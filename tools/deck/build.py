"""Notebook -> one HTML file with everything inside: mathematics, pictures, live explorers, speaker notes."""

import base64
import mimetypes
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
from jinja2 import pass_context
from jinja2.runtime import Context
from nbconvert import HTMLExporter
from nbformat import NotebookNode
from traitlets.config import Config

from deck import packages
from notebook_check import NOTES

HERE = Path(__file__).resolve().parent
COURSE = "From recurrence to attention"
PICTURE = re.compile(r"""(<img\b[^>]*?\bsrc=)["']([^"']+)["']""")
NOTEBOOK_LINK = re.compile(r"""(<a\b[^>]*?\bhref=["'][\w-]+)\.ipynb(?=["'#])""")


def build(notebook: Path, folder: Path) -> Path:
    """Write the deck of a notebook to `folder`/<name>.html and return its path.

    The outputs are those saved in the notebook; nothing is executed.
    Raises packages.PackagesMissing, or ValueError for a notebook that has no slides, has not been executed, or shows a
    picture that isn't there.
    """
    packages.install()
    content = nbformat.read(notebook, as_version=4)
    name = title(content, notebook.stem)
    content.cells = arrange(content.cells)
    if not content.cells:
        raise ValueError(f"{notebook}: no cell is on a slide")
    if any(cell.cell_type == "code" and cell.execution_count is None for cell in content.cells):
        raise ValueError(f"{notebook} has not been executed: a deck shows saved outputs (`make run` makes them)")
    deck = SimpleNamespace(
        title=name,
        course=COURSE,
        notice=packages.NOTICE,
        styles=packages.styles(),
        script=packages.script,
        code=(HERE / "deck.js").read_text(encoding="utf-8"),
        widgets="widgets" in content.metadata,
    )
    resources = {"metadata": {"name": notebook.stem, "path": str(notebook.parent)}, "deck": deck}
    html, _ = _exporter().from_notebook_node(content, resources)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{notebook.stem}.html"
    path.write_text(html, encoding="utf-8")
    return path


def title(notebook: NotebookNode, default: str) -> str:
    """The title of a lecture: its first heading of level 1."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (found := re.search(r"^# +(.+?) *$", cell.source, re.MULTILINE)):
            return re.sub(r"[*`]", "", found[1])
    return default


def arrange(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The cells that a deck shows, in its order, each with the HTML that opens and closes slides around it.

    Slide types as everywhere in Jupyter: slide and subslide begin a slide, fragment begins a step that ends at the
    next one, notes go to the end of their slide, skip (or the tag hide-cell) leaves a cell out.
    """
    slides: list[tuple[list, list]] = []  # what is shown, and the notes
    begin = True
    for cell in cells:
        kind = _kind(cell)
        begin = begin or kind in ("slide", "subslide")
        if kind == "skip" or "hide-cell" in cell.metadata.get("tags", []):
            continue
        if kind == "notes" and slides:
            folded = NOTES.fullmatch(cell.source.strip())
            cell.source = folded["notes"] if folded else cell.source
            slides[-1][1].append(cell)
            continue
        if begin:
            slides.append(([], []))
            begin = False
        slides[-1][0].append(cell)
    for shown, notes in slides:
        _mark(shown, notes)
    return [cell for shown, notes in slides for cell in shown + notes]


def _kind(cell: NotebookNode) -> str:
    return cell.metadata.get("slideshow", {}).get("slide_type") or "-"


def _mark(shown: list[NotebookNode], notes: list[NotebookNode]) -> None:
    every = shown + notes
    for cell in every:
        cell.metadata.before = cell.metadata.after = ""
    steps = [i for i, cell in enumerate(shown) if i and _kind(cell) == "fragment"]
    for start, stop in zip(steps, [*steps[1:], len(shown)]):
        shown[start].metadata.before = '<div class="fragment">'
        shown[stop - 1].metadata.after = "</div>"
    if notes:
        notes[0].metadata.before = '<aside class="notes">'
        notes[-1].metadata.after = "</aside>"
    every[0].metadata.before = "<section>" + every[0].metadata.before
    every[-1].metadata.after += "</section>"


def _exporter() -> HTMLExporter:
    config = Config()
    config.HTMLExporter.exclude_input_prompt = config.HTMLExporter.exclude_output_prompt = True
    config.HTMLExporter.exclude_anchor_links = True
    config.TagRemovePreprocessor.enabled = True
    config.TagRemovePreprocessor.remove_input_tags = {"hide-input"}
    config.TagRemovePreprocessor.remove_all_outputs_tags = {"hide-output"}
    return _Exporter(config=config, template_name="lecture", extra_template_basedirs=[str(HERE / "templates")])


class _Exporter(HTMLExporter):
    """Puts the pictures of Markdown cells inside, and lets links to other notebooks lead to their decks.

    nbconvert's own way (embed_images) closes HTML elements at the end of each paragraph, which breaks <details>,
    and leaves out a picture that isn't there without a word.
    """

    @pass_context
    def markdown2html(self, context: Context, source: str) -> str:
        folder = Path(context["resources"]["metadata"]["path"])
        html = NOTEBOOK_LINK.sub(r"\1.html", super().markdown2html(context, source))
        return PICTURE.sub(lambda found: f'{found[1]}"{_inside(found[2], folder)}"', html)


def _inside(target: str, folder: Path) -> str:
    """A picture as a data: address."""
    if target.startswith("data:"):
        return target
    path = folder / target
    if not path.is_file():
        raise ValueError(f"picture {target} not found in {folder} (a deck takes local files only)")
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
