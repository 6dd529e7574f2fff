"""tools/notebook: every rule of `check` can fail, and `run` repeats itself exactly."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from io import StringIO
from pathlib import Path
from types import ModuleType

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from notebook_check import MAX_BYTES, ROOT, RULES, STATE, VIEW, check

TOOL = ROOT / "tools" / "notebook"
MODEL = "0" * 31 + "1"
STUB = 'def double(x):\n    """Twice x."""\n    raise NotImplementedError\n\nlecture.double.check(double)'


def code(source: str, *outputs: NotebookNode, tags: tuple[str, ...] = ()) -> NotebookNode:
    return new_code_cell(source, outputs=list(outputs), metadata=slide(tags=list(tags)))


def slide(kind: str = "slide", **metadata: object) -> dict:
    return {"slideshow": {"slide_type": kind}, **metadata}


def data(**by_mime: object) -> NotebookNode:
    """An output; mime types are written with "_" for "/"."""
    metadata = by_mime.pop("metadata", {})
    return new_output("display_data", {k.replace("_", "/"): v for k, v in by_mime.items()}, metadata=metadata)


def text(value: str) -> NotebookNode:
    return new_output("stream", name="stdout", text=value)


def numbered(*cells: NotebookNode) -> NotebookNode:
    """A notebook of these cells, saved as after Run All."""
    nb = new_notebook(cells=list(cells))
    for count, cell in enumerate((c for c in nb.cells if c.cell_type == "code"), 1):
        cell.execution_count = count
    return nb


MARKDOWN, PRINT, FIGURE, WIDGET, EXERCISE, ERROR, LONG = range(7)


def good() -> NotebookNode:
    """A notebook with one cell of each kind that the rules speak of, and no problem."""
    nb = numbered(
        new_markdown_cell(
            '![an unrolled network](figures/a.svg) <img src="b.svg" alt="a gate"> and in code: `![](c.svg)`\n'
            "```\n![](d.svg)\n```\nSee [](https://example.org/home/x).",
            metadata=slide(),
        ),
        code("print('x')", text("1.5 in data/models, see https://example.org/home/index.html, C: 3\n")),
        code("show(fig)", data(image_png="aGk=", metadata={"image/png": {"alt": "it falls"}}, text_plain="it falls")),
        code("view", new_output("display_data", {VIEW: {"model_id": MODEL}, "image/png": "aGk=", "text/plain": "a"})),
        code(STUB, data(text_plain="○ double: not attempted\nFill it in."), tags=("exercise",)),
        code(
            "1 / 0",
            new_output("error", ename="ZeroDivisionError", evalue="no", traceback=["Cell In[5], line 1"]),
            tags=("raises-exception",),
        ),
        code("\n".join(["x = 1"] * 20), tags=("long-ok",)),
        new_markdown_cell("Ask the class.", metadata=slide()),
        new_markdown_cell(
            "<details><summary>Speaker notes</summary>\n\nAsk the class.\n\n</details>", metadata=slide("notes")
        ),
    )
    nb.metadata.widgets = {STATE: {"state": {MODEL: {"model_name": "A", "state": {}}}, "version_major": 2}}
    return nb


def save(nb: NotebookNode, folder: Path) -> Path:
    path = folder / "example.ipynb"
    path.write_text(nbformat.writes(nb), encoding="utf-8")
    return path


def test_good_notebook_passes(tmp_path: Path) -> None:
    assert check(save(good(), tmp_path)) == []


def clear(nb: NotebookNode) -> None:
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    del nb.metadata["widgets"]


def put(index: int, *outputs: NotebookNode) -> Callable[[NotebookNode], None]:
    return lambda nb: nb.cells[index].update(outputs=list(outputs))


def write(index: int, source: str) -> Callable[[NotebookNode], None]:
    return lambda nb: nb.cells[index].update(source=source)


def mark(index: int, **metadata: object) -> Callable[[NotebookNode], None]:
    return lambda nb: nb.cells[index].metadata.update(metadata)


def count(index: int, value: int | None) -> Callable[[NotebookNode], None]:
    return lambda nb: nb.cells[index].update(execution_count=value)


def path(value: str) -> Callable[[NotebookNode], None]:
    return put(PRINT, text(f"saved in {value}\n"))


def redefine_and_check(nb: NotebookNode) -> None:
    """Leave the stub's own cell without its check; the check that follows is of another function of that name."""
    nb.cells[EXERCISE].update(source=STUB.rsplit("\n", 1)[0], outputs=[])
    nb.cells[LONG].update(source="def double(x):\n    return 2 * x\nlecture.double.check(double)")


def check_later(nb: NotebookNode) -> None:
    nb.cells[EXERCISE].update(source=STUB.rsplit("\n", 1)[0], outputs=[])
    nb.cells[LONG].update(source="lecture.double.check(double)", outputs=[data(text_plain="✓ double: passed")])


PLANTED = {
    "cleared": (clear, None, "no cell has been executed"),
    "one cell not executed": (count(PRINT, None), PRINT, "not executed"),
    "empty code cell": (lambda nb: nb.cells[PRINT].update(source="", outputs=[], execution_count=None), PRINT, "empty"),
    "out of order": (count(FIGURE, 9), FIGURE, "out of order: expected [2]"),
    "does not start at 1": (lambda nb: [count(i, i + 1)(nb) for i in range(1, 7)], PRINT, "out of order"),
    "error": (put(PRINT, new_output("error", ename="KeyError", evalue="", traceback=[])), PRINT, "error output: Key"),
    "stderr": (put(PRINT, new_output("stream", name="stderr", text="UserWarning: x")), PRINT, "stderr output: UserW"),
    "figure": (put(FIGURE, data(image_png="aGk=", text_plain="<Figure>")), FIGURE, "figure without alt text"),
    "blank alt": (
        put(FIGURE, data(image_png="aGk=", metadata={"image/png": {"alt": " "}})),
        FIGURE,
        "figure without alt text",
    ),
    "notes in the open": (mark(LONG + 1, **slide("notes")), LONG + 1, "speaker notes that are not folded"),
    "svg": (put(FIGURE, new_output("display_data", {"image/svg+xml": "<svg/>"})), FIGURE, "figure without alt text"),
    "widget's picture without any text": (
        put(WIDGET, new_output("display_data", {VIEW: {"model_id": MODEL}, "image/png": "aGk="})),
        WIDGET,
        "figure without alt text",
    ),
    "html image": (put(PRINT, data(text_html="<img src='a.png'>")), PRINT, "HTML output without alt"),
    "markdown image": (write(MARKDOWN, "Look: ![](figures/a.svg)"), MARKDOWN, "Markdown without alt"),
    "markdown reference": (write(MARKDOWN, "Look: ![ ][a]"), MARKDOWN, "Markdown without alt"),
    "markdown html": (write(MARKDOWN, '<IMG src="a.svg" alt="">'), MARKDOWN, "Markdown without alt"),
    "no slide type": (lambda nb: nb.cells[MARKDOWN].metadata.clear(), MARKDOWN, "no slide type"),
    "unknown slide type": (mark(FIGURE, slideshow={"slide_type": "page"}), FIGURE, "unknown slide type 'page'"),
    "timing": (mark(PRINT, execution={"iopub.status.busy": "2024-01-01T00:00:00Z"}), PRINT, "timing metadata"),
    "papermill": (lambda nb: nb.metadata.update(papermill={}), None, "timing metadata"),
    "timing compared": (mark(PRINT, tags=["timing"]), PRINT, "compared by nbval"),
    "solved": (write(EXERCISE, STUB.replace("raise NotImplementedError", "return 2 * x")), EXERCISE, "is filled in"),
    "solved above the raise": (write(EXERCISE, STUB.replace("raise", "return 2 * x\n    raise")), EXERCISE, "filled"),
    "broken stub": (write(EXERCISE, "def double(x:"), EXERCISE, "not valid Python"),
    "attempted": (put(EXERCISE, data(text_plain="✗ double: failed")), EXERCISE, 'does not say "not attempted"'),
    "attempted in a later cell": (check_later, LONG, 'does not say "not attempted"'),
    "never checked": (write(EXERCISE, STUB.rsplit("\n", 1)[0]), EXERCISE, "no check of it follows"),
    "another function checked": (redefine_and_check, EXERCISE, "no check of it follows"),
    "linux path": (path("/home/ada/course/x"), PRINT, "absolute path in output: /home/ada/course/x"),
    "mac path": (path("'/Users/ada/x'"), PRINT, "absolute path in output: /Users/ada/x"),
    "windows path": (path("C:\\Users\\ada"), PRINT, "absolute path in output: C:\\Users\\ada"),
    "windows path in quotes": (path(repr("D:\\ada")), PRINT, "absolute path in output: D:"),
    "temporary path": (path("/tmp/x.txt"), PRINT, "absolute path in output: /tmp/x.txt"),
    "root's path": (path("/".join(("", "root", "x"))), PRINT, "absolute path in output: "),
    "file address": (path("file:///opt/x"), PRINT, "absolute path in output: /opt/x"),
    "own path": (path(str(ROOT)), PRINT, f"absolute path in output: {str(ROOT)[:60]}"),
    "path in html": (put(PRINT, data(text_html="<code>/var/x</code>")), PRINT, "absolute path in output: /var/x"),
    "path in a traceback": (
        put(ERROR, new_output("error", ename="E", evalue="", traceback=["File /usr/lib/x.py"])),
        ERROR,
        "absolute path in output: /usr/lib/x.py",
    ),
    "path in widget state": (
        lambda nb: nb.metadata.widgets[STATE].state[MODEL].state.update(file="/home/ada/x"),
        None,
        "absolute path in widget state: /home/ada/x",
    ),
    "address": (put(PRINT, data(text_plain="<Line2D at 0x7f00aa11bb22>")), PRINT, "memory address"),
    "too large": (put(FIGURE, text("x" * MAX_BYTES)), None, "3.0 MB, at most 3"),
    "long cell": (write(PRINT, "\n".join(["x = 1"] * 16)), PRINT, "16 lines of code, at most 15"),
    "far too long cell": (write(LONG, "\n".join(["x = 1"] * 26)), LONG, "26 lines of code, at most 25"),
    "widgets without state": (
        lambda nb: nb.metadata.update(widgets={STATE: {"version_major": 2}}),
        None,
        "widget metadata without state",
    ),
    "widget's state missing": (lambda nb: nb.metadata.widgets[STATE].state.clear(), WIDGET, "state is not saved"),
    "no widget metadata": (lambda nb: nb.metadata.pop("widgets"), WIDGET, "state is not saved"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_problem_is_found_once(name: str, tmp_path: Path) -> None:
    """One problem: one line with notebook, cell, what, and how to mend it."""
    plant, cell, message = PLANTED[name]
    nb = good()
    plant(nb)
    problems = check(save(nb, tmp_path))
    assert len(problems) == 1, problems
    place = "whole notebook" if cell is None else f"cell {cell + 1}"
    assert problems[0].startswith(f"{tmp_path / 'example.ipynb'}, {place}")
    assert message in problems[0]
    assert problems[0].count(": ") >= 2 and "\n" not in problems[0]


def test_every_rule_has_a_planted_problem() -> None:
    broken = set()
    for plant, _, _ in (case for name, case in PLANTED.items() if name != "too large"):
        nb = good()
        plant(nb)
        broken |= {rule.__name__ for rule in RULES if any(rule(nb))}
    assert broken == {rule.__name__ for rule in RULES}


def test_problems_of_one_kind_in_a_cell_are_told_once(tmp_path: Path) -> None:
    nb = good()
    picture = data(image_png="aGk=")
    nb.cells[FIGURE].outputs = [picture, picture, text("/tmp/a\n"), text("/tmp/a\n")]
    assert len(check(save(nb, tmp_path))) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cells": []}', '{"nbformat": 4, "nbformat_minor": 5}'])
def test_a_broken_file_is_reported(content: str, tmp_path: Path) -> None:
    path = tmp_path / "example.ipynb"
    path.write_text(content)
    (problem,) = check(path)
    assert "not a valid notebook" in problem


# --- the command ------------------------------------------------------------------------------------------------------


def load_tool() -> ModuleType:
    loader = SourceFileLoader("notebook_tool", str(TOOL))
    module = module_from_spec(spec_from_loader("notebook_tool", loader))
    loader.exec_module(module)
    return module


def tool(*arguments: object) -> tuple[int, str]:
    """Exit status and output of the command; in this process, because importing takes most of its time."""
    with redirect_stdout(StringIO()) as output:
        status = load_tool().main([str(argument) for argument in arguments])
    return status, output.getvalue()


def test_command_line(tmp_path: Path) -> None:
    nb = good()
    nb.cells[PRINT].metadata.execution = {}
    path = save(nb, tmp_path)
    command = [sys.executable, str(TOOL), "check", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert result.returncode == 1
    assert result.stdout.count("\n") == 1 and "timing metadata" in result.stdout


def test_exit_status(tmp_path: Path) -> None:
    path = save(good(), tmp_path)
    assert tool("check", path) == (0, f"{path}: fine\n")
    with pytest.raises(SystemExit) as exit_:
        tool("check", path, tmp_path / "missing.ipynb")
    assert exit_.value.code == 2


LIVE = [
    """
import time
import anywidget, matplotlib.pyplot as plt, traitlets
from IPython.display import display
""",
    """
class View(anywidget.AnyWidget):
    _esm = "export default { render() {} }"
    value = traitlets.Int(3).tag(sync=True)
    __repr__ = lambda self: "View"
hidden, view = View(), View()
view
""",
    """
fig, ax = plt.subplots()
fig.savefig("a.png", metadata={"Software": None})
data = {"image/png": open("a.png", "rb").read(), "text/plain": "axes"}
plt.close()
display(data, raw=True, metadata={"image/png": {"alt": "axes"}})
""",
    """
bar = display({"text/plain": "0 %"}, raw=True, display_id=True)
bar.update({"text/plain": f"{time.time()}"}, raw=True)
bar.update({}, raw=True)
print(1, flush=True)
print(2)
""",
    "print(f'{time.perf_counter():.6f} s')",
    "raise ValueError('shown on purpose')",
]


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[str]]:
    """A small real notebook, run twice: the path, its text and the tool's report after each run."""
    nb = new_notebook(cells=[new_code_cell(source.strip(), metadata=slide()) for source in LIVE])
    nb.cells[0].metadata.execution = {"iopub.status.busy": "2024-01-01T00:00:00Z"}
    nb.cells[4].metadata.tags = ["timing", "nbval-ignore-output"]
    nb.cells[5].metadata.tags = ["raises-exception"]
    nb.metadata.language_info = {"name": "python", "version": "3.1.4"}
    path = save(nb, tmp_path_factory.mktemp("run"))
    texts, reports = [], []
    for _ in range(2):
        status, report = tool("run", path)
        assert status == 0, report
        texts.append(path.read_text(encoding="utf-8"))
        reports.append(report)
    return path, texts, reports


def test_second_run_gives_no_diff(twice: tuple[Path, list[str], list[str]]) -> None:
    _, texts, reports = twice
    assert texts[0] == texts[1]
    assert "saved" in reports[0] and "unchanged" in reports[1]


def test_run_notebook_passes_check(twice: tuple[Path, list[str], list[str]]) -> None:
    assert check(twice[0]) == []


def test_run_keeps_what_is_shown_and_nothing_else(twice: tuple[Path, list[str], list[str]]) -> None:
    nb = nbformat.read(twice[0], as_version=4)
    assert nb.metadata.language_info.get("version") is None and nb.metadata.kernelspec.name == "python3"
    assert "execution" not in nb.cells[0].metadata
    state = nb.metadata.widgets[STATE].state
    assert sorted(model.model_name for model in state.values()) == ["AnyModel", "LayoutModel"]  # the hidden view is not
    assert nb.cells[1].outputs[0].data[VIEW].model_id in state
    assert "IPY_MODEL_" + next(k for k, m in state.items() if m.model_name == "LayoutModel") in json.dumps(state)
    assert [o.get("text") for o in nb.cells[3].outputs] == ["1\n2\n"]  # the emptied progress bar is gone
    assert (twice[0].parent / "a.png").exists()  # executed in the notebook's own folder


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        ("loop  10.25 s", True),
        ("loop 1e-3 s", True),
        ("product 9.5 s", False),
    ],
)
def test_only_measured_seconds_are_kept(new: str, kept: bool) -> None:
    def timed(value: str, picture: str) -> NotebookNode:
        outputs = text(value), data(image_png=picture, metadata={"image/png": {"alt": value}})
        return numbered(code("measure()", *outputs, tags=("timing",)))

    old, nb = timed("loop 9.5 s", "aGk="), timed(new, "aGg=")
    nb.cells[0].id = old.cells[0].id
    load_tool().keep_timings(nb, {old.cells[0].id: old.cells[0].outputs})
    assert (nb.cells[0].outputs == old.cells[0].outputs) is kept


def test_run_reports_seconds(twice: tuple[Path, list[str], list[str]]) -> None:
    assert all("example.ipynb: " in report and "slowest cells: cell " in report for report in twice[2])


def test_failing_cell_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = save(new_notebook(cells=[new_code_cell("1 / 0")]), tmp_path)
    before = path.read_bytes()
    status, report = tool("run", path)
    assert status == 1 and "ZeroDivisionError" in report
    assert path.read_bytes() == before
