"""Sequences that repeat themselves: losses and scores against loops, and what one block can't learn."""

import math

import pytest
import torch
from torch import nn

from course_utils import induction
from course_utils.induction import LETTERS, PERIODS, Repeats, complete, draw, head_scores, make, repetition_loss, train


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def model():
    """Two blocks in double precision whose parameters are all large enough to matter."""
    model = make(2).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator(1))
    return model


def loss_of(model, row, t):
    """The loss of letter t of a row of ids, from the letters before it alone."""
    return -model(row[None, :t])[0][0, -1].log_softmax(dim=0)[row[t]].item()


# Sequences


@pytest.mark.parametrize(("period", "T"), [(1, 2), (5, 32), (12, 32), (16, 17), (7, 21)])
def test_letters_repeat_after_the_period_and_not_before(period, T):
    found = draw(50, generator(), period, T)
    assert found.period == period and found.tokens.shape == (50, T)
    assert torch.equal(found.tokens[:, period:], found.tokens[:, :-period])
    for shorter in range(1, period):
        assert not torch.equal(found.tokens[:, shorter:], found.tokens[:, :-shorter])


def test_letters_are_drawn_alike_and_for_each_sequence():
    once = draw(520, generator(), period=10).tokens[:, :10]
    counts = once.flatten().bincount(minlength=26)
    assert len(counts) == 26 and counts.min() > 140 and counts.max() < 260  # 200 each, more or less
    assert len({tuple(row) for row in once.tolist()}) == 520


def test_periods_are_drawn_between_the_shortest_and_the_longest():
    g = generator()
    found = [draw(1, g) for _ in range(300)]
    assert {each.period for each in found} == set(range(PERIODS[0], PERIODS[1] + 1))
    assert all(torch.equal(each.tokens[:, each.period :], each.tokens[:, : -each.period]) for each in found)


def test_the_generator_decides():
    (a, p), (b, q), (c, _) = draw(4, generator(1)), draw(4, generator(1)), draw(4, generator(2))
    assert p == q and torch.equal(a, b) and not torch.equal(a, c)


# Loss and scores


def test_the_loss_on_repetitions_is_that_of_a_loop(model):
    repeats = draw(3, generator(), period=5, T=12)
    losses = [loss_of(model, row, t) for row in repeats.tokens for t in range(6, 12)]
    assert repetition_loss(model, repeats) == pytest.approx(sum(losses) / 18, abs=1e-9)


def test_the_first_repeated_letter_is_not_counted(model):
    tokens = draw(3, generator(), period=5, T=7).tokens
    only = [loss_of(model, row, 6) for row in tokens]
    assert repetition_loss(model, Repeats(tokens, 5)) == pytest.approx(sum(only) / 3, abs=1e-9)


def test_head_scores_are_means_of_a_loop(model):
    B, T, period = 3, 12, 5
    repeats = draw(B, generator(), period, T)
    found, weights = head_scores(model, repeats), model.attend(repeats.tokens)[1]
    assert found.previous.shape == found.induction.shape == (2, 4)
    for block in range(2):
        for head in range(4):
            seen = [weights[block][b, head] for b in range(B)]
            previous = [w[t, t - 1].item() for w in seen for t in range(period, T)]
            again = [w[t, t - period + 1].item() for w in seen for t in range(period, T)]
            assert found.previous[block, head].item() == pytest.approx(sum(previous) / len(previous), abs=1e-9)
            assert found.induction[block, head].item() == pytest.approx(sum(again) / len(again), abs=1e-9)
    assert found.previous.std() > 1e-3 and found.induction.std() > 1e-3


def test_scores_of_heads_that_are_known(monkeypatch):
    """One head looks at the token before, one at what followed the last time, one everywhere, one at itself."""
    T, period, model = 11, 4, make(2)
    at = torch.arange(T)
    everywhere = torch.tril(torch.ones(T, T)) / (at + 1)[:, None]
    before, again, itself = everywhere.clone(), everywhere.clone(), torch.eye(T)
    before[period:] = torch.eye(T)[at - 1][period:]  # places without a last time don't count
    again[period:] = torch.eye(T)[at - period + 1][period:]
    first, second = torch.stack([before, again, everywhere, itself]), torch.stack([itself, itself, again, before])
    weights = [block.expand(6, 4, T, T) for block in (first, second)]
    monkeypatch.setattr(model, "attend", lambda tokens: (None, weights))
    found = head_scores(model, draw(6, generator(), period, T))
    share = sum(1 / (t + 1) for t in range(period, T)) / (T - period)
    torch.testing.assert_close(found.previous, torch.tensor([[1, 0, share, 0], [0, 0, 0, 1]]))
    torch.testing.assert_close(found.induction, torch.tensor([[0, 1, share, 0], [0, 0, 1, 0]]))


# Making and training


def test_the_seed_decides_the_initial_parameters_and_nothing_else_is_drawn():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    a, b, c = (make(1, seed).embed.tokens.weight for seed in (1, 1, 2))
    assert torch.equal(a, b) and not torch.equal(a, c)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_has_four_heads_a_block_and_no_places_but_rotary_ones():
    model = make(3)
    assert [block.attention.n_heads for block in model.blocks] == [4, 4, 4]
    assert model.embed.places is None and model.blocks[0].attention.positions == "rotary"
    assert model.embed.tokens.weight.shape == (26, 64) and model.embed.dropout.dropped == 0


def test_every_letter_is_learned_from_sequences_that_the_seed_draws():
    tokens, fresh = draw(32, generator(4)).tokens, make(1)
    with torch.no_grad():
        log_p = fresh(tokens)[0].log_softmax(dim=-1)
    expected = -sum(log_p[b, t, tokens[b, t + 1]].item() for b in range(32) for t in range(31)) / (32 * 31)
    assert train(make(1), steps=1, seed=4).loss == pytest.approx([expected], abs=1e-4)


def test_training_is_seeded_and_looks_every_twenty_steps_at_sequences_of_its_own():
    model = make(1)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    history = train(model, steps=21, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert [step for step, _ in history.evaluations] == [20, 21]
    measured = draw(100, generator(1_000_004), period=12)
    assert history.evaluations[-1][1] == pytest.approx(repetition_loss(model, measured), abs=1e-5)
    again, other = (train(make(1), steps=2, seed=seed) for seed in (1, 2))
    assert again.loss == pytest.approx(history.loss[:2], abs=1e-4)
    assert other.loss[0] != pytest.approx(history.loss[0], abs=1e-4)


@pytest.fixture(scope="module")
def trained():
    """Models of one and of two blocks, and the history of the second; one block gets fewer steps."""
    models = {n: make(n) for n in (1, 2)}
    train(models[1], steps=400)
    return models, train(models[2])


def test_two_blocks_learn_repetitions_and_one_does_not(trained):
    models, history = trained
    repeats = draw(200, generator(9), period=12)
    guess = math.log(12)  # what remains if all that is known is which letters there are
    one, two = (repetition_loss(models[n], repeats) for n in (1, 2))
    assert two < 0.4 * guess < 0.7 * guess < one
    assert dict(history.evaluations)[400] < 0.5 * one  # after as many steps


def test_the_second_block_looks_at_what_followed_and_the_first_at_the_token_before(trained):
    found = head_scores(trained[0][2], draw(100, generator(9), period=10))
    assert found.previous[0].max() > 0.4 and found.induction[1].max() > 0.4
    assert found.induction[0].max() < 0.2


def test_completing_goes_on_with_the_likeliest_letter(trained):
    text = "qwertyuqwe"
    written = text
    with torch.no_grad():
        for _ in range(6):  # without a cache
            logits, _ = trained[0][2](torch.tensor([[LETTERS.index(letter) for letter in written]]))
            written += LETTERS[logits[0, -1].argmax()]
    assert complete(trained[0][2], text, 6) == written[len(text) :]


# Bad input


@pytest.mark.parametrize("text", ["", "two words", "Caps", "naïve", "a1"])
def test_a_text_of_other_characters_is_refused(text):
    with pytest.raises(ValueError, match="^text: expected letters from a to z, got "):
        complete(make(1), text, 3)


@pytest.mark.parametrize("measure", [repetition_loss, head_scores])
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda tokens: (tokens[0], 5), "tokens"),
        (lambda tokens: (tokens.double(), 5), "tokens"),
        (lambda tokens: (tokens[:0], 5), "tokens"),
        (lambda tokens: (tokens, 0), "period"),
        (lambda tokens: (tokens, 5.0), "period"),
        (lambda tokens: (tokens, 12), "period"),
    ],
)
def test_what_does_not_repeat_is_refused(measure, change, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        measure(make(1), Repeats(*change(draw(2, generator(), 5, 12).tokens)))


def test_a_loss_needs_a_letter_that_can_be_known():
    repeats = draw(2, generator(), 11, 12)
    assert head_scores(make(1), repeats).previous.shape == (1, 4)
    with pytest.raises(ValueError, match=r"^period: expected an integer in \[1, 10\], got 11"):
        repetition_loss(make(1), repeats)


def test_a_length_must_leave_room_for_a_repetition():
    with pytest.raises(ValueError, match="^T: expected an integer in .17, ∞., got 16"):
        draw(2, generator(), T=16)
    assert draw(2, generator(), period=15, T=16).tokens.shape == (2, 16)
    with pytest.raises(ValueError, match=r"^period: expected an integer in \[1, 15\], got 16"):
        draw(2, generator(), period=16, T=16)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda value: draw(value, generator()), "B"),
        (lambda value: draw(2, generator(), T=value), "T"),
        (lambda value: draw(2, generator(), period=value), "period"),
        (lambda value: make(value), "n_layers"),
        (lambda value: train(make(1), value), "steps"),
        (lambda value: complete(make(1), "a", value), "n"),
    ],
)
@pytest.mark.parametrize("value", [0, 1.5, True])
def test_numbers_that_count_something_are_integers_from_one(call, name, value):
    with pytest.raises(ValueError, match=f"^{name}: expected an integer in "):
        call(value)


@pytest.mark.parametrize("call", [lambda seed: make(1, seed), lambda seed: train(make(1), 1, seed)])
@pytest.mark.parametrize("seed", [-1, 0.5])
def test_a_seed_is_an_integer_from_zero(call, seed):
    with pytest.raises(ValueError, match="^seed: expected an integer"):
        call(seed)


def test_the_length_leaves_room_for_the_longest_period_twice():
    assert induction.LENGTH >= 2 * PERIODS[1]
