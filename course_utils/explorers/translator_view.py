"""What the translator shows: sentences and steps as HTML, and the same as a picture for where HTML can't stand.

HTML is the live view: drawing the picture would take longer than translating.
"""

import html
import io
import textwrap
from collections.abc import Sequence
from itertools import groupby, zip_longest

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_utils.explorers.translation import CUT, MODEL, RIGHT, SEARCH, Output, Step, Translation
from course_utils.phrases import written
from course_utils.plots import COLORS

# The picture is measured in its pixels: a band of seven steps, each with a line a candidate, below the other.
WIDTH, COLUMN, BAND, LINE, GAP = 1160, 165, 7, 26, 34
TITLE, CAPTION = 30, 26
DPI = 100
CAPTION_TEXT = "Most probable words at each step, in %; boxed: the one written; ✗: differs from the gold translation."
FINDINGS = {
    RIGHT: "The output is the gold translation.",
    SEARCH: "Search error: the network gives the gold translation a higher probability than what the search found. "
    "A wider beam may find it.",
    MODEL: "Model error: the network gives its own output a higher probability than the gold translation. "
    "No search can mend that.",
    CUT: "The output has no end: it was cut, so that its probability can't be compared.",
}
# JupyterLab would take the keys of a control (an arrow selects a cell, "b" inserts one) but for this attribute.
SCRIPT = """
function keepKeys({ target }) {
  if (target.closest(".translator")) target.setAttribute("data-lm-suppress-shortcuts", "true");
}
function render({ model, el }) {
  el.textContent = model.get("note");
  document.addEventListener("focusin", keepKeys);
}
export default { render };
"""
STYLE = """
.translator { max-width: 1200px; color: var(--jp-content-font-color1, #222); --jp-widgets-font-size: 15px; }
.translator .widget-dropdown { flex-direction: column; align-items: stretch; height: auto; }
.translator .widget-dropdown > label { width: auto; height: 22px; line-height: 22px; margin: 0; text-align: left; }
.translator .widget-dropdown > select { flex: none; width: 100%; height: 28px; }
.translator button { width: auto; }
.translator :is(select, button, input):focus-visible { outline: 3px solid var(--jp-brand-color1, #1976d2); }
.translator .widget-html, .translator .widget-html-content { height: auto; font-size: 16px; line-height: 1.4; }
.translator table { border-collapse: collapse; margin: 4px 0; font-size: inherit; width: 100%; }
.translator tr { background: none; }
.translator :is(td, th) { padding: 3px 14px 3px 0; text-align: left; vertical-align: top; border: 0; }
.translator td { white-space: normal; }
.translator th { font-weight: 600; white-space: nowrap; }
.translator td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.translator td.verdict { white-space: nowrap; }
.translator mark { background: none; color: inherit; font-weight: 700; text-decoration: underline wavy #C8102E 2px; }
.translator p { margin: 4px 0; }
.translator .finding { font-weight: 600; }
.translator .caption { font-size: 15px; margin: 0 0 4px; opacity: 0.8; }
.translator ol { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 4px 12px; margin: 0;
  padding: 0; list-style: none; font-size: 16px; line-height: 24px; }
.translator li { margin: 0; padding: 0; }
.translator li > b { font-weight: 400; font-size: 15px; }
.translator li > span { display: flex; justify-content: space-between; margin: 1px 0; padding: 0 5px;
  border: 2px solid transparent; background: linear-gradient(rgb(142 91 181 / 35%) 0 0) 0 0 / calc(100% * var(--p)) 100%
  no-repeat; }
.translator li > span.written { border-color: currentColor; font-weight: 700; }
.translator li > span > span { font-size: 15px; font-variant-numeric: tabular-nums; }
.translator .needs-kernel { display: none; margin: 4px 0; font-size: 16px; font-style: italic; }
.translator.jupyter-widgets-disconnected .needs-kernel { display: block; }
.translator.jupyter-widgets-disconnected .choices { display: none; }
.translator.jupyter-widgets-disconnected::before, .translator .jupyter-widgets-disconnected::before { content: none; }
"""


def text(source: Sequence[str], gold: Sequence[str], result: Translation, width: int) -> str:
    """The sentences as an HTML table, and what follows from their probabilities."""
    n = f"{len(source)} words"
    rows = [
        f'<tr><th scope="row">English</th><td lang="en">{html.escape(written(source, "en"))}</td>'
        f'<td class="number">{n}</td><td></td></tr>',
        f'<tr><th scope="row">German, gold</th><td lang="de">{html.escape(written(gold, "de"))}</td>'
        f'<td class="number">{_log(result.gold_log_prob)}</td><td></td></tr>',
        _output_row("Greedy", result.greedy),
        _output_row(f"Beam, width {width}", result.beam),
    ]
    notes = [f'<p class="finding">{_finding(result)}</p>']
    if result.unknown:
        words = html.escape(", ".join(dict.fromkeys(result.unknown)))
        notes.append(f"<p>Not in the network's vocabulary: {words}.</p>")
    return f'<div aria-live="polite"><table>{"".join(rows)}</table>{"".join(notes)}</div>'


def steps(result: Translation) -> str:
    """The steps of the beam's output as an HTML list: candidates with bars, the written one boxed."""
    items = []
    for number, (step, wrong) in enumerate(_marked_steps(result), 1):
        rows = [
            f'<span style="--p: {p:.3f}"{" class=written" * (word == step.written)}>{html.escape(word)}'
            f"<span>{html.escape(_percent(p))}</span></span>"
            for word, p in _shown(step, _lines(result))
        ]
        items.append(f"<li><b>{number}{' ✗' * wrong}</b>{''.join(rows)}</li>")
    title = f'<p class="finding">{html.escape(_title(result))}</p><p class="caption">{CAPTION_TEXT}</p>'
    return f'{title}<ol aria-label="Steps of the output">{"".join(items)}</ol>'


def alt(result: Translation) -> str:
    """What the picture shows, in words."""
    return f"{_title(result)}. {len(result.steps)} steps, each with its most probable words and their probabilities."


def picture(result: Translation, heading: Sequence[str]) -> bytes:
    """The same as PNG, below lines of text: the same bytes for the same numbers."""
    lines = _lines(result)
    heading = [part for line in heading for part in textwrap.wrap(line, 110, subsequent_indent="    ")]
    top = LINE * len(heading) + 10 + TITLE + CAPTION
    height = top + -(-len(result.steps) // BAND) * (lines * LINE + GAP)
    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI, facecolor="white", layout="none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
    axes.axis("off")
    for i, line in enumerate(heading):
        _write(axes, 4, LINE * (i + 0.5), line, 17)
    _write(axes, 4, top - CAPTION - TITLE / 2, _title(result), 21, weight="bold")
    _write(axes, 4, top - CAPTION / 2, CAPTION_TEXT, 15, color=COLORS["muted"])
    for i, (step, wrong) in enumerate(_marked_steps(result)):
        x, y = 4 + COLUMN * (i % BAND), top + (i // BAND) * (lines * LINE + GAP)
        _write(axes, x, y + GAP / 2 + 3, f"{i + 1}{' ✗' * wrong}", 15, color=COLORS["muted"])
        for j, (word, p) in enumerate(_shown(step, lines)):
            _draw_candidate(axes, x, y + GAP + j * LINE, word, p, word == step.written)
    file = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def _draw_candidate(axes: Axes, x: float, y: float, word: str, p: float, taken: bool) -> None:
    axes.add_patch(Rectangle((x, y + 2), (COLUMN - 12) * p, LINE - 4, color=COLORS["state"], alpha=0.35, linewidth=0))
    if taken:
        axes.add_patch(Rectangle((x - 1, y + 1), COLUMN - 10, LINE - 2, fill=False, linewidth=1.6))
    _write(axes, x + 4, y + LINE / 2, word, 16, weight="bold" if taken else "normal")
    _write(axes, x + COLUMN - 15, y + LINE / 2, _percent(p), 14, ha="right")


def _write(axes: Axes, x: float, y: float, words: str, size: float, **style: str) -> None:
    """Text of a size in pixels, centered at y."""
    style = {"va": "center_baseline", "color": COLORS["reference"]} | style
    axes.text(x, y, words, fontsize=size * 72 / DPI, family="DejaVu Sans", parse_math=False, **style)


def _output_row(name: str, output: Output) -> str:
    verdict = {RIGHT: "✓ right"}.get(output.verdict, f"✗ {output.verdict}")
    return (
        f'<tr><th scope="row">{name}</th><td lang="de">{_marked(output)}</td>'
        f'<td class="number">{_log(output.log_prob)}</td><td class="verdict">{verdict}</td></tr>'
    )


def _marked(output: Output) -> str:
    """The output as it is printed; what differs from the gold translation is underlined, bold, and in brackets."""
    if not output.words:
        return "(nothing)"
    pieces = zip(written(output.words, "de").split(" "), output.wrong, strict=True)
    parts = []
    for wrong, group in groupby(pieces, key=lambda piece: piece[1]):
        words = html.escape(" ".join(piece for piece, _ in group))
        parts.append(f"<mark>[{words}]</mark>" if wrong else words)
    missing = [f"<mark>[{output.missing} missing]</mark>"] if output.missing else []
    return " ".join(parts + missing)


def _finding(result: Translation) -> str:
    if result.beam.verdict == RIGHT and result.greedy.verdict == SEARCH:
        return "Greedy search misses the gold translation, which the network finds more probable; the beam finds it."
    return FINDINGS[result.beam.verdict]


def _title(result: Translation) -> str:
    """The written word that has the lowest probability."""
    sure = [dict(step.candidates)[step.written] for step in result.steps]
    i = sure.index(min(sure))
    return f"Least sure at step {i + 1}, where “{result.steps[i].written}” has {_percent(sure[i])} %"


def _marked_steps(result: Translation) -> list[tuple[Step, bool]]:
    """Each step, and whether its word differs from the gold translation; the last one may write <eos>."""
    return list(zip_longest(result.steps, result.beam.wrong, fillvalue=False))


def _lines(result: Translation) -> int:
    """How many candidates of each step are shown: fewer for a longer output."""
    n = len(result.steps)
    return 5 if n <= 2 * BAND else 4 if n <= 3 * BAND else 3


def _shown(step: Step, lines: int) -> list[tuple[str, float]]:
    """The most probable candidates, the last of them replaced by the written word if that is none of them."""
    first = step.candidates[:lines]
    taken = [pair for pair in step.candidates[lines:] if pair[0] == step.written]
    return first[: lines - len(taken)] + taken


def _percent(p: float) -> str:
    return "<1" if p < 0.005 else f"{100 * p:.0f}"


def _log(value: float) -> str:
    return f"log p = {value:.2f}".replace("-", "−")
