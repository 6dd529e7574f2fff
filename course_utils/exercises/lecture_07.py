"""The exercises of lecture 7, the transformer: what to write, cases to try it on, and hints.

Use in a notebook: `lecture_07.layer_norm.check(layer_norm)`. The wrong answers are in mistakes_07_*.py.
The references are written here, and have the names of their exercises, which then take their places:
`layer_norm.reference`. The package has layers with weights of their own in `transformer_blocks`, and positions in
`positions`.
"""

import functools
import math
from collections import UserDict
from collections.abc import Callable, Sequence

import numpy as np
import torch

from course_utils.exercises import mistakes_07_block, mistakes_07_cache, mistakes_07_norm, mistakes_07_positions
from course_utils.exercises.engine import TIME_LIMIT, Exercise, Probe
from course_utils.exercises.running import Outcome, run

# ---- 7.1 sinusoidal_positions ---------------------------------------------------------------------------------------


def sinusoidal_positions(T: int, d: int) -> torch.Tensor:
    """A vector of d numbers for each of the places 0 … T - 1: sines and cosines of ever slower waves.

    T, d: 1 or more; d may be odd.
    Returns (T, d), float64 or float32.  Columns 2i and 2i + 1 of row t are the sine and the cosine of the same angle,
    t / 10000^(2i/d): they alternate, sine first, and i = 0, 1, 2 … counts pairs of columns.  With odd d the last column
    is a sine.
    Source: Vaswani et al. (2017), Attention is all you need, section 3.5.
    """
    column = torch.arange(d)
    exponent = 2 * (column // 2).double() / d  # the same for both columns of a pair
    angle = torch.arange(T)[:, None] / 10_000**exponent  # (T, d)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


sinusoidal_positions = Exercise(
    "7.1", "Positions from sines and cosines", sinusoidal_positions, "positions",
    probes=[
        Probe("T = 4, d = 6", lambda: (4, 6)),
        Probe("T = 2, d = 4", lambda: (2, 4)),
        Probe("T = 3, d = 5", lambda: (3, 5)),
        Probe("T = 5, d = 2", lambda: (5, 2)),
        Probe("T = 3, d = 1", lambda: (3, 1)),
        Probe("one place, d = 8", lambda: (1, 8)),
        Probe("T = 40, d = 10", lambda: (40, 10)),
        Probe("T = 6, d = 7", lambda: (6, 7)),
    ],
    mistakes=mistakes_07_positions.SINUSOIDAL_POSITIONS, combinations=mistakes_07_positions.SINUSOIDAL_POSITIONS_PAIRS,
    hints=(
        "How many different speeds are there for d columns, and which pair does column j belong to? Write row 0 down "
        "without computing anything.",
        "Make the angles first: a column of places t, (T, 1), divided by a row of 10000^(2i/d) for the pairs i. Then "
        "sines go to the even columns and cosines to the odd ones, of which there is one fewer if d is odd.",
        "`torch.arange(0, d, 2) / d` is 2i/d for all pairs; a table of zeros takes the sines at `table[:, 0::2]` and "
        "the first d // 2 cosines at `table[:, 1::2]`.",
    ),
    minutes=8, difficulty=1, rtol=1e-4, atol=1e-5,  # exponents may be float32
    advice="Take T = 2, d = 4: row 0 is 0 1 0 1; in row 1 pair 0 has the angle 1 and pair 1 the angle 1 / 100, so it "
           "is 0.8415 0.5403 0.0100 1.0000.",
)


# ---- 7.2 embed ------------------------------------------------------------------------------------------------------


def embed(tokens: torch.Tensor, E: torch.Tensor, P: torch.Tensor) -> torch.Tensor:
    """What the first block of a transformer reads: for each token its embedding times √d, plus the vector of its place.

    tokens: (B, T) ids, whole numbers from 0 to V - 1, which stand at the places 0 … T - 1 of their sentence.
    E: (V, d), row i is the embedding of token i, padding included.  P: (max_len, d), row t belongs to place t; T is at
    most max_len.  Only the embedding is multiplied by √d.
    Returns (B, T, d).  The arguments are not changed.
    Source: Vaswani et al. (2017), sections 3.4 and 3.5.
    """
    return E[tokens] * math.sqrt(E.shape[1]) + P[:tokens.shape[1]]  # (B, T, d) + (T, d)


def _normal(*shape: int, seed: int, scale: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(scale=scale, size=shape))


def _looked_up(tokens: list[list[int]], V: int, d: int, max_len: int, seed: int) -> tuple[torch.Tensor, ...]:
    return torch.tensor(tokens), _normal(V, d, seed=seed), _normal(max_len, d, seed=seed + 1)


def _same_word() -> tuple[torch.Tensor, ...]:
    E, P = torch.ones(2, 4, dtype=torch.float64), torch.arange(20, dtype=torch.float64).reshape(5, 4)
    return torch.tensor([[1, 1, 1]]), E, P


embed = Exercise(
    "7.2", "Embeddings with positions", embed, "x",
    probes=[
        Probe("2 sentences, 3 tokens, d = 6", lambda: _looked_up([[4, 1, 3], [2, 6, 0]], 7, 6, 9, seed=71)),
        Probe("the same word three times, d = 4", _same_word),
        Probe("as many sentences as tokens", lambda: _looked_up([[0, 1, 2], [2, 1, 3], [4, 4, 0]], 5, 4, 8, seed=73)),
        Probe("T = max_len", lambda: _looked_up([[1, 2, 2, 3, 0], [3, 1, 0, 0, 0]], 4, 3, 5, seed=75)),
        Probe("one token", lambda: _looked_up([[2], [0], [5]], 6, 5, 7, seed=77)),
    ],
    mistakes=mistakes_07_positions.EMBED, combinations=mistakes_07_positions.EMBED_PAIRS,
    hints=(
        "Which table is looked up by what a token is, and which by where it stands? Which of the two parts is "
        "multiplied?",
        "The ids index the rows of E, which makes (B, T, d); multiply that by √d. The places are 0 to T - 1 in every "
        "sentence, so T rows of P are added, and broadcast over the batch.",
        "`E[tokens]` looks up all tokens at once; d is `E.shape[1]`, T is `tokens.shape[1]`, and a slice takes the "
        "first T rows of P.",
    ),
    minutes=5, difficulty=1,
    advice="Take the same word three times: its embedding is 1 1 1 1 and √d = 2, so the three vectors are 2 plus the "
           "rows 0 1 2 3, 4 5 6 7 and 8 9 10 11 of P.",
)


# ---- 7.3 layer_norm -------------------------------------------------------------------------------------------------


def layer_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float) -> torch.Tensor:
    """Layer norm: gamma (x - mean) / √(variance + eps) + beta, with mean and variance of each vector by itself.

    x: (..., d), vectors of d numbers along the last axis, with any axes in front; mean and variance are taken over the
    d numbers of one vector.  The variance is biased: the mean of the squared deviations, divided by d and not by d - 1.
    gamma, beta: (d,), a factor and an offset for each of the d numbers.  eps: added to the variance, inside the root,
    so that a vector of d equal numbers gives beta.
    Returns the shape of x.  x is not changed.
    Source: Ba, Kiros and Hinton (2016), Layer normalization, equation 4, with an eps as in nn.LayerNorm.
    """
    mean = x.mean(dim=-1, keepdim=True)  # (..., 1)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)  # (..., 1)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def _vectors(*shape: int, seed: int, scale: float = 1.0, mean: float = 0.0, eps: float = 1e-5) -> tuple:
    """Arguments of layer_norm."""
    gamma, beta = _normal(2, shape[-1], seed=seed + 1)
    return mean + _normal(*shape, seed=seed, scale=scale), gamma, beta, eps


def _plain(*rows: Sequence[float], eps: float = 1e-5) -> tuple:
    """Arguments of layer_norm with gamma 1 and beta 0."""
    x = torch.tensor(rows, dtype=torch.float64)
    return x, torch.ones(x.shape[1], dtype=torch.float64), torch.zeros(x.shape[1], dtype=torch.float64), eps


layer_norm = Exercise(
    "7.3", "Layer norm", layer_norm, "z",
    probes=[
        Probe("2 sentences, 3 tokens, d = 5", lambda: _vectors(2, 3, 5, seed=31, scale=3.0, mean=1.0)),
        Probe("1 0 0 0, gamma 1 and beta 0", lambda: _plain((1, 0, 0, 0))),
        Probe("small variance, eps = 0.1", lambda: _vectors(2, 4, 3, seed=33, scale=0.3, eps=0.1)),
        Probe("a square", lambda: _vectors(4, 4, seed=35, scale=2.0, mean=-1.0)),
        Probe("4 sentences, 4 tokens, d = 4", lambda: _vectors(4, 4, 4, seed=36)),
        Probe("equal numbers", lambda: (torch.full((1, 4), 3.0, dtype=torch.float64), *_vectors(1, 4, seed=37)[1:])),
        Probe("one vector", lambda: _vectors(6, seed=39, mean=5.0)),
        Probe("axes in front: 2, 3 and 2", lambda: _vectors(2, 3, 2, 7, seed=41)),
    ],
    mistakes=mistakes_07_norm.LAYER_NORM, combinations=mistakes_07_norm.LAYER_NORM_PAIRS,
    hints=(
        "Of how many numbers is each mean? Does one token's result depend on other tokens, or on other sentences?",
        "Mean and variance along the last axis, with that axis kept at length 1, so that they broadcast. Subtract the "
        "mean, divide by the root of variance plus eps, then multiply by gamma and add beta.",
        "`x.mean(dim=-1, keepdim=True)`; the variance is the mean of the squared deviations, taken the same way "
        "(`x.var` divides by d - 1 unless told not to).",
    ),
    minutes=6, difficulty=1,
    advice="Take 1 0 0 0: the mean is 1/4 and the variance (9 + 1 + 1 + 1) / 16 / 4 = 3/16, so the result is 0.75 / "
           "0.4330 = 1.7320 and three times -0.5773.",
)


# ---- 7.4 encoder_block ----------------------------------------------------------------------------------------------


def encoder_block(
    x: torch.Tensor, p: dict[str, torch.Tensor], n_heads: int, mask: torch.Tensor | None = None, p_drop: float = 0.0,
    training: bool = False,
) -> torch.Tensor:
    """A transformer's encoder block with pre-LN: first attention, then a feed-forward network, each x + f(LN(x)).

    x: (B, T, D).  p: the weights by name.  LN with "g1", "b1" (D,) and multi-head self-attention with "Wq", "Wk", "Wv",
    "Wo" (D, D) make the first half.  LN with "g2", "b2" (D,) and relu(z W1 + c1) W2 + c2, with "W1" (D, F), "c1" (F,),
    "W2" (F, D), "c2" (D,), make the second half, which reads what the first half returns.  All matrices are for rows.
    LN is layer_norm of exercise 7.3 with gamma g, beta b and eps 1e-5, and there is none after the second half.
    Attention is multi_head_attention of exercise 6.4, with n_heads and mask: None, or booleans (T, T) for every
    sentence, rows for queries and columns for keys, True = may attend; each token may attend to at least one.
    Dropout acts on what f returns, before it is added to x, in both halves and nowhere else: if training, each number
    is set to 0 with probability p_drop (0 to 1, and with 1 all of them) and the others are divided by 1 - p_drop.  It
    does nothing if not training.
    Returns (B, T, D).  The arguments are not changed.
    Source: Vaswani et al. (2017), section 3.1; pre-LN as in Xiong et al. (2020), On layer normalization in the
    transformer architecture.
    """
    B, T, D = x.shape
    z = torch.layer_norm(x, (D,), p["g1"], p["b1"], 1e-5)
    q, k, v = ((z @ p[name]).reshape(B, T, n_heads, D // n_heads).transpose(1, 2) for name in ("Wq", "Wk", "Wv"))
    scores = q @ k.mT / math.sqrt(D // n_heads)  # (B, H, T, T)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    heads = torch.softmax(scores, dim=-1) @ v  # (B, H, T, K)
    attended = heads.transpose(1, 2).reshape(B, T, D) @ p["Wo"]
    x = x + torch.dropout(attended, p_drop, training)
    z = torch.layer_norm(x, (D,), p["g2"], p["b2"], 1e-5)
    thought = torch.relu(z @ p["W1"] + p["c1"]) @ p["W2"] + p["c2"]
    return x + torch.dropout(thought, p_drop, training)


def _known_branches() -> tuple:
    """In training, with p_drop = 1/4: attention finds 1 everywhere and the network 100, whatever x is."""
    x, p, *_ = _block(4, 16, 16, 5, 2, seed=541)
    zeros, ones, eye = (make(16, dtype=torch.float64) for make in (torch.zeros, torch.ones, torch.eye))
    p.update(g1=zeros, b1=ones, Wv=eye, Wo=eye.clone(), W1=0 * p["W1"], c1=1 + 0 * p["c1"], W2=20 + 0 * p["W2"],
             c2=zeros.clone())
    return x, p, 2, None, 0.25, True


class _WithDropout(Exercise):
    """Its cases leave nothing to chance; an answer that is right in all of them drops at random once more."""

    def _diagnose(self, answer: Callable, seconds: float) -> tuple[str, str, str]:
        status, message, printed = super()._diagnose(answer, seconds)
        problem = self._dropout_problem(answer, seconds) if status == "passed" else ""
        return ("failed", problem, printed) if problem else (status, message, printed)

    def _dropout_problem(self, answer: Callable, seconds: float) -> str:
        probe = Probe("training, p_drop = 0.25", _known_branches)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            right, outcome = (run(f, self._arguments(probe), seconds) for f in (self.reference, answer))
        if outcome.error is not None:
            return self._error_text(answer, probe, outcome.error)
        return self._structure(right, outcome) or mistakes_07_block.dropout_problem(
            outcome.value.double() - _known_branches()[0])


class _Weights(UserDict):
    """Weights by name, shown by their shapes."""

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name!r} {tuple(W.shape)}" for name, W in self.items()) + "}"


def _block(B: int, T: int, D: int, F: int, n_heads: int, mask: torch.Tensor | None = None, p_drop: float = 0.0,
           training: bool = False, *, seed: int, scale: float = 1.0, mean: float = 0.0) -> tuple:
    """Arguments of encoder_block; scale and mean are those of x."""
    shapes = {**dict.fromkeys(("g1", "b1", "g2", "b2", "c2"), (D,)), **dict.fromkeys(("Wq", "Wk", "Wv", "Wo"), (D, D)),
              "W1": (D, F), "c1": (F,), "W2": (F, D)}
    p = {name: _normal(*shape, seed=seed + i, scale=0.7) for i, (name, shape) in enumerate(shapes.items())}
    return mean + _normal(B, T, D, seed=seed - 1, scale=scale), _Weights(p), n_heads, mask, p_drop, training


def _one_token() -> tuple:
    """x = 1 3, attention hands on what it reads, one hidden unit."""
    ones, zeros, eye = torch.ones(2), torch.zeros(2), torch.eye(2)
    p = {"g1": ones, "b1": zeros, "g2": ones, "b2": zeros, "Wq": eye, "Wk": eye, "Wv": eye, "Wo": eye,
         "W1": torch.tensor([[1.0], [2.0]]), "c1": torch.tensor([0.5]), "W2": torch.tensor([[2.0, -1.0]]),
         "c2": torch.tensor([0.0, 1.0])}
    p = _Weights({name: value.double().clone() for name, value in p.items()})
    return torch.tensor([[[1, 3]]], dtype=torch.float64), p, 1, None, 0.0, False


def _causal(T: int) -> torch.Tensor:
    return torch.ones(T, T, dtype=torch.bool).tril()


encoder_block = _WithDropout(
    "7.4", "An encoder block", encoder_block, "x",
    probes=[
        Probe("2 sentences, 5 tokens, D = 12, 3 heads, F = 7", lambda: _block(2, 5, 12, 7, 3, seed=401, scale=2.0)),
        Probe("one token 1 3, one head, F = 1", _one_token),
        Probe("causal mask, (T, T), x far from 0", lambda: _block(
            2, 4, 6, 5, 2, _causal(4), seed=421, scale=2.0, mean=3.0)),
        Probe("the last of 4 tokens is hidden, 3 heads", lambda: _block(
            2, 4, 6, 8, 3, (torch.arange(4) < 3).expand(4, -1), seed=441)),
        Probe("x near 0", lambda: _block(1, 3, 4, 6, 2, seed=461, scale=0.02)),
        Probe("evaluation, p_drop = 1", lambda: _block(2, 3, 4, 5, 2, None, 1.0, False, seed=481)),
        Probe("training, p_drop = 1", lambda: _block(2, 3, 4, 5, 2, None, 1.0, True, seed=501)),
        Probe("training, p_drop = 0", lambda: _block(2, 3, 4, 5, 2, None, 0.0, True, seed=521)),
    ],
    mistakes=mistakes_07_block.ENCODER_BLOCK, combinations=mistakes_07_block.ENCODER_BLOCK_PAIRS,
    hints=(
        "Both halves have the same form, x + f(LN(x)). What is f in each, and what is added to what? Follow x itself: "
        "it passes through the block without ever going through a norm.",
        "z is LN(x); attention of z, through dropout, is added to x. Then the same again from the new x: a new z by "
        "the second norm, through the feed-forward network and dropout, added to it.",
        "`x = x + F.dropout(attended, p_drop, training)`, where attended is your multi_head_attention of z, a name of "
        "its own for LN(x), so that x stays what it is. relu stands between W1 and W2.",
    ),
    minutes=15, difficulty=2, rtol=1e-7,
    advice="Take the case with one token 1 3: LN makes -1 1 of it, which attention hands on, so x is 0 4; LN makes -1 "
           "1 again, the hidden unit is relu(-1 + 2 + 0.5) = 1.5, the network adds 3 and -0.5, and the result is 3 3.5 "
           "(up to eps).",
)


# ---- 7.5 cached_step ------------------------------------------------------------------------------------------------


def _in_calls(step: Callable) -> Callable:
    """`step` for one piece of the sentences after the other, each with the cache that the call before returned."""
    def answer(pieces: list[torch.Tensor], cache: object, *others: object) -> object:
        outputs = []
        for piece in pieces:
            result = step(piece, cache, *others)
            if not (isinstance(result, (tuple, list)) and len(result) == 2):
                return result
            outputs.append(result[0])
            cache = result[1]
        return torch.cat(outputs, dim=1)
    return answer


class _InCalls(Exercise):
    """Its cases are several calls in a row; what the answer keeps in its cache is its own business."""

    _known = staticmethod(functools.cache(_in_calls))  # for mistakes, whose results on the first case are kept

    def outcomes(self, function: Callable, seconds: float = TIME_LIMIT) -> list[Outcome]:
        return super().outcomes(_in_calls(function), seconds)

    def does_the_same(self, function: Callable, outcomes: list[Outcome], *, side_effects: bool = False) -> bool:
        return super().does_the_same(self._known(function), outcomes, side_effects=side_effects)

    def _ignored_arguments(self, answer: Callable, outcomes: list[Outcome], seconds: float) -> list[str]:
        return super()._ignored_arguments(_in_calls(answer), outcomes, seconds)


def cached_step(
    e: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None, Wq: torch.Tensor, Wk: torch.Tensor,
    Wv: torch.Tensor, Wo: torch.Tensor, n_heads: int, P: torch.Tensor,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Causal self-attention for the next n tokens of sentences whose earlier tokens are in a cache.

    e: (B, n, D), embeddings of the n new tokens alone, without positions; n may differ from call to call.
    cache: None in the first call, later what the call before returned: here the keys and values of all earlier tokens,
    (k, v), both (B, H, past, K) with K = D / n_heads.
    Wq, Wk, Wv, Wo: (D, D), for rows, as in multi_head_attention of exercise 6.4.
    P: (max_len, D), row t belongs to place t, counted from the beginning of the sentence.  It is added to the new
    embeddings, and their sum is projected to queries, keys and values.
    Each new token may attend to all earlier tokens, to the new ones before it and to itself.
    Returns (y, cache): the output for the n new tokens, (B, n, D), and the cache for the next call, with the new keys
    and values behind the old ones.  However a sentence is cut into calls, its outputs are the same.
    """
    past = 0 if cache is None else cache[0].shape[2]
    B, n, D = e.shape
    x = e + P[past:past + n]
    q, k, v = ((x @ W).reshape(B, n, n_heads, D // n_heads).transpose(1, 2) for W in (Wq, Wk, Wv))  # (B, H, n, K)
    if cache is not None:
        k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)  # (B, H, past + n, K)
    allowed = torch.arange(past + n) <= past + torch.arange(n)[:, None]  # (n, past + n)
    scores = (q @ k.mT / math.sqrt(D // n_heads)).masked_fill(~allowed, -torch.inf)
    heads = torch.softmax(scores, dim=-1) @ v  # (B, H, n, K)
    return heads.transpose(1, 2).reshape(B, n, D) @ Wo, (k, v)


def _pieces(*lengths: int, B: int, D: int, n_heads: int, seed: int, max_len: int = 12) -> tuple:
    """Arguments of cached_step for several calls: e is a list, with the new tokens of each call."""
    e, P = _normal(B, sum(lengths), D, seed=seed), _normal(max_len, D, seed=seed + 1)
    matrices = _normal(4, D, D, seed=seed + 2)
    return [piece.clone() for piece in e.split(lengths, dim=1)], None, *matrices, n_heads, P


def _numbers() -> tuple:
    """Tokens 1 and 2 in two calls, places 0 and 1, all matrices 1."""
    one = torch.ones(1, 1, dtype=torch.float64)
    P = torch.tensor([[0], [1], [3], [6]], dtype=torch.float64)
    return [one[None], 2 * one[None]], None, *(one.clone() for _ in range(4)), 1, P


cached_step = _InCalls(
    "7.5", "One step with a key–value cache", cached_step, "y",
    probes=[
        Probe("one call with 5 tokens", lambda: _pieces(5, B=2, D=12, n_heads=3, seed=701)),
        Probe("two calls with the tokens 1 and 2, D = 1", _numbers),
        Probe("4 calls with one token each", lambda: _pieces(1, 1, 1, 1, B=2, D=6, n_heads=2, seed=711)),
        Probe("calls with 3, 1 and 1 tokens", lambda: _pieces(3, 1, 1, B=2, D=6, n_heads=3, seed=721)),
        Probe("calls with 2 and 2 tokens, 2 heads, 2 sentences", lambda: _pieces(2, 2, B=2, D=4, n_heads=2, seed=731)),
        Probe("calls with 1, 3 and 2 tokens", lambda: _pieces(1, 3, 2, B=3, D=8, n_heads=4, seed=741)),
    ],
    mistakes=mistakes_07_cache.CACHED_STEP, combinations=mistakes_07_cache.CACHED_STEP_PAIRS,
    hints=(
        "How many tokens came before, and where can you read that off? What of them do the new tokens need, and what "
        "will never be needed again?",
        "Add rows `past` to `past + n` of P, project, split into heads, and put new keys and values behind the cached "
        "ones. There are n queries and past + n keys; query i stands at place past + i, and may see the keys up to "
        "there.",
        "past is `cache[0].shape[2]`, or 0; `torch.cat([cache[0], k], dim=2)` joins keys, values alike. A mask "
        "(n, past + n) compares `torch.arange(past + n)` with the places of the queries.",
    ),
    minutes=15, difficulty=3,
    advice="Take two calls with the tokens 1 and 2, whose places add 0 and 1: x is 1 and 3. The first output is 1; the "
           "second token has the scores 3 · 1 and 3 · 3, the weights 0.0025 and 0.9975, and the output 2.9951. All "
           "ways of cutting a sentence must agree up to rounding: to be close is not enough.",
)
