"""Wrong answers to exercise 7.3, layer norm, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import torch

from course_utils.exercises.engine import Mistake, pairs, variations


def _mean(x, axes):
    return x.mean(axes, keepdim=True)


def _squares(x, mean, axes):
    """The biased variance."""
    return _mean((x - mean)**2, axes)


def _root(variance, eps):
    return (variance + eps)**0.5


def _norm(x, gamma, beta, eps, *, axes=lambda x: -1, centered=lambda x, mean: x - mean, variance=_squares, root=_root,
          divide=torch.divide, affine=lambda z, gamma, beta: gamma * z + beta):
    mean = _mean(x, axes(x))
    return affine(divide(centered(x, mean), root(variance(x, mean, axes(x)), eps)), gamma, beta)


def _unbiased(x, mean, axes):
    return x.var(axes, keepdim=True)


def _plus_eps(variance, eps):
    return variance**0.5 + eps


def _deviations(x, mean, axes):
    """The square of the mean absolute deviation."""
    return _mean((x - mean).abs(), axes)**2


def _without_keepdim(x, gamma, beta, eps):
    return gamma * (x - x.mean(-1)) / torch.sqrt(x.var(-1, unbiased=False) + eps) + beta


def _max_deviation(x, gamma, beta, eps):
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return gamma * (x - low) / (high - low + eps) + beta


def _mean_divided(x, gamma, beta, eps):
    mean = x.mean(-1, keepdim=True)
    return gamma * x - mean / _root(_squares(x, mean, -1), eps) + beta


def _softmax(x, gamma, beta, eps):
    return gamma * torch.softmax(x, -1) + beta


def _in_place(x, gamma, beta, eps):
    x -= x.mean(-1, keepdim=True)
    return _norm(x, gamma, beta, eps)


_EPS = "eps belongs inside the root: √(variance + eps), and not √variance + eps. {}"
_UNBIASED = ("You divide the sum of squares by d - 1, as `std` and `var` of torch do by default. Layer norm divides it "
             "by d: `unbiased=False` (or `correction=0`){}.")
_AXES = ("You take mean and variance over {}, so that tokens share them. Each token is normalized by itself, over its "
         "d numbers: the last axis, `dim=-1`.")
_CHANGES = {
    "unbiased std plus eps": (dict(variance=_unbiased, root=_plus_eps), _UNBIASED.format(
        ", and eps is added to the variance, inside the root")),
    "unbiased": (dict(variance=_unbiased), _UNBIASED.format("")),
    "eps outside": (dict(root=_plus_eps), _EPS.format("For a constant row that is not the same by far.")),
    "eps beside the root, inverse": (dict(root=lambda variance, eps: 1 / (variance**-0.5 + eps)), _EPS.format(
        "It keeps the quotient finite only there.")),
    "root of eps outside": (dict(root=lambda variance, eps: variance**0.5 + eps**0.5), (
        "You add two roots, √variance + √eps. It is one root of the sum: √(variance + eps).")),
    "eps squared": (dict(root=lambda variance, eps: (variance + eps**2)**0.5), (
        "You add eps² to the variance. It is eps itself: √(variance + eps).")),
    "no eps": (dict(root=lambda variance, eps: variance**0.5), (
        "eps has no effect: a constant row gives 0 / 0 = NaN in yours. Add it to the variance, inside the root.")),
    "eps of its own": (dict(root=lambda variance, eps: (variance + 1e-5)**0.5), (
        "You use an eps of your own, 1e-5. It is an argument: √(variance + eps).")),
    "clamped": (dict(root=lambda variance, eps: variance.clamp(min=eps)**0.5), (
        "You take eps as the lowest variance allowed. It is added to every variance: √(variance + eps).")),
    "clamped root": (dict(root=lambda variance, eps: (variance**0.5).clamp(min=eps)), (
        "You take eps as the lowest standard deviation allowed. It is added to every variance: √(variance + eps).")),
    "root of the root": (dict(root=lambda variance, eps: (variance**0.5 + eps)**0.5), (
        "You take the root twice, of the standard deviation. It is the root of the variance: √(variance + eps).")),
    "no root": (dict(root=lambda variance, eps: variance + eps), (
        "You divide by the variance, so that large inputs shrink and small ones grow. Divide by its root: "
        "√(variance + eps).")),
    "squared": (dict(root=lambda variance, eps: (variance + eps)**2), (
        "You square the variance instead of taking its root: `** 0.5`, not `** 2`.")),
    "multiplied": (dict(divide=torch.multiply), (
        "You multiply by the standard deviation, which makes the spread larger still. Divide by it.")),
    "not divided": (dict(divide=lambda x, root: x), (
        "You subtract the mean, but don't divide: rows keep their spread. Divide by √(variance + eps).")),
    "mean kept": (dict(centered=lambda x, mean: x), (
        "You divide by the standard deviation, but never subtract the mean. Layer norm centers first: (x - mean) / "
        "√(variance + eps).")),
    "root mean square": (dict(centered=lambda x, mean: x, variance=lambda x, mean, axes: _mean(x**2, axes)), (
        "You divide by the root of the mean square, without a mean subtracted: that is RMSNorm, used in many newer "
        "models. Layer norm centers first, and its variance is the mean of (x - mean)².")),
    "mean square as variance": (dict(variance=lambda x, mean, axes: _mean(x**2, axes)), (
        "Your variance is the mean of x². It is the mean of (x - mean)².")),
    "sum of squares": (dict(variance=lambda x, mean, axes: ((x - mean)**2).sum(axes, keepdim=True)), (
        "You divide by the length of the centered row: its sum of squares isn't divided by d. The variance is the "
        "mean of the squares.")),
    "absolute deviations": (dict(variance=_deviations), (
        "You measure the spread by the mean absolute deviation. It is the variance: the mean of the squares.")),
    "over the first axis": (dict(axes=lambda x: 0), _AXES.format("axis 0, which is batch norm")),
    "over axis 1": (dict(axes=lambda x: min(1, x.dim() - 1)), _AXES.format("axis 1")),
    "over the tokens": (dict(axes=lambda x: max(-2, -x.dim())), _AXES.format("the tokens, axis -2")),
    "over everything": (dict(axes=lambda x: tuple(range(x.dim()))), _AXES.format("the whole array")),
    "over tokens and features": (dict(axes=lambda x: tuple(range(max(0, x.dim() - 2), x.dim()))), _AXES.format(
        "the last two axes")),
    "axis -2": (dict(axes=lambda x: -2), _AXES.format("the tokens, axis -2")),
    "axis 1": (dict(axes=lambda x: 1), _AXES.format("axis 1")),
    "axis 2": (dict(axes=lambda x: 2), (
        "You take mean and variance over axis 2, which is the last one only if x has three axes. With `dim=-1` it is "
        "the last one of any x.")),
    "axes -2 and -1": (dict(axes=lambda x: (-2, -1)), _AXES.format("the last two axes")),
    "axes 1 and 2": (dict(axes=lambda x: (1, 2)), _AXES.format("axes 1 and 2")),
    "no gamma, no beta": (dict(affine=lambda z, gamma, beta: z), (
        "gamma and beta have no effect: multiply by gamma, then add beta.")),
    "no gamma": (dict(affine=lambda z, gamma, beta: z + beta), (
        "gamma has no effect: multiply the normalized numbers by it, then add beta.")),
    "no beta": (dict(affine=lambda z, gamma, beta: gamma * z), (
        "beta has no effect: add it after the normalized numbers are multiplied by gamma.")),
    "gamma and beta exchanged": (dict(affine=lambda z, gamma, beta: beta * z + gamma), (
        "You exchange gamma and beta: gamma multiplies, beta is added.")),
    "beta before gamma": (dict(affine=lambda z, gamma, beta: gamma * (z + beta)), (
        "You add beta before you multiply by gamma, so that it is multiplied, too. It is gamma · z + beta.")),
    "1 + gamma": (dict(affine=lambda z, gamma, beta: (1 + gamma) * z + beta), (
        "You multiply by 1 + gamma, as if gamma started at 0 (some models do). Here it is gamma itself.")),
    "gamma divides": (dict(affine=lambda z, gamma, beta: z / gamma + beta), (
        "You divide by gamma. The normalized numbers are multiplied by it.")),
    "beta subtracted": (dict(affine=lambda z, gamma, beta: gamma * z - beta), (
        "You subtract beta. It is added: gamma · z + beta.")),
}
LAYER_NORM = [*variations(_norm, _CHANGES), *(Mistake(*row) for row in [
    (_without_keepdim, "Your mean and variance lose their axis, and so meet the numbers of a token where they belong "
     "to tokens, which runs only if sizes happen to fit. Keep the axis: `keepdim=True`.", "no keepdim"),
    (_mean_divided, "In yours only the mean is divided by the root: a quotient binds before a difference. Put the "
     "difference in parentheses, (x - mean) / √(variance + eps).", "precedence"),
    (_max_deviation, "You bring each row to the range from 0 to 1, by its least and largest number. Layer norm "
     "subtracts the mean and divides by the standard deviation.", "range"),
    (_softmax, "You take a softmax of each row. Layer norm subtracts the mean and divides by the standard deviation.",
     "softmax"),
    (_in_place, "Your values are right, but you change x in place, and the skip connection still needs it: `x -= …` "
     "and `x /= …` write into x itself. `x = x - …` makes a new tensor.", "x in place"),
])]
LAYER_NORM_PAIRS = pairs(_norm, {name: entry for name, entry in _CHANGES.items() if name != "unbiased std plus eps"})
