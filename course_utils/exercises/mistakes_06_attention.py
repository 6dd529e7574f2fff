"""Wrong answers to exercise 6.4, multi-head attention, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import torch

from course_utils.exercises.engine import Mistake, pairs, variations


def _split(x, H):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def _merge(x):
    return x.transpose(1, 2).flatten(2)


def _masked(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)


def _head_axis(mask, B, H):
    return mask[:, None] if mask.dim() == 3 else mask


def _heads(x, Wq, Wk, Wv, Wo, n_heads, mask=None, *, matrices=lambda *W: W, project=lambda x, W: x @ W,
           value=lambda x, Wv: x @ Wv, split=_split, order=lambda q, k, v: (q, k, v), scale=lambda D, H: (D / H)**-0.5,
           read=_head_axis, weigh=_masked, plain=lambda scores: torch.softmax(scores, -1), merge=_merge,
           mix=lambda heads, Wo, x: heads @ Wo, give=lambda out, weights: out):
    """`read` brings the mask to where the scores are; `weigh` uses it, and `plain` is the softmax without one."""
    B, D, H = len(x), x.shape[-1], n_heads
    Wq, Wk, Wv, Wo = matrices(Wq, Wk, Wv, Wo)
    q, k, v = order(*(split(y, H) for y in (project(x, Wq), project(x, Wk), value(x, Wv))))
    scores = q @ k.mT * scale(D, H)
    weights = plain(scores) if mask is None else weigh(scores, read(mask, B, H))
    return give(mix(merge(weights @ v), Wo, x), weights)


def _transposed(*which):
    return lambda *matrices: [W.T if i in which else W for i, W in enumerate(matrices)]


def _reshaped(x, H):
    return x.reshape(len(x), H, x.shape[1], -1)


def _interleaved(x, H):
    return x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2)


def _small(x, W, H):
    return _split(x, H) @ W[:x.shape[-1] // H, :x.shape[-1] // H]


def _first_head(heads):
    return _merge(heads[:, :1].expand_as(heads))


def _last_head(heads):
    return _merge(heads[:, -1:].expand_as(heads))


def _repeated(mask, B, H):
    """`mask.repeat(H, 1, 1)`, as if the scores were (B H, T, T), sentence by sentence."""
    return mask.repeat(H, 1, 1).view(B, H, *mask.shape[1:]) if mask.dim() == 3 else mask


def _first_row(mask, B, H):
    return mask[:1, None] if mask.dim() == 3 else mask


def _hide(fill):
    return lambda scores, mask: torch.softmax(fill(scores, mask), -1)


def _over(dim, hidden=-1e30):
    """Scores of -inf make NaN where a key is hidden from all."""
    return dict(plain=lambda scores: torch.softmax(scores, dim),
                weigh=lambda scores, mask: torch.softmax(scores.masked_fill(~mask, hidden), dim))


_SCALE = "Your scores are {}. A dot product sums K = D / n_heads products: divide by √K, the width of one head, {}."
_UNUSED = "{} has no effect in your function. {}"
_EXCHANGED = ("You exchange {}, which raises no error, as all matrices have the same shape. Queries come from Wq, keys "
              "from Wk and values from Wv: softmax(q kᵀ / √K) v.")
_SIDE = ("You multiply by {} transposed, as nn.Linear stores its weights. Here they are used as they stand, for rows: "
         "`x @ W`.")
_SCRAMBLED = ("Change one token, and your heads of other tokens change before any attention: your split is a `reshape` "
              "alone, which cuts across tokens. Cut the last axis, (B, T, H, K), then swap T and H.")
_MERGED = ("Splitting is right, merging is not: `reshape` alone joins pieces of several tokens. Swap H and T back, "
           "(B, T, H, K), then join the last two axes.")
_POLARITY = ("You hide what should be visible: True = may attend, here as in F.scaled_dot_product_attention "
             "(nn.MultiheadAttention has it the other way round). Fill where the mask is False, `~mask`.")
_HEAD_AXIS = ("Your mask (B, T, T) meets scores (B, H, T, T) without an axis for the heads: it fails, or, where B = H, "
              "gives head h the mask of sentence h. Insert the axis: `mask.unsqueeze(1)`, (B, 1, T, T).")
_REPEATED = ("You repeat the mask in the order sentence 0, 1, …, sentence 0, 1, …, and then read it as all heads of "
             "sentence 0 first. An axis of length 1 needs no copies, `mask.unsqueeze(1)`; copies are made by "
             "`repeat_interleave`.")
_VISIBLE = ("Hidden keys get a score of about 0 in yours, which is a score like any other. Hide them with -inf, before "
            "the softmax.")
_OVER = "Your softmax runs over {}. Each query of each head distributes a weight of 1 over the keys: `dim=-1`."
_COMPETE = "the heads, which compete then for each pair of tokens"
_ONE_HEAD = ("You use one head for all: each of your heads' outputs is the same. Head h has its own numbers h K to "
             "(h + 1) K - 1 of q, k and v.")
_CHANGES = {
    "scale by d_model": (dict(scale=lambda D, H: D**-0.5), _SCALE.format(
        "too small by √n_heads, which is 1 for a single head only", "not of the model")),
    "no scale": (dict(scale=lambda D, H: 1.0), _SCALE.format(
        "too large by √K: the scale is missing", "before the softmax")),
    "divided by K": (dict(scale=lambda D, H: H / D), _SCALE.format(
        "divided by K: the root is missing, or you scale twice", "once")),
    "scale by the number of heads": (dict(scale=lambda D, H: H**-0.5), _SCALE.format(
        "divided by √n_heads", "`D // n_heads`")),
    "multiplied by the root": (dict(scale=lambda D, H: (D / H)**0.5), _SCALE.format(
        "multiplied by √K, larger still", "don't multiply")),
    "no output projection": (dict(mix=lambda heads, Wo, x: heads), _UNUSED.format(
        "Wo", "After the heads are side by side, `@ Wo` mixes what they found.")),
    "value not projected": (dict(value=lambda x, Wv: x), _UNUSED.format(
        "Wv", "What a head hands on are values, v = x Wv, not the tokens themselves.")),
    "q for k": (dict(order=lambda q, k, v: (q, q, v)), _UNUSED.format(
        "Wk", "You compare queries with queries; keys are x Wk.")),
    "k for q": (dict(order=lambda q, k, v: (k, k, v)), _UNUSED.format(
        "Wq", "You compare keys with keys; queries are x Wq.")),
    "k for v": (dict(order=lambda q, k, v: (q, k, k)), _UNUSED.format(
        "Wv", "You average keys; what is averaged are the values, x Wv.")),
    "k and v exchanged": (dict(order=lambda q, k, v: (q, v, k)), _EXCHANGED.format("keys and values")),
    "q and k exchanged": (dict(order=lambda q, k, v: (k, q, v)), _EXCHANGED.format("queries and keys")),
    "q and v exchanged": (dict(order=lambda q, k, v: (v, k, q)), _EXCHANGED.format("queries and values")),
    "Wq, Wk, Wv transposed": (dict(matrices=_transposed(0, 1, 2)), _SIDE.format("Wq, Wk and Wv")),
    "Wo transposed": (dict(matrices=_transposed(3)), _SIDE.format("Wo")),
    "all transposed": (dict(matrices=_transposed(0, 1, 2, 3)), _SIDE.format("all matrices")),
    "relu": (dict(project=lambda x, W: torch.relu(x @ W), value=lambda x, W: torch.relu(x @ W)), (
        "Your queries, keys and values are never negative: there is a relu after the projections. They are linear, "
        "nothing else.")),
    "tanh": (dict(project=lambda x, W: torch.tanh(x @ W), value=lambda x, W: torch.tanh(x @ W)), (
        "Your queries, keys and values stay between -1 and 1: there is a tanh after the projections. They are linear, "
        "nothing else.")),
    "split by reshape": (dict(split=_reshaped, merge=lambda heads: heads.flatten(1, 2).reshape(
        len(heads), heads.shape[2], -1)), _SCRAMBLED),
    "split by reshape, merged well": (dict(split=_reshaped), _SCRAMBLED),
    "split interleaved": (dict(split=_interleaved), (
        "Your heads take every H-th number of a query, 0, H, 2 H and so on, and are merged head after head. Cut the "
        "last axis into (H, K), in this order.")),
    "split and merged interleaved": (dict(split=_interleaved, merge=lambda heads: heads.permute(
        0, 2, 3, 1).flatten(2)), (
        "Your heads take every H-th number of a query, 0, H, 2 H and so on. That would train as well, but with given "
        "weights head h has the numbers h K to (h + 1) K - 1: cut into (H, K).")),
    "merged by reshape": (dict(merge=lambda heads: heads.reshape(len(heads), heads.shape[2], -1)), _MERGED),
    "merged interleaved": (dict(merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2)), (
        "The numbers of your heads alternate when they are merged, and Wo meets them in the wrong order. They come "
        "head after head.")),
    "merged in reverse": (dict(merge=lambda heads: _merge(heads.flip(1))), (
        "Your heads are merged in reverse order, so Wo meets them in the wrong one. Head 0 comes first.")),
    "first head": (dict(merge=_first_head), _ONE_HEAD),
    "last head": (dict(merge=_last_head), _ONE_HEAD),
    "mean of the heads": (dict(merge=lambda heads: _merge(heads.mean(1, keepdim=True).expand_as(heads))), (
        "You average the heads. They are put side by side, H K = D numbers for each token, and Wo mixes them.")),
    "one head": (dict(split=lambda x, H: x[:, None], merge=lambda heads: heads[:, 0]), (
        "Your result is that of a single head with the width D, scaled for a smaller one. Cut q, k and v into n_heads "
        "heads before you compare: each has a softmax of its own.")),
    "one head, its own scale": (dict(split=lambda x, H: x[:, None], merge=lambda heads: heads[:, 0],
                                     scale=lambda D, H: D**-0.5), (
        "Your result is that of a single head: n_heads has no effect. Cut q, k and v into n_heads heads before you "
        "compare: each has a softmax of its own.")),
    "mask ignored": (dict(weigh=lambda scores, mask: torch.softmax(scores, -1)), (
        "Your result is the same with and without a mask. Where it is False, the score must become -inf before the "
        "softmax.")),
    "mask inverted": (dict(weigh=lambda scores, mask: torch.softmax(
        scores.masked_fill(mask, -torch.inf), -1)), _POLARITY),
    "mask inverted, finite": (dict(weigh=lambda scores, mask: torch.softmax(
        scores.masked_fill(mask, -1e9), -1)), _POLARITY),
    "mask inverted, added": (dict(weigh=_hide(lambda scores, mask: scores + mask * -1e9)), _POLARITY),
    "mask inverted, empty rows zero": (dict(weigh=lambda scores, mask: torch.softmax(
        scores.masked_fill(mask, -torch.inf), -1).nan_to_num(0.0)), _POLARITY),
    "mask transposed": (dict(read=lambda mask, B, H: _head_axis(mask, B, H).mT, weigh=lambda scores, mask: _masked(
        scores, mask).nan_to_num(0.0)), (
        "Your mask is transposed: it blanks queries, and hidden keys stay visible. Rows are queries and columns are "
        "keys, so a padded token is hidden as a key, along the last axis.")),
    "mask transposed, NaN": (dict(read=lambda mask, B, H: _head_axis(mask, B, H).mT), (
        "Your mask is transposed: a padded query may attend to nothing and becomes NaN, and hidden keys stay visible. "
        "Rows are queries and columns are keys, so a padded token is hidden as a key, along the last axis.")),
    "mask without head axis": (dict(read=lambda mask, B, H: mask), _HEAD_AXIS),
    "head axis in the wrong place": (dict(read=lambda mask, B, H: mask[:, :, None] if mask.dim() == 3 else mask), (
        "Your mask (B, T, T) gets its new axis behind the queries. Scores are (B, H, T, T): the axis for the heads is "
        "axis 1, `mask.unsqueeze(1)`.")),
    "mask repeated": (dict(read=_repeated), _REPEATED),
    "mask of the first sentence": (dict(read=_first_row), (
        "You use the mask of the first sentence for the whole batch. With (B, T, T) each sentence has its own, for all "
        "its heads: `mask.unsqueeze(1)`.")),
    "mask after the softmax": (dict(weigh=lambda scores, mask: torch.softmax(scores, -1) * mask), (
        "You hide keys after the softmax, which has given them weight already, so the weights sum to less than 1. Hide "
        "the scores, with -inf, before it.")),
    "mask added": (dict(weigh=_hide(lambda scores, mask: scores + mask)), (
        "You add the boolean mask, so allowed keys gain a score of 1 and hidden ones stay visible. A boolean mask "
        "selects: `scores.masked_fill(~mask, -torch.inf)`.")),
    "zero fill": (dict(weigh=_hide(lambda scores, mask: scores * mask)), _VISIBLE),
    "fill not low enough": (dict(weigh=_hide(lambda scores, mask: scores.masked_fill(~mask, -100.0))), (
        "Your hidden keys get a low score, but a visible key may have a lower one. Hide them with -inf, or a number as "
        "low as -1e9, before the softmax.")),
    "fill +inf": (dict(weigh=_hide(lambda scores, mask: scores.masked_fill(~mask, torch.inf))), (
        "Your hidden keys get the score +inf, and a softmax makes NaN of that. Hidden means a weight of 0: -inf.")),
    "tiny fill": (dict(weigh=_hide(lambda scores, mask: scores.masked_fill(~mask, -1e-9))), _VISIBLE),
    "over the queries": (_over(-2), _OVER.format("the queries")),
    "over the queries, NaN": (_over(-2, -torch.inf), _OVER.format("the queries")),
    "over the heads": (_over(1), _OVER.format(_COMPETE)),
    "over the heads, NaN": (_over(1, -torch.inf), _OVER.format(_COMPETE)),
    "over the batch": (_over(0), _OVER.format("the batch")),
    "over the batch, NaN": (_over(0, -torch.inf), _OVER.format("the batch")),
    "no softmax": (dict(plain=lambda scores: scores, weigh=lambda scores, mask: scores * mask), (
        "You average with raw scores: they can be negative and don't sum to 1. A softmax over the keys makes weights "
        "of them, in each head.")),
    "residual": (dict(mix=lambda heads, Wo, x: x + heads @ Wo), (
        "You add x to the result. The skip connection belongs to the block around attention (lecture 7), not to "
        "attention itself.")),
    "weights returned": (dict(give=lambda out, weights: (out, weights)), (
        "You return the weights as well. The output alone is wanted, (B, T, D).")),
}


def _small_projections(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    """Each head sees its own slice of the tokens only."""
    q, k, v = (_small(x, W, n_heads) for W in (Wq, Wk, Wv))
    scores = q @ k.mT / q.shape[-1]**0.5
    weights = torch.softmax(scores, -1) if mask is None else _masked(scores, _head_axis(mask, *q.shape[:2]))
    return _merge(weights @ v) @ Wo


def _own_slices(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    """Each head sees its own slice of the tokens only, through its own block of the matrices."""
    blocks = torch.block_diag(*[torch.ones(x.shape[-1] // n_heads, x.shape[-1] // n_heads)] * n_heads).to(x)
    return _heads(x, Wq * blocks, Wk * blocks, Wv * blocks, Wo, n_heads, mask)


def _without_queries_and_keys(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    return _heads(x, *[torch.eye(x.shape[-1]).to(x)] * 2, Wv, Wo, n_heads, mask)


def _all_axes_reversed(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    q, k, v = (_split(x @ W, n_heads) for W in (Wq, Wk, Wv))
    scores = q @ k.permute(3, 2, 1, 0) / q.shape[-1]**0.5
    return _merge((torch.softmax(scores, -1) if mask is None else _masked(scores, mask)) @ v) @ Wo


def _causal_for_any_mask(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    return (_heads if mask is None else _own_causal_mask)(x, Wq, Wk, Wv, Wo, n_heads)


def _over_heads(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    q, k, v = ((x @ W).unflatten(-1, (n_heads, -1)) for W in (Wq, Wk, Wv))
    return (torch.softmax(q @ k.mT / q.shape[-1]**0.5, -1) @ v).flatten(2) @ Wo


def _over_batch(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    return _heads(x.transpose(0, 1), Wq, Wk, Wv, Wo, n_heads).transpose(0, 1)


def _own_causal_mask(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    T = x.shape[1]
    return _heads(x, Wq, Wk, Wv, Wo, n_heads, torch.ones(T, T, dtype=torch.bool).tril())


def _none_not_handled(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    return _heads(x, Wq, Wk, Wv, Wo, n_heads, ~~mask)


def _truth_of_the_mask(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    return _heads(x, Wq, Wk, Wv, Wo, n_heads, mask if mask else None)


def _always_head_axis(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    return _heads(x, Wq, Wk, Wv, Wo, n_heads, mask, read=lambda mask, B, H: mask[:, None])


MULTI_HEAD_ATTENTION = [*variations(_heads, _CHANGES), *(Mistake(*row) for row in [
    (_small_projections, "You split the tokens first, so that a head sees its own slice of them only, through a corner "
     "of the matrices. A head projects all D numbers: multiply by the whole matrix, then split.", "small projections"),
    (_own_slices, "You cut the tokens into slices, and each head sees one of them only. A head projects all D numbers: "
     "multiply by the whole matrix, then split.", "own slices"),
    (_without_queries_and_keys, "Wq and Wk have no effect in your function. Queries are x Wq and keys x Wk.",
     "q and k not projected"),
    (_all_axes_reversed, "`k.T` reverses all four axes. Scores need the last two exchanged, `k.transpose(-2, -1)` or "
     "`k.mT`.", "k.T"),
    (_causal_for_any_mask, "You hide the future whenever there is a mask, whatever it says. The mask itself says what "
     "may be attended to.", "causal for any mask"),
    (_over_heads, "Change one token, and no other output of yours changes: without a transpose, the heads of one token "
     "attend to each other. Swap T and H, (B, H, T, K), so that attention runs over the tokens.", "over the heads of a "
     "token"),
    (_over_batch, "Change one sentence, and your output of the others changes: you take axis 0 for the tokens. Axis 0 "
     "is the batch, attention runs over axis 1 (batch_first).", "over the sentences"),
    (_own_causal_mask, "You hide the future whatever the mask says. The caller decides what may be attended to: None "
     "hides nothing.", "own causal mask"),
    (_none_not_handled, "Your function stops where `mask` is None: there is nothing to hide then, and None can't be "
     "inverted. Ask first: `if mask is not None:`.", "mask None not handled"),
    (_truth_of_the_mask, "`if mask:` asks a whole table for one truth value. What you want to know is whether there is "
     "one: `if mask is not None:`.", "truth of the mask"),
    (_always_head_axis, "You insert a head axis into every mask, also into (T, T), whose rows then stand where the "
     "sentences are. Only a mask of three axes needs it: `if mask.dim() == 3`.", "head axis always"),
])]
# These fail where the mask has an axis for sentences, and what comes after isn't reached.
_ALONE = ("mask without head axis", "weights returned")
MULTI_HEAD_ATTENTION_PAIRS = pairs(_heads, {
    name: entry for name, entry in _CHANGES.items() if name not in _ALONE and "," not in name})
