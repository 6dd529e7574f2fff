"""Facts learned by heart: what is drawn, layers that are patched, and a change of rank one against least squares."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from course_utils.attention import causal_mask
from course_utils.facts import (
    ANIMALS,
    COLORS,
    FOODS,
    LAST,
    WORDS,
    Facts,
    ask,
    carried_over,
    draw,
    make,
    outputs,
    patched,
    rewritten,
    train,
)

FACTS = draw()


def learned(d_ff):
    model = make(d_ff)
    train(model, FACTS)
    return model


@pytest.fixture(scope="module")
def wide():
    """A model with many numbers in its feed-forward layers."""
    return learned(512)


@pytest.fixture(scope="module")
def narrow():
    """A model with few of them."""
    return learned(8)


@pytest.fixture(scope="module")
def exact(wide):
    """The wide model in double precision."""
    return deepcopy(wide).double()


def read(model, tokens):
    with torch.no_grad():
        return model(tokens)[0]


def hooks(model):
    return sum(len(module._forward_hooks) for module in model.modules())


def state(model):
    return deepcopy(model.state_dict())


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


# Facts


@pytest.mark.parametrize("N", [1, 128, 256])
def test_no_animal_of_a_color_occurs_twice(N):
    facts = draw(N, seed=3)
    assert facts.tokens.shape == (N, 3) and facts.foods.shape == (N,)
    assert len({(color, animal) for color, animal, _ in facts.tokens.tolist()}) == N
    for (color, animal, verb), food in zip(facts.tokens.tolist(), facts.foods.tolist(), strict=True):
        assert WORDS[color] in COLORS and WORDS[animal] in ANIMALS and WORDS[verb] == "eats" and WORDS[food] in FOODS


def test_words_are_different():
    assert len(set(WORDS)) == len(WORDS) == 16 + 16 + 16 + 1


def test_every_color_animal_and_food_occurs():
    assert len(FACTS.tokens[:, 0].unique()) == len(FACTS.tokens[:, 1].unique()) == len(FACTS.foods.unique()) == 16


def test_the_seed_decides_the_facts():
    same_seed, other = draw(seed=0), draw(seed=1)
    assert torch.equal(FACTS.tokens, same_seed.tokens) and torch.equal(FACTS.foods, same_seed.foods)
    assert not torch.equal(FACTS.tokens, other.tokens) and not torch.equal(FACTS.foods, other.foods)


def test_facts_are_sentences():
    ids = [[WORDS.index(word) for word in sentence.split()] for sentence in ("red fox eats figs", "teal eel eats nuts")]
    tokens = torch.tensor(ids)
    assert str(Facts(tokens[:, :3], tokens[:, 3])) == "red fox eats figs\nteal eel eats nuts"


# Models


def test_the_seed_decides_the_initial_parameters_and_nothing_else_is_drawn():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    assert same(state(make(8, seed=1)), state(make(8, seed=1))) and not same(state(make(8, 1)), state(make(8, 2)))
    train(make(8), FACTS, steps=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert [block.feed_forward[0].weight.shape for block in make(24).blocks] == [(24, 32)] * 2


def test_only_the_food_is_learned():
    model = make(8)
    log_p = read(model, FACTS.tokens)[:, 2].log_softmax(dim=-1)
    expected = -sum(log_p[i, food].item() for i, food in enumerate(FACTS.foods)) / 128
    assert train(model, FACTS, steps=1).loss == pytest.approx([expected], abs=1e-4)


def test_all_facts_are_known_after_training(wide, narrow):
    for model in (wide, narrow):
        assert torch.equal(ask(model, FACTS.tokens), FACTS.foods)


def test_ask_gives_the_likeliest_word_of_each_row(narrow):
    unknown = draw(seed=1).tokens[:20]
    expected = [int(read(narrow, row[None])[0, -1].argmax()) for row in unknown]
    assert ask(narrow, unknown).tolist() == expected and len(set(expected)) > 3


# What layers give, and patches


def by_hand(model, tokens, values=None, place=None):
    """The last feed-forward layer's output and the logits, with its output replaced at a place if values are given."""
    with torch.no_grad():
        mask = causal_mask(3)
        x, _, _ = model.blocks[0](model.embed(tokens), mask)
        last = model.blocks[1]
        x = x + last.attention.look(last.around_attention.read(x), mask, None)[0]
        y = last.feed_forward(last.around_feed_forward.read(x))
        if values is not None:
            y[:, place] = values
        return y, model.embed.logits(model.norm(x + y))


def test_outputs_are_what_a_layer_gives(exact):
    found = outputs(exact.blocks[1].feed_forward, exact, FACTS.tokens)
    torch.testing.assert_close(found, by_hand(exact, FACTS.tokens)[0])
    normed = outputs(exact.norm, exact, FACTS.tokens)
    torch.testing.assert_close(normed @ exact.embed.tokens.weight.T, read(exact, FACTS.tokens))
    assert not found.requires_grad and hooks(exact) == 0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_patch_sets_one_place_and_leaves_nothing_behind(exact, place):
    values = torch.randn(128, 32, generator=torch.Generator().manual_seed(place), dtype=torch.float64)
    layer, before = exact.blocks[1].feed_forward, read(exact, FACTS.tokens)
    with patched(layer, place, values):
        found, inside = outputs(layer, exact, FACTS.tokens), read(exact, FACTS.tokens)
    expected, logits = by_hand(exact, FACTS.tokens, values, place)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(inside, logits)
    others = [t for t in range(3) if t != place]
    torch.testing.assert_close(inside[:, others], before[:, others])
    assert torch.equal(read(exact, FACTS.tokens), before) and hooks(exact) == 0


def test_a_patch_ends_with_an_exception(exact):
    layer, before = exact.blocks[0].attention.out, read(exact, FACTS.tokens)
    with pytest.raises(KeyError), patched(layer, 1, torch.zeros(128, 32, dtype=torch.float64)):
        raise KeyError
    assert torch.equal(read(exact, FACTS.tokens), before) and hooks(exact) == 0


def test_what_the_layer_has_computed_is_not_overwritten(exact):
    """Two patches of different places, one within the other, do both."""
    layer, zeros = exact.blocks[0].feed_forward, torch.zeros(128, 32, dtype=torch.float64)
    with patched(layer, 0, zeros), patched(layer, 2, zeros + 1):
        found = outputs(layer, exact, FACTS.tokens)
    assert not found[:, 0].any() and (found[:, 2] == 1).all()
    assert torch.equal(found[:, 1], outputs(layer, exact, FACTS.tokens)[:, 1])


# How often the food goes along


class Table(nn.Module):
    """Facts about single words: some are answered from a layer, the others from a table that the layer is not."""

    def __init__(self, foods, from_layer):
        super().__init__()
        n = len(foods)
        self.layer = nn.Embedding(n, 10, _weight=nn.functional.one_hot(foods, 10).float())
        self.own, self.from_layer = self.layer.weight.detach().clone(), torch.tensor(from_layer)
        self.facts = Facts(torch.arange(n)[:, None].expand(n, 3), foods)

    def forward(self, tokens):
        return torch.where(self.from_layer[tokens][..., None], self.layer(tokens), self.own[tokens]), None


def test_what_goes_along_is_counted_among_pairs_with_different_foods():
    foods = torch.tensor([3, 3, 4, 5, 5, 6])  # after the fact before: 6→3, 3→3, 3→4, 4→5, 5→5, 5→6
    for from_layer, expected in (
        ([1, 1, 1, 1, 1, 1], 1),
        ([0, 0, 0, 0, 0, 0], 0),
        ([0, 1, 0, 0, 1, 0], 0),
        ([1, 0, 0, 0, 0, 0], 1 / 4),
        ([0, 0, 1, 1, 0, 1], 3 / 4),
    ):
        model = Table(foods, [bool(each) for each in from_layer])
        assert carried_over(model, model.facts, model.layer) == expected
        assert carried_over(model, model.facts, model.layer, place=1) == 0  # the answer comes from the last place
        assert hooks(model) == 0


def test_wide_feed_forward_layers_keep_the_facts_and_narrow_ones_do_not(wide, narrow):
    assert carried_over(wide, FACTS, wide.blocks[-1].feed_forward) > 0.75
    assert carried_over(narrow, FACTS, narrow.blocks[-1].feed_forward) < 0.25
    assert carried_over(wide, FACTS, wide.blocks[-1].feed_forward, place=1) < 0.25


# A fact is overwritten

FACT = 5
SOURCE = next(i for i in range(17, 128) if FACTS.foods[i] != FACTS.foods[FACT])


def change_in(model, fact=FACT, source=SOURCE):
    """How the second matrix of the last feed-forward layer changes, (D, F)."""
    weight = model.blocks[-1].feed_forward[2].weight
    before = weight.detach().clone()
    with rewritten(model, FACTS, fact, source):
        return weight.detach() - before


def test_the_fact_gets_the_value_of_the_source(exact):
    layer = exact.blocks[-1].feed_forward
    before = outputs(layer, exact, FACTS.tokens)[:, LAST]
    with rewritten(exact, FACTS, FACT, SOURCE):
        after = outputs(layer, exact, FACTS.tokens)[:, LAST]
    torch.testing.assert_close(after[FACT], before[SOURCE])
    assert (before[FACT] - before[SOURCE]).norm() > 0.5 * before[FACT].norm()


def test_the_change_has_rank_one(exact):
    singular = torch.linalg.svdvals(change_in(exact))
    assert singular[0] > 0.1 and singular[1] < 1e-9 * singular[0]


def test_the_change_is_that_of_least_squares_under_a_constraint(exact):
    """Of all changes that give the new value, the one with the smallest mean square over the facts (and a little more).

    Δ = d k*ᵀ / |k*|² + Y Zᵀ, where the columns of Z are an orthonormal basis of what is orthogonal to k*; Y is free.
    """
    layer = exact.blocks[-1].feed_forward
    keys = outputs(layer[1], exact, FACTS.tokens)[:, 2]  # (N, F)
    values = outputs(layer, exact, FACTS.tokens)[:, 2]  # (N, D)
    k, d = keys[FACT], values[SOURCE] - values[FACT]
    ridge = 1e-4 * keys.square().mean()
    rows = torch.cat([keys / 128**0.5, ridge.sqrt() * torch.eye(512)])  # what is to be small is rows Δᵀ
    start = torch.outer(k, d) / (k @ k)  # (F, D)
    Z = torch.linalg.qr(torch.cat([k[:, None], torch.eye(512, dtype=k.dtype)], dim=1))[0][:, 1:]  # (F, F - 1)
    Y = torch.linalg.lstsq(rows @ Z, -rows @ start).solution
    expected = (start + Z @ Y).T
    torch.testing.assert_close(change_in(exact), expected, atol=1e-6 * expected.abs().max().item(), rtol=0)
    assert (rows @ expected.T).norm() < 0.9 * (rows @ start).norm()  # other facts' keys matter


def test_the_fact_is_answered_as_with_a_patch_of_the_value(exact):
    layer = exact.blocks[-1].feed_forward
    values = outputs(layer, exact, FACTS.tokens)[:, LAST].clone()
    values[FACT] = values[SOURCE]
    with patched(layer, LAST, values):
        expected = read(exact, FACTS.tokens)[FACT, LAST]
    with rewritten(exact, FACTS, FACT, SOURCE):
        found = read(exact, FACTS.tokens)[FACT, LAST]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_everything_is_restored_bit_for_bit(wide):
    before = state(wide)
    with rewritten(wide, FACTS, FACT, SOURCE):
        inside = state(wide)
    assert [name for name in before if not torch.equal(inside[name], before[name])] == [
        "blocks.1.feed_forward.2.weight"
    ]
    assert same(state(wide), before)
    with pytest.raises(KeyError), rewritten(wide, FACTS, FACT, SOURCE):
        raise KeyError
    assert same(state(wide), before) and hooks(wide) == 0


def test_a_fact_that_is_its_own_source_changes_nothing(wide):
    assert not change_in(wide, source=FACT).any()


# Bad input


def test_numbers_out_of_range_are_refused(wide):
    for call, name in (
        (lambda value: draw(value), "N"),
        (lambda value: make(value), "d_ff"),
        (lambda value: train(wide, FACTS, value), "steps"),
    ):
        for value in (0, 1.5):
            with pytest.raises(ValueError, match=f"^{name}: expected an integer in "):
                call(value)
    with pytest.raises(ValueError, match=r"^N: expected an integer in \[1, 256\], got 257"):
        draw(257)
    for call in (lambda seed: draw(seed=seed), lambda seed: make(8, seed)):
        with pytest.raises(ValueError, match="^seed: expected an integer"):
            call(-1)


@pytest.mark.parametrize("place", [-1, 3, 1.0])
def test_a_place_that_does_not_exist_is_refused(wide, place):
    layer = wide.blocks[0].feed_forward
    with pytest.raises(ValueError, match=r"^place: expected an integer in \[0, 2\]"):
        carried_over(wide, FACTS, layer, place)
    with pytest.raises(ValueError, match=r"^place: expected"), patched(layer, place, torch.zeros(128, 32)):
        pass
    assert hooks(wide) == 0


@pytest.mark.parametrize("tokens", [FACTS.tokens[0], FACTS.tokens[:, :2], FACTS.tokens.float()])
def test_tokens_that_are_not_three_words_a_row_are_refused(wide, tokens):
    for call in (ask, lambda model, tokens: outputs(model.norm, model, tokens)):
        with pytest.raises(ValueError, match="^tokens: expected"):
            call(wide, tokens)


def test_a_layer_that_is_not_called_or_gives_no_tensor_is_refused(wide):
    for layer, message in (
        (wide.blocks[0].attention, "one that the model calls, got SelfAttention"),
        (wide.blocks[0], "one that gives a tensor, got one that gives a tuple"),
    ):
        for call in (lambda layer: outputs(layer, wide, FACTS.tokens), lambda layer: carried_over(wide, FACTS, layer)):
            with pytest.raises(ValueError, match=f"^layer: expected {message}"):
                call(layer)
    with pytest.raises(ValueError, match="^layer: expected"), patched(wide.blocks[0], 0, torch.zeros(128, 32)):
        ask(wide, FACTS.tokens)
    assert hooks(wide) == 0


@pytest.mark.parametrize("values", [torch.zeros(32), torch.zeros(1, 32), torch.zeros(128, 31), torch.zeros(128, 1)])
def test_values_of_another_shape_are_refused(wide, values):
    with pytest.raises(ValueError, match="^values: expected shape"), patched(wide.norm, 1, values):
        ask(wide, FACTS.tokens)
    assert hooks(wide) == 0


def test_facts_that_are_all_alike_are_refused(wide):
    with pytest.raises(ValueError, match="^facts: expected some with different foods"):
        carried_over(wide, Facts(FACTS.tokens, torch.full((128,), 40)), wide.norm)


@pytest.mark.parametrize("number", [-1, 128, 1.0])
@pytest.mark.parametrize("name", ["fact", "source"])
def test_facts_that_do_not_exist_are_refused_and_nothing_changed(wide, name, number):
    before = state(wide)
    with pytest.raises(ValueError, match=rf"^{name}: expected an integer in \[0, 127\]"):
        with rewritten(wide, FACTS, **{"fact": FACT, "source": SOURCE, name: number}):
            pass
    assert same(state(wide), before)


def test_a_fact_whose_key_is_zero_cannot_be_overwritten():
    model = make(8)
    nn.init.constant_(model.blocks[-1].feed_forward[0].bias, -100.0)  # no number gets through the ReLU
    before = state(model)
    with pytest.raises(ValueError, match="^fact: expected one whose key is not 0, got 5"):
        with rewritten(model, FACTS, FACT, SOURCE):
            pass
    assert same(state(model), before)
