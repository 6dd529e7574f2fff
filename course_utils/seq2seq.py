"""Sequence to sequence with recurrent networks: one reads the source into a fixed vector, the other writes the target.

Batches hold one sequence a row.  A row of a source is its tokens and then <pad>; a row of a target is its tokens, <eos>
and then <pad>.  The decoder reads the target shifted by one, with <bos> in front (`shift_right`).  B is the number of
rows, S the length of the source, T that of the target, V the number of target tokens, d_h the width of a state.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from course_utils.corpora import BOS, EOS, PAD
from course_utils.shapes import expect, in_range

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}


class State(NamedTuple):
    """What a recurrent decoder knows after a step: h, and c if it is an LSTM (None for a GRU), each (1, B, d_h)."""

    h: Tensor
    c: Tensor | None

    def select(self, rows: Tensor) -> "State":
        """The state of the rows (N,) of the batch, in that order; a row may be taken several times, or not at all."""
        return State(self.h[:, rows], None if self.c is None else self.c[:, rows])


class Encoder(nn.Module):
    """Reads a source and returns the state after its last real token: the fixed vector that stands for the source.

    vocab_size: number of source tokens; d_embed: width of a token's vector; d_h: width of the state.
    cell: "lstm" or "gru".
    bidirectional: a second network reads from the last real token to the first; a linear layer maps the two final
        states (2 d_h numbers) to the d_h that the decoder takes.
    reverse: the source is read from its last real token to its first.
    Source: Cho et al. (2014), Learning phrase representations using RNN encoder–decoder for statistical machine
    translation; Schuster and Paliwal (1997), Bidirectional recurrent neural networks; reversing: Sutskever, Vinyals
    and Le (2014), section 3.3.
    """

    def __init__(self, vocab_size: int, d_embed: int, d_h: int, cell: str, bidirectional: bool, reverse: bool):
        super().__init__()
        self.vocab_size, self.reverse = vocab_size, reverse
        self.embed = nn.Embedding(vocab_size, d_embed, padding_idx=PAD)
        self.rnn = CELLS[cell](d_embed, d_h, batch_first=True, bidirectional=bidirectional)
        self.combine_h = nn.Linear(2 * d_h, d_h) if bidirectional else None
        self.combine_c = nn.Linear(2 * d_h, d_h) if bidirectional and cell == "lstm" else None

    def forward(self, source: Tensor) -> State:
        """source: (B, S) ids; returns the state after the last real token of each row.

        Raises ValueError as `source_lengths` does, and for an id outside the vocabulary.
        """
        lengths = source_lengths(source)  # (B,)
        expect_ids(source, "source", self.vocab_size)
        if self.reverse:
            source = reverse_source(source)
        # (1, B, d_h) each; (2, B, d_h) with two directions
        _, (h, c) = read_packed(self.rnn, self.embed(source), lengths)
        if self.combine_h is not None:
            h = self.combine_h(torch.cat([h[:1], h[1:]], dim=-1))  # (1, B, 2 d_h) -> (1, B, d_h)
        if self.combine_c is not None:
            c = self.combine_c(torch.cat([c[:1], c[1:]], dim=-1))
        return State(h, c)


class EncoderDecoder(nn.Module):
    """p(target | source), one token after another; the decoder starts from the encoder's final state.

    source_vocab, target_vocab: numbers of tokens; d_embed: width of a token's vector; d_h: width of the state.
    cell, bidirectional, reverse: see `Encoder`.
    Raises ValueError for a size that is not a positive integer, and for another cell.
    Source: Sutskever, Vinyals and Le (2014), Sequence to sequence learning with neural networks, equation 1.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_embed: int,
        d_h: int,
        cell: str = "lstm",
        bidirectional: bool = False,
        reverse: bool = False,
    ):
        super().__init__()
        expect_sizes(source_vocab, target_vocab, d_embed, d_h)
        expect_choice(cell, "cell", CELLS)
        self.target_vocab = target_vocab
        self.encoder = Encoder(source_vocab, d_embed, d_h, cell, bidirectional, reverse)
        self.embed = nn.Embedding(target_vocab, d_embed, padding_idx=PAD)
        self.rnn = CELLS[cell](d_embed, d_h, batch_first=True)
        self.out = nn.Linear(d_h, target_vocab)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Score every next token while the true ones are read (teacher forcing).

        source: (B, S) ids; target_in: (B, T) ids, the target shifted by one.
        Returns logits (B, T, V), where logits[:, t] scores the token after target_in[:, t].
        Raises ValueError for a wrong shape or dtype, a pad before a real source token, or an id outside its vocabulary.
        """
        sizes = expect(source, "B S", "source", dtype="int")
        expect(target_in, "B T", "target_in", dtype="int", B=sizes["B"])
        expect_ids(target_in, "target_in", self.target_vocab)
        logits, _ = self._decode(target_in, self.start(source))
        return logits  # (B, T, V)

    def start(self, source: Tensor) -> State:
        """The decoder's state before its first token, from source (B, S)."""
        return self.encoder(source)

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one token of each row, (B,) ids, and return the logits (B, V) of the next one and the new state."""
        expect(token, "B", "token", dtype="int", B=state.h.shape[1])
        expect_ids(token, "token", self.target_vocab)
        logits, state = self._decode(token[:, None], state)
        return logits[:, 0], state  # (B, V)

    def _decode(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        hs, final = self.rnn(self.embed(tokens), state.h if state.c is None else (state.h, state.c))
        return self.out(hs), as_state(final)  # (B, T, V)


def source_lengths(source: Tensor) -> Tensor:
    """The number of real tokens in each row of source (B, S): (B,).

    Raises ValueError for a wrong shape or dtype, a row of pads only, or a pad before a real token.
    """
    sizes = expect(source, "B S", "source", dtype="int")
    real = source != PAD  # (B, S)
    lengths = real.sum(dim=1)  # (B,)
    in_front = torch.arange(sizes["S"], device=source.device) < lengths[:, None]  # (B, S)
    wrong = (real != in_front).any(dim=1) | (lengths == 0)  # (B,)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        came = f"{source[row].tolist()} in row {row}"
        raise ValueError(f"source: expected tokens, then only <pad> (id {PAD}), in each row, got {came}")
    return lengths


def reverse_source(source: Tensor) -> Tensor:
    """Reverse the real tokens of each row of source (B, S) and leave the pads behind them: (B, S).

    Raises ValueError as `source_lengths` does.
    Source: Sutskever, Vinyals and Le (2014), section 3.3.
    """
    lengths = source_lengths(source)[:, None]  # (B, 1)
    place = torch.arange(source.shape[1], device=source.device)  # (S,)
    taken_from = torch.where(place < lengths, lengths - 1 - place, place)  # (B, S)
    return source.gather(1, taken_from)


def shift_right(target: Tensor, bos: int = BOS) -> Tensor:
    """What the decoder reads while it writes target (B, T): `bos`, then all but the last column, (B, T).

    Raises ValueError for a wrong shape or dtype.
    """
    expect(target, "B T", "target", dtype="int")
    return torch.cat([torch.full_like(target[:, :1], bos), target[:, :-1]], dim=1)  # (B, T)


def seq2seq_loss(logits: Tensor, target: Tensor, pad: int = PAD, label_smoothing: float = 0.0) -> Tensor:
    """Mean negative log-likelihood, in nats, of the real tokens of a target.

    logits: (B, T, V), where logits[:, t] scores target[:, t]; target: (B, T) ids below V, of which `pad` don't count.
    The mean is over all real tokens at once, so that a long row counts for more than a short one.
    label_smoothing: the share of the probability wanted that is spread evenly over all V tokens; training only, the
        result is no longer a likelihood (Szegedy et al. 2016, Rethinking the inception architecture, section 7).
    Returns a tensor without dimensions.
    Raises ValueError for a wrong shape or dtype, an id outside the vocabulary, a share outside of [0, 1], or with no
    real token.
    """
    sizes = expect(logits, "B T V", "logits", dtype="float")
    expect(target, "B T", "target", dtype="int", B=sizes["B"], T=sizes["T"])
    in_range(label_smoothing, "label_smoothing", low=0, high=1)
    if (target == pad).all():
        raise ValueError(f"target: expected at least one real token, got only {pad}, the id of <pad>")
    expect_ids(target[target != pad], "target", sizes["V"])
    logits, target = logits.flatten(0, 1), target.flatten().long()  # (B T, V), (B T,)
    return F.cross_entropy(logits, target, ignore_index=pad, label_smoothing=label_smoothing)


def teacher_forced_loss(model: nn.Module, batch: tuple[Tensor, Tensor], label_smoothing: float = 0.0) -> Tensor:
    """The loss of a batch (source (B, S), target (B, T)) when the decoder reads the true tokens; for `training.fit`.

    model: maps a source and a shifted target to logits (B, T, V), like `EncoderDecoder`; rows of target: see above;
    label_smoothing: see `seq2seq_loss`.
    Returns the mean negative log-likelihood in nats of a real token, a tensor without dimensions.
    Source: Williams and Zipser (1989), A learning algorithm for continually running fully recurrent neural networks.
    """
    source, target = batch
    return seq2seq_loss(model(source, shift_right(target)), target, label_smoothing=label_smoothing)


def read_packed(rnn: nn.Module, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
    """Run a network over vectors (B, S, ·): its states, zeros behind the lengths (B,) of rows, and its last states."""
    # Packed, each row ends where its real tokens end: no state has seen a pad.
    packed = pack_padded_sequence(vectors, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, final = rnn(packed)
    states, _ = pad_packed_sequence(states, batch_first=True, total_length=vectors.shape[1])
    return states, as_state(final)


def as_state(final: Tensor | tuple[Tensor, Tensor]) -> State:
    """The final state as torch's layers return it, (h, c) of an LSTM or h of a GRU."""
    return State(*final) if isinstance(final, tuple) else State(final, None)


def expect_sizes(source_vocab: int, target_vocab: int, d_embed: int, d_h: int) -> None:
    """Raise ValueError unless the sizes of a model are positive integers, with room for the special tokens."""
    for name, value in (("source_vocab", source_vocab), ("target_vocab", target_vocab)):
        in_range(value, name, low=EOS + 1, integer=True)
    for name, value in (("d_embed", d_embed), ("d_h", d_h)):
        in_range(value, name, low=1, integer=True)


def expect_choice(value: str, name: str, choices: Iterable[str]) -> None:
    """Raise ValueError unless the argument `name` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")


def expect_ids(ids: Tensor, name: str, vocab_size: int) -> None:
    """Raise ValueError unless all ids are in the vocabulary."""
    for extreme in (int(ids.min()), int(ids.max())):
        in_range(extreme, name, low=0, high=vocab_size - 1, integer=True)
