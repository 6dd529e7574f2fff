"""Wrong answers to the exercise of lecture 8 on rotary positions, each with the hint for whoever wrote it."""

import math

import torch

from course_utils.exercises.engine import Mistake, pairs, variations

# ---- the rotation, with parts that can be exchanged -----------------------------------------------------------------


def _places(x, start):
    return torch.arange(start, start + x.shape[-2])


def _fall(t, i, K):
    """The angles, (T, K/2)."""
    return t / 10_000**(2 * i / K)


def _neighbors(x):
    return x[..., 0::2], x[..., 1::2]


def _in_turn(u, v):
    return torch.stack([u, v], dim=-1).flatten(-2)


def _rotated(u, v, cos, sin):
    return u * cos - v * sin, u * sin + v * cos


def _rotate(x, start=0, *, places=_places, angle=_fall, split=_neighbors, turn=_rotated, join=_in_turn):
    pair = torch.arange(x.shape[-1] // 2, dtype=torch.float64)
    a = angle(places(x, start).double()[:, None], pair, x.shape[-1])  # (T, K/2)
    return join(*turn(*split(x), a.cos(), a.sin()))


# ---- one thing changed ----------------------------------------------------------------------------------------------


def _one_after_the_other(u, v, cos, sin):
    u = u * cos - v * sin
    return u, u * sin + v * cos


def _first_pair(u, v, cos, sin):
    only = torch.arange(u.shape[-1]) == 0
    return tuple(torch.where(only, new, old) for new, old in zip(_rotated(u, v, cos, sin), (u, v), strict=True))


def _side_by_side(u, v):
    return torch.cat([u, v], dim=-1)


_SAME = ("All your pairs are turned by the same angle, the place itself. Pair i is slower by the factor 10000^(2i/K): "
         "is the exponent lost, or made a whole number by `//`?")
_SPEED = "Your angles {}. Place t turns pair i by t / 10000^(2i/K): pair 0 by t, the later ones by less and less."
_BASE = "Your later pairs turn too {}: the base is 10000, yours {}. It goes into the power, 10000^(2i/K)."
_START = "`start` {}. Row t is the token at place start + t: with a cache, new tokens don't stand at place 0."
_CHANGES = {
    "places from 1": (dict(places=lambda x, start: _places(x, start + 1)), (
        "Your places count from 1. The first row stands at place `start`, and place 0 isn't turned at all.")),
    "start ignored": (dict(places=lambda x, start: _places(x, 0)), _START.format("plays no part in your result")),
    "start for all": (dict(places=lambda x, start: 0 * _places(x, 0) + start), (
        "All your tokens are turned by the angle of place `start`. Places go on from there: start, start + 1 and so "
        "on, one for each row.")),
    "start twice": (dict(places=lambda x, start: _places(x, 2 * start)), _START.format("is added twice")),
    "start subtracted": (dict(places=lambda x, start: _places(x, -start)), _START.format("is subtracted")),
    "places reversed": (dict(places=lambda x, start: _places(x, start).flip(0)), (
        "Your places run backward. Row 0 stands at place `start`, and the last row at the highest place.")),
    "places scaled": (dict(places=lambda x, start: _places(x, start) / x.shape[-2]), (
        "You divide the places by T, so that a token's angle depends on how many others come with it. The angle is "
        "t / 10000^(2i/K) with t = start, start + 1 …")),
    "same angle": (dict(angle=lambda t, i, K: t + 0 * i), _SAME),
    "half the exponent": (dict(angle=lambda t, i, K: t / 10_000**(i / K)), (
        "Your exponents are half as large as they should be, i/K (or the base is 100). With i counting pairs it is "
        "2i/K: the last pair is slower by almost 10000.")),
    "twice the exponent": (dict(angle=lambda t, i, K: t / 10_000**(4 * i / K)), (
        "Your exponents are twice as large as they should be, 4i/K. It is 2i/K, which is `torch.arange(0, K, 2) / K` "
        "or `torch.arange(K // 2) / (K // 2)`.")),
    "odd exponents": (dict(angle=lambda t, i, K: t / 10_000**((2 * i + 1) / K)), (
        "Your exponents are (2i + 1)/K, as if i counted from 1 less. They are 2i/K with i = 0, 1, 2 …: pair 0 turns by "
        "1 for each place.")),
    "i from 1": (dict(angle=lambda t, i, K: _fall(t, i + 1, K)), (
        "Your pairs count from 1. With i = 0 for the first pair its exponent is 0, and it turns by 1 for each place.")),
    "K - 2": (dict(angle=lambda t, i, K: t / 10_000**(i / max(K // 2 - 1, 1))), (
        "Your exponents run from 0 to 1, so that the last pair is slower by 10000 itself. They are 2i/K, and stop "
        "short of 1.")),
    "pairs reversed": (dict(angle=lambda t, i, K: _fall(t, i.flip(0), K)), (
        "Your last pair is the fastest. Pair 0, the numbers 0 and 1, turns by 1 for each place, and the last one most "
        "slowly.")),
    "base e": (dict(angle=lambda t, i, K: t * torch.exp(-2 * i / K)), _BASE.format("fast", "is e")),
    "base 1000": (dict(angle=lambda t, i, K: t / 1000**(2 * i / K)), _BASE.format("fast", "is 1000")),
    "base 100000": (dict(angle=lambda t, i, K: t / 100_000**(2 * i / K)), _BASE.format("slowly", "is 100000")),
    "base 500000": (dict(angle=lambda t, i, K: t / 500_000**(2 * i / K)), _BASE.format(
        "slowly", "is 500000, as in Llama 3")),
    "base 1000000": (dict(angle=lambda t, i, K: t / 1_000_000**(2 * i / K)), _BASE.format("slowly", "is 1000000")),
    "base outside": (dict(angle=lambda t, i, K: t / (10_000 * 2 * i / K)), (
        "Your 10000 is a factor and not the base of a power, and pair 0 divides by 0. The divisor is "
        "`10000 ** (2 * i / K)`, with the exponent in parentheses.")),
    "precedence": (dict(angle=lambda t, i, K: t / (10_000**2 * i / K)), (
        "`10000 ** 2 * i / K` isn't what it looks like: a power binds before products and quotients, and pair 0 "
        "divides by 0. Put the exponent in parentheses, `10000 ** (2 * i / K)`.")),
    "precedence of the quotient": (dict(angle=lambda t, i, K: t / 10_000**(2 * i) / K), (
        "`10000 ** (2 * i) / K` divides the power by K, and not its exponent. Put the whole exponent in parentheses, "
        "`10000 ** (2 * i / K)`.")),
    "precedence, turned round": (dict(angle=lambda t, i, K: t / (10_000**(2 * i) / K)), (
        "`10000 ** (2 * i) / K` divides the power by K, so that all your angles are too large. Put the whole exponent "
        "in parentheses, `10000 ** (2 * i / K)`.")),
    "multiplied": (dict(angle=lambda t, i, K: t * 10_000**(2 * i / K)), _SPEED.format(
        "grow from pair to pair, as the minus sign of an exponent or a quotient is missing")),
    "raised": (dict(angle=lambda t, i, K: 10_000**(-2 * i / K) + 0 * t), _SPEED.format("don't depend on the place")),
    "place in the exponent": (dict(angle=lambda t, i, K: 10_000**(-2 * i * t / K)), (
        "Your place stands in the exponent. It multiplies: t / 10000^(2i/K), so that each further place adds the same "
        "angle.")),
    "2 pi": (dict(angle=lambda t, i, K: 2 * math.pi * _fall(t, i, K)), (
        "Your angles have a factor of 2π, which leaves pair 0 as it was. The formula has none: pair 0 turns by 1, in "
        "radians, for each place.")),
    "degrees": (dict(angle=lambda t, i, K: _fall(t, i, K).deg2rad()), (
        "You take the angles for degrees. They are radians, which is what `torch.sin` and `torch.cos` want.")),
    "floored": (dict(angle=lambda t, i, K: _fall(t, i, K).floor()), (
        "Your angles are whole numbers, so that slow pairs stand still for many places. Divide by `/` and not by "
        "`//`, and keep the places as floats.")),
    "half the angle": (dict(angle=lambda t, i, K: _fall(t, i, K) / 2), (
        "Your angles are half as large as they should be. Place t turns pair 0 by t, and pair i by t / 10000^(2i/K).")),
    "halves": (dict(split=lambda x: x.chunk(2, dim=-1), join=_side_by_side), (
        "You pair number i with number i + K/2, as the code of GPT-NeoX does, and that of Llama in many libraries. "
        "Here pairs are neighbors, 2i and 2i + 1, as in the paper: either works in a model trained with it, but they "
        "don't mix.")),
    "halves, in turn": (dict(split=lambda x: x.chunk(2, dim=-1)), (
        "You read pairs as halves, number i with number i + K/2, and write them as neighbors. A pair is made of "
        "neighbors on both sides, `x[..., 0::2]` with `x[..., 1::2]`.")),
    "side by side": (dict(join=_side_by_side), (
        "You put all first numbers of the pairs before all second ones: `cat` joins end to end. They alternate: pair "
        "i goes back to the places 2i and 2i + 1, for which `stack` makes an axis of 2 to flatten.")),
    "second first": (dict(join=lambda u, v: _in_turn(v, u)), (
        "The two numbers of each pair are exchanged in your result. u cos a - v sin a goes to place 2i, the other to "
        "2i + 1.")),
    "clockwise": (dict(turn=lambda u, v, cos, sin: (u * cos + v * sin, v * cos - u * sin)), (
        "You turn clockwise: the minus sign is at the other sine. Scores depend on distances alone then, too, but with "
        "before and after exchanged, so agree on one direction: here (1, 0) becomes (cos a, sin a).")),
    "sine and cosine exchanged": (dict(turn=lambda u, v, cos, sin: _rotated(u, v, sin, cos)), (
        "Sine and cosine are exchanged. At place 0 the angle is 0, and its cosine, 1, must leave the pair as it is.")),
    "no minus": (dict(turn=lambda u, v, cos, sin: (u * cos + v * sin, u * sin + v * cos)), (
        "The minus sign is missing: both of your sums add. A rotation has one, u cos a - v sin a, and that is what "
        "keeps a pair's length.")),
    "two minus": (dict(turn=lambda u, v, cos, sin: (u * cos - v * sin, v * cos - u * sin)), (
        "You have two minus signs, which changes a pair's length. A rotation has one, u cos a - v sin a and u sin a + "
        "v cos a.")),
    "reflected": (dict(turn=lambda u, v, cos, sin: (u * cos + v * sin, u * sin - v * cos)), (
        "Your pairs are reflected and not turned: the minus sign is at the wrong number. A rotation gives "
        "u cos a - v sin a and u sin a + v cos a.")),
    "conjugate": (dict(turn=lambda u, v, cos, sin: (u * cos - v * sin, -u * sin - v * cos)), (
        "The second number of each of your pairs has the wrong sign: a complex conjugate, or a minus sign too many? It "
        "is u sin a + v cos a.")),
    "no cross terms": (dict(turn=lambda u, v, cos, sin: (u * cos, v * sin)), (
        "You multiply the first number of a pair by the cosine and the second by the sine, so neither sees the other. "
        "A rotation mixes both: u cos a - v sin a and u sin a + v cos a.")),
    "no cross terms, sine first": (dict(turn=lambda u, v, cos, sin: (u * sin, v * cos)), (
        "You multiply by the sine and the cosine, number by number, so that the two of a pair don't mix. A rotation "
        "gives u cos a - v sin a and u sin a + v cos a.")),
    "cosine alone": (dict(turn=lambda u, v, cos, sin: (u * cos, v * cos)), (
        "Your pairs shrink by the cosine, and the sines are missing. A rotation gives u cos a - v sin a and u sin a + "
        "v cos a.")),
    "sine missing in the second": (dict(turn=lambda u, v, cos, sin: (u * cos - v * sin, u * cos + v * sin)), (
        "Both of your sums multiply u by the cosine and v by the sine. The second is u sin a + v cos a.")),
    "one after the other": (dict(turn=_one_after_the_other), (
        "Your second sum uses the new first number where it needs the old one. Compute both before you write either, "
        "or keep a copy of the pairs.")),
    "first pair": (dict(turn=_first_pair), (
        "Only the numbers 0 and 1 are turned. Every pair is, each by an angle of its own.")),
    "added": (dict(turn=lambda u, v, cos, sin: (u + cos, v + sin)), (
        "You add cosines and sines, as lecture 7 does with its positions. Rotary positions add nothing: each pair is "
        "turned by its angle, and keeps its length.")),
    "added, sine first": (dict(turn=lambda u, v, cos, sin: (u + sin, v + cos)), (
        "You add the positions of lecture 7, sines and cosines. Rotary positions add nothing: each pair is turned by "
        "its angle, and keeps its length.")),
    "the pairs alone": (dict(turn=lambda u, v, cos, sin: (cos + 0 * u, sin + 0 * v)), (
        "Your result holds the cosines and sines alone, whatever x is. Turn the pairs of x: u cos a - v sin a and "
        "u sin a + v cos a.")),
}

# ---- mistakes of another form ---------------------------------------------------------------------------------------


def _own_speeds(x, start=0):
    """As x cos + other sin, where each number has an angle of its own."""
    K = x.shape[-1]
    a = _places(x, start).double()[:, None] / 10_000**(torch.arange(K, dtype=torch.float64) / K)
    u, v = _neighbors(x)
    return x * a.cos() + _in_turn(-v, u) * a.sin()


def _own_speeds_doubled(x, start=0):
    K = x.shape[-1]
    a = _places(x, start).double()[:, None] / 10_000**(2 * torch.arange(K, dtype=torch.float64) / K)
    u, v = _neighbors(x)
    return x * a.cos() + _in_turn(-v, u) * a.sin()


def _angles(x, start):
    return _fall(_places(x, start).double()[:, None], torch.arange(x.shape[-1] // 2).double(), x.shape[-1])


def _angles_of_halves(x, start=0):
    """Pairs of neighbors, with angles that are repeated as for halves."""
    a, (u, v) = _angles(x, start).repeat(1, 2), _neighbors(x)
    return x * a.cos() + _in_turn(-v, u) * a.sin()


def _angles_of_neighbors(x, start=0):
    """Pairs of halves, with angles that are repeated as for neighbors."""
    a, (u, v) = _angles(x, start).repeat_interleave(2, dim=1), x.chunk(2, dim=-1)
    return x * a.cos() + torch.cat([-v, u], dim=-1) * a.sin()


def _along(axis):
    """The places run along another axis, which the angles are broadcast from."""
    def rotate(x, start=0):
        a = _fall(torch.arange(start, start + x.shape[axis]).double()[:, None], torch.arange(x.shape[-1] // 2).double(),
                  x.shape[-1])
        shape = [1] * x.ndim
        shape[axis], shape[-1] = x.shape[axis], x.shape[-1] // 2
        return _in_turn(*_rotated(*_neighbors(x), a.reshape(shape).cos(), a.reshape(shape).sin()))
    return rotate


def _tokens_of_axis_1(x, start=0):
    a = _fall(torch.arange(start, start + x.shape[1]).double()[:, None], torch.arange(x.shape[-1] // 2).double(),
              x.shape[-1])
    return _in_turn(*_rotated(*_neighbors(x), a.cos(), a.sin()))


def _tokens_of_axis_1_in_front(x, start=0):
    a = _fall(torch.arange(start, start + x.shape[1]).double()[:, None], torch.arange(x.shape[-1] // 2).double(),
              x.shape[-1])
    u, v = _neighbors(x)
    return _in_turn(a.cos() * u - a.sin() * v, a.sin() * u + a.cos() * v)


def _of_three_axes(x, start=0):
    _B, _T, _K = x.shape
    return _rotate(x, start)


def _of_four_axes(x, start=0):
    _B, _H, _T, _K = x.shape
    return _rotate(x, start)


def _of_two_axes(x, start=0):
    _T, _K = x.shape
    return _rotate(x, start)


def _from_start_to_T(x, start=0):
    return _rotate(x, places=lambda x, _: torch.arange(start, x.shape[-2])) if start else _rotate(x)


def _in_place(x, start=0):
    x.copy_(_rotate(x, start))
    return x


def _overlapping(out):
    """Pair i is made of the numbers i and i + 1."""
    def rotate(x, start=0):
        y, a = out(x), _angles(x, start)
        for i, (cos, sin) in enumerate(zip(a.cos().unbind(1), a.sin().unbind(1), strict=True)):
            u, v = x[..., i], x[..., i + 1]
            y[..., i], y[..., i + 1] = u * cos - v * sin, u * sin + v * cos
        return y
    return rotate


def _angles_added(x, start=0):
    return x + _angles(x, start).repeat_interleave(2, dim=1)


def _not_turned(x, start=0):
    return x.clone()


_OVERLAP = ("Your pairs overlap: pair i is made of the numbers i and i + 1, and the last numbers are in none. It is "
            "made of 2i and 2i + 1.")
_AXES = ("Your function works only if x has {} axes. There may be any number in front of the last two: `x.shape[-2]` "
         "is T and `x.shape[-1]` is K, and `x[..., 0::2]` leaves all axes in front alone.")
_AXIS = ("Your places run along {}. They run along the tokens, the last axis but one, `x.shape[-2]`: (T, K/2) angles "
         "then broadcast over all axes in front.")
ROTATE = [*variations(_rotate, _CHANGES), *(Mistake(*row) for row in [
    (_own_speeds, "The two numbers of your pairs have angles of their own, so they aren't turned. With i counting "
     "pairs, both share t / 10000^(2i/K): for number j that is i = j // 2.", "own speeds"),
    (_own_speeds_doubled, "Your i counts numbers, so the two of a pair have angles of their own. It counts pairs, and "
     "both numbers share an angle: for number j that is i = j // 2.", "own speeds, doubled"),
    (_angles_of_halves, "You mix two conventions: neighbors are turned, but the angles are repeated end to end, as for "
     "the pairs i and i + K/2. For neighbors each angle stands twice in a row, `repeat_interleave(2, dim=-1)`.",
     "angles of halves"),
    (_angles_of_neighbors, "You mix two conventions: each angle stands twice in a row, as for neighbors, but you turn "
     "number i with number i + K/2. Here pairs are neighbors, 2i and 2i + 1.", "angles of neighbors"),
    (_overlapping(torch.clone), _OVERLAP, "overlapping pairs"),
    (_overlapping(torch.zeros_like), _OVERLAP, "overlapping pairs, the rest zero"),
    (_along(-3), _AXIS.format("the heads, or whatever is in front of the tokens"), "along the heads"),
    (_along(0), _AXIS.format("the batch, axis 0"), "along the batch"),
    (_along(1), _AXIS.format("axis 1, which is the heads' in (B, H, T, K)"), "along axis 1"),
    (_tokens_of_axis_1, _AXIS.format("axis 1, which fits (B, T, K) alone"), "tokens of axis 1"),
    (_tokens_of_axis_1_in_front, _AXIS.format("axis 1, which fits (B, T, K) alone"), "tokens of axis 1, in front"),
    (_of_two_axes, _AXES.format("two"), "two axes"),
    (_of_three_axes, _AXES.format("three"), "three axes"),
    (_of_four_axes, _AXES.format("four"), "four axes"),
    (_from_start_to_T, "`torch.arange(start, T)` ends at T, so later rows get no place. There are T of them: "
     "`torch.arange(start, start + T)`.", "start to T"),
    (_in_place, "Your values are right, but you change x in place, and whoever has it finds other numbers in it. Write "
     "into a new tensor, `torch.empty_like(x)`.", "in place"),
    (_angles_added, "You add the angles to the numbers. A pair is a point of the plane, which is turned by its angle.",
     "angles added"),
    (_not_turned, "You return x as it was: nothing is turned. Place 0 stays as it is, and each later place turns pair "
     "i by t / 10000^(2i/K).", "not turned"),
])]

_COMMON = ("places from 1", "start ignored", "start subtracted", "same angle", "half the exponent",
           "twice the exponent", "odd exponents", "base e", "base 1000", "base outside", "precedence", "multiplied",
           "2 pi", "degrees", "floored", "halves", "side by side", "clockwise", "sine and cosine exchanged", "no minus",
           "two minus", "reflected", "no cross terms", "one after the other", "added")
ROTATE_PAIRS = pairs(_rotate, {name: _CHANGES[name] for name in _COMMON})
