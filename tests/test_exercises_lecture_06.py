"""Lecture 6's exercises: references equal independent computations, and texts are true, short and name the concept."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from answers import cases, combinations_are_wrong, each_exercise, exercises_of, hints_are_short
from course_utils import attention
from course_utils.exercises import lecture_06
from course_utils.exercises.engine import Exercise

EXERCISES = exercises_of(lecture_06)
every_exercise = each_exercise(EXERCISES)
split, merge, causal, heads = (e.reference for e in EXERCISES)


def case(exercise: Exercise, name: str) -> tuple:
    return next(probe.arguments() for probe in exercise.probes if probe.name == name)


# ---- the references -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", cases(lecture_06.split_heads))
def test_split_heads_is_the_packages_and_head_h_has_its_numbers(arguments):
    x, n_heads = arguments
    found, K = split(x, n_heads), x.shape[-1] // n_heads
    torch.testing.assert_close(found, attention.split_heads(x, n_heads))
    for h in range(n_heads):
        torch.testing.assert_close(found[:, h], x[..., h * K:(h + 1) * K])


@pytest.mark.parametrize("arguments", cases(lecture_06.merge_heads))
def test_merge_heads_is_the_packages_and_undoes_split_heads(arguments):
    x, = arguments
    merged = merge(x)
    torch.testing.assert_close(merged, attention.merge_heads(x))
    torch.testing.assert_close(split(merged, x.shape[1]), x)
    assert merged.tolist() == [[[number for head in token for number in head] for token in zip(*sentence)]
                               for sentence in x.tolist()]


@pytest.mark.parametrize("T", [1, 2, 5])
def test_the_causal_mask_is_the_packages_and_the_complement_of_torchs(T):
    mask = causal(T)
    assert mask.dtype == torch.bool and mask.equal(attention.causal_mask(T))
    assert mask.equal(nn.Transformer.generate_square_subsequent_mask(T) == 0)
    assert mask.tolist() == [[s <= t for s in range(T)] for t in range(T)]


def torchs(x, Wq, Wk, Wv, Wo, n_heads, mask):
    layer = nn.MultiheadAttention(x.shape[-1], n_heads, bias=False, batch_first=True, dtype=x.dtype)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.cat([Wq.T, Wk.T, Wv.T]))
        layer.out_proj.weight.copy_(Wo.T)
    hidden = None if mask is None else ~(mask if mask.dim() == 2 else mask.repeat_interleave(n_heads, 0))
    return layer(x, x, x, attn_mask=hidden, need_weights=False)[0]


@pytest.mark.parametrize("arguments", cases(lecture_06.multi_head_attention))
def test_multi_head_attention_is_torchs(arguments):
    torch.testing.assert_close(heads(*arguments), torchs(*arguments).detach())


@pytest.mark.parametrize("arguments", cases(lecture_06.multi_head_attention))
def test_multi_head_attention_is_the_packages_layer(arguments):
    x, *matrices, Wo, n_heads, mask = arguments
    layer = attention.MultiHeadAttention(x.shape[-1], n_heads, bias=False).double()
    with torch.no_grad():
        layer.qkv.weight.copy_(torch.cat([W.T for W in matrices]))
        layer.out.weight.copy_(Wo.T)
        mask = mask[:, None] if mask is not None and mask.dim() == 3 else mask
        torch.testing.assert_close(heads(*arguments), layer(x, mask=mask)[0])


@pytest.mark.parametrize("arguments", cases(lecture_06.multi_head_attention))
def test_multi_head_attention_is_the_sum_of_what_each_head_gives_through_its_rows_of_wo(arguments):
    x, Wq, Wk, Wv, Wo, n_heads, mask = arguments
    K = x.shape[-1] // n_heads
    total = torch.zeros_like(x)
    for h in range(n_heads):
        own = slice(h * K, (h + 1) * K)
        total += F.scaled_dot_product_attention(x @ Wq[:, own], x @ Wk[:, own], x @ Wv[:, own], mask) @ Wo[own]
    torch.testing.assert_close(heads(*arguments), total)


def test_a_causal_mask_keeps_the_future_from_the_past():
    x, *others = case(lecture_06.multi_head_attention, "causal mask, (T, T)")
    changed = x.clone()
    changed[:, 2:] += 1
    before, after = heads(x, *others), heads(changed, *others)
    torch.testing.assert_close(before[:, :2], after[:, :2])
    assert not torch.isclose(before[:, 2:], after[:, 2:]).any()


# ---- the cases ------------------------------------------------------------------------------------------------------


def test_all_sizes_differ_in_the_first_case_of_each():
    x, n_heads = lecture_06.split_heads.probes[0].arguments()
    assert len({*x.shape, n_heads, x.shape[-1] // n_heads}) == 5
    assert len(set(lecture_06.merge_heads.probes[0].arguments()[0].shape)) == 4
    x, *_, n_heads, _ = lecture_06.multi_head_attention.probes[0].arguments()
    assert len({*x.shape, n_heads, x.shape[-1] // n_heads}) == 5


def test_masks_hide_something_and_leave_every_token_a_key():
    masks = [(probe.arguments()[-1], *probe.arguments()[0].shape[:2], probe.arguments()[-2])
             for probe in lecture_06.multi_head_attention.probes if probe.arguments()[-1] is not None]
    assert all(mask.any(-1).all() and not mask.all() for mask, *_ in masks)
    assert {mask.dim() for mask, *_ in masks} == {2, 3}
    per_sentence = [(B == H, mask) for mask, B, _, H in masks if mask.dim() == 3]
    assert {same for same, _ in per_sentence} == {True, False}  # without a head axis: silent, and an error
    assert all(not (mask == mask[:1]).all() for _, mask in per_sentence)


def test_the_numbers_in_the_advice_are_those_of_the_cases():
    found = split(*case(lecture_06.split_heads, "2 tokens 0 1 2 3 and 4 5 6 7, 2 heads"))[0].tolist()
    assert found == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    assert "head 0 has the rows 0 1 and 4 5, head 1 has 2 3 and 6 7" in lecture_06.split_heads.advice
    x, = case(lecture_06.merge_heads, "2 heads, 0 1 and 2 3 in one, 4 5 and 6 7 in the other")
    assert merge(x)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert "Token 0 gets 0 1 4 5, and token 1 gets 2 3 6 7" in lecture_06.merge_heads.advice
    rows = [" ".join(map(str, row)) for row in causal(3).tolist()]
    assert all(row in lecture_06.causal_mask.advice for row in rows)
    arguments = case(lecture_06.multi_head_attention, "2 tokens, 2 heads, all matrices the identity")
    first = [f"{number:.4f}" for number in heads(*arguments)[0, 0].tolist()]
    weights = [torch.tensor([score / math.sqrt(2), 0.0]).softmax(0).tolist() for score in (1, 4)]
    advice = lecture_06.multi_head_attention.advice
    assert " ".join(first[:2]) in advice and " ".join(first[2:]) in advice
    assert all(f"{a:.4f} and {b:.4f}" in advice for a, b in weights)


def test_what_hints_say_about_torch_is_true():
    """Polarity of the two functions, what `repeat` does, and `view` of a transposed tensor."""
    q = torch.eye(3)[None]
    mask = causal(3)
    assert F.scaled_dot_product_attention(q, q, q, mask)[0, 0].tolist() == [1, 0, 0]
    weights = nn.MultiheadAttention(3, 1, batch_first=True)(q, q, q, attn_mask=~mask)[1]
    assert not weights[0][~mask].any() and (weights[0][mask] > 0).all()
    numbers = torch.arange(2)[:, None, None]
    assert numbers.repeat(3, 1, 1).flatten().tolist() == [0, 1] * 3
    assert numbers.repeat_interleave(3, 0).flatten().tolist() == [0] * 3 + [1] * 3
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.zeros(2, 3, 4).transpose(0, 1).view(3, 8)
    assert (~torch.tensor([1, 0])).tolist() == [-2, -1]  # “turns bits round”
    with pytest.raises(TypeError):
        ~torch.tensor([1.0, 0.0])


# ---- the texts ------------------------------------------------------------------------------------------------------


def test_the_numbers_and_the_order():
    assert [(e.number, e.name) for e in EXERCISES] == [
        ("6.1", "split_heads"), ("6.2", "merge_heads"), ("6.3", "causal_mask"), ("6.4", "multi_head_attention")]
    assert all(5 <= e.minutes <= 20 and e.difficulty in (1, 2, 3) and e.advice for e in EXERCISES)


@every_exercise
def test_a_hint_on_a_mistake_has_at_most_two_sentences(exercise):
    hints_are_short(exercise)


@every_exercise
def test_a_mistake_raises_an_error_only_where_sizes_or_masks_differ(exercise):
    always = {"tokens cut", "view of a transposed tensor", "k.T"}
    for mistake in exercise.mistakes:
        errors = [outcome.error for outcome in exercise.outcomes(mistake.function)]
        assert None in errors or mistake.name == "k.T", mistake.name  # reversed axes fit in no case
        assert mistake.name in always or not any(errors) or exercise is lecture_06.multi_head_attention, mistake.name


@every_exercise
def test_no_listed_combination_is_right_by_accident(exercise):
    combinations_are_wrong(exercise)
