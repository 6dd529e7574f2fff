"""Positions: the formulas, and what is left of a place in a dot product."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.attention import causal_mask, scaled_dot_product_attention
from course_utils.positions import alibi, rotate, sinusoidal_positions, slopes

places = st.integers(0, 300)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def near(a, b, tolerance=1e-12):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


# Sinusoidal


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_positions_are_sines_and_cosines_in_turn(d):
    found = sinusoidal_positions(7, d)
    assert found.shape == (7, d) and found.dtype == torch.float32
    for t in range(7):
        for i in range(d):
            angle = t / 10_000 ** (2 * (i // 2) / d)
            assert found[t, i].item() == pytest.approx(math.sin(angle) if i % 2 == 0 else math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_a_shift_by_k_places_is_the_same_rotation_everywhere(k):
    d, table = 8, sinusoidal_positions(200, 8).double()
    R = torch.zeros(d, d, dtype=torch.float64)
    for i in range(0, d, 2):
        angle = k / 10_000 ** (i / d)
        R[i, i] = R[i + 1, i + 1] = math.cos(angle)
        R[i, i + 1], R[i + 1, i] = math.sin(angle), -math.sin(angle)  # of pairs (sin, cos)
    near(table[:-k] @ R.T, table[k:], 1e-6)


def test_far_places_are_as_exact_as_near_ones():
    table = sinusoidal_positions(20_000, 2)
    near(table[-1].double(), torch.tensor([math.sin(19_999), math.cos(19_999)], dtype=torch.float64), 1e-7)


# Rotary


@given(st.integers(1, 4), st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_pairs_are_turned_as_complex_numbers(half, start):
    x = normal(2, 3, 5, 2 * half)
    i, t = torch.arange(half).double(), torch.arange(start, start + 5).double()
    turn = torch.exp(1j * t[:, None] / 10_000 ** (i / half))  # (T, K/2)
    expected = torch.view_as_real(torch.complex(x[..., 0::2], x[..., 1::2]) * turn).flatten(-2)
    near(rotate(x, start), expected)


@given(places, places, st.integers(0, 500))
@settings(max_examples=30, deadline=None)
def test_a_dot_product_depends_on_the_distance_alone(first, second, shift):
    q, k = normal(1, 8, seed=1), normal(1, 8, seed=2)
    near(rotate(q, first) @ rotate(k, second).mT, rotate(q, first + shift) @ rotate(k, second + shift).mT, 1e-9)
    if first != second:  # and it does depend on the distance
        assert not torch.allclose(rotate(q, first) @ rotate(k, second).mT, q @ k.mT, atol=1e-4, rtol=0)


@given(places)
@settings(max_examples=20, deadline=None)
def test_lengths_are_kept_and_place_0_is_not_turned(start):
    x = normal(3, 4, 6)
    near(rotate(x, start).norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotate(x)[:, 0], x[:, 0]) and not torch.allclose(rotate(x)[:, 1], x[:, 1])


@given(st.integers(0, 6))
@settings(max_examples=7, deadline=None)
def test_the_start_says_where_the_first_token_stands(start):
    x = normal(2, 3, 7, 4)
    near(rotate(x[:, :, start:], start) if start < 7 else x, rotate(x)[:, :, start:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_dtype_stays(dtype):
    x = normal(2, 5, 4).to(dtype)
    assert rotate(x, 1000).dtype == dtype
    near(rotate(x, 1000).double(), rotate(x.double(), 1000), 0.05 if dtype == torch.bfloat16 else 1e-6)


def test_gradients_of_a_rotation():
    assert torch.autograd.gradcheck(lambda x: rotate(x, 3), normal(2, 3, 4).requires_grad_())


# Linear biases


@given(st.integers(1, 5), st.integers(1, 8), places)
@settings(max_examples=30, deadline=None)
def test_biased_scores_fall_in_a_straight_line_with_the_distance(H, T, start):
    q, k, v = normal(2, H, T, 3), normal(2, H, T, 3), normal(2, H, T, 4)
    place = torch.arange(T).double()
    slope = torch.tensor([2 ** (-8 * h / H) for h in range(1, H + 1)], dtype=torch.float64)
    scores = q @ k.mT / 3**0.5 - slope[:, None, None] * (place[:, None] - place)
    weights = scores.masked_fill(place[:, None] < place, -torch.inf).softmax(dim=-1)
    wide_q, wide_k = alibi(q, k, start)
    near(scaled_dot_product_attention(wide_q, wide_k, v, causal_mask(T))[0], weights @ v, 1e-6)


def test_the_slopes_of_eight_heads_are_those_of_the_paper():
    near(slopes(8).double(), torch.tensor([1 / 2**n for n in range(1, 9)]).double(), 1e-7)


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sinusoidal_positions(3, 0), "d: expected an integer"),
        (lambda: sinusoidal_positions(0, 3), "T: expected an integer"),
        (lambda: sinusoidal_positions(3, 2.0), "d: expected an integer"),
        (lambda: rotate(normal(2, 3, 5)), "x: expected an even width, pairs of numbers, got 5"),
        (lambda: rotate(normal(4)), "x: expected shape"),
        (lambda: rotate(normal(3, 4).long()), "x: expected dtype float"),
        (lambda: rotate(normal(3, 4), -1), r"start: expected an integer in \[0, ∞\), got -1"),
        (lambda: rotate(normal(3, 4), 0.5), "start: expected an integer"),
        (lambda: alibi(normal(4, 3), normal(4, 3)), "q: expected shape"),
        (lambda: alibi(normal(2, 4, 3), normal(2, 5, 3)), "k: expected shape"),
        (lambda: alibi(normal(2, 4, 3), normal(2, 4, 3), -1), "start: expected an integer"),
        (lambda: slopes(0), "H: expected an integer"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
