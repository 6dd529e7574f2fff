"""The exercises of lecture 2, gated networks: what to write, cases to try it on, and hints.

Use in a notebook: `lecture_02.lstm_step.check(lstm_step)`. The wrong answers are in mistakes_02_*.py.
A reference that is written here has the name of its exercise, which then takes its place: `lstm_parameters.reference`.
"""

import numpy as np

from course_utils import gated
from course_utils.exercises import mistakes_02_cells as cells
from course_utils.exercises import mistakes_02_measures as measures
from course_utils.exercises.engine import Exercise, Probe
from course_utils.gated import Array

# ---- 2.1 lstm_step --------------------------------------------------------------------------------------------------


def _step(d_in: int, d_h: int, blocks: int, seed: int, memory: float = 1.0) -> tuple[Array, ...]:
    """Arguments x, h, c, W, U, b; nothing in them is zero or symmetric. memory: the standard deviation of c."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=d_in), rng.uniform(-0.9, 0.9, size=d_h), rng.normal(scale=memory, size=d_h),
            rng.normal(scale=0.8, size=(blocks * d_h, d_in)), rng.normal(scale=0.8, size=(blocks * d_h, d_h)),
            rng.normal(scale=0.7, size=blocks * d_h))


def _lstm_from_zero() -> tuple[Array, ...]:
    x, h, c, W, U, b = _step(4, 2, 4, seed=37)
    return x, 0 * h, 0 * c, W, U, b


def _lstm_biases_alone() -> tuple[Array, ...]:
    return (np.array([1.0]), np.array([0.25]), np.array([0.5]), np.zeros((4, 1)), np.zeros((4, 1)),
            np.array([0.0, 1.0, 2.0, -1.0]))


lstm_step = Exercise(
    "2.1", "One step of an LSTM", gated.lstm_step, ("h", "c"),
    probes=[
        Probe("3 inputs, 4 units", lambda: _step(3, 4, 4, seed=144)),
        Probe("one unit, only biases: i, f, g, o = 0, 1, 2, -1", _lstm_biases_alone),
        Probe("cells far from zero", lambda: _step(2, 3, 4, seed=48, memory=4.0)),
        Probe("as many inputs as units", lambda: _step(3, 3, 4, seed=73)),
        Probe("first step: h and c are zero", _lstm_from_zero),
    ],
    mistakes=cells.LSTM_STEP, combinations=cells.LSTM_STEP_PAIRS,
    hints=(
        "Say what each of the four blocks is for: what is kept, how much is written, what is written, what is shown. "
        "Which of the two states is carried on by adding, and which is made anew?",
        "Compute W x + U h + b once, (4 d_h,), and split it into the blocks i, f, g, o. Squash each: three sigmoids "
        "and one tanh. Then comes the new c, from the old one; then the new h, from the new c.",
        "`i, f, g, o = np.split(W @ x + U @ h + b, 4)`. The new cell is f times the old one plus i times the "
        "candidate, entry by entry; the new h is o times the tanh of the new cell. Sigmoid: `1 / (1 + np.exp(-z))`.",
    ),
    minutes=10, difficulty=2,
    advice="Take the case with one unit: the gates are i = 0.5, f = 0.7311 and o = 0.2689, the candidate is "
           "tanh(2) = 0.9640; so c = 0.7311 · 0.5 + 0.5 · 0.9640.",
)


# ---- 2.2 lstm_parameters --------------------------------------------------------------------------------------------


def lstm_parameters(d_in: int, d_h: int) -> int:
    """How many numbers one layer of PyTorch's nn.LSTM learns: weights and biases, in one direction.

    d_in: width of an input; d_h: width of the states h and c.  Both are positive integers.
    Each of the blocks i, f, g, o has weights for the input and for the state, stored (out, in), and PyTorch's two bias
    vectors, b_ih and b_hh.
    Returns an int.
    """
    return 4 * d_h * (d_in + d_h + 2)


lstm_parameters = Exercise(
    "2.2", "Count the parameters of an LSTM", lstm_parameters, "count",
    probes=[
        Probe("3 inputs, 5 units", lambda: (3, 5)),
        Probe("1 input, 1 unit", lambda: (1, 1)),
        Probe("7 inputs, 2 units", lambda: (7, 2)),
        Probe("as many inputs as units, 4", lambda: (4, 4)),
        Probe("64 inputs, 128 units", lambda: (64, 128)),
    ],
    mistakes=measures.LSTM_PARAMETERS, combinations=measures.LSTM_PARAMETERS_PAIRS,
    hints=(
        "Write down the shape of every array that the layer learns. How many entries has a matrix of that shape?",
        "One block has a matrix for the input, (d_h, d_in), one for the state, (d_h, d_h), and two biases, (d_h,). "
        "How many blocks are there?",
        "Each block has d_h d_in + d_h² + 2 d_h numbers, and there are four blocks, i, f, g and o.",
    ),
    minutes=5, difficulty=1, rtol=1e-12,  # counts are exact
    advice="With 1 input and 1 unit, every array of a block has one entry: two weights and two biases, in four blocks "
           "16 numbers. PyTorch counts for you: `sum(p.numel() for p in torch.nn.LSTM(3, 5).parameters())`.",
)


# ---- 2.3 cell_path --------------------------------------------------------------------------------------------------


def _gates(T: int, d_h: int, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(0.15, 0.98, size=(T, d_h))


def _one_closed() -> Array:
    f = _gates(5, 3, seed=25)
    f[2, 0], f[3, 1] = 0.0, 1.0
    return f


cell_path = Exercise(
    "2.3", "Gradient along the cell path", gated.cell_path, "path",
    probes=[
        Probe("6 steps, 3 units", lambda: (_gates(6, 3, seed=21),)),
        Probe("gates 0.9, 0.5, 0.8 of one unit", lambda: (np.array([[0.9], [0.5], [0.8]]),)),
        Probe("one step", lambda: (_gates(1, 4, seed=23),)),
        Probe("as many steps as units", lambda: (_gates(4, 4, seed=24),)),
        Probe("a gate closed at one step", lambda: (_one_closed(),)),
    ],
    mistakes=measures.CELL_PATH, combinations=measures.CELL_PATH_PAIRS,
    hints=(
        "With all gates held fixed, c_t = f_t c_{t-1} + something that does not depend on c_{t-1}. What is the "
        "derivative over one step? Over two? Over none?",
        "Row 0 is ones. Each further row is the one before, times the gate of one step more, going back in time: f_T "
        "comes first, then f_{T-1}.",
        "Go through `f[::-1]` with a product that begins as ones: store it, then multiply it by the gate. Or take "
        "`np.cumprod` along the steps, with a row of ones in front and without f_1.",
    ),
    minutes=5, difficulty=2,
    advice="Take the gates 0.9, 0.5, 0.8 of one unit: the rows are 1, then 0.8, then 0.8 · 0.5. f_1 = 0.9 leads to the "
           "cell before step 1 and is in none of them.",
)


# ---- 2.4 gru_step ---------------------------------------------------------------------------------------------------


def _gru(d_in: int, d_h: int, seed: int, scale: float = 1.0) -> tuple[Array, ...]:
    """Arguments x, h, W, U, b, bn of gru_step."""
    x, h, bn, W, U, b = _step(d_in, d_h, 3, seed)
    return scale * x, h, W, scale * U, b, bn


def _gru_from_zero() -> tuple[Array, ...]:
    x, h, W, U, b, bn = _gru(4, 2, seed=35)
    return x, 0 * h, W, U, b, bn


def _gru_biases_alone() -> tuple[Array, ...]:
    return (np.array([1.0]), np.array([0.5]), np.zeros((3, 1)), np.zeros((3, 1)), np.array([0.0, 1.0, 2.0]),
            np.array([-1.0]))


gru_step = Exercise(
    "2.4", "One step of a GRU", gated.gru_step, "h",
    probes=[
        Probe("3 inputs, 4 units", lambda: _gru(3, 4, seed=31)),
        Probe("one unit, only biases: r, z, n = 0, 1, 2, bn = -1", _gru_biases_alone),
        Probe("large inputs and weights", lambda: _gru(2, 3, seed=33, scale=3.0)),
        Probe("as many inputs as units", lambda: _gru(3, 3, seed=34)),
        Probe("first step: h is zero", _gru_from_zero),
    ],
    mistakes=cells.GRU_STEP, combinations=cells.GRU_STEP_PAIRS,
    hints=(
        "Two gates and a candidate. Which gate decides how much of the past the candidate sees, and which one mixes "
        "the candidate with the old state? What does z = 1 do in PyTorch's convention?",
        "r and z are sigmoids of their blocks of W x + U h + b. The candidate needs its two parts separately, because "
        "r multiplies only what comes from the state: split `W @ x + b` and `U @ h` into three blocks each.",
        "With the third blocks x_n and h_n, the candidate is the tanh of `x_n + r * (h_n + bn)`. The new state is a "
        "mixture, entry by entry: the share z of the old state and the share 1 - z of the candidate.",
    ),
    minutes=10, difficulty=2,
    advice="Take the case with one unit: r = 0.5, z = 0.7311 and n = tanh(2 + 0.5 · (-1)) = 0.9051; the old state is "
           "0.5, and z is the share of it that is kept.",
)
