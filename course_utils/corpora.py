"""Data: English words with their pronunciations, the recall task, vocabularies, and batches of sequences.

Random draws here are whole numbers only (`torch.randint`, `torch.randperm` on the CPU). They come straight from the
generator's bits, so that a seed gives the same batches on every machine; draws that pass through floating-point
functions (`randn`, softmax) may differ in the last digit between processors.
"""

import gc
import gzip
import hashlib
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from course_utils.shapes import expect, in_range

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
BRACKETS = ("(", ")", "a")

DATA = Path(__file__).resolve().parents[1] / "data"
CHECKSUMS = "checksums.sha256"
PRONUNCIATIONS = "pronunciations.tsv"

_MAX_SEED = 2**63 - 1


class DataFileError(OSError):
    """A data file is missing, truncated or altered; the message says which, and how to get it back."""

    def __init__(self, path: Path, problem: str, *, original: str, expected: str, actual: str) -> None:
        super().__init__(
            f"{path}: {problem}\n"
            f"  sha256 of the uncompressed text: expected {expected} (see data/{CHECKSUMS}), got {actual}\n"
            f"  to get it back, in the folder of the course: git checkout -- data/{original}\n"
            f"  or make it again: python tools/data"
        )
        self.path, self.expected, self.actual = path, expected, actual


class Split(NamedTuple):
    """Three lists that share no word."""

    train: list[str]
    validation: list[str]
    test: list[str]


class Vocabulary:
    """The tokens of a task and their ids; `<pad> <bos> <eos> <unk>` are always 0, 1, 2, 3.

    `tokens` are distinct strings; the special ones may lead them, and are put first otherwise.
    Raises ValueError for tokens that are not strings, occur twice, or are missing altogether.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        tokens = _strings(tokens, "tokens")
        if tuple(tokens[: len(SPECIALS)]) == SPECIALS:
            tokens = tokens[len(SPECIALS) :]
        if not tokens:
            raise ValueError("tokens: expected at least one token besides the special ones, got none")
        self.tokens = (*SPECIALS, *tokens)
        self._ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self._ids) < len(self.tokens):
            twice = next(token for token, n in Counter(self.tokens).items() if n > 1)
            raise ValueError(f"tokens: expected distinct tokens, got {twice!r} more than once")

    @classmethod
    def from_sequences(cls, sequences: Iterable[Iterable[str]], min_count: int = 1) -> "Vocabulary":
        """Return the vocabulary of all tokens that occur at least `min_count` times, in sorted order.

        A word is a sequence of letters, so a list of words gives the vocabulary of their letters.
        """
        in_range(min_count, "min_count", low=1, integer=True)
        counts = Counter()
        for i, sequence in enumerate(_items(sequences, "sequences")):
            counts.update(_strings(sequence, f"sequences[{i}]"))
        tokens = [token for token in sorted(counts) if counts[token] >= min_count and token not in SPECIALS]
        if not tokens:
            raise ValueError(f"sequences: expected a token that occurs {min_count} times or more, got none")
        return cls(tokens)

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, tokens: Iterable[str], bos: bool = False, eos: bool = False) -> list[int]:
        """Return the ids of `tokens`, with `<bos>` in front and `<eos>` behind if asked for; unknown ones give UNK."""
        ids = [self._ids.get(token, UNK) for token in _strings(tokens, "tokens")]
        return [BOS] * bool(bos) + ids + [EOS] * bool(eos)

    def decode(self, ids: Sequence[int] | np.ndarray | torch.Tensor) -> list[str]:
        """Return the tokens of `ids` (T,) up to the first `<eos>`, without `<pad>` and `<bos>`."""
        tokens = []
        values = as_ids(ids, "ids", min_length=0)
        if values.size and values.max() >= len(self):
            raise ValueError(f"ids: expected ids below {len(self)}, the size of the vocabulary, got {values.max()}")
        for i in values:
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tokens


def load_pronunciations(path: str | Path | None = None) -> dict[str, list[tuple[str, ...]]]:
    """Return the pronunciations of about 117,000 English words: word -> all those listed, each a tuple of phonemes.

    Words are in alphabetical order, spelled with the letters a to z. The 39 phonemes are written in ARPAbet without
    stress digits: `load_pronunciations()["cat"]` is `[("K", "AE", "T")]`. `path` is a copy of the file elsewhere.
    Raises DataFileError if the file is missing, truncated or altered (see data/README.md, also for the source).
    """
    text = read_data_file(DATA / f"{PRONUNCIATIONS}.gz" if path is None else Path(path), PRONUNCIATIONS).decode()
    # A table that only grows holds nothing to collect, and looking for it would take half of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _parse(text)
    finally:
        if collecting:
            gc.enable()


def read_data_file(path: Path, name: str, checksums: Path = DATA / CHECKSUMS) -> bytes:
    """Return what the gzip file at `path` holds, after comparing it with the checksum of `name` in `checksums`.

    The checksum is that of the content: compressed bytes may differ between versions of zlib.
    Raises DataFileError.
    """
    expected = _expected_checksum(name, checksums)

    def damage(problem: str, actual: str) -> DataFileError:
        return DataFileError(path, problem, original=f"{name}.gz", expected=expected, actual=actual)

    try:
        content = gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise damage("the file is missing", "no file") from None
    except EOFError:
        raise damage("the file is truncated", "an incomplete file") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise damage(f"the file is altered ({error})", "a damaged file") from None
    except OSError as error:
        raise damage(f"the file can't be read ({error.strerror})", "nothing") from None
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise damage("the file is altered", actual)
    return content


def split(words: Iterable[str], seed: int = 0) -> Split:
    """Divide `words` into 90 % for training, 5 % for validation and 5 % for testing, each in the order given.

    The side of a word depends on the word and the seed alone (by a SHA-256 hash): it is the same on every machine, and
    stays when other words are added or removed.
    Raises ValueError if there are no words, or one is not a string.
    """
    in_range(seed, "seed", low=0, high=_MAX_SEED, integer=True)
    words = _strings(_items(words, "words"), "words")
    if not words:
        raise ValueError("words: expected at least one word, got none")
    sides = Split([], [], [])
    for word in words:
        digest = hashlib.sha256(f"{seed}:{word}".encode()).digest()
        percent = int.from_bytes(digest[:8], "big") % 100
        sides[0 if percent < 90 else 1 if percent < 95 else 2].append(word)
    return sides


def as_ids(ids: Sequence[int] | np.ndarray | torch.Tensor, name: str = "ids", *, min_length: int = 1) -> np.ndarray:
    """Return `ids` as an int64 array (T,), T >= min_length; raises ValueError unless all are integers >= 0."""
    if isinstance(ids, list | tuple) and not ids:
        array = np.zeros(0, dtype=np.int64)  # NumPy would take an empty list for floats
    else:
        try:
            array = np.asarray(ids)
        except (ValueError, TypeError, RuntimeError) as error:
            raise ValueError(f"{name}: expected a sequence of integers, got {type(ids).__name__} ({error})") from None
    expect(array, "T?", name, dtype="int")
    if len(array) < min_length:
        raise ValueError(f"{name}: expected at least {min_length} ids, got {len(array)}")
    array = array.astype(np.int64, copy=False)
    if len(array) and array.min() < 0:
        raise ValueError(f"{name}: expected ids >= 0, got {array.min()} at index {array.argmin()}")
    return array


def as_id_sequences(
    sequences: Iterable[Sequence[int] | np.ndarray | torch.Tensor], name: str = "sequences", *, min_length: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of all sequences in a row (N,) and the length of each (B,), both int64.

    Raises ValueError if there are no sequences, or one is not as `as_ids` wants it.
    """
    sequences = _items(sequences, name)
    if not sequences:
        raise ValueError(f"{name}: expected at least one sequence, got none")
    # A hundred thousand lists are the usual case: one look at all their ids is much faster than one at each list.
    if all(type(ids) is list and len(ids) >= min_length for ids in sequences):
        ids = list(chain.from_iterable(sequences))
        if set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) < 2**63:
            return np.array(ids, dtype=np.int64), np.array([len(ids) for ids in sequences])
    arrays = [as_ids(ids, f"{name}[{i}]", min_length=min_length) for i, ids in enumerate(sequences)]
    return np.concatenate(arrays), np.array([len(ids) for ids in arrays])


def pad(sequences: Iterable[Sequence[int]], value: int = PAD) -> torch.Tensor:
    """Return sequences of ids as one tensor (B, T), int64: T is the longest length, `value` fills the rest.

    Raises ValueError if there are no sequences, or one is empty or holds anything but integers >= 0.
    """
    in_range(value, "value", low=-(2**63), high=2**63 - 1, integer=True)
    return _pad(_rows(*as_id_sequences(sequences)), value)


def bucket_indices(
    lengths: Sequence[int] | np.ndarray | torch.Tensor, batch_size: int, *, seed: int, shuffle: bool = True
) -> list[list[int]]:
    """Return batches of indices into `lengths` (N,) such that each index occurs once and a batch has similar lengths.

    Indices are sorted by length and cut into batches; all have `batch_size` indices except one, that of the longest
    sequences, which has the rest. With `shuffle`, `seed` decides the order of the batches, and of the indices among
    equal lengths; without, batches go from short to long.
    Raises ValueError if there are no lengths, or one is not an integer >= 1.
    """
    in_range(batch_size, "batch_size", low=1, integer=True)
    in_range(seed, "seed", low=0, high=_MAX_SEED, integer=True)
    lengths = as_ids(lengths, "lengths")
    if lengths.min() < 1:
        raise ValueError(f"lengths: expected lengths >= 1, got {lengths.min()} at index {lengths.argmin()}")

    generator = torch.Generator().manual_seed(int(seed))
    order = _permutation(len(lengths), generator) if shuffle else np.arange(len(lengths))
    order = order[np.argsort(lengths[order], kind="stable")]  # stable: equal lengths keep their shuffled order
    batches = [order[i : i + batch_size].tolist() for i in range(0, len(order), batch_size)]
    return [batches[i] for i in _permutation(len(batches), generator)] if shuffle else batches


def length_batches(
    sequences: Iterable[Sequence[int]], batch_size: int, *, seed: int, shuffle: bool = True
) -> list[torch.Tensor]:
    """Return `sequences` of ids as padded batches (B, T), int64; sequences of similar length share a batch.

    Every sequence is in one batch, as the caller encoded it (with <bos> and <eos>, for a language model). T differs
    from batch to batch, B is `batch_size` except in one batch. See `bucket_indices` for the order.
    Raises ValueError as `pad` and `bucket_indices` do.
    """
    in_range(batch_size, "batch_size", low=1, integer=True)
    ids, lengths = as_id_sequences(sequences)
    batches = bucket_indices(lengths, batch_size, seed=seed, shuffle=shuffle)
    rows = _rows(ids, lengths)
    return [_pad([rows[i] for i in batch], PAD) for batch in batches]


def recall_task(
    lag: int, batch: int, *, n_symbols: int = 8, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch of the recall task: read lag + 1 symbols, then name the first one.

    Tokens (batch, lag + 1), int64, are drawn uniformly from 0 … n_symbols - 1: the symbol to remember, then `lag`
    distractors of the same kind. The target (batch,), int64, is the first token; a model predicts it from what it
    knows after the last one. Guessing is right once in `n_symbols`. After the "latching" and "recall" tasks of
    Bengio, Simard and Frasconi (1994) and Hochreiter and Schmidhuber (1997).
    Raises ValueError unless lag >= 0, batch >= 1, n_symbols >= 2 and `generator` is a torch.Generator.
    """
    in_range(lag, "lag", low=0, integer=True)
    in_range(batch, "batch", low=1, integer=True)
    in_range(n_symbols, "n_symbols", low=2, integer=True)
    if not isinstance(generator, torch.Generator):
        came = type(generator).__name__
        raise ValueError(f"generator: expected a torch.Generator, got {came}")
    tokens = torch.randint(n_symbols, (batch, lag + 1), generator=generator, device=generator.device)
    return tokens, tokens[:, 0].clone()


def bracket_task(batch: int, length: int, *, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random strings of brackets and a filler, and how many brackets are open after each symbol.

    Tokens (batch, length), int64, are indices into BRACKETS: 0 opens, 1 closes, 2 is the filler. No bracket closes that
    wasn't open; each symbol that may come next is as likely as the others. The depth is (batch, length), int64, too.
    Raises ValueError unless batch >= 1, length >= 1 and `generator` is a torch.Generator.
    """
    in_range(batch, "batch", low=1, integer=True)
    in_range(length, "length", low=1, integer=True)
    if not isinstance(generator, torch.Generator):
        raise ValueError(f"generator: expected a torch.Generator, got {type(generator).__name__}")
    draws = torch.randint(6, (batch, length), generator=generator, device=generator.device)
    tokens, depth = torch.empty_like(draws), torch.empty_like(draws)
    opened = torch.zeros_like(draws[:, 0])
    for t in range(length):
        outside = draws[:, t] % 2 * 2  # an opening bracket or the filler: there is nothing to close
        tokens[:, t] = torch.where(opened > 0, draws[:, t] % 3, outside)
        opened = opened + (tokens[:, t] == 0).long() - (tokens[:, t] == 1).long()
        depth[:, t] = opened
    return tokens, depth


def _expected_checksum(name: str, path: Path) -> str:
    # sha256sum's format: 64 digits, two spaces, the name
    try:
        checksums = {line[66:]: line[:64] for line in path.read_text(encoding="ascii").splitlines()}
        return checksums[name]
    except (OSError, UnicodeDecodeError, KeyError):
        problem = f"the list of checksums is missing or altered: it has no entry for {name}"
        raise DataFileError(path, problem, original=CHECKSUMS, expected="unknown", actual="unknown") from None


def _parse(text: str) -> dict[str, list[tuple[str, ...]]]:
    pronunciations: dict[str, list[tuple[str, ...]]] = {}
    for line in text.splitlines():
        word, phonemes = line.split("\t")
        # Interned, a phoneme is one string in memory however often it occurs.
        pronunciations.setdefault(word, []).append(tuple(map(sys.intern, phonemes.split(" "))))
    return pronunciations


def _items(values: Iterable, name: str) -> list:
    """Return an iterable as a list; a single string is refused, because its letters are hardly what is meant."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"{name}: expected a list, got {type(values).__name__}")
    return list(values)


def _strings(values: Iterable[str], name: str) -> list[str]:
    if not isinstance(values, Iterable):
        raise ValueError(f"{name}: expected strings, got {type(values).__name__}")
    values = list(values)
    if set(map(type, values)) <= {str}:  # the usual case, quickly
        return values
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise ValueError(f"{name}: expected strings, got {type(value).__name__} at index {i}")
    return values


def _rows(ids: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    ends = np.cumsum(lengths)
    return [ids[start:end] for start, end in zip(ends - lengths, ends, strict=True)]


def _pad(rows: list[np.ndarray], value: int) -> torch.Tensor:
    padded = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for target, ids in zip(padded, rows, strict=True):
        target[: len(ids)] = ids
    return torch.from_numpy(padded)


def _permutation(n: int, generator: torch.Generator) -> np.ndarray:
    return torch.randperm(n, generator=generator).numpy()
