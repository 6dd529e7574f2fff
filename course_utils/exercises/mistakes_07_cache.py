"""Wrong answers to exercise 7.5, attention with a cache, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import torch

from course_utils.exercises.engine import Mistake, pairs, variations


def _split(x, H):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def _behind(old, new):
    return torch.cat([old, new], dim=2)


def _bottom_right(n, S):
    return torch.ones(n, S, dtype=torch.bool).tril(S - n)


def _with_nan(scores, mask):
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1)


def _softmax(scores, mask):
    return _with_nan(scores, mask).nan_to_num(0.0)


def _step(e, cache, Wq, Wk, Wv, Wo, n_heads, P, *, place=lambda past, n: past, add=lambda e, rows: (e + rows,) * 3,
          join=_behind, mask=_bottom_right, scale=lambda D, H: (D / H)**-0.5, weigh=_softmax,
          mix=lambda heads, Wo: heads @ Wo, keep=lambda old, new, all_: all_, give=lambda y, cache: (y, cache)):
    """`add` makes what queries, keys and values read; `keep` what is cached, from old, new and all keys and values."""
    past, n = 0 if cache is None else cache[0].shape[2], e.shape[1]
    start = place(past, n)
    for_q, for_k, for_v = add(e, P[start:start + n])
    q, new = _split(for_q @ Wq, n_heads), (_split(for_k @ Wk, n_heads), _split(for_v @ Wv, n_heads))
    k, v = new if cache is None else map(join, cache, new)
    weights = weigh(q @ k.mT * scale(e.shape[-1], n_heads), mask(n, k.shape[2]))
    y = mix((weights @ v).transpose(1, 2).flatten(2), Wo)
    return give(y, keep(cache, new, (k, v)))


def _old_ones(old, new, all_):
    return new if old is None else old


def _last_of_each(old, new, all_):
    """The last key and value of a call alone are added to the cache."""
    last = tuple(x[:, :, -1:] for x in new)
    return last if old is None else tuple(map(_behind, old, last))


def _twice(old, new, all_):
    return tuple(map(_behind, all_, new))


def _counting_calls(e, cache, *others):
    """The place is the number of calls."""
    calls, inner = cache or (0, None)
    *matrices, P = others
    y, inner = _step(e, inner, *matrices, P, place=lambda past, n: calls)
    return y, (calls + 1, inner)


def _places_again(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    """Tokens with their places are cached, and get places again in every call."""
    x = (e if cache is None else torch.cat([cache, e], dim=1))
    x = x + P[:x.shape[1]]
    y, _ = _step(x, None, Wq, Wk, Wv, Wo, n_heads, torch.zeros_like(P))
    return y[:, -e.shape[1]:], x


def _own_chunk(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    """What is cached is kept, and not looked at."""
    past = 0 if cache is None else cache[0].shape[2]
    return _step(e, cache, Wq, Wk, Wv, Wo, n_heads, P,
                 mask=lambda n, S: _bottom_right(n, S) & (torch.arange(S) >= past))


def _duplicates(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    """New keys and values are cached twice, and the places count tokens once."""
    return _step(e, cache, Wq, Wk, Wv, Wo, n_heads, P, place=lambda past, n: past // 2, keep=_twice)


def _all_outputs(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    """Tokens are cached, and results of all of them returned."""
    x = e if cache is None else torch.cat([cache, e], dim=1)
    return _step(x, None, Wq, Wk, Wv, Wo, n_heads, P)[0], x


def _no_cache(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    return _step(e, None, Wq, Wk, Wv, Wo, n_heads, P)


def _cached_queries(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    """The cache holds keys and queries, and values come from the queries."""
    return _step(e, cache, Wq, Wk, Wq, Wo, n_heads, P)


def _new_values_alone(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    """Old values count as zeros."""
    return _step(e, cache, Wq, Wk, Wv, Wo, n_heads, P,
                 keep=lambda old, new, all_: (all_[0], torch.zeros_like(all_[1])))


def _none_not_handled(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    return _step(e, cache[:], Wq, Wk, Wv, Wo, n_heads, P)


def _masked_in_the_first_call(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    mask = _bottom_right if cache is None else lambda n, S: torch.ones(n, S, dtype=torch.bool)
    return _step(e, cache, Wq, Wk, Wv, Wo, n_heads, P, mask=mask)


def _top_left_if_several(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    return _step(e, cache, Wq, Wk, Wv, Wo, n_heads, P,
                 mask=lambda n, S: torch.ones(n, S, dtype=torch.bool).tril(S if n == 1 else 0))


def _skipped(e, cache, *others):
    y, cache = _step(e, cache, *others)
    return e + y, cache


def _in_place(e, cache, Wq, Wk, Wv, Wo, n_heads, P):
    past = 0 if cache is None else cache[0].shape[2]
    e += P[past:past + e.shape[1]]
    return _step(e, cache, Wq, Wk, Wv, Wo, n_heads, torch.zeros_like(P))


_PLACE = ("{} The first new token stands at the number of tokens that are cached already, `cache[0].shape[2]`, and the "
          "next ones behind it: `P[past : past + n]`.")
_ALIGN = ("Your mask is aligned at the top left, as `tril` of (n, past + n) and `is_causal=True` of torch are: with a "
          "cache, a new token sees only the first keys. Query i stands at place past + i and sees the keys 0 to "
          "past + i.")
_GROW = ("Your cache {}, so that later tokens forget. Return all keys and values so far, old and new ones joined.")
_PARTS = "Your positions reach the {} alone. Add them to the new embeddings first, and project that three times."
_CHANGES = {
    "places restart": (dict(place=lambda past, n: 0), _PLACE.format(
        "Your places start from 0 again in every call.")),
    "places one too far": (dict(place=lambda past, n: past + (past > 0)), _PLACE.format(
        "Your places are off by one once something is cached: places count from 0.")),
    "places one too far, always": (dict(place=lambda past, n: past + 1), _PLACE.format(
        "Your places count from 1.")),
    "places one short": (dict(place=lambda past, n: max(past - 1, 0)), _PLACE.format(
        "Your places are off by one once something is cached: the new token gets the place of the last one.")),
    "number of new tokens": (dict(place=lambda past, n: n if past else 0), _PLACE.format(
        "You take the number of new tokens for their place.")),
    "no places": (dict(add=lambda e, rows: (e, e, e)), (
        "P has no effect: without positions attention can't tell the order of the tokens. Add `P[past : past + n]` to "
        "the new embeddings before you project them.")),
    "places of the queries alone": (dict(add=lambda e, rows: (e + rows, e, e)), _PARTS.format("queries")),
    "places of the keys alone": (dict(add=lambda e, rows: (e, e + rows, e)), _PARTS.format("keys")),
    "places not in the values": (dict(add=lambda e, rows: (e + rows, e + rows, e)), _PARTS.format("queries and keys")),
    "places not in the queries": (dict(add=lambda e, rows: (e, e + rows, e + rows)), (
        _PARTS.format("keys and values"))),
    "old ones not joined": (dict(join=lambda old, new: new), (
        "Your new tokens don't look at what is cached, and the cache forgets it. Join old and new keys, "
        "`torch.cat([old, new], dim=2)`, and values alike.")),
    "new in front": (dict(join=lambda old, new: torch.cat([new, old], dim=2)), (
        "You put new keys and values in front of the cached ones, where the mask takes them for old. They go behind: "
        "`torch.cat([old, new], dim=2)`.")),
    "joined as heads": (dict(join=lambda old, new: torch.cat([old, new], dim=1)), (
        "You join old and new keys along axis 1, as if they were more heads. Axis 2 is that of the tokens: "
        "`torch.cat([old, new], dim=2)`.")),
    "joined as sentences": (dict(join=lambda old, new: torch.cat([old, new], dim=0)), (
        "You join old and new keys along axis 0, as if they were more sentences. Axis 2 is that of the tokens: "
        "`torch.cat([old, new], dim=2)`.")),
    "joined as features": (dict(join=lambda old, new: torch.cat([old, new], dim=3)), (
        "You join old and new keys along the last axis, as if a key got wider. Axis 2 is that of the tokens: "
        "`torch.cat([old, new], dim=2)`.")),
    "top left": (dict(mask=lambda n, S: torch.ones(n, S, dtype=torch.bool).tril()), _ALIGN),
    "square": (dict(mask=lambda n, S: torch.ones(n, n, dtype=torch.bool).tril()), (
        "Your mask is (n, n), but there are n queries and past + n keys: it must be (n, past + n). Query i stands at "
        "place past + i and sees the keys 0 to past + i.")),
    "no mask": (dict(mask=lambda n, S: torch.ones(n, S, dtype=torch.bool)), (
        "Token by token you are right, but among several new tokens the earlier ones see the later ones. Query i may "
        "see the keys 0 to past + i.")),
    "mask inverted": (dict(mask=lambda n, S: ~_bottom_right(n, S)), (
        "Your mask is inverted: new tokens see only what comes after them. True = may attend, so query i has True for "
        "the keys 0 to past + i.")),
    "one step ahead": (dict(mask=lambda n, S: torch.ones(n, S, dtype=torch.bool).tril(S - n + 1)), (
        "Among several new tokens each sees the next one. Query i sees the keys 0 to past + i.")),
    "itself left out": (dict(mask=lambda n, S: torch.ones(n, S, dtype=torch.bool).tril(S - n - 1)), (
        "Your new tokens don't see themselves, and the very first sees nothing. Append new keys and values before you "
        "attend: query i sees the keys 0 to past + i, the last of which is its own.")),
    "itself left out, NaN": (dict(
        weigh=_with_nan, mask=lambda n, S: torch.ones(n, S, dtype=torch.bool).tril(S - n - 1)), (
        "Your new tokens don't see themselves, and the very first sees nothing, which makes NaN. Query i sees the keys "
        "0 to past + i, the last of which is its own.")),
    "mask inverted, NaN": (dict(weigh=_with_nan, mask=lambda n, S: ~_bottom_right(n, S)), (
        "Your mask is inverted: new tokens see only what comes after them, and the last one nothing, which makes NaN. "
        "True = may attend, so query i has True for the keys 0 to past + i.")),
    "old keys alone": (dict(mask=lambda n, S: (torch.arange(S) < S - n).expand(n, S)), (
        "Your new tokens see what was cached before and none of the new ones, not even themselves. Append new keys and "
        "values before you attend: query i sees the keys 0 to past + i.")),
    "no scale": (dict(scale=lambda D, H: 1.0), (
        "Your scores aren't scaled: divide them by √K, K = D / n_heads the width of a head.")),
    "scale by D": (dict(scale=lambda D, H: D**-0.5), (
        "Your scores are divided by √D. Divide by √K, with K = D / n_heads the width of one head.")),
    "over the queries": (dict(weigh=lambda scores, mask: torch.softmax(scores.masked_fill(~mask, -1e30), -2)), (
        "Your softmax runs over the new tokens, so a single one gives all keys the weight 1. It runs over the keys, "
        "`dim=-1`.")),
    "no Wo": (dict(mix=lambda heads, Wo: heads), (
        "Wo has no effect in your function. After the heads are side by side they are multiplied by it.")),
    "old cache returned": (dict(keep=_old_ones), _GROW.format("stays as it was after the first call")),
    "new ones cached": (dict(keep=lambda old, new, all_: new), _GROW.format("holds only what the last call added")),
    "last one cached": (dict(keep=_last_of_each), _GROW.format("gets only the last key and value of each call")),
    "keys and values exchanged": (dict(keep=lambda old, new, all_: all_[::-1]), (
        "You return the cache as (v, k) and read it as (k, v), which raises no error. Keep one order.")),
    "first sentence cached": (dict(keep=lambda old, new, all_: tuple(x[:1].expand(len(x), -1, -1, -1) for x in all_)), (
        "Your cache holds the keys and values of the first sentence for all. Each sentence of the batch has its own.")),
    "exchanged": (dict(give=lambda y, cache: (cache, y)), (
        "You return the cache first. The order is y, then the cache.")),
    "y alone": (dict(give=lambda y, cache: y), (
        "You return y alone, and the next call has no cache to go on from. Return both: `return y, cache`.")),
    "three results": (dict(give=lambda y, cache: (y, *cache)), (
        "You return three values, y, k and v. Return two, y and the cache: `return y, (k, v)`.")),
}
CACHED_STEP = [*variations(_step, _CHANGES), *(Mistake(*row) for row in [
    (_counting_calls, _PLACE.format("You count calls instead of tokens, which is right only as long as each call has "
                                    "one token."), "calls counted"),
    (_places_again, "Your old keys change from call to call, as positions are added to the whole sentence again in "
     "each. Cache finished keys and values, and add positions to new embeddings alone.", "places again"),
    (_own_chunk, "Your new tokens see each other and nothing that is cached. Query i sees the keys 0 to past + i, the "
     "first `past` of which come from the cache.", "cache not looked at"),
    (_duplicates, "Your cache holds every token twice, so that it gets twice the weight: is something appended that is "
     "in the cache already? Each call appends its n new keys and values once.", "cached twice"),
    (_all_outputs, "You return the outputs of all tokens so far. Those of the n new ones are wanted, (B, n, D): the "
     "others are known from earlier calls.", "all outputs"),
    (_no_cache, "Your result doesn't depend on the cache: every call starts a new sentence. Join the cached keys and "
     "values with the new ones.", "no cache"),
    (_cached_queries, "Wv has no effect: your values are queries. What is averaged, and cached beside the keys, are "
     "the values x Wv.", "queries for values"),
    (_new_values_alone, "Your old values count as zeros: only keys are cached. Each key has its value, and both are "
     "needed later.", "values not cached"),
    (_none_not_handled, "Your function stops in the first call, where cache is None: nothing came before. Ask first: "
     "`if cache is not None:`.", "None not handled"),
    (_masked_in_the_first_call, "You hide the future in the first call alone, but later calls may bring several "
     "tokens, too. Query i may see the keys 0 to past + i.", "masked in the first call"),
    (_top_left_if_several, _ALIGN, "top left if several"),
    (_skipped, "You add e to the output. The skip connection belongs to the block around attention, not to attention "
     "itself.", "skip connection"),
    (_in_place, "Your values are right, but you change e in place, which the caller still needs: `e += …` writes into "
     "it. `x = e + …` makes a new tensor.", "e in place"),
])]
# These fail at once, or at the second call, and what comes after isn't reached.
_ALONE = ("joined as heads", "joined as sentences", "joined as features", "exchanged", "y alone", "three results")
CACHED_STEP_PAIRS = pairs(_step, {name: entry for name, entry in _CHANGES.items() if name not in _ALONE})
