"""Every citation of a notebook has its entry in References, no entry is left over, a paper has one entry everywhere.

A citation is names and a year: `Elman 1990`, `Chen and Goodman (1998)`, `Vaswani et al. (2017)`, also without the year
after "et al.". Works that are known by name, with a title in capitals, may be cited by that title. Markdown, code,
outputs and alt texts are searched. An entry of the last cell, `## References`, has the form

- Surname, I., and Surname, I. I. (year). Title. Where it appeared. arXiv:… or doi:… or ISBN … or https://…

with all authors, or the first ten and "et al.".
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from notebook_check import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
HEADING = "## References"
ENTRY = re.compile(r"- (?P<authors>.+?) \((?P<year>(?:18|19|20)\d\d)\)\. (?P<title>.+?)[.?!] (?P<rest>.+)")
PERSON = re.compile(r"[^\W\d_][^\W\d_' -]*(?:[ '-][^\W\d_]+)*, [^\W\d_]\.(?:[ -][^\W\d_]\.)*")
GROUP = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)*")
IDENTIFIER = re.compile(r"(?:^|\s)(arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,9}/\S+|ISBN [\d-]{13,17}|https?://\S+\.\S+)$")
NAME = r"(?:van |de )?[A-ZÀ-Ž][^\W\d_]+(?:-[^\W\d_]+)*"
NAMES = rf"(?P<names>{NAME}(?:, {NAME})*(?:,? and {NAME})?)"
DATED = re.compile(rf"\b{NAMES}(?P<more>,? et al\.)?(?:['’]s)?,? \(?(?P<year>(?:18|19|20)\d\d)\b\)?")
UNDATED = re.compile(rf"\b{NAMES}(?P<more>,? et al\.)(?P<year>)(?!,? \(?(?:18|19|20)\d\d)")
NO_NAMES = {"In", "Since", "By", "Until", "From", "May", "June", "July", "August", "March", "April"}  # before a year


@dataclass(frozen=True)
class Entry:
    """One line of References: the surnames, whether there are more of them, the year and the title."""

    text: str
    authors: tuple[str, ...]
    more: bool
    year: str
    title: str

    @property
    def identifier(self) -> str:
        found = IDENTIFIER.search(self.text)
        return found[1] if found else ""

    @property
    def known_by_title(self) -> bool:
        """Whether the title is a name, like CMU Pronouncing Dictionary."""
        return all(word[0].isupper() for word in self.title.split() if len(word) > 3)

    def is_meant(self, names: list[str], more: bool, year: str) -> bool:
        """Whether a citation is of this entry: "et al." stands for two authors or more behind those named."""
        authors = [last_word(author) for author in self.authors]
        named = [last_word(name) for name in names]
        unnamed = len(authors) - len(named) + 10 * self.more
        return year in ("", self.year) and authors[: len(named)] == named and (unnamed > 1 if more else unnamed == 0)


@dataclass(frozen=True)
class Citation:
    text: str
    names: tuple[str, ...]
    more: bool
    year: str
    end: int  # where the text goes on behind it


def last_word(name: str) -> str:
    return name.split()[-1]


def plain(text: str) -> str:
    """Text on one line, comment signs left out, one kind of dash."""
    return re.sub(r"\s+#?\s*", " ", text.replace("–", "-"))


def citations(text: str) -> Iterator[Citation]:
    for pattern in (DATED, UNDATED):
        for found in pattern.finditer(plain(text)):
            names = tuple(re.split(r",? and |, ", found["names"]))
            if names[-1] not in NO_NAMES:
                yield Citation(found[0], names, bool(found["more"]), found["year"], found.end())


def entry(line: str) -> Entry | None:
    """The entry that a line of References states, or None where the line hasn't its form."""
    found = ENTRY.fullmatch(line)
    if not found:
        return None
    people = re.split(r"(?<=\.), (?:and )?", found["authors"])
    more = people[-1] == "et al."
    people = people[: len(people) - more]
    if not (all(map(PERSON.fullmatch, people)) or GROUP.fullmatch(found["authors"])):
        return None
    return Entry(line, tuple(person.split(",")[0] for person in people), more, found["year"], plain(found["title"]))


def reference_lines(nb: NotebookNode) -> list[str]:
    last = nb.cells[-1].source.split("\n")
    return [line for line in last[1:] if line] if last[0] == HEADING else []


def entries(nb: NotebookNode) -> list[Entry]:
    return [found for line in reference_lines(nb) if (found := entry(line))]


def everything_shown(nb: NotebookNode) -> str:
    """Sources, printed and displayed text and alt texts of all cells but References."""
    parts = []
    for cell in nb.cells[: -1 if reference_lines(nb) else None]:
        parts.append(cell.source)
        for output in cell.get("outputs", []):
            parts += [output.get("text", ""), *map(str, output.get("metadata", {}).values())]
            parts += [content for mime, content in output.get("data", {}).items() if mime.startswith("text/")]
    return plain(" \n".join(parts))


def in_order(line: str) -> str:
    return unicodedata.normalize("NFKD", line).encode("ascii", "ignore").decode().casefold()


def faults(nb: NotebookNode) -> list[str]:
    """One line per problem with the references of one notebook."""
    lines, known, text = reference_lines(nb), entries(nb), everything_shown(nb)
    found = [f"not in the form of an entry: {line}" for line in lines if not entry(line)]
    found += [f"no identifier: {e.text}" for e in known if not e.identifier]
    found += [f"fewer than ten authors before et al.: {e.text}" for e in known if e.more and len(e.authors) != 10]
    if lines != sorted(set(lines), key=in_order):
        found.append("entries are not sorted, or one is there twice")
    cited = {e.text for e in known if e.known_by_title and e.title in text}
    for citation in citations(text):
        meant = [e.text for e in known if e.is_meant(list(citation.names), citation.more, citation.year)]
        if citation.year and len(meant) != 1 or not meant:
            found.append(f"{'two entries' if meant else 'no entry'} for the citation: {citation.text}")
        cited.update(meant if citation.year else [])
    return found + [f"not cited: {e.text}" for e in known if e.text not in cited]


def conflicts(known: list[Entry]) -> list[str]:
    """Pairs of entries that differ although they have the same title or identifier."""
    first: dict[str, Entry] = {}
    found = []
    for e in known:
        for key in (e.title.casefold(), e.identifier):
            if first.setdefault(key, e).text != e.text:
                found.append(f"two entries for one paper: {first[key].text} | {e.text}")
    return found


def disagreements(text: str, known: list[Entry]) -> list[str]:
    """Citations `Author (year), Title` of a source text whose paper has an entry that says otherwise."""
    found = []
    for citation in citations(text):
        title = re.match(r", [\"“]?([A-Z][^.;,:?\"”)]* [^.;,:?\"”)]*)", plain(text)[citation.end :])
        if title:
            same_title = [e for e in known if e.title.casefold().startswith(title[1].casefold())]
            same_paper = [e for e in known if e.is_meant(list(citation.names), citation.more, citation.year)]
            if (same_title or same_paper) and not set(same_title) & set(same_paper):
                found.append(f"{citation.text}, {title[1]}")
    return found


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_citation_has_its_entry_and_no_entry_is_left_over(path: Path) -> None:
    assert faults(read(path)) == []


def test_a_paper_has_the_same_entry_in_every_notebook() -> None:
    assert conflicts([e for path in NOTEBOOKS for e in entries(read(path))]) == []


def test_docstrings_cite_papers_as_the_notebooks_do() -> None:
    known = [e for path in NOTEBOOKS for e in entries(read(path))]
    sources = sorted((ROOT / "course_utils").rglob("*.py"))
    found = {path.name: disagreements(path.read_text(encoding="utf-8"), known) for path in sources}
    assert {name: lines for name, lines in found.items() if lines} == {}


# The parser itself: a correct notebook, and each fault planted in it.

ELMAN = "- Elman, J. L. (1990). Finding structure in time. *Cognitive Science* 14(2), 179–211. doi:10.1207/s1551"
GERS = (
    "- Gers, F. A., Schmidhuber, J., and Cummins, F. (2000). Learning to forget: continual prediction. doi:10.1162/0899"
)
HALL = "- Carnegie Mellon University (2015). CMU Pronouncing Dictionary. https://github.com/cmusphinx/cmudict"
SHORT = "- Gers, F. A., and Schmidhuber, J. (2000). Recurrent nets that time and count. *IJCNN 2000*. doi:10.1109/IJCNN"
TEN = "- Wu, Y., van Zu, M., Łem, Z., Le, Q. V., Zhu, W.-J., Fei-Fei, L., O'Dea, M., Cao, Y., Gao, Q., Mac, K., et al. "
WU = TEN + "(2016). Bridging the gap? arXiv:1609.08144"


def notebook(*lines: str, markdown: str = "", code: str = "", printed: str = "") -> NotebookNode:
    """A notebook that cites, in its last cell, what `lines` list."""
    cells = [
        new_markdown_cell("Sounds from the CMU Pronouncing Dictionary; the net of Elman's (1990).\n" + markdown),
        new_code_cell('"""Source: Gers, Schmidhuber and\n    Cummins (2000), Learning to forget."""\n' + code),
        new_code_cell("# as Wu\n# et al. 2016", outputs=[new_output("stream", text=printed)]),
    ]
    return new_notebook(cells=[*cells, new_markdown_cell("\n".join([HEADING, "", *lines]))])


def test_a_correct_notebook_has_no_faults() -> None:
    nb = notebook(HALL, ELMAN, GERS, WU, markdown="In 2000 it was new (Gers et al. 2000); Wu et al. did more.")
    assert faults(nb) == []
    both = "Gers and Schmidhuber, 2000, and Gers et al. 2000"
    assert faults(notebook(HALL, ELMAN, SHORT, GERS, WU, printed=both)) == []


def test_authors_title_and_year_are_read() -> None:
    wu = entry(WU)
    assert wu and wu.authors[:2] == ("Wu", "van Zu") and wu.authors[-1] == "Mac" and len(wu.authors) == 10 and wu.more
    assert (wu.title, wu.year, wu.identifier) == ("Bridging the gap", "2016", "arXiv:1609.08144")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"markdown": "See Werbos 1990."}, "no entry for the citation: Werbos 1990"),
        ({"markdown": "See Werbos et al. on it."}, "no entry for the citation: Werbos et al."),
        ({"code": "# Werbos and Peng, 1990"}, "no entry for the citation: Werbos and Peng, 1990"),
        ({"printed": "after Elman (1991)"}, "no entry for the citation: Elman (1991)"),
        ({"markdown": "Gers, Schmidhuber et al. 2000"}, "no entry for the citation: Gers, Schmidhuber et al. 2000"),
        ({"markdown": "Elman et al. (1990)"}, "no entry for the citation: Elman et al. (1990)"),
        ({"markdown": "Gers, Fox and Cummins (2000)"}, "no entry for the citation: Gers, Fox and Cummins (2000)"),
        ({"markdown": "Gers and Cummins (2000)"}, "no entry for the citation: Gers and Cummins (2000)"),
        ({"markdown": "Gers, Schmidhuber, Cummins et al. 2000"}, "no entry for the citation: Gers, Schmidhuber, Cum"),
    ],
)
def test_a_citation_without_its_entry_is_found(changed: dict, message: str) -> None:
    assert any(line.startswith(message) for line in faults(notebook(HALL, ELMAN, GERS, WU, **changed)))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([HALL, ELMAN, SHORT, GERS, WU], f"not cited: {SHORT}"),
        ([HALL, ELMAN.replace("1990", "1991"), GERS, WU], "no entry for the citation: Elman's (1990)"),
        ([HALL, ELMAN.replace("1990", "1991"), GERS, WU], "not cited: - Elman, J. L. (1991)"),
        ([HALL, ELMAN.split(" doi:")[0], GERS, WU], "no identifier: - Elman"),
        ([HALL, ELMAN.replace("doi:10.1207/s1551", "doi:s1551"), GERS, WU], "no identifier: - Elman"),
        ([HALL, ELMAN, GERS, WU.replace("van Zu, M., ", "")], "fewer than ten authors"),
        ([HALL, ELMAN.replace("(1990)", "1990"), GERS, WU], "not in the form of an entry: - Elman"),
        ([HALL, ELMAN, GERS.replace(" and Cummins, F.", " and F. Cummins"), WU], "not in the form of an entry: - Gers"),
        ([ELMAN, HALL, GERS, WU], "entries are not sorted"),
        ([HALL, ELMAN, ELMAN, GERS, WU], "entries are not sorted, or one is there twice"),
    ],
)
def test_a_wrong_list_is_found(lines: list[str], message: str) -> None:
    assert any(line.startswith(message) for line in faults(notebook(*lines)))


def test_a_title_in_the_text_is_a_citation_only_where_it_is_a_name() -> None:
    nb = notebook(HALL, ELMAN, SHORT, GERS, WU, markdown="Recurrent nets that time and count peaks.")
    assert faults(nb) == [f"not cited: {SHORT}"]


def test_a_citation_that_may_mean_two_papers_is_found() -> None:
    other = GERS.replace("Cummins, F.", "Fox, F.").replace("forget", "start")
    assert "two entries for the citation: Gers et al. 2000" in faults(
        notebook(HALL, ELMAN, GERS, other, WU, markdown="Gers et al. 2000, Gers, Schmidhuber and Fox 2000")
    )


@pytest.mark.parametrize(
    "change", [("1990", "1991"), ("J. L.", "J."), ("14(2)", "14"), ("in time", "in space"), ("s1551", "s1552")]
)
def test_two_entries_for_one_paper_are_found(change: tuple[str, str]) -> None:
    first, second = entry(ELMAN), entry(ELMAN.replace(*change))
    assert first and second
    assert conflicts([first, first]) == [] and conflicts([first, second])


def test_a_docstring_that_disagrees_with_the_entries_is_found() -> None:
    known = [found for line in (ELMAN, SHORT, GERS) if (found := entry(line))]
    agreeing = "Elman (1990), Finding structure in time, section 2; Elman (1990), chapter 3; Werbos (1990), Other work."
    assert disagreements(agreeing, known) == []
    assert disagreements("Gers, Schmidhuber and\n    Cummins (2000), Learning to\n    forget.", known) == []
    for wrong in (
        "Elman (1991), Finding structure in time.",
        "Elman (1990), Finding words in time.",
        "Elman and Zipser (1990), Finding structure in time.",
        'Gers and Schmidhuber (2000), "Learning to forget".',
    ):
        assert disagreements(wrong, known), wrong
