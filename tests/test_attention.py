"""Attention: NumPy against torch, masks, gradients, and what a softmax over nothing is."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils import attention as att
from course_utils.corpora import PAD

SCORES = {
    "additive": lambda d: att.AdditiveScore(d, d, d + 1),
    "dot": lambda d: att.DotScore(),
    "scaled": lambda d: att.ScaledDotScore(),
    "general": lambda d: att.GeneralScore(d, d),
}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2}


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def random_mask(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.6


def near(a, b, tolerance=1e-12):
    torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), atol=tolerance, rtol=0)


# By hand


@given(st.integers(0, 99), st.sampled_from([0, 1, 2, -1]))
@settings(max_examples=30, deadline=None)
def test_softmax_is_torchs_along_every_axis(seed, axis):
    x = normal(2, 3, 4, seed=seed) * 5
    near(att.softmax(x.numpy(), axis), torch.softmax(x, axis))


@pytest.mark.parametrize("level", [-1e4, -1000.0, 0.0, 1000.0, 1e6])
def test_softmax_depends_on_differences_alone_and_overflows_nowhere(level):
    x = np.array([[0.0, 1.0, 2.5], [0.0, 0.0, 0.0]])
    near(att.softmax(level + x), att.softmax(x))
    assert att.softmax(np.array([-1e300, 1e300])).tolist() == [0, 1]


def test_softmax_of_rows_on_very_different_levels():
    near(att.softmax(np.array([[1000.0, 1001.0], [-2000.0, -1999.0]])), att.softmax(np.array([[0.0, 1.0]] * 2)))


def test_softmax_of_float32_stays_float32():
    x = np.array([1.0, 2.0], dtype=np.float32)
    assert att.softmax(x).dtype == np.float32 and att.softmax(x, mask=np.array([True, False])).dtype == np.float32


@given(st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_masked_softmax_in_numpy_and_torch_is_the_softmax_of_what_is_allowed(seed):
    x, mask = normal(3, 4, 5, seed=seed) * 3, random_mask(3, 1, 5, seed=seed)
    by_hand, at_speed = att.softmax(x.numpy(), mask=mask.numpy()), att.masked_softmax(x, mask)
    for b in range(3):
        allowed, expected = mask[b, 0], torch.zeros(4, 5, dtype=torch.float64)
        expected[:, allowed] = torch.softmax(x[b][:, allowed], dim=-1)
        near(by_hand[b], expected)
        near(at_speed[b], expected)
    assert (at_speed[~mask.expand(3, 4, 5)] == 0).all()


def test_what_is_masked_can_have_any_score():
    mask = np.array([True, True, False])
    near(att.softmax(np.array([-800.0, -801.0, 900.0]), mask=mask)[:2], att.softmax(np.array([0.0, -1.0])))
    for wild in (1e30, torch.inf, torch.nan):
        scores = torch.tensor([[-800.0, -801.0, wild], [wild, wild, wild]], requires_grad=True)
        weights = att.masked_softmax(scores, torch.tensor([[True, True, False], [False, False, False]]))
        near(weights[0], torch.softmax(torch.tensor([0.0, -1.0, -torch.inf]), 0), 1e-6)
        assert (weights[1] == 0).all()
        (weights * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        assert scores.grad.isfinite().all() and (scores.grad[1] == 0).all() and scores.grad[0, 2] == 0


def test_a_row_that_may_attend_to_nothing_gets_zeros_and_no_gradient():
    x, mask = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[False, False], [True, True]])
    assert att.softmax(x, mask=mask)[0].tolist() == [0, 0]
    scores = torch.tensor(x, requires_grad=True)
    assert torch.softmax(scores.masked_fill(~torch.tensor(mask), -torch.inf), -1)[0].isnan().all()  # torch's own
    weights = att.masked_softmax(scores, torch.tensor(mask))
    assert weights[0].tolist() == [0, 0]
    (weights * torch.tensor([1.0, 5.0])).sum().backward()
    assert scores.grad[0].tolist() == [0, 0] and (scores.grad[1] != 0).all()


def test_no_nan_arises_on_the_way_back():
    scores = torch.zeros(2, 3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):  # complains of every NaN, also of one that is multiplied by 0
        att.masked_softmax(scores, torch.tensor([[True, False, True], [False] * 3])).sum().backward()


def test_gradient_of_the_masked_softmax():
    mask = torch.tensor([[[True, True, False, True]], [[False] * 4], [[True] * 4]])
    scores = normal(3, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: att.masked_softmax(s, mask), scores)
    assert torch.autograd.gradcheck(att.masked_softmax, scores)


def test_additive_scores_are_the_formula_entry_by_entry():
    query, keys, W, U, v = (normal(*s, seed=i).numpy() for i, s in enumerate([(3,), (5, 4), (2, 3), (2, 4), (2,)]))
    for j, e in enumerate(att.additive_scores(query, keys, W, U, v)):
        expected = sum(v[a] * math.tanh(W[a] @ query + U[a] @ keys[j]) for a in range(2))
        assert e == pytest.approx(expected, abs=1e-12)


def test_additive_attention_by_hand_equals_the_module():
    module = att.AdditiveScore(3, 4, 2).double()
    queries, keys = normal(1, 2, 3, seed=1), normal(1, 5, 4, seed=2)
    mask = torch.tensor([[[True, False, True, True, False]]])
    weights = att.masked_softmax(module(queries, module.project(keys)), mask)  # (1, 2, 5)
    weights_of_module = [p.detach().numpy() for p in (module.W.weight, module.U.weight, module.v)]
    for t in range(2):
        context, by_hand = att.additive_attention(
            queries[0, t].numpy(), keys[0].numpy(), *weights_of_module, mask[0, 0].numpy()
        )
        near(by_hand, weights[0, t].detach())
        near(context, (weights @ keys)[0, t].detach())
        assert by_hand.sum() == pytest.approx(1) and (by_hand[[1, 4]] == 0).all()
    context, by_hand = att.additive_attention(
        queries[0, 0].numpy(), keys[0].numpy(), *weights_of_module, np.zeros(5, dtype=bool)
    )
    assert not context.any() and not by_hand.any()


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_dot_product_attention_by_hand_equals_torch(T, S, K, d_v, masked):
    q, k, v = normal(T, K, seed=1), normal(S, K, seed=2), normal(S, d_v, seed=3)
    mask = random_mask(T, S, seed=T + S) if masked else None
    output, weights = att.dot_product_attention(*(x.numpy() for x in (q, k, v)), None if mask is None else mask.numpy())
    for need_weights in (True, False):
        found, found_weights = att.scaled_dot_product_attention(q, k, v, mask, need_weights)
        near(output, found)
        if need_weights:
            near(weights, found_weights)
    unscaled = att.dot_product_attention(*(x.numpy() for x in (q * math.sqrt(K), k, v)), scale=1 / K)
    near(unscaled[0], att.dot_product_attention(*(x.numpy() for x in (q, k, v)))[0])


# Masks


def test_padding_mask_is_true_for_real_tokens():
    ids = torch.tensor([[5, 6, PAD], [7, PAD, PAD]])
    assert att.padding_mask(ids).tolist() == [[[True, True, False]], [[True, False, False]]]


def test_causal_mask_lets_a_token_see_itself_and_what_was_before():
    assert att.causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert att.causal_mask(1).tolist() == [[True]]


def test_changing_what_is_hidden_changes_nothing():
    q, k, v = normal(2, 5, 3, seed=1), normal(2, 5, 3, seed=2), normal(2, 5, 4, seed=3)
    mask = att.causal_mask(5) & att.padding_mask(torch.tensor([[4, 4, 4, 4, PAD], [4, 4, 4, PAD, PAD]]))
    for need_weights in (True, False):
        before, _ = att.scaled_dot_product_attention(q, k, v, mask, need_weights)
        for t in range(5):  # all that token t must not see
            hidden = ~mask[:, t, :, None]
            changed = [torch.where(hidden, 100.0, x) for x in (k, v)]
            after, _ = att.scaled_dot_product_attention(q, *changed, mask, need_weights)
            near(after[:, t], before[:, t])
            if t < 2:  # later ones hide nothing but pads, which no token sees
                assert not torch.allclose(after, before)


# Scaled dot-product attention against torch's fused function

SHAPES = [  # q, k, v, masks
    ((3, 4), (5, 4), (5, 6), [(3, 5), (1, 5), (5,), (3, 1)]),
    ((2, 3, 4), (2, 5, 4), (2, 5, 6), [(2, 3, 5), (2, 1, 5), (3, 5)]),
    ((3, 4), (2, 5, 4), (2, 5, 6), [(2, 1, 5), (3, 5)]),
    ((2, 3, 4), (5, 4), (5, 6), [(2, 1, 5)]),
    ((2, 1, 3, 4), (2, 6, 5, 4), (2, 6, 5, 4), [(2, 1, 1, 5), (2, 6, 3, 5), (3, 5)]),
    ((2, 6, 3, 4), (1, 6, 5, 4), (6, 5, 4), [(2, 1, 1, 5)]),
]
CASES = [(*shapes, mask) for *shapes, masks in SHAPES for mask in (None, *masks)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("q", "k", "v", "mask"), CASES)
def test_both_paths_equal_torchs_function_over_shapes_masks_and_dtypes(q, k, v, mask, dtype):
    q, k, v = (normal(*shape, seed=i, dtype=dtype) for i, shape in enumerate((q, k, v)))
    mask = None if mask is None else random_mask(*mask, seed=3)
    expected = F.scaled_dot_product_attention(
        *(x.double() for x in (q, k, v)), attn_mask=None if mask is None else torch.atleast_2d(mask)
    ).nan_to_num(0.0)
    fused, none = att.scaled_dot_product_attention(q, k, v, mask)
    output, weights = att.scaled_dot_product_attention(q, k, v, mask, need_weights=True)
    assert none is None and fused.dtype == output.dtype == weights.dtype == dtype
    assert fused.shape == output.shape == expected.shape and weights.shape == (*expected.shape[:-1], k.shape[-2])
    for found in (fused, output):
        near(found.double(), expected, TOLERANCE[dtype])
    sums = weights.double().sum(dim=-1)
    near(sums, (1.0 if mask is None else mask.any(dim=-1).double()) * torch.ones_like(sums), TOLERANCE[dtype])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("shape", [(), (2,), (2, 1)])
def test_gradients_are_right_also_where_nothing_may_be_attended_to(shape, need_weights):
    q, k, v = (normal(*shape, n, 3, seed=n).requires_grad_() for n in (2, 4, 4))
    mask = torch.tensor([[True, True, False, True], [False] * 4])

    def attend(q, k, v):
        return att.scaled_dot_product_attention(q, k, v, mask, need_weights)[0]

    assert torch.autograd.gradcheck(attend, (q, k, v))
    output = attend(q, k, v)
    assert (output[..., 1, :] == 0).all()
    output.sum().backward()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
    assert (q.grad[..., 1, :] == 0).all() and (k.grad[..., 2, :] == 0).all() and (v.grad[..., 2, :] == 0).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("need_weights", [True, False])
def test_a_version_of_torch_that_gives_nan_changes_nothing(monkeypatch, dtype, need_weights):
    plain = F.scaled_dot_product_attention

    def old(q, k, v, attn_mask=None):  # softmax over a row of -inf
        output = plain(q, k, v, attn_mask=attn_mask)
        return output if attn_mask is None else output / attn_mask.any(dim=-1, keepdim=True)

    monkeypatch.setattr(att.F, "scaled_dot_product_attention", old)
    q, k, v = (normal(2, n, 4, seed=n, dtype=dtype) for n in (3, 5, 5))
    assert old(q, k, v, torch.zeros(3, 5, dtype=torch.bool)).isnan().all()
    output, _ = att.scaled_dot_product_attention(q, k, v, torch.tensor([[True], [False], [True]]), need_weights)
    assert (output[:, 1] == 0).all() and output.isfinite().all() and (output[:, 0] != 0).any()


def test_weights_are_computed_only_on_request(monkeypatch):
    q, k, v = (normal(2, n, 4, seed=n) for n in (3, 5, 5))

    def refuse(*arguments):
        raise AssertionError("not to be called")

    monkeypatch.setattr(att, "masked_softmax", refuse)
    att.scaled_dot_product_attention(q, k, v, random_mask(3, 5))
    monkeypatch.undo()
    monkeypatch.setattr(att.F, "scaled_dot_product_attention", refuse)
    att.scaled_dot_product_attention(q, k, v, random_mask(3, 5), need_weights=True)


def test_three_dimensions_reach_the_fast_kernel_as_one_head(monkeypatch):
    plain, seen = F.scaled_dot_product_attention, []

    def watch(q, k, v, attn_mask=None):
        seen.append((q.dim(), k.dim(), v.dim(), attn_mask.dim()))
        return plain(q, k, v, attn_mask=attn_mask)

    monkeypatch.setattr(att.F, "scaled_dot_product_attention", watch)
    att.scaled_dot_product_attention(normal(3, 4), normal(2, 5, 4), normal(2, 5, 4), random_mask(2, 1, 5))
    assert seen == [(4, 4, 4, 4)]


# Symmetries


@given(st.permutations(range(5)), st.booleans())
@settings(max_examples=20, deadline=None)
def test_self_attention_without_positions_is_permutation_equivariant(order, need_weights):
    x, W = normal(5, 4, seed=1), [normal(4, 4, seed=i) for i in (2, 3, 4)]

    def attend(x):
        return att.scaled_dot_product_attention(*(x @ w for w in W), need_weights=need_weights)[0]

    near(attend(x[order]), attend(x)[order])
    near(attend(x[order]).mean(dim=0), attend(x).mean(dim=0))  # and pooling what comes out is invariant
    if list(order) != sorted(order):
        assert not torch.allclose(attend(x[order]), attend(x))  # it is not invariant


@pytest.mark.parametrize("name", SCORES)
def test_a_score_compares_a_query_with_its_key_alone(name):
    score = SCORES[name](3).double()
    queries, keys = normal(2, 4, 3, seed=1), normal(2, 5, 3, seed=2)
    scores = score(queries, score.project(keys))
    assert scores.shape == (2, 4, 5)
    for t in range(4):
        near(score(queries[:, t : t + 1], score.project(keys))[:, 0].detach(), scores[:, t].detach())
    order = torch.tensor([3, 1, 4, 0, 2])
    near(score(queries, score.project(keys[:, order])).detach(), scores[..., order].detach())
    for b, t, j in ((0, 0, 0), (1, 3, 4), (0, 2, 3)):
        q, h = queries[b, t], keys[b, j]
        expected = {
            "additive": lambda: score.v @ torch.tanh(score.W.weight @ q + score.U.weight @ h),  # noqa: B023
            "dot": lambda: q @ h,  # noqa: B023
            "scaled": lambda: q @ h / math.sqrt(3),  # noqa: B023
            "general": lambda: q @ score.W.weight @ h,  # noqa: B023
        }[name]()
        near(scores[b, t, j].detach(), expected.detach())


def test_queries_and_keys_of_unequal_width():
    queries, keys = normal(2, 4, 3), normal(2, 5, 6)
    for score in (att.AdditiveScore(3, 6, 7).double(), att.GeneralScore(3, 6).double()):
        assert score(queries, score.project(keys)).shape == (2, 4, 5)
    near(score(queries, score.project(keys)).detach(), (queries @ score.W.weight @ keys.mT).detach())


@pytest.mark.parametrize("name", SCORES)
def test_gradients_of_the_scores(name):
    score = SCORES[name](3).double()
    queries, keys = normal(2, 2, 3, seed=1).requires_grad_(), normal(2, 4, 3, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, h: score(q, score.project(h)), (queries, keys))


# Bad input

Q, K, V = normal(3, 4), normal(5, 4), normal(5, 6)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Q.long(), K, V), "q: expected dtype float"),
        ((Q[0], K, V), "q: expected shape"),
        ((Q, K[:, :3], V), r"k: expected shape \(..., S, K\) = \(..., 5, 4\), got \(5, 3\)"),
        ((Q, K, V[:4]), r"v: expected shape \(..., S, d_v\) = \(..., 5, d_v\), got \(4, 6\)"),
        ((Q, K.float(), V), "k: expected the dtype of q, torch.float64, got torch.float32"),
        ((normal(2, 3, 4), normal(3, 5, 4), V), "q, k, v: expected leading dimensions that broadcast"),
        ((Q, K, V, torch.ones(3, 5)), "mask: expected dtype bool"),
        ((Q, K, V, random_mask(5, 3)), r"mask: expected a shape that broadcasts to \(3, 5\), got \(5, 3\)"),
        ((Q, K, V, random_mask(2, 3, 5)), r"mask: expected a shape that broadcasts to \(3, 5\), got \(2, 3, 5\)"),
        ((Q, K, V, [[True]]), "mask: expected an array, got list"),
    ],
)
def test_attention_refuses(arguments, message, need_weights):
    with pytest.raises(ValueError, match=f"^{message}"):
        att.scaled_dot_product_attention(*arguments, need_weights=need_weights)


N = {name: normal(*shape).numpy() for name, shape in {"q": (3,), "h": (5, 4), "W": (2, 3), "U": (2, 4)}.items()}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: att.softmax(np.array([1, 2])), "x: expected dtype float"),
        (lambda: att.softmax([1.0, 2.0]), "x: expected an array, got list"),
        (lambda: att.softmax(np.array([1.0, np.nan])), "x: expected finite values"),
        (lambda: att.softmax(np.ones(2), mask=np.ones(2)), "mask: expected dtype bool"),
        (lambda: att.softmax(np.ones(2), mask=np.ones(3, dtype=bool)), "mask: expected a shape that broadcasts"),
        (lambda: att.masked_softmax(Q, random_mask(4, 4)), "mask: expected a shape that broadcasts"),
        (lambda: att.masked_softmax(Q.long()), "scores: expected dtype float"),
        (lambda: att.additive_scores(*N.values(), np.ones(3)), r"v: expected shape \(d_a,\) = \(2,\), got \(3,\)"),
        (lambda: att.additive_scores(N["q"], N["h"], N["W"].T, N["U"], np.ones(2)), "W: expected shape"),
        (lambda: att.additive_attention(*N.values(), np.ones(2), np.ones(4, dtype=bool)), "mask: expected shape"),
        (lambda: att.dot_product_attention(Q.numpy(), K.numpy().T, V.numpy()), "k: expected shape"),
        (lambda: att.dot_product_attention(Q.numpy(), K.numpy(), V.numpy(), np.ones((3, 5))), "mask: expected dtype"),
        (lambda: att.dot_product_attention(Q.numpy(), K.numpy(), V.numpy(), scale=math.inf), "scale: expected"),
        (lambda: att.padding_mask(torch.ones(3).long()), "ids: expected shape"),
        (lambda: att.padding_mask(torch.ones(3, 2)), "ids: expected dtype int"),
        (lambda: att.causal_mask(0), "T: expected an integer"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
