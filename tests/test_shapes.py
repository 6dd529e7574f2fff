"""Shapes: `expect` and `in_range` accept what fits, and refuse the rest with a sentence that helps."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.shapes import expect, in_range

SETTINGS = settings(deadline=None, derandomize=True)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
MAKERS = [np.zeros, torch.zeros]


@pytest.mark.parametrize("make", MAKERS)
def test_names_are_bound_and_checks_chain(make):
    sizes = expect(make((5, 3)), "T d_in", "x")
    assert sizes == {"T": 5, "d_in": 3}
    sizes = expect(make((4, 3)), "d_h d_in", "Wx", **sizes)
    assert sizes == {"T": 5, "d_in": 3, "d_h": 4}
    with pytest.raises(ValueError, match=r"^Wh: expected shape \(d_h, d_h\) = \(4, 4\), got \(4, 3\)$"):
        expect(make((4, 3)), "d_h d_h", "Wh", **sizes)


@pytest.mark.parametrize(
    ("shape", "spec", "sizes", "message"),
    [
        ((2, 3), "B T D", {}, "a: expected shape (B, T, D), got (2, 3)"),
        ((2, 3), "B T D", {"D": 4}, "a: expected shape (B, T, D) = (B, T, 4), got (2, 3)"),
        ((2, 3, 5), "B T D", {"D": 4}, "a: expected shape (B, T, D) = (2, 3, 4), got (2, 3, 5)"),
        ((3,), "2", {}, "a: expected shape (2,), got (3,)"),
        ((4, 3), "N N", {}, "a: expected shape (N, N) = (4, 4), got (4, 3)"),
        ((2, 0), "B T", {}, "a: expected shape (B, T) with T at least 1, got (2, 0)"),
        ((), "T", {}, "a: expected shape (T,), got ()"),
        ((2,), "", {}, "a: expected shape (), got (2,)"),
        ((2,), "... T D", {}, "a: expected shape (..., T, D), got (2,)"),
        ((9, 2, 3), "... T D", {"D": 4}, "a: expected shape (..., T, D) = (..., 2, 4), got (9, 2, 3)"),
    ],
)
@pytest.mark.parametrize("make", MAKERS)
def test_a_wrong_shape_is_named_with_what_was_expected(make, shape, spec, sizes, message):
    with pytest.raises(ValueError) as caught:
        expect(make(shape), spec, "a", **sizes)
    assert str(caught.value) == message


def test_a_question_mark_lets_a_size_be_zero_and_binds_the_name_without_it():
    assert expect(np.zeros((2, 0)), "B T?") == {"B": 2, "T": 0}
    with pytest.raises(ValueError, match=r"expected shape \(B, T\) = \(2, 0\)"):
        expect(np.zeros((2, 1)), "B T", T=0, B=2)


@SETTINGS
@given(shape=SHAPES, wanted=SHAPES, make=st.sampled_from(MAKERS))
def test_integers_in_a_spec_accept_that_shape_and_no_other(shape, wanted, make):
    spec = " ".join(map(str, wanted))
    if shape == wanted:
        assert expect(make(shape), spec) == {}
    else:
        with pytest.raises(ValueError, match="^x: expected shape"):
            expect(make(shape), spec)


@SETTINGS
@given(shape=SHAPES, names=st.lists(st.sampled_from("ABC"), max_size=4), leading=st.booleans())
def test_names_in_a_spec_agree_with_an_independent_reading(shape, names, leading):
    tail = shape[len(shape) - len(names) :] if len(shape) >= len(names) else None
    fits = tail is not None and (leading or len(shape) == len(names)) and 0 not in tail
    fits = fits and len(set(zip(names, tail, strict=True))) == len(set(names))
    spec = " ".join(["..."] * leading + names)
    if fits:
        assert expect(torch.zeros(shape), spec) == dict(zip(names, tail, strict=True))
    else:
        with pytest.raises(ValueError, match="^x: expected shape"):
            expect(torch.zeros(shape), spec)


@pytest.mark.parametrize("value", [[1.0, 2.0], (1,), 3, 2.5, "text", None, {1: 2}])
def test_only_arrays_are_arrays(value):
    with pytest.raises(ValueError, match=f"^x: expected an array, got {type(value).__name__}"):
        expect(value, "T")


DTYPES = {
    "float": [np.float16, np.float32, np.float64, torch.float32, torch.float64, torch.bfloat16],
    "int": [np.int8, np.int64, np.uint8, torch.int32, torch.int64, torch.uint8],
    "bool": [np.bool_, torch.bool],
    None: [np.complex64, torch.complex64],
}


@pytest.mark.parametrize("wanted", ["float", "int", "bool"])
@pytest.mark.parametrize(("kind", "dtype"), [(kind, dtype) for kind, dtypes in DTYPES.items() for dtype in dtypes])
def test_dtypes(wanted, kind, dtype):
    make = torch.zeros if isinstance(dtype, torch.dtype) else np.zeros
    x = make(2, dtype=dtype)
    expect(x, "T")
    if wanted == kind:
        expect(x, "T", dtype=wanted)
    else:
        came = str(dtype).removeprefix("torch.") if isinstance(dtype, torch.dtype) else np.dtype(dtype).name
        with pytest.raises(ValueError, match=f"^x: expected dtype {wanted}, got {came}$"):
            expect(x, "T", dtype=wanted)


@pytest.mark.parametrize("x", [np.array(["a"]), np.array([None, 1], dtype=object)])
def test_what_is_not_a_number_is_refused_even_if_any_dtype_will_do(x):
    with pytest.raises(ValueError, match="^x: expected dtype of numbers, got"):
        expect(x, "T", finite=True)


@SETTINGS
@given(data=st.data(), bad=st.sampled_from([math.nan, math.inf, -math.inf]), make=st.sampled_from(MAKERS))
def test_the_first_value_that_is_not_finite_is_named(data, bad, make):
    shape = data.draw(st.lists(st.integers(1, 4), max_size=3).map(tuple))
    index = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    x = make(shape)
    expect(x, "...", finite=True)
    x[index] = bad
    expect(x, "...")
    with pytest.raises(ValueError) as caught:
        expect(x, "...", finite=True)
    assert str(caught.value) == f"x: expected finite values, got {'NaN' if bad != bad else bad} at index {index}"


def test_values_that_need_a_gradient_are_checked_too():
    x = torch.tensor([1.0, math.nan], requires_grad=True)
    with pytest.raises(ValueError, match=r"NaN at index \(1,\)"):
        expect(x, "T", finite=True)


def test_whole_numbers_are_finite():
    expect(np.arange(3), "T", finite=True)
    expect(torch.ones(3, dtype=torch.bool), "T", finite=True)


@pytest.mark.parametrize("spec", ["B ... D", "B,T", "B  T", "T?x", "-1", "... ...", " B"])
def test_a_spec_that_means_nothing_is_refused(spec):
    with pytest.raises(ValueError, match="^spec: "):
        expect(np.zeros((2, 2)), spec)


def test_a_dtype_that_means_nothing_is_refused():
    with pytest.raises(ValueError, match="^dtype: "):
        expect(np.zeros(2), "T", dtype="float32")


@SETTINGS
@given(
    value=st.sampled_from([-1e300, -1.5, -1.0, -1, 0, 0.0, 1, 1.0, 1.5, 1e300]),
    low=st.none() | st.integers(-1, 1),
    high=st.none() | st.integers(-1, 1),
    low_open=st.booleans(),
    high_open=st.booleans(),
    integer=st.booleans(),
)
def test_in_range_agrees_with_an_independent_reading(value, low, high, low_open, high_open, integer):
    fits = not (integer and isinstance(value, float))
    fits = fits and not (low is not None and (value < low or (low_open and value == low)))
    fits = fits and not (high is not None and (value > high or (high_open and value == high)))
    options = {"low": low, "high": high, "low_open": low_open, "high_open": high_open, "integer": integer}
    if fits:
        assert in_range(value, "lr", **options) is value
    else:
        with pytest.raises(ValueError, match="^lr: expected a"):
            in_range(value, "lr", **options)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, np.True_, "1", None, 1j, [1], torch.tensor(1)])
@pytest.mark.parametrize("integer", [False, True])
def test_what_is_not_an_ordinary_number_is_in_no_range(value, integer):
    with pytest.raises(ValueError, match="^steps: expected a"):
        in_range(value, "steps", integer=integer)


def test_numbers_of_numpy_are_numbers():
    assert in_range(np.int64(3), "n", low=1, integer=True) == 3
    assert in_range(np.float32(0.5), "n", high=1) == 0.5


def test_an_end_belongs_to_the_range_unless_it_is_open():
    assert in_range(2, "n", low=2, high=2) == 2
    for end in ({"low": 2, "low_open": True}, {"high": 2, "high_open": True}):
        with pytest.raises(ValueError, match="^n: expected"):
            in_range(2, "n", **end)


@pytest.mark.parametrize("ends", [{}, {"low": 0}, {"high": 0}, {"low": 0, "high": 1}, {"high": math.inf}])
def test_nan_is_in_no_range(ends):
    with pytest.raises(ValueError, match="^n: expected"):
        in_range(math.nan, "n", **ends)


def test_infinity_is_allowed_where_a_bound_says_so():
    assert in_range(math.inf, "clip", low=0, high=math.inf) == math.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 1, "integer": True}, "n: expected an integer in [1, ∞), got -2"),
        ({"low": 0, "high": 1, "low_open": True}, "n: expected a number in (0, 1], got -2"),
        ({"high": -3, "high_open": True}, "n: expected a number in (-∞, -3), got -2"),
    ],
)
def test_the_range_is_named(options, message):
    with pytest.raises(ValueError) as caught:
        in_range(-2, "n", **options)
    assert str(caught.value) == message
