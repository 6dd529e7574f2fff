"""Wrong answers to lecture 4's exercises softmax and self_attention, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import math

import numpy as np

from course_utils.exercises.engine import Mistake, pairs, variations

# ---- softmax --------------------------------------------------------------------------------------------------------


def _largest(x, axis):
    return x.max(axis=axis, keepdims=True)


def _total(e, axis, x):
    return e.sum(axis=axis, keepdims=True)


def _softmax(x, axis, *, along=lambda x, axis: axis, scores=lambda x, axis: x, shift=_largest, exp=np.exp, total=_total,
             finish=lambda p, axis: p):
    """shift: what is subtracted from the scores; total: what the exponentials are divided by."""
    axis = along(x, axis)
    scores = scores(x, axis)
    e = exp(scores - shift(scores, axis))
    return finish(e / total(e, axis, x), axis)


def _last_at_most(axis):
    """A fixed axis, or the last one where there are not so many."""
    return lambda x, _: min(axis, x.ndim - 1)


def _hard(x, axis):
    return (x == _largest(x, axis)).astype(float)


_NO_SHIFT = ("Your exponentials overflow: exp(1000) is infinite, exp(-1000) is 0, and the quotients are NaN. Subtract "
             "the maximum of each slice first: the ratios don't change, so the result doesn't either.")
_KEEPDIMS = ("Your maxima or sums lose their axis, so that they broadcast along the wrong one: an error if the array "
             "isn't square, wrong numbers if it is. `keepdims=True` keeps an axis of length 1.")
_WHOLE = ("Your whole array sums to 1. Each slice along `axis` is a distribution of its own: take the sum along that "
          "axis, with `keepdims=True`.")
_FIXED = ("You normalize along axis {}, whatever `axis` is. Hand the argument on to both `max` and `sum`: the slices "
          "along it must sum to 1.")
_EPSILON = ("You add a small number to the sum, so that a slice sums to a little less than 1. None is needed: with the "
            "maximum subtracted, the sum is at least 1.")
_TWO_AXES = ("Your {} follow `axis`, your {} don't: they run along the last axis, always. Both need the same `axis`, "
             "and `keepdims=True`, for the slices to sum to 1.")
_UNNORMALIZED = ("The largest entry of each of your slices is 1, so a slice sums to more. Divide the exponentials by "
                 "their sum along `axis`, not by the largest, and don't return them as they are.")
_BOTH_ALIKE = ("The exponentials above and below the fraction bar are not the same: only one of them is shifted by the "
               "maximum, so nothing cancels and the slices don't sum to 1. Compute them once and divide by their own "
               "sum.")
_SOFTMAX = {
    "no shift": (dict(shift=lambda x, axis: 0), _NO_SHIFT),
    "no shift, NaN to 0": (dict(shift=lambda x, axis: 0, finish=lambda p, axis: np.nan_to_num(p)), (
        "You replace the NaN of an overflow by 0, and then no probability is left. Prevent the overflow: subtract the "
        "maximum of each slice before you take the exponential.")),
    "one maximum for all": (dict(shift=lambda x, axis: x.max()), (
        "You subtract one maximum of the whole array. A slice that lies 2000 below it underflows to 0/0: subtract the "
        "maximum of each slice, with `axis` and `keepdims=True`.")),
    "mean subtracted": (dict(shift=lambda x, axis: x.mean(axis=axis, keepdims=True)), (
        "You subtract the mean, and a score far above it still overflows. Subtract the maximum: then the largest "
        "exponent is 0.")),
    "minimum subtracted": (dict(shift=lambda x, axis: x.min(axis=axis, keepdims=True)), (
        "You subtract the minimum, so that all exponents are positive and large ones overflow. Subtract the maximum: "
        "then the largest exponent is 0.")),
    "largest absolute value subtracted": (dict(shift=lambda x, axis: _largest(np.abs(x), axis)), (
        "You subtract the largest absolute value: where all scores lie near -1000, every exponential underflows, and "
        "0 / 0 is NaN. Subtract the maximum itself, which may be negative.")),
    "maximum along the last axis": (dict(shift=lambda x, axis: _largest(x, -1)), _TWO_AXES.format("sums", "maxima")),
    "sum along the last axis": (dict(total=lambda e, axis, x: e.sum(axis=-1, keepdims=True)), _TWO_AXES.format(
        "maxima", "sums")),
    "maximum added": (dict(shift=lambda x, axis: -_largest(x, axis)), (
        "You add the maximum instead of subtracting it, which makes the overflow worse. Subtract it: then the largest "
        "exponent is 0.")),
    "clipped": (dict(scores=lambda x, axis: np.clip(x, -500, 500)), (
        "You clip the scores, so that those beyond the bound become equal: 1000 and 1002 get the same weight. Subtract "
        "the maximum instead, which keeps all differences.")),
    "maximum without keepdims": (dict(shift=lambda x, axis: x.max(axis=axis)), _KEEPDIMS),
    "sum without keepdims": (dict(total=lambda e, axis, x: e.sum(axis=axis)), _KEEPDIMS),
    "no keepdims at all": (dict(shift=lambda x, axis: x.max(axis=axis), total=lambda e, axis, x: e.sum(axis=axis)),
                           _KEEPDIMS),
    "no shift, no keepdims": (dict(shift=lambda x, axis: 0, total=lambda e, axis, x: e.sum(axis=axis)), _KEEPDIMS),
    "sum of everything": (dict(total=lambda e, axis, x: e.sum()), _WHOLE),
    "maximum and sum of everything": (dict(shift=lambda x, axis: x.max(), total=lambda e, axis, x: e.sum()), _WHOLE),
    "no shift, sum of everything": (dict(shift=lambda x, axis: 0, total=lambda e, axis, x: e.sum()), _WHOLE),
    "raw sum": (dict(total=lambda e, axis, x: np.exp(x).sum(axis=axis, keepdims=True)), _BOTH_ALIKE),
    "raw exponentials, shifted sum": (dict(shift=lambda x, axis: 0, total=lambda e, axis, x: np.exp(
        x - _largest(x, axis)).sum(axis=axis, keepdims=True)), _BOTH_ALIKE),
    "divided by the raw scores": (dict(total=lambda e, axis, x: x.sum(axis=axis, keepdims=True)), (
        "You divide by the sum of the scores. Divide by the sum of their exponentials: then a slice sums to 1.")),
    "divided by the number": (dict(total=lambda e, axis, x: e.shape[axis]), (
        "You divide by the number of entries. Divide by the sum of the exponentials along `axis`: then a slice sums "
        "to 1.")),
    "divided by the mean": (dict(total=lambda e, axis, x: e.mean(axis=axis, keepdims=True)), (
        "You divide by the mean of the exponentials, so that a slice sums to its length. Divide by their sum.")),
    "epsilon, 1e-6": (dict(total=lambda e, axis, x: e.sum(axis=axis, keepdims=True) + 1e-6), _EPSILON),
    "epsilon, 1e-5": (dict(total=lambda e, axis, x: e.sum(axis=axis, keepdims=True) + 1e-5), _EPSILON),
    "divided by the largest": (dict(total=lambda e, axis, x: e.max(axis=axis, keepdims=True)), _UNNORMALIZED),
    "divided by the length": (dict(total=lambda e, axis, x: np.sqrt((e * e).sum(axis=axis, keepdims=True))), (
        "You divide by the Euclidean norm: your squares sum to 1. Probabilities sum to 1 themselves: divide by the sum "
        "of the exponentials.")),
    "exponentials": (dict(shift=lambda x, axis: 0, total=lambda e, axis, x: 1), (
        "You return the exponentials themselves. Divide them by their sum along `axis`: then each slice sums to 1.")),
    "always the last axis": (dict(along=lambda x, axis: -1), _FIXED.format("-1")),
    "always axis 0": (dict(along=lambda x, axis: 0), _FIXED.format("0")),
    "always axis 1": (dict(along=_last_at_most(1)), _FIXED.format("1")),
    "axis 0 or else 1": (dict(along=lambda x, axis: 0 if axis == 0 else min(1, x.ndim - 1)), (
        "You take every axis but 0 for axis 1, which is right for matrices only. Hand `axis` itself on to both `max` "
        "and `sum`, with `keepdims=True`: that works for any number of axes.")),
    "minus": (dict(scores=lambda x, axis: -x), (
        "Your largest score gets the smallest probability: there is a minus in the exponent. It is exp(x), divided by "
        "its sum.")),
    "minus of the difference": (dict(exp=lambda z: np.exp(-z)), (
        "You subtract the wrong way round, exp(max - x): the largest score gets the smallest probability. It is "
        "exp(x - max).")),
    "absolute values": (dict(scores=lambda x, axis: np.abs(x)), (
        "You take absolute values first, so that -3 counts as much as 3. The exponential makes every score positive by "
        "itself, and a negative score gives a small probability.")),
    "divided by the maximum": (dict(scores=lambda x, axis: x / _largest(np.abs(x), axis)), (
        "You divide the scores by their largest, which changes the ratios. Subtract the maximum: a difference of 1 "
        "between two scores must stay a factor of e.")),
    "standardized": (dict(scores=lambda x, axis: (x - x.mean(axis=axis, keepdims=True)) / x.std(
        axis=axis, keepdims=True)), (
        "You divide the scores by their standard deviation, which changes the ratios. A shift of all scores is "
        "harmless, a scale is not: subtract the maximum and no more.")),
    "twice": (dict(scores=lambda x, axis: _softmax(x, axis)), (
        "You apply softmax twice. The second time it sees numbers between 0 and 1, so the result is nearly uniform: "
        "once is enough.")),
    "base 2": (dict(exp=np.exp2), (
        "You take powers of 2. Softmax uses the exponential, powers of e: a difference of 1 between two scores is a "
        "factor of 2.718.")),
    "square": (dict(exp=lambda z: np.exp(z)**2), (
        "Your ratios are squared: a difference of 1 between two scores must be a factor of e. Take the exponential "
        "once.")),
    "sigmoid": (dict(shift=lambda x, axis: 0, exp=lambda z: 1 / (1 + np.exp(-z))), (
        "You put a sigmoid in place of the exponential, so that large scores all count as 1 and hardly differ. Take "
        "exp of the shifted scores.")),
    "sigmoid alone": (dict(shift=lambda x, axis: 0, exp=lambda z: 1 / (1 + np.exp(-z)), total=lambda e, axis, x: 1), (
        "You put each score through a sigmoid of its own, so that the slices don't sum to 1. Scores compete: take "
        "their exponentials and divide them by the sum along `axis`.")),
    "no exponential": (dict(shift=lambda x, axis: 0, exp=lambda z: z), (
        "You divide the scores by their sum: there is no exponential, negative scores give negative results, and a sum "
        "of 0 none at all. Take exp first, which makes everything positive.")),
    "no exponential, shifted": (dict(exp=lambda z: z), (
        "You divide the shifted scores by their sum: the exponential is missing, and the largest score gets 0. Take "
        "exp of the shifted scores first.")),
    "logarithm": (dict(finish=lambda p, axis: np.log(p)), (
        "You return the logarithm, log-softmax. The probabilities themselves are wanted: each slice sums to 1.")),
    "rounded": (dict(finish=lambda p, axis: np.round(p, 2)), (
        "You round the result. Return it in full precision, so that each slice sums to 1, and round only what you "
        "print.")),
    "one minus": (dict(finish=lambda p, axis: 1 - p), (
        "You return 1 minus the softmax: the largest score gets the smallest value, and the slices don't sum to 1. "
        "Return the quotient itself.")),
    "hard": (dict(finish=lambda p, axis: _hard(p, axis)), (
        "You return 1 at the maximum and 0 elsewhere: that is a hard choice. Softmax gives every score a share, in the "
        "ratio of their exponentials.")),
}


def _log_stable(x, axis):
    shifted = x - _largest(x, axis)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


SOFTMAX = [*variations(_softmax, _SOFTMAX), *(Mistake(*row) for row in [
    (_log_stable, "You return the log-softmax, x - max - log(sum). The probabilities themselves are wanted: take exp "
     "of it.", "log-softmax"),
    (lambda x, axis: np.log(np.exp(x - _largest(x, axis)).sum(axis=axis)) + x.max(axis=axis), (
        "You return the logarithm of the sum, one number for each slice. It is what normalizes: the softmax has the "
        "shape of x and is exp(x) divided by that sum."), "logsumexp"),
    (lambda x, axis: x.argmax(axis=axis), "You return the place of the largest score. Softmax returns a probability "
     "for every entry, in the shape of x.", "argmax"),
])]
# Without two whose mistakes undo each other.
SOFTMAX_PAIRS = [m for m in pairs(_softmax, _SOFTMAX) if m.name != "twice + no exponential" and "epsilon" not in m.name]


# ---- self_attention -------------------------------------------------------------------------------------------------


def _rows(scores):
    return _softmax(scores, -1)


def _root(width):
    return lambda scores, X, q, v: scores / np.sqrt(width(X, q, v))


def _scaled(scores, X, q, v):
    return scores / np.sqrt(q.shape[-1])


def _self(X, Wq, Wk, Wv, *, weights_of=lambda Wq, Wk, Wv: (Wq, Wk, Wv), query=np.matmul, key=np.matmul, value=np.matmul,
          score=lambda q, k: q @ k.T, scale=_scaled, weigh=_rows, mix=lambda w, v: w @ v,
          finish=lambda out, weights, X: (out, weights)):
    """weights_of: which matrix is used for what; weigh: from scores to weights."""
    Wq, Wk, Wv = weights_of(Wq, Wk, Wv)
    q, k, v = query(X, Wq), key(X, Wk), value(X, Wv)
    weights = weigh(scale(score(q, k), X, q, v))
    return finish(mix(weights, v), weights, X)


def _unprojected(X, W):
    return X


def _transposed(X, W):
    return X @ W.T


def _left(X, W):
    return W @ X


def _over_queries(scores):
    return _softmax(scores, 0)


def _masked(scores, keep):
    return _softmax(np.where(keep, scores, -np.inf), -1)


_SCALE = "You divide the scores by √{}, {}. What is summed in q · k has d_k terms: the scale is 1/√d_k, {}."
_EXCHANGED = ("Your scores are transposed: you compute K Qᵀ, or W_Q and W_K are exchanged. Rows belong to queries, "
              "columns to keys: Q Kᵀ with Q = X W_Q and K = X W_K.")
_SIDE = ("Your matrices multiply from the wrong side: {}. A token is a row of X, (T, D), so its projection is a row, "
         "too: `X @ W`, (T, D) times (D, d).")
_WRONG_SIDE = dict(zip(["query", "key", "value"], [_left] * 3))
_TRANSPOSED = dict(zip(["query", "key", "value"], [_transposed] * 3))
_NOT_TO_ITSELF = ("You keep a token from attending to itself. There is no mask here: the token itself is one of the "
                  "keys, and where it is alone, the only one.")
_SELF = {
    "softmax over queries": (dict(weigh=_over_queries), (
        "Your columns sum to 1, not your rows: the softmax runs over the queries, axis 0. Row i says how token i "
        "spreads its attention over the keys: the last axis.")),
    "softmax of everything": (dict(weigh=lambda s: _softmax(s.ravel(), 0).reshape(s.shape)), (
        "All your weights together sum to 1. Each query has a weight of 1 to spread over the keys: softmax along the "
        "last axis.")),
    "not normalized": (dict(weigh=lambda s: s), (
        "Your weights are the scores themselves, which may be negative: the softmax over the keys is missing. A "
        "query's weights are positive and sum to 1.")),
    "exponentials": (dict(weigh=lambda s: np.exp(s)), (
        "Your weights are exponentials that don't sum to 1. Divide each row by its sum: that is the softmax over the "
        "keys.")),
    "no shift": (dict(weigh=lambda s: np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True)), (
        "Your exponentials overflow where scores are large, and the weights are NaN. Subtract each row's maximum "
        "before the exponential, or use your softmax of exercise 4.1.")),
    "one maximum for all": (dict(weigh=lambda s: np.exp(s - s.max()) / np.exp(s - s.max()).sum(
        axis=-1, keepdims=True)), (
        "You subtract one maximum of the whole table, and a row that lies far below it underflows to 0 / 0. Subtract "
        "each row's own maximum, with `keepdims=True`.")),
    "no shift, over queries": (dict(weigh=lambda s: np.exp(s) / np.exp(s).sum(axis=0, keepdims=True)), (
        "Your columns sum to 1, not your rows, and large scores overflow. Each row is a softmax over the keys, the "
        "last axis, with the row's maximum subtracted first.")),
    "no keepdims": (dict(weigh=lambda s: np.exp(s - _largest(s, -1)) / np.exp(s - _largest(s, -1)).sum(axis=-1)), (
        "The sums of your rows are divided into the columns, so no row sums to 1: the sum has lost its axis. "
        "`keepdims=True` keeps it for broadcasting.")),
    "sigmoid": (dict(weigh=lambda s: 1 / (1 + np.exp(-s))), (
        "You put each score through a sigmoid, so that the weights of a query don't sum to 1. The keys compete: "
        "softmax over the last axis.")),
    "divided by the sum": (dict(weigh=lambda s: s / s.sum(axis=-1, keepdims=True)), (
        "You divide the scores by their sum, which gives negative weights. Softmax takes the exponential first.")),
    "hard": (dict(weigh=lambda s: _hard(s, -1)), (
        "Each of your queries takes the value of its best key alone. Attention is soft: every key gets a weight by "
        "softmax.")),
    "softmax twice": (dict(weigh=lambda s: _rows(_rows(s))), (
        "You apply softmax twice, so that the weights are nearly uniform. Once, over the keys, is enough.")),
    "causal": (dict(weigh=lambda s: _masked(s, np.tri(len(s), dtype=bool))), (
        "You hide the tokens that come later. There is no mask here: every token may attend to all tokens.")),
    "not to itself": (dict(weigh=lambda s: _masked(s, ~np.eye(len(s), dtype=bool) if len(s) > 1 else True)),
                      _NOT_TO_ITSELF),
    "not to itself, one token": (dict(weigh=lambda s: _masked(s, ~np.eye(len(s), dtype=bool))), _NOT_TO_ITSELF),
    "no scale": (dict(scale=lambda s, X, q, v: s), (
        "The scale is missing, so your weights are too sharp. Divide the scores q · k by √d_k, the root of the width "
        "of a query.")),
    "root of D": (dict(scale=_root(lambda X, q, v: X.shape[1])), _SCALE.format(
        "D", "the width of a token", "the width of a query")),
    "root of d_v": (dict(scale=_root(lambda X, q, v: v.shape[1])), _SCALE.format(
        "d_v", "the width of a value", "the width of a query")),
    "root of T": (dict(scale=_root(lambda X, q, v: len(X))), _SCALE.format(
        "T", "the number of tokens", "the width of a query")),
    "divided by d_k": (dict(scale=lambda s, X, q, v: s / q.shape[1]), (
        "You divide by d_k, so your weights are too flat: the square root is missing. The variance of q · k grows with "
        "d_k, its standard deviation with √d_k.")),
    "divided by D": (dict(scale=lambda s, X, q, v: s / X.shape[1]), (
        "You divide by D, the width of a token. The scale is 1/√d_k: the root of the width of a query.")),
    "rounded root": (dict(scale=lambda s, X, q, v: s / math.isqrt(q.shape[1])), (
        "You round √d_k to a whole number, which is right for d_k = 1 and 4 only. Use `np.sqrt`, without `int` and "
        "without `//`.")),
    "multiplied": (dict(scale=lambda s, X, q, v: s * np.sqrt(q.shape[1])), (
        "You multiply the scores by √d_k and make the weights sharper. Divide by √d_k, or multiply by d_k ** -0.5.")),
    "scaled twice": (dict(scale=lambda s, X, q, v: s / np.sqrt(q.shape[1]) / np.sqrt(X.shape[1])), (
        "You scale by √d_k and by √D as well. One scale is enough: 1/√d_k.")),
    "negative": (dict(scale=lambda s, X, q, v: -s / np.sqrt(q.shape[1])), (
        "Your best key gets the smallest weight: the scores have the wrong sign. They are q · k / √d_k.")),
    "Q and K exchanged": (dict(score=lambda q, k: k @ q.T), _EXCHANGED),
    "squared distance": (dict(score=lambda q, k: -((q[:, None] - k[None]) ** 2).sum(-1)), (
        "You score by squared distance. Here a score is the dot product of a query and a key: Q Kᵀ.")),
    "cosine": (dict(score=lambda q, k: (q / np.linalg.norm(q, axis=1, keepdims=True)) @ (
        k / np.linalg.norm(k, axis=1, keepdims=True)).T), (
        "You normalize queries and keys, so that your scores are cosines. Here a score is the plain dot product: "
        "Q Kᵀ / √d_k.")),
    "K not transposed": (dict(score=lambda q, k: q @ k), (
        "Q K multiplies features with tokens, and runs only where T equals d_k. Each query meets each key: Q Kᵀ, "
        "`q @ k.T`, of shape (T, T).")),
    "features": (dict(score=lambda q, k: q.T @ k, mix=lambda w, v: v @ w.T), (
        "Your scores compare features, Qᵀ K, and have the shape (d_k, d_k). Tokens attend to tokens: Q Kᵀ, of shape "
        "(T, T).")),
    "queries with themselves": (dict(score=lambda q, k: q @ q.T), (
        "You compare the queries with themselves, Q Qᵀ, and W_K is never used. A query meets the keys: Q Kᵀ.")),
    "keys with themselves": (dict(score=lambda q, k: k @ k.T), (
        "You compare the keys with themselves, K Kᵀ, and W_Q is never used. A query meets the keys: Q Kᵀ.")),
    "query not projected": (dict(query=_unprojected), (
        "You use X itself as the queries: W_Q is never used. What a token asks for is its projection, X W_Q.")),
    "key not projected": (dict(key=_unprojected), (
        "You use X itself as the keys: W_K is never used. What a token offers to be found by is its projection, "
        "X W_K.")),
    "query and key not projected": (dict(query=_unprojected, key=_unprojected), (
        "You compare the rows of X themselves, X Xᵀ: W_Q and W_K are never used. Compare what the tokens ask for, "
        "X W_Q, with what they are found by, X W_K.")),
    "value not projected": (dict(value=_unprojected), (
        "Your weights are right, but you average X itself: W_V is never used. What a token gives is its projection, "
        "X W_V.")),
    "nothing projected": (dict(query=_unprojected, key=_unprojected, value=_unprojected), (
        "You compare and average the rows of X, and no matrix is used. Make queries, keys and values first: X W_Q, "
        "X W_K and X W_V.")),
    "matrices from the left": (_WRONG_SIDE, _SIDE.format("W X mixes tokens instead of features")),
    "matrices transposed": (_TRANSPOSED, _SIDE.format("X Wᵀ is for matrices stored (out, in), as in nn.Linear, and "
                                                      "these are (in, out)")),
    "W_Q transposed": (dict(query=_transposed), (
        "You transpose W_Q, which raises no error where D equals d_k. It is stored (D, d_k): `X @ Wq`.")),
    "W_K transposed": (dict(key=_transposed), (
        "You transpose W_K, which raises no error where D equals d_k. It is stored (D, d_k): `X @ Wk`.")),
    "W_V transposed": (dict(value=_transposed), (
        "You transpose W_V, which raises no error where D equals d_v. It is stored (D, d_v): `X @ Wv`.")),
    "W_Q and W_K exchanged": (dict(weights_of=lambda Wq, Wk, Wv: (Wk, Wq, Wv)), _EXCHANGED),
    "W_K and W_V exchanged": (dict(weights_of=lambda Wq, Wk, Wv: (Wq, Wv, Wk)), (
        "W_K and W_V are exchanged. Keys, X W_K, are compared with the queries; values, X W_V, are averaged.")),
    "W_Q and W_V exchanged": (dict(weights_of=lambda Wq, Wk, Wv: (Wv, Wk, Wq)), (
        "W_Q and W_V are exchanged. Queries, X W_Q, are compared with the keys; values, X W_V, are averaged.")),
    "keys averaged": (dict(weights_of=lambda Wq, Wk, Wv: (Wq, Wk, Wk)), (
        "You average the keys: W_V is never used. Keys decide the weights, what is averaged are the values X W_V.")),
    "queries averaged": (dict(weights_of=lambda Wq, Wk, Wv: (Wq, Wk, Wq)), (
        "You average the queries: W_V is never used. What is averaged are the values X W_V.")),
    "one matrix": (dict(weights_of=lambda Wq, Wk, Wv: (Wq, Wq, Wq)), (
        "You use W_Q for queries, keys and values alike. Each has a matrix of its own: what a token asks for, what it "
        "is found by and what it gives may differ.")),
    "weights transposed": (dict(mix=lambda w, v: w.T @ v), (
        "Your weights are right, the output isn't: you average with the columns of the weights. Row i holds the "
        "weights of query i: `weights @ v`.")),
    "mean of the values": (dict(mix=lambda w, v: w @ v / len(v)), (
        "You divide the weighted sum by the number of tokens. The weights sum to 1 already: the sum is the average.")),
    "values not weighted": (dict(mix=lambda w, v: np.broadcast_to(v.mean(axis=0), v.shape)), (
        "Your output is the plain mean of the values, the same for every token. Weigh the values: `weights @ v`.")),
    "residual": (dict(finish=lambda out, w, X: (out + X if out.shape == X.shape else out, w)), (
        "You add X to the output where it fits. Such a residual connection belongs to a later lecture: here the output "
        "is the weighted mean of the values alone.")),
    "exchanged results": (dict(finish=lambda out, w, X: (w, out)), (
        "You return the weights first. The order is (out, weights).")),
    "output alone": (dict(finish=lambda out, w, X: out), (
        "You return the output alone. Return both, `out` and the weights: the weights are what one looks at.")),
    "one vector": (dict(finish=lambda out, w, X: (out.sum(axis=0), w)), (
        "You add up the outputs of all tokens. Every token gets a row of its own: the output is (T, d_v).")),
    "weights returned transposed": (dict(finish=lambda out, w, X: (out, w.T)), (
        "Your output is right, but you return the transpose of the weights. Row i holds the weights of query i and "
        "sums to 1.")),
}


def _scores_returned(X, Wq, Wk, Wv):
    out, _ = _self(X, Wq, Wk, Wv)
    return out, _scaled((X @ Wq) @ (X @ Wk).T, X, X @ Wq, None)


def _scaled_after(X, Wq, Wk, Wv):
    weights = _self(X, Wq, Wk, Wv, scale=lambda s, X, q, v: s)[1] / np.sqrt(Wq.shape[1])
    return weights @ (X @ Wv), weights


SELF_ATTENTION = [*variations(_self, _SELF), *(Mistake(*row) for row in [
    (_scaled_after, "You scale the weights instead of the scores, so that your rows sum to 1/√d_k. Scale before the "
     "softmax.", "scaled after the softmax"),
    (_scores_returned, "Your output is right, but what you return with it are the scores. Return the weights: the "
     "softmax of the scores, with rows that sum to 1.", "scores returned"),
])]
# Without two whose mistakes undo each other.
SELF_ATTENTION_PAIRS = [m for m in pairs(_self, _SELF) if m.name != "Q and K exchanged + W_Q and W_K exchanged"]
