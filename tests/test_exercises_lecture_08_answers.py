"""Answers to lecture 8's exercises: unusual right ones pass, wrong ones get a sentence of use, in a list or not."""

import math

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from answers import Answers, exercises_of, passes
from course_utils.attention import MultiHeadAttention
from course_utils.costs import attention_cost as with_names
from course_utils.exercises import lecture_08
from course_utils.positions import rotate as of_the_package
from course_utils.positions import sinusoidal_positions

ANSWERS = Answers()  # the wrong ones are in no list
right, wrong, written = ANSWERS.right, ANSWERS.wrong, ANSWERS.written
EXERCISES = exercises_of(lecture_08)
ex_rotate, ex_cost = EXERCISES
turned, cost = (e.reference for e in EXERCISES)

# ---- rotate: right ones ---------------------------------------------------------------------------------------------

right(ex_rotate)(of_the_package)


@right(ex_rotate)
def as_complex_numbers(x, start=0):
    *front, T, K = x.shape
    z = torch.view_as_complex(x.reshape(*front, T, K // 2, 2))
    angle = torch.outer(torch.arange(start, start + T).to(x.dtype), 10000 ** (-torch.arange(0, K, 2).to(x.dtype) / K))
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


@right(ex_rotate)
def as_llama_does_in_single_precision(x, start=0):
    T, dim = x.shape[-2], x.shape[-1]
    freqs = 1.0 / (10000.0 ** (torch.arange(0, dim, 2)[:(dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(start + T).float(), freqs)
    freqs_cis = torch.polar(torch.ones_like(freqs), freqs)[start:]
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * freqs_cis).flatten(-2).type_as(x)


@right(ex_rotate)
def by_matrices(x, start=0):
    *_, T, K = x.shape
    out = torch.empty_like(x)
    for t in range(T):
        R = torch.zeros(K, K, dtype=x.dtype)
        for i in range(K // 2):
            a = (start + t) / 10000 ** (2 * i / K)
            R[2 * i:2 * i + 2, 2 * i:2 * i + 2] = torch.tensor(
                [[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
        out[..., t, :] = x[..., t, :] @ R.T
    return out


@right(ex_rotate)
def by_einsum(x, start=0):
    T, K = x.shape[-2:]
    a = torch.arange(start, start + T).unsqueeze(1) / 10000 ** (torch.arange(K // 2) / (K // 2))
    R = torch.stack([torch.stack([a.cos(), -a.sin()], -1), torch.stack([a.sin(), a.cos()], -1)], -2).to(x.dtype)
    return torch.einsum("tiab,...tib->...tia", R, x.unflatten(-1, (K // 2, 2))).reshape(x.shape)


@right(ex_rotate)
def by_exponential_of_a_matrix(x, start=0):
    T, K = x.shape[-2:]
    G = torch.zeros(K, K, dtype=torch.float64)
    for i in range(0, K, 2):
        G[i + 1, i] = 10000 ** (-i / K)
        G[i, i + 1] = -G[i + 1, i]
    R = torch.linalg.matrix_exp(torch.arange(start, start + T).double()[:, None, None] * G)  # (T, K, K)
    return torch.einsum("tab,...tb->...ta", R, x.double()).to(x.dtype)


@right(ex_rotate)
def x_cos_plus_other_sin(x, start=0):
    a = torch.arange(start, start + x.size(-2))[:, None] * torch.exp(
        -math.log(10000.0) * torch.arange(0, x.size(-1), 2) / x.size(-1))
    a = torch.repeat_interleave(a, 2, dim=-1)
    other = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape_as(x)
    return x * torch.cos(a).to(x) + other * torch.sin(a).to(x)


@right(ex_rotate)
def written_into_a_copy(x, start=0):
    out = x.clone()
    K = x.shape[-1]
    for t in range(x.shape[-2]):
        for i in range(K // 2):
            a = (start + t) / 10_000 ** (2 * i / K)
            out[..., t, 2 * i] = x[..., t, 2 * i] * math.cos(a) - x[..., t, 2 * i + 1] * math.sin(a)
            out[..., t, 2 * i + 1] = x[..., t, 2 * i] * math.sin(a) + x[..., t, 2 * i + 1] * math.cos(a)
    return out


@right(ex_rotate)
def place_after_place(x, start=0):
    """Turned by the same speed again and again."""
    speed = 10_000.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=x.dtype) / x.shape[-1])
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()).clone()
    for _ in range(start):
        z = z * torch.exp(1j * speed)
    for t in range(1, x.shape[-2]):
        z[..., t:, :] *= torch.exp(1j * speed)
    return torch.view_as_real(z).flatten(-2)


@right(ex_rotate)
def by_length_and_direction(x, start=0):
    u, v = x[..., ::2], x[..., 1::2]
    K = x.shape[-1]
    a = torch.atan2(v, u) + torch.arange(start, start + x.shape[-2])[:, None] * 10000 ** (-torch.arange(0, K, 2) / K)
    return torch.stack([torch.hypot(u, v) * a.cos(), torch.hypot(u, v) * a.sin()], -1).flatten(-2)


@right(ex_rotate)
def permuted_turned_as_halves_and_back(x, start=0):
    K = x.shape[-1]
    order = torch.cat([torch.arange(0, K, 2), torch.arange(1, K, 2)])
    y = x[..., order]
    a = torch.outer(torch.arange(start, start + x.shape[-2]), 10000 ** (-torch.arange(0, K, 2) / K)).repeat(1, 2)
    y = y * a.cos().to(x) + torch.cat([-y[..., K // 2:], y[..., :K // 2]], -1) * a.sin().to(x)
    return y[..., torch.argsort(order)]


# ---- rotate: wrong ones ---------------------------------------------------------------------------------------------


def usual(x, start=0, *, places=lambda x, start: torch.arange(start, start + x.shape[-2]),
          speeds=lambda K: 1.0 / 10000 ** (torch.arange(0, K, 2).double() / K), wave=lambda a: (a.cos(), a.sin()),
          write=lambda u, v, c, s: (u * c - v * s, u * s + v * c)):
    out = torch.zeros_like(x)
    c, s = wave(torch.outer(places(x, start).double(), speeds(x.shape[-1])))
    out[..., 0::2], out[..., 1::2] = write(x[..., 0::2], x[..., 1::2], c.to(x.dtype), s.to(x.dtype))
    return out


def rotary(**change):
    return lambda x, start=0: usual(x, start, **change)


def neox(x, start=0, *, repeat=lambda a: torch.cat((a, a), dim=-1), halves=True):
    """x cos + rotate_half(x) sin, as in many libraries."""
    K = x.shape[-1]
    a = torch.einsum("i,j->ij", torch.arange(start, start + x.shape[-2]).float(),
                     1.0 / 10000 ** (torch.arange(0, K, 2).float() / K))
    x1, x2 = (x[..., :K // 2], x[..., K // 2:]) if halves else (x[..., ::2], x[..., 1::2])
    other = torch.cat((-x2, x1), -1) if halves else torch.stack((-x2, x1), -1).flatten(-2)
    return x * repeat(a).cos().to(x.dtype) + other * repeat(a).sin().to(x.dtype)


def in_place(x, start=0):
    x[..., 0::2], x[..., 1::2] = (y := turned(x, start))[..., 0::2], y[..., 1::2]
    return x


def in_place_and_too_early(x, start=0):
    K = x.shape[-1]
    a = torch.arange(start, start + x.shape[-2])[:, None] / 10000 ** (torch.arange(0, K, 2) / K)
    x[..., 0::2] = x[..., 0::2] * a.cos() - x[..., 1::2] * a.sin()
    x[..., 1::2] = x[..., 0::2] * a.sin() + x[..., 1::2] * a.cos()
    return x


def with_zeros(x, start=0):
    out = torch.zeros(x.shape)
    out[..., 0::2], out[..., 1::2] = (y := turned(x, start))[..., 0::2], y[..., 1::2]
    return out


def each_number_its_angle(x, start=0, doubled=1):
    K = x.shape[-1]
    a = torch.arange(start, start + x.shape[-2])[:, None] / 10000 ** (doubled * torch.arange(K).double() / K)
    other = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return x * a.cos() + other * a.sin()


def batch_time_width(x, start=0):
    B, T, K = x.shape
    a = torch.arange(start, start + T)[:, None] / 10000 ** (torch.arange(0, K, 2) / K)
    u, v = x[:, :, 0::2], x[:, :, 1::2]
    return torch.stack([u * a.cos() - v * a.sin(), u * a.sin() + v * a.cos()], -1).reshape(B, T, K)


def batch_heads_time_width(x, start=0):
    B, H, T, K = x.shape
    return turned(x.reshape(B * H, T, K), start).reshape(B, H, T, K)


def len_of_x(x, start=0):
    a = torch.arange(start, start + len(x)).double()[:, None] / 10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    while a.ndim < x.ndim:
        a = a.unsqueeze(1)
    u, v = x[..., ::2], x[..., 1::2]
    return torch.stack([u * a.cos() - v * a.sin(), u * a.sin() + v * a.cos()], -1).flatten(-2)


def shape_1(x, start=0):
    a = torch.arange(start, start + x.shape[1])[:, None] / 10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    u, v = x[..., ::2], x[..., 1::2]
    return torch.stack([u * a.cos() - v * a.sin(), u * a.sin() + v * a.cos()], -1).flatten(-2)


def heads_as_tokens(x, start=0):
    a = torch.arange(start, start + x.shape[-3])[:, None] / 10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    a = a.unsqueeze(1)
    u, v = x[..., ::2], x[..., 1::2]
    return torch.stack([u * a.cos() - v * a.sin(), u * a.sin() + v * a.cos()], -1).flatten(-2)


def up_to_T(x, start=0):
    a = torch.arange(start, x.shape[-2])[:, None] / 10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    u, v = x[..., ::2], x[..., 1::2]
    return torch.stack([u * a.cos() - v * a.sin(), u * a.sin() + v * a.cos()], -1).flatten(-2)


def joined(x, start=0):
    y = turned(x, start)
    return torch.cat([y[..., 0::2], y[..., 1::2]], -1)


def stacked_along_another_axis(x, start=0):
    y = turned(x, start)
    return torch.stack([y[..., 0::2], y[..., 1::2]], dim=-2).flatten(-2)


def i_and_i_plus_1(x, start=0):
    out = torch.empty_like(x).copy_(x)
    for t in range(x.shape[-2]):
        for i in range(x.shape[-1] // 2):
            a = (start + t) * 10000 ** (-2 * i / x.shape[-1])
            out[..., t, i] = x[..., t, i] * math.cos(a) - x[..., t, i + 1] * math.sin(a)
            out[..., t, i + 1] = x[..., t, i] * math.sin(a) + x[..., t, i + 1] * math.cos(a)
    return out


def one_pair_only(x, start=0):
    out = x.clone()
    a = torch.arange(start, start + x.shape[-2]).double()
    out[..., 0] = x[..., 0] * a.cos() - x[..., 1] * a.sin()
    out[..., 1] = x[..., 0] * a.sin() + x[..., 1] * a.cos()
    return out


wrong(ex_rotate, "did you forget `return`")(lambda x, start=0: None)
wrong(ex_rotate, "stay in torch")(lambda x, start=0: turned(x, start).numpy())
wrong(ex_rotate, "0.5403 0.8415 1.0000 0.0100")(lambda x, start=0: turned(x, start) ** 3)
wrong(ex_rotate, "the direction is right, the length isn't")(lambda x, start=0: turned(x, start) / x.shape[-1]**0.5)
wrong(ex_rotate, "`torch.view_as_real(...)`")(
    lambda x, start=0: torch.view_as_complex(turned(x, start).unflatten(-1, (-1, 2))))
wrong(ex_rotate, "have an axis of their own", "(2, 3, 5, 4, 2)")(
    lambda x, start=0: turned(x, start).unflatten(-1, (-1, 2)))
wrong(ex_rotate, "stopped with TypeError")(lambda x, start=0: x @ "places")
wrong(ex_rotate, "keep the signature of the stub")(lambda x: x)
wrong(ex_rotate, "Two things at once", "Your places count from 1", "You turn clockwise")(rotary(
    places=lambda x, start: torch.arange(start + 1, start + 1 + x.shape[-2]),
    write=lambda u, v, c, s: (u * c + v * s, v * c - u * s)))
wrong(ex_rotate, "Two things at once", "plays no part in your result", "GPT-NeoX")(lambda x, start=0: neox(x, 0))
wrong(ex_rotate, "where x has torch.float32")(lambda x, start=0: turned(x.double(), start))
wrong(ex_rotate, "where x has torch.float64", "`torch.empty_like(x)`")(with_zeros)
wrong(ex_rotate, "where x has torch.float64")(lambda x, start=0: turned(x, start).float())
wrong(ex_rotate, "changes its argument `x`")(lambda x, start=0: (turned(x, start).exp(), x.mul_(2))[0])
written(ex_rotate, {
    "from 1": ("Your places count from 1", rotary(
        places=lambda x, start: torch.arange(start + 1, start + x.shape[-2] + 1))),
    "no start": ("`start` plays no part", rotary(places=lambda x, start: torch.arange(x.shape[-2]))),
    "start for all": ("the angle of place `start`", rotary(
        places=lambda x, start: torch.full((x.shape[-2],), start))),
    "share of T": ("You divide the places by T", rotary(
        places=lambda x, start: torch.arange(start, start + x.shape[-2]) / x.shape[-2])),
    "arange to T": ("ends at T", up_to_T),
    "same angle": ("turned by the same angle", rotary(speeds=lambda K: torch.ones(K // 2).double())),
    "whole-number exponent": ("made a whole number by `//`", rotary(
        speeds=lambda K: 1 / 10000 ** (torch.arange(0, K, 2) // K).double())),
    "i / K": ("half as large", rotary(speeds=lambda K: 10000 ** (-torch.arange(K // 2).double() / K))),
    "base 100": ("the base is 100", rotary(speeds=lambda K: 100 ** (-torch.arange(0, K, 2).double() / K))),
    "2 * arange(0, K, 2)": ("twice as large", rotary(
        speeds=lambda K: 10000 ** (-2 * torch.arange(0, K, 2) / K).double())),
    "over K // 2": ("twice as large", rotary(
        speeds=lambda K: 10000 ** (-torch.arange(0, K, 2).double() / (K // 2)))),
    "the handout's 2k - 1": ("(2i + 1)/K", rotary(
        speeds=lambda K: 10000 ** (-(2 * torch.arange(1, K // 2 + 1).double() - 1) / K))),
    "linspace": ("run from 0 to 1", rotary(
        speeds=lambda K: 10000 ** -torch.linspace(0, 1, K // 2, dtype=torch.float64))),
    "no minus in the exponent": ("grow from pair to pair", rotary(
        speeds=lambda K: 10000 ** (torch.arange(0, K, 2).double() / K))),
    "exp without log": ("yours is e", rotary(speeds=lambda K: torch.exp(-torch.arange(0, K, 2).double() / K))),
    "1000": ("yours is 1000.", rotary(speeds=lambda K: 1000 ** (-torch.arange(0, K, 2).double() / K))),
    "Llama 3": ("as in Llama 3", rotary(speeds=lambda K: 500_000 ** (-torch.arange(0, K, 2).double() / K))),
    "no parentheses": ("binds before products", rotary(
        speeds=lambda K: 1 / (10000 ** 2 * torch.arange(K // 2).double() / K))),
    "2 pi": ("a factor of 2π", rotary(
        speeds=lambda K: 2 * math.pi / 10000 ** (torch.arange(0, K, 2).double() / K))),
    "degrees": ("for degrees", rotary(wave=lambda a: (torch.deg2rad(a).cos(), torch.deg2rad(a).sin()))),
    "//": ("whole numbers", lambda x, start=0: usual(x, start, wave=lambda a: (a.floor().cos(), a.floor().sin()))),
    "fastest last": ("Your last pair is the fastest", rotary(
        speeds=lambda K: 10000 ** (-torch.arange(0, K, 2).double().flip(0) / K))),
    "GPT-NeoX": ("as the code of GPT-NeoX", neox),
    "angles twice, neighbors": ("You mix two conventions: neighbors", lambda x, start=0: neox(x, start, halves=False)),
    "angles in turn, halves": ("You mix two conventions: each angle", lambda x, start=0: neox(
        x, start, repeat=lambda a: a.repeat_interleave(2, -1))),
    "own angles": ("angles of their own, so they", each_number_its_angle),
    "own angles, 2 j": ("Your i counts numbers", lambda x, start=0: each_number_its_angle(x, start, 2)),
    "cat": ("`cat` joins end to end", joined),
    "stack, dim=-2": ("`cat` joins end to end", stacked_along_another_axis),
    "exchanged numbers": ("of each pair are exchanged", lambda x, start=0: turned(x, start).unflatten(
        -1, (-1, 2)).flip(-1).flatten(-2)),
    "clockwise": ("You turn clockwise", rotary(write=lambda u, v, c, s: (u * c + v * s, v * c - u * s))),
    "negative angle": ("You turn clockwise", rotary(wave=lambda a: (torch.cos(-a), torch.sin(-a)))),
    "sin, cos": ("Sine and cosine are exchanged", rotary(wave=lambda a: (a.sin(), a.cos()))),
    "no minus": ("The minus sign is missing", rotary(write=lambda u, v, c, s: (u * c + v * s, u * s + v * c))),
    "two minus": ("two minus signs", rotary(write=lambda u, v, c, s: (u * c - v * s, v * c - u * s))),
    "reflected": ("reflected and not turned", rotary(write=lambda u, v, c, s: (u * c + v * s, u * s - v * c))),
    "no cross terms": ("neither sees the other", rotary(write=lambda u, v, c, s: (u * c, v * s))),
    "by the table": ("number by number", lambda x, start=0: x * sinusoidal_positions(
        start + x.shape[-2], x.shape[-1]).double()[start:]),
    "plus the table": ("Rotary positions add nothing", lambda x, start=0: x + sinusoidal_positions(
        start + x.shape[-2], x.shape[-1]).double()[start:]),
    "plus the angles": ("You add the angles", lambda x, start=0: x + torch.outer(
        torch.arange(start, start + x.shape[-2]).double(),
        10000 ** (-torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])).repeat_interleave(2, 1)),
    "in place": ("you change x in place", in_place),
    "the new first number": ("uses the new first number", lambda x, start=0: in_place_and_too_early(x.clone(), start)),
    "in place, and too early": ("uses the new first number", in_place_and_too_early),
    "numbers 0 and 1": ("Only the numbers 0 and 1", one_pair_only),
    "i and i + 1": ("Your pairs overlap", i_and_i_plus_1),
    "B, T, K": ("only if x has three axes", batch_time_width),
    "B, H, T, K": ("only if x has four axes", batch_heads_time_width),
    "T, K": ("only if x has two axes", lambda x, start=0: (lambda T, K: turned(x, start))(*_two(x.shape))),
    "len(x)": ("the batch, axis 0", len_of_x),
    "x.shape[1]": ("fits (B, T, K) alone", shape_1),
    "heads": ("Your places run along the heads", heads_as_tokens),
    "nothing": ("nothing is turned", lambda x, start=0: x.clone()),
})


def _two(shape):
    T, K = shape
    return T, K


# ---- attention_cost: right ones -------------------------------------------------------------------------------------

right(ex_cost)(with_names)


@right(ex_cost)
def counted_by_torch(B, T, S, D, H, bytes_per_number=4):
    layer, memory = MultiHeadAttention(D, H, bias=False), torch.zeros(B, S, D)
    with FlopCounterMode(display=False) as counter:
        _, weights = layer(torch.zeros(B, T, D), memory, need_weights=True)
    k, v = layer.keys_values(memory)
    return counter.get_total_flops(), weights.numel() * bytes_per_number, (k.numel() + v.numel()) * bytes_per_number


counted_by_torch(1, 1, 1, 1, 1)  # its first use imports much, which takes a while


@right(ex_cost)
def counted_in_loops(B, T, S, D, H, bytes_per_number=4):
    K, flops, weights, cache = D // H, 0, 0, 0
    for _ in range(B):
        for rows in (T, S, S, T):
            flops += sum(2 * D for _ in range(rows) for _ in range(D))
        for _ in range(H):
            for _ in range(T):
                for _ in range(S):
                    flops += 2 * K + 2 * K
                    weights += bytes_per_number
        cache += 2 * bytes_per_number * S * D
    return flops, weights, cache


@right(ex_cost)
def head_by_head(B, T, S, D, H, n=4):
    K = D / H
    head = 2 * T * D * K + 2 * 2 * S * D * K + 2 * T * S * K + 2 * T * S * K + 2 * T * K * D
    return B * H * head, B * H * T * S * n, 2 * B * H * S * K * n


@right(ex_cost)
def a_list_of_numpy_numbers(B, T, S, D, H, bytes_per_number=4):
    q, k, score = np.prod([B, T, D]), np.prod([B, S, D]), np.prod([B, H, T, S])
    return [4 * D * (q + k) + 4 * score * D // H, score * bytes_per_number, (k + k) * bytes_per_number]


@right(ex_cost)
def from_shapes(B, T, S, D, H, bytes_per_number=4):
    def product(a, b):
        assert a[-1] == b[-2]
        return 2 * math.prod(a) * b[-1]

    K = D // H
    flops = product((B * T, D), (D, D)) + 2 * product((B * S, D), (D, D)) + product((B * T, D), (D, D))
    flops += product((B, H, T, K), (B, H, K, S)) + product((B, H, T, S), (B, H, S, K))
    return flops, math.prod((B, H, T, S)) * bytes_per_number, math.prod((2, B, H, S, K)) * bytes_per_number


# ---- attention_cost: wrong ones -------------------------------------------------------------------------------------


def summed(B, T, S, D, H, n=4, *, products=lambda B, T, S, D, H, K: [
        (B * T, D, D), (B * S, D, D), (B * S, D, D), (B * H * T, K, S), (B * H * T, S, K), (B * T, D, D)],
        each=lambda m, k, p: 2 * m * k * p, weights=lambda B, T, S, D, H: (B, H, T, S),
        cache=lambda B, T, S, D, H: (2, B, S, D), size=lambda n: n):
    """A list of all products, (m, k) by (k, p)."""
    flops = sum(each(*sizes) for sizes in products(B, T, S, D, H, D // H))
    return flops, math.prod(weights(B, T, S, D, H)) * size(n), math.prod(cache(B, T, S, D, H)) * size(n)


def counting(**change):
    return lambda B, T, S, D, H, bytes_per_number=4: summed(B, T, S, D, H, bytes_per_number, **change)


def flops_of(count):
    """Wrong operations, right bytes."""
    return lambda B, T, S, D, H, n=4: (count(B, T, S, D, H), *cost(B, T, S, D, H, n)[1:])


def weights_of(count):
    return lambda B, T, S, D, H, n=4: (cost(B, T, S, D, H)[0], count(B, T, S, D, H) * n, cost(B, T, S, D, H, n)[2])


def cache_of(count):
    return lambda B, T, S, D, H, n=4: (*cost(B, T, S, D, H, n)[:2], count(B, T, S, D, H) * n)


wrong(ex_cost, "did you forget `return`")(lambda *a: None)
wrong(ex_cost, "Expected 3 values", "returned 2.")(lambda *a: cost(*a)[:2])
wrong(ex_cost, "Return the values themselves")(lambda *a: dict(zip("fwc", cost(*a), strict=True)))
wrong(ex_cost, "With all sizes 1", "`flops` and `weight_bytes` are right")(
    lambda B, T, S, D, H, n=4: (*cost(B, T, S, D, H, n)[:2], B * S * D * n + 7))
wrong(ex_cost, "a single number")(lambda *a: (torch.ones(2), *cost(*a)[1:]))
wrong(ex_cost, "3 times the right values")(lambda *a: (cost(*a)[0], cost(*a)[1], 3 * cost(*a)[2]))
wrong(ex_cost, "stopped with NameError")(lambda B, T, S, D, H, n=4: (B * T * K, 0, 0))  # noqa: F821
wrong(ex_cost, "keep the signature of the stub")(lambda B, T, D: (0, 0, 0))
wrong(ex_cost, "`flops`: You count multiply–adds", "`cache_bytes`: Your cache is half as large as it must be")(
    counting(each=lambda m, k, p: m * k * p, cache=lambda B, T, S, D, H: (B, S, D)))
wrong(ex_cost, "`flops`: Your projections are those of Q, K", "`weight_bytes`: Your weights are those of one")(counting(
    products=lambda B, T, S, D, H, K: [(B * T, D, D), (B * S, D, D), (B * S, D, D), (B * T, D, S), (B * T, S, D)],
    weights=lambda B, T, S, D, H: (B, T, S)))
wrong(ex_cost, "`flops`: You count half", "`weight_bytes`: Your weights are those of one", "`cache_bytes`: You return")(
    lambda B, T, S, D, H, n=4: (4 * B * (T + S) * D * D + 2 * B * T * S * D, B * T * S * n, 2 * B * S * D))
wrong(ex_cost, "Two things at once", "T rows four times", "grow with T²")(flops_of(
    lambda B, T, S, D, H: 8 * B * T * D * D + 4 * B * T * T * D))
written(ex_cost, {
    "m k p": ("You count multiply–adds", counting(each=lambda m, k, p: m * k * p)),
    "by the letter": ("n - 1 additions", counting(each=lambda m, k, p: m * p * (2 * k - 1))),
    "4 m k p": ("in there twice", counting(each=lambda m, k, p: 4 * m * k * p)),
    "training": ("counts a backward pass", counting(each=lambda m, k, p: 6 * m * k * p)),
    "no W_O": ("W_O comes after the heads", counting(products=lambda B, T, S, D, H, K: [
        (B * T, D, D), (B * S, D, D), (B * S, D, D), (B * H * T, K, S), (B * H * T, S, K)])),
    "8 T D²": ("T rows four times", flops_of(lambda B, T, S, D, H: 8 * B * T * D**2 + 4 * B * T * S * D)),
    "8 S D²": ("S rows four times", flops_of(lambda B, T, S, D, H: 8 * B * S * D**2 + 4 * B * T * S * D)),
    "6 T D²": ("W_O is a fourth", flops_of(lambda B, T, S, D, H: 6 * B * T * D**2 + 4 * B * T * S * D)),
    "W_O of S": ("S rows three times", flops_of(lambda B, T, S, D, H: 2 * B * (T + 3 * S) * D**2 + 4 * B * T * S * D)),
    "cached keys": ("here nothing is taken from a cache", flops_of(
        lambda B, T, S, D, H: 4 * B * T * D**2 + 4 * B * T * S * D)),
    "V forgotten": ("one projection between them", flops_of(
        lambda B, T, S, D, H: 2 * B * (2 * T + S) * D**2 + 4 * B * T * S * D)),
    "attention alone": ("lack the projections", flops_of(lambda B, T, S, D, H: 4 * B * T * S * D)),
    "two for each parameter": ("You count the projections alone", flops_of(
        lambda B, T, S, D, H: 2 * (2 * D * D) * B * (T + S))),
    "(D, D) in each head": ("In your projections heads are counted twice", counting(
        products=lambda B, T, S, D, H, K: H * [(B * T, D, D), (B * S, D, D), (B * S, D, D), (B * T, D, D)] + [
            (B * H * T, K, S), (B * H * T, S, K)])),
    "(K, K) in each head": ("each read a slice", counting(
        products=lambda B, T, S, D, H, K: H * [(B * T, K, K), (B * S, K, K), (B * S, K, K), (B * T, K, K)] + [
            (B * H * T, K, S), (B * H * T, S, K)])),
    "D for K": ("In your scores and mixtures heads are counted twice", counting(
        products=lambda B, T, S, D, H, K: [(B * T, D, D), (B * S, D, D), (B * S, D, D), (B * T, D, D),
                                           (B * H * T, D, S), (B * H * T, S, D)])),
    "K for D": ("those of one head, K wide", counting(
        products=lambda B, T, S, D, H, K: [(B * T, D, D), (B * S, D, D), (B * S, D, D), (B * T, D, D),
                                           (B * T, K, S), (B * T, S, K)])),
    "Q K^T alone": ("is Q Kᵀ or weights times V missing", flops_of(
        lambda B, T, S, D, H: 4 * B * (T + S) * D**2 + 2 * B * T * S * D)),
    "causal": ("did you halve for a causal mask", flops_of(
        lambda B, T, S, D, H: 4 * B * (T + S) * D**2 + 4 * B * T * S * D // 2)),
    "2 in the projections alone": ("or the 2 for additions", flops_of(
        lambda B, T, S, D, H: 2 * 2 * B * (T + S) * D**2 + 2 * B * T * S * D)),
    "2 in the look alone": ("is the 2 for additions missing there", flops_of(
        lambda B, T, S, D, H: 2 * B * (T + S) * D**2 + 4 * B * T * S * D)),
    "one row of each": ("B T and B S rows", flops_of(lambda B, T, S, D, H: 4 * (T + S) * D**2 + 4 * B * T * S * D)),
    "B forgotten in the end": ("B plays no part in your scores", flops_of(
        lambda B, T, S, D, H: 4 * B * (T + S) * D**2 + 4 * T * S * D)),
    "T²": ("grow with T²", flops_of(lambda B, T, S, D, H: 4 * B * (T + S) * D**2 + 4 * B * T * T * D)),
    "S²": ("grow with S²", flops_of(lambda B, T, S, D, H: 4 * B * (T + S) * D**2 + 4 * B * S * S * D)),
    "softmax": ("as scale, mask and softmax take", flops_of(
        lambda B, T, S, D, H: cost(B, T, S, D, H)[0] + 3 * B * H * T * S)),
    "biases": ("additions of a bias", flops_of(lambda B, T, S, D, H: cost(B, T, S, D, H)[0] + 2 * B * (T + S) * D)),
    "D, not D²": ("a matrix (D, D)", flops_of(lambda B, T, S, D, H: 4 * B * (T + S) * D + 4 * B * T * S * D)),
    "no batch in flops": ("B plays no part in your operations", flops_of(
        lambda B, T, S, D, H: 4 * (T + S) * D**2 + 4 * T * S * D)),
    "parameters": ("the matrices W_Q", weights_of(lambda B, T, S, D, H: 4 * D * D)),
    "no heads": ("those of one head", weights_of(lambda B, T, S, D, H: B * T * S)),
    "no batch in weights": ("Your weights are those of one sequence", weights_of(lambda B, T, S, D, H: H * T * S)),
    "weights T²": ("Your weights grow with T²", weights_of(lambda B, T, S, D, H: B * H * T * T)),
    "weights D wide": ("D numbers for each pair", weights_of(lambda B, T, S, D, H: B * T * S * D)),
    "scores and weights": ("do you count the scores", weights_of(lambda B, T, S, D, H: 2 * B * H * T * S)),
    "causal weights": ("zeros of the others", weights_of(lambda B, T, S, D, H: B * H * T * S / 2)),
    "keys once": ("keys or values", cache_of(lambda B, T, S, D, H: B * S * D)),
    "cache of T": ("Your cache has T rows", cache_of(lambda B, T, S, D, H: 2 * B * T * D)),
    "cache of T + S": ("T + S rows", cache_of(lambda B, T, S, D, H: 2 * B * (T + S) * D)),
    "heads in the cache": ("In your cache heads are counted twice", cache_of(lambda B, T, S, D, H: 2 * B * H * S * D)),
    "K in the cache": ("is that of one head", cache_of(lambda B, T, S, D, H: 2 * B * S * D // H)),
    "no batch in the cache": ("Your cache is that of one sequence", cache_of(lambda B, T, S, D, H: 2 * S * D)),
    "q in the cache": ("used once and never again", cache_of(lambda B, T, S, D, H: 3 * B * S * D)),
    "numbers": ("how many numbers there are", counting(size=lambda n: 1)),
    "float32": ("You take 4 bytes", counting(size=lambda n: 4)),
    "bits": ("Your bytes are bits", counting(size=lambda n: 8 * n)),
    "KiB": ("in units of 1024 bytes", counting(size=lambda n: n / 1024)),
    "self-attention": ("S plays no part", lambda B, T, S, D, H, n=4: (
        8 * B * T * D**2 + 4 * B * T**2 * D, B * H * T**2 * n, 2 * B * T * D * n)),
    "joined": ("one sequence of T + S tokens", lambda B, T, S, D, H, n=4: cost(B, T + S, T + S, D, H, n)),
    "one sequence": ("B plays no part in your result", lambda B, *a: cost(1, *a)),
    "another order": ("(flops, weight_bytes, cache_bytes)", lambda *a: (cost(*a)[0], cost(*a)[2], cost(*a)[1])),
    "D is a head's": ("D for the width of a head", lambda B, T, S, K, H, n=4: cost(B, T, S, H * K, H, n)),
})


# ---- tests ----------------------------------------------------------------------------------------------------------


(
    test_right_but_unusual_answers_pass,
    test_wrong_answers_in_no_list_get_a_useful_sentence,
    test_what_students_write_gets_the_hint_about_it,
    test_every_exercise_has_enough_of_each,
) = ANSWERS.tests(EXERCISES)


def test_the_usual_answers_are_right_where_nothing_is_changed():
    passes(ex_rotate, usual)
    passes(ex_cost, summed)
