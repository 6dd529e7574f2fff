"""A task that only attention can solve, small enough to be learned in seconds, and several networks trained at once.

A dictionary has S entries, each with a random vector as its key and one of C colors.  A question is one of the keys,
rotated; the answer is the color of that entry.  `Lookup` answers with one attention head, whose logits can be scaled in
several ways; `train_lookup` trains it.  R networks are trained side by side, from R starts and on data of their own.

B is the number of questions of a batch, D the width of keys and questions, K that of the head's queries and keys.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.shapes import expect, in_range

WIDTH = 16  # D
ENTRIES = 16  # S
COLORS = 8  # C
BATCH = 32
KINDS = ("dot", "cosine", "additive")


def rotation(seed: int = 0) -> Tensor:
    """The rotation (D, D) that turns a key into the question about it: a random orthogonal matrix."""
    generator = torch.Generator().manual_seed(in_range(seed, "seed", low=0, integer=True))
    return torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator)).Q


class Batch(NamedTuple):
    """Questions (R, B, D), keys (R, B, S, D), colors (R, B, S) as ids, and the index of the entry asked for (R, B)."""

    questions: Tensor
    keys: Tensor
    colors: Tensor
    asked: Tensor

    @property
    def answers(self) -> Tensor:
        """The color of the entry that is asked for, (R, B)."""
        return self.colors.take_along_dim(self.asked[..., None], dim=2)[..., 0]


def draw(R: int, B: int, generator: torch.Generator, turn: Tensor) -> Batch:
    """B questions for each of R networks; turn: the rotation (D, D).

    The entries of keys, and so of questions, are independent with mean 0 and variance 1.
    Raises ValueError when R, B or the shape of turn does not fit.
    """
    for name, value in (("R", R), ("B", B)):
        in_range(value, name, low=1, integer=True)
    expect(turn, "D D", "turn", dtype="float", D=WIDTH)
    keys = torch.randn(R, B, ENTRIES, WIDTH, generator=generator)
    colors = torch.randint(COLORS, (R, B, ENTRIES), generator=generator)
    asked = torch.randint(ENTRIES, (R, B), generator=generator)
    questions = keys.take_along_dim(asked[..., None, None], dim=2)[:, :, 0] @ turn
    return Batch(questions, keys, colors, asked)


class Lookup(nn.Module):
    """R separate networks, each with one attention head that looks a question up among keys.

    d_k: K, the width of queries and keys; scale: the logits are multiplied by it; learned: it is where a learned
    temperature starts; gain: the standard deviation of the entries of a query and a key at the start.
    kind: "dot" for q · k, "cosine" for the cosine of their angle, "additive" for v · tanh(q + k), Var v_l = 1/K.
    values_given: W_V starts as the identity, where each color already stands for itself.
    Raises ValueError for numbers out of range and another kind.
    """

    def __init__(
        self,
        d_k: int,
        scale: float,
        R: int,
        *,
        kind: str = "dot",
        gain: float = 1.0,
        learned: bool = False,
        values_given: bool = False,
        seed: int = 0,
    ):
        super().__init__()
        for name, value in (("d_k", d_k), ("R", R)):
            in_range(value, name, low=1, integer=True)
        for name, value in (("scale", scale), ("gain", gain)):
            in_range(value, name, low=0, low_open=True)
        if kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
        generator = torch.Generator().manual_seed(in_range(seed, "seed", low=0, integer=True))

        def normal(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(R, *shape, generator=generator) / math.sqrt(shape[0]))

        self.kind = kind
        self.Wv = normal(COLORS, COLORS)  # row c: the value of an entry of color c, as logits of the answer
        if values_given:
            self.Wv.data = torch.eye(COLORS).repeat(R, 1, 1)
        self.Wq, self.Wk = normal(WIDTH, d_k), normal(WIDTH, d_k)
        with torch.no_grad():
            self.Wq.mul_(gain)
            self.Wk.mul_(gain)
        if kind == "additive":
            self.v = normal(d_k, 1)
        self.log_scale = nn.Parameter(torch.full((R, 1, 1), math.log(scale)), requires_grad=learned)

    def logits(self, questions: Tensor, keys: Tensor) -> Tensor:
        """The scaled scores (R, B, S) of questions (R, B, D) with keys (R, B, S, D)."""
        q = questions @ self.Wq  # (R, B, K)
        if self.kind == "additive":
            k = keys @ self.Wk[:, None]  # (R, B, S, K)
            scores = (torch.tanh(q[:, :, None] + k) @ self.v[:, None])[..., 0]
        else:  # q · (x W_K) = (q W_K^T) · x: the same number with less work
            scores = torch.einsum("rbd,rbsd->rbs", q @ self.Wk.mT, keys)
        if self.kind == "cosine":  # |x W_K|² = (x W_K W_K^T) · x, for the same reason
            lengths = ((keys @ (self.Wk @ self.Wk.mT)[:, None]) * keys).sum(-1).sqrt()  # (R, B, S)
            scores = scores / (q.norm(dim=-1, keepdim=True) * lengths)
        return scores * self.log_scale.exp()

    def answer(self, colors: Tensor, logits: Tensor) -> Tensor:
        """Logits (R, B, C) of the answer: the values of entries with colors (R, B, S), weighted by attention."""
        values = F.one_hot(colors, COLORS).to(logits.dtype) @ self.Wv[:, None]  # (R, B, S, C)
        return torch.einsum("rbs,rbsc->rbc", torch.softmax(logits, dim=-1), values)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (R, B, C) of the answers to a batch."""
        return self.answer(batch.colors, self.logits(batch.questions, batch.keys))

    def query_gradients(self, batch: Batch) -> Tensor:
        """The norm (R, B) of the gradient that each query receives from its loss; ValueError unless kind is "dot"."""
        if self.kind != "dot":
            raise ValueError(f'kind: expected "dot", got {self.kind!r}')
        logits = self.logits(batch.questions, batch.keys)
        loss = _losses(self.answer(batch.colors, logits), batch.answers).sum()
        by_logit = torch.autograd.grad(loss, logits)[0]  # (R, B, S)
        by_query = torch.einsum("rbs,rbsd->rbd", by_logit, batch.keys) @ self.Wk  # (R, B, K)
        return (by_query * self.log_scale.exp()).norm(dim=-1).detach()


def _losses(scores: Tensor, answers: Tensor) -> Tensor:
    """The cross-entropy of each answer (R, B) by its scores (R, B, C)."""
    return F.cross_entropy(scores.flatten(0, 1), answers.flatten(), reduction="none").view(answers.shape)


@dataclass(frozen=True)
class Run:
    """What a training run left behind: accuracies (steps, R), gradient norms of W_Q (steps, R), and the networks."""

    accuracy: Tensor
    gradient: Tensor
    model: Lookup

    def at(self, step: int) -> Tensor:
        """The share of right answers of each network in the 20 steps up to a step of the run: (R,)."""
        in_range(step, "step", low=1, high=len(self.accuracy), integer=True)
        return self.accuracy[max(step - 20, 0) : step].mean(0)

    def curve(self, window: int = 10) -> Tensor:
        """The median accuracy of the networks, averaged over `window` steps at a time: (steps // window,)."""
        steps = len(self.accuracy) // window * window
        return self.accuracy[:steps].unflatten(0, (-1, window)).mean(1).median(1).values


def train_lookup(
    model: Lookup,
    steps: int = 300,
    lr: float = 0.01,
    *,
    lr_qk: float | None = None,
    seed: int = 0,
    pointer: bool = False,
) -> Run:
    """Train R networks with Adam, each batch new, and return their accuracies on a batch before they learn from it.

    lr_qk: the learning rate of W_Q and W_K, where it is another one.
    pointer: the loss is the cross-entropy of the attention weights themselves, and the values play no part.
    Raises ValueError for steps or a learning rate out of range.
    """
    in_range(steps, "steps", low=1, integer=True)
    lr_qk = lr if lr_qk is None else lr_qk
    for name, value in (("lr", lr), ("lr_qk", lr_qk)):
        in_range(value, name, low=0, low_open=True)
    generator, turn = torch.Generator().manual_seed(in_range(seed, "seed", low=0, integer=True) + 1), rotation(seed)
    R = len(model.Wq)
    groups = [
        {"params": [p], "lr": lr_qk if name in ("Wq", "Wk") else lr}
        for name, p in model.named_parameters()
        if p.requires_grad
    ]
    optimizer = torch.optim.Adam(groups)
    accuracy, gradient = torch.empty(steps, R), torch.empty(steps, R)
    for step in range(steps):
        batch = draw(R, BATCH, generator, turn)
        if pointer:
            scores, answers = model.logits(batch.questions, batch.keys), batch.asked  # (R, B, S)
        else:
            scores, answers = model(batch), batch.answers  # (R, B, C)
        optimizer.zero_grad()
        _losses(scores, answers).mean(1).sum().backward()  # a sum over networks: none of them notices the others
        optimizer.step()
        accuracy[step] = (scores.argmax(-1) == answers).float().mean(1)
        gradient[step] = model.Wq.grad.flatten(1).norm(dim=1)
    return Run(accuracy, gradient, model)
