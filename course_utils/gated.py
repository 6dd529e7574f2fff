"""Gated recurrent networks by hand in NumPy: LSTM forward and backward, a GRU step, and the LSTM's gradient flow.

Weights are stored (out, in), and those of one cell are stacked: W (4 d_h, d_in), U (4 d_h, d_h) and b (4 d_h,) hold the
LSTM's gates in PyTorch's order i, f, g, o (input, forget, candidate, output); the GRU's are r, z, n (reset, update,
candidate).  T is the number of steps, d_in the width of an input and d_h the width of the states h and c.  Row t of
an array holds step t+1 of the formula.

PyTorch's layers have two bias vectors, b_ih and b_hh.  In an LSTM they only occur as their sum, which is b here, so
each of them gets the whole gradient of b.  In a GRU one part stays apart: see gru_step.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from course_utils.shapes import expect, in_range

Array = NDArray[np.floating]

BLOCKS = {"rnn": 1, "lstm": 4, "gru": 3}  # blocks of d_h rows in the stacked weights of a cell


class LSTMTrace(NamedTuple):
    """What an LSTM computed at each step, arrays (T, d_h): states h and c, gates i, f, o in (0, 1), candidate g."""

    h: Array
    c: Array
    i: Array
    f: Array
    g: Array
    o: Array


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z)), entry by entry; written with tanh, which doesn't overflow."""
    return 0.5 * (1 + np.tanh(0.5 * z))


def lstm_step(x: Array, h: Array, c: Array, W: Array, U: Array, b: Array) -> tuple[Array, Array]:
    """One step of an LSTM: the cell keeps a part of its content and adds new content, the state shows a part of it.

    x: (d_in,) input; h, c: (d_h,) state and cell before the step.
    W: (4 d_h, d_in), U: (4 d_h, d_h), b: (4 d_h,), the blocks of i, f, g, o in this order.  The gates i, f, o are
    sigmoids of their block of W x + U h + b, the candidate g is the tanh of its block.
    Returns (h, c) after the step, (d_h,) each: c = f c + i g and h = o tanh(c), products entry by entry.
    Raises ValueError when a shape does not fit or a value is not finite.
    Source: Hochreiter and Schmidhuber (1997), Long short-term memory; the forget gate f: Gers, Schmidhuber and
    Cummins (2000), Learning to forget.
    """
    _expect_step("lstm", x=x, h=h, c=c, W=W, U=U, b=b)
    i, f, g, o = np.split(W @ x + U @ h + b, 4)  # (d_h,) each
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return h, c


def lstm_forward(x: Array, W: Array, U: Array, b: Array, h0: Array, c0: Array) -> LSTMTrace:
    """Run an LSTM over a sequence and return states and gates of every step.

    x: (T, d_in) one input per row; W, U, b as in lstm_step; h0, c0: (d_h,) state and cell before step 1.
    Returns six arrays (T, d_h); row t belongs to the step that read x[t] (h0 and c0 are not among them).
    Raises ValueError when a shape does not fit or a value is not finite.
    Source: as for lstm_step.
    """
    _expect_run(x=x, h0=h0, c0=c0, W=W, U=U, b=b)
    h, c, steps = h0, c0, []
    for x_t in x:
        i, f, g, o = np.split(W @ x_t + U @ h + b, 4)  # (d_h,) each
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        c = f * c + i * g
        h = o * np.tanh(c)
        steps.append((h, c, i, f, g, o))
    return LSTMTrace(*(np.stack(rows) for rows in zip(*steps)))  # (T, d_h) each


def lstm_backward(
    x: Array, trace: LSTMTrace, h0: Array, c0: Array, W: Array, U: Array, dhs: Array, dc_T: Array | None = None
) -> tuple[Array, Array, Array, Array, Array]:
    """Back-propagation through time: the gradient of a loss with respect to W, U, b, h0 and c0.

    x: (T, d_in), W, U, h0 and c0 went into lstm_forward, trace came out of it.
    dhs: (T, d_h), where dhs[t] is the gradient of the loss with respect to h[t] through everything but later steps;
    dc_T: (d_h,) that with respect to the last cell, None for zeros.
    Returns (dW, dU, db, dh0, dc0), each of the shape of what it belongs to.  No argument is changed.
    Raises ValueError when a shape does not fit or a value is not finite.
    Source: the chain rule on the formulas of lstm_step, without the truncation of Hochreiter and Schmidhuber (1997).
    """
    last = {} if dc_T is None else {"dc_T": dc_T}
    _expect_run(x=x, **_fields(trace), h0=h0, c0=c0, W=W, U=U, dhs=dhs, **last)
    h_before, c_before = np.vstack([h0, trace.h[:-1]]), np.vstack([c0, trace.c[:-1]])  # (T, d_h)
    dW, dU, db = np.zeros_like(W), np.zeros_like(U), np.zeros_like(U[:, 0])
    dh, dc = np.zeros_like(h0), np.zeros_like(c0) if dc_T is None else dc_T  # what arrives from the step after
    for t in reversed(range(len(x))):
        _, c, i, f, g, o = (rows[t] for rows in trace)
        dh = dh + dhs[t]
        dc = dc + dh * o * (1 - np.tanh(c) ** 2)  # the cell's second way to the loss, through h
        di, df, dg, do = dc * g, dc * c_before[t], dc * i, dh * np.tanh(c)
        dz = np.concatenate([di * i * (1 - i), df * f * (1 - f), dg * (1 - g**2), do * o * (1 - o)])  # (4 d_h,)
        dW += np.outer(dz, x[t])
        dU += np.outer(dz, h_before[t])
        db += dz
        dh, dc = U.T @ dz, dc * f
    return dW, dU, db, dh, dc


def gru_step(x: Array, h: Array, W: Array, U: Array, b: Array, bn: Array) -> Array:
    """One step of a GRU in PyTorch's convention: the new state lies between the old one and a candidate.

    x: (d_in,) input; h: (d_h,) state before the step.
    W: (3 d_h, d_in), U: (3 d_h, d_h), b: (3 d_h,), the blocks of r, z, n in this order; bn: (d_h,).  The gates r and z
    are sigmoids of their block of W x + U h + b; the candidate is n = tanh(W_n x + b_n + r (U_n h + bn)).
    Returns (d_h,): (1 - z) n + z h, products entry by entry, so z is the part of the old state that is kept.
    bn stands apart because r multiplies it, and r changes from step to step: no constant added to b_n could replace
    it.  In PyTorch's terms b holds b_ir + b_hr, b_iz + b_hz and b_in, and bn is b_hn.
    Raises ValueError when a shape does not fit or a value is not finite.
    Source: Cho et al. (2014), Learning phrase representations using RNN encoder-decoder, equations 5 to 8, written
    there without biases and with U_n (r h) where PyTorch has r (U_n h + bn).
    """
    _expect_step("gru", x=x, h=h, W=W, U=U, b=b, bn=bn)
    x_r, x_z, x_n = np.split(W @ x + b, 3)  # (d_h,) each
    h_r, h_z, h_n = np.split(U @ h, 3)  # (d_h,) each
    r, z = sigmoid(x_r + h_r), sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * (h_n + bn))
    return (1 - z) * n + z * h


def parameter_count(cell: str, d_in: int, d_h: int) -> int:
    """How many numbers one layer of PyTorch's nn.RNN, nn.LSTM or nn.GRU learns, both bias vectors counted.

    cell: "rnn", "lstm" or "gru"; d_in, d_h: widths of input and state.
    Raises ValueError when the cell is unknown or a width is not a positive integer.
    """
    if cell not in BLOCKS:
        raise ValueError(f"cell: expected one of {', '.join(BLOCKS)}, got {cell!r}")
    in_range(d_in, "d_in", low=1, integer=True)
    in_range(d_h, "d_h", low=1, integer=True)
    return BLOCKS[cell] * d_h * (d_in + d_h + 2)


def cell_path(f: Array) -> Array:
    """The gradient from the last cell to an earlier one along the cell path alone, by lag.

    f: (T, d_h) forget gates, one step per row.
    Returns (T, d_h): row k is the diagonal of dc_T/dc_{T-k} with all gates held fixed, the product of the last k
    forget gates (k = 0: ones).
    Raises ValueError when f is not a finite (T, d_h) array.
    Source: Gers, Schmidhuber and Cummins (2000), Learning to forget; without forget gate, as in Hochreiter and
    Schmidhuber (1997), every factor is 1.  A forget bias of 1 raises the factors at the start of training from about
    0.5 to 0.73: Jozefowicz, Zaremba and Sutskever (2015), An empirical exploration of recurrent network architectures.
    """
    _expect_run(f=f)
    product, rows = np.ones_like(f[0]), []
    for f_t in f[::-1]:
        rows.append(product)
        product = product * f_t
    return np.stack(rows)  # (T, d_h)


def cell_jacobians(trace: LSTMTrace, c0: Array, U: Array) -> Array:
    """The Jacobian of state and cell after each step with respect to state and cell before it.

    trace: what lstm_forward returned; c0: (d_h,) the cell before step 1; U: (4 d_h, d_h).
    Returns (T, 2 d_h, 2 d_h); entry t is d(h_t, c_t)/d(h_{t-1}, c_{t-1}), h in the first d_h rows and columns.  Its
    lower right block is diag(f_t).
    Raises ValueError when a shape does not fit or a value is not finite.
    """
    _expect_run(**_fields(trace), c0=c0, U=U)
    return np.stack([_jacobian(trace, t, trace.c[t - 1] if t > 0 else c0, U) for t in range(len(trace.c))])


def cell_gradient_norms(trace: LSTMTrace, U: Array) -> tuple[Array, Array]:
    """How much of a small change of an early cell reaches the last one, along the cell path and in all, by lag.

    trace: what lstm_forward returned; U: (4 d_h, d_h).
    Returns (direct, full), (T,) each: entry k of direct is the spectral norm of cell_path's row k, the largest of its
    entries; entry k of full that of the whole dc_T/dc_{T-k}, where a change of the cell also changes h and with it
    all later gates (k = 0: norm 1).  full can be larger or smaller than direct.
    Raises ValueError when a shape does not fit or a value is not finite.
    """
    _expect_run(**_fields(trace), U=U)
    d_h, full = U.shape[1], []
    shown = trace.o * (1 - np.tanh(trace.c) ** 2)  # (T, d_h) dh_t/dc_t within a step
    rows = np.eye(2 * d_h)[d_h:]  # (d_h, 2 d_h) dc_T/d(h_t, c_t), h_t and c_t moved separately
    for t in reversed(range(len(trace.c))):
        full.append(np.linalg.norm(rows[:, :d_h] * shown[t] + rows[:, d_h:], 2))
        if t > 0:
            rows = rows @ _jacobian(trace, t, trace.c[t - 1], U)
    return cell_path(trace.f).max(axis=1), np.array(full)


def _jacobian(trace: LSTMTrace, t: int, c_before: Array, U: Array) -> Array:
    """d(h_t, c_t)/d(h_{t-1}, c_{t-1}), (2 d_h, 2 d_h), for row t of the trace."""
    _, c, i, f, g, o = (rows[t][:, None] for rows in trace)  # (d_h, 1): each scales a row
    U_i, U_f, U_g, U_o = np.split(U, 4)  # (d_h, d_h) each
    dc_dh = g * i * (1 - i) * U_i + c_before[:, None] * f * (1 - f) * U_f + i * (1 - g**2) * U_g
    dc_dc = np.diag(f[:, 0])
    shown = o * (1 - np.tanh(c) ** 2)  # dh_t/dc_t
    dh_dh = np.tanh(c) * o * (1 - o) * U_o + shown * dc_dh
    return np.block([[dh_dh, shown * dc_dc], [dc_dh, dc_dc]])


def _expect_step(cell: str, **arrays: Array) -> None:
    """Check the arguments of one step, by their names: x is (d_in,)."""
    _expect_shapes(arrays, cell, {"x": "d_in"})


def _expect_run(**arrays: Array) -> None:
    """Check arguments of an LSTM over T steps, by their names: x is (T, d_in)."""
    over_time = ("f", "dhs", *(f"trace.{name}" for name in LSTMTrace._fields))
    _expect_shapes(arrays, "lstm", {"x": "T d_in"} | dict.fromkeys(over_time, "T d_h"))


def _expect_shapes(arrays: dict[str, Array], cell: str, specs: dict[str, str]) -> None:
    """Check arrays that have no entry in specs as stacked weights (W, U, b) or as (d_h,); a state must come before."""
    stacked = {4: "four_d_h", 3: "three_d_h"}[BLOCKS[cell]]
    specs = {"W": f"{stacked} d_in", "U": f"{stacked} d_h", "b": stacked} | specs
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        sizes = expect(array, specs.get(name, "d_h"), name, dtype="float", finite=True, **sizes)
        if "d_h" in sizes:
            sizes[stacked] = BLOCKS[cell] * sizes["d_h"]


def _fields(trace: LSTMTrace) -> dict[str, Array]:
    """The arrays of a trace with the names that messages use, "trace.h" and so on."""
    if not isinstance(trace, LSTMTrace):
        raise ValueError(f"trace: expected an LSTMTrace, as lstm_forward returns it, got {type(trace).__name__}")
    return {f"trace.{name}": array for name, array in trace._asdict().items()}
