"""Answers to lecture 7's exercises: unusual right ones pass, wrong ones get a sentence of use, in a list or not."""

import math

import torch
import torch.nn.functional as F

from answers import Answers, exercises_of, passes
from course_utils.exercises import lecture_06, lecture_07

ANSWERS = Answers()  # the wrong ones are in no list
right, wrong, written = ANSWERS.right, ANSWERS.wrong, ANSWERS.written
EXERCISES = exercises_of(lecture_07)
sinusoids, embed, norm, block, step = (e.reference for e in EXERCISES)
split, merge, _, attend = (e.reference for e in exercises_of(lecture_06))

# ---- sinusoidal_positions -------------------------------------------------------------------------------------------


@right(lecture_07.sinusoidal_positions)
def by_exp_and_log(T, d):
    table = torch.zeros(T, d)
    speed = torch.exp(-math.log(10000.0) * torch.arange(0, d, 2) / d)
    angle = torch.arange(T).unsqueeze(1) * speed
    table[:, 0::2] = torch.sin(angle)
    table[:, 1::2] = torch.cos(angle)[:, :d // 2]
    return table


@right(lecture_07.sinusoidal_positions)
def number_by_number(T, d):
    return torch.tensor([[(math.cos if j % 2 else math.sin)(t / 10000**((j - j % 2) / d)) for j in range(d)]
                         for t in range(T)], dtype=torch.float64)


@right(lecture_07.sinusoidal_positions)
def a_cosine_is_a_shifted_sine(T, d):
    j = torch.arange(d)
    angle = torch.outer(torch.arange(T).double(), 10000.0 ** -(2 * torch.div(j, 2, rounding_mode="floor") / d).double())
    return torch.sin(angle + math.pi / 2 * (j % 2))


@right(lecture_07.sinusoidal_positions)
def stacked_and_cut(T, d):
    angle = torch.arange(T)[:, None].double() / 10000 ** (torch.arange(0, d, 2).double() / d)
    return torch.stack([angle.sin(), angle.cos()], dim=2).reshape(T, -1)[:, :d]


def table(T, d, *, exponent=lambda i, d: i / d, base=10000, start=0, first=torch.sin, second=torch.cos):
    out = torch.zeros(T, d, dtype=torch.float64)
    angle = torch.arange(start, start + T)[:, None] / base ** exponent(torch.arange(0, d, 2).double(), d)
    out[:, 0::2], out[:, 1::2] = first(angle), second(angle)[:, :d // 2]
    return out


def as_many(T, d):
    out = torch.zeros(T, d)
    angle = torch.arange(T)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    out[:, 0::2] = torch.sin(angle)
    out[:, 1::2] = torch.cos(angle)
    return out


wrong(lecture_07.sinusoidal_positions, "did you forget `return`")(lambda T, d: None)
wrong(lecture_07.sinusoidal_positions, "stay in torch")(lambda T, d: sinusoids(T, d).numpy())
wrong(lecture_07.sinusoidal_positions, "0.8415 0.5403 0.0100")(lambda T, d: sinusoids(T, d) ** 3)
wrong(lecture_07.sinusoidal_positions, "opposite sign")(lambda T, d: -sinusoids(T, d))
wrong(lecture_07.sinusoidal_positions, "Expected")(lambda T, d: None)
wrong(lecture_07.sinusoidal_positions, "stopped with TypeError")(lambda T, d: math.sin(torch.arange(T)[:, None] * [1]))
wrong(lecture_07.sinusoidal_positions, "Two things at once")(lambda T, d: table(T, d, start=1, base=1000))
written(lecture_07.sinusoidal_positions, {
    "2i twice": ("Your waves slow down twice as fast", lambda T, d: torch.where(
        torch.arange(d) % 2 == 0, torch.sin(torch.arange(T)[:, None] / 10000 ** (2 * torch.arange(d) / d)),
        torch.cos(torch.arange(T)[:, None] / 10000 ** (2 * torch.arange(d) / d)))),
    "own exponent": ("an exponent of their own", lambda T, d: torch.where(
        torch.arange(d) % 2 == 0, torch.sin(torch.arange(T)[:, None] / 10000 ** (torch.arange(d) / d)),
        torch.cos(torch.arange(T)[:, None] / 10000 ** (torch.arange(d) / d)))),
    "1000": ("yours is 1000", lambda T, d: table(T, d, base=1000)),
    "half": ("half as large", lambda T, d: table(T, d, exponent=lambda i, d: i / 2 / d)),
    "sign": ("grow from pair to pair", lambda T, d: table(T, d, exponent=lambda i, d: -i / d)),
    "from 1": ("count from 1", lambda T, d: table(T, d, start=1)),
    "cosine first": ("even columns are cosines", lambda T, d: table(T, d, first=torch.cos, second=torch.sin)),
    "odd d": ("your cosines don't fit", as_many),
    "all sines": ("All your columns are sines", lambda T, d: table(T, d, second=torch.sin)),
    "halves": ("they alternate", lambda T, d: torch.cat([table(T, d)[:, 0::2], table(T, d)[:, 1::2]], 1)),
    "batch": ("(1, T, d)", lambda T, d: table(T, d).unsqueeze(0)),
})

# ---- embed ----------------------------------------------------------------------------------------------------------


@right(lecture_07.embed)
def by_torchs_function(tokens, E, P):
    places = torch.arange(tokens.size(1)).expand_as(tokens)
    return F.embedding(tokens, E) * E.size(-1) ** 0.5 + F.embedding(places, P)


@right(lecture_07.embed)
def by_one_hot(tokens, E, P):
    return F.one_hot(tokens, len(E)).to(E) @ (E * math.sqrt(E.shape[1])) + P[None, :tokens.shape[1]]


@right(lecture_07.embed)
def in_a_loop(tokens, E, P):
    return torch.stack([torch.stack([E[i] * P.shape[1]**0.5 + P[t] for t, i in enumerate(row)]) for row in tokens])


@right(lecture_07.embed)
def a_copy_is_changed(tokens, E, P):
    x = E[tokens]
    x *= math.sqrt(x.shape[-1])
    x += P[:x.shape[1]]
    return x


wrong(lecture_07.embed, "did you forget `return`")(lambda tokens, E, P: None)
wrong(lecture_07.embed, "stay in torch")(lambda *a: embed(*a).numpy())
wrong(lecture_07.embed, "√d = 2")(lambda *a: embed(*a) ** 3)
wrong(lecture_07.embed, "changes its argument `tokens`")(lambda t, E, P: (embed(t, E, P), t.add_(1))[0])
wrong(lecture_07.embed, "stopped with RuntimeError")(lambda t, E, P: t @ E)
wrong(lecture_07.embed, "`x` should be a torch tensor of shape (2, 3, 6)")(lambda t, E, P: embed(t, E, P)[:, 0])
wrong(lecture_07.embed, "Two things at once")(lambda t, E, P: E[t] + P[t.shape[1]])
written(lecture_07.embed, {
    "no root": ("the factor is missing", lambda t, E, P: F.embedding(t, E) + P[:t.shape[1]]),
    "d": ("the root is missing", lambda t, E, P: E[t] * E.shape[1] + P[:t.shape[1]]),
    "V": ("the vocabulary's size", lambda t, E, P: E[t] * math.sqrt(E.shape[0]) + P[:t.shape[1]]),
    "divided": ("You divide by √d", lambda t, E, P: E[t] / math.sqrt(E.shape[1]) + P[:t.shape[1]]),
    "sum scaled": ("and so the positions as well", lambda t, E, P: (E[t] + P[:t.shape[1]]) * math.sqrt(E.shape[1])),
    "no colon": ("with the colon", lambda t, E, P: E[t] * E.shape[1]**0.5 + P[t.shape[1]]),
    "batch": ("along the batch", lambda t, E, P: E[t] * E.shape[1]**0.5 + P[:t.shape[0]].unsqueeze(1)),
    "ids": ("by the tokens' ids", lambda t, E, P: E[t] * E.shape[1]**0.5 + P[t]),
    "no places": ("P has no effect", lambda t, E, P: E[t] * E.shape[1]**0.5),
    "all of P": ("You add the whole table P", lambda t, E, P: E[t] * E.shape[1]**0.5 + P),
    "joined": ("the width stays d", lambda t, E, P: torch.cat(
        [E[t] * E.shape[1]**0.5, P[:t.shape[1]].repeat(len(t), 1, 1)], -1)),
    "in place": ("you change E in place", lambda t, E, P: E.mul_(E.shape[1]**0.5)[t] + P[:t.shape[1]]),
})

# ---- layer_norm -----------------------------------------------------------------------------------------------------


@right(lecture_07.layer_norm)
def by_second_moments(x, gamma, beta, eps):
    mean = x.mean(-1, keepdim=True)
    return gamma * (x - mean) / torch.sqrt((x * x).mean(-1, keepdim=True) - mean**2 + eps) + beta


@right(lecture_07.layer_norm)
def by_var(x, gamma, beta, eps):
    var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(beta, (x - mean) * torch.rsqrt(var + eps), gamma)


@right(lecture_07.layer_norm)
def by_torchs_function_itself(x, gamma, beta, eps):
    return F.layer_norm(x, gamma.shape, gamma, beta, eps)


@right(lecture_07.layer_norm)
def from_the_unbiased_variance(x, gamma, beta, eps):
    d = x.shape[-1]
    return (x - x.mean(-1)[..., None]) / (x.var(-1)[..., None] * (d - 1) / d + eps) ** 0.5 * gamma + beta


@right(lecture_07.layer_norm)
def vector_by_vector(x, gamma, beta, eps):
    rows = [gamma * (v - v.sum() / len(v)) / math.sqrt(((v - v.mean())**2).sum() / len(v) + eps) + beta
            for v in x.reshape(-1, x.shape[-1])]
    return torch.stack(rows).view(x.shape)


wrong(lecture_07.layer_norm, "did you forget `return`")(lambda *a: None)
wrong(lecture_07.layer_norm, "stay in torch")(lambda *a: norm(*a).numpy())
wrong(lecture_07.layer_norm, "the mean is 1/4")(lambda *a: norm(*a) ** 3)
wrong(lecture_07.layer_norm, "opposite sign")(lambda *a: -norm(*a))
wrong(lecture_07.layer_norm, "changes its argument `gamma`")(lambda x, g, *a: (norm(x, g, *a), g.mul_(2))[0])
wrong(lecture_07.layer_norm, "stopped with TypeError")(lambda x, g, b, eps: math.sqrt(x))
wrong(lecture_07.layer_norm, "Two things at once")(
    lambda x, g, b, eps: b * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True)**2 + eps)**0.5 + g)
written(lecture_07.layer_norm, {
    "std": ("and eps is added to the variance", lambda x, g, b, eps: g * (x - x.mean(-1, keepdim=True)) / (
        x.std(-1, keepdim=True) + eps) + b),
    "var": ("divide the sum of squares by d - 1", lambda x, g, b, eps: g * (x - x.mean(-1, keepdim=True)) / (
        x.var(-1, keepdim=True) + eps).sqrt() + b),
    "eps": ("eps belongs inside the root", lambda x, g, b, eps: g * (x - x.mean(-1, keepdim=True)) / (
        x.std(-1, keepdim=True, unbiased=False) + eps) + b),
    "no root": ("You divide by the variance", lambda x, g, b, eps: g * (x - x.mean(-1, keepdim=True)) / (
        x.var(-1, keepdim=True, correction=0) + eps) + b),
    "batch": ("which is batch norm", lambda x, g, b, eps: g * (x - x.mean(0)) / (
        x.var(0, correction=0) + eps).sqrt() + b),
    "keepdim": ("Keep the axis", lambda x, g, b, eps: g * (x - x.mean(dim=-1)) / (
        x.var(dim=-1, correction=0) + eps).sqrt() + b),
    "everything": ("the whole array", lambda x, g, b, eps: g * (x - x.mean()) / (x.var(correction=0) + eps).sqrt() + b),
    "no affine": ("gamma and beta have no effect", lambda x, g, b, eps: F.layer_norm(x, g.shape, eps=eps)),
    "RMS": ("that is RMSNorm", lambda x, g, b, eps: g * x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() + b),
    "fixed eps": ("an eps of your own", lambda x, g, b, eps: F.layer_norm(x, g.shape, g, b)),
    "in place": ("you change x in place", lambda x, g, b, e: F.layer_norm(x.sub_(x.mean(-1, True)), g.shape, g, b, e)),
})

# ---- encoder_block --------------------------------------------------------------------------------------------------


def looks(z, p, n_heads, mask):
    return attend(z, p["Wq"], p["Wk"], p["Wv"], p["Wo"], n_heads, mask)


def thinks(z, p, act=F.relu):
    return F.linear(act(F.linear(z, p["W1"].T, p["c1"])), p["W2"].T, p["c2"])


def ln(x, p, i):
    return norm(x, p[f"g{i}"], p[f"b{i}"], 1e-5)


@right(lecture_07.encoder_block)
def from_the_other_exercises(x, p, n_heads, mask=None, p_drop=0.0, training=False):
    x = x + F.dropout(looks(ln(x, p, 1), p, n_heads, mask), p_drop, training)
    return x + F.dropout(thinks(ln(x, p, 2), p), p_drop, training)


@right(lecture_07.encoder_block)
def with_modules(x, p, n_heads, mask=None, p_drop=0.0, training=False):
    drop = torch.nn.Dropout(p_drop).train(training)
    y = x.clone()
    y += drop(looks(F.layer_norm(x, x.shape[-1:], p["g1"], p["b1"]), p, n_heads, mask))
    return y + drop(thinks(F.layer_norm(y, x.shape[-1:], p["g2"], p["b2"]), p, lambda z: z.clamp(min=0)))


@right(lecture_07.encoder_block)
def dropout_by_hand(x, p, n_heads, mask=None, p_drop=0.0, training=False):
    def drop(y):
        if not training or p_drop == 0:
            return y
        return y * (torch.rand_like(y) >= p_drop) / max(1 - p_drop, 1e-12)

    P = dict(p)
    for i, f in ((1, lambda z: looks(z, P, n_heads, mask)), (2, lambda z: thinks(z, P))):
        x = x + drop(f(ln(x, P, i)))
    return x


def written_out(x, p, n_heads, mask=None, p_drop=0.0, training=False, *, first=lambda x, f, n: x + f(n(x)),
                second=lambda x, f, n: x + f(n(x)), act=F.relu, drop=F.dropout):
    x = first(x, lambda z: drop(looks(z, p, n_heads, mask), p_drop, training), lambda z: ln(z, p, 1))
    return second(x, lambda z: drop(thinks(z, p, act), p_drop, training), lambda z: ln(z, p, 2))


def with_a(**change):
    return lambda x, p, n_heads, mask=None, p_drop=0.0, training=False: written_out(
        x, p, n_heads, mask, p_drop, training, **change)


def both(combine):
    return with_a(first=combine, second=combine)


def overwritten(x, f, n):
    x = n(x)
    return x + f(x)


def not_dropped(y, p_drop, training):
    return y


wrong(lecture_07.encoder_block, "did you forget `return`")(lambda *a: None)
wrong(lecture_07.encoder_block, "stay in torch")(lambda *a: block(*a).numpy())
wrong(lecture_07.encoder_block, "the hidden unit is relu(-1 + 2 + 0.5)")(lambda *a: block(*a) ** 3)
wrong(lecture_07.encoder_block, "KeyError", "'W1' (12, 7)")(lambda x, p, *a: p["W3"])
wrong(lecture_07.encoder_block, "changes its argument `x`")(lambda x, *a: (block(x, *a), x.mul_(2))[0])
wrong(lecture_07.encoder_block, "stopped with RuntimeError")(lambda x, p, *a: x @ p["W2"])
wrong(lecture_07.encoder_block, "Two things at once", "Nothing is ever dropped")(
    with_a(drop=not_dropped, first=overwritten, second=overwritten))
wrong(lecture_07.encoder_block, "post-LN")(with_a(drop=not_dropped, first=lambda x, f, n: n(x + f(x)),
                                                  second=lambda x, f, n: n(x + f(x))))
written(lecture_07.encoder_block, {
    "post-LN": ("This is post-LN", both(lambda x, f, n: n(x + f(x)))),
    "norm of the branch": ("x + LN(f(x))", both(lambda x, f, n: x + n(f(x)))),
    "overwritten": ("is x overwritten by its norm", both(overwritten)),
    "parenthesis": ("A parenthesis is in the wrong place", both(lambda x, f, n: f(n(x) + x))),
    "no skip": ("has no skip connection", both(lambda x, f, n: f(n(x)))),
    "no second norm": ("The second norm is missing", with_a(second=lambda x, f, n: x + f(x))),
    "doubled": ("the old x is gone", both(lambda x, f, n: f(n(x)) + f(n(x)))),
    "gelu": ("uses GELU", with_a(act=F.gelu)),
    "no relu": ("one linear map", with_a(act=lambda z: z)),
    "no dropout": ("Nothing is ever dropped", with_a(drop=not_dropped)),
    "always dropout": ("hand `training` on", with_a(drop=lambda y, p_drop, training: F.dropout(y, p_drop))),
    "side by side": ("stand side by side", lambda x, p, n, mask=None, p_drop=0.0, training=False: x + F.dropout(
        looks(ln(x, p, 1), p, n, mask), p_drop, training) + F.dropout(thinks(ln(x, p, 2), p), p_drop, training)),
    "no mask": ("with and without a mask", lambda x, p, n, mask=None, *a: block(x, p, n, None, *a)),
    "final norm": ("You normalize the result", lambda *a: F.layer_norm(block(*a), a[0].shape[-1:], eps=1e-5)),
    "in place": ("you change x in place", lambda x, *a: x.copy_(block(x, *a))),
})

# ---- cached_step ----------------------------------------------------------------------------------------------------


@right(lecture_07.cached_step)
def a_buffer_of_fixed_size(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    B, n, D = e.shape
    shape = B, n_heads, len(P), D // n_heads
    k, v, past = cache or (e.new_zeros(shape), e.new_zeros(shape), 0)
    return _filled(e, k, v, past, Wq, Wk, Wv, Wo, n_heads, P)


def _filled(e, k, v, past, Wq, Wk, Wv, Wo, n_heads, P):
    end = past + e.shape[1]
    x = e + P[past:end]
    k[:, :, past:end], v[:, :, past:end] = split(x @ Wk, n_heads), split(x @ Wv, n_heads)
    mask = torch.ones(e.shape[1], end, dtype=torch.bool).tril(past)
    y = F.scaled_dot_product_attention(split(x @ Wq, n_heads), k[:, :, :end], v[:, :, :end], mask)
    return merge(y) @ Wo, (k, v, end)


@right(lecture_07.cached_step)
def tokens_are_cached(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    """Slower, and right: all is computed anew from the tokens."""
    everything = e if cache is None else torch.cat([cache, e], 1)
    T = everything.shape[1]
    y = attend(everything + P[:T], Wq, Wk, Wv, Wo, n_heads, torch.ones(T, T).tril().bool())
    return y[:, T - e.shape[1]:], everything


@right(lecture_07.cached_step)
def a_dictionary_and_one_token_at_a_time(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    cache = cache or {"k": [], "v": []}
    outputs = []
    for token in e.unbind(1):
        x = token + P[len(cache["k"])]
        q, k, v = ((x @ W).view(len(x), n_heads, 1, -1) for W in (Wq, Wk, Wv))
        cache["k"].append(k)
        cache["v"].append(v)
        y = F.scaled_dot_product_attention(q, torch.cat(cache["k"], 2), torch.cat(cache["v"], 2))
        outputs.append(y.flatten(1) @ Wo)
    return torch.stack(outputs, 1), cache


@right(lecture_07.cached_step)
def as_a_list(*arguments):
    y, cache = step(*arguments)
    return [y, list(cache)]


def usual(e, cache, Wq, Wk, Wv, Wo, n_heads, P, *, place=lambda past, n: slice(past, past + n),
          mask=lambda n, S: torch.ones(n, S).tril(S - n).bool(), order=lambda old, new: [old, new], dim=2,
          keep=lambda old, new, k, v: (k, v)):
    past, n = 0 if cache is None else cache[0].size(2), e.size(1)
    x = e + P[place(past, n)]
    q, k, v = split(x @ Wq, n_heads), split(x @ Wk, n_heads), split(x @ Wv, n_heads)
    new = k, v
    if cache is not None:
        k, v = torch.cat(order(cache[0], k), dim), torch.cat(order(cache[1], v), dim)
    return merge(F.scaled_dot_product_attention(q, k, v, mask(n, k.size(2)))) @ Wo, keep(cache, new, k, v)


def cached_with(**change):
    return lambda e, cache, Wq, Wk, Wv, Wo, n_heads, P: usual(e, cache, Wq, Wk, Wv, Wo, n_heads, P, **change)


wrong(lecture_07.cached_step, "did you forget `return`")(lambda *a: None)
wrong(lecture_07.cached_step, "AttributeError")(lambda *a: (step(*a)[0].nothing, 0))
wrong(lecture_07.cached_step, "the output 2.9951")(lambda *a: (step(*a)[0] ** 3, step(*a)[1]))
wrong(lecture_07.cached_step, "opposite sign")(lambda *a: (-step(*a)[0], step(*a)[1]))
wrong(lecture_07.cached_step, "changes its argument `P`")(lambda *a: (step(*a), a[-1][-1].mul_(2))[0])
wrong(lecture_07.cached_step, "does not depend on `Wk`")(lambda e, cache, Wq, Wk, *a: step(e, cache, Wq, Wq.T, *a))
wrong(lecture_07.cached_step, "keep the signature of the stub")(lambda e, cache: e)
wrong(lecture_07.cached_step, "Two things at once")(cached_with(
    place=lambda past, n: slice(0, n), mask=lambda n, S: torch.ones(n, S).bool()))
written(lecture_07.cached_step, {
    "place 0": ("start from 0 again", cached_with(place=lambda past, n: slice(0, n))),
    "place past + 1": ("places count from 0", cached_with(
        place=lambda past, n: slice(past + (past > 0), past + (past > 0) + n))),
    "is_causal": ("aligned at the top left", cached_with(mask=lambda n, S: torch.ones(n, S).tril().bool())),
    "no mask": ("the earlier ones see the later ones", cached_with(mask=lambda n, S: torch.ones(n, S).bool())),
    "in front": ("They go behind", cached_with(order=lambda old, new: [new, old])),
    "dim 1": ("as if they were more heads", cached_with(dim=1)),
    "old cache": ("stays as it was after the first call", cached_with(keep=lambda old, new, k, v: old or new)),
    "new alone": ("only what the last call added", cached_with(keep=lambda old, new, k, v: new)),
    "exchanged": ("You return the cache as (v, k)", cached_with(keep=lambda old, new, k, v: (v, k))),
    "twice": ("every token twice", lambda e, cache, Wq, Wk, Wv, Wo, n, P: usual(
        e, cache, Wq, Wk, Wv, Wo, n, P, place=lambda past, m: slice(past // 2, past // 2 + m),
        keep=lambda old, new, k, v: (torch.cat([k, new[0]], 2), torch.cat([v, new[1]], 2)))),
    "y alone": ("You return y alone", lambda *a: step(*a)[0]),
    "no cache": ("every call starts a new sentence", lambda e, cache, *a: step(e, None, *a)),
    "in place": ("you change e in place", lambda e, cache, *a: step(
        e.add_(a[-1][:e.shape[1]] if cache is None else a[-1][cache[0].shape[2]:][:e.shape[1]]), cache, *a[:-1],
        torch.zeros_like(a[-1]))),
})


# ---- more mistakes ------------------------------------------------------------------------------------------------

written(lecture_07.sinusoidal_positions, {
    "2i doubled": ("`torch.arange(0, d, 2)` is 2i already", lambda T, d: table(T, d, base=10_000**2)),
    "short table": ("one column too few", lambda T, d: sinusoids(T, d)[:, :d // 2 * 2]),
    "zeros left": ("last column stays zero", lambda T, d: F.pad(sinusoids(T, d)[:, :d // 2 * 2], (0, d % 2))),
})
written(lecture_07.embed, {
    "len": ("as many rows of P as there are sentences", lambda t, E, P: E[t] * E.shape[1]**0.5 + P[:len(t)]),
    "pads zero": ("the vectors of token 0", lambda t, E, P: embed(t, E, P) * (t != 0)[..., None]),
})
written(lecture_07.layer_norm, {
    "dim=-2": ("the tokens, axis -2", lambda x, g, b, eps: g * (x - x.mean(-2, keepdim=True)) / (
        x.var(-2, keepdim=True, correction=0) + eps).sqrt() + b),
    "dim=2": ("only if x has three axes", lambda x, g, b, eps: g * (x - x.mean(2, keepdim=True)) / (
        x.var(2, keepdim=True, correction=0) + eps).sqrt() + b),
    "two roots": ("√variance + √eps", lambda x, g, b, eps: g * (x - x.mean(-1, keepdim=True)) / (
        x.std(-1, keepdim=True, correction=0) + eps**0.5) + b),
    "precedence": ("a quotient binds", lambda x, g, b, eps: g * x - x.mean(-1, keepdim=True) / (
        x.var(-1, keepdim=True, correction=0) + eps).sqrt() + b),
})


def dropped_inside(x, p, n_heads, mask=None, p_drop=0.0, training=False):
    return written_out(x, p, n_heads, mask, p_drop, training, act=lambda z: F.dropout(F.relu(z), p_drop, training))


def drawn(shape=lambda y: y.shape, factor=lambda p_drop: 1 / (1 - p_drop) if p_drop < 1 else 0.0):
    return lambda y, p_drop, training: y * (torch.rand(shape(y)) >= p_drop) * factor(p_drop) if training else y


right(lecture_07.encoder_block)(with_a(drop=drawn()))
wrong(lecture_07.encoder_block, "must be divided by 1 - p_drop")(with_a(drop=drawn(factor=lambda p_drop: 1.0)))
wrong(lecture_07.encoder_block, "you divide by p_drop")(with_a(drop=drawn(factor=lambda p_drop: 1 / (p_drop or 1))))
wrong(lecture_07.encoder_block, "in more places than these two")(dropped_inside)
wrong(lecture_07.encoder_block, "draws once for several numbers")(with_a(drop=drawn(lambda y: (*y.shape[:2], 1))))
wrong(lecture_07.encoder_block, "draws once for several numbers")(with_a(drop=drawn(lambda y: y.shape[1:])))
wrong(lecture_07.encoder_block, "keeps 100% of what attention found")(
    with_a(drop=lambda y, p_drop, training: y * (1 / (1 - p_drop) if p_drop < 1 else 0.0) if training else y))
written(lecture_07.encoder_block, {
    "softmax over queries": ("runs over the queries", lambda x, p, n, mask=None, *a: with_queries(x, p, n, mask, *a)),
})


def with_queries(x, p, n, mask, p_drop, training):
    z = F.layer_norm(x, x.shape[-1:], p["g1"], p["b1"])
    q, k, v = ((z @ p[name]).unflatten(-1, (n, -1)).transpose(1, 2) for name in ("Wq", "Wk", "Wv"))
    scores = q @ k.mT / q.shape[-1]**0.5
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    x = x + F.dropout((torch.softmax(scores, 2) @ v).transpose(1, 2).flatten(2) @ p["Wo"], p_drop, training)
    z = F.layer_norm(x, x.shape[-1:], p["g2"], p["b2"])
    return x + F.dropout(torch.relu(z @ p["W1"] + p["c1"]) @ p["W2"] + p["c2"], p_drop, training)


written(lecture_07.cached_step, {
    "None": ("cache is None: nothing came before", lambda e, cache, *a: step(e, (cache[0], cache[1]), *a)),
    "skip connection": ("You add e to the output", lambda e, *a: (lambda y, cache: (y + e, cache))(*step(e, *a))),
})


# ---- tests ----------------------------------------------------------------------------------------------------------


(
    test_right_but_unusual_answers_pass,
    test_wrong_answers_in_no_list_get_a_useful_sentence,
    test_what_students_write_gets_the_hint_about_it,
    test_every_exercise_has_enough_of_each,
) = ANSWERS.tests(EXERCISES)


def test_the_usual_answers_are_right_where_nothing_is_changed():
    passes(lecture_07.encoder_block, written_out)
    passes(lecture_07.cached_step, usual)
