"""Costs: what the formulas count against torch's counter, products by hand, and searches without a formula."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from course_utils.attention import MultiHeadAttention
from course_utils.costs import (
    DECODERS,
    MACHINES,
    Bounds,
    DecoderSize,
    Machine,
    attention_cost,
    crossover_length,
    decoder_bounds,
    decoder_bytes,
    decoder_flops,
    longest_fit,
    lstm_bounds,
    lstm_bytes,
    lstm_flops,
)
from course_utils.transformer import TransformerLM

MODELS = Path(__file__).resolve().parents[1] / "data" / "models"
SMALL = DecoderSize(n_layers=3, d_model=12, n_heads=2, d_ff=20)
SIZES = st.builds(
    lambda L, H, K, F: DecoderSize(L, H * K, H, F),
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 8), st.integers(1, 64),
)  # fmt: skip
TOY = Machine({4: 1e6, 2: 2e6}, 100_000, 1e4, 1e-2)


def counted(call) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    return counter.get_total_flops()


def held(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def matrices(model: nn.Module) -> int:
    """Bytes of the parameters without biases and normalizations."""
    return held(p for p in model.parameters() if p.dim() == 2)


# ---- One layer of attention ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("B", "T", "S", "D", "H"), [(2, 5, 7, 12, 3), (1, 9, 4, 8, 8), (3, 1, 6, 10, 1)])
def test_attention_costs_what_torch_counts_and_what_it_keeps(B, T, S, D, H):
    attention = MultiHeadAttention(D, H)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    cost = attention_cost(B, T, S, D, H)
    assert cost.flops == counted(lambda: attention(x, memory, need_weights=True))
    weights, cache = attention(x, memory, need_weights=True)[1], attention.keys_values(memory)
    assert (cost.weight_bytes, cost.cache_bytes) == (held([weights]), held(cache))
    half = attention_cost(B, T, S, D, H, bytes_per_number=2)
    assert half == (cost.flops, cost.weight_bytes // 2, cost.cache_bytes // 2)


def test_the_weights_alone_depend_on_the_number_of_heads():
    one, eight = attention_cost(1, 6, 6, 16, 1), attention_cost(1, 6, 6, 16, 8)
    assert eight.weight_bytes == 8 * one.weight_bytes
    assert (eight.flops, eight.cache_bytes) == (one.flops, one.cache_bytes)


@pytest.mark.parametrize("name", ["B", "T", "S", "D", "H", "bytes_per_number"])
@pytest.mark.parametrize("value", [0, 1.5, True, "2"])
def test_attention_refuses_what_is_no_positive_integer(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: expected an integer in \[1, ∞\), got {value!r}"):
        attention_cost(**{"B": 1, "T": 2, "S": 2, "D": 4, "H": 2} | {name: value})


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="H: expected a number of heads that divides D = 8, got 3"):
        attention_cost(1, 2, 2, 8, 3)
    with pytest.raises(ValueError, match="n_heads: expected a number of heads that divides 8, got 3"):
        decoder_flops(DecoderSize(1, 8, 3, 4), 2)


# ---- Operations of a model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", [1, 2, 9])
def test_a_decoder_costs_what_torch_counts_besides_the_logits(T):
    V = 11
    model = TransformerLM(V, SMALL.d_model, SMALL.n_heads, SMALL.d_ff, SMALL.n_layers).eval()
    ids = torch.arange(T)[None] % V
    total = counted(lambda: model.attend(ids))  # written out: fused attention isn't counted by torch on a CPU
    assert sum(decoder_flops(SMALL, T)) == total - 2 * T * SMALL.d_model * V


def test_the_parts_are_those_of_its_modules():
    T, flops = 7, decoder_flops(SMALL, 7)
    model = TransformerLM(11, SMALL.d_model, SMALL.n_heads, SMALL.d_ff, SMALL.n_layers)
    x, block = torch.randn(1, T, SMALL.d_model), model.blocks[0]
    assert flops.feed_forward == SMALL.n_layers * counted(lambda: block.feed_forward(x))
    attention = MultiHeadAttention(SMALL.d_model, SMALL.n_heads)
    q, k, v = attention.project(x)
    assert flops.looking == SMALL.n_layers * counted(lambda: (q @ k.mT) @ v)
    whole = attention_cost(1, T, T, SMALL.d_model, SMALL.n_heads).flops
    assert flops.projections + flops.looking == SMALL.n_layers * whole


@pytest.mark.parametrize("T", [1, 2, 9])
def test_a_causal_kernel_counts_the_pairs_that_may_attend(T):
    full, causal = decoder_flops(SMALL, T), decoder_flops(SMALL, T, causal=True)
    pairs = int(torch.ones(T, T).tril().sum())
    assert causal.looking * T * T == full.looking * pairs
    assert (causal.projections, causal.feed_forward) == (full.projections, full.feed_forward)


@pytest.mark.parametrize("T", [1, 9])
def test_an_lstm_costs_its_products(T):
    L, D = SMALL.n_layers, SMALL.d_model
    lstm, x = nn.LSTM(D, D, L, batch_first=True), torch.randn(1, T, D)

    def by_hand():
        for layer in range(L):
            for _ in range(T):
                for W in (getattr(lstm, f"weight_ih_l{layer}"), getattr(lstm, f"weight_hh_l{layer}")):
                    x[0, :1] @ W.T

    assert lstm_flops(SMALL, T) == counted(by_hand)
    lstm, x = lstm.double(), x.double()  # in float32 it is one kernel, which torch's counter doesn't know
    assert lstm_flops(SMALL, T) == counted(lambda: lstm(x))


@settings(deadline=None, derandomize=True)
@given(size=SIZES)
def test_looking_costs_as_much_as_the_rest_at_the_crossover(size):
    T = crossover_length(size)
    projections, looking, feed_forward = decoder_flops(size, T)
    assert looking == projections + feed_forward
    longer = decoder_flops(size, T + 1)
    assert 2 * longer.looking > sum(longer)


@pytest.mark.parametrize("name", ["base of 2017", "GPT-2 small", "GPT-3"])
def test_with_a_feed_forward_layer_of_4_d_the_crossover_is_6_d(name):
    assert DECODERS[name].d_ff == 4 * DECODERS[name].d_model
    assert crossover_length(DECODERS[name]) == 6 * DECODERS[name].d_model


# ---- Bytes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_decoder_holds_what_the_model_holds(dtype):
    T, each = 9, torch.finfo(dtype).bits // 8
    model = TransformerLM(11, SMALL.d_model, SMALL.n_heads, SMALL.d_ff, SMALL.n_layers).to(dtype)
    expected = decoder_bytes(SMALL, T, each)
    assert expected.parameters == matrices(model.blocks)
    ids = torch.arange(T)[None]
    model = model.float().eval()  # half precision on a CPU isn't what is tested here
    _, state = model(ids)
    assert expected.cache * 4 == held(tensor for past in state.past for tensor in past) * each
    _, weights = model.attend(ids)
    assert expected.weights * 4 == held(weights[:1]) * each
    assert decoder_bytes(SMALL, T, each, fused=True) == expected._replace(weights=0)


def test_an_lstm_holds_the_same_whatever_it_has_read():
    L, D = SMALL.n_layers, SMALL.d_model
    lstm = nn.LSTM(D, D, L, batch_first=True)
    for T in (1, 50):
        _, state = lstm(torch.randn(1, T, D))
        assert lstm_bytes(SMALL) == (matrices(lstm), held(state))
    assert lstm_bytes(SMALL, 2) == tuple(value // 2 for value in lstm_bytes(SMALL))


@settings(deadline=None, derandomize=True)
@given(size=SIZES, memory=st.integers(1, 60_000), each=st.sampled_from([2, 4]), fused=st.booleans())
def test_the_longest_length_fits_and_the_next_one_does_not(size, memory, each, fused):
    machine = Machine({4: 1.0, 2: 1.0}, memory, 1.0, 1.0)
    T = longest_fit(size, machine, each, fused)
    assert T == 0 or sum(decoder_bytes(size, T, each, fused)) <= memory
    assert sum(decoder_bytes(size, T + 1, each, fused)) > memory


# ---- A bound on the time ------------------------------------------------------------------------------------------


def test_the_bound_of_a_decoder_is_the_largest_of_its_limits():
    T, size = 40, SMALL
    bounds = decoder_bounds(size, T, TOY, 2)
    moved = decoder_bytes(size, T, 2).parameters + 2 * size.n_layers * decoder_bytes(size, T, 2).weights
    assert bounds == pytest.approx((sum(decoder_flops(size, T)) / 2e6, moved / 1e4, size.n_layers * 1e-2))
    assert bounds.seconds == max(bounds) == getattr(bounds, bounds.limit)
    fused = decoder_bounds(size, T, TOY, 2, fused=True)
    assert fused.traffic == pytest.approx(decoder_bytes(size, T, 2).parameters / 1e4) and fused.traffic < bounds.traffic
    assert (fused.operations, fused.steps) == (bounds.operations, bounds.steps)


def test_the_steps_of_an_lstm_are_the_longest_chain_of_states_that_wait():
    """State (t, l) waits for (t - 1, l) and (t, l - 1)."""
    T, L = 6, SMALL.n_layers
    done: dict[tuple[int, int], int] = {}
    for t in range(T):
        for layer in range(L):
            done[t, layer] = 1 + max(done.get((t - 1, layer), 0), done.get((t, layer - 1), 0))
    bounds = lstm_bounds(SMALL, T, TOY)
    assert bounds.steps == pytest.approx(max(done.values()) * 1e-2)
    assert bounds.operations == pytest.approx(lstm_flops(SMALL, T) / 1e6)
    assert bounds.traffic == pytest.approx(lstm_bytes(SMALL).parameters / 1e4)


@pytest.mark.parametrize("limit", Bounds._fields)
def test_the_limit_is_named(limit):
    bounds = Bounds(**dict.fromkeys(Bounds._fields, 1.0) | {limit: 2.0})
    assert (bounds.limit, bounds.seconds) == (limit, 2.0)


@pytest.mark.parametrize("name", DECODERS)
def test_on_the_a100_an_lstm_waits_and_a_decoder_works(name):
    machine, size = MACHINES["NVIDIA A100 80 GB"], DECODERS[name]
    lengths = [2**power for power in range(4, 21)]
    decoder = [decoder_bounds(size, T, machine, 2, fused=True).seconds for T in lengths]
    lstm = [lstm_bounds(size, T, machine, 2).seconds for T in lengths]
    for curve in (decoder, lstm):
        assert all(before <= after for before, after in pairwise(curve))
    assert decoder[-1] / decoder[-2] == pytest.approx(4, rel=0.2)  # T² in the end
    assert lstm[-1] / lstm[-2] == pytest.approx(2, rel=0.01)


# ---- The named sizes ----------------------------------------------------------------------------------------------


def test_our_decoder_has_the_size_of_its_card():
    model = json.loads((MODELS / "phrases-transformer.json").read_text())["recipe"]["model"]
    expected = DecoderSize(model["decoder_layers"], model["d_model"], model["n_heads"], model["d_ff"])
    assert DECODERS["this course's"] == expected


@pytest.mark.parametrize(("name", "width_of_a_head", "parameters"), [("GPT-2 small", 64, 124e6), ("GPT-3", 128, 175e9)])
def test_published_sizes_give_the_published_numbers_of_parameters(name, width_of_a_head, parameters):
    size = DECODERS[name]
    assert size.d_model // size.n_heads == width_of_a_head
    embeddings = 50_257 * size.d_model
    assert decoder_bytes(size, 1, 1).parameters + embeddings == pytest.approx(parameters, rel=0.01)


# ---- Bad input ----------------------------------------------------------------------------------------------------

CALLS = {
    "decoder_flops": lambda size, T, each: decoder_flops(size, T),
    "crossover_length": lambda size, T, each: crossover_length(size),
    "decoder_bytes": lambda size, T, each: decoder_bytes(size, T, each),
    "lstm_flops": lambda size, T, each: lstm_flops(size, T),
    "lstm_bytes": lambda size, T, each: lstm_bytes(size, each),
    "decoder_bounds": lambda size, T, each: decoder_bounds(size, T, TOY, each),
    "lstm_bounds": lambda size, T, each: lstm_bounds(size, T, TOY, each),
    "longest_fit": lambda size, T, each: longest_fit(size, TOY, each),
}
WITH_LENGTH = {"decoder_flops", "decoder_bytes", "lstm_flops", "decoder_bounds", "lstm_bounds"}
WITH_BYTES = {"decoder_bytes", "lstm_bytes", "decoder_bounds", "lstm_bounds", "longest_fit"}


@pytest.mark.parametrize("name", CALLS)
def test_bad_input_is_refused(name):
    call = CALLS[name]
    for field in DecoderSize._fields:
        for value in (0, 2.0, True):
            with pytest.raises(ValueError, match=rf"^{field}: expected an integer in \[1, ∞\), got {value}$"):
                call(SMALL._replace(**{field: value}), 4, 4)
    with pytest.raises(ValueError, match="n_heads: expected a number of heads that divides 12, got 5"):
        call(SMALL._replace(n_heads=5), 4, 4)
    if name in WITH_LENGTH:
        with pytest.raises(ValueError, match=r"^T: expected an integer in \[1, ∞\), got 0$"):
            call(SMALL, 0, 4)
    if name in WITH_BYTES:
        with pytest.raises(ValueError, match=r"^bytes_per_number: expected an integer in \[1, ∞\), got 0$"):
            call(SMALL, 4, 0)


def test_a_machine_must_know_the_numbers_and_have_memory():
    for bounds in (decoder_bounds, lstm_bounds):
        with pytest.raises(ValueError, match="bytes_per_number: expected 4 or 2, .* got 8"):
            bounds(SMALL, 4, TOY, 8)
    with pytest.raises(ValueError, match=r"memory_bytes: expected an integer in \[1, ∞\), got 1.5"):
        longest_fit(SMALL, TOY._replace(memory_bytes=1.5))
