"""Sinusoidal positions: a vector for each place, whose dot products know the distance alone (lecture 7)."""

from typing import Any

import numpy as np
import traitlets
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from course_utils.explorers.base import Explorer
from course_utils.plots import COLORS
from course_utils.shapes import in_range

WIDTHS = (4, 64)  # smallest and largest D
PLACES = 64  # p is one of 0 … 63
FARTHEST = 64  # distance k
BASE = 10_000.0


class Positions(Explorer):
    """Explorer of the vectors PE(p) of D numbers: pair i is sin and cos of p ω_i, with ω_i = 10000^(-2i/D).

    p: a place, 0 to 63; k: the distance to another one, 0 to 64, which is q = p + k; D: even, 4 to 64; pair: i, 0 to
    31, of a smaller D the last one is shown.  Two things are seen: PE(p) · PE(p + k) = Σ_i cos(k ω_i) is the same at
    every p, and from p to p + k pair i is turned by the angle k ω_i, whatever p is: PE(p + k) = R_k PE(p).
    Raises ValueError for a setting outside its range.
    Source: Vaswani et al. (2017), Attention is all you need, section 3.5.
    """

    script = "positions.js"
    settings = ("p", "k", "D", "pair")

    p = traitlets.Int(min=0, max=PLACES - 1).tag(sync=True)
    k = traitlets.Int(min=0, max=FARTHEST).tag(sync=True)
    D = traitlets.Int(min=WIDTHS[0], max=WIDTHS[1]).tag(sync=True)
    pair = traitlets.Int(min=0, max=WIDTHS[1] // 2 - 1).tag(sync=True)

    def __init__(self, p: int = 10, k: int = 6, D: int = 32, pair: int = 3, **kwargs: Any) -> None:
        in_range(p, "p", low=0, high=PLACES - 1, integer=True)
        in_range(k, "k", low=0, high=FARTHEST, integer=True)
        in_range(D, "D", low=WIDTHS[0], high=WIDTHS[1], integer=True)
        if D % 2:
            raise ValueError(f"D: expected an even number, two for each pair, got {D}")
        in_range(pair, "pair", low=0, high=D // 2 - 1, integer=True)
        super().__init__(p=int(p), k=int(k), D=int(D), pair=int(pair), **kwargs)

    @traitlets.validate("D")
    def _even(self, proposal: dict[str, Any]) -> int:
        if proposal["value"] % 2:
            raise traitlets.TraitError(f"D: expected an even number, got {proposal['value']}")
        return proposal["value"]

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Returns table (128, D): PE of the places 0 … 127; dots (65,): PE(p) · PE(p + k) for each distance k; dot: that
        of this k; at_zero: PE(0) · PE(k); pair; omega: ω_pair; angle: k ω_pair; before, after (2,): (sin, cos) of the
        pair at p and at p + k; rotation (2, 2): the block of R_k with after = rotation @ before.
        """
        omega = BASE ** (-2 * np.arange(self.D // 2) / self.D)  # (D/2,)
        angles = np.arange(PLACES + FARTHEST)[:, None] * omega  # (128, D/2)
        table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(angles), self.D)  # (128, D)
        pair = min(self.pair, self.D // 2 - 1)
        angle = self.k * omega[pair]
        dots = table[self.p : self.p + FARTHEST + 1] @ table[self.p]
        return {
            "table": table,
            "dots": dots,
            "dot": float(dots[self.k]),
            "at_zero": float(table[0] @ table[self.k]),
            "pair": pair,
            "omega": float(omega[pair]),
            "angle": float(angle),
            "before": table[self.p, 2 * pair : 2 * pair + 2],
            "after": table[self.p + self.k, 2 * pair : 2 * pair + 2],
            "rotation": np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]),
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result = self.compute()
        before, after = (_vector(result[name]) for name in ("before", "after"))
        q = self.p + self.k
        return (
            f"{_finding(self, result)}. PE({self.p}) · PE({q}) = {result['dot']:z.2f}, "
            f"PE(0) · PE({self.k}) = {result['at_zero']:z.2f}. Pair {result['pair']} turns by {_angle(result)}, from "
            f"{before} at place {self.p} to {after} at place {q}. "
            f"Left: the {self.D} numbers of {len(result['table'])} places as a heat map. "
            "Middle: the dot product against the distance. Right: the pair as two arrows on a circle."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.2), layout="constrained", facecolor="white")
        left, middle, right = figure.subplots(1, 3, width_ratios=(5, 5, 4))
        figure.suptitle(_finding(self, result), fontsize=14, fontweight="bold")
        _draw_table(left, result["table"], self.p, self.p + self.k, result["pair"])
        _draw_dots(middle, result["dots"], self.k)
        _draw_circle(right, result, self.p, self.k)
        return figure


def _finding(explorer: Positions, result: dict[str, Any]) -> str:
    if explorer.k == 0:
        return f"At distance 0 the dot product is D/2 = {explorer.D // 2}, at every place"
    return f"At distance {explorer.k} the dot product is {result['dot']:z.2f}, at every place"


def _angle(result: dict[str, Any]) -> str:
    """The angle in degrees; beyond a turn, what is left of it, too."""
    degrees = float(np.degrees(result["angle"]))
    return f"{degrees:.1f}°" + (f", which is {degrees % 360:.1f}° after full turns" if degrees >= 360 else "")


def _vector(pair: np.ndarray) -> str:
    return f"({pair[0]:z.2f}, {pair[1]:z.2f})"


def _draw_table(axes: Axes, table: np.ndarray, p: int, q: int, pair: int) -> None:
    colors = LinearSegmentedColormap.from_list("state", [COLORS["muted"], "#ffffff", COLORS["state"]])
    axes.imshow(table, cmap=colors, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    for place, color in ((p, "query"), (q, "key")):
        axes.axhline(place, color=COLORS[color], linewidth=2.5)
    axes.axvspan(2 * pair - 0.5, 2 * pair + 1.5, fill=False, edgecolor=COLORS["reference"], linewidth=1.8)
    axes.set(xlabel="number 0 … D - 1", ylabel="place")
    axes.set_title("PE: gray -1, purple 1", fontsize=12)


def _draw_dots(axes: Axes, dots: np.ndarray, k: int) -> None:
    axes.plot(dots, color=COLORS["reference"], linewidth=2.5)
    axes.plot(k, dots[k], "o", color=COLORS["key"], markersize=10)
    axes.set_xlabel("distance k")
    axes.set_title("PE(p) · PE(p + k)", fontsize=12)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_circle(axes: Axes, result: dict[str, Any], p: int, k: int) -> None:
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color=COLORS["muted"], linewidth=1)
    for name, color, label in (("before", "query", f"p = {p}"), ("after", "key", f"p + k = {p + k}")):
        sine, cosine = result[name]
        axes.plot([0, cosine], [0, sine], color=COLORS[color], linewidth=3, marker="o", markevery=[1], label=label)
    axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", xticks=(), yticks=(), xlabel="cos", ylabel="sin")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.42), fontsize=10, frameon=False)
    axes.set_title(f"pair {result['pair']}, turned by {np.degrees(result['angle']):.1f}°", fontsize=12)
