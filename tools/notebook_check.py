"""What a saved notebook must fulfill: the rules of `tools/notebook check`.

A rule is a function that yields a Problem for each place where a notebook breaks it; RULES lists them all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/svg+xml")
# Speaker notes are folded away, so that a reader of the notebook isn't told what to say; a deck unfolds them.
NOTES = re.compile(r"<details><summary>Speaker notes</summary>\n\n(?P<notes>.+)\n\n</details>", re.DOTALL)
SLIDE_TYPES = ("slide", "subslide", "fragment", "skip", "notes", "-")
TIMING_KEYS = ("execution", "ExecuteTime", "papermill")
MAX_BYTES, MAX_LINES, HARD_MAX_LINES = 3_000_000, 15, 25
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
ABSOLUTE_PATH = re.compile(
    r"(?:(?<![\w.:/~-])|(?<=file://))/(?:home|Users|root|tmp|var|private|opt|usr|mnt|media|srv|work|workspace|builds)"
    r"/[^\s'\"<>,;)]*|(?<![A-Za-z0-9])[A-Z]:\\{1,2}[A-Za-z_][^\s'\"<>,;)]*"
)


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def text_of(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def shown(path: Path) -> str:
    """The path as one would type it from the repository's root, where that is possible."""
    path = path.resolve()
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


class Problem(NamedTuple):
    """What is wrong in the cell with this index (None: in the notebook as a whole), and how to mend it."""

    cell: int | None
    what: str
    mend: str


AGAIN = "execute with `tools/notebook run`"


def label(nb: NotebookNode, index: int | None) -> str:
    """Cells are counted from 1, as one sees them; code cells have their execution count as well."""
    if index is None:
        return "whole notebook"
    count = nb.cells[index].get("execution_count")
    return f"cell {index + 1} [{count}]" if count else f"cell {index + 1}"


def code_cells(nb: NotebookNode) -> list[tuple[int, NotebookNode]]:
    return [(i, cell) for i, cell in enumerate(nb.cells) if cell.cell_type == "code"]


def executed_in_order(nb: NotebookNode) -> Iterator[Problem]:
    cells = code_cells(nb)
    missing = [i for i, cell in cells if cell.execution_count is None]
    if missing and len(missing) == len(cells):
        yield Problem(None, "no cell has been executed", AGAIN)
        return
    for i in missing:
        empty = not nb.cells[i].source.strip()
        yield Problem(i, "empty code cell" if empty else "not executed", "delete it" if empty else AGAIN)
    for expected, (i, cell) in enumerate(cells, 1):
        if not missing and cell.execution_count != expected:
            yield Problem(i, f"executed out of order: expected [{expected}]", AGAIN)
            return


def clean_outputs(nb: NotebookNode) -> Iterator[Problem]:
    for i, cell in code_cells(nb):
        if "raises-exception" not in tags(cell):
            for name in {o.ename for o in cell.outputs if o.output_type == "error"}:
                yield Problem(i, f"error output: {name}", f"mend the cell and {AGAIN}")
        stderr = "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stderr")
        if stderr:
            first = stderr.strip().splitlines()[0][:60] if stderr.strip() else ""
            yield Problem(i, f"stderr output: {first}", f"remove what the warning is about and {AGAIN}")


def figures_have_alt(nb: NotebookNode) -> Iterator[Problem]:
    for i, cell in code_cells(nb):
        if any(lacks_alt(output) for output in cell.outputs):
            yield Problem(i, "figure without alt text", 'show it with show(fig, alt="what one sees")')
        html = "".join(text_of(o.data.get("text/html", "")) for o in cell.outputs if "data" in o)
        if html_image_lacks_alt(html):
            yield Problem(i, "image in HTML output without alt text", 'write <img alt="what one sees" …>')


def lacks_alt(output: NotebookNode) -> bool:
    data = output.get("data", {})
    if VIEW in data and text_of(data.get("text/plain", "")).strip():
        return False  # the picture stands in for a widget, and the widget's text is the alt text
    return any(mime in data and not output.metadata.get(mime, {}).get("alt", "").strip() for mime in IMAGES)


def html_image_lacks_alt(html: str) -> bool:
    images = re.findall(r"<img\b[^>]*>", html, re.IGNORECASE)
    return any(not re.search(r"""\balt\s*=\s*(?:"\s*[^"\s]|'\s*[^'\s])""", img, re.IGNORECASE) for img in images)


def markdown_images_have_alt(nb: NotebookNode) -> Iterator[Problem]:
    for i, cell in enumerate(nb.cells):
        if cell.cell_type == "markdown":
            text = re.sub(r"(?ms)^```.*?^```|`[^`\n]+`", "", cell.source)  # code only talks about images
            if re.search(r"!\[\s*\][(\[]", text) or html_image_lacks_alt(text):
                yield Problem(i, "image in Markdown without alt text", "write ![what one sees](file)")


def slide_types(nb: NotebookNode) -> Iterator[Problem]:
    for i, cell in enumerate(nb.cells):
        kind = cell.metadata.get("slideshow", {}).get("slide_type")
        if kind not in SLIDE_TYPES:
            what = f"unknown slide type {kind!r}" if kind else "no slide type"
            yield Problem(i, what, f"set metadata slideshow.slide_type to one of {', '.join(SLIDE_TYPES)}")
        if kind == "notes" and not NOTES.fullmatch(cell.source.strip()):
            mend = "write <details><summary>Speaker notes</summary>, the notes and </details>, with blank lines between"
            yield Problem(i, "speaker notes that are not folded", mend)


def no_timing_metadata(nb: NotebookNode) -> Iterator[Problem]:
    if "papermill" in nb.metadata:
        yield Problem(None, "timing metadata", AGAIN)
    for i, cell in enumerate(nb.cells):
        if any(key in cell.metadata for key in TIMING_KEYS):
            yield Problem(i, "timing metadata", AGAIN)
        if "timing" in tags(cell) and "nbval-ignore-output" not in tags(cell):
            yield Problem(i, "tagged timing, but compared by nbval", "add the tag nbval-ignore-output")


def exercises_unsolved(nb: NotebookNode) -> Iterator[Problem]:
    for i, cell in code_cells(nb):
        if "exercise" in tags(cell):
            yield from exercise_unsolved(nb, i)


def exercise_unsolved(nb: NotebookNode, i: int) -> Iterator[Problem]:
    tree = parse(nb.cells[i].source)
    if tree is None:
        yield Problem(i, "exercise: the stub is not valid Python", "mend its syntax")
        return
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)):
        if not is_stub(function):
            yield Problem(
                i, f"exercise: {function.name} is filled in", "leave the docstring and raise NotImplementedError"
            )
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    checked = 0
    for k, cell in ((k, cell) for k, cell in code_cells(nb) if k >= i):
        body = parse(cell.source)
        if body is None:
            continue
        if k != i and names & {getattr(n, "name", None) for n in body.body}:
            break  # a later cell defines the function anew: its checks are about that one
        here = sum(is_check(node, names) for node in ast.walk(body))
        checked += here
        if cell.execution_count is not None and output_text(cell).lower().count("not attempted") < here:
            yield Problem(k, 'exercise: the saved check does not say "not attempted"', f"empty the stub and {AGAIN}")
    if not checked:
        yield Problem(i, "exercise: no check of it follows", "add a line like lecture_01.NAME.check(NAME)")


def parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(TransformerManager().transform_cell(source))
    except SyntaxError:
        return None


def is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Raise) or body[0].exc is None:
        return False
    raised = body[0].exc.func if isinstance(body[0].exc, ast.Call) else body[0].exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def is_check(node: ast.AST, names: set[str]) -> bool:
    """Whether this is a call like lecture_01.rnn_forward.check(rnn_forward) of one of the names."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "check"):
        return False
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    return any(isinstance(a, ast.Name) and a.id in names for a in arguments)


def output_text(cell: NotebookNode) -> str:
    """What the outputs of a cell say as plain text."""
    parts = [text_of(o.get("text", "")) + text_of(o.get("data", {}).get("text/plain", "")) for o in cell.outputs]
    return "\n".join(parts)


def no_machine_traces(nb: NotebookNode) -> Iterator[Problem]:
    for i, cell in code_cells(nb):
        text = "\n".join(strings(cell.outputs))
        if found := absolute_path(text):
            yield Problem(i, f"absolute path in output: {found}", "print the name or a path relative to the repository")
        if ADDRESS.search(text):
            yield Problem(i, "memory address in output", "end the line with a semicolon or print something that lasts")
    if found := absolute_path("\n".join(strings(nb.metadata.get("widgets", {})))):
        yield Problem(None, f"absolute path in widget state: {found}", "give the widget no path of this machine")


def strings(value: object) -> Iterator[str]:
    """All text inside outputs or metadata; pictures and other binary content aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not key.startswith("image/") or isinstance(inner, dict):
                yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def absolute_path(text: str) -> str | None:
    own = re.search(re.escape(str(ROOT)) + r"(?![\w-])[^\s'\"<>]*", text)
    found = own or ABSOLUTE_PATH.search(text)
    return found[0][:60] if found else None


def short_cells(nb: NotebookNode) -> Iterator[Problem]:
    for i, cell in code_cells(nb):
        lines = len(cell.source.strip().splitlines())
        limit = HARD_MAX_LINES if {"exercise", "long-ok"} & set(tags(cell)) else MAX_LINES
        if lines > limit:
            mend = "split it or move what need not be read into the package"
            yield Problem(i, f"{lines} lines of code, at most {limit}", mend)


def widgets_have_state(nb: NotebookNode) -> Iterator[Problem]:
    widgets = nb.metadata.get("widgets")
    state = (widgets or {}).get(STATE, {}).get("state")
    if widgets is not None and state is None:
        yield Problem(None, "widget metadata without state", AGAIN)
        return
    for i, cell in code_cells(nb):
        views = [o.data[VIEW]["model_id"] for o in cell.outputs if VIEW in o.get("data", {})]
        if any(model not in (state or {}) for model in views):
            yield Problem(i, "widget shown, but its state is not saved", AGAIN)


RULES = (
    executed_in_order,
    clean_outputs,
    figures_have_alt,
    markdown_images_have_alt,
    slide_types,
    no_timing_metadata,
    exercises_unsolved,
    no_machine_traces,
    short_cells,
    widgets_have_state,
)


def check(path: Path) -> list[str]:
    """Everything that is wrong with a saved notebook: one line each, in the order of the cells."""
    try:
        nb = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        if nb.nbformat != 4:
            raise ValueError(f"format {nb.nbformat}, expected 4")
        nbformat.validate(nb)
    except (ValueError, AttributeError, nbformat.ValidationError) as error:
        return [f"{shown(path)}: not a valid notebook: {str(error).splitlines()[0]}: restore it from git"]
    found = {problem for rule in RULES for problem in rule(nb)}
    if (size := path.stat().st_size) > MAX_BYTES:
        mend = "show fewer or smaller pictures"
        found.add(Problem(None, f"{size / 1e6:.1f} MB, at most {MAX_BYTES / 1e6:.0f}", mend))
    ordered = sorted(found, key=lambda p: (-1 if p.cell is None else p.cell, p.what))
    return [f"{shown(path)}, {label(nb, p.cell)}: {p.what}: {p.mend}" for p in ordered]
