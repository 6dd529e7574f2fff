"""Naming previous tokens: what one head can't do at any weights, two heads built by hand, and random tokens."""

import itertools
import math

import pytest
import torch
from torch import nn

from course_utils.attention import causal_mask
from course_utils.previous_tokens import PreviousTokens, next_token_losses, right, sequences, train

V, M = 4, 2
TRIPLES = torch.cartesian_prod(*[torch.arange(V)] * 3)  # (V³, 3), all sequences of M + 1 = 3 tokens


def near(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


def randomized(d_model, n_heads, seed, scale=1.0, n_previous=M, n_tokens=V):
    """A network whose parameters, biases among them, are all normal numbers."""
    model = PreviousTokens(n_tokens, n_previous, d_model, n_heads)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=scale, generator=generator)
    return model


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# What the network is


def test_the_number_of_parameters_does_not_depend_on_the_heads():
    for d_ff in (0, 5):
        assert len({sum(p.numel() for p in PreviousTokens(V, 3, 16, H, 0, d_ff).parameters()) for H in (1, 2, 16)}) == 1


@pytest.mark.parametrize("n_previous", [1, 2, 4])
@pytest.mark.parametrize("d_ff", [0, 6])
def test_shapes_and_weights_that_are_shares(n_previous, d_ff):
    model = PreviousTokens(V, n_previous, 8, 2, d_ff=d_ff)
    x = sequences(5, model, generator())
    assert model(x).shape == (5, n_previous, V)
    found, weights = model.look(x, need_weights=True)
    assert found.shape == (5, 8) and weights.shape == (5, 2, n_previous)
    near(weights.sum(dim=-1), torch.ones(5, 2))
    without, none = model.look(x)
    assert none is None
    near(without, found)


def test_a_head_brings_the_mean_of_what_stands_for_tokens_by_its_weights():
    model = randomized(8, 2, seed=1).double()
    found, weights = model.look(TRIPLES, need_weights=True)
    W, b = model.attention.qkv.weight[16:], model.attention.qkv.bias[16:]  # W_V
    values = (model.tokens.weight @ W.T + b).unflatten(-1, (2, 4))  # (V, H, K): of a token, wherever it stands
    means = torch.einsum("nhm,nmhk->nhk", weights, values[TRIPLES[:, :M]])
    near(found, means.flatten(1) @ model.attention.out.weight.T + model.attention.out.bias, 1e-12)


def test_places_decide_the_weights_and_nothing_else():
    model = randomized(8, 2, seed=2)
    same = TRIPLES[TRIPLES[:, 0] == TRIPLES[:, 1]]
    before, (_, weights) = model.look(TRIPLES)[0], model.look(same, need_weights=True)
    twice = model.look(same)[0]
    with torch.no_grad():
        model.places.copy_(model.places[[1, 0, 2]])
    near(model.look(same, need_weights=True)[1], weights.flip(-1))
    assert not torch.allclose(model.look(TRIPLES)[0], before, atol=0.1)
    with torch.no_grad():
        model.places.normal_(generator=generator(1))
    assert not torch.allclose(model.look(same, need_weights=True)[1], weights, atol=0.1)
    near(model.look(same)[0], twice)  # a mean of equal values, whatever their weights
    with torch.no_grad():
        model.attention.qkv.weight[:8] = 0  # W_Q
        model.attention.qkv.bias[:8] = 0
    near(model.look(TRIPLES)[0], model.look(TRIPLES[:, [1, 0, 2]])[0])  # equal weights: nothing tells first from second


def test_the_token_that_asks_is_not_looked_at():
    model = randomized(8, 2, seed=3)
    with torch.no_grad():
        model.attention.qkv.weight[:8] = 0  # all queries are equal
    found = model.look(TRIPLES)[0].view(V, V, V, 8)
    near(found, found[:, :, :1].expand_as(found))


# One head and two


def quadruples(model):
    """How many of (i, i), (j, j), (i, j), (j, i) are right, for all i < j and each token that asks."""
    good = right(model, TRIPLES).view(V, V, V)
    pairs = itertools.combinations(range(V), 2)
    return torch.stack([good[i, i].int() + good[j, j] + good[i, j] + good[j, i] for i, j in pairs]).flatten()


@pytest.mark.parametrize("scale", [0.1, 0.3, 0.5])
def test_one_head_never_names_both_of_two_tokens_in_all_orders(scale):
    counts = torch.zeros(5, dtype=torch.long)
    for seed in range(60):
        model = randomized(8, 1, seed, scale)
        with torch.no_grad():  # a read-out that knows each token when it is alone, and guesses otherwise
            alone = model.look(TRIPLES[TRIPLES[:, 0] == TRIPLES[:, 1]][::V])[0]  # (V, D)
            W = torch.linalg.pinv(alone - alone.mean(0)) @ (torch.eye(V) - 1 / V)  # (D, V)
            thresholds = 0.2 * torch.randn(2, V, generator=generator(seed))
            model.read.weight.copy_(torch.cat([W, W], dim=1).T)
            model.read.bias.copy_((thresholds - alone.mean(0) @ W).flatten())
        counts += torch.bincount(quadruples(model), minlength=5)
    assert counts[3] > 100  # it comes as near as can be
    assert counts[4] == 0


def by_hand(n_previous=M):
    """As many heads as tokens to name: head m looks at place m, and says which token is there."""
    model = PreviousTokens(V, n_previous, n_previous * V, n_previous)
    D, attention = n_previous * V, model.attention
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.tokens.weight[:, :V] = torch.eye(V)
        model.places[:n_previous, V : V + n_previous] = torch.eye(n_previous)
        W_Q, W_K, W_V = attention.qkv.weight.chunk(3)
        for m in range(n_previous):
            attention.qkv.bias[m * V] = 100  # the query of each head, whatever the token
            W_K[m * V, V + m] = 1
            W_V[m * V : (m + 1) * V, :V] = torch.eye(V)
        attention.out.weight.copy_(torch.eye(D))
        model.read.weight.copy_(torch.eye(D))
    return model


def test_a_head_for_each_token_names_them_all():
    assert right(by_hand(), TRIPLES).all()
    assert (quadruples(by_hand()) == 4).all()
    model = by_hand(3)
    assert right(model, torch.cartesian_prod(*[torch.arange(V)] * 4)).all()
    near(model.look(torch.tensor([[2, 0, 1, 3]]), need_weights=True)[1], torch.eye(3)[None])


def test_two_heads_learn_what_one_does_not():
    found = {}
    for H in (1, 2):
        model = PreviousTokens(V, M, 16, H)
        losses = train(model, steps=150, lr=0.02)
        assert len(losses) == 150 and losses[0] > 0.8 * math.log(V) and losses[-1] < 0.8 * losses[0]
        found[H] = right(model, TRIPLES).float().mean()
        assert (quadruples(model) == 4).any() == (H == 2)
    assert found[1] < 0.7 and found[2] > 0.9


def test_right_wants_all_tokens():
    model, x = by_hand(), TRIPLES.clone()
    with torch.no_grad():
        model.read.bias[0] = 100  # the first token is named 0 always, the second as it is
    assert torch.equal(right(model, x), x[:, 0] == 0)


# Seeds


def test_sequences_hold_all_tokens_and_repeat_with_their_generator():
    model = PreviousTokens(5, 3, 4, 1)
    x = sequences(200, model, generator(1))
    assert x.shape == (200, 4) and all(set(column.tolist()) == set(range(5)) for column in x.T)
    assert torch.equal(sequences(200, model, generator(1)), x)
    assert not torch.equal(sequences(200, model, generator(2)), x)


def test_seeds_repeat_and_the_callers_random_numbers_stay():
    state = torch.random.get_rng_state()

    def trained(seed, data):
        model = PreviousTokens(V, M, 4, 1, seed)
        losses = train(model, steps=3, seed=data)
        return [*losses, *torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()]

    first = trained(0, 0)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(5)
    assert trained(0, 0) == first
    assert trained(1, 0)[0] != first[0] and trained(0, 1)[0] != first[0]
    losses, state = next_token_losses(None, 2), torch.random.get_rng_state()
    assert next_token_losses(None, 2) == losses and next_token_losses(None, 2, seed=1) != losses
    assert torch.equal(torch.random.get_rng_state(), state)


# Random tokens


def last(losses, n=20):
    return sum(losses[-n:]) / n - math.log(8)


def test_only_who_sees_random_tokens_predicts_them():
    assert last(next_token_losses(None, 100)) < -0.2
    assert -0.02 < last(next_token_losses(causal_mask(12), 100)) < 0.1


def test_one_token_of_the_future_is_enough():
    ahead = torch.ones(12, 12, dtype=torch.bool).tril(1)
    assert last(next_token_losses(ahead, 100)) < -0.2


# Bad input


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_tokens": 0}, r"n_tokens: expected an integer in \[1, ∞\), got 0"),
        ({"n_previous": 1.5}, "n_previous: expected an integer"),
        ({"d_model": 0}, "d_model: expected an integer"),
        ({"n_heads": 3}, "n_heads: expected a divisor of the width 8, got 3"),
        ({"seed": -1}, "seed: expected an integer"),
        ({"d_ff": -1}, "d_ff: expected an integer"),
    ],
)
def test_wrong_sizes(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        PreviousTokens(**{"n_tokens": V, "n_previous": M, "d_model": 8, "n_heads": 2} | wrong)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (TRIPLES[:, :2], r"x: expected shape \(N, L\) = \(64, 3\), got \(64, 2\)"),
        (TRIPLES[0], "x: expected shape"),
        (TRIPLES.float(), "x: expected dtype int, got float32"),
        (TRIPLES + 1, r"x: expected an integer in \[0, 3\], got 4"),
        (TRIPLES - 1, r"x: expected an integer in \[0, 3\], got -1"),
    ],
)
def test_wrong_sequences(x, message):
    model = PreviousTokens(V, M, 8, 2)
    for call in (model, model.look, lambda x: right(model, x)):
        with pytest.raises(ValueError, match=f"^{message}"):
            call(x)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 2.0}, "steps"),
        ({"lr": 0}, "lr"),
        ({"lr": math.inf}, "lr"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_numbers_for_training(wrong, name):
    model = PreviousTokens(V, M, 8, 2)
    before = model.read.weight.clone()
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        train(model, **wrong)
    assert torch.equal(model.read.weight, before)


def test_wrong_masks_and_numbers_for_random_tokens():
    for mask in (causal_mask(11), causal_mask(13), torch.ones(1, 12, dtype=torch.bool), causal_mask(12)[None]):
        with pytest.raises(ValueError, match=r"^mask: expected shape \(12, 12\)"):
            next_token_losses(mask, 1)
    with pytest.raises(ValueError, match="^mask: expected dtype bool"):
        next_token_losses(causal_mask(12).float(), 1)
    with pytest.raises(ValueError, match="^steps: "):
        next_token_losses(None, 0)
    with pytest.raises(ValueError, match="^seed: "):
        next_token_losses(None, 1, seed=-1)
    with pytest.raises(ValueError, match="^n: "):
        sequences(0, PreviousTokens(V, M, 8, 2), generator())
