"""Parallel text: what is in the files is what is read, and a bad line is named by file and number."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.parallel_text import ParallelTextError, read_aligned, read_tab_separated

SETTINGS = settings(deadline=None, derandomize=True)
# Anything but what separates texts; U+2028 and the like may stand inside of one.
TEXT = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"])).map(str.strip).filter(bool)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=8)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


def write(path, text, encoding="utf-8"):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


@SETTINGS
@given(pairs=PAIRS, end=ENDS, bom=st.booleans(), last=st.booleans())
def test_two_files_give_their_lines(folder, pairs, end, bom, last):
    encoding = "utf-8-sig" if bom else "utf-8"
    texts = [end.join(side) + end * last for side in zip(*pairs)]
    files = [write(folder / name, text, encoding) for name, text in zip(("a.txt", "b.txt"), texts)]
    if not bom and pairs[0][0][0] == "\ufeff" or pairs[0][1][0] == "\ufeff":
        return  # a text that begins like a byte order mark is read as one
    assert read_aligned(*files) == pairs
    assert read_aligned(*map(str, reversed(files))) == [(b, a) for a, b in pairs]


@SETTINGS
@given(pairs=PAIRS, end=ENDS, bom=st.booleans(), more=st.lists(TEXT, max_size=2))
def test_a_table_gives_its_first_two_columns(folder, pairs, end, bom, more):
    if pairs[0][0][0] == "\ufeff":
        return
    lines = ["\t".join([*pair, *more]) for pair in pairs]
    file = write(folder / "table.tsv", end.join(lines) + end, "utf-8-sig" if bom else "utf-8")
    assert read_tab_separated(file) == pairs
    assert read_tab_separated(str(file), reverse=True) == [(b, a) for a, b in pairs]


def test_a_dictionary_site_s_file(tmp_path):
    text = "Go.\tGeh.\tCC-BY 2.0 (France) #1\n\nStay!\t Bleib! \tCC-BY\r\n   \nÜber\tÀ côté\n"
    assert read_tab_separated(write(tmp_path / "deu.txt", text)) == [
        ("Go.", "Geh."),
        ("Stay!", "Bleib!"),
        ("Über", "À côté"),
    ]


def test_lines_empty_on_both_sides_are_skipped(tmp_path):
    a, b = write(tmp_path / "a", "one\n\ntwo\n"), write(tmp_path / "b", "eins\n  \nzwei")
    assert read_aligned(a, b) == [("one", "eins"), ("two", "zwei")]


BAD_TABLES = [
    ("a\tb\nno tab here\n", 2, "expected a tab between source and target, got 'no tab here'"),
    ("a\tb\n\n\tb\n", 3, "expected a text before the first tab"),
    ("a\tb\r\na\t \tc\r\n", 2, "expected a text after the first tab"),
    (b"a\tb\nc\td\ncaf\xe9\tf\n", 3, "expected UTF-8, got the byte 0xe9"),
    (b"\xef\xbb\xbfa\tb\rc\t\xff", 2, "expected UTF-8, got the byte 0xff"),
    ("a\tb".encode("utf-16"), 1, "expected UTF-8, got the byte 0xff"),
    ("", None, "expected at least one pair of texts, got none"),
    ("\n \n", None, "expected at least one pair of texts, got none"),
]


@pytest.mark.parametrize(("text", "line", "problem"), BAD_TABLES)
def test_a_bad_line_of_a_table_is_named(tmp_path, text, line, problem):
    file = write(tmp_path / "table.tsv", text)
    place = f"{file}, line {line}: " if line else f"{file}: "
    with pytest.raises(ParallelTextError, match="^" + re.escape(place + problem)) as caught:
        read_tab_separated(file)
    assert (caught.value.path, caught.value.line) == (file, line)


BAD_FILES = [
    ("a\nb\nc\n", "a\nb\n", "source", 3, "expected as many lines as in {target}, 2, got 3"),
    ("a\n", "a\nb", "target", 2, "expected as many lines as in {source}, 1, got 2"),
    ("a\n\nc", "a\nb\nc", "source", 2, "expected a text, as in {target}, got an empty line"),
    ("a\nb\nc", "a\nb\n \n", "target", 3, "expected a text, as in {source}, got an empty line"),
    ("a\nb", b"a\n\xfc", "target", 2, "expected UTF-8, got the byte 0xfc"),
    ("", "", "source", None, "expected at least one pair of texts, got none"),
]


@pytest.mark.parametrize(("source", "target", "blamed", "line", "problem"), BAD_FILES)
def test_a_bad_line_of_two_files_is_named(tmp_path, source, target, blamed, line, problem):
    files = {"source": write(tmp_path / "en", source), "target": write(tmp_path / "de", target)}
    place = f"{files[blamed]}, line {line}: " if line else f"{files[blamed]}: "
    with pytest.raises(ParallelTextError, match="^" + re.escape(place + problem.format(**files))) as caught:
        read_aligned(**files)
    assert (caught.value.path, caught.value.line) == (files[blamed], line)


def test_a_missing_file_is_named(tmp_path):
    there, missing = write(tmp_path / "en", "a\n"), tmp_path / "de"
    for call in (lambda: read_aligned(there, missing), lambda: read_tab_separated(missing)):
        with pytest.raises(ParallelTextError, match=re.escape(f"{missing}: the file can't be read")):
            call()
    with pytest.raises(ParallelTextError, match="can't be read"):
        read_tab_separated(tmp_path)


@pytest.mark.parametrize("bad", [None, 3, ["a"], b"a"])
def test_what_is_no_path_is_refused(bad):
    with pytest.raises(ValueError, match="^path: expected the path"):
        read_tab_separated(bad)
    with pytest.raises(ValueError, match="^source: expected the path"):
        read_aligned(bad, "b")
    with pytest.raises(ValueError, match="^target: expected the path"):
        read_aligned("a", bad)


def test_long_lines_are_cut_in_messages(tmp_path):
    with pytest.raises(ParallelTextError) as caught:
        read_tab_separated(write(tmp_path / "t", "x" * 1000))
    assert len(str(caught.value)) < 300
