"""Perplexity and the token losses that it is made of."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from course_utils.corpora import BOS, EOS, PAD
from course_utils.metrics import perplexity, token_nlls
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
