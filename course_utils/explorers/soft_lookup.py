"""A dictionary whose look-up is soft: every value counts, as much as its key is like the query (lecture 4)."""

from typing import Any

import numpy as np
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from course_utils.attention import softmax
from course_utils.explorers.base import Explorer
from course_utils.plots import COLORS
from course_utils.shapes import in_range

ENTRIES = {"A": (-2.4, 0.5), "B": (-1.5, 1.6), "C": (-0.4, 0.9), "D": (0.5, -0.6), "E": (1.3, 0.2), "F": (2.5, 1.2)}
NAMES = tuple(ENTRIES)
QUERY, TEMPERATURE = (-3.0, 3.0), (0.01, 100.0)  # lowest and highest
FINE = 0.01  # step between the queries of the curve
HARD = 0.99  # a weight from which on one key decides alone
EVEN = 0.05  # all weights lie within this: all keys count alike
Array = NDArray[np.float64]


class SoftLookup(Explorer):
    """Explorer of a look-up in six entries (key k, value v) on a line: output = Σ α_i v_i, α = softmax(-(q - k)²/2τ).

    query: q, -3 to 3; temperature: τ, 0.01 to 100. As τ goes to 0 the nearest key decides alone, as τ grows the output
    goes to the mean of all values. As a function of q the output is kernel regression with a Gaussian kernel of width
    √τ. Since -(q - k)²/2 = q·k - k²/2 - q²/2 and q² is the same for all keys, the scores q·k/τ give the same weights
    where all keys have the same length. The browser computes what `compute()` computes.
    Raises ValueError for a setting outside its range.
    Source: Nadaraya (1964), On estimating regression; Watson (1964), Smooth regression analysis.
    """

    script = "soft_lookup.js"
    settings = ("query", "temperature")

    query = traitlets.Float(min=QUERY[0], max=QUERY[1]).tag(sync=True)
    temperature = traitlets.Float(min=TEMPERATURE[0], max=TEMPERATURE[1]).tag(sync=True)
    entries = traitlets.List(read_only=True).tag(sync=True)  # [name, key, value] each

    def __init__(self, query: float = 0.2, temperature: float = 0.3, **kwargs: Any) -> None:
        in_range(query, "query", low=QUERY[0], high=QUERY[1])
        in_range(temperature, "temperature", low=TEMPERATURE[0], high=TEMPERATURE[1])
        super().__init__(query=float(query), temperature=float(temperature), **kwargs)

    @traitlets.default("entries")
    def _load_entries(self) -> list[list[Any]]:
        return [[name, key, value] for name, (key, value) in ENTRIES.items()]

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Returns keys, values (6,); scores (6,): -(q - k)²/2τ; weights (6,): their softmax; output: the weighted sum of
        the values; mean: that of the values; queries (601,) from -3 to 3 and curve (601,): the output for each.
        """
        keys, values = (np.array(column) for column in zip(*ENTRIES.values(), strict=True))
        queries = np.linspace(*QUERY, round((QUERY[1] - QUERY[0]) / FINE) + 1)
        scores = _scores(np.array([self.query]), keys, self.temperature)[0]
        weights = softmax(scores)
        return {
            "keys": keys,
            "values": values,
            "scores": scores,
            "weights": weights,
            "output": float(weights @ values),
            "mean": float(values.mean()),
            "queries": queries,
            "curve": softmax(_scores(queries, keys, self.temperature)) @ values,
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result = self.compute()
        weights = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(NAMES, result["weights"], strict=True))
        return (
            f"{_finding(self.temperature, result)}. Query at {self.query:z.2f}. Weights: {weights}. "
            "Left: the six values over their keys, and the output as a curve over all queries. Right: score and weight "
            "of each key."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.4), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        figure.suptitle(_finding(self.temperature, result), fontsize=15, fontweight="bold")
        _draw_curve(left, result, self.query)
        _draw_weights(right, result)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        return figure


def _scores(queries: Array, keys: Array, temperature: float) -> Array:
    """The score of each query with each key, (queries, keys)."""
    return -((queries[:, None] - keys) ** 2) / (2 * temperature)


def _tau(temperature: float) -> str:
    """The temperature as text, with two digits that count."""
    if temperature < 1:
        return f"{temperature:#.2g}"
    return f"{temperature:.1f}" if temperature < 10 else f"{temperature:.0f}"


def _finding(temperature: float, result: dict[str, Any]) -> str:
    weights = result["weights"]
    start = f"τ = {_tau(temperature)} returns {result['output']:z.2f}"
    first, second = np.argsort(-weights, kind="stable")[:2]
    if weights[first] >= HARD:
        return f"{start}, the value of {NAMES[first]} alone"
    if weights.max() - weights.min() < EVEN:
        return f"{start}, near the mean: all keys count alike"
    shares = " and ".join(f"{NAMES[i]} ({weights[i]:.2f})" for i in (first, second))
    return f"{start}, with most weight on {shares}"


def _draw_curve(axes: Axes, result: dict[str, Any], query: float) -> None:
    axes.axhline(result["mean"], linestyle=":", color=COLORS["muted"], linewidth=2, label="mean of all values")
    axes.vlines(result["keys"], -1.4, result["values"], color=COLORS["key"], linewidth=2)
    axes.plot(result["queries"], result["curve"], color=COLORS["value"], linewidth=3, label="output for each query")
    sizes = 40 + 400 * result["weights"]
    axes.scatter(result["keys"], result["values"], sizes, COLORS["value"], edgecolor=COLORS["reference"], zorder=3)
    for name, key in zip(NAMES, result["keys"], strict=True):
        axes.text(key + 0.06, -1.35, name, fontsize=12)
    axes.axvline(query, linestyle="--", color=COLORS["query"], linewidth=2.5, label="query q")
    axes.plot(query, result["output"], "D", color=COLORS["query"], markersize=10, label="output", zorder=4)
    axes.set(xlim=(QUERY[0] - 0.2, QUERY[1] + 0.2), ylim=(-1.4, 2.4))
    axes.set(xlabel="query q and keys k", ylabel="value v and output")
    axes.legend(loc="upper right", fontsize=10, ncols=2, framealpha=0.8)


def _draw_weights(axes: Axes, result: dict[str, Any]) -> None:
    places = np.arange(len(NAMES))
    bars = axes.barh(places, result["weights"], color=COLORS["key"], edgecolor=COLORS["reference"], linewidth=0.8)
    axes.bar_label(bars, [f"{weight:.2f}" for weight in result["weights"]], padding=3)
    rows = [f"{name}: k = {key:.1f}, v = {value:.1f}" for name, (key, value) in ENTRIES.items()]
    axes.set_yticks(places, rows)
    axes.set(xlim=(0, 1.2), ylim=(len(places) - 0.4, -0.6), xticks=(0, 0.5, 1), xlabel="weight α")
