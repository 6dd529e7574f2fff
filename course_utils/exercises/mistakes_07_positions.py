"""Wrong answers to the exercises of lecture 7 on positions and embeddings, each with the hint for whoever wrote it."""

import math

import torch
from torch.nn import functional as F

from course_utils.exercises.engine import Mistake, pairs, variations

# ---- sinusoidal_positions -------------------------------------------------------------------------------------------


def _turns(places, pair, d):
    return places / 10_000**(2 * pair / d)


def _alternating(sin, cos):
    """Sines in the even columns, cosines in the odd ones."""
    return torch.where(torch.arange(sin.shape[1]) % 2 == 0, sin, cos)


def _positions(T, d, *, start=0, pair=lambda column: column // 2, angle=_turns, waves=lambda a: (a.sin(), a.cos()),
               arrange=_alternating, give=lambda table: table):
    """An angle for each place and column; `pair` says which pair a column belongs to."""
    places = torch.arange(start, start + T, dtype=torch.float64)[:, None]
    return give(arrange(*waves(angle(places, pair(torch.arange(d)).double(), d))))


def _halves(sin, cos):
    """All sines, then all cosines."""
    d = sin.shape[1]
    return torch.cat([sin[:, ::2], cos[:, ::2][:, :d // 2]], dim=1)


def _as_many_cosines(T, d):
    a = _turns(torch.arange(T, dtype=torch.float64)[:, None], torch.arange((d + 1) // 2).double(), d)
    table = torch.zeros(T, d, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = a.sin(), a.cos()
    return table


def _too_few_sines(T, d):
    a = _turns(torch.arange(T, dtype=torch.float64)[:, None], torch.arange(d // 2).double(), d)
    table = torch.zeros(T, d, dtype=torch.float64)
    table[:, 0::2], table[:, 1::2] = a.sin(), a.cos()
    return table


def _stacked(T, d):
    """One column too many for odd d."""
    a = _turns(torch.arange(T, dtype=torch.float64)[:, None], torch.arange((d + 1) // 2).double(), d)
    return torch.stack([a.sin(), a.cos()], dim=-1).flatten(1)


def _whole_pairs(T, d):
    """One column too few for odd d."""
    a = _turns(torch.arange(T, dtype=torch.float64)[:, None], torch.arange(d // 2).double(), d)
    return torch.stack([a.sin(), a.cos()], dim=-1).flatten(1)


def _last_one_zero(T, d):
    return F.pad(_whole_pairs(T, d), (0, d % 2))


_BASE = "Your slowest wave turns too {}: the base is 10000, yours {}. It goes into the power, 10000^(2i/d)."
_SPEED = ("Your angles {}: the angle of place t in pair i is t / 10000^(2i/d). Pair 0 turns by 1 for each place, and "
          "the later ones ever more slowly.")
_ODD = ("With odd d there is one sine more than there are cosines, {}: (d + 1) // 2 sines, and only d // 2 "
        "cosines, so cut those off.")
_AXIS = "Your table has the shape {}. (T, d) is wanted: a row for each place{}."
_CHANGES = {
    "doubled exponent": (dict(pair=lambda column: column), (
        "Your waves slow down twice as fast as they should, and the sine and the cosine of a pair differ in speed. In "
        "the formula i counts pairs: for column j of the table i is j // 2.")),
    "cosines with their own exponent": (dict(pair=lambda column: column / 2), (
        "Your cosines have an exponent of their own, (2i + 1)/d, so sine and cosine of a pair turn at different "
        "speeds. They share the angle t / 10000^(2i/d): only then is a shift in place a rotation.")),
    "halved exponent": (dict(angle=lambda t, i, d: t / 10_000**(i / d)), (
        "Your exponents are half as large as they should be, i/d (or the base is 100). With i counting pairs it is "
        "10000^(2i/d).")),
    "twice the exponent": (dict(angle=lambda t, i, d: t / 10_000**(4 * i / d)), (
        "Your exponents are twice as large as they should be, 4i/d. It is 2i/d, and `torch.arange(0, d, 2)` is 2i "
        "already.")),
    "2 pi": (dict(angle=lambda t, i, d: 2 * math.pi * _turns(t, i, d)), (
        "Your angles have a factor of 2π. The formula has none: pair 0 turns by 1 for each place.")),
    "base 1000": (dict(angle=lambda t, i, d: t / 1000**(2 * i / d)), _BASE.format("fast", "is 1000")),
    "base 100000": (dict(angle=lambda t, i, d: t / 100_000**(2 * i / d)), _BASE.format("slowly", "is 100000")),
    "base e": (dict(angle=lambda t, i, d: t * torch.exp(-2 * i / d)), _BASE.format("fast", "is e")),
    "base and exponent exchanged": (dict(angle=lambda t, i, d: t * (2 * i / d)**1e-4), (
        "Base and exponent are exchanged: all your frequencies are about 1. It is 10000 to the power of 2i/d, "
        "`10000 ** (2 * i / d)`.")),
    "multiplied": (dict(angle=lambda t, i, d: t * 10_000**(2 * i / d)), _SPEED.format("grow from pair to pair")),
    "no exponent": (dict(angle=lambda t, i, d: t / 10_000**torch.zeros_like(i)), _SPEED.format(
        "are the same in all pairs")),
    "precedence": (dict(angle=lambda t, i, d: t / 10_000**(2 * i) / d), (
        "`10000 ** 2 * i / d` isn't what it looks like: a power binds before products and quotients. Put the exponent "
        "in parentheses, `10000 ** (2 * i / d)`.")),
    "precedence of the power": (dict(angle=lambda t, i, d: t / (10_000**2 * i / d)), (
        "`10000 ** 2 * i / d` isn't what it looks like: a power binds before products and quotients, and pair 0 "
        "divides by 0. Put the exponent in parentheses, `10000 ** (2 * i / d)`.")),
    "d - 1": (dict(angle=lambda t, i, d: t / 10_000**(2 * i / max(d - 1, 1))), (
        "Your exponent is divided by d - 1. It is 2i/d, so the slowest wave doesn't quite reach 10000.")),
    "d - 2": (dict(angle=lambda t, i, d: t / 10_000**(i / max((d + 1) // 2 - 1, 1))), (
        "Your exponent runs from 0 to 1 over the pairs, so that the slowest wave has the base 10000 itself (the "
        "authors' own code does so). The paper's formula is 2i/d.")),
    "d - 2 itself": (dict(angle=lambda t, i, d: t / 10_000**(2 * i / max(d - 2, 1))), (
        "Your exponent is divided by d - 2. It is 2i/d, so the slowest wave doesn't quite reach 10000.")),
    "cosine first": (dict(waves=lambda a: (a.cos(), a.sin())), (
        "Your even columns are cosines. Row 0 is 0 1 0 1 …: sines in the even columns, cosines in the odd ones.")),
    "all sines": (dict(waves=lambda a: (a.sin(), a.sin())), (
        "All your columns are sines, so that place 0 is all zeros. The odd columns are cosines: a pair is a point on "
        "the circle.")),
    "all cosines": (dict(waves=lambda a: (a.cos(), a.cos())), (
        "All your columns are cosines. The even columns are sines: a pair is a point on the circle.")),
    "the angles": (dict(waves=lambda a: (a, a)), (
        "You return the angles. Take the sine of them in the even columns and the cosine in the odd ones.")),
    "degrees": (dict(waves=lambda a: (a.deg2rad().sin(), a.deg2rad().cos())), (
        "You take the angles for degrees. They are radians, which is what `torch.sin` wants.")),
    "halves": (dict(arrange=_halves), (
        "You put all sines first and all cosines after them (some libraries do). Here, as in the paper's formula, they "
        "alternate: column 2i is a sine, column 2i + 1 the cosine of the same angle.")),
    "places from 1": (dict(start=1), (
        "Your places count from 1. They count from 0: row 0 is 0 1 0 1 ….")),
    "places scaled": (dict(angle=lambda t, i, d: _turns(t / len(t), i, d)), (
        "You divide the places by T, so that the same place looks different in a longer sentence. The angle is "
        "t / 10000^(2i/d) with t = 0, 1, 2 ….")),
    "columns reversed": (dict(pair=lambda column: (len(column) - 1) // 2 - column // 2), (
        "Your fastest wave is in the last columns. Columns 0 and 1 turn fastest, with i = 0, and the last ones most "
        "slowly.")),
    "waves divided": (dict(angle=lambda t, i, d: t + 0 * i, waves=lambda a: [
        wave / 10_000**(2 * (torch.arange(a.shape[1]) // 2).double() / a.shape[1]) for wave in (a.sin(), a.cos())]), (
        "You divide the sine by 10000^(2i/d), which makes small waves instead of slow ones. Divide the place inside: "
        "sin(t / 10000^(2i/d)).")),
    "batch axis": (dict(give=lambda table: table[None]), _AXIS.format(
        "(1, T, d)", "; it broadcasts over the sentences of a batch as it is")),
    "transposed": (dict(give=lambda table: table.T), _AXIS.format("(d, T)", " and a column for each number of it")),
}
SINUSOIDAL_POSITIONS = [*variations(_positions, _CHANGES), *(Mistake(*row) for row in [
    (_as_many_cosines, _ODD.format("and your cosines don't fit into its columns"), "as many cosines as sines"),
    (_too_few_sines, _ODD.format("and your sines don't fill its columns"), "as many sines as cosines"),
    (_stacked, "With odd d your table has one column too many, as each sine brings its cosine. The last cosine is left "
     "out: (T, d).", "a column too many"),
    (_whole_pairs, "With odd d your table has one column too few. The last column is a sine without its cosine: "
     "(d + 1) // 2 sines, d // 2 cosines.", "a column too few"),
    (_last_one_zero, "With odd d your last column stays zero. It is a sine without its cosine: (d + 1) // 2 sines, "
     "d // 2 cosines.", "last column zero"),
])]
SINUSOIDAL_POSITIONS_PAIRS = pairs(_positions, _CHANGES)


# ---- embed ----------------------------------------------------------------------------------------------------------


def _first_rows(tokens, P):
    return P[:tokens.shape[1]]


def _embed(tokens, E, P, *, look_up=lambda tokens, E: E[tokens], scale=lambda tokens, E: math.sqrt(E.shape[1]),
           places=_first_rows, join=torch.add):
    return join(look_up(tokens, E) * scale(tokens, E), places(tokens, P))


def _by_batch(tokens, P):
    return P[:len(tokens), None]


def _zero_pads(tokens, E):
    return E[tokens] * (tokens != 0)[..., None]


def _side_by_side(words, places):
    return torch.cat([words, places.expand_as(words)], dim=-1)


def _scaled_sum(tokens, E, P):
    return (E[tokens] + _first_rows(tokens, P)) * math.sqrt(E.shape[1])


def _pads_zeroed(tokens, E, P):
    return _embed(tokens, E, P) * (tokens != 0)[..., None]


def _scaled_places(tokens, E, P):
    return E[tokens] + _first_rows(tokens, P) * math.sqrt(E.shape[1])


def _whole_table(tokens, E, P):
    return E[tokens] * math.sqrt(E.shape[1]) + P


def _in_place(tokens, E, P):
    E *= math.sqrt(E.shape[1])
    return E[tokens] + _first_rows(tokens, P)


def _normed(tokens, E, P):
    return F.layer_norm(_embed(tokens, E, P), E.shape[1:])


_FACTOR = "You multiply the embeddings by {}. The factor is √d with d = E.shape[1], the width of an embedding."
_ROW = ("You add one and the same row of P, {}, to all tokens, so that order plays no part. Place t gets row t: "
        "`P[:T]`, with the colon.")
_EMBED = {
    "no scale": (dict(scale=lambda tokens, E: 1.0), (
        "Your embeddings are too small by √d: the factor is missing. Embeddings drawn with variance 1/d would "
        "otherwise drown in positions, whose numbers are about 1.")),
    "divided": (dict(scale=lambda tokens, E: E.shape[1]**-0.5), (
        "You divide by √d, as scores are in attention. Embeddings are multiplied by √d.")),
    "times d": (dict(scale=lambda tokens, E: E.shape[1]), _FACTOR.format("d: the root is missing")),
    "root of the root": (dict(scale=lambda tokens, E: E.shape[1]**0.25), _FACTOR.format("d^(1/4), a root too many")),
    "root of V": (dict(scale=lambda tokens, E: len(E)**0.5), _FACTOR.format("√V, the root of the vocabulary's size")),
    "root of T": (dict(scale=lambda tokens, E: tokens.shape[1]**0.5), _FACTOR.format("√T, of the number of tokens")),
    "rounded root": (dict(scale=lambda tokens, E: math.isqrt(E.shape[1])), _FACTOR.format(
        "√d rounded to a whole number")),
    "places along the batch": (dict(places=_by_batch), (
        "All tokens of a sentence get the same row of P: you count places along the batch. They run along the "
        "sentence, axis 1: `P[:tokens.shape[1]]`.")),
    "as many rows as sentences": (dict(places=lambda tokens, P: P[:len(tokens)]), (
        "You take as many rows of P as there are sentences: axis 0 is the batch. Tokens are counted along axis 1, "
        "`P[:tokens.shape[1]]`.")),
    "row T - 1": (dict(places=lambda tokens, P: P[tokens.shape[1] - 1]), _ROW.format("P[T - 1]")),
    "row T": (dict(places=lambda tokens, P: P[tokens.shape[1]]), _ROW.format("P[T]")),
    "row 0": (dict(places=lambda tokens, P: P[0]), _ROW.format("P[0]")),
    "mean row": (dict(places=lambda tokens, P: _first_rows(tokens, P).mean(0)), _ROW.format("their mean")),
    "sum of the rows": (dict(places=lambda tokens, P: _first_rows(tokens, P).sum(0)), _ROW.format("their sum")),
    "places from 1": (dict(places=lambda tokens, P: P[1:tokens.shape[1] + 1]), (
        "Your places count from 1: the first token gets P[1]. Rows count from 0: `P[:T]`.")),
    "last rows": (dict(places=lambda tokens, P: P[-tokens.shape[1]:]), (
        "You add the last T rows of P. The table is longer than a sentence: the first T rows belong to it, `P[:T]`.")),
    "places in reverse": (dict(places=lambda tokens, P: _first_rows(tokens, P).flip(0)), (
        "Your places run backward: the last token gets P[0]. Place t gets row t.")),
    "rows of the ids": (dict(places=lambda tokens, P: P[tokens]), (
        "You look up P by the tokens' ids, so that a word has the same place wherever it stands. Place t gets row t: "
        "`P[:T]`.")),
    "no places": (dict(places=lambda tokens, P: torch.zeros_like(P[0])), (
        "P has no effect: swap two words, and your vectors are swapped, nothing else. Add the positions, `P[:T]`.")),
    "no words": (dict(look_up=lambda tokens, E: torch.zeros_like(E[tokens])), (
        "E has no effect: your result doesn't depend on the tokens. Look up their rows, `E[tokens]`.")),
    "side by side": (dict(join=_side_by_side), (
        "You put positions beside the embeddings, which doubles the width. They are added: the width stays d.")),
    "subtracted": (dict(join=torch.sub), "You subtract the positions. They are added to the embeddings."),
    "multiplied": (dict(join=torch.mul), (
        "You multiply embeddings and positions. They are added: a factor near 0 would wipe out a word.")),
    "pads zeroed": (dict(look_up=_zero_pads), (
        "You set the embedding of token 0 to zeros. Here E is used as it is: what padding holds doesn't matter, as a "
        "mask hides it.")),
    "first sentence": (dict(look_up=lambda tokens, E: E[tokens[:1]].expand(len(tokens), -1, -1)), (
        "All your rows hold the first sentence. Look up the tokens of the whole batch: `E[tokens]` is (B, T, d).")),
}
EMBED = [*variations(_embed, _EMBED), *(Mistake(*row) for row in [
    (_scaled_sum, "You multiply the sum, and so the positions as well, which leaves words and positions in the old "
     "proportion. Only the embeddings are multiplied by √d.", "positions scaled too"),
    (_scaled_places, "You multiply the positions by √d, and not the embeddings. It is the other way round.",
     "positions scaled"),
    (_whole_table, "You add the whole table P, which fits only if the sentence is as long as it. Take its first T "
     "rows, `P[:tokens.shape[1]]`.", "whole table"),
    (_pads_zeroed, "You set the vectors of token 0 to zeros. Its embedding and its place count as any other: what "
     "padding holds doesn't matter, as a mask hides it.", "pads zeroed, places too"),
    (_in_place, "Your values are right, but you change E in place, and the next call multiplies it again. Multiply "
     "what you look up, `E[tokens] * …`.", "E in place"),
    (_normed, "You normalize the sum. Layer norm belongs to the blocks that come after it: return the sum as it is.",
     "normalized"),
])]
EMBED_PAIRS = pairs(_embed, _EMBED)
