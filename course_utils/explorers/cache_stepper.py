"""Writing token by token, with and without a cache of keys and values (lecture 7)."""

from typing import Any

import numpy as np
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_utils.explorers.base import Explorer
from course_utils.plots import COLORS
from course_utils.shapes import in_range

LENGTHS = (2, 16)  # smallest and largest T
WIDTHS = (64, 128, 256, 512, 1024)  # of the model
BYTES = 4  # of a number in the cache, float32
ROWS = ("query", "key", "value")


class CacheStepper(Explorer):
    """Explorer of one self-attention layer that writes T tokens one by one, with and without a cache.

    step: t, 1 to T, of a smaller T the last one is shown; T: 2 to 16; d_model: D, one of 64, 128, 256, 512, 1024.
    Without a cache, step t computes queries, keys and values of all t tokens again: 4 t D² multiplications for the
    projections with W_Q, W_K, W_V and W_O, and 2 t² D for scores and weighted sums.  With a cache it computes those of
    the new token: 4 D² + 2 t D; the keys and values before are read.  The cache holds 2 t D numbers of 4 bytes.
    Counted are multiplications of one layer for one sentence; heads share D, so that their number doesn't matter.
    Raises ValueError for a setting outside its range.
    """

    script = "cache_stepper.js"
    settings = ("step", "T", "d_model")

    step = traitlets.Int(min=1, max=LENGTHS[1]).tag(sync=True)
    T = traitlets.Int(min=LENGTHS[0], max=LENGTHS[1]).tag(sync=True)
    d_model = traitlets.Enum(WIDTHS).tag(sync=True)

    def __init__(self, step: int = 1, T: int = 12, d_model: int = 256, **kwargs: Any) -> None:
        in_range(T, "T", low=LENGTHS[0], high=LENGTHS[1], integer=True)
        in_range(step, "step", low=1, high=T, integer=True)
        if d_model not in WIDTHS:
            raise ValueError(f"d_model: expected one of {', '.join(map(str, WIDTHS))}, got {d_model!r}")
        super().__init__(step=int(step), T=int(T), d_model=int(d_model), **kwargs)

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Returns step; without and with_cache (T,): the multiplications of each step; so_far: the sums of both up to this
        step; ratio: the first of them by the second; bytes: size of the cache after this step.
        """
        t, D = np.arange(1, self.T + 1), self.d_model
        step = min(self.step, self.T)
        without, with_cache = 4 * t * D**2 + 2 * t**2 * D, 4 * D**2 + 2 * t * D
        so_far = [int(count[:step].sum()) for count in (without, with_cache)]
        return {
            "step": step,
            "without": without.tolist(),
            "with_cache": with_cache.tolist(),
            "so_far": so_far,
            "ratio": so_far[0] / so_far[1],
            "bytes": 2 * step * D * BYTES,
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result = self.compute()
        step = result["step"]
        return (
            f"{_finding(result)}. {_numbers(result)}. "
            f"Left: tokens 1 to {self.T}; without a cache {step} queries, keys and values are computed, with a cache "
            f"1 of each, and {step - 1} keys and values are read. "
            "Right: multiplications so far against the step, for both."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.2), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2, width_ratios=(5, 4))
        figure.suptitle(_finding(result), fontsize=13, fontweight="bold")
        for top, name, computed in ((0, "without a cache", range(result["step"])), (4.5, "with a cache", None)):
            _draw_tokens(left, top, name, result["step"], self.T, computed)
        left.set(xlim=(-1.2, self.T + 0.1), ylim=(8.3, -1.4))
        left.axis("off")
        left.set_title("● computed now   ○ read from the cache", fontsize=12)
        _draw_totals(right, result)
        return figure


def _count(number: int) -> str:
    """A number of multiplications, short."""
    for size, name in ((10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:.1f} {name}"
    return f"{number:,}"


def _size(count: int) -> str:
    return f"{count / 1024:.1f} KiB"


def _finding(result: dict[str, Any]) -> str:
    step = result["step"]
    if step == 1:
        return "Step 1: nothing to read yet, with and without a cache the same is computed"
    read = f"{step - 1} keys and values read" if step > 2 else "1 key and value read"
    return f"Step {step}: {read}, 1 computed; {result['ratio']:.1f} times cheaper so far"


def _numbers(result: dict[str, Any]) -> str:
    now = [_count(result[name][result["step"] - 1]) for name in ("without", "with_cache")]
    so_far = [_count(count) for count in result["so_far"]]
    return (
        f"Multiplications: this step {now[0]} without and {now[1]} with a cache, "
        f"so far {so_far[0]} and {so_far[1]}. Cache: {_size(result['bytes'])}"
    )


def _draw_tokens(axes: Axes, top: float, name: str, step: int, T: int, computed: range | None) -> None:
    """Queries, keys and values of the tokens; `computed` are those of all kinds, None with a cache."""
    axes.text(-1.1, top - 0.3, name, fontsize=12, fontweight="bold")
    for row, kind in enumerate(ROWS):
        y = top + row
        axes.text(-0.6, y + 0.5, kind[0].upper(), fontsize=12, ha="center", va="center")
        for token in range(T):
            new = token in computed if computed is not None else token == step - 1
            kept = not new and computed is None and kind != "query" and token < step
            face = COLORS[kind] if new else "none"
            edge = COLORS[kind] if new or kept else "#cccccc"
            axes.add_patch(Rectangle((token + 0.06, y + 0.08), 0.88, 0.84, facecolor=face, edgecolor=edge, linewidth=2))
            mark = "●" if new else "○" if kept else ""
            color = "#ffffff" if new else COLORS["reference"]
            axes.text(token + 0.5, y + 0.5, mark, ha="center", va="center", fontsize=10, color=color)


def _draw_totals(axes: Axes, result: dict[str, Any]) -> None:
    step = result["step"]
    for name, label, style in (("without", "without a cache", "--"), ("with_cache", "with a cache", "-")):
        totals = np.cumsum(result[name]) / 1e6
        axes.plot(range(1, len(totals) + 1), totals, style, color=COLORS["reference"], linewidth=2.5, label=label)
        axes.plot(step, totals[step - 1], "o", color=COLORS["reference"], markersize=8)
    axes.set(xlabel="step", ylim=(0, None))
    axes.set_title("multiplications so far, in millions", fontsize=12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=11)
