"""Lecture 4's exercises: references equal independent computations, and texts are true, short and name the concept."""

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from answers import cases, combinations_are_wrong, each_exercise, exercises_of, hints_are_short
from course_utils import attention
from course_utils.exercises import lecture_04
from course_utils.exercises.engine import Exercise

EXERCISES = exercises_of(lecture_04)
every_exercise = each_exercise(EXERCISES)
softmax, additive_attention, attention_decoder, self_attention = (e.reference for e in EXERCISES)


def case(exercise: Exercise, name: str) -> tuple:
    return next(probe.arguments() for probe in exercise.probes if probe.name == name)


def linear(W: torch.Tensor) -> nn.Linear:
    """A layer of torch with the weights W (out, in)."""
    layer = nn.Linear(W.shape[1], W.shape[0], bias=False, dtype=W.dtype)
    with torch.no_grad():
        layer.weight.copy_(W)
    return layer


# ---- the references -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", cases(lecture_04.softmax))
def test_softmax_is_the_packages_and_torchs(arguments):
    x, axis = arguments
    found = softmax(x, axis)
    np.testing.assert_allclose(found, attention.softmax(x, axis), rtol=1e-12)
    np.testing.assert_allclose(found, torch.softmax(torch.tensor(x), axis).numpy(), rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=axis), 1)


@pytest.mark.parametrize("arguments", cases(lecture_04.additive_attention))
def test_additive_attention_is_the_packages_one_row_at_a_time(arguments):
    context, weights = additive_attention(*arguments)
    query, keys, W1, W2, v, mask = (x.detach().numpy() for x in arguments)
    for b in range(len(query)):
        one_context, one_weights = attention.additive_attention(query[b], keys[b], W1, W2, v, mask[b])
        np.testing.assert_allclose(context[b].detach().numpy(), one_context, rtol=1e-9)
        np.testing.assert_allclose(weights[b].detach().numpy(), one_weights, rtol=1e-9)


@pytest.mark.parametrize("arguments", cases(lecture_04.additive_attention))
def test_additive_attention_is_the_packages_layer(arguments):
    query, keys, W1, W2, v, mask = arguments
    score = attention.AdditiveScore(query.shape[1], keys.shape[2], len(v)).double()
    with torch.no_grad():
        for parameter, value in ((score.W.weight, W1), (score.U.weight, W2), (score.v, v)):
            parameter.copy_(value)
    weights = attention.masked_softmax(score(query[:, None], score.project(keys)), mask[:, None])  # (B, 1, S)
    context, found = additive_attention(*arguments)
    torch.testing.assert_close(found, weights[:, 0])
    torch.testing.assert_close(context, (weights @ keys)[:, 0])
    assert not found[~mask].any() and torch.allclose(found.sum(1), torch.ones(len(found), dtype=found.dtype))


def test_additive_attention_has_the_gradients_of_finite_differences():
    query, keys, *others = lecture_04.additive_attention.probes[0].arguments()
    assert torch.autograd.gradcheck(lambda query, keys: additive_attention(query, keys, *others), (query, keys))


@pytest.mark.parametrize("arguments", cases(lecture_04.attention_decoder))
def test_the_decoder_is_torchs_cell_that_reads_token_and_context(arguments):
    ys, s0, keys, mask, P = arguments
    cell = nn.RNNCell(2 * s0.shape[1], s0.shape[1], bias=False, dtype=ys.dtype)
    with torch.no_grad():
        cell.weight_ih.copy_(torch.cat([P["Wy"], P["Wc"]]).T)
        cell.weight_hh.copy_(P["Ws"].T)
    W1, W2, s, states = linear(P["W1"]), linear(P["W2"]), s0, []
    for y in ys.unbind(1):
        scores = torch.einsum("bsa,a->bs", torch.tanh(W1(s)[:, None] + W2(keys)), P["v"])
        context = F.scaled_dot_product_attention(  # the scores come in as a bias, where 0 is added to them
            torch.zeros_like(s)[:, None], keys, keys, scores.masked_fill(~mask, -torch.inf)[:, None])[:, 0]
        s = cell(torch.cat([y, context], dim=1), s)
        states.append(s)
    torch.testing.assert_close(attention_decoder(*arguments), torch.stack(states, dim=1))


def test_the_decoder_uses_the_attention_of_exercise_2():
    ys, s0, keys, mask, P = lecture_04.attention_decoder.probes[0].arguments()
    states = attention_decoder(ys, s0, keys, mask, P)
    for t in range(ys.shape[1]):
        before = s0 if t == 0 else states[:, t - 1]
        context, _ = additive_attention(before, keys, P["W1"], P["W2"], P["v"], mask)
        torch.testing.assert_close(states[:, t], torch.tanh(ys[:, t] @ P["Wy"] + before @ P["Ws"] + context @ P["Wc"]))


@pytest.mark.parametrize("arguments", cases(lecture_04.self_attention))
def test_self_attention_is_the_packages_and_torchs(arguments):
    X, Wq, Wk, Wv = arguments
    out, weights = self_attention(*arguments)
    package_out, package_weights = attention.dot_product_attention(X @ Wq, X @ Wk, X @ Wv)
    np.testing.assert_allclose(out, package_out, rtol=1e-9)
    np.testing.assert_allclose(weights, package_weights, rtol=1e-9)
    q, k, v = (linear(torch.tensor(W).T)(torch.tensor(X))[None] for W in (Wq, Wk, Wv))
    np.testing.assert_allclose(out, F.scaled_dot_product_attention(q, k, v)[0].detach().numpy(), rtol=1e-9)


def test_self_attention_is_torchs_layer_with_one_head():
    X, Wq, Wk, Wv = case(lecture_04.self_attention, "T = D = d_k = d_v = 3")
    layer = nn.MultiheadAttention(3, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.tensor(np.concatenate([Wq.T, Wk.T, Wv.T])))
        layer.out_proj.weight.copy_(torch.eye(3))
    x = torch.tensor(X)
    for found, right in zip(self_attention(X, Wq, Wk, Wv), layer(x, x, x), strict=True):
        np.testing.assert_allclose(found, right.detach().numpy(), rtol=1e-9)


def test_self_attention_of_permuted_tokens_is_permuted():
    X, *matrices = lecture_04.self_attention.probes[0].arguments()
    order = [2, 0, 3, 1]
    out, weights = self_attention(X, *matrices)
    permuted_out, permuted_weights = self_attention(X[order], *matrices)
    np.testing.assert_allclose(permuted_out, out[order])
    np.testing.assert_allclose(permuted_weights, weights[order][:, order])


# ---- the cases ------------------------------------------------------------------------------------------------------


def test_each_row_of_a_mask_has_a_token_and_most_cases_have_padding():
    masks = [probe.arguments()[-1] for probe in lecture_04.additive_attention.probes]
    masks += [probe.arguments()[3] for probe in lecture_04.attention_decoder.probes]
    assert all(mask.any(dim=1).all() for mask in masks)
    assert sum(not mask.all() for mask in masks) >= 6


def test_a_case_has_scores_below_zero_with_padding_above_them():
    query, keys, W1, W2, v, mask = case(lecture_04.additive_attention, "scores far below zero")
    scores = torch.tanh((query @ W1.T)[:, None] + keys @ W2.T) @ v
    assert scores[mask].max() < -10
    assert all(row[~real].min() > row[real].max() + 2 for row, real in zip(scores, mask, strict=True) if not real.all())


def test_all_sizes_differ_in_the_first_case():
    query, keys, W1, *_ = lecture_04.additive_attention.probes[0].arguments()
    assert len({*keys.shape, len(W1)}) == 4
    ys, _, keys, _, P = lecture_04.attention_decoder.probes[0].arguments()
    assert len({*keys.shape, ys.shape[1], len(P["v"])}) == 4  # d_a = 2 = B
    X, Wq, _, Wv = lecture_04.self_attention.probes[0].arguments()
    assert len({*X.shape, Wq.shape[1], Wv.shape[1]}) == 4


def test_an_exponential_without_a_shift_overflows_in_a_case_of_each_softmax():
    with np.errstate(over="ignore", invalid="ignore"):
        x, axis = case(lecture_04.softmax, "scores from 1000 to 1002")
        assert np.isinf(np.exp(x)).all()
        X, Wq, Wk, _ = case(lecture_04.self_attention, "large scores")
        assert np.isinf(np.exp((X @ Wq) @ (X @ Wk).T / math.sqrt(Wq.shape[1]))).any()


def test_the_numbers_in_the_advice_are_those_of_the_cases():
    p = softmax(*case(lecture_04.softmax, "logarithms of 1 2 5 and 3 3 2"))
    assert all(" ".join(f"{x:.4g}" for x in row) in lecture_04.softmax.advice for row in p)

    advice = lecture_04.additive_attention.advice
    context, weights = additive_attention(*case(lecture_04.additive_attention, "one row, keys -2 and 2, and 4 is "
                                                                               "padding"))
    assert f"2 tanh(1 + 1) = {2 * math.tanh(2):.4f}" in advice
    assert f"{weights[0, 0]:.4f} and {weights[0, 1]:.4f}" in advice and f"= {context.item():.4f}." in advice

    advice = lecture_04.attention_decoder.advice
    s = attention_decoder(*case(lecture_04.attention_decoder, "two steps, one unit, keys 0 and 1")).flatten().tolist()
    assert f"s_1 = tanh(0.5 - 0.8210) = {s[0]:.4f}" in advice and f"{s[1]:.4f}." in advice
    assert f"2 tanh({2 * s[0]:.4f}) = {2 * math.tanh(2 * s[0]):.4f}" in advice
    assert f"2 tanh({2 * s[0] + 1:.4f}) = {2 * math.tanh(2 * s[0] + 1):.4f}" in advice
    assert math.tanh(-1 - 0.1552 - 0.8614) == pytest.approx(s[1], abs=1e-4) and "(-1 - 0.1552 - 0.8614)" in advice

    out, weights = self_attention(*case(lecture_04.self_attention, "2 tokens, weights of 3/4 and 1/4"))
    np.testing.assert_allclose(weights, [[3 / 4, 1 / 4], [1 / 5, 4 / 5]])
    np.testing.assert_allclose(out, [[2], [4.2]])
    assert "3/4 and 1/4, 1/5 and 4/5" in lecture_04.self_attention.advice and "4.2" in lecture_04.self_attention.advice


# ---- the texts ------------------------------------------------------------------------------------------------------


def test_the_numbers_and_the_order():
    assert [(e.number, e.name) for e in EXERCISES] == [
        ("4.1", "softmax"), ("4.2", "additive_attention"), ("4.3", "attention_decoder"), ("4.4", "self_attention")]
    assert all(5 <= e.minutes <= 20 and e.difficulty in (1, 2, 3) and e.advice for e in EXERCISES)


@every_exercise
def test_a_hint_on_a_mistake_has_at_most_two_sentences(exercise):
    hints_are_short(exercise)


@every_exercise
def test_a_mistake_raises_an_error_only_where_sizes_differ(exercise):
    """It gives numbers where they are equal, so that these tell it from others, and no error names what isn't so."""
    for mistake in exercise.mistakes:
        errors = [outcome.error for outcome in exercise.outcomes(mistake.function)]
        assert None in errors, mistake.name
        known = "broadcast|mismatch|multiplied|must match|out of bounds|non-empty"
        assert all(e is None or re.search(known, str(e)) for e in errors)


@every_exercise
def test_no_listed_combination_is_right_by_accident(exercise):
    combinations_are_wrong(exercise)


def test_an_error_message_shows_the_decoders_weights_by_their_shapes():
    def answer(ys, s0, keys, mask, P):
        return P["nothing"]

    message = lecture_04.attention_decoder.check(answer).message
    assert "KeyError" in message and "'W1' (2, 3)" in message and "tensor" not in message
