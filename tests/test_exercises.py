"""What holds for every exercise of every lecture: a new lecture_NN module gets these tests without a line here."""

import ast
import importlib
import inspect
import json
import math
import pkgutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from course_utils import exercises
from course_utils.exercises.display import without_checks
from course_utils.exercises.engine import Exercise, Mistake
from course_utils.gated import sigmoid
from course_utils.recurrent import Array

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def all_exercises() -> list[Exercise]:
    found = []
    for module in pkgutil.iter_modules(exercises.__path__):
        if module.name.startswith("lecture_"):
            contents = vars(importlib.import_module(f"{exercises.__name__}.{module.name}"))
            for name, value in contents.items():
                if isinstance(value, Exercise):
                    assert name == value.name, f"{module.name}.{name} must be named like its function {value.name}"
                    found.append(value)
    assert found
    return found


EXERCISES = all_exercises()
MISTAKES = [(e, m) for e in EXERCISES for m in e.mistakes]
COMBINATIONS = [(e, m) for e in EXERCISES for m in e.combinations]
every_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
every_mistake = pytest.mark.parametrize("exercise, mistake", MISTAKES, ids=[f"{e.name}: {m.name}" for e, m in MISTAKES])


def define(source: str, name: str) -> object:
    """Run a stub; its annotations are not evaluated, so that it needs no imports."""
    space: dict[str, object] = {}
    exec(compile("from __future__ import annotations\n" + source, f"<{name}>", "exec"), space)
    return space[name]


def signature_text(source: str) -> str:
    function = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    returns = "" if function.returns is None else ast.unparse(function.returns)
    return f"{function.name}({ast.unparse(function.args)}) -> {returns}"


def notebook_stubs(exercise: Exercise) -> list[str]:
    """The definitions of the exercise's function in cells tagged `exercise` (what else the cell does is left out)."""
    lecture = int(exercise.number.split(".")[0])
    stubs = []
    for path in NOTEBOOKS.glob(f"{lecture:02d}_*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if "exercise" in cell["metadata"].get("tags", []) and f"def {exercise.name}(" in source:
                stubs += [ast.get_source_segment(source, node) for node in ast.parse(source).body
                          if isinstance(node, ast.FunctionDef) and node.name == exercise.name]
    return stubs


def off_by(exercise: Exercise, amount: float, only: int | None = None):
    """The reference with `amount` added to every number it returns, or to the value number `only` alone."""
    def add(value, counter):
        if isinstance(value, (list, tuple)):
            return type(value)(add(v, counter) for v in value)
        counter.append(0)
        return value + amount if only in (None, len(counter) - 1) else value

    return lambda *args: add(exercise.reference(*args), [])


@every_exercise
def test_the_reference_passes(exercise):
    result = exercise.check(exercise.reference)
    assert result.status == "passed", result.message
    assert result.passed and not result.printed


@every_exercise
def test_the_generated_stub_is_not_attempted(exercise):
    stub = exercise.stub()
    answer = define(stub, exercise.name)
    assert exercise.check(answer).status == "not attempted"
    assert signature_text(stub) == signature_text(inspect.getsource(exercise.reference))
    assert inspect.getdoc(answer) == inspect.getdoc(exercise.reference)
    assert list(inspect.signature(answer).parameters) == exercise.parameters


@every_exercise
def test_the_notebook_stub_is_not_attempted_and_has_signature_and_docstring_of_the_reference(exercise):
    lecture = int(exercise.number.split(".")[0])
    if not list(NOTEBOOKS.glob(f"{lecture:02d}_*.ipynb")):
        pytest.skip("the notebook isn't there yet")
    stubs = notebook_stubs(exercise)
    assert len(stubs) == 1, f"expected one cell tagged `exercise` that defines {exercise.name}, found {len(stubs)}"
    answer = define(stubs[0], exercise.name)
    assert exercise.check(answer).status == "not attempted"
    assert signature_text(stubs[0]) == signature_text(inspect.getsource(exercise.reference))
    assert inspect.getdoc(answer) == inspect.getdoc(exercise.reference)


@every_mistake
def test_every_mistake_is_rejected_with_its_own_hint(exercise, mistake):
    result = exercise.check(mistake.function)
    assert result.status == "failed"
    assert result.message == mistake.hint


@every_exercise
def test_the_probes_tell_every_pair_of_mistakes_apart(exercise):
    known: list[tuple[Mistake, list]] = []
    for mistake in exercise.mistakes:
        outcomes = exercise.outcomes(mistake.function)
        for other, _ in known:
            if other.hint != mistake.hint:
                same = exercise.does_the_same(other.function, outcomes, side_effects=True)
                assert not same, f"{mistake.name!r} and {other.name!r} give the same on all probes"
        known.append((mistake, outcomes))


@every_exercise
def test_two_mistakes_at_once_get_a_known_hint(exercise):
    known = {m.hint for m in exercise.mistakes + exercise.combinations}
    for mistake in exercise.combinations[::7]:  # one in seven: each costs a full search
        result = exercise.check(mistake.function)
        assert result.status == "failed" and result.message in known, mistake.name


@every_exercise
def test_hints_name_a_concept_and_do_not_repeat(exercise):
    for mistake in exercise.mistakes:
        assert len(mistake.hint) > 40 and "wrong answer" not in mistake.hint.lower()
    assert len(exercise.mistakes) >= 8
    assert len(set(exercise.hints)) == 3


@every_exercise
@pytest.mark.parametrize("amount", [1e-3, -1e-3])
def test_the_reference_plus_a_thousandth_is_rejected(exercise, amount):
    assert exercise.check(off_by(exercise, amount)).status == "failed"
    values = len(exercise.returns) if isinstance(exercise.returns, tuple) else 1
    for one in range(values):
        result = exercise.check(off_by(exercise, amount, only=one))
        assert result.status == "failed", f"value {one}"
        assert "0.001" in result.message or "close" in result.message


@every_exercise
def test_a_right_answer_leaves_its_arguments_alone(exercise):
    outcomes = exercise.outcomes(exercise.reference)
    assert len(outcomes) == len(exercise.probes)
    assert all(o.changed == () and o.error is None for o in outcomes)
    differentiates = any(o.on_graph for o in outcomes)  # then all that requires a gradient gets one
    assert not differentiates or all(None not in o.gradients.values() for o in outcomes)


@every_exercise
def test_changing_an_argument_is_told(exercise):
    if not isinstance(exercise.probes[0].arguments()[0], (list, np.ndarray, torch.Tensor)):
        pytest.skip("numbers and functions can't be changed in place")

    def answer(*args):
        result = exercise.reference(*args)
        first = args[0][0] if isinstance(args[0], list) and not isinstance(args[0][0], str) else args[0]
        with torch.no_grad():
            first += ["word"] if isinstance(first, list) else 1
        return result

    result = exercise.check(answer)
    assert result.status == "failed"
    assert "values are right" in result.message and "chang" in result.message


@every_exercise
def test_probes_are_seeded_and_fresh(exercise):
    for probe in exercise.probes:
        one, two = probe.arguments(), probe.arguments()
        for a, b in zip(one, two, strict=True):
            for u, v in zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]:
                if isinstance(u, (np.ndarray, torch.Tensor)):
                    assert u is not v
                    assert (np.asarray(u.detach() if isinstance(u, torch.Tensor) else u)
                            == np.asarray(v.detach() if isinstance(v, torch.Tensor) else v)).all()
                    assert str(u.dtype).endswith(("float64", "int64", "bool"))  # token ids, masks
    assert len({p.name for p in exercise.probes}) == len(exercise.probes)


@every_exercise
def test_answers_of_the_wrong_kind_get_a_sentence_that_helps(exercise, capsys):
    reference, names = exercise.reference, exercise.parameters
    answers = {
        "return": lambda *args: None,
        "KeyError": lambda *args: {}["nothing"],
        "str": lambda *args: "text",
        "dict": lambda *args: {"a": reference(*args)},
        names[0]: lambda: 0.0,
    }
    for word, answer in answers.items():
        result = exercise.check(answer)
        assert result.status == "failed" and (word in result.message or repr("text") in result.message), result.message
    printing = exercise.check(lambda *args: print("the value is", 3))
    assert printing.status == "failed"
    assert "Printing" in printing.message and "the value is 3" in printing.printed
    talkative = exercise.check(lambda *args: (print("step 1"), reference(*args))[1])
    assert talkative.status == "passed" and "step 1" in talkative.printed
    slow = exercise.check(lambda *args: time.sleep(30), seconds=0.05)
    assert slow.status == "failed" and "0.05 seconds" in slow.message
    for value in (None, 3.0, "rnn", np.zeros(3), exercise):
        assert exercise.check(value).status == "failed"
    assert capsys.readouterr().out == ""


@every_exercise
def test_use_returns_a_right_answer_and_otherwise_the_reference(exercise, capsys):
    def answer(*args):
        return exercise.reference(*args)

    assert exercise.use(answer) is answer
    assert exercise.use(lambda *args: None) is exercise.reference
    assert exercise.use(define(exercise.stub(), exercise.name)) is exercise.reference
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all(line.startswith(exercise.name) for line in lines)


@every_exercise
def test_hint_and_solution(exercise):
    texts = [repr(exercise.hint(level)) for level in (1, 2, 3)]
    assert repr(exercise.hint()) == texts[0]
    assert len(set(texts)) == 3
    assert "hint(2)" in texts[0] and "hint(3)" in texts[1] and "solution()" in texts[2]
    for level in (0, 4, "all"):
        with pytest.raises(ValueError, match="level"):
            exercise.hint(level)
    solution = exercise.solution()
    assert without_checks(inspect.getsource(exercise.reference)) in repr(solution)
    assert f"lecture_{int(exercise.number.split('.')[0]):02d}.{exercise.name}" in texts[0]


@every_exercise
def test_the_solution_can_be_copied_into_a_notebook_and_passes(exercise):
    space = {"np": np, "math": math, "torch": torch, "Callable": Callable, "Sequence": Sequence, "Array": Array,
             "sigmoid": sigmoid}
    exec(exercise.solution().code, space)
    result = exercise.check(space[exercise.name])
    assert result.status == "passed", result.message
    left_out = "checks of the arguments" in exercise.solution().code
    assert left_out == (exercise.solution().code != inspect.getsource(exercise.reference))


@every_exercise
def test_the_last_hint_leaves_something_to_write(exercise):
    """Of a solution of more than four statements it has at most 60 % of the calls and operations."""
    body = ast.parse(exercise.solution().code).body[0].body[1:]
    nodes = [node for part in body for node in ast.walk(part)]
    statements = [n for n in nodes if isinstance(n, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr))]
    if len(statements) > 4:
        code = "".join(exercise.hints[2].split("`")[1::2]).replace(" ", "")
        pieces = {ast.unparse(n).replace(" ", "") for s in statements for n in ast.walk(s.value)
                  if isinstance(n, (ast.Call, ast.BinOp))}
        assert sum(piece in code for piece in pieces) <= 0.6 * len(pieces)
