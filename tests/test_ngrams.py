"""Count baselines: probabilities, equal to a direct reading of the formulas, and as good as such models get."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.corpora import BOS, EOS, PAD, UNK, Vocabulary, load_pronunciations, split
from course_utils.ngrams import NGram, _discounts

SETTINGS = settings(deadline=None, derandomize=True)
V = 7  # four special ids and three letters
PREDICTABLE = [i for i in range(V) if i not in (PAD, BOS)]
WORDS = st.lists(st.lists(st.integers(UNK, V - 1), max_size=6), min_size=1, max_size=20)


def enclose(words):
    return [[BOS, *word, EOS] for word in words]


@pytest.fixture(scope="module")
def letters():
    """Encoded training and validation words (every fifth of them), and the size of the vocabulary."""
    sides = split(load_pronunciations())
    vocabulary = Vocabulary.from_sequences(sides.train)
    encoded = [[vocabulary.encode(word, bos=True, eos=True) for word in words[::5]] for words in sides[:2]]
    return *encoded, len(vocabulary)


def perplexity(model, sequences):
    return float(np.exp(-np.concatenate([model.log_prob(ids) for ids in sequences]).mean()))


@SETTINGS
@given(words=WORDS, history=st.lists(st.integers(UNK, V - 1), max_size=4), order=st.integers(0, 4))
def test_probabilities_sum_to_one_after_any_history(words, history, order):
    model = NGram(order, V).fit(enclose(words))
    last = np.exp([model.log_prob([BOS, *history, token])[-1] for token in PREDICTABLE])
    assert (last > 0).all()
    assert last.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_probabilities_sum_to_one_with_the_discounts_of_real_words(letters, order):
    train, validation, size = letters
    model = NGram(order, size).fit(train)
    tokens = [i for i in range(size) if i not in (PAD, BOS)]
    for ids in validation[:20]:
        for end in range(1, len(ids)):
            total = sum(np.exp(model.log_prob([*ids[:end], token])[-1]) for token in tokens)
            assert total == pytest.approx(1, abs=1e-12)


def direct(counts_of, n, history, token):
    """Interpolated modified Kneser–Ney by its definition, with dictionaries: slow, and written independently."""
    if n == 0:
        return 1 / (V - 2)
    counts = counts_of(n)
    history = tuple(history[len(history) - (n - 1) :])
    lower = direct(counts_of, n - 1, history[1:], token)
    followers = {gram: count for gram, count in counts.items() if gram[:-1] == history}
    if not followers:
        return lower
    discounts = _discounts(np.array(list(counts.values())))
    freed = sum(discounts[min(count, 3)] for count in followers.values())
    count = counts[(*history, token)]
    return (count - discounts[min(count, 3)] + freed * lower) / sum(followers.values())


def occurrences(sequences, n):
    """How often each n-gram occurs; its last token is one that is predicted, hence not the first of a sequence."""
    ends = [(ids, end) for ids in sequences for end in range(max(n, 2), len(ids) + 1)]
    return Counter(tuple(ids[end - n : end]) for ids, end in ends)


def contexts(sequences, n):
    """In how many contexts each n-gram occurs; at the start of a sequence each occurrence is one."""
    found = set()
    for i, ids in enumerate(sequences):
        for start in range(0 if n > 1 else 1, len(ids) - n + 1):
            before = ids[start - 1] if start > 0 else f"start of {i}"
            found.add((before, tuple(ids[start : start + n])))
    return Counter(gram for _, gram in found)


@settings(SETTINGS, max_examples=40)
@given(words=WORDS, order=st.integers(0, 4), word=st.lists(st.integers(UNK, V - 1), max_size=5))
def test_probabilities_are_those_of_the_definition(words, order, word):
    sequences, ids = enclose(words), [BOS, *word, EOS]

    def counts_of(n):
        return occurrences(sequences, n) if n == order else contexts(sequences, n)

    got = np.exp(NGram(order, V).fit(sequences).log_prob(ids))
    for end in range(1, len(ids)):
        n = min(order, end + 1)  # near the start there are fewer tokens to look at
        assert got[end - 1] == pytest.approx(direct(counts_of, n, ids[:end], ids[end]), rel=1e-12)


def test_discounts_are_those_of_the_paper():
    # 4 n-grams once, 3 twice, 2 three times, 1 four times: Y = 4 / (4 + 6)
    discounts = _discounts(np.array([1] * 4 + [2] * 3 + [3] * 2 + [4]))
    assert discounts == pytest.approx([0, 1 - 2 * 0.4 * 3 / 4, 2 - 3 * 0.4 * 2 / 3, 3 - 4 * 0.4 * 1 / 2])


def test_order_0_is_uniform_and_needs_no_data():
    model = NGram(0, V)
    assert np.exp(model.log_prob([BOS, 4, UNK, EOS])) == pytest.approx([1 / 5] * 3)


def test_a_unigram_model_ignores_what_came_before():
    model = NGram(1, V).fit(enclose([[4, 4, 5], [4, 6]]))
    a, b = model.log_prob([BOS, 4, 5, EOS]), model.log_prob([6, 5, 4, EOS])
    assert a[[0, 1, 2]] == pytest.approx(b[[1, 0, 2]])
    assert a[0] > a[1]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_a_model_of_order_n_looks_at_n_minus_1_tokens(order):
    generator = np.random.default_rng(0)
    model = NGram(order, V).fit(enclose(generator.integers(UNK, V, size=(200, 6)).tolist()))
    ends = {}
    for history in product(range(UNK, V), repeat=4):
        last = model.log_prob([BOS, *history, 4])[-1]
        ends.setdefault(history[4 - (order - 1) :], set()).add(round(float(last), 12))
    assert all(len(values) == 1 for values in ends.values())
    assert len(set.union(*ends.values())) > len(ends) / 2 or order == 1


def test_sequences_shorter_than_the_order_are_no_trouble():
    model = NGram(5, V).fit([[BOS, EOS], [BOS, 4, EOS]])
    assert model.log_prob([BOS, EOS]).shape == (1,)
    assert np.isfinite(model.log_prob([BOS, 4, 4, 4, 4, 4, 4, EOS])).all()


def test_every_order_predicts_real_words_better_than_the_one_below(letters):
    train, validation, size = letters
    measured = [perplexity(NGram(order, size).fit(train), validation) for order in range(6)]
    assert measured[0] == pytest.approx(size - 2)
    assert all(better < 0.97 * worse for worse, better in zip(measured, measured[1:], strict=False))


def test_smoothing_is_better_than_interpolation_with_fixed_weights(letters):
    """A trigram whose weights are the best of a grid, chosen on the validation words themselves, is not better."""
    train, validation, size = letters
    tables = [np.zeros((size,) * n) for n in (1, 2, 3)]
    for ids in train:
        for t in range(1, len(ids)):
            for n, table in enumerate(tables[: t + 1], start=1):
                table[tuple(ids[t - n + 1 : t + 1])] += 1
    tables = [table / np.maximum(table.sum(-1, keepdims=True), 1) for table in tables]
    columns = []
    for ids in validation:
        for t in range(1, len(ids)):
            row = [1 / (size - 2)] + [table[tuple(ids[t - n : t + 1])] for n, table in enumerate(tables[: t + 1])]
            columns.append(row + [row[-1]] * (4 - len(row)))
    probs = np.array(columns)
    grid = [w for w in product(np.linspace(0, 1, 21), repeat=3) if sum(w) <= 0.999]
    best = min(float(np.exp(-np.log(probs @ [1 - sum(w), *w]).mean())) for w in grid)
    assert perplexity(NGram(3, size).fit(train), validation) < best


def test_a_second_fit_forgets_the_first():
    once, again = enclose([[4, 5]]), enclose([[6, 6, 6]])
    model = NGram(2, V).fit(once).fit(again)
    assert np.array_equal(model.log_prob(again[0]), NGram(2, V).fit(again).log_prob(again[0]))


def test_lists_arrays_and_tensors_give_the_same():
    words = enclose([[4, 5, 4], [6]])
    model = NGram(3, V).fit(words)
    for kind in (np.array, torch.tensor, tuple):
        other = NGram(3, V).fit([kind(ids) for ids in words])
        assert np.array_equal(other.log_prob(kind(words[0])), model.log_prob(words[0]))


BAD_SEQUENCES = [[], [BOS], [BOS, V], [BOS, -1], [BOS, 4.5], [BOS, float("nan")], [[BOS, 4]], "ab", None, True]
BAD_SEQUENCES += [[V, 4], [BOS, PAD, EOS], [BOS, 4, BOS, EOS], np.zeros((2, 2), dtype=int), torch.ones(3)]


@pytest.mark.parametrize("ids", BAD_SEQUENCES)
def test_bad_sequences_are_refused_and_change_nothing(ids):
    good = enclose([[4, 5], [5]])
    model = NGram(2, V).fit(good)
    before = model.log_prob(good[0])
    with pytest.raises(ValueError, match="^sequence: expected"):
        model.log_prob(ids)
    with pytest.raises(ValueError, match=r"^sequences\[1\]: expected"):
        model.fit([good[0], ids])
    assert np.array_equal(model.log_prob(good[0]), before)


@pytest.mark.parametrize("sequences", [[], None, 3, "ab"])
def test_no_sequences_are_refused(sequences):
    with pytest.raises(ValueError, match="^sequences: expected"):
        NGram(2, V).fit(sequences)


@pytest.mark.parametrize(
    ("order", "size", "name"),
    [
        (-1, V, "order"),
        (1.0, V, "order"),
        (True, V, "order"),
        (None, V, "order"),
        (30, V, "order"),
        (2, 3, "vocab_size"),
        (2, float("nan"), "vocab_size"),
        (2, "7", "vocab_size"),
    ],
)
def test_bad_sizes_are_refused(order, size, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        NGram(order, size)


def test_a_model_that_has_counted_nothing_says_so():
    with pytest.raises(RuntimeError, match="fit"):
        NGram(2, V).log_prob([BOS, EOS])
