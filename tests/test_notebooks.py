"""The saved notebooks of the course: `tools/notebook check` finds nothing to mend."""

from pathlib import Path

import pytest

from notebook_check import ROOT, check

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS, "no notebook in notebooks/"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_format(path: Path) -> None:
    assert check(path) == []
