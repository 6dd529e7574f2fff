"""Positions: what tells a model, which would see a set of tokens otherwise, in which order they stand."""

import torch
from torch import Tensor

from course_utils.shapes import expect, in_range

BASE = 10_000  # of the wavelengths, in Vaswani et al. (2017) as in Su et al. (2021)


def sinusoidal_positions(T: int, d: int) -> Tensor:
    """A vector of d numbers for each of the places 0 … T - 1: (T, d), sines and cosines in turn, float32.

    Numbers 2i and 2i + 1 of place t are the sine and the cosine of t / 10000^(2i/d); d may be odd.
    Raises ValueError unless T and d are positive integers.
    Source: Vaswani et al. (2017), section 3.5.
    """
    for name, value in (("T", T), ("d", d)):
        in_range(value, name, low=1, integer=True)
    pair = torch.arange(d, dtype=torch.float64) // 2  # (d,)
    angle = torch.arange(T, dtype=torch.float64)[:, None] / BASE ** (2 * pair / d)  # (T, d)
    return torch.where(torch.arange(d) % 2 == 0, angle.sin(), angle.cos()).float()  # (T, d)


def rotate(x: Tensor, start: int = 0) -> Tensor:
    """Turn each pair of numbers of a query or key by an angle that grows with its token's place (rotary positions).

    x: (..., T, K), K even, tokens at the places `start`, `start` + 1 …; numbers 2i and 2i + 1 of the token at place t
    are a point of the plane, which is turned by the angle t / 10000^(2i/K).  A dot product of a query and a key that
    were turned depends on the distance of their places alone.
    Returns the shape and dtype of x.  Raises ValueError for an odd K and a negative start.
    Source: Su et al. (2021), RoFormer: enhanced transformer with rotary position embedding, equation 34.
    """
    sizes = expect(x, "... T K", "x", dtype="float")
    in_range(start, "start", low=0, integer=True)
    if sizes["K"] % 2:
        raise ValueError(f"x: expected an even width, pairs of numbers, got {sizes['K']}")
    place = torch.arange(start, start + sizes["T"], dtype=torch.float64, device=x.device)  # (T,)
    pair = torch.arange(sizes["K"] // 2, dtype=torch.float64, device=x.device)  # (K/2,)
    angle = place[:, None] / BASE ** (2 * pair / sizes["K"])  # (T, K/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., T, K/2) each
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)  # (..., T, K/2, 2)
    return turned.flatten(-2)  # (..., T, K)
