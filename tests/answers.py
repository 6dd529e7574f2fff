"""Answers to exercises as the tests collect them: right ones that look unusual, and wrong ones that are in no list."""

from collections.abc import Callable
from dataclasses import dataclass, field

from course_utils.exercises.engine import Exercise


@dataclass
class Answers:
    """Two lists that the decorators `right` and `wrong` fill."""

    right_ones: list[tuple[Exercise, Callable]] = field(default_factory=list)
    wrong_ones: list[tuple[Exercise, Callable, str]] = field(default_factory=list)

    def right(self, exercise: Exercise) -> Callable:
        def keep(answer: Callable) -> Callable:
            self.right_ones.append((exercise, answer))
            return answer
        return keep

    def wrong(self, exercise: Exercise, says: str) -> Callable:
        """A wrong answer that is in no list; the message must contain `says`."""
        def keep(answer: Callable) -> Callable:
            self.wrong_ones.append((exercise, answer, says))
            return answer
        return keep


def names(cases: list) -> list[str]:
    """Ids for parametrized tests."""
    return [f"{case[0].name}: {case[1].__name__}" for case in cases]
