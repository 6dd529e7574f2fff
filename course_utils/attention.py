"""Attention: a query is scored against keys, a softmax makes weights of the scores, and the values are averaged.

By hand in NumPy for one query, or one sentence: `softmax`, `additive_scores`, `additive_attention` and
`dot_product_attention`.  Batched in torch: masks, `masked_softmax`, `scaled_dot_product_attention`, multi-head
attention and the scores of a recurrent decoder.  A mask is boolean and True where a query may attend to a key.

Rows are tokens.  B is the number of rows of a batch, T the number of queries, S that of keys and values, K the width
of a query and of a key, d_v that of a value and d_a that of the hidden layer of an additive score; H is the number of
heads and D = H K the width of a model.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from course_utils.corpora import PAD
from course_utils.shapes import expect, in_range

Array = NDArray[np.floating]

# By hand


def softmax(x: Array, axis: int = -1, mask: NDArray[np.bool_] | None = None) -> Array:
    """exp(x) divided by its sum along an axis: positive numbers that sum to 1; any shape, the shape of x is returned.

    mask: an array that broadcasts to the shape of x, False where the result is 0, whatever x is there.  Where nothing
    is left along the axis, the result is zeros.
    Raises ValueError if x is not an array of finite floats, or mask not one of booleans that broadcasts to its shape.
    """
    expect(x, "...", "x", dtype="float", finite=True)
    if mask is not None:
        _expect_mask(mask, x.shape)
        x = np.where(mask, x, -np.inf)
    largest = x.max(axis=axis, keepdims=True)
    # Subtracting the largest changes nothing in the ratio, and no exp overflows.
    e = np.exp(x - np.where(np.isinf(largest), 0, largest))
    total = e.sum(axis=axis, keepdims=True)
    return e / np.where(total == 0, 1, total)


def additive_scores(query: Array, keys: Array, W: Array, U: Array, v: Array) -> Array:
    """The additive score of one query with each key, e_j = v · tanh(W query + U key_j).

    query: (d_q,), in a decoder its state before the step; keys: (S, d_k); W: (d_a, d_q), U: (d_a, d_k), v: (d_a,).
    Returns (S,).  Raises ValueError when a shape does not fit or a value is not finite.
    Source: Bahdanau, Cho and Bengio (2015), Neural machine translation by jointly learning to align and translate,
    appendix A.1.2.
    """
    sizes: dict[str, int] = {}
    specs = (("query", "d_q"), ("keys", "S d_k"), ("W", "d_a d_q"), ("U", "d_a d_k"), ("v", "d_a"))
    for (name, spec), array in zip(specs, (query, keys, W, U, v), strict=True):
        sizes = expect(array, spec, name, dtype="float", finite=True, **sizes)
    return np.tanh(W @ query + keys @ U.T) @ v  # (S, d_a) @ (d_a,) -> (S,)


def additive_attention(
    query: Array, keys: Array, W: Array, U: Array, v: Array, mask: NDArray[np.bool_] | None = None
) -> tuple[Array, Array]:
    """The mean of the keys, weighted by the softmax of their additive scores with one query: (context, weights).

    query: (d_q,); keys: (S, d_k), which are the values, too; W, U, v: see `additive_scores`; mask: (S,), True = may
    attend.  Returns the context (d_k,) and the weights (S,), which are zeros where nothing may be attended to.
    Raises ValueError as `additive_scores` does, and for another mask.
    Source: Bahdanau, Cho and Bengio (2015), equations 5 and 6.
    """
    scores = additive_scores(query, keys, W, U, v)  # (S,)
    if mask is not None:
        expect(mask, "S", "mask", dtype="bool", S=len(keys))
    weights = softmax(scores, mask=mask)  # (S,)
    return weights @ keys, weights


def dot_product_attention(
    q: Array, k: Array, v: Array, mask: NDArray[np.bool_] | None = None, scale: float | None = None
) -> tuple[Array, Array]:
    """Attention of one sentence by scaled dot products: softmax(q k^T scale) v, and the weights.

    q: (T, K); k: (S, K); v: (S, d_v); mask: (T, S), True = may attend; scale: 1/√K unless given.
    Returns (T, d_v) and (T, S); a query that may attend to nothing gets zeros.
    Raises ValueError when a shape or the scale does not fit, or a value is not finite.
    Source: Vaswani et al. (2017), Attention is all you need, equation 1.
    """
    sizes = expect(q, "T K", "q", dtype="float", finite=True)
    sizes = expect(k, "S K", "k", dtype="float", finite=True, **sizes)
    sizes = expect(v, "S d_v", "v", dtype="float", finite=True, **sizes)
    if mask is not None:
        expect(mask, "T S", "mask", dtype="bool", **sizes)
    scale = 1 / math.sqrt(sizes["K"]) if scale is None else in_range(scale, "scale")
    weights = softmax(q @ k.T * scale, mask=mask)  # (T, S)
    return weights @ v, weights


# At speed


def padding_mask(ids: Tensor) -> Tensor:
    """Which tokens of ids (B, S) are real: (B, 1, S) booleans, to be combined with any number of queries.

    For several heads, (B, H, T, S), give it one more dimension: padding_mask(ids)[:, None].
    Raises ValueError for a wrong shape or dtype.
    """
    expect(ids, "B S", "ids", dtype="int")
    return (ids != PAD)[:, None]  # (B, 1, S)


def causal_mask(T: int, device: torch.device | None = None) -> Tensor:
    """Token t may attend to tokens 0 … t: (T, T) booleans, True on and below the diagonal.

    Raises ValueError unless T is a positive integer.
    """
    in_range(T, "T", low=1, integer=True)
    return torch.ones(T, T, dtype=torch.bool, device=device).tril()


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax of scores (..., S) along the last dimension among the keys that the mask allows.

    mask: booleans that broadcast to the shape of the scores, True = may attend; None allows all.
    Returns weights (..., S), 0 where the mask is False.  A row that may attend to nothing gets zeros, and gives no
    gradient; torch.softmax of a row of -inf would be NaN in both.
    Raises ValueError for a wrong dtype, or a mask that doesn't broadcast to the scores.
    """
    expect(scores, "... S", "scores", dtype="float")
    if mask is None:
        return torch.softmax(scores, dim=-1)
    _expect_mask(mask, scores.shape)
    mask = mask.broadcast_to(scores.shape)
    nothing = ~mask.any(dim=-1, keepdim=True)  # (..., 1)
    scores = scores.masked_fill(~mask, -torch.inf)
    if not nothing.any():
        return torch.softmax(scores, dim=-1)
    # A row of zeros instead of a row of -inf: no NaN arises, not even one that is thrown away later.
    return torch.softmax(scores.masked_fill(nothing, 0), dim=-1).masked_fill(nothing, 0)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, need_weights: bool = False
) -> tuple[Tensor, Tensor | None]:
    """softmax(q k^T / √K) v: what each query gets from the values, and the weights if they are asked for.

    q: (..., T, K); k: (..., S, K); v: (..., S, d_v); mask: broadcasts to (..., T, S), True = may attend.  Leading
    dimensions broadcast.
    need_weights: the weights (..., T, S) are computed and returned; otherwise torch's fused function does the work,
    which never holds all of them in memory, and None is returned.  Both give the same output up to rounding.
    Returns (output (..., T, d_v), weights or None); a query that may attend to nothing gets zeros, and no gradient.
    Raises ValueError when a shape or dtype does not fit.
    Source: Vaswani et al. (2017), Attention is all you need, equation 1.
    """
    leading = _expect_qkv(q, k, v)
    if mask is not None:
        shape = (*leading, q.shape[-2], k.shape[-2])
        _expect_mask(mask, shape)
        mask = mask.broadcast_to(shape)  # (..., T, S)
    if need_weights:
        weights = masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask)  # (..., T, S)
        return weights @ v, weights
    q, k, v = (x.expand(*leading, *x.shape[-2:]) for x in (q, k, v))
    if mask is None:
        return _fused(q, k, v), None
    nothing = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
    if not nothing.any():
        return _fused(q, k, v, mask), None
    # Such a query attends to everything, and what it gets is thrown away: NaN in some versions of torch otherwise.
    return _fused(q, k, v, mask | nothing).masked_fill(nothing, 0), None


# Several heads


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Cut each token's D numbers into `n_heads` pieces of K = D / H: (B, T, D) -> (B, H, T, K).

    Head h has the numbers h K … (h + 1) K - 1 of every token.  Nothing is copied.
    Raises ValueError for a wrong shape, or if D can't be divided by the number of heads.
    """
    D = expect(x, "B T D", "x")["D"]
    expect_heads(D, n_heads)
    x = x.unflatten(-1, (n_heads, D // n_heads))  # (B, T, H, K)
    return x.transpose(1, 2)  # (B, H, T, K)


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads' numbers of each token side by side again: (B, H, T, K) -> (B, T, D), the inverse of `split_heads`.

    Raises ValueError for a wrong shape.
    """
    expect(x, "B H T K", "x")
    return x.transpose(1, 2).flatten(2)  # (B, T, H, K) -> (B, T, D)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side: each head looks with queries, keys and values of its own, K = D / H wide.

    Every head projects all D numbers of a token, and W_O adds up what the heads found:
    concat(head_1, …, head_H) W_O, with head_h = softmax(Q_h K_h^T / √K) V_h.
    d_model: D; n_heads: H, which divides D; bias: whether the projections add one.
    `qkv` holds W_Q, W_K and W_V one below the other, so that self-attention needs one product instead of three; it is
    torch's `in_proj_weight`, and `out` is its `out_proj`.
    Raises ValueError for sizes that are not positive integers, or if H does not divide D.
    Source: Vaswani et al. (2017), Attention is all you need, section 3.2.2.
    """

    def __init__(self, d_model: int, n_heads: int, bias: bool = True):
        super().__init__()
        expect_heads(d_model, n_heads)
        self.d_model, self.n_heads = d_model, n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)
        for W in (*self.qkv.weight.chunk(3), self.out.weight):
            nn.init.xavier_uniform_(W)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        need_weights: bool = False,
        head_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """What each token of x gets from the tokens of memory, or from those of x itself (self-attention).

        x: (B, T, D) asks; memory: (B, S, D) is looked at, x if None.
        mask: (T, S) for all rows and heads, or four dimensions that broadcast to (B, H, T, S); True = may attend.
        head_mask: (H,), or (B, H) for each row, a factor for what each head found: 0 switches it off.
        Returns (output (B, T, D), weights (B, H, T, S), one matrix a head, or None unless `need_weights`).
        Raises ValueError when a shape or dtype does not fit; three dimensions of a mask would be ambiguous.
        """
        if memory is None:
            q, k, v = self.project(x)
        else:
            q, (k, v) = self.queries(x), self.keys_values(memory)
        return self.attend(q, k, v, mask, need_weights, head_mask)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the same tokens x (B, T, D), each (B, H, T, K), in one product."""
        expect(x, "B T D", "x", dtype="float", D=self.d_model)
        q, k, v = self.qkv(x).chunk(3, dim=-1)  # (B, T, D) each
        return tuple(split_heads(part, self.n_heads) for part in (q, k, v))

    def queries(self, x: Tensor) -> Tensor:
        """Queries (B, H, T, K) of tokens x (B, T, D) that look at others."""
        return split_heads(self._project_rows("x", x, 0, 1), self.n_heads)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, (B, H, S, K) each, of memory (B, S, D): once, however many queries will look at them."""
        k, v = self._project_rows("memory", memory, 1, 3).chunk(2, dim=-1)  # (B, S, D) each
        return split_heads(k, self.n_heads), split_heads(v, self.n_heads)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        head_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """`forward` from queries (B, H, T, K), keys and values (B, H, S, K) on."""
        if mask is not None and mask.dim() not in (2, 4):
            raise ValueError(f"mask: expected (T, S), or four dimensions for (B, H, T, S), got {tuple(mask.shape)}")
        found, weights = scaled_dot_product_attention(q, k, v, mask, need_weights)  # (B, H, T, K), (B, H, T, S)
        if head_mask is not None:
            spec = "H" if isinstance(head_mask, Tensor) and head_mask.dim() == 1 else "B H"
            expect(head_mask, spec, "head_mask", dtype="float", B=len(q), H=self.n_heads)
            found = found * head_mask[..., None, None]  # (B, H, T, K) · (B or 1, H, 1, 1)
        return self.out(merge_heads(found)), weights  # (B, T, D)

    def _project_rows(self, name: str, x: Tensor, first: int, last: int) -> Tensor:
        """x (B, ·, D) times some of the three matrices in `qkv`."""
        expect(x, "B S D", name, dtype="float", D=self.d_model)
        rows = slice(first * self.d_model, last * self.d_model)
        return F.linear(x, self.qkv.weight[rows], None if self.qkv.bias is None else self.qkv.bias[rows])


# Scores of a recurrent decoder.  `project` prepares the keys, once per source; calling the score with the queries
# (B, T, d_q) and the prepared keys gives (B, T, S): a step of the decoder has T = 1.


class AdditiveScore(nn.Module):
    """e_tj = v · tanh(W query_t + U key_j).

    d_query, d_key: widths of a query and a key; d_a: width of the hidden layer.
    Source: Bahdanau, Cho and Bengio (2015), appendix A.1.2, with the decoder's previous state as the query.
    """

    def __init__(self, d_query: int, d_key: int, d_a: int):
        super().__init__()
        self.W = nn.Linear(d_query, d_a, bias=False)
        self.U = nn.Linear(d_key, d_a, bias=False)
        self.v = nn.Parameter(torch.empty(d_a).uniform_(-1, 1) / math.sqrt(d_a))

    def project(self, keys: Tensor) -> Tensor:
        """U key for each of keys (B, S, d_key): (B, S, d_a)."""
        return self.U(keys)

    def forward(self, queries: Tensor, projected: Tensor) -> Tensor:
        """Scores (B, T, S) of queries (B, T, d_query) with keys as `project` returned them."""
        hidden = torch.tanh(self.W(queries)[:, :, None] + projected[:, None])  # (B, T, 1, d_a) + (B, 1, S, d_a)
        return hidden @ self.v  # (B, T, S)


class DotScore(nn.Module):
    """e_tj = query_t · key_j, of queries and keys of the same width; nothing is learned.

    Source: Luong, Pham and Manning (2015), Effective approaches to attention-based neural machine translation,
    equation 8, "dot".
    """

    def project(self, keys: Tensor) -> Tensor:
        """The keys (B, S, K) themselves."""
        return keys

    def forward(self, queries: Tensor, projected: Tensor) -> Tensor:
        """Scores (B, T, S) of queries (B, T, K) with keys as `project` returned them."""
        return queries @ projected.mT  # (B, T, S)


class ScaledDotScore(DotScore):
    """e_tj = query_t · key_j / √K.

    Source: Vaswani et al. (2017), section 3.2.1.
    """

    def forward(self, queries: Tensor, projected: Tensor) -> Tensor:
        """Scores (B, T, S) of queries (B, T, K) with keys as `project` returned them."""
        return super().forward(queries, projected) / math.sqrt(queries.shape[-1])  # (B, T, S)


class GeneralScore(DotScore):
    """e_tj = query_t · (W key_j): a learned map brings the keys to where the queries are.

    d_query, d_key: widths of a query and a key.
    Source: Luong, Pham and Manning (2015), equation 8, "general".
    """

    def __init__(self, d_query: int, d_key: int):
        super().__init__()
        self.W = nn.Linear(d_key, d_query, bias=False)

    def project(self, keys: Tensor) -> Tensor:
        """W key for each of keys (B, S, d_key): (B, S, d_query)."""
        return self.W(keys)


def expect_heads(d_model: int, n_heads: int) -> None:
    """Raise ValueError unless both are positive integers, and the width can be divided among the heads."""
    in_range(d_model, "d_model", low=1, integer=True)
    in_range(n_heads, "n_heads", low=1, integer=True)
    if d_model % n_heads:
        raise ValueError(f"n_heads: expected a divisor of the width {d_model}, got {n_heads}")


def _expect_qkv(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, ...]:
    """Check queries, keys and values; return the leading dimensions that they have together."""
    sizes = expect(q, "... T K", "q", dtype="float")
    sizes = expect(k, "... S K", "k", dtype="float", **sizes)
    expect(v, "... S d_v", "v", dtype="float", **sizes)
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise ValueError(f"{name}: expected the dtype of q, {q.dtype}, got {x.dtype}")
    try:
        return np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ValueError(f"q, k, v: expected leading dimensions that broadcast, got {shapes}") from None


def _expect_mask(mask: Tensor | NDArray[np.bool_], shape: tuple[int, ...]) -> None:
    expect(mask, "...", "mask", dtype="bool")
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == tuple(shape)  # torch's own takes ten times as long
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"mask: expected a shape that broadcasts to {tuple(shape)}, got {tuple(mask.shape)}")


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Torch's fused function, whose fast kernels want four dimensions: one head if there are three."""
    if q.dim() != 3:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    one_head = None if mask is None else mask[:, None]
    return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=one_head)[:, 0]
