"""The transformer: an encoder–decoder and a language model, made of the blocks in `course_utils.transformer_blocks`.

Both write token after token with a cache: keys and values of what was read are kept, so that a step computes those of
the new token alone.  Rows are tokens.  B is the number of rows of a batch, S and T are lengths of source and target, D
is the width of the model, H the number of heads, K = D / H the width of a head, F that of the feed-forward layer.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_utils.attention import MultiHeadAttention, causal_mask, padding_mask
from course_utils.corpora import EOS
from course_utils.seq2seq import expect_choice, source_lengths
from course_utils.shapes import expect, in_range
from course_utils.transformer_blocks import POSITIONS, DecoderBlock, Embedding, EncoderBlock, KeyValues


class State(NamedTuple):
    """What a transformer knows after the tokens that it has read: a cache for each of its blocks.

    past: keys and values of the tokens read so far, empty before the first.  memory: those of the source, made once;
    empty in a language model.  mask: (B, 1, 1, S), True = real source token; None in a language model.
    """

    past: tuple[KeyValues, ...] = ()
    memory: tuple[KeyValues, ...] = ()
    mask: Tensor | None = None

    @property
    def length(self) -> int:
        """The number of tokens that were read."""
        return self.past[0].k.shape[2] if self.past else 0

    def select(self, rows: Tensor) -> "State":
        """The state of the rows (N,) of the batch, in that order; a row may be taken several times, or not at all."""
        past, memory = (tuple(entry.select(rows) for entry in entries) for entries in (self.past, self.memory))
        return State(past, memory, None if self.mask is None else self.mask[rows])


class Weights(NamedTuple):
    """Where each head of each block looked: lists with one tensor a block.

    encoder: (B, H, S, S); decoder: (B, H, T, T), the decoder among its own tokens; cross: (B, H, T, S), the decoder at
    the source.
    """

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


class Transformer(nn.Module):
    """p(target | source), one token after another: an encoder–decoder without recurrence.

    source_vocab, target_vocab: numbers of tokens.  d_model, n_heads, d_ff: D, H, F.  encoder_layers, decoder_layers:
    numbers of blocks.  dropout, norm: see `EncoderBlock`; with "pre", both stacks end in one more normalization.
    positions: "sinusoidal", "learned", "rotary" or "none"; max_len: the longest source or target (with "sinusoidal" and
    "learned").
    Raises ValueError for a size that is not a positive integer, a D that H doesn't divide, and other choices.
    Source: Vaswani et al. (2017), Attention is all you need, section 3.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        encoder_layers: int,
        decoder_layers: int,
        dropout: float = 0.1,
        norm: str = "pre",
        positions: str = "sinusoidal",
        max_len: int = 512,
    ):
        super().__init__()
        for name, value, low in (
            ("source_vocab", source_vocab, EOS + 1),
            ("target_vocab", target_vocab, EOS + 1),
            ("encoder_layers", encoder_layers, 1),
            ("decoder_layers", decoder_layers, 1),
        ):
            in_range(value, name, low=low, integer=True)
        expect_choice(
            positions, "positions", [kind for kind in POSITIONS if kind != "alibi"]
        )  # which is for causal masks
        block = (d_model, n_heads, d_ff, dropout, norm, positions)
        self.encoder = nn.ModuleList(EncoderBlock(*block) for _ in range(encoder_layers))
        self.decoder = nn.ModuleList(DecoderBlock(*block) for _ in range(decoder_layers))
        self.embed_source = Embedding(source_vocab, d_model, positions, max_len, dropout)
        self.embed_target = Embedding(target_vocab, d_model, positions, max_len, dropout)
        self.encoder_norm = _last_norm(d_model, norm)
        self.decoder_norm = _last_norm(d_model, norm)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Score every next token while the true ones are read, all at once: logits (B, T, V).

        source: (B, S) ids; target_in: (B, T) ids, the target shifted by one.  logits[:, t] scores the token after
        target_in[:, t], and depends on target_in[:, : t + 1] alone.
        Raises ValueError for a wrong shape or dtype, a pad before a real source token, or an id outside its vocabulary.
        """
        self._check(source, target_in)
        return self.decode(target_in, self.start(source))[0]

    def attend(self, source: Tensor, target_in: Tensor) -> tuple[Tensor, Weights]:
        """As `forward`, and where each head looked."""
        self._check(source, target_in)
        x, mask, encoder = self._encode(source, need_weights=True)
        x, _, weights = self._decode(target_in, self._start(x, mask), need_weights=True)
        decoder, cross = (list(kind) for kind in zip(*weights, strict=True))
        return x, Weights(encoder, decoder, cross)

    def encode(self, source: Tensor) -> Tensor:
        """What the encoder makes of each token of source (B, S): (B, S, D); those of pads mean nothing."""
        return self._encode(source)[0]

    def start(self, source: Tensor) -> State:
        """The state before the first token, from source (B, S): the source's keys and values for every block."""
        return self._start(*self._encode(source)[:2])

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one token of each row, (B,) ids, and return the logits (B, V) of the next one and the new state."""
        expect(token, "B", "token", dtype="int", B=len(state.mask))
        logits, state, _ = self._decode(token[:, None], state, "token")
        return logits[:, 0], state  # (B, V)

    def decode(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Read several tokens (B, T) at once after those of the state: logits (B, T, V) and the new state."""
        expect(tokens, "B T", "tokens", dtype="int", B=len(state.mask))
        return self._decode(tokens, state)[:2]

    def _check(self, source: Tensor, target_in: Tensor) -> None:
        sizes = expect(source, "B S", "source", dtype="int")
        expect(target_in, "B T", "target_in", dtype="int", B=sizes["B"])
        self.embed_target.check(target_in, name="target_in")

    def _encode(self, source: Tensor, need_weights: bool = False) -> tuple[Tensor, Tensor, list]:
        source_lengths(source)  # checks that pads come last
        mask = padding_mask(source)[:, None]  # (B, 1, 1, S)
        x, weights = self.embed_source(source, name="source"), []
        for block in self.encoder:
            x, _, seen = block(x, mask, need_weights=need_weights)
            weights.append(seen)
        return self.encoder_norm(x), mask, weights

    def _start(self, encoded: Tensor, mask: Tensor) -> State:
        memory = tuple(KeyValues(*block.cross.keys_values(encoded)) for block in self.decoder)
        return State(memory=memory, mask=mask)

    def _decode(
        self, tokens: Tensor, state: State, name: str = "tokens", need_weights: bool = False
    ) -> tuple[Tensor, State, list]:
        x = self.embed_target(tokens, state.length, name)
        mask, past, weights = _causal(tokens.shape[1], state.length, x.device), [], []
        for block, before, memory in zip(self.decoder, _before(state, self.decoder), state.memory, strict=True):
            x, present, seen = block(x, mask, before, memory, state.mask, need_weights)
            past.append(present)
            weights.append(seen)
        return self.embed_target.logits(self.decoder_norm(x)), state._replace(past=tuple(past)), weights


class TransformerLM(nn.Module):
    """p(next token | tokens so far): a decoder without a source, as in GPT.

    vocab_size: V.  The other arguments are those of `Transformer`; positions may be "alibi", too.
    Source: Radford et al. (2018), Improving language understanding by generative pre-training, section 3.1.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        n_layers: int,
        dropout: float = 0.1,
        norm: str = "pre",
        positions: str = "sinusoidal",
        max_len: int = 512,
    ):
        super().__init__()
        in_range(vocab_size, "vocab_size", low=1, integer=True)
        in_range(n_layers, "n_layers", low=1, integer=True)
        block = (d_model, n_heads, d_ff, dropout, norm, positions)
        self.blocks = nn.ModuleList(EncoderBlock(*block) for _ in range(n_layers))
        self.embed = Embedding(vocab_size, d_model, positions, max_len, dropout)
        self.norm = _last_norm(d_model, norm)

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Read tokens (B, T), after those of the state if there is one: logits (B, T, V) and the new state.

        logits[:, t] scores the token after tokens[:, t].
        Raises ValueError for a wrong shape or dtype, or an id outside the vocabulary.
        """
        x, state, _ = self._read(tokens, state or State())
        return x, state

    def attend(self, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        """As `forward` without a state, with the weights (B, H, T, T) of each block."""
        logits, _, weights = self._read(tokens, State(), need_weights=True)
        return logits, weights

    def _read(self, tokens: Tensor, state: State, need_weights: bool = False) -> tuple[Tensor, State, list]:
        rows = {"B": len(state.past[0].k)} if state.past else {}
        expect(tokens, "B T", "tokens", dtype="int", **rows)
        x = self.embed(tokens, state.length, "tokens")
        mask, past, weights = _causal(tokens.shape[1], state.length, x.device), [], []
        for block, before in zip(self.blocks, _before(state, self.blocks), strict=True):
            x, present, seen = block(x, mask, before, need_weights)
            past.append(present)
            weights.append(seen)
        return self.embed.logits(self.norm(x)), State(past=tuple(past)), weights


@contextmanager
def without_heads(attentions: Iterable[tuple[MultiHeadAttention, int]]) -> Iterator[None]:
    """A context in which some heads say nothing: their rows of W_O are zero, whatever calls the model.

    attentions: pairs (attention, number of a head).
    Source: Michel, Levy and Neubig (2019), Are sixteen heads really better than one?
    """
    saved: list[tuple[Tensor, Tensor]] = []
    try:
        for attention, head in attentions:
            in_range(head, "head", low=0, high=attention.n_heads - 1, integer=True)
            K = attention.d_model // attention.n_heads
            columns = attention.out.weight.data[:, head * K : (head + 1) * K]  # nn.Linear stores W_O transposed
            saved.append((columns, columns.clone()))
            columns.zero_()
        yield
    finally:
        for columns, before in reversed(saved):
            columns.copy_(before)


def _causal(T: int, start: int, device: torch.device) -> Tensor | None:
    """What T tokens after `start` others may attend to: (T, start + T); None if that is everything."""
    return None if T == 1 else causal_mask(start + T, device)[start:]


def _before(state: State, blocks: nn.ModuleList) -> tuple[KeyValues | None, ...]:
    return state.past or (None,) * len(blocks)


def _last_norm(d_model: int, norm: str) -> nn.Module:
    """With normalization before each sublayer, what the last one added has not been normalized yet."""
    return nn.LayerNorm(d_model) if norm == "pre" else nn.Identity()
