"""Wrong answers to lecture 4's exercise additive_attention, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import torch

from course_utils.exercises.engine import Mistake, pairs, variations


def _sum(query, keys, W1, W2):
    return (query @ W1.T)[:, None] + keys @ W2.T


def _fill(scores, mask, value=-torch.inf):
    return torch.softmax(scores.masked_fill(~mask, value), dim=-1)


def _weighted(weights, keys, query, W2):
    return (weights[..., None] * keys).sum(1)


def _additive(query, keys, W1, W2, v, mask, *, parts=lambda query, W1, W2: (query, W1, W2), hidden=_sum, act=torch.tanh,
              score=lambda h, v: h @ v, weigh=_fill, mix=_weighted, finish=lambda context, weights: (context, weights)):
    """hidden: from query and keys to (B, S, d_a); weigh: from scores and mask to weights (B, S)."""
    asking, W1, W2 = parts(query, W1, W2)
    scores = score(act(hidden(asking, keys, W1, W2)), v)
    weights = weigh(scores, mask)
    return finish(mix(weights, keys, query, W2), weights)


def _same(z):
    return z


def _feature_softmax(z):
    return torch.softmax(z, dim=-1)


def _over_batch(fill):
    return lambda scores, mask: torch.softmax(scores.masked_fill(~mask, fill), dim=0)


def _singleton(fill):
    return lambda scores, mask: torch.softmax(scores[..., None].masked_fill(~mask[..., None], fill), dim=-1)[..., 0]


def _of_everything(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -torch.inf).flatten(), dim=0).view_as(scores)


def _uniform(scores, mask):
    return mask / mask.sum(1, keepdim=True)


def _best(weights, keys, query, W2):
    return keys[torch.arange(len(keys)), weights.argmax(1)]


_BATCH = ("Your columns sum to 1, not your rows: the softmax runs over the batch. Each query spreads a weight of 1 "
          "over its S keys: `dim=-1`.")
_POLARITY = ("All your weight sits on the padding, or is NaN where there is none. mask is True for real tokens: fill "
             "the scores with -inf where `~mask`.")
_SMALL = ("You fill masked scores with a number that is not small enough: where the real scores are lower, the padding "
          "gets the weight. Only -inf, or something like -1e9, is below all scores.")
_ZERO = ("You set masked scores to 0 (or -1e-9, nearly 0), but a score of 0 is not a weight of 0: exp(0) = 1, a lot "
         "where real scores are negative. Masked scores must become -inf, or something like -1e9, before the softmax.")
_ONES = ("You normalize over an axis of length 1, so every weight is exactly 1. Bring the scores to (B, S) first, by "
         "`squeeze(-1)`, and take the softmax over the keys.")
_TANH = "tanh belongs inside, before v: v · tanh(W1 query + W2 key). {}"
_UNIFORM = ("Change the keys or the query, and your weights don't move: all real keys get the same. Each score must "
            "compare the query with its own key.")
_CANCELS = ("Change the query, and your weights stay the same: it is missing in the score, or added outside of tanh, "
            "where it cancels in the softmax. The sum is inside: v · tanh(W1 query + W2 key).")
_BROADCAST = ("Your query needs an axis for the keys: (B, d_a) and (B, S, d_a) don't fit, and where B equals S each "
              "key meets the query of another row. `unsqueeze(1)` makes it (B, 1, d_a).")
_SCORES = ("Your context is right, but what you return with it are the scores. Return the weights: the softmax of the "
           "masked scores.")
_ADDITIVE = {
    "softmax over the batch": (dict(weigh=_over_batch(-torch.inf)), _BATCH),
    "softmax over the batch, finite": (dict(weigh=_over_batch(-1e9)), _BATCH),
    "softmax over the batch, no mask": (dict(weigh=lambda s, mask: torch.softmax(s, 0)), _BATCH),
    "softmax over the batch, then the mask": (dict(weigh=lambda s, mask: torch.softmax(s, 0) * mask), _BATCH),
    "softmax over the batch, NaN to 0": (dict(weigh=lambda s, mask: _over_batch(-torch.inf)(
        s, mask).nan_to_num()), _BATCH),
    "softmax of everything": (dict(weigh=_of_everything), (
        "All weights of the batch together sum to 1. Each row is a softmax of its own, over its S keys: `dim=-1`.")),
    "softmax over one": (dict(weigh=lambda s, mask: _singleton(-1e30)(s, mask) * mask), _ONES),
    "softmax over one, no mask": (dict(weigh=lambda s, mask: torch.ones_like(s)), _ONES),
    "softmax over one, -inf": (dict(weigh=_singleton(-torch.inf)), _ONES),
    "no mask": (dict(weigh=lambda s, mask: torch.softmax(s, -1)), (
        "Your weights on padding are not 0, so the result of a sentence depends on how far its batch was padded. Set "
        "those scores to -inf before the softmax.")),
    "mask inverted": (dict(weigh=lambda s, mask: _fill(s, ~mask)), _POLARITY),
    "mask inverted, finite": (dict(weigh=lambda s, mask: _fill(s, ~mask, -1e9)), _POLARITY),
    "mask inverted, NaN to 0": (dict(weigh=lambda s, mask: _fill(s, ~mask).nan_to_num()), _POLARITY),
    "mask inverted, after the softmax": (dict(weigh=lambda s, mask: torch.softmax(s, -1) * ~mask), (
        "You keep the weights of the padding and drop those of the real tokens: mask is True for real tokens. And mask "
        "the scores, with -inf where `~mask`, before the softmax.")),
    "scores times mask": (dict(weigh=lambda s, mask: torch.softmax(s * mask, -1)), _ZERO),
    "mask added": (dict(weigh=lambda s, mask: torch.softmax(s + mask.to(s), -1)), (
        "You add the mask to the scores: real tokens get 1 more, which is not enough to silence the padding. Masked "
        "scores must become -inf before the softmax.")),
    "mask times -inf": (dict(weigh=lambda s, mask: torch.softmax(s + ~mask * -torch.inf, -1)), (
        "All your weights are NaN: 0 · inf is NaN, so a mask can't be multiplied by -inf. Fill the scores instead: "
        "`masked_fill(~mask, -torch.inf)`.")),
    "mask of row 0": (dict(weigh=lambda s, mask: _fill(s, mask[:1])), (
        "You use the mask of row 0 for the whole batch. Each sentence has its own padding: `mask` has the shape of the "
        "scores, (B, S).")),
    "mask by lengths": (dict(weigh=lambda s, mask: _fill(s, torch.arange(s.shape[1]) < mask.sum(1, keepdim=True))), (
        "You count the real tokens of a row and keep that many from the start. A mask may be False anywhere: use it as "
        "it is, `masked_fill(~mask, ...)`.")),
    "filled with 1e9": (dict(weigh=lambda s, mask: _fill(s, mask, 1e9)), (
        "You fill masked scores with a large positive number, which gives all weight to the padding. They must become "
        "-inf before the softmax.")),
    "filled with -1": (dict(weigh=lambda s, mask: _fill(s, mask, -1)), _SMALL),
    "filled with -10": (dict(weigh=lambda s, mask: _fill(s, mask, -10)), _SMALL),
    "mask after softmax": (dict(weigh=lambda s, mask: torch.softmax(s, -1) * mask), (
        "Where there is padding, your rows sum to less than 1: you mask after the softmax. Mask the scores before it, "
        "with -inf, or divide by the row's sum afterwards.")),
    "no softmax": (dict(weigh=lambda s, mask: s * mask), (
        "Your weights are the scores themselves, which may be negative. The softmax over the keys makes them positive, "
        "with sum 1.")),
    "exponentials": (dict(weigh=lambda s, mask: torch.exp(s) * mask), (
        "Your weights are exponentials that don't sum to 1. Divide each row by its sum: that is the softmax over the "
        "keys.")),
    "divided by the sum": (dict(weigh=lambda s, mask: s * mask / (s * mask).sum(1, keepdim=True)), (
        "You divide the scores by their sum, which gives negative weights. Softmax takes the exponential first.")),
    "sigmoid": (dict(weigh=lambda s, mask: torch.sigmoid(s) * mask), (
        "You put each score through a sigmoid, so that the weights of a row don't sum to 1. The keys compete: softmax "
        "over S.")),
    "log-softmax": (dict(weigh=lambda s, mask: torch.log_softmax(s.masked_fill(~mask, -torch.inf), -1)), (
        "Your weights are logarithms. Use softmax, not log_softmax: the weights are positive and sum to 1.")),
    "softmax twice": (dict(weigh=lambda s, mask: _fill(_fill(s, mask), mask)), (
        "You apply softmax twice, so that the weights are nearly uniform. Once, over the keys, is enough.")),
    "negative scores": (dict(weigh=lambda s, mask: _fill(-s, mask)), (
        "Your best key gets the smallest weight: the scores have the wrong sign. They are v · tanh(W1 query + W2 key), "
        "without a minus.")),
    "hard": (dict(weigh=lambda s, mask: torch.nn.functional.one_hot(
        s.masked_fill(~mask, -torch.inf).argmax(1), s.shape[1]).to(s)), (
        "Each of your queries takes its best key alone. Attention is soft: every real key gets a weight by softmax.")),
    "uniform": (dict(weigh=_uniform), _UNIFORM),
    "uniform, padding too": (dict(weigh=lambda s, mask: torch.full_like(s, 1 / s.shape[1])), _UNIFORM),
    "relu": (dict(act=torch.relu), (
        "You use relu where the formula has tanh. With tanh each hidden unit stays between -1 and 1, so that no score "
        "is larger than the sum of |v|.")),
    "sigmoid for tanh": (dict(act=torch.sigmoid), (
        "You use a sigmoid where the formula has tanh. tanh goes from -1 to 1 and is steeper.")),
    "no tanh": (dict(act=_same), (
        "Change the query, and your weights stay the same: without tanh it adds the same number to every score, which "
        "cancels in the softmax. The score is v · tanh(W1 query + W2 key).")),
    "tanh after v": (dict(act=_same, score=lambda h, v: torch.tanh(h @ v)), _TANH.format(
        "Your scores are squeezed into (-1, 1), so that the weights are almost uniform.")),
    "tanh twice": (dict(score=lambda h, v: torch.tanh(h @ v)), _TANH.format(
        "Yours is there once more after v, which squeezes the scores into (-1, 1).")),
    "softmax for tanh": (dict(act=_feature_softmax), (
        "You take a softmax over the hidden units, where the formula has tanh. Softmax comes once, last, over the "
        "keys.")),
    "tanh of each part": (dict(act=_same, hidden=lambda q, k, W1, W2: torch.tanh(q @ W1.T)[:, None] + torch.tanh(
        k @ W2.T)), _CANCELS),
    "tanh of the key alone": (dict(act=_same, hidden=lambda q, k, W1, W2: (q @ W1.T)[:, None] + torch.tanh(
        k @ W2.T)), _CANCELS),
    "sum without v": (dict(score=lambda h, v: h.sum(-1)), (
        "You add up the hidden units, and v is never used. v weighs them: the score is `hidden @ v`.")),
    "mean without v": (dict(score=lambda h, v: h.mean(-1)), (
        "You average the hidden units, and v is never used. v weighs them: the score is `hidden @ v`.")),
    "scaled": (dict(score=lambda h, v: h @ v / len(v)**0.5), (
        "You divide the scores by the root of a width. That scale belongs to dot products: the additive score has "
        "none.")),
    "product": (dict(hidden=lambda q, k, W1, W2: (q @ W1.T)[:, None] * (k @ W2.T)), (
        "You multiply the two projections. In an additive score they are added, before tanh.")),
    "difference": (dict(hidden=lambda q, k, W1, W2: (q @ W1.T)[:, None] - k @ W2.T), (
        "You subtract one projection from the other. They are added: tanh(W1 query + W2 key).")),
    "matrices exchanged": (dict(hidden=lambda q, k, W1, W2: (q @ W2.T)[:, None] + k @ W1.T), (
        "W1 and W2 are exchanged, which raises no error, as they have the same shape. W1 belongs to the query, W2 to "
        "the keys.")),
    "W1 for both": (dict(hidden=lambda q, k, W1, W2: (q @ W1.T)[:, None] + k @ W1.T), (
        "You use W1 for the keys as well, and W2 never. Query and keys come from different networks: each has a matrix "
        "of its own.")),
    "W2 for both": (dict(hidden=lambda q, k, W1, W2: (q @ W2.T)[:, None] + k @ W2.T), (
        "You use W2 for the query as well, and W1 never. Query and keys come from different networks: each has a "
        "matrix of its own.")),
    "W1 transposed": (dict(hidden=lambda q, k, W1, W2: (q @ W1)[:, None] + k @ W2.T), (
        "You multiply the query by W1 instead of its transpose. W1 is stored (d_a, d), as for a column vector: for "
        "rows it is `query @ W1.T`.")),
    "W2 transposed": (dict(hidden=lambda q, k, W1, W2: (q @ W1.T)[:, None] + k @ W2), (
        "You multiply the keys by W2 instead of its transpose. W2 is stored (d_a, d), as for a column vector: for rows "
        "it is `keys @ W2.T`.")),
    "both transposed": (dict(hidden=lambda q, k, W1, W2: (q @ W1)[:, None] + k @ W2), (
        "You multiply by W1 and W2 instead of their transposes. They are stored (d_a, d), as for column vectors: for "
        "rows it is `x @ W.T`.")),
    "no axis for the keys": (dict(hidden=lambda q, k, W1, W2: q @ W1.T + k @ W2.T), _BROADCAST),
    "queries repeated in turn": (dict(hidden=lambda q, k, W1, W2: (q @ W1.T).repeat(k.shape[1], 1).view(
        *k.shape[:2], -1) + k @ W2.T), (
        "Keys meet queries of other rows: `repeat` goes through the whole batch before it starts again. No copies are "
        "needed: `unsqueeze(1)` makes the query (B, 1, d_a), which broadcasts over the keys.")),
    "query ignored": (dict(hidden=lambda q, k, W1, W2: k @ W2.T), _CANCELS),
    "keys ignored": (dict(hidden=lambda q, k, W1, W2: (q @ W1.T)[:, None].expand(-1, k.shape[1], -1)), _UNIFORM),
    "query of row 0": (dict(parts=lambda q, W1, W2: (q[:1].expand_as(q), W1, W2)), (
        "All rows of the batch ask with the query of row 0. Each sentence has its own query: W1 query is (B, d_a).")),
    "context over the features": (dict(mix=lambda w, keys, q, W2: (w[..., None] * keys).sum(-1)), (
        "Your context has S entries: you sum over the features. Sum over the keys, axis 1, and keep the d features.")),
    "context not summed": (dict(mix=lambda w, keys, q, W2: w[..., None] * keys), (
        "You return a weighted vector for each key. The context is their sum over the keys, axis 1: (B, d).")),
    "mean of weighted keys": (dict(mix=lambda w, keys, q, W2: (w[..., None] * keys).mean(1)), (
        "You average the weighted keys, which divides by S once too often. The weights sum to 1, so their sum is the "
        "average.")),
    "keys not weighted": (dict(mix=lambda w, keys, q, W2: keys.mean(1)), (
        "Your weights are right, but the context is the plain mean of the keys. Multiply each key by its weight, then "
        "sum over the keys.")),
    "sum of the keys": (dict(mix=lambda w, keys, q, W2: keys.sum(1)), (
        "Your weights are right, but the context is the plain sum of the keys. Multiply each key by its weight, then "
        "sum over the keys.")),
    "best key": (dict(mix=_best), (
        "Your context is the key with the largest weight. It is the sum of all keys, each times its weight.")),
    "projected keys averaged": (dict(mix=lambda w, keys, q, W2: (w[..., None] * (keys @ W2.T)).sum(1)), (
        "You average W2 key, the keys as the score wants them. The context is the weighted sum of the keys "
        "themselves: (B, d).")),
    "query weighted": (dict(mix=lambda w, keys, q, W2: w.sum(1, keepdim=True) * q), (
        "Your context is the query again: you weigh it instead of the keys. Sum the keys, each times its weight.")),
    "query added": (dict(mix=lambda w, keys, q, W2: _weighted(w, keys, q, W2) + q), (
        "You add the query to the context. The decoder reads both later: the context is the weighted sum of the keys "
        "alone.")),
    "context of row 0": (dict(mix=lambda w, keys, q, W2: (w[..., None] * keys[:1]).sum(1)), (
        "All rows average the keys of row 0. Each row of the batch has its own weights and its own keys.")),
    "exchanged results": (dict(finish=lambda context, weights: (weights, context)), (
        "You return the weights first. The order is (context, weights).")),
    "context alone": (dict(finish=lambda context, weights: context), (
        "You return the context alone. Return both, context and weights: the weights are what one looks at.")),
}


def _relu_weights(query, keys, W1, W2, v, mask):
    return _additive(query, keys, W1, W2, v, mask, act=_feature_softmax, weigh=lambda s, mask: torch.relu(s) * mask)


def _dot(query, keys, W1, W2, v, mask):
    return _additive(query, keys, W1, W2, v, mask, score=lambda h, v: (keys @ query[..., None])[..., 0])


def _projected_dot(query, keys, W1, W2, v, mask):
    return _additive(query, keys, W1, W2, v, mask,
                     score=lambda h, v: ((query @ W1.T)[:, None] * (keys @ W2.T)).sum(-1))


def _returning_scores(query, keys, W1, W2, v, mask):
    return _additive(query, keys, W1, W2, v, mask)[0], torch.tanh(_sum(query, keys, W1, W2)) @ v


def _returning_masked_scores(query, keys, W1, W2, v, mask):
    context, scores = _returning_scores(query, keys, W1, W2, v, mask)
    return context, scores.masked_fill(~mask, -torch.inf)


def _masked_keys(query, keys, W1, W2, v, mask):
    return _additive(query, keys * mask[..., None], W1, W2, v, mask, weigh=lambda s, mask: torch.softmax(s, -1))


ADDITIVE_ATTENTION = [*variations(_additive, _ADDITIVE), *(Mistake(*row) for row in [
    (_relu_weights, "Your weights are no distribution over the keys: they are cut off at 0 and don't sum to 1, and a "
     "softmax runs over the hidden units. Use tanh inside the score, and the softmax last, over the keys.",
     "softmax over the features, relu"),
    (_dot, "You score by the dot product of query and key, and W1, W2 and v are never used. The additive score is "
     "v · tanh(W1 query + W2 key).", "dot product"),
    (_projected_dot, "You take the dot product of the two projections. In an additive score they are added, go through "
     "tanh and are weighed by v.", "dot product of the projections"),
    (_returning_scores, _SCORES, "scores returned"),
    (_returning_masked_scores, _SCORES, "masked scores returned"),
    (_masked_keys, "You set the padded keys to 0, but they still get a score and a weight. Mask the scores, with -inf, "
     "before the softmax.", "keys masked"),
])]
# To be fast: without gradients, one of each kind (no comma in its name), none that is rarely made with a second one.
_ALONE = ("mask of row 0", "mask by lengths", "filled with 1e9", "filled with -1", "log-softmax", "hard", "uniform",
          "softmax for tanh", "mean without v", "product", "difference", "queries repeated in turn", "query of row 0",
          "best key", "query weighted", "query added", "context of row 0", "sum of the keys")
ADDITIVE_ATTENTION_PAIRS = pairs(torch.no_grad()(_additive), {
    name: entry for name, entry in _ADDITIVE.items() if name not in _ALONE and "," not in name})
