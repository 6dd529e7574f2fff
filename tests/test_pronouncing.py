"""A language model of words: losses against loops, words written one at a time, training that keeps what is best."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn

from course_utils import corpora, pronouncing
from course_utils.corpora import BOS, EOS, PAD, UNK
from course_utils.pronouncing import (
    Words,
    loss_by_place,
    make,
    mean_loss,
    phoneme_error_rate,
    pronounce,
    pronounced,
    repeated,
    second_half_loss,
    spelled,
    stream,
    train,
    train_to_best,
    vocabulary,
    words,
)
from course_utils.training import language_model_loss

# From short to long: a batch of neighbors has other numbers of phonemes than the next one.
CHOSEN = ["a", "ox", "cat", "tomato", "alligator", "responsibility"]
LISTED = corpora.load_pronunciations()


def randomized(seed=0):
    """A narrow model in double precision whose parameters are all large enough to matter."""
    model = make(8).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return model


@pytest.fixture(scope="module")
def model():
    return randomized()


def decoded(row):
    return [vocabulary().tokens[i] for i in row]


def weights(model):
    return deepcopy(model.state_dict())


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# Words and tokens


def test_the_split_is_that_of_all_models_of_pronunciations():
    found = words()
    assert tuple(found) == tuple(corpora.split(LISTED))
    assert sorted(word for side in found for word in side) == list(LISTED)


def test_letters_and_phonemes_are_different_tokens():
    assert len(vocabulary()) == 4 + 26 + 39
    assert vocabulary().encode(["k"]) != vocabulary().encode(["K"])
    assert not (pronounced(words().test[::50]) == UNK).any()


def test_rows_are_spelled_and_pronounced_or_spelled_twice():
    assert decoded(spelled(["cat"])[0]) == "<bos> c a t <eos>".split()
    assert decoded(pronounced(["cat"])[0]) == "<bos> c a t <eos> K AE T <eos>".split()
    assert decoded(repeated(["cat"])[0]) == "<bos> c a t <eos> c a t <eos>".split()


@pytest.mark.parametrize("rows", [spelled, pronounced, repeated])
def test_words_keep_their_order_and_pads_come_last(rows):
    found = rows(["tomato", "ox", "tomato"])
    assert torch.equal(found[0], found[2])
    alone = rows(["ox"])[0]
    assert found[1].tolist() == alone.tolist() + [PAD] * (found.shape[1] - len(alone))


def test_the_pronunciation_listed_first_is_taken():
    first, second, *_ = LISTED["tomato"]
    assert first != second and decoded(pronounced(["tomato"])[0]) == ["<bos>", *"tomato", "<eos>", *first, "<eos>"]


# Streams


def test_pieces_of_a_stream_joined_are_words():
    pieces = stream(CHOSEN, 30, 12, seed=3)
    assert pieces.shape == (30, 13) and pieces.dtype == torch.int64
    *complete, rest = "".join(decoded(pieces.flatten())).split("<eos>")
    assert set(complete) == set(CHOSEN) and any(word.startswith(rest) for word in CHOSEN)


def test_a_stream_draws_words_alike():
    drawn = "".join(decoded(stream(["a", "b", "c"], 20, 99).flatten())).split("<eos>")[:-1]
    assert len(drawn) == 1000 and all(270 < drawn.count(word) < 400 for word in "abc")
    assert {a + b for a, b in zip(drawn, drawn[1:], strict=False)} == {a + b for a in "abc" for b in "abc"}


def test_the_seed_decides_the_stream():
    found = stream(CHOSEN, 4, 9, seed=1)
    assert torch.equal(found, stream(CHOSEN, 4, 9, seed=1)) and not torch.equal(found, stream(CHOSEN, 4, 9, seed=2))
    assert torch.equal(found, stream(CHOSEN, 8, 9, seed=1)[:4])


# Losses


def second_half(model, rows):
    """The loss of each token after the first <eos> of rows, each row alone and without pads."""
    losses = []
    for row in rows.tolist():
        row = [token for token in row if token != PAD]
        for t in range(row.index(EOS) + 1, len(row)):
            log_p = model(torch.tensor([row[:t]]))[0][0, -1].log_softmax(dim=0)
            losses.append(-log_p[row[t]].item())
    return losses


@pytest.mark.parametrize("rows", [pronounced, repeated])
def test_second_half_loss_is_that_of_a_loop(model, rows):
    losses = second_half(model, rows(CHOSEN))
    assert len(losses) == sum(len(LISTED[word][0] if rows is pronounced else word) + 1 for word in CHOSEN)
    assert second_half_loss(model, rows(CHOSEN)).item() == pytest.approx(sum(losses) / len(losses), abs=1e-9)


def test_what_counts_is_what_follows_the_first_eos():
    tokens = torch.tensor([[BOS, 5, EOS, 40, 41, EOS, PAD], [BOS, 5, 6, 7, EOS, 40, EOS], [BOS, EOS, EOS, 5, 6, 7, 8]])
    logits = torch.zeros(3, 6, 50, requires_grad=True)
    second_half_loss(lambda x: (logits, None), tokens).backward()
    counted = [[0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1]]
    assert (logits.grad != 0).any(dim=2).int().tolist() == counted
    shares = logits.grad.clamp(max=0).sum(dim=2)  # at the right token
    torch.testing.assert_close(shares, -49 / 50 / 10 * torch.tensor(counted), atol=1e-6, rtol=0)


def test_pads_change_no_loss(model):
    tokens = pronounced(CHOSEN)
    wider = nn.functional.pad(tokens, (0, 7), value=PAD)
    for loss in (second_half_loss, mean_loss):
        with torch.no_grad():
            assert float(loss(model, wider)) == pytest.approx(float(loss(model, tokens)), abs=1e-12)


def test_mean_loss_is_that_of_all_tokens_however_they_are_divided(model):
    tokens = pronounced(CHOSEN)
    losses = second_half(model, tokens)
    for rows in (1, 4, 250):
        assert mean_loss(model, tokens, rows) == pytest.approx(sum(losses) / len(losses), abs=1e-9)
    parts = [second_half(model, part) for part in tokens.split(4)]  # the mean of their means is another one
    assert abs(sum(sum(part) / len(part) for part in parts) / 2 - sum(losses) / len(losses)) > 1e-3


def test_loss_by_place_is_that_of_a_loop(model):
    pieces = stream(CHOSEN, 3, 8)
    found = loss_by_place(model, pieces)
    assert found.shape == (8,) and not found.requires_grad
    for t in range(8):
        losses = [-model(piece[None, : t + 1])[0][0, -1].log_softmax(dim=0)[piece[t + 1]].item() for piece in pieces]
        assert found[t].item() == pytest.approx(sum(losses) / 3, abs=1e-9)


# Making and training


def test_the_seed_decides_the_initial_parameters_and_nothing_else_is_drawn():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    model = make(8, n_layers=1, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(weights(model), weights(make(8, n_layers=1, seed=1)))
    assert not same(weights(model), weights(make(8, n_layers=1, seed=2)))


def test_the_sizes_of_a_model():
    model = make(12, n_layers=3, n_heads=3, positions="rotary")
    assert len(model.blocks) == 3 and model.blocks[0].attention.n_heads == 3
    assert model.blocks[0].feed_forward[0].weight.shape == (48, 12)
    assert model.blocks[0].attention.positions == "rotary" and model.embed.dropout.dropped == 0


def test_training_is_that_of_a_loop():
    tokens, model, expected = pronounced(CHOSEN), make(8).double(), make(8).double()
    history = train(model, tokens, 3, second_half_loss, lr=0.01, batch_size=4, seed=7)
    optimizer = torch.optim.Adam(expected.parameters())
    generator = torch.Generator().manual_seed(7)
    for step in range(3):
        optimizer.param_groups[0]["lr"] = 0.01 * (1 / 3, 2 / 3, 1)[step]  # the warm-up ends with the run
        batch = tokens[torch.randint(len(tokens), (4,), generator=generator)]
        optimizer.zero_grad()
        loss = second_half_loss(expected, batch)
        loss.backward()
        assert history.loss[step] == pytest.approx(loss.item(), abs=1e-5)
        torch.nn.utils.clip_grad_norm_(expected.parameters(), 1.0)
        optimizer.step()
    assert max(history.grad_norm) > 1  # clipping matters
    torch.testing.assert_close(weights(model), weights(expected), atol=1e-6, rtol=0)


def test_warm_up_takes_fifty_steps_and_then_a_cosine_begins():
    history = train(make(4, n_layers=1), spelled(["ox"]), 90, lr=1.0, batch_size=1)
    assert history.lr[:50] == pytest.approx([(step + 1) / 51 for step in range(50)])
    assert history.lr[50:] == pytest.approx([0.5 + 0.5 * math.cos(math.pi * step / 40) for step in range(40)])


def test_all_tokens_are_learned_unless_another_loss_is_given():
    tokens = pronounced(["tomato"])
    history = train(make(8), tokens, 1, batch_size=5)
    assert history.loss[0] == pytest.approx(language_model_loss(make(8), tokens).item(), abs=1e-5)


def test_batches_end_with_their_longest_row():
    tokens, seen = pronounced(CHOSEN), []

    def loss(model, batch):
        seen.append(batch)
        return second_half_loss(model, batch)

    train(make(4, n_layers=1), tokens, 12, loss, batch_size=2)
    assert all((batch[:, -1] != PAD).any() for batch in seen) and len({batch.shape[1] for batch in seen}) > 2


def test_training_is_seeded_and_leaves_the_random_numbers_of_the_caller():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    found = [train(make(4, n_layers=1), spelled(CHOSEN), 4, batch_size=2, seed=seed).loss for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def few_words(monkeypatch):
    """Eight words to learn from, and some to choose by: too few, so that what is learned soon gets worse."""
    split = words()
    few = Words(split.train[::15000], split.validation[::20], split.test[::100])
    monkeypatch.setattr(pronouncing, "words", lambda: few)
    return few


def test_the_best_weights_are_kept(few_words):
    tokens, kept, copies = pronounced(few_words.train), make(16), {}
    options = {"lr": 0.02, "batch_size": 8, "seed": 3}
    history, best = train_to_best(kept, tokens, 90, every=15, **options)

    def evaluate(model):
        copies[15 * (len(copies) + 1)] = deepcopy(model)
        return 0.0

    train(make(16), tokens, 90, second_half_loss, evaluate=evaluate, evaluate_every=15, **options)
    looked_at = pronounced(few_words.validation)
    losses = {step: second_half_loss(model, looked_at).item() for step, model in copies.items()}
    assert dict(history.evaluations) == pytest.approx(losses, abs=1e-4)
    assert list(losses) == [15, 30, 45, 60, 75, 90] and best == min(losses, key=losses.get) < 90
    assert same(weights(kept), weights(copies[best]))
    assert not same(weights(kept), weights(copies[90]))


def test_validation_words_choose_and_of_equal_looks_the_first_is_kept(monkeypatch):
    looks, model = [], make(4, n_layers=1)
    monkeypatch.setattr(pronouncing, "mean_loss", lambda model, tokens: looks.append((tokens, weights(model))) or 1.0)
    _, best = train_to_best(model, pronounced(["ox"]), 3, every=2, batch_size=1)
    expected = pronounced(words().validation[:1000])
    assert len(looks) == 2 and all(torch.equal(tokens, expected) for tokens, _ in looks)
    assert best == 2 and same(weights(model), looks[0][1]) and not same(weights(model), looks[1][1])


def interrupting(at):
    """second_half_loss that is stopped by hand in the training step `at`, counted from 1."""
    steps = []

    def loss(model, tokens):
        if model.training:
            steps.append(None)
            if len(steps) == at:
                raise KeyboardInterrupt
        return second_half_loss(model, tokens)

    return loss


def test_a_run_that_is_stopped_keeps_the_best_so_far(few_words, monkeypatch):
    model = make(4, n_layers=1)
    monkeypatch.setattr(pronouncing, "second_half_loss", interrupting(at=6))
    history, best = train_to_best(model, pronounced(few_words.train), 8, every=2)
    assert history.interrupted and [step for step, _ in history.evaluations] == [2, 4]
    assert mean_loss(model, pronounced(few_words.validation)) == pytest.approx(dict(history.evaluations)[best])


def test_a_run_that_is_stopped_before_the_first_look_has_no_best(few_words, monkeypatch):
    monkeypatch.setattr(pronouncing, "second_half_loss", interrupting(at=2))
    with pytest.raises(KeyboardInterrupt):
        train_to_best(make(4, n_layers=1), pronounced(few_words.train), 8, every=2)


# Pronouncing


def written(model, word, n):
    """What a model writes after a word, which is read anew for each token."""
    ids, found = vocabulary().encode(word, bos=True, eos=True), []
    for _ in range(n):
        token = int(model(torch.tensor([ids]))[0][0, -1].argmax())
        if token == EOS:
            break
        ids.append(token)
        found += [] if token in (PAD, BOS) else [vocabulary().tokens[token]]
    return found


def test_words_are_pronounced_as_one_at_a_time(model, monkeypatch):
    monkeypatch.setattr(pronouncing, "MAX_PHONEMES", 9)
    generator = torch.Generator().manual_seed(0)
    listed = list(LISTED)
    chosen = [listed[i] for i in torch.randint(len(listed), (20,), generator=generator)]
    chosen = [chosen[3], "ox", *chosen, "ox"]
    found = pronounce(model, chosen)
    assert found == [written(model, word, 9) for word in chosen]
    assert len(set(map(len, chosen))) > 4 and len(set(map(tuple, found))) > 4  # lengths are mixed, answers differ
    assert found[0] == found[5] and found[1] == found[-1]


def test_what_ends_is_cut_and_what_does_not_end_is_cut_off(monkeypatch):
    """A model that writes K, K, <eos>, K … after words that begin with c, and K for ever after others."""
    K = vocabulary().encode(["K"])[0]

    def model(tokens, state):
        endless, n = (tokens[:, 1] != vocabulary().encode("c")[0], 0) if state is None else state
        logits = torch.zeros(*tokens.shape, len(vocabulary()))
        logits[:, -1, K] = 1
        logits[~endless, -1, EOS] = 2.0 * (n == 2)
        return logits, (endless, n + 1)

    assert pronounce(model, ["cat", "ox", "cow"]) == [["K", "K"], ["K"] * 30, ["K", "K"]]


def test_no_listed_pronunciation_is_longer_than_what_may_be_written():
    assert max(len(phonemes) for several in LISTED.values() for phonemes in several) < pronouncing.MAX_PHONEMES


def test_the_phoneme_error_rate_counts_edits_to_the_nearest_pronunciation(monkeypatch):
    second = list(LISTED["tomato"][1])
    monkeypatch.setattr(pronouncing, "pronounce", lambda model, chosen: [["K", "AE"], second])
    assert phoneme_error_rate(None, ["cat", "tomato"]) == pytest.approx(1 / (3 + len(second)))


def test_a_few_words_are_learned():
    chosen, model = ["tomato", "ox", "cat", "alligator"], make(16)
    train(model, pronounced(chosen), 120, second_half_loss, lr=0.01, batch_size=8)
    assert pronounce(model, chosen) == [list(LISTED[word][0]) for word in chosen]
    assert phoneme_error_rate(model, chosen) == 0 and not model.blocks[0].attention.qkv.weight.isnan().any()


# Bad input

TOKENS = torch.tensor([[BOS, 5, EOS, 40, EOS]])


@pytest.mark.parametrize(
    "call",
    [
        spelled,
        pronounced,
        repeated,
        lambda chosen: stream(chosen, 2, 5),
        lambda chosen: pronounce(make(4), chosen),
        lambda chosen: phoneme_error_rate(make(4), chosen),
    ],
    ids=["spelled", "pronounced", "repeated", "stream", "pronounce", "phoneme_error_rate"],
)
@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("cat", "a list of words, got 'cat'"),
        ([], r"a list of words, got \[\]"),
        (["cat", "Cat"], "words of the letters a to z, got 'Cat'"),
        (["don't"], 'words of the letters a to z, got "don\'t"'),
        (["cat\n"], r"words of the letters a to z, got 'cat\\n'"),
        (["cat", ""], "words of the letters a to z, got ''"),
        ([3], "words of the letters a to z, got 3"),
    ],
)
def test_what_is_no_word_is_refused(call, chosen, message):
    with pytest.raises(ValueError, match=f"^chosen: expected {message}"):
        call(chosen)


@pytest.mark.parametrize("call", [pronounced, lambda chosen: phoneme_error_rate(make(4), chosen)])
def test_a_word_without_a_pronunciation_is_refused_where_one_is_needed(call):
    with pytest.raises(ValueError, match="^chosen: expected words of the dictionary, got 'blorfing'"):
        call(["cat", "blorfing"])
    assert spelled(["blorfing"]).shape == (1, 10)


@pytest.mark.parametrize(
    "call",
    [
        lambda tokens: second_half_loss(make(4), tokens),
        lambda tokens: mean_loss(make(4), tokens),
        lambda tokens: loss_by_place(make(4), tokens),
        lambda tokens: train(make(4), tokens, 1),
    ],
    ids=["second_half_loss", "mean_loss", "loss_by_place", "train"],
)
@pytest.mark.parametrize("tokens", [TOKENS[0], TOKENS.float(), TOKENS[:0]], ids=["shape", "dtype", "none"])
def test_tokens_that_are_not_rows_of_ids_are_refused(call, tokens):
    with pytest.raises(ValueError, match="^tokens: expected"):
        call(tokens)


@pytest.mark.parametrize("loss", [second_half_loss, mean_loss])
def test_rows_without_a_second_half_are_refused(loss):
    with pytest.raises(ValueError, match="^tokens: expected something after the first <eos> of a row"):
        loss(make(4), spelled(["ox", "cat"]))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda value: stream(["ox"], value, 5), "N"),
        (lambda value: stream(["ox"], 5, value), "T"),
        (lambda value: mean_loss(make(4), TOKENS, value), "rows"),
        (lambda value: make(value), "d_model"),
        (lambda value: make(4, n_layers=value), "n_layers"),
        (lambda value: make(4, n_heads=value), "n_heads"),
        (lambda value: train(make(4), TOKENS, value), "steps"),
        (lambda value: train(make(4), TOKENS, 1, batch_size=value), "batch_size"),
        (lambda value: train_to_best(make(4), TOKENS, 1, every=value), "every"),
    ],
)
@pytest.mark.parametrize("value", [0, 1.5, True])
def test_numbers_that_count_something_are_integers_from_one(call, name, value):
    with pytest.raises(ValueError, match=f"^{name}: expected an integer in "):
        call(value)


@pytest.mark.parametrize("call", [lambda s: stream(["ox"], 2, 5, s), lambda s: make(4, seed=s)])
@pytest.mark.parametrize("seed", [-1, 0.5, None])
def test_a_seed_is_an_integer_from_zero(call, seed):
    with pytest.raises(ValueError, match="^seed: expected an integer"):
        call(seed)
    with pytest.raises(ValueError, match="^seed: expected an integer"):
        train(make(4), TOKENS, 1, seed=seed)


def test_positions_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="^positions: expected"):
        make(4, positions="relative")


def test_a_head_that_points_at_the_next_letter_scores_1(monkeypatch):
    class Pointer:
        def attend(self, tokens):
            T = tokens.shape[1]
            weights = torch.full((len(tokens), 2, T, T), 0.25)
            for t in range(
                1, 4
            ):  # <bos> a b c d <eos> a b c: at letter t of the second copy, letter t + 1 of the first
                weights[:, 1, 5 + t] = torch.eye(T)[t + 1]
            return None, [torch.zeros(len(tokens), 2, T, T), weights]

    assert pronouncing.pointing(Pointer(), ["abcd", "no", "wxyz"], length=4) == 1
    with pytest.raises(ValueError, match="^chosen: expected a word of 5 letters, got none"):
        pronouncing.pointing(Pointer(), ["abcd"], length=5)
