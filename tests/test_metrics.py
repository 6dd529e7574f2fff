"""Perplexity and token losses; exact match, BLEU and edit-distance error rates; attention against gold alignments."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU

from course_utils.corpora import BOS, EOS, PAD
from course_utils.metrics import (
    alignment_error_rate,
    alignment_links,
    attention_on_gold,
    corpus_bleu,
    error_rate,
    exact_match,
    perplexity,
    token_nlls,
)
from course_utils.phrases import generate
from course_utils.recurrent import RecurrentLM

losses = st.lists(st.floats(0, 20), min_size=1, max_size=8)


@given(st.lists(losses, min_size=1, max_size=5))
def test_perplexity_is_the_exponential_of_torchs_mean_over_all_tokens(batches):
    tokens = torch.tensor([x for batch in batches for x in batch], dtype=torch.float64)
    assert perplexity([np.array(batch) for batch in batches]) == pytest.approx(math.exp(tokens.mean()))


@given(losses, st.integers(0, 8))
def test_perplexity_does_not_depend_on_how_tokens_are_batched(values, cut):
    whole = np.array(values)
    assert perplexity([whole[:cut], whole[cut:]]) == pytest.approx(perplexity([whole]))


def test_a_uniform_guess_among_v_tokens_has_perplexity_v():
    assert perplexity([np.full(3, math.log(29)), np.full(1, math.log(29))]) == pytest.approx(29)


def test_a_token_counts_the_same_in_a_short_and_in_a_long_batch():
    assert perplexity([np.zeros(3), np.array([math.log(16)])]) == pytest.approx(2)  # not 4, the mean of batch means


@pytest.mark.parametrize(
    ("nlls", "message"),
    [
        ([], "nlls: expected at least one array, got an empty list"),
        ([np.array([])], "nlls: expected at least one token, got only empty arrays"),
        ([np.array([1.0, np.nan])], r"nlls\[0\]: expected finite values, got NaN at index \(1,\)"),
        ([np.array([1.0]), np.array([np.inf])], r"nlls\[1\]: expected finite values, got inf at index \(0,\)"),
        ([np.array([0.5, -0.1])], r"nlls\[0\]: expected values ≥ 0 \(no probability exceeds 1\), got -0.1"),
        ([np.ones((2, 2))], r"nlls\[0\]: expected shape \(N,\), got \(2, 2\)"),
        ([[1.0, 2.0]], r"nlls\[0\]: expected an array, got list"),
        (np.float64(1.0), "nlls: expected a list of arrays, got float64"),
    ],
)
def test_perplexity_refuses(nlls, message):
    with pytest.raises(ValueError, match=message):
        perplexity(nlls)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return RecurrentLM(9, 3, 4)


BATCHES = [
    torch.tensor([[BOS, 5, 6, 7, EOS], [BOS, 8, EOS, PAD, PAD]]),
    torch.tensor([[BOS, 4, EOS]]),
]


def test_token_nlls_are_minus_log_probability_of_each_real_token(model):
    nlls = token_nlls(model, BATCHES)
    for batch, found in zip(BATCHES, nlls, strict=True):
        expected = []
        for row in batch.tolist():
            ids = [i for i in row if i != PAD]
            for t in range(1, len(ids)):  # each prefix alone, so that neither padding nor the future can matter
                logits, _ = model(torch.tensor([ids[:t]]))
                expected.append(-F.log_softmax(logits[0, -1], dim=0)[ids[t]].item())
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_more_padding_changes_no_token_nll(model):
    padded = [F.pad(batch, (0, 3), value=PAD) for batch in BATCHES]
    for one, other in zip(token_nlls(model, BATCHES), token_nlls(model, padded), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_token_nlls_measures_in_eval_mode_and_restores_the_mode(model, training):
    modes = []
    model.register_forward_hook(lambda *_: modes.append((model.training, torch.is_grad_enabled())))
    model.train(training)
    token_nlls(model, BATCHES)
    assert modes == [(False, False)] * 2
    assert model.training == training


def test_token_nlls_restores_the_mode_after_an_error(model):
    with pytest.raises(ValueError, match="tokens"):
        token_nlls(model, [torch.ones(2, 3)])
    assert model.training


@pytest.mark.parametrize("tokens", [torch.ones(3, dtype=torch.long), torch.ones(2, 3), torch.full((2, 1), BOS)])
def test_token_nlls_refuses_wrong_batches(model, tokens):
    with pytest.raises(ValueError, match="tokens"):
        token_nlls(model, [tokens])


CAT, TOMATO = ("K", "AE", "T"), [("T", "AH", "M", "EY", "T", "OW"), ("T", "AH", "M", "AA", "T", "OW")]
words = st.lists(st.sampled_from(["K", "AE", "T", "NG", "a"]), max_size=6)
references = words.filter(len)
pairs = st.lists(st.tuples(words, st.lists(references, min_size=1, max_size=3)), min_size=1, max_size=5)


def levenshtein(a: list[str], b: list[str]) -> int:
    """By its definition: all ways to treat the first tokens."""
    if not a or not b:
        return len(a) + len(b)
    rest = levenshtein(a[1:], b[1:])
    return rest if a[0] == b[0] else 1 + min(rest, levenshtein(a[1:], b), levenshtein(a, b[1:]))


def test_exact_match_needs_one_of_the_references_in_full():
    said = [["K", "AE", "T"], ["T", "AH", "M", "AA", "T", "OW"], ["T", "AH"], ["KAET"]]
    assert exact_match(said, [CAT, TOMATO, TOMATO, CAT]) == 0.5
    assert exact_match([tuple(tokens) for tokens in said[:2]], [list(CAT), tuple(TOMATO)]) == 1
    assert exact_match([[]], [CAT]) == 0


@given(pairs)
def test_error_rate_equals_levenshtein_by_its_definition(pairs):
    predictions, listed = map(list, zip(*pairs, strict=True))
    errors = tokens = 0
    for prediction, several in pairs:
        distance, _, length = min((levenshtein(prediction, r), i, len(r)) for i, r in enumerate(several))
        errors, tokens = errors + distance, tokens + length
    assert error_rate(predictions, listed) == pytest.approx(errors / tokens)
    assert (error_rate(predictions, listed) == 0) == (exact_match(predictions, listed) == 1)


def test_error_rate_counts_tokens_not_items_and_takes_the_nearest_reference():
    assert error_rate([["K", "AE"]], [CAT]) == pytest.approx(1 / 3)
    assert error_rate([["K", "AE"], ["T", "AH", "M", "AA", "T", "AH"]], [CAT, TOMATO]) == pytest.approx(2 / 9)
    assert error_rate([["NG", "AE", "T", "S"]], [CAT]) == pytest.approx(2 / 3)
    assert error_rate([["a", "b", "c"]], [["a"]]) == 2  # above 1: more errors than tokens
    assert error_rate([[]], [CAT]) == 1
    # equally near: the first one listed, with its length
    assert error_rate([["a", "b"]], [[["a"], ["a", "b", "c"]]]) == 1
    assert error_rate([["a", "b"]], [[["a", "b", "c"], ["a"]]]) == pytest.approx(1 / 3)


@given(pairs)
def test_bleu_equals_sacrebleus_own(pairs):
    predictions, listed = map(list, zip(*pairs, strict=True))
    streams = [[" ".join(r[i]) if i < len(r) else None for r in listed] for i in range(max(map(len, listed)))]
    bleu = BLEU(tokenize="none")
    expected = bleu.corpus_score([" ".join(tokens) for tokens in predictions], streams)
    found = corpus_bleu(predictions, listed)
    assert found == (expected.score, str(bleu.get_signature()))
    assert "tok:none" in found.signature and "case:mixed" in found.signature


def test_bleu_by_hand():
    reference = "the cat sat on the mat".split()
    assert corpus_bleu([reference], [reference]).score == pytest.approx(100)
    # 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples
    other = "the cat sat on a mat".split()
    assert corpus_bleu([other], [reference]).score == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** (1 / 4))
    # all n-grams right, but 4 words instead of 6: brevity penalty e^(1 - 6/4)
    assert corpus_bleu([reference[:4]], [reference]).score == pytest.approx(100 * math.exp(1 - 6 / 4))
    # counts are clipped, and added up over the corpus: 2 + 6 of 4 + 6 words, 0 + 5 of 3 + 5 pairs, and so on
    both = corpus_bleu([["the"] * 4, reference], [reference[:4] + ["the"], reference])
    assert both.score == pytest.approx(100 * math.exp(1 - 11 / 10) * (8 / 10 * 5 / 8 * 4 / 6 * 3 / 4) ** (1 / 4))


def test_bleu_depends_on_case_takes_the_best_of_several_references_and_is_0_without_four_words():
    four = ["a", "b", "c", "."]
    assert corpus_bleu([four], [[["x"], four]]).score == pytest.approx(100)
    assert corpus_bleu([four], [[t.upper() for t in four]]).score < 50
    assert corpus_bleu([four[:3]], [four[:3]]).score == 0


def test_bleu_says_nothing_about_many_sentences_that_end_in_a_period(caplog, capsys):
    corpus_bleu([["a", "."]] * 150, [["a", "."]] * 150)
    assert not caplog.records and capsys.readouterr() == ("", "")


@pytest.mark.parametrize("metric", [exact_match, error_rate, corpus_bleu])
@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "predictions, references: expected equally many, at least one, got 0 predictions and 0 references"),
        (
            [["a"]],
            [["a"], ["b"]],
            "predictions, references: expected equally many, at least one, got 1 predictions and 2",
        ),
        ("cat", [["a"]], "predictions: expected a list, got str"),
        ([["a"]], "c", "references: expected a list, got str"),
        (["cat"], [["a"]], r"predictions\[0\]: expected a list of tokens, each a string, got 'cat'"),
        ([[4, 5]], [["a"]], r"predictions\[0\]: expected a list of tokens, each a string, got \[4, 5\]"),
        ([["a"]], ["cat"], r"references\[0\]: expected a list of tokens, or of several such lists, got 'cat'"),
        ([["a"]], [[4, 5]], r"references\[0\]: expected a list of tokens, each a string, got 4"),
        ([["a"]], [[["a"], "b"]], r"references\[0\]: expected a list of tokens, each a string, got 'b'"),
        ([["a"]], [["a", ["b"]]], r"references\[0\]: expected a list of tokens, each a string"),
        ([["a"], ["a"]], [["a"], []], r"references\[1\]: expected at least one token, got none"),
        ([["a"]], [[["a"], []]], r"references\[0\]: expected at least one token, got none"),
    ],
)
def test_comparisons_refuse(metric, predictions, references, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        metric(predictions, references)


@pytest.mark.parametrize("token", ["a b", "a ", "", "\u00a0"])
def test_bleu_refuses_tokens_that_would_fall_apart(token):
    with pytest.raises(ValueError, match="^tokens: expected tokens without spaces, got "):
        corpus_bleu([["a", token]], [["a", "b"]])
    with pytest.raises(ValueError, match="^tokens: expected tokens without spaces, got "):
        corpus_bleu([["a"]], [[["a"], [token]]])


# Alignment

WEIGHTS = np.array([[0.1, 0.2, 0.7, 0.0], [0.5, 0.45, 0.05, 0.0], [0.3, 0.4, 0.3, 0.0], [0.0, 0.0, 0.0, 1.0]])
links = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)


@pytest.mark.parametrize("kind", [np.array, torch.tensor, lambda w: torch.tensor(w, dtype=torch.bfloat16)])
def test_links_go_from_the_source_token_with_the_largest_weight_to_each_target_token(kind):
    weights = kind(WEIGHTS)
    assert alignment_links(weights, 4) == [(0, 1), (1, 2), (2, 0), (3, 3)]
    assert alignment_links(weights, 3) == [(0, 1), (1, 2), (2, 0)]  # the row of <eos> is ignored
    assert alignment_links(weights, 3, threshold=0.375) == [(0, 1), (1, 1), (1, 2), (2, 0)]
    assert alignment_links(weights, 3, threshold=1) == []
    assert alignment_links(weights, 3, threshold=0.5) == [(0, 1), (2, 0)]  # at least that


@given(st.lists(st.tuples(links, links), min_size=1, max_size=4))
def test_aer_is_och_and_neys_with_all_gold_links_sure_and_possible(pairs):
    found, gold = ([sorted(side) for side in sides] for sides in zip(*pairs, strict=True))
    a, s = ({(k, *link) for k, several in enumerate(side) for link in several} for side in (found, gold))
    if not a | s:
        return
    expected = 1 - (len(a & s) + len(a & s)) / (len(a) + len(s))
    assert alignment_error_rate(found, gold) == pytest.approx(expected)
    assert alignment_error_rate(gold, found) == pytest.approx(expected)
    assert alignment_error_rate([side * 2 for side in found], gold) == pytest.approx(expected)  # listed twice


def test_aer_of_the_gold_links_is_0_and_of_wrong_ones_1():
    pairs = generate(50, seed=3)
    gold = [pair.alignment for pair in pairs]
    assert alignment_error_rate(gold, gold) == 0
    swapped = [[(j + 100, i) for i, j in several] for several in gold]
    assert alignment_error_rate(swapped, gold) == 1
    assert alignment_error_rate([[]] * 50, gold) == 1


def test_aer_sums_over_sentences():
    assert alignment_error_rate([[(0, 0)], [(0, 1), (1, 1), (2, 1)]], [[(0, 0)], [(0, 0)]]) == pytest.approx(1 - 2 / 6)


def test_weights_on_the_gold_links_of_the_grammar_give_its_alignment():
    masses, found = [], []
    pairs = generate(30, seed=5)
    for pair in pairs:
        weights = np.full((len(pair.target) + 1, len(pair.source)), 1e-9)  # a last row for <eos>
        for i, j in pair.alignment:
            weights[j, i] = 1
        weights /= weights.sum(axis=1, keepdims=True)
        masses.append(weights)
        words = {j for _, j in pair.alignment}
        found.append([link for link in alignment_links(weights, len(pair.target), 0.2) if link[1] in words])
    gold = [pair.alignment for pair in pairs]
    assert alignment_error_rate(found, gold) == 0
    assert attention_on_gold(masses, gold) == pytest.approx(1, abs=1e-6)


def test_attention_on_gold_is_the_mean_over_linked_target_tokens():
    first = [(2, 0), (0, 2), (2, 2), (0, 2)]  # 0.7 for token 0, 0.3 + 0.3 for token 2, a link twice counts once
    assert attention_on_gold([WEIGHTS], [first]) == pytest.approx((0.7 + 0.6) / 2)
    assert attention_on_gold([WEIGHTS, torch.tensor(WEIGHTS), WEIGHTS], [first, [(1, 1)], []]) == pytest.approx(
        (0.7 + 0.6 + 0.45) / 3
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: alignment_links(WEIGHTS.tolist(), 3), "weights: expected an array, got list"),
        (lambda: alignment_links(WEIGHTS[0], 1), "weights: expected shape"),
        (lambda: alignment_links(WEIGHTS.T, 3), r"weights: expected rows \(T, S\) that sum to 1, got 0.9 in row 0"),
        (lambda: alignment_links(WEIGHTS, 5), r"weights: target tokens: expected an integer in \[1, 4\], got 5"),
        (lambda: alignment_links(WEIGHTS, 0), "weights: target tokens: expected an integer"),
        (lambda: alignment_links(WEIGHTS, 3, 0), r"threshold: expected a number in \(0, 1\], got 0"),
        (lambda: alignment_error_rate([], []), "links, gold: expected links of equally many pairs of sentences"),
        (lambda: alignment_error_rate([[(0, 0)]], [[(0, 0)], []]), "links, gold: .* got 1 and 2"),
        (lambda: alignment_error_rate([[]], [[]]), "links, gold: expected at least one link, got none"),
        (lambda: alignment_error_rate([[(0, 0)]], [(0, 0)]), r"gold\[0\]: expected links \(i, j\)"),
        (lambda: alignment_error_rate([[(0, -1)]], [[(0, 0)]]), r"links\[0\]: expected links \(i, j\)"),
        (lambda: alignment_error_rate([[(0, 1, 2)]], [[(0, 0)]]), r"links\[0\]: expected links \(i, j\)"),
        (lambda: attention_on_gold([WEIGHTS], [[(4, 0)]]), r"gold\[0\]: source position: expected a number"),
        (lambda: attention_on_gold([WEIGHTS], [[(0, 4)]]), r"weights\[0\]: target tokens: expected an integer"),
        (lambda: attention_on_gold([WEIGHTS], [[]]), "gold: expected at least one link, got none"),
    ],
)
def test_alignment_measures_refuse(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
