"""The exercises of lecture 1, RNN gradients: what to write, cases to try it on, and hints.

Use in a notebook: `lecture_01.rnn_forward.check(rnn_forward)`. The wrong answers are in mistakes_01_*.py.
A reference that is written here has the name of its exercise, which then takes its place: `tbptt.reference`.
"""

import math
from collections.abc import Callable

import numpy as np
import torch

from course_utils import metrics, recurrent
from course_utils.exercises import mistakes_01_network as network
from course_utils.exercises import mistakes_01_training as training
from course_utils.exercises.engine import Exercise, Probe
from course_utils.recurrent import Array

# ---- 1.1 rnn_forward and 1.2 rnn_backward ---------------------------------------------------------------------------


def _network(T: int, d_in: int, d_h: int, seed: int) -> tuple[Array, ...]:
    """Arguments x, Wx, Wh, b, h0 of rnn_forward; nothing in them is zero or symmetric."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(T, d_in)), rng.normal(scale=0.6, size=(d_h, d_in)), rng.normal(scale=0.6, size=(d_h, d_h)),
            rng.normal(scale=0.5, size=d_h), rng.normal(scale=0.7, size=d_h))


def _from_zero() -> tuple[Array, ...]:
    x, Wx, Wh, b, h0 = _network(8, 4, 2, seed=3)
    return x, Wx, Wh, b, 0 * h0


rnn_forward = Exercise(
    "1.1", "Run the recurrence over a sequence", recurrent.rnn_forward, "hs",
    probes=[
        Probe("5 steps, 3 inputs, 4 units", lambda: _network(5, 3, 4, seed=1)),
        Probe("one step", lambda: _network(1, 3, 4, seed=2)),
        Probe("h0 = 0, more inputs than units", _from_zero),
        Probe("as many inputs as units", lambda: _network(4, 3, 3, seed=4)),
    ],
    mistakes=network.RNN_FORWARD, combinations=network.RNN_FORWARD_PAIRS,
    hints=(
        "What does step t need from step t - 1, and which variable can carry it? What does step 1 get?",
        "Start with `h = h0`. Loop over the rows of `x`; each turn computes a new `h` from `x_t` and the old `h`, with "
        "the weights on the left of the vectors, and appends it to a list.",
        "`h = np.tanh(Wx @ x_t + Wh @ h + b)` inside the loop, `np.stack(hs)` after it.",
    ),
    minutes=5, difficulty=1,
    advice="Compute row 0 by itself, from `x[0]` and `h0`; if it is right, row 1 from `x[1]` and row 0.",
)


def _states(x: Array, Wx: Array, Wh: Array, b: Array, h0: Array) -> Array:
    hs = [h0]
    for x_t in x:
        hs.append(np.tanh(Wx @ x_t + Wh @ hs[-1] + b))
    return np.stack(hs[1:])


def _gradients(arguments: tuple[Array, ...], seed: int, last_only: bool = False) -> tuple[Array, ...]:
    """Arguments x, hs, h0, Wx, Wh, dhs of rnn_backward."""
    x, Wx, Wh, b, h0 = arguments
    dhs = np.random.default_rng(seed).normal(size=(len(x), len(h0)))
    if last_only:
        dhs[:-1] = 0
    return x, _states(x, Wx, Wh, b, h0), h0, Wx, Wh, dhs


rnn_backward = Exercise(
    "1.2", "Back-propagation through time", recurrent.rnn_backward, ("dWx", "dWh", "db"),
    probes=[
        Probe("5 steps, a loss at every step", lambda: _gradients(_network(5, 3, 4, seed=11), 12)),
        Probe("a loss at the last step only", lambda: _gradients(_network(4, 3, 4, seed=13), 14, last_only=True)),
        Probe("one step", lambda: _gradients(_network(1, 3, 4, seed=15), 16)),
        Probe("h0 = 0, more inputs than units", lambda: _gradients(_from_zero(), 17)),
        Probe("as many inputs as units", lambda: _gradients(_network(4, 3, 3, seed=18), 19)),
    ],
    mistakes=network.RNN_BACKWARD, combinations=network.RNN_BACKWARD_PAIRS,
    hints=(
        "Draw two steps of the unrolled network. Which arrows leave h_t? Along each of them a gradient comes back. "
        "In which order must the steps be visited?",
        "Go from the last step to the first. The gradient of h_t is `dhs[t]` plus what comes back from step t + 1; "
        "pass it through tanh (`1 - hs[t]**2`) to get dz. The three weight gradients are sums over the steps.",
        "`dz = (dhs[t] + dh_next) * (1 - hs[t]**2)`, where dh_next starts as zeros and becomes `Wh.T @ dz` at the end "
        "of each turn. Each weight gradient grows by dz times what the weight was multiplied with at this step, as in "
        "`np.outer(dz, x[t])`; for `Wh` that is the state before, which is `h0` at t = 0.",
    ),
    minutes=20, difficulty=3,
    advice="Begin with one step: dz = dhs[0] (1 - hs[0]²), and the three gradients follow from it. Then two.",
)


# ---- 1.3 clip_gradients ---------------------------------------------------------------------------------------------


def clip_gradients(grads: list[Array], max_norm: float) -> list[Array]:
    """Clip gradients by their global norm: shorten them together, in the same direction, if they are too long.

    grads: a list of arrays of any shapes, the gradients of one loss.  The global norm is the Euclidean norm of all
    their entries together, as if they were one long vector.
    max_norm: the largest norm allowed, > 0.
    Returns a list of arrays of the same shapes: all scaled by one factor, so that the global norm is max_norm, if it
    was larger; otherwise with unchanged values (zeros too).  No argument is changed.
    Source: Pascanu, Mikolov and Bengio (2013), On the difficulty of training recurrent neural networks, algorithm 1.
    """
    norm = math.sqrt(sum(float((g**2).sum()) for g in grads))
    scale = max_norm / norm if norm > max_norm else 1.0
    return [scale * g for g in grads]


def _arrays(*shapes: tuple[int, ...], seed: int, scale: float = 1.0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.normal(scale=scale, size=shape) for shape in shapes]


clip_gradients = Exercise(
    "1.3", "Clip gradients by their global norm", clip_gradients, ["grads"],
    probes=[
        Probe("(3, 0) and (0, 4), limit 1", lambda: ([np.array([3.0, 0.0]), np.array([[0.0, 4.0]])], 1.0)),
        Probe("norm below the limit", lambda: (_arrays((2, 3), (3,), seed=21), 4.0)),
        Probe("three arrays, limit 2", lambda: (_arrays((2, 3), (4,), (1,), seed=22), 2.0)),
        Probe("every entry below the limit, the norm above", lambda: (_arrays((2, 2, 2), (3, 1), seed=24), 2.5)),
        Probe("norm and limit below 1", lambda: ([np.array([0.3]), np.array([-0.4])], 0.4)),
        Probe("all zero", lambda: ([np.zeros(2), np.zeros((1, 3))], 1.0)),
        Probe("a single array", lambda: (_arrays((3, 2), seed=23, scale=2.0), 1.5)),
    ],
    mistakes=training.CLIP_GRADIENTS, combinations=training.CLIP_GRADIENTS_PAIRS,
    hints=(
        "Think of all entries of all arrays as one long vector. How long is it, and by which number must it be "
        "multiplied to have the length `max_norm`? And when must it be left alone?",
        "Norm: the square root of the sum of squares over all arrays. If it exceeds `max_norm`, the factor is "
        "max_norm / norm, otherwise 1; the same factor for every array.",
        "`norm = math.sqrt(sum(float((g**2).sum()) for g in grads))`, `scale = max_norm / norm if norm > max_norm else "
        "1.0`, and return the list of `scale * g`.",
    ),
    advice="Print the global norm before and after: afterwards it should be the smaller one of norm and `max_norm`.",
    minutes=5, difficulty=1, rtol=2e-5,  # torch adds 1e-6 to the norm before it divides: that is right too
)


# ---- 1.4 sgd_step ---------------------------------------------------------------------------------------------------


def sgd_step(w: torch.Tensor, loss_fn: Callable, lr: float, max_norm: float) -> torch.Tensor:
    """Take one step of gradient descent with the gradient clipped by its norm.

    w: a tensor of any shape with requires_grad=True; w.grad is None or holds an old gradient, which must not count.
    loss_fn: loss_fn(w) is the loss, a 0-d tensor.  lr: the learning rate.  max_norm: the largest Euclidean norm that
    the gradient may have; a longer one is scaled down to it, a shorter one stays as it is.
    Returns the new weights, w minus lr times the clipped gradient: a new tensor of the shape of w, detached from the
    graph.  The values of w are not changed (w.grad may be).
    Source: Pascanu, Mikolov and Bengio (2013), On the difficulty of training recurrent neural networks, algorithm 1.
    """
    w.grad = None  # backward adds to what is there
    loss_fn(w).backward()
    norm = float(w.grad.norm())
    scale = max_norm / norm if norm > max_norm else 1.0
    return w.detach() - lr * scale * w.grad


def _weights(values: list, old_gradient: list | None = None) -> torch.Tensor:
    w = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    if old_gradient is not None:
        w.grad = torch.tensor(old_gradient, dtype=torch.float64)
    return w


def bowl(w: torch.Tensor) -> torch.Tensor:
    """A quadratic loss with another curvature along each entry, so that its gradient does not point along w."""
    curvature = torch.arange(1, w.numel() + 1, dtype=w.dtype).reshape(w.shape)
    return (curvature * (w - 0.5) ** 2).sum()


def ripple(w: torch.Tensor) -> torch.Tensor:
    """Another loss, whose gradient is smaller than 1 everywhere."""
    return w.sin().sum()


sgd_step = Exercise(
    "1.4", "One training step in the right order", sgd_step, "w",
    probes=[
        Probe("gradient above the limit", lambda: (_weights([3.0, 4.0]), bowl, 0.1, 1.5)),
        Probe("an old gradient in w.grad", lambda: (_weights([3.0, -4.0], [-20.0, 5.0]), bowl, 0.1, 1.5)),
        Probe("gradient below the limit", lambda: (_weights([[0.7, 0.4], [0.6, 0.3]]), bowl, 0.2, 2.5)),
        Probe("old gradient, nothing to clip",
              lambda: (_weights([[0.7, 0.1], [0.4, 0.8]], [[1.0, 2.0], [0.5, -1.0]]), bowl, 0.3, 100.0)),
        Probe("every entry below the limit, the norm above", lambda: (_weights([2.0, 1.5]), bowl, 0.1, 4.5)),
        Probe("a 2 x 3 matrix, every row above the limit",
              lambda: (_weights([[1.5, -0.5, 2.0], [1.0, 2.5, -1.0]]), bowl, 0.05, 6.0)),
        Probe("another loss, gradient shorter than lr", lambda: (_weights([1.55, -1.6]), ripple, 0.2, 2.0)),
    ],
    mistakes=training.SGD_STEP, combinations=training.SGD_STEP_PAIRS,
    hints=(
        "Four things happen in a step: backward, clear, clip, update. In which order? What does backward do with a "
        "gradient that is already in `w.grad`?",
        "Set `w.grad = None`, then `loss_fn(w).backward()`. Now `w.grad` has the gradient: compare its norm with "
        "`max_norm`, scale it down if it is longer, and subtract lr times the result from `w.detach()`.",
        "After backward, the factor is `max_norm / norm if norm > max_norm else 1.0` with `norm = w.grad.norm()`, one "
        "number for the whole tensor. The result is `w.detach()` minus lr times the factor times the gradient.",
    ),
    advice="Print the gradient after backward, then after clipping; w minus the result should be lr times the latter.",
    minutes=10, difficulty=2, rtol=2e-5,  # as for clip_gradients
)


# ---- 1.5 perplexity -------------------------------------------------------------------------------------------------


def _nlls(*lengths: int, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.1, 3.0, size=n) for n in lengths]


perplexity = Exercise(
    "1.5", "Perplexity of a language model", metrics.perplexity, "perplexity",
    probes=[
        Probe("[0, 0, 0] and [ln 16]", lambda: ([np.zeros(3), np.array([math.log(16.0)])],)),
        Probe("arrays of equal length", lambda: (_nlls(2, 2, seed=31),)),
        Probe("one array", lambda: (_nlls(5, seed=32),)),
        Probe("arrays of lengths 4, 1 and 6", lambda: (_nlls(4, 1, 6, seed=33),)),
        Probe("a token that the model thought nearly impossible", lambda: ([np.array([0.2, 25.0]), np.ones(3)],)),
    ],
    mistakes=training.PERPLEXITY, combinations=training.PERPLEXITY_PAIRS,
    hints=(
        "Perplexity is e to the mean loss of a token. Over what is the mean taken when the batches differ in length?",
        "Add up all losses of all arrays and count all tokens; divide once, exponentiate once.",
        "`total = sum(n.sum() for n in nlls)` and `tokens = sum(n.size for n in nlls)`, then "
        "`return math.exp(total / tokens)`.",
    ),
    minutes=5, difficulty=1,
    advice="Work the first case by hand: 4 tokens, together ln 16 nats; the mean is ln 2, and e to that is 2.",
)


# ---- 1.6 tbptt ------------------------------------------------------------------------------------------------------


def tbptt(
    chunks: list[torch.Tensor], Wx: torch.Tensor, Wh: torch.Tensor, b: torch.Tensor, h0: torch.Tensor
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Truncated back-propagation through time: the state crosses the borders between chunks, the gradient does not.

    chunks: one long sequence in pieces, a list of tensors (T_i, d_in), whose lengths T_i may differ.
    Wx: (d_h, d_in); Wh: (d_h, d_h); b: (d_h,); h0: (d_h,) the state before the first chunk.  None requires gradients.
    The network is h_t = tanh(Wx x_t + Wh h_{t-1} + b); the loss of a chunk is the sum of the squares of all its states,
    over steps and units.  A chunk starts from the last state of the chunk before, taken as a constant.
    Returns a list with one pair (loss, dWh) for each chunk: its loss, a 0-d tensor (or float), and the gradient of this
    loss with respect to Wh, (d_h, d_h), both detached from the graph.  The values of the arguments are not changed.
    Source: Williams and Peng (1990), An efficient gradient-based algorithm for on-line training of
    recurrent network trajectories.
    """
    pairs, h = [], h0
    for chunk in chunks:
        W = Wh.detach().clone().requires_grad_()  # a fresh leaf: nothing in its .grad
        h, loss = h.detach(), torch.zeros((), dtype=Wh.dtype)
        for x_t in chunk:
            h = torch.tanh(Wx @ x_t + W @ h + b)  # (d_h,)
            loss = loss + (h**2).sum()
        loss.backward()
        pairs.append((loss.detach(), W.grad))
    return pairs


def _chunked(*lengths: int, d_in: int, d_h: int, seed: int) -> tuple:
    x, *weights = (torch.from_numpy(a) for a in _network(sum(lengths), d_in, d_h, seed))
    return list(x.split(list(lengths))), *weights


tbptt = Exercise(
    "1.6", "Truncated back-propagation through time", tbptt, [("loss", "dWh")],
    probes=[
        Probe("chunks of 1, 2 and 1 steps", lambda: _chunked(1, 2, 1, d_in=2, d_h=3, seed=44)),
        Probe("chunks of 2, 3 and 2 steps", lambda: _chunked(2, 3, 2, d_in=2, d_h=3, seed=41)),
        Probe("a single chunk", lambda: _chunked(6, d_in=2, d_h=3, seed=42)),
        Probe("chunks of one step", lambda: _chunked(1, 1, d_in=3, d_h=2, seed=43)),
    ],
    mistakes=network.TBPTT, combinations=network.TBPTT_PAIRS,
    hints=(
        "Two things reach a border between chunks: the state and the graph that made it. Which one must cross it?",
        "For each chunk: take a copy of `Wh` that requires gradients, detach the state, run the steps and add up the "
        "squares, call backward, and store the loss and the gradient. The state goes on to the next chunk.",
        "Every chunk starts with `W = Wh.clone().requires_grad_()`, `h = h.detach()` and a loss of 0. Its steps use W "
        "in place of `Wh`, each adds `(h**2).sum()` to the loss, and after the last one come `loss.backward()` and the "
        "pair of `loss.detach()` and `W.grad`.",
    ),
    minutes=15, difficulty=2,
    advice="The losses do not depend on where the gradient stops: get them right first, then the gradients. If chunk 0 "
           "is right and chunk 1 is not, look at the state that is handed on.",
)
