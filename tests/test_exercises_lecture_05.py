"""Lecture 5's exercises: references equal independent computations, and texts are true, short and name the concept."""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from answers import cases, combinations_are_wrong, each_exercise, exercises_of, hints_are_short
from course_utils import attention
from course_utils.exercises import lecture_05

EXERCISES = exercises_of(lecture_05)
every_exercise = each_exercise(EXERCISES)
variance = lecture_05.dot_product_variance.reference
attend = lecture_05.scaled_dot_product_attention.reference
jacobian = lecture_05.softmax_jacobian.reference


# ---- 5.1 ------------------------------------------------------------------------------------------------------------


def moments(values) -> tuple[Fraction, Fraction]:
    """Mean and variance of a number drawn evenly from `values`."""
    mean = Fraction(sum(values), len(values))
    return mean, sum((value - mean)**2 for value in values) / len(values)


@pytest.mark.parametrize("d_k", [1, 2, 3])
@pytest.mark.parametrize("values_q, values_k", [((-1, 0, 4), (-3, 2)), ((2, 2, 5), (1, 7)), ((-1, 1), (-2, 2))])
def test_the_variance_is_that_of_all_possible_vectors(d_k, values_q, values_k):
    """All pairs of vectors with entries from these values, each as probable as the others."""
    products = [sum(x * y for x, y in zip(q, k, strict=True))
                for q in itertools.product(values_q, repeat=d_k) for k in itertools.product(values_k, repeat=d_k)]
    (mean_q, var_q), (mean_k, var_k) = moments(values_q), moments(values_k)
    assert variance(d_k, var_q, var_k, mean_q, mean_k) == moments(products)[1]


@pytest.mark.parametrize("arguments", cases(lecture_05.dot_product_variance))
def test_the_variance_is_that_of_random_vectors(arguments):
    """Within four standard errors: entries are drawn evenly from -2, -1, 0, 1, 2, whose variance is 2."""
    d_k, var_q, var_k, mean_q, mean_k = arguments
    rng, n = np.random.default_rng(5), 20_000
    q, k = (mean + math.sqrt(var / 2) * rng.integers(-2, 3, size=(n, d_k))
            for mean, var in ((mean_q, var_q), (mean_k, var_k)))
    squares = ((q * k).sum(axis=1) - d_k * mean_q * mean_k)**2
    assert abs(squares.mean() - variance(*arguments)) < 4 * squares.std() / math.sqrt(n)


def test_without_means_the_variance_is_d_k_times_both():
    assert [variance(d_k, 1.0, 1.0) for d_k in (1, 64, 1024)] == [1, 64, 1024]
    assert variance(5, 4.0, 0.5) == 5 * 4 * 0.5


# ---- 5.2 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", cases(lecture_05.scaled_dot_product_attention))
def test_attention_is_the_packages_and_torchs(arguments):
    q, k, v, mask = arguments
    output, weights = attend(*arguments)
    torch.testing.assert_close((output, weights), attention.scaled_dot_product_attention(*arguments, need_weights=True))
    torch.testing.assert_close(output, attention.scaled_dot_product_attention(*arguments)[0])
    mask = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
    some = mask.any(-1, keepdim=True)
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(output, torch.where(some, fused, 0))
    torch.testing.assert_close(weights.sum(-1, keepdim=True), some.double())
    assert not weights[~mask].any()


@pytest.mark.parametrize("arguments", cases(lecture_05.scaled_dot_product_attention))
def test_attention_is_the_one_by_hand(arguments):
    q, k, v, mask = (x if x is None else x.detach() for x in arguments)
    leading = q.shape[:-2]
    output, weights = attend(q, k, v, mask)
    mask = None if mask is None else mask.expand_as(weights)
    for index in np.ndindex(*leading):
        one = None if mask is None else mask[index].numpy()
        by_hand = attention.dot_product_attention(q[index].numpy(), k[index].numpy(), v[index].numpy(), one)
        np.testing.assert_allclose(output[index], by_hand[0], atol=1e-12)
        np.testing.assert_allclose(weights[index], by_hand[1], atol=1e-12)


@pytest.mark.parametrize("arguments", cases(lecture_05.scaled_dot_product_attention))
def test_attention_has_the_packages_gradient_and_no_nan(arguments):
    gradients = []
    for function in (attend, attention.scaled_dot_product_attention):
        leaves = [x.detach().clone().requires_grad_() for x in arguments[:3]]
        function(*leaves, arguments[3])[0].pow(2).sum().backward()
        gradients.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(*gradients)
    assert all(gradient.isfinite().all() for gradient in gradients[0])


def test_the_cases_of_attention_differ_in_every_size():
    """A wrong axis or width shows in one of them; masks are square, so that a transposed one is told by its values."""
    shapes = [[tuple(x.shape) for x in probe.arguments()[:3]]
              for probe in lecture_05.scaled_dot_product_attention.probes]
    (B, T, d_k), (_, S, _), (_, _, d_v) = shapes[0]
    assert len({B, T, S, d_k, d_v}) == 5 and math.isqrt(d_k)**2 != d_k
    (B, H, T, d_k), (_, _, S, _), (_, _, _, d_v) = shapes[2]
    assert len({B, H, T, S, d_k, d_v}) == 6
    masks = [probe.arguments()[3] for probe in lecture_05.scaled_dot_product_attention.probes]
    assert sum(mask is None for mask in masks) == 5
    assert {mask.dim() for mask in masks if mask is not None} == {2, 3, 4}
    for (q, k, _), mask in zip(shapes, masks, strict=True):
        assert mask is None or q[-2] == k[-2]


def test_hints_that_speak_of_a_case_have_one():
    """“in one case the allowed scores are lower” than -10000, “e to the power of 800”, “-30000”."""
    found = []
    for probe in lecture_05.scaled_dot_product_attention.probes:
        q, k, _, mask = probe.arguments()
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        found.append((scores if mask is None else scores[mask.expand_as(scores)]).flatten())
    assert found[7].min() == 0 and found[7].max() == 800
    assert found[8].min() == -30_000 and found[8].max() < -10_000
    assert math.exp(-30_000) == 0 and math.log(np.finfo(np.float64).max) < 800


def test_what_hints_say_about_torch_is_true():
    """Polarity of both functions, the range of float16, and which axis a softmax without `dim` takes."""
    q, k, v, _ = lecture_05.scaled_dot_product_attention.probes[3].arguments()
    hidden = torch.tensor([[True, True, False]])
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=hidden.expand(3, 3))
    torch.testing.assert_close(fused, attend(q, k, v, hidden)[0])
    multi_head = torch.nn.MultiheadAttention(3, 1, batch_first=True).double()
    weights = multi_head(q, k, v, attn_mask=~hidden.expand(3, 3))[1]
    assert not weights[..., 2].any() and weights[..., :2].all()
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(3, dtype=torch.float16).masked_fill(hidden[0], -1e9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape, axis in (((2, 3, 4), 0), ((2, 3, 4, 5), 1)):
            x = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape) / 50
            torch.testing.assert_close(F.softmax(x), torch.softmax(x, axis))


# ---- 5.3 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [probe.arguments()[0] for probe in lecture_05.softmax_jacobian.probes])
def test_the_jacobian_is_autograds(p):
    scores = torch.from_numpy(p).log()
    found = torch.autograd.functional.jacobian(lambda z: torch.softmax(z, dim=0), scores)
    np.testing.assert_allclose(jacobian(p), found, atol=1e-15)


@pytest.mark.parametrize("S", [1, 2, 7])
def test_the_jacobian_is_the_slope_of_softmax(S):
    z, h = np.random.default_rng(S).normal(size=S), 1e-5
    slopes = [(attention.softmax(z + h * unit) - attention.softmax(z - h * unit)) / (2 * h) for unit in np.eye(S)]
    np.testing.assert_allclose(jacobian(attention.softmax(z)), np.stack(slopes, axis=1), atol=1e-9)


@pytest.mark.parametrize("p", [probe.arguments()[0] for probe in lecture_05.softmax_jacobian.probes])
def test_the_jacobian_is_symmetric_with_sums_of_zero_and_vanishes_where_softmax_is_saturated(p):
    found = jacobian(p)
    assert p.sum() == pytest.approx(1)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-15)
    assert np.linalg.eigvalsh(found).min() > -1e-15
    assert (not found.any()) == (p.max() == 1)


# ---- the texts ------------------------------------------------------------------------------------------------------


def test_the_numbers_and_the_order():
    assert [(e.number, e.name) for e in EXERCISES] == [
        ("5.1", "dot_product_variance"), ("5.2", "scaled_dot_product_attention"), ("5.3", "softmax_jacobian")]
    assert all(5 <= e.minutes <= 20 and e.difficulty in (1, 2, 3) and e.advice for e in EXERCISES)


def test_the_numbers_in_the_advice_are_those_of_the_cases():
    exercise = lecture_05.dot_product_variance
    assert exercise.reference(*exercise.probes[2].arguments()) == 69 == 3 * (3 * 9 - 4)
    assert all(text in exercise.advice for text in ("3 · 9 - (1 · -2)² = 23", "69"))
    exercise = lecture_05.scaled_dot_product_attention
    output, weights = exercise.reference(*exercise.probes[1].arguments())
    assert all(f"{number:.4f}" in exercise.advice for number in (output.item(), *weights.flatten().tolist()))
    q, k, *_ = exercise.probes[1].arguments()
    assert (q @ k.mT).flatten().tolist() == [0, 4] and "0 and 4" in exercise.advice
    exercise = lecture_05.softmax_jacobian
    row = exercise.reference(*exercise.probes[0].arguments())[0]
    assert row.tolist() == [0.25, -0.125, -0.125] and "= 0.25, -1/2 · 1/4 = -0.125, -0.125" in exercise.advice


@every_exercise
def test_a_hint_on_a_mistake_has_at_most_two_sentences(exercise):
    hints_are_short(exercise)


@every_exercise
def test_only_shapes_that_do_not_fit_and_masks_of_none_raise_an_error(exercise):
    allowed = dict.fromkeys(("k not transposed", "axes 1 and 2 of k", "all axes of k", "q and k exchanged",
                             "three axes only", "mask with one more axis", "mean of the queries", "transposed weights",
                             "truth of the mask"), RuntimeError)
    allowed |= {"mask None not handled": TypeError, "mask None not handled, NaN rows": TypeError,
                "filled by index": IndexError, "filled by index, NaN rows": IndexError}
    for mistake in exercise.mistakes:
        errors = {type(outcome.error) for outcome in exercise.outcomes(mistake.function)} - {type(None)}
        assert errors == ({allowed[mistake.name]} if mistake.name in allowed else set()), mistake.name


@every_exercise
def test_no_listed_combination_is_right_by_accident(exercise):
    combinations_are_wrong(exercise)
