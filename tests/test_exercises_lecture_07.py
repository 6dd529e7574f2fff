"""Lecture 7's exercises: references equal independent computations, and texts are true, short and name the concept."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from answers import cases, combinations_are_wrong, each_exercise, exercises_of, hints_are_short
from course_utils import positions
from course_utils.exercises import lecture_06, lecture_07
from course_utils.exercises.engine import Exercise

EXERCISES = exercises_of(lecture_07)
every_exercise = each_exercise(EXERCISES)
sinusoids, embed, norm, block, step = (e.reference for e in EXERCISES)


def case(exercise: Exercise, name: str) -> tuple:
    return next(probe.arguments() for probe in exercise.probes if probe.name == name)


# ---- the references -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T, d", [(1, 1), (2, 4), (6, 7), (40, 10)])
def test_sinusoids_are_the_packages_and_those_of_the_formula(T, d):
    found = sinusoids(T, d)
    torch.testing.assert_close(found.float(), positions.sinusoidal_positions(T, d))
    for t in range(T):
        for j in range(d):
            angle = t / 10_000 ** (2 * (j // 2) / d)
            assert found[t, j].item() == pytest.approx(math.cos(angle) if j % 2 else math.sin(angle), abs=1e-12)


@pytest.mark.parametrize("arguments", cases(lecture_07.embed))
def test_embeddings_are_torchs_times_the_root_and_the_places(arguments):
    tokens, E, P = arguments
    found = embed(*arguments)
    for b, sentence in enumerate(tokens):
        for t, token in enumerate(sentence):
            torch.testing.assert_close(found[b, t], F.embedding(token, E) * E.shape[1] ** 0.5 + P[t])


@pytest.mark.parametrize("arguments", cases(lecture_07.layer_norm))
def test_layer_norm_is_torchs(arguments):
    x, gamma, beta, eps = arguments
    torch.testing.assert_close(norm(*arguments), F.layer_norm(x, x.shape[-1:], gamma, beta, eps))


def test_layer_norm_of_equal_numbers_is_beta():
    x, gamma, beta, eps = case(lecture_07.layer_norm, "equal numbers")
    torch.testing.assert_close(norm(x, gamma, beta, eps), beta[None])


def torchs_layer(p, n_heads: int) -> nn.TransformerEncoderLayer:
    """A layer of torch in evaluation mode with the weights p and no biases in attention."""
    D, d_ff = p["W1"].shape
    layer = nn.TransformerEncoderLayer(D, n_heads, d_ff, norm_first=True, batch_first=True, dtype=torch.float64).eval()
    attention = layer.self_attn
    copies = [
        (attention.in_proj_weight, torch.cat([p[name].T for name in ("Wq", "Wk", "Wv")])),
        (attention.in_proj_bias, 0.0), (attention.out_proj.weight, p["Wo"].T), (attention.out_proj.bias, 0.0),
        (layer.linear1.weight, p["W1"].T), (layer.linear1.bias, p["c1"]),
        (layer.linear2.weight, p["W2"].T), (layer.linear2.bias, p["c2"]),
        (layer.norm1.weight, p["g1"]), (layer.norm1.bias, p["b1"]),
        (layer.norm2.weight, p["g2"]), (layer.norm2.bias, p["b2"]),
    ]
    with torch.no_grad():
        for parameter, value in copies:
            parameter.copy_(torch.as_tensor(value))
    return layer


@pytest.mark.parametrize("arguments", cases(lecture_07.encoder_block)[:6])
def test_the_block_is_torchs_layer(arguments):
    x, p, n_heads, mask, _, training = arguments
    assert not training
    layer = torchs_layer(p, n_heads)
    found = layer(x, src_mask=None if mask is None else ~mask)
    torch.testing.assert_close(block(*arguments), found.detach())


def test_the_block_is_made_of_the_other_exercises():
    x, p, n_heads, mask, _, _ = case(lecture_07.encoder_block, "causal mask, (T, T), x far from 0")
    attend = lecture_06.multi_head_attention.reference
    y = x + attend(norm(x, p["g1"], p["b1"], 1e-5), *(p[name] for name in ("Wq", "Wk", "Wv", "Wo")), n_heads, mask)
    z = norm(y, p["g2"], p["b2"], 1e-5)
    torch.testing.assert_close(block(x, p, n_heads, mask), y + torch.relu(z @ p["W1"] + p["c1"]) @ p["W2"] + p["c2"])


def test_dropout_acts_in_training_alone_and_keeps_the_mean_of_each_branch():
    x, p, n_heads, *_ = case(lecture_07.encoder_block, "training, p_drop = 1")
    torch.testing.assert_close(block(x, p, n_heads, None, 1.0, True), x)
    torch.testing.assert_close(block(x, p, n_heads, None, 0.5, False), block(x, p, n_heads))
    torch.manual_seed(7)
    p["W2"].zero_()
    p["c2"].zero_()  # attention alone: its mean over many draws is what it is without dropout
    draws = torch.stack([block(x, p, n_heads, None, 0.3, True) - x for _ in range(2000)])
    branch = block(x, p, n_heads) - x
    dropped = (draws == 0).double().mean()
    assert abs(dropped - 0.3) < 4 * math.sqrt(0.3 * 0.7 / draws.numel())
    assert ((draws.mean(0) - branch).abs() < 5 * draws.std(0) / math.sqrt(2000)).all()


@pytest.mark.parametrize("lengths", [(6,), (1,) * 6, (3, 1, 2), (2, 4)])
def test_steps_are_causal_attention_in_one_pass(lengths):
    pieces, cache, *matrices, n_heads, P = lecture_07._pieces(*lengths, B=2, D=6, n_heads=3, seed=7)
    T, outputs = sum(lengths), []
    for piece in pieces:
        y, cache = step(piece, cache, *matrices, n_heads, P)
        outputs.append(y)
    e = torch.cat(pieces, 1)
    attend, mask = lecture_06.multi_head_attention.reference, lecture_06.causal_mask.reference(T)
    torch.testing.assert_close(torch.cat(outputs, 1), attend(e + P[:T], *matrices, n_heads, mask))
    k = lecture_06.split_heads.reference((e + P[:T]) @ matrices[1], n_heads)
    torch.testing.assert_close(cache[0], k)


# ---- the cases ------------------------------------------------------------------------------------------------------


def test_all_sizes_differ_in_the_first_case_of_each():
    x, p, n_heads, *_ = lecture_07.encoder_block.probes[0].arguments()
    assert len({*x.shape, n_heads, x.shape[-1] // n_heads, len(p["c1"])}) == 6
    (piece,), _, *_, n_heads, P = lecture_07.cached_step.probes[0].arguments()
    assert len({*piece.shape, n_heads, piece.shape[-1] // n_heads}) == 5
    tokens, E, P = lecture_07.embed.probes[0].arguments()
    assert len({*tokens.shape, *E.shape, len(P)}) == 5
    assert len(set(lecture_07.layer_norm.probes[0].arguments()[0].shape)) == 3


def test_no_sentence_of_a_cache_case_is_longer_than_its_table_and_calls_differ_in_length():
    calls = []
    for probe in lecture_07.cached_step.probes:
        pieces, cache, *_, P = probe.arguments()
        assert cache is None and sum(piece.shape[1] for piece in pieces) < len(P)
        calls.append(tuple(piece.shape[1] for piece in pieces))
    assert len(set(calls)) == len(calls) and max(map(len, calls)) >= 4


def test_a_case_of_layer_norm_makes_eps_matter_and_one_of_the_block():
    *arguments, eps = case(lecture_07.layer_norm, "small variance, eps = 0.1")
    assert (norm(*arguments, eps) - norm(*arguments, 0.0)).abs().max() > 0.1
    x, *_ = case(lecture_07.encoder_block, "x near 0")
    assert 1e-5 / x.var(-1, unbiased=False).max() > 0.005


def test_the_numbers_in_the_advice_are_those_of_the_cases():
    rows = [" ".join(f"{number:.4f}" for number in row) for row in sinusoids(2, 4).tolist()]
    assert rows[0] == "0.0000 1.0000 0.0000 1.0000" and rows[1] in lecture_07.sinusoidal_positions.advice
    found = embed(*case(lecture_07.embed, "the same word three times, d = 4"))
    assert found.tolist() == [[[2, 3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13]]]
    found = norm(*case(lecture_07.layer_norm, "1 0 0 0, gamma 1 and beta 0"))[0].tolist()
    assert all(f"{number:.4f}" in lecture_07.layer_norm.advice for number in found)
    assert f"{math.sqrt(3 / 16):.4f}" in lecture_07.layer_norm.advice
    found = block(*case(lecture_07.encoder_block, "one token 1 3, one head, F = 1"))[0, 0].tolist()
    assert found == pytest.approx([3, 3.5], abs=1e-4) and "the result is 3 3.5" in lecture_07.encoder_block.advice
    (first, second), cache, *others = case(lecture_07.cached_step, "two calls with the tokens 1 and 2, D = 1")
    y, cache = step(first, cache, *others)
    y_2, _ = step(second, cache, *others)
    weights = torch.tensor([3.0, 9.0]).softmax(0).tolist()
    assert y.item() == 1 and f"{y_2.item():.4f}" in lecture_07.cached_step.advice
    assert f"{weights[0]:.4f} and {weights[1]:.4f}" in lecture_07.cached_step.advice


# ---- the texts ------------------------------------------------------------------------------------------------------


def test_the_numbers_and_the_order():
    assert [(e.number, e.name) for e in EXERCISES] == [
        ("7.1", "sinusoidal_positions"), ("7.2", "embed"), ("7.3", "layer_norm"), ("7.4", "encoder_block"),
        ("7.5", "cached_step")]
    assert all(5 <= e.minutes <= 20 and e.difficulty in (1, 2, 3) and e.advice for e in EXERCISES)


@every_exercise
def test_a_hint_on_a_mistake_has_at_most_two_sentences(exercise):
    hints_are_short(exercise)


@every_exercise
def test_a_mistake_gives_numbers_in_some_case(exercise):
    always = {"exchanged", "None not handled"}  # they stop in the first call
    for mistake in exercise.mistakes:
        errors = [outcome.error for outcome in exercise.outcomes(mistake.function)]
        assert None in errors or mistake.name in always, mistake.name


@every_exercise
def test_no_listed_combination_is_right_by_accident(exercise):
    combinations_are_wrong(exercise)


def test_an_error_message_shows_weights_and_pieces_by_their_shapes():
    def answer(*arguments):
        raise KeyError("nothing")

    message = lecture_07.encoder_block.check(answer).message
    assert "KeyError" in message and "'W1' (12, 7)" in message and "tensor" not in message
    message = lecture_07.cached_step.check(answer).message
    assert "KeyError" in message and "e [(2, 5, 12)]" in message
