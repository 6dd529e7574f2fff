"""Corpora: the data file is guarded, splits and batches lose nothing, and bad arguments are refused first of all."""

import gc
import gzip
import hashlib
import os
import shutil
import string
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils import corpora
from course_utils.corpora import (
    BOS,
    BRACKETS,
    DATA,
    EOS,
    PAD,
    SPECIALS,
    UNK,
    DataFileError,
    Vocabulary,
    as_id_sequences,
    as_ids,
    bracket_task,
    bucket_indices,
    length_batches,
    load_pronunciations,
    pad,
    recall_task,
    split,
)

SETTINGS = settings(deadline=None, derandomize=True)
SEQUENCES = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12), min_size=1, max_size=40)


@pytest.fixture(scope="module")
def pronunciations():
    return load_pronunciations()


@pytest.fixture
def table(tmp_path):
    """A copy of the data file, to be damaged."""
    return shutil.copy(DATA / "pronunciations.tsv.gz", tmp_path / "pronunciations.tsv.gz")


# The data file


def test_pronunciations_are_facts_one_can_check(pronunciations):
    assert pronunciations["cat"] == [("K", "AE", "T")]
    assert pronunciations["read"] == [("R", "EH", "D"), ("R", "IY", "D")]
    assert pronunciations["tomato"] == [("T", "AH", "M", "EY", "T", "OW"), ("T", "AH", "M", "AA", "T", "OW")]


def test_pronunciations_are_complete_and_clean(pronunciations):
    words = list(pronunciations)
    assert words == sorted(words)
    assert len(words) > 115_000
    assert set("".join(words)) == set(string.ascii_lowercase)
    phonemes = {phoneme for variants in pronunciations.values() for variant in variants for phoneme in variant}
    assert len(phonemes) == 39
    assert all(phoneme.isalpha() and phoneme.isupper() for phoneme in phonemes)
    assert all(len(set(variants)) == len(variants) and all(variants) for variants in pronunciations.values())


@pytest.mark.parametrize("enabled", [True, False])
def test_loading_leaves_the_garbage_collector_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        load_pronunciations()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def assert_reported(path, problem):
    with pytest.raises(DataFileError) as caught:
        load_pronunciations(path)
    message = str(caught.value)
    expected = hashlib.sha256(gzip.decompress((DATA / "pronunciations.tsv.gz").read_bytes())).hexdigest()
    assert str(path) in message
    assert problem in message
    assert f"expected {expected}" in message
    assert "git checkout -- data/pronunciations.tsv.gz" in message
    assert "python tools/data" in message
    return message


def test_a_good_copy_loads(table, pronunciations):
    assert load_pronunciations(str(table)) == pronunciations


def test_a_missing_file_is_reported(tmp_path):
    assert_reported(tmp_path / "pronunciations.tsv.gz", "missing")


def test_a_folder_in_place_of_the_file_is_reported(tmp_path):
    assert_reported(tmp_path, "can't be read")


@pytest.mark.parametrize("keep", [0.999, 0.5, 0.00002, 0])
def test_a_truncated_file_is_reported(table, keep):
    os.truncate(table, int(table.stat().st_size * keep))
    # Of an empty file, gzip says that it holds nothing: the checksum finds it.
    assert_reported(table, "truncated" if keep else "altered")


@settings(SETTINGS, max_examples=30)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_flipped_bit_is_reported(tmp_path_factory, place, bit):
    content = bytearray((DATA / "pronunciations.tsv.gz").read_bytes())
    # The gzip header (10 bytes) holds a time stamp and the like, which nobody reads; the text begins behind it.
    content[10 + int(place * (len(content) - 10))] ^= 1 << bit
    path = tmp_path_factory.mktemp("flipped") / "pronunciations.tsv.gz"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match="altered|truncated"):
        load_pronunciations(path)


def test_another_text_is_reported_with_its_checksum(table):
    other = gzip.decompress(table.read_bytes()).replace(b"K AE T\n", b"D AO G\n")
    table.write_bytes(gzip.compress(other))
    assert f"got {hashlib.sha256(other).hexdigest()}" in assert_reported(table, "altered")


def test_a_file_that_is_no_gzip_is_reported(table):
    table.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert_reported(table, "altered")


@pytest.mark.parametrize("content", [None, "", "no checksum here\n", "\N{SNOWMAN}"])
def test_a_missing_or_altered_list_of_checksums_is_reported(tmp_path, table, content):
    checksums = tmp_path / "checksums.sha256"
    if content is not None:
        checksums.write_text(content, encoding="utf-8")
    with pytest.raises(DataFileError, match="list of checksums") as caught:
        corpora.read_data_file(table, "pronunciations.tsv", checksums)
    assert str(checksums) in str(caught.value)
    assert "git checkout -- data/checksums.sha256" in str(caught.value)


# Split


def test_every_word_is_on_one_side_in_the_order_given(pronunciations):
    words = list(pronunciations)[::-1]
    sides = split(words)
    assert Counter(sides.train + sides.validation + sides.test) == Counter(words)
    for side in sides:
        chosen = set(side)
        assert side == [word for word in words if word in chosen]


def test_the_split_is_about_90_5_5(pronunciations):
    sides = split(pronunciations)
    for side, share in zip(sides, (0.90, 0.05, 0.05), strict=True):
        assert len(side) / len(pronunciations) == pytest.approx(share, abs=0.003)


@SETTINGS
@given(words=st.sets(st.text(max_size=5), min_size=1), others=st.sets(st.text(max_size=5)), seed=st.integers(0, 99))
def test_a_word_stays_on_its_side_when_words_are_added(words, others, seed):
    small, large = split(words, seed), split([*others, *words], seed)
    for few, many in zip(small, large, strict=True):
        assert set(few) <= set(many)


def test_a_split_is_the_same_on_every_machine():
    # The sides follow from the first 16 digits of `printf 0:stone | sha256sum`, as a number modulo 100, and so on.
    sides = split(["the", "stone", "music", "table", "gate", "garden"], seed=0)
    assert sides == (["the", "music", "gate"], ["stone"], ["table", "garden"])


def test_seeds_give_different_splits(pronunciations):
    assert set(split(pronunciations, 0).test) != set(split(pronunciations, 1).test)


@pytest.mark.parametrize("words", [[], "word", None, 3, ["a", 1], [["a"]], [b"a"]])
def test_split_refuses_what_are_no_words(words):
    with pytest.raises(ValueError, match="^words: expected"):
        split(words)


@pytest.mark.parametrize("seed", [-1, 1.5, "0", None, True, float("nan"), 2**63])
def test_a_bad_seed_is_refused(seed):
    for call in (split, bucket_indices, length_batches):
        with pytest.raises(ValueError, match="^seed: expected an integer"):
            split(["a"], seed) if call is split else call([[1]] if call is length_batches else [1], 2, seed=seed)


# Vocabulary


def test_special_tokens_come_first_and_the_rest_is_sorted():
    vocabulary = Vocabulary.from_sequences(["cab", "abba"])
    assert vocabulary.tokens == ("<pad>", "<bos>", "<eos>", "<unk>", "a", "b", "c")
    assert len(vocabulary) == 7
    assert [vocabulary.tokens[i] for i in (PAD, BOS, EOS, UNK)] == list(SPECIALS)
    assert vocabulary.encode("cab", bos=True, eos=True) == [BOS, 6, 4, 5, EOS]
    assert vocabulary.encode("ax") == [4, UNK]


def test_rare_tokens_are_left_out():
    vocabulary = Vocabulary.from_sequences(["cab", "abba"], min_count=3)
    assert vocabulary.tokens[4:] == ("a", "b")


def test_special_tokens_in_a_text_are_the_special_tokens():
    vocabulary = Vocabulary.from_sequences([["<bos>", "a", "<eos>"]])
    assert vocabulary.tokens == (*SPECIALS, "a")
    assert vocabulary.encode(["a", "<eos>"]) == [4, EOS]


@SETTINGS
@given(words=st.lists(st.lists(st.text(min_size=1).filter(lambda t: t not in SPECIALS), min_size=1), min_size=1))
def test_what_is_encoded_is_decoded(words):
    vocabulary = Vocabulary.from_sequences(words)
    for word in words:
        assert vocabulary.decode(vocabulary.encode(word)) == word
        assert vocabulary.decode(torch.tensor(vocabulary.encode(word, bos=True, eos=True))) == word
    assert Vocabulary(vocabulary.tokens).tokens == vocabulary.tokens


def test_decoding_stops_at_eos_and_drops_padding():
    vocabulary = Vocabulary("ab")
    assert vocabulary.decode([BOS, 4, PAD, UNK, 5, EOS, 4, 4]) == ["a", "<unk>", "b"]
    assert vocabulary.decode([]) == []


@pytest.mark.parametrize("tokens", [[], SPECIALS, ["a", "a"], ["a", "<eos>"], ["a", 1], None, 7])
def test_a_vocabulary_refuses_bad_tokens(tokens):
    with pytest.raises(ValueError, match="^tokens: expected"):
        Vocabulary(tokens)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda v: v.encode([4, 5]), "tokens"),
        (lambda v: v.encode(None), "tokens"),
        (lambda v: v.decode([4, 99]), "ids"),
        (lambda v: v.decode([-1]), "ids"),
        (lambda v: v.decode([4.0]), "ids"),
        (lambda v: v.decode([[4]]), "ids"),
        (lambda v: v.decode("ab"), "ids"),
        (lambda v: v.from_sequences([]), "sequences"),
        (lambda v: v.from_sequences("ab"), "sequences"),
        (lambda v: v.from_sequences(["ab", [1]]), r"sequences\[1\]"),
        (lambda v: v.from_sequences(["ab"], min_count=2), "sequences"),
        (lambda v: v.from_sequences(["ab"], min_count=0), "min_count"),
    ],
)
def test_a_vocabulary_refuses_bad_arguments(call, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        call(Vocabulary("ab"))


# Ids


@SETTINGS
@given(ids=st.lists(st.integers(0, 2**63 - 1)))
def test_ids_may_be_a_list_an_array_or_a_tensor(ids):
    for kind in (list, tuple, lambda x: np.array(x, dtype=np.int64), lambda x: torch.tensor(x, dtype=torch.int64)):
        array = as_ids(kind(ids), min_length=0)
        assert array.dtype == np.int64
        assert array.tolist() == ids


BAD_IDS = [[], [-1], [1.0], [float("nan")], [True], ["a"], [[1]], [[1], [1, 2]], [2**63], None, 5, "ab", np.zeros(3)]


@pytest.mark.parametrize("ids", BAD_IDS)
def test_ids_that_are_none_are_refused(ids):
    with pytest.raises(ValueError, match="^ids: expected"):
        as_ids(ids)


@pytest.mark.parametrize("ids", BAD_IDS)
def test_a_bad_sequence_is_named_by_its_number(ids):
    for call in (as_id_sequences, pad, lambda s: length_batches(s, 2, seed=0)):
        with pytest.raises(ValueError, match=r"^sequences\[1\]: expected"):
            call([[1, 2], ids])


@pytest.mark.parametrize("sequences", [[], "ab", None, 5])
def test_sequences_that_are_none_are_refused(sequences):
    for call in (as_id_sequences, pad, lambda s: length_batches(s, 2, seed=0)):
        with pytest.raises(ValueError, match="^sequences: expected"):
            call(sequences)


@SETTINGS
@given(sequences=SEQUENCES)
def test_sequences_come_out_as_they_went_in_whatever_their_kind(sequences):
    for kind in (list, tuple, np.array, torch.tensor):
        ids, lengths = as_id_sequences(list(map(kind, sequences)))
        assert ids.tolist() == sum(sequences, [])
        assert lengths.tolist() == [len(s) for s in sequences]


# Batches


@SETTINGS
@given(sequences=SEQUENCES, value=st.integers(-100, 100))
def test_padding_fills_the_rest_and_nothing_else(sequences, value):
    padded = pad(sequences, value)
    assert padded.dtype == torch.int64
    assert padded.shape == (len(sequences), max(map(len, sequences)))
    for row, ids in zip(padded.tolist(), sequences, strict=True):
        assert row[: len(ids)] == ids
        assert set(row[len(ids) :]) <= {value}


@pytest.mark.parametrize("value", [1.5, "0", None, True, float("nan"), 2**63])
def test_a_bad_padding_value_is_refused(value):
    with pytest.raises(ValueError, match="^value: expected an integer"):
        pad([[1]], value)


@SETTINGS
@given(sequences=SEQUENCES, batch_size=st.integers(1, 50), seed=st.integers(0, 9), shuffle=st.booleans())
def test_batches_hold_every_sequence_once(sequences, batch_size, seed, shuffle):
    sequences = [[i + 1, *ids] for i, ids in enumerate(sequences)]  # no two are equal, and none begins with <pad>
    batches = length_batches(sequences, batch_size, seed=seed, shuffle=shuffle)
    indices = bucket_indices([len(ids) for ids in sequences], batch_size, seed=seed, shuffle=shuffle)
    assert sorted(sum(indices, [])) == list(range(len(sequences)))
    assert sorted(map(len, indices)) == sorted(map(len, batches))
    assert sum(len(batch) < batch_size for batch in batches) <= 1
    for batch, chosen in zip(batches, indices, strict=True):
        assert torch.equal(batch, pad([sequences[i] for i in chosen]))


@SETTINGS
@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=60), batch_size=st.integers(1, 9))
def test_no_two_batches_overlap_in_length(lengths, batch_size):
    ranges = [
        (min(lengths[i] for i in batch), max(lengths[i] for i in batch))
        for batch in bucket_indices(lengths, batch_size, seed=3)
    ]
    ranges.sort()
    assert all(high <= low for (_, high), (low, _) in zip(ranges, ranges[1:], strict=False))


def test_bucketed_batches_of_words_hold_less_padding_than_random_ones(pronunciations):
    words = split(pronunciations).validation
    vocabulary = Vocabulary.from_sequences(words)
    ids = [vocabulary.encode(word, bos=True, eos=True) for word in words]
    bucketed = length_batches(ids, 32, seed=0)
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(0)).tolist()
    random = [pad([ids[i] for i in order[k : k + 32]]) for k in range(0, len(order), 32)]

    def share(batches):
        return sum(int((batch == PAD).sum()) for batch in batches) / sum(batch.numel() for batch in batches)

    assert share(bucketed) < 0.02
    assert share(random) > 0.2


def test_the_seed_decides_the_order_and_nothing_else_does():
    lengths = torch.arange(200) % 7 + 1
    torch.manual_seed(0)
    first = bucket_indices(lengths, 8, seed=5)
    torch.manual_seed(1)
    assert bucket_indices(lengths.tolist(), 8, seed=5) == first
    other = bucket_indices(lengths, 8, seed=6)
    assert other != first
    # Both the order of the batches and the members of a batch change.
    assert {frozenset(batch) for batch in other} != {frozenset(batch) for batch in first}


def test_batches_come_in_mixed_order_of_length_unless_told_otherwise():
    lengths = np.arange(400) // 4 + 1
    longest = [max(lengths[i] for i in batch) for batch in bucket_indices(lengths, 4, seed=0)]
    assert longest != sorted(longest)
    straight = bucket_indices(lengths, 4, seed=0, shuffle=False)
    assert straight == [list(range(k, k + 4)) for k in range(0, 400, 4)]


def test_without_shuffling_equal_lengths_keep_their_order():
    lengths = [i * i % 7 + 1 for i in range(1000)]
    batches = bucket_indices(lengths, 16, seed=0, shuffle=False)
    assert sum(batches, []) == sorted(range(1000), key=lengths.__getitem__)


def test_draws_leave_the_global_generator_alone():
    state = torch.get_rng_state()
    bucket_indices([1, 2, 3], 2, seed=0)
    recall_task(3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("lengths", [[], [0], [3, -1], [1.5], [float("nan")], ["a"], [[1]], None, [True]])
def test_bad_lengths_are_refused(lengths):
    with pytest.raises(ValueError, match="^lengths: expected"):
        bucket_indices(lengths, 2, seed=0)


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, None, "8", True, float("nan")])
def test_a_bad_batch_size_is_refused(batch_size):
    for call, data in ((bucket_indices, [1]), (length_batches, [[1]])):
        with pytest.raises(ValueError, match="^batch_size: expected an integer"):
            call(data, batch_size, seed=0)


# The recall task


@SETTINGS
@given(lag=st.integers(0, 20), batch=st.integers(1, 20), n_symbols=st.integers(2, 9), seed=st.integers(0, 9))
def test_the_target_is_the_first_token(lag, batch, n_symbols, seed):
    tokens, target = recall_task(lag, batch, n_symbols=n_symbols, generator=torch.Generator().manual_seed(seed))
    assert tokens.shape == (batch, lag + 1)
    assert tokens.dtype == target.dtype == torch.int64
    assert torch.equal(target, tokens[:, 0])
    assert 0 <= tokens.min() <= tokens.max() < n_symbols
    tokens[:] = -1  # a change of the tokens doesn't reach the target
    assert (target >= 0).all()


def test_symbols_are_uniform_and_say_nothing_about_the_target():
    tokens, target = recall_task(3, 80_000, n_symbols=4, generator=torch.Generator().manual_seed(0))
    for distractor in tokens.T[1:]:
        joint = torch.bincount(target * 4 + distractor, minlength=16) / 80_000
        assert torch.allclose(joint, torch.tensor(1 / 16), atol=0.005)


def test_the_generator_decides_the_batch():
    def draw(seed):
        return recall_task(5, 16, generator=torch.Generator().manual_seed(seed))[0]

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


BAD_RECALL = [
    ("lag", {"lag": -1}),
    ("lag", {"lag": 2.0}),
    ("batch", {"batch": 0}),
    ("batch", {"batch": float("nan")}),
    ("n_symbols", {"n_symbols": 1}),
    ("n_symbols", {"n_symbols": True}),
    ("generator", {"generator": None}),
    ("generator", {"generator": 0}),
]


@pytest.mark.parametrize(("name", "bad"), BAD_RECALL)
def test_the_recall_task_refuses_bad_arguments_before_it_draws(name, bad):
    generator = torch.Generator().manual_seed(0)
    state = generator.get_state()
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        recall_task(**{"lag": 3, "batch": 2, "n_symbols": 8, "generator": generator, **bad})
    assert torch.equal(generator.get_state(), state)


# The bracket task


@SETTINGS
@given(batch=st.integers(1, 8), length=st.integers(1, 40), seed=st.integers(0, 99))
def test_the_depth_is_the_number_of_open_brackets(batch, length, seed):
    tokens, depth = bracket_task(batch, length, generator=torch.Generator().manual_seed(seed))
    assert tokens.shape == depth.shape == (batch, length)
    assert tokens.dtype == depth.dtype == torch.int64
    assert set(tokens.flatten().tolist()) <= set(range(len(BRACKETS)))
    for row, depths in zip(tokens.tolist(), depth.tolist()):
        text = "".join(BRACKETS[token] for token in row)
        assert depths == [text[:t].count("(") - text[:t].count(")") for t in range(1, length + 1)]
        assert min(depths) >= 0
    again, _ = bracket_task(batch, length, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(again, tokens)


def test_symbols_that_may_come_next_are_equally_likely():
    tokens, depth = bracket_task(4000, 40, generator=torch.Generator().manual_seed(0))
    outside = tokens[:, 1:][depth[:, :-1] == 0]
    inside = tokens[:, 1:][depth[:, :-1] > 0]
    assert torch.allclose(torch.bincount(outside, minlength=3) / len(outside), torch.tensor([0.5, 0, 0.5]), atol=0.01)
    assert torch.allclose(torch.bincount(inside, minlength=3) / len(inside), torch.tensor(1 / 3), atol=0.01)
    first = torch.bincount(tokens[:, 0], minlength=3) / 4000
    assert torch.allclose(first, torch.tensor([0.5, 0, 0.5]), atol=0.03)
    assert depth.max() >= 8


@pytest.mark.parametrize(
    ("name", "bad"),
    [("batch", {"batch": 0}), ("batch", {"batch": 1.0}), ("length", {"length": 0}), ("length", {"length": True}),
     ("generator", {"generator": 1})],
)  # fmt: skip
def test_the_bracket_task_refuses_bad_arguments_before_it_draws(name, bad):
    generator = torch.Generator().manual_seed(0)
    state = generator.get_state()
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        bracket_task(**{"batch": 2, "length": 5, "generator": generator, **bad})
    assert torch.equal(generator.get_state(), state)


def test_batches_are_refused_before_anything_is_computed(monkeypatch):
    def compute(*_args, **_kwargs):
        raise AssertionError("computed before all arguments were checked")

    for name in ("_permutation", "_pad", "_rows"):
        monkeypatch.setattr(corpora, name, compute)
    for call in (
        lambda: length_batches([[1]], 0, seed=0),
        lambda: length_batches([[1]], 1, seed=-1),
        lambda: length_batches([[1], [1.5]], 1, seed=0),
        lambda: bucket_indices([1, 0], 1, seed=0),
        lambda: pad([[1], []]),
    ):
        with pytest.raises(ValueError, match="expected"):
            call()
