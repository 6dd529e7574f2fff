"""Each notebook where little is as its author had it, stopped in the middle of its trainings, and beside another one.

All circumstances come together, in one run: another working directory, a course and a home that can't be written to,
a locale that knows only ASCII, and 4 threads for OpenMP. In this kernel each training is stopped once; then all cells
run again, without an error, while a second kernel with 2 threads runs them, too. (nbval runs the notebooks with 1.)
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from kernels import ROOT, HostileKernel, Outcome, is_verified, read_only_course, unsupported

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SMALLEST = sorted(NOTEBOOKS, key=lambda path: path.stat().st_size)[:2]
pytestmark = pytest.mark.skipif(bool(reason := unsupported()), reason=reason)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with read_only_course(tmp_path_factory.mktemp("course")) as folder:
        yield folder


@pytest.fixture
def lax(request: pytest.FixtureRequest) -> bool:
    """Whether numbers may differ from the saved ones, as in nbval's run on other systems."""
    return request.config.getoption("nbval_lax", False)


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


# --- what is a problem ------------------------------------------------------------------------------------------------


def problems_when_stopped(nb: NotebookNode, outcomes: dict[int, Outcome]) -> Iterator[str]:
    """Errors that a stop doesn't explain: before the first one, or in a stopped cell itself; and trainings not seen."""
    explained = False
    for i, outcome in outcomes.items():
        if outcome.stops:
            explained = True
            if outcome.error not in ("", "KeyboardInterrupt") and not outcome.message.startswith("✗"):
                yield f"cell {i}, stopped: {outcome.error}: {outcome.message}"
        elif is_training(nb.cells[i]):
            yield f"cell {i} trains a model and was not stopped"
        elif outcome.error and not explained and not may_raise(nb.cells[i]):
            yield f"cell {i}: {outcome.error}: {outcome.message}"
        elif outcome.error == "KeyboardInterrupt":
            yield f"cell {i} got the stop of another cell"


def problems(nb: NotebookNode, outcomes: dict[int, Outcome], lax: bool) -> Iterator[str]:
    """Errors, and lines of `verify` that aren't the saved ones."""
    for i, outcome in outcomes.items():
        if outcome.error and not may_raise(nb.cells[i]):
            yield f"cell {i}: {outcome.error}: {outcome.message}"
        elif "nbval-ignore-output" not in tags(nb.cells[i]):
            saved = [output.data["text/plain"] for output in nb.cells[i].outputs if is_verified(output.get("data", {}))]
            if comparable(saved, lax) != comparable(outcome.verified, lax):
                yield f"cell {i}: verified {outcome.verified}, saved {saved}"


def comparable(lines: list[str], lax: bool) -> list[str]:
    return [re.sub(r"\d+", "#", line) if lax else line for line in lines]


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def may_raise(cell: NotebookNode) -> bool:
    return "raises-exception" in tags(cell)


def is_training(cell: NotebookNode) -> bool:
    """Whether the saved outputs of a cell hold the line that `training.fit` leaves behind."""
    return any(re.search(r": (\d+) of \1 steps$", o.get("data", {}).get("text/plain", "")) for o in cell.outputs)


def left_behind(folder: Path) -> Iterator[str]:
    """Temporary files that are there when the kernels have gone, except IPython's own, whose name no other run has."""
    for path in sorted((folder / "temporary").rglob("*")):
        if path.is_file() and "profile_default" not in path.parts:
            yield f"{path.relative_to(folder)} is left behind"


def run(nb: NotebookNode, course: Path, folder: Path, threads: int, lax: bool) -> list[str]:
    """Run a notebook in a kernel of its own."""
    with HostileKernel(course, folder, threads) as kernel:
        return kernel.problems() + [f"{threads} threads: {p}" for p in problems(nb, kernel.run_all(nb), lax)]


def examine(nb: NotebookNode, course: Path, folder: Path, lax: bool = False) -> list[str]:
    """All that goes wrong with a notebook in hostile circumstances: stopped, run again, and run twice at once."""
    with HostileKernel(course, folder, threads=4) as kernel, ThreadPoolExecutor(1) as beside:
        found = kernel.problems()
        outcomes, late = kernel.run_all_with_interruptions(nb)
        found += problems_when_stopped(nb, outcomes)
        found += [f"{late} steps of training after the stop"] * (late > 0)
        other = beside.submit(run, nb, course, folder, threads=2, lax=lax)
        found += [f"again: {problem}" for problem in problems(nb, kernel.run_all(nb), lax)]
        found += other.result()
    return [*found, *left_behind(folder)]


# --- the notebooks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, course: Path, tmp_path: Path, lax: bool) -> None:
    assert examine(read(course / "notebooks" / path.name), course, tmp_path, lax) == []


def test_two_different_notebooks_at_once(course: Path, tmp_path: Path, lax: bool) -> None:
    with ThreadPoolExecutor(2) as both:
        runs = [both.submit(run, read(course / "notebooks" / path.name), course, tmp_path, 2, lax) for path in SMALLEST]
    assert [run.result() for run in runs] == [[], []] and list(left_behind(tmp_path)) == []


# --- the tests themselves can fail ------------------------------------------------------------------------------------

FIRST = """
import os, tempfile, torch
from pathlib import Path
from course_utils import notebook
from course_utils.notebook import verify
from course_utils.training import fit

def train(steps, when_stopped=None):
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(steps):
        try:
            optimizer.step()
        except KeyboardInterrupt:
            if when_stopped is None:
                raise
            when_stopped()
"""
FIT = "history = fit(torch.nn.Linear(1, 1), [torch.ones(1, 1)], loss=lambda model, x: model(x).sum(), steps=9)"


def everywhere(problem: str) -> list[str]:
    """A problem that doesn't depend on a stop."""
    return [f"cell {{}}: {problem}", f"again: cell {{}}: {problem}", f"2 threads: cell {{}}: {problem}"]


def verified(line: str) -> NotebookNode:
    return new_output("display_data", {"text/plain": line, "text/html": '<b aria-label="verified:">✓</b>'})


def trained(steps: int) -> NotebookNode:
    return new_output("display_data", {"text/plain": f"training: {steps} of {steps} steps"})


# The source of each cell of a notebook, what is saved in it, and how the problems with it begin; {} is its place.
PLANTED: list[tuple[str, list[NotebookNode], list[str]]] = [
    (FIRST, [], []),
    ("(Path(notebook.__file__).parents[1] / 'notebooks' / 'a.txt').write_text('a')", [], everywhere("PermissionError")),
    ("Path(notebook.__file__).write_text('a')", [], everywhere("PermissionError")),
    ("Path('a.txt').write_text('a')", [], everywhere("PermissionError")),
    ("(Path.home() / '.a').mkdir()", [], everywhere("PermissionError")),
    ("Path('figures/course_map.svg').read_bytes()", [], everywhere("FileNotFoundError")),
    ("(Path(notebook.__file__).parents[1] / 'notebooks' / 'figures' / 'course_map.svg').read_bytes();", [], []),
    ("Path(notebook.__file__).read_text()", [], everywhere("UnicodeDecodeError")),
    ("Path(notebook.__file__).read_text('utf-8');", [], []),
    ("Path(tempfile.gettempdir(), 'a.txt').write_text('a');", [], ["temporary/a.txt is left behind"]),
    ("with tempfile.NamedTemporaryFile() as file: file.write(b'a')", [], []),
    ("verify('no', False)", [], everywhere("AssertionError: ✗ no")),
    ("verify('yes', True)", [], ["again: cell {}: verified ['✓ yes'], saved []", "2 threads: cell {}: verified"]),
    ("verify('yes', True)", [verified("✓ yes")], []),
    ("verify(os.environ['OMP_NUM_THREADS'], True)", [verified("✓ 4")], ["2 threads: cell {}: verified ['✓ 2']"]),
    ("'no training'", [trained(9)], ["cell {} trains a model and was not stopped"]),
    (FIT, [trained(9)], []),
    ("verify('all steps are made', len(history) == 9)", [verified("✓ all steps are made")], []),
    ("train(9)", [], []),
    ("for _ in range(2): train(9, when_stopped=lambda: None)", [], ["14 steps of training after the stop"]),
    ("train(9, when_stopped=lambda: 1 / 0)", [], ["cell {}, stopped: ZeroDivisionError"]),
    ("assert 'begun' not in globals()\nbegun = True\ntrain(9)\ndel begun", [], ["again: cell {}: AssertionError"]),
]


def test_planted_problems_are_found_and_nothing_else(course: Path, tmp_path: Path) -> None:
    nb = new_notebook(cells=[new_code_cell(source, outputs=saved) for source, saved, _ in PLANTED])
    expected = [begin.format(i) for i, (_, _, begins) in enumerate(PLANTED) for begin in begins]
    found = examine(nb, course, tmp_path)
    assert [problem for problem in found if not problem.startswith(tuple(expected))] == []
    assert [begin for begin in expected if not any(problem.startswith(begin) for problem in found)] == []
    assert len(found) == len(expected)


def test_where_numbers_may_differ_statements_may_not() -> None:
    nb = new_notebook(cells=[new_code_cell(outputs=[verified("✓ 4 of 5 are even")])])
    assert list(problems(nb, {0: Outcome(verified=["✓ 3 of 5 are even"])}, lax=True)) == []
    assert list(problems(nb, {0: Outcome(verified=["✓ 3 of 5 are even"])}, lax=False)) != []
    assert list(problems(nb, {0: Outcome(verified=["✓ 4 of 5 are odd"])}, lax=True)) != []


def test_a_stop_that_reaches_another_cell_is_found() -> None:
    nb = new_notebook(cells=[new_code_cell(), new_code_cell()])
    outcomes = {0: Outcome(stops=1), 1: Outcome(error="KeyboardInterrupt")}
    assert list(problems_when_stopped(nb, outcomes)) == ["cell 1 got the stop of another cell"]
    assert list(problems_when_stopped(nb, outcomes | {1: Outcome(error="NameError")})) == []


def test_a_circumstance_that_does_not_hold_is_found(tmp_path: Path) -> None:
    package = tmp_path / "course" / "course_utils" / "__init__.py"
    for folder in (package.parent, tmp_path / "home", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)  # may be written to
    package.touch()
    with HostileKernel(tmp_path / "course", tmp_path, threads=2) as kernel:
        found = "\n".join(kernel.problems())
        for part in (tmp_path / "course", package, tmp_path / "home", tmp_path / "elsewhere"):
            assert f"{part} can be written to" in found
        assert all(word not in found for word in ("comes from", "encoding", "OMP_NUM_THREADS"))
        kernel.run("import locale, os, sys; locale.getpreferredencoding = lambda *_: 'utf-8'")
        kernel.run("os.environ['OMP_NUM_THREADS'] = '1'; sys.modules['torch'] = None")
        kernel.run("os.chdir(ARGUMENTS['course'] + '/course_utils'); sys.path.remove(ARGUMENTS['course'])")
        found = "\n".join(kernel.problems())
    assert "the course comes from" in found and "the encoding of the locale is utf-8" in found
    assert "is part of the course" in found and "OMP_NUM_THREADS is 1" in found and "PyTorch has been imported" in found


def test_a_kernel_that_dies_is_found(course: Path, tmp_path: Path) -> None:
    with HostileKernel(course, tmp_path, threads=1) as kernel, pytest.raises(AssertionError, match="the kernel died"):
        kernel.run("import os; os._exit(1)")
