"""What a student sees: results, hints and solutions, as HTML in a notebook and as plain text elsewhere.

Colors come from JupyterLab's own variables, so that everything is readable in the light and in the dark theme.
"""

import ast
import html
import io
import itertools
import keyword
import re
import tokenize
from dataclasses import dataclass

_BOX = ("border-left:4px solid {color};padding:6px 12px;margin:4px 0;"
        "font-size:var(--exercise-size,15px);line-height:1.5;"  # slides set larger sizes
        "color:var(--jp-content-font-color1,inherit)")
_CODE = "font-family:var(--jp-code-font-family,monospace);font-size:var(--exercise-code-size,14px)"
_PRE = f"{_CODE};margin:6px 0;padding:0;background:none;color:inherit;white-space:pre-wrap;overflow-x:auto"
_STATUS = {"passed": ("✓", "#009E73"), "failed": ("✗", "#C8102E"), "not attempted": ("○", "#808080")}
_TOKEN_COLOR = {
    "keyword": "var(--jp-mirror-editor-keyword-color,inherit)",
    "comment": "var(--jp-mirror-editor-comment-color,inherit)",
    "string": "var(--jp-mirror-editor-string-color,inherit)",
    "number": "var(--jp-mirror-editor-number-color,inherit)",
}


def as_html(text: str) -> str:
    """Escaped text in which `code` is set as code and an empty line starts a paragraph."""
    escaped = re.sub(r"`([^`\n]+)`", rf'<code style="{_CODE}">\1</code>', html.escape(text))
    paragraphs = [p.replace("\n", "<br>") for p in escaped.split("\n\n")]
    return "".join(f'<p style="margin:4px 0">{p}</p>' for p in paragraphs)


@dataclass(frozen=True)
class Result:
    """The outcome of a check: `status` is "not attempted", "passed" or "failed", `message` says why.

    `printed` holds what the answer printed while it was checked.
    """

    exercise: str
    status: str
    message: str
    printed: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer is right."""
        return self.status == "passed"

    def __repr__(self) -> str:
        lines = [f"{_STATUS[self.status][0]} {self.exercise}: {self.status}", self.message]
        return "\n".join(lines + (["Printed by your function:", self.printed.rstrip()] if self.printed else []))

    def _repr_html_(self) -> str:
        symbol, color = _STATUS[self.status]
        head = f'<span style="color:{color}">{symbol}</span> {html.escape(self.exercise)}: {self.status}'
        printed = (f'<details><summary>Printed by your function</summary><pre style="{_PRE}">'
                   f"{html.escape(self.printed)}</pre></details>") if self.printed else ""
        return f'<div style="{_BOX.format(color=color)}"><strong>{head}</strong>{as_html(self.message)}{printed}</div>'


@dataclass(frozen=True)
class Hint:
    """One hint of an exercise, and how to get the next."""

    heading: str
    text: str
    next: str

    def __repr__(self) -> str:
        return f"{self.heading}: {self.text}\n({self.next})"

    def _repr_html_(self) -> str:
        return (f'<div style="{_BOX.format(color="#0072B2")}"><strong>{html.escape(self.heading)}</strong>'
                f"{as_html(self.text)}<div style=\"opacity:0.8\">{as_html(self.next)}</div></div>")


@dataclass(frozen=True)
class Solution:
    """The source code of an exercise's solution."""

    heading: str
    code: str

    def __repr__(self) -> str:
        return f"{self.heading}\n\n{self.code}"

    def _repr_html_(self) -> str:
        return (f'<div style="{_BOX.format(color="#808080")}"><strong>{html.escape(self.heading)}</strong>'
                f'<pre style="{_PRE}">{highlighted(self.code)}</pre></div>')


def without_checks(source: str) -> str:
    """The source of a function without the calls of `_expect…` and `_check…` at its top, which check the arguments.

    They are helpers of the package: with them, a solution could not be copied into a notebook.
    """
    function = ast.parse(source).body[0]
    body = function.body[1:] if ast.get_docstring(function) else function.body
    checks = list(itertools.takewhile(_is_check, body))
    if not checks:
        return source
    lines = source.splitlines(keepends=True)
    note = " " * checks[0].col_offset + "# The package's checks of the arguments are left out here.\n"
    return "".join([*lines[:checks[0].lineno - 1], note, *lines[checks[-1].end_lineno:]])


def _is_check(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.startswith(
        ("_expect", "_check"))


def highlighted(code: str) -> str:
    """Python source as HTML, with the colors of JupyterLab's editor."""
    lines = code.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parts, done = [], 0
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        kind = _kind(token)
        if kind is None:
            continue
        begin = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        parts += [html.escape(code[done:begin]),
                  f'<span style="color:{_TOKEN_COLOR[kind]}">{html.escape(code[begin:end])}</span>']
        done = end
    return "".join(parts) + html.escape(code[done:])


def _kind(token: tokenize.TokenInfo) -> str | None:
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "keyword"
    return {tokenize.COMMENT: "comment", tokenize.STRING: "string", tokenize.NUMBER: "number"}.get(token.type)
