"""Wrong answers to the exercises of lecture 2 about counting and measuring, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import numpy as np

from course_utils.exercises.engine import Mistake, pairs, variations
from course_utils.gated import sigmoid

# ---- lstm_parameters ------------------------------------------------------------------------------------------------


def _count(d_in, d_h, *, blocks=4, W=lambda d_in, d_h, n: n * d_h * d_in, U=lambda d_in, d_h, n: n * d_h * d_h,
           bias=lambda d_in, d_h, n: 2 * n * d_h, finish=lambda total, d_in, d_h: total):
    return finish(W(d_in, d_h, blocks) + U(d_in, d_h, blocks) + bias(d_in, d_h, blocks), d_in, d_h)


_COUNT = {
    "three blocks": (dict(blocks=3), (
        "You count three blocks, as a GRU has. An LSTM has three gates and a candidate, each with weights and biases "
        "of its own: four blocks.")),
    "one block": (dict(blocks=1), (
        "This is the count of a plain RNN. An LSTM has four blocks of that size: three gates and the candidate.")),
    "five blocks": (dict(blocks=5), (
        "You count five blocks. i, f, g and o have weights; the cell c has none, it is computed from them.")),
    "no W": (dict(W=lambda d_in, d_h, n: 0), (
        "The weights of the input are missing: each block has a matrix W of shape (d_h, d_in).")),
    "no U": (dict(U=lambda d_in, d_h, n: 0), (
        "The recurrent weights are missing: each block also has a matrix U of shape (d_h, d_h), for the old state.")),
    "W in one block": (dict(W=lambda d_in, d_h, n: d_h * d_in), (
        "You count the input weights of one block only. Each of the four has a matrix W of shape (d_h, d_in).")),
    "U in one block": (dict(U=lambda d_in, d_h, n: d_h * d_h), (
        "You count the recurrent weights of one block only. Each of the four has a matrix U of shape (d_h, d_h).")),
    "U like W": (dict(U=lambda d_in, d_h, n: n * d_h * d_in), (
        "You give U the shape of W. It multiplies the old state, which has d_h entries: d_h² weights in each block.")),
    "U a vector": (dict(U=lambda d_in, d_h, n: n * d_h), (
        "You count d_h recurrent weights in a block, as if each unit saw itself alone. U is a full matrix: every unit "
        "sees all d_h, d_h² weights.")),
    "U of all blocks": (dict(U=lambda d_in, d_h, n: (n * d_h) ** 2), (
        "You square 4 d_h. The stacked U is (4 d_h, d_h): four blocks of outputs, but one old state of d_h entries.")),
    "W squared": (dict(W=lambda d_in, d_h, n: n * d_in * d_in), (
        "You count d_in² input weights in a block. W goes from d_in inputs to d_h units: d_h d_in weights.")),
    "one bias": (dict(bias=lambda d_in, d_h, n: n * d_h), (
        "You count one bias vector. One would be enough, but PyTorch learns two in each block, b_ih and b_hh, which it "
        "adds up.")),
    "no bias": (dict(bias=lambda d_in, d_h, n: 0), (
        "The biases are missing. PyTorch has two vectors of d_h entries in each block, b_ih and b_hh.")),
    "bias in one block": (dict(bias=lambda d_in, d_h, n: 2 * d_h), (
        "You count the biases of one block only. Each of the four has its own two vectors of d_h entries.")),
    "one bias in one block": (dict(bias=lambda d_in, d_h, n: d_h), (
        "You count a single bias vector of d_h entries. There are two in each block, b_ih and b_hh, and four blocks.")),
    "a number for a bias": (dict(bias=lambda d_in, d_h, n: 2 * n), (
        "You count a bias as one number. It is a vector: every unit has its own, d_h entries.")),
    "one number for a bias": (dict(bias=lambda d_in, d_h, n: n), (
        "You count one number for the bias of a block. Every unit has its own, d_h entries, and PyTorch has two such "
        "vectors, b_ih and b_hh.")),
    "bias of the inputs": (dict(bias=lambda d_in, d_h, n: n * (d_in + d_h)), (
        "You give one bias vector d_in entries. A bias is added to the result of a product, so both, b_ih and b_hh, "
        "have d_h entries in each block.")),
    "bias three times": (dict(bias=lambda d_in, d_h, n: 3 * n * d_h), (
        "You count three bias vectors in a block. PyTorch has two, b_ih and b_hh.")),
    "states counted": (dict(finish=lambda total, d_in, d_h: total + 2 * d_h), (
        "You count the initial states h and c as well. They are handed in at every call, not learned by nn.LSTM.")),
    "peepholes": (dict(finish=lambda total, d_in, d_h: total + 3 * d_h), (
        "You count peephole weights, from the cell to the three gates. nn.LSTM has none.")),
    "both directions": (dict(finish=lambda total, d_in, d_h: 2 * total), (
        "Twice too many: that would be a bidirectional layer. One direction has one set of weights, used at every "
        "step.")),
    "bytes": (dict(finish=lambda total, d_in, d_h: 4 * total), (
        "Four times too many: you count bytes (4 for a float32), or multiply by the four blocks twice. Count "
        "numbers.")),
}
LSTM_PARAMETERS = [*variations(_count, _COUNT), *(Mistake(*row) for row in [
    (lambda d_in, d_h: _count(d_h, d_in), "You have exchanged d_in and d_h: the states have d_h entries, so U is "
     "(4 d_h, d_h) and W is (4 d_h, d_in).", "sizes exchanged"),
    (lambda d_in, d_h: 4 * d_h * d_in + d_h + 2, "Parentheses are missing: 4 d_h multiplies everything that a unit of "
     "a block has, its weights for d_in inputs and d_h states and its two biases.", "no parentheses"),
    (lambda d_in, d_h: 4 * d_h * d_in * d_h, "You multiply the sizes of W and U. They are two matrices: their numbers "
     "of weights add up, and the biases are missing.", "W times U"),
    (lambda d_in, d_h: (4 * d_h + d_in) + (4 * d_h + d_h) + 8 * d_h, "You add the two sides of a matrix. A matrix of "
     "shape (m, n) has m times n entries.", "sides added"),
])]
# A factor for the whole would make some pairs right, or twice one block two blocks.
LSTM_PARAMETERS_PAIRS = pairs(_count, {name: entry for name, entry in _COUNT.items()
                                       if name not in ("both directions", "bytes")})


# ---- cell_path ------------------------------------------------------------------------------------------------------


def _after(first):
    """A row of `first`, then the gates from the last step back to step 2."""
    return lambda f: np.vstack([np.full_like(f[:1], first), f[:0:-1]])


_FROM_ONES, _FROM_ZEROS = _after(1.0), _after(0.0)


def _path(f, *, gate=lambda f: f, factors=_FROM_ONES, join=np.cumprod, finish=lambda rows: rows):
    return finish(join(factors(gate(f)), axis=0))


def _one_buffer(f, last):
    """One array is multiplied in place and stored every time, so that all rows are its final content."""
    return np.stack([np.prod(f if last else f[1:], axis=0)] * len(f))


def _into_f(f):
    rows = _path(f)
    f[:] = rows
    return rows


def _alias(f):
    """The product is the row of the last gate itself, so that it is overwritten."""
    rows, product = [np.ones_like(f[0])], f[-1]
    for f_t in f[-2::-1]:
        rows.append(product.copy())
        product *= f_t
    return np.stack(rows)


_CHANGED = ("Your values are right, but you change `f`, the gates that the caller may still need: `f[t] *= …` and "
            "`f[:] = …` work in place, and so does `product *= …` after `product = f[-1]`, which copies nothing. "
            "Collect the rows in a new array.")
_BUFFER = ("All your rows are equal: one array is multiplied in place (`*=`) and stored every time. Make a new one in "
           "each turn, `product = product * f_t`, or store a copy.")
_PATH = {
    "own step": (dict(factors=lambda f: f[::-1]), (
        "Off by one: your row k has k + 1 factors, and the row of ones is missing. c_T comes from c_{T-1} by one "
        "factor, f_T, so row 0, the gradient of c_T with respect to itself, has none.")),
    "last gate skipped": (dict(factors=lambda f: np.vstack([np.ones_like(f[:1]), f[-2::-1]])), (
        "Off by one: f_T is missing in your products, which begin with f_{T-1}. The step from c_{T-1} to c_T, "
        "c_T = f_T c_{T-1} + …, uses the gate of step T.")),
    "wrong end": (dict(factors=lambda f: np.vstack([np.ones_like(f[:1]), f[:-1]])), (
        "Your products start at step 1. Row k is about the last k steps: go back from the end, f_T first.")),
    "wrong end, own step": (dict(factors=lambda f: f), (
        "Your row k is the product of the first k + 1 gates, f_1 to f_{k+1}: how much of the initial cell is left. "
        "Row k is about the last k steps: go back from the end, and start with ones.")),
    "one row too many": (dict(factors=lambda f: np.vstack([np.ones_like(f[:1]), f[::-1]])), (
        "Your last row goes back to the cell before step 1. Lags run from 0 to T - 1, so there are T rows, and f_1 is "
        "in none of them.")),
    "no row of ones": (dict(factors=lambda f: f[:0:-1]), (
        "Row 0 is missing: lag 0, c_T with respect to itself, is a row of ones. There are T rows in all.")),
    "starts at zero": (dict(factors=_FROM_ZEROS), (
        "Your product starts at 0 and stays there. An empty product is 1: start with ones.")),
    "sum": (dict(join=np.cumsum), (
        "You add the gates up. Along a path the chain rule multiplies: one factor for each step.")),
    "sum from zero": (dict(join=np.cumsum, factors=_FROM_ZEROS), (
        "You add the gates up, from 0. Along a path the chain rule multiplies, one factor for each step, and the empty "
        "product is 1.")),
    "sum of logs": (dict(gate=np.log, join=np.cumsum, factors=_FROM_ZEROS), (
        "These are the logarithms of the right values: after adding up logs, an `np.exp` is missing.")),
    "exp of a sum": (dict(join=lambda a, axis: np.exp(np.cumsum(a, axis=axis)), factors=_FROM_ZEROS), (
        "You exponentiate a sum of gates: a product is the exp of the sum of their logarithms. `np.cumprod` spares "
        "you both.")),
    "mean of the gates": (dict(join=lambda a, axis: np.cumsum(a, axis=axis) / np.arange(1, len(a) + 1)[:, None]), (
        "You take a running mean. Along a path the chain rule multiplies: one factor for each step, which together "
        "fade much faster.")),
    "one gate alone": (dict(join=lambda a, axis: a), (
        "Each of your rows has the gate of one step. From c_{T-k} to c_T lie k steps: multiply their gates.")),
    "along the units": (dict(join=lambda a, axis: np.cumprod(a, axis=1)), (
        "You multiply along the units. Time runs along the rows: `axis=0`; each unit has a path of its own.")),
    "1 - f": (dict(gate=lambda f: 1 - f), (
        "You multiply 1 - f, the part that is dropped. f is the part of the old cell that is kept: "
        "c_t = f_t c_{t-1} + ….")),
    "sigmoid again": (dict(gate=sigmoid), (
        "You apply the sigmoid to f. The gates are handed in as they are used, after the sigmoid.")),
    "slope of the sigmoid": (dict(gate=lambda f: f * (1 - f)), (
        "f (1 - f) is the derivative of the gate. With the gates held fixed, c_t = f_t c_{t-1} + … has the derivative "
        "f_t with respect to the old cell.")),
    "squared": (dict(gate=np.square), "Each factor is squared: every step contributes f once."),
    "no forget gate": (dict(gate=np.ones_like), (
        "All ones: that is the path of the cell of 1997, which has no forget gate. Here every step has a factor f.")),
    "by time": (dict(finish=lambda rows: rows[::-1]), (
        "Your rows are in reverse order, by time. Row k belongs to lag k: ones first, the longest product last.")),
    "units in rows": (dict(finish=lambda rows: rows.T), (
        "Rows and columns are swapped: the result is (T, d_h), one lag in each row. Transpose it.")),
    "mean over the units": (dict(finish=lambda rows: rows.mean(axis=1)), (
        "You take the mean over the units. Each unit has a path of its own: the result is (T, d_h).")),
    "largest unit": (dict(finish=lambda rows: rows.max(axis=1)), (
        "You take the largest over the units. Each unit has a path of its own: the result is (T, d_h).")),
    "norm over the units": (dict(finish=lambda rows: np.linalg.norm(rows, axis=1)), (
        "You take a norm over the units. Each unit has a path of its own: the result is (T, d_h).")),
    "product over the units": (dict(finish=lambda rows: rows.prod(axis=1)), (
        "You multiply over the units as well. Units don't mix on the cell path, products are entry by entry: the "
        "result is (T, d_h).")),
    "longest lag only": (dict(finish=lambda rows: rows[-1]), (
        "You return the longest lag only. All lags are wanted, one in each row: collect them as you go.")),
}
CELL_PATH = [*variations(_path, _PATH), *(Mistake(*row) for row in [
    (lambda f: _one_buffer(f, last=True), _BUFFER, "one buffer"),
    (lambda f: _one_buffer(f, last=False), _BUFFER, "one buffer, stopped before f_1"),
    (lambda f: np.cumprod(f), "`np.cumprod` without an axis flattens the matrix and multiplies across units. Time runs "
     "along the rows: `axis=0`.", "no axis"),
    (lambda f: np.prod(f, axis=0), "You return one product over all steps, back to the cell before step 1. Row k is "
     "the product of the last k gates: collect them as you go.", "product of all"),
    (lambda f: f[-1] ** np.arange(len(f))[:, None], "You raise the last gate to the power k. The gates change from "
     "step to step: multiply those of the k steps.", "power of the last gate"),
    (lambda f: f.mean(axis=0) ** np.arange(len(f))[:, None], "You raise the mean gate to the power k. That is the "
     "trend: the path is the product of the gates themselves.", "power of the mean gate"),
    (lambda f: (np.prod(f, axis=0) / np.cumprod(f, axis=0))[::-1], "Right as long as no gate is closed: you divide by "
     "a product of gates, and 0/0 is not a number. Multiply up from the last step instead.", "quotient"),
    (lambda f: np.stack([np.prod(f[-k:], axis=0) for k in range(len(f))]), "All rows but row 0 are right: `f[-0:]` is "
     "the whole array, as `f[0:]` is, where no gate was meant. Take `f[len(f) - k:]`, which is empty for k = 0.",
     "minus zero"),
    (lambda f: np.stack([np.diag(row) for row in _path(f)]), "You return whole Jacobians, (T, d_h, d_h). They are "
     "diagonal on the cell path: return their diagonals alone, (T, d_h).", "whole matrices"),
    (_into_f, _CHANGED, "gates overwritten"),
    (_alias, _CHANGED, "last gate multiplied in place"),
])]
CELL_PATH_PAIRS = pairs(_path, _PATH)
