"""What a transformer is made of: dropout by its odds, blocks against torch's layers, embeddings and their places."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils.corpora import PAD
from course_utils.positions import sinusoidal_positions
from course_utils.transformer_blocks import (
    NORMS,
    POSITIONS,
    DecoderBlock,
    Dropout,
    Embedding,
    EncoderBlock,
    FeedForward,
    KeyValues,
    Residual,
    SelfAttention,
)
from torch_blocks import parameters, torchs_layer

B, T, S, D, H, WIDE = 2, 4, 5, 8, 2, 12
SIGMAS = 5


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def randomized(module):
    """With weights so large that every input makes a difference; norms and biases, too."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.double()


def near(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


CAUSAL = torch.ones(T, T, dtype=torch.bool).tril()
REAL = torch.arange(S) < torch.tensor([[S], [S - 2]])  # (B, S)


# Dropout


def dropped(p, n, seed=0, call=None):
    """Which of n numbers become 0."""
    torch.manual_seed(seed)
    return (call or Dropout(p))(torch.ones(n)) == 0


def expect_rate(zeros, rate):
    sigma = math.sqrt(rate * (1 - rate) / zeros.numel())
    assert zeros.double().mean().item() == pytest.approx(rate, abs=SIGMAS * sigma)


@pytest.mark.parametrize("p", [1 / 256, 0.1, 0.25, 0.5, 0.9, 255 / 256])
def test_dropout_zeroes_the_share_of_its_rounded_p_and_scales_the_rest(p):
    rate = round(256 * p) / 256
    assert abs(rate - p) <= 1 / 512
    zeros = dropped(p, 100_000)
    expect_rate(zeros, rate)
    torch.manual_seed(0)
    x = torch.randn(100_000, generator=torch.Generator().manual_seed(1))
    near(Dropout(p)(x), torch.where(zeros, 0, x / (1 - rate)), 1e-5 / (1 - rate))


def test_dropout_keeps_the_expectation_and_is_as_scattered_as_torchs():
    x, n, rate = torch.tensor([3.0, -1.0, 0.5]), 100_000, 0.25  # a rate that needs no rounding
    torch.manual_seed(0)
    for y in (Dropout(rate)(x.expand(n, 3)), F.dropout(x.expand(n, 3), rate)):
        sigma = x.abs() * math.sqrt(rate / (1 - rate))
        assert ((y.mean(dim=0) - x).abs() < SIGMAS * sigma / math.sqrt(n)).all()
        torch.testing.assert_close(y.std(dim=0), sigma, rtol=0.02, atol=0)


def test_each_of_the_eight_bytes_of_a_draw_decides_alike_and_alone():
    zeros = dropped(0.3, 8 * 40_000).view(-1, 8).double()  # rows of one 64-bit draw each
    rate = round(256 * 0.3) / 256
    sigma = math.sqrt(rate * (1 - rate) / len(zeros))
    assert (zeros.mean(dim=0) - rate).abs().max() < SIGMAS * sigma
    together = (zeros.mT @ zeros / len(zeros)).fill_diagonal_(rate**2)  # how often two of them are both dropped
    assert (together - rate**2).abs().max() < SIGMAS * math.sqrt(rate**2 * (1 - rate**2) / len(zeros))
    expect_rate((zeros[1:] * zeros[:-1]), rate**2)  # neither do draws that follow one another agree


def test_torchs_own_dropout_has_no_part_in_it(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("not to be called")

    for place, name in ((F, "dropout"), (torch, "dropout"), (torch, "bernoulli"), (torch.Tensor, "bernoulli_")):
        monkeypatch.setattr(place, name, refuse)
    expect_rate(dropped(0.5, 10_000), 0.5)


def test_a_seed_repeats_the_draws_and_calls_differ():
    assert torch.equal(dropped(0.5, 999), dropped(0.5, 999))
    assert not torch.equal(dropped(0.5, 999), dropped(0.5, 999, seed=1))
    layer = Dropout(0.5)
    assert not torch.equal(layer(torch.ones(999)), layer(torch.ones(999)))


def test_dropout_does_nothing_in_eval_mode_or_with_p_0_and_draws_nothing():
    x, state = normal(3, 4), torch.random.get_rng_state()
    for layer in (Dropout(0.5).eval(), Dropout(0.0), Dropout(1e-3)):  # the last rounds to 0
        assert layer(x) is x
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5, 2), (2, 8)])
def test_dropout_takes_every_shape_and_order_in_memory(shape):
    torch.manual_seed(0)
    x = normal(*shape).mT if len(shape) > 1 else normal(*shape)
    y = Dropout(0.5)(x)
    assert y.shape == x.shape and y.dtype == x.dtype and ((y == 0) | (y == 2 * x)).all()


def test_the_gradient_passes_where_the_numbers_do():
    torch.manual_seed(0)
    x = normal(100).requires_grad_()
    y = Dropout(0.25)(x)
    y.sum().backward()
    near(x.grad, (y != 0).double() * (4 / 3))


def test_no_p_below_1_drops_everything():
    assert dropped(0.9999, 10_000).double().mean() < 1


# Blocks against torch


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["all", "causal", "padding", "both"])
def test_an_encoder_block_is_torchs_layer(norm, kind):
    ours = randomized(EncoderBlock(D, H, WIDE, 0.0, norm))
    theirs = torchs_layer(ours, norm)
    real = REAL[:, :T]
    mask = {"all": None, "causal": CAUSAL, "padding": real[:, None, None], "both": CAUSAL & real[:, None, None]}[kind]
    arguments = {"src_mask": ~CAUSAL} if kind in ("causal", "both") else {}
    arguments |= {"src_key_padding_mask": ~real} if kind in ("padding", "both") else {}
    x = normal(B, T, D)
    compare(ours, theirs, lambda x: ours(x, mask)[0], lambda x: theirs(x, **arguments), [x])


@pytest.mark.parametrize("norm", NORMS)
def test_a_decoder_block_is_torchs_layer(norm):
    ours = randomized(DecoderBlock(D, H, WIDE, 0.0, norm))
    theirs = torchs_layer(ours, norm)

    def our_block(x, memory):
        return ours(x, CAUSAL, None, KeyValues(*ours.cross.keys_values(memory)), REAL[:, None, None])[0]

    def their_block(x, memory):
        return theirs(x, memory, tgt_mask=~CAUSAL, memory_key_padding_mask=~REAL)

    compare(ours, theirs, our_block, their_block, [normal(B, T, D, seed=1), normal(B, S, D, seed=2)])


def compare(ours, theirs, our_block, their_block, inputs):
    """Outputs, and gradients of all inputs and all parameters."""
    cotangent, found = normal(B, T, D, seed=9), []
    for call, weights in ((our_block, parameters(ours)), (their_block, dict(theirs.named_parameters()))):
        x = [tensor.clone().requires_grad_() for tensor in inputs]
        output = call(*x)
        names = sorted(weights)
        gradients = torch.autograd.grad((output * cotangent).sum(), [*x, *(weights[name] for name in names)])
        found.append([output, *gradients])
    assert names == sorted(parameters(ours))
    for a, b in zip(*found, strict=True):
        near(a, b, 1e-10)
        assert b.abs().sum() > 0


def test_what_lies_around_a_sublayer():
    x, y = normal(B, T, D, seed=1), normal(B, T, D, seed=2)
    for norm in NORMS:
        around = randomized(Residual(D, 0.0, norm))
        assert torch.equal(around.read(x), around.norm(x) if norm == "pre" else x)
        near(around.add(x, y), x + y if norm == "pre" else around.norm(x + y))


def test_a_feed_forward_network_changes_each_token_on_its_own():
    layer, x = randomized(FeedForward(D, WIDE)), normal(B, T, D)
    (W_1, b_1), (W_2, b_2) = ((layer[i].weight, layer[i].bias) for i in (0, 2))
    near(layer(x), (x @ W_1.T + b_1).clamp(min=0) @ W_2.T + b_2)
    near(layer(x[:, 2:3]), layer(x)[:, 2:3])


@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
@pytest.mark.parametrize("norm", NORMS)
def test_dropout_is_on_what_each_sublayer_adds(kind, norm, monkeypatch):
    seen = []
    monkeypatch.setattr(Dropout, "forward", lambda self, x: (seen.append(self), 0 * x)[1])
    block, x = randomized(kind(D, H, WIDE, 0.5, norm)), normal(B, T, D)
    memory = () if kind is EncoderBlock else (KeyValues(normal(B, H, S, 4), normal(B, H, S, 4)), REAL[:, None, None])
    output = block(x, CAUSAL, None, *memory)[0]
    expected = x
    if norm == "post":
        for around in residuals(block):
            expected = around.norm(expected)
    near(output, expected)  # with all of it dropped, x goes past the block, but for the norms
    assert seen == [around.dropout for around in residuals(block)]


def residuals(block):
    names = ("around_attention", "around_cross", "around_feed_forward")
    return [getattr(block, name) for name in names if hasattr(block, name)]


# The cache of a block


@pytest.mark.parametrize("positions", ["none", "rotary", "alibi"])
def test_tokens_that_come_later_look_at_those_before_them(positions):
    attention, x = randomized(SelfAttention(D, H, positions)), normal(B, T, D)
    whole, all_tokens, weights = attention.look(x, CAUSAL, None, need_weights=True)
    first, past, _ = attention.look(x[:, :3], CAUSAL[:3, :3], None)
    last, present, last_weights = attention.look(x[:, 3:], None, past, need_weights=True)
    near(torch.cat([first, last], dim=1), whole)
    near(last_weights, weights[:, :, 3:])
    for part, other in zip(present, all_tokens, strict=True):
        near(part, other)
    assert past.v.shape == (B, H, 3, D // H) and present.v.shape == (B, H, T, D // H)


def test_rotary_attention_sees_distances_and_no_places():
    """What tokens see of one another stays the same when all of them stand three places later."""
    attention, x = randomized(SelfAttention(D, H, "rotary")), normal(B, T, D)
    alone = attention.look(x, CAUSAL, None)[0]
    later = attention.look(torch.cat([normal(B, 3, D, seed=5), x], dim=1), F.pad(CAUSAL, (3, 0, 3, 0)), None)[0][:, 3:]
    near(later, alone, 1e-10)
    order = [1, 0, 2, 3]
    assert not torch.allclose(attention.look(x[:, order], None, None)[0], attention.look(x, None, None)[0][:, order])
    attention.positions = "none"  # without, tokens are a set
    near(attention.look(x[:, order], None, None)[0], attention.look(x, None, None)[0][:, order])


def test_entries_of_a_cache_are_appended_and_selected():
    k, v = normal(3, H, 2, 4, seed=1), normal(3, H, 2, 4, seed=2)
    cache = KeyValues(k[:, :, :1], v[:, :, :1]).append(k[:, :, 1:], v[:, :, 1:])
    assert torch.equal(cache.k, k) and torch.equal(cache.v, v)
    chosen = cache.select(torch.tensor([2, 0, 0, 1]))
    assert torch.equal(chosen.k, k[[2, 0, 0, 1]]) and torch.equal(chosen.v, v[[2, 0, 0, 1]])


# Embeddings


def embedding(positions, max_len=10, dropout=0.0):
    torch.manual_seed(0)
    return Embedding(9, D, positions, max_len, dropout)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_vector_is_that_of_the_token_times_root_d_plus_that_of_its_place(positions):
    layer, ids = embedding(positions), torch.tensor([[4, 5, PAD], [6, 4, 7]])
    expected = layer.tokens.weight[ids] * math.sqrt(D)
    table = {"sinusoidal": sinusoidal_positions(10, D), "learned": layer.places}.get(positions, torch.zeros(10, D))
    near(layer(ids), expected + table[:3], 1e-6)
    near(layer(ids, start=4), expected + table[4:7], 1e-6)
    assert ("places" in layer.state_dict()) == (positions == "learned")
    near(layer(ids, start=7), expected + table[7:], 1e-6)
    x = torch.randn(2, 3, D)
    near(layer.logits(x), x @ layer.tokens.weight.T, 1e-6)


def test_dropout_is_on_the_sum():
    layer, ids = embedding("sinusoidal", dropout=0.5), torch.full((50, 3), 4)
    y = layer(ids)
    assert ((y == 0) | ((y - 2 * layer.eval()(ids)).abs() < 1e-5)).all()
    assert (y == 0).double().mean().item() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("positions", POSITIONS)
def test_places_end_at_max_len_if_they_are_in_a_table(positions):
    layer = embedding(positions)
    layer(torch.full((1, 10), 4))
    for length, start in ((11, 0), (1, 10), (4, 7)):
        if positions in ("rotary", "alibi", "none"):
            layer(torch.full((1, length), 4), start)
        else:
            with pytest.raises(ValueError, match="^ids: expected at most max_len = 10 places, got 11"):
                layer(torch.full((1, length), 4), start)


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Dropout(1.0), r"dropout: expected a number in \[0, 1\), got 1.0"),
        (lambda: Dropout(-0.1), "dropout: expected a number"),
        (lambda: EncoderBlock(D, 3, WIDE), "n_heads: expected a divisor of the width 8, got 3"),
        (lambda: EncoderBlock(D, H, 0), "d_ff: expected an integer"),
        (lambda: EncoderBlock(D, H, WIDE, 1.0), "dropout: expected"),
        (lambda: EncoderBlock(D, H, WIDE, norm="last"), "norm: expected one of pre, post, got 'last'"),
        (lambda: DecoderBlock(D, 8, WIDE, positions="rotary"), "n_heads: expected heads of an even width .*, got 1"),
        (
            lambda: embedding("absolute"),
            "positions: expected one of sinusoidal, .*, alibi, none, got 'absolute'",
        ),
        (lambda: embedding("learned", max_len=0), "max_len: expected an integer"),
        (lambda: embedding("none")(torch.tensor([[9]])), r"ids: expected an integer in \[0, 8\], got 9"),
        (lambda: embedding("none")(torch.tensor([[-1]])), "ids: expected an integer"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
