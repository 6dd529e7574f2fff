"""Multi-head attention against torch's, the sum over its heads, and heads that are switched off."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_utils.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads
from course_utils.transformer import without_heads

B, T, S, D, H = 2, 4, 5, 6, 3


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(d_model=D, n_heads=H, bias=True, seed=0):
    torch.manual_seed(seed)
    module = MultiHeadAttention(d_model, n_heads, bias).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)  # the biases, too
    return module


def names(ours):
    """Our parameters under the names that torch gives them."""
    p = dict(ours.named_parameters())
    theirs = {"in_proj_weight": "qkv.weight", "out_proj.weight": "out.weight"}
    if ours.qkv.bias is not None:
        theirs |= {"in_proj_bias": "qkv.bias", "out_proj.bias": "out.bias"}
    return {name: p[own] for name, own in theirs.items()}


def torchs(ours):
    """Torch's layer with our weights."""
    bias = ours.qkv.bias is not None
    theirs = nn.MultiheadAttention(ours.d_model, ours.n_heads, bias=bias, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(names(ours))
    return theirs


def near(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


def masks(kind, keys):
    """A mask of ours and torch's arguments, whose True means the opposite; no query is left without a key."""
    causal = torch.ones(T, keys, dtype=torch.bool).tril()
    real = torch.arange(keys) < torch.tensor([[keys], [keys - 2]])  # (B, S)
    per_head = torch.rand(B, H, T, keys, generator=torch.Generator().manual_seed(7)) < 0.5
    per_head[..., 0] = True
    return {
        "none": (None, {}),
        "causal": (causal, {"attn_mask": ~causal}),
        "padding": (real[:, None, None], {"key_padding_mask": ~real}),
        "both": (causal & real[:, None, None], {"attn_mask": ~causal, "key_padding_mask": ~real}),
        "per head": (per_head, {"attn_mask": ~per_head.flatten(0, 1)}),
        "all": (
            per_head & causal & real[:, None, None],
            {"attn_mask": ~(per_head & causal).flatten(0, 1), "key_padding_mask": ~real},
        ),
    }[kind]


KINDS = ("none", "causal", "padding", "both", "per head", "all")


# Heads


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_a_head_has_its_own_piece_of_every_token_and_merging_undoes_splitting(rows, tokens, heads, width):
    x = normal(rows, tokens, heads * width)
    pieces = split_heads(x, heads)
    assert pieces.shape == (rows, heads, tokens, width)
    for h in range(heads):
        assert torch.equal(pieces[:, h], x[:, :, h * width : (h + 1) * width])
    assert pieces.data_ptr() == x.data_ptr()  # a view
    assert torch.equal(merge_heads(pieces), x)


# Against torch


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_values_weights_and_gradients_are_torchs(kind, cross, need_weights):
    ours = make()
    theirs, keys = torchs(ours), S if cross else T
    mask, arguments = masks(kind, keys)
    inputs = [normal(B, T, D, seed=1), normal(B, S, D, seed=2)][: 1 + cross]
    found, results = {}, {}
    for name in ("ours", "theirs"):
        x = [tensor.clone().requires_grad_() for tensor in inputs]
        if name == "ours":
            output, weights = ours(*x, mask=mask, need_weights=need_weights)
        else:
            output, weights = theirs(x[0], x[-1], x[-1], average_attn_weights=False, **arguments)
        results[name] = output, weights
        parameters = names(ours) if name == "ours" else dict(theirs.named_parameters())
        loss = (output * normal(B, T, D, seed=3)).sum()
        gradients = torch.autograd.grad(loss, [*x, *parameters.values()])
        found[name] = dict(zip([*range(len(x)), *parameters], gradients, strict=True))
    near(results["ours"][0], results["theirs"][0])
    if need_weights:
        near(results["ours"][1], results["theirs"][1])
    else:
        assert results["ours"][1] is None
    assert found["ours"].keys() == found["theirs"].keys()
    for name, gradient in found["theirs"].items():
        near(found["ours"][name], gradient)
        assert gradient.abs().sum() > 0


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.booleans())
@settings(max_examples=25, deadline=None)
def test_every_size_is_torchs(heads, width, queries, keys, bias):
    ours = make(heads * width, heads, bias)
    x, memory = normal(2, queries, heads * width, seed=1), normal(2, keys, heads * width, seed=2)
    output, weights = ours(x, memory, need_weights=True)
    expected, expected_weights = torchs(ours)(x, memory, memory, average_attn_weights=False)
    near(output, expected)
    near(weights, expected_weights)
    assert weights.shape == (2, heads, queries, keys)


def test_weights_can_be_taken_from_torchs_layer():
    theirs, ours = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64), make(seed=1)
    nn.init.normal_(theirs.in_proj_bias)
    state = {name.replace("in_proj_", "qkv.").replace("out_proj", "out"): w for name, w in theirs.state_dict().items()}
    ours.load_state_dict(state)
    x = normal(B, T, D)
    near(ours(x)[0], theirs(x, x, x)[0])


def test_the_two_say_true_for_the_opposite():
    """One mask, handed to both: ours lets a token see the past, torch's the future."""
    ours, x, mask = make(), normal(B, T, D), torch.ones(T, T, dtype=torch.bool).tril()
    _, weights = ours(x, mask=mask, need_weights=True)
    _, upside_down = torchs(ours)(x, x, x, attn_mask=mask.clone().fill_diagonal_(False))
    assert (weights[:, :, ~mask] == 0).all() and (weights[:, :, mask] > 0).all()
    assert (upside_down[:, mask.clone().fill_diagonal_(False)] == 0).all() and upside_down[:, 0, -1].min() > 0


# What it is made of


def test_the_output_is_the_sum_of_what_each_head_writes():
    module, K = make(), D // H
    x, memory = normal(B, T, D, seed=1), normal(B, S, D, seed=2)
    (W_Q, W_K, W_V), (b_Q, b_K, b_V) = (w.chunk(3) for w in (module.qkv.weight, module.qkv.bias))
    mask = masks("per head", S)[0]
    total = module.out.bias
    for h in range(H):
        own = slice(h * K, (h + 1) * K)
        q, k, v = (
            tokens @ W[own].T + b[own] for tokens, W, b in ((x, W_Q, b_Q), (memory, W_K, b_K), (memory, W_V, b_V))
        )
        scores = (q @ k.mT / math.sqrt(K)).masked_fill(~mask[:, h], -math.inf)
        total = total + torch.softmax(scores, dim=-1) @ v @ module.out.weight[:, own].T
    near(module(x, memory, mask=mask)[0], total)


def test_one_product_serves_self_attention_and_the_parts_are_the_whole():
    module, calls = make(), []
    module.qkv.register_forward_hook(lambda layer, _, output: calls.append(output.shape))
    x, memory = normal(B, T, D, seed=1), normal(B, S, D, seed=2)
    q, k, v = module.project(x)
    assert calls == [(B, T, 3 * D)]
    for part, whole in zip((module.queries(x), *module.keys_values(x)), (q, k, v), strict=True):
        near(part, whole)
    near(module.attend(q, k, v)[0], module(x)[0])
    near(module(x, x)[0], module(x)[0])
    near(module.attend(q, *module.keys_values(memory))[0], module(x, memory)[0])
    near(module.attend(q, k, v)[0], module.out(merge_heads(scaled_dot_product_attention(q, k, v)[0])))


def test_each_matrix_starts_as_one_of_its_own_size():
    torch.manual_seed(0)
    module, bound = MultiHeadAttention(64, 4), math.sqrt(6 / 128)
    for W in (*module.qkv.weight.chunk(3), module.out.weight):
        assert 0.95 * bound < W.abs().max() <= bound


# Heads that are switched off


@pytest.mark.parametrize("off", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_a_head_mask_does_what_without_heads_does(off):
    module, x, memory = make(), normal(B, T, D, seed=1), normal(B, S, D, seed=2)
    on = torch.tensor([float(h not in off) for h in range(H)], dtype=torch.float64)
    output, weights = module(x, memory, head_mask=on, need_weights=True)
    with without_heads((module, h) for h in off):
        expected, same_weights = module(x, memory, need_weights=True)
    near(output, expected)
    near(weights, same_weights)  # the head still looks; nobody listens
    assert not torch.allclose(output, module(x, memory)[0])
    if len(off) == H:
        near(output, module.out.bias.expand_as(output))


def test_each_row_may_have_heads_of_its_own():
    module, x = make(), normal(B, T, D)
    factors = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 1.0]], dtype=torch.float64)
    output, _ = module(x, head_mask=factors)
    for row in range(B):
        near(output[row], module(x[row : row + 1], head_mask=factors[row])[0][0])
    near(module(x, head_mask=torch.ones(H).double())[0], module(x)[0])


# Nothing to look at


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_without_keys_gets_the_bias_and_gives_no_gradient(need_weights):
    module = make()
    x, memory = normal(B, T, D, seed=1).requires_grad_(), normal(B, S, D, seed=2).requires_grad_()
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[0, :, 1] = False  # one query of the first row, and all of the second
    mask[1] = False
    output, weights = module(x, memory, mask=mask, need_weights=need_weights)
    near(output[0, 1], module.out.bias)
    near(output[1], module.out.bias.expand(T, D))
    assert not need_weights or ((weights[1] == 0).all() and (weights[0, :, 1] == 0).all())
    with torch.autograd.set_detect_anomaly(True):  # complains of every NaN on the way
        (output * normal(B, T, D, seed=3)).sum().backward()
    for gradient in (x.grad, memory.grad, *(p.grad for p in module.parameters())):
        assert gradient.isfinite().all()
    assert (x.grad[0, 1] == 0).all() and (x.grad[1] == 0).all() and (memory.grad[1] == 0).all()
    assert (x.grad[0, 0] != 0).any() and (memory.grad[0] != 0).any()


@pytest.mark.parametrize("need_weights", [True, False])
def test_gradients_are_those_of_small_changes(need_weights):
    module, mask = make(), masks("per head", S)[0].clone()
    mask[1, 2, 3] = False
    x, memory = normal(B, T, D, seed=1).requires_grad_(), normal(B, S, D, seed=2).requires_grad_()
    head_mask = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64)

    def attend(x, memory):
        return module(x, memory, mask=mask, need_weights=need_weights, head_mask=head_mask)[0]

    assert torch.autograd.gradcheck(attend, (x, memory))


# Bad input

X = normal(B, T, D)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MultiHeadAttention(6, 4), "n_heads: expected a divisor of the width 6, got 4"),
        (lambda: MultiHeadAttention(0, 1), "d_model: expected an integer"),
        (lambda: MultiHeadAttention(6, 0), "n_heads: expected an integer"),
        (lambda: MultiHeadAttention(6, 2.0), "n_heads: expected an integer"),
        (lambda: split_heads(X, 4), "n_heads: expected a divisor of the width 6, got 4"),
        (lambda: split_heads(X[0], 3), r"x: expected shape \(B, T, D\), got \(4, 6\)"),
        (lambda: merge_heads(X), r"x: expected shape \(B, H, T, K\), got \(2, 4, 6\)"),
        (lambda: make()(X[..., :5]), r"x: expected shape \(B, T, D\) = \(2, 4, 6\), got \(2, 4, 5\)"),
        (lambda: make()(X[0]), "x: expected shape"),
        (lambda: make()(X.long()), "x: expected dtype float"),
        (lambda: make()(X[..., :5], X), "x: expected shape"),
        (lambda: make()(X, X[..., :5]), r"memory: expected shape \(B, S, D\) = \(2, 4, 6\), got \(2, 4, 5\)"),
        (lambda: make()(X, normal(3, S, D)), "q, k, v: expected leading dimensions that broadcast"),
        (
            lambda: make()(X, mask=torch.ones(B, T, T, dtype=torch.bool)),
            r"mask: expected \(T, S\), or four dim.*2, 4, 4",
        ),
        (lambda: make()(X, mask=torch.ones(T, dtype=torch.bool)), r"mask: expected \(T, S\), or four"),
        (lambda: make()(X, mask=torch.ones(T, S, dtype=torch.bool)), "mask: expected a shape that broadcasts"),
        (lambda: make()(X, mask=torch.ones(T, T)), "mask: expected dtype bool"),
        (lambda: make()(X, head_mask=torch.ones(2)), r"head_mask: expected shape \(H,\) = \(3,\), got \(2,\)"),
        (lambda: make()(X, head_mask=torch.ones(5, H)), r"head_mask: expected shape \(B, H\) = \(2, 3\), got \(5, 3\)"),
        (lambda: make()(X[:1], head_mask=torch.ones(5, H)), "head_mask: expected shape"),
        (lambda: make()(X, head_mask=torch.ones(H).bool()), "head_mask: expected dtype float"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
