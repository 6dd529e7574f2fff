"""The exercises of lecture 4, attention: what to write, cases to try it on, and hints.

Use in a notebook: `lecture_04.softmax.check(softmax)`. The wrong answers are in mistakes_04_*.py.
The references are written here, and have the names of their exercises, which then take their places:
`softmax.reference`. The package has versions with masks, and for models, in `attention` and `seq2seq_attention`.
"""

import math
from collections import UserDict
from collections.abc import Sequence

import numpy as np
import torch

from course_utils.attention import Array
from course_utils.exercises import mistakes_04_additive, mistakes_04_decoder, mistakes_04_softmax
from course_utils.exercises.engine import Exercise, Probe

# ---- 4.1 softmax ----------------------------------------------------------------------------------------------------


def softmax(x: Array, axis: int) -> Array:
    """Turn scores into probabilities along one axis: exp(x) divided by its sum along that axis.

    x: scores, any finite floats, also 1000.0 or -1000.0; an array of any shape.  axis: which of its axes; -1 is the
    last.
    Each slice along the axis is a distribution of its own: its entries are at least 0 and sum to 1.
    Returns an array of the shape of x, without NaN and infinity.  x is not changed.
    """
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _normal(*shape: int, seed: int, scale: float = 1.0) -> Array:
    return np.random.default_rng(seed).normal(scale=scale, size=shape)


softmax = Exercise(
    "4.1", "Softmax along an axis", softmax, "p",
    probes=[
        Probe("shape (3, 4), axis 1", lambda: (_normal(3, 4, seed=1, scale=2.0), 1)),
        Probe("logarithms of 1 2 5 and 3 3 2", lambda: (np.log([[1.0, 2.0, 5.0], [3.0, 3.0, 2.0]]), -1)),
        Probe("shape (3, 4), axis 0", lambda: (_normal(3, 4, seed=2), 0)),
        Probe("a square, axis 1", lambda: (_normal(3, 3, seed=3), 1)),
        Probe("a square, axis 0", lambda: (_normal(3, 3, seed=4), 0)),
        Probe("three axes, the middle one", lambda: (_normal(2, 3, 4, seed=5), 1)),
        Probe("three axes, the last one", lambda: (_normal(2, 3, 4, seed=7), 2)),
        Probe("a vector", lambda: (_normal(5, seed=6), 0)),
        Probe("scores from 1000 to 1002", lambda: (np.array([[1000.0, 1002.0, 1001.0]]), -1)),
        Probe("scores of -1000 and -1001", lambda: (np.array([[-1000.0, -1001.0]]), -1)),
        Probe("slices on different levels", lambda: (np.array([[0.0, -2001.0], [1.0, -2000.0]]), 0)),
        Probe("scores far apart", lambda: (np.array([[0.0, 5.0, 2000.0], [0.0, 800.0, 801.0]]), 1)),
    ],
    mistakes=mistakes_04_softmax.SOFTMAX, combinations=mistakes_04_softmax.SOFTMAX_PAIRS,
    hints=(
        "Which function makes every number positive and keeps their order? By what must its results be divided to sum "
        "to 1, and what happens to the quotient if you add the same number to all scores?",
        "Subtract the largest score of each slice: the ratios stay, and no exponential is larger than 1. Then take the "
        "exponentials and divide them by their sum along the same axis.",
        "`x.max(axis=axis, keepdims=True)` keeps an axis of length 1, so that each slice loses its own maximum. The "
        "sum of the exponentials needs the same two arguments.",
    ),
    minutes=5, difficulty=1, rtol=1e-7,
    advice="Take the case with logarithms: the exponentials are 1, 2, 5 and 3, 3, 2, both rows sum to 8, so the first "
           "is 0.125 0.25 0.625 and the second 0.375 0.375 0.25.",
)


# ---- 4.2 additive_attention -----------------------------------------------------------------------------------------


def additive_attention(
    query: torch.Tensor, keys: torch.Tensor, W1: torch.Tensor, W2: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Additive attention of a batch: one query in each row looks back at the keys of its row.

    query: (B, d), the decoder's state.  keys: (B, S, d), the encoder's states, which are the values, too.
    W1, W2: (d_a, d) and v: (d_a,): the score of a key is v · tanh(W1 query + W2 key), with column vectors.
    mask: (B, S) booleans, True = may attend, False for padding; at least one in each row is True.
    Weights are the softmax of the scores over the keys that may be attended to, and 0 for the others.
    Returns (context, weights): (B, d), the sum of the keys, each times its weight, and (B, S).  Gradients flow through.
    Source: Bahdanau, Cho and Bengio (2015), appendix A.1.2.
    """
    hidden = torch.tanh((query @ W1.T).unsqueeze(1) + keys @ W2.T)  # (B, 1, d_a) + (B, S, d_a)
    scores = hidden @ v  # (B, S)
    weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)  # (B, S)
    context = (weights.unsqueeze(-1) * keys).sum(dim=1)  # (B, d)
    return context, weights


def _tensors(seed: int, *shapes: tuple[int, ...], scale: float = 1.0) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.normal(scale=scale, size=shape)) for shape in shapes]


def _real(lengths: Sequence[int], S: int) -> torch.Tensor:
    """A mask (B, S): the first tokens of each row are real."""
    return torch.arange(S) < torch.tensor(lengths)[:, None]


def _looking_back(seed: int, d: int, d_a: int, S: int, lengths: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Arguments of additive_attention, of which query and keys want gradients."""
    B = len(lengths)
    query, keys, W1, W2, v = _tensors(seed, (B, d), (B, S, d), (d_a, d), (d_a, d), (d_a,))
    return query.requires_grad_(), keys.requires_grad_(), W1, W2, 2 * v, _real(lengths, S)


def _holes() -> tuple[torch.Tensor, ...]:
    """A mask that is False not only at the end."""
    mask = torch.tensor([[False, True, True, True], [True, True, False, True]])
    return *_looking_back(14, 3, 2, 4, (4, 4))[:5], mask


def _low_scores() -> tuple[torch.Tensor, ...]:
    """Real scores far below 0, and those of the padding 2 to 6 above them."""
    query, keys, W1, W2, v, mask = _looking_back(15, 3, 4, 3, (3, 2, 1))
    with torch.no_grad():
        for x in (query, keys, W1, W2):
            x.abs_().add_(0.2)
        keys[~mask] *= -0.5
    return query, keys, W1, W2, -2.0 - v.abs(), mask


def _one_hidden_unit() -> tuple[torch.Tensor, ...]:
    query, keys, W1, W2, v = (torch.tensor(x, dtype=torch.float64) for x in (
        [[1.0]], [[[-2.0], [2.0], [4.0]]], [[1.0]], [[0.5]], [2.0]))
    return query.requires_grad_(), keys.requires_grad_(), W1, W2, v, torch.tensor([[True, True, False]])


additive_attention = Exercise(
    "4.2", "Additive attention", additive_attention, ("context", "weights"),
    probes=[
        Probe("lengths 4 and 2", lambda: _looking_back(11, 3, 5, 4, (4, 2))),
        Probe("one row, keys -2 and 2, and 4 is padding", _one_hidden_unit),
        Probe("as many rows as keys and features", lambda: _looking_back(13, 3, 3, 3, (3, 1, 2))),
        Probe("padding inside the sentence", _holes),
        Probe("scores far below zero", _low_scores),
        Probe("nothing padded", lambda: _looking_back(16, 4, 3, 2, (2, 2, 2))),
        Probe("one key", lambda: _looking_back(17, 2, 3, 1, (1, 1))),
    ],
    mistakes=mistakes_04_additive.ADDITIVE_ATTENTION, combinations=mistakes_04_additive.ADDITIVE_ATTENTION_PAIRS,
    hints=(
        "One score for each key says how well it fits the query. What makes shares of the scores, which of them must "
        "get the share 0, and what is shared out?",
        "Project the query, (B, d_a), and the keys, (B, S, d_a); add them, with an axis of length 1 for the query; "
        "tanh; then v makes one score of each. Set masked scores to -inf, take the softmax over the keys, and sum the "
        "keys, each times its weight.",
        "`(query @ W1.T).unsqueeze(1)` is (B, 1, d_a) and broadcasts over the keys; what comes out of tanh, times v, "
        "is (B, S). `masked_fill` wants to know where the mask is False, and weights of shape (B, S, 1) multiply "
        "keys.",
    ),
    minutes=12, difficulty=2,
    advice="Take the case with one row: the scores are 2 tanh(1 - 1) = 0 and 2 tanh(1 + 1) = 1.9281, the weights "
           "0.1270 and 0.8730 and, for the padding, 0; the context is 0.1270 · (-2) + 0.8730 · 2 = 1.4921.",
)


# ---- 4.3 attention_decoder ------------------------------------------------------------------------------------------


def attention_decoder(
    ys: torch.Tensor, s0: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor, P: dict[str, torch.Tensor]
) -> torch.Tensor:
    """The states of a recurrent decoder that looks back at the source before each of its steps.

    ys: (B, T, d), the vectors of the tokens that it reads.  s0: (B, d), the state that it starts from.
    keys: (B, S, d), the encoder's states.  mask: (B, S) booleans, True = may attend; at least one in a row is True.
    P: its parameters by name: "W1", "W2" (d_a, d) and "v" (d_a,) as in additive_attention; "Wy", "Ws", "Wc" (d, d),
    for rows, as they stand in the formula of a step.
    Step t: the context c_t comes from additive attention with the query s_{t-1}, the state before the step; then
    s_t = tanh(y_t Wy + s_{t-1} Ws + c_t Wc).
    Returns the states s_1 … s_T, (B, T, d).  Gradients flow through.
    Source: Bahdanau, Cho and Bengio (2015), section 3.1, with a plain recurrent cell.
    """
    projected = keys @ P["W2"].T  # (B, S, d_a), once for all steps
    s, states = s0, []
    for t in range(ys.shape[1]):
        scores = torch.tanh((s @ P["W1"].T).unsqueeze(1) + projected) @ P["v"]  # (B, S)
        weights = torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)  # (B, S)
        context = (weights.unsqueeze(-1) * keys).sum(dim=1)  # (B, d)
        s = torch.tanh(ys[:, t] @ P["Wy"] + s @ P["Ws"] + context @ P["Wc"])
        states.append(s)
    return torch.stack(states, dim=1)  # (B, T, d)


class _Parameters(UserDict):
    """Parameters by name, shown by their shapes."""

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name!r} {tuple(W.shape)}" for name, W in self.items()) + "}"


def _decoding(seed: int, T: int, d: int, d_a: int, S: int, lengths: Sequence[int]) -> tuple:
    """Arguments of attention_decoder, of which ys, s0 and keys want gradients."""
    B = len(lengths)
    ys, s0, keys, W1, W2, v = _tensors(seed, (B, T, d), (B, d), (B, S, d), (d_a, d), (d_a, d), (d_a,))
    matrices = zip(("Wy", "Ws", "Wc"), _tensors(seed + 1, (d, d), (d, d), (d, d), scale=0.6), strict=True)
    P = _Parameters({"W1": W1, "W2": W2, "v": 2 * v, **dict(matrices)})
    return ys.requires_grad_(), s0.requires_grad_(), keys.requires_grad_(), _real(lengths, S), P


def _one_unit() -> tuple:
    ys, s0, keys = (torch.tensor(x, dtype=torch.float64) for x in ([[[0.5], [-1.0]]], [[0.0]], [[[0.0], [1.0]]]))
    values = {"W1": [[2.0]], "W2": [[1.0]], "v": [2.0], "Wy": [[1.0]], "Ws": [[0.5]], "Wc": [[-1.0]]}
    P = _Parameters({name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()})
    return ys.requires_grad_(), s0.requires_grad_(), keys.requires_grad_(), torch.tensor([[True, True]]), P


attention_decoder = Exercise(
    "4.3", "A decoder that looks back", attention_decoder, "states",
    probes=[
        Probe("4 steps, lengths 5 and 3", lambda: _decoding(31, 4, 3, 2, 5, (5, 3))),
        Probe("two steps, one unit, keys 0 and 1", _one_unit),
        Probe("as many rows as steps, keys and units", lambda: _decoding(33, 3, 3, 3, 3, (2, 3, 1))),
        Probe("one step", lambda: _decoding(35, 1, 4, 3, 2, (2, 1, 2))),
        Probe("nothing padded", lambda: _decoding(37, 5, 2, 4, 3, (3, 3))),
    ],
    mistakes=mistakes_04_decoder.ATTENTION_DECODER, combinations=mistakes_04_decoder.ATTENTION_DECODER_PAIRS,
    hints=(
        "At step t, what does the decoder know before it reads y_t? Which of that is the query, and which three "
        "vectors does the cell read then?",
        "Start with s = s0 and go through the steps: context from additive attention with the query s, then the new s "
        "from y_t, the old s and the context. Collect the new states and stack them along axis 1.",
        "In each turn, call your additive_attention with s as the query and `P[\"W1\"]`, `P[\"W2\"]`, `P[\"v\"]`; the "
        "token is `ys[:, t]`, a row times a matrix is `s @ P[\"Ws\"]`, and `torch.stack` joins the states.",
    ),
    minutes=12, difficulty=2,
    advice="Take the case with one unit: s0 = 0 has the scores 2 tanh(0) = 0 and 2 tanh(1) = 1.5232, so c_1 = 0.8210 "
           "and s_1 = tanh(0.5 - 0.8210) = -0.3104. Now s_1 asks: the scores are 2 tanh(-0.6208) = -1.1034 and "
           "2 tanh(0.3792) = 0.7240, c_2 = 0.8614 and s_2 = tanh(-1 - 0.1552 - 0.8614) = -0.9652.",
)


# ---- 4.4 self_attention ---------------------------------------------------------------------------------------------


def self_attention(X: Array, Wq: Array, Wk: Array, Wv: Array) -> tuple[Array, Array]:
    """Scaled dot-product self-attention of one sentence: every token looks at all tokens, itself among them.

    X: (T, D), one token in each row.  Wq, Wk: (D, d_k) and Wv: (D, d_v): a token x, as a row, has the query x Wq, the
    key x Wk and the value x Wv.
    The score of query i with key j is their dot product divided by √d_k.  The weights of query i are the softmax of its
    scores over all keys j; scores may be large, so it has to be numerically stable.
    Returns (out, weights): (T, d_v), whose row i is the sum of the values, each times its weight for query i, and
    (T, T), whose row i holds the weights of query i.
    Source: Vaswani et al. (2017), Attention is all you need, equation 1.
    """
    q, k, v = X @ Wq, X @ Wk, X @ Wv  # (T, d_k), (T, d_k), (T, d_v)
    scores = q @ k.T / math.sqrt(q.shape[1])  # (T, T)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = e / e.sum(axis=1, keepdims=True)
    return weights @ v, weights


def _sentence(T: int, D: int, d_k: int, d_v: int, seed: int, scale: float = 1.0) -> tuple[Array, ...]:
    """Arguments of self_attention.  scale: of the queries, and so of the scores."""
    X, Wq, Wk, Wv = (_normal(*shape, seed=seed + i) for i, shape in enumerate(((T, D), (D, d_k), (D, d_k), (D, d_v))))
    return X, scale * Wq, Wk, Wv


def _shares() -> tuple[Array, ...]:
    """Two tokens, whose scores are the logarithms of 3 and 4, and 0."""
    Wq = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    Wk = np.array([[math.log(3), 0.0, 0.0, 0.0], [0.0, math.log(4), 0.0, 0.0]])
    return np.eye(2), Wq, Wk, np.array([[1.0], [5.0]])


self_attention = Exercise(
    "4.4", "Self-attention", self_attention, ("out", "weights"),
    probes=[
        Probe("4 tokens, D = 6, d_k = 3, d_v = 5", lambda: _sentence(4, 6, 3, 5, seed=41)),
        Probe("2 tokens, weights of 3/4 and 1/4", _shares),
        Probe("T = D = d_k = d_v = 3", lambda: _sentence(3, 3, 3, 3, seed=51)),
        Probe("2 tokens, D = d_k = d_v = 4", lambda: _sentence(2, 4, 4, 4, seed=61)),
        Probe("one token", lambda: _sentence(1, 3, 2, 4, seed=71)),
        Probe("large scores", lambda: _sentence(3, 4, 2, 3, seed=81, scale=2000.0)),
    ],
    mistakes=mistakes_04_softmax.SELF_ATTENTION, combinations=mistakes_04_softmax.SELF_ATTENTION_PAIRS,
    hints=(
        "Every token asks, is found and gives: which matrix belongs to what? How many scores are there in all, and "
        "which of them compete for the attention of one token?",
        "Project X three times: queries and keys (T, d_k), values (T, d_v). The scores are (T, T), a row for each "
        "query; divide by √d_k, take the softmax of each row, and multiply the weights by the values.",
        "All dot products at once are `q @ k.T`; `q.shape[1]` is d_k. Your softmax of exercise 4.1 along the last "
        "axis makes the weights, whose rows sum to 1, and one more matrix product makes the output.",
    ),
    minutes=10, difficulty=2, rtol=1e-5, atol=1e-6,  # so that partly single precision passes
    advice="Take the case with 2 tokens and d_k = 4: before the scale, the scores are 2 ln 3 and 0 for token 0, 0 and "
           "2 ln 4 for token 1; the weights are 3/4 and 1/4, 1/5 and 4/5. The values are 1 and 5, so the output is 2 "
           "and 4.2.",
)
