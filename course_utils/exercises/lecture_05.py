"""The exercises of lecture 5, why √d_k: what to write, cases to try it on, and hints.

Use in a notebook: `lecture_05.softmax_jacobian.check(softmax_jacobian)`. The wrong answers are in mistakes_05_*.py.
The references are written here, and have the names of their exercises, which then take their places:
`softmax_jacobian.reference`. The package's `attention.scaled_dot_product_attention` also has a version that never
holds all weights in memory.
"""

import math

import numpy as np
import torch

from course_utils.attention import causal_mask
from course_utils.exercises import mistakes_05_attention, mistakes_05_formulas
from course_utils.exercises.engine import Exercise, Probe

# ---- 5.1 dot_product_variance ---------------------------------------------------------------------------------------


def dot_product_variance(
    d_k: int, var_q: float, var_k: float, mean_q: float = 0.0, mean_k: float = 0.0
) -> float:
    """The variance of the dot product q · k of two random vectors with d_k entries each.

    Every entry of q has mean mean_q and variance var_q, every entry of k has mean mean_k and variance var_k, and all
    2 d_k entries are independent of each other.  Nothing else is known of their distributions.
    d_k: a positive integer; variances are squares of standard deviations, 0 or more; means may be negative.
    Returns a number, not an estimate: derive the formula on paper.
    """
    one_product = var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2
    return d_k * one_product


dot_product_variance = Exercise(
    "5.1", "The variance of a dot product", dot_product_variance, "variance",
    probes=[
        Probe("d_k = 64, means 0, variances 1", lambda: (64, 1.0, 1.0, 0.0, 0.0)),
        Probe("d_k = 5, means 0, variances 4 and 0.5", lambda: (5, 4.0, 0.5, 0.0, 0.0)),
        Probe("d_k = 3, variances 2 and 5, means 1 and -2", lambda: (3, 2.0, 5.0, 1.0, -2.0)),
        Probe("only the keys have a mean", lambda: (7, 0.6, 3.0, 0.0, -1.5)),
        Probe("one entry", lambda: (1, 0.3, 1.7, -0.7, 0.4)),
        Probe("all entries of q are 3", lambda: (4, 0.0, 2.0, 3.0, 0.5)),
    ],
    mistakes=mistakes_05_formulas.DOT_PRODUCT_VARIANCE, combinations=mistakes_05_formulas.DOT_PRODUCT_VARIANCE_PAIRS,
    hints=(
        "q · k is a sum of d_k products that are independent of each other. What does that say about its variance, and "
        "what is then left to find?",
        "The variance is d_k times that of one product x y. For that, use Var(x y) = E[x² y²] - E[x y]²: which "
        "expectations may you take apart, because x and y are independent?",
        "E[x²] is the variance plus the squared mean, so one product has (var_q + mean_q²) (var_k + mean_k²) - mean_q² "
        "mean_k². Multiply out, see what cancels, and multiply by d_k.",
    ),
    minutes=10, difficulty=2, rtol=1e-9,
    advice="Derive a formula, without random draws. By hand, for d_k = 3, variances 2 and 5, means 1 and -2: "
           "E[x²] = 2 + 1 = 3 and E[y²] = 5 + 4 = 9, so one product has the variance 3 · 9 - (1 · -2)² = 23, and three "
           "of them 69.",
)


# ---- 5.2 scaled_dot_product_attention -------------------------------------------------------------------------------


def scaled_dot_product_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention softmax(q kᵀ / √d_k) v: what each query gets from the values, and its weights.

    q: (..., T, d_k); k: (..., S, d_k); v: (..., S, d_v).  In front stand the same dimensions in all three, (B,) or
    (B, H).  T, S and the widths may differ.
    mask: booleans that broadcast to (..., T, S), True = may attend; None: every query may attend to every key.
    Returns the output (..., T, d_v) and the weights (..., T, S).  The weights of a query sum to 1 over the keys and
    are 0 where the mask is False; if a query may attend to nothing, its weights and its output are zeros.
    The arguments are not changed.  Gradients flow through.
    Source: Vaswani et al. (2017), Attention is all you need, equation 1.
    """
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (..., T, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1)  # (..., T, S), NaN in a row of -inf
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights


def _qkv(*leading: int, T: int, S: int, d_k: int, d_v: int, seed: int) -> tuple[torch.Tensor, ...]:
    """Arguments of attention, all of which want gradients."""
    rng = np.random.default_rng(seed)
    shapes = (T, d_k), (S, d_k), (S, d_v)
    return tuple(torch.from_numpy(rng.normal(scale=1.5, size=(*leading, *shape))).requires_grad_() for shape in shapes)


def _by_hand() -> tuple:
    """Dot products 0 and 4, d_k = 4."""
    rows = [[2, 1, 0, 1]], [[0, 0, 1, 0], [1, 2, 5, 0]], [[10], [20]]
    return *(torch.tensor([part], dtype=torch.float64) for part in rows), None


def _far_apart() -> tuple:
    """Scores 0 and 800, whose e to the power is too large for a float64."""
    q = torch.tensor([[[40, 0, 0, 0], [0, 40, 0, 0], [0, 0, 0, 40]]], dtype=torch.float64)
    return q, q.roll(1, dims=1), torch.tensor([[[1, 5], [2, -3], [3, 4]]], dtype=torch.float64), None


def _hidden_far_above() -> tuple:
    """Allowed scores around -30000 for two queries, -15000 for one; the hidden key has 30000 and -18000."""
    q = torch.tensor([[[300, 300, 300, 300], [300, 300, 300, 300], [0, 0, 0, 600]]], dtype=torch.float64)
    k = torch.tensor([[[-50, -50, -50, -50], [-50, -50, -50, -49.9921875], [50, 50, 160, -60]]], dtype=torch.float64)
    v = torch.tensor([[[1, 5], [2, -3], [7, 4]]], dtype=torch.float64)
    return q, k, v, torch.tensor([[[True, True, False]]])


def _nothing_allowed() -> tuple:
    mask = torch.tensor([[[1, 1, 0], [0, 0, 0], [0, 1, 1]], [[1, 1, 1], [1, 0, 1], [0, 0, 0]]], dtype=torch.bool)
    return *(x.detach() for x in _qkv(2, T=3, S=3, d_k=5, d_v=2, seed=8)), mask


scaled_dot_product_attention = Exercise(
    "5.2", "Scaled dot-product attention", scaled_dot_product_attention, ("output", "weights"),
    probes=[
        Probe("2 sentences, 4 queries, 3 keys, d_k = 5, d_v = 6", lambda: (
            *_qkv(2, T=4, S=3, d_k=5, d_v=6, seed=1), None)),
        Probe("one query, two keys, d_k = 4", _by_hand),
        Probe("3 heads, no mask", lambda: (*_qkv(2, 3, T=4, S=6, d_k=5, d_v=7, seed=2), None)),
        Probe("T = S = d_k = d_v = 3", lambda: (*_qkv(1, T=3, S=3, d_k=3, d_v=3, seed=3), None)),
        Probe("causal mask, (T, S)", lambda: (*_qkv(2, T=4, S=4, d_k=5, d_v=3, seed=4), causal_mask(4))),
        Probe("padding mask, (B, 1, S)", lambda: (
            *_qkv(2, T=3, S=3, d_k=6, d_v=2, seed=5), torch.tensor([[[True, True, True]], [[True, True, False]]]))),
        Probe("3 heads, padding mask, (B, 1, 1, S)", lambda: (
            *_qkv(2, 3, T=4, S=4, d_k=2, d_v=5, seed=6), (torch.arange(4) < torch.tensor([[3], [2]]))[:, None, None])),
        Probe("scores 0 and 800", _far_apart),
        Probe("a hidden score far above the others, around -30000", _hidden_far_above),
        Probe("queries that may attend to nothing", _nothing_allowed),
    ],
    mistakes=mistakes_05_attention.SCALED_DOT_PRODUCT_ATTENTION,
    combinations=mistakes_05_attention.SCALED_DOT_PRODUCT_ATTENTION_PAIRS,
    hints=(
        "Which two axes does the table of scores have, and along which of them must weights sum to 1? How large may "
        "the score of a hidden key be, if its weight is to be 0?",
        "Multiply q by the transpose of k, its last two axes swapped, and divide by √d_k. Where the mask is False, put "
        "-inf before the softmax over the keys; afterwards a row of -inf is NaN and must become zeros.",
        "d_k is `q.shape[-1]`, and `k.mT` swaps the last two axes. `masked_fill(~mask, …)` writes a value where the "
        "mask is False: it is of use before the softmax over `dim=-1` and, for rows without any key, after it.",
    ),
    minutes=12, difficulty=2,
    advice="Take the case with one query: its dot products with the two keys are 0 and 4, so the scores are 0 and "
           "4 / √4 = 2, the weights 0.1192 and 0.8808, and the values 10 and 20 give the output 18.8080.",
)


# ---- 5.3 softmax_jacobian -------------------------------------------------------------------------------------------


def softmax_jacobian(p: np.ndarray) -> np.ndarray:
    """The Jacobian of softmax, ∂p_i/∂z_j, at the scores z for which p = softmax(z).

    p: (S,) probabilities that sum to 1; some may be 0.  The scores aren't needed: p determines the Jacobian.
    Returns (S, S), row i for the probability p_i and column j for the score z_j.  p is not changed.
    """
    return np.diag(p) - np.outer(p, p)


def _softmax(*z: float) -> np.ndarray:
    e = np.exp(np.array(z))
    return e / e.sum()


softmax_jacobian = Exercise(
    "5.3", "The Jacobian of softmax", softmax_jacobian, "jacobian",
    probes=[
        Probe("p = 1/2, 1/4, 1/4", lambda: (np.array([0.5, 0.25, 0.25]),)),
        Probe("five probabilities", lambda: (_softmax(0.3, -1.2, 2.0, 0.9, -0.4),)),
        Probe("saturated: p = 0, 1, 0", lambda: (np.array([0.0, 1.0, 0.0]),)),
        Probe("two probabilities, 0.9 and 0.1", lambda: (np.array([0.9, 0.1]),)),
        Probe("uniform over four", lambda: (np.full(4, 0.25),)),
    ],
    mistakes=mistakes_05_formulas.SOFTMAX_JACOBIAN, combinations=mistakes_05_formulas.SOFTMAX_JACOBIAN_PAIRS,
    hints=(
        "Raise one score z_j a little. What happens to its own probability, and what must then happen to all the "
        "others, since they sum to 1 before and after?",
        "Differentiate p_i = exp(z_i) / Σ exp(z_k) by the quotient rule, once for j = i and once for j ≠ i, and write "
        "both results with p alone. What do they have in common, and what is added on the diagonal?",
        "∂p_i/∂z_j = p_i (δ_ij - p_j): on the diagonal p_i - p_i², elsewhere -p_i p_j. `np.diag` makes a diagonal "
        "matrix of a vector, and `np.outer` all products of two entries.",
    ),
    minutes=10, difficulty=2,
    advice="For p = (1/2, 1/4, 1/4) the first row is 1/2 · (1 - 1/2) = 0.25, -1/2 · 1/4 = -0.125, -0.125. Every row "
           "sums to 0, and so does every column.",
)
