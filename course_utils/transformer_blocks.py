"""What a transformer is made of: embeddings with positions, blocks of attention and feed-forward network, dropout.

Rows are tokens.  B is the number of rows of a batch, S and T are lengths of source and target, D is the width of the
model, H the number of heads, K = D / H the width of a head, F that of the feed-forward layer, V the number of tokens.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.attention import MultiHeadAttention
from course_utils.positions import alibi, rotate, sinusoidal_positions
from course_utils.seq2seq import expect_choice, expect_ids
from course_utils.shapes import in_range

NORMS = ("pre", "post")
POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")


class KeyValues(NamedTuple):
    """Keys and values of the tokens that an attention looks at, (B, H, S, K) each."""

    k: Tensor
    v: Tensor

    def append(self, k: Tensor, v: Tensor) -> "KeyValues":
        """With the keys and values (B, H, T, K) of T more tokens."""
        return KeyValues(torch.cat([self.k, k], dim=2), torch.cat([self.v, v], dim=2))

    def select(self, rows: Tensor) -> "KeyValues":
        """Those of the rows (N,) of the batch, in that order."""
        return KeyValues(self.k[rows], self.v[rows])


class Dropout(nn.Module):
    """Set each number to 0 with probability p in training, and divide the others by 1 - p; does nothing in eval mode.

    p is rounded to a multiple of 1/256: a byte of random bits decides for each number.  On a CPU torch draws one random
    number after another, and this needs an eighth of them.
    Source: Srivastava et al. (2014), Dropout: a simple way to prevent neural networks from overfitting.
    """

    def __init__(self, p: float):
        super().__init__()
        self.dropped = min(255, round(256 * in_range(p, "dropout", low=0, high=1, high_open=True)))

    def forward(self, x: Tensor) -> Tensor:
        """x, of any shape, with some numbers set to 0 and the others scaled."""
        if not (self.training and self.dropped):
            return x
        draws = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        kept = draws.view(torch.uint8)[: x.numel()].view(x.shape) >= self.dropped
        return x * kept * (256 / (256 - self.dropped))


class Residual(nn.Module):
    """The path around a sublayer: what the sublayer makes of x is added to x, with layer normalization.

    norm "pre": x + sublayer(LN(x)), nothing stands in the way from the first block to the last; "post": LN(x +
    sublayer(x)), as in the first transformer.
    Source: He et al. (2016), Deep residual learning for image recognition; Ba, Kiros and Hinton (2016), Layer
    normalization; Xiong et al. (2020), On layer normalization in the transformer architecture.
    """

    def __init__(self, d_model: int, dropout: float, norm: str):
        super().__init__()
        expect_choice(norm, "norm", NORMS)
        self.pre = norm == "pre"
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def read(self, x: Tensor) -> Tensor:
        """What the sublayer gets to read."""
        return self.norm(x) if self.pre else x

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x with what the sublayer has written, y."""
        return x + self.dropout(y) if self.pre else self.norm(x + self.dropout(y))


class SelfAttention(MultiHeadAttention):
    """Multi-head attention of tokens among themselves, with a cache for tokens that come one after another.

    positions: with "rotary" queries and keys are turned by their places (`positions.rotate`), and heads must have an
    even width; with "alibi", for causal masks, scores fall with the distance (`positions.alibi`).  The other kinds do
    nothing here.
    """

    def __init__(self, d_model: int, n_heads: int, positions: str = "none"):
        super().__init__(d_model, n_heads)
        expect_choice(positions, "positions", POSITIONS)
        if positions == "rotary" and d_model // n_heads % 2:
            raise ValueError(f"n_heads: expected heads of an even width for rotary positions, got {d_model // n_heads}")
        self.positions = positions

    def look(
        self, x: Tensor, mask: Tensor | None, past: KeyValues | None, need_weights: bool = False
    ) -> tuple[Tensor, KeyValues, Tensor | None]:
        """What tokens x (B, T, D) get from those before them and from one another.

        mask: broadcasts to (B, H, T, tokens of past + T).
        Returns the output (B, T, D), the keys and values of all tokens, and the weights if asked for.
        """
        q, k, v = self.project(x)  # (B, H, T, K) each
        start = 0 if past is None else past.k.shape[2]
        if self.positions == "rotary":
            q, k = rotate(q, start), rotate(k, start)
        elif self.positions == "alibi":
            q, k = alibi(q, k, start)  # (B, H, T, K + 1) each
        present = KeyValues(k, v) if past is None else past.append(k, v)
        output, weights = self.attend(q, *present, mask, need_weights)
        return output, present, weights


class FeedForward(nn.Sequential):
    """relu(x W_1 + b_1) W_2 + b_2 for each token on its own: (B, T, D) -> (B, T, D), with F numbers in between.

    Source: Vaswani et al. (2017), equation 2.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        for layer in (self[0], self[2]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


class EncoderBlock(nn.Module):
    """Tokens look at one another, then each is changed on its own; with a causal mask, the block of a language model.

    d_model, n_heads, d_ff: D, H, F; dropout: of what attention and feed-forward network add; norm: see `Residual`;
    positions: see `SelfAttention`.
    Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1, norm: str = "pre", positions: str = "none"
    ):
        super().__init__()
        in_range(d_ff, "d_ff", low=1, integer=True)
        self.attention = SelfAttention(d_model, n_heads, positions)
        self.around_attention = Residual(d_model, dropout, norm)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.around_feed_forward = Residual(d_model, dropout, norm)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, past: KeyValues | None = None, need_weights: bool = False
    ) -> tuple[Tensor, KeyValues, Tensor | None]:
        """x (B, T, D) to the next block's x, the keys and values of all tokens, and the weights if asked for.

        mask and past: see `SelfAttention.look`.
        """
        x, present, weights = self._look(x, mask, past, need_weights)
        return self._think(x), present, weights

    def _look(self, x, mask, past, need_weights) -> tuple[Tensor, KeyValues, Tensor | None]:
        around = self.around_attention
        y, present, weights = self.attention.look(around.read(x), mask, past, need_weights)
        return around.add(x, y), present, weights

    def _think(self, x: Tensor) -> Tensor:
        around = self.around_feed_forward
        return around.add(x, self.feed_forward(around.read(x)))


class DecoderBlock(EncoderBlock):
    """An encoder block that looks at the source, too, between its two sublayers.

    Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1, norm: str = "pre", positions: str = "none"
    ):
        super().__init__(d_model, n_heads, d_ff, dropout, norm, positions)
        self.cross = MultiHeadAttention(d_model, n_heads)
        self.around_cross = Residual(d_model, dropout, norm)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        past: KeyValues | None,
        memory: KeyValues,
        memory_mask: Tensor,
        need_weights: bool = False,
    ) -> tuple[Tensor, KeyValues, tuple[Tensor | None, Tensor | None]]:
        """As in an encoder block; memory: the source's keys and values, `cross.keys_values` of what the encoder gave.

        memory_mask: (B, 1, 1, S), True = real.  Returns two weights: among the target's tokens, and at the source.
        """
        x, present, weights = self._look(x, mask, past, need_weights)
        around = self.around_cross
        q = self.cross.queries(around.read(x))  # (B, H, T, K)
        y, cross_weights = self.cross.attend(q, *memory, memory_mask, need_weights)
        return self._think(around.add(x, y)), present, (weights, cross_weights)


class Embedding(nn.Module):
    """Tokens to vectors: √D times a learned vector for each token, plus one for its place, then dropout.

    positions: "sinusoidal" and "learned" add a vector; "rotary", "alibi" and "none" add nothing here.
    max_len: the largest number of places.
    Source: Vaswani et al. (2017), sections 3.4 and 3.5.
    """

    def __init__(self, vocab_size: int, d_model: int, positions: str, max_len: int, dropout: float):
        super().__init__()
        expect_choice(positions, "positions", POSITIONS)
        in_range(max_len, "max_len", low=1, integer=True)
        self.vocab_size, self.max_len = vocab_size, max_len
        self.tokens = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.tokens.weight, std=1 / math.sqrt(d_model))
        if positions == "learned":
            self.places = nn.Parameter(torch.randn(max_len, d_model) / math.sqrt(d_model))
        elif positions == "sinusoidal":
            self.register_buffer("places", sinusoidal_positions(max_len, d_model), persistent=False)
        else:
            self.places = None
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor, start: int = 0, name: str = "ids") -> Tensor:
        """Vectors (B, T, D) of ids (B, T), whose first column is at place `start`; name: see `check`."""
        self.check(ids, start, name)
        x = self.tokens(ids) * math.sqrt(self.tokens.embedding_dim)  # (B, T, D)
        if self.places is not None:
            x = x + self.places[start : start + ids.shape[1]]
        return self.dropout(x)

    def check(self, ids: Tensor, start: int = 0, name: str = "ids") -> None:
        """Raise ValueError, naming the argument, for an id outside the vocabulary, and for more places than max_len."""
        expect_ids(ids, name, self.vocab_size)
        end = start + ids.shape[1]
        if self.places is not None and end > self.max_len:
            raise ValueError(f"{name}: expected at most max_len = {self.max_len} places, got {end}")

    def logits(self, x: Tensor) -> Tensor:
        """Scores (B, T, V) of every token: how well its vector fits x (B, T, D); the same vectors read and write.

        Source: Press and Wolf (2017), Using the output embedding to improve language models.
        """
        return F.linear(x, self.tokens.weight)
