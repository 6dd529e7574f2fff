"""Wrong answers to exercise 5.2, scaled dot-product attention, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import math

import torch
import torch.nn.functional as F

from course_utils.exercises.engine import Mistake, pairs, variations


def _softmax(scores):
    return torch.softmax(scores, -1)


def _fill(value):
    """Write `value` where the mask is False."""
    return lambda x, mask: x.masked_fill(~mask, value)


_minus_infinity, _hidden_zero = _fill(-torch.inf), _fill(0)


def _empty_rows_zero(weights, mask):
    return weights.masked_fill(~mask.any(-1, keepdim=True), 0)


def _as_they_are(x, mask):
    return x


def _allowed_filled(scores, mask):
    return scores.masked_fill(mask, -torch.inf)


def _index_filled(scores, mask):
    scores[~mask] = -torch.inf
    return scores


def _attend(q, k, v, mask, *, product=lambda q, k: q @ k.mT, scale=lambda q, k, v: q.shape[-1]**-0.5,
            read=lambda mask: mask, hide=_minus_infinity, normalize=_softmax, empty=_empty_rows_zero,
            weigh=lambda weights, q: weights, average=lambda weights, q, k, v: weights @ v,
            give=lambda output, weights, scores: (output, weights)):
    """`read` is how the mask is understood; if there is one, `hide` works on the scores and `empty` on the weights."""
    scores = product(q, k) * scale(q, k, v)
    if mask is not None:
        mask = read(mask)
        scores = hide(scores, mask)
    weights = normalize(scores)
    if mask is not None:
        weights = empty(weights, mask)
    weights = weigh(weights, q)
    return give(average(weights, q, k, v), weights, scores)


def _over_all_pairs(scores):
    return torch.softmax(scores.flatten(-2), -1).view_as(scores)


def _by_sum(values):
    return values / values.sum(-1, keepdim=True)


def _by_sum_or_zero(values):
    return _by_sum(values).nan_to_num()


def _without_dim(scores):
    """What F.softmax chooses if no `dim` is given."""
    return torch.softmax(scores, 0 if scores.dim() == 3 else 1)


def _columns(q, k):
    """The product with k cut anew where it should be transposed."""
    return q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])


def _first_only(mask):
    return mask[:1] if mask.dim() > 2 else mask


_ROOT = "The variance of q · k is d_k, so its standard deviation is √d_k: divide by the root, `math.sqrt(q.shape[-1])`."
_WIDTH = ("You scale by {}. What counts is how many products a score sums up: the width of a query and a key, "
          "`q.shape[-1]`.")
_OVER = ("Your softmax runs over {}. Each query distributes a weight of 1 over the keys, the last axis: `dim=-1`.")
_VISIBLE = ("Your hidden keys get a score of about 0, which is a score like any other, so they keep a weight. Hide a "
            "key with -inf (-1e-9 is almost 0, minus a billion is -1e9).")
_NOT_FAR = ("You hide keys with a number that isn't low enough, such as -1, -100 or -10000: in one case the allowed "
            "scores are lower, and the hidden key wins. -inf is below every score.")
_IGNORED = ("Your result is the same with and without a mask. Where the mask is False, the score must become -inf "
            "before the softmax.")
_AFTER = ("You hide keys after the softmax, which has given them weight already, so rows with hidden keys sum to less "
          "than 1. Hide the scores, with -inf, before the softmax.")
_ADDED = ("You add the boolean mask, so allowed keys gain a score of 1 and hidden ones stay visible. A boolean mask "
          "selects, `scores.masked_fill(~mask, -torch.inf)`; only masks of 0 and -inf are added.")
_POLARITY = ("You hide what should be visible: True = may attend, here as in F.scaled_dot_product_attention "
             "(nn.MultiheadAttention has it the other way round). Fill where the mask is False, `~mask`.")
_NAN = ("A query that may attend to nothing has a row of -inf, whose softmax is 0 / 0 = NaN, and NaN spreads to the "
        "loss. Set the weights to 0 where the mask is False, before you average the values.")
_EVEN = ("A query that may attend to nothing attends to {} in yours: that is what a large finite number such as -1e9 "
         "does (which also overflows in float16). Use -inf, and set the weights to 0 where the mask is False.")
_RENORMALIZED = ("You hide keys after the softmax and divide by the new sum, {}. Hide the scores, with -inf, before "
                 "the softmax.")
_OVERFLOW = ("e to the power of 800 overflows, and that of -30000 is rounded to 0: inf / inf and 0 / 0 are NaN. "
             "Subtract the largest score of the row first, as `torch.softmax` does.")
_TRANSPOSED = ("Your product puts q against {}. Swap the last two axes of k, and only those: `k.mT` or "
               "`k.transpose(-2, -1)`, so that each score is the dot product of one query with one key.")
_INDEX = ("`scores[~mask] = …` wants a mask in the shape of the scores, and doesn't broadcast. `masked_fill` and "
          "`torch.where` do, so that one mask serves all sentences and heads.")
_CHANGES = {
    "no scale": (dict(scale=lambda q, k, v: 1.0), (
        "Your scores are too large by √d_k, so your weights are too sharp: the scale is missing. " + _ROOT)),
    "divided by d_k": (dict(scale=lambda q, k, v: 1 / q.shape[-1]), (
        "Your scores are divided by d_k: the root is missing, or you scale twice (F.scaled_dot_product_attention "
        "scales by itself). " + _ROOT)),
    "multiplied by the root": (dict(scale=lambda q, k, v: q.shape[-1]**0.5), (
        "You multiply the scores by √d_k, which makes them larger still (dividing by `d_k ** -0.5` does that, too). "
        "Divide by `d_k ** 0.5`, or multiply by `d_k ** -0.5`.")),
    "multiplied by d_k": (dict(scale=lambda q, k, v: q.shape[-1]), (
        "You multiply the scores by d_k, which makes them larger still. " + _ROOT)),
    "root of the root": (dict(scale=lambda q, k, v: q.shape[-1]**-0.25), (
        "You divide by the root of √d_k, d_k^(1/4). If you scale q and k each by that it is right, but one of them is "
        "not enough.")),
    "rounded root": (dict(scale=lambda q, k, v: 1 / math.isqrt(q.shape[-1])), (
        "You round √d_k to a whole number, which is right for d_k = 4 and 64 only. Use `math.sqrt`, without `int` and "
        "without `//`.")),
    "root of d_v": (dict(scale=lambda q, k, v: v.shape[-1]**-0.5), _WIDTH.format("the width of a value, d_v")),
    "root of T": (dict(scale=lambda q, k, v: q.shape[-2]**-0.5), _WIDTH.format("the number of queries, T")),
    "root of S": (dict(scale=lambda q, k, v: k.shape[-2]**-0.5), _WIDTH.format("the number of keys, S")),
    "root of B": (dict(scale=lambda q, k, v: len(q)**-0.5), _WIDTH.format("the number of rows of the batch, `len(q)`")),
    "root of axis 1": (dict(scale=lambda q, k, v: q.shape[1]**-0.5), (
        "You scale by the size of axis 1, which is the number of queries, or of heads if there are some. Count the "
        "axes from the end: d_k is `q.shape[-1]`.")),
    "root of axis 2": (dict(scale=lambda q, k, v: q.shape[2]**-0.5), (
        "You scale by the size of axis 2, which is no longer d_k once there is an axis of heads. Count the axes from "
        "the end: `q.shape[-1]`.")),
    "root of d_model": (dict(scale=lambda q, k, v: math.prod(q.shape[1:-2] + q.shape[-1:])**-0.5), _WIDTH.format(
        "the width of all heads together")),
    "scale 0": (dict(scale=lambda q, k, v: 0.0), (
        "Your weights are uniform whatever q and k are: the scores are multiplied by 0. Is a scale that was not given "
        "taken as 0, or is `1 // 2` in an exponent?")),
    "k cut anew": (dict(product=_columns), (
        "You bring k to (…, d_k, S) by `reshape` or `view`, which mixes the entries of different keys. Axes are "
        "swapped by `k.mT` or `k.transpose(-2, -1)`.")),
    "k not transposed": (dict(product=lambda q, k: q @ k), _TRANSPOSED.format(
        "the columns of k, one entry of each key (that runs only if S = d_k)")),
    "axes 1 and 2 of k": (dict(product=lambda q, k: q @ k.transpose(1, 2)), (
        "`k.transpose(1, 2)` swaps the axes of keys and entries only as long as there are no heads. Count from the "
        "end: `k.transpose(-2, -1)`, or `k.mT`.")),
    "three axes only": (dict(product=lambda q, k: torch.bmm(q, k.mT)), (
        "`torch.bmm` wants exactly three axes and stops where there are heads. `@` (or `torch.matmul`) multiplies the "
        "last two axes, whatever stands in front.")),
    "all axes of k": (dict(product=lambda q, k: q @ k.permute(*range(k.dim() - 1, -1, -1))), (
        "`k.T` reverses all axes, those of the batch and the heads as well. Only the last two are to be swapped: "
        "`k.mT` or `k.transpose(-2, -1)`.")),
    "q and k exchanged": (dict(product=lambda q, k: k @ q.mT), (
        "Your scores are (…, S, T): keys in the rows. Rows belong to queries, so q stands on the left: q times the "
        "transpose of k.")),
    "negative scores": (dict(product=lambda q, k: -q @ k.mT), (
        "Your scores have the opposite sign, so the least similar key gets the largest weight. A large dot product "
        "stands for a good match.")),
    "cosine": (dict(product=lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT), (
        "You divide queries and keys by their lengths: that is the cosine. Here the dot product is taken as it is, and "
        "only divided by √d_k.")),
    "inverted mask": (dict(read=lambda mask: ~mask), _POLARITY),
    "allowed keys hidden": (dict(hide=_allowed_filled, empty=_as_they_are), _POLARITY),
    "allowed keys hidden, empty rows zero": (dict(hide=_allowed_filled), _POLARITY),
    "allowed keys hidden, hidden ones zero": (dict(hide=_allowed_filled, empty=_hidden_zero), _POLARITY),
    "transposed mask": (dict(read=lambda mask: mask.mT), (
        "Your mask is transposed: it blanks queries, and hidden keys stay visible. Rows are queries and columns are "
        "keys, so a padded token is hidden as a key, a column.")),
    "mask of the first row": (dict(read=_first_only), (
        "You use the mask of the first sentence for the whole batch. Each sentence has its own: the mask broadcasts to "
        "the scores as it is.")),
    "mask ignored": (dict(hide=_as_they_are, empty=_as_they_are), _IGNORED),
    "mask ignored, empty rows zero": (dict(hide=_as_they_are), (
        "Your mask empties the rows in which nothing is allowed, and hides no single key elsewhere. Where it is False, "
        "the score must become -inf before the softmax.")),
    "mask with one more axis": (dict(read=lambda mask: mask.unsqueeze(1)), (
        "You give the mask one more axis, and then it doesn't fit. It comes ready to broadcast to (…, T, S): use it as "
        "it is.")),
    "mask after the softmax": (dict(hide=_as_they_are, empty=lambda weights, mask: weights * mask), _AFTER),
    "renormalized": (dict(hide=_as_they_are, empty=lambda weights, mask: _by_sum(weights * mask)), _RENORMALIZED.format(
        "which is 0 if nothing is allowed, or if a hidden score is so high that all others are rounded to 0")),
    "renormalized, empty rows zero": (dict(hide=_as_they_are, empty=lambda weights, mask: _empty_rows_zero(
        _by_sum(weights * mask), mask)), _RENORMALIZED.format(
            "which is 0 where a hidden score is so high that all others are rounded to 0, and 0 / 0 is NaN")),
    "renormalized, NaN to zero": (dict(hide=_as_they_are, empty=lambda weights, mask: torch.nan_to_num(
        _by_sum(weights * mask))), _RENORMALIZED.format(
            "which is 0 where a hidden score is so high that all others are rounded to 0: their weights are lost")),
    "mask added": (dict(hide=lambda scores, mask: scores + mask, empty=_as_they_are), _ADDED),
    "mask added, empty rows zero": (dict(hide=lambda scores, mask: scores + mask), _ADDED),
    "mask added times -1e9": (dict(hide=lambda scores, mask: scores - 1e9 * mask, empty=_as_they_are), _POLARITY),
    "zero fill": (dict(hide=_fill(0), empty=_as_they_are), _VISIBLE),
    "zero fill, empty rows zero": (dict(hide=_fill(0)), _VISIBLE),
    "fill -1": (dict(hide=_fill(-1), empty=_as_they_are), _NOT_FAR),
    "fill -10": (dict(hide=_fill(-10), empty=_as_they_are), _NOT_FAR),
    "fill -10, empty rows zero": (dict(hide=_fill(-10)), _NOT_FAR),
    "fill -1e4": (dict(hide=_fill(-1e4), empty=_as_they_are), _NOT_FAR),
    "-1e4 added": (dict(hide=lambda scores, mask: scores - 1e4 * ~mask, empty=_as_they_are), _NOT_FAR),
    "fill -1e4, empty rows zero": (dict(hide=_fill(-1e4)), _NOT_FAR),
    "fill -1e4, hidden keys zero": (dict(hide=_fill(-1e4), empty=_hidden_zero), _NOT_FAR),
    "fill inf": (dict(hide=_fill(torch.inf)), (
        "You hide with +inf, the best score there is, and inf - inf is NaN. A hidden key gets the lowest, -inf.")),
    "filled by index": (dict(hide=_index_filled), _INDEX),
    "filled by index, NaN rows": (dict(hide=_index_filled, empty=_as_they_are), _INDEX),
    "NaN rows": (dict(empty=_as_they_are), _NAN),
    "even rows": (dict(hide=_fill(-1e9), empty=_as_they_are), _EVEN.format("all keys alike")),
    "-1e9 added": (dict(hide=lambda scores, mask: scores - 1e9 * ~mask, empty=_as_they_are), _EVEN.format(
        "all keys, as if there were no mask,")),
    "rows with a hidden key": (dict(empty=lambda weights, mask: weights.masked_fill(
        ~mask.all(-1, keepdim=True), 0)), (
        "You set the weights of every query to 0 that has a hidden key somewhere. Only a query without any allowed key "
        "gets zeros: `mask.any(dim=-1, keepdim=True)` tells which have one.")),
    "over the queries": (dict(normalize=lambda scores: torch.softmax(scores, -2)), _OVER.format(
        "the queries, so your columns sum to 1")),
    "over the queries, hidden keys zero": (dict(
        normalize=lambda scores: torch.softmax(scores, -2), empty=_hidden_zero), _OVER.format(
            "the queries, so your columns sum to 1")),
    "over axis 2": (dict(normalize=lambda scores: torch.softmax(scores, 2)), (
        "Your softmax runs over axis 2: those are the keys without heads, and the queries with them. Count from the "
        "end: `dim=-1`.")),
    "over axis 1": (dict(normalize=lambda scores: torch.softmax(scores, 1)), _OVER.format(
        "axis 1: the queries, or the heads if there are some")),
    "over axis 1, hidden keys zero": (dict(
        normalize=lambda scores: torch.softmax(scores, 1), empty=_hidden_zero), _OVER.format(
            "axis 1: the queries, or the heads if there are some")),
    "over the batch": (dict(normalize=lambda scores: torch.softmax(scores, 0)), _OVER.format("the batch, axis 0")),
    "no dim": (dict(normalize=_without_dim), (
        "Your softmax has no `dim`, and torch then guesses: the batch, or the heads. Each query distributes a weight "
        "of 1 over the keys: `dim=-1`.")),
    "over all pairs": (dict(normalize=_over_all_pairs), _OVER.format(
        "all pairs of a query and a key, so a whole table sums to 1")),
    "no softmax": (dict(normalize=lambda scores: scores), (
        "You average with raw scores: they can be negative and don't sum to 1. A softmax over the keys makes weights "
        "of them.")),
    "sigmoid": (dict(normalize=torch.sigmoid), (
        "A sigmoid looks at each score alone, so the weights of a query don't sum to 1. A softmax over the keys lets "
        "them compete.")),
    "scores by their sum": (dict(normalize=_by_sum), (
        "You divide scores by their sum, which can be negative or near 0. A softmax takes e to the power of each score "
        "first: that is positive.")),
    "no sum": (dict(normalize=torch.exp), (
        "You take e to the power of the scores, but don't divide by the sum over the keys. The weights of a query sum "
        "to 1.")),
    "exp overflows": (dict(normalize=lambda scores: _by_sum(torch.exp(scores))), _OVERFLOW),
    "exp overflows, NaN to 0": (dict(normalize=lambda scores: _by_sum_or_zero(torch.exp(scores))), _OVERFLOW),
    "softmax twice": (dict(normalize=lambda scores: _softmax(_softmax(scores))), (
        "You apply softmax twice, which flattens the weights and gives hidden keys a share again. Once is enough.")),
    "log softmax": (dict(normalize=lambda scores: torch.log_softmax(scores, -1)), (
        "Your weights are logarithms, from `log_softmax`. A weighted mean needs the probabilities: `softmax`.")),
    "scale after the softmax": (dict(scale=lambda q, k, v: 1.0, weigh=lambda weights, q: weights * q.shape[-1]**-0.5), (
        "You divide the weights by √d_k, so each row sums to 1/√d_k. Scale the scores, before the softmax.")),
    "scaled again after the softmax": (dict(weigh=lambda weights, q: weights * q.shape[-1]**-0.5), (
        "You divide by √d_k twice, before and after the softmax, so each row sums to 1/√d_k. Scale the scores, and "
        "leave the weights as they are.")),
    "mean of the keys": (dict(average=lambda weights, q, k, v: weights @ k), (
        "Your weights are right, but you average the keys with them. Keys say where to look; what is handed on are the "
        "values, v.")),
    "mean of the queries": (dict(average=lambda weights, q, k, v: weights @ q), (
        "Your weights are right, but you average the queries with them. What is handed on are the values, v.")),
    "transposed weights": (dict(average=lambda weights, q, k, v: weights.mT @ v), (
        "You average with the transposed weights, so each output mixes by what others give to it. Row t of the weights "
        "belongs to query t: `weights @ v`.")),
    "exchanged": (dict(give=lambda output, weights, scores: (weights, output)), (
        "You return the weights first. The output comes first, then the weights.")),
    "scores returned": (dict(give=lambda output, weights, scores: (output, scores)), (
        "Your output is right, but you return the scores with it. The weights are wanted: what the softmax makes of "
        "them.")),
}


def _own_causal_mask(q, k, v, mask):
    return _attend(q, k, v, torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril())


def _zeroed_too_late(q, k, v, mask):
    return _attend(q, k, v, mask, empty=_as_they_are)[0], _attend(q, k, v, mask)[1]


def _zeroed_in_the_output(q, k, v, mask):
    return _attend(q, k, v, mask)[0], _attend(q, k, v, mask, empty=_as_they_are)[1]


def _weights_without_mask(q, k, v, mask):
    return _attend(q, k, v, mask)[0], _attend(q, k, v, None)[1]


def _none_not_handled(**keywords):
    return lambda q, k, v, mask: _attend(q, k, v, ~~mask, **keywords)


def _truth_of_the_mask(q, k, v, mask):
    return _attend(q, k, v, mask if mask else None)


def _inverted_in_place(q, k, v, mask):
    result = _attend(q, k, v, mask)
    if mask is not None:
        mask.logical_not_()
    return result


_NONE = ("Your function stops where `mask` is None: there is nothing to hide then, and None can't be inverted. Ask "
         "first: `if mask is not None:`.")
_LATE = ("Rows without an allowed key are NaN in your {}: {}. Set the weights to 0 where the mask is False, and "
         "average the values after that.")
SCALED_DOT_PRODUCT_ATTENTION = [*variations(_attend, _CHANGES), *(Mistake(*row) for row in [
    (_own_causal_mask, "You hide the future whatever the mask says. The caller decides what may be attended to: None "
     "hides nothing, and a padding mask hides padded keys only.", "own causal mask"),
    (_zeroed_too_late, _LATE.format("output", "you averaged before you set their weights to 0"), "zeroed too late"),
    (_zeroed_in_the_output, _LATE.format("weights", "you set only the output to 0"), "zeroed in the output"),
    (_weights_without_mask, "Your output is right, but the weights that you return with it ignore the mask. Average "
     "the values with the same weights that you return.", "weights without the mask"),
    (_none_not_handled(), _NONE, "mask None not handled"),
    (_none_not_handled(empty=_as_they_are), _NONE, "mask None not handled, NaN rows"),
    (_truth_of_the_mask, "`if mask:` asks a whole table for one truth value. What you want to know is whether there is "
     "one: `if mask is not None:`.", "truth of the mask"),
    (_inverted_in_place, "Your values are right, but you change the mask in place, which the caller still needs: "
     "`mask.logical_not_()` writes into the tensor itself. `~mask` makes a new one.", "mask in place"),
])]
# These raise an error, and what comes after them isn't reached; the others are rarely made with a second one.
_ALONE = ("k not transposed", "axes 1 and 2 of k", "three axes only", "all axes of k", "q and k exchanged",
          "mask with one more axis", "filled by index", "root of B", "root of S", "root of axis 2", "rounded root",
          "scale 0", "cosine", "mask of the first row", "fill -1", "fill -10", "-1e4 added", "fill inf", "over axis 1",
          "over axis 2", "over the batch", "log softmax", "mean of the queries")
SCALED_DOT_PRODUCT_ATTENTION_PAIRS = pairs(torch.no_grad()(_attend), {  # without gradients, to be fast
    name: entry for name, entry in _CHANGES.items() if name not in _ALONE and "," not in name})
