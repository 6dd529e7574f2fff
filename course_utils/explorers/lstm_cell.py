"""What one LSTM unit keeps, and what gradient it passes back, when its gates are set by hand (lecture 2)."""

from typing import Any

import numpy as np
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from course_utils.explorers.base import Explorer
from course_utils.plots import COLORS
from course_utils.recurrent import jacobian_norms, rnn_forward
from course_utils.shapes import in_range

T = 40
PULSES = {3: 0.9, 12: -0.4, 25: 0.6}  # step -> candidate g; it is 0 at all other steps
FIRST = min(PULSES)
LAG = T - FIRST  # steps from the first pulse to the end
LOWEST = -6  # the log axis ends at 10^LOWEST
Array = NDArray[np.float64]


class LSTMUnit(Explorer):
    """Explorer of one LSTM unit: c_t = f_t c_{t-1} + i g_t and h_t = o tanh(c_t) over 40 steps, with dc_40/dc_t by lag.

    f, i, o: forget, input and output gate, 0 to 1, constant over time; reset: 1 to 40 is a step at which f is 0
    instead, 0 for none. The candidate g is 0 but for three pulses. In a trained LSTM the gates are computed from the
    input and the last output at every step, so that the gradient has further paths; here the cell path is all of it.
    The browser computes what `compute()` computes.
    Raises ValueError for a setting outside its range.
    Source: Gers, Schmidhuber and Cummins (2000), Learning to forget: continual prediction with LSTM, section 3.
    """

    script = "lstm_cell.js"
    settings = ("f", "i", "o", "reset")

    f = traitlets.Float(min=0.0, max=1.0).tag(sync=True)
    i = traitlets.Float(min=0.0, max=1.0).tag(sync=True)
    o = traitlets.Float(min=0.0, max=1.0).tag(sync=True)
    reset = traitlets.Int(min=0, max=T).tag(sync=True)
    candidates = traitlets.List(traitlets.Float(), read_only=True).tag(sync=True)

    def __init__(self, f: float = 0.95, i: float = 1.0, o: float = 1.0, reset: int = 0, **kwargs: Any) -> None:
        for name, value in (("f", f), ("i", i), ("o", o)):
            in_range(value, name, low=0, high=1)
        in_range(reset, "reset", low=0, high=T, integer=True)
        super().__init__(f=float(f), i=float(i), o=float(o), reset=int(reset), **kwargs)

    @traitlets.default("candidates")
    def _candidates(self) -> list[float]:
        return [PULSES.get(step, 0.0) for step in range(1, T + 1)]

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Returns c, h (T+1,): cell and output after step 0…T, both 0 at step 0; written (T,): i g_t of step 1…T;
        gradient (T+1,): dc_T/dc_{T-lag} for lag 0…T, the product of the last `lag` forget gates;
        rnn (T+1,): dh_T/dh_{T-lag} of h_t = tanh(f h_{t-1} + i g_t), whose weight is f at every step;
        left: the share of the first pulse that is still in c_T, which is the gradient at its lag; rnn_left: the same
        entry of rnn.
        """
        forget = np.full(T, self.f)
        if self.reset:
            forget[self.reset - 1] = 0.0
        written = self.i * np.array(self.candidates)
        c = np.zeros(T + 1)
        for t in range(T):
            c[t + 1] = forget[t] * c[t] + written[t]
        gradient = np.concatenate([[1.0], np.cumprod(forget[::-1])])
        rnn = _rnn_gradient(self.f, written)
        return {
            "c": c,
            "h": self.o * np.tanh(c),
            "written": written,
            "gradient": gradient,
            "rnn": rnn,
            "left": float(gradient[LAG]),
            "rnn_left": float(rnn[LAG]),
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result, power = self.compute(), "10 to the power {}"
        reset = f", reset at step {self.reset}" if self.reset else ""
        return (
            f"{_finding(self.i, result['left'], power)}. Gates: f = {self.f:.2f}, i = {self.i:.2f}, o = {self.o:.2f}"
            f"{reset}. Top: cell and output over {T} steps, ending at {result['c'][-1]:.2f} and {result['h'][-1]:.2f}. "
            "Bottom: gradient along the cell path against the lag on a log axis; in a tanh network with weight f it is "
            f"{_size(result['rnn_left'], power)} at lag {LAG}."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.6), layout="constrained", facecolor="white")
        upper, lower = figure.subplots(2, 1)
        figure.suptitle(_finding(self.i, result["left"], "$10^{{{}}}$"), fontsize=15, fontweight="bold")
        _draw_trace(upper, result)
        _draw_gradient(lower, result)
        for axes in (upper, lower):
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_xlim(0, T)
            if self.reset:
                axes.axvline(self.reset, linestyle=":", color=COLORS["muted"], linewidth=2)
        if self.reset:
            side = "right" if self.reset > T / 2 else "left"
            upper.text(self.reset, 1.5, " reset: f = 0 ", ha=side, va="top", fontsize=11)
        return figure


def _rnn_gradient(weight: float, written: Array) -> Array:
    """dh_T/dh_{T-lag} for lag 0…T of a tanh unit with this weight that is driven by written (T,)."""
    W, start = np.array([[weight]]), np.zeros(1)
    states = rnn_forward(written[:, None], np.ones((1, 1)), W, start, start)
    return jacobian_norms(np.vstack([start, states]), W)  # (T+1,)


def _finding(i: float, left: float, power: str) -> str:
    """The finding in words; `power` is how 10 to a power is written."""
    size = _size(left, power)
    if i == 0:
        return f"The input gate is 0, so nothing is written; gradient {size} over {LAG} steps"
    share = {0.0: "nothing", 1.0: "all"}.get(left, f"{left:.2f}" if left >= 0.005 else "less than 0.01")
    return f"At step {T}, {share} of the first pulse is left; gradient {size} over {LAG} steps"


def _size(value: float, power: str) -> str:
    """A number from 0 to 1 as a power of 10, or plainly where it is close to 1."""
    if value in (0.0, 1.0):
        return f"{value:.0f}"
    exponent = np.log10(value)
    return f"{value:.2f}" if exponent > -0.05 else power.format(f"{exponent:.1f}")


def _draw_trace(axes: Axes, result: dict[str, Any]) -> None:
    steps = np.arange(T + 1)
    at = np.array(sorted(PULSES))
    axes.vlines(at, 0, result["written"][at - 1], color=COLORS["muted"], linewidth=6, label="input $i\\,g_t$")
    axes.plot(steps, result["c"], color=COLORS["state"], linewidth=3, label="cell $c_t$")
    axes.plot(steps, result["h"], ":", color=COLORS["state"], linewidth=3, label="output $h_t$")
    axes.set(ylim=(-0.8, 1.5), yticks=(-0.5, 0, 0.5, 1), xlabel="step t")
    axes.grid(axis="y", alpha=0.3)
    _key(axes)


def _draw_gradient(axes: Axes, result: dict[str, Any]) -> None:
    """Against the lag from right to left, so that both panels have the same step at the same place."""
    steps, at = T - np.arange(T + 1), np.array(sorted(PULSES))
    gradient = np.where(result["gradient"] > 0, result["gradient"], np.nan)  # a log axis has no place for 0
    axes.semilogy(steps, result["rnn"], "--", color=COLORS["muted"], linewidth=2.5, label="tanh RNN, weight f")
    axes.semilogy(steps, gradient, color=COLORS["gradient"], linewidth=3, label="cell path")
    axes.semilogy(at, gradient[T - at], "o", color=COLORS["gradient"], markersize=8, label="where a pulse came in")
    axes.set(ylim=(10**LOWEST, 10**0.5), yticks=[10.0**power for power in range(LOWEST, 1, 2)])
    axes.set_xticks(range(0, T + 1, 10), [str(T - tick) for tick in range(0, T + 1, 10)])
    axes.set(xlabel="lag k (steps back from the end)", ylabel=rf"$\partial c_{{{T}}} / \partial c_{{{T}-k}}$")
    axes.minorticks_off()
    axes.grid(axis="y", alpha=0.3)
    _key(axes)


def _key(axes: Axes) -> None:
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
