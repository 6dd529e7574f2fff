"""What length costs: least time and memory of a transformer and of an LSTM on a simple machine (lecture 8)."""

from textwrap import wrap
from typing import Any

import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_utils.costs import (
    DECODERS,
    MACHINES,
    crossover_length,
    decoder_bounds,
    decoder_bytes,
    decoder_flops,
    longest_fit,
    lstm_bounds,
    lstm_bytes,
)
from course_utils.explorers.base import Explorer
from course_utils.plots import COLORS

LENGTHS = tuple(2**power for power in range(4, 21))  # 16 … 1,048,576
BYTES = (4, 2)
LIMITS = {"operations": "operations", "traffic": "memory traffic", "steps": "serial steps"}
UNITS = {"µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": 86_400}
PREFIXES = ("", "k", "M", "G", "T", "P")
NOTE = (
    "Lower bounds for one sequence, as if all fitted into memory; every token looks at all, also where a causal mask "
    "would hide half. Not counted: embeddings, logits, softmax, normalizations, other intermediate results, training, "
    "and that a large LSTM reads its parameters at every token."
)
SIZES = {f"{n} {prefix}B": n * 1000**power for power, prefix in enumerate(PREFIXES) for n in (1, 10, 100)}
MOST_TICKS = 5


class CostExplorer(Explorer):
    """Explorer of what one forward pass costs at least, against the length, for a transformer and an LSTM as large.

    decoder: a name in `costs.DECODERS` (this course's, the base size of 2017, GPT-2 small, GPT-3); machine: a name in
    `costs.MACHINES`; T: 16 to 1,048,576 tokens, a power of two, also beyond what these models were trained for;
    bytes_per_number: 4 or 2; fused: whether the weights of attention are never written out.
    The formulas, their sources and what they leave out are those of `course_utils.costs`; every token looks at all.
    Raises ValueError for a setting that isn't one of these.
    """

    script = "cost.js"
    settings = ("decoder", "machine", "T", "bytes_per_number", "fused")

    decoder = traitlets.Enum(tuple(DECODERS)).tag(sync=True)
    machine = traitlets.Enum(tuple(MACHINES)).tag(sync=True)
    T = traitlets.Enum(LENGTHS).tag(sync=True)
    bytes_per_number = traitlets.Enum(BYTES).tag(sync=True)
    fused = traitlets.Bool().tag(sync=True)
    decoders = traitlets.Dict(read_only=True).tag(sync=True)
    machines = traitlets.Dict(read_only=True).tag(sync=True)
    lengths = traitlets.List(list(LENGTHS), read_only=True).tag(sync=True)
    note = traitlets.Unicode(NOTE, read_only=True).tag(sync=True)

    def __init__(
        self,
        decoder: str = "GPT-2 small",
        machine: str = "NVIDIA A100 80 GB",
        T: int = 4096,
        bytes_per_number: int = 2,
        fused: bool = True,
        **kwargs: Any,
    ) -> None:
        values = (decoder, machine, T, bytes_per_number, fused)
        choices = (DECODERS, MACHINES, LENGTHS, BYTES, (True, False))
        for name, value, known in zip(self.settings, values, choices, strict=True):
            if isinstance(value, bool) != (name == "fused") or value not in tuple(known):
                raise ValueError(f"{name}: expected one of {', '.join(map(str, known))}, got {value!r}")
        super().__init__(**dict(zip(self.settings, values, strict=True)), **kwargs)

    @traitlets.default("decoders")
    def _load_decoders(self) -> dict[str, dict[str, int]]:
        return {name: size._asdict() for name, size in DECODERS.items()}

    @traitlets.default("machines")
    def _load_machines(self) -> dict[str, dict[str, Any]]:
        return {name: machine._asdict() for name, machine in MACHINES.items()}

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Against the length, (17,) each: decoder_seconds, lstm_seconds, decoder_bytes.  At T: projections, looking,
        feed_forward: operations; share: of looking; crossover: the length at which it is half; seconds, lstm: at least,
        with limit and lstm_limit, names in `costs.Bounds`; parameters, cache, weights, total, lstm_bytes: bytes.
        capacity: the machine's bytes; longest: the length that fits, 0 if none does.
        """
        size, machine, each, fused = DECODERS[self.decoder], MACHINES[self.machine], self.bytes_per_number, self.fused
        flops, held = decoder_flops(size, self.T), decoder_bytes(size, self.T, each, fused)
        decoder, lstm = decoder_bounds(size, self.T, machine, each, fused), lstm_bounds(size, self.T, machine, each)
        return {
            "decoder_seconds": [decoder_bounds(size, T, machine, each, fused).seconds for T in LENGTHS],
            "lstm_seconds": [lstm_bounds(size, T, machine, each).seconds for T in LENGTHS],
            "decoder_bytes": [sum(decoder_bytes(size, T, each, fused)) for T in LENGTHS],
            **flops._asdict(),
            "share": flops.looking / sum(flops),
            "crossover": crossover_length(size),
            "seconds": decoder.seconds,
            "limit": decoder.limit,
            "lstm": lstm.seconds,
            "lstm_limit": lstm.limit,
            **held._asdict(),
            "total": sum(held),
            "lstm_bytes": sum(lstm_bytes(size, each)),
            "capacity": machine.memory_bytes,
            "longest": longest_fit(size, machine, each, fused),
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result = self.compute()
        return (
            f"{_finding(self, result)}. {_why(result)} {_memory(result)} "
            "Left: the least time of a transformer and of an LSTM against the length. Right: the bytes of both, and "
            "the machine's memory. All axes are logarithmic."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 5.4), layout="constrained", facecolor="white")
        panels = figure.subplot_mosaic([["bar", "bar"], ["time", "bytes"]], height_ratios=(1, 9))
        figure.suptitle(_finding(self, result), fontsize=14, fontweight="bold")
        words = (_why(result), _memory(result), *wrap(NOTE, 130))
        figure.supxlabel("\n".join(words), fontsize=10)
        _draw_bar(panels["bar"], result)
        time, held = panels["time"], panels["bytes"]
        _draw_curves(time, result["decoder_seconds"], result["lstm_seconds"])
        _draw_rings(time, self.T, result["seconds"], result["lstm"])
        time.axvline(result["crossover"], color=COLORS["muted"], linestyle="--", linewidth=1.5)
        time.set_yticks(*_ticks(time, {f"1 {unit}".replace("days", "day"): value for unit, value in UNITS.items()}))
        time.set_title("time of one pass, at least (dashed: 2D + F)", fontsize=11)
        _draw_curves(held, result["decoder_bytes"], [result["lstm_bytes"]] * len(LENGTHS))
        _draw_rings(held, self.T, result["total"], result["lstm_bytes"])
        held.axhline(result["capacity"], color=COLORS["muted"], linestyle="--", linewidth=2.5)
        held.set_yticks(*_ticks(held, SIZES))
        held.set_title(f"memory (dashed: the machine's {_amount(result['capacity'], 'B')})", fontsize=11)
        return figure


# ---- Words: cost.js says the same ---------------------------------------------------------------------------------


def _round(value: float, digits: int) -> str:
    """The value with so many significant digits, without an exponent or zeros at the end."""
    return f"{float(f'{value:.{digits}g}'):.10g}"


def _amount(value: float, unit: str) -> str:
    power = 0
    while value >= 999.5:
        value, power = value / 1000, power + 1
    return f"{_round(value, 3)} {PREFIXES[power]}{unit}"


def _time(seconds: float) -> str:
    unit = [name for name, size in UNITS.items() if seconds >= 0.995 * size or name == "µs"][-1]
    return f"{_round(seconds / UNITS[unit], 3 if seconds >= 99.5 * UNITS[unit] else 2)} {unit}"


def _percent(share: float) -> str:
    if share < 0.005:
        return "under 1%"
    return "over 99%" if share > 0.995 else f"{100 * share:.0f}%"


def _finding(explorer: CostExplorer, result: dict[str, Any]) -> str:
    share = _percent(result["share"])
    return f"At {explorer.T:,} tokens looking takes {share} of the transformer's operations"


def _why(result: dict[str, Any]) -> str:
    return (
        f"It takes half at T = 2D + F = {result['crossover']:,}. One pass takes at least {_time(result['seconds'])} "
        f"({LIMITS[result['limit']]}), an LSTM's {_time(result['lstm'])} ({LIMITS[result['lstm_limit']]})."
    )


def _memory(result: dict[str, Any]) -> str:
    parameters, cache, weights, total, capacity = (
        _amount(result[name], "B") for name in ("parameters", "cache", "weights", "total", "capacity")
    )
    written = f"weights of a layer {weights}" if result["weights"] else "no weights"
    fit = f"Up to {result['longest']:,} tokens fit." if result["longest"] else "Not even one token fits."
    much = ", too much" if result["total"] > result["capacity"] else ""
    return f"Parameters {parameters} + keys, values {cache} + {written} = {total} of {capacity}{much}. {fit}"


# ---- Drawing --------------------------------------------------------------------------------------------------------


def _draw_rings(axes: Axes, T: int, decoder: float, lstm: float) -> None:
    for value, color in ((decoder, "reference"), (lstm, "state")):
        axes.plot(T, value, "o", color=COLORS[color], markerfacecolor="white", markersize=8, markeredgewidth=2)


def _draw_bar(axes: Axes, result: dict[str, Any]) -> None:
    parts = (("looking", "key", 1), ("projections", "muted", 1), ("feed_forward", "muted", 0.45))
    total, left = sum(result[name] for name, *_ in parts), 0.0
    for name, color, alpha in parts:
        share = result[name] / total
        axes.barh(0, share, left=left, color=COLORS[color], alpha=alpha)
        left += share
    labels = ", ".join(f"{name.replace('_', '-')} {_percent(result[name] / total)}" for name, *_ in parts)
    axes.set_title(f"operations: {labels}", fontsize=11)
    axes.set(xlim=(0, 1), xticks=(), yticks=())
    axes.spines[:].set_visible(False)


def _draw_curves(axes: Axes, decoder: list[float], lstm: list[float]) -> None:
    for values, color, name in ((decoder, "reference", "transformer"), (lstm, "state", "LSTM")):
        axes.plot(LENGTHS, values, color=COLORS[color], linewidth=2.5)
        axes.text(LENGTHS[-1] * 1.4, values[-1], name, color=COLORS[color], fontsize=11, va="center")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xticks(LENGTHS[::4], [f"{T:,}" for T in LENGTHS[::4]])
    axes.set_xlabel("tokens")
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _ticks(axes: Axes, known: dict[str, float]) -> tuple[list[float], list[str]]:
    """Those of the known places that lie on the axis, thinned where they are many, and their names."""
    low, high = axes.get_ylim()
    inside = [(value, name) for name, value in known.items() if low <= value <= high]
    values, names = zip(*inside[:: -(-len(inside) // MOST_TICKS)], strict=True)
    return list(values), list(names)
