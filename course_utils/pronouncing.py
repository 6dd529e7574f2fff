"""A language model that spells a word and then pronounces it: <bos> c a t <eos> K AE T <eos>.

B is the number of rows of a batch, T the length of the longest, V the number of tokens.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils import corpora, metrics
from course_utils.corpora import EOS, PAD, Vocabulary
from course_utils.shapes import expect, in_range
from course_utils.training import History, cosine_decay, fit, language_model_loss
from course_utils.transformer import TransformerLM

MAX_PHONEMES = 30
WARMUP = 50  # steps


class Words(NamedTuple):
    """Words of the pronunciation dictionary that share none: for training, for choosing, and for measuring."""

    train: list[str]
    validation: list[str]
    test: list[str]


@cache
def _listed() -> dict[str, list[tuple[str, ...]]]:
    return corpora.load_pronunciations()


def words() -> Words:
    """The split of the words that all models of pronunciations use (`corpora.split`)."""
    return Words(*corpora.split(sorted(_listed())))


@cache
def vocabulary() -> Vocabulary:
    """Letters and phonemes; phonemes have capitals."""
    phonemes = {phoneme for several in _listed().values() for phoneme in several[0]}
    return Vocabulary([*"abcdefghijklmnopqrstuvwxyz", *sorted(phonemes)])


def scrambled(chosen: Sequence[str], seed: int = 0) -> list[str]:
    """Random letters in words' places: as many in each, and all letters equally likely."""
    generator = torch.Generator().manual_seed(in_range(seed, "seed", low=0, integer=True))
    drawn = iter(torch.randint(26, (sum(map(len, chosen)),), generator=generator).tolist())
    return ["".join("abcdefghijklmnopqrstuvwxyz"[next(drawn)] for _ in word) for word in chosen]


def spelled(chosen: Sequence[str]) -> Tensor:
    """The letters of words alone, <bos> c a t <eos>: ids (B, T).

    chosen, here and below: one word or more of the letters a to z, in a list.  Raises ValueError for others.
    """
    _check(chosen)
    return corpora.pad(vocabulary().encode(word, bos=True, eos=True) for word in chosen)


def pronounced(chosen: Sequence[str]) -> Tensor:
    """Words with the pronunciation that is listed first, <bos> c a t <eos> K AE T <eos>: ids (B, T).

    Raises ValueError for words that are not in the dictionary.
    """
    _check(chosen, listed=True)
    return _twice(chosen, [_listed()[word][0] for word in chosen])


def repeated(chosen: Sequence[str]) -> Tensor:
    """Words spelled twice, <bos> c a t <eos> c a t <eos>: ids (B, T)."""
    _check(chosen)
    return _twice(chosen, chosen)


def stream(chosen: Sequence[str], N: int, T: int, seed: int = 0) -> Tensor:
    """N pieces of T + 1 tokens from a stream of words drawn at random, c a t <eos> d o g <eos> …: ids (N, T + 1)."""
    _check(chosen)
    in_range(N, "N", low=1, integer=True)
    in_range(T, "T", low=1, integer=True)
    generator = torch.Generator().manual_seed(in_range(seed, "seed", low=0, integer=True))
    ids: list[int] = []
    while len(ids) < N * (T + 1):
        ids += vocabulary().encode(chosen[int(torch.randint(len(chosen), (), generator=generator))], eos=True)
    return torch.tensor(ids[: N * (T + 1)]).view(N, T + 1)


def _check(chosen: Sequence[str], listed: bool = False) -> None:
    if isinstance(chosen, str) or not len(chosen):
        raise ValueError(f"chosen: expected a list of words, got {chosen!r}")
    for word in chosen:
        if not (isinstance(word, str) and re.fullmatch("[a-z]+", word)):
            raise ValueError(f"chosen: expected words of the letters a to z, got {word!r}")
        if listed and word not in _listed():
            raise ValueError(f"chosen: expected words of the dictionary, got {word!r}")


def _twice(first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]) -> Tensor:
    encode = vocabulary().encode
    pairs = zip(first, second, strict=True)
    return corpora.pad(encode(a, bos=True, eos=True) + encode(b, eos=True) for a, b in pairs)


def second_half_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean negative log-likelihood of what follows the first <eos> of each row, in nats per token.

    model: maps tokens (B, T) to (logits (B, T, V), state); tokens: ids as `pronounced` and `repeated` make them.
    Raises ValueError for a wrong shape or dtype, or if nothing follows.
    """
    expect(tokens, "B T", "tokens", dtype="int")
    x, y = tokens[:, :-1], tokens[:, 1:]
    wanted = ((x == EOS).cumsum(dim=1) > 0) & (y != PAD)  # (B, T - 1)
    if not wanted.any():
        raise ValueError("tokens: expected something after the first <eos> of a row")
    return F.cross_entropy(model(x)[0][wanted], y[wanted])


def make(
    d_model: int, n_layers: int = 2, n_heads: int = 2, positions: str = "sinusoidal", seed: int = 0
) -> TransformerLM:
    """A language model of words with F = 4 D and without dropout; the seed decides its initial parameters.

    d_model, n_layers, n_heads, positions: see `TransformerLM`, also for the errors.
    """
    in_range(d_model, "d_model", low=1, integer=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(in_range(seed, "seed", low=0, integer=True))
        return TransformerLM(
            len(vocabulary()), d_model, n_heads, 4 * d_model, n_layers, dropout=0.0, positions=positions
        )


def train(
    model: TransformerLM,
    tokens: Tensor,
    steps: int,
    loss: Callable[[nn.Module, Tensor], Tensor] = language_model_loss,
    lr: float = 3e-3,
    batch_size: int = 64,
    seed: int = 0,
    evaluate: Callable[[nn.Module], float] | None = None,
    evaluate_every: int | None = None,
    label: str = "training",
) -> History:
    """Train on rows of tokens (N, T) drawn anew in each step, with warm-up and a cosine; `training.fit` has the rest.

    loss(model, batch): `language_model_loss` counts every token, `second_half_loss` what follows the first <eos>.
    evaluate, evaluate_every: as in `fit`.
    Raises ValueError for a wrong shape or dtype, and for numbers out of range.
    """
    expect(tokens, "N T", "tokens", dtype="int")
    in_range(batch_size, "batch_size", low=1, integer=True)
    in_range(seed, "seed", low=0, integer=True)
    schedule = cosine_decay(in_range(steps, "steps", low=1, integer=True), min(WARMUP, steps - 1))
    stream = _draw(tokens, batch_size, seed)
    return fit(
        model,
        lambda _: stream,
        loss=loss,
        steps=steps,
        lr=lr,
        clip=1.0,
        schedule=schedule,
        evaluate=evaluate,
        evaluate_every=evaluate_every,
        label=label,
    )


def train_to_best(
    model: TransformerLM, tokens: Tensor, steps: int, every: int = 50, **options: Any
) -> tuple[History, int]:
    """Train with `second_half_loss` and keep the weights that were best on 1000 validation words.

    These are looked at every `every` steps; options: others of `train`.  Returns the history, whose evaluations are the
    validation losses, and the step of the best one.
    Raises KeyboardInterrupt if the run is stopped by hand before the first look.
    """
    in_range(every, "every", low=1, integer=True)
    looked_at = pronounced(words().validation[:1000])
    best: tuple[float, dict[str, Tensor]] = (math.inf, {})

    def evaluate(model: nn.Module) -> float:
        nonlocal best
        loss = mean_loss(model, looked_at)
        if loss < best[0]:
            best = loss, {name: weight.clone() for name, weight in model.state_dict().items()}
        return loss

    history = train(model, tokens, steps, second_half_loss, evaluate=evaluate, evaluate_every=every, **options)
    if not history.evaluations:
        raise KeyboardInterrupt
    model.load_state_dict(best[1])
    return history, next(step for step, loss in history.evaluations if loss == best[0])


def _draw(tokens: Tensor, batch_size: int, seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    lengths = (tokens != PAD).sum(dim=1)
    while True:
        rows = torch.randint(len(tokens), (batch_size,), generator=generator)
        yield tokens[rows, : int(lengths[rows].max())]


def loss_by_place(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean loss, in nats, of the token after each place of pieces of a stream (N, T + 1): (T,).

    Raises ValueError for a wrong shape or dtype.
    """
    expect(tokens, "N T", "tokens", dtype="int")
    with torch.no_grad():
        logits = model(tokens[:, :-1])[0]
        return F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none").mean(dim=0)


def pointing(model: TransformerLM, chosen: Sequence[str], length: int = 8) -> float:
    """How well a head looks at the letter that comes next, from 0 to 1: the largest mean weight of a head.

    Words of one length are spelled twice; from each letter t of the second copy, t = 1 …, a pointer looks at letter
    t + 1 of the first.  The mean is over words and letters.  Raises ValueError if no word has this length.
    """
    same = [word for word in chosen if len(word) == in_range(length, "length", low=2, integer=True)]
    if not same:
        raise ValueError(f"chosen: expected a word of {length} letters, got none")
    with torch.no_grad():
        _, weights = model.attend(repeated(same)[:, :-1])  # (B, H, T, T) each
    writes, letter = torch.arange(length + 2, 2 * length + 1), torch.arange(2, length + 1)
    heads = torch.cat([block[..., writes, letter] for block in weights], dim=1)  # (B, heads of all blocks, length - 1)
    return float(heads.mean(dim=(0, 2)).max())


def mean_loss(model: nn.Module, tokens: Tensor, rows: int = 250) -> float:
    """`second_half_loss` over all tokens (N, T), `rows` of them at a time, without gradients."""
    expect(tokens, "N T", "tokens", dtype="int")
    in_range(rows, "rows", low=1, integer=True)
    total = count = 0
    with torch.no_grad():
        for batch in tokens.split(rows):
            batch = batch[:, : int((batch != PAD).sum(dim=1).max())]
            after = ((batch[:, :-1] == EOS).cumsum(dim=1) > 0) & (batch[:, 1:] != PAD)
            total += float(second_half_loss(model, batch)) * int(after.sum())
            count += int(after.sum())
    return total / count


def pronounce(model: TransformerLM, chosen: Sequence[str]) -> list[list[str]]:
    """Phonemes that a model writes after each word, the likeliest one after another, `MAX_PHONEMES` at most.

    In the order of `chosen`, a word that occurs twice included.
    """
    _check(chosen)
    written: dict[str, list[str]] = {}
    for length in sorted(set(map(len, chosen))):
        same = [word for word in chosen if len(word) == length]  # no pads, which would stand in the middle
        written |= zip(same, _write(model, spelled(same)), strict=True)
    return [written[word] for word in chosen]


def _write(model: TransformerLM, tokens: Tensor) -> list[list[str]]:
    columns, state = [], None
    with torch.no_grad():
        for _ in range(MAX_PHONEMES):
            logits, state = model(tokens, state)
            tokens = logits[:, -1:].argmax(dim=-1)  # (B, 1)
            columns.append(tokens)
    return [vocabulary().decode(row) for row in torch.cat(columns, dim=1)]


def phoneme_error_rate(model: TransformerLM, chosen: Sequence[str]) -> float:
    """Edits a phoneme between what a model writes and the nearest listed pronunciation (`metrics.error_rate`).

    Raises ValueError for words that are not in the dictionary.
    """
    _check(chosen, listed=True)
    return metrics.error_rate(pronounce(model, chosen), [_listed()[word] for word in chosen])
