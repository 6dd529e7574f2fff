"""The entries under `## References` of all notebooks, each work once."""

import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from site_pages.pages import IDENTIFIER, Page, linked, rendered

SECTION = re.compile(r"^#+ References *$(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^[-*] +(.+(?:\n +.+)*)", re.MULTILINE)
WORK = re.compile(r".+?\(\d{4}\w?\)\. .+?[.?!](?= |$)")  # authors, year, title


@dataclass
class Reference:
    """One work as it is cited (Markdown), and the pages that cite it."""

    text: str
    pages: list[Page] = field(default_factory=list)

    @property
    def id(self) -> str:
        """A name for links to this entry."""
        return "ref-" + re.sub(r"[^a-z0-9]+", "-", _ascii(min(_keys(self.text), key=len))).strip("-")[:60]

    @property
    def html(self) -> str:
        """The entry as HTML, its identifier as a link."""
        return re.sub(r"^<p>|</p>$", "", linked(rendered(self.text)).strip())


def listed(notebook: Path) -> list[str]:
    """The entries in the notebook's sections of references, as Markdown."""
    cells = nbformat.read(notebook, as_version=4).cells
    sections = [s for cell in cells if cell.cell_type == "markdown" for s in SECTION.findall(cell.source)]
    return [re.sub(r"\s+", " ", item).strip() for section in sections for item in ITEM.findall(section)]


def collected(cited: dict[Path, Page]) -> list[Reference]:
    """Every work that the notebooks cite, in alphabetical order, each with the pages of those that cite it.

    Entries are the same work if they share authors, year and title, or the identifier.
    """
    known: dict[str, Reference] = {}
    for notebook, page in cited.items():
        for text in listed(notebook):
            keys = _keys(text)
            entry = next((known[key] for key in keys if key in known), None) or Reference(text)
            known |= dict.fromkeys(keys, entry)
            if page not in entry.pages:
                entry.pages.append(page)
    return sorted({id(entry): entry for entry in known.values()}.values(), key=lambda entry: _ascii(entry.text))


def _keys(text: str) -> set[str]:
    work, identifier = WORK.match(text), IDENTIFIER.search(text)
    keys = {_ascii(work[0] if work else text)}
    return keys | {identifier[0].lower()} if identifier else keys


def _ascii(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii").lower()
    return re.sub(r"[^a-z0-9]+", " ", letters).strip()
