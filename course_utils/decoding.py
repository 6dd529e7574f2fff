"""Decoding: how a trained model writes a sequence, token after token: greedy, by sampling, or by beam search.

One code serves every model.  A model has `start(source) -> state` and `step(token, state) -> (logits, state)`, and a
state has `select(rows)`, with which beam search copies and reorders the rows of a batch (see `Decodable` and `State`).
B is the number of sources, K the width of a beam, T the number of tokens written so far, V that of target tokens.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from course_utils.corpora import BOS, EOS, PAD
from course_utils.seq2seq import seq2seq_loss
from course_utils.shapes import expect, in_range


class State(Protocol):
    """What a model knows after the tokens that it has read so far, for each row of a batch."""

    def select(self, rows: Tensor) -> Self:
        """The state of the rows (N,) of the batch, in that order; a row may be taken several times, or not at all."""


class Decodable(Protocol):
    """A model that writes one token at a time."""

    def start(self, source: Tensor) -> State:
        """The state before the first token, from source (B, S)."""

    def step(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one token of each row, (B,) ids, and return the logits (B, V) of the next one and the new state."""


class Hypothesis(NamedTuple):
    """A sequence that a model has written.

    tokens: ids without <bos> and <eos>; log_prob: the logarithm of its probability under the model, in nats, with that
    of <eos> if it is finished; finished: whether it ends in <eos>, or was cut at the longest length allowed.
    """

    tokens: list[int]
    log_prob: float
    finished: bool


def greedy(model: Decodable, source: Tensor, max_len: int) -> list[Hypothesis]:
    """Take the most probable token at each step, until <eos> or `max_len` tokens (<eos> is one of them).

    source: (B, S) ids.  Returns B hypotheses.
    The model runs in eval mode without gradients.  <pad> and <bos> are never written.
    Raises ValueError for a wrong source, max_len below 1, and logits that are not finite or not (B, V).
    """
    return _write(model, source, max_len, choose=lambda log_p: log_p.argmax(dim=-1))


def sample(
    model: Decodable, source: Tensor, max_len: int, *, generator: torch.Generator, temperature: float = 1.0
) -> list[Hypothesis]:
    """Draw each token from the model's distribution, until <eos> or `max_len` tokens (<eos> is one of them).

    source: (B, S) ids; temperature: > 0, below 1 sharpens the distribution; generator: makes the draws repeatable.
    Returns B hypotheses; their log_prob is that of the model, whatever the temperature.
    The model runs in eval mode without gradients.  <pad> and <bos> are never written.
    Raises ValueError as `greedy` does, for temperature 0 or less, and without a generator.
    """
    in_range(temperature, "temperature", low=0, low_open=True)
    if not isinstance(generator, torch.Generator):
        raise ValueError(f"generator: expected a torch.Generator, got {type(generator).__name__}")

    def draw(log_p: Tensor) -> Tensor:
        p = torch.softmax(log_p / temperature, dim=-1)  # (B, V)
        return torch.multinomial(p, 1, generator=generator)[:, 0]  # (B,)

    return _write(model, source, max_len, choose=draw)


def beam(
    model: Decodable, source: Tensor, width: int, max_len: int, length_penalty: float = 0.0
) -> list[list[Hypothesis]]:
    """Keep the `width` best beginnings at each step, until all have <eos> or `max_len` tokens (<eos> is one of them).

    A hypothesis is as good as its log-probability divided by `wu_penalty(length, length_penalty)`; with 0, its
    log-probability.  A finished one is kept as it is, and drops out only when `width` others are better.
    source: (B, S) ids.  Returns a list for each source: its hypotheses, best first, `width` of them unless there are
    fewer sequences of that length.  Those cut at max_len compete with the finished ones.
    The model runs in eval mode without gradients.  <pad> and <bos> are never written.
    Raises ValueError as `greedy` does, for a width below 1 and a negative length penalty.
    """
    _check(source, max_len)
    in_range(width, "width", low=1, integer=True)
    in_range(length_penalty, "length_penalty", low=0)
    with evaluation(model):
        tokens, log_prob = _search(model, source, width, max_len, length_penalty)  # (B, K, T), (B, K)
    return [
        [_hypothesis(*row) for row in zip(*beams, strict=True) if row[1] > -math.inf]
        for beams in zip(tokens.tolist(), log_prob.tolist(), strict=True)
    ]


Length = TypeVar("Length", float, Tensor)


def wu_penalty(length: Length, alpha: float) -> Length:
    """The number by which a log-probability is divided, so that long sequences have a chance: ((5 + length) / 6)^alpha.

    length: number of tokens, counting <eos>; a number or a tensor.  alpha: 0 for no penalty; Vaswani et al. (2017)
    decode with 0.6.
    Source: Wu et al. (2016), Google's neural machine translation system, equation 14 (without its coverage penalty).
    """
    return ((5 + length) / 6) ** alpha


def free_running_logits(model: Decodable, source: Tensor, steps: int) -> Tensor:
    """The logits (B, steps, V) of a decoder that reads its own most probable tokens instead of the true ones.

    logits[:, t] scores the token after <bos> and the first t tokens of its own.  After an <eos> of its own it goes on,
    since the tokens of a longer target remain to be scored.
    source: (B, S) ids.  The model runs in eval mode without gradients.
    Raises ValueError as `greedy` does.
    """
    _check(source, steps, "steps")
    columns = []
    with evaluation(model):
        token, state = _start(model, source)
        for _ in range(steps):
            logits, state = model.step(token, state)  # (B, V)
            columns.append(logits)
            token = _log_probs(logits).argmax(dim=-1)  # (B,)
    return torch.stack(columns, dim=1)  # (B, steps, V)


def free_running_loss(model: Decodable, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The loss of a batch (source (B, S), target (B, T)) when the decoder reads its own tokens, as at test time.

    Its difference to `seq2seq.teacher_forced_loss` is what the model pays for having seen only true beginnings in
    training (exposure bias), and for tokens that are right but not at the same place as in the target.
    Returns the mean negative log-likelihood in nats of a real token of the target, a tensor without dimensions.
    Source: Ranzato et al. (2016), Sequence level training with recurrent neural networks.
    """
    source, target = batch
    expect(target, "B T", "target", dtype="int", B=expect(source, "B S", "source", dtype="int")["B"])
    return seq2seq_loss(free_running_logits(model, source, target.shape[1]), target)


def _write(model: Decodable, source: Tensor, max_len: int, choose: Callable[[Tensor], Tensor]) -> list[Hypothesis]:
    """Write with the tokens that `choose` picks from log-probabilities (B, V)."""
    _check(source, max_len)
    columns, log_prob = [], torch.zeros(len(source), device=source.device)  # (B,)
    with evaluation(model):
        token, state = _start(model, source)
        finished = torch.zeros_like(token, dtype=torch.bool)  # (B,)
        for _ in range(max_len):
            logits, state = model.step(token, state)
            log_p = _log_probs(logits)  # (B, V)
            token = choose(log_p)  # (B,)
            gained = log_p.gather(1, token[:, None])[:, 0]  # (B,)
            log_prob = log_prob + gained.masked_fill(finished, 0)
            columns.append(token)
            finished = finished | (token == EOS)
            if finished.all():
                break
    rows = torch.stack(columns, dim=1).tolist()  # (B, T)
    return [_hypothesis(*row) for row in zip(rows, log_prob.tolist(), strict=True)]


def _search(model: Decodable, source: Tensor, K: int, max_len: int, alpha: float) -> tuple[Tensor, Tensor]:
    """Return the tokens (B, K, T) of the best hypotheses, best first, and their log-probabilities (B, K)."""
    B = len(source)
    token, state = _start(model, source)
    first_row = K * torch.arange(B, device=source.device)[:, None]  # (B, 1) where each source's K rows begin
    state = state.select(torch.arange(B, device=source.device).repeat_interleave(K))
    token = token.repeat_interleave(K)  # (B K,)
    tokens = token.new_empty(B, K, 0)
    log_prob = torch.full((B, K), -torch.inf, device=source.device)
    log_prob[:, 0] = 0  # all K rows are the same at first: one of them counts
    finished = torch.zeros_like(log_prob, dtype=torch.bool)  # (B, K)
    for _ in range(max_len):
        logits, state = model.step(token, state)
        log_p = _log_probs(logits).unflatten(0, (B, K))  # (B, K, V)
        log_p = torch.where(finished[..., None], _only_pad(log_p), log_p)
        candidates = log_prob[..., None] + log_p  # (B, K, V)
        length = (tokens != PAD).sum(dim=-1) + ~finished  # (B, K) of each candidate
        score = candidates / wu_penalty(length, alpha)[..., None]  # (B, K, V)
        best = score.flatten(1).topk(K).indices  # (B, K) places among the K V candidates
        parent, new = best // log_p.shape[-1], best % log_p.shape[-1]  # (B, K) each
        log_prob = candidates.flatten(1).gather(1, best)
        tokens = torch.cat([tokens.take_along_dim(parent[..., None], dim=1), new[..., None]], dim=-1)  # (B, K, T)
        finished = finished.gather(1, parent) | (new == EOS)
        if finished.all():
            break
        token, state = new.flatten(), state.select((first_row + parent).flatten())
    return tokens, log_prob


def _only_pad(log_p: Tensor) -> Tensor:
    """Log-probabilities (V,) of what follows <eos>: <pad>, for sure and at no cost."""
    row = torch.full_like(log_p[0, 0], -torch.inf)
    row[PAD] = 0
    return row


def _log_probs(logits: Tensor) -> Tensor:
    """The model's log-probabilities (B, V), with <pad> and <bos> ruled out."""
    expect(logits, "B V", "logits", dtype="float", finite=True)
    log_p = torch.log_softmax(logits, dim=-1)
    log_p[:, [PAD, BOS]] = -torch.inf
    return log_p


def _start(model: Decodable, source: Tensor) -> tuple[Tensor, State]:
    return torch.full((len(source),), BOS, device=source.device), model.start(source)  # (B,)


def _hypothesis(ids: list[int], log_prob: float) -> Hypothesis:
    finished = EOS in ids
    return Hypothesis(ids[: ids.index(EOS)] if finished else ids, log_prob, finished)


def _check(source: Tensor, steps: int, name: str = "max_len") -> None:
    expect(source, "B S", "source", dtype="int")
    in_range(steps, name, low=1, integer=True)


@contextmanager
def evaluation(model: Decodable) -> Iterator[None]:
    """A context in eval mode without gradients; afterwards a network is in the mode that it was in."""
    was_training = isinstance(model, nn.Module) and model.training
    if was_training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if was_training:
            model.train()
