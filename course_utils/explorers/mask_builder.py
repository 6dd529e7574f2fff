"""A mask of attention, built from its rules or cell by cell, and the weights that it leaves (lecture 6)."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import traitlets
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_utils.attention import softmax
from course_utils.explorers.base import Explorer
from course_utils.plots import COLORS
from course_utils.shapes import in_range

KINDS = ("encoder", "decoder", "cross")
MOST = 8  # queries, and keys
SENTENCES = (  # a batch of three, with what their decoder reads
    ("the animal was here because it was tired", "<bos> das tier war hier weil es müde"),
    ("the cat crossed the street", "<bos> die katze überquerte die straße"),
    ("i was tired", "<bos> ich war müde"),
)
SEED = 6


class MaskBuilder(Explorer):
    """Explorer of masks: which query may attend to which key, and the softmax of fixed scores under that mask.

    kind: "encoder" or "decoder", whose queries and keys are the same tokens, or "cross", with queries from the decoder
    and keys from the encoder.  sentence: 0, 1 or 2, one of a batch that is padded to 8 tokens and cut to S.
    T, S: numbers of queries and keys, 1 to 8; of the same tokens the queries are the last T (T <= S), as with a cache.
    causal: no key after the query (not for "cross"); padding: no key that is <pad>; window: only keys fewer than so
    many places away, 0 for all (not for "cross").  toggled: cells (query, key) whose rule is turned round by hand.
    row: the query whose mask is written out.  All are counted from 0.  True = may attend.
    Raises ValueError for a setting outside its range.
    """

    script = "mask_builder.js"
    settings = ("kind", "sentence", "T", "S", "causal", "padding", "window", "toggled", "row")

    kind = traitlets.Enum(KINDS).tag(sync=True)
    sentence = traitlets.Int(min=0, max=len(SENTENCES) - 1).tag(sync=True)
    T = traitlets.Int(min=1, max=MOST).tag(sync=True)
    S = traitlets.Int(min=1, max=MOST).tag(sync=True)
    causal = traitlets.Bool().tag(sync=True)
    padding = traitlets.Bool().tag(sync=True)
    window = traitlets.Int(min=0, max=MOST - 1).tag(sync=True)
    toggled = traitlets.List(traitlets.List(traitlets.Int(min=0, max=MOST - 1), minlen=2, maxlen=2)).tag(sync=True)
    row = traitlets.Int(min=0, max=MOST - 1).tag(sync=True)
    sentences = traitlets.List(read_only=True).tag(sync=True)
    scores = traitlets.List(read_only=True).tag(sync=True)

    def __init__(
        self,
        kind: str = "decoder",
        sentence: int = 1,
        T: int = 8,
        S: int = 8,
        causal: bool = True,
        padding: bool = True,
        window: int = 0,
        toggled: Iterable[tuple[int, int]] = (),
        row: int = 2,
        **kwargs: Any,
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
        in_range(sentence, "sentence", low=0, high=len(SENTENCES) - 1, integer=True)
        for name, value in (("T", T), ("S", S)):
            in_range(value, name, low=1, high=MOST, integer=True)
        for name, value in (("causal", causal), ("padding", padding)):
            if not isinstance(value, bool):
                raise ValueError(f"{name}: expected True or False, got {value!r}")
        in_range(window, "window", low=0, high=MOST - 1, integer=True)
        cells = [list(cell) for cell in toggled]
        for cell in cells:
            if len(cell) != 2:
                raise ValueError(f"toggled: expected pairs (query, key), got {tuple(cell)}")
            for name, value in zip(("query", "key"), cell, strict=True):
                in_range(value, f"toggled: {name}", low=0, high=MOST - 1, integer=True)
        in_range(row, "row", low=0, high=MOST - 1, integer=True)
        values = (kind, sentence, T, S, causal, padding, window, cells, row)
        super().__init__(**dict(zip(self.settings, values, strict=True)), **kwargs)

    @traitlets.default("sentences")
    def _load_sentences(self) -> list[list[list[str]]]:
        return [[side.split() for side in pair] for pair in SENTENCES]

    @traitlets.default("scores")
    def _load_scores(self) -> list[list[float]]:
        return np.round(np.random.default_rng(SEED).standard_normal((MOST, MOST)), 1).tolist()

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Returns queries (T words), keys (S words); mask: T rows of S booleans, True = may attend; weights (T, S); leaks:
        cells (query, key) that let a decoder see what comes later; empty: queries that may attend to nothing; on_pads:
        for each query the weight on <pad>, 0 where the query is <pad> itself; row: the query that is written out.
        """
        source, target = self.sentences[self.sentence]
        cross, S = self.kind == "cross", self.S
        keys = _padded(target if self.kind == "decoder" else source, S)
        T = self.T if cross else min(self.T, S)
        queries = _padded(target, T) if cross else keys[S - T :]
        first = 0 if cross else S - T  # place of the first query
        place, key = np.arange(T)[:, None] + first, np.arange(S)
        mask = np.ones((T, S), dtype=bool)
        if self.causal and not cross:
            mask &= key <= place
        if self.window and not cross:
            mask &= abs(place - key) < self.window
        pads = np.array([word == "<pad>" for word in keys])
        if self.padding:
            mask &= ~pads
        for t, s in {tuple(cell) for cell in self.toggled}:
            if t < T and s < S:
                mask[t, s] ^= True
        weights = softmax(np.array(self.scores)[first : first + T, :S], mask=mask)
        later = mask & (key > place) & (self.kind == "decoder")
        real = np.array([word != "<pad>" for word in queries])
        return {
            "queries": queries,
            "keys": keys,
            "mask": mask.tolist(),
            "weights": weights.tolist(),
            "leaks": np.argwhere(later).tolist(),
            "empty": np.flatnonzero(~mask.any(axis=1)).tolist(),
            "on_pads": ((weights * pads).sum(axis=1) * real).tolist(),
            "row": min(self.row, T - 1),
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result = self.compute()
        seen = [[str(s + 1) for s, may in enumerate(row) if may] or ["nothing"] for row in result["mask"]]
        rows = "; ".join(f"{t + 1} to {' '.join(some)}" for t, some in enumerate(seen))
        return (
            f"{_finding(result)}. {_words('Keys', result['keys'])}. {_words('Queries', result['queries'])}. "
            f"Which query attends to which keys: {rows}. {_polarities(result)}."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.6), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2)
        figure.suptitle(_finding(result), fontsize=14, fontweight="bold")
        figure.supxlabel(f"{_words('Keys', result['keys'])}\n{_polarities(result)}", fontsize=10.5)
        grays = LinearSegmentedColormap.from_list("may", ["#ffffff", "#d0d0d0"])
        _draw_cells(left, result, np.array(result["mask"], float), grays, "mask: ✓ = may attend")
        for t, row in enumerate(result["mask"]):
            for s, may in enumerate(row):
                left.text(s, t, _sign(result, t, s) if may else "", ha="center", va="center", fontsize=12)
        oranges = LinearSegmentedColormap.from_list("key", ["#ffffff", COLORS["key"]])
        _draw_cells(right, result, np.array(result["weights"]), oranges, "weights of fixed scores")
        for t, row in enumerate(result["weights"]):
            for s, weight in enumerate(row):
                right.text(s, t, f"{weight:.2f}" if result["mask"][t][s] else "", ha="center", va="center", fontsize=10)
            if t in result["empty"]:
                right.text((len(row) - 1) / 2, t, "nothing: all 0", ha="center", va="center", fontsize=11)
        return figure


def _padded(words: list[str], length: int) -> list[str]:
    return [*words, *["<pad>"] * length][:length]


def _finding(result: dict[str, Any]) -> str:
    """What matters most: a look at the future, then a query without keys, then weight on <pad>."""

    def query(t: int) -> str:
        return f"query {t + 1} “{result['queries'][t]}”"

    leaks, empty, on_pads = result["leaks"], result["empty"], result["on_pads"]
    if len(leaks) == 1:
        t, s = leaks[0]
        return f"Leak: {query(t)} sees key {s + 1} “{result['keys'][s]}”, which comes later"
    if leaks:
        return f"Leak: {len(leaks)} cells let a query see a key that comes later"
    if empty:
        one = len(empty) == 1
        who = query(empty[0]).capitalize() if one else f"{len(empty)} queries"
        return f"{who} may attend to nothing: {'its' if one else 'their'} weights are zeros"
    most = int(np.argmax(on_pads))
    if on_pads[most] > 0:
        return f"{query(most).capitalize()} gives {on_pads[most]:.2f} of its weight to <pad>"
    counts = [sum(row) for row in result["mask"]]
    low, high = min(counts), max(counts)
    return f"Each query may attend to {low if low == high else f'{low} to {high}'} of {len(result['keys'])} keys"


def _words(name: str, words: list[str]) -> str:
    return f"{name}: " + ", ".join(f"{i + 1} {word}" for i, word in enumerate(words))


def _polarities(result: dict[str, Any]) -> str:
    """The mask of one query as torch's two functions want it."""
    row = result["mask"][result["row"]]
    attend, ignore = (" ".join("T" if may == sign else "F" for may in row) for sign in (True, False))
    number = result["row"] + 1
    return f"Query {number} in torch: SDPA (True = attend) {attend}, MultiheadAttention (True = ignore) {ignore}"


def _sign(result: dict[str, Any], t: int, s: int) -> str:
    return "!" if [t, s] in result["leaks"] else "✓"


def _draw_cells(axes: Axes, result: dict[str, Any], values: np.ndarray, colors: Any, title: str) -> None:
    T, S = values.shape
    axes.imshow(values, cmap=colors, vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(S), range(1, S + 1), fontsize=11)
    axes.set_yticks(range(T), [f"{word}  {t + 1}" for t, word in enumerate(result["queries"])], fontsize=11)
    axes.set_xticks(np.arange(S + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(T + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#bbbbbb", linewidth=0.8)
    axes.tick_params(which="both", length=0)
    axes.xaxis.tick_top()
    axes.set_title(title, fontsize=12)
    axes.add_patch(_box(0, result["row"], S, COLORS["query"]))
    for t, s in result["leaks"]:
        axes.add_patch(_box(s, t, 1, COLORS["reference"]))


def _box(column: int, row: int, width: int, color: str) -> Rectangle:
    return Rectangle((column - 0.5, row - 0.5), width, 1, fill=False, edgecolor=color, linewidth=2.5)
