"""Answers to lecture 6's exercises: unusual right ones pass, wrong ones get a sentence of use, in a list or not."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from answers import Answers, exercises_of, passes
from course_utils.exercises import lecture_06

ANSWERS = Answers()  # the wrong ones are in no list
right, wrong, written = ANSWERS.right, ANSWERS.wrong, ANSWERS.written
EXERCISES = exercises_of(lecture_06)
split, merge, causal, heads = (e.reference for e in EXERCISES)

# ---- split_heads ----------------------------------------------------------------------------------------------------


@right(lecture_06.split_heads)
def stacked_pieces(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


@right(lecture_06.split_heads)
def viewed_and_permuted(x, n_heads):
    return x.view(*x.shape[:2], n_heads, -1).permute(0, 2, 1, 3).contiguous()


@right(lecture_06.split_heads)
def in_a_loop(x, n_heads):
    B, T, D = x.shape
    K = D // n_heads
    out = x.new_zeros(B, n_heads, T, K)
    for h in range(n_heads):
        out[:, h] = x[:, :, h * K:(h + 1) * K]
    return out


@right(lecture_06.split_heads)
def by_columns(x, n_heads):
    return x.mT.reshape(len(x), n_heads, -1, x.shape[1]).mT


wrong(lecture_06.split_heads, "did you forget `return`")(lambda x, n_heads: None)
wrong(lecture_06.split_heads, "stay in torch")(lambda x, n_heads: split(x, n_heads).numpy())
wrong(lecture_06.split_heads, "`heads` should be a torch tensor of shape (2, 3, 5, 4)")(lambda x, n_heads: x)
wrong(lecture_06.split_heads, "head 0 has the rows 0 1 and 4 5")(lambda x, n_heads: split(x, n_heads) ** 2 + x.sum())
wrong(lecture_06.split_heads, "changes its argument `x`")(
    lambda x, n_heads: split(x, n_heads).clone() + 0 * x.mul_(2).sum())
wrong(lecture_06.split_heads, "stopped with TypeError")(lambda x, n_heads: x.reshape(len(x), n_heads, 1.5))
written(lecture_06.split_heads, {
    "no transpose": ("Swap axes 1 and 2", lambda x, n_heads: x.view(*x.shape[:2], n_heads, -1)),
    "view alone": ("`reshape` only cuts a row of numbers", lambda x, n_heads: x.view(
        len(x), n_heads, x.shape[1], x.shape[2] // n_heads)),
    "K before H": ("every H-th number", lambda x, n_heads: x.view(*x.shape[:2], -1, n_heads).permute(0, 3, 1, 2)),
    "h::H": ("every H-th number", lambda x, n_heads: torch.stack([x[..., h::n_heads] for h in range(n_heads)], 1)),
    "batch of heads": ("fold the heads into the batch", lambda x, n_heads: torch.cat(x.chunk(n_heads, -1)).unflatten(
        0, (n_heads, -1)).transpose(0, 1).flatten(0, 1)),
    "stacked in front": ("(H, B, T, K)", lambda x, n_heads: torch.stack(x.chunk(n_heads, -1))),
    "stacked last": ("(B, T, K, H)", lambda x, n_heads: torch.stack(x.chunk(n_heads, -1), -1)),
    "list": ("Give the heads an axis of their own", lambda x, n_heads: list(x.split(x.shape[-1] // n_heads, -1))),
    "slices": ("Head h starts at h K", lambda x, n_heads: torch.stack(
        [x[..., h:h + x.shape[-1] // n_heads] for h in range(n_heads)], 1)),
    "wide heads": ("n_heads for the width", lambda x, n_heads: x.reshape(*x.shape[:2], -1, n_heads).transpose(1, 2)),
})

# ---- merge_heads ----------------------------------------------------------------------------------------------------


@right(lecture_06.merge_heads)
def joined_in_a_loop(x):
    return torch.cat([x[:, h] for h in range(x.shape[1])], dim=-1)


@right(lecture_06.merge_heads)
def contiguous_view(x):
    B, H, T, K = x.shape
    return x.transpose(1, 2).contiguous().view(B, -1, H * K)


@right(lecture_06.merge_heads)
def unbound(x):
    return torch.concatenate(x.unbind(1), -1)


@right(lecture_06.merge_heads)
def by_einsum(x):
    B, H, T, K = x.shape
    place = torch.eye(H * K, dtype=x.dtype).view(H, K, H * K)
    return torch.einsum("bhtk,hkd->btd", x, place)


wrong(lecture_06.merge_heads, "did you forget `return`")(lambda x: None)
wrong(lecture_06.merge_heads, "Join the rows of a list")(lambda x: [x[:, 0]])
wrong(lecture_06.merge_heads, "stay in torch")(lambda x: merge(x).numpy())
wrong(lecture_06.merge_heads, "opposite sign")(lambda x: -merge(x))
wrong(lecture_06.merge_heads, "Token 0 gets 0 1 4 5")(lambda x: merge(x) + x.sum((1, 2, 3), keepdim=True)[..., 0] / 7)
wrong(lecture_06.merge_heads, "stopped with RuntimeError")(lambda x: x.reshape(2, 5, 13))
written(lecture_06.merge_heads, {
    "reshape": ("Your tokens are scrambled", lambda x: x.reshape(len(x), x.shape[2], -1)),
    "view": ("`view` can't join axes", lambda x: x.transpose(1, 2).view(len(x), x.shape[2], x.shape[1] * x.shape[3])),
    "mean": ("You average the heads", lambda x: x.mean(dim=1)),
    "sum": ("You add up the heads", lambda x: sum(x.unbind(1))),
    "permuted": ("alternate within a token", lambda x: x.permute(0, 2, 3, 1).flatten(2)),
    "stacked last": ("alternate within a token", lambda x: torch.stack(list(x.unbind(1)), -1).flatten(2)),
    "joined along tokens": ("one below the other", lambda x: torch.cat(list(x.unbind(1)), 1)),
    "overwritten": ("something overwritten in a loop", lambda x: [x[:, h] for h in range(x.shape[1])][-1]),
    "not joined": ("but stop there", lambda x: x.transpose(1, 2)),
    "axes": ("swap tokens and features", lambda x: x.transpose(-1, -2).reshape(len(x), x.shape[2], -1)),
})

# ---- causal_mask ----------------------------------------------------------------------------------------------------


@right(lecture_06.causal_mask)
def not_the_upper_triangle(T):
    return ~torch.ones(T, T, dtype=torch.bool).triu(1)


@right(lecture_06.causal_mask)
def compared(T):
    i = torch.arange(T)
    return i[:, None] >= i[None]


@right(lecture_06.causal_mask)
def from_floats(T):
    return torch.tril(torch.ones(T, T)) > 0


@right(lecture_06.causal_mask)
def filled(T):
    mask = torch.zeros(T, T).bool()
    for t in range(T):
        mask[t, :t + 1] = True
    return mask


@right(lecture_06.causal_mask)
def from_rows(T):
    return torch.tensor([[s <= t for s in range(T)] for t in range(T)])


wrong(lecture_06.causal_mask, "dtype torch.float32, and numbers are no mask")(lambda T: torch.ones(T, T).tril())
wrong(lecture_06.causal_mask, "dtype torch.int64, and numbers are no mask")(
    lambda T: torch.ones(T, T, dtype=torch.long).tril())
wrong(lecture_06.causal_mask, "NumPy array of shape (5, 5)")(lambda T: np.tril(np.ones((T, T), dtype=bool)))
wrong(lecture_06.causal_mask, "did you forget `return`")(lambda T: None)
wrong(lecture_06.causal_mask, "keep the signature of the stub")(lambda: causal(3))
wrong(lecture_06.causal_mask, "True False False")(lambda T: causal(T) ^ (torch.arange(T) == 2))
wrong(lecture_06.causal_mask, "stopped with TypeError")(lambda T: torch.ones(T, T, dtype="bool").tril())
written(lecture_06.causal_mask, {
    "strict": ("Keep the diagonal", lambda T: torch.ones(T, T).tril(-1).bool()),
    "strict, compared": ("Keep the diagonal", lambda T: torch.arange(T)[:, None] > torch.arange(T)),
    "hidden": ("negate it with `~`", lambda T: torch.triu(torch.ones(T, T), diagonal=1).bool()),
    "hidden, as floats": ("negate it with `~`", lambda T: torch.triu(torch.ones(T, T), diagonal=1)),
    "upper": ("to its future", lambda T: torch.ones(T, T, dtype=torch.bool).triu()),
    "compared the other way": ("to its future", lambda T: torch.arange(T)[:, None] <= torch.arange(T)),
    "one more": ("just the token that it has to predict", lambda T: torch.ones(T, T, dtype=torch.bool).tril(1)),
    "all": ("read the answer off", lambda T: torch.full((T, T), True)),
    "torch's": ("read as booleans, your 0 is False", torch.nn.Transformer.generate_square_subsequent_mask),
    "with axes": ("axes of length 1 in front", lambda T: causal(T).view(1, 1, T, T)),
    "zeros": ("Start with ones", lambda T: torch.zeros(T, T, dtype=torch.bool).tril()),
})

# ---- multi_head_attention -------------------------------------------------------------------------------------------


@right(lecture_06.multi_head_attention)
def sum_over_heads(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    K = x.shape[-1] // n_heads
    out = 0
    for h in range(n_heads):
        c = slice(h * K, (h + 1) * K)
        out = out + F.scaled_dot_product_attention(x @ Wq[:, c], x @ Wk[:, c], x @ Wv[:, c], mask) @ Wo[c]
    return out


@right(lecture_06.multi_head_attention)
def fused(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    qkv = (x @ torch.cat([Wq, Wk, Wv], 1)).view(*x.shape[:2], 3, n_heads, -1).permute(2, 0, 3, 1, 4)
    if mask is not None and mask.ndim == 3:
        mask = mask[:, None]
    return F.scaled_dot_product_attention(*qkv, attn_mask=mask).transpose(1, 2).flatten(2) @ Wo


@right(lecture_06.multi_head_attention)
def by_einsum_with_a_large_number(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    B, T, D = x.shape
    q, k, v = (torch.einsum("btd,dhk->bthk", x, W.view(D, n_heads, -1)) for W in (Wq, Wk, Wv))
    scores = torch.einsum("bthk,bshk->bhts", q, k) / (D / n_heads)**0.5
    if mask is not None:
        scores = scores - 1e9 * ~mask.expand(B, T, T)[:, None]
    return torch.einsum("bhts,bshk,hkd->btd", scores.softmax(-1), v, Wo.view(n_heads, -1, D))


@right(lecture_06.multi_head_attention)
def by_torchs_function(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    y = x.transpose(0, 1)
    hidden = None if mask is None else ~(mask if mask.dim() == 2 else mask.repeat_interleave(n_heads, 0))
    return F.multi_head_attention_forward(
        y, y, y, x.shape[-1], n_heads, torch.cat([Wq.T, Wk.T, Wv.T]), None, None, None, False, 0.0, Wo.T, None,
        attn_mask=hidden, need_weights=False)[0].transpose(0, 1)


@right(lecture_06.multi_head_attention)
def folded_into_the_batch(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    q, k, v = (split(x @ W, n_heads).flatten(0, 1) for W in (Wq, Wk, Wv))
    scores = torch.bmm(q, k.mT) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores[~mask.expand(len(x), -1, -1).repeat_interleave(n_heads, 0)] = -math.inf
    return merge((scores.softmax(-1) @ v).unflatten(0, (-1, n_heads))) @ Wo


@right(lecture_06.multi_head_attention)
def in_single_precision(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    return heads(*(a.float() for a in (x, Wq, Wk, Wv, Wo)), n_heads, mask)


def usual(x, Wq, Wk, Wv, Wo, n_heads, mask=None, *, cut=split, join=merge, scale=lambda q, x: math.sqrt(q.size(-1)),
          axis=lambda m: m.unsqueeze(1) if m.dim() == 3 else m, hide=lambda s, m: s.masked_fill(m == 0, -1e9),
          dim=-1, out=lambda z, Wo: z @ Wo):
    q, k, v = cut(x @ Wq, n_heads), cut(x @ Wk, n_heads), cut(x @ Wv, n_heads)
    s = q @ k.transpose(-2, -1) / scale(q, x)
    if mask is not None:
        s = hide(s, axis(mask))
    return out(join(torch.softmax(s, dim=dim) @ v), Wo)


def with_a(**change):
    return lambda x, Wq, Wk, Wv, Wo, n_heads, mask=None: usual(x, Wq, Wk, Wv, Wo, n_heads, mask, **change)


def own_corner(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    K = x.shape[-1] // n_heads
    z = split(x, n_heads)
    m = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
    return merge(F.scaled_dot_product_attention(z @ Wq[:K, :K], z @ Wk[:K, :K], z @ Wv[:K, :K], m)) @ Wo


wrong(lecture_06.multi_head_attention, "did you forget `return`")(lambda *a: None)
wrong(lecture_06.multi_head_attention, "stay in torch")(lambda *a: heads(*a).numpy())
wrong(lecture_06.multi_head_attention, "0.9442 and 0.0558")(lambda *a: heads(*a) ** 3)
wrong(lecture_06.multi_head_attention, "does not depend on `Wk`")(lambda x, Wq, Wk, Wv, Wo, n_heads, mask=None: heads(
    x, Wq, Wv.T, Wv, Wo, n_heads, mask))
wrong(lecture_06.multi_head_attention, "changes its argument `x`")(lambda x, *a: (heads(x, *a), x.mul_(2))[0])
wrong(lecture_06.multi_head_attention, "stopped with RuntimeError")(lambda x, *a: heads(x.mT, *a))
wrong(lecture_06.multi_head_attention, "Two things at once")(with_a(scale=lambda q, x: 1.0, out=lambda z, Wo: z))
wrong(lecture_06.multi_head_attention, "Two things at once")(with_a(
    scale=lambda q, x: x.shape[-1]**0.5, join=lambda z: z.reshape(len(z), z.shape[2], -1)))
written(lecture_06.multi_head_attention, {
    "d_model": ("width of one head", with_a(scale=lambda q, x: math.sqrt(x.shape[-1]))),
    "no scale": ("the scale is missing", with_a(scale=lambda q, x: 1.0)),
    "no Wo": ("Wo has no effect", with_a(out=lambda z, Wo: z)),
    "Linear": ("as nn.Linear stores its weights", lambda x, Wq, Wk, Wv, Wo, n, m=None: usual(
        x, Wq.T, Wk.T, Wv.T, Wo.T, n, m)),
    "view": ("cuts across tokens", with_a(cut=lambda z, H: z.view(len(z), H, z.shape[1], -1))),
    "view twice": ("cuts across tokens", with_a(cut=lambda z, H: z.view(len(z), H, z.shape[1], -1),
                                                join=lambda z: z.reshape(len(z), z.shape[2], -1))),
    "merged by view": ("merging is not", with_a(join=lambda z: z.reshape(len(z), z.shape[2], -1))),
    "corner": ("A head projects all D numbers", own_corner),
    "no head axis": ("Insert the axis", with_a(axis=lambda m: m)),
    "repeated": ("in the order sentence 0, 1", lambda x, Wq, Wk, Wv, Wo, n, m=None: usual(
        x, Wq, Wk, Wv, Wo, n, m, axis=lambda m: m.repeat(n, 1, 1).view(len(m), n, *m.shape[1:]) if m.dim() > 2 else m)),
    "axis always": ("Only a mask of three axes needs it", with_a(axis=lambda m: m.unsqueeze(1))),
    "polarity": ("hide what should be visible", with_a(hide=lambda s, m: s.masked_fill(m, -1e9))),
    "zeros": ("which is a score like any other", with_a(hide=lambda s, m: s * m)),
    "no mask": ("same with and without a mask", with_a(hide=lambda s, m: s)),
    "queries": ("over the queries", with_a(dim=-2)),
    "exchanged": ("exchange keys and values", lambda x, Wq, Wk, Wv, Wo, n, m=None: usual(x, Wq, Wv, Wk, Wo, n, m)),
    "batch": ("Change one sentence", lambda x, Wq, Wk, Wv, Wo, n, m=None: usual(
        x.transpose(0, 1), Wq, Wk, Wv, Wo, n).transpose(0, 1)),
    "over heads": ("the heads of one token attend", lambda x, Wq, Wk, Wv, Wo, n, m=None: usual(
        x, Wq, Wk, Wv, Wo, n, cut=lambda z, H: z.view(*z.shape[:2], H, -1), join=lambda z: z.flatten(2))),
    "weights": ("The output alone is wanted", lambda x, Wq, Wk, Wv, Wo, n, m=None: (
        heads(x, Wq, Wk, Wv, Wo, n, m), torch.softmax(split(x @ Wq, n) @ split(x @ Wk, n).mT / (
            x.shape[-1] / n)**0.5 + (0 if m is None else (~(m[:, None] if m.dim() == 3 else m)) * -1e9), -1))),
})


# ---- more mistakes ------------------------------------------------------------------------------------------------


def attending(weigh, scores=lambda q, k: q @ k.mT, fill=-torch.inf):
    def answer(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
        q, k, v = (split(x @ W, n_heads) for W in (Wq, Wk, Wv))
        e = scores(q, k) / math.sqrt(q.shape[-1])
        if mask is not None:
            e = e.masked_fill(~(mask if mask.dim() == 2 else mask[:, None]), fill)
        return merge(weigh(e) @ v) @ Wo
    return answer


def slices(x, Wq, Wk, Wv, Wo, n_heads, mask=None):
    K = x.shape[-1] // n_heads
    found = []
    for h in range(n_heads):
        c = slice(h * K, h * K + K)
        own = x[..., c]
        e = (own @ Wq[c, c]) @ (own @ Wk[c, c]).mT / math.sqrt(K)
        e = e if mask is None else e.masked_fill(~mask, -torch.inf)
        found.append(torch.softmax(e, -1) @ (own @ Wv[c, c]))
    return torch.cat(found, -1) @ Wo


right(lecture_06.multi_head_attention)(attending(lambda e: e.softmax(-1), fill=-1e9))
written(lecture_06.causal_mask, {
    "~ of whole numbers": ("flips their bits", lambda T: ~torch.ones(T, T, dtype=torch.long).triu(1)),
})
written(lecture_06.multi_head_attention, {
    "queries, -inf": ("runs over the queries", attending(lambda e: e.softmax(-2))),
    "heads, -inf": ("runs over the heads", attending(lambda e: e.softmax(1))),
    "batch, -inf": ("runs over the batch", attending(lambda e: e.softmax(0))),
    "fill -100": ("a visible key may have a lower one", attending(lambda e: e.softmax(-1), fill=-100.0)),
    "fill inf": ("the score +inf", attending(lambda e: e.softmax(-1), fill=torch.inf)),
    "k.T": ("reverses all four axes", attending(lambda e: e.softmax(-1), lambda q, k: q @ k.permute(3, 2, 1, 0))),
    "slices": ("each head sees one of them only", slices),
})


# ---- tests ----------------------------------------------------------------------------------------------------------


(
    test_right_but_unusual_answers_pass,
    test_wrong_answers_in_no_list_get_a_useful_sentence,
    test_what_students_write_gets_the_hint_about_it,
    test_every_exercise_has_enough_of_each,
) = ANSWERS.tests(EXERCISES)


def test_the_usual_answer_is_right_where_nothing_is_changed():
    passes(lecture_06.multi_head_attention, usual)
