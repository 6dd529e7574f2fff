"""What the heads of a trained transformer are for: where they look, and what goes wrong without one of them.

The sentences are those of `course_utils.phrases`, which say what each "it" stands for.  B is the number of sentences, H
that of heads in a block.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from course_utils import corpora, phrases
from course_utils.attention import MultiHeadAttention
from course_utils.corpora import PAD
from course_utils.models import Trained
from course_utils.seq2seq import shift_right
from course_utils.transformer import Weights, without_heads

KINDS = ("encoder", "decoder", "cross")
PRONOUN = "it"


class Pronoun(NamedTuple):
    """An "it": its place and that of the noun it stands for in the source, and the place of its translation."""

    source: int
    noun: int
    target: int


class Head(NamedTuple):
    """A head of a transformer: its kind ("encoder", "decoder" or "cross"), its block and its number, from 0."""

    kind: str
    block: int
    number: int

    def attention(self, trained: Trained) -> MultiHeadAttention:
        """The attention that the head is a part of."""
        blocks = trained.model.encoder if self.kind == "encoder" else trained.model.decoder
        return blocks[self.block].cross if self.kind == "cross" else blocks[self.block].attention


class Accuracy(NamedTuple):
    """Shares of tokens that are right while the true ones before them are read."""

    pronouns: float
    others: float


def pronouns(pair: phrases.Pair) -> list[Pronoun]:
    """Each "it" of a sentence that is translated by one word of its own."""
    found = []
    for place, noun in pair.antecedents:
        targets = [j for i, j in pair.alignment if i == place]
        if pair.source[place] == PRONOUN and len(targets) == 1:
            found.append(Pronoun(place, noun, targets[0]))
    return found


def heads(trained: Trained) -> list[Head]:
    """All heads of a transformer, those of the encoder first."""
    model = trained.model
    blocks = {"encoder": model.encoder, "decoder": model.decoder, "cross": model.decoder}
    return [
        Head(kind, block, number)
        for kind in KINDS
        for block in range(len(blocks[kind]))
        for number in range(Head(kind, block, 0).attention(trained).n_heads)
    ]


def read(trained: Trained, pairs: Sequence[phrases.Pair]) -> tuple[Tensor, Tensor, Weights]:
    """Read sentences and their true translations: logits (B, T, V), the target (B, T), and where each head looked."""
    source, target = _batch(trained, pairs)
    with torch.no_grad():
        logits, weights = trained.model.attend(source, shift_right(target))
    return logits, target, weights


def accuracy(trained: Trained, pairs: Sequence[phrases.Pair], without: Sequence[Head] = ()) -> Accuracy:
    """How often the most probable token is the right one, for pronouns and for all others, without some heads.

    Raises ValueError for sentences without a pronoun.
    """
    source, target = _batch(trained, pairs)
    with torch.no_grad(), without_heads((head.attention(trained), head.number) for head in without):
        logits = trained.model(source, shift_right(target))
    right = logits.argmax(dim=-1) == target  # (B, T)
    special = torch.zeros_like(right)
    for row, pair in enumerate(pairs):
        for pronoun in pronouns(pair):
            special[row, pronoun.target] = True
    if not special.any():
        raise ValueError(f'pairs: expected sentences with "{PRONOUN}", got none')
    others = (target != PAD) & ~special
    return Accuracy(right[special].float().mean().item(), right[others].float().mean().item())


def looks_at_noun(trained: Trained, pairs: Sequence[phrases.Pair]) -> list[Tensor]:
    """How much of an "it" each head of the encoder takes from the noun that it stands for: (H,) for each block, means.

    Raises ValueError for sentences without a pronoun.
    """
    _, _, weights = read(trained, pairs)
    places = [(row, p.source, p.noun) for row, pair in enumerate(pairs) for p in pronouns(pair)]
    if not places:
        raise ValueError(f'pairs: expected sentences with "{PRONOUN}", got none')
    rows, queries, keys = torch.tensor(places).T
    return [block[rows, :, queries, keys].mean(dim=0) for block in weights.encoder]  # (B, H, S, S) each


def _batch(trained: Trained, pairs: Sequence[phrases.Pair]) -> tuple[Tensor, Tensor]:
    source = corpora.pad(trained.source_vocab.encode(pair.source) for pair in pairs)  # (B, S)
    return source, corpora.pad(trained.target_vocab.encode(pair.target, eos=True) for pair in pairs)  # (B, T)
