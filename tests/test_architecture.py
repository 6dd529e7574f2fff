"""The shape of the code: which module may import which, how long a module may be, and what nothing may import."""

import ast
import json
import shutil
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "course_utils"

# Lowest first: a module imports only from those above it in this list; those that share a line (*) not from each other.
ORDER = (
    "shapes",
    "costs",
    "corpora",
    "phrases_lexicon",
    "phrases_clauses",
    "phrases_choices",
    "phrases",
    "parallel_text",
    "ngrams",
    "recurrent",
    "gated",
    "positions",
    "attention",
    "seq2seq",
    "seq2seq_attention",
    "transformer_blocks",
    "transformer",
    "previous_tokens",
    "scaling",
    "decoding",
    "metrics",
    "progress",
    "training",
    "pronouncing",
    "induction",
    "facts",
    "models",
    "head_roles",
    "experiments",
    "plots",
    "notebook",
    "explorers.base",
    "explorers.sentences",
    "explorers.translation",
    "explorers.translator_view",
    "explorers.*",
    "explorers",
    "exercises.comparing",
    "exercises.running",
    "exercises.display",
    "exercises.engine",
    "exercises.mistakes_*",
    "exercises.lecture_*",
    "exercises",
)
MAX_LINES = 400
PICKLE = ("pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "torch.load", "torch.save")
NETWORK = (
    "socket", "ssl", "http", "urllib.request", "urllib3", "ftplib", "smtplib", "xmlrpc", "requests", "httpx", "aiohttp",
    "websocket", "websockets", "huggingface_hub", "torch.hub",
)  # fmt: skip
# Programs that talk to a server which they started themselves on this machine.
LOCAL_SERVERS = {"tests/browser.py": ("socket", "urllib.request")}
SHAPES = "course_utils/shapes.py"


def modules(root: Path) -> dict[str, Path]:
    """Each module of the package, named without `course_utils.` (the package itself is "")."""
    files = sorted((root / PACKAGE).rglob("*.py"))
    names = [".".join(file.relative_to(root / PACKAGE).with_suffix("").parts) for file in files]
    return {name.removesuffix("__init__").rstrip("."): file for name, file in zip(names, files, strict=True)}


def imports(tree: ast.Module, package: tuple[str, ...] = ()) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of all that is imported anywhere in a module: `from a import b` gives "a.b"."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (start, node.module) if part)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield node.lineno, str(node.args[0].value)


def rank(module: str) -> int | None:
    return next((place for place, pattern in enumerate(ORDER) if fnmatchcase(module, pattern)), None)


def direction_problems(root: Path) -> list[str]:
    """Imports against ORDER, and modules that have no place in it."""
    problems = []
    known = modules(root)
    for name, file in known.items():
        if name and rank(name) is None:
            problems.append(f"{name}: has no place in ORDER")
            continue
        package = (PACKAGE, *name.split(".")) if name else (PACKAGE,)
        if file.name != "__init__.py":
            package = package[:-1]
        for line, target in imports(ast.parse(file.read_text("utf-8")), package):
            if target.split(".")[0] != PACKAGE:
                continue
            target = target.partition(".")[2]
            while target and target not in known:  # a name inside a module stands for the module
                target = target.rpartition(".")[0]
            if target == name:
                continue
            if not target or not name or rank(target) is None or rank(target) >= rank(name):
                problems.append(f"{name or PACKAGE}:{line}: imports {target or PACKAGE}, which is not below it")
    return problems


def sources(root: Path) -> Iterator[tuple[str, str]]:
    """(path, Python source) of the package, the tools, the tests and the code cells of the notebooks."""
    for folder in (PACKAGE, "tools", "benchmarks", "tests"):
        for file in sorted((root / folder).rglob("*")):
            if "node_modules" in file.parts or not file.is_file():
                continue
            if file.suffix == ".py" or (not file.suffix and file.read_bytes().startswith(b"#!/usr/bin/env python")):
                yield file.relative_to(root).as_posix(), file.read_text("utf-8")
    for file in sorted(root.glob("*.py")):
        yield file.name, file.read_text("utf-8")
    for file in sorted((root / "notebooks").glob("*.ipynb")):
        cells = [cell for cell in json.loads(file.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
        code = "\n".join("".join(cell["source"]) for cell in cells)
        plain = [line for line in code.splitlines() if not line.lstrip().startswith(("%", "!", "?"))]
        yield file.relative_to(root).as_posix(), "\n".join(plain)


def matches(name: str, banned: tuple[str, ...]) -> bool:
    return any(name == entry or name.startswith(entry + ".") for entry in banned)


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Imports, and dotted names in use such as `torch.load`."""
    imported = list(imports(tree))
    roots = {name.split(".")[0] for _, name in imported}
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    yield from imported
    yield from ((node.lineno, name) for node in attributes if (name := ast.unparse(node)).split(".")[0] in roots)


def banned_uses(root: Path) -> list[str]:
    """Uses of pickle anywhere, and of network modules where no local server is talked to."""
    problems = []
    for path, source in sources(root):
        tree = ast.parse(source)
        banned = PICKLE + tuple(name for name in NETWORK if name not in LOCAL_SERVERS.get(path, ()))
        found = {(line, name) for line, name in uses(tree) if matches(name, banned)}
        problems += [f"{path}:{line}: uses {name}" for line, name in sorted(found)]
        problems += [
            f"{path}:{node.value.lineno}: allow_pickle"
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False"
        ]
    return problems


def long_modules(root: Path) -> list[str]:
    """Modules of the package and tools that are not readable in one sitting."""
    code = [root / path for path, _ in sources(root) if path.split("/")[0] in (PACKAGE, "tools", "benchmarks")]
    code += (root / PACKAGE).rglob("*.js")
    lengths = {file: len(file.read_text("utf-8").splitlines()) for file in code}
    return [f"{file.relative_to(root)}: {n} lines" for file, n in lengths.items() if n > MAX_LINES]


@pytest.mark.parametrize("check", [direction_problems, banned_uses, long_modules])
def test_project(check):
    assert check(ROOT) == []


def test_everything_was_looked_at():
    assert {"shapes", "explorers.base", "exercises.engine"} <= set(modules(ROOT))
    looked_at = {path for path, _ in sources(ROOT)}
    assert {"course_utils/shapes.py", "tools/notebook", "tests/test_architecture.py"} <= looked_at
    assert any(path.startswith("notebooks/") for path in looked_at)


@pytest.mark.parametrize(
    "path, code, check, message",
    [
        (SHAPES, "from course_utils import plots", direction_problems, "shapes:1: imports plots"),
        (SHAPES, "from course_utils.plots import show", direction_problems, "shapes:1: imports plots"),
        (SHAPES, "import course_utils.plots as p", direction_problems, "shapes:1: imports plots"),
        (SHAPES, "from .plots import show", direction_problems, "shapes:1: imports plots"),
        (SHAPES, "def f():\n    from . import plots", direction_problems, "shapes:2: imports plots"),
        (SHAPES, "import_module('course_utils.plots')", direction_problems, "shapes:1: imports plots"),
        ("course_utils/explorers/base.py", "from ..exercises import engine", direction_problems,
         "explorers.base:1: imports exercises.engine"),
        ("course_utils/exercises/engine.py", "from . import lecture_01", direction_problems,
         "exercises.engine:1: imports exercises.lecture_01"),
        ("course_utils/exercises/lecture_02.py", "from .lecture_01 import x", direction_problems,
         "exercises.lecture_02:1: imports exercises.lecture_01"),
        ("course_utils/__init__.py", "from . import shapes", direction_problems, "course_utils:1: imports shapes"),
        (SHAPES, "from course_utils import VERSION", direction_problems, "shapes:1: imports course_utils"),
        ("course_utils/extra.py", "", direction_problems, "extra: has no place in ORDER"),
        (SHAPES, "import pickle", banned_uses, "course_utils/shapes.py:1: uses pickle"),
        (SHAPES, "from urllib import request", banned_uses, "shapes.py:1: uses urllib.request"),
        ("tools/notebook", "#!/usr/bin/env python3\nimport requests", banned_uses, "tools/notebook:2: uses requests"),
        ("tests/test_x.py", "import torch\nx = torch.load('x')", banned_uses, "tests/test_x.py:2: uses torch.load"),
        ("tests/test_x.py", "x = np.load('x', allow_pickle=True)", banned_uses, "tests/test_x.py:1: allow_pickle"),
        ("conftest.py", "from shelve import open", banned_uses, "conftest.py:1: uses shelve.open"),
        ("notebooks/01.ipynb", "%time 1\nimport http.client", banned_uses, "notebooks/01.ipynb:1: uses http.client"),
        (SHAPES, "x = 1\n" * 401, long_modules, "shapes.py: 401 lines"),
        ("course_utils/explorers/x.js", "let x;\n" * 401, long_modules, "x.js: 401 lines"),
        ("tools/notebook", "#!/usr/bin/env python3\n" * 401, long_modules, "tools/notebook: 401 lines"),
    ],
)  # fmt: skip
def test_planted_mistake_is_found(tmp_path, path, code, check, message):
    for folder in ("explorers", "exercises"):
        (tmp_path / PACKAGE / folder).mkdir(parents=True)
    for name in ("__init__", "shapes", "plots", "explorers/base", "exercises/engine", "exercises/lecture_01"):
        (tmp_path / PACKAGE / f"{name}.py").touch()
    assert check(tmp_path) == []
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".ipynb":
        code = json.dumps({"cells": [{"cell_type": "code", "source": code}]})
    file.write_text(code, "utf-8")
    problems = check(tmp_path)
    assert len(problems) == 1 and message in problems[0], problems


def test_imports_downward_are_allowed(tmp_path):
    shutil.copytree(ROOT / PACKAGE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / PACKAGE / "exercises" / "lecture_99.py"
    lines = ["from course_utils import shapes", "from ..recurrent import rnn_forward", "from .engine import Exercise"]
    file.write_text("\n".join(lines), "utf-8")
    assert [problem for problem in direction_problems(tmp_path) if "lecture_99" in problem] == []
