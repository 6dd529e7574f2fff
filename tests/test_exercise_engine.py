"""The exercise engine on a small exercise of its own: what a student may do, and what is said about it."""

import signal
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from course_utils.exercises import comparing
from course_utils.exercises.comparing import Case, agree, structure_problem
from course_utils.exercises.display import Hint, Result, Solution, highlighted, without_checks
from course_utils.exercises.engine import Exercise, Mistake, Probe, pairs, variations
from course_utils.exercises.running import TooSlow, call_in_thread


def scale(x: np.ndarray, k: float) -> np.ndarray:
    """Multiply every entry of x by k.

    x: (T, d); k: a number. Returns (T, d); x is not changed.
    """
    # a comment: <b>
    return k * x


def _core(x, k, *, power=1, shift=0.0):
    return k**power * x + shift


_CHANGES = {
    "squared": (dict(power=2), "You multiply by the square of k: once is enough."),
    "shifted": (dict(shift=5.0), "You add a constant that nobody asked for."),
}


def _in_place(x, k):
    x *= k
    return x


EXERCISE = Exercise(
    "9.1", "Scale", scale, "y",
    probes=[Probe("3 x 2", lambda: (np.arange(1.0, 7.0).reshape(3, 2), 3.0)),
            Probe("one row", lambda: (np.array([[2.0, -1.0]]), -0.5))],
    mistakes=[*variations(_core, _CHANGES), Mistake(_in_place, "Right, but x is overwritten: make a new array.")],
    combinations=pairs(_core, _CHANGES), hints=("one", "two", "three"), minutes=1, advice="Try k = 1.",
)


def said(answer, **options) -> str:
    result = EXERCISE.check(answer, **options)
    assert result.status == "failed"
    return result.message


# ---- statuses -------------------------------------------------------------------------------------------------------


def test_right_wrong_and_not_attempted():
    assert EXERCISE.check(lambda x, k: x * k).status == "passed"
    assert said(lambda x, k: x * k * k) == _CHANGES["squared"][1]

    def stub(x, k):
        """Docstring."""
        raise NotImplementedError

    assert EXERCISE.check(stub).status == "not attempted"

    def only_pass(x, k):
        pass

    assert "did you forget `return`" in said(only_pass)


def test_not_implemented_raised_by_a_library_is_an_error_and_not_a_stub():
    assert "NotImplementedError" in said(lambda x, k: torch.nn.Module()(x))


def test_two_mistakes_at_once_get_both_hints():
    message = said(lambda x, k: x * k * k + 5)
    assert all(hint in message for _, hint in _CHANGES.values())


def test_a_changed_argument_is_told_with_the_mistakes_own_hint_or_in_general():
    assert "overwritten" in said(_in_place)

    def other(x, k):
        y = x * k
        x[0, 0] = 7.0
        return y

    message = replace(EXERCISE, mistakes=[]).check(other).message
    assert "values are right" in message and "`x`" in message

    def wrong_too(x, k):
        x += 1
        return x * k

    assert "Besides" in said(wrong_too)


def test_a_switched_requires_grad_is_told():
    def double(w: torch.Tensor) -> torch.Tensor:
        """Twice w."""
        return 2 * w

    exercise = replace(EXERCISE, reference=double, returns="w", mistakes=[], combinations=[],
                       probes=[Probe("ones", lambda: (torch.ones(2, dtype=torch.float64),))])

    def answer(w):
        w.requires_grad_()
        return 2 * w.detach()

    message = exercise.check(answer).message
    assert "values are right" in message and "`requires_grad` of its argument `w`" in message
    assert exercise.check(lambda w: 2 * w.clone().requires_grad_().detach()).status == "passed"


def mean_square(x: torch.Tensor) -> torch.Tensor:
    """The mean of the squares of x, from which `backward` can start."""
    return (x**2).mean()


DIFFERENTIABLE = replace(EXERCISE, reference=mean_square, returns="loss", mistakes=[], combinations=[], probes=[
    Probe("two", lambda: (torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=True),))])


def in_place(x):
    x -= 1


def used_up(x):
    loss = mean_square(x)
    loss.backward()
    return loss


@pytest.mark.parametrize("answer, says", [
    (lambda x: mean_square(x).item(), "The values are right, but `backward` can't start"),
    (lambda x: mean_square(x).detach(), "or doesn't reach `x`: stay in torch, without `.item()`"),
    (lambda x: np.float64(mean_square(x).item()), "or doesn't reach `x`"),
    (lambda x: torch.tensor(mean_square(x).item(), requires_grad=True), "or doesn't reach `x`"),
    (used_up, "or doesn't reach `x`"),
    (lambda x: (x * x.detach()).mean(), "but the gradient with respect to `x` is not"),
    (lambda x: mean_square(x) + (0 * x).sqrt().sum(), "the gradient with respect to `x` has entries that are NaN"),
    (lambda x: mean_square(x).item() + 1, "Besides, `backward` can't start"),
    (lambda x: mean_square(x)[None], "Take the axis off: `.squeeze()` or `.mean()`."),
    (lambda x: x.numpy().mean(), "stay in torch"),
    (in_place, "build a new tensor, `a = a - b`"),
])
def test_a_result_that_should_be_on_a_graph_and_the_ways_to_lose_it(answer, says):
    result = DIFFERENTIABLE.check(answer)
    assert result.status == "failed" and says in result.message
    assert "use `.detach()`" not in result.message and ".item()`." not in result.message


def test_a_result_on_a_graph_passes_in_single_precision_too_and_is_not_told_if_wrong():
    assert DIFFERENTIABLE.check(lambda x: x @ x / len(x)).passed
    assert DIFFERENTIABLE.check(lambda x: mean_square(x.float())).passed
    message = DIFFERENTIABLE.check(lambda x: 1.5 * mean_square(x) + 1).message
    assert "backward" not in message and "gradient" not in message


def test_changed_lists_are_told_apart_from_switched_gradients():
    def words(a: list, b: list) -> int:
        """The number of words."""
        return len(a) + sum(map(len, b))

    exercise = replace(EXERCISE, reference=words, returns="n", mistakes=[], combinations=[],
                       probes=[Probe("three", lambda: (["y", "x"], [["z"], ["u", "v"]]))])
    for change in (lambda a, b: b.sort(key=len, reverse=True), lambda a, b: b[0].clear(), lambda a, b: a.sort(),
                   lambda a, b: a.clear(), lambda a, b: b.append([])):
        message = exercise.check(lambda a, b, change=change: (words(a, b), change(a, b))[0]).message
        assert "changes its argument" in message and "`sorted(a)` and `list(a)` make a new list" in message
        assert "requires_grad" not in message and "array" not in message
    message = replace(EXERCISE, mistakes=[]).check(lambda x, k: (x * k, x.fill(0))[0]).message
    assert "`a += b`" in message and "sorted" not in message


@pytest.mark.parametrize("crash, tip", [
    (lambda: torch.cat([torch.tensor([1]), torch.ones(2, 3)], 1), "too few axes: a column needs the shape (B, 1)"),
    (lambda: torch.cat([torch.ones(2, 3), torch.tensor([1])], 1), "a column needs the shape (B, 1)"),
    (lambda: torch.cat([torch.tensor([[1.0]]), torch.ones(2, 3)], 1), "as many rows as what it is joined to"),
    (lambda: F.cross_entropy(torch.ones(2, 3, 4), torch.ones(2, 3).long()), "the classes in axis 1: `logits.transpose"),
    (lambda: F.cross_entropy(torch.ones(6, 4), torch.ones(2).long()), "wants both flattened or none"),
    (lambda: [1, 2][2], "runs one past the end"),
])
def test_tips_on_errors_of_torch(crash, tip):
    assert tip in said(lambda x, k: crash())


def test_a_none_in_some_cases_only_asks_for_a_return_after_the_loop():
    message = said(lambda x, k: x * k if len(x) > 1 else None)
    assert "did you forget `return`" in message and "after the loop, too? (Case “one row”.)" in message
    assert "after the loop" not in said(lambda x, k: None)


def test_mistakes_are_not_run_again_on_the_first_probe():
    calls = []

    def counted(x, k):
        calls.append(1)
        return x - k

    exercise = replace(EXERCISE, mistakes=[Mistake(counted, "You subtract k.")], combinations=[])
    for _ in range(3):
        assert exercise.check(lambda x, k: x + 7 * k).status == "failed"
    assert len(calls) == 1
    assert exercise.check(lambda x, k: x - k).message == "You subtract k."  # its second probe decides


# ---- what a check survives ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, 3, "scale", np.zeros(2), EXERCISE, int, print, lambda: 1, lambda a: 1,
                                    lambda *, x, k: 1, lambda x, k, z: 1, type])
def test_check_takes_anything(answer):
    assert EXERCISE.check(answer).status == "failed"


def test_signature_problems_are_named():
    assert "(x)" in said(lambda x: x) and "(x, k)" in said(lambda x: x)
    assert "order" in said(lambda k, x: x * k)
    assert "`check(scale)`" in said(np.zeros(3))
    assert EXERCISE.check(lambda x, k, extra=1: x * k).status == "passed"


@pytest.mark.parametrize("error, word", [(SystemExit, "return"), (GeneratorExit, "GeneratorExit"),
                                         (RecursionError, "which case ends it"), (MemoryError, "MemoryError"),
                                         (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
                                         (UnicodeError(), "UnicodeError")])
def test_whatever_is_raised_becomes_a_sentence(error, word):
    def answer(x, k):
        raise error

    assert word in said(answer)


def test_the_line_that_raised_and_the_shapes_are_shown():
    def answer(x, k):
        y = x * k
        return y @ y  # shapes don't fit

    message = said(answer)
    assert "`return y @ y  # shapes don't fit`" in message
    assert "x (3, 2)" in message and "Compare the shapes" in message


def test_the_stop_button_gets_through():
    def answer(x, k):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EXERCISE.check(answer)


def test_answers_that_return_strange_objects():
    class Awkward:
        def __eq__(self, other):
            raise RuntimeError("no")

        def __array__(self, *args):
            raise RuntimeError("no")

        def __len__(self):
            raise RuntimeError("no")

    for value in (Awkward(), [Awkward()], object(), lambda: 0, np.array([object()]), np.array(["a"]), {1, 2}, b"x",
                  (1, (2, (3,))), [], (), np.zeros((0, 2)), np.array(1j), True, iter([]), range(3)):
        assert EXERCISE.check(lambda x, k, value=value: value).status == "failed"


def test_exit_in_a_notebook_does_not_end_the_kernel(monkeypatch):
    class Shell:
        ended = False

        def ask_exit(self):
            self.ended = True

    shell = Shell()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert "`return`" in said(lambda x, k: shell.ask_exit())
    assert not shell.ended
    shell.ask_exit()
    assert shell.ended


# ---- time -----------------------------------------------------------------------------------------------------------


def loop_forever(x, k):
    while True:
        try:
            k += 1
        except Exception:
            pass


@pytest.mark.parametrize("answer", [lambda x, k: time.sleep(60), loop_forever], ids=["sleep", "loop"])
def test_an_answer_that_never_ends_is_stopped(answer):
    start = time.monotonic()
    assert "0.1 seconds" in said(answer, seconds=0.1)
    assert time.monotonic() - start < 30


def test_the_limit_holds_for_all_cases_together():
    calls = []

    def answer(x, k):
        calls.append(1)
        time.sleep(0.2)
        return x * k

    assert "one row" in said(answer, seconds=0.3)
    assert len(calls) == 2


def test_a_check_outside_the_main_thread_and_without_signals():
    found = []

    def work():
        found.extend([EXERCISE.check(scale), EXERCISE.check(loop_forever, seconds=0.2)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert [r.status for r in found] == ["passed", "failed"]
    with pytest.raises(TooSlow):
        call_in_thread(lambda: time.sleep(2), 0.05)
    with pytest.raises(ZeroDivisionError):
        call_in_thread(lambda: 1 / 0, 5)
    assert call_in_thread(lambda: 7, 5) == 7


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_handlers_and_timers_of_others_are_given_back():
    def mine(*_):
        pass

    old = signal.signal(signal.SIGALRM, mine)
    try:
        signal.setitimer(signal.ITIMER_REAL, 60)
        EXERCISE.check(scale)
        EXERCISE.check(loop_forever, seconds=0.05)
        assert signal.getsignal(signal.SIGALRM) is mine
        assert 30 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


# ---- printing and global state --------------------------------------------------------------------------------------


def test_printed_text_is_kept_and_no_proof_of_an_answer(capsys):
    def prints(x, k):
        print("result", x * k)

    result = EXERCISE.check(prints)
    assert "Printing" in result.message and "result" in result.printed and "[one row]" in result.printed
    assert "Printed by your function" in repr(result)
    flood = EXERCISE.check(lambda x, k: print("x" * 10**5))
    assert len(flood.printed) < 3000
    assert capsys.readouterr().out == ""


def test_a_check_leaves_global_settings_alone():
    stdout, dtype, errors = sys.stdout, torch.get_default_dtype(), np.geterr()
    with torch.no_grad():
        EXERCISE.check(lambda x, k: 1 / 0)
        assert not torch.is_grad_enabled()
    assert (sys.stdout, torch.get_default_dtype(), np.geterr()) == (stdout, dtype, errors)


# ---- comparing ------------------------------------------------------------------------------------------------------


def test_precision():
    single = scale(np.float32(1) * np.ones((2, 2), np.float32) / 3, np.float32(3.3))
    assert agree(1.1 * np.ones((2, 2)), single, 1e-6, 1e-8)
    assert EXERCISE.check(lambda x, k: (x * k).astype(np.float32)).status == "passed"
    assert "close" in said(lambda x, k: x * k * (1 + 1e-4 * np.arange(2)))
    assert "float16" in said(lambda x, k: (x * k).astype(np.float16))


@pytest.mark.parametrize("answer, words", [
    (lambda x, k: -x * k, "opposite sign"),
    (lambda x, k: 2.5 * x * k, "2.5 times"),
    (lambda x, k: (x * k)[::-1], "reverse"),
    (lambda x, k: np.roll(x * k, 1, axis=0), "shifted by one row"),
    (lambda x, k: 0 * x, "all zero"),
    (lambda x, k: x * k + 0.25, "0.25 too large"),
    (lambda x, k: (x * k) ** 2, "a root is missing"),
    (lambda x, k: np.exp(x * k), "one `exp` too many"),
    (lambda x, k: np.vstack([(x * k)[:1], 9 + (x * k)[1:] ** 3]), "row 0 is right"),
    (lambda x, k: x, "does not depend on `k`"),
    (lambda x, k: k * np.ones((len(x), 2)), "does not depend on `x`"),
    (lambda x, k: x * abs(k), "Right in the case “3 x 2”, wrong in “one row”"),
    (lambda x, k: x * k / 0, "divides by zero"),
    (lambda x, k: np.where(x > 3, np.nan, x * k), "`y[1, 1]` is nan"),
    (lambda x, k: x * (k + 0.1 * x), "`y[0, 0]` should be 3, yours is 3.1"),
    (lambda x, k: x * k ** 1.3, "complex"),
    (lambda x, k: (x * k).T, "Rows and columns are swapped"),
    (lambda x, k: (x * k)[:-1], "1 row too few"),
    (lambda x, k: (x * k)[0], "shape of one row"),
    (lambda x, k: (x * k)[..., None], "length 1"),
    (lambda x, k: [list(row) for row in x * k], "The numbers in it are right"),
    (lambda x, k: torch.from_numpy(x * k), "NumPy"),
    (lambda x, k: (row for row in x * k), "Collect what it yields"),
    (lambda x, k: np.trunc(x * k + 0.5).astype(int) - 1, "has dtype int64, which holds whole numbers only"),
    (lambda x, k: np.concatenate(list(x * k)), "The rows are joined end to end: `stack`"),
    (lambda x, k: np.stack([x, x[0]]), "can't be stacked"),
    (lambda x, k: np.array([[1.0, 2.0], [3.0]]), "different lengths or shapes"),
    (lambda x, k: max(x, k * x), "Comparing arrays gives an array"),
    (lambda x, k: k, "a number"),
    (lambda x, k: "text", "'text'"),
])  # fmt: skip
def test_a_difference_is_put_into_words(answer, words):
    assert words in said(answer)


def test_transposes_and_factors_in_described_cases():
    rng = np.random.default_rng(0)
    square = rng.normal(size=(3, 3))
    cases = [Case("a", square, square.T), Case("b", 2 * square, 2 * square.T)]
    assert "transpose" in comparing.describe(cases, "W", 1e-6, 1e-8)
    cases = [Case("a", square, 0.5 * square), Case("b", square, 0.25 * square)]
    assert "the direction is right" in comparing.describe(cases, "W", 1e-6, 1e-8)
    cases = [Case("a", (square, square[0]), (square, -square[0]))]
    assert "`W` is right; `b` is not" in comparing.describe(cases, ("W", "b"), 1e-6, 1e-8)
    cases = [Case("a", [(1.0, square)] * 2, [(1.0, square), (2.0, square)])]
    assert "`loss` of `result[1]`" in comparing.describe(cases, [("loss", "g")], 1e-6, 1e-8)


@pytest.mark.parametrize("number", [2, 2.0, np.float64(2), np.array(2.0), torch.tensor(2.0)])
def test_a_number_may_come_as_any_scalar(number):
    assert structure_problem(2.0, number, "n") is None
    assert agree(2.0, number, 1e-6, 1e-8)


@pytest.mark.parametrize("wrong_rows, says", [
    ([[0]], "only row 0 is wrong"), ([[0], [0]], "only row 0 is wrong"), ([[0, 1, 2]], "only the last row is right"),
    ([[2], [1]], "row 0 is right, row 1 is the first"), ([[2, 3], [3]], "rows 0 to 1 are right, row 2 is the first"),
    ([[0, 2]], ""), ([[0], [1, 2]], ""), ([[0, 1]], ""), ([[0, 1, 2], [0]], "")])
def test_which_rows_are_right(wrong_rows, says):
    right = np.arange(1.0, 9.0).reshape(4, 2)
    cases = []
    for rows in wrong_rows:
        got = right.copy()
        got[rows] += np.array([[1.7, -0.3], [0.4, 3.1], [5.3, 0.7], [2.2, 9.1]])[rows]
        cases.append(Case(str(rows), right, got))
    text = comparing.describe(cases, "W", 1e-6, 1e-8)
    assert says in text and (says or " row" not in text), text
    two = [Case("two", right[:2], np.array([[1.5, 9.0], [3.0, 4.0]]))]
    assert "only row 0 is wrong" in comparing.describe(two, "W", 1e-6, 1e-8)


def test_an_axis_too_many_may_come_from_a_column_and_a_row():
    assert "for example" in structure_problem(np.ones(3), np.ones((3, 3)), "y")
    assert "`.item()`" in structure_problem(1.0, np.ones(1), "y")


def test_structure_of_several_values():
    e = (np.zeros(2), np.zeros(3))
    assert structure_problem(e, [np.ones(2), np.ones(3)], ("a", "b")) is None
    assert "`b` is None" in structure_problem(e, (np.ones(2), None), ("a", "b"))
    assert "returned 1" in structure_problem(e, (np.ones(2),), ("a", "b"))
    assert "`result[1]`" in structure_problem([*e], [np.ones(2), np.ones(2)], ["g"])
    assert "dict" in structure_problem(e, {}, ("a", "b"))
    assert "summed over the units" in structure_problem(e, (np.ones(2), 1.0), ("a", "b"))


def test_a_return_inside_the_loop_is_recognized():
    arrays, pairs_ = [np.zeros(2), np.zeros((2, 3))], [(0.0, np.zeros(2))] * 3
    for expected, got, returns in [(arrays, np.ones(2), ["g"]), (arrays, [np.ones(2)], ["g"]),
                                   (pairs_, (1.0, np.ones(2)), [("a", "b")]),
                                   (pairs_, [(1.0, np.ones(2))], [("a", "b")])]:
        assert "`return` inside the loop" in structure_problem(expected, got, returns)
    assert "`return`" not in structure_problem(arrays, [np.ones(2)] * 3, ["g"])


def test_whole_numbers_are_right_where_they_agree():
    assert structure_problem(np.array([1.0, 2.0]), np.array([1, 2]), "y") is None
    assert "whole numbers" in structure_problem(np.array([1.0, 2.5]), np.array([1, 2]), "y")


# ---- what is shown --------------------------------------------------------------------------------------------------


def test_a_list_of_whole_numbers_is_looked_at_as_a_whole():
    def problem(got, expected=(5, 3, 6)):
        return structure_problem(list(expected), got, "tokens")

    for got in ([5, 3, 6], (5, 3, 6), [np.int64(5), torch.tensor(3), 7.0]):
        assert problem(got) is None
    assert "should be [5, 3, 6], but yours is [5, 3]: 1 too few, and those in front are right" in problem([5, 3])
    assert "yours is [4, 3, 6, 2]: 1 too many." in problem([4, 3, 6, 2])
    assert problem([], ()) is None and "should be [], but yours is [5]: 1 too many." in problem([5], ())
    assert "… 20 in all" in problem([1] * 20)
    assert "`.tolist()`" in problem(np.array([5, 3, 6])) and "`.tolist()`" in problem(torch.tensor([5, 3, 6]))
    assert "`tokens[1]` is a torch tensor of shape (1,)" in problem([5, torch.tensor([3]), 6])
    assert "Return that list alone" in problem([[5, 3, 6]]) and "`list(...)`" in problem(iter([5]))
    assert "yours is a number" in problem(3, ())
    text = comparing.describe([Case("a", [5, 3, 6], [5, 4, 6])], "tokens", 1e-6, 1e-8)
    assert "`tokens[1]` should be 3, yours is 4 (case “a”)" in text


def test_ids_stay_whole_numbers():
    ids = torch.tensor([[5, 6]])
    assert "whole numbers" in structure_problem(ids, ids.float(), "inputs")
    assert structure_problem(ids, ids + 0.5, "inputs") is None, "wrong values are described, not their dtype"
    assert structure_problem(ids, ids + 1, "inputs") is None, "it holds whole numbers, as it should"
    assert structure_problem(200, np.int64(201), "count") is None
    assert "holds whole numbers only" in structure_problem(ids.double() + 0.5, ids, "inputs")


def test_ignored_arguments_are_looked_for_among_floats_only():
    def pick(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return x[ids]

    exercise = replace(EXERCISE, reference=pick, mistakes=[], combinations=[], probes=[
        Probe("ids", lambda: (torch.tensor([0.5, 1.5, 2.5], dtype=torch.float64), torch.tensor([2, 0])))])
    message = exercise.check(lambda x, ids: torch.tensor([1.0, 2.0])).message
    assert "does not depend on `x`" in message and "`ids`" not in message


def test_html_escapes_what_a_student_wrote():
    def answer(x, k):
        print("<script>alert(1)</script>")
        raise ValueError("<img src=x>")

    page = EXERCISE.check(answer)._repr_html_()
    assert "<script" not in page and "<img" not in page
    assert "&lt;script&gt;" in page and "&lt;img" in page


def test_results_hints_and_solutions_have_html_and_text_without_fixed_text_colors():
    shown = [EXERCISE.check(scale), EXERCISE.check(lambda x, k: x), EXERCISE.hint(), EXERCISE.hint(3),
             EXERCISE.solution()]
    assert [type(s) for s in shown] == [Result, Result, Hint, Hint, Solution]
    for s in shown:
        page = s._repr_html_()
        assert page.startswith("<div") and page.count("<div") == page.count("</div>")
        assert "font-size:var(--exercise-size,15px)" in page and "var(--jp-content-font-color1" in page
        assert "background:#" not in page
        assert repr(s) and "<div" not in repr(s)
    assert "✓ 9.1 scale: passed" in repr(shown[0])
    assert "<code" in shown[1]._repr_html_()


def test_the_solution_is_the_source_and_is_colored():
    page = EXERCISE.solution()._repr_html_()
    assert "return k * x" in repr(EXERCISE.solution())
    assert "&lt;b&gt;" in page and "editor-keyword-color" in page and "editor-comment-color" in page
    for code in ("x = 'ä<&' + f'{1}'  # ü\n", "def f(a):\n    return '''two\nlines'''\n"):
        assert "".join(_text(highlighted(code))) == code


def test_a_solution_leaves_out_the_calls_that_check_its_arguments():
    source = ('def f(x):\n    """Doc."""\n    _expect_it(x)\n    _check_it(\n        x)\n'
              "    y = 2 * x\n    return _check(y)\n")
    shown = without_checks(source)
    assert shown == ('def f(x):\n    """Doc."""\n    # The package\'s checks of the arguments are left out here.\n'
                     "    y = 2 * x\n    return _check(y)\n")
    assert without_checks(shown) == shown
    assert without_checks("def f(x):\n    return _expect(x)\n") == "def f(x):\n    return _expect(x)\n"


def _text(page: str) -> str:
    import html
    import re

    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_stub_is_signature_docstring_and_not_implemented():
    assert EXERCISE.stub() == (
        'def scale(x: np.ndarray, k: float) -> np.ndarray:\n    """Multiply every entry of x by k.\n\n'
        '    x: (T, d); k: a number. Returns (T, d); x is not changed.\n    """\n    raise NotImplementedError\n')
    assert "9.1 scale" in repr(EXERCISE) and ".hint()" in repr(EXERCISE)


def test_use(capsys):
    def mine(x, k):
        return x * k

    assert EXERCISE.use(mine) is mine
    assert EXERCISE.use(lambda x, k: x) is scale
    assert EXERCISE.use(None) is scale
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "scale: your function is used below." and len(out) == 3
