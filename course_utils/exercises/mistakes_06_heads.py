"""Wrong answers to the exercises of lecture 6 on heads and the causal mask, each with the hint for whoever wrote it."""

import torch

from course_utils.exercises.engine import Mistake

# ---- split_heads ----------------------------------------------------------------------------------------------------


def _four_axes(x, n_heads):
    """(B, T, H, K), the right cut."""
    return x.unflatten(-1, (n_heads, -1))


def _taken_anew(order):
    """The right cut, whose axes are brought into another order and then called (B, H, T, K)."""
    def answer(x, n_heads):
        B, T, D = x.shape
        return _four_axes(x, n_heads).permute(*order).reshape(B, n_heads, T, D // n_heads)
    return answer


def _permuted(*order):
    return lambda x, n_heads: _four_axes(x, n_heads).permute(*order)


def _interleaved(x, n_heads):
    return x.unflatten(-1, (-1, n_heads)).permute(0, 3, 1, 2)


def _heads_as_width(x, n_heads):
    return x.unflatten(-1, (-1, n_heads)).transpose(1, 2)


def _overlapping(x, n_heads):
    K = x.shape[-1] // n_heads
    return torch.stack([x[..., h:h + K] for h in range(n_heads)], dim=1)


def _first_piece(x, n_heads):
    return _four_axes(x, n_heads)[:, :, :1].expand(-1, -1, n_heads, -1).transpose(1, 2)


def _in_reverse(x, n_heads):
    return _four_axes(x, n_heads).transpose(1, 2).flip(1)


_SCRAMBLED = ("Your heads mix tokens: “token 0” of head 0 is made of several tokens, or of one that belongs to other "
              "heads. `reshape` only cuts a row of numbers: cut the last axis, (B, T, H, K), then swap T and H.")
_ORDER = ("Your axes are in the order {}, but (B, H, T, K) is wanted. {}")
_LAST = ("Attention works on the last two axes, tokens and features, and on each sentence and head in front of them "
         "alone.")
_HEAD_MAJOR = ("You mix up the axes of heads and sentences: what you call sentence 0 has head 0 of several sentences. "
               "The batch stays in front; only T and H are swapped.")
SPLIT_HEADS = [Mistake(*row) for row in [
    (_interleaved, "Head 0 takes every H-th number of a token in yours, 0, H, 2 H and so on; it should take the first "
     "K in a row. Cut the last axis into (H, K), in this order.", "interleaved"),
    (_four_axes, _ORDER.format("(B, T, H, K)", "Swap axes 1 and 2, or attention would run over the heads of one "
     "token."), "no transpose"),
    (_taken_anew((2, 0, 1, 3)), _HEAD_MAJOR, "head-major batch"),
    (_permuted(2, 0, 1, 3), _ORDER.format("(H, B, T, K)", _LAST), "heads in front of the batch"),
    (_permuted(1, 2, 0, 3), _ORDER.format("(T, H, B, K)", _LAST), "tokens in front"),
    (_permuted(0, 2, 3, 1), _ORDER.format("(B, H, K, T)", _LAST), "features before tokens"),
    (_permuted(0, 1, 3, 2), _ORDER.format("(B, T, K, H)", _LAST), "heads last"),
    (lambda x, n_heads: x.reshape(len(x), n_heads, x.shape[1], -1), _SCRAMBLED, "reshape alone"),
    (lambda x, n_heads: x.transpose(1, 2).reshape(len(x), n_heads, x.shape[1], -1), _SCRAMBLED, "reshape of (B, D, T)"),
    (lambda x, n_heads: x.unflatten(1, (n_heads, -1)), "You cut the axis of the tokens, so that each head gets a part "
     "of the sentence. Each head sees all tokens, and K = D / H numbers of each: cut the last axis.", "tokens cut"),
    (_heads_as_width, "You take n_heads for the width of a head, so that you have K heads with H numbers each. The "
     "last axis is cut into (H, K): `n_heads` comes first.", "n_heads as width"),
    (_overlapping, "Your heads overlap: head h starts at number h of a token, so that most numbers are in several "
     "heads and the last in none. Head h starts at h K: `x[..., h * K : (h + 1) * K]`.", "overlapping"),
    (_first_piece, "All your heads hold the same first K numbers of a token. Head h has the numbers h K to "
     "(h + 1) K - 1.", "the first piece everywhere"),
    (_in_reverse, "Your heads are in reverse order. Head 0 has the first K numbers of each token, the last head the "
     "last K.", "in reverse"),
    (lambda x, n_heads: x[:, None].expand(-1, n_heads, -1, -1), "Each of your heads gets all D numbers of a token. "
     "They are shared out: each head has its own K = D / H.", "copied"),
    (lambda x, n_heads: _four_axes(x, n_heads).transpose(1, 2).flatten(0, 1), "You fold the heads into the batch, "
     "(B H, T, K). That can be computed with, too, but here heads have an axis of their own: (B, H, T, K).",
     "folded into the batch"),
    (lambda x, n_heads: x.chunk(n_heads, -1), "You return H tensors (B, T, K), as `chunk` and `split` do: the cut is "
     "right. Give the heads an axis of their own, `torch.stack(pieces, dim=1)`.", "pieces"),
]]


# ---- merge_heads ----------------------------------------------------------------------------------------------------


def _view(x):
    B, H, T, K = x.shape
    return x.transpose(1, 2).view(B, T, H * K)


def _merged(*order):
    """The axes in another order, and what results is called (B, T, D)."""
    def answer(x):
        B, H, T, K = x.shape
        return x.permute(*order).reshape(B, T, H * K)
    return answer


_CONCATENATED = ("You {} the heads, so that a token has K numbers left. They are put side by side, so that nothing is "
                 "lost: the width is H K = D again; weighing them against each other is the business of W_O.")
_ONE_HEAD = ("You return one head alone: K numbers for each token. All H heads are put side by side, H K = D numbers: "
             "is something overwritten in a loop, or indexed?")
_TOKENS_FIRST = ("{} Bring T in front of H by `transpose(1, 2)` (or `permute`), so that the heads of a token lie side "
                 "by side, and then join the last two axes.")
MERGE_HEADS = [Mistake(*row) for row in [
    (_merged(0, 1, 2, 3), _TOKENS_FIRST.format("Your tokens are scrambled, as `reshape` alone joins whatever lies side "
     "by side: your token 0 holds head 0 of several tokens."), "no transpose"),
    (lambda x: x.mean(1), _CONCATENATED.format("average"), "mean"),
    (lambda x: x.sum(1), _CONCATENATED.format("add up"), "sum"),
    (lambda x: x.amax(1), _CONCATENATED.format("take the maximum of"), "maximum"),
    (lambda x: x.prod(1), _CONCATENATED.format("multiply"), "product"),
    (_view, "`transpose` changes how memory is read, not where the numbers lie, and `view` can't join axes that don't "
     "lie side by side. `reshape` or `flatten` copy where they must; so does `.contiguous().view(…)`.",
     "view of a transposed tensor"),
    (_merged(0, 2, 3, 1), "The numbers of your heads alternate within a token: number 0 of all heads, then number 1. "
     "They come head after head: (B, T, H, K) before the last two axes are joined.", "interleaved"),
    (_merged(0, 1, 3, 2), _TOKENS_FIRST.format("You swap tokens and features, the last two axes, and join what lies "
                                               "side by side then."), "last axes swapped"),
    (_merged(0, 3, 2, 1), _TOKENS_FIRST.format("You swap heads and features, axes 1 and 3."), "axes 1 and 3"),
    (_merged(2, 0, 1, 3), "You bring the tokens in front of the batch, and then call the first axis sentences. The "
     "batch stays in front: (B, T, H, K), then (B, T, D).", "tokens in front"),
    (_merged(1, 0, 2, 3), "You swap sentences and heads: your sentence 0 holds head 0 of several sentences. The batch "
     "stays in front: (B, T, H, K), then (B, T, D).", "heads in front"),
    (lambda x: x.transpose(1, 2), "You swap heads and tokens, which is right, but stop there, (B, T, H, K). Join the "
     "last two axes: the H K numbers of a token are one row.", "not joined"),
    (lambda x: x.flatten(1, 2), "You put the heads one below the other, (B, H T, K), which makes H times as many "
     "tokens. They belong side by side: join along the last axis.", "one below the other"),
    (lambda x: x.transpose(1, 2).flatten(1, 2), "You join tokens and heads, (B, T H, K), which makes H times as many "
     "tokens. Join the last two axes, heads and features: (B, T, H K).", "tokens and heads joined"),
    (lambda x: x.transpose(1, 2).flatten(1), "You join everything of a sentence to one row. Each token keeps a row of "
     "its own, (B, T, D): only the last two axes are joined.", "one row"),
    (lambda x: x[:, 0], _ONE_HEAD, "first head"),
    (lambda x: x[:, -1], _ONE_HEAD, "last head"),
    (lambda x: x.flip(1).transpose(1, 2).flatten(2), "Your heads are in reverse order. Head 0 comes first, in the "
     "numbers 0 to K - 1 of each token.", "in reverse"),
    (lambda x: x, "You return x as it came. Swap T and H, then join the last two axes: (B, T, D).", "x itself"),
]]


# ---- causal_mask ----------------------------------------------------------------------------------------------------


def _triangle(diagonal, T):
    return torch.ones(T, T, dtype=torch.bool).tril(diagonal)


def _added(low):
    return lambda T: torch.zeros(T, T).masked_fill(~_triangle(0, T), low)


_FUTURE = ("Token t may attend to the tokens from t on in yours, to its future. Rows are queries and columns keys: "
           "True on and below the diagonal, `tril`.")
_COMPLEMENT = ("You return the complement: yours marks what is hidden. True = may attend in this course (in "
               "nn.MultiheadAttention True = hidden): negate it with `~`.")
_ADDED = ("Your mask is one to be added to the scores: 0 where attention is allowed, {} where it isn't. Booleans are "
          "wanted, True = may attend; read as booleans, your 0 is False and hides just what is allowed.")
_AXES = ("You put axes of length 1 in front. The mask is one table (T, T) for all sentences and heads, and broadcasts "
         "as it is.")
CAUSAL_MASK = [Mistake(*row) for row in [
    (lambda T: _triangle(-1, T), "In yours no token may attend to itself, and row 0 allows nothing, which makes NaN in "
     "a softmax. Keep the diagonal: position t sees 0 to t.", "diagonal hidden"),
    (lambda T: ~_triangle(0, T), _COMPLEMENT, "complement"),
    (lambda T: _triangle(0, T).T, _FUTURE, "upper triangle"),
    (lambda T: _triangle(1, T), "Position t sees t + 1, just the token that it has to predict. The last one that it "
     "may see is itself: diagonal 0, so `triu(1)` is what is hidden.", "one step ahead"),
    (lambda T: _triangle(T, T), "Everything is allowed in yours, so that a model could read the answer off. Row t has "
     "True in the columns 0 to t alone.", "everything"),
    (lambda T: torch.zeros(T, T, dtype=torch.bool), "Everything is hidden in yours: is the triangle taken of an array "
     "of zeros? Start with ones.", "nothing"),
    (lambda T: torch.eye(T, dtype=torch.bool), "Each token sees itself alone in yours. It may look at all that come "
     "before it as well: row t has True in the columns 0 to t.", "diagonal alone"),
    (lambda T: _triangle(0, T).triu(-1), "Each token sees itself and the one before it in yours. It may look at all "
     "that come before it: row t has True in the columns 0 to t.", "two tokens"),
    (lambda T: _triangle(0, T).flip(0), "Your rows are in reverse order: the first token sees everything. Row 0 has "
     "one True, in column 0.", "rows reversed"),
    (lambda T: _triangle(0, T).flip(1), "Your columns are in reverse order: the first token sees the last. Row 0 has "
     "one True, in column 0.", "columns reversed"),
    (lambda T: ~_triangle(0, T).T.int().triu(1), "You invert whole numbers: `~` flips their bits, so 0 becomes -1 and "
     "1 becomes -2. Make the table one of booleans first, `dtype=torch.bool`.", "whole numbers inverted"),
    (_added(-torch.inf), _ADDED.format("-inf"), "additive, -inf"),
    (_added(-1e9), _ADDED.format("-1e9"), "additive, -1e9"),
    (lambda T: _triangle(0, T)[None], _AXES, "(1, T, T)"),
    (lambda T: _triangle(0, T)[None, None], _AXES, "(1, 1, T, T)"),
    (lambda T: _triangle(0, T).tolist(), "You return lists. A tensor of booleans is wanted, (T, T): "
     "`torch.tensor(rows)` makes one.", "lists"),
    (lambda T: _triangle(0, T + 1)[1:], "Your table has T + 1 columns, which shifts the diagonal. Queries and keys are "
     "the same T tokens: (T, T).", "T + 1 columns"),
    (lambda T: _triangle(0, T)[-1], "You return one row, that of the last token. Each of the T queries has a row of "
     "its own: (T, T).", "one row"),
]]
