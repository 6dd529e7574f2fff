"""What attention costs, counted: floating-point operations and bytes.

B is the number of sequences, T and S are the numbers of tokens that ask and that are asked, D is the width of the
model, H the number of heads, K = D / H the width of a head, F that of the feed-forward layer, L the number of layers.
"""

from bisect import bisect_right
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from course_utils.shapes import in_range


class AttentionCost(NamedTuple):
    """What one layer of multi-head attention costs in a forward pass.

    flops: floating-point operations of its matrix products, a multiplication and an addition being two.
    weight_bytes: the weights of all heads, which an attention that isn't fused writes to memory.
    cache_bytes: keys and values, which a decoder keeps for the tokens to come.
    """

    flops: int
    weight_bytes: int
    cache_bytes: int


def attention_cost(B: int, T: int, S: int, D: int, H: int, bytes_per_number: int = 4) -> AttentionCost:
    """Count operations and bytes of multi-head attention with T queries and S keys, D wide, without biases.

    What is counted: the products with W_Q, W_K, W_V and W_O, all (D, D), and the two with all S keys and values, also
    where a mask then hides them.  bytes_per_number: 4 for float32.
    Raises ValueError unless all are positive integers and H divides D.
    Source: Vaswani et al. (2017), Attention is all you need, section 4 and table 1.
    """
    given = {"B": B, "T": T, "S": S, "D": D, "H": H, "bytes_per_number": bytes_per_number}
    for name, value in given.items():
        in_range(value, name, low=1, integer=True)
    if D % H:
        raise ValueError(f"H: expected a number of heads that divides D = {D}, got {H}")
    projections = 2 * B * (2 * T + 2 * S) * D * D  # queries and outputs for T tokens, keys and values for S
    looking = 2 * B * T * S * D * 2  # scores Q Kᵀ and mixtures of V; H heads of width D / H
    return AttentionCost(projections + looking, B * H * T * S * bytes_per_number, 2 * B * S * D * bytes_per_number)


class DecoderSize(NamedTuple):
    """The size of a decoder-only transformer: number of layers L, D, H, and F, the feed-forward layer's width."""

    n_layers: int
    d_model: int
    n_heads: int
    d_ff: int


class Machine(NamedTuple):
    """A simple machine: four limits, and nothing else.

    flops_per_second: highest rate of matrix products, by the bytes of a number; memory_bytes; bytes_per_second: between
    memory and processor; step_seconds: the least that one step takes when the next has to wait for it.
    """

    flops_per_second: Mapping[int, float]
    memory_bytes: int
    bytes_per_second: float
    step_seconds: float


class DecoderFlops(NamedTuple):
    """Operations of all layers: products with W_Q, W_K, W_V and W_O; scores and mixtures; those with W_1 and W_2."""

    projections: int
    looking: int
    feed_forward: int


class DecoderBytes(NamedTuple):
    """Bytes of all layers' parameters, of all layers' keys and values, and of one layer's weights of attention."""

    parameters: int
    cache: int
    weights: int


class LSTMBytes(NamedTuple):
    """Bytes of all layers' parameters, and of their hidden and cell states."""

    parameters: int
    state: int


class Bounds(NamedTuple):
    """Seconds that a pass takes at least, by three limits: operations, memory traffic and serial steps."""

    operations: float
    traffic: float
    steps: float

    @property
    def seconds(self) -> float:
        """The largest of the three."""
        return max(self)

    @property
    def limit(self) -> str:
        """The name of the largest of the three."""
        return self._fields[self.index(max(self))]


# This course's: the decoder of data/models/phrases-transformer.json, without its cross-attention.
# Base: Vaswani et al. (2017), table 3, its six layers taken as a decoder without a source.  GPT-2 small: Radford et al.
# (2019), table 2, with the heads and feed-forward width of the model that it follows, Radford et al. (2018), section
# 4.1.  GPT-3: Brown et al. (2020), table 2.1 and section 2.1 (every second layer of it looks at fewer tokens; here all
# look at all).
DECODERS: Mapping[str, DecoderSize] = MappingProxyType(
    {
        "this course's": DecoderSize(2, 128, 4, 344),
        "base of 2017": DecoderSize(6, 512, 8, 2048),
        "GPT-2 small": DecoderSize(12, 768, 12, 3072),
        "GPT-3": DecoderSize(96, 12_288, 96, 49_152),
    }
)

# The laptop: round numbers of the right size, of no product.  A100: NVIDIA (2021), A100 80GB data sheet, SXM form:
# float32, and float16 on tensor cores without sparsity.  step_seconds isn't in it: 5 µs is a round number for the start
# of one kernel.
MACHINES: Mapping[str, Machine] = MappingProxyType(
    {
        "rounded laptop": Machine({4: 1e12, 2: 1e12}, 16 * 10**9, 1e11, 1e-5),
        "NVIDIA A100 80 GB": Machine({4: 19.5e12, 2: 312e12}, 80 * 10**9, 2.039e12, 5e-6),
    }
)


def decoder_flops(size: DecoderSize, T: int, causal: bool = False) -> DecoderFlops:
    """Count the operations of one forward pass over T tokens: 8 T D² L, 4 T² D L and 4 T D F L.

    causal: count only the T (T + 1) / 2 pairs that a causal mask leaves, as a kernel does that skips the others.
    Not counted: embeddings and logits, softmax, normalizations, biases.
    Raises ValueError unless all are positive integers and H divides D.
    Source: Vaswani et al. (2017), table 1; Kaplan et al. (2020), Scaling laws for neural language models, table 1.
    """
    L, D, _, F = _checked(size, T)
    pairs = T * (T + 1) // 2 if causal else T * T
    return DecoderFlops(8 * T * D * D * L, 4 * pairs * D * L, 4 * T * D * F * L)


def crossover_length(size: DecoderSize) -> int:
    """The length at which looking costs as much as everything else: 4 T² D = 8 T D² + 4 T D F gives T = 2 D + F.

    That is 6 D with F = 4 D.  A kernel that skips what a causal mask hides needs nearly twice that.
    Raises ValueError as `decoder_flops`.
    """
    _, D, _, F = _checked(size)
    return 2 * D + F


def decoder_bytes(size: DecoderSize, T: int, bytes_per_number: int = 4, fused: bool = False) -> DecoderBytes:
    """Count the bytes of a decoder that has read T tokens.

    Parameters: L (4 D² + 2 D F) numbers; cache: 2 L T D; weights of one layer: H T² if they are written out, none if
    the attention is fused (one layer after the other may use the same place).
    Not counted: embeddings, other intermediate results.
    Raises ValueError as `decoder_flops`, and for bytes_per_number that isn't a positive integer.
    Source of the fused attention: Dao et al. (2022), FlashAttention.
    """
    L, D, H, F = _checked(size, T, bytes_per_number)
    numbers = L * (4 * D * D + 2 * D * F), 2 * L * T * D, 0 if fused else H * T * T
    return DecoderBytes(*(count * bytes_per_number for count in numbers))


def lstm_flops(size: DecoderSize, T: int) -> int:
    """Count the operations of an LSTM as wide and as deep over T tokens: 16 T D² L, for four gates that read x and h.

    Not counted: embeddings and logits, what is done number by number.  Raises ValueError as `decoder_flops`.
    Source: Hochreiter and Schmidhuber (1997), Long short-term memory, with the forget gate of Gers et al. (2000).
    """
    L, D, _, _ = _checked(size, T)
    return 16 * T * D * D * L


def lstm_bytes(size: DecoderSize, bytes_per_number: int = 4) -> LSTMBytes:
    """Count the bytes of an LSTM as wide and as deep, whatever it has read: 8 D² L parameters, and a state of 2 L D.

    Raises ValueError as `decoder_bytes`.
    """
    L, D, _, _ = _checked(size, 1, bytes_per_number)
    return LSTMBytes(8 * D * D * L * bytes_per_number, 2 * L * D * bytes_per_number)


def decoder_bounds(
    size: DecoderSize, T: int, machine: Machine, bytes_per_number: int = 4, fused: bool = False
) -> Bounds:
    """What a machine needs at least, at its full rate, for one forward pass over T tokens: a bound, no prediction.

    Traffic: parameters once, and the weights of all layers once out and once back if they are written out.  Serial
    steps: L, since a layer waits for the one below and for nothing else.
    Raises ValueError as `decoder_bytes`, and if the machine has no rate for these numbers.
    Source: Williams, Waterman and Patterson (2009), Roofline.
    """
    held = decoder_bytes(size, T, bytes_per_number, fused)
    moved = held.parameters + 2 * size.n_layers * held.weights
    return _bounds(machine, bytes_per_number, sum(decoder_flops(size, T)), moved, size.n_layers)


def lstm_bounds(size: DecoderSize, T: int, machine: Machine, bytes_per_number: int = 4) -> Bounds:
    """The same for an LSTM as wide and as deep.

    Traffic: parameters once, as if they then stayed near the processor; a large LSTM reads them at every token.
    Serial steps: T + L - 1, the longest chain of tokens and layers that wait for one another; T L where one layer runs
    after the other.
    Raises ValueError as `decoder_bounds`.
    Source: Appleyard, Kočiský and Blunsom (2016), Optimizing performance of recurrent neural networks on GPUs.
    """
    moved = lstm_bytes(size, bytes_per_number).parameters
    return _bounds(machine, bytes_per_number, lstm_flops(size, T), moved, T + size.n_layers - 1)


def longest_fit(size: DecoderSize, machine: Machine, bytes_per_number: int = 4, fused: bool = False) -> int:
    """The largest number of tokens at which parameters, cache and weights fit the machine's memory; 0 if none does.

    Raises ValueError as `decoder_bytes`.
    """
    _checked(size, 1, bytes_per_number)
    memory = in_range(machine.memory_bytes, "memory_bytes", low=1, integer=True)

    def needed(T: int) -> int:
        return sum(decoder_bytes(size, T, bytes_per_number, fused))

    return bisect_right(range(1, memory + 1), memory, key=needed)  # a token takes a byte at least


def _bounds(machine: Machine, bytes_per_number: int, flops: int, moved: int, steps: int) -> Bounds:
    if bytes_per_number not in machine.flops_per_second:
        known = " or ".join(map(str, machine.flops_per_second))
        raise ValueError(f"bytes_per_number: expected {known}, as the machine has rates for, got {bytes_per_number}")
    rate = machine.flops_per_second[bytes_per_number]
    return Bounds(flops / rate, moved / machine.bytes_per_second, steps * machine.step_seconds)


def _checked(size: DecoderSize, T: int = 1, bytes_per_number: int = 4) -> DecoderSize:
    for name, value in (*size._asdict().items(), ("T", T), ("bytes_per_number", bytes_per_number)):
        in_range(value, name, low=1, integer=True)
    if size.d_model % size.n_heads:
        raise ValueError(f"n_heads: expected a number of heads that divides {size.d_model}, got {size.n_heads}")
    return size
