"""Lecture 2's exercises: unusual right answers pass, wrong ones get a sentence of use, whether in a list or not."""

import itertools
import math

import numpy as np
import pytest
import torch

from answers import Answers, exercises_of, fails_by_values, fails_listed, fails_unlisted, passes
from course_utils import gated
from course_utils.exercises import lecture_02
from course_utils.gated import sigmoid

ANSWERS = Answers()  # the wrong ones are in no list
right, wrong, written, degenerate = ANSWERS.right, ANSWERS.wrong, ANSWERS.written, ANSWERS.degenerate


lstm, gru, path = gated.lstm_step, gated.gru_step, gated.cell_path


def s(z):
    return 1 / (1 + np.exp(-z))


# ---- lstm_step ------------------------------------------------------------------------------------------------------


@right(lecture_02.lstm_step)
def one_matrix(x, h, c, W, U, b):
    n, z = len(c), np.hstack([W, U, b[:, None]]) @ np.concatenate([x, h, [1.0]])
    c = s(z[n:2 * n]) * c + s(z[:n]) * np.tanh(z[2 * n:-n])
    return s(z[-n:]) * np.tanh(c), c


@right(lecture_02.lstm_step)
def by_torch(x, h, c, W, U, b):
    cell = torch.nn.LSTMCell(len(x), len(h), dtype=torch.float64)
    with torch.no_grad():
        for parameter, value in zip(cell.parameters(), (W, U, 0.25 * b, 0.75 * b)):
            parameter.copy_(torch.from_numpy(value))
        h, c = cell(torch.from_numpy(x), (torch.from_numpy(h), torch.from_numpy(c)))
    return [h.numpy(), c.numpy()]


@right(lecture_02.lstm_step)
def unit_by_unit(x, h, c, W, U, b):
    n, new_h, new_c = len(c), np.zeros(len(c)), np.zeros(len(c))
    for j in range(n):
        i, f, g, o = (W[k] @ x + U[k] @ h + b[k] for k in range(j, 4 * n, n))
        new_c[j] = c[j] / (1 + math.exp(-f)) + math.tanh(g) / (1 + math.exp(-i))
        new_h[j] = math.tanh(new_c[j]) / (1 + math.exp(-o))
    return new_h, new_c


@right(lecture_02.lstm_step)
def tanh_by_sigmoid_in_single_precision(x, h, c, W, U, b):
    x, h, c, W, U, b = (a.astype(np.float32) for a in (x, h, c, W, U, b))
    i, f, g, o = (x @ W.T + h @ U.T + b).reshape(4, -1)
    c = c * s(f) + s(i) * (2 * s(2 * g) - 1)
    return s(o) * (2 * s(2 * c) - 1), c


@right(lecture_02.lstm_step)
def in_place_on_copies(x, h, c, W, U, b):
    (i, f, o), g = s((W @ x + U @ h + b).reshape(4, -1)[[0, 1, 3]]), np.tanh(np.split(W @ x + U @ h + b, 4)[2])
    c = c.copy()
    c *= f
    c += i * g
    return o * np.tanh(c), c


wrong(lecture_02.lstm_step, "Keep the arrays apart")(lambda *a: np.concatenate(lstm(*a)))
wrong(lecture_02.lstm_step, "Expected 2 values (h, c), but your function returned 3")(lambda *a: (*lstm(*a), 0.0))
wrong(lecture_02.lstm_step, "Expected 2 values (h, c), but your function returned a NumPy array")(
    lambda *a: lstm(*a)[0])
wrong(lecture_02.lstm_step, "stay in NumPy")(lambda *a: tuple(map(torch.from_numpy, lstm(*a))))
wrong(lecture_02.lstm_step, "`c`: the right values with the opposite sign")(lambda *a: (lstm(*a)[0], -lstm(*a)[1]))
wrong(lecture_02.lstm_step, "is right; `c` is not")(lambda *a: (lstm(*a)[0], lstm(*a)[1].clip(-1, 1)))
wrong(lecture_02.lstm_step, "Compare the shapes on both sides of `@`")(lambda x, h, c, W, U, b: W.T @ x)
wrong(lecture_02.lstm_step, "changes its argument `b`")(lambda *a: (lstm(*a), a[5].fill(0))[0])
wrong(lecture_02.lstm_step, "does not depend on `x` and `h`")(
    lambda x, h, c, W, U, b: lstm(0 * x, 0 * h, c, W + 1, U, b + 0.5))
wrong(lecture_02.lstm_step, "Two things at once")(lambda x, h, c, W, U, b: lstm(x, 0 * h, c, W, U, b)[::-1])
wrong(lecture_02.lstm_step, "Take the case with one unit")(
    lambda x, h, c, W, U, b: lstm(x, h, c, W, (U + np.roll(U, 1)) / 2, b + 0.1))


@wrong(lecture_02.lstm_step, "An axis too many")
def columns(x, h, c, W, U, b):
    i, f, g, o = np.split(W @ x[:, None] + U @ h[:, None] + b[:, None], 4)
    c = s(f) * c + s(i) * np.tanh(g)
    return s(o) * np.tanh(c), c


@wrong(lecture_02.lstm_step, "Is it spelled as in the signature")
def undefined_gate(x, h, c, W, U, b):
    i, f, g = np.split(W @ x + U @ h + b, 4)[:3]
    c = s(f) * c + s(i) * np.tanh(g)
    return s(output) * np.tanh(c), c  # noqa: F821


def blocks(x, h, W, U, b):
    return np.split(W @ x + U @ h + b, 4)


def student(new_c, new_h=lambda o, c, old: s(o) * np.tanh(c)):
    """An LSTM step written in two lines, with the blocks before the activation."""
    def answer(x, h, c, W, U, b):
        i, f, g, o = blocks(x, h, W, U, b)
        new = new_c(i, f, g, c)
        return new_h(o, new, c), new
    return answer


def cell(i, f, g, c):
    return s(f) * c + s(i) * np.tanh(g)


def reordered(*order):
    """The blocks taken in another order, as with weights from another library."""
    def answer(x, h, c, W, U, b):
        W, U, b = (np.concatenate([np.split(a, 4)[k] for k in order]) for a in (W, U, b))
        return lstm(x, h, c, W, U, b)
    return answer


def output_bias_for_three_gates(x, h, c, W, U, b):
    b_g, b_o = np.split(b, 4)[2:]
    return lstm(x, h, c, W, U, np.concatenate([b_o, b_o, b_g, b_o]))


def first_rows_for_all(x, h, c, W, U, b):
    n = len(h)
    return lstm(x, h, c, np.tile(W[:n], (4, 1)), np.tile(U[:n], (4, 1)), np.tile(b[:n], 4))


def coupled(x, h, c, W, U, b):
    i, _, g, o = blocks(x, h, W, U, b)
    c = c - s(i) * (c - np.tanh(g))
    return s(o) * np.tanh(c), c


def cell_in_place(x, h, c, W, U, b):
    i, f, g, o = blocks(x, h, W, U, b)
    c *= s(f)
    c += s(i) * np.tanh(g)
    return s(o) * np.tanh(c), c


def cell_and_state_in_place(x, h, c, W, U, b):
    h[:], c[:] = lstm(x, h, c, W, U, b)
    return h, c


written(lecture_02.lstm_step, {
    "blocks i, f, o, g": ("Your candidate and your output gate are exchanged", reordered(0, 1, 3, 2)),
    "blocks f, i, g, o": ("the order f, i, g, o.", reordered(1, 0, 2, 3)),
    "blocks f, i, o, g": ("the order f, i, o, g.", reordered(1, 0, 3, 2)),
    "blocks i, o, f, g": ("the order i, o, f, g.", reordered(0, 2, 3, 1)),
    "formula with f and i exchanged": ("the formula has them the wrong way round",
                                       student(lambda i, f, g, c: s(i) * c + s(f) * np.tanh(g))),
    "h without tanh": ("Without the tanh your h can leave (-1, 1)", student(cell, lambda o, c, old: s(o) * c)),
    "forget gate used twice": ("does not depend on the input gate",
                               student(lambda i, f, g, c: s(f) * (c + np.tanh(g)))),
    "gate added": ("i g. With i = 0, nothing may enter", student(lambda i, f, g, c: s(f) * c + s(i) + np.tanh(g))),
    "tanh on the input gate": ("Your input gate is a tanh",
                               student(lambda i, f, g, c: s(f) * c + np.tanh(i) * np.tanh(g))),
    "sigmoid candidate": ("candidate is a sigmoid, never negative", student(lambda i, f, g, c: s(f) * c + s(i) * s(g))),
    "cell squashed": ("Carry the raw sum", student(lambda *z: np.tanh(cell(*z)), lambda o, c, old: s(o) * c)),
    "cell squashed, tanh again": ("Carry the raw sum", student(lambda *z: np.tanh(cell(*z)))),
    "coupled gates": ("coupled variant, f = 1 - i", coupled),
    "one bias for all": ("its own slice of b", output_bias_for_three_gates),
    "one weight for all": ("gates i, f and o are always equal", first_rows_for_all),
    "hidden forget bias": ("add 1 to the forget gate", student(lambda i, f, g, c: cell(i, f + 1, g, c))),
    "output gate activated twice": ("(0.27, 0.73)", student(cell, lambda o, c, old: s(np.tanh(o)) * np.tanh(c))),
    "c first": ("return (h, c)", lambda *a: lstm(*a)[::-1]),
    "bias twice": ("The bias is added twice", lambda x, h, c, W, U, b: lstm(x, h, c, W, U, b + b)),
    "no bias": ("bias b is missing", lambda x, h, c, W, U, b: lstm(x, h, c, W, U, 0 * b)),
    "W and U exchanged": ("no error when d_in equals d_h",
                          lambda x, h, c, W, U, b: lstm_by_names(x, h, c, W=U, U=W, b=b)),
    "interleaved": ("every fourth row", lambda x, h, c, W, U, b: lstm(x, h, c, *(
        np.concatenate([a[k::4] for k in range(4)]) for a in (W, U, b)))),
    "old c in h": ("the cell from before the step", student(cell, lambda o, c, old: s(o) * np.tanh(old))),
    "old h returned": ("you return the old h", lambda x, h, c, W, U, b: (h, lstm(x, h, c, W, U, b)[1])),
    "cell in place": ("change the caller's cell", cell_in_place),
    "both in place": ("caller's cell and state", cell_and_state_in_place),
    "sum instead of product": ("You add the forget gate", student(lambda i, f, g, c: s(f) + c + s(i) * np.tanh(g))),
    "parentheses": ("`1 / 1 + np.exp(-z)` divides first", lambda x, h, c, W, U, b: with_gates(
        lambda z: 1 / 1 + np.exp(-z))(x, h, c, W, U, b)),
    "sign": ("The sign in your sigmoid", lambda *a: with_gates(lambda z: 1 / (1 + np.exp(z)))(*a)),
})


def lstm_by_names(x, h, c, W, U, b):
    i, f, g, o = np.split(W @ x + U @ h + b, 4)
    c = cell(i, f, g, c)
    return s(o) * np.tanh(c), c


def with_gates(activation):
    def answer(x, h, c, W, U, b):
        i, f, g, o = blocks(x, h, W, U, b)
        c = activation(f) * c + activation(i) * np.tanh(g)
        return activation(o) * np.tanh(c), c
    return answer


degenerate(
    lecture_02.lstm_step,
    squeezed=lambda *a: tuple(v.squeeze() for v in lstm(*a)),
    small_states=lambda *a: (lstm(*a)[0].clip(-0.8, 0.8), lstm(*a)[1]),
    small_cells=lambda *a: (lstm(*a)[0], lstm(*a)[1].clip(-2, 2)),
    three_inputs=lambda x, h, c, W, U, b: lstm(x[:3], h, c, W[:, :3], U, b),
    three_units=lambda x, h, c, W, U, b: tuple(v[:3] for v in lstm(x, h, c, W, U, b)),
    positive_cell=lambda x, h, c, W, U, b: lstm(x, h, abs(c), W, U, b),
    first_step=lambda x, h, c, W, U, b: lstm(x, 0 * h, 0 * c, W, U, b),
    exchanged_if_square=lambda x, h, c, W, U, b: (
        lstm(x, h, c, U, W, b) if len(x) == len(h) > 1 else lstm(x, h, c, W, U, b)),
    symmetric_blocks=lambda x, h, c, W, U, b: lstm(x, h, c, W, np.concatenate(
        [(u + u.T) / 2 for u in np.split(U, 4)]), b),
)


# ---- lstm_parameters ------------------------------------------------------------------------------------------------


@right(lecture_02.lstm_parameters)
def counted_by_torch(d_in, d_h):
    return sum(p.numel() for p in torch.nn.LSTM(d_in, d_h).parameters())


@right(lecture_02.lstm_parameters)
def counted_by_shapes(d_in, d_h):
    return sum(math.prod(shape) for shape in [(4 * d_h, d_in), (4 * d_h, d_h), (4 * d_h,), (4 * d_h,)])


@right(lecture_02.lstm_parameters)
def counted_one_by_one(d_in, d_h):
    count = 0
    for _block, _unit in itertools.product("ifgo", range(d_h)):
        count += len(range(d_in)) + len(range(d_h)) + 2
    return count


@right(lecture_02.lstm_parameters)
def numpy_integer(d_in, d_h):
    return np.sum([np.zeros((4 * d_h, d_in + d_h + 2)).size])


@right(lecture_02.lstm_parameters)
def right_number_as_a_float(d_in, d_h):
    return 4.0 * d_h * (d_in + d_h + 2)


count = lecture_02.lstm_parameters.reference
wrong(lecture_02.lstm_parameters, "a single number")(lambda d_in, d_h: (4 * d_h * d_in, 4 * d_h * d_h, 8 * d_h))
wrong(lecture_02.lstm_parameters, "`.item()`")(lambda d_in, d_h: np.array([count(d_in, d_h)]))
wrong(lecture_02.lstm_parameters, "a dict of length 1")(lambda d_in, d_h: {"count": count(d_in, d_h)})
wrong(lecture_02.lstm_parameters, "every value is 1 too large")(lambda d_in, d_h: count(d_in, d_h) + 1)
wrong(lecture_02.lstm_parameters, "0.5 times the right values")(lambda d_in, d_h: 2 * d_h * (d_in + d_h + 2))
wrong(lecture_02.lstm_parameters, "the square of the right value")(lambda d_in, d_h: count(d_in, d_h) ** 2)
wrong(lecture_02.lstm_parameters, "opposite sign")(lambda d_in, d_h: -count(d_in, d_h))
wrong(lecture_02.lstm_parameters, "`sum(p.numel() for p in torch.nn.LSTM(3, 5).parameters())`")(
    lambda d_in, d_h: 4 * d_h * (d_in * d_h + 2))
wrong(lecture_02.lstm_parameters, "has no attribute 'shape'")(lambda d_in, d_h: d_in.shape[0] * d_h)
wrong(lecture_02.lstm_parameters, "Printing a value isn't returning it")(lambda d_in, d_h: print(count(d_in, d_h)))
wrong(lecture_02.lstm_parameters, "Two things at once")(lambda d_in, d_h: 3 * d_h * (d_in + d_h + 1))
wrong(lecture_02.lstm_parameters, "Right in the case “as many inputs as units, 4”")(
    lambda d_in, d_h: count(min(d_in, d_h), 4))

written(lecture_02.lstm_parameters, {
    "one bias": ("One would be enough", lambda d_in, d_h: 4 * d_h * (d_in + d_h + 1)),
    "no bias": ("biases are missing", lambda d_in, d_h: (d_in + d_h) * d_h * 4),
    "three gates": ("three blocks, as a GRU has", lambda d_in, d_h: 3 * (d_in * d_h + d_h**2 + 2 * d_h)),
    "as torch counts a GRU": ("as a GRU has",
                              lambda d_in, d_h: sum(p.numel() for p in torch.nn.GRU(d_in, d_h).parameters())),
    "as torch counts an RNN": ("plain RNN",
                               lambda d_in, d_h: sum(p.numel() for p in torch.nn.RNN(d_in, d_h).parameters())),
    "U forgotten": ("The recurrent weights are missing", lambda d_in, d_h: 4 * d_h * d_in + 8 * d_h),
    "W forgotten": ("The weights of the input are missing", lambda d_in, d_h: 4 * d_h**2 + 8 * d_h),
    "d_h for d_h²": ("U is a full matrix", lambda d_in, d_h: 4 * (d_h * d_in + d_h + 2 * d_h)),
    "d_h d_in for d_h²": ("You give U the shape of W", lambda d_in, d_h: 4 * (2 * d_h * d_in + 2 * d_h)),
    "(4 d_h)²": ("You square 4 d_h", lambda d_in, d_h: 4 * d_h * d_in + (4 * d_h) ** 2 + 8 * d_h),
    "biases of one block": ("biases of one block only", lambda d_in, d_h: 4 * d_h * (d_in + d_h) + 2 * d_h),
    "sizes exchanged": ("exchanged d_in and d_h", lambda d_in, d_h: 4 * d_in * (d_in + d_h + 2)),
    "parentheses": ("Parentheses are missing", lambda d_in, d_h: 4 * d_h * d_in + d_h + 2),
    "both directions": ("bidirectional", lambda d_in, d_h: sum(
        p.numel() for p in torch.nn.LSTM(d_in, d_h, bidirectional=True).parameters())),
    "states": ("initial states", lambda d_in, d_h: 4 * d_h * (d_in + d_h + 2) + 2 * d_h),
})
degenerate(
    lecture_02.lstm_parameters,
    square=lambda d_in, d_h: 8 * d_h * (d_h + 1),
    square_of_d_in=lambda d_in, d_h: 8 * d_in * (d_in + 1),
    up_to_10_000=lambda d_in, d_h: min(count(d_in, d_h), 10_000),
    one_unit=lambda d_in, d_h: 4 * d_h * (d_in + 3),
    only_the_example=lambda d_in, d_h: 200,
    not_whole=lambda d_in, d_h: count(d_in, d_h) + 0.5,
)


# ---- cell_path ------------------------------------------------------------------------------------------------------


@right(lecture_02.cell_path)
def shifted_cumprod(f):
    return np.cumprod(np.vstack([np.ones(f.shape[1]), f[:0:-1]]), axis=0)


@right(lecture_02.cell_path)
def products_of_slices(f):
    return np.array([f[len(f) - k:].prod(axis=0) for k in range(len(f))])


@right(lecture_02.cell_path)
def by_logarithms(f):
    logs = np.log(np.flip(f, axis=0))
    return np.exp(np.cumsum(np.roll(np.vstack([logs[:-1], 0 * f[:1]]), 1, axis=0), axis=0))


@right(lecture_02.cell_path)
def by_autograd(f):
    gates, rows = torch.tensor(f), []
    for k in range(len(f)):
        start = torch.ones(f.shape[1], dtype=torch.float64, requires_grad=True)
        c = start
        for gate in gates[len(f) - k:]:
            c = gate * c + 0.3
        rows.append(torch.autograd.grad(c.sum(), start)[0].numpy())
    return np.stack(rows)


@right(lecture_02.cell_path)
def entries_of_a_table(f):
    table = np.ones_like(f)
    for k, j in np.ndindex(*f.shape):
        table[k, j] = table[k - 1, j] * f[-k, j] if k else 1.0
    return table


wrong(lecture_02.cell_path, "join its rows with `np.stack(...)`")(lambda f: list(path(f)))
wrong(lecture_02.cell_path, "the square root of the right value")(lambda f: np.sqrt(path(f)))
wrong(lecture_02.cell_path, "joined end to end")(lambda f: np.concatenate(list(path(f))))
wrong(lecture_02.cell_path, "opposite sign")(lambda f: -path(f))
wrong(lecture_02.cell_path, "too few")(lambda f: path(f)[1:-1])
wrong(lecture_02.cell_path, "stay in NumPy")(lambda f: torch.from_numpy(path(f)))
wrong(lecture_02.cell_path, "An index runs one past the end")(lambda f: np.stack([f[t + 1] for t in range(len(f))]))
wrong(lecture_02.cell_path, "Right in the case “one step”")(lambda f: path(f) - (np.arange(len(f)) == 1)[:, None] * 0.1)
wrong(lecture_02.cell_path, "rows 0 to 2 are right, row 3 is the first that isn't")(
    lambda f: path(f) * (np.arange(len(f)) < 3)[:, None] + 0.5 * (np.arange(len(f)) >= 3)[:, None])
wrong(lecture_02.cell_path, "Take the gates 0.9, 0.5, 0.8 of one unit")(lambda f: path(f) * f)
wrong(lecture_02.cell_path, "Two things at once")(lambda f: np.cumprod(1 - f, axis=0))
wrong(lecture_02.cell_path, "has dtype int64")(lambda f: path(f).astype(int))


def loop(*, start=np.ones_like, order=slice(None, None, -1), store_first=True, in_place=False):
    """The loop of the solution with its usual slips."""
    def answer(f):
        product, rows = start(f[0]), []
        for gate in f[order]:
            if store_first:
                rows.append(product)
            if in_place:
                product *= gate
            else:
                product = product * gate
            if not store_first:
                rows.append(product)
        return np.stack(rows)
    return answer


def alias_of_the_last_gate(f):
    rows, product = [np.ones_like(f[0])], f[-1]
    for gate in f[-2::-1]:
        rows.append(product.copy())
        product *= gate
    return np.stack(rows)


written(lecture_02.cell_path, {
    "own step included": ("Off by one: your row k has k + 1 factors", loop(store_first=False)),
    "cumprod without ones": ("the row of ones is missing", lambda f: np.cumprod(f[::-1], axis=0)),
    "last gate skipped": ("f_T is missing",
                          lambda f: np.stack([f[max(len(f) - 1 - k, 0):-1].prod(axis=0) for k in range(len(f))])),
    "from the wrong end": ("Your products start at step 1", loop(order=slice(None))),
    "cumprod from the wrong end": ("the first k + 1 gates", lambda f: np.cumprod(f, axis=0)),
    "logs": ("an `np.exp` is missing",
             lambda f: np.array([np.log(f[len(f) - k:]).sum(axis=0) for k in range(len(f))])),
    "sum from zero": ("You add the gates up, from 0",
                      lambda f: np.array([f[len(f) - k:].sum(axis=0) for k in range(len(f))])),
    "sum from one": ("the chain rule multiplies", lambda f: 1 + np.array(
        [f[len(f) - k:].sum(axis=0) for k in range(len(f))])),
    "mean over units": ("mean over the units", lambda f: path(f).mean(axis=1)),
    "reversed": ("Your rows are in reverse order", lambda f: path(f)[::-1]),
    "no ones": ("Row 0 is missing", lambda f: path(f)[1:]),
    "all lags and one more": ("goes back to the cell before step 1", lambda f: np.vstack([path(f), f.prod(axis=0)])),
    "start at zero": ("stays there", loop(start=np.zeros_like)),
    "one buffer": ("multiplied in place (`*=`)", loop(in_place=True)),
    "one buffer, stopped early": ("multiplied in place", lambda f: np.stack([path(f)[-1]] * len(f))),
    "argument changed": ("`product = f[-1]`, which copies nothing", alias_of_the_last_gate),
    "complement": ("the part that is dropped", lambda f: path(1 - f)),
    "quotient": ("0/0 is not a number", lambda f: (f.prod(axis=0) / np.cumprod(f, axis=0))[::-1]),
    "power": ("The gates change", lambda f: np.array([f[-1] ** k for k in range(len(f))])),
    "axis missing": ("`axis=0`", np.cumprod),
})
degenerate(
    lecture_02.cell_path,
    squeezed=lambda f: path(f).squeeze(),
    one_unit=lambda f: np.broadcast_to(path(f)[:, :1], f.shape).copy(),
    transposed_if_square=lambda f: path(f).T if f.shape[0] == f.shape[1] else path(f),
    first_five_rows=lambda f: path(f)[:5],
    two_factors=lambda f: np.vstack([path(f)[:3], np.repeat(path(f)[2:3], max(len(f) - 3, 0), axis=0)]),
    open_gates=lambda f: path(np.maximum(f, 1e-3)),
    three_units=lambda f: path(f)[:, :3],
    quotient_by_lag=lambda f: f[::-1].prod(axis=0) / np.cumprod(f, axis=0)[::-1],
)


# ---- gru_step -------------------------------------------------------------------------------------------------------


@right(lecture_02.gru_step)
def gru_by_torch(x, h, W, U, b, bn):
    layer = torch.nn.GRUCell(len(x), len(h), dtype=torch.float64)
    with torch.no_grad():
        for parameter, value in zip(layer.parameters(), (W, U, b, np.concatenate([0 * bn, 0 * bn, bn]))):
            parameter.copy_(torch.from_numpy(value))
        return layer(torch.from_numpy(x), torch.from_numpy(h)).numpy()


@right(lecture_02.gru_step)
def step_towards_the_candidate(x, h, W, U, b, bn):
    n = len(h)
    gates = s(W[:2 * n] @ x + b[:2 * n] + U[:2 * n] @ h)
    candidate = np.tanh(W[2 * n:] @ x + b[2 * n:] + gates[:n] * (U[2 * n:] @ h + bn))
    return h + (1 - gates[n:]) * (candidate - h)


@right(lecture_02.gru_step)
def rows_and_complement(x, h, W, U, b, bn):
    (W_r, W_z, W_n), (U_r, U_z, U_n), (b_r, b_z, b_n) = (np.split(a, 3) for a in (W, U, b))
    r, replaced = s(x @ W_r.T + h @ U_r.T + b_r), s(-(x @ W_z.T + h @ U_z.T + b_z))
    return replaced * np.tanh(x @ W_n.T + b_n + r * (h @ U_n.T) + r * bn) + (1 - replaced) * h


@right(lecture_02.gru_step)
def gru_unit_by_unit(x, h, W, U, b, bn):
    d_h, new = len(h), []
    for j in range(d_h):
        r, z = (1 / (1 + math.exp(-(W[k] @ x + U[k] @ h + b[k]))) for k in (j, d_h + j))
        k = 2 * d_h + j
        n = math.tanh(W[k] @ x + b[k] + r * (U[k] @ h + bn[j]))
        new.append((1 - z) * n + z * h[j])
    return np.array(new)


wrong(lecture_02.gru_step, "`h` should be a NumPy array of shape (4,)")(lambda *a: (gru(*a), a[1]))
wrong(lecture_02.gru_step, "Join the rows of a list")(lambda *a: [*gru(*a), 0.0])
wrong(lecture_02.gru_step, "a column isn't a vector")(lambda *a: gru(*a)[:, None])
wrong(lecture_02.gru_step, "stay in NumPy")(lambda *a: torch.from_numpy(gru(*a)))
wrong(lecture_02.gru_step, "opposite sign")(lambda *a: -gru(*a))
wrong(lecture_02.gru_step, "all zero")(lambda *a: 0 * gru(*a))
wrong(lecture_02.gru_step, "summed over the units")(lambda *a: gru(*a)[0])
wrong(lecture_02.gru_step, "2 times the right values")(lambda *a: 2 * gru(*a))
wrong(lecture_02.gru_step, "changes its argument `bn`")(lambda *a: (gru(*a), a[5].fill(0))[0])
wrong(lecture_02.gru_step, "Compare the shapes on both sides of the operation")(
    lambda x, h, W, U, b, bn: h + W @ x + b)
wrong(lecture_02.gru_step, "does not depend on `x`")(lambda x, h, W, U, b, bn: gru(0 * x + 0.3, h, W, U, b, bn))
wrong(lecture_02.gru_step, "Right in the case “first step: h is zero”")(
    lambda x, h, W, U, b, bn: gru(x, np.tanh(h), W, U, b, bn))
wrong(lecture_02.gru_step, "Two things at once")(
    lambda x, h, W, U, b, bn: gru_with(x, h, W, U, 0 * b, bn, mix=lambda z, n, h: (1 - z) * h + z * n))
wrong(lecture_02.gru_step, "z is the share of it that is kept")(
    lambda x, h, W, U, b, bn: gru(x, h[::-1].copy(), W, U, b, bn + 0.1))


def gru_with(x, h, W, U, b, bn, *, order=(0, 1, 2), candidate=lambda x_n, r, h_n, bn: x_n + r * (h_n + bn),
             mix=lambda z, n, h: (1 - z) * n + z * h, gate=s, squash=np.tanh):
    W, U, b = (np.concatenate([np.split(a, 3)[k] for k in order]) for a in (W, U, b))
    (x_r, x_z, x_n), (h_r, h_z, h_n) = np.split(W @ x + b, 3), np.split(U @ h, 3)
    return mix(gate(x_z + h_z), squash(candidate(x_n, gate(x_r + h_r), h_n, bn)), h)


def gru_slip(**changes):
    return lambda *arguments: gru_with(*arguments, **changes)


def r_before(x, h, W, U, b, bn):
    n = len(h)
    r, z = np.split(s((W @ x + U @ h + b)[:2 * n]), 2)
    return (1 - z) * np.tanh(W[2 * n:] @ x + U[2 * n:] @ (r * h) + b[2 * n:] + bn) + z * h


def gru_in_place(x, h, W, U, b, bn):
    new = gru(x, h, W, U, b, bn)
    h *= 0
    h += new
    return new


written(lecture_02.gru_step, {
    "z the other way round": ("a convention of other texts", gru_slip(mix=lambda z, n, h: (1 - z) * h + z * n)),
    "r before the product": ("r before the matrix product", r_before),
    "bn outside": ("bn stands outside of r", gru_slip(candidate=lambda x, r, h, bn: x + r * h + bn)),
    "no bn": ("does not depend on bn", lambda x, h, W, U, b, bn: gru(x, h, W, U, b, 0 * bn)),
    "all inside r": ("scales the input, too", gru_slip(candidate=lambda x, r, h, bn: r * (x + h + bn))),
    "no r": ("The reset gate is missing", gru_slip(candidate=lambda x, r, h, bn: x + h + bn)),
    "blocks z, r, n": ("the order z, r, n.", gru_slip(order=(1, 0, 2))),
    "blocks n first": ("the order n, z, r.", gru_slip(order=(2, 1, 0))),
    "sigmoid candidate": ("candidate is a sigmoid", gru_slip(squash=s)),
    "tanh gates": ("Your gates are tanh", gru_slip(gate=np.tanh)),
    "raw gates": ("the sigmoid is missing", gru_slip(gate=lambda z: z)),
    "old state missing": ("The old state is missing", gru_slip(mix=lambda z, n, h: (1 - z) * n)),
    "candidate alone": ("You return the candidate", gru_slip(mix=lambda z, n, h: n)),
    "tanh on the whole": ("through tanh once more", gru_slip(mix=lambda z, n, h: np.tanh((1 - z) * n + z * h))),
    "one tanh on the whole": ("Your tanh is around the whole mixture",
                              gru_slip(squash=lambda z: z, mix=lambda z, n, h: np.tanh((1 - z) * n + z * h))),
    "z for both": ("what is not kept", gru_slip(mix=lambda z, n, h: z * (n + h))),
    "candidate in full": ("candidate comes in full", gru_slip(mix=lambda z, n, h: n + z * h)),
    "W and U exchanged": ("no error when d_in equals d_h", lambda x, h, W, U, b, bn: gru_with(x, h, U, W, b, bn)),
    "no bias": ("The bias b is missing", lambda x, h, W, U, b, bn: gru(x, h, W, U, 0 * b, bn)),
    "in place": ("change the caller's h", gru_in_place),
})
degenerate(
    lecture_02.gru_step,
    squeezed=lambda *a: gru(*a).squeeze(),
    first_step=lambda x, h, W, U, b, bn: gru(x, 0 * h, W, U, b, bn),
    three_inputs=lambda x, h, W, U, b, bn: gru(x[:3], h, W[:, :3], U, b, bn),
    positive_state=lambda x, h, W, U, b, bn: gru(x, abs(h), W, U, b, bn),
    r_before_the_product_in_small_layers=lambda *a: r_before(*a) if len(a[1]) < 4 else gru(*a),
    exchanged_if_square=lambda x, h, W, U, b, bn: (
        gru(x, h, U, W, b, bn) if len(x) == len(h) > 1 else gru(x, h, W, U, b, bn)),
    symmetric_blocks=lambda x, h, W, U, b, bn: gru(x, h, W, np.concatenate(
        [(u + u.T) / 2 for u in np.split(U, 3)]), b, bn),
    cut_off=lambda *a: gru(*a).clip(-0.9, 0.5),
)


# ---- tests ----------------------------------------------------------------------------------------------------------

EXERCISES = exercises_of(lecture_02)


@ANSWERS.each_right
def test_right_but_unusual_answers_pass(exercise, answer):
    passes(exercise, answer)


@ANSWERS.each_wrong
def test_wrong_answers_in_no_list_get_a_useful_sentence(exercise, answer, phrase):
    fails_unlisted(exercise, answer, phrase)


@ANSWERS.each_written
def test_what_students_write_gets_the_hint_about_it(exercise, answer, phrase):
    fails_listed(exercise, answer, phrase)


@ANSWERS.each_degenerate
def test_answers_that_are_right_in_easy_cases_alone_fail(exercise, answer):
    fails_by_values(exercise, answer)


def test_every_exercise_has_enough_of_each():
    assert [e.number for e in EXERCISES] == ["2.1", "2.2", "2.3", "2.4"]
    ANSWERS.enough(EXERCISES, right=3, wrong=8, written=15, degenerate=6)


def test_the_loops_of_these_tests_are_right_where_no_knob_is_turned():
    assert lecture_02.lstm_step.check(student(cell)).passed
    assert lecture_02.lstm_step.check(reordered(0, 1, 2, 3)).passed
    assert lecture_02.lstm_step.check(with_gates(sigmoid)).passed
    assert lecture_02.cell_path.check(loop()).passed
    assert lecture_02.gru_step.check(gru_slip()).passed


def test_the_references_taken_from_the_package_are_its_own_functions():
    assert lecture_02.lstm_step.reference is gated.lstm_step
    assert lecture_02.cell_path.reference is gated.cell_path
    assert lecture_02.gru_step.reference is gated.gru_step


@pytest.mark.parametrize("d_in, d_h", [(1, 1), (3, 5), (8, 2), (50, 31)])
def test_the_count_is_that_of_torch_and_of_the_package(d_in, d_h):
    found = lecture_02.lstm_parameters.reference(d_in, d_h)
    assert type(found) is int
    assert found == gated.parameter_count("lstm", d_in, d_h)
    assert found == sum(p.numel() for p in torch.nn.LSTM(d_in, d_h).parameters())


def test_every_order_of_the_blocks_is_named():
    """All wrong orders get a hint with that order, whichever way the blocks were taken."""
    for order in itertools.permutations(range(4)):
        if order != (0, 1, 2, 3):
            read = ", ".join("ifgo"[order.index(k)] for k in range(4))
            assert f"the order {read}." in lecture_02.lstm_step.check(reordered(*order)).message
    for order in itertools.permutations(range(3)):
        if order != (0, 1, 2):
            read = ", ".join("rzn"[order.index(k)] for k in range(3))
            assert f"the order {read}." in lecture_02.gru_step.check(gru_slip(order=order)).message


def test_the_numbers_in_the_advice_are_those_of_the_case():
    i, f, g, o = s(0.0), s(1.0), np.tanh(2.0), s(-1.0)
    h, c = lstm(*lecture_02.lstm_step.probes[1].arguments())
    assert c[0] == pytest.approx(f * 0.5 + i * g) and h[0] == pytest.approx(o * np.tanh(c[0]))
    advice = lecture_02.lstm_step.advice
    assert f"i = {i:g}, f = {f:.4f} and o = {o:.4f}" in advice and f"tanh(2) = {g:.4f}" in advice
    assert f"c = {f:.4f} · 0.5 + {i:g} · {g:.4f}" in advice
    r, z, n = s(0.0), s(1.0), np.tanh(2 + 0.5 * -1)
    assert gru(*lecture_02.gru_step.probes[1].arguments())[0] == pytest.approx((1 - z) * n + z * 0.5)
    assert f"r = {r:g}, z = {z:.4f} and n = tanh(2 + 0.5 · (-1)) = {n:.4f}" in lecture_02.gru_step.advice
    np.testing.assert_allclose(path(lecture_02.cell_path.probes[1].arguments()[0])[:, 0], [1, 0.8, 0.8 * 0.5])
    assert count(1, 1) == 16 and "16 numbers" in lecture_02.lstm_parameters.advice
