"""Wrong answers to exercises 5.1 and 5.3, two formulas, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import math

import numpy as np

from course_utils.exercises.engine import Mistake, pairs, variations

# ---- dot_product_variance -------------------------------------------------------------------------------------------


def _variance(d_k, var_q, var_k, mean_q, mean_k, *, var=lambda var: var, squared=lambda mean: mean**2,
              one=lambda a, b, m, n: a * b + a * n + b * m, count=lambda d_k: d_k, finish=lambda total: total):
    """`one` is the variance of one product, from the variances a and b and the squared means m and n of q and k."""
    return finish(count(d_k) * one(var(var_q), var(var_k), squared(mean_q), squared(mean_k)))


_COUNT = {
    "one product": (dict(count=lambda d_k: 1), (
        "You return the variance of one product q_l k_l, which is also that of q · k / √d_k if the means are 0. "
        "q · k is a sum of d_k independent products, and the variances of independent terms add up.")),
    "d_k squared": (dict(count=lambda d_k: d_k**2), (
        "Your variance grows with d_k², as if all d_k products were the same number times d_k. They are independent, "
        "so their variances add up: a factor d_k.")),
    "root of d_k": (dict(count=math.sqrt), (
        "Your factor is √d_k: that is how the standard deviation grows. The variance of a sum of d_k independent "
        "products is d_k times that of one.")),
    "mean of the products": (dict(count=lambda d_k: 1 / d_k), (
        "You divide by d_k: that is the variance of a mean of d_k products, q · k / d_k. The dot product is their sum, "
        "whose variance is d_k times that of one product.")),
    "one entry too few": (dict(count=lambda d_k: d_k - 1), (
        "Your factor is d_k - 1, which belongs to estimating a variance from a sample. Nothing is estimated here: "
        "d_k independent products, d_k variances.")),
    "both vectors counted": (dict(count=lambda d_k: 2 * d_k), (
        "Your factor is 2 d_k, the number of all entries. They form d_k products, one for each place l.")),
    "standard deviation": (dict(finish=math.sqrt), (
        "You return the standard deviation, the root of the variance. The variance itself is wanted; its root is what "
        "attention divides by.")),
    "variance squared": (dict(finish=lambda total: total**2), (
        "You square the variance. `var_q` and `var_k` are variances already: squares of standard deviations.")),
    "means ignored": (dict(one=lambda a, b, m, n: a * b), (
        "You use var_q var_k alone, which holds for mean 0. With other means there are two more terms: start again "
        "from Var(x y) = E[x²] E[y²] - E[x]² E[y]², where E[x²] = var_q + mean_q².")),
    "second moment": (dict(one=lambda a, b, m, n: (a + m) * (b + n)), (
        "You return E[x²] E[y²], the mean square of a product, as the variance of one. Subtract the square of its "
        "mean, mean_q² mean_k².")),
    "variances added": (dict(one=lambda a, b, m, n: a + b), (
        "You add the two variances: that is the variance of q_l + k_l. The entries are multiplied, and for "
        "independent ones E[x² y²] = E[x²] E[y²].")),
    "linearized": (dict(one=lambda a, b, m, n: a * n + b * m), (
        "You have the two terms with means, as from the rule for the propagation of small errors, but var_q var_k is "
        "missing. With mean 0 that term is all there is.")),
    "means exchanged": (dict(one=lambda a, b, m, n: a * b + a * m + b * n), (
        "You pair each variance with the mean of the same vector. It is the other one's that counts: if q_l varies and "
        "k_l is nearly the constant mean_k, q_l k_l has the variance var_q mean_k².")),
    "no mean of k": (dict(one=lambda a, b, m, n: a * b + b * m), (
        "The term with the mean of k is missing: where k_l is nearly the constant mean_k, the product still varies "
        "with q_l, by var_q mean_k².")),
    "no mean of q": (dict(one=lambda a, b, m, n: a * b + a * n), (
        "The term with the mean of q is missing: where q_l is nearly the constant mean_q, the product still varies "
        "with k_l, by var_k mean_q².")),
    "variance for mean square": (dict(one=lambda a, b, m, n: a * b - m * n), (
        "You take var_q for E[x²], and var_k for E[y²]. The mean square is the variance plus the squared mean: "
        "E[x²] = var_q + mean_q².")),
    "mean square of the means only": (dict(one=lambda a, b, m, n: a * b + m * n), (
        "You add mean_q² mean_k², which is the part without any variance, and leave out the mixed terms. Multiply out "
        "(var_q + mean_q²) (var_k + mean_k²) - mean_q² mean_k².")),
    "all added": (dict(one=lambda a, b, m, n: a * b + m + n), (
        "You add the squared means as they are. Each is multiplied by the variance of the other vector: var_q mean_k² "
        "and var_k mean_q².")),
    "squared means subtracted": (dict(one=lambda a, b, m, n: (a - m) * (b - n)), (
        "You subtract the squared means from the variances. It is the other way round, E[x²] = var_q + mean_q², and "
        "then Var(x y) = E[x²] E[y²] - E[x]² E[y]².")),
    "mixed terms subtracted": (dict(one=lambda a, b, m, n: a * b - a * n - b * m), (
        "You subtract the terms with the means. They are added: it is mean_q² mean_k² that is subtracted, and it "
        "cancels.")),
    "mixed terms twice": (dict(one=lambda a, b, m, n: a * b + 2 * (a * n + b * m)), (
        "You count the terms with the means twice. Multiplying out (var_q + mean_q²) (var_k + mean_k²) gives each "
        "of them once.")),
    "only d_k": (dict(one=lambda a, b, m, n: 1), (
        "You return d_k, which is right for means 0 and variances 1. Here the variances and the means are "
        "arguments, so one product has another variance.")),
    "means not squared": (dict(squared=lambda mean: mean), (
        "You use the means unsquared, so that their signs count. E[x²] is the variance plus the squared mean: "
        "mean_q² and mean_k².")),
    "means without sign": (dict(squared=abs), (
        "You use the means without their signs, but unsquared. E[x²] is the variance plus the squared mean: "
        "mean_q² and mean_k².")),
    "variances taken for deviations": (dict(var=lambda var: var**2), (
        "You square var_q and var_k, as if they were standard deviations. They are variances, squares already.")),
    "deviations for variances": (dict(var=math.sqrt), (
        "You take the roots of var_q and var_k: standard deviations. The formula is made of the variances "
        "themselves.")),
}
DOT_PRODUCT_VARIANCE = [*variations(_variance, _COUNT), *(Mistake(*row) for row in [
    (lambda d_k, a, b, m, n: d_k * a * b + a * n**2 + b * m**2, "d_k multiplies your first term only: parentheses are "
     "missing. All d_k products have a mean, so the whole variance of one is multiplied.", "no parentheses"),
    (lambda d_k, a, b, m, n: d_k * (a * b + a * n**2 + b * m**2) + (d_k * m * n)**2, "You return the mean square of "
     "q · k. Its variance is less by the square of its mean, d_k mean_q mean_k.", "mean square of the sum"),
    (lambda d_k, a, b, m, n: d_k * (a + m**2) * (b + n**2) - (d_k * m * n)**2, "You mix two levels: the mean squares "
     "of the single products, and the squared mean of the whole sum. Stay with one product, E[x² y²] - E[x y]², and "
     "multiply by d_k at the end.", "mean of the sum subtracted"),
    (lambda d_k, a, b, m, n: d_k * (a + m**2) * (b + n**2) - (m * n)**2, "You subtract mean_q² mean_k² once. Each of "
     "the d_k products has that mean square, so d_k multiplies the whole difference.", "mean subtracted once"),
    (lambda d_k, a, b, m, n: d_k * ((a + m**2) * (b + n**2) - m * n), "You subtract the mean of a product, not its "
     "square. Var(x y) = E[x² y²] - E[x y]², and E[x y] is mean_q mean_k.", "mean not squared"),
    (lambda d_k, a, b, m, n: d_k * m * n, "You return the mean of q · k, d_k mean_q mean_k. The variance says how far "
     "it spreads around that.", "mean"),
    (lambda d_k, a, b, m, n: (d_k * a) * (d_k * b), "You multiply the variances of two sums, those of the entries of q "
     "and of k. The dot product is a sum of products: first multiply, place by place, then add.", "product of sums"),
])]
DOT_PRODUCT_VARIANCE_PAIRS = pairs(_variance, _COUNT)


# ---- softmax_jacobian -----------------------------------------------------------------------------------------------


def _outer(p):
    return np.outer(p, p)


def _jacobian(p, *, start=lambda p: p, diagonal=np.diag, product=_outer, join=lambda a, b: a - b,
              finish=lambda jacobian: jacobian):
    p = start(p)
    return finish(join(diagonal(p), product(p)))


def _again(p):
    e = np.exp(p)
    return e / e.sum()


def _with_diagonal(matrix, values):
    return matrix - np.diag(np.diag(matrix)) + np.diag(values)


def _in_place(p):
    jacobian = _jacobian(p)
    p *= 1 - p
    return jacobian


_ELEMENTWISE = ("You give each probability its own score only, p (1 - p), as for a sigmoid. Softmax divides by a sum "
                "over all scores, so each score moves every probability: off the diagonal stands -p_i p_j.")
_CROSS_ENTROPY = ("p - y is the gradient of the cross-entropy, where the logarithm has canceled a factor p. The "
                  "Jacobian of softmax itself keeps it: p_i (δ_ij - p_j).")
_LOG = ("A factor is missing: δ_ij - p_j is the Jacobian of log softmax. For softmax itself {} by p_i, "
        "p_i (δ_ij - p_j).")
_ALL = "You return {} of the Jacobian. The whole matrix is wanted, (S, S): one entry for each pair of i and j."
_JACOBIAN = {
    "opposite sign": (dict(join=lambda a, b: b - a), (
        "Your signs are the wrong way round: a higher score makes its own probability larger and the others smaller. "
        "The diagonal, p_i (1 - p_i), is positive.")),
    "plus": (dict(join=lambda a, b: a + b), (
        "You add p_i p_j. When one score rises, the other probabilities must fall, so that the sum stays 1: subtract "
        "it, and every row sums to 0.")),
    "only diag(p)": (dict(join=lambda a, b: a), (
        "diag(p) alone leaves out the sum in softmax's denominator, which every score changes. Its derivative "
        "contributes -p_i p_j to every entry.")),
    "no diagonal term": (dict(join=lambda a, b: -b), (
        "-p_i p_j is what the denominator contributes, and you have it everywhere. On the diagonal the numerator "
        "depends on the score, too: it contributes p_i.")),
    "only the outer product": (dict(join=lambda a, b: b), (
        "p_i p_j alone: there is a minus in front of it, from the denominator, and on the diagonal the numerator "
        "contributes p_i.")),
    "identity": (dict(diagonal=lambda p: np.eye(len(p))), (
        "Your diagonal is 1 - p_i². The derivative of exp(z_i) is exp(z_i) again, and divided by the sum it is p_i: "
        "diag(p) and not the identity.")),
    "diagonal of squares": (dict(diagonal=lambda p: np.diag(p**2)), (
        "Your diagonal is zero. A score moves its own probability as well, by p_i - p_i²: the numerator contributes "
        "p_i, not its square.")),
    "p in every row": (dict(diagonal=lambda p: np.tile(p, (len(p), 1))), (
        "You write p into every row, where it belongs on the diagonal alone: `np.diag(p)`. (`p - np.outer(p, p)` "
        "broadcasts p over the rows.)")),
    "p in every column": (dict(diagonal=lambda p: np.tile(p[:, None], (1, len(p)))), (
        "You have p_i (1 - p_j) everywhere. The 1 is a δ_ij: it stands on the diagonal alone, and elsewhere -p_i p_j "
        "is left.")),
    "dot product": (dict(product=lambda p: p @ p), (
        "`p @ p` of two vectors is a number, Σ p², and so is `p.T @ p`, which you subtract everywhere. The outer "
        "product, all p_i p_j, is `np.outer(p, p)` or `p[:, None] * p`.")),
    "squares in every row": (dict(product=lambda p: p * p), (
        "`p * p` squares entry by entry, and broadcasts over the rows. All products p_i p_j are `np.outer(p, p)` or "
        "`p[:, None] * p`.")),
    "p subtracted": (dict(product=lambda p: p), (
        "You subtract p_j, without its factor p_i. The denominator contributes -p_i p_j: an outer product, "
        "`np.outer(p, p)`.")),
    "p subtracted from columns": (dict(product=lambda p: p[:, None]), (
        "You subtract p_i, without its factor p_j. The denominator contributes -p_i p_j: an outer product, "
        "`np.outer(p, p)`.")),
    "outer with 1 - p": (dict(product=lambda p: np.outer(p, 1 - p)), (
        "You subtract p_i (1 - p_j). On the diagonal that would be the derivative itself; what is subtracted from "
        "diag(p) is p_i p_j.")),
    "squared outer product": (dict(product=lambda p: np.outer(p, p)**2), (
        "You square the products p_i p_j. Each probability is a factor once.")),
    "half": (dict(finish=lambda jacobian: jacobian / 2), (
        "Half the right values: nothing is averaged or split in a Jacobian. Each entry is one derivative, "
        "p_i (δ_ij - p_j).")),
    "softmax again": (dict(start=_again), (
        "You apply softmax to p, which are probabilities already, the output of softmax. Use p as it is.")),
    "logarithms": (dict(start=lambda p: np.log(np.maximum(p, 1e-300))), (
        "You use log p, the scores, in the formula. It is made of the probabilities themselves: "
        "p_i (δ_ij - p_j).")),
    "diagonal alone": (dict(finish=np.diag), (
        "You return the diagonal, p (1 - p), as a vector. Each score moves every probability, so the derivative is a "
        "whole matrix: off the diagonal stands -p_i p_j.")),
    "zeros off the diagonal": (dict(finish=lambda jacobian: np.diag(np.diag(jacobian))), _ELEMENTWISE),
    "sum over the rows": (dict(finish=lambda jacobian: jacobian.sum(axis=0)), _ALL.format("sums") + (
        " (Sums of rows and columns are 0.)")),
    "one number": (dict(finish=np.sum), _ALL.format("the sum over all entries")),
    "norm": (dict(finish=np.linalg.norm), _ALL.format("the norm")),
    "trace": (dict(finish=np.trace), _ALL.format("the trace, the sum of the diagonal,")),
    "largest entry": (dict(finish=np.max), _ALL.format("the largest entry")),
    "first row": (dict(finish=lambda jacobian: jacobian[0]), _ALL.format("the first row") + (
        " (Is `return` inside the loop?)")),
    "upper triangle": (dict(finish=np.triu), (
        "The entries below the diagonal are missing. Every score moves every probability: let both indices run over "
        "all S entries.")),
    "lower triangle": (dict(finish=np.tril), (
        "The entries above the diagonal are missing. Every score moves every probability: let both indices run over "
        "all S entries.")),
}
SOFTMAX_JACOBIAN = [*variations(_jacobian, _JACOBIAN), *(Mistake(*row) for row in [
    (lambda p: np.eye(len(p)) - p, _LOG.format("multiply row i"), "log softmax"),
    (lambda p: np.eye(len(p)) - p[:, None], _LOG.format("multiply the entry in row i and column j") + (
        " (And your rows and columns are swapped.)"), "log softmax, transposed"),
    (lambda p: p - np.eye(len(p)), _CROSS_ENTROPY, "p - y for every y"),
    (lambda p: p[:, None] - np.eye(len(p)), _CROSS_ENTROPY, "p - y for every y, in columns"),
    (lambda p: p - np.eye(len(p))[p.argmax()], _CROSS_ENTROPY, "p - y, y the largest"),
    (lambda p: p - np.eye(len(p))[0], _CROSS_ENTROPY, "p - y, y = 0"),
    (lambda p: np.diag(1 - p) - _outer(p), "You take 1 - p_i for what the numerator contributes, but it is p_i. The "
     "diagonal is p_i (1 - p_i) = p_i - p_i².", "diagonal 1 - p minus the outer product"),
    (lambda p: _with_diagonal(-_outer(p), 1 - p), "On your diagonal stands 1 - p_i, without its factor p_i. The rest "
     "is right.", "diagonal 1 - p"),
    (lambda p: _with_diagonal(-_outer(p), p), "On your diagonal stands p_i. The denominator contributes -p_i p_j there "
     "as well, so it is p_i - p_i².", "diagonal p"),
    (lambda p: _with_diagonal(_outer(p), p * (1 - p)), "Your diagonal is right, but off it the sign is minus: when one "
     "score rises, the other probabilities fall. Each row sums to 0.", "plus off the diagonal"),
    (lambda p: _with_diagonal(-np.tile(p, (len(p), 1)), p * (1 - p)), "Your diagonal is right, but off it the factor "
     "p_i is missing: -p_i p_j and not -p_j.", "-p_j off the diagonal"),
    (lambda p: _with_diagonal(-np.tile(p[:, None], (1, len(p))), p * (1 - p)), "Your diagonal is right, but off it the "
     "factor p_j is missing: -p_i p_j and not -p_i.", "-p_i off the diagonal"),
    (lambda p: p - p @ p, "You return p - p · p, a vector of S numbers. The derivative of S probabilities with respect "
     "to S scores is a matrix: p becomes `np.diag(p)`, and the product is `np.outer(p, p)`.", "vectors only"),
    (_in_place, "Your values are right, but you change p, which the caller still needs: `p *= 1 - p` works in place. "
     "Write the products into a new array.", "p overwritten"),
])]
SOFTMAX_JACOBIAN_PAIRS = pairs(_jacobian, _JACOBIAN)
