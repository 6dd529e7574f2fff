"""Decoding against exhaustive search, against the model step by step, and on models whose best answer is known."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_utils import decoding
from course_utils.corpora import BOS, EOS, PAD, pad
from course_utils.decoding import Hypothesis, beam, greedy, sample, wu_penalty
from course_utils.seq2seq import EncoderDecoder, seq2seq_loss, shift_right, teacher_forced_loss

V = 6
TOKENS = [i for i in range(V) if i not in (PAD, BOS)]  # what may be written: <eos>, <unk> and two words
SOURCES = [[4, 5, 6], [7], [5, 5, 4, 8], [6, 8]]
UNEVEN = [(35, "lstm"), (9, "gru"), (27, "gru")]  # models (seed, cell) whose answers to SOURCES end at different steps
models = st.sampled_from(UNEVEN) | st.tuples(st.integers(0, 50), st.sampled_from(["lstm", "gru"]))


def make(seed=0, cell="gru", std=1.0) -> EncoderDecoder:
    torch.manual_seed(seed)
    model = EncoderDecoder(9, V, 3, 4, cell)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    return model


def generator(seed=0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def log_prob(model, source: list[int], written: list[int]) -> float:
    """The log-probability of the tokens as written, with <eos> where they have it."""
    with torch.no_grad():
        target = torch.tensor([written])
        log_p = torch.log_softmax(model(torch.tensor([source]), shift_right(target)).double(), dim=-1)
    return log_p[0].gather(1, target[0, :, None]).sum().item()


def written(hypothesis: Hypothesis) -> list[int]:
    return hypothesis.tokens + [EOS] * hypothesis.finished


def all_sequences(max_len: int) -> list[list[int]]:
    """Everything that can be written: ends in <eos>, or has max_len tokens."""
    words = [i for i in TOKENS if i != EOS]
    ended = [[*s, EOS] for n in range(max_len) for s in itertools.product(words, repeat=n)]
    return ended + [list(s) for s in itertools.product(words, repeat=max_len)]


class Memoryless:
    """A model that is no network: the next token depends on the last one alone, by a table of probabilities (V, V)."""

    class State:
        def __init__(self, rows):
            self.rows = rows

        def select(self, rows):
            return type(self)(self.rows[rows])

    def __init__(self, table):
        self.logits = torch.tensor(table).clamp(min=1e-12).log()

    def start(self, source):
        return self.State(source[:, 0])

    def step(self, token, state):
        assert token.shape == state.rows.shape
        return self.logits[token].clone(), state


# Greedy takes 4 (0.6), after which all is open; 3 leads to a sure end.
TRAP = Memoryless(
    [
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0.4, 0.6, 0],  # after <bos>
        [0, 0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],  # after 3: <eos>
        [0, 0, 0.3, 0.25, 0.2, 0.25],  # after 4
        [0, 0, 0.5, 0.5, 0, 0],
    ]
)


def test_greedy_falls_into_the_trap_and_a_beam_of_two_does_not():
    source = torch.tensor([[7]])
    assert greedy(TRAP, source, 5)[0] == ([4], pytest.approx(math.log(0.6 * 0.3)), True)
    best, second = beam(TRAP, source, 2, 5)[0]
    assert best == ([3], pytest.approx(math.log(0.4)), True)
    assert second == ([4], pytest.approx(math.log(0.18)), True)


@given(models, st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_greedy_takes_the_most_probable_token_each_time(seed_and_cell, max_len):
    model = make(*seed_and_cell)
    for source, found in zip(SOURCES, greedy(model, pad(SOURCES), max_len), strict=True):
        state, last, expected = model.start(torch.tensor([source])), BOS, []
        while len(expected) < max_len and last != EOS:
            logits, state = model.step(torch.tensor([last]), state)
            last = max(TOKENS, key=lambda i: logits[0, i].item())  # noqa: B023
            expected.append(last)
        assert written(found) == expected and found.finished == (last == EOS)
        assert found.log_prob == pytest.approx(log_prob(model, source, expected), abs=1e-4)


@given(models, st.integers(1, 6), st.sampled_from([0.0, 0.6, 2.0]))
@settings(max_examples=25, deadline=None)
def test_a_beam_of_width_1_is_greedy(seed_and_cell, max_len, penalty):
    model, source = make(*seed_and_cell), pad(SOURCES)
    for one, [other] in zip(greedy(model, source, max_len), beam(model, source, 1, max_len, penalty), strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5])
@pytest.mark.parametrize(("seed", "cell"), [*UNEVEN, (0, "gru")])
def test_a_beam_that_holds_everything_is_exhaustive_search(seed, cell, penalty):
    model, max_len = make(seed, cell), 3
    everything = all_sequences(max_len)
    for source, found in zip(SOURCES, beam(model, pad(SOURCES), V**max_len, max_len, penalty), strict=True):
        known = {tuple(s): log_prob(model, source, s) for s in everything}
        assert len(found) == len(everything)
        assert {tuple(written(h)): h.log_prob for h in found} == pytest.approx(known, abs=1e-4)
        scores = [known[tuple(written(h))] / ((5 + len(written(h))) / 6) ** penalty for h in found]
        assert all(a >= b - 1e-4 for a, b in itertools.pairwise(scores))
        assert sum(math.exp(h.log_prob) for h in found) <= 1 + 1e-5


def test_a_wider_beam_finds_no_worse_a_sequence_here():
    model = make(3)
    best = [beam(model, pad(SOURCES), width, 4)[0][0].log_prob for width in (1, 4, V**4)]
    assert best[0] <= best[1] + 1e-5 and best[1] <= best[2] + 1e-5


def test_without_length_penalty_hypotheses_are_ranked_by_their_log_probability():
    model = make(1)
    for source, beams in zip(SOURCES, beam(model, pad(SOURCES), 5, 6), strict=True):
        values = [h.log_prob for h in beams]
        assert values == sorted(values, reverse=True)
        assert values == pytest.approx([log_prob(model, source, written(h)) for h in beams], abs=1e-4)


def test_length_penalty_is_that_of_wu_et_al():
    assert wu_penalty(7, 0) == 1 and wu_penalty(1, 0.6) == 1
    assert wu_penalty(7, 1) == 2 and wu_penalty(19, 0.5) == 2
    assert torch.equal(wu_penalty(torch.tensor([1, 7]), 1), torch.tensor([1.0, 2.0]))


def test_length_penalty_prefers_the_longer_sequence_where_it_should():
    """Either <eos> at once (0.3), or with 0.25 first a 5 and then a sure <eos>."""
    table = [[0.0] * V for _ in range(V)]
    table[BOS] = [0, 0, 0.3, 0.2, 0.25, 0.25]
    table[3] = table[4] = [0, 0, 0.1, 0.3, 0.3, 0.3]
    table[5] = table[EOS] = table[PAD] = [0, 0, 1.0, 0, 0, 0]
    model, source = Memoryless(table), torch.tensor([[7]])
    assert beam(model, source, 4, 3)[0][0].tokens == []
    # log 0.3 = -1.204 for one token; log 0.25 = -1.386 for two: better from (7/6)^α > 1.1515 on, α > 0.915
    assert beam(model, source, 4, 3, 0.85)[0][0].tokens == []
    assert beam(model, source, 4, 3, 0.95)[0][0].tokens == [5]


class Recorded(EncoderDecoder):
    """Remembers the tokens that it was given."""

    def step(self, token, state):
        self.seen.append(token.tolist())
        return super().step(token, state)


def recorded(seed=0) -> Recorded:
    torch.manual_seed(seed)
    model = Recorded(9, V, 3, 4)
    model.seen = []
    return model


def test_finished_hypotheses_are_not_extended():
    model = recorded()
    with torch.no_grad():  # all tokens about equally likely, so that some hypotheses end early and others don't
        model.out.weight.mul_(0.1)
        model.out.bias.zero_()
        model.out.bias[EOS] = 0.5
    [beams] = beam(model, torch.tensor([[4, 5]]), 12, 4)
    ended = {tuple(h.tokens) for h in beams if h.finished}
    assert len(ended) > 2 and len({len(tokens) for tokens in ended}) > 1
    for h in beams:
        assert h.log_prob == pytest.approx(log_prob(model, [4, 5], written(h)), abs=1e-5)  # nothing added behind <eos>
        assert not {PAD, BOS, EOS} & set(h.tokens)
    assert len({tuple(written(h)) for h in beams}) == len(beams)  # none twice


@pytest.mark.parametrize(
    "write",
    [
        lambda model, source: greedy(model, source, 9),
        lambda model, source: sample(model, source, 9, generator=generator()),
        lambda model, source: beam(model, source, 1, 9),
    ],
)
def test_decoding_stops_when_every_row_is_finished(write):
    model = recorded()
    with torch.no_grad():
        model.out.bias[EOS] = 60
    write(model, pad(SOURCES))
    assert model.seen == [[BOS] * 4]


@pytest.mark.parametrize(("seed", "cell"), UNEVEN)
def test_a_ragged_batch_is_decoded_as_each_source_by_itself(seed, cell):
    model = make(seed, cell)
    together, beams = greedy(model, pad(SOURCES), 7), beam(model, pad(SOURCES), 3, 7, 0.6)
    assert len({len(h.tokens) for h in together}) > 2
    for i, source in enumerate(SOURCES):
        for one, other in zip(
            [together[i], *beams[i]],
            [*greedy(model, torch.tensor([source]), 7), *beam(model, torch.tensor([source]), 3, 7, 0.6)[0]],
            strict=True,
        ):
            assert (one.tokens, one.finished) == (other.tokens, other.finished)
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)


def test_samples_are_repeatable_and_know_their_log_probability():
    model, source = make(std=0.5), pad(SOURCES)
    draw = lambda seed: sample(model, source, 8, generator=generator(seed), temperature=1.5)  # noqa: E731
    assert draw(1) == draw(1) != draw(2)
    for row, h in zip(SOURCES, draw(1), strict=True):
        assert h.log_prob == pytest.approx(log_prob(model, row, written(h)), abs=1e-4)
        assert len(written(h)) == 8 or h.finished
        assert not {PAD, BOS, EOS} & set(h.tokens)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_follow_the_models_distribution(temperature):
    model, N = make(std=0.6), 4000
    source = torch.tensor([[4, 5, 6]])
    drawn = sample(model, source.expand(N, -1), 2, generator=generator(), temperature=temperature)
    first = torch.tensor([written(h)[0] for h in drawn]).bincount(minlength=V) / N
    logits, state = model.step(torch.tensor([BOS]), model.start(source))
    logits[:, [PAD, BOS]] = -torch.inf
    p = torch.softmax(logits[0] / temperature, dim=0)
    torch.testing.assert_close(first, p.detach(), atol=0.04, rtol=0)  # 5 standard deviations of a share

    word = max(set(TOKENS) - {EOS}, key=lambda i: p[i].item())  # the second token depends on the first
    second = torch.tensor([written(h)[1] for h in drawn if written(h)[0] == word])
    logits, _ = model.step(torch.tensor([word]), state)
    logits[:, [PAD, BOS]] = -torch.inf
    p = torch.softmax(logits[0] / temperature, dim=0).detach()
    share = second.bincount(minlength=V) / len(second)
    torch.testing.assert_close(share, p, atol=2.5 / len(second) ** 0.5, rtol=0)


def test_pad_and_bos_are_never_written():
    model = make()
    with torch.no_grad():
        model.out.bias[[PAD, BOS]] = 50
    source = pad(SOURCES)
    found = (
        greedy(model, source, 5) + sample(model, source, 5, generator=generator()) + sum(beam(model, source, 3, 5), [])
    )
    assert not {PAD, BOS} & {i for h in found for i in h.tokens}


def test_free_running_feeds_the_model_its_own_tokens():
    model, source = make(27), pad(SOURCES)
    logits = decoding.free_running_logits(model, source, 5)
    assert logits.shape == (4, 5, V)
    own = logits[..., TOKENS].argmax(dim=-1)
    own = torch.tensor(TOKENS)[own]  # (B, T)
    torch.testing.assert_close(logits, model(source, shift_right(own)).detach(), atol=1e-5, rtol=0)
    for row, h in zip(own.tolist(), greedy(model, source, 5), strict=True):
        assert row[: len(written(h))] == written(h)


def test_free_running_loss_is_the_teacher_forced_one_where_the_model_is_right_and_another_elsewhere():
    model, source = make(27), pad(SOURCES)
    own = pad([written(h) for h in greedy(model, source, 6)])
    free, forced = decoding.free_running_loss(model, (source, own)), teacher_forced_loss(model, (source, own))
    assert free.item() == pytest.approx(forced.item(), abs=1e-5)
    target = torch.tensor([[5, 4, 3, EOS]] * 4)
    free = decoding.free_running_loss(model, (source, target))
    assert free.item() == pytest.approx(seq2seq_loss(decoding.free_running_logits(model, source, 4), target).item())
    assert abs(free.item() - teacher_forced_loss(model, (source, target)).item()) > 0.01


CALLS = {
    "greedy": lambda model, source, max_len=3: greedy(model, source, max_len),
    "sample": lambda model, source, max_len=3: sample(model, source, max_len, generator=generator()),
    "beam": lambda model, source, max_len=3: beam(model, source, 2, max_len),
    "free_running": lambda model, source, max_len=3: decoding.free_running_logits(model, source, max_len),
}
calls = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@calls
@pytest.mark.parametrize("training", [True, False])
def test_decoding_runs_in_eval_mode_without_gradients_and_restores_the_mode(call, training):
    model, modes = make(), set()
    model.out.register_forward_hook(lambda *_: modes.add((model.training, torch.is_grad_enabled())))
    model.train(training)
    call(model, pad(SOURCES))
    assert modes == {(False, False)} and model.training == training


@calls
def test_the_mode_is_restored_after_an_error(call):
    model = make()
    with pytest.raises(ValueError, match="^source: expected"):
        call(model, torch.tensor([[99]]))
    assert model.training


class Never:
    """A model that must not be asked."""

    def start(self, source):
        raise AssertionError("the model was used before the arguments were checked")


@calls
@pytest.mark.parametrize("source", [torch.ones(2).long(), torch.ones(2, 2), [[4, 5]], torch.ones(0, 2).long()])
def test_wrong_sources_are_named_before_anything_is_computed(call, source):
    with pytest.raises(ValueError, match="^source: expected"):
        call(Never(), source)


@given(st.sampled_from(list(CALLS)), st.one_of(st.integers(max_value=0), st.floats(), st.booleans(), st.none()))
def test_wrong_lengths_are_named_before_anything_is_computed(name, value):
    with pytest.raises(ValueError, match="^(max_len|steps): expected an integer"):
        CALLS[name](Never(), torch.tensor([[4]]), value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, s: beam(m, s, 0, 3), "width: expected an integer"),
        (lambda m, s: beam(m, s, 1.5, 3), "width: expected an integer"),
        (lambda m, s: beam(m, s, 2, 3, -0.1), "length_penalty: expected a number"),
        (lambda m, s: beam(m, s, 2, 3, math.nan), "length_penalty: expected a number"),
        (lambda m, s: sample(m, s, 3, generator=generator(), temperature=0), "temperature: expected a number"),
        (lambda m, s: sample(m, s, 3, generator=0), "generator: expected a torch.Generator, got int"),
        (lambda m, s: decoding.free_running_loss(m, (s, torch.ones(2, 3).long())), "target: expected shape"),
        (lambda m, s: decoding.free_running_loss(m, (s, torch.ones(1, 3))), "target: expected dtype int"),
    ],
)
def test_wrong_settings_are_named_before_anything_is_computed(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call(Never(), torch.tensor([[4, 5]]))


@calls
@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.full((1, V), torch.nan), "expected finite values, got NaN"),
        (torch.zeros(1, 1, V), r"expected shape \(B, V\)"),
        (torch.zeros(1, V).long(), "expected dtype float"),
    ],
)
def test_wrong_logits_of_a_model_are_named(call, logits, message):
    model = Memoryless([[1.0] * V] * V)
    model.step = lambda token, state: (logits.expand(len(token), *logits.shape[1:]), state)
    with pytest.raises(ValueError, match=f"^logits: {message}"):
        call(model, torch.tensor([[4, 5]]))
