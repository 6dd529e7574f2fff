"""Where the heads of a trained transformer look, and what becomes of a word without one of them (lecture 6)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import traitlets
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from torch import Tensor

from course_utils.attention import MultiHeadAttention
from course_utils.corpora import BOS, PAD, UNK, Vocabulary
from course_utils.explorers.base import Explorer
from course_utils.models import Trained
from course_utils.plots import COLORS
from course_utils.seq2seq import shift_right
from course_utils.shapes import expect, in_range
from course_utils.transformer import Transformer, without_heads

KINDS = ("encoder", "decoder", "cross")
MOST = 17  # words of a source or an output, with <eos>, that fit on a slide
FOLLOWED = 3  # words whose probability is followed at each step, the right one first
TOP = 3  # the largest weights, which are named
LEAST = 0.005  # a smaller change of a probability isn't one


class Heads(NamedTuple):
    """What a `HeadViewer` shows of one sentence.  L blocks, H heads, S source words, T output words with <eos>.

    weights: for "encoder" (L, H, S, S), "decoder" (L, H, T, T) and "cross" (L, H, T, S), whose rows sum to 1; row t of
    the last two makes output word t.  followed: for each output word (the right one, another, another).
    whole (T, 3): the probabilities of these words; without: for each kind (L, H, T, 3), with that head switched off.
    """

    source: tuple[str, ...]
    output: tuple[str, ...]
    weights: dict[str, NDArray[np.floating]]
    followed: list[tuple[str, ...]]
    whole: NDArray[np.floating]
    without: dict[str, NDArray[np.floating]]


class HeadViewer(Explorer):
    """Explorer of the heads of a transformer that reads a source and its true translation.

    sentences: from `look`, which `HeadViewer.from_model` calls; at most 17 words each, of a model of one shape.
    sentence: counted from 0; kind: "encoder", "decoder" or "cross"; layer, head: counted from 0, as in
    weights.encoder[layer][:, head]; step: the output word, and word: the source word, counted from 1.  In the encoder
    the source word looks at the others; else the decoder looks, at the step that writes the output word.
    Nothing is computed but what the numbers say: they travel to the browser in thousandths.
    Raises ValueError for no sentences, numbers that don't fit the words, or a setting outside its range.
    Source: Michel, Levy and Neubig (2019), Are sixteen heads really better than one?
    """

    script = "head_viewer.js"
    settings = ("sentence", "kind", "layer", "head", "step", "word")

    sentence = traitlets.Int(min=0).tag(sync=True)
    kind = traitlets.Enum(KINDS).tag(sync=True)
    layer = traitlets.Int(min=0).tag(sync=True)
    head = traitlets.Int(min=0).tag(sync=True)
    step = traitlets.Int(min=1, max=MOST).tag(sync=True)
    word = traitlets.Int(min=1, max=MOST).tag(sync=True)
    examples = traitlets.List(read_only=True).tag(sync=True)

    def __init__(
        self,
        sentences: Sequence[Heads],
        sentence: int = 0,
        kind: str = "cross",
        layer: int = 0,
        head: int = 0,
        step: int = 1,
        word: int = 1,
        **kwargs: Any,
    ) -> None:
        if not isinstance(sentences, list | tuple) or not all(isinstance(item, Heads) for item in sentences):
            raise ValueError(f"sentences: expected a list of what `look` returns, got {type(sentences).__name__}")
        in_range(len(sentences), "sentences: their number", low=1, integer=True)
        self._checked = [_checked(item, f"sentences[{n}]") for n, item in enumerate(sentences)]
        if kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
        in_range(sentence, "sentence", low=0, high=len(sentences) - 1, integer=True)
        layers, heads = sentences[sentence].weights[kind].shape[:2]
        in_range(layer, "layer", low=0, high=layers - 1, integer=True)
        in_range(head, "head", low=0, high=heads - 1, integer=True)
        in_range(step, "step", low=1, high=len(sentences[sentence].output), integer=True)
        in_range(word, "word", low=1, high=len(sentences[sentence].source), integer=True)
        values = (int(sentence), kind, int(layer), int(head), int(step), int(word))
        super().__init__(**dict(zip(self.settings, values, strict=True)), **kwargs)

    @classmethod
    def from_model(
        cls,
        trained: Trained,
        pairs: Sequence[Sequence],
        rivals: Sequence[str] = ("er", "sie", "es"),
        **settings: Any,
    ) -> "HeadViewer":
        """The explorer of a transformer on pairs (source, target, …) of words, such as `phrases.Pair`; see `look`."""
        return cls([look(trained, pair, rivals) for pair in pairs], **settings)

    @traitlets.default("examples")
    def _load_examples(self) -> list[dict[str, Any]]:
        return self._checked

    @traitlets.validate("sentence")
    def _in_range(self, proposal: dict[str, Any]) -> int:
        if proposal["value"] >= len(self.examples):
            raise traitlets.TraitError(f"sentence: expected at most {len(self.examples) - 1}, got {proposal['value']}")
        return proposal["value"]

    def compute(self) -> dict[str, Any]:
        """The numbers of the picture, at the current settings; those beyond the end of a sentence are its last.

        Returns layer, head, step, word; queries, keys: the words that look and are looked at; query: the place of the
        one that looks; weights: the head's matrix; row: the query's weights; top: places of its three largest, the
        largest first; followed: three words, the right one first; whole and without: their probabilities with all heads
        and without this one; table: for each kind and block, the probability of the right word without each head;
        worst: kind, layer and head of its smallest number.
        """
        chosen = self.examples[self.sentence]
        heads = chosen["weights"][self.kind]
        layer, head = min(self.layer, len(heads) - 1), min(self.head, len(heads[0]) - 1)
        step, word = min(self.step, len(chosen["output"])), min(self.word, len(chosen["source"]))
        encoder = self.kind == "encoder"
        query = (word if encoder else step) - 1
        weights = [[number / 1000 for number in row] for row in heads[layer][head]]
        row = weights[query]
        read = ["<bos>", *chosen["output"][:-1]]
        table = [
            [kind, n, [at[step - 1][0] / 1000 for at in block]]
            for kind in KINDS
            for n, block in enumerate(chosen["without"][kind])
        ]
        lowest = min(min(numbers) for _, _, numbers in table)
        worst = next((kind, n, numbers.index(lowest)) for kind, n, numbers in table if lowest in numbers)
        return {
            "layer": layer,
            "head": head,
            "step": step,
            "word": word,
            "queries": chosen["source"] if encoder else chosen["output"],
            "keys": read if self.kind == "decoder" else chosen["source"],
            "query": query,
            "weights": weights,
            "row": row,
            "top": sorted(range(len(row)), key=lambda s: (-row[s], s))[:TOP],
            "followed": chosen["followed"][step - 1],
            "whole": [number / 1000 for number in chosen["whole"][step - 1]],
            "without": [number / 1000 for number in chosen["without"][self.kind][layer][head][step - 1]],
            "table": table,
            "worst": list(worst),
        }

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        result = self.compute()
        named = ", ".join(f"{result['keys'][s]} ({s + 1}) {result['row'][s]:.2f}" for s in result["top"])
        kind, layer, head = result["worst"]
        lowest = min(min(numbers) for _, _, numbers in result["table"])
        return (
            f"{_finding(self.kind, result)}. {_change(result)}. Weights: {named}. {_probabilities(result)}. "
            f"Lowest for “{result['followed'][0]}”: {lowest:.2f} without {kind}, layer {layer}, head {head}. "
            f"Heat map: all {len(result['queries'])} rows of this head over {len(result['keys'])} words."
        )

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from `compute()`."""
        result = self.compute()
        figure = Figure(figsize=(9.6, 4.9), layout="constrained", facecolor="white")
        left, middle, right = figure.subplots(1, 3, width_ratios=(4, 4, 4))
        figure.suptitle(f"{_finding(self.kind, result)}\n{_change(result)}", fontsize=13, fontweight="bold")
        _draw_row(left, result)
        _draw_map(middle, result)
        _draw_table(right, result, self.kind)
        for axes in (left, middle, right):
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
        return figure


def look(trained: Trained, pair: Sequence, rivals: Sequence[str] = ("er", "sie", "es")) -> Heads:
    """Where heads look while the model reads a pair (source, target, …), and its probabilities without each of them.

    Three words are followed at each step: the right one; then the other `rivals` if it is one of them, else the two
    words that the model finds most probable besides it.
    Raises ValueError for another kind of model.
    """
    model, vocab = trained.model, trained.target_vocab
    if not isinstance(model, Transformer):
        raise ValueError(f"trained: expected one with a Transformer, got {type(model).__name__}")
    source = torch.tensor([trained.source_vocab.encode(pair[0])])  # (1, S)
    target = torch.tensor([vocab.encode(pair[1], eos=True)])  # (1, T)
    read = shift_right(target)
    with torch.no_grad():
        logits, seen = model.attend(source, read)
        p = logits[0].softmax(dim=-1)  # (T, V)
        ids = torch.tensor(
            [_followed(right, at, rivals, vocab) for right, at in zip(target[0].tolist(), p, strict=True)]
        )
        without: dict[str, list[list[Tensor]]] = {kind: [] for kind in KINDS}
        for kind, attention in _attentions(model):
            without[kind].append([])
            for head in range(attention.n_heads):
                with without_heads([(attention, head)]):
                    without[kind][-1].append(model(source, read)[0].softmax(dim=-1).gather(1, ids))  # (T, 3)
    return Heads(
        tuple(pair[0]),
        tuple(vocab.tokens[i] for i in target[0].tolist()),
        {kind: torch.cat(getattr(seen, kind)).numpy() for kind in KINDS},
        [tuple(vocab.tokens[i] for i in row) for row in ids.tolist()],
        p.gather(1, ids).numpy(),
        {kind: torch.stack([torch.stack(block) for block in blocks]).numpy() for kind, blocks in without.items()},
    )


def _attentions(model: Transformer) -> Iterator[tuple[str, MultiHeadAttention]]:
    yield from (("encoder", block.attention) for block in model.encoder)
    yield from (("decoder", block.attention) for block in model.decoder)
    yield from (("cross", block.cross) for block in model.decoder)


def _followed(right: int, p: Tensor, rivals: Sequence[str], vocab: Vocabulary) -> list[int]:
    """The ids of three words: the right one and those that compete with it."""
    if vocab.tokens[right] in rivals:
        others = vocab.encode([word for word in rivals if word != vocab.tokens[right]])
    else:
        others = []
    best = p.topk(FOLLOWED + 4).indices.tolist()
    others += [i for i in best if i not in (right, PAD, BOS, UNK, *others)]
    return [right, *others[: FOLLOWED - 1]]


def _checked(item: Heads, name: str) -> dict[str, Any]:
    """A sentence as the browser gets it, its numbers in thousandths."""
    S, T = len(item.source), len(item.output)
    in_range(S, f"{name}: source: number of words", low=1, high=MOST, integer=True)
    in_range(T, f"{name}: output: number of words", low=1, high=MOST, integer=True)
    if [len(words) for words in item.followed] != [FOLLOWED] * T:
        raise ValueError(
            f"{name}: followed: expected {FOLLOWED} words for each of {T} output words, got {item.followed}"
        )
    expect(item.whole, f"T {FOLLOWED}", f"{name}: whole", finite=True, T=T)
    shapes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
    for kind, (rows, columns) in shapes.items():
        weights, without = item.weights[kind], item.without[kind]
        sizes = expect(weights, f"L H {rows} {columns}", f"{name}: weights[{kind!r}]", finite=True)
        expect(without, f"L H {T} {FOLLOWED}", f"{name}: without[{kind!r}]", finite=True, **sizes)
        if weights.min() < 0 or abs(weights.sum(axis=-1) - 1).max() > 1e-3:
            raise ValueError(f"{name}: weights[{kind!r}]: expected rows of numbers from 0 to 1 that sum to 1")
    return {
        "source": list(item.source),
        "output": list(item.output),
        "weights": {kind: _thousandths(item.weights[kind]) for kind in KINDS},
        "followed": [list(words) for words in item.followed],
        "whole": _thousandths(item.whole),
        "without": {kind: _thousandths(item.without[kind]) for kind in KINDS},
    }


def _thousandths(numbers: NDArray[np.floating]) -> list:
    return np.rint(1000 * numbers).astype(int).tolist()


def _finding(kind: str, result: dict[str, Any]) -> str:
    asks, best = result["queries"][result["query"]], result["top"][0]
    doing = f"“{asks}” looks" if kind == "encoder" else f"writing “{asks}”, it looks"
    place = f"{kind.capitalize()}, layer {result['layer']}, head {result['head']}"
    return f"{place}: {doing} most at “{result['keys'][best]}” ({result['row'][best]:.2f})"


def _change(result: dict[str, Any]) -> str:
    """What becomes of the right word without this head."""
    before, after = result["whole"][0], result["without"][0]
    right = result["followed"][0]
    if abs(before - after) < LEAST:
        return f"Without this head “{right}” keeps its probability of {before:.2f}"
    return f"Without this head “{right}” has probability {after:.2f} instead of {before:.2f}"


def _probabilities(result: dict[str, Any]) -> str:
    def listed(numbers: list[float]) -> str:
        return ", ".join(f"{word} {p:.2f}" for word, p in zip(result["followed"], numbers, strict=True))

    return f"All heads: {listed(result['whole'])}; without this one: {listed(result['without'])}"


def _draw_row(axes: Axes, result: dict[str, Any]) -> None:
    row = result["row"]
    bars = axes.barh(range(len(row)), row, color=COLORS["key"], edgecolor=COLORS["reference"], linewidth=0.8)
    axes.bar_label(bars, [f"{weight:.2f}" for weight in row], padding=3, fontsize=9)
    axes.set_yticks(range(len(row)), [f"{word}  {s + 1}" for s, word in enumerate(result["keys"])], fontsize=10)
    axes.set(xlim=(0, 1.25), ylim=(len(row) - 0.4, -0.6), xticks=[])
    axes.set_title("where it looks", fontsize=12)


def _draw_map(axes: Axes, result: dict[str, Any]) -> None:
    scale = LinearSegmentedColormap.from_list("key", ["#ffffff", COLORS["key"]])
    axes.imshow(result["weights"], cmap=scale, vmin=0, vmax=1, aspect="auto")
    T, S = len(result["queries"]), len(result["keys"])
    axes.set_xticks(range(S), range(1, S + 1), fontsize=9)
    axes.set_yticks(range(T), result["queries"], fontsize=10)
    axes.add_patch(_box(0, result["query"], S, COLORS["query"]))
    axes.set(xlim=(-0.6, S - 0.4), ylim=(T - 0.4, -0.6))
    axes.set_title("all rows of this head", fontsize=12)


def _draw_table(axes: Axes, result: dict[str, Any], kind: str) -> None:
    numbers = np.array([row for _, _, row in result["table"]])
    lost = np.clip(result["whole"][0] - numbers, 0, 1)
    scale = LinearSegmentedColormap.from_list("lost", ["#ffffff", COLORS["muted"]])
    axes.imshow(lost, cmap=scale, vmin=0, vmax=1, aspect="auto")
    for (r, h), p in np.ndenumerate(numbers):
        axes.text(h, r, f"{p:.2f}", ha="center", va="center", fontsize=10)
    axes.set_xticks(range(numbers.shape[1]), [f"head {h}" for h in range(numbers.shape[1])], fontsize=9)
    axes.set_yticks(range(len(numbers)), [f"{name} {layer}" for name, layer, _ in result["table"]], fontsize=10)
    own = next(r for r, (name, layer, _) in enumerate(result["table"]) if (name, layer) == (kind, result["layer"]))
    axes.add_patch(_box(result["head"], own, 1, COLORS["query"]))
    axes.set(xlim=(-0.6, numbers.shape[1] - 0.4), ylim=(len(numbers) - 0.4, -0.6))
    axes.set_title(f"P(“{result['followed'][0]}”) without one head", fontsize=12)


def _box(column: int, row: int, width: int, color: str) -> Rectangle:
    return Rectangle((column - 0.5, row - 0.5), width, 1, fill=False, edgecolor=color, linewidth=2.8)
