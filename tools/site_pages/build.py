"""Writes the site: pages, decks, pictures, and one folder of scripts, styles and fonts that all pages share."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from deck import packages
from deck.build import COURSE
from deck.build import build as build_deck
from site_pages import pages, references
from site_pages.pages import Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCRIPTS = ("mathjax", "require", "widgets", "anywidget")
ROW = r"\[([^\]]+)\]\((?:notebooks/)?{name}\) *\| *([^|]+?) *\|"


def build(notebooks: list[Path], folder: Path, readme: Path = ROOT / "README.md") -> list[Page]:
    """Write the site of notebooks to `folder`, which is made anew, and return its pages in their order.

    The start page says what the readme says: its first paragraphs, and the question of each lecture from its table.
    Outputs are those saved in the notebooks; nothing is executed.
    Raises packages.PackagesMissing, or ValueError for a notebook that can't be shown or has no row in the table.
    """
    packages.install()
    if folder.exists() and any(folder.iterdir()) and not (folder / "assets" / "site.js").exists():
        raise ValueError(f"{folder} has other things in it than a site: name another folder")
    lectures = {notebook: pages.page(notebook) for notebook in notebooks}
    for notebook, page in lectures.items():
        page.deck = f"slides/{notebook.stem}.html"
    every = [_start(lectures, readme.read_text(encoding="utf-8")), *lectures.values(), _references(lectures)]
    shutil.rmtree(folder, ignore_errors=True)
    _assets(folder / "assets", every)
    for previous, page, following in zip([None, *every], every, [*every[1:], None]):
        text = _template("layout").render(page=page, course=COURSE, previous=previous, next=following)
        (folder / page.name).write_text(text, encoding="utf-8")
        for path, content in page.pictures.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(content)
    for notebook in notebooks:
        build_deck(notebook, folder / "slides")
    return every


def _start(lectures: dict[Path, Page], readme: str) -> Page:
    rows = [_row(notebook, page, readme) for notebook, page in lectures.items()]
    first = next(iter(lectures.values()))
    picture = re.search(r'<span class="figure">.*?</span>', first.body, re.DOTALL)
    body = _template("start").render(
        course=COURSE, introduction=_introduction(readme), lectures=rows, picture=picture[0] if picture else ""
    )
    return _page("index.html", body)


def _row(notebook: Path, page: Page, readme: str) -> SimpleNamespace:
    found = re.search(ROW.format(name=re.escape(notebook.name)), readme)
    if found is None:
        raise ValueError(f"the readme's table of lectures has no row `| [name]({notebook.name}) | question |`")
    name, question = (re.sub(r"^<p>|</p>$", "", pages.rendered(text).strip()) for text in found.groups())
    number = notebook.stem.split("_")[0]
    return SimpleNamespace(page=page, number=number, name=name, plain=pages.plain(name), question=question)


def _introduction(readme: str) -> str:
    """The paragraphs between the readme's title and what follows them (a table, a picture, a heading, a list)."""
    paragraphs = re.match(r"# .+\n((?:\s*[^\s|#!<\[>*`-].*\n)+)", readme)
    if paragraphs is None:
        raise ValueError("the readme must begin with its title and a paragraph that says what the course is")
    return pages.rendered(paragraphs[1])


def _references(lectures: dict[Path, Page]) -> Page:
    return _page("references.html", _template("references").render(entries=references.collected(lectures)))


def _page(name: str, body: str) -> Page:
    page = Page(name, "", "")
    page.body = pages.headings(body, page.headings)
    page.title = page.headings[0].text
    return page


def _template(name: str):
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"), undefined=StrictUndefined, trim_blocks=True, autoescape=False
    )
    return environment.get_template(f"{name}.html.j2")


def _assets(folder: Path, every: list[Page]) -> None:
    folder.mkdir(parents=True)
    for name in SCRIPTS:
        (folder / f"{name}.js").write_text(packages.script(name), encoding="utf-8")
    style = packages.font_faces() + (HERE / "site.css").read_text(encoding="utf-8")
    (folder / "site.css").write_text(style, encoding="utf-8")
    shutil.copyfile(HERE / "site.js", folder / "site.js")
    (folder / "NOTICE.txt").write_text(packages.NOTICE.replace("This file", "This site") + "\n", encoding="utf-8")
    index = [[page.name, page.title, [[h.id, h.text, h.level] for h in page.headings]] for page in every]
    (folder / "search.js").write_text(f"window.headings = {json.dumps(index, ensure_ascii=False)};\n", encoding="utf-8")
