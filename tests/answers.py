"""What the tests of exercises share: collected answers, right and wrong, and what must be true of each kind."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from course_utils.exercises.engine import Exercise, Result


@dataclass
class Answers:
    """Four lists that `right`, `wrong`, `written` and `degenerate` fill, and a parametrized test over each."""

    right_ones: list[tuple[Exercise, Callable]] = field(default_factory=list)
    wrong_ones: list[tuple[Exercise, Callable, str]] = field(default_factory=list)
    written_ones: list[tuple[Exercise, str, Callable, str]] = field(default_factory=list)
    degenerate_ones: list[tuple[Exercise, str, Callable]] = field(default_factory=list)

    def right(self, exercise: Exercise) -> Callable:
        """A right answer that looks unusual."""
        def keep(answer: Callable) -> Callable:
            self.right_ones.append((exercise, answer))
            return answer
        return keep

    def wrong(self, exercise: Exercise, *phrases: str) -> Callable:
        """A wrong answer whose message must contain every phrase."""
        def keep(answer: Callable) -> Callable:
            self.wrong_ones.extend((exercise, answer, phrase) for phrase in phrases)
            return answer
        return keep

    def written(self, exercise: Exercise, answers: dict[str, tuple[str, Callable]]) -> None:
        """Wrong answers as students write them, {name: (phrase, answer)}: the message is a listed hint with phrase."""
        self.written_ones.extend((exercise, name, answer, phrase) for name, (phrase, answer) in answers.items())

    def degenerate(self, exercise: Exercise, **answers: Callable) -> None:
        """Answers that are right for some shapes or numbers, and must fail."""
        self.degenerate_ones.extend((exercise, name, answer) for name, answer in answers.items())

    @property
    def each_right(self) -> pytest.MarkDecorator:
        ids = [f"{e.name}: {answer.__name__}" for e, answer in self.right_ones]
        return pytest.mark.parametrize("exercise, answer", self.right_ones, ids=ids)

    @property
    def each_wrong(self) -> pytest.MarkDecorator:
        ids = [f"{e.name}: {phrase}" for e, _, phrase in self.wrong_ones]
        return pytest.mark.parametrize("exercise, answer, phrase", self.wrong_ones, ids=ids)

    @property
    def each_written(self) -> pytest.MarkDecorator:
        cases = [pytest.param(e, *case, id=f"{e.name}: {name}") for e, name, *case in self.written_ones]
        return pytest.mark.parametrize("exercise, answer, phrase", cases)

    @property
    def each_degenerate(self) -> pytest.MarkDecorator:
        cases = [pytest.param(e, answer, id=f"{e.name}: {name}") for e, name, answer in self.degenerate_ones]
        return pytest.mark.parametrize("exercise, answer", cases)

    def tests(self, exercises: list[Exercise], combinations: bool = False) -> tuple[Callable, ...]:
        """Four tests for a module to give names to, after all answers are collected.

        Right but unusual answers pass; wrong ones in no list get a sentence of use; what students write gets the
        listed hint about it (or, with `combinations`, that of a listed combination); each exercise has enough of each.
        """
        @self.each_right
        def right(exercise: Exercise, answer: Callable) -> None:
            passes(exercise, answer)

        @self.each_wrong
        def wrong(exercise: Exercise, answer: Callable, phrase: str) -> None:
            fails_unlisted(exercise, answer, phrase, **({"seconds": 0.05} if "seconds" in phrase else {}))

        @self.each_written
        def written(exercise: Exercise, answer: Callable, phrase: str) -> None:
            fails_listed(exercise, answer, phrase, combinations)

        def enough() -> None:
            self.enough(exercises, right=3, wrong=6, written=9)

        return right, wrong, written, enough

    def enough(self, exercises: list[Exercise], **least: int) -> None:
        """Every exercise has at least so many answers of each kind: `right=3, wrong=6`."""
        for exercise in exercises:
            for kind, number in least.items():
                found = sum(e is exercise for e, *_ in getattr(self, f"{kind}_ones"))
                assert found >= number, f"{exercise.name}: {found} {kind} answers"


def passes(exercise: Exercise, answer: Callable) -> None:
    result = exercise.check(answer)
    assert result.status == "passed", result.message


def fails(exercise: Exercise, answer: Callable, phrase: str = "", **options: float) -> Result:
    """The answer fails with a message that contains the phrase; `options` are those of `check`."""
    result = exercise.check(answer, **options)
    assert result.status == "failed", result.message
    assert phrase in result.message, result.message
    return result


def fails_unlisted(exercise: Exercise, answer: Callable, phrase: str, **options: float) -> None:
    """The answer fails with a sentence of use that isn't a listed hint."""
    message = fails(exercise, answer, phrase, **options).message
    assert message not in {m.hint for m in exercise.mistakes}, message


def fails_listed(exercise: Exercise, answer: Callable, phrase: str, combinations: bool = False) -> None:
    """The answer fails with the hint of a listed mistake or, if asked for, of a listed combination."""
    listed = exercise.mistakes + exercise.combinations if combinations else exercise.mistakes
    message = fails(exercise, answer, phrase).message
    assert message in {m.hint for m in listed}, message


def fails_by_values(exercise: Exercise, answer: Callable) -> None:
    fails(exercise, answer)
    assert any(outcome.error is None for outcome in exercise.outcomes(answer)), "it should fail by its values"


def exercises_of(lecture: ModuleType) -> list[Exercise]:
    return [value for value in vars(lecture).values() if isinstance(value, Exercise)]


def each_exercise(exercises: list[Exercise]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("exercise", exercises, ids=lambda e: e.name)


def cases(exercise: Exercise) -> list:
    """The arguments of every probe, for parametrized tests."""
    return [pytest.param(probe.arguments(), id=probe.name) for probe in exercise.probes]


def hints_are_short(exercise: Exercise) -> None:
    """A hint on a mistake has at most two sentences."""
    for mistake in exercise.mistakes:
        text = re.sub(r"`[^`]*`", "x", mistake.hint)
        assert len(re.findall(r"[.!?](?=\s|$)", text)) in (1, 2), mistake.name


def combinations_are_wrong(exercise: Exercise) -> None:
    """No listed combination is right by accident."""
    for mistake in exercise.combinations:
        assert not exercise.does_the_same(mistake.function, exercise._right), mistake.name
