"""A task that one attention head can't do and several can: name each of the M tokens that stand before a place.

The network is one multi-head attention between an embedding and a linear read-out.  The token that asks may attend to
the M tokens before it.  Queries and keys know tokens and places, values know tokens alone: a head returns a mean of
what stands for tokens, and all that tells first from second is how much each weighs.

N is the number of sequences, V that of different tokens, D the width, H the number of heads, K = D / H.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.attention import MultiHeadAttention
from course_utils.seq2seq import expect_ids
from course_utils.shapes import expect, in_range
from course_utils.transformer_blocks import Embedding, EncoderBlock


class PreviousTokens(nn.Module):
    """Names the M tokens before the last one of a sequence, from what its heads return.

    n_tokens: V; n_previous: M; d_model: D; n_heads: H, which divides D; seed: decides the initial parameters.
    d_ff: width of a hidden layer with ReLU in the read-out, which is linear if it is 0.
    The number of parameters doesn't depend on H.
    Raises ValueError for sizes that are not positive integers, or if H does not divide D.
    """

    def __init__(self, n_tokens: int, n_previous: int, d_model: int, n_heads: int, seed: int = 0, d_ff: int = 0):
        super().__init__()
        for name, value in (("n_tokens", n_tokens), ("n_previous", n_previous)):
            in_range(value, name, low=1, integer=True)
        self.n_tokens, self.n_previous = n_tokens, n_previous
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
            torch.manual_seed(in_range(seed, "seed", low=0, integer=True))
            self.attention = MultiHeadAttention(d_model, n_heads)
            self.tokens = nn.Embedding(n_tokens, d_model)
            self.places = nn.Parameter(torch.randn(n_previous + 1, d_model))
            width = n_previous * n_tokens
            self.read = nn.Linear(d_model, width)
            if in_range(d_ff, "d_ff", low=0, integer=True):
                self.read = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, width))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, M, V) of the M tokens before the last, from sequences x (N, M + 1) of ids."""
        found, _ = self.look(x)
        return self.read(found).unflatten(-1, (self.n_previous, self.n_tokens))  # (N, M, V)

    def look(self, x: Tensor, need_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """What the heads bring, (N, D), and their weights (N, H, M) if asked for.

        Raises ValueError for sequences of a wrong shape or dtype, or with an id outside 0 … V - 1.
        """
        expect(x, "N L", "x", dtype="int", L=self.n_previous + 1)
        expect_ids(x, "x", self.n_tokens)
        tokens = self.tokens(x)  # (N, M + 1, D)
        placed = tokens + self.places
        q = self.attention.queries(placed[:, -1:])  # (N, H, 1, K)
        k, _ = self.attention.keys_values(placed[:, :-1])  # (N, H, M, K)
        _, v = self.attention.keys_values(tokens[:, :-1])  # without places
        found, weights = self.attention.attend(q, k, v, need_weights=need_weights)
        return found[:, 0], None if weights is None else weights[:, :, 0]


def sequences(n: int, model: PreviousTokens, generator: torch.Generator) -> Tensor:
    """n sequences of independent tokens for a model, (n, M + 1) ids."""
    in_range(n, "n", low=1, integer=True)
    return torch.randint(model.n_tokens, (n, model.n_previous + 1), generator=generator)


def train(
    model: PreviousTokens, steps: int = 500, lr: float = 0.01, batch_size: int = 128, seed: int = 0
) -> list[float]:
    """Train with Adam on new sequences in each step, and return the loss of each step in nats per token named.

    The learning rate falls to 0 in a straight line.  Raises ValueError for numbers out of range.
    """
    in_range(steps, "steps", low=1, integer=True)
    in_range(lr, "lr", low=0, low_open=True)
    in_range(batch_size, "batch_size", low=1, integer=True)
    generator = torch.Generator().manual_seed(in_range(seed, "seed", low=0, integer=True) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for step in range(steps):
        x = sequences(batch_size, model, generator)
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 - step / steps)
        loss = F.cross_entropy(model(x).flatten(0, 1), x[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def right(model: PreviousTokens, x: Tensor) -> Tensor:
    """Which of sequences x (N, M + 1) have all their tokens named: (N,) booleans."""
    with torch.no_grad():
        return (model(x).argmax(-1) == x[:, :-1]).all(dim=-1)


def next_token_losses(mask: Tensor | None, steps: int, seed: int = 0) -> list[float]:
    """Train one transformer block to predict the next of 12 random tokens of 8 kinds, and return the loss of each step.

    mask: (12, 12), True = may attend, None: each token may attend to all.  Nobody can predict random tokens: a loss
    below ln 8 says that the block has seen them.  Losses are in nats per token.
    Raises ValueError for steps out of range, or a mask of another shape or dtype.
    """
    in_range(steps, "steps", low=1, integer=True)
    if mask is not None:
        expect(mask, "12 12", "mask", dtype="bool")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(in_range(seed, "seed", low=0, integer=True))
        embed = Embedding(8, d_model=32, positions="sinusoidal", max_len=12, dropout=0.0)
        block = EncoderBlock(d_model=32, n_heads=2, d_ff=64, dropout=0.0)
        optimizer = torch.optim.Adam([*embed.parameters(), *block.parameters()], lr=3e-3)
        losses = []
        for _ in range(steps):
            tokens = torch.randint(8, (32, 13))
            x, _, _ = block(embed(tokens[:, :-1]), mask)  # (32, 12, 32)
            loss = F.cross_entropy(embed.logits(x).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses
