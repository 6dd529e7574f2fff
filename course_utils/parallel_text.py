"""Parallel text of the reader's own: two aligned files, or one tab-separated file as dictionary sites give them."""

from pathlib import Path

ENCODING = "utf-8"
_BOM = b"\xef\xbb\xbf"


class ParallelTextError(ValueError):
    """A file that can't be read as parallel text; the message names the file, the line and what is wrong.

    path: the file; line: the number of the line, counted from 1, or None if the whole file is meant.
    """

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}" if line else f"{path}: {problem}")
        self.path, self.line = path, line


def read_aligned(source: str | Path, target: str | Path) -> list[tuple[str, str]]:
    """Return pairs of texts from two UTF-8 files: line i of `source` is translated by line i of `target`.

    White space around a text is dropped. Empty lines are allowed where both files have them, and skipped.
    Raises ParallelTextError for files that can't be read or hold no pair, bytes that aren't UTF-8, different numbers of
    lines, and a line that is empty in one file only.
    """
    source, target = _path(source, "source"), _path(target, "target")
    lines, translations = _lines(source), _lines(target)
    if len(lines) != len(translations):
        shorter, longer = (source, target) if len(lines) < len(translations) else (target, source)
        n, more = sorted((len(lines), len(translations)))
        raise ParallelTextError(longer, n + 1, f"expected as many lines as in {shorter}, {n}, got {more}")
    pairs = []
    for number, pair in enumerate(zip(lines, translations), start=1):
        if any(pair):
            for path, text, other in ((source, pair[0], target), (target, pair[1], source)):
                if not text:
                    raise ParallelTextError(path, number, f"expected a text, as in {other}, got an empty line")
            pairs.append(pair)
    return _some(pairs, source)


def read_tab_separated(path: str | Path, *, reverse: bool = False) -> list[tuple[str, str]]:
    """Return pairs of texts from a UTF-8 file with a source, a tab and its target on each line.

    Further columns, such as a license, are ignored; so are white space around a text and empty lines. `reverse` makes
    the second column the source.
    Raises ParallelTextError for a file that can't be read or holds no pair, bytes that aren't UTF-8, and a line without
    a tab or with nothing on one side of it.
    """
    path = _path(path, "path")
    pairs = []
    for number, line in enumerate(_lines(path, strip=False), start=1):
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) < 2:
            raise ParallelTextError(path, number, f"expected a tab between source and target, got {_short(line)}")
        for side, text in zip(("source", "target"), columns):
            if not text:
                place = "before" if side == "source" else "after"
                raise ParallelTextError(path, number, f"expected a text {place} the first tab, got {_short(line)}")
        pairs.append((columns[1], columns[0]) if reverse else (columns[0], columns[1]))
    return _some(pairs, path)


def _path(path: str | Path, name: str) -> Path:
    if not isinstance(path, str | Path):
        raise ValueError(f"{name}: expected the path of a file, got {type(path).__name__}")
    return Path(path)


def _lines(path: Path, strip: bool = True) -> list[str]:
    """Return the lines of a UTF-8 file, with or without its byte order mark; lines end with LF, CR LF or CR."""
    try:
        content = path.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise ParallelTextError(path, None, f"the file can't be read ({error.strerror})") from None
    try:
        text = content.decode(ENCODING)
    except UnicodeDecodeError as error:
        line = len(_split(content[: error.start].decode(ENCODING) + "?"))
        problem = f"expected UTF-8, got the byte 0x{content[error.start]:02x}; save the file as UTF-8"
        raise ParallelTextError(path, line, problem) from None
    return [line.strip() if strip else line for line in _split(text)]


def _split(text: str) -> list[str]:
    # str.splitlines would also break at characters that occur inside of texts, such as U+2028
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _some(pairs: list[tuple[str, str]], path: Path) -> list[tuple[str, str]]:
    if not pairs:
        raise ParallelTextError(path, None, "expected at least one pair of texts, got none")
    return pairs


def _short(line: str) -> str:
    return repr(line if len(line) <= 60 else line[:57] + "…")
