"""Where a decoder with attention looks in the source while it writes, one word after the other (lecture 4)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import traitlets
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from course_utils.explorers.base import Explorer
from course_utils.plots import COLORS
from course_utils.shapes import expect, in_range

MOST = 17  # words of a source or an output, with <eos>, that fit on a slide
DECIMALS = 4  # of the weights that travel to the browser
TOP = 3  # the largest weights, which are named
Example = tuple[Sequence[str], Sequence[str], ArrayLike, Iterable[tuple[int, int]] | None]


class AttentionSteps(Explorer):
    """Explorer of a decoder's attention: choose a sentence and a step, see the weights on the source words.

    examples: for each sentence (source, output, weights, links): S source words; T output words, as the decoder wrote
    or read them, with <eos> if it has a row; weights (T, S), whose row t belongs to output[t] and sums to 1, as from
    `models.attention_weights`; the gold links (i, j), counted from 0, that say output[j] translates source[i], as in
    `phrases.Pair.alignment`, or None where there are none. At most 17 words each.
    sentence: counted from 0; step: counted from 1, of a shorter sentence the last one is shown; gold: show the links.
    Nothing is computed but what the weights say: the numbers are the caller's, rounded to 4 decimals.
    Raises ValueError for no examples, weights or links that don't fit the words, or a setting outside its range.
    Source: Bahdanau, Cho and Bengio (2015), Neural machine translation by jointly learning to align and translate,
    section 5.2.1.
    """

    script = "attention_steps.js"
    settings = ("sentence", "step", "gold")

    sentence = traitlets.Int(min=0).tag(sync=True)
    step = traitlets.Int(min=1).tag(sync=True)
    gold = traitlets.Bool().tag(sync=True)
    examples = traitlets.List(read_only=True).tag(sync=True)

    def __init__(
        self, examples: Sequence[Example], sentence: int = 0, step: int = 1, gold: bool = False, **kwargs: Any
    ) -> None:
        if not isinstance(examples, list | tuple) or not examples:
            raise ValueError(f"examples: expected a list of at least one example, got {examples!r}")
        self._checked = [_checked(example, f"examples[{n}]") for n, example in enumerate(examples)]
        in_range(sentence, "sentence", low=0, high=len(examples) - 1, integer=True)
        in_range(step, "step", low=1, high=len(self._checked[sentence]["output"]), integer=True)
        if not isinstance(gold, bool):
            raise ValueError(f"gold: expected True or False, got {gold!r}")
        super().__init__(sentence=int(sentence), step=int(step), gold=gold, **kwargs)

    @traitlets.default("examples")
    def _load_examples(self) -> list[dict[str, Any]]:
        return self._checked

    @traitlets.validate("sentence", "step")
    def _in_range(self, proposal: dict[str, Any]) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        high = len(self.examples) - 1 if name == "sentence" else max(len(item["output"]) for item in self.examples)
        if value > high:
            raise traitlets.TraitError(f"{name}: expected at most {high}, got {value}")
        return value

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings.

        Returns the sentence's source (S words), output (T words), weights (T rows of S) and links; step: 1 to T;
        row: the S weights of this step; top: positions of its three largest weights, the largest first; rest: the sum
        of all others; linked: source positions that are gold for this step's word; on_gold: the sum of their weights.
        """
        chosen = self.examples[self.sentence]
        step = min(self.step, len(chosen["output"]))
        row = chosen["weights"][step - 1]
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        linked = [i for i, j in chosen["links"] or [] if j == step - 1]
        return {
            **chosen,
            "step": step,
            "row": row,
            "top": order[:TOP],
            "rest": sum(row[i] for i in order[TOP:]),
            "linked": linked,
            "on_gold": sum(row[i] for i in linked),
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result = self.compute()
        so_far = " ".join(result["output"][: result["step"] - 1]) or "nothing yet"
        gold = f" Gold alignment: {_gold(result)}." if self.gold else ""
        return (
            f"{_finding(result)}. Written so far: {so_far}. Weights: {_numbers(result)}.{gold} "
            f"Heat map: all {len(result['output'])} steps (rows) over {len(result['source'])} source words (columns)."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.9), layout="constrained", facecolor="white")
        left, right = figure.subplots(1, 2, width_ratios=(4, 5))
        figure.suptitle(_finding(result), fontsize=14, fontweight="bold")
        _draw_bars(left, result, self.gold)
        _draw_map(right, result, self.gold)
        for axes in (left, right):
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
        return figure


def _checked(example: Example, name: str) -> dict[str, Any]:
    """An example as the browser gets it: lists of words, of rounded weights and of links."""
    if not isinstance(example, list | tuple) or len(example) != 4:
        raise ValueError(f"{name}: expected (source, output, weights, links), got {example!r}")
    source, output, weights, links = example
    for words, part in ((source, "source"), (output, "output")):
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) and word for word in words):
            raise ValueError(f"{name}: {part}: expected a list of words, got {words!r}")
        in_range(len(words), f"{name}: {part}: number of words", low=1, high=MOST, integer=True)
    try:
        numbers = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: weights: expected rows of {len(source)} numbers each, got {weights!r}") from None
    expect(numbers, "T S", f"{name}: weights", finite=True, T=len(output), S=len(source))
    sums = numbers.sum(axis=1)
    if numbers.min() < 0 or abs(sums - 1).max() > 1e-3:
        worst = sums[abs(sums - 1).argmax()]
        raise ValueError(
            f"{name}: weights: expected rows of numbers from 0 to 1 that sum to 1, got {numbers.min():.3g} as the "
            f"smallest number and {worst:.3g} as a sum"
        )
    rounded = np.round(numbers, DECIMALS).tolist()
    return {"source": list(source), "output": list(output), "weights": rounded, "links": _links(links, name, numbers)}


def _links(links: Iterable[tuple[int, int]] | None, name: str, weights: np.ndarray) -> list[list[int]] | None:
    if links is None:
        return None
    T, S = weights.shape
    found = set()
    for link in links:
        if not isinstance(link, list | tuple) or len(link) != 2:
            raise ValueError(f"{name}: links: expected pairs (position in source, position in output), got {link!r}")
        i, j = link
        in_range(i, f"{name}: links: position in source", low=0, high=S - 1, integer=True)
        in_range(j, f"{name}: links: position in output", low=0, high=T - 1, integer=True)
        found.add((int(i), int(j)))
    return [list(link) for link in sorted(found)]


def _finding(result: dict[str, Any]) -> str:
    step, best = result["step"], result["top"][0]
    steps, word, looked_at = len(result["output"]), result["output"][step - 1], result["source"][best]
    return f"Step {step} of {steps} writes “{word}”, looking most at “{looked_at}” ({result['row'][best]:.2f})"


def _numbers(result: dict[str, Any]) -> str:
    """The largest weights with the words' numbers, counted from 1, and what is left for the others."""
    named = [f"{result['source'][i]} ({i + 1}) {result['row'][i]:.2f}" for i in result["top"]]
    others = len(result["source"]) - len(named)
    if others:
        named.append(f"{'the other word' if others == 1 else f'the other {others} words'} {result['rest']:.2f}")
    return ", ".join(named)


def _gold(result: dict[str, Any]) -> str:
    if result["links"] is None:
        return "none given for this sentence"
    if not result["linked"]:
        return "this word has no link"
    words = " and ".join(f"{result['source'][i]} ({i + 1})" for i in result["linked"])
    return f"{words}, with {result['on_gold']:.2f} of the weight"


def _draw_bars(axes: Axes, result: dict[str, Any], gold: bool) -> None:
    row = result["row"]
    places = np.arange(len(row))
    bars = axes.barh(places, row, color=COLORS["key"], edgecolor=COLORS["reference"], linewidth=0.8)
    axes.bar_label(bars, [f"{weight:.2f}" for weight in row], padding=3, fontsize=10)
    axes.set_yticks(places, [f"{word}  {i + 1}" for i, word in enumerate(result["source"])], fontsize=11)
    for i, label in enumerate(axes.get_yticklabels()):
        if gold and i in result["linked"]:
            label.set_bbox({"edgecolor": COLORS["reference"], "facecolor": "none", "pad": 1.5, "linewidth": 1.8})
    axes.set(xlim=(0, 1.15), ylim=(len(row) - 0.4, -0.6), xticks=[])
    axes.set_title(f"weights of step {result['step']} on the source words", fontsize=12)


def _draw_map(axes: Axes, result: dict[str, Any], gold: bool) -> None:
    weights, step = np.array(result["weights"]), result["step"]
    T, S = weights.shape
    scale = LinearSegmentedColormap.from_list("key", ["#ffffff", COLORS["key"]])
    alpha = np.where(np.arange(T)[:, None] < step, 1.0, 0.35) * np.ones((1, S))
    axes.imshow(weights, cmap=scale, vmin=0, vmax=1, aspect="auto", alpha=alpha)
    axes.set_xticks(range(S), [str(i + 1) for i in range(S)], fontsize=11)
    axes.set_yticks(range(T), result["output"], fontsize=11)
    for t, label in enumerate(axes.get_yticklabels()):
        label.set_color(COLORS["muted"] if t >= step else COLORS["reference"])
        label.set_fontweight("bold" if t == step - 1 else "normal")
    for i, j in (result["links"] or []) if gold else []:
        axes.add_patch(_box(i, j, 1, COLORS["reference"], 1.8))
    axes.add_patch(_box(0, step - 1, S, COLORS["query"], 3.0))
    axes.set_xlim(-0.6, S - 0.4)
    axes.set_ylim(T - 0.4, -0.6)
    boxes = " (boxes: gold alignment)" if gold and result["links"] is not None else ""
    axes.set_title(f"all steps{boxes}", fontsize=12)


def _box(column: int, row: int, width: int, color: str, linewidth: float) -> Rectangle:
    return Rectangle((column - 0.5, row - 0.5), width, 1, fill=False, edgecolor=color, linewidth=linewidth)
