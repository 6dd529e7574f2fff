"""How the gradient of a recurrent network shrinks or grows with the lag, as an explorer (lecture 1)."""

import base64
from typing import Any, NamedTuple

import numpy as np
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from course_utils.explorers.base import Explorer
from course_utils.plots import COLORS
from course_utils.recurrent import jacobian_norms, rnn_forward
from course_utils.shapes import in_range

D_H, D_IN, T = 32, 8, 61  # 61 states, so that the first lies 60 steps before the last
SEEDS = 8
UNIT = 8000  # numbers travel to the browser as 16-bit integers: value * UNIT, so up to 4.09 and rounded to 1.25e-4
GAIN, INPUT_SCALE = (0.2, 3.0), (0.0, 3.0)  # lowest and highest
SATURATED = 0.9
Array = NDArray[np.float64]


class BaseArrays(NamedTuple):
    """Random numbers of one seed, which the settings then scale: G (D_H, D_H), U (D_H, D_IN), x (T, D_IN)."""

    G: Array
    eigenvalues: NDArray[np.complex128]  # (D_H,) of G
    U: Array
    x: Array


def base_arrays(seed: int) -> BaseArrays:
    """Gaussian weights and inputs of a seed in 0…7; G has spectral radius 1, as a large Gaussian/√d matrix has.

    Rounded to what the browser gets. Raises ValueError for another seed.
    Source: Sompolinsky, Crisanti and Sommers (1988), Chaos in random neural networks (the model without inputs).
    """
    in_range(seed, "seed", low=0, high=SEEDS - 1, integer=True)
    generator = np.random.default_rng(seed)
    G = generator.standard_normal((D_H, D_H))
    eigenvalues = np.linalg.eigvals(G)
    radius = abs(eigenvalues).max()
    U = generator.standard_normal((D_H, D_IN)) / np.sqrt(D_IN)
    x = generator.standard_normal((T, D_IN))
    order = np.lexsort((eigenvalues.imag, eigenvalues.real))
    eigenvalues = eigenvalues[order] / radius
    rounded = _rounded(eigenvalues.real) + 1j * _rounded(eigenvalues.imag)
    return BaseArrays(_rounded(G / radius), rounded, _rounded(U), _rounded(x))


class GradientFlow(Explorer):
    """Explorer of gradient flow: h_t = tanh(gain·G h_{t-1} + input_scale·U x_t), and the norm of dh_T/dh_{T-k} by lag.

    gain: 0.2 to 3, the largest |eigenvalue| of W_h = gain·G; input_scale: 0 to 3; seed: 0 to 7 chooses G, U and x;
    linear: leave out tanh. The browser computes what `compute()` computes.
    Raises ValueError for a setting outside its range.
    Source: Pascanu, Mikolov and Bengio (2013), On the difficulty of training recurrent neural networks, section 2.
    """

    script = "gradient_flow.js"
    settings = ("gain", "input_scale", "seed", "linear")

    gain = traitlets.Float(min=GAIN[0], max=GAIN[1]).tag(sync=True)
    input_scale = traitlets.Float(min=INPUT_SCALE[0], max=INPUT_SCALE[1]).tag(sync=True)
    seed = traitlets.Int(min=0, max=SEEDS - 1).tag(sync=True)
    linear = traitlets.Bool().tag(sync=True)
    packed = traitlets.Unicode(read_only=True).tag(sync=True)
    sizes = traitlets.List(traitlets.Int(), default_value=[D_H, D_IN, T], read_only=True).tag(sync=True)
    unit = traitlets.Int(UNIT, read_only=True).tag(sync=True)

    def __init__(
        self, gain: float = 0.9, input_scale: float = 0.5, seed: int = 0, linear: bool = False, **kwargs: Any
    ) -> None:
        in_range(gain, "gain", low=GAIN[0], high=GAIN[1])
        in_range(input_scale, "input_scale", low=INPUT_SCALE[0], high=INPUT_SCALE[1])
        in_range(seed, "seed", low=0, high=SEEDS - 1, integer=True)
        if not isinstance(linear, bool):
            raise ValueError(f"linear: expected True or False, got {linear!r}")
        super().__init__(gain=float(gain), input_scale=float(input_scale), seed=int(seed), linear=linear, **kwargs)

    @traitlets.default("packed")
    def _pack(self) -> str:
        parts = []
        for base in map(base_arrays, range(SEEDS)):
            parts += [base.G, base.eigenvalues.real, base.eigenvalues.imag, base.U, base.x]
        numbers = np.concatenate([np.ravel(part) for part in parts])
        return base64.b64encode(np.rint(numbers * UNIT).astype("<i2").tobytes()).decode()

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Returns lags (T,) = 0…T-1; norms (T,): spectral norm of dh_T/dh_{T-lag}; sigma: largest singular value of W_h;
        bound (T,) = sigma^lag, which norms never exceed since |tanh'| <= 1; states (T, D_H);
        saturated: share of |h| > 0.9; slope: mean of tanh' = 1 - h^2 (1 when linear).
        Also what went in: x (T, D_IN), Wx (D_H, D_IN), Wh (D_H, D_H); and Wh's eigenvalues (D_H,).
        """
        base = base_arrays(self.seed)
        Wx, Wh = self.input_scale * base.U, self.gain * base.G
        if self.linear:
            states = _linear_states(base.x, Wx, Wh)
            norms = np.array([np.linalg.norm(np.linalg.matrix_power(Wh, k), 2) for k in range(T)])
        else:
            states = rnn_forward(base.x, Wx, Wh, np.zeros(D_H), np.zeros(D_H))
            norms = jacobian_norms(states, Wh)
        lags, sigma = np.arange(T), float(np.linalg.norm(Wh, 2))
        return {
            "lags": lags,
            "norms": norms,
            "sigma": sigma,
            "bound": sigma**lags,
            "states": states,
            "saturated": float(np.mean(np.abs(states) > SATURATED)),
            "slope": 1.0 if self.linear else float(np.mean(1 - states**2)),
            "x": base.x,
            "Wx": Wx,
            "Wh": Wh,
            "eigenvalues": self.gain * base.eigenvalues,
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result = self.compute()
        right = (
            f"Right: eigenvalues of the recurrent matrix, the largest of size {self.gain:.2f}."
            if self.linear
            else f"Right: histogram of the states, of which {100 * result['saturated']:.0f} percent exceed 0.9 in size."
        )
        return (
            f"{_finding(result['norms'], '10 to the power {}')}, at gain {self.gain:.2f} and input scale "
            f"{self.input_scale:.1f}. Left: size of the gradient against the lag on a log axis, below the bound "
            f"given by the largest singular value, {result['sigma']:.2f}. {right}"
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.0), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        figure.suptitle(_finding(result["norms"], "$10^{{{}}}$"), fontsize=15, fontweight="bold")
        _draw_norms(left, result, self.gain)
        (_draw_eigenvalues if self.linear else _draw_states)(right, result)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        return figure


def _rounded(values: Array) -> Array:
    """Round to what a 16-bit integer times 1/UNIT can hold (no number of the eight seeds is larger than that)."""
    return np.rint(values * UNIT) / UNIT


def _linear_states(x: Array, Wx: Array, Wh: Array) -> Array:
    h, states = np.zeros(D_H), []
    for x_t in x:
        h = Wh @ h + Wx @ x_t
        states.append(h)
    return np.stack(states)  # (T, D_H)


def _finding(norms: Array, power: str) -> str:
    """The finding in words; `power` is how 10 to a power is written."""
    exponent = np.log10(norms[-1])
    if abs(exponent) < 1:
        return f"Gradient ends within a factor of 10 of where it began, {len(norms) - 1} steps back"
    verb = "falls" if exponent < 0 else "grows"
    return f"Gradient {verb} by {power.format(f'{abs(exponent):.1f}')} over {len(norms) - 1} steps"


def _draw_norms(axes: Axes, result: dict[str, Any], gain: float) -> None:
    lags = result["lags"]
    at_end = f"gradient ($10^{{{np.log10(result['norms'][-1]):.1f}}}$ at lag {lags[-1]})"
    axes.semilogy(lags, result["bound"], "--", color=COLORS["muted"], label=r"bound $\sigma^k$")
    axes.semilogy(lags, gain**lags, ":", color=COLORS["muted"], label="gain$^k$")
    axes.semilogy(lags, result["norms"], color=COLORS["gradient"], linewidth=3, label=at_end)
    axes.set(ylim=(1e-12, 1e9), xlim=(0, lags[-1]), xlabel="lag k (steps back)")
    axes.set_ylabel(r"size of $\partial h_T / \partial h_{T-k}$")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(loc="best", framealpha=0.8)


def _draw_states(axes: Axes, result: dict[str, Any]) -> None:
    states = result["states"].ravel()
    axes.axvspan(-1, -SATURATED, color=COLORS["muted"], alpha=0.18, linewidth=0)
    axes.axvspan(SATURATED, 1, color=COLORS["muted"], alpha=0.18, linewidth=0)
    axes.hist(states, 40, range=(-1, 1), weights=np.full(states.size, 100 / states.size), color=COLORS["state"])
    axes.set(xlim=(-1, 1), xlabel="state h (all units, all steps)", ylabel="share of states (%)")
    axes.set_title(f"{100 * result['saturated']:.0f}% of states have |h| > 0.9", fontsize=12)


def _draw_eigenvalues(axes: Axes, result: dict[str, Any]) -> None:
    circle = np.exp(2j * np.pi * np.linspace(0, 1, 200))
    axes.plot(circle.real, circle.imag, "--", color=COLORS["muted"])
    axes.plot(result["eigenvalues"].real, result["eigenvalues"].imag, "o", color=COLORS["reference"], markersize=4)
    axes.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), aspect="equal", xlabel="real part", ylabel="imaginary part")
    axes.set_title(f"Eigenvalues of $W_h$: up to {abs(result['eigenvalues']).max():.2f}", fontsize=12)
