"""Answers to lecture 5's exercises: unusual right ones pass, wrong ones get a sentence of use, in a list or not."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from answers import Answers, exercises_of
from course_utils.exercises import lecture_05

ANSWERS = Answers()  # the wrong ones are in no list
right, wrong, written = ANSWERS.right, ANSWERS.wrong, ANSWERS.written
EXERCISES = exercises_of(lecture_05)


variance, attend = lecture_05.dot_product_variance.reference, lecture_05.scaled_dot_product_attention.reference
jacobian = lecture_05.softmax_jacobian.reference

# ---- dot_product_variance -------------------------------------------------------------------------------------------


@right(lecture_05.dot_product_variance)
def by_mean_squares(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    return d_k * ((var_q + mean_q**2) * (var_k + mean_k**2) - (mean_q * mean_k)**2)


@right(lecture_05.dot_product_variance)
def entry_by_entry(d_k, var_q, var_k, mean_q, mean_k):
    return sum(var_q * (var_k + mean_k**2) + mean_q**2 * var_k for _ in range(d_k))


@right(lecture_05.dot_product_variance)
def exact_from_two_values(d_k, var_q, var_k, mean_q=0.0, mean_k=0.0):
    """The variance of the four products of mean ± standard deviation."""
    a, b = (mean + np.sqrt(var) * np.array([-1, 1]) for mean, var in ((mean_q, var_q), (mean_k, var_k)))
    return np.outer(a, b).var() * d_k


wrong(lecture_05.dot_product_variance, "a single number")(lambda *a: (variance(*a), 1.0))
wrong(lecture_05.dot_product_variance, "did you forget `return`")(lambda *a: None)
wrong(lecture_05.dot_product_variance, "keep the signature of the stub")(lambda d_k, var_q, var_k: d_k)
wrong(lecture_05.dot_product_variance, "does not depend on `mean_k`")(
    lambda d_k, a, b, m=0.0, n=0.0: d_k * (a * b + b * m**2 + m**4))
wrong(lecture_05.dot_product_variance, "3 · 9 - (1 · -2)² = 23")(lambda *a: variance(*a) * 1.01)
wrong(lecture_05.dot_product_variance, "NameError")(lambda *a: sigma**2)  # noqa: F821
wrong(lecture_05.dot_product_variance, "Two things at once")(lambda d_k, a, b, m, n: math.sqrt(d_k * a * b))
wrong(lecture_05.dot_product_variance, "should be 64")(lambda d_k, a, b, m, n: np.var(
    np.random.default_rng(0).normal(m, a**0.5, (500, d_k)) @ np.random.default_rng(1).normal(n, b**0.5, d_k)))
written(lecture_05.dot_product_variance, {
    "unscaled formula": ("holds for mean 0", lambda d_k, a, b, m, n: d_k * a * b),
    "the paper's": ("right for means 0 and variances 1", lambda d_k, *a: d_k),
    "root": ("standard deviation, the root", lambda *a: np.sqrt(variance(*a))),
    "scaled": ("variance of one product", lambda d_k, *a: variance(d_k, *a) / d_k),
    "scaled by d_k": ("divide by d_k", lambda d_k, *a: variance(d_k, *a) / d_k**2),
    "correlated": ("grows with d_k²", lambda d_k, *a: variance(1, *a) * d_k * d_k),
    "squares": ("Subtract the square of its mean", lambda d_k, a, b, m, n: d_k * (a + m * m) * (b + n * n)),
    "levels": ("two levels", lambda d_k, a, b, m, n: d_k * (a + m * m) * (b + n * n) - d_k**2 * m * m * n * n),
    "added": ("variance of q_l + k_l", lambda d_k, a, b, m, n: d_k * (a + b)),
    "swapped": ("mean of the same vector", lambda d_k, a, b, m, n: variance(d_k, a, b, n, m)),
    "small errors": ("small errors", lambda d_k, a, b, m, n: d_k * (n**2 * a + m**2 * b)),
    "mean squares the wrong way round": ("It is the other way round", lambda d_k, a, b, m, n: (
        d_k * (a - m**2) * (b - n**2))),
    "unsquared": ("signs count", lambda d_k, a, b, m, n: d_k * (a * b + a * n + b * m)),
    "deviations": ("squares already", lambda d_k, a, b, m, n: variance(d_k, a**2, b**2, m, n)),
})

# ---- scaled_dot_product_attention -----------------------------------------------------------------------------------


@right(lecture_05.scaled_dot_product_attention)
def query_scaled_and_where(q, k, v, mask=None):
    scores = torch.einsum("...tk,...sk->...ts", q * q.size(-1) ** -0.5, k)
    weights = F.softmax(scores if mask is None else torch.where(mask, scores, -math.inf), dim=-1).nan_to_num(0.0)
    return torch.einsum("...ts,...sv->...tv", weights, v), weights


@right(lecture_05.scaled_dot_product_attention)
def masks_of_infinity_are_added(q, k, v, mask=None):
    s = (q / q.shape[-1]**0.25) @ (k / k.shape[-1]**0.25).transpose(-2, -1)
    if mask is None:
        return torch.softmax(s, -1) @ v, torch.softmax(s, -1)
    w = torch.softmax(s + torch.zeros(mask.shape).masked_fill(mask.logical_not(), -math.inf), -1)
    w = torch.where(mask.any(-1, keepdim=True), w, torch.zeros_like(w))
    return w @ v, w


@right(lecture_05.scaled_dot_product_attention)
def a_large_number_and_zeros(q, k, v, mask=None):
    s = q @ k.transpose(-1, -2) / np.sqrt(k.shape[-1])
    if mask is not None:
        s = s.masked_fill(mask == 0, -1e9)
    w = s.softmax(-1)
    if mask is not None:
        w = w * mask
    return w @ v, w


@right(lecture_05.scaled_dot_product_attention)
def by_exp(q, k, v, mask=None):
    s = q @ k.mT / math.sqrt(q.shape[-1])
    mask = torch.ones_like(s, dtype=torch.bool) if mask is None else mask.expand_as(s)
    s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    e = torch.exp(s - s.amax(-1, keepdim=True)) * mask
    w = e / e.sum(-1, keepdim=True).clamp(min=1e-30)
    return w @ v, w


@right(lecture_05.scaled_dot_product_attention)
def fused_and_values_of_the_identity(q, k, v, mask=None):
    eye = torch.eye(k.shape[-2], dtype=v.dtype).expand(*k.shape[:-2], -1, -1)
    both = F.scaled_dot_product_attention(q, k, torch.cat([v, eye], -1), attn_mask=mask)
    if mask is not None:
        both = both.masked_fill(~mask.any(-1, keepdim=True), 0)
    return both[..., :v.shape[-1]], both[..., v.shape[-1]:]


@right(lecture_05.scaled_dot_product_attention)
def in_single_precision(q, k, v, mask=None):
    return attend(q.float(), k.float(), v.float(), mask)


def usual(q, k, v, mask=None, *, score=lambda q, k: q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)),
          hide=lambda s, m: s.masked_fill(m == 0, float("-inf")), softmax=lambda s: F.softmax(s, dim=-1),
          after=lambda w, m: w.masked_fill(m == 0, 0.0), give=lambda w, v, k: (w @ v, w)):
    s = score(q, k)
    if mask is not None:
        s = hide(s, mask)
    w = softmax(s)
    if mask is not None:
        w = after(w, mask)
    return give(w, v, k)


def if_mask(q, k, v, mask=None):
    s = q @ k.mT / q.shape[-1]**0.5
    if mask:
        s = s.masked_fill(~mask, -math.inf)
    return torch.softmax(s, -1) @ v, torch.softmax(s, -1)


def never_none(q, k, v, mask=None):
    w = torch.softmax((q @ k.mT / q.shape[-1]**0.5).masked_fill(~mask, -math.inf), -1)
    return w @ v, w


def by_index(s, m):
    s[~m] = -math.inf
    return s


def with_a(**change):
    """The usual answer with a change, and without zeros for empty rows: what is forgotten over another problem."""
    return lambda q, k, v, mask=None: usual(q, k, v, mask, **{"after": lambda w, m: w, **change})


def zeros_and(**change):
    return lambda q, k, v, mask=None: usual(q, k, v, mask, **change)


wrong(lecture_05.scaled_dot_product_attention, "Expected 2 values (output, weights)")(lambda *a: attend(*a)[0])
wrong(lecture_05.scaled_dot_product_attention, "did you forget `return`")(lambda *a: None)
wrong(lecture_05.scaled_dot_product_attention, "stay in torch")(lambda *a: tuple(x.numpy() for x in attend(*a)))
wrong(lecture_05.scaled_dot_product_attention, "18.8080")(lambda *a: (attend(*a)[0]**3, attend(*a)[1]))
wrong(lecture_05.scaled_dot_product_attention, "`weights` is right; `output` is not")(
    lambda *a: (attend(*a)[0] + 1, attend(*a)[1]))
wrong(lecture_05.scaled_dot_product_attention, "`output` has dtype torch.float16")(
    lambda *a: tuple(x.half() for x in attend(*a)))
wrong(lecture_05.scaled_dot_product_attention, "the `-` operator, with a bool tensor is not supported")(
    zeros_and(hide=lambda s, m: s - 1e9 * (1 - m)))
wrong(lecture_05.scaled_dot_product_attention, "stopped with IndexError")(zeros_and(hide=lambda s, m: s[:, 9]))
wrong(lecture_05.scaled_dot_product_attention, "does not depend on `k`")(
    lambda q, k, v, mask=None: attend(q, torch.ones_like(k).cumsum(-2), v, mask))
wrong(lecture_05.scaled_dot_product_attention, "changes its argument `v`")(
    lambda *a: (attend(*a), a[2].data.mul_(2))[0])
wrong(lecture_05.scaled_dot_product_attention, "can't be changed: build a new tensor")(
    lambda q, k, v, mask=None: usual(q.div_(q.shape[-1]**0.5), k, v, mask, score=lambda q, k: q @ k.mT))
wrong(lecture_05.scaled_dot_product_attention, "doesn't reach `q`")(lambda *a: tuple(x.detach() for x in attend(*a)))
wrong(lecture_05.scaled_dot_product_attention, "doesn't reach `q`")(
    zeros_and(give=lambda w, v, k: (w.detach() @ v, w.detach())))
wrong(lecture_05.scaled_dot_product_attention, "doesn't reach `v`")(
    zeros_and(give=lambda w, v, k: (w @ v.detach(), w)))
wrong(lecture_05.scaled_dot_product_attention, "the gradient with respect to `q` is not")(
    zeros_and(give=lambda w, v, k: (w.detach() @ v, w)))
wrong(lecture_05.scaled_dot_product_attention, "Two things at once")(with_a(score=lambda q, k: q @ k.mT))
wrong(lecture_05.scaled_dot_product_attention, "Two things at once")(
    with_a(score=lambda q, k: q @ k.mT, hide=lambda s, m: s.masked_fill(m, -math.inf)))
wrong(lecture_05.scaled_dot_product_attention, "Two things at once")(
    with_a(score=lambda q, k: q @ k.mT / q.shape[-1], hide=lambda s, m: s.masked_fill(~m, -1e9)))
written(lecture_05.scaled_dot_product_attention, {
    "no scale": ("the scale is missing", zeros_and(score=lambda q, k: q @ k.mT)),
    "d_k": ("the root is missing", zeros_and(score=lambda q, k: q @ k.mT / k.size(-1))),
    "fused and scaled": ("you scale twice", lambda q, k, v, mask=None: attend(q / q.shape[-1]**0.5, k, v, mask)),
    "wrong exponent": ("larger still", zeros_and(score=lambda q, k: q @ k.mT / q.shape[-1]**-0.5)),
    "integer exponent": ("`1 // 2` in an exponent", zeros_and(score=lambda q, k: 0 * (q @ k.mT))),
    "width of v": ("width of a value", lambda q, k, v, mask=None: usual(
        q, k, v, mask, score=lambda q, k: q @ k.mT / v.shape[-1]**0.5)),
    "second axis": ("size of axis 1", zeros_and(score=lambda q, k: q @ k.mT / q.shape[1]**0.5)),
    "length": ("number of rows of the batch", zeros_and(score=lambda q, k: q @ k.mT / math.sqrt(len(q)))),
    "not transposed": ("Swap the last two axes", zeros_and(score=lambda q, k: q @ k / q.shape[-1]**0.5)),
    "view": ("mixes the entries of different keys", zeros_and(
        score=lambda q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], -1) / q.shape[-1]**0.5)),
    "T": ("reverses all axes", zeros_and(
        score=lambda q, k: q @ k.permute(*torch.arange(k.ndim - 1, -1, -1).tolist()) / 2)),
    "1, 2": ("swaps the axes of keys and entries only", zeros_and(
        score=lambda q, k: torch.matmul(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1]))),
    "queries": ("columns sum to 1", zeros_and(softmax=lambda s: s.softmax(-2))),
    "queries, as it is": ("columns sum to 1", lambda q, k, v, mask=None: usual(
        q, k, v, mask, softmax=lambda s: s.softmax(-2), after=lambda w, m: w.masked_fill(~m.any(-1, True), 0))),
    "no dim": ("has no `dim`", lambda q, k, v, mask=None: usual(
        q, k, v, mask, softmax=F.softmax, after=lambda w, m: w.masked_fill(~m.any(-1, True), 0))),
    "overflow": ("Subtract the largest score", zeros_and(
        softmax=lambda s: s.exp() / s.exp().sum(-1, keepdim=True),
        after=lambda w, m: w.masked_fill(~m.any(-1, True), 0))),
    "no mask": ("same with and without a mask", lambda q, k, v, mask=None: attend(q, k, v)),
    "other polarity": ("hide what should be visible", lambda q, k, v, mask=None: attend(
        q, k, v, None if mask is None else ~mask)),
    "filled where True": ("hide what should be visible", with_a(hide=lambda s, m: s.masked_fill(m, -math.inf))),
    "filled where True, zeros where False": ("hide what should be visible", zeros_and(
        hide=lambda s, m: s.masked_fill(m, -math.inf))),
    "transposed": ("mask is transposed", lambda q, k, v, mask=None: attend(
        q, k, v, None if mask is None else mask.transpose(-2, -1))),
    "zeros": ("score of about 0", with_a(hide=lambda s, m: s * m)),
    "tiny": ("score of about 0", with_a(hide=lambda s, m: s.masked_fill(~m, 1e-9))),
    "added": ("add the boolean mask", with_a(hide=lambda s, m: s + m.double())),
    "after": ("sum to less than 1", zeros_and(hide=lambda s, m: s)),
    "renormalized": ("divide by the new sum", with_a(
        hide=lambda s, m: s, after=lambda w, m: w * m / (w * m).sum(-1, keepdim=True))),
    "minus ten thousand": ("isn't low enough", with_a(hide=lambda s, m: s.masked_fill(~m, -1e4))),
    "minus thousand": ("isn't low enough", with_a(hide=lambda s, m: s.masked_fill(~m, -1e3))),
    "nan": ("0 / 0 = NaN", with_a()),
    "nan by adding": ("0 / 0 = NaN", with_a(hide=lambda s, m: s + torch.log(m.double()))),
    "a billion": ("attends to all keys alike", with_a(hide=lambda s, m: s.masked_fill(~m, -1e9))),
    "the smallest number": ("attends to all keys alike", with_a(
        hide=lambda s, m: s.masked_fill(~m, torch.finfo(s.dtype).min))),
    "a billion added": ("as if there were no mask", with_a(hide=lambda s, m: s + (~m).double() * -1e9)),
    "if mask": ("asks a whole table for one truth value", if_mask),
    "None": ("Ask first: `if mask is not None:`", never_none),
    "index": ("doesn't broadcast", with_a(hide=by_index)),
    "minus ten": ("isn't low enough", with_a(hide=lambda s, m: torch.where(m, s, -10.0))),
    "ten thousand subtracted": ("isn't low enough", with_a(hide=lambda s, m: s - 1e4 * m.logical_not())),
    "axis 1": ("axis 1: the queries, or the heads", zeros_and(softmax=lambda s: s.softmax(1))),
    "bmm": ("wants exactly three axes", zeros_and(
        score=lambda q, k: torch.bmm(q, k.transpose(1, 2)) / q.shape[-1]**0.5)),
    "unsqueezed": ("use it as it is", zeros_and(
        hide=lambda s, m: s.masked_fill(~m.unsqueeze(1), -math.inf), after=lambda w, m: w.nan_to_num(0.0))),
    "only empty rows": ("hides no single key", with_a(
        hide=lambda s, m: s, after=lambda w, m: w * m.any(-1, keepdim=True))),
    "other weights": ("ignore the mask", lambda q, k, v, mask=None: (attend(q, k, v, mask)[0], attend(q, k, v)[1])),
    "keys": ("average the keys", zeros_and(give=lambda w, v, k: (w @ k, w))),
    "exchanged": ("output comes first", zeros_and(give=lambda w, v, k: (w, w @ v))),
    "weights scaled": ("each row sums to 1/√d_k", lambda q, k, v, mask=None: usual(
        q * q.shape[-1]**0.5, k, v, mask, give=lambda w, v, k: (w @ v / k.shape[-1]**0.5, w / k.shape[-1]**0.5))),
    "mask in place": ("`~mask` makes a new one", zeros_and(
        hide=lambda s, m: s.masked_fill(m.logical_not_(), -math.inf), after=lambda w, m: w.masked_fill(m, 0))),
})

# ---- softmax_jacobian -----------------------------------------------------------------------------------------------


@right(lecture_05.softmax_jacobian)
def by_loops(p):
    J = np.zeros((len(p), len(p)))
    for i in range(len(p)):
        for j in range(len(p)):
            J[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return J


@right(lecture_05.softmax_jacobian)
def by_broadcasting(p):
    return p[:, None] * (np.eye(len(p)) - p[None])


@right(lecture_05.softmax_jacobian)
def by_autograd(p):
    return torch.autograd.functional.jacobian(lambda z: z.softmax(0), torch.tensor(p).log()).numpy()


@right(lecture_05.softmax_jacobian)
def by_differences_of_the_logarithms(p):
    z, h = np.log(p), 1e-5
    slopes = [(np.exp(z + h * unit) / np.exp(z + h * unit).sum() - np.exp(z - h * unit) / np.exp(z - h * unit).sum())
              / (2 * h) for unit in np.eye(len(p))]
    return np.stack(slopes)


wrong(lecture_05.softmax_jacobian, "a NumPy array of shape (3, 3)")(lambda p: (jacobian(p), p))
wrong(lecture_05.softmax_jacobian, "did you forget `return`")(lambda p: None)
wrong(lecture_05.softmax_jacobian, "`np.stack(...)`")(lambda p: [row for row in jacobian(p)])
wrong(lecture_05.softmax_jacobian, "Every row sums to 0")(lambda p: jacobian(p) + p * 0.1)
wrong(lecture_05.softmax_jacobian, "stay in NumPy")(lambda p: torch.tensor(jacobian(p)))
wrong(lecture_05.softmax_jacobian, "(3, 3), but yours is a NumPy array of shape (4, 4)")(
    lambda p: jacobian(np.append(p, 0.0)))
wrong(lecture_05.softmax_jacobian, "divides by zero")(lambda p: jacobian(p) * (p / p)[:, None])
wrong(lecture_05.softmax_jacobian, "changes its argument `p`")(lambda p: (jacobian(p), p.sort())[0])
wrong(lecture_05.softmax_jacobian, "Two things at once")(lambda p: (np.outer(p, p) - np.diag(p))[0])


def triangle(p):
    J = np.zeros((len(p), len(p)))
    for i in range(len(p)):
        for j in range(i, len(p)):
            J[i, j] = p[i] * ((i == j) - p[j])
    return J


def returned_early(p):
    for i in range(len(p)):
        return p[i] * (np.eye(len(p))[i] - p)


written(lecture_05.softmax_jacobian, {
    "sigmoid": ("as for a sigmoid", lambda p: np.diag(p * (1 - p))),
    "vector": ("as a vector", lambda p: p * (1 - p)),
    "sign": ("signs are the wrong way round", lambda p: np.outer(p, p) - np.diag(p)),
    "dot": ("a number, Σ p²", lambda p: np.diag(p) - p.T @ p),
    "dot by np.dot": ("a number, Σ p²", lambda p: np.diag(p) - np.dot(p, p)),
    "diagonal 1 - p": ("without its factor p_i", lambda p: np.diag(1 - p) - np.outer(p, p) * (1 - np.eye(len(p)))),
    "cross-entropy": ("gradient of the cross-entropy", lambda p: p[None, :] - np.eye(len(p))),
    "cross-entropy of the best": ("gradient of the cross-entropy", lambda p: p - (p == p.max()) if (
        p == p.max()).sum() == 1 else p - np.eye(len(p))[0]),
    "log softmax": ("Jacobian of log softmax", lambda p: np.eye(len(p)) - p[None]),
    "again": ("apply softmax to p", lambda p: jacobian(np.exp(p - p.max()) / np.exp(p - p.max()).sum())),
    "broadcast": ("into every row", lambda p: p - p[:, None] * p),
    "squares": ("squares entry by entry", lambda p: np.diag(p) - p**2),
    "no delta": ("everywhere", lambda p: np.outer(p, 1 - p)),
    "identity": ("not the identity", lambda p: np.eye(len(p)) - np.outer(p, p)),
    "triangle": ("below the diagonal", triangle),
    "early": ("inside the loop", returned_early),
    "in place": ("`p *= 1 - p` works in place", lambda p: (jacobian(p), p.__imul__(1 - p))[0]),
})


# ---- tests ----------------------------------------------------------------------------------------------------------


(
    test_right_but_unusual_answers_pass,
    test_wrong_answers_in_no_list_get_a_useful_sentence,
    test_what_students_write_gets_the_hint_about_it,
    test_every_exercise_has_enough_of_each,
) = ANSWERS.tests(EXERCISES)


def test_the_usual_answer_is_right_where_nothing_is_changed():
    assert lecture_05.scaled_dot_product_attention.check(usual).passed
