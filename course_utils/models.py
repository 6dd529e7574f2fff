"""The shipped models: how each of them is trained, how it is measured, and how it is loaded.

A recipe says everything that decides the weights of a model.  `tools/train` follows it and writes the weights with a
card to data/models; `load` reads them.  A source is a list of tokens (English words, or the letters of a word), its
target another one (German words, or phonemes).  B is the number of rows of a batch, S and T are its lengths.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_utils import corpora, decoding, metrics, phrases
from course_utils.corpora import PAD, Vocabulary
from course_utils.seq2seq import EncoderDecoder, shift_right, teacher_forced_loss
from course_utils.seq2seq_attention import AttentionEncoderDecoder
from course_utils.shapes import in_range
from course_utils.training import load_checkpoint, read_card
from course_utils.transformer import Transformer

MODELS = corpora.DATA / "models"
BUCKETS = ((4, 6), (7, 9), (10, 12), (13, 15), (16, 20), (21, 25), (26, 30))  # lengths of a source, both ends included

_POOL = 20_000  # sentences that are drawn at once: an epoch
_EVALUATION_SEED = 1_000_003
_MAX_WRITTEN = {"phrases": 60, "pronunciations": 40}  # tokens; the longest references have about 35 and 28
_ROWS = 250  # of a batch when a model is measured

Example = tuple[Sequence[str], Sequence[str]]  # source and target
Batch = tuple[Tensor, Tensor]  # source (B, S) and target (B, T), ids


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights of a model, up to rounding.

    data: "phrases" (English to German) or "pronunciations" (letters to phonemes); max_len: the longest source that a
    model of phrases is trained on, in words.  model: the arguments of `EncoderDecoder`, of `AttentionEncoderDecoder` if
    "attention" is among them, or of `Transformer` if "n_heads" is.
    steps: updates with Adam, each on `batch_size` pairs; lr: its largest learning rate, which is reached after `warmup`
    steps and then lowered along a cosine; label_smoothing: see `seq2seq.seq2seq_loss`; clip: the largest gradient norm;
    seed: decides the initial weights and the batches.
    Raises ValueError for other data, or a number of steps, a batch size, a max_len, a warmup or a label_smoothing out
    of its range.
    """

    name: str
    data: str
    model: dict
    steps: int
    batch_size: int = 64
    lr: float = 2e-3
    warmup: int = 0
    label_smoothing: float = 0.0
    clip: float = 1.0
    max_len: int | None = None
    seed: int = 0

    def __post_init__(self):
        if self.data not in _MAX_WRITTEN:
            raise ValueError(f"data: expected one of {', '.join(_MAX_WRITTEN)}, got {self.data!r}")
        if self.data == "phrases":
            in_range(self.max_len, "max_len", low=BUCKETS[0][1], integer=True)
        for name in ("steps", "batch_size"):
            in_range(getattr(self, name), name, low=1, integer=True)
        in_range(self.warmup, "warmup", low=0, integer=True)
        in_range(self.label_smoothing, "label_smoothing", low=0, high=1)


class Trained(NamedTuple):
    """A model in eval mode with what is needed to use it; card: see data/models/README.md."""

    model: nn.Module
    source_vocab: Vocabulary
    target_vocab: Vocabulary
    card: dict


# Lectures 3 and 4 compare networks of the same number of weights (but for the small one), after the same steps.
_PHRASES = {"data": "phrases", "steps": 8_000, "lr": 4e-3, "max_len": 20}
_WIDE = {"d_embed": 64, "d_h": 256}
# Phrases never repeat, so that dropout would only slow the training down; words do.
_TRANSFORMER = {"d_model": 128, "n_heads": 4, "d_ff": 344, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
_SPELLER = {"d_model": 256, "n_heads": 4, "d_ff": 512, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.1}
_LOOKING_BACK = {"d_embed": 64, "d_h": 204, "attention": "additive", "query": "previous"}

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("phrases-fixed-64", model={"d_embed": 64, "d_h": 64}, **_PHRASES | {"lr": 1e-2}),
        Recipe("phrases-fixed-256", model=_WIDE, **_PHRASES),
        Recipe("phrases-fixed-256-reversed", model=_WIDE | {"reverse": True}, **_PHRASES),
        Recipe("phrases-additive", model=_LOOKING_BACK, **_PHRASES),
        Recipe("phrases-dot", model=_WIDE | {"attention": "dot", "query": "current"}, **_PHRASES),
        Recipe("phrases-transformer", model=_TRANSFORMER, warmup=400, **_PHRASES | {"lr": 2e-3}),
        Recipe("pronunciations-fixed-256", "pronunciations", _WIDE, steps=10_000, batch_size=128, lr=3e-3),
        Recipe(
            "pronunciations-transformer",
            "pronunciations",
            _SPELLER,
            steps=8_000,
            batch_size=256,
            lr=1.5e-3,
            warmup=500,
            label_smoothing=0.1,
        ),
    )
}


def load(name: str, folder: Path = MODELS) -> Trained:
    """Return the shipped model `name`, one of RECIPES; draws no random numbers.

    Raises ValueError for another name, and CheckpointError if one of its files is missing, truncated or altered.
    """
    if name not in RECIPES:
        raise ValueError(f"name: expected one of {', '.join(RECIPES)}, got {name!r}")
    path = Path(folder) / f"{name}.safetensors"
    card = read_card(path)
    vocabularies = [Vocabulary(card["vocabulary"][side].split(" ")) for side in ("source", "target")]
    model = build(Recipe(**card["recipe"]), *map(len, vocabularies))
    load_checkpoint(path, model)
    return Trained(model.eval(), *vocabularies, card)


def build(recipe: Recipe, source_vocab_size: int, target_vocab_size: int) -> nn.Module:
    """Return the model of a recipe with its initial weights, which the recipe's seed decides."""
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
        torch.manual_seed(recipe.seed)
        kind = EncoderDecoder
        if "attention" in recipe.model:
            kind = AttentionEncoderDecoder
        elif "n_heads" in recipe.model:
            kind = Transformer
        return kind(source_vocab_size, target_vocab_size, **recipe.model)


def vocabularies(data: str) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies of sources and of targets of "phrases" or "pronunciations"."""
    if data == "phrases":
        # These sentences hold every word of half a million others; the rarest is in one of 25,000 ("aufwache").
        examples = [(pair.source, pair.target) for pair in phrases.generate(20_000, seed=1)]
    else:
        examples = list(_first_pronunciations().items())
    sources, targets = zip(*examples, strict=True)
    return Vocabulary.from_sequences(sources), Vocabulary.from_sequences(targets)


def batches(recipe: Recipe, source_vocab: Vocabulary, target_vocab: Vocabulary, first: int = 0) -> Iterator[Batch]:
    """Yield the training batches (source (B, S), target (B, T)) of steps `first`, `first` + 1 …, without end.

    A batch depends on the recipe and on the number of its step alone, so that a run can go on where another stopped.
    All have `batch_size` pairs, of similar length.  Phrases are new in each epoch; words are the training words of
    `corpora.split` in another order, each with the pronunciation that is listed first.
    """
    size, epoch_pairs = _epochs(recipe)
    per_epoch = size // recipe.batch_size
    in_range(per_epoch, "batch_size: batches in an epoch", low=1)
    start, skipped = divmod(first, per_epoch)
    for epoch in count(start):
        pairs, seed = epoch_pairs(epoch), _seed(recipe, epoch)
        # A rest that fills no batch is left out, another one in each epoch.
        chosen = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
        chosen = chosen[: per_epoch * recipe.batch_size].tolist()
        lengths = [len(pairs[i][0]) + len(pairs[i][1]) for i in chosen]
        for places in corpora.bucket_indices(lengths, recipe.batch_size, seed=seed)[skipped:]:
            yield _batch([pairs[chosen[place]] for place in places], source_vocab, target_vocab)
        skipped = 0


def predict(trained: Trained, sources: Sequence[Sequence[str]], max_len: int | None = None) -> list[list[str]]:
    """Write the target of each source, a list of tokens, by greedy decoding: lists of tokens in the same order.

    max_len: the largest number of tokens, enough for the longest reference unless given.
    Raises ValueError for an empty source.
    """
    max_len = _MAX_WRITTEN[trained.card["recipe"]["data"]] if max_len is None else max_len
    written: dict[int, list[str]] = {}
    for places in corpora.bucket_indices([len(source) for source in sources], _ROWS, seed=0, shuffle=False):
        source = corpora.pad(trained.source_vocab.encode(sources[i]) for i in places)
        hypotheses = decoding.greedy(trained.model, source, max_len)
        written |= {i: trained.target_vocab.decode(h.tokens) for i, h in zip(places, hypotheses, strict=True)}
    return [written[i] for i in range(len(sources))]


def attention_weights(trained: Trained, pairs: Sequence[Sequence]) -> list[Tensor]:
    """Where a recurrent model looks while it reads the true target of each pair (source, target, …) of tokens.

    Returns for each pair the weights (T, S): row t made target token t, the last row <eos>.
    Raises ValueError for an empty source.
    """
    found: dict[int, Tensor] = {}
    lengths = [len(pair[0]) for pair in pairs]
    for places in corpora.bucket_indices(lengths, _ROWS, seed=0, shuffle=False):
        source, target = _batch([pairs[i] for i in places], trained.source_vocab, trained.target_vocab)
        with torch.no_grad():
            _, weights = trained.model.attend(source, shift_right(target))  # (B, T, S)
        for i, rows in zip(places, weights, strict=True):
            found[i] = rows[: len(pairs[i][1]) + 1, : lengths[i]]
    return [found[i] for i in range(len(pairs))]


def evaluate(trained: Trained, n: int | None = None) -> dict:
    """Measure a model on the test part of its data; the card of a shipped model has the result as "metrics".

    n: how many sentences of each bucket of lengths (200 if None), or how many test words (all if None).
    Phrases: "exact_match_by_length" for each of BUCKETS, as "4-6"; over the buckets within the lengths trained on, the
    "exact_match", "bleu", its "bleu_signature", "loss" (teacher forcing) and "free_running_loss", and for a model with
    attention the "alignment_error_rate" of its largest weights while it reads the true target.
    Pronunciations: phoneme and word error rate "per" and "wer", where any listed pronunciation is right; "loss" of the
    one listed first.  Losses are in nats per token, everything is written by greedy decoding.
    """
    return (_evaluate_phrases if trained.card["recipe"]["data"] == "phrases" else _evaluate_words)(trained, n)


def data_sha256(data: str) -> str:
    """Return a checksum that shows whether data have changed since a model was trained.

    It is that of lines "source<tab>target": of pronunciations.tsv, or of the first 1000 training sentences of a seed.
    """
    if data == "phrases":
        lines = [(" ".join(pair.source), " ".join(pair.target)) for pair in phrases.generate(1000, seed=0)]
    else:
        listed = corpora.load_pronunciations().items()
        lines = [(word, " ".join(phonemes)) for word, several in listed for phonemes in several]
    return hashlib.sha256("".join(f"{source}\t{target}\n" for source, target in lines).encode()).hexdigest()


def make_card(recipe: Recipe, model: nn.Module, source_vocab: Vocabulary, target_vocab: Vocabulary) -> dict:
    """Return the part of a model's card that is known before its training."""
    return {
        "recipe": asdict(recipe),
        "data_sha256": data_sha256(recipe.data),
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": {"source": " ".join(source_vocab.tokens), "target": " ".join(target_vocab.tokens)},
    }


def held_out_sentences(n: int) -> list[list[Example]]:
    """Return `n` test pairs of phrases for each of BUCKETS, always the same."""
    return [[(pair.source, pair.target) for pair in pairs] for pairs in _held_out(n)]


def _held_out(n: int) -> list[list[phrases.Pair]]:
    """The pairs of `held_out_sentences` with their alignments."""
    return [phrases.generate(n, seed=_EVALUATION_SEED, min_len=low, max_len=high, part="test") for low, high in BUCKETS]


def _evaluate_phrases(trained: Trained, n: int | None) -> dict:
    buckets = _held_out(200 if n is None else n)
    right = {}
    known: list[tuple[phrases.Pair, list[str]]] = []  # with what the model has written
    for (low, high), pairs in zip(BUCKETS, buckets, strict=True):
        written = predict(trained, [pair.source for pair in pairs])
        right[f"{low}-{high}"] = metrics.exact_match(written, [pair.target for pair in pairs])
        if high <= trained.card["recipe"]["max_len"]:
            known += zip(pairs, written, strict=True)
    pairs, written = (list(column) for column in zip(*known, strict=True))
    references = [pair.target for pair in pairs]
    bleu = metrics.corpus_bleu(written, references)
    found = {
        "exact_match": metrics.exact_match(written, references),
        "exact_match_by_length": right,
        "bleu": round(bleu.score, 3),
        "bleu_signature": bleu.signature,
        "loss": _mean_loss(teacher_forced_loss, trained, pairs),
        "free_running_loss": _mean_loss(decoding.free_running_loss, trained, pairs),
    }
    if isinstance(trained.model, AttentionEncoderDecoder):
        links = [
            metrics.alignment_links(weights, len(pair.target))
            for pair, weights in zip(pairs, attention_weights(trained, pairs), strict=True)
        ]
        aer = metrics.alignment_error_rate(links, [pair.alignment for pair in pairs])
        found["alignment_error_rate"] = round(aer, 6)
    return found


def _evaluate_words(trained: Trained, n: int | None) -> dict:
    listed = corpora.load_pronunciations()
    words = corpora.split(sorted(listed)).test[:n]
    written = predict(trained, [tuple(word) for word in words])
    references = [listed[word] for word in words]
    return {
        "words": len(words),
        "per": round(metrics.error_rate(written, references), 6),
        "wer": round(1 - metrics.exact_match(written, references), 6),
        "loss": _mean_loss(teacher_forced_loss, trained, [(tuple(word), listed[word][0]) for word in words]),
    }


def _mean_loss(loss: Callable[[nn.Module, Batch], Tensor], trained: Trained, pairs: Sequence[Sequence]) -> float:
    """The mean over all tokens of all pairs, in nats."""
    total = tokens = 0
    with torch.no_grad():
        for places in corpora.bucket_indices([len(pair[1]) for pair in pairs], _ROWS, seed=0, shuffle=False):
            batch = _batch([pairs[i] for i in places], trained.source_vocab, trained.target_vocab)
            real = int((batch[1] != PAD).sum())
            total += float(loss(trained.model, batch)) * real
            tokens += real
    return round(total / tokens, 6)


def _batch(pairs: Sequence[Sequence], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """The ids of pairs (source, target, …)."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    source = corpora.pad(source_vocab.encode(tokens) for tokens in sources)  # (B, S)
    return source, corpora.pad(target_vocab.encode(tokens, eos=True) for tokens in targets)  # (B, T)


def _epochs(recipe: Recipe) -> tuple[int, Callable[[int], list[Example]]]:
    """How many pairs an epoch has, and the function epoch → its pairs."""
    if recipe.data == "phrases":

        def drawn(epoch: int) -> list[Example]:
            pairs = phrases.generate(_POOL, seed=_seed(recipe, epoch), max_len=recipe.max_len)
            return [(pair.source, pair.target) for pair in pairs]

        return _POOL, drawn
    words = _first_pronunciations()
    pairs = [(tuple(word), words[word]) for word in corpora.split(words).train]
    return len(pairs), lambda epoch: pairs


def _first_pronunciations() -> dict[str, tuple[str, ...]]:
    return {word: several[0] for word, several in corpora.load_pronunciations().items()}


def _seed(recipe: Recipe, epoch: int) -> int:
    return (recipe.seed << 32) + epoch
