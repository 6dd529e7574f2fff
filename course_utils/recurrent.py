"""Recurrent networks: forward and backward by hand in NumPy, gradient flow measured, a language model in torch.

Shapes follow the formula h_t = tanh(W_x x_t + W_h h_{t-1} + b_h): weights are stored (out, in), T is the number of
steps, d_in the width of an input and d_h the width of the state.  Row t of an array holds step t+1 of the formula.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from course_utils.corpora import BOS, EOS, PAD
from course_utils.shapes import expect, in_range

Array = NDArray[np.floating]
State = Tensor | tuple[Tensor, Tensor]  # of an RNN or GRU; of an LSTM: (h, c)
CELLS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def rnn_forward(x: Array, Wx: Array, Wh: Array, b: Array, h0: Array) -> Array:
    """Run h_t = tanh(Wx x_t + Wh h_{t-1} + b) over a sequence and return every state.

    x: (T, d_in) one input per row; Wx: (d_h, d_in); Wh: (d_h, d_h); b: (d_h,); h0: (d_h,) the state before step 1.
    Returns hs: (T, d_h), where hs[t] is the state after x[t] was read (h0 is not among them).
    Raises ValueError when a shape does not fit or a value is not finite.
    Source: Elman (1990), Finding structure in time.
    """
    _expect_weights(Wx, Wh, _expect_sequence(x, b=b, h0=h0))
    h, hs = h0, []
    for x_t in x:
        h = np.tanh(Wx @ x_t + Wh @ h + b)  # (d_h,)
        hs.append(h)
    return np.stack(hs)  # (T, d_h)


def rnn_backward(x: Array, hs: Array, h0: Array, Wx: Array, Wh: Array, dhs: Array) -> tuple[Array, Array, Array]:
    """Back-propagation through time: the gradient of a loss with respect to Wx, Wh and b.

    x: (T, d_in) and h0: (d_h,) went into rnn_forward, hs: (T, d_h) came out of it; Wx: (d_h, d_in); Wh: (d_h, d_h).
    dhs: (T, d_h), where dhs[t] is the gradient of the loss with respect to hs[t] through everything except hs[t+1]
    (the loss that is attached to step t itself).
    Returns (dWx, dWh, db), each of the shape of its weight: sums over all steps.  No argument is changed.
    Raises ValueError when a shape does not fit or a value is not finite.
    Source: Werbos (1990), Backpropagation through time: what it does and how to do it.
    """
    _expect_weights(Wx, Wh, _expect_sequence(x, h0=h0, hs=hs, dhs=dhs))
    dWx, dWh, db = np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(h0)
    dh_next = np.zeros_like(h0)  # what arrives at h_t from h_{t+1}
    for t in reversed(range(len(x))):
        dz = (dhs[t] + dh_next) * (1 - hs[t] ** 2)  # (d_h,) gradient at the argument of tanh
        h_prev = hs[t - 1] if t > 0 else h0
        dWx += np.outer(dz, x[t])
        dWh += np.outer(dz, h_prev)
        db += dz
        dh_next = Wh.T @ dz
    return dWx, dWh, db


def step_jacobians(hs: Array, Wh: Array) -> Array:
    """The Jacobian of each state with respect to the one before: J_t = diag(1 - h_t^2) Wh.

    hs: (T, d_h) states of a tanh network; Wh: (d_h, d_h).
    Returns (T, d_h, d_h); entry t is dh_t/dh_{t-1}.
    Source: Pascanu, Mikolov and Bengio (2013), section 2 (the factors of their equation 5).
    """
    sizes = expect(hs, "T d_h", "hs", dtype="float", finite=True)
    expect(Wh, "d_h d_h", "Wh", dtype="float", finite=True, **sizes)
    return (1 - hs**2)[:, :, None] * Wh  # (T, d_h, d_h)


def jacobian_norms(hs: Array, Wh: Array) -> Array:
    """How much of a small change of an early state is left in the last one, by lag.

    hs: (T, d_h) states of a tanh network; Wh: (d_h, d_h).
    Returns (T,): entry k is the spectral norm of dh_T/dh_{T-k}, the product of the last k step Jacobians
    (k = 0: the identity, norm 1).
    Source: Pascanu, Mikolov and Bengio (2013), section 2.
    """
    jacobians = step_jacobians(hs, Wh)
    product, norms = np.eye(len(Wh)), []
    for J in jacobians[::-1]:
        norms.append(np.linalg.norm(product, 2))
        product = product @ J  # (d_h, d_h)
    return np.array(norms)


def gradient_by_lag(x: Array, hs: Array, h0: Array, Wx: Array, Wh: Array, dh_T: Array) -> Array:
    """Split dL/dWh of a loss at the last step into the contributions of the single steps.

    Arguments as in rnn_backward; dh_T: (d_h,) gradient of the loss with respect to the last state.
    Returns (T, d_h, d_h): entry k is what the use of Wh k steps before the end contributes, (dL/dh_{T-k}) times the
    immediate derivative of h_{T-k}; the sum over k is the whole gradient.
    Source: Pascanu, Mikolov and Bengio (2013), equation 4.
    """
    sizes = _expect_sequence(x, h0=h0, hs=hs)
    expect(dh_T, "d_h", "dh_T", dtype="float", finite=True, d_h=sizes["d_h"])
    _expect_weights(Wx, Wh, sizes)
    dh, parts = dh_T, []
    for t in reversed(range(len(x))):
        dz = dh * (1 - hs[t] ** 2)  # (d_h,)
        parts.append(np.outer(dz, hs[t - 1] if t > 0 else h0))
        dh = Wh.T @ dz
    return np.stack(parts)  # (T, d_h, d_h)


class RecurrentLM(nn.Module):
    """A language model p(x_{t+1} | x_1 … x_t) = softmax(W_y h_t + b_y) over token ids, with a recurrent layer.

    vocab_size: number of token ids; d_embed: width of a token's vector; d_h: width of the state;
    cell: "rnn" (tanh), "lstm" or "gru".
    Raises ValueError when a size is not a positive integer or there is no such cell.
    Source: Mikolov et al. (2010), Recurrent neural network based language model.
    """

    def __init__(self, vocab_size: int, d_embed: int, d_h: int, cell: str = "rnn"):
        super().__init__()
        for name, value in (("vocab_size", vocab_size), ("d_embed", d_embed), ("d_h", d_h)):
            in_range(value, name, low=1, integer=True)
        self.vocab_size = vocab_size
        self.embed = nn.Embedding(vocab_size, d_embed, padding_idx=PAD)
        self.rnn = _cell(cell)(d_embed, d_h, batch_first=True)
        self.out = nn.Linear(d_h, vocab_size)

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Score every next token.

        tokens: (B, T) ids; state: (1, B, d_h), of an LSTM a pair of them, or None for zeros.
        Returns logits (B, T, V), where logits[:, t] scores the token after tokens[:, t], and the last state
        (1, B, d_h).
        Raises ValueError when tokens is not an integer (B, T) tensor or an id is outside the vocabulary.
        """
        expect(tokens, "B T", "tokens", dtype="int")
        for token in (int(tokens.min()), int(tokens.max())):
            in_range(token, "tokens", low=0, high=self.vocab_size - 1, integer=True)
        hs, state = self.rnn(self.embed(tokens), state)  # (B, T, d_h), (1, B, d_h)
        return self.out(hs), state  # (B, T, V), (1, B, d_h)

    @torch.no_grad()
    def sample(self, n: int, *, max_len: int, generator: torch.Generator, temperature: float = 1.0) -> list[list[int]]:
        """Draw n sequences token by token, each from <bos> up to and without <eos>.

        n: how many; max_len: longest sequence in tokens; temperature: > 0, below 1 sharpens the distribution.
        Returns n lists of ids.  Raises ValueError when a number is out of range.
        """
        in_range(n, "n", low=1, integer=True)
        in_range(max_len, "max_len", low=1, integer=True)
        in_range(temperature, "temperature", low=0, low_open=True)
        token, state, columns = torch.full((n, 1), BOS), None, []
        for _ in range(max_len):
            logits, state = self(token, state)  # (n, 1, V)
            logits[..., [PAD, BOS]] = -torch.inf  # never part of a sequence
            p = torch.softmax(logits[:, -1] / temperature, dim=-1)  # (n, V)
            token = torch.multinomial(p, 1, generator=generator)  # (n, 1)
            columns.append(token)
        rows = torch.cat(columns, dim=1).tolist()
        return [row[: row.index(EOS)] if EOS in row else row for row in rows]


class LastStateClassifier(nn.Module):
    """Reads a sequence of symbols with a recurrent layer and classifies it from the state after the last one.

    n_symbols: number of symbols, and of classes; d_h: width of the embedding and of the state;
    cell: "rnn" (tanh), "lstm" or "gru".
    Raises ValueError when a size is not a positive integer or there is no such cell.
    """

    def __init__(self, n_symbols: int, d_h: int, cell: str = "rnn"):
        super().__init__()
        for name, value in (("n_symbols", n_symbols), ("d_h", d_h)):
            in_range(value, name, low=1, integer=True)
        self.embed = nn.Embedding(n_symbols, d_h)
        self.rnn = _cell(cell)(d_h, d_h, batch_first=True)
        self.out = nn.Linear(d_h, n_symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (B, T) ids; returns one row of class scores a sequence, (B, n_symbols)."""
        expect(tokens, "B T", "tokens", dtype="int")
        hs, _ = self.rnn(self.embed(tokens))  # (B, T, d_h)
        return self.out(hs[:, -1])  # (B, n_symbols)


def memory_curve(hs: Array, inputs: Array, max_lag: int) -> Array:
    """How well a linear read-out of the state recovers an input, by lag.

    hs: (T, d_h) states of a network that was driven by inputs (T,), independent random numbers.
    Returns (max_lag,): entry k is the share of the variance of inputs[t-k] that the best linear function of hs[t]
    explains (R squared), fitted on the first half of the steps and measured on the second (so that it can fall
    a little below 0 where nothing is left).
    Its sum over all lags, the memory capacity, cannot exceed d_h.
    Raises ValueError when a shape does not fit or the sequence is shorter than 4 (d_h + max_lag).
    Source: Jaeger (2001), Short term memory in echo state networks, definition 1 and proposition 2.
    """
    sizes = expect(hs, "T d_h", "hs", dtype="float", finite=True)
    expect(inputs, "T", "inputs", dtype="float", finite=True, T=sizes["T"])
    in_range(max_lag, "max_lag", low=1, integer=True)
    in_range(sizes["T"], "the length of hs", low=4 * (sizes["d_h"] + max_lag), integer=True)
    states = np.column_stack([hs, np.ones(len(hs))])[max_lag:]  # (N, d_h + 1); the ones give the read-out a bias
    half, curve = len(states) // 2, []
    for lag in range(max_lag):
        target = inputs[max_lag - lag : len(inputs) - lag]  # (N,)
        weights, *_ = np.linalg.lstsq(states[:half], target[:half], rcond=None)
        residual = target[half:] - states[half:] @ weights
        curve.append(1 - residual.var() / target[half:].var())
    return np.array(curve)


def _cell(name: str) -> type[nn.RNNBase]:
    if name not in CELLS:
        raise ValueError(f"cell: expected one of {', '.join(CELLS)}, got {name!r}")
    return CELLS[name]


def _expect_sequence(x: Array, **arrays: Array) -> dict[str, int]:
    """Check x (T, d_in) and arrays over time (hs, dhs: (T, d_h)) or of one step ((d_h,)); return the sizes."""
    sizes = expect(x, "T d_in", "x", dtype="float", finite=True)
    for name, array in arrays.items():
        spec = "T d_h" if name in ("hs", "dhs") else "d_h"
        sizes = expect(array, spec, name, dtype="float", finite=True, **sizes)
    return sizes


def _expect_weights(Wx: Array, Wh: Array, sizes: dict[str, int]) -> None:
    expect(Wx, "d_h d_in", "Wx", dtype="float", finite=True, **sizes)
    expect(Wh, "d_h d_h", "Wh", dtype="float", finite=True, **sizes)
