"""The base of every explorer: a view that computes and draws in the browser, with a picture for where it cannot run.

The script of a view is draw.js, algebra.js and the view's own file, one after the other, so that none imports anything
and nothing is fetched.
"""

import io
from importlib.resources import files
from typing import Any, ClassVar

import anywidget
import traitlets
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DPI = 120


class Explorer(anywidget.AnyWidget):
    """An interactive view on plain JavaScript, alive without a kernel in exported pages and slide decks.

    A subclass names its script (`script`, a file beside this one), declares its settings as synced traits and lists
    them in `settings`, and defines `figure()` and `alt`. Shown in a notebook it gives three things: the live view, a
    PNG of the same numbers with alt text (for GitHub and for notebooks that are not trusted), and a text that depends
    on the settings alone.
    """

    script: ClassVar[str]
    settings: ClassVar[tuple[str, ...]]

    _esm = traitlets.Unicode().tag(sync=True)
    _css = traitlets.Unicode().tag(sync=True)

    @traitlets.default("_esm")
    def _load_script(self) -> str:
        return "\n".join(map(_read, ("draw.js", "algebra.js", self.script)))

    @traitlets.default("_css")
    def _load_style(self) -> str:
        return _read("explorer.css")

    @property
    def alt(self) -> str:
        """What the picture shows now, in words."""
        raise NotImplementedError(f"{type(self).__name__} needs an alt text")

    def figure(self) -> Figure:
        """The picture of the current settings, drawn from what Python computes."""
        raise NotImplementedError(f"{type(self).__name__} needs a figure")

    def png(self) -> bytes:
        """The figure as PNG: the same bytes for the same settings."""
        file = io.BytesIO()
        figure = self.figure()
        FigureCanvasAgg(figure)
        figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
        return file.getvalue()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)
        return f"{type(self).__name__}({values})"

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        data = {**data, "image/png": self.png(), "text/plain": repr(self)}
        return data, {**metadata, "image/png": {"alt": self.alt}}


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
