"""Sequence to sequence with attention: at each step the decoder looks back at all of the source, with other weights.

Batches, shapes and symbols are those of `course_utils.seq2seq`; the scores are in `course_utils.attention`.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_utils import attention as att
from course_utils.corpora import PAD
from course_utils.positions import sinusoidal_positions
from course_utils.seq2seq import (
    CELLS,
    State,
    as_state,
    expect_choice,
    expect_ids,
    expect_sizes,
    read_packed,
    source_lengths,
)
from course_utils.shapes import expect

STEPS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}  # what CELLS do, one step at a time
SCORES = ("additive", "dot", "general", "scaled")
ENCODERS = ("forward", "bidirectional", "embeddings", "positions")
QUERIES = ("previous", "current")


class AttentionState(NamedTuple):
    """What a decoder with attention knows after a step, and what it looks back at.

    h, and c if it is an LSTM (None for a GRU): (B, d_h).  values: (B, S, d_h), what the encoder gives for each source
    token; keys: (B, S, ·), the same as the score wants it, computed once per source; mask: (B, 1, S), True = real.
    """

    h: Tensor
    c: Tensor | None
    values: Tensor
    keys: Tensor
    mask: Tensor

    def select(self, rows: Tensor) -> "AttentionState":
        """The state of the rows (N,) of the batch, in that order; a row may be taken several times, or not at all."""
        return AttentionState(*(None if part is None else part[rows] for part in self))


class StatesEncoder(nn.Module):
    """Reads a source and returns a vector for each of its tokens, the state of a recurrent network after it.

    vocab_size, d_embed, d_h, cell: see `Encoder`.
    bidirectional: two networks, each d_h / 2 wide, read from left to right and from right to left; their states are
        joined, so that each vector knows what stands before and after its token.
    Source: Bahdanau, Cho and Bengio (2015), section 3.2.
    """

    def __init__(self, vocab_size: int, d_embed: int, d_h: int, cell: str, bidirectional: bool):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_embed, padding_idx=PAD)
        width = d_h // 2 if bidirectional else d_h
        self.rnn = CELLS[cell](d_embed, width, batch_first=True, bidirectional=bidirectional)

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """The states (B, S, d_h) of source (B, S), zeros behind its lengths (B,), and the last of each direction."""
        states, (h, c) = read_packed(self.rnn, self.embed(source), lengths)
        h, c = (None if last is None else last.transpose(0, 1).flatten(1)[None] for last in (h, c))
        return states, State(h, c)  # (B, S, d_h), (1, B, d_h) each


class EmbeddingsEncoder(nn.Module):
    """Gives each source token a vector that knows nothing of the tokens around it: an encoder without recurrence.

    vocab_size, d_h, cell: see `Encoder`; a token's vector is d_h wide.
    positions: the place of a token is added to its vector, as sines and cosines.
    The decoder starts from linear maps of the mean of the vectors.
    """

    def __init__(self, vocab_size: int, d_h: int, cell: str, positions: bool):
        super().__init__()
        self.positions = positions
        self.embed = nn.Embedding(vocab_size, d_h, padding_idx=PAD)
        self.start_h = nn.Linear(d_h, d_h)
        self.start_c = nn.Linear(d_h, d_h) if cell == "lstm" else None

    def forward(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, State]:
        """The vectors (B, S, d_h) of source (B, S), zeros behind its lengths (B,), and what the decoder starts from."""
        vectors = self.embed(source)  # (B, S, d_h)
        if self.positions:
            vectors = vectors + sinusoidal_positions(*vectors.shape[1:]).to(vectors)
        vectors = vectors * (source != PAD)[..., None]
        mean = vectors.sum(dim=1) / lengths[:, None]  # (B, d_h)
        h, c = (None if start is None else start(mean)[None] for start in (self.start_h, self.start_c))
        return vectors, State(h, c)  # (B, S, d_h), (1, B, d_h) each


class AttentionEncoderDecoder(nn.Module):
    """p(target | source), one token after another; at each step the decoder looks back at the whole source.

    source_vocab, target_vocab: numbers of tokens; d_embed: width of a token's vector; d_h: width of a state, of the
    encoder's, too, and of the hidden layer of an additive score.
    attention: how a state of the decoder is scored against one of the encoder, "additive", "dot", "general" or
        "scaled": see `course_utils.attention`.
    query: the state that asks.  "previous": that before the step, and the cell reads the context with the token
        (Bahdanau, Cho and Bengio 2015).  "current": that after the step, which has not seen the context; nothing that
        was looked up reaches the next step, so that with the true tokens all steps are computed at once (Luong, Pham
        and Manning 2015, without input feeding).
    encoder: "forward", "bidirectional" (see `StatesEncoder`), or without recurrence "embeddings", "positions" (see
        `EmbeddingsEncoder`).  cell: "lstm" or "gru".
    In both forms, state s and context c give the logits, W_o tanh(W_c [s; c] + b_c) + b_o (Luong, Pham and Manning,
    equation 5), so that every score can be compared with every other one in the same decoder.
    Raises ValueError for a size that is not a positive integer, an odd d_h with two directions, and other choices.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_embed: int,
        d_h: int,
        attention: str = "additive",
        query: str = "previous",
        encoder: str = "bidirectional",
        cell: str = "lstm",
    ):
        super().__init__()
        expect_sizes(source_vocab, target_vocab, d_embed, d_h)
        for name, value, choices in (
            ("attention", attention, SCORES),
            ("query", query, QUERIES),
            ("encoder", encoder, ENCODERS),
            ("cell", cell, CELLS),
        ):
            expect_choice(value, name, choices)
        if encoder == "bidirectional" and d_h % 2:
            raise ValueError(f"d_h: expected an even number, half for each direction, got {d_h}")
        self.source_vocab, self.target_vocab, self.query = source_vocab, target_vocab, query
        if encoder in ("embeddings", "positions"):
            self.encoder = EmbeddingsEncoder(source_vocab, d_h, cell, encoder == "positions")
        else:
            self.encoder = StatesEncoder(source_vocab, d_embed, d_h, cell, encoder == "bidirectional")
        self.score = _score(attention, d_h)
        self.embed = nn.Embedding(target_vocab, d_embed, padding_idx=PAD)
        if query == "previous":
            self.rnn = STEPS[cell](d_embed + d_h, d_h)
        else:
            self.rnn = CELLS[cell](d_embed, d_h, batch_first=True)
        self.combine = nn.Linear(2 * d_h, d_h)
        self.out = nn.Linear(d_h, target_vocab)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Score every next token while the true ones are read: logits (B, T, V), as `EncoderDecoder` does."""
        return self.attend(source, target_in)[0]

    def attend(self, source: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        """Score every next token while the true ones are read, and say which source tokens were looked at.

        source: (B, S) ids; target_in: (B, T) ids, the target shifted by one.
        Returns logits (B, T, V), where logits[:, t] scores the token after target_in[:, t], and weights (B, T, S): row
        weights[:, t] sums to 1 over the real source tokens and made the context that went into logits[:, t].
        Raises ValueError for a wrong shape or dtype, a pad before a real source token, or an id outside its vocabulary.
        """
        sizes = expect(source, "B S", "source", dtype="int")
        expect(target_in, "B T", "target_in", dtype="int", B=sizes["B"])
        expect_ids(target_in, "target_in", self.target_vocab)
        logits, weights, _ = self._decode(target_in, self.start(source))
        return logits, weights  # (B, T, V), (B, T, S)

    def start(self, source: Tensor) -> AttentionState:
        """The decoder's state before its first token, from source (B, S), with the keys ready for every step."""
        lengths = source_lengths(source)  # (B,)
        expect_ids(source, "source", self.source_vocab)
        values, (h, c) = self.encoder(source, lengths)  # (B, S, d_h), (1, B, d_h) each
        keys = self.score.project(values)  # (B, S, ·)
        return AttentionState(h[0], None if c is None else c[0], values, keys, att.padding_mask(source))

    def step(self, token: Tensor, state: AttentionState) -> tuple[Tensor, AttentionState]:
        """Read one token of each row, (B,) ids, and return the logits (B, V) of the next one and the new state."""
        expect(token, "B", "token", dtype="int", B=len(state.h))
        expect_ids(token, "token", self.target_vocab)
        logits, _, state = self._decode(token[:, None], state)
        return logits[:, 0], state  # (B, V)

    def _decode(self, tokens: Tensor, state: AttentionState) -> tuple[Tensor, Tensor, AttentionState]:
        run = self._step_by_step if self.query == "previous" else self._all_at_once
        states, contexts, weights, state = run(self.embed(tokens), state)
        # What the loop doesn't need is computed after it, for all steps in one product.
        combined = torch.tanh(self.combine(torch.cat([states, contexts], dim=-1)))  # (B, T, 2 d_h) -> (B, T, d_h)
        return self.out(combined), weights, state  # (B, T, V), (B, T, S)

    def _step_by_step(self, x: Tensor, state: AttentionState) -> tuple[Tensor, Tensor, Tensor, AttentionState]:
        """Each step needs the context that the state before it has asked for."""
        steps = []
        for x_t in x.unbind(dim=1):  # (B, d_embed)
            context, weights = self._look(state.h[:, None], state)  # (B, 1, d_h), (B, 1, S)
            read = torch.cat([x_t, context[:, 0]], dim=-1)  # (B, d_embed + d_h)
            h, c = as_state(self.rnn(read, state.h if state.c is None else (state.h, state.c)))  # (B, d_h) each
            state = state._replace(h=h, c=c)
            steps.append((h[:, None], context, weights))
        return *(torch.cat(parts, dim=1) for parts in zip(*steps, strict=True)), state

    def _all_at_once(self, x: Tensor, state: AttentionState) -> tuple[Tensor, Tensor, Tensor, AttentionState]:
        """The states don't depend on the contexts: first all states, then all contexts."""
        states, final = self.rnn(x, state.h[None] if state.c is None else (state.h[None], state.c[None]))
        h, c = as_state(final)  # (1, B, d_h) each
        contexts, weights = self._look(states, state)
        return states, contexts, weights, state._replace(h=h[0], c=None if c is None else c[0])

    def _look(self, queries: Tensor, state: AttentionState) -> tuple[Tensor, Tensor]:
        """The contexts (B, T, d_h) that queries (B, T, d_h) get, and their weights (B, T, S)."""
        weights = att.masked_softmax(self.score(queries, state.keys), state.mask)  # (B, T, S)
        return weights @ state.values, weights


def _score(attention: str, d_h: int) -> nn.Module:
    if attention == "additive":
        return att.AdditiveScore(d_h, d_h, d_h)
    if attention == "general":
        return att.GeneralScore(d_h, d_h)
    return att.DotScore() if attention == "dot" else att.ScaledDotScore()
