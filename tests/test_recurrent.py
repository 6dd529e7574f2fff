"""The recurrent module against PyTorch, against finite differences, and against itself."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_utils import recurrent
from course_utils.corpora import BOS, EOS, PAD
from wrong_arrays import SPOIL, refused

SIZES = st.tuples(st.integers(1, 7), st.integers(1, 5), st.integers(1, 6))  # T, d_in, d_h


def problem(T: int = 5, d_in: int = 3, d_h: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    draw = rng.normal
    return {
        "x": draw(size=(T, d_in)),
        "Wx": draw(size=(d_h, d_in)),
        "Wh": draw(size=(d_h, d_h)),
        "b": draw(size=d_h),
        "h0": draw(size=d_h),
    }


def torch_rnn(p: dict[str, np.ndarray]) -> nn.RNN:
    layer = nn.RNN(p["Wx"].shape[1], len(p["Wh"]), batch_first=True, dtype=torch.float64)
    weights = {"weight_ih_l0": p["Wx"], "weight_hh_l0": p["Wh"], "bias_ih_l0": p["b"], "bias_hh_l0": 0 * p["b"]}
    layer.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    return layer


@given(SIZES, st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_forward_and_backward_equal_torch(sizes, seed):
    p = problem(*sizes, seed)
    layer = torch_rnn(p)
    out, _ = layer(torch.tensor(p["x"])[None], torch.tensor(p["h0"])[None, None])
    hs = recurrent.rnn_forward(**p)
    np.testing.assert_allclose(hs, out[0].detach(), atol=1e-12)

    dhs = np.random.default_rng(seed + 1).normal(size=hs.shape)
    (out[0] * torch.tensor(dhs)).sum().backward()
    ours = recurrent.rnn_backward(p["x"], hs, p["h0"], p["Wx"], p["Wh"], dhs)
    for got, parameter in zip(ours, (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0), strict=True):
        np.testing.assert_allclose(got, parameter.grad, atol=1e-10)


def test_backward_leaves_its_arguments_alone():
    p = problem()
    hs = recurrent.rnn_forward(**p)
    args = [p["x"], hs, p["h0"], p["Wx"], p["Wh"], np.ones_like(hs)]
    before = [a.copy() for a in args]
    recurrent.rnn_backward(*args)
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_step_jacobian_equals_autograd():
    p = problem()
    hs = recurrent.rnn_forward(**p)
    jacobians = recurrent.step_jacobians(hs, p["Wh"])
    Wx, Wh, b, x = (torch.tensor(p[k]) for k in ("Wx", "Wh", "b", "x"))
    for t in range(1, len(hs)):
        exact = torch.autograd.functional.jacobian(
            lambda h, t=t: torch.tanh(Wx @ x[t] + Wh @ h + b), torch.tensor(hs[t - 1])
        )
        np.testing.assert_allclose(jacobians[t], exact, atol=1e-12)


def test_jacobian_norms_equal_autograd_through_all_steps():
    p = problem(T=6)
    hs = recurrent.rnn_forward(**p)
    Wx, Wh, b, x = (torch.tensor(p[k]) for k in ("Wx", "Wh", "b", "x"))

    def last_from(h, start):
        for t in range(start, 6):
            h = torch.tanh(Wx @ x[t] + Wh @ h + b)
        return h

    norms = recurrent.jacobian_norms(hs, p["Wh"])
    assert norms.shape == (6,) and norms[0] == 1
    for lag in range(1, 6):
        at = torch.tensor(hs[5 - lag])
        exact = torch.autograd.functional.jacobian(lambda h, lag=lag: last_from(h, 6 - lag), at)
        assert norms[lag] == pytest.approx(torch.linalg.matrix_norm(exact, 2).item(), rel=1e-10)


@given(SIZES, st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_contributions_by_lag_sum_to_the_gradient(sizes, seed):
    p = problem(*sizes, seed)
    hs = recurrent.rnn_forward(**p)
    dhs = np.zeros_like(hs)
    dhs[-1] = np.random.default_rng(seed).normal(size=hs.shape[1])
    _, dWh, _ = recurrent.rnn_backward(p["x"], hs, p["h0"], p["Wx"], p["Wh"], dhs)
    parts = recurrent.gradient_by_lag(p["x"], hs, p["h0"], p["Wx"], p["Wh"], dhs[-1])
    np.testing.assert_allclose(parts.sum(axis=0), dWh, atol=1e-10)
    # lag 0 is the one-step gradient, whatever came before
    np.testing.assert_allclose(parts[0], np.outer(dhs[-1] * (1 - hs[-1] ** 2), hs[-2] if len(hs) > 1 else p["h0"]))


FUNCTIONS = {
    recurrent.rnn_forward: ("x", "Wx", "Wh", "b", "h0"),
    recurrent.rnn_backward: ("x", "hs", "h0", "Wx", "Wh", "dhs"),
    recurrent.gradient_by_lag: ("x", "hs", "h0", "Wx", "Wh", "dh_T"),
    recurrent.step_jacobians: ("hs", "Wh"),
    recurrent.jacobian_norms: ("hs", "Wh"),
}


@given(st.sampled_from(list(FUNCTIONS)), st.sampled_from(list(SPOIL)), SIZES, st.data())
@settings(max_examples=150, deadline=None)
def test_wrong_arguments_are_named_before_anything_is_computed(function, how, sizes, data):
    p = problem(*sizes)
    p["hs"] = recurrent.rnn_forward(**p)
    p |= {"dhs": np.ones_like(p["hs"]), "dh_T": np.ones_like(p["h0"])}
    arguments = {name: p[name] for name in FUNCTIONS[function]}
    name = data.draw(st.sampled_from(sorted(arguments)))
    if how == "too long" and name in ("x", "hs") and not {"x", "hs"} <= arguments.keys():
        return  # a longer sequence is nothing wrong where there is only one
    arguments[name] = SPOIL[how](arguments[name])
    message = refused(recurrent, function, list(arguments.values()), "x|hs|h0|Wx|Wh|b|dhs|dh_T")
    if not how.startswith("too"):  # sizes that disagree are told of the argument that is looked at second
        assert message.startswith(f"{name}: expected")


def test_memory_curve_of_a_delay_line_is_exact():
    """A linear network that shifts its state by one unit a step holds exactly the last d_h inputs."""
    d_h, T = 6, 400
    numbers = np.random.default_rng(0).uniform(-1, 1, size=T)
    hs = np.array([[numbers[t - k] if t >= k else 0.0 for k in range(d_h)] for t in range(T)])
    curve = recurrent.memory_curve(hs, numbers, max_lag=10)
    np.testing.assert_allclose(curve[:d_h], 1, atol=1e-9)
    assert curve[d_h:].max() < 0.1


def test_memory_curve_refuses_a_short_sequence():
    with pytest.raises(ValueError, match="length of hs"):
        recurrent.memory_curve(np.zeros((20, 4)), np.zeros(20), max_lag=10)


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_language_model_is_causal_and_uses_its_state(cell):
    torch.manual_seed(0)
    model = recurrent.RecurrentLM(12, 5, 7, cell)
    tokens = torch.randint(4, 12, (3, 8))
    logits, _ = model(tokens)
    assert logits.shape == (3, 8, 12)
    changed = tokens.clone()
    changed[:, 5] = 4 + (tokens[:, 5] - 3) % 8  # another symbol at step 5
    assert torch.equal(model(changed)[0][:, :5], logits[:, :5])
    assert not torch.allclose(model(changed)[0][:, 5], logits[:, 5])
    first, middle = model(tokens[:, :3])  # in two pieces, the state handed on
    second, _ = model(tokens[:, 3:], middle)
    torch.testing.assert_close(torch.cat([first, second], dim=1), logits)


@pytest.mark.parametrize("tokens", [torch.tensor([[12]]), torch.tensor([[5, -1]]), torch.tensor([1]), torch.ones(1, 2)])
def test_language_model_refuses_wrong_tokens(tokens):
    with pytest.raises(ValueError, match="^tokens: expected"):
        recurrent.RecurrentLM(12, 5, 7)(tokens)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (5, 0, 1), (5, 1, 2.5)])
def test_models_refuse_wrong_sizes(sizes):
    with pytest.raises(ValueError, match="expected"):
        recurrent.RecurrentLM(*sizes)


def test_samples_follow_the_model_and_the_generator():
    torch.manual_seed(0)
    model = recurrent.RecurrentLM(8, 4, 6)
    draw = lambda seed: model.sample(40, max_len=9, generator=torch.Generator().manual_seed(seed))  # noqa: E731
    assert draw(1) == draw(1) != draw(2)
    rows = draw(1)
    assert len(rows) == 40 and max(map(len, rows)) <= 9
    assert not {PAD, BOS, EOS} & {i for row in rows for i in row}
    with torch.no_grad():  # a model that is sure of symbol 5, then of the end, never draws anything else
        model.out.weight.zero_()
        model.out.bias.fill_(-50)
        model.out.bias[5] = 50
    assert draw(3) == [[5] * 9] * 40
    with torch.no_grad():
        model.out.bias[EOS] = 200
    assert draw(3) == [[]] * 40


def test_sampling_frequencies_match_the_distribution():
    model = recurrent.RecurrentLM(7, 2, 2)
    with torch.no_grad():
        model.out.weight.zero_()
        model.out.bias.copy_(torch.tensor([9.0, 9.0, 0.0, -1e9, 0.0, 1.0, 2.0]))  # <pad>, <bos> are never drawn
    rows = model.sample(4000, max_len=1, generator=torch.Generator().manual_seed(0), temperature=0.5)
    first = torch.tensor([row[0] if row else EOS for row in rows]).bincount(minlength=7) / 4000
    expected = torch.softmax(torch.tensor([0.0, 0.0, 1.0, 2.0]) / 0.5, dim=0)
    torch.testing.assert_close(first[[2, 4, 5, 6]], expected, atol=0.03, rtol=0)


def test_models_refuse_an_unknown_cell():
    with pytest.raises(ValueError, match="^cell: expected one of rnn, lstm, gru, got 'gur'"):
        recurrent.RecurrentLM(12, 5, 7, "gur")


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_classifier_reads_the_last_state(cell):
    torch.manual_seed(0)
    model = recurrent.LastStateClassifier(8, 6, cell)
    tokens = torch.randint(8, (5, 4))
    assert model(tokens).shape == (5, 8)
    _, last = model.rnn(model.embed(tokens))
    last = last[0] if cell == "lstm" else last
    torch.testing.assert_close(model(tokens), model.out(last[0]))
