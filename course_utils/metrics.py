"""Measures of a model's quality."""

import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics import BLEU

from course_utils import corpora, shapes

Tokens = Sequence[str]  # a list or tuple of tokens
Links = Iterable[tuple[int, int]]  # (i, j): target token j translates source token i, as in phrases.Pair.alignment
Weights = np.ndarray | torch.Tensor  # (T, S): row t, those of all source tokens while target token t is written


class Bleu(NamedTuple):
    """score: corpus BLEU from 0 to 100; signature: how sacrebleu computed it, to be reported with the score."""

    score: float
    signature: str


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


def exact_match(predictions: Sequence[Tokens], references: Sequence[Tokens | Sequence[Tokens]]) -> float:
    """The share of predictions, from 0 to 1, that equal a reference token for token.

    predictions: a list or tuple of tokens for each item, without special tokens.
    references: for each item what is right: a list or tuple of tokens, or a list of several such (as with words that
        have several pronunciations), of which one has to be met.
    For pronunciations, 1 minus the exact match is what the literature calls the word error rate.
    Raises ValueError for unequal numbers of items, none at all, an empty reference, or what is not a list of tokens.
    """
    listed = _check_pairs(predictions, references)
    right = [list(prediction) in several for prediction, several in zip(predictions, listed, strict=True)]
    return sum(right) / len(right)


def error_rate(predictions: Sequence[Tokens], references: Sequence[Tokens | Sequence[Tokens]]) -> float:
    """Edit-distance error rate: insertions, deletions and substitutions per token of the references; may exceed 1.

    Arguments and errors as in `exact_match`.  Where several references are listed, the nearest one counts, with its
    errors and its length; of those equally near, the first.  The sums are over all items, so that a long one counts for
    more than a short one.  Over phonemes this is the phoneme error rate (PER), over words of sentences the word error
    rate (WER) of speech recognition.
    Source: Levenshtein (1966), Binary codes capable of correcting deletions, insertions, and reversals.
    """
    listed = _check_pairs(predictions, references)
    errors = tokens = 0
    for prediction, several in zip(predictions, listed, strict=True):
        distances = [Levenshtein.distance(prediction, reference) for reference in several]
        nearest = int(np.argmin(distances))  # the first of the smallest
        errors += distances[nearest]
        tokens += len(several[nearest])
    return errors / tokens


def corpus_bleu(predictions: Sequence[Tokens], references: Sequence[Tokens | Sequence[Tokens]]) -> Bleu:
    """BLEU of all predictions together: how many of their 1- to 4-grams are in the references, by sacrebleu.

    Arguments and errors as in `exact_match`; tokens without spaces.  The tokens are compared as they are ("tok:none" in
    the signature): a score is comparable with published ones only if the signature is the same.
    If no prediction has four tokens, there are no 4-grams and the score is 0.
    Source: Papineni et al. (2002), BLEU: a method for automatic evaluation of machine translation; Post (2018), A call
    for clarity in reporting BLEU scores.
    """
    listed = _check_pairs(predictions, references)
    for tokens in (*predictions, *(reference for several in listed for reference in several)):
        for token in tokens:
            if token.split() != [token]:
                raise ValueError(f"tokens: expected tokens without spaces, got {token!r}")
    streams = zip_longest(*([" ".join(reference) for reference in several] for several in listed))  # first, second …
    bleu = BLEU(tokenize="none", force=True)  # force: sentences that end in " ." are meant to be tokenized
    score = bleu.corpus_score([" ".join(tokens) for tokens in predictions], [list(stream) for stream in streams])
    return Bleu(score.score, str(bleu.get_signature()))


def alignment_links(weights: Weights, n_target: int, threshold: float | None = None) -> list[tuple[int, int]]:
    """Links (i, j) from attention weights: each target token with the source token that has the largest weight.

    weights: (T, S), each row sums to 1; n_target: the number of target tokens without <eos>.  Rows from n_target on,
        those of <eos> and of pads, are ignored.
    threshold: instead, each target token is linked to all source tokens whose weight is at least that, perhaps none.
    Returns the links, sorted.
    Raises ValueError for weights of another shape or whose rows don't sum to 1 (transposed ones, for instance), an
    n_target outside of 1 to T, or a threshold outside of (0, 1].
    """
    rows = _weight_rows(weights, n_target, "weights")
    if threshold is None:
        return sorted((int(i), j) for j, i in enumerate(rows.argmax(axis=1)))
    shapes.in_range(threshold, "threshold", low=0, high=1, low_open=True)
    return sorted((int(i), int(j)) for j, i in np.argwhere(rows >= threshold))


def alignment_error_rate(links: Sequence[Links], gold: Sequence[Links]) -> float:
    """Alignment error rate (AER) of links (i, j): 0 if they are the gold links, 1 if none of them is.

    links, gold: for each pair of sentences its links, from `alignment_links` and `phrases.Pair.alignment`; one that is
        listed twice counts once.  The sums are over all pairs.
    All gold links are taken as sure, so that with A the links found and G the gold ones it is
    1 - 2 |A ∩ G| / (|A| + |G|), which is 1 minus the F-measure.  With one link for each target token, 0 is out of reach
    where a token has several gold links.
    Raises ValueError for unequal numbers of pairs, none at all, what is not a link, or when there are no links.
    Source: Och and Ney (2003), A systematic comparison of various statistical alignment models, section 6.2.
    """
    found, right = _link_sets(links, gold)
    total = sum(map(len, found)) + sum(map(len, right))
    if total == 0:
        raise ValueError("links, gold: expected at least one link, got none")
    return 1 - 2 * sum(len(a & g) for a, g in zip(found, right, strict=True)) / total


def attention_on_gold(weights: Sequence[Weights], gold: Sequence[Links]) -> float:
    """How much of its attention a target token gives to the source tokens that it translates, from 0 to 1.

    weights: (T, S) for each pair of sentences, as in `alignment_links`; gold: its gold links.
    Returns the mean, over all target tokens that have a gold link, of the sum of their weights on all source tokens
    that they are linked to.
    Raises ValueError as `alignment_error_rate` and `alignment_links` do, and for a gold link outside of the weights.
    """
    _, right = _link_sets([() for _ in weights], gold)
    masses = []
    for k, (table, pairs) in enumerate(zip(weights, right, strict=True)):
        words = {j for _, j in pairs}
        if not words:
            continue
        rows = _weight_rows(table, max(words) + 1, f"weights[{k}]")
        shapes.in_range(max(i for i, _ in pairs), f"gold[{k}]: source position", high=rows.shape[1] - 1)
        masses += [sum(rows[j, i] for i, other in pairs if other == j) for j in words]
    if not masses:
        raise ValueError("gold: expected at least one link, got none")
    return float(np.mean(masses))


def _check_pairs(predictions: Sequence[Tokens], references: Sequence) -> list[list[list[str]]]:
    """Check the arguments of a comparison; return the references of each item as a list, also where there is one."""
    for name, items in (("predictions", predictions), ("references", references)):
        if not isinstance(items, list | tuple):
            raise ValueError(f"{name}: expected a list, got {type(items).__name__}")
    if not predictions or len(predictions) != len(references):
        counts = f"{len(predictions)} predictions and {len(references)} references"
        raise ValueError(f"predictions, references: expected equally many, at least one, got {counts}")
    for i, prediction in enumerate(predictions):
        _check_tokens(prediction, f"predictions[{i}]")
    return [_several(reference, f"references[{i}]") for i, reference in enumerate(references)]


def _several(reference: Tokens | Sequence[Tokens], name: str) -> list[list[str]]:
    if not isinstance(reference, list | tuple):
        raise ValueError(f"{name}: expected a list of tokens, or of several such lists, got {reference!r}")
    several = reference if reference and not isinstance(reference[0], str) else [reference]
    for tokens in several:
        _check_tokens(tokens, name)
        if not tokens:
            raise ValueError(f"{name}: expected at least one token, got none")
    return [list(tokens) for tokens in several]


def _check_tokens(tokens: Tokens, name: str) -> None:
    if not isinstance(tokens, list | tuple) or not all(isinstance(token, str) for token in tokens):
        raise ValueError(f"{name}: expected a list of tokens, each a string, got {tokens!r}")


def _link_sets(links: Sequence[Links], gold: Sequence[Links]) -> tuple[list[set], list[set]]:
    """Check links and return those of each pair of sentences as a set."""
    if not gold or len(links) != len(gold):
        counts = f"{len(links)} and {len(gold)}"
        raise ValueError(f"links, gold: expected links of equally many pairs of sentences, at least one, got {counts}")
    sets: tuple[list[set], list[set]] = ([], [])
    for name, several, checked in (("links", links, sets[0]), ("gold", gold, sets[1])):
        for k, pairs in enumerate(several):
            pairs = [tuple(pair) if isinstance(pair, list | tuple) else (pair,) for pair in pairs]
            for pair in pairs:
                if len(pair) != 2 or not all(isinstance(i, int | np.integer) and i >= 0 for i in pair):
                    raise ValueError(f"{name}[{k}]: expected links (i, j) of positions from 0, got {pair}")
            checked.append(set(pairs))
    return sets


def _weight_rows(weights: Weights, n_target: int, name: str) -> np.ndarray:
    """The first n_target rows of weights (T, S), each of which sums to 1 but for rounding (that of bfloat16, too)."""
    sizes = shapes.expect(weights, "T S", name, dtype="float", finite=True)
    shapes.in_range(n_target, f"{name}: target tokens", low=1, high=sizes["T"], integer=True)
    if isinstance(weights, torch.Tensor):
        weights = weights.detach().cpu().double().numpy()
    rows = weights[:n_target]  # (n_target, S)
    wrong = np.abs(rows.sum(axis=1) - 1) > 0.05
    if wrong.any():
        t = int(wrong.argmax())
        raise ValueError(f"{name}: expected rows (T, S) that sum to 1, got {rows[t].sum():.4g} in row {t}")
    return rows


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
