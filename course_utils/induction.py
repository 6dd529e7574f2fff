"""Sequences that repeat themselves, what predicts them, and which heads do it.

Random letters can't be predicted, but their repetition can, by looking back for what followed the last time.  B is the
number of sequences, T their length, H the number of heads.
"""

import string
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.shapes import expect, in_range
from course_utils.training import History, fit
from course_utils.transformer import TransformerLM

LETTERS = string.ascii_lowercase
LENGTH = 32
PERIODS = (5, 16)  # the shortest and the longest; another one in each batch, so that no fixed distance helps


class Repeats(NamedTuple):
    """Random letters that are repeated over and over: ids (B, T), letter t + period is letter t."""

    tokens: Tensor
    period: int


class HeadScores(NamedTuple):
    """Where each head of each block looks, on average: two tensors (blocks, H) of weights from 0 to 1.

    previous: at the token before; induction: at the token that followed the last time, `period` - 1 places back.
    """

    previous: Tensor
    induction: Tensor


def draw(B: int, generator: torch.Generator, period: int | None = None, T: int = LENGTH) -> Repeats:
    """B sequences of T letters that repeat after `period` of them, or after a number that is drawn from PERIODS.

    Raises ValueError for numbers out of range, and a period that doesn't end before T.
    """
    in_range(B, "B", low=1, integer=True)
    in_range(T, "T", low=PERIODS[1] + 1 if period is None else 2, integer=True)
    if period is None:
        period = int(torch.randint(PERIODS[0], PERIODS[1] + 1, (), generator=generator))
    in_range(period, "period", low=1, high=T - 1, integer=True)
    once = torch.randint(len(LETTERS), (B, period), generator=generator)
    return Repeats(once.repeat(1, -(-T // period))[:, :T], period)


def make(n_layers: int, seed: int = 0) -> TransformerLM:
    """A language model of letters with rotary positions and 4 heads a block."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(in_range(seed, "seed", low=0, integer=True))
        return TransformerLM(len(LETTERS), 64, 4, 128, n_layers, dropout=0.0, positions="rotary")


def train(model: TransformerLM, steps: int = 600, seed: int = 0, label: str = "training") -> History:
    """Train to predict every letter; the history's evaluations are the loss on repetitions, every 20 steps."""
    in_range(steps, "steps", low=1, integer=True)
    generator = torch.Generator().manual_seed(in_range(seed, "seed", low=0, integer=True))
    measured = draw(100, torch.Generator().manual_seed(seed + 1_000_003), period=12)
    batches = (draw(32, generator).tokens for _ in range(steps))
    return fit(
        model,
        lambda _: batches,
        loss=_loss,
        steps=steps,
        lr=2e-3,
        evaluate=lambda model: repetition_loss(model, measured),
        evaluate_every=20,
        label=label,
    )


def _loss(model: nn.Module, tokens: Tensor, first: int = 1) -> Tensor:
    """Nats per letter, of letters number `first` and later."""
    logits, _ = model(tokens[:, :-1])
    return F.cross_entropy(logits[:, first - 1 :].flatten(0, 1), tokens[:, first:].flatten())


def repetition_loss(model: TransformerLM, repeats: Repeats) -> float:
    """Mean loss, in nats, of the letters that can be known: those after one period and its first repeated letter.

    Raises ValueError for tokens of a wrong shape or dtype, or a period after which no such letter comes.
    """
    _check(repeats, after=2)
    with torch.no_grad():
        return float(_loss(model, repeats.tokens, first=repeats.period + 1))


def head_scores(model: TransformerLM, repeats: Repeats) -> HeadScores:
    """How much each head looks at the token before, and at the one that followed the last time.

    The mean is over sequences and over the places t ≥ period, where there is a last time.
    Raises ValueError for tokens of a wrong shape or dtype, or a period that doesn't end before T.
    Source: Olsson et al. (2022), In-context learning and induction heads, "prefix matching".
    """
    _check(repeats, after=1)
    with torch.no_grad():
        _, weights = model.attend(repeats.tokens)  # (B, H, T, T) each
    stacked = torch.stack(weights)[..., repeats.period :, :]  # (blocks, B, H, T - period, T)
    at = torch.arange(repeats.period, repeats.tokens.shape[1])

    def on(place: Tensor) -> Tensor:
        return stacked[..., at - repeats.period, place].mean(dim=(1, 3))  # (blocks, H)

    return HeadScores(previous=on(at - 1), induction=on(at - repeats.period + 1))


def _check(repeats: Repeats, after: int) -> None:
    T = expect(repeats.tokens, "B T", "tokens", dtype="int")["T"]
    in_range(repeats.period, "period", low=1, high=T - after, integer=True)


def complete(model: TransformerLM, text: str, n: int) -> str:
    """The n letters that a model thinks likeliest after a text of small letters, one after another.

    Raises ValueError for an empty text, or other characters than a to z.
    """
    ids = [LETTERS.find(letter) for letter in text]
    if not ids or min(ids) < 0:
        raise ValueError(f"text: expected letters from a to z, got {text!r}")
    in_range(n, "n", low=1, integer=True)
    tokens, state, written = torch.tensor([ids]), None, ""
    with torch.no_grad():
        for _ in range(n):
            logits, state = model(tokens, state)
            tokens = logits[:, -1:].argmax(dim=-1)
            written += LETTERS[int(tokens)]
    return written
