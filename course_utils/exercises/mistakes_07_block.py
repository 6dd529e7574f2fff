"""Wrong answers to exercise 7.4, the encoder block, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

from functools import partial

import torch
from torch.nn import functional as F

from course_utils.exercises.engine import Mistake, pairs, variations


def _ln(x, g, b, eps=1e-5):
    return torch.layer_norm(x, x.shape[-1:], g, b, eps)


def _masked(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)


def _over_queries(scores, mask):
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -torch.inf), -2)


def _attend(q_from, kv_from, p, H, mask, *, scale=lambda D, H: (D / H)**-0.5, weigh=_masked):
    def split(x, name):
        return (x @ p[name]).unflatten(-1, (H, -1)).transpose(1, 2)

    scores = split(q_from, "Wq") @ split(kv_from, "Wk").mT * scale(q_from.shape[-1], H)
    weights = torch.softmax(scores, -1) if mask is None and weigh is _masked else weigh(scores, mask)
    return (weights @ split(kv_from, "Wv")).transpose(1, 2).flatten(2) @ p["Wo"]


def _self(z, p, H, mask, x=None):
    return _attend(z, z, p, H, mask)


def _think(x, p, *, act=torch.relu, after=lambda x: x, biases=("c1", "c2")):
    c1, c2 = (p[name] if name in biases else 0 for name in ("c1", "c2"))
    return after(act(x @ p["W1"] + c1) @ p["W2"] + c2)


def _pre(x, f, g, b, drop):
    """x + f(LN(x)), with dropout on what is added."""
    return x + drop(f(_ln(x, g, b)))


def _when_training(p_drop, training):
    return lambda y: F.dropout(y, p_drop, training)


def _never(p_drop, training):
    return lambda y: y


def _block(x, p, n_heads, mask=None, p_drop=0.0, training=False, *, looks=_pre, thinks=_pre, attend=_self, think=_think,
           norms=("g1", "b1", "g2", "b2"), drop=_when_training, end=lambda x, p: x):
    """`looks` and `thinks` say how each half of the block puts norm, branch, dropout and skip connection together."""
    g1, b1, g2, b2 = (p[name] for name in norms)
    x = looks(x, lambda z: attend(z, p, n_heads, mask, x), g1, b1, drop(p_drop, training))
    return end(thinks(x, lambda z: think(z, p), g2, b2, drop(p_drop, training)), p)


def _both(combine):
    return dict(looks=combine, thinks=combine)


def _post(x, f, g, b, drop):
    return _ln(x + drop(f(x)), g, b)


def _on_branch(x, f, g, b, drop):
    return x + drop(_ln(f(x), g, b))


def _inside(x, f, g, b, drop):
    return drop(f(_ln(x, g, b) + x))


def _from_normed(x, f, g, b, drop):
    z = _ln(x, g, b)
    return z + drop(f(z))


def _no_skip(x, f, g, b, drop):
    return drop(f(_ln(x, g, b)))


def _no_norm(x, f, g, b, drop):
    return x + drop(f(x))


def _normed_first(x, f, g, b, drop):
    return x + drop(f(x)) if g is None else _ln(x, g, b) + drop(f(x))


def _dropped_sum(x, f, g, b, drop):
    return drop(x + f(_ln(x, g, b)))


def _dropped_input(x, f, g, b, drop):
    return x + f(drop(_ln(x, g, b)))


def _of(eps):
    return _both(lambda x, f, g, b, drop: x + drop(f(_ln(x, g, b, eps))))


def _unbiased(x, f, g, b, drop):
    z = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
    return x + drop(f(g * z + b))


def _by_hand(x, g, b, correction, inside, outside):
    spread = (x.var(-1, keepdim=True, correction=correction) + inside).sqrt() + outside
    return g * (x - x.mean(-1, keepdim=True)) / spread + b


def _not_dropped(x, f, g, b, drop):
    return x + f(_ln(x, g, b))


def _doubled(x, f, g, b, drop):
    return 2 * drop(f(_ln(x, g, b)))


def _queries_from_norm(z, p, H, mask, x):
    return _attend(z, x, p, H, mask)


def _parallel(x, p, n_heads, mask=None, p_drop=0.0, training=False, *, drop=_when_training):
    drop = drop(p_drop, training)
    return x + drop(_self(_ln(x, p["g1"], p["b1"]), p, n_heads, mask)) + drop(_think(_ln(x, p["g2"], p["b2"]), p))


def _one_skip(x, p, n_heads, mask=None, p_drop=0.0, training=False, *, start=lambda x, y: y, drop=_when_training):
    """x skips the whole block; `start` is what the second half reads, from x and what attention found."""
    drop = drop(p_drop, training)
    y = start(x, drop(_self(_ln(x, p["g1"], p["b1"]), p, n_heads, mask)))
    return x + drop(_think(_ln(y, p["g2"], p["b2"]), p))


def _thinking_first(x, p, n_heads, mask=None, p_drop=0.0, training=False, *, drop=_when_training):
    drop = drop(p_drop, training)
    x = _pre(x, lambda z: _think(z, p), p["g2"], p["b2"], drop)
    return _pre(x, lambda z: _self(z, p, n_heads, mask), p["g1"], p["b1"], drop)


def _in_place(x, p, n_heads, mask=None, p_drop=0.0, training=False):
    return x.copy_(_block(x, p, n_heads, mask, p_drop, training))


def dropout_problem(added: torch.Tensor) -> str:
    """What is wrong with random dropout, in a sentence, or "".

    added: (B, T, D), what a block adds to x in training with p_drop = 0.25, where attention finds 1 and the network 100
    everywhere.
    """
    endings = {4 / 3: "", 1.0: ".", 4.0: "; you divide by p_drop.", 0.75: "; you multiply."}
    for factor in endings:
        network = (added / factor > 50).double()
        attention = (added / factor - 100 * network > 0.5).double()
        if torch.allclose(added / factor, attention + 100 * network, atol=1e-3):
            break
    else:
        return ("Your dropout acts in more places than these two, such as the attention weights or the hidden numbers "
                "of the network (as in torch's layer). It is x + dropout(f(LN(x))), nowhere else.")
    if endings[factor]:
        return ("What your dropout keeps must be divided by 1 - p_drop in training, so that its mean is that without "
                f"dropout{endings[factor]}")
    kept = torch.stack([attention, network])  # (2, B, T, D)
    shares = kept.mean((1, 2, 3))
    if 0 < shares.min() and shares.max() < 1 and any(
            (kept == kept.narrow(axis, 0, 1)).all() for axis in (1, 2, 3)):
        return ("Your dropout draws once for several numbers: for a whole token, or for all tokens alike. Each number "
                "is dropped or kept by itself: draw a tensor of the branch's whole shape.")
    if (shares < 0.65).any() or (shares > 0.85).any():
        return ("With p_drop = 0.25 your dropout keeps {:.0%} of what attention found and {:.0%} of what the network "
                "found. p_drop is the share that is dropped.".format(*shares.tolist()))
    return ""


_PRE = "Pre-LN is x + f(LN(x)), in both halves"
_SKIP = "{} skip connection. " + _PRE + ": with all of f's weights 0 a block returns x."
_NORM = ("{} norm is missing. " + _PRE + ", so that attention and feed-forward network read normalized numbers, "
         "whatever has been added up in x.")
_POST = ("{} post-LN, LN(x + f(x)), as in the original paper. Here pre-LN is wanted, x + f(LN(x)): the norm is on the "
         "way into f, and nothing is on the way past it.")
_BRANCH = "You normalize what comes out of a branch, x + LN(f(x)). Pre-LN normalizes what goes in: x + f(LN(x))."
_RELU = "Your feed-forward network {}. Its relu stands between the two matrices: relu(z W1 + c1) W2 + c2."
_BIAS = "{} no effect. The feed-forward network is relu(z W1 + c1) W2 + c2."
_EVAL = ("Your dropout acts in evaluation, too: with `training=False` nothing is dropped, and nothing is scaled. "
         "`F.dropout(y, p_drop)` alone assumes training: hand `training` on.")
_WHERE = "Your dropout is on {}. It drops parts of what a branch found, before that is added: x + dropout(f(LN(x)))."
_POLARITY = ("You hide what should be visible: True = may attend. Fill where the mask is False, `~mask`.")
_DOUBLED = ("You overwrite x by what a branch returns, and x + x then doubles that: the old x is gone. Use another "
            "name for the branch: `x = x + y`.")
_CHANGES = {
    "post-LN": (_both(_post), _POST.format("This is")),
    "post-LN first": (dict(looks=_post), _POST.format("The first half of your block is")),
    "post-LN second": (dict(thinks=_post), _POST.format("The second half of your block is")),
    "norm on the branch": (_both(_on_branch), _BRANCH),
    "norm on the branch, dropped before": (_both(lambda x, f, g, b, drop: x + _ln(drop(f(x)), g, b)), _BRANCH),
    "skip inside": (_both(_inside), (
        "A parenthesis is in the wrong place: f(LN(x) + x) has no way past f. It is x + f(LN(x)).")),
    "skip from the norm": (_both(_from_normed), (
        "Your skip connections carry LN(x), not x: is x overwritten by its norm? Use another name for it: "
        "x + f(LN(x)).")),
    "skip from the first norm": (dict(looks=_from_normed), (
        "Your first skip connection carries LN(x), not x: is x overwritten by its norm? Use another name for it: "
        "x + f(LN(x)).")),
    "skip from the second norm": (dict(thinks=_from_normed), (
        "Your second skip connection carries LN(x), not x: is x overwritten by its norm? Use another name for it: "
        "x + f(LN(x)).")),
    "no skip": (_both(_no_skip), _SKIP.format("Your block has no")),
    "no first skip": (dict(looks=_no_skip), _SKIP.format("Around attention your block has no")),
    "no second skip": (dict(thinks=_no_skip), _SKIP.format("Around the feed-forward network your block has no")),
    "no norm": (_both(_no_norm), _NORM.format("In both halves the")),
    "no first norm": (dict(looks=_no_norm), _NORM.format("The first")),
    "no second norm": (dict(thinks=_no_norm), _NORM.format("The second")),
    "norm past f": (_both(_normed_first), (
        "You have it the wrong way round, LN(x) + f(x): the skip connection is normalized and the branch isn't. It is "
        "x + f(LN(x)).")),
    "first norm twice": (dict(norms=("g1", "b1", "g1", "b1")), (
        "You use g1 and b1 for both norms, and g2 and b2 never. Each half has a norm of its own.")),
    "norms exchanged": (dict(norms=("g2", "b2", "g1", "b1")), (
        "You exchange the norms: g1 and b1 belong to attention, g2 and b2 to the feed-forward network.")),
    "g and b exchanged": (dict(norms=("b1", "g1", "b2", "g2")), (
        "You exchange g and b: in a norm g multiplies, b is added.")),
    "unbiased norm": (_both(_unbiased), (
        "Your norm divides by `std`, which divides by D - 1, and adds eps to it. Layer norm divides by "
        "√(variance + eps), with the biased variance (exercise 7.3).")),
    "unbiased norm, eps inside": (_both(lambda x, f, g, b, drop: x + drop(f(_by_hand(x, g, b, 1, 1e-5, 0.0)))), (
        "Your norm divides the sum of squares by D - 1, as `var` and `std` do by default. Layer norm has the biased "
        "variance (exercise 7.3).")),
    "eps outside": (_both(lambda x, f, g, b, drop: x + drop(f(_by_hand(x, g, b, 0, 0.0, 1e-5)))), (
        "Your norms are almost right: their eps belongs inside the root, √(variance + eps) (exercise 7.3).")),
    "no g, no b": (_both(lambda x, f, g, b, drop: x + drop(f(_ln(x, None, None)))), (
        "g1, b1, g2 and b2 have no effect. A norm ends with g times the normalized numbers, plus b.")),
    "eps 1e-6": (_of(1e-6), "Your norms are almost right: their eps is 1e-5, inside the root."),
    "eps 1e-8": (_of(1e-8), "Your norms are almost right: their eps is 1e-5, inside the root."),
    "eps 0": (_of(0.0), "Your norms are almost right: their eps is 1e-5, inside the root."),
    "final norm": (dict(end=lambda x, p: _ln(x, torch.ones_like(p["g2"]), torch.zeros_like(p["b2"]))), (
        "You normalize the result of the block. A pre-LN model has one more norm after its last block, not in each.")),
    "final norm with g2": (dict(end=lambda x, p: _ln(x, p["g2"], p["b2"])), (
        "You normalize the result of the block. A pre-LN model has one more norm after its last block, not in each.")),
    "no relu": (dict(think=lambda x, p: _think(x, p, act=lambda z: z)), _RELU.format(
        "has no relu, so that its two matrices are one linear map")),
    "relu at the end": (dict(think=lambda x, p: _think(x, p, act=lambda z: z, after=torch.relu)), _RELU.format(
        "is never negative: the relu comes last")),
    "relu twice": (dict(think=lambda x, p: _think(x, p, after=torch.relu)), _RELU.format(
        "is never negative: there is a second relu at the end")),
    "gelu": (dict(think=lambda x, p: _think(x, p, act=F.gelu)), _RELU.format("uses GELU, as many newer models do")),
    "tanh": (dict(think=lambda x, p: _think(x, p, act=torch.tanh)), _RELU.format("uses tanh")),
    "no biases": (dict(think=lambda x, p: _think(x, p, biases=())), _BIAS.format("c1 and c2 have")),
    "no c1": (dict(think=lambda x, p: _think(x, p, biases=("c2",))), _BIAS.format("c1 has")),
    "no c2": (dict(think=lambda x, p: _think(x, p, biases=("c1",))), _BIAS.format("c2 has")),
    "no dropout": (dict(drop=_never), (
        "Nothing is ever dropped in yours: in training, with p_drop = 1, both branches vanish and the block returns x. "
        "It is x + dropout(f(LN(x))).")),
    "dropout on attention alone": (dict(thinks=_not_dropped), (
        "What your feed-forward network finds is never dropped. Both halves are x + dropout(f(LN(x))).")),
    "dropout on the network alone": (dict(looks=_not_dropped), (
        "What your attention finds is never dropped. Both halves are x + dropout(f(LN(x))).")),
    "attention alone": (dict(thinks=lambda x, f, g, b, drop: x), (
        "Your block ends after attention. The second half is the feed-forward network: x + f(LN(x)) again, with g2 and "
        "b2.")),
    "dropout always on": (dict(drop=lambda p_drop, training: lambda y: F.dropout(y, p_drop)), _EVAL),
    "dropout in evaluation alone": (dict(drop=lambda p_drop, training: lambda y: F.dropout(y, p_drop, not training)), (
        "You drop in evaluation and not in training: it is the other way round. Dropout makes training harder, and is "
        "off when a model is used.")),
    "dropout keeps p": (dict(drop=lambda p_drop, training: lambda y: F.dropout(y, 1 - p_drop, training)), (
        "You keep a share p_drop of the numbers. p_drop is the share that is dropped.")),
    "dropout by hand": (dict(drop=lambda p_drop, training: lambda y: y * float("nan") if training and p_drop == 1
                             else y), (
        "You divide by 1 - p_drop, which is 0 where everything is dropped: 0 / 0 = NaN. `F.dropout(y, p_drop, "
        "training)` knows that case.")),
    "dropout of the sum": (_both(_dropped_sum), _WHERE.format("the sum x + f(LN(x)), so that x itself is dropped")),
    "dropout of the input": (_both(_dropped_input), _WHERE.format("what goes into a branch")),
    "doubles": (dict(looks=_doubled), _DOUBLED),
    "doubles twice": (_both(_doubled), _DOUBLED),
    "only queries normed": (dict(attend=_queries_from_norm), (
        "Only your queries come from LN(x); keys and values read x itself. In self-attention all three read the same "
        "normalized tokens.")),
    "mask ignored": (dict(attend=lambda z, p, H, mask, x: _self(z, p, H, None)), (
        "Your result is the same with and without a mask. Hand it on to attention.")),
    "mask inverted": (dict(attend=lambda z, p, H, mask, x: _self(z, p, H, None if mask is None else ~mask)), _POLARITY),
    "no scale": (dict(attend=lambda z, p, H, mask, x: _attend(z, z, p, H, mask, scale=lambda D, H: 1.0)), (
        "Your attention isn't scaled: scores are divided by √K, K = D / n_heads.")),
    "over the queries": (dict(attend=lambda z, p, H, mask, x: _attend(z, z, p, H, mask, weigh=_over_queries)), (
        "Your softmax runs over the queries. Each query distributes a weight of 1 over the keys: `dim=-1`.")),
    "scale by D": (dict(attend=lambda z, p, H, mask, x: _attend(z, z, p, H, mask, scale=lambda D, H: D**-0.5)), (
        "Your scores are divided by √D. Divide by √K, with K = D / n_heads the width of one head.")),
    "one head": (dict(attend=lambda z, p, H, mask, x: _self(z, p, 1, mask)), (
        "n_heads has no effect: your attention has one head. Cut queries, keys and values into n_heads (exercise "
        "6.4).")),
    "no Wo": (dict(attend=lambda z, p, H, mask, x: _self(z, {**p, "Wo": torch.eye(z.shape[-1]).to(z)}, H, mask)), (
        "Wo has no effect in your function. After the heads are side by side they are multiplied by it.")),
}
_ORDER = {
    "side by side": (_parallel, "Your feed-forward network reads the input of the block, so that the halves stand side "
                     "by side. It reads the sum of the first half, x + attention(LN(x))."),
    "one skip": (_one_skip, "You have one skip connection, around the whole block. Each half has its own."),
    "input again": (partial(_one_skip, start=torch.add), "Your second skip connection starts from the input of the "
                    "block, so what attention added is lost. It starts from the sum of the first half."),
    "network first": (_thinking_first, "Your feed-forward network comes first. Attention is the first half of the "
                      "block, the network the second."),
}
ENCODER_BLOCK = [
    *variations(_block, _CHANGES), *(Mistake(function, hint, name) for name, (function, hint) in _ORDER.items()),
    Mistake(_in_place, "Your values are right, but you change x in place, which the caller still needs: `x += …` "
            "writes into the tensor itself. `x = x + …` makes a new one.", "x in place")]
ENCODER_BLOCK_PAIRS = [*pairs(_block, {name: entry for name, entry in _CHANGES.items() if "eps" not in name}), *(
    Mistake(partial(function, drop=_never), f"Two things at once.\n\n1. {hint}\n\n2. {_CHANGES['no dropout'][1]}",
            f"{name} + no dropout") for name, (function, hint) in _ORDER.items())]
