"""The course's figures: one style, one meaning per color, alt text for every picture.

A figure function takes numbers and returns a matplotlib Figure; show(fig, alt=…) puts it into the notebook.
"""

import io
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

# One meaning each, in every figure, diagram and slide (color-blind safe; never the only carrier of meaning).
COLORS: Mapping[str, str] = MappingProxyType(
    {
        "query": "#0072B2",
        "key": "#E69F00",
        "value": "#009E73",
        "state": "#8E5BB5",
        "gradient": "#C8102E",
        "reference": "#222222",
        "muted": "#767676",
    }
)
SAME_COLOR = ("-", "-.", ":", (0, (1, 4)))  # line styles of the first, second … series of one color
DPI = 120
Numbers = Sequence[float] | np.ndarray


def style() -> None:
    """Set the course's matplotlib style: large type, no clutter, the same on every machine."""
    plt.rcParams.update(
        {
            "figure.figsize": (9.5, 3.6),
            "figure.dpi": DPI,
            "figure.constrained_layout.use": True,
            "figure.constrained_layout.w_pad": 0.12,  # inches
            "figure.constrained_layout.h_pad": 0.08,
            "font.family": "DejaVu Sans",
            "font.size": 13,
            "axes.titlesize": 15,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.titlepad": 12,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.color": "#e6e6e6",
            "axes.axisbelow": True,
            "lines.linewidth": 2.5,
            "svg.hashsalt": "course",
        }
    )


def show(fig: Figure, *, alt: str) -> None:
    """Display a figure as PNG with alternative text, and close it.

    alt: what the picture shows (not what it is), for readers who don't see it; also shown where images can't be.
    Raises ValueError when alt is empty.
    """
    if not alt.strip():
        raise ValueError("alt: expected a sentence that says what the figure shows, got an empty text")
    display({"image/png": png(fig), "text/plain": alt}, raw=True, metadata={"image/png": {"alt": alt}})


def png(fig: Figure) -> bytes:
    """The figure as PNG, the same bytes in every run, and the figure closed."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    plt.close(fig)
    return buffer.getvalue()


def lines(
    x: Numbers,
    series: Mapping[str, Numbers],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    colors: Sequence[str] = ("gradient", "state", "query", "muted"),
    dashed: Sequence[str] = (),
    logx: bool = False,
    logy: bool = False,
    marker: str = "",
    ylim: tuple[float, float] | None = None,
    figsize: tuple[float, float] | None = None,
    labels_at: Mapping[str, int] | None = None,
) -> Figure:
    """One line a series over the common x, each labeled at its end.

    series: label -> y values (at most as many as x); dashed: the labels drawn dashed (bounds, baselines).
    labels_at: label -> index of the point at whose right the label stands, where the ends are too close together.
    colors: names in COLORS, in the order of the series; lines of one color (of one kind) differ in their dots.
    Raises ValueError when a series is longer than x or there are more series than colors.
    """
    if len(series) > len(colors):
        raise ValueError(f"series: expected at most {len(colors)} (one per color), got {len(series)}")
    fig, ax = plt.subplots(figsize=figsize)
    ends = []
    for i, ((label, y), color) in enumerate(zip(series.items(), colors)):
        if len(y) > len(x):
            raise ValueError(f"series {label!r}: expected at most {len(x)} values, got {len(y)}")
        xs = np.asarray(x)[: len(y)]
        dashes = "--" if label in dashed else SAME_COLOR[colors[:i].count(color)]
        ax.plot(xs, y, color=COLORS[color], linestyle=dashes, marker=marker)
        if label in (labels_at or {}):
            at = labels_at[label]
            ax.annotate(label, (xs[at], y[at]), (8, 4), textcoords="offset points", color=COLORS[color])
        elif label:
            ends.append((label, xs[-1], y[-1], COLORS[color]))
    if logx:
        ax.set_xscale("log", base=2)
        ax.set_xticks(x, [f"{v:g}" for v in x])
        ax.minorticks_off()
    if logy:
        ax.set_yscale("log")
    if ylim:
        ax.set_ylim(*ylim)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    if ends:
        _label_ends(ax, ends)
    return fig


def bars(
    values: Mapping[str, float],
    *,
    title: str,
    xlabel: str,
    color: str = "state",
    highlight: Sequence[str] = (),
    fmt: str = "{:.2f}",
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Horizontal bars from top to bottom with their values written at the end.

    values: label -> length; highlight: the labels drawn in the color of states instead of `color`, in bold.
    """
    fig, ax = plt.subplots(figsize=figsize or (9.5, 0.8 + 0.55 * len(values)))
    fill = [COLORS["state" if label in highlight else color] for label in values]
    drawn = ax.barh(range(len(values)), list(values.values()), color=fill)
    ax.bar_label(drawn, [fmt.format(v) for v in values.values()], padding=4)
    ax.set_yticks(range(len(values)), list(values))
    for text in ax.get_yticklabels():
        text.set_fontweight("bold" if text.get_text() in highlight else "normal")
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.12)
    ax.set(title=title, xlabel=xlabel)
    return fig


def surface(
    x: Numbers,
    y: Numbers,
    z: np.ndarray,
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    zlabel: str,
    paths: Mapping[str, np.ndarray] | None = None,
    colors: Sequence[str] = ("gradient", "query"),
    legend: str = "upper left",
) -> Figure:
    """A loss over two parameters as a filled map, with the paths that training took drawn on it.

    x: (X,), y: (Y,), z: (Y, X) values; paths: label -> (steps, 2) points (x, y), in the order of colors; legend: its
    place in the picture, where no path is.
    """
    fig, ax = plt.subplots(figsize=(9.5, 3.9))
    mesh = ax.pcolormesh(x, y, z, cmap="Greys", shading="auto")
    fig.colorbar(mesh, label=zlabel)
    for (label, points), color in zip((paths or {}).items(), colors):
        points = np.asarray(points)
        ax.plot(*points.T, "o-", color=COLORS[color], markersize=4, linewidth=1.5, label=label)
        ax.plot(*points[-1], "X", color=COLORS[color], markersize=11, markeredgecolor="white")
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel, xlim=(min(x), max(x)), ylim=(min(y), max(y)))
    ax.grid(False)
    if paths:
        ax.legend(loc=legend)
    return fig


def heatmap(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    color: str = "state",
    limits: tuple[float, float] = (0.0, 1.0),
    boxes: Sequence[tuple[int, int]] = (),
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """A matrix as colored cells, from white at the lower limit to the full color at the upper one.

    values: (R, C); rows, columns: labels; boxes: pairs (row, column) of cells that get a black frame, such as gold
    alignments.  Labels of columns are turned where they would not fit side by side; single characters never are.
    Raises ValueError when numbers of labels don't fit, or for a box outside of the matrix.
    """
    if np.shape(values) != (len(rows), len(columns)):
        raise ValueError(f"values: expected shape ({len(rows)}, {len(columns)}), got {np.shape(values)}")
    for row, column in boxes:
        if not (0 <= row < len(rows) and 0 <= column < len(columns)):
            raise ValueError(f"boxes: expected cells of a matrix {np.shape(values)}, got ({row}, {column})")
    fig, ax = plt.subplots(figsize=figsize)
    scale = LinearSegmentedColormap.from_list(color, ["#ffffff", COLORS[color]])
    mesh = ax.imshow(values, cmap=scale, vmin=limits[0], vmax=limits[1], aspect="auto")
    fig.colorbar(mesh)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(length=0)
    ax.grid(False)
    for row, column in boxes:
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=COLORS["reference"], linewidth=2))
    if sum(len(column) + 2 for column in columns) > 80 and max(map(len, columns)) > 1:
        ax.tick_params(axis="x", labelrotation=40)
        plt.setp(ax.get_xticklabels(), ha="right", rotation_mode="anchor")
    ax.set_title(title)
    return fig


def alignment(
    source: Sequence[str],
    target: Sequence[str],
    links: Sequence[tuple[int, int]],
    *,
    title: str,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """A sentence above its translation, with a line for each link between a word and one that translates it.

    source: S words; target: T words; links: pairs (i, j) that join source[i] and target[j], both counted from 0.
    Raises ValueError for a link to a word that isn't there.
    """
    for i, j in links:
        if not (0 <= i < len(source) and 0 <= j < len(target)):
            raise ValueError(f"links: expected i < {len(source)} and j < {len(target)}, both >= 0, got ({i}, {j})")
    fig, ax = plt.subplots(figsize=figsize or (9.5, 2.8))
    rows = [(source, 1.0, "bottom"), (target, 0.0, "top")]
    places = []
    for words, y, side in rows:
        # a word's share of the line is its length, with room for a gap
        widths = np.array([len(word) + 2 for word in words], dtype=float)
        centers = (np.cumsum(widths) - widths / 2) / widths.sum()
        places.append(centers)
        for word, x in zip(words, centers):
            ax.text(x, y, word, ha="center", va=side)
    for i, j in links:
        ax.plot([places[0][i], places[1][j]], [0.95, 0.05], color=COLORS["reference"], linewidth=1.5)
    ax.set(xlim=(0, 1), ylim=(-0.2, 1.2))
    ax.set_title(title)
    ax.axis("off")
    return fig


def _label_ends(ax: Axes, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Write each label beside the end of its line, moved apart where two would overlap."""
    ax.figure.canvas.draw()  # fixes the scales, so that data can be turned into pixels
    gap = 1.25 * plt.rcParams["font.size"] / 72 * ax.figure.dpi  # one line of text
    low, high = ax.bbox.y0, ax.bbox.y1
    wanted = [min(max(ax.transData.transform((x, y))[1], low), high) for _, x, y, _ in ends]
    order = sorted(range(len(ends)), key=wanted.__getitem__)
    placed: dict[int, float] = {}
    for rank, i in enumerate(order):
        below = placed[order[rank - 1]] + gap if rank else low
        placed[i] = max(wanted[i], below)
    overflow = max(0.0, max(placed.values()) - high)
    for i, (label, _x, _y, color) in enumerate(ends):
        y_axes = (placed[i] - overflow - low) / (high - low)
        ax.annotate(label, (1.01, y_axes), xycoords="axes fraction", color=color, va="center", annotation_clip=False)
