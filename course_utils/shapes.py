"""Checks of arguments: shape, dtype, finite values, range; the errors say what was expected and what came."""

import math
import numbers
import re

import numpy as np
import torch

_DTYPES = ("float", "int", "bool")
_WORD = r"(\d+|[A-Za-z_]\w*\??)"
_SPEC = re.compile(rf"((\.\.\.|{_WORD})( {_WORD})*)?")


def expect(
    x: np.ndarray | torch.Tensor,
    spec: str,
    name: str = "x",
    *,
    dtype: str | None = None,
    finite: bool = False,
    **sizes: int,
) -> dict[str, int]:
    """Check that `x` has the shape that `spec` describes, and return the sizes of the named dimensions.

    Each word of `spec` is one dimension: an integer, or a name. A name that is in `sizes` must have that size; any
    other name takes the size it finds, and must find the same one each time it occurs. Sizes are at least 1, except
    for names written with a question mark ("T?"). "..." as the first word stands for any leading dimensions.
    `dtype` is "float", "int" or "bool"; with `finite=True`, NaN and infinity are refused.

    Returns `sizes` plus the names that `spec` has bound, so that checks chain:

        sizes = expect(x, "T d_in", "x")
        sizes = expect(Wx, "d_h d_in", "Wx", **sizes)

    Raises ValueError, naming the argument, what was expected and what came.
    """
    if not isinstance(x, np.ndarray | torch.Tensor):
        came = type(x).__name__
        raise ValueError(f"{name}: expected an array, got {came}; numpy.array(…) or torch.tensor(…) makes one")
    bound = _bind(tuple(x.shape), spec, name, sizes)
    _check_dtype(x, name, dtype)
    if finite:
        _check_finite(x, name)
    return bound


def in_range(
    value: float,
    name: str,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
    integer: bool = False,
) -> float:
    """Check that the number `value` lies between `low` and `high`, and return it unchanged.

    Both ends belong to the range unless `low_open` or `high_open` is set; None means no bound on that side. Infinity
    is accepted only where a bound says so (`high=math.inf`). Booleans are not numbers here.

    Raises ValueError, naming the argument, the range and the value.
    """
    kind = numbers.Integral if integer else numbers.Real
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if fits:  # every comparison with NaN is false
        above = -math.inf < value if low is None else (value > low if low_open else value >= low)
        below = value < math.inf if high is None else (value < high if high_open else value <= high)
        fits = above and below
    if not fits:
        noun = "an integer" if integer else "a number"
        raise ValueError(f"{name}: expected {noun}{_interval(low, high, low_open, high_open)}, got {value!r}")
    return value


def _interval(low: float | None, high: float | None, low_open: bool, high_open: bool) -> str:
    if low is None and high is None:
        return ""
    left = "(-∞" if low is None else f"{'(' if low_open else '['}{low}"
    right = "∞)" if high is None else f"{high}{')' if high_open else ']'}"
    return f" in {left}, {right}"


def _bind(shape: tuple[int, ...], spec: str, name: str, sizes: dict[str, int]) -> dict[str, int]:
    if not _SPEC.fullmatch(spec):
        raise ValueError(f'spec: expected names and integers separated by one space, "..." only first, got {spec!r}')
    words = spec.split()
    leading = words[:1] == ["..."]
    words = words[leading:]
    if len(shape) < len(words) or (len(shape) > len(words) and not leading):
        raise ValueError(f"{name}: expected shape {_describe(words, leading, sizes)}, got {shape}")

    bound = dict(sizes)
    actual = shape[len(shape) - len(words) :]
    for word, size in zip(words, actual, strict=True):
        # A size that the caller gave is not questioned: it was checked where it was bound.
        if not word.isdigit() and size == 0 and not word.endswith("?") and word not in bound:
            expected = _describe(words, leading, sizes)
            raise ValueError(f"{name}: expected shape {expected} with {word} at least 1, got {shape}")
        if size != (int(word) if word.isdigit() else bound.setdefault(word.rstrip("?"), size)):
            raise ValueError(f"{name}: expected shape {_describe(words, leading, bound)}, got {shape}")
    return bound


def _describe(words: list[str], leading: bool, sizes: dict[str, int]) -> str:
    """Return a shape as "(d_h, d_in) = (4, d_in)": first the names, then what is known of them."""
    names = [word.rstrip("?") for word in words]
    known = [str(sizes.get(name, name)) for name in names]
    texts = []
    for parts in (names, known):
        parts = ["..."] * leading + parts
        texts.append(f"({', '.join(parts)}{',' if len(parts) == 1 else ''})")
    return texts[0] if texts[0] == texts[1] else " = ".join(texts)


def _check_dtype(x: np.ndarray | torch.Tensor, name: str, dtype: str | None) -> None:
    if dtype is not None and dtype not in _DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(_DTYPES)} or None, got {dtype!r}")
    kind = _kind(x)
    if kind == dtype or (dtype is None and kind != "other"):
        return
    raise ValueError(f"{name}: expected dtype {dtype or 'of numbers'}, got {str(x.dtype).removeprefix('torch.')}")


def _kind(x: np.ndarray | torch.Tensor) -> str:
    if isinstance(x, np.ndarray):
        return {"f": "float", "i": "int", "u": "int", "b": "bool", "c": "complex"}.get(x.dtype.kind, "other")
    if x.dtype == torch.bool:
        return "bool"
    if x.is_complex():
        return "complex"
    return "float" if x.is_floating_point() else "int"


def _check_finite(x: np.ndarray | torch.Tensor, name: str) -> None:
    values = x.detach().cpu() if isinstance(x, torch.Tensor) else x
    bad = ~(torch.isfinite(values) if isinstance(values, torch.Tensor) else np.isfinite(values))
    if not bad.any():
        return
    places = bad.nonzero() if isinstance(bad, torch.Tensor) else np.argwhere(bad)
    index = tuple(int(i) for i in places[0])
    value = values[index].item()
    shown = str(value).replace("nan", "NaN")
    raise ValueError(f"{name}: expected finite values, got {shown} at index {index}")
