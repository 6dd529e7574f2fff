"""The gated cells against PyTorch, against finite differences, and against themselves."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd.functional import jacobian

from course_utils import gated
from wrong_arrays import SPOIL, refused

SIZES = st.tuples(st.integers(1, 7), st.integers(1, 5), st.integers(1, 6))  # T, d_in, d_h
SEEDS = st.integers(0, 99)


def problem(T: int = 5, d_in: int = 3, d_h: int = 4, seed: int = 0, cell: str = "lstm") -> dict[str, np.ndarray]:
    """The arguments of a run; nothing in them is zero or symmetric."""
    draw, rows = np.random.default_rng(seed).normal, gated.BLOCKS[cell] * d_h
    p = {"x": draw(size=(T, d_in)), "W": draw(size=(rows, d_in)), "U": draw(size=(rows, d_h)), "b": draw(size=rows)}
    return p | {name: draw(size=d_h) for name in (("h0", "c0") if cell == "lstm" else ("h0", "bn"))}


def tensors(p: dict[str, np.ndarray], *names: str) -> list[torch.Tensor]:
    return [torch.tensor(p[name]) for name in names]


def torch_cell(kind: type[nn.Module], p: dict[str, np.ndarray], seed: int = 7) -> nn.Module:
    """nn.LSTM, nn.LSTMCell, nn.GRU or nn.GRUCell with the weights of p, its bias torn into two unequal parts."""
    layer = kind(p["W"].shape[1], p["U"].shape[1], dtype=torch.float64)
    b_hh = np.random.default_rng(seed).normal(size=p["b"].shape)
    b_ih = p["b"] - b_hh
    if "bn" in p:  # the part that r multiplies can't be shared
        d_h = len(p["bn"])
        b_ih[2 * d_h :], b_hh[2 * d_h :] = p["b"][2 * d_h :], p["bn"]
    values = {"weight_ih": p["W"], "weight_hh": p["U"], "bias_ih": b_ih, "bias_hh": b_hh}
    end = "" if issubclass(kind, nn.RNNCellBase) else "_l0"
    layer.load_state_dict({name + end: torch.tensor(value) for name, value in values.items()})
    return layer


def torch_steps(p: dict[str, np.ndarray], h: torch.Tensor, c: torch.Tensor, start: int, stop: int):
    """(h, c) after rows start to stop - 1 of x, by the formulas as the papers write them, one gate at a time."""
    x, W, U, b = tensors(p, "x", "W", "U", "b")
    blocks = [(W[k:][: len(h)], U[k:][: len(h)], b[k:][: len(h)]) for k in range(0, len(b), len(h))]
    for t in range(start, stop):
        i, f, g, o = (W_k @ x[t] + U_k @ h + b_k for W_k, U_k, b_k in blocks)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
    return h, c


def run(p: dict[str, np.ndarray]) -> gated.LSTMTrace:
    return gated.lstm_forward(**p)


# ---- against PyTorch ------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e4, 1e4), min_size=1))
def test_sigmoid_equals_torch_and_never_overflows(values):
    z = np.array(values)
    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_allclose(gated.sigmoid(z), torch.sigmoid(torch.tensor(z)), atol=1e-15)


@given(SIZES, SEEDS)
@settings(max_examples=30, deadline=None)
def test_lstm_step_equals_torch(sizes, seed):
    p = problem(*sizes, seed)
    h, c = gated.lstm_step(p["x"][0], p["h0"], p["c0"], p["W"], p["U"], p["b"])
    x, h0, c0 = tensors(p, "x", "h0", "c0")
    for got, exact in zip((h, c), torch_cell(nn.LSTMCell, p)(x[0], (h0, c0)), strict=True):
        np.testing.assert_allclose(got, exact.detach(), atol=1e-12)


@given(SIZES, SEEDS)
@settings(max_examples=30, deadline=None)
def test_lstm_forward_and_backward_equal_torch(sizes, seed):
    p, draw = problem(*sizes, seed), np.random.default_rng(seed + 1).normal
    layer = torch_cell(nn.LSTM, p)
    h0, c0 = (v[None].requires_grad_() for v in tensors(p, "h0", "c0"))
    out, (h_T, c_T) = layer(torch.tensor(p["x"]), (h0, c0))
    trace = run(p)
    for got, exact in ((trace.h, out), (trace.h[-1], h_T[0]), (trace.c[-1], c_T[0])):
        np.testing.assert_allclose(got, exact.detach(), atol=1e-12)

    dhs, dc_T = draw(size=trace.h.shape), draw(size=p["c0"].shape)
    ((out * torch.tensor(dhs)).sum() + (c_T[0] * torch.tensor(dc_T)).sum()).backward()
    dW, dU, db, dh0, dc0 = gated.lstm_backward(p["x"], trace, p["h0"], p["c0"], p["W"], p["U"], dhs, dc_T)
    for got, exact in (
        (dW, layer.weight_ih_l0), (dU, layer.weight_hh_l0), (db, layer.bias_ih_l0), (db, layer.bias_hh_l0),
        (dh0, h0), (dc0, c0),
    ):  # fmt: skip
        np.testing.assert_allclose(got, exact.grad.reshape(got.shape), atol=1e-10)


@given(SIZES, SEEDS)
@settings(max_examples=30, deadline=None)
def test_gru_step_equals_torch_over_a_sequence(sizes, seed):
    p = problem(*sizes, seed, "gru")
    hs = [p["h0"]]
    for x_t in p["x"]:
        hs.append(gated.gru_step(x_t, hs[-1], p["W"], p["U"], p["b"], p["bn"]))
    x, h0 = tensors(p, "x", "h0")
    np.testing.assert_allclose(hs[1], torch_cell(nn.GRUCell, p)(x[0], h0).detach(), atol=1e-12)
    out, h_T = torch_cell(nn.GRU, p)(x, h0[None])
    np.testing.assert_allclose(hs[1:], out.detach(), atol=1e-12)
    np.testing.assert_allclose(hs[-1], h_T[0].detach(), atol=1e-12)


@pytest.mark.parametrize("cell, layer", [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)])
@given(d_in=st.integers(1, 40), d_h=st.integers(1, 40))
@settings(max_examples=10, deadline=None)
def test_parameter_count_equals_torch(cell, layer, d_in, d_h):
    assert gated.parameter_count(cell, d_in, d_h) == sum(p.numel() for p in layer(d_in, d_h).parameters())


# ---- against finite differences and autograd on the formulas --------------------------------------------------------


def test_lstm_backward_equals_finite_differences():
    p, draw = problem(), np.random.default_rng(1).normal
    dhs, dc_T = draw(size=(5, 4)), draw(size=4)

    def loss(**changed):
        trace = run(p | changed)
        return (dhs * trace.h).sum() + dc_T @ trace.c[-1]

    ours = gated.lstm_backward(p["x"], run(p), p["h0"], p["c0"], p["W"], p["U"], dhs, dc_T)
    for name, gradient in zip(("W", "U", "b", "h0", "c0"), ours, strict=True):
        direction = draw(size=gradient.shape)
        change = 1e-5 * direction
        slope = (loss(**{name: p[name] + change}) - loss(**{name: p[name] - change})) / 2e-5
        assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-7)


@given(SIZES, SEEDS)
@settings(max_examples=15, deadline=None)
def test_cell_jacobians_equal_autograd(sizes, seed):
    p = problem(*sizes, seed)
    trace, d_h = run(p), sizes[2]
    jacobians = gated.cell_jacobians(trace, p["c0"], p["U"])
    assert jacobians.shape == (sizes[0], 2 * d_h, 2 * d_h)
    for t, J in enumerate(jacobians):
        before = np.concatenate([trace.h[t - 1], trace.c[t - 1]] if t > 0 else [p["h0"], p["c0"]])
        step = lambda s, t=t: torch.cat(torch_steps(p, s[:d_h], s[d_h:], t, t + 1))  # noqa: E731
        np.testing.assert_allclose(J, jacobian(step, torch.tensor(before)), atol=1e-12)
        np.testing.assert_allclose(J[d_h:, d_h:], np.diag(trace.f[t]))


@given(SIZES, SEEDS)
@settings(max_examples=15, deadline=None)
def test_product_of_jacobians_carries_the_gradient_back(sizes, seed):
    p, draw = problem(*sizes, seed), np.random.default_rng(seed + 1).normal
    trace, dh_T, dc_T = run(p), draw(size=sizes[2]), draw(size=sizes[2])
    gradient = np.concatenate([dh_T, dc_T])
    for J in gated.cell_jacobians(trace, p["c0"], p["U"])[::-1]:
        gradient = gradient @ J
    dhs = np.zeros_like(trace.h)
    dhs[-1] = dh_T
    *_, dh0, dc0 = gated.lstm_backward(p["x"], trace, p["h0"], p["c0"], p["W"], p["U"], dhs, dc_T)
    np.testing.assert_allclose(gradient, np.concatenate([dh0, dc0]), atol=1e-10)


@given(SIZES, SEEDS)
@settings(max_examples=15, deadline=None)
def test_full_gradient_norms_equal_autograd_through_all_later_steps(sizes, seed):
    p, T = problem(*sizes, seed), sizes[0]
    trace = run(p)
    direct, full = gated.cell_gradient_norms(trace, p["U"])
    assert direct.shape == full.shape == (T,) and direct[0] == full[0] == 1
    for lag in range(1, T):
        o = torch.tensor(trace.o[T - 1 - lag])
        # the cell of that step decides the state of the same step: h = o tanh(c)
        last = lambda c, lag=lag, o=o: torch_steps(p, o * torch.tanh(c), c, T - lag, T)[1]  # noqa: E731
        exact = jacobian(last, torch.tensor(trace.c[T - 1 - lag]))
        assert full[lag] == pytest.approx(torch.linalg.matrix_norm(exact, 2).item(), rel=1e-9)
        gates = np.diag(trace.f[T - lag :].prod(axis=0))
        assert direct[lag] == pytest.approx(np.linalg.norm(gates, 2), rel=1e-12)


# ---- what the cells are for -----------------------------------------------------------------------------------------


def test_without_recurrent_weights_the_cell_path_is_the_whole_gradient():
    p = problem(T=7)
    p["U"] *= 0
    trace = run(p)
    direct, full = gated.cell_gradient_norms(trace, p["U"])
    np.testing.assert_allclose(full, direct, rtol=1e-12)
    p["U"] = problem(T=7)["U"]
    direct, full = gated.cell_gradient_norms(run(p), p["U"])
    assert (abs(full[1:] / direct[1:] - 1) > 0.01).all()


def test_cell_path_by_hand():
    f = np.array([[0.5, 0.1], [0.25, 1.0], [0.5, 0.2]])
    np.testing.assert_allclose(gated.cell_path(f), [[1, 1], [0.5, 0.2], [0.125, 0.2]])


@given(SIZES, SEEDS)
@settings(max_examples=15, deadline=None)
def test_lstm_forward_is_lstm_step_repeated_and_causal(sizes, seed):
    p = problem(*sizes, seed)
    trace, h, c = run(p), p["h0"], p["c0"]
    for t, x_t in enumerate(p["x"]):
        h, c = gated.lstm_step(x_t, h, c, p["W"], p["U"], p["b"])
        np.testing.assert_allclose((trace.h[t], trace.c[t]), (h, c), atol=1e-13)
    for part in trace:
        assert part.shape == (sizes[0], sizes[2])
    for part, shorter in zip(trace, run(p | {"x": p["x"][: sizes[0] // 2 + 1]})):
        np.testing.assert_array_equal(part[: len(shorter)], shorter)
    np.testing.assert_allclose(trace.f * np.vstack([p["c0"], trace.c[:-1]]) + trace.i * trace.g, trace.c, atol=1e-13)
    np.testing.assert_allclose(trace.o * np.tanh(trace.c), trace.h, atol=1e-13)


def test_saturated_gates_keep_the_old_content():
    """f = 1 and i = 0 keep an LSTM's cell, z = 1 keeps a GRU's state, whatever is read."""
    p = problem()
    p["b"][:4], p["b"][4:8] = -1e3, 1e3
    np.testing.assert_allclose(run(p).c, np.tile(p["c0"], (5, 1)))
    p = problem(cell="gru")
    p["b"][4:8] = 1e3
    np.testing.assert_allclose(gated.gru_step(p["x"][0], p["h0"], p["W"], p["U"], p["b"], p["bn"]), p["h0"])


def test_no_bias_beside_r_can_replace_the_one_inside():
    """What bn adds to the candidate changes with r; as a part of b it would be the same at every step."""
    p = problem(T=2, cell="gru")
    x, h, W, U, b, bn = (p[k] for k in ("x", "h0", "W", "U", "b", "bn"))
    b[4:8] = -1e3  # z = 0: the new state is the candidate
    added = [np.arctanh(gated.gru_step(x_t, h, W, U, b, bn)) - np.arctanh(gated.gru_step(x_t, h, W, U, b, 0 * bn))
             for x_t in x]  # fmt: skip
    assert (abs(added[0] - added[1]) > 0.01).all()


def test_arguments_are_left_alone():
    p = problem()
    before, trace = copy.deepcopy(p), run(p)
    kept = copy.deepcopy(trace)
    dhs, dc_T = np.ones_like(trace.h), np.ones_like(p["c0"])
    gated.lstm_backward(p["x"], trace, p["h0"], p["c0"], p["W"], p["U"], dhs, dc_T)
    gated.cell_jacobians(trace, p["c0"], p["U"])
    gated.cell_gradient_norms(trace, p["U"])
    gated.lstm_step(p["x"][0], p["h0"], p["c0"], p["W"], p["U"], p["b"])
    for name, array in before.items():
        np.testing.assert_array_equal(p[name], array)
    for got, array in zip(trace, kept):
        np.testing.assert_array_equal(got, array)
    assert (dhs == 1).all() and (dc_T == 1).all()


# ---- wrong arguments ------------------------------------------------------------------------------------------------


FUNCTIONS = {
    gated.lstm_step: ("x_t", "h0", "c0", "W", "U", "b"),
    gated.lstm_forward: ("x", "W", "U", "b", "h0", "c0"),
    gated.lstm_backward: ("x", "trace", "h0", "c0", "W", "U", "dhs", "dc_T"),
    gated.gru_step: ("x_t", "h0", "W", "U", "b", "bn"),
    gated.cell_path: ("f",),
    gated.cell_jacobians: ("trace", "c0", "U"),
    gated.cell_gradient_norms: ("trace", "U"),
}
NOTHING_WRONG = {  # None stands for zeros; alone, an array may have any size
    ("dc_T", "nothing"), ("f", "too long"), ("f", "too wide"), (gated.lstm_forward, "x", "too long"),
}  # fmt: skip
SHOWN = {"x_t": "x", "h0": "(h|h0)", "c0": "(c|c0)"}  # the name in the message


def arguments(function, sizes: tuple[int, int, int]) -> dict:
    """Right arguments of a function, by the names in FUNCTIONS."""
    if function is gated.gru_step:
        p = problem(*sizes, cell="gru")
        return p | {"x_t": p["x"][0]}
    p = problem(*sizes)
    trace = run(p)
    return p | {"x_t": p["x"][0], "trace": trace, "f": trace.f, "dhs": np.ones_like(trace.h), "dc_T": np.ones(sizes[2])}


@pytest.mark.parametrize("function, name", [(function, name) for function in FUNCTIONS for name in FUNCTIONS[function]])
@given(SIZES, st.sampled_from(gated.LSTMTrace._fields))
@settings(max_examples=4, deadline=None)
def test_wrong_arguments_are_named_before_anything_is_computed(function, name, sizes, field):
    for how, spoil in SPOIL.items():
        if {(name, how), (function, name, how)} & NOTHING_WRONG:
            continue
        note(how)
        p = arguments(function, sizes)
        if name == "trace":
            p[name], shown = p[name]._replace(**{field: spoil(getattr(p[name], field))}), rf"trace\.{field}"
        else:
            p[name], shown = spoil(p[name]), SHOWN.get(name, name)
        if how.startswith("too"):  # sizes that disagree are told of the argument that is looked at second
            shown = r"(x|h|c|h0|c0|W|U|b|bn|dhs|dc_T|trace\.[hcifgo])"
        refused(gated, function, [p[k] for k in FUNCTIONS[function]], shown)


@pytest.mark.parametrize("wrong", [None, (np.ones((2, 2)),) * 6, np.ones((6, 2, 2))])
def test_a_trace_is_what_lstm_forward_returns(wrong):
    p = problem(T=2, d_h=2)
    with pytest.raises(ValueError, match="^trace: expected an LSTMTrace"):
        gated.cell_gradient_norms(wrong, p["U"])


def test_weights_of_another_cell_are_refused():
    gru, lstm = problem(cell="gru"), problem()
    with pytest.raises(ValueError, match=r"^W: expected shape \(four_d_h, d_in\) = \(16, 3\), got \(12, 3\)"):
        gated.lstm_forward(gru["x"], gru["W"], gru["U"], gru["b"], lstm["h0"], lstm["c0"])


@pytest.mark.parametrize("arguments", [("lstmm", 1, 1), ("LSTM", 1, 1), (None, 1, 1)])
def test_parameter_count_refuses_unknown_cells(arguments):
    with pytest.raises(ValueError, match="^cell: expected one of rnn, lstm, gru, got"):
        gated.parameter_count(*arguments)


@pytest.mark.parametrize("d_in, d_h, name", [(0, 1, "d_in"), (2.0, 1, "d_in"), (1, 0, "d_h"), (1, True, "d_h")])
def test_parameter_count_refuses_wrong_widths(d_in, d_h, name):
    with pytest.raises(ValueError, match=f"^{name}: expected an integer"):
        gated.parameter_count("lstm", d_in, d_h)
