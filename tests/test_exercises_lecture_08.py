"""Lecture 8's exercises: references equal independent computations, and texts are true, short and name the concept."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from answers import cases, combinations_are_wrong, each_exercise, exercises_of, hints_are_short
from course_utils import costs, positions
from course_utils.attention import MultiHeadAttention
from course_utils.exercises import lecture_08
from course_utils.exercises.engine import Exercise

EXERCISES = exercises_of(lecture_08)
every_exercise = each_exercise(EXERCISES)
rotate, attention_cost = (e.reference for e in EXERCISES)
SIZES = [(2, 3, 7, 30, 5), (1, 1, 1, 1, 1), (3, 4, 4, 6, 2), (1, 1, 9, 8, 8), (2, 6, 1, 12, 3)]  # B, T, S, D, H


def case(exercise: Exercise, name: str) -> tuple:
    return next(probe.arguments() for probe in exercise.probes if probe.name == name)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---- the references: rotate -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", cases(lecture_08.rotate))
def test_turning_is_the_packages_and_that_of_complex_numbers(arguments):
    x, start = arguments
    T, K = x.shape[-2:]
    torch.testing.assert_close(rotate(x, start), positions.rotate(x, start))
    angles = [[p * 10_000 ** (-2 * i / K) for i in range(K // 2)] for p in range(start, start + T)]
    turn = torch.exp(1j * torch.tensor(angles, dtype=torch.float64))  # (T, K/2)
    points = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    torch.testing.assert_close(rotate(x, start), torch.view_as_real(points * turn).flatten(-2))


def test_a_turn_is_counterclockwise_and_keeps_the_dtype():
    quarter = rotate(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))  # float32
    assert quarter.dtype == torch.float32 and quarter[0].tolist() == [1, 0]
    assert quarter[1].tolist() == pytest.approx([math.cos(1), math.sin(1)])


def test_scores_depend_on_distances_alone_and_lengths_stay():
    q, k = normal(5, 6, seed=1), normal(5, 6, seed=2)
    here, there = (rotate(q, start) @ rotate(k, start).mT for start in (0, 17))
    torch.testing.assert_close(here, there)
    assert (here - q @ k.mT).abs().max() > 0.1
    torch.testing.assert_close(rotate(q, 3).norm(dim=-1), q.norm(dim=-1))


def test_pieces_with_their_starts_are_the_whole():
    x = normal(2, 3, 6, 4)
    pieces = [rotate(x[..., :2, :]), rotate(x[..., 2:3, :], 2), rotate(x[..., 3:, :], 3)]
    torch.testing.assert_close(torch.cat(pieces, dim=-2), rotate(x))


# ---- the references: attention_cost ---------------------------------------------------------------------------------


@pytest.mark.parametrize("B, T, S, D, H", SIZES)
def test_operations_are_those_that_torch_counts_in_the_packages_layer(B, T, S, D, H):
    layer = MultiHeadAttention(D, H, bias=False).double()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        layer(normal(B, T, D), normal(B, S, D), need_weights=True)
    assert attention_cost(B, T, S, D, H)[0] == counter.get_total_flops()


@pytest.mark.parametrize("B, T, S, D, H", SIZES)
def test_operations_and_bytes_are_those_of_plain_products(B, T, S, D, H):
    K = D // H
    Wq, Wk, Wv, Wo = normal(4, D, D)
    x, memory = normal(B, T, D), normal(B, S, D)
    with FlopCounterMode(display=False) as counter:
        q = (x @ Wq).reshape(B, T, H, K).transpose(1, 2)
        k, v = ((memory @ W).reshape(B, S, H, K).transpose(1, 2) for W in (Wk, Wv))
        weights = torch.softmax(q @ k.mT / math.sqrt(K), dim=-1)
        (weights @ v).transpose(1, 2).reshape(B, T, D) @ Wo
    cache = k.nbytes + v.nbytes
    assert attention_cost(B, T, S, D, H, 8) == (counter.get_total_flops(), weights.nbytes, cache)


@pytest.mark.parametrize("B, T, S, D, H", SIZES)
def test_costs_are_the_packages(B, T, S, D, H):
    for n in (1, 2, 4):
        assert attention_cost(B, T, S, D, H, n) == costs.attention_cost(B, T, S, D, H, n)
    assert attention_cost(B, T, S, D, H) == costs.attention_cost(B, T, S, D, H)


# ---- the cases ------------------------------------------------------------------------------------------------------


def test_all_sizes_differ_in_the_first_case_of_each():
    x, _ = lecture_08.rotate.probes[0].arguments()
    assert len(set(x.shape)) == 4
    B, T, S, D, H, n = lecture_08.attention_cost.probes[0].arguments()
    assert len({B, T, S, D, H, D // H, n}) == 7


def test_cases_of_rotate_start_later_and_differ_in_their_axes():
    arguments = [probe.arguments() for probe in lecture_08.rotate.probes]
    assert {x.ndim for x, _ in arguments} == {2, 3, 4, 5} and sum(start > 0 for _, start in arguments) >= 4
    assert any(start > 0 and x.shape[-2] > 1 and x.ndim > 2 for x, start in arguments)


def test_single_precision_is_far_within_the_tolerance():
    for probe in lecture_08.rotate.probes:
        x, start = probe.arguments()
        T, K = x.shape[-2:]
        angle = torch.arange(start, start + T)[:, None] / 10_000 ** (torch.arange(0, K, 2) / K)
        u, v = x[..., 0::2], x[..., 1::2]
        found = torch.stack([u * angle.cos() - v * angle.sin(), u * angle.sin() + v * angle.cos()], -1).flatten(-2)
        allowed = lecture_08.rotate.atol + lecture_08.rotate.rtol * rotate(x, start).abs()
        assert ((found - rotate(x, start)).abs() < allowed / 3).all()


def test_the_numbers_in_the_advice_are_those_of_the_cases():
    turned = rotate(*case(lecture_08.rotate, "3 tokens 1 0 1 0"))
    assert turned[0].tolist() == [1, 0, 1, 0]
    assert " ".join(f"{number:.4f}" for number in turned[1].tolist()) in lecture_08.rotate.advice
    flops, *memory = attention_cost(*case(lecture_08.attention_cost, "all sizes 1"))
    assert f": {flops} operations" in lecture_08.attention_cost.advice and memory == [4, 8]
    assert "takes 4 bytes, a key and a value 8" in lecture_08.attention_cost.advice


# ---- the texts ------------------------------------------------------------------------------------------------------


def test_the_numbers_and_the_order():
    assert [(e.number, e.name) for e in EXERCISES] == [("8.1", "rotate"), ("8.2", "attention_cost")]
    assert all(5 <= e.minutes <= 20 and e.difficulty in (1, 2, 3) and e.advice for e in EXERCISES)


@every_exercise
def test_a_hint_on_a_mistake_has_at_most_two_sentences(exercise):
    hints_are_short(exercise)


@every_exercise
def test_a_mistake_gives_numbers_in_some_case(exercise):
    for mistake in exercise.mistakes:
        assert None in [outcome.error for outcome in exercise.outcomes(mistake.function)], mistake.name


@every_exercise
def test_no_listed_combination_is_right_by_accident(exercise):
    combinations_are_wrong(exercise)


def test_what_a_hint_says_about_a_layout_or_a_direction_is_true():
    """Clockwise and halves keep what matters, scores that depend on distances alone; mixtures of conventions don't."""
    q, k = normal(4, 8, seed=3), normal(4, 8, seed=4)
    known = {mistake.name: mistake.function for mistake in lecture_08.rotate.mistakes}

    def shifts(turn):
        scores = [turn(q, start) @ turn(k, start).mT for start in (0, 5)]
        return (scores[0] - scores[1]).abs().max().item()

    assert all(shifts(known[name]) < 1e-12 for name in ("clockwise", "halves", "base 1000", "places from 1"))
    mirrored = (rotate(q.flip(0)) @ rotate(k.flip(0)).mT).flip(0, 1)  # before and after are exchanged
    torch.testing.assert_close(known["clockwise"](q) @ known["clockwise"](k).mT, mirrored)
    assert all(shifts(known[name]) > 0.01 for name in ("angles of halves", "angles of neighbors", "no cross terms",
                                                       "own speeds", "no minus", "added"))
    order = torch.tensor([*range(0, 8, 2), *range(1, 8, 2)])
    torch.testing.assert_close(known["halves"](q[:, order]), rotate(q)[:, order])


def test_every_wrong_count_is_wrong_in_the_value_that_its_hint_names():
    """Hints on weights and on a cache come from wrong bytes, and those on operations from wrong operations."""
    right = [attention_cost(*probe.arguments()) for probe in lecture_08.attention_cost.probes]
    for mistake in lecture_08.attention_cost.mistakes:
        found = [mistake.function(*probe.arguments()) for probe in lecture_08.attention_cost.probes]
        wrong = [any(f[i] != r[i] for f, r in zip(found, right, strict=True)) for i in range(3)]
        for i, word in enumerate(("Your operations", "Your weights", "Your cache")):
            if mistake.hint.startswith(word):
                assert wrong == [j == i for j in range(3)], mistake.name


def each_value_of(*names):
    """A wrong answer whose values are those of three mistakes, one each; None for a right value."""
    known = {m.name: m.function for m in lecture_08.attention_cost.mistakes + lecture_08.attention_cost.combinations}
    return lambda *arguments: tuple(
        (known[name] if name else attention_cost)(*arguments)[i] for i, name in enumerate(names))


def test_errors_in_several_values_are_all_named():
    hints = {m.name: m.hint for m in lecture_08.attention_cost.mistakes + lecture_08.attention_cost.combinations}
    for names in [("multiply-adds", "weights without heads", None), ("half", None, "keys alone"),
                  (None, "matrices", "cache of T"),
                  ("no output projection + T by T", "weights T by T", "cache with heads"),
                  ("no batch", "weights S by S + numbers", "cache with heads + always 4")]:
        wanted = [f"`{value}`: {hints[name]}" for value, name in zip(lecture_08.attention_cost.returns, names) if name]
        assert lecture_08.attention_cost.check(each_value_of(*names)).message == "\n\n".join(wanted)
    message = lecture_08.attention_cost.check(each_value_of("half", "numbers", "numbers")).message
    assert message == f"`flops`: {hints['half']}\n\n`weight_bytes` and `cache_bytes`: {hints['numbers']}"


def test_a_value_that_no_mistake_explains_is_named_after_those_that_one_does():
    def answer(*arguments):
        _, weights, cache = attention_cost(*arguments)
        return 7, weights, cache / 2

    first, second = lecture_08.attention_cost.check(answer).message.split("\n\n")
    assert first.startswith("`cache_bytes`: Your cache is half") and second.startswith("`flops`: not right, either")


def test_an_answer_must_keep_single_precision_too():
    def doubled(x, start=0):
        return rotate(x.double(), start)

    def only_double(x, start=0):
        assert x.dtype == torch.float64
        return rotate(x, start)

    assert "float64 where x has torch.float32" in lecture_08.rotate.check(doubled).message
    assert "AssertionError" in lecture_08.rotate.check(only_double).message
    assert "view_as_real" in lecture_08.rotate.check(lambda x, start=0: rotate(x, start) + 0j).message
