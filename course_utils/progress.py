"""A progress bar for training: live in a notebook, one line in a terminal, nothing where nobody watches.

What a notebook keeps in the end is a text that is the same on every machine and in every run (no times, no losses),
so that saved notebooks can be compared. IPython alone is needed.
"""

import html
import sys
import time

from IPython import get_ipython
from IPython.display import display

# A kernel's messages wait in a queue of limited length until the cell ends: more than 5 a second could overflow it.
SECONDS_BETWEEN_UPDATES = 0.2


class Progress:
    """A bar over a known number of steps.

    label: the text before the bar; steps: how many there will be; shown: False for no display at all.
    Call `update` after each step (it draws at most five times a second) and `finish` once at the end.
    """

    def __init__(self, label: str, steps: int, *, shown: bool = True):
        self.label, self.steps = label, steps
        self.started = time.perf_counter()
        self.drawn = -float("inf")
        self.handle = None
        in_kernel = hasattr(get_ipython(), "kernel")
        self.in_terminal = shown and not in_kernel and sys.stderr is not None and sys.stderr.isatty()
        if shown and in_kernel:
            self.handle = display(self._bundle(0, ""), raw=True, display_id=True)

    def update(self, step: int, loss: float, grad_norm: float) -> None:
        """Show that `step` steps are done, with the last loss and gradient norm and the remaining time."""
        now = time.perf_counter()
        if now - self.drawn < SECONDS_BETWEEN_UPDATES or not (self.handle or self.in_terminal):
            return
        self.drawn = now
        remaining = (now - self.started) / step * (self.steps - step)
        numbers = f"loss {loss:.4g} · gradient norm {grad_norm:.3g} · {duration(remaining)} left"
        if self.handle:
            self.handle.update(self._bundle(step, numbers), raw=True)
        else:
            print(f"\r{self.label}: {step} of {self.steps} · {numbers}\x1b[K", end="", file=sys.stderr, flush=True)

    def finish(self, ending: str) -> None:
        """Replace the bar by `label: ending`, for example "training: 400 of 400 steps"."""
        text = f"{self.label}: {ending}"
        if self.handle:
            self.handle.update({"text/plain": text, "text/html": f"<div>{html.escape(text)}</div>"}, raw=True)
        elif self.in_terminal:
            print(f"\r{text}\x1b[K", file=sys.stderr, flush=True)

    def _bundle(self, step: int, numbers: str) -> dict[str, str]:
        label = html.escape(self.label)
        count = f"{step} of {self.steps}"
        # JupyterLab's variables follow its light and dark themes; the second value of each is for other places.
        bar = (
            f'<div role="progressbar" aria-label="{label}" aria-valuemin="0" aria-valuemax="{self.steps}" '
            f'aria-valuenow="{step}" aria-valuetext="{count} steps" style="flex: 0 1 16em; min-width: 4em; '
            'height: 0.7em; border-radius: 0.35em; overflow: hidden; background: var(--jp-layout-color3, #bdbdbd)">'
            f'<div style="width: {100 * step / self.steps:.1f}%; height: 100%; border-radius: 0.35em; '
            'background: var(--jp-brand-color1, #1976d2)"></div></div>'
        )
        row = "display: flex; flex-wrap: wrap; align-items: center; gap: 0 0.8em; font-variant-numeric: tabular-nums"
        text = f"{count} · {numbers}" if numbers else count
        return {
            "text/plain": f"{self.label}: {text}",
            "text/html": f'<div style="{row}"><span>{label}</span>{bar}<span>{text}</span></div>',
        }


def duration(seconds: float) -> str:
    """A duration to be read at a glance: "8 s", "2 min 05 s", "1 h 20 min"."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds // 60 % 60:02d} min"
