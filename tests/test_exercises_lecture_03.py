"""Lecture 3's exercises: references equal independent computations, and texts are true, short and name the concept."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU

from answers import cases, combinations_are_wrong, each_exercise, exercises_of, hints_are_short
from course_utils import decoding, seq2seq
from course_utils.exercises import lecture_03

EXERCISES = exercises_of(lecture_03)
every_exercise = each_exercise(EXERCISES)
V, BOS, EOS = 6, 1, 2  # as in `decoding`


class Prefixes(NamedTuple):
    """A state for `decoding`: the tokens that each row of the batch has read."""

    rows: list

    def select(self, rows):
        return Prefixes([self.rows[i] for i in rows.tolist()])


class Model:
    """A step function of the exercises as a model for `decoding`."""

    def __init__(self, step):
        self.one_step = step

    def start(self, source):
        return Prefixes([[] for _ in source])

    def step(self, token, state):
        rows = [[*row, new] for row, new in zip(state.rows, token.tolist(), strict=True)]
        return torch.tensor(np.stack([self.one_step(row)[-1] for row in rows])), Prefixes(rows)


def random_step(seed: int, end: float = 0.0):
    """Logits by the whole prefix; <pad> and <bos>, which `decoding` never writes, are improbable."""
    def step(tokens):
        rows = [np.random.default_rng([seed, *tokens[:i + 1]]).normal(scale=2, size=V) for i in range(len(tokens))]
        scores = np.stack(rows)
        scores[:, EOS] += end
        scores[:, :2] = -1e6
        return scores
    return step


def softmax_log(scores):
    return torch.log_softmax(torch.tensor(scores), dim=-1).numpy()


# ---- the references -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", cases(lecture_03.shift_right))
def test_shift_right_is_the_packages(arguments):
    found = lecture_03.shift_right.reference(*arguments)
    assert found.dtype == torch.int64 and torch.equal(found, seq2seq.shift_right(*arguments))
    targets, bos = arguments
    assert found.tolist() == [[bos, *row[:-1]] for row in targets.tolist()]


@pytest.mark.parametrize("arguments", cases(lecture_03.seq2seq_loss))
def test_seq2seq_loss_is_the_packages_and_torchs(arguments):
    logits, targets, pad = arguments
    found = lecture_03.seq2seq_loss.reference(*arguments)
    torch.testing.assert_close(found, seq2seq.seq2seq_loss(*arguments))
    torch.testing.assert_close(found, F.cross_entropy(logits.mT, targets, ignore_index=pad))
    scores = logits.detach().numpy()
    nlls = [np.logaddexp.reduce(scores[b, t]) - scores[b, t, target]
            for b, row in enumerate(targets.tolist()) for t, target in enumerate(row) if target != pad]
    assert found.item() == pytest.approx(sum(nlls) / len(nlls))


def test_the_loss_has_the_packages_gradient():
    logits, targets, pad = lecture_03.seq2seq_loss.probes[0].arguments()
    gradients = []
    for loss in (lecture_03.seq2seq_loss.reference, seq2seq.seq2seq_loss):
        leaf = logits.detach().clone().requires_grad_()
        loss(leaf, targets, pad).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("seed, max_len", [*itertools.product(range(5), (1, 3, 9))])
def test_greedy_decode_is_the_packages(seed, max_len):
    step = random_step(seed)
    hypothesis, = decoding.greedy(Model(step), torch.tensor([[4]]), max_len)
    assert lecture_03.greedy_decode.reference(step, BOS, EOS, max_len) == hypothesis.tokens


@pytest.mark.parametrize("seed, width, max_len, end", [
    *itertools.product(range(3), (1, 2, 5), (1, 2, 6), (-1.0, 1.0))])
def test_beam_search_is_the_packages(seed, width, max_len, end):
    step = random_step(seed, end)
    best = decoding.beam(Model(step), torch.tensor([[4]]), width, max_len)[0][0]
    assert lecture_03.beam_search.reference(step, BOS, EOS, max_len, width) == best.tokens


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_most_probable_sequence_and_a_narrow_one_is_greedy(seed):
    step, n = random_step(seed), 4

    def total(words):
        log_p = softmax_log(step([BOS, *words]))
        ended = [*words, EOS] if len(words) < n else [*words]
        return sum(log_p[i, token] for i, token in enumerate(ended))

    words = [token for token in range(V) if token != EOS]
    every = [list(some) for length in range(n + 1) for some in itertools.product(words, repeat=length)]
    assert lecture_03.beam_search.reference(step, BOS, EOS, n, V**n) == max(every, key=total)
    assert lecture_03.beam_search.reference(step, BOS, EOS, n, 1) == lecture_03.greedy_decode.reference(
        step, BOS, EOS, n)


@pytest.mark.parametrize("candidate, references", [p.arguments() for p in lecture_03.bleu1.probes])
def test_bleu1_is_sacrebleus(candidate, references):
    bleu = BLEU(max_ngram_order=1, tokenize="none", smooth_method="none", force=True)
    score = bleu.corpus_score([" ".join(candidate)], [[" ".join(reference)] for reference in references])
    assert lecture_03.bleu1.reference(candidate, references) == pytest.approx(score.score / 100)


def test_bleu1_of_random_sentences_is_sacrebleus():
    rng = np.random.default_rng(0)
    bleu = BLEU(max_ngram_order=1, tokenize="none", smooth_method="none", force=True)
    for _ in range(100):
        candidate, *references = ([*rng.choice(list("abcdeF"), size=size)] for size in rng.integers(1, 9, size=4))
        score = bleu.corpus_score([" ".join(candidate)], [[" ".join(reference)] for reference in references])
        assert lecture_03.bleu1.reference(candidate, references) == pytest.approx(score.score / 100)


# ---- the cases ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", cases(lecture_03.beam_search))
def test_no_two_totals_are_close_where_the_beam_is_cut(arguments):
    """The result hangs neither on ties nor on rounding."""
    step, bos, eos, max_len, width = arguments
    beam = [([bos], 0.0)]
    for _ in range(max_len):
        candidates = [h for h in beam if h[0][-1] == eos]
        for tokens, total in beam:
            if tokens[-1] != eos:
                candidates += [([*tokens, k], total + float(p)) for k, p in enumerate(softmax_log(step(tokens)[-1]))]
        candidates.sort(key=lambda h: -h[1])
        totals = [total for _, total in candidates[:width + 1]]
        assert len(totals) < 2 or -np.diff(totals).max() > 1e-5
        beam = candidates[:width]
    assert lecture_03.beam_search.reference(*arguments) == [token for token in beam[0][0][1:] if token != eos]


@pytest.mark.parametrize("arguments", cases(lecture_03.greedy_decode))
def test_no_two_scores_are_close_on_the_greedy_way(arguments):
    step, bos, *_ = arguments
    scores = step([bos, *lecture_03.greedy_decode.reference(*arguments)])
    assert scores.shape[0] == 1 + len(lecture_03.greedy_decode.reference(*arguments))
    assert np.diff(np.sort(scores, axis=-1)[:, -2:]).min() > 1e-3


def test_a_step_function_depends_on_the_prefix_alone():
    for exercise in (lecture_03.greedy_decode, lecture_03.beam_search):
        for probe in exercise.probes:
            step, bos, *_ = probe.arguments()
            long = step([bos, 3, 4, 3])
            np.testing.assert_array_equal(long[:2], step(np.array([bos, 3])))
            with pytest.raises(ValueError, match="bos"):
                step([])


def test_a_search_without_pruning_is_stopped_before_it_fills_the_memory():
    def exhaustive(step, bos, eos, max_len, width):
        level = [[bos]]
        for _ in range(max_len):
            level = [[*tokens, k] for tokens in level for k in range(len(step(tokens)[-1]))]
        return level[0]

    message = lecture_03.beam_search.check(exhaustive).message
    assert "step was called more than" in message or "keep all continuations" in message


def test_the_numbers_in_the_advice_are_those_of_the_cases():
    loss = lecture_03.seq2seq_loss
    assert loss.reference(*loss.probes[1].arguments()).item() == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert f"({math.log(2):.4f} + {math.log(4):.4f}) / 2 = {math.log(8) / 2:.4f}" in loss.advice
    greedy, seen = lecture_03.greedy_decode, []
    step, *rest = greedy.probes[0].arguments()
    greedy.reference(lambda tokens: (seen.append(list(tokens)), step(tokens))[1], *rest)
    assert all(str(tokens) in greedy.advice for tokens in seen) and len(seen) == 5
    bleu = lecture_03.bleu1
    assert bleu.reference(*bleu.probes[2].arguments()) == pytest.approx(math.exp(-1)) and "0.3679" in bleu.advice
    assert bleu.reference(*bleu.probes[1].arguments()) == 2 / 4
    step, *rest = lecture_03.beam_search.probes[1].arguments()
    p = np.exp(softmax_log(step([1, 4]))), np.exp(softmax_log(step([1, 3])))
    assert p[0][0, 4] * p[0][1, 2] == pytest.approx(0.36) and p[1][0, 3] * p[1][1, 3] == pytest.approx(0.27)
    assert lecture_03.beam_search.reference(step, *rest) == [4]
    assert lecture_03.greedy_decode.reference(step, *rest[:-1]) == [3, 3]


# ---- the texts ------------------------------------------------------------------------------------------------------


def test_the_numbers_and_the_order():
    assert [(e.number, e.name) for e in EXERCISES] == [
        ("3.1", "shift_right"), ("3.2", "seq2seq_loss"), ("3.3", "greedy_decode"), ("3.4", "bleu1"),
        ("3.5", "beam_search")]
    assert all(5 <= e.minutes <= 20 and e.difficulty in (1, 2, 3) and e.advice for e in EXERCISES)


@every_exercise
def test_a_hint_on_a_mistake_has_at_most_two_sentences(exercise):
    hints_are_short(exercise)


@every_exercise
def test_no_mistake_raises_an_error(exercise):
    """Apart from the one that is stopped because it keeps everything."""
    for mistake in exercise.mistakes:
        outcomes = exercise.outcomes(mistake.function)
        allowed = {"never pruned": RuntimeError}.get(mistake.name)
        assert all(o.error is None or type(o.error) is allowed for o in outcomes), mistake.name


@every_exercise
def test_no_listed_combination_is_right_by_accident(exercise):
    combinations_are_wrong(exercise)


def test_hints_that_speak_of_a_case_have_one():
    """“in one of the cases 2 is a word”, “in the longest case the product underflows”, “0 is a real token”."""
    for exercise in (lecture_03.greedy_decode, lecture_03.beam_search):
        assert any(probe.arguments()[2] != 2 for probe in exercise.probes)
    step, bos, *_ = lecture_03.beam_search.probes[-1].arguments()
    tokens = lecture_03.beam_search.reference(*lecture_03.beam_search.probes[-1].arguments())
    log_p = softmax_log(step([bos, *tokens[:-1]]))
    total = sum(log_p[i, token] for i, token in enumerate(tokens))
    assert math.exp(total) == 0.0 and len(tokens) == 360
    assert any(pad != 0 and (targets == 0).any() for _, targets, pad in (
        probe.arguments() for probe in lecture_03.seq2seq_loss.probes))
