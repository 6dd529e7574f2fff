"""Build a sentence and see how a network translates it, step by step (lecture 3).

This explorer runs a network, so it needs a kernel: its controls are ipywidgets, and what they show is made here. Where
there is no kernel it shows its last state and says so, without controls.
"""

from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from course_utils.corpora import Vocabulary
from course_utils.decoding import Decodable
from course_utils.explorers.sentences import Settings, draw, options, repaired, sentence
from course_utils.explorers.translation import Translation, translate
from course_utils.explorers.translator_view import SCRIPT, STYLE, alt, picture, steps, text
from course_utils.phrases import written
from course_utils.shapes import in_range

WIDTHS = (1, 2, 4, 8)
LENGTHS = (4, 6, 8, 10, 12, 15, 20, 25, 30)
# Label and width of each control.
CONTROLS = {
    "article": ("Subject article", "8.5em"),
    "adjective": ("Subject adjective", "10.5em"),
    "noun": ("Subject noun", "8em"),
    "verb": ("Verb", "8em"),
    "form": ("Verb form", "11.5em"),
    "negated": ("not", "4em"),
    "object_article": ("Object article", "8.5em"),
    "object_adjective": ("Object adjective", "10.5em"),
    "object": ("Object noun", "8em"),
    "reason": ("because …", "20em"),
    "more_1": ("One more clause", "18em"),
    "more_2": ("Another clause", "18em"),
    "more_3": ("A third clause", "18em"),
}
ROWS = (
    ("article", "adjective", "noun", "verb", "form", "negated"),
    ("object_article", "object_adjective", "object", "reason"),
    ("more_1", "more_2", "more_3"),
)
NOTE = "The controls need a kernel, since they run the network: open the notebook in JupyterLab and run this cell."


class Note(anywidget.AnyWidget):
    """What is said where there is no kernel; it brings the style and lets the controls keep their keys."""

    _esm = SCRIPT
    _css = STYLE
    note = traitlets.Unicode(NOTE).tag(sync=True)


class Translator(widgets.VBox):
    """Explorer of a translation model: choose words of a sentence of `phrases`, see what the network writes and weighs.

    model: what `decoding` can run, such as `seq2seq.EncoderDecoder`; source_vocab, target_vocab: its vocabularies,
    English and German.  settings: the words chosen at first; those that don't go with others are changed.
    width: of the beam, 1, 2, 4 or 8.  seed: of the random sentences, one after the other.
    Raises ValueError for a model without `start` and `step`, something else than vocabularies, and another width.
    """

    def __init__(
        self,
        model: Decodable,
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        settings: Settings | None = None,
        width: int = 4,
        seed: int = 0,
    ) -> None:
        if not (hasattr(model, "start") and hasattr(model, "step")):
            raise ValueError(f"model: expected one with start and step, got {type(model).__name__}")
        for name, vocab in (("source_vocab", source_vocab), ("target_vocab", target_vocab)):
            if not isinstance(vocab, Vocabulary):
                raise ValueError(f"{name}: expected a Vocabulary, got {type(vocab).__name__}")
        if width not in WIDTHS:
            raise ValueError(f"width: expected one of {', '.join(map(str, WIDTHS))}, got {width!r}")
        in_range(seed, "seed", low=0, integer=True)
        self._run = (model, source_vocab, target_vocab)
        self._seed, self._listening = seed, False
        self.words = {field: _control(field) for field in CONTROLS}
        self.beam_width = _dropdown("Beam width", "8em", [("1 (greedy)", 1), *((str(w), w) for w in WIDTHS[1:])], width)
        self.target_length = _dropdown("Words", "6em", [(str(n), n) for n in LENGTHS], 12)
        self.random = widgets.Button(description="Random sentence")
        self.texts, self.steps = widgets.HTML(), widgets.HTML()
        rows = [[self.words[field] for field in row] for row in ROWS]
        rows.append([self.beam_width, self.target_length, self.random])
        controls = widgets.VBox([_row(row) for row in rows]).add_class("choices")
        super().__init__([Note().add_class("needs-kernel"), controls, self.texts, self.steps])
        self.add_class("translator")
        self.choose(settings or Settings())
        for control in (*self.words.values(), self.beam_width):
            control.observe(self._changed, "value")
        self.random.on_click(self._random_sentence)
        self._listening = True

    @property
    def settings(self) -> Settings:
        """The words that are chosen."""
        return Settings(**{field: self.words[field].value for field in Settings._fields})

    def choose(self, settings: Settings) -> None:
        """Set the words, each changed to its default if it doesn't go with those before it, and translate them."""
        settings = repaired(settings)
        listening, self._listening = self._listening, False  # the controls change one after the other: one redraw
        try:
            for field, control in self.words.items():
                offered = options(settings, field)
                if offered is not None and control.options != tuple(offered):
                    control.options = offered
                control.value = getattr(settings, field)
                control.disabled = offered is not None and len(offered) == 1
        finally:
            self._listening = listening
        self.redraw()

    def redraw(self) -> None:
        """Translate the chosen sentence and show the result."""
        self.source, self.gold = sentence(self.settings)
        self.result: Translation = translate(*self._run, self.source, self.gold, self.beam_width.value)
        self.texts.value = text(self.source, self.gold, self.result, self.beam_width.value)
        self.steps.value = steps(self.result)

    def png(self) -> bytes:
        """What is shown, as a picture: the same bytes for the same numbers."""
        output = written(self.result.beam.words, "de") if self.result.beam.words else "(nothing)"
        heading = [f"English: {written(self.source, 'en')}", f"German, gold: {written(self.gold, 'de')}"]
        return picture(self.result, [*heading, f"The network: {output} ({self.result.beam.verdict})"])

    def __repr__(self) -> str:
        return f"Translator({written(self.source, 'en')!r}, width={self.beam_width.value})"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any] | tuple[dict[str, Any], dict[str, Any]]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        data = {**data, "image/png": self.png(), "text/plain": repr(self)}
        return data, {**metadata, "image/png": {"alt": alt(self.result)}, "needs_kernel": True}

    def _changed(self, change: dict[str, Any]) -> None:
        if self._listening:
            self.choose(self.settings)

    def _random_sentence(self, button: widgets.Button) -> None:
        self.choose(draw(self.target_length.value, self._seed))
        self._seed += 1


def _control(field: str) -> widgets.Widget:
    label, width = CONTROLS[field]
    if field == "negated":
        return widgets.Checkbox(description=label, indent=False, layout={"width": width})
    return _dropdown(label, width, [("", "")], "")


def _dropdown(label: str, width: str, choices: list[tuple[str, Any]], value: Any) -> widgets.Dropdown:
    return widgets.Dropdown(description=label, options=choices, value=value, layout={"width": width})


def _row(controls: list[widgets.Widget]) -> widgets.Box:
    return widgets.Box(controls, layout={"flex_flow": "row wrap", "align_items": "flex-end"})
