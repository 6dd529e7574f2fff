"""Each notebook in a real JupyterLab: explorers are alive when it is opened.

`test_nbval.py` runs every cell of every notebook. Here those are run again that need more than it sees, a kernel behind
their explorers, and the first one, to see that a notebook runs from top to bottom in JupyterLab at all.
"""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser

from browser import NOTEBOOKS, LabNotebook, copy_notebooks, lab_notebook, lab_server, launched, moves_by_keyboard

RUN = [path for path in NOTEBOOKS if path.stem.startswith("00") or '"needs_kernel": true' in path.read_text("utf-8")]
run_too = pytest.mark.parametrize("notebook", RUN, indirect=True, ids=lambda path: path.stem)

FAULTS = [
    "from IPython.display import HTML, display",
    """display(HTML('<img src="https://example.org/x.png" alt="x">'))""",
    """display({"application/vnd.jupyter.widget-view+json": {"model_id": "0" * 32, "version_major": 2}}, raw=True)""",
    "1 / 0",
    "'never run'",
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("lab")
    folder = copy_notebooks(home / "notebooks")
    faults = new_notebook(cells=[new_code_cell(source) for source in FAULTS])
    faults.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(faults, folder / "faults.ipynb")
    with lab_server(folder, home) as address:
        yield address


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request: pytest.FixtureRequest, chromium: Browser, server: str) -> Iterator[LabNotebook]:
    """The notebook as saved, opened and not run. The tests below use it one after the other."""
    path: Path = request.param
    with lab_notebook(chromium, server, path.name) as opened:
        yield opened


def test_saved_explorers_are_alive_before_anything_is_run(notebook: LabNotebook) -> None:
    for index in notebook.saved_explorers:
        moves_by_keyboard(notebook.page, notebook.explorer(index))
    assert notebook.problems() == []


@run_too
def test_all_cells_run(notebook: LabNotebook) -> None:
    notebook.run_all()
    errors, unrun = outcome(notebook)
    assert (errors, unrun) == ([], [])
    assert notebook.explorers() == notebook.saved_explorers
    assert notebook.problems() == []


@run_too
def test_explorers_move_after_the_run(notebook: LabNotebook) -> None:
    for index in notebook.explorers():
        moves_by_keyboard(notebook.page, notebook.explorer(index))
    assert notebook.problems() == []


def test_faults_in_a_notebook_are_seen(chromium: Browser, server: str) -> None:
    with lab_notebook(chromium, server, "faults.ipynb") as notebook:
        notebook.run_all()
        errors, unrun = outcome(notebook)
        notebook.page.locator(".jp-OutputArea :text('Error displaying widget')").first.wait_for()
        problems = notebook.problems()
    assert errors == ["division by zero"]
    assert unrun == ["'never run'"]
    assert "outside request: https://example.org/x.png" in problems
    assert any("broken widgets" in problem for problem in problems)


def outcome(notebook: LabNotebook) -> tuple[list[str], list[str]]:
    """The errors in the outputs, and the code cells that didn't run in their turn; every cell is looked at once."""
    cells = notebook.cells()
    for index in range(len(cells)):
        notebook.show(index)
    code = [cell for cell in cells if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]
    errors = [out["evalue"] for cell in code for out in cell["outputs"] if out["output_type"] == "error"]
    unrun = ["".join(cell["source"]) for turn, cell in enumerate(code, 1) if cell["execution_count"] != turn]
    return errors, unrun
