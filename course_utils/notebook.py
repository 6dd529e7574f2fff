"""What every notebook of the course uses: set-up, verified statements, package source, and the environment check.

Only the standard library and IPython are imported at the top, so that `environment_check` can still
say what is wrong when a package is missing.
"""

import ast
import errno
import html
import importlib.metadata
import inspect
import os
import re
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from IPython.display import display

# JupyterLab's variables follow its light and dark themes; the second value is for slides and exported pages.
GREEN, RED = "var(--jp-success-color1, #2e8b57)", "var(--jp-error-color1, #d32f2f)"
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


class _Rich:
    """Something to display: HTML or Markdown where it can be shown, the same as plain text elsewhere."""

    def __init__(self, text: str, *, html: str | None = None, markdown: str | None = None):
        self.text, self.html, self.markdown = text, html, markdown

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        return self.html

    def _repr_markdown_(self) -> str | None:
        return self.markdown


def setup(seed: int = 0, threads: int = 1) -> None:
    """Prepare a notebook: seed PyTorch, fix its threads, print short numbers, set the figure style. Prints nothing.

    threads: how many PyTorch uses. With another number, sums are added in another order and a training run ends with
        slightly other numbers. One is fastest for the small models of this course, above all beside other programs.
    NumPy draws take their own generator everywhere in the course (`np.random.default_rng(seed)`), so NumPy's global
    generator is left alone.
    """
    import numpy as np
    import torch

    from course_utils import plots

    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    np.set_printoptions(precision=4, suppress=True, linewidth=100)
    torch.set_printoptions(precision=4, sci_mode=False, linewidth=100)
    plots.style()


def verify(statement: str, condition: object) -> None:
    """Show `statement` with a green check mark if `condition` is true, stop the cell if it isn't.

    statement: a plain sentence, the claim that the cell has just checked.
    condition: one truth value: a bool, or a NumPy or PyTorch boolean without dimensions.

    Raises AssertionError with the statement if the condition is false, and TypeError if the condition
    isn't a single truth value (an array, a number, None): such a check could not fail where it should.
    """
    if not isinstance(statement, str):
        raise TypeError(f"verify: expected a sentence first, got {type(statement).__name__}")
    if not _single_bool(condition, statement):
        raise AssertionError(f"✗ {statement}")
    mark = f'<span role="img" aria-label="verified:" style="color: {GREEN}; font-weight: bold">✓</span>'
    display(_Rich(f"✓ {statement}", html=f"<div>{mark} {html.escape(statement, quote=False)}</div>"))


def _single_bool(condition: object, statement: str) -> bool:
    if isinstance(condition, bool):
        return condition
    # NumPy and PyTorch booleans, without importing either: "bool" in NumPy, "torch.bool" in PyTorch.
    is_bool = str(getattr(condition, "dtype", "")).removeprefix("torch.") == "bool"
    if is_bool and condition.ndim == 0:
        return bool(condition)
    shape = tuple(getattr(condition, "shape", ()))
    kind = f"{type(condition).__name__} of shape {shape}" if shape else type(condition).__name__
    hint = "; did you mean .all()?" if is_bool else ""
    raise TypeError(f"verify: expected one truth value for “{statement}”, got {kind}{hint}")


def show_source(*objects: Callable | type, docstring: bool = True) -> None:
    """Display the source code of functions, classes or modules of the package, highlighted.

    docstring=False leaves the docstring out, where the text around has said the same.
    Raises TypeError for an object that has no Python source.
    """
    if not objects:
        raise TypeError("show_source: expected at least one function or class")
    for item in objects:
        try:
            source = textwrap.dedent(inspect.getsource(item)).rstrip()
        except (TypeError, OSError):
            raise TypeError(f"show_source: no Python source found for {item!r}") from None
        source = source if docstring else _without_docstring(source)
        place = item.__name__ if inspect.ismodule(item) else item.__module__
        text = f"# {place}\n{source}"
        display(_Rich(text, markdown=f"```python\n{text}\n```"))


def _without_docstring(source: str) -> str:
    tree = ast.parse(source)
    owner = tree.body[0] if isinstance(tree.body[0], ast.FunctionDef | ast.ClassDef) else tree
    if ast.get_docstring(owner) is None:
        return source
    lines = source.splitlines()
    del lines[owner.body[0].lineno - 1 : owner.body[0].end_lineno]
    return "\n".join(lines)


@dataclass(frozen=True)
class Check:
    """One line of the environment check: what was looked at, whether it is fine, what was found, what to do if not."""

    name: str
    ok: bool
    found: str
    advice: str = ""


class Report:
    """The lines of an environment check, shown as a table; `ok` is True if every line is fine."""

    def __init__(self, checks: list[Check]):
        self.checks = checks

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def conclusion(self) -> str:
        failed = sum(not check.ok for check in self.checks)
        if not failed:
            return "Everything the course needs is here."
        return f"{failed} of {len(self.checks)} checks failed: see what to do beside each ✗."

    def __repr__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = []
        for check in self.checks:
            lines.append(f"{'✓' if check.ok else '✗'} {check.name:{width}}  {check.found}")
            if not check.ok:
                lines.append(f"  {'':{width}}  → {check.advice}")
        return "\n".join([*lines, self.conclusion])

    def _repr_html_(self) -> str:
        columns = ["Check", "Result", "Found", *([] if self.ok else ["What to do"])]
        head = "".join(f'<th scope="col" style="text-align: left">{column}</th>' for column in columns)
        rows = "".join(_html_row(check, len(columns)) for check in self.checks)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f"{table}<p>{html.escape(self.conclusion)}</p>"


def _html_row(check: Check, columns: int) -> str:
    color, word = (GREEN, "✓</span> fine") if check.ok else (RED, "✗</span> failed")
    result = f'<span aria-hidden="true" style="color: {color}; font-weight: bold">{word}'
    advice = "" if check.ok else re.sub("`(.+?)`", r"<code>\1</code>", html.escape(check.advice))
    cells = "".join(
        f'<td style="text-align: left">{cell}</td>' for cell in (html.escape(check.found), advice)[: columns - 2]
    )
    return (
        f'<tr><th scope="row" style="text-align: left">{html.escape(check.name)}</th>'
        f'<td style="text-align: left; white-space: nowrap">{result}</td>{cells}</tr>'
    )


def environment_check() -> Report:
    """Look at everything the course needs, and say what to do about what is missing. Never raises.

    Checks the versions of Python and of each package against pyproject.toml, the threads, whether this folder
    can be written to (which only saving needs), the data files, and, in a second or so, that a small network trains and
    that its gradient agrees with finite differences. Returns a Report, which a notebook shows as a table.
    """
    checks = []
    for name, look, advice in (
        ("Python and packages", _look_at_versions, f"Put pyproject.toml back, then: {_REINSTALL}"),
        ("Threads", _look_at_threads, _REINSTALL),
        ("Folder", _look_at_folder, "Move the course to a folder that you may write to; work can't be saved here."),
        ("Data", _look_at_data, "Get the files back with `git checkout -- data` in the course's folder."),
        ("Self-test", _look_at_training, _REINSTALL),
    ):
        try:
            checks += look()
        except Exception as problem:  # whatever is broken, the other lines still help
            checks.append(Check(name, False, f"{type(problem).__name__}: {problem}", advice))
    return Report(checks)


_REINSTALL = (
    "Close JupyterLab and run `make setup` in the course's folder "
    "(with conda: `conda env update -f environment.yml`), then open it again."
)


def _look_at_versions() -> list[Check]:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    python = ".".join(str(part) for part in sys.version_info[:3])
    needed = SpecifierSet(project["requires-python"])
    advice = f"Install Python {needed}, delete the folder .venv, then: {_REINSTALL}"
    checks = [Check("Python", python in needed, f"{python} (needed: {needed})", advice)]
    for requirement in map(Requirement, project["dependencies"]):
        try:
            version = importlib.metadata.version(requirement.name)
            ok = requirement.specifier.contains(version, prereleases=True)
        except importlib.metadata.PackageNotFoundError:
            version, ok = "not installed", False
        checks.append(Check(requirement.name, ok, f"{version} (needed: {requirement.specifier})", _REINSTALL))
    return checks


def _look_at_threads() -> list[Check]:
    import torch

    return [Check("Threads", True, f"PyTorch uses {torch.get_num_threads()}, processors: {os.cpu_count()}")]


def _look_at_folder() -> list[Check]:
    try:
        with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
            file.write(b"written by the environment check")
    except OSError as problem:
        if problem.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        # No notebook writes a file, so all of them run here, too.
        found = f"read-only ({problem.strerror}): notebooks run, but work can only be saved in a copy elsewhere"
        return [Check("Folder", True, found)]
    return [Check("Folder", True, "can be written to")]


def _look_at_data() -> list[Check]:
    from course_utils import corpora

    words = len(corpora.load_pronunciations())
    return [Check("Data", True, f"pronunciations of {words:,} words, checksum as expected")]


def _look_at_training() -> list[Check]:
    """Train a network of 156 weights for 20 steps; compare one of its gradients with central differences."""
    import torch

    from course_utils import recurrent, training

    with torch.random.fork_rng(devices=[]):  # the notebook's own random numbers stay as they are
        torch.manual_seed(0)
        model = recurrent.RecurrentLM(8, 4, 6).double()
        tokens = torch.randint(4, 8, (4, 9))
    history = training.fit(model, [tokens], loss=training.language_model_loss, steps=20, lr=0.03, progress=False)
    learned = history.loss[-1] < 0.9 * history.loss[0]
    weight = model.rnn.weight_hh_l0  # (6, 6)
    gradient = torch.autograd.grad(training.language_model_loss(model, tokens), weight)[0]
    error = (gradient - _central_differences(lambda: training.language_model_loss(model, tokens), weight)).abs().max()
    exact = bool(error < 1e-7)
    found = (
        f"20 steps of training {'lowered' if learned else 'did not lower'} the loss; "
        f"the gradient {'agrees' if exact else 'does not agree'} with finite differences"
    )
    return [Check("Self-test", learned and exact, found, _REINSTALL)]


def _central_differences(function: Callable[[], object], weight, eps: float = 1e-5):
    import torch

    result = torch.empty_like(weight)
    with torch.no_grad():
        flat = weight.view(-1)
        for i in range(flat.numel()):
            old = flat[i].item()
            flat[i] = old + eps
            above = function()
            flat[i] = old - eps
            result.view(-1)[i] = (above - function()) / (2 * eps)
            flat[i] = old
    return result
