"""The scripts, styles and fonts that a deck carries inside: npm packages, installed once beside this file."""

import base64
import hashlib
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
LOCK = HERE / "package-lock.json"
STAMP = MODULES / ".installed"

INSTALL = (
    "Install Node.js 18 or newer (Debian, Ubuntu: sudo apt-get install npm; conda: conda install nodejs; "
    "macOS: brew install node)."
)

# The licenses of what is inside stand at the top of each deck.
NOTICE = (
    "This file contains reveal.js (MIT), MathJax (Apache-2.0), RequireJS (MIT), Jupyter Widgets (BSD-3-Clause), "
    "anywidget (MIT), and the fonts Source Sans 3 and Source Code Pro (SIL OFL 1.1)."
)
SCRIPTS = {
    "reveal": MODULES / "reveal.js/dist/reveal.js",
    "notes": MODULES / "reveal.js/plugin/notes/notes.js",
    "mathjax": MODULES / "mathjax/es5/tex-svg-full.js",
    "require": MODULES / "requirejs/require.js",
    "widgets": MODULES / "@jupyter-widgets/html-manager/dist/embed-amd.js",
    "anywidget": Path(sys.prefix) / "share/jupyter/nbextensions/anywidget/index.js",
}
REVEAL_CSS = MODULES / "reveal.js/dist/reveal.css"
FONTS = {
    "Source Sans 3": ("source-sans-3", ("400-normal", "400-italic", "600-normal", "700-normal")),
    "Source Code Pro": ("source-code-pro", ("400-normal", "600-normal")),
}
FONT_RANGES = {"latin": "U+0000-00FF,U+0131,U+0152-0153,U+2000-206F,U+2191,U+2193,U+2212", "greek": "U+0370-03FF"}


class PackagesMissing(RuntimeError):
    """The npm packages are not there and cannot be installed; the message says what to do."""


def installed() -> bool:
    """Whether the packages of package-lock.json are there."""
    return STAMP.exists() and STAMP.read_text() == _wanted()


def npm() -> str | None:
    """The path of npm, or None."""
    return shutil.which("npm")


def install() -> None:
    """Install the npm packages unless they are there already.

    Raises PackagesMissing when npm is missing or fails.
    """
    if installed():
        return
    program = npm()
    if program is None:
        raise PackagesMissing(f"Slides need npm once, to fetch reveal.js and MathJax. {INSTALL}")
    print(f"Installing the slide packages into {MODULES.relative_to(HERE.parent.parent)} (once) …", file=sys.stderr)
    command = [program, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PackagesMissing(f"npm ci failed in {HERE} (is the network there?):\n{done.stderr.strip()[-1500:]}")
    STAMP.write_text(_wanted())


def _wanted() -> str:
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


@cache
def script(name: str) -> str:
    """The text of a script, safe inside a <script> element."""
    text = SCRIPTS[name].read_text(encoding="utf-8")
    if name == "anywidget":
        text = _named(text)
    text = re.sub(r"//# sourceMappingURL=\S*", "", text)
    return text.replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _named(text: str) -> str:
    """The anonymous AMD module of anywidget under its name, and with more patience.

    Without the name, the widget manager asks a CDN. And anywidget gives an explorer up that isn't there after two
    seconds, which a slow machine needs for a deck, all the more for the three that the speaker view opens.
    """
    changes = {
        'define(["@jupyter-widgets/base"]': 'define("anywidget", ["@jupyter-widgets/base"]',
        "AbortSignal.timeout(2e3)": "AbortSignal.timeout(6e4)",
    }
    for old, new in changes.items():
        if text.count(old) != 1:
            raise RuntimeError(f"{SCRIPTS['anywidget']}: expected {old} once")
        text = text.replace(old, new)
    return f"(function () {{ {text} }})();"


@cache
def styles() -> str:
    """The style sheets of a deck: reveal's, the fonts, and the course's own last."""
    reveal = REVEAL_CSS.read_text(encoding="utf-8")
    # Only reveal's own controls and progress bar, not what an explorer or an output calls by the same names.
    reveal = re.sub(r" \.(controls|progress)(?![\w-])", r">.\1", reveal)
    return "\n".join([reveal, font_faces(), (HERE / "slides.css").read_text(encoding="utf-8")])


def font_faces() -> str:
    """@font-face rules with the fonts inside, so that a slide breaks its lines alike on every machine."""
    rules = []
    for family, (package, faces) in FONTS.items():
        for face in faces:
            weight, style = face.split("-")
            for subset, characters in FONT_RANGES.items():
                path = MODULES / f"@fontsource/{package}/files/{package}-{subset}-{face}.woff2"
                data = base64.b64encode(path.read_bytes()).decode("ascii")
                rules.append(
                    f"@font-face {{ font-family: '{family}'; font-weight: {weight}; font-style: {style}; "
                    f"unicode-range: {characters}; src: url(data:font/woff2;base64,{data}) format('woff2'); }}"
                )
    return "\n".join(rules)
