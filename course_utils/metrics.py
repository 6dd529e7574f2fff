"""Measures of a model's quality."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
import torch.nn.functional as F

from course_utils import corpora, shapes


def perplexity(nlls: Sequence[np.ndarray]) -> float:
    """Perplexity: e to the mean negative log-likelihood of a token.

    nlls: a list of 1-D arrays, one for each batch, of any lengths. Each entry is the
        negative log-likelihood of one token in nats (natural logarithm), without padding.
        Every token has the same weight in the mean, whichever batch it is in.
    Returns a number ≥ 1: among how many equally likely tokens a guess would be as hard.

    Raises ValueError if there are no tokens, or for entries below 0, NaN or infinite.

    Source: Jelinek, Mercer, Bahl and Baker (1977), "Perplexity: a measure of the
    difficulty of speech recognition tasks"; Jurafsky and Martin, Speech and Language
    Processing, chapter 3.
    """
    _check_nlls(nlls)
    total = sum(float(batch.sum()) for batch in nlls)
    tokens = sum(batch.size for batch in nlls)
    return math.exp(total / tokens)


def token_nlls(model: torch.nn.Module, batches: Iterable[torch.Tensor]) -> list[np.ndarray]:
    """Negative log-likelihood in nats of every token that a language model has to predict.

    model: maps tokens (B, T) to (logits (B, T, V), state), like `recurrent.RecurrentLM`; used in eval
        mode without gradients, its mode is restored.
    batches: token ids (B, T), T ≥ 2, each row `<bos> … <eos>` and then padding.
    Returns one 1-D float64 array a batch, row after row: the tokens after the first, without padding.

    Raises ValueError for a batch of the wrong shape or dtype.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return [_batch_nlls(model, tokens) for tokens in batches]
    finally:
        model.train(was_training)


def _batch_nlls(model: torch.nn.Module, tokens: torch.Tensor) -> np.ndarray:
    shapes.expect(tokens, "B T", "tokens", dtype="int")
    shapes.in_range(tokens.shape[1], "tokens: length T", low=2, integer=True)
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    logits, _ = model(inputs)  # (B, T-1, V)
    nll = F.cross_entropy(logits.mT, targets, reduction="none")  # (B, T-1)
    return nll[targets != corpora.PAD].double().cpu().numpy()


def _check_nlls(nlls: Sequence[np.ndarray]) -> None:
    if not isinstance(nlls, list | tuple):
        raise ValueError(f"nlls: expected a list of arrays, got {type(nlls).__name__}")
    if not nlls:
        raise ValueError("nlls: expected at least one array, got an empty list")
    for i, batch in enumerate(nlls):
        shapes.expect(batch, "N?", f"nlls[{i}]", finite=True)
        if batch.size and batch.min() < 0:
            raise ValueError(f"nlls[{i}]: expected values ≥ 0 (no probability exceeds 1), got {batch.min():.4g}")
    if not any(batch.size for batch in nlls):
        raise ValueError("nlls: expected at least one token, got only empty arrays")
