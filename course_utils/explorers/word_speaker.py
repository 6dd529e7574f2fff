"""Type a word and see how a network says it, and where a head looks while it writes each sound (lecture 7).

This explorer runs a network, so it needs a kernel: its controls are ipywidgets, and what they show is made here. Where
there is no kernel it shows its last state and says so, without controls.
"""

import html
import io
from typing import Any, NamedTuple

import anywidget
import ipywidgets as widgets
import numpy as np
import torch
import traitlets
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from course_utils.corpora import EOS, load_pronunciations
from course_utils.decoding import beam, greedy
from course_utils.explorers.translator_view import SCRIPT, STYLE
from course_utils.models import Trained
from course_utils.plots import COLORS
from course_utils.seq2seq import shift_right
from course_utils.transformer import Transformer

LONGEST = 20  # letters
MAX_LEN = 40  # sounds
WIDTH = 4  # of the beam that finds other pronunciations
DPI = 100
NOTE = "The controls need a kernel, since they run the network: open the notebook in JupyterLab and run this cell."


class Spoken(NamedTuple):
    """A word as a network says it: its sounds by greedy search, and those that beam search finds, with probabilities.

    rows: the sounds, with <eos> unless they were cut.  others: (sounds, probability), the most probable first.
    weights: where each head of each block of the decoder looks at the letters, (L, H, T, S), T rows; None for a model
    without such heads.
    """

    sounds: list[str]
    rows: list[str]
    others: list[tuple[list[str], float]]
    weights: np.ndarray | None


def speak(trained: Trained, word: str) -> Spoken:
    """Say a word of letters that the model knows."""
    model, vocab = trained.model, trained.target_vocab
    source = torch.tensor([trained.source_vocab.encode(word)])  # (1, S)
    best = greedy(model, source, MAX_LEN)[0]
    found = beam(model, source, WIDTH, MAX_LEN)[0]
    others = [(vocab.decode(h.tokens), float(np.exp(h.log_prob))) for h in found if h.finished]
    ids, weights = [*best.tokens, *[EOS] * best.finished], None
    if isinstance(model, Transformer):
        with torch.no_grad():
            weights = torch.cat(model.attend(source, shift_right(torch.tensor([ids])))[1].cross).numpy()  # (L, H, T, S)
    return Spoken(vocab.decode(best.tokens), [vocab.tokens[i] for i in ids], others, weights)


class Note(anywidget.AnyWidget):
    """What is said where there is no kernel; it brings the style and lets the controls keep their keys."""

    _esm = SCRIPT
    _css = STYLE
    note = traitlets.Unicode(NOTE).tag(sync=True)


class WordSpeaker(widgets.VBox):
    """Explorer of a model of pronunciations: type a word, see its sounds and what a head of the decoder looks at.

    trained: from `models.load`, letters to sounds; only a `Transformer` shows where its heads look.
    word: 1 to 20 letters that the model knows; others are left out as one types.
    Raises ValueError for another word, and for a model that reads something else than letters.
    """

    def __init__(self, trained: Trained, word: str = "knight") -> None:
        letters = [token for token in trained.source_vocab.tokens if len(token) == 1]
        if len(letters) < 20:
            raise ValueError(f"trained: expected a model that reads letters, got one of words such as {letters}")
        if not isinstance(word, str) or not 1 <= len(word) <= LONGEST or set(word) - set(letters):
            raise ValueError(f"word: expected 1 to {LONGEST} letters that the model knows, got {word!r}")
        self._trained, self._letters, self._kept = trained, set(letters), word
        self._listed = load_pronunciations()
        self.word = widgets.Text(value=word, description="Word", layout={"width": "16em"})
        self.head = widgets.Dropdown(description="Head", layout={"width": "12em"}, options=[("", None)])
        self.texts, self.map = widgets.HTML(), widgets.HTML()
        self.spoken = speak(trained, word)
        controls = [self.word]
        if self.spoken.weights is not None:
            layers, heads = self.spoken.weights.shape[:2]
            places = [(n, h) for n in range(layers) for h in range(heads)]
            self.head.options = [(f"layer {n}, head {h}", (n, h)) for n, h in places]
            self.head.value = (layers - 1, 0)
            controls.append(self.head)
        row = widgets.Box(controls, layout={"flex_flow": "row wrap", "align_items": "flex-end"})
        super().__init__(
            [Note().add_class("needs-kernel"), widgets.VBox([row]).add_class("choices"), self.texts, self.map]
        )
        self.add_class("translator")
        self.word.observe(self._typed, "value")
        self.head.observe(lambda change: self.redraw(), "value")
        self.redraw()

    def redraw(self) -> None:
        """Show what was said, and where the chosen head looked."""
        rows = [("The network says", " ".join(self.spoken.sounds) or "nothing"), ("Dictionary", self._dictionary())]
        rows.append((f"Beam search of {WIDTH}", "; ".join(f"{' '.join(s)} ({p:.2f})" for s, p in self.spoken.others)))
        cells = "".join(f"<tr><th>{name}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
        self.texts.value = f"<table>{cells}</table>"
        self.map.value = "" if self.spoken.weights is None else self._table()

    def figure(self) -> Figure:
        """What is shown, as a picture."""
        shown = self.spoken.weights is not None
        figure = Figure(figsize=(9.6, 4.4 if shown else 1.2), layout="constrained", facecolor="white")
        figure.suptitle(f"{self._kept}: {' '.join(self.spoken.sounds)}\nDictionary: {self._dictionary()}", fontsize=14)
        if shown:
            axes = figure.subplots()
            colors = LinearSegmentedColormap.from_list("key", ["#ffffff", COLORS["key"]])
            axes.imshow(self._weights(), cmap=colors, vmin=0, vmax=1, aspect="auto")
            axes.set_xticks(range(len(self._kept)), self._kept, fontsize=13)
            axes.set_yticks(range(len(self.spoken.rows)), self.spoken.rows, fontsize=12)
            axes.set_title("layer {}, head {}: where it looks for each sound".format(*self.head.value), fontsize=12)
        return figure

    def png(self) -> bytes:
        """The figure as PNG: the same bytes for the same numbers."""
        file, figure = io.BytesIO(), self.figure()
        FigureCanvasAgg(figure)
        figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
        return file.getvalue()

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        said = f"“{self._kept}” is said {' '.join(self.spoken.sounds)}. Dictionary: {self._dictionary()}."
        if self.spoken.weights is None:
            return said
        looks = zip(self.spoken.rows, self._weights().argmax(axis=1), strict=True)
        most = ", ".join(f"{sound} at {self._kept[s]} ({s + 1})" for sound, s in looks)
        return "{} Layer {}, head {} looks most, for {}.".format(said, *self.head.value, most)

    def __repr__(self) -> str:
        return f"WordSpeaker({self._kept!r})"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        data = {**data, "image/png": self.png(), "text/plain": repr(self)}
        return data, {**metadata, "image/png": {"alt": self.alt}, "needs_kernel": True}

    def _typed(self, change: dict[str, Any]) -> None:
        word = "".join(letter for letter in change["new"].lower() if letter in self._letters)[:LONGEST]
        if word and word != self._kept:
            self._kept, self.spoken = word, speak(self._trained, word)
            self.redraw()

    def _dictionary(self) -> str:
        return "; ".join(" ".join(sounds) for sounds in self._listed.get(self._kept, ())) or "not in it"

    def _weights(self) -> np.ndarray:
        """Those of the chosen head, (T, S)."""
        layer, head = self.head.value
        return self.spoken.weights[layer, head]

    def _table(self) -> str:
        """The weights of the chosen head: a row for each sound, a column for each letter."""
        heads = "".join(f"<th>{html.escape(letter)}</th>" for letter in self._kept)
        rows = []
        for sound, row in zip(self.spoken.rows, self._weights(), strict=True):
            cells = "".join(f'<td style="background: rgba(230, 159, 0, {p:.2f})">{p:.2f}</td>' for p in row)
            rows.append(f"<tr><th>{html.escape(sound)}</th>{cells}</tr>")
        return f"<table><tr><th></th>{heads}</tr>{''.join(rows)}</table>"
