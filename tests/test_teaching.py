"""docs/teaching.md is what `make teaching` writes, its lectures fit their time, and what it names exists."""

import copy
import importlib.util
import re
import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from deck.build import arrange
from notebook_check import ROOT

TOOL = ROOT / "tools" / "teaching"
LECTURES = [path.name[:2] for path in sorted((ROOT / "notebooks").glob("0[1-9]_*.ipynb"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def teaching() -> ModuleType:
    loader = SourceFileLoader("tools_teaching", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_teaching", loader))
    sys.modules["tools_teaching"] = module
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text(teaching: ModuleType) -> str:
    return teaching.DOCUMENT.read_text(encoding="utf-8")


def test_the_document_is_what_the_command_writes(teaching: ModuleType, text: str) -> None:
    assert text == teaching.document(teaching.FRAME.read_text(encoding="utf-8")), "run `make teaching`"


@pytest.mark.parametrize("lecture", LECTURES)
def test_a_lecture_takes_60_to_75_minutes(teaching: ModuleType, lecture: str) -> None:
    assert 60 <= sum(slide.minutes or 0 for slide in teaching.slides(teaching.read(lecture))) <= 75


@pytest.mark.parametrize("lecture", LECTURES)
def test_the_readme_has_the_minutes_and_exercises_of_each_lecture(teaching: ModuleType, lecture: str) -> None:
    notebook = teaching.read(lecture)
    minutes = sum(slide.minutes or 0 for slide in teaching.slides(notebook))
    exercises = sum("exercise" in cell.metadata.get("tags", []) for cell in notebook.cells)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {lecture} \| \[.+ \| {minutes} \| {exercises} \|$", readme, re.MULTILINE)


def titles_in_deck(teaching: ModuleType, nb: NotebookNode) -> list[bool]:
    """For each slide of the deck: whether the slide that the tool finds in its place has a title that stands on it."""
    shown: list[str] = []
    for cell in arrange(copy.deepcopy(nb).cells):
        if cell.metadata.before.startswith("<section>"):
            shown.append("")
        shown[-1] += f"\n{cell.source}\n"
    slides = teaching.slides(nb)
    assert [slide.number for slide in slides] == list(range(1, len(shown) + 1))
    return [f"# {slide.title}\n" in text for slide, text in zip(slides, shown, strict=True)]


@pytest.mark.parametrize("lecture", LECTURES)
def test_slides_are_numbered_as_in_the_deck(teaching: ModuleType, lecture: str) -> None:
    assert all(titles_in_deck(teaching, teaching.read(lecture)))


def test_cells_that_are_not_in_the_deck_do_not_count(teaching: ModuleType) -> None:
    one, two, three = (slide_cells(f"### {word}", f"{word} (1 min)") for word in ("one", "two", "three"))
    two[0].metadata.slideshow.slide_type = "skip"
    hidden = new_markdown_cell("### hidden", metadata={"slideshow": {"slide_type": "slide"}, "tags": ["hide-cell"]})
    more = new_markdown_cell("### four", metadata={"slideshow": {"slide_type": "-"}})
    nb = new_notebook(cells=[*one, two[0], *three, hidden, more])
    assert titles_in_deck(teaching, nb) == [True] * 3
    assert [slide.title for slide in teaching.slides(nb)] == ["one", "three", "four"]


@pytest.mark.parametrize("lecture", LECTURES)
def test_a_lecture_has_its_timetable_questions_and_wrong_answers(teaching: ModuleType, text: str, lecture: str) -> None:
    parts = text.split(f"\n## {teaching.slides(teaching.read(lecture))[0].title}\n")
    assert len(parts) == 2, f"tools/teaching_frame.md needs @lecture {lecture}"
    section = parts[1].split("\n## ")[0]
    assert "<summary>Slide by slide</summary>" in section
    assert 5 <= len(re.findall(r"^- Slide \d+: ", section, re.MULTILINE)) <= 8
    assert 5 <= len(re.findall(rf"^- {int(lecture)}\.\d `", section, re.MULTILINE)) <= 8
    assert 9 <= int(re.search(r"^To save (\d+) minutes", section, re.MULTILINE)[1]) <= 12


def problems(teaching: ModuleType, text: str) -> list[str]:
    """Links that lead nowhere, commands and tools that don't exist, addresses that aren't placeholders."""
    prose, code = CODE.sub("", text), "\n".join(CODE.findall(text))
    headings = {teaching.anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)}
    found = []
    for target in LINK.findall(prose):
        file, _, part = target.partition("#")
        path = (teaching.DOCUMENT.parent / file).resolve()
        if target.startswith("https://"):
            continue
        if not file:
            missing = part not in headings
        elif file.endswith(".ipynb") and part and path.is_file():
            missing = part not in anchors(path)
        else:
            missing = not path.exists()
        found += [target] * missing
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    found += [f"make {name}" for name in re.findall(r"\bmake ([a-z-]+)", code) if name not in targets]
    found += [name for name in re.findall(r"\btools/[\w.]+", code) if not (ROOT / name).exists()]
    hosts = re.findall(r"https://([\w.-]+)", code)
    return found + [host for host in hosts if not host.endswith(".example.org") and host != "mybinder.org"]


@cache
def anchors(path: Path) -> set[str]:
    """The addresses of a notebook's headings in JupyterLab: the text with hyphens for spaces."""
    cells = nbformat.read(path, as_version=4).cells
    markdown = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return {heading.replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)}


def test_links_commands_and_placeholders(teaching: ModuleType, text: str) -> None:
    assert LINK.search(text) and problems(teaching, text) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[a](../notebooks/09_none.ipynb)", "../notebooks/09_none.ipynb"),
        ("[a](../notebooks/01_rnn_gradients.ipynb#9-·-None)", "../notebooks/01_rnn_gradients.ipynb#9-·-None"),
        ("[a](#lecture-99)", "#lecture-99"),
        ("run `make tea`", "make tea"),
        ("see `tools/none`", "tools/none"),
        ("```\ngit clone https://git.somewhere.net/course\n```", "git.somewhere.net"),
    ],
)
def test_a_dead_link_or_command_is_found(teaching: ModuleType, line: str, problem: str) -> None:
    assert problems(teaching, f"# A heading\n\n{line}\n") == [problem]


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ("@lecture 01\n- @ask Ask: nobody asks this?", "lecture 01: 0 times in the notes"),
        ("@lecture 01\n- @ask Ask: … .", "times in the notes instead of once"),
        ("- @wrong 1.1 too clever", "exercise 1.1: 0 mistakes named 'too clever'"),
        ("@lecture 01\nSee [[No such slide]].", "lecture 01: 0 slides have the title No such slide"),
        ("@lecture 01\n@save One step by hand; No such slide", "lecture 01: 0 slides have the title No such slide"),
        ("@lecture 77", "lecture 77: expected one notebook, found 0"),
        ("@lecture 01\nSee [[One step\nby hand]].", "line 2: a title in [[ ]] must end in the same line"),
        ("@questions", "line 1: not understood"),
    ],
)
def test_a_frame_that_names_nothing_is_refused(teaching: ModuleType, frame: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        teaching.document(frame)


def test_all_lines_that_name_nothing_are_told_at_once(teaching: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"line 2: .*\n.*line 4: "):
        teaching.document("@lecture 01\n- @ask nobody asks\nfine\n- @wrong 1.1 too clever")


def slide_cells(title: str, notes: str) -> list[NotebookNode]:
    folded = f"<details><summary>Speaker notes</summary>\n\n{notes}\n\n</details>"
    return [
        new_markdown_cell(title, metadata={"slideshow": {"slide_type": "slide"}}),
        new_markdown_cell(folded, metadata={"slideshow": {"slide_type": "notes"}}),
    ]


@pytest.mark.parametrize("notes", ["Nothing about time.", "Twice. (1 min) (2 min)", "In words (two minutes)."])
def test_a_slide_without_its_minutes_is_refused(teaching: ModuleType, notes: str) -> None:
    deck = teaching.slides(new_notebook(cells=slide_cells("### A slide", notes)))
    with pytest.raises(ValueError, match="slide 1, A slide: its notes must say its minutes once"):
        _ = deck[0].minutes


def test_what_changes_in_a_notebook_changes_the_document(teaching: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [
        *slide_cells("# Lecture 1 · A title", "Hello. (2 min)"),
        *slide_cells("## 1 · A section", "Say this."),
        *slide_cells("### A slide", "Ask: why? Because. (70 min)"),
    ]
    monkeypatch.setattr(teaching, "read", lambda lecture: new_notebook(cells=cells))
    text = teaching.document("@lecture 01\n@timetable\n- @ask Ask: why? … Because.\n[[A slide]]")
    assert text.startswith("## Lecture 1 · A title\n3 slides, 72 minutes: [01_rnn_gradients.ipynb]")
    assert "| Opening | 1–1 | 2 | 0:00 |" in text
    assert "| [1 · A section](../notebooks/01_rnn_gradients.ipynb#1-·-A-section) | 2–3 | 70 | 0:02 |" in text
    assert "| 2 | **1 · A section** |  | 0:02 |\n| 3 | A slide | 70 | 0:02 |" in text
    assert text.endswith("- Slide 3: Why? Because.\n*A slide* (slide 3)\n")
