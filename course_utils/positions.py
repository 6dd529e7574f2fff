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


def slopes(H: int) -> Tensor:
    """How fast the scores of each of H heads fall with the distance, 2^(-8h/H) for head h = 1 … H: (H,), float32.

    Raises ValueError unless H is a positive integer.
    Source: Press, Smith and Lewis (2022), Train short, test long: attention with linear biases enables input length
    extrapolation, section 3.
    """
    in_range(H, "H", low=1, integer=True)
    return 2.0 ** (-8 * torch.arange(1, H + 1) / H)  # (H,)


def alibi(q: Tensor, k: Tensor, start: int = 0) -> tuple[Tensor, Tensor]:
    """Queries and keys, one number wider, whose scores fall with the distance of their tokens (linear biases).

    q, k: (..., H, T, K), tokens at the places `start`, `start` + 1 ….  A causal softmax of their scaled dot products is
    that of q_i · k_j / √K - m_h (i - j) with the slope m_h of each head: -m_h i is the same for all keys of a query,
    and softmax doesn't see it, so a key brings m_h j along.
    Returns both, (..., H, T, K + 1).  Raises ValueError for a wrong shape or dtype and a negative start.
    Source: Press, Smith and Lewis (2022), section 3.
    """
    sizes = expect(q, "... H T K", "q", dtype="float")
    expect(k, "... H T K", "k", dtype="float", **sizes)
    in_range(start, "start", low=0, integer=True)
    wide = sizes["K"] + 1
    place = torch.arange(start, start + sizes["T"], dtype=k.dtype, device=k.device)  # (T,)
    bias = slopes(sizes["H"]).to(k)[:, None] * place  # (H, T)
    # The scores will be divided by √(K + 1).
    q = torch.cat([q * (wide / sizes["K"]) ** 0.5, q.new_full((*q.shape[:-1], 1), wide**0.5)], dim=-1)
    return q, torch.cat([k, bias[..., None].expand(*k.shape[:-1], 1)], dim=-1)
