"""Exercises that diagnose: wrong answers are data.

An `Exercise` knows the right function, cases to try it on, and wrong functions that students write, each with a hint.
An answer that fails is compared with them: it gets the hint of the one that computes the same.
"""

import ast
import inspect
import itertools
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import torch

from course_utils.exercises import comparing
from course_utils.exercises.comparing import Case, agree
from course_utils.exercises.display import Hint, Result, Solution, without_checks
from course_utils.exercises.running import Outcome, TooSlow, error_line, error_tip, identical, run

TIME_LIMIT = 10.0  # seconds for all cases of one check together


@dataclass(frozen=True)
class Mistake:
    """A wrong function and the hint for a student whose answer computes the same."""

    function: Callable
    hint: str
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.function.__name__)


Changes = Mapping[str, tuple[Mapping[str, object], str]]


def variations(core: Callable, changes: Changes) -> list[Mistake]:
    """Mistakes that are one function with other keyword arguments: {name: (keywords, hint)}."""
    return [Mistake(partial(core, **keywords), hint, name) for name, (keywords, hint) in changes.items()]


def pairs(core: Callable, changes: Changes) -> list[Mistake]:
    """Every two variations at once that change different keywords; the hint is both hints."""
    both = "Two things at once.\n\n1. {}\n\n2. {}"
    return [Mistake(partial(core, **first, **second), both.format(hint_1, hint_2), f"{a} + {b}")
            for (a, (first, hint_1)), (b, (second, hint_2)) in itertools.combinations(changes.items(), 2)
            if not first.keys() & second.keys()]


@dataclass(frozen=True)
class Probe:
    """One case to try an answer on: a name that reads as a description, and a factory of fresh arguments."""

    name: str
    arguments: Callable[[], tuple]


@dataclass(eq=False)
class Exercise:
    """One exercise: `check(answer)`, `hint()`, `solution()`, `use(answer)`.

    number: "lecture.exercise"; reference: the right function, whose source is the solution and whose signature and
    docstring are those of the stub; returns: names of what it returns (see `comparing`); probes: cases that tell
    mistakes apart; mistakes: tried in order; combinations: tried if no single mistake fits; hints: from gentle to
    direct; difficulty: 1 to 3; advice: how to look for an error that isn't in any list. rtol and atol hold for
    float64; float32 answers are accepted at 1e-4 (see `comparing.agree`). An exercise keeps nothing between calls but
    what its reference and its mistakes compute.
    """

    number: str
    title: str
    reference: Callable
    returns: comparing.Returns
    probes: list[Probe]
    mistakes: list[Mistake]
    hints: tuple[str, str, str]
    minutes: int
    difficulty: int = 1
    combinations: list[Mistake] = field(default_factory=list)
    advice: str = ""
    rtol: float = 1e-6
    atol: float = 1e-8
    _first: dict[Callable, Outcome] = field(default_factory=dict, init=False, repr=False)  # of mistakes, on probe 0

    @property
    def name(self) -> str:
        """The name of the function to write."""
        return self.reference.__name__

    @cached_property
    def parameters(self) -> list[str]:
        """The names of the function's parameters."""
        return list(inspect.signature(self.reference).parameters)

    def __repr__(self) -> str:
        return (f"Exercise {self.number} {self.name}: {self.title} (about {self.minutes} minutes, difficulty "
                f"{self.difficulty} of 3). Use .check({self.name}), .hint(), .solution(), .use({self.name}).")

    # ---- what a student calls ----

    def check(self, answer: Callable, *, seconds: float = TIME_LIMIT) -> Result:
        """Try `answer` on every probe and say how it went: a Result, never an exception.

        It is stopped after `seconds`; what it prints is kept in the result. Only the notebook's stop button
        (KeyboardInterrupt) gets through.
        """
        try:
            status, message, printed = self._diagnose(answer, seconds)
        except Exception as error:  # an answer may return objects that can't be copied or compared
            status, printed = "failed", ""
            message = f"What your function returned can't be compared ({type(error).__name__}: {error})."
        return Result(f"{self.number} {self.name}", status, message, printed)

    def hint(self, level: int = 1) -> Hint:
        """Hint 1 (gentle), 2, or 3 (direct). Raises ValueError for another level."""
        if level not in range(1, len(self.hints) + 1):
            raise ValueError(f"level: expected 1 to {len(self.hints)}, got {level!r}")
        call = f"lecture_{int(self.number.split('.')[0]):02d}.{self.name}"
        following = f"hint({level + 1})" if level < len(self.hints) else "solution()"
        return Hint(f"Hint {level} of {len(self.hints)}", self.hints[level - 1], f"Next: `{call}.{following}`")

    def solution(self) -> Solution:
        """The source code of the reference, without its checks of the arguments."""
        return Solution(f"Solution of {self.number} {self.name}", without_checks(self._source()))

    def use(self, answer: Callable) -> Callable:
        """Return `answer` if it passes the check, else the reference; print in one line which it is."""
        status = self.check(answer).status
        why = {"passed": "your function is used below.",
               "not attempted": "not written yet, so the course's own function is used below.",
               "failed": "your function does not pass the check, so the course's own is used below."}
        print(f"{self.name}: {why[status]}")
        return answer if status == "passed" else self.reference

    def stub(self) -> str:
        """The source of the cell that a student fills in: signature, docstring, `raise NotImplementedError`."""
        source = self._source()
        function = ast.parse(source).body[0]
        last = function.body[0].end_lineno  # the docstring is the first statement
        return "\n".join(source.splitlines()[function.lineno - 1:last]) + "\n    raise NotImplementedError\n"

    # ---- how an answer is judged ----

    def outcomes(self, function: Callable, seconds: float = TIME_LIMIT) -> list[Outcome]:
        """What `function` does on each probe; the list ends early when the time is over."""
        end, found = time.perf_counter() + seconds, []
        for probe in self.probes:
            found.append(run(function, self._arguments(probe), max(0.01, end - time.perf_counter())))
            if isinstance(found[-1].error, TooSlow):
                break
        return found

    @cached_property
    def _right(self) -> list[Outcome]:
        return self.outcomes(self.reference)

    def _diagnose(self, answer: Callable, seconds: float) -> tuple[str, str, str]:
        if problem := self._not_callable(answer):
            return "failed", problem, ""
        outcomes = self.outcomes(answer, seconds)
        printed = _printed(self.probes, outcomes)
        if self._not_attempted(answer, outcomes[0]):
            return "not attempted", f"Write the body of `{self.name}`, then run the cells again.", printed
        if isinstance(outcomes[-1].error, TooSlow):
            return "failed", self._too_slow(outcomes, seconds), printed
        values_right = all(self._same_value(a, b) for a, b in zip(outcomes, self._right, strict=True))
        side_effects = self._side_effects(outcomes, values_right)
        structure = None if not values_right else next(filter(None, map(self._structure, self._right, outcomes)), None)
        if values_right and not (side_effects or structure):
            return "passed", f"Right, in all {len(self.probes)} cases.", printed
        if mistake := self._match(outcomes, values_right):
            return "failed", mistake.hint, printed
        if values_right:
            return "failed", " ".join(filter(None, [structure, *side_effects])), printed
        return "failed", " ".join([self._first_difference(answer, outcomes, seconds), *side_effects]), printed

    def _not_callable(self, answer: object) -> str:
        if isinstance(answer, Exercise):
            return f"Pass the function that you wrote: `check({self.name})`."
        if not callable(answer):
            return (f"check needs the function itself, without calling it: `check({self.name})`; "
                    f"it got {comparing.kind_of(answer)}.")
        try:
            signature = inspect.signature(answer)
        except (TypeError, ValueError):
            return ""  # some built-in functions have none
        try:
            signature.bind(*self.parameters)
        except TypeError:
            return (f"Your function takes ({', '.join(signature.parameters)}), but the exercise calls it with "
                    f"({', '.join(self.parameters)}): keep the signature of the stub.")
        names = list(signature.parameters)[:len(self.parameters)]
        if sorted(names) == sorted(self.parameters) and names != self.parameters:
            return f"The arguments come in the order ({', '.join(self.parameters)}); yours are ({', '.join(names)})."
        return ""

    def _not_attempted(self, answer: Callable, first: Outcome) -> bool:
        # It must come from the answer itself: libraries raise NotImplementedError too.
        return isinstance(first.error, NotImplementedError) and error_line(first.error, answer)[1]

    def _same_value(self, a: Outcome, b: Outcome) -> bool:
        if a.error or b.error:
            return type(a.error) is type(b.error) and str(a.error)[:60] == str(b.error)[:60]
        return agree(a.value, b.value, self.rtol, self.atol)

    def _match(self, outcomes: list[Outcome], values_right: bool) -> Mistake | None:
        """The first mistake that does the same on every probe; one with the same side effects if there is one."""
        like = [m for m in self.mistakes if self.does_the_same(m.function, outcomes, side_effects=values_right)]
        exactly = (m for m in like if self.does_the_same(m.function, outcomes, side_effects=True))
        fallback = like[0] if like else next(
            (m for m in self.combinations if not values_right and self.does_the_same(m.function, outcomes)), None)
        return next(exactly, fallback)

    def does_the_same(self, function: Callable, outcomes: list[Outcome], *, side_effects: bool = False) -> bool:
        """Whether a mistake's function gives these outcomes on the probes: equal values or errors (and side effects).

        It stops at the first difference. Most differ on the first probe, so what mistakes do there is kept.
        """
        for i, (probe, outcome) in enumerate(zip(self.probes, outcomes, strict=True)):
            other = self._first.get(function) if i == 0 else None
            if other is None:
                other = run(function, self._arguments(probe), None)
            if i == 0:
                self._first[function] = other
            if not self._same_value(outcome, other) or side_effects and outcome.side_effects != other.side_effects:
                return False
        return True

    def _arguments(self, probe: Probe) -> dict[str, object]:
        return dict(zip(self.parameters, probe.arguments(), strict=True))

    def _structure(self, right: Outcome, outcome: Outcome) -> str | None:
        return comparing.structure_problem(right.value, outcome.value, self.returns)

    # ---- what to say about an answer that equals no known mistake ----

    def _too_slow(self, outcomes: list[Outcome], seconds: float) -> str:
        case = self.probes[len(outcomes) - 1].name
        return (f"Stopped after {seconds:g} seconds (case “{case}”); a right answer takes milliseconds. "
                "Does a loop never end, or does something wait?")

    def _first_difference(self, answer: Callable, outcomes: list[Outcome], seconds: float) -> str:
        for probe, right, outcome in zip(self.probes, self._right, outcomes, strict=True):
            if outcome.error is not None:
                return self._error_text(answer, probe, outcome.error)
            if problem := self._structure(right, outcome):
                if outcome.value is None and any(other.value is not None for other in outcomes):
                    problem += " Elsewhere it returned something: is a `return` missing after the loop, too?"
                elif outcome.value is None:
                    return problem
                return f"{problem} (Case “{probe.name}”.)"
        cases = [Case(p.name, r.value, o.value) for p, r, o in zip(self.probes, self._right, outcomes, strict=True)]
        text = comparing.describe(cases, self.returns, self.rtol, self.atol)
        ignored = self._ignored_arguments(answer, outcomes, min(seconds, 2.0))
        if ignored:
            text = (f"Your result does not depend on {' and '.join(f'`{n}`' for n in ignored)}, "
                    f"and the right one does. {text}")
        return f"{text} {self.advice}".rstrip()

    def _error_text(self, answer: Callable, probe: Probe, error: BaseException) -> str:
        line = error_line(error, answer)[0]
        kind = type(error).__name__
        if isinstance(error, SystemExit):
            return "Your function ended Python (`exit` or `quit`): leave it with `return`, or raise an error."
        first = str(error).splitlines()[0][:200] if str(error) else ""
        text = f"Your function stopped with {kind}{': ' + first if first else ''}"
        text += f", in the line `{line[:100]}`." if line else "."
        if tip := error_tip(error):
            text += f" {tip}"
        called = ", ".join(f"{name} {_brief(value)}" for name, value in self._arguments(probe).items())
        return f"{text} It was called with {called} (case “{probe.name}”)."

    def _ignored_arguments(self, answer: Callable, outcomes: list[Outcome], seconds: float) -> list[str]:
        """The arguments that change the right result on some probe and the answer's on none."""
        end, ignored = time.perf_counter() + seconds, []
        for name in self.parameters:
            matters = False
            for probe, right, outcome in zip(self.probes, self._right, outcomes, strict=True):
                shifted = self._arguments(probe)
                if not _shift(shifted, name):
                    break
                if not identical(run(answer, shifted, max(0.01, end - time.perf_counter())).value, outcome.value):
                    break
                shifted = self._arguments(probe)
                _shift(shifted, name)
                matters |= not self._same_value(run(self.reference, shifted, None), right)
            else:
                ignored += [name] * matters
        return ignored

    def _side_effects(self, outcomes: list[Outcome], values_right: bool) -> list[str]:
        """Sentences on changed arguments, and on a result that is on a graph or off it where it shouldn't be."""
        def listed(which: Callable[[Outcome], tuple[str, ...]]) -> list[str]:
            names = {name for outcome in outcomes for name in which(outcome)}
            return [name for name in self.parameters if name in names]

        start = "The values are right, but" if values_right else "Besides,"
        sentences = []
        if names := listed(lambda outcome: outcome.changed):
            arguments = self._arguments(self.probes[0])
            copying = _COPY_LIST if all(_is_plain(arguments[name]) for name in names) else _COPY_ARRAY
            sentences.append(f"{start} your function changes its argument {_quoted(names)}, which the caller may still "
                             f"need: {copying}")
        if names := listed(lambda outcome: outcome.recording):
            sentences.append(f"{start} your function changes `requires_grad` of its argument {_quoted(names)} "
                             "(`requires_grad_()` works in place), so whatever the caller does with it afterwards "
                             "builds a graph: make a copy first, `.clone().requires_grad_()`.")
        if self._right[0].on_graph:
            return sentences + self._lost_gradients(outcomes, values_right and not sentences, start)
        if any(outcome.on_graph for outcome in outcomes):
            sentences.append(f"{start} what you return still hangs on the graph of the computation, which stays in "
                             "memory: use `.detach()`.")
        return sentences

    def _lost_gradients(self, outcomes: list[Outcome], compare: bool, start: str) -> list[str]:
        """Sentences on gradients that don't arrive or, if they are to be compared, are not the right ones."""
        for outcome, right in zip(outcomes, self._right, strict=True):
            for name, gradient in right.gradients.items():
                found = outcome.gradients[name]
                if found is None and outcome.error is None and outcome.value is not None:
                    return [f"{start} `backward` can't start from what you return, or doesn't reach `{name}`: stay in "
                            "torch, without `.item()`, `.detach()` and NumPy."]
                if compare and not found.isfinite().all() and gradient.isfinite().all():
                    return [f"{start} the gradient with respect to `{name}` has entries that are NaN or infinite. "
                            "`nan_to_num` and `where` replace a NaN in a result, but `backward` still goes through the "
                            "step that made it: keep it from arising there."]
                if compare and not agree(gradient, found, 1e-4, 1e-5):
                    return [f"{start} the gradient with respect to `{name}` is not: is a part of the computation "
                            "detached, or made of numbers taken out by `.item()`?"]
        return []

    def _source(self) -> str:
        return textwrap.dedent(inspect.getsource(self.reference))


def _shift(arguments: dict[str, object], name: str) -> bool:
    """Replace one float argument by other numbers; False if it isn't one."""
    value = arguments[name]
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        with torch.no_grad():
            value.mul_(0.7).add_(0.1)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        arguments[name] = 0.7 * value + 0.1
    elif isinstance(value, float):
        arguments[name] = 0.7 * value
    else:
        return False
    return True


_COPY_ARRAY = ("work on a copy or build a new array (`a = a + b` makes a new one, `a += b` and `a[i] = b` change it in "
               "place).")
_COPY_LIST = ("work on a copy. `sorted(a)` and `list(a)` make a new list, `a.sort()` and `a.remove(b)` change the old "
              "one (as they do with a list inside a copied list).")


def _is_plain(value: object) -> bool:
    """Whether it is a list of words or numbers, or of such lists."""
    return isinstance(value, list) and all(isinstance(v, (str, int, float)) or _is_plain(v) for v in value)


def _quoted(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _printed(probes: list[Probe], outcomes: list[Outcome], limit: int = 2000) -> str:
    parts = [f"[{p.name}]\n{o.printed.rstrip()}" for p, o in zip(probes, outcomes, strict=False) if o.printed.strip()]
    text = "\n".join(parts)
    return text if len(text) <= limit else text[:limit] + " …"


def _brief(value: object) -> str:
    """A value in an error message: the shape of an array, the value of a number."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        return str(tuple(value.shape))
    if isinstance(value, list):
        return "[" + ", ".join(map(_brief, value)) + "]"
    return f"{value:g}" if isinstance(value, float) else getattr(value, "__name__", str(value))
