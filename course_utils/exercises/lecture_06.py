"""The exercises of lecture 6, multi-head attention: what to write, cases to try it on, and hints.

Use in a notebook: `lecture_06.split_heads.check(split_heads)`. The wrong answers are in mistakes_06_*.py.
The references are written here, and have the names of their exercises, which then take their places:
`split_heads.reference`. The package's versions in `attention` check their arguments, and
`attention.MultiHeadAttention` is a layer with its own weights.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from course_utils.exercises import comparing, mistakes_06_attention, mistakes_06_heads
from course_utils.exercises.engine import Exercise, Probe
from course_utils.exercises.running import Outcome

# ---- 6.1 split_heads ------------------------------------------------------------------------------------------------


def split_heads(x: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Cut the D numbers of each token into `n_heads` pieces of K = D / n_heads: (B, T, D) -> (B, H, T, K).

    x: (B, T, D), B sentences of T tokens; D can be divided by n_heads, H for short.
    Head h gets the numbers h K … (h + 1) K - 1 of every token: head 0 the first K, the last head the last K.
    Returns (B, H, T, K), a copy or a view of x: attention, which works on the last two axes, then runs in each head.
    """
    B, T, D = x.shape
    heads = x.reshape(B, T, n_heads, D // n_heads).transpose(1, 2)  # (B, T, H, K) -> (B, H, T, K)
    return heads.clone()  # without it, heads and x share their memory


def _counting(*shape: int) -> torch.Tensor:
    """0.0, 1.0, 2.0 and so on: every number tells where it came from."""
    return torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)


def _shuffled(*shape: int) -> torch.Tensor:
    """The same numbers in no order."""
    numbers = np.random.default_rng(6).permutation(math.prod(shape))
    return torch.from_numpy(numbers.astype(np.float64)).reshape(shape)


split_heads = Exercise(
    "6.1", "Cut a model's width into heads", split_heads, "heads",
    probes=[
        Probe("2 sentences, 5 tokens, D = 12, 3 heads", lambda: (_counting(2, 5, 12), 3)),
        Probe("2 tokens 0 1 2 3 and 4 5 6 7, 2 heads", lambda: (_counting(1, 2, 4), 2)),
        Probe("3 sentences, 3 tokens, D = 9, 3 heads", lambda: (_shuffled(3, 3, 9), 3)),
        Probe("2 sentences, 4 tokens, D = 6, 2 heads", lambda: (_counting(2, 4, 6), 2)),
        Probe("one head", lambda: (_counting(2, 3, 4), 1)),
        Probe("as many heads as numbers", lambda: (_counting(2, 4, 4), 4)),
        Probe("one token", lambda: (_counting(3, 1, 10), 2)),
    ],
    mistakes=mistakes_06_heads.SPLIT_HEADS,
    hints=(
        "Which axis is cut, and into which two sizes? Which axes have to be the last two, so that a matrix product "
        "compares the tokens of one head?",
        "First cut the last axis: (B, T, D) becomes (B, T, H, K); `reshape` can do that, as a token's numbers lie side "
        "by side. Then swap the axes of tokens and heads.",
        "`x.reshape(B, T, n_heads, K)` with K = D // n_heads, and `transpose` of the axes 1 and 2.",
    ),
    minutes=5, difficulty=1,
    advice="Take the two tokens 0 1 2 3 and 4 5 6 7 with 2 heads: head 0 has the rows 0 1 and 4 5, head 1 has 2 3 and "
           "6 7.",
)


# ---- 6.2 merge_heads ------------------------------------------------------------------------------------------------


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Put what the heads found side by side again: (B, H, T, K) -> (B, T, D) with D = H K.

    x: (B, H, T, K), for each head a row of K numbers for each token.
    Returns (B, T, D), a copy or a view of x: the K numbers of head 0 come first in a token's row, then those of head 1,
    and so on.
    It undoes split_heads.  x is not changed.
    """
    B, H, T, K = x.shape
    merged = x.transpose(1, 2).reshape(B, T, H * K)  # (B, T, H, K) -> (B, T, D)
    return merged.clone()  # without it, merged and x may share their memory


merge_heads = Exercise(
    "6.2", "Put the heads side by side", merge_heads, "x",
    probes=[
        Probe("2 sentences, 3 heads, 5 tokens, K = 4", lambda: (_counting(2, 3, 5, 4),)),
        Probe("2 heads, 0 1 and 2 3 in one, 4 5 and 6 7 in the other", lambda: (_counting(1, 2, 2, 2),)),
        Probe("all sizes 3", lambda: (_shuffled(3, 3, 3, 3),)),
        Probe("one head", lambda: (_counting(2, 1, 3, 4),)),
        Probe("one number for each head", lambda: (_counting(2, 4, 3, 1),)),
        Probe("one token", lambda: (_counting(3, 2, 1, 5),)),
    ],
    mistakes=mistakes_06_heads.MERGE_HEADS,
    hints=(
        "It is split_heads backwards. Which two steps did that take, and in which order are they undone?",
        "Swap the axes of heads and tokens, so that the K numbers of all heads of one token lie side by side: "
        "(B, T, H, K). Then join the last two axes.",
        "`transpose` of the axes 1 and 2, then `reshape` to (B, T, H * K); `view` can't do the second step, because "
        "`transpose` moves nothing in memory.",
    ),
    minutes=5, difficulty=1,
    advice="Take 2 heads with 2 tokens: head 0 has the rows 0 1 and 2 3, head 1 has 4 5 and 6 7. Token 0 gets 0 1 4 5, "
           "and token 1 gets 2 3 6 7.",
)


# ---- 6.3 causal_mask ------------------------------------------------------------------------------------------------


class _BooleanResult(Exercise):
    """Its result is a tensor of booleans: 1.0 and 0.0 have the right values, but are no mask."""

    def _structure(self, right: Outcome, outcome: Outcome) -> str | None:
        if isinstance(outcome.value, torch.Tensor) and self._same_value(right, outcome):
            dtype = outcome.value.dtype
            return None if dtype == torch.bool else (
                f"`{self.returns}` has the right values, but dtype {dtype}, and numbers are no mask: `~mask` fails or "
                "flips bits, and an attention function adds floats to the scores. Make it `dtype=torch.bool`.")
        numbers = outcome.value.long() if getattr(outcome.value, "dtype", None) == torch.bool else outcome.value
        return comparing.structure_problem(right.value.long(), numbers, self.returns)


def causal_mask(T: int) -> torch.Tensor:
    """Which of T tokens each of them may attend to, if none may look at what comes after it: (T, T) booleans.

    T: the number of tokens, 1 or more.
    Returns a tensor of dtype bool, rows for queries and columns for keys: entry [t, s] is True if token t may attend
    to token s.  True = may attend, as everywhere in this course.  A token may attend to itself and to all before it.
    """
    return torch.ones(T, T, dtype=torch.bool).tril()


causal_mask = _BooleanResult(
    "6.3", "Hide the future", causal_mask, "mask",
    probes=[
        Probe("5 tokens", lambda: (5,)),
        Probe("3 tokens", lambda: (3,)),
        Probe("one token", lambda: (1,)),
        Probe("2 tokens", lambda: (2,)),
        Probe("8 tokens", lambda: (8,)),
    ],
    mistakes=mistakes_06_heads.CAUSAL_MASK,
    hints=(
        "Write the table for 3 tokens on paper: rows ask, columns are looked at. How many True are in the first row, "
        "how many in the last?",
        "Row t has True in the columns 0 to t: a triangle with its diagonal. Compare the number of the row with that "
        "of the column, or cut the triangle out of a table that is True everywhere.",
        "`tril` keeps what is on and below the diagonal, of booleans too; so `torch.ones` with the shape and "
        "`dtype=torch.bool` is a good start.",
    ),
    minutes=5, difficulty=1,
    advice="For 3 tokens the rows are True False False, then True True False, then True True True.",
)


# ---- 6.4 multi_head_attention ---------------------------------------------------------------------------------------


def multi_head_attention(
    x: torch.Tensor, Wq: torch.Tensor, Wk: torch.Tensor, Wv: torch.Tensor, Wo: torch.Tensor, n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Multi-head self-attention: every token of a sentence looks at its tokens with `n_heads` heads.

    x: (B, T, D).  Wq, Wk, Wv, Wo: (D, D), for rows: the queries of all heads are x Wq, the keys x Wk, the values x Wv,
    and head h has the numbers h K … (h + 1) K - 1 of each, with K = D / n_heads.  There are no biases.
    Each head is softmax(q kᵀ / √K) v by itself; the heads are put side by side, head 0 first, and multiplied by Wo.
    mask: None, or booleans (T, T) for all sentences or (B, T, T), one for each; [..., t, s] is True if token t may
    attend to token s, in every head, and each token may attend to at least one.
    Returns the output (B, T, D) alone.  The arguments are not changed.
    Source: Vaswani et al. (2017), Attention is all you need, section 3.2.2.
    """
    B, T, D = x.shape
    K = D // n_heads
    q, k, v = ((x @ W).reshape(B, T, n_heads, K).transpose(1, 2) for W in (Wq, Wk, Wv))  # (B, H, T, K) each
    scores = q @ k.mT / math.sqrt(K)  # (B, H, T, T)
    if mask is not None:
        mask = mask.unsqueeze(1) if mask.dim() == 3 else mask  # (B, 1, T, T) or (T, T)
        scores = scores.masked_fill(~mask, -torch.inf)
    heads = torch.softmax(scores, dim=-1) @ v  # (B, H, T, K)
    return heads.transpose(1, 2).reshape(B, T, D) @ Wo


def _sentences(B: int, T: int, D: int, n_heads: int, mask: torch.Tensor | None = None, *, seed: int) -> tuple:
    """Arguments of multi_head_attention."""
    rng = np.random.default_rng(seed)
    x, *matrices = (torch.from_numpy(rng.normal(size=shape)) for shape in ((B, T, D), *[(D, D)] * 4))
    return x, *matrices, n_heads, mask


def _padded(lengths: Sequence[int], T: int) -> torch.Tensor:
    """A mask (B, T, T): the first tokens of each sentence are real, and may be attended to."""
    return (torch.arange(T) < torch.tensor(lengths)[:, None])[:, None].expand(-1, T, -1)


def _low_scores() -> tuple:
    """Two tokens, keys opposite to queries: each token's score for itself is -400/√2, and the first sees no other."""
    identity = torch.eye(2, dtype=torch.float64)
    x = 20 * identity[None]
    return x, identity, -identity, identity.clone(), identity.clone(), 1, torch.ones(2, 2, dtype=torch.bool).tril()


def _by_hand() -> tuple:
    """Two tokens, two heads and no projections: 1 0 | 2 0 and 0 1 | 0 3."""
    identity = torch.eye(4, dtype=torch.float64)
    x = torch.tensor([[[1, 0, 2, 0], [0, 1, 0, 3]]], dtype=torch.float64)
    return x, *(identity.clone() for _ in range(4)), 2, None


multi_head_attention = Exercise(
    "6.4", "Multi-head self-attention", multi_head_attention, "output",
    probes=[
        Probe("2 sentences, 5 tokens, D = 12, 3 heads", lambda: _sentences(2, 5, 12, 3, seed=61)),
        Probe("2 tokens, 2 heads, all matrices the identity", _by_hand),
        Probe("one head", lambda: _sentences(2, 3, 4, 1, seed=62)),
        Probe("as many sentences as tokens and heads", lambda: _sentences(3, 3, 6, 3, seed=63)),
        Probe("causal mask, (T, T)", lambda: _sentences(
            2, 4, 6, 3, torch.ones(4, 4, dtype=torch.bool).tril(), seed=64)),
        Probe("3 sentences of lengths 4, 3 and 2, 3 heads", lambda: _sentences(
            3, 4, 6, 3, _padded((4, 3, 2), 4), seed=65)),
        Probe("2 sentences of lengths 3 and 2, 3 heads", lambda: _sentences(2, 3, 6, 3, _padded((3, 2), 3), seed=66)),
        Probe("causal and lengths 5 and 2, 4 heads", lambda: _sentences(
            2, 5, 8, 4, _padded((5, 2), 5) & torch.ones(5, 5, dtype=torch.bool).tril(), seed=67)),
        Probe("causal mask, 2 tokens with a score of -283 for themselves", _low_scores),
    ],
    mistakes=mistakes_06_attention.MULTI_HEAD_ATTENTION,
    combinations=mistakes_06_attention.MULTI_HEAD_ATTENTION_PAIRS,
    hints=(
        "You have all parts: split_heads, attention by scaled dot products (5.2), merge_heads. Which comes first, the "
        "projection or the split? What do you divide the scores by, now that a query has K numbers?",
        "Project x three times with the whole matrices, split each into heads, attend in all heads at once, merge, and "
        "multiply by Wo. Scores are (B, H, T, T), so a mask (B, T, T) needs an axis for the heads.",
        "`q, k, v = (split_heads(x @ W, n_heads) for W in (Wq, Wk, Wv))`; the scale is √K with K = D // n_heads, and "
        "`mask.unsqueeze(1)` makes (B, 1, T, T) of a mask with three axes.",
    ),
    minutes=15, difficulty=2,
    advice="Take the case with 2 tokens and no projections: in head 0 token 0 has the scores 1/√2 and 0, so weights of "
           "0.6698 and 0.3302 and the output 0.6698 0.3302; in head 1 it has 4/√2 and 0, the weights 0.9442 and 0.0558 "
           "and the output 1.8884 0.1674.",
)
