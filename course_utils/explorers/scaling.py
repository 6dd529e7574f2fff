"""What the width d_k does to the logits of a dot product, to softmax and to its gradient (lecture 5)."""

import base64
from functools import cache
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

S = 8  # keys
SEEDS = 256  # the median of softmax's gradient at d_k = 1024, spread over many powers of ten, needs this many
WIDTHS = tuple(2**power for power in range(11))  # 1 … 1024
UNIT = 3000  # sums travel to the browser divided by √d_k, as 16-bit integers: value * UNIT, so up to 10.9
SCALES = {"none": 0.0, "1/sqrt(d_k)": -0.5, "1/d_k": -1.0}  # name -> the power of d_k that the logits are multiplied by
WORDS = {"none": "unscaled", "1/sqrt(d_k)": "divided by √{}", "1/d_k": "divided by {}"}
LOWEST = -12  # the log axis ends at 10^LOWEST
STYLES = {"none": "-", "1/sqrt(d_k)": "--", "1/d_k": ":"}
LABELS = {"none": "none", "1/sqrt(d_k)": r"$1/\sqrt{d_k}$", "1/d_k": "$1/d_k$"}
POWER = "$10^{{{}}}$"  # how matplotlib writes a power of 10
Array = NDArray[np.float64]


@cache
def draw(seed: int) -> tuple[Array, Array]:
    """A query (1024,) and 8 keys (8, 1024) of a seed in 0…255, all entries standard Gaussian and independent.

    A view of width d_k takes the first d_k entries.  Raises ValueError for another seed.
    """
    in_range(seed, "seed", low=0, high=SEEDS - 1, integer=True)
    numbers = np.random.default_rng(seed).standard_normal((1 + S, WIDTHS[-1]))
    numbers.setflags(write=False)
    return numbers[0], numbers[1:]


@cache
def sums() -> Array:
    """What the logits of all seeds and widths are made of, rounded to what the browser gets: (SEEDS, widths, 2S + 1).

    Of the first d_k entries: q·k_j of each key, the sum of each key, the sum of the query; all divided by √d_k.
    """
    widths = np.array(WIDTHS)
    parts = []
    for seed in range(SEEDS):
        q, k = draw(seed)
        rows = np.concatenate([q * k, k, q[None]])  # (2S + 1, 1024)
        parts.append((rows.cumsum(axis=1)[:, widths - 1] / np.sqrt(widths)).T)
    rounded = np.rint(np.stack(parts) * UNIT) / UNIT
    rounded.setflags(write=False)
    return rounded


def logits(mean: float, scale: str) -> Array:
    """Scaled logits (q + mean)·(k_j + mean) of every seed, width and key: (SEEDS, widths, S)."""
    d_k = np.array(WIDTHS, dtype=float)[:, None]  # (widths, 1)
    dot, k_sum, q_sum = np.split(sums(), [S, 2 * S], axis=-1)
    return (np.sqrt(d_k) * (dot + mean * (k_sum + q_sum)) + d_k * mean**2) * d_k ** SCALES[scale]


def entropy(weights: Array) -> Array:
    """Entropy of weights (..., S) in nats, (...): from 0, where one weight is 1, to log S, where all are equal."""
    return -(weights * np.log(np.where(weights > 0, weights, 1))).sum(axis=-1)


def jacobian_norm(weights: Array) -> Array:
    """Largest singular value of softmax's Jacobian diag(p) - p p^T for weights p (..., S): (...), 0 to 1/2."""
    p = weights[..., None]  # (..., S, 1)
    others = 1 - np.eye(p.shape[-2])
    J = -p * p.mT * others  # (..., S, S)
    J += p * (others @ p) * np.eye(p.shape[-2])  # p_i (1 - p_i), without rounding 1 - p_i to 0
    return np.linalg.eigvalsh(J)[..., -1]  # J is symmetric and has no negative eigenvalue


class DotProductScale(Explorer):
    """Explorer of softmax over the logits of one query and 8 keys, their width and their scale.

    d_k: 1 to 1024, a power of two; scale: "none", "1/sqrt(d_k)" or "1/d_k"; mean: 0 to 1, added to every entry of the
    query and of the keys, which are standard Gaussian otherwise; seed: 0 to 255 chooses them.
    The browser computes what `compute()` computes.
    Raises ValueError for a setting outside its range.
    Source: Vaswani et al. (2017), Attention is all you need, section 3.2.1.
    """

    script = "scaling.js"
    settings = ("d_k", "scale", "mean", "seed")

    d_k = traitlets.Enum(WIDTHS, default_value=64).tag(sync=True)
    scale = traitlets.Enum(tuple(SCALES), default_value="none").tag(sync=True)
    mean = traitlets.Float(min=0.0, max=1.0).tag(sync=True)
    seed = traitlets.Int(min=0, max=SEEDS - 1).tag(sync=True)
    packed = traitlets.Unicode(read_only=True).tag(sync=True)
    sizes = traitlets.List(traitlets.Int(), default_value=[SEEDS, len(WIDTHS), S], read_only=True).tag(sync=True)
    unit = traitlets.Int(UNIT, read_only=True).tag(sync=True)

    def __init__(self, d_k: int = 64, scale: str = "none", mean: float = 0.0, seed: int = 0, **kwargs: Any) -> None:
        for name, value, choices in (("d_k", d_k, WIDTHS), ("scale", scale, tuple(SCALES))):
            if isinstance(value, bool) or value not in choices:
                raise ValueError(f"{name}: expected one of {', '.join(map(str, choices))}, got {value!r}")
        in_range(mean, "mean", low=0, high=1)
        in_range(seed, "seed", low=0, high=SEEDS - 1, integer=True)
        super().__init__(d_k=int(d_k), scale=scale, mean=float(mean), seed=int(seed), **kwargs)

    @traitlets.default("packed")
    def _pack(self) -> str:
        return base64.b64encode(np.rint(sums() * UNIT).astype("<i2").tobytes()).decode()

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Returns logits, weights (S,); center, spread: mean and standard deviation (n - 1) of the logits; entropy of the
        weights in nats, share: the same divided by log S; norm: largest singular value of softmax's Jacobian.
        Over all seeds, by scale (3) and width (11): shares, the mean of share, and norms, the median of norm (a mean
        would be that of a few seeds in which two keys nearly tie).
        """
        at = self.seed, WIDTHS.index(self.d_k)
        shares, norms = [], []
        for scale in SCALES:
            values = logits(self.mean, scale)
            weights = softmax(values)
            share, norm = entropy(weights) / np.log(S), jacobian_norm(weights)
            shares.append(share.mean(axis=0))
            norms.append(np.median(norm, axis=0))
            if scale == self.scale:
                chosen = values[at], weights[at], share[at], norm[at]
        values, weights, share, norm = chosen
        return {
            "logits": values,
            "weights": weights,
            "center": float(values.mean()),
            "spread": float(values.std(ddof=1)),
            "entropy": float(share * np.log(S)),
            "share": float(share),
            "norm": float(norm),
            "shares": np.stack(shares),
            "norms": np.stack(norms),
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result, power = self.compute(), "10 to the power {}"
        mean = f" Mean of the entries: {self.mean:.1f}." if self.mean else ""
        typical = result["norms"][list(SCALES).index(self.scale), WIDTHS.index(self.d_k)]
        return (
            f"{self._finding(result, 'd_k', power)}.{mean} Left: {S} logits with standard deviation "
            f"{_short(result['spread'], power)}, and their weights with entropy {result['entropy']:.2f} nats, "
            f"{100 * result['share']:.0f} percent of log {S}. Right: mean entropy and median norm of the Jacobian over "
            f"{SEEDS} seeds against d_k, for three scales; here the median is {_short(typical, power)}."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.6), layout="constrained", facecolor="white")
        panels = figure.subplots(2, 2)
        finding = self._finding(result, "$d_k$", POWER)
        figure.suptitle(finding.replace("√$d_k$", r"$\sqrt{d_k}$"), fontsize=14, fontweight="bold")
        spread = _short(result["spread"], POWER)
        _draw_bars(panels[0, 0], result["logits"], "muted", f"logits: standard deviation {spread}")
        _draw_bars(panels[1, 0], result["weights"], "key", f"weights: entropy {result['entropy']:.2f} nats")
        panels[1, 0].set(ylim=(0, 1.15), yticks=(0, 0.5, 1))
        self._draw_curves(panels[0, 1], result["shares"], result["share"], "reference")
        self._draw_curves(panels[1, 1], result["norms"], result["norm"], "gradient")
        panels[0, 1].set(ylim=(0, 1.05), yticks=(0, 0.5, 1))
        panels[0, 1].set_title(f"entropy / log {S}: mean of {SEEDS} seeds (ring: this seed)", fontsize=11)
        panels[1, 1].set(yscale="log", ylim=(10.0**LOWEST, 1), yticks=[10.0**power for power in (-12, -8, -4, 0)])
        panels[1, 1].minorticks_off()
        panels[1, 1].set_title(f"norm of the Jacobian: median of {SEEDS} seeds", fontsize=11)
        for axes in panels.flat:
            axes.spines[["top", "right"]].set_visible(False)
        return figure

    def _finding(self, result: dict[str, Any], d_k: str, power: str) -> str:
        """The finding in words; `d_k` and `power` are how the symbol and 10 to a power are written."""
        return (
            f"At {d_k} = {self.d_k}, {WORDS[self.scale].format(d_k)}: weights up to {result['weights'].max():.2f}, "
            f"gradient shrinks to {_short(result['norm'], power)} or less"
        )

    def _draw_curves(self, axes: Axes, curves: Array, own: float, color: str) -> None:
        for scale, values in zip(SCALES, curves, strict=True):
            width = 3.5 if scale == self.scale else 1.8
            axes.plot(WIDTHS, values, STYLES[scale], color=COLORS[color], linewidth=width, label=LABELS[scale])
        axes.axvline(self.d_k, linestyle=":", color=COLORS["muted"])
        below = color == "gradient" and own < 10.0**LOWEST
        at, shape = (10.0**LOWEST, "v") if below else (own, "o")
        axes.plot(self.d_k, at, shape, color=COLORS[color], markerfacecolor="white", markersize=8, clip_on=False)
        axes.set_xscale("log", base=2)
        axes.set_xticks(WIDTHS[::2], [str(width) for width in WIDTHS[::2]])
        axes.set_xlabel("$d_k$")
        axes.grid(axis="y", alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def _short(value: float, power: str) -> str:
    """A number with two digits, as d × 10^n where it is under 0.001."""
    if value >= 99.5:
        return f"{value:.0f}"
    if value >= 0.001:
        return f"{value:#.2g}".rstrip(".")
    digits, exponent = f"{value:.0e}".split("e")
    return f"{digits} × {power.format(int(exponent))}"


def _draw_bars(axes: Axes, values: Array, color: str, title: str) -> None:
    axes.bar(range(1, S + 1), values, color=COLORS[color])
    axes.axhline(0, color=COLORS["reference"], linewidth=1)
    axes.set_xticks(range(1, S + 1), [f"$k_{j}$" for j in range(1, S + 1)])
    axes.set_title(title, fontsize=11)
