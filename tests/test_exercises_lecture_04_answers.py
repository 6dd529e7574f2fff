"""Answers to lecture 4's exercises: unusual right ones pass, wrong ones get a sentence of use, in a list or not."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from answers import Answers, exercises_of
from course_utils.exercises import lecture_04

ANSWERS = Answers()  # the wrong ones are in no list
right, wrong, written = ANSWERS.right, ANSWERS.wrong, ANSWERS.written
EXERCISES = exercises_of(lecture_04)
ex_softmax, ex_additive, ex_decoder, ex_self = EXERCISES
softmax, additive, decoder, attend_to_self = (e.reference for e in EXERCISES)
inf = float("inf")


# ---- softmax --------------------------------------------------------------------------------------------------------


@right(ex_softmax)
def by_logarithms(x, axis):
    m = np.max(x, axis, keepdims=True)
    return np.exp(x - (m + np.log(np.sum(np.exp(x - m), axis, keepdims=True))))


@right(ex_softmax)
def last_axis_in_front(x, axis):
    rows = np.moveaxis(x, axis, 0)
    e = np.exp(rows - rows.max(axis=0))
    return np.moveaxis(e / e.sum(axis=0), 0, axis)


@right(ex_softmax)
def slice_by_slice(x, axis):
    def one(row):
        e = [math.exp(score - max(row)) for score in row]
        return [value / sum(e) for value in e]
    return np.apply_along_axis(one, axis, x)


@right(ex_softmax)
def with_epsilon(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / (e.sum(axis=axis, keepdims=True) + 1e-12)


wrong(ex_softmax, "stay in NumPy")(lambda x, axis: torch.softmax(torch.tensor(x), axis))
wrong(ex_softmax, "all zero")(lambda x, axis: 0 * x)
wrong(ex_softmax, "does not depend on `x`")(lambda x, axis: np.ones_like(x) / x.shape[axis])
wrong(ex_softmax, "should be a NumPy array of shape (3, 4)")(lambda x, axis: softmax(x, axis)[:2])
wrong(ex_softmax, "0.125 0.25 0.625")(lambda x, axis: softmax(0.5 * x, axis))
wrong(ex_softmax, "the square root")(lambda x, axis: np.sqrt(softmax(x, axis)))
wrong(ex_softmax, "should be a NumPy array")(lambda x, axis: softmax(x, axis).tolist())


def subtracted_in_place(x, axis):
    x -= x.max(axis=axis, keepdims=True)
    return softmax(x, axis)


wrong(ex_softmax, "values are right, but your function changes its argument `x`")(subtracted_in_place)
written(ex_softmax, {
    "plain": ("overflow", lambda x, axis: np.exp(x) / np.sum(np.exp(x), axis, keepdims=True)),
    "no keepdims": ("keeps an axis of length 1", lambda x, axis: np.exp(x) / np.sum(np.exp(x), axis=axis)),
    "no keepdims, shifted": ("keeps an axis of length 1", lambda x, axis: (
        lambda e: e / e.sum(axis))(np.exp(x - np.max(x, axis, keepdims=True)))),
    "np.max alone": ("maximum of each slice", lambda x, axis: (
        lambda e: e / e.sum(axis, keepdims=True))(np.exp(x - np.max(x)))),
    "whole sum": ("Your whole array sums to 1", lambda x, axis: np.exp(x - x.max()) / np.exp(x - x.max()).sum()),
    "axis 1": ("whatever `axis` is", lambda x, axis: softmax(x, -1)),
    "axis 0": ("whatever `axis` is", lambda x, axis: softmax(x, 0)),
    "log": ("log-softmax", lambda x, axis: np.log(softmax(x, axis))),
    "upside down": ("the smallest probability", lambda x, axis: softmax(-x, axis)),
    "no exp": ("no exponential", lambda x, axis: x / x.sum(axis=axis, keepdims=True)),
    "one-sided shift": ("only one of them is shifted", lambda x, axis: np.exp(
        x - x.max(axis, keepdims=True)) / np.exp(x).sum(axis, keepdims=True)),
    "epsilon": ("the sum is at least 1", lambda x, axis: (lambda e: e / (e.sum(axis, keepdims=True) + 1e-6))(
        np.exp(x - x.max(axis, keepdims=True)))),
    "matrices only": ("right for matrices only", lambda x, axis: softmax(x, 0) if axis == 0 else softmax(
        x, 1 if x.ndim > 1 else 0)),
    "absolute maximum": ("largest absolute value", lambda x, axis: (lambda e: e / e.sum(axis, keepdims=True))(
        np.exp(x - np.abs(x).max(axis, keepdims=True)))),
    "sum of the rows": ("your sums don't", lambda x, axis: (lambda e: e / e.sum(-1, keepdims=True))(
        np.exp(x - x.max(axis, keepdims=True)))),
    "sigmoid": ("a sigmoid of its own", lambda x, axis: np.where(x < 0, np.exp(np.minimum(x, 0)), 1) / (
        1 + np.exp(-np.abs(x)))),
    "argmax": ("place of the largest", lambda x, axis: np.argmax(x, axis)),
    "unnormalized": ("The largest entry", lambda x, axis: np.exp(x - x.max(axis, keepdims=True))),
})

# ---- additive_attention ---------------------------------------------------------------------------------------------


@right(ex_additive)
def batched_products(query, keys, W1, W2, v, mask):
    scores = torch.matmul(torch.tanh(F.linear(query, W1)[:, None, :] + F.linear(keys, W2)), v[:, None]).squeeze(-1)
    weights = F.softmax(scores.masked_fill(mask.logical_not(), -1e9), dim=1)
    return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


@right(ex_additive)
def renormalized(query, keys, W1, W2, v, mask):
    weights = torch.softmax(torch.tanh((query @ W1.T).unsqueeze(1) + keys @ W2.T) @ v, dim=-1) * mask
    weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)
    return torch.einsum("bs,bsd->bd", weights, keys), weights


@right(ex_additive)
def one_key_after_another(query, keys, W1, W2, v, mask):
    contexts, weights = [], []
    for q, row, real in zip(query, keys, mask, strict=True):
        scores = torch.stack([v @ torch.tanh(W1 @ q + W2 @ key) for key in row])
        scores[~real] = -inf
        weights.append(torch.softmax(scores, 0))
        contexts.append(weights[-1] @ row)
    return torch.stack(contexts), torch.stack(weights)


@right(ex_additive)
def single_precision(*arguments):
    *floats, mask = arguments
    return additive(*(x.float() for x in floats), mask)


def scored(score=lambda q, k, W1, W2, v: torch.tanh((q @ W1.T).unsqueeze(1) + k @ W2.T) @ v, hide=-inf,
           weigh=lambda e, mask: torch.softmax(e, -1), mix=lambda w, k: torch.einsum("bs,bsd->bd", w, k)):
    def answer(query, keys, W1, W2, v, mask):
        e = score(query, keys, W1, W2, v)
        w = weigh(e if hide is None else torch.where(mask, e, torch.full_like(e, hide)), mask)
        return mix(w, keys), w
    return answer


wrong(ex_additive, "Expected 2 values (context, weights)")(lambda *a: additive(*a)[1])
wrong(ex_additive, "An axis of length 1")(lambda *a: (additive(*a)[0], additive(*a)[1][..., None]))
wrong(ex_additive, "An axis of length 1")(lambda *a: (additive(*a)[0][:, None], additive(*a)[1]))
wrong(ex_additive, "stay in torch")(lambda *a: tuple(x.detach().numpy() for x in additive(*a)))
wrong(ex_additive, "doesn't reach `query`")(lambda *a: tuple(x.detach() for x in additive(*a)))
wrong(ex_additive, "`weights` is right; `context` is not")(lambda *a: (additive(*a)[0] + 0.5, additive(*a)[1]))
wrong(ex_additive, "0.1270 · (-2) + 0.8730 · 2")(scored(
    score=lambda q, k, W1, W2, v: 1.7 * torch.tanh((q @ W1.T).unsqueeze(1) + k @ W2.T) @ v))
wrong(ex_additive, "Compare the shapes on both sides of `@`")(lambda q, k, W1, W2, v, mask: (q @ W1.T @ W2.T, v))
written(ex_additive, {
    "batch": ("Your columns sum to 1", scored(weigh=lambda e, mask: e.softmax(0))),
    "batch, finite": ("Your columns sum to 1", scored(hide=-1e30, weigh=lambda e, mask: e.softmax(0))),
    "hidden the wrong way round, NaN to 0": ("mask is True for real tokens", scored(
        hide=None, weigh=lambda e, mask: e.masked_fill(mask, -inf).softmax(-1).nan_to_num(0.0))),
    "0 times infinity": ("0 · inf is NaN", scored(
        hide=None, weigh=lambda e, mask: (e + (1 - mask.double()) * -inf).softmax(-1))),
    "first mask": ("mask of row 0", lambda q, k, W1, W2, v, mask: additive(q, k, W1, W2, v, mask[0].expand_as(mask))),
    "lengths": ("keep that many from the start", lambda q, k, W1, W2, v, mask: additive(
        q, k, W1, W2, v, mask.sort(dim=1, descending=True)[0])),
    "copies in turn": ("`repeat` goes through the whole batch", scored(lambda q, k, W1, W2, v: torch.tanh(
        (q.repeat(k.shape[1], 1).reshape(k.shape) @ W1.T) + k @ W2.T) @ v)),
    "masked scores": ("what you return with it are the scores", lambda q, k, W1, W2, v, mask: (
        additive(q, k, W1, W2, v, mask)[0],
        (torch.tanh((q @ W1.T)[:, None] + k @ W2.T) @ v).masked_fill(~mask, -inf))),
    "unmasked": ("how far its batch was padded", scored(hide=None)),
    "zeros": ("exp(0) = 1", scored(hide=0.0)),
    "typo": ("-1e-9", scored(hide=-1e-9)),
    "hidden the wrong way round": ("mask is True for real tokens", lambda *a: additive(*a[:-1], ~a[-1])),
    "after": ("less than 1", scored(hide=None, weigh=lambda e, mask: e.softmax(-1) * mask)),
    "relu": ("relu where the formula has tanh", scored(
        lambda q, k, W1, W2, v: F.relu((q @ W1.T).unsqueeze(1) + k @ W2.T) @ v)),
    "linear": ("without tanh it adds", scored(lambda q, k, W1, W2, v: ((q @ W1.T).unsqueeze(1) + k @ W2.T) @ v)),
    "outside": ("Your scores are squeezed", scored(
        lambda q, k, W1, W2, v: torch.tanh(((q @ W1.T).unsqueeze(1) + k @ W2.T) @ v))),
    "exchanged": ("W1 belongs to the query", lambda q, k, W1, W2, v, mask: additive(q, k, W2, W1, v, mask)),
    "W2 twice": ("W1 never", lambda q, k, W1, W2, v, mask: additive(q, k, W2, W2, v, mask)),
    "no v": ("v is never used", scored(
        lambda q, k, W1, W2, v: torch.tanh((q @ W1.T).unsqueeze(1) + k @ W2.T).sum(2))),
    "no axis": ("`unsqueeze(1)` makes it", scored(lambda q, k, W1, W2, v: torch.tanh(q @ W1.T + k @ W2.T) @ v)),
    "singleton": ("every weight is exactly 1", scored(
        hide=None, weigh=lambda e, mask: e[..., None].softmax(-1)[..., 0])),
    "features": ("sum over the features", scored(mix=lambda w, k: (w[..., None] * k).sum(-1))),
    "mean": ("divides by S once too often", scored(mix=lambda w, k: (w[..., None] * k).mean(1))),
    "plain mean": ("plain mean of the keys", scored(mix=lambda w, k: k.mean(1))),
    "dot": ("dot product of query and key", scored(lambda q, k, W1, W2, v: torch.einsum("bd,bsd->bs", q, k))),
    "two at once": ("Two things at once", scored(
        lambda q, k, W1, W2, v: F.relu((q @ W1.T).unsqueeze(1) + k @ W2.T) @ v, hide=None)),
})

# ---- attention_decoder ----------------------------------------------------------------------------------------------


def looking(query=lambda y, s, s0: s, cell=lambda y, s, c, P: torch.tanh(y @ P["Wy"] + s @ P["Ws"] + c @ P["Wc"]),
            attend=additive, returned=lambda states, s0: torch.stack(states, 1)):
    def answer(ys, s0, keys, mask, P):
        s, states = s0, []
        for t in range(ys.size(1)):
            context, _ = attend(query(ys[:, t], s, s0), keys, P["W1"], P["W2"], P["v"], mask)
            s = cell(ys[:, t], s, context, P)
            states.append(s)
        return returned(states, s0)
    return answer


right(ex_decoder)(looking())


@right(ex_decoder)
def preallocated(ys, s0, keys, mask, P):
    out = torch.zeros_like(ys)
    for t in range(ys.shape[1]):
        before = s0 if t == 0 else out[:, t - 1].clone()
        context = additive(before, keys, P["W1"], P["W2"], P["v"], mask)[0]
        out[:, t] = torch.cat([ys[:, t], before, context], 1).matmul(torch.cat([P["Wy"], P["Ws"], P["Wc"]])).tanh()
    return out


@right(ex_decoder)
def recursive(ys, s0, keys, mask, P):
    W1, W2, v, Wy, Ws, Wc = (P[name] for name in ("W1", "W2", "v", "Wy", "Ws", "Wc"))
    context, _ = additive(s0, keys, W1, W2, v, mask)
    s = torch.tanh(ys[:, 0] @ Wy + s0 @ Ws + context @ Wc)
    rest = [recursive(ys[:, 1:], s, keys, mask, P)] if ys.shape[1] > 1 else []
    return torch.cat([s[:, None], *rest], dim=1)


@right(ex_decoder)
def weights_as_keywords(ys, s0, keys, mask, P):
    return looking()(ys, s0, keys, mask, dict(**P))


def asks_later(ys, s0, keys, mask, P):
    s, states = s0, []
    for y in ys.unbind(1):
        new = torch.tanh(y @ P["Wy"] + s @ P["Ws"])
        context, _ = additive(new, keys, P["W1"], P["W2"], P["v"], mask)
        s = torch.tanh(y @ P["Wy"] + s @ P["Ws"] + context @ P["Wc"])
        states.append(s)
    return torch.stack(states, 1)


def steps_of_the_batch(ys, s0, keys, mask, P):
    s, states = s0, []
    for t in range(len(ys)):
        context, _ = additive(s, keys, P["W1"], P["W2"], P["v"], mask)
        s = torch.tanh(ys[:, t] @ P["Wy"] + s @ P["Ws"] + context @ P["Wc"])
        states.append(s)
    return torch.stack(states, 1)


def asks_once(ys, s0, keys, mask, P):
    context, _ = additive(s0, keys, P["W1"], P["W2"], P["v"], mask)
    return looking(attend=lambda *a: (context, None))(ys, s0, keys, mask, P)


wrong(ex_decoder, "Join the rows of a list with `torch.stack(...)`")(looking(returned=lambda states, s0: states))
wrong(ex_decoder, "stay in torch")(lambda *a: decoder(*a).detach().numpy())
wrong(ex_decoder, "doesn't reach `ys`")(lambda *a: decoder(*a).detach())
wrong(ex_decoder, "s_1 = tanh(0.5 - 0.8210) = -0.3104")(looking(
    cell=lambda y, s, c, P: torch.tanh(y @ P["Wy"] + s @ P["Ws"] + 2.5 * c @ P["Wc"])))
wrong(ex_decoder, "KeyError: 'U'")(lambda ys, s0, keys, mask, P: s0 @ P["U"])
wrong(ex_decoder, "does not depend on `keys`")(looking(
    cell=lambda y, s, c, P: torch.sin(y @ P["Wy"] + s @ P["Ws"])))
wrong(ex_decoder, "the gradient with respect to `ys` is not")(looking(query=lambda y, s, s0: s.detach()))
written(ex_decoder, {
    "later": ("You ask with the new state", asks_later),
    "once": ("Your context never changes", asks_once),
    "s0": ("Your context never changes", looking(query=lambda y, s, s0: s0)),
    "word": ("You ask with the token", looking(query=lambda y, s, s0: y)),
    "not carried": ("nothing is remembered", lambda ys, s0, keys, mask, P: torch.stack([torch.tanh(
        ys[:, t] @ P["Wy"] + s0 @ P["Ws"] + additive(s, keys, P["W1"], P["W2"], P["v"], mask)[0] @ P["Wc"])
        for t, s in enumerate(carried(ys, s0, keys, mask, P))], 1)),
    "no context": ("decoder without attention", looking(
        cell=lambda y, s, c, P: torch.tanh(y @ P["Wy"] + s @ P["Ws"]))),
    "no state": ("The old state is missing", looking(cell=lambda y, s, c, P: torch.tanh(y @ P["Wy"] + c @ P["Wc"]))),
    "transposed": ("stored (d, d) for rows", looking(
        cell=lambda y, s, c, P: torch.tanh(y @ P["Wy"].T + s @ P["Ws"].T + c @ P["Wc"].T))),
    "no tanh": ("tanh is missing", looking(cell=lambda y, s, c, P: y @ P["Wy"] + s @ P["Ws"] + c @ P["Wc"])),
    "no mask": ("the mask isn't used", looking(
        attend=lambda q, k, W1, W2, v, mask: additive(q, k, W1, W2, v, torch.ones_like(mask)))),
    "mask the wrong way round": ("mask is True for real tokens", looking(
        attend=lambda q, k, W1, W2, v, mask: additive(q, k, W1, W2, v, ~mask))),
    "T first": ("along axis 0", looking(returned=lambda states, s0: torch.stack(states))),
    "with s0": ("T + 1 states", looking(returned=lambda states, s0: torch.stack([s0, *states], 1))),
    "from zeros": ("s0 is never used", lambda ys, s0, *a: decoder(ys, 0 * s0.detach(), *a)),
    "from step 1": ("one step late and leaves out", lambda ys, *a: decoder(ys[:, 1:], *a)),
    "one step short": ("one step early", lambda ys, *a: decoder(ys[:, :-1], *a)),
    "len": ("Your loop has B steps", steps_of_the_batch),
    "reshaped": ("mixes the rows of the batch", looking(
        returned=lambda states, s0: torch.stack(states).view(len(s0), -1, s0.shape[1]))),
    "lecture 3's": ("before attention", looking(attend=lambda q, k, W1, W2, v, mask: (k[:, -1], None))),
    "last": ("last state only", looking(returned=lambda states, s0: states[-1])),
    "early": ("one step late", looking(returned=lambda states, s0: torch.stack([s0, *states[:-1]], 1))),
})


def carried(ys, s0, keys, mask, P):
    """The queries of a decoder whose cell reads s0 at every step."""
    queries = [s0]
    for y in ys.unbind(1):
        context, _ = additive(queries[-1], keys, P["W1"], P["W2"], P["v"], mask)
        queries.append(torch.tanh(y @ P["Wy"] + s0 @ P["Ws"] + context @ P["Wc"]))
    return queries[:-1]


# ---- self_attention -------------------------------------------------------------------------------------------------


@right(ex_self)
def by_einsum(X, Wq, Wk, Wv):
    weights = softmax(np.einsum("tk,sk->ts", X @ Wq, X @ Wk) * Wq.shape[1] ** -0.5, -1)
    return np.einsum("ts,sv->tv", weights, X @ Wv), weights


@right(ex_self)
def token_by_token(X, Wq, Wk, Wv):
    weights = np.stack([softmax(np.array([(x @ Wq) @ (y @ Wk) for y in X]) / np.sqrt(Wk.shape[1]), 0) for x in X])
    return np.array([sum(w * (x @ Wv) for w, x in zip(row, X, strict=True)) for row in weights]), weights


@right(ex_self)
def one_matrix_of_scores(X, Wq, Wk, Wv):
    weights = softmax(X @ (Wq @ Wk.T) @ X.T / math.sqrt(Wq.shape[-1]), 1)
    return (weights @ X) @ Wv, weights


def looks(score=lambda X, Wq, Wk: (X @ Wq) @ (X @ Wk).T, scale=lambda X, Wq, Wv: math.sqrt(Wq.shape[1]), axis=-1,
          value=lambda X, Wv: X @ Wv):
    def answer(X, Wq, Wk, Wv):
        weights = softmax(score(X, Wq, Wk) / scale(X, Wq, Wv), axis)
        return weights @ value(X, Wv), weights
    return answer


@right(ex_self)
def partly_in_single_precision(X, Wq, Wk, Wv):
    scores = (X @ Wq).astype(np.float32) @ (X @ Wk).T.astype(np.float32) / np.sqrt(Wq.shape[1])
    return softmax(scores, -1) @ (X @ Wv).astype(np.float32), softmax(scores, -1)


right(ex_self)(looks())
wrong(ex_self, "Expected 2 values (out, weights)")(lambda *a: attend_to_self(*a)[1])
wrong(ex_self, "stay in NumPy")(lambda *a: tuple(map(torch.tensor, attend_to_self(*a))))
wrong(ex_self, "`weights` is right; `out` is not")(lambda *a: (attend_to_self(*a)[0] + 0.5, attend_to_self(*a)[1]))
wrong(ex_self, "the output is 2 and 4.2")(looks(scale=lambda X, Wq, Wv: 0.7 * math.sqrt(Wq.shape[1])))
wrong(ex_self, "An axis of length 1")(lambda *a: (attend_to_self(*a)[0][None], attend_to_self(*a)[1]))
wrong(ex_self, "does not depend on `Wq` and `Wk`")(lambda X, Wq, Wk, Wv: (
    np.tri(len(X)) @ X @ Wv, np.tri(len(X))))
wrong(ex_self, "one row only")(lambda *a: (attend_to_self(*a)[0][:1], attend_to_self(*a)[1]))
written(ex_self, {
    "columns": ("Your columns sum to 1", looks(axis=0)),
    "no scale": ("The scale is missing", looks(scale=lambda X, Wq, Wv: 1)),
    "root of D": ("√D", looks(scale=lambda X, Wq, Wv: X.shape[1] ** 0.5)),
    "root of T": ("√T", looks(scale=lambda X, Wq, Wv: len(X) ** 0.5)),
    "root of d_v": ("√d_v", looks(scale=lambda X, Wq, Wv: Wv.shape[1] ** 0.5)),
    "d_k": ("the square root is missing", looks(scale=lambda X, Wq, Wv: Wq.shape[1])),
    "whole root": ("right for d_k = 1 and 4 only", looks(scale=lambda X, Wq, Wv: int(Wq.shape[1] ** 0.5))),
    "no other than itself": ("where it is alone", lambda X, Wq, Wk, Wv: (lambda w: (w @ X @ Wv, w))(softmax(
        (X @ Wq) @ (X @ Wk).T / math.sqrt(Wq.shape[1]) + np.diag(np.full(len(X), -inf)), -1))),
    "one maximum": ("one maximum of the whole table", lambda X, Wq, Wk, Wv: (lambda e: (
        e / e.sum(1, keepdims=True) @ X @ Wv, e / e.sum(1, keepdims=True)))((lambda s: np.exp(s - s.max()))(
            (X @ Wq) @ (X @ Wk).T / math.sqrt(Wq.shape[1])))),
    "multiplied": ("make the weights sharper", looks(scale=lambda X, Wq, Wv: Wq.shape[1] ** -0.5)),
    "transposed scores": ("Your scores are transposed", looks(score=lambda X, Wq, Wk: (X @ Wk) @ (X @ Wq).T)),
    "raw keys": ("X itself as the keys", looks(score=lambda X, Wq, Wk: (X @ Wq) @ X.T)),
    "raw values": ("you average X itself", looks(value=lambda X, Wv: X)),
    "transposed values": ("You transpose W_V", looks(value=lambda X, Wv: X @ Wv.T)),
    "from the left": ("multiply from the wrong side", lambda X, Wq, Wk, Wv: attend_to_self(
        np.eye(len(X)), Wq @ X, Wk @ X, Wv @ X)),
    "layers": ("as in nn.Linear", lambda X, Wq, Wk, Wv: attend_to_self(X, Wq.T, Wk.T, Wv.T)),
    "overflow": ("overflow where scores are large", lambda X, Wq, Wk, Wv: (
        lambda e: (e / e.sum(1, keepdims=True) @ (X @ Wv), e / e.sum(1, keepdims=True)))(
            np.exp((X @ Wq) @ (X @ Wk).T / math.sqrt(Wq.shape[1])))),
    "no softmax": ("Your weights are the scores themselves", lambda X, Wq, Wk, Wv: (
        lambda s: (s @ (X @ Wv), s))((X @ Wq) @ (X @ Wk).T / math.sqrt(Wq.shape[1]))),
    "exchanged results": ("(out, weights)", lambda *a: attend_to_self(*a)[::-1]),
    "two at once": ("Two things at once", looks(scale=lambda X, Wq, Wv: 1, axis=0)),
})


# ---- tests ----------------------------------------------------------------------------------------------------------


(
    test_right_but_unusual_answers_pass,
    test_wrong_answers_in_no_list_get_a_useful_sentence,
    test_what_students_write_gets_the_hint_about_it,
    test_every_exercise_has_enough_of_each,
) = ANSWERS.tests(EXERCISES, combinations=True)


def test_the_loops_of_these_tests_are_right_where_no_knob_is_turned():
    assert ex_additive.check(scored()).passed and ex_decoder.check(looking()).passed and ex_self.check(looks()).passed
