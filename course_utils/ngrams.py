"""Language models that count: the baselines a trained model has to beat."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from course_utils.corpora import BOS, PAD, SPECIALS, as_id_sequences, as_ids
from course_utils.shapes import in_range


class NGram:
    """A count-based language model: the probability of a token given the `order` - 1 tokens before it.

    `order` 1 is the unigram model, 2 the bigram, 3 the trigram model; 0 is uniform and needs no data. The vocabulary
    has `vocab_size` ids, of which all but <pad> and <bos> can be predicted.

    The estimate is interpolated, modified Kneser–Ney smoothing, the best of the methods that Chen and Goodman compare
    ("An empirical study of smoothing techniques for language modeling", 1998, equations 26–28). Each count is
    discounted by an amount that depends on whether it is 1, 2 or more, and what is freed goes to the model of the
    next lower order, down to uniform. Lower orders count in how many contexts an n-gram occurs, rather than how
    often. The discounts come from the counts, so that no held-out data are needed.
    """

    def __init__(self, order: int, vocab_size: int) -> None:
        self.order = in_range(order, "order", low=0, integer=True)
        self.vocab_size = in_range(vocab_size, "vocab_size", low=len(SPECIALS), integer=True)
        if vocab_size**order >= 2**63:
            raise ValueError(f"order: expected vocab_size ** order below 2**63, got {vocab_size} ** {order}")
        self._levels: list[_Level] | None = [] if order == 0 else None

    def fit(self, sequences: Iterable[Sequence[int]]) -> "NGram":
        """Count the n-grams of `sequences`, each the ids of <bos>, tokens, <eos>; forget what was counted before.

        Raises ValueError if there are no sequences, or one is shorter than 2 or holds ids that don't fit.
        """
        ids, lengths = as_id_sequences(sequences, min_length=2)
        positions = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        self._check(ids, positions, "sequences[{}]")
        self._levels = self._count(ids, positions)
        return self

    def log_prob(self, sequence: Sequence[int] | np.ndarray | torch.Tensor) -> np.ndarray:
        """Return the natural-log probabilities of tokens 1 … end of `sequence` (T,), each given those before: (T-1,).

        The first token is only a context: encode sequences as for `fit`.
        Raises ValueError for a sequence that doesn't fit, RuntimeError before `fit`.
        """
        ids = as_ids(sequence, "sequence", min_length=2)
        self._check(ids, np.arange(len(ids)), "sequence")
        if self._levels is None:
            raise RuntimeError("the model has counted nothing yet: call fit(sequences) first")
        probs = np.full(len(ids), 1 / (self.vocab_size - 2))  # order 0: uniform over what can be predicted
        for n, (level, keys) in enumerate(zip(self._levels, self._keys(ids), strict=True), start=1):
            first = max(n - 1, 1)  # the first position that has n - 1 tokens before it
            own, weight = level.look_up(keys[first:], self.vocab_size)
            probs[first:] = own + weight * probs[first:]
        return np.log(probs[1:])

    def _check(self, ids: np.ndarray, positions: np.ndarray, name: str) -> None:
        """Refuse ids that don't fit; `positions` are those in their sequences, `name` has a place for the sequence."""
        bad = (ids >= self.vocab_size) | ((positions > 0) & ((ids == PAD) | (ids == BOS)))
        if bad.any():
            at = int(bad.argmax())
            which = name.format(int((positions[: at + 1] == 0).sum()) - 1)
            raise ValueError(
                f"{which}: expected ids below vocab_size = {self.vocab_size}, and no <pad> or <bos> after the first, "
                f"got {ids[at]} at index {positions[at]}"
            )

    def _keys(self, ids: np.ndarray) -> list[np.ndarray]:
        """Return for n = 1 … order the n-gram that ends at each position, as one integer.

        An n-gram is a number in base `vocab_size` whose last digit is its last token: `key // vocab_size` is what
        comes before that token, and dropping the first token is a remainder. The first n - 1 keys mean nothing.
        """
        keys = [ids]
        for n in range(2, self.order + 1):
            longer = keys[-1].copy()
            longer[n - 1 :] += ids[: max(len(ids) - n + 1, 0)] * self.vocab_size ** (n - 1)
            keys.append(longer)
        return keys[: self.order]

    def _count(self, ids: np.ndarray, positions: np.ndarray) -> list["_Level"]:
        """Return the levels 1 … order; `positions` are those of `ids` in the sequences they come from."""
        levels = []
        keys = self._keys(ids)
        for n in range(1, self.order + 1):
            if n == self.order:
                events = keys[n - 1][positions >= max(n - 1, 1)]
            else:
                # One event for each distinct n-gram-with-a-token-before; at the start of a sequence there is none,
                # and each occurrence counts.
                preceded = np.unique(keys[n][positions >= n]) % self.vocab_size**n
                at_start = keys[n - 1][(positions == n - 1) & (n > 1)]
                events = np.concatenate([preceded, at_start])
            levels.append(_Level(events, self.vocab_size))
        return levels


class _Level:
    """What one order contributes: a share of probability for each n-gram, and a weight for the order below."""

    def __init__(self, events: np.ndarray, vocab_size: int) -> None:
        self.ngrams, counts = np.unique(events, return_counts=True)
        self.histories, index = np.unique(self.ngrams // vocab_size, return_inverse=True)
        discounts = _discounts(counts)[np.minimum(counts, 3)]
        totals = np.bincount(index, weights=counts)
        self.shares = (counts - discounts) / totals[index]
        self.weights = np.bincount(index, weights=discounts) / totals

    def look_up(self, keys: np.ndarray, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (share, weight of the order below) for n-grams; an unseen history leaves all to the order below."""
        return _find(self.ngrams, self.shares, keys, 0.0), _find(self.histories, self.weights, keys // vocab_size, 1.0)


def _discounts(counts: np.ndarray) -> np.ndarray:
    """Return what to subtract from a count of 0, 1, 2, and 3 or more (Chen and Goodman 1998, equation 26).

    Where that can't be computed (few data, or frequent tokens only), 0.5 is subtracted from every count.
    """
    n1, n2, n3, n4 = (int((counts == k).sum()) for k in (1, 2, 3, 4))
    if min(n1, n2, n3, n4) > 0:
        ratio = n1 / (n1 + 2 * n2)
        discounts = np.array([0, 1 - 2 * ratio * n2 / n1, 2 - 3 * ratio * n3 / n2, 3 - 4 * ratio * n4 / n3])
        if (discounts[1:] > 0).all():
            return discounts
    return np.array([0, 0.5, 0.5, 0.5])


def _find(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray, default: float) -> np.ndarray:
    """Return the values of the `wanted` keys, or `default`; `keys` are sorted."""
    if len(keys) == 0:
        return np.full(len(wanted), default)
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, values[index], default)
