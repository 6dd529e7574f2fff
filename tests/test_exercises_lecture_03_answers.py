"""Answers to lecture 3's exercises: unusual right ones pass, wrong ones get a sentence of use, in a list or not."""

import heapq
import math
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F

from answers import Answers, exercises_of
from course_utils.exercises import lecture_03

ANSWERS = Answers()  # the wrong ones are in no list
right, wrong, written = ANSWERS.right, ANSWERS.wrong, ANSWERS.written
EXERCISES = exercises_of(lecture_03)


shift, loss = lecture_03.shift_right.reference, lecture_03.seq2seq_loss.reference
greedy, bleu, beam = (lecture_03.greedy_decode.reference, lecture_03.bleu1.reference, lecture_03.beam_search.reference)

# ---- shift_right ----------------------------------------------------------------------------------------------------


@right(lecture_03.shift_right)
def rolled_and_overwritten(targets, bos):
    inputs = torch.roll(targets, 1)
    inputs[:, 0] = bos
    return inputs


@right(lecture_03.shift_right)
def padded(targets, bos):
    return F.pad(targets, (1, 0), value=bos)[:, :-1]


@right(lecture_03.shift_right)
def rows_of_lists(targets, bos):
    return torch.tensor([[bos, *row[:-1]] for row in targets.tolist()])


@right(lecture_03.shift_right)
def by_index(targets, bos):
    inputs = targets.new_empty(targets.shape)
    inputs[:, 0], inputs[:, 1:] = bos, targets[:, :-1]
    return inputs


wrong(lecture_03.shift_right, "ids index a table")(lambda targets, bos: shift(targets, bos).float())
wrong(lecture_03.shift_right, "stay in torch")(lambda targets, bos: shift(targets, bos).numpy())
wrong(lecture_03.shift_right, "should be a torch tensor of shape (2, 5)")(lambda targets, bos: shift(targets, bos)[:1])
wrong(lecture_03.shift_right, "`inputs[0, 1]` should be 5, yours is 6")(
    lambda targets, bos: shift(targets, bos) + (torch.arange(targets.shape[1]) == 1))
wrong(lecture_03.shift_right, "a column needs the shape (B, 1)")(
    lambda targets, bos: torch.cat([torch.tensor([bos]), targets[:, :-1]], 1))
wrong(lecture_03.shift_right, "a list of length 2")(lambda targets, bos: shift(targets, bos).tolist())
wrong(lecture_03.shift_right, "must have 1 5 6 7 8 below it")(lambda targets, bos: shift(targets, bos).clamp(max=7))
written(lecture_03.shift_right, {
    "no shift": ("learns to copy", lambda targets, bos: targets),
    "roll": ("is cyclic", lambda targets, bos: targets.roll(1, 1)),
    "left": ("shift to the left", lambda targets, bos: F.pad(targets, (0, 1), value=bos)[:, 1:]),
    "twice": ("shift twice", lambda targets, bos: shift(shift(targets, bos), bos)),
    "not cut": ("one token too long", lambda targets, bos: F.pad(targets, (1, 0), value=bos)),
    "no bos": ("one token too short", lambda targets, bos: targets[:, :-1]),
    "first overwritten": ("the first word is lost", lambda targets, bos: targets.index_fill(1, torch.tensor(0), bos)),
    "zeros": ("first column is 0", lambda targets, bos: F.pad(targets, (1, -1))),
    "in place": ("the loss still needs the targets",
                 lambda targets, bos: targets.copy_(shift(targets, bos))),
})

# ---- seq2seq_loss ---------------------------------------------------------------------------------------------------


@right(lecture_03.seq2seq_loss)
def by_cross_entropy(logits, targets, pad):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad)


@right(lecture_03.seq2seq_loss)
def transposed_after_a_log_softmax(logits, targets, pad):
    return F.nll_loss(torch.log_softmax(logits.log_softmax(-1), -1).transpose(1, 2), targets, ignore_index=pad)


@right(lecture_03.seq2seq_loss)
def masked_sum(logits, targets, pad):
    keep = (targets != pad).float()
    one_hot = F.one_hot(targets, logits.shape[-1])
    return -(F.log_softmax(logits, -1) * one_hot * keep[..., None]).sum() / keep.sum()


@right(lecture_03.seq2seq_loss)
def token_by_token(logits, targets, pad):
    losses = [torch.logsumexp(row, 0) - row[target] for row, target in zip(logits.flatten(0, 1), targets.flatten())
              if target != pad]
    return torch.stack(losses).mean()


@right(lecture_03.seq2seq_loss)
def in_single_precision(logits, targets, pad):
    return loss(logits.float(), targets, pad)


wrong(lecture_03.seq2seq_loss, "`loss` should be a single number")(lambda *a: (loss(*a), 3))
wrong(lecture_03.seq2seq_loss, "`.squeeze()` or `.mean()`.")(lambda *a: loss(*a)[None])
for number in (torch.Tensor.item, torch.Tensor.detach, lambda loss: np.float64(loss.item()),
               lambda loss: torch.tensor(loss.item(), requires_grad=True)):
    wrong(lecture_03.seq2seq_loss, "`backward` can't start from what you return, or doesn't reach `logits`")(
        lambda *a, number=number: number(loss(*a)))
wrong(lecture_03.seq2seq_loss, "the gradient with respect to `logits` is not")(
    lambda x, y, pad: loss(x.detach(), y, pad) + 0 * x.sum())
wrong(lecture_03.seq2seq_loss, "`logits.transpose(1, 2)`")(lambda x, y, pad: F.cross_entropy(x, y, ignore_index=pad))
wrong(lecture_03.seq2seq_loss, "stay in torch")(lambda x, y, pad: -np.log(x.numpy()).mean())
wrong(lecture_03.seq2seq_loss, "did you forget `return`")(lambda *a: None)
wrong(lecture_03.seq2seq_loss, "1.0397")(lambda *a: loss(*a) ** 1.5)
wrong(lecture_03.seq2seq_loss, "does not depend on `logits`")(lambda logits, targets, pad: torch.tensor(1.5))
wrong(lecture_03.seq2seq_loss, "opposite sign")(lambda *a: -loss(*a) if a[1].numel() > 3 else loss(*a))
wrong(lecture_03.seq2seq_loss, "stopped with")(lambda logits, targets, pad: F.cross_entropy(logits, targets))
written(lecture_03.seq2seq_loss, {
    "no ignore_index": ("padded positions", lambda x, y, pad: F.cross_entropy(x.mT, y)),
    "masked mean": ("divide by all B T positions", lambda x, y, pad: (
        F.cross_entropy(x.mT, y, reduction="none") * (y != pad)).mean()),
    "rows": ("average each row first", lambda x, y, pad: torch.stack(
        [F.cross_entropy(a, b, ignore_index=pad) for a, b in zip(x, y)]).mean()),
    "sum": ("You return the sum", lambda x, y, pad: F.cross_entropy(x.mT, y, ignore_index=pad, reduction="sum")),
    "softmax twice": ("softmax twice", lambda x, y, pad: F.cross_entropy(x.softmax(-1).mT, y, ignore_index=pad)),
    "reshape": ("by `reshape`", lambda x, y, pad: F.cross_entropy(
        x.reshape(x.shape[0], x.shape[2], x.shape[1]), y, ignore_index=pad)),
    "orders": ("different orders", lambda x, y, pad: F.cross_entropy(
        x.transpose(0, 1).flatten(0, 1), y.flatten(), ignore_index=pad)),
    "zero": ("You leave out id 0", lambda x, y, pad: F.cross_entropy(x.mT, y, ignore_index=0)),
    "shifted again": ("don't shift again", lambda x, y, pad: F.cross_entropy(x[:, :-1].mT, y[:, 1:], ignore_index=pad)),
    "log of softmax": ("numerically stable", lambda x, y, pad: F.nll_loss(
        x.softmax(-1).log().mT, y, ignore_index=pad)),
    "exp by hand": ("numerically stable", lambda x, y, pad: F.nll_loss(
        (x - x.exp().sum(-1, keepdim=True).log()).mT, y, ignore_index=pad)),
    "quotient by hand": ("numerically stable", lambda x, y, pad: -torch.log(
        (x.exp() / x.exp().sum(-1, keepdim=True)).gather(-1, y[..., None])[..., 0][y != pad]).mean()),
    "masked logits": ("still costs log V", lambda x, y, pad: F.cross_entropy((x * (y != pad)[..., None]).mT, y)),
    "masked logits, real tokens": ("still costs log V", lambda x, y, pad: F.cross_entropy(
        (x * (y != pad)[..., None]).mT, y, reduction="sum") / (y != pad).sum()),
    "no log": ("average probabilities", lambda x, y, pad: F.nll_loss(x.softmax(-1).mT, y, ignore_index=pad)),
    "no softmax": ("raw logits", lambda x, y, pad: F.nll_loss(x.mT, y, ignore_index=pad)),
    "unreduced": ("for each position", lambda x, y, pad: F.cross_entropy(
        x.mT, y, ignore_index=pad, reduction="none")),
})

# ---- greedy_decode --------------------------------------------------------------------------------------------------


@right(lecture_03.greedy_decode)
def recursive(step, bos, eos, max_len):
    def follow(tokens):
        token = step(tokens)[-1].argmax()
        return tokens if token == eos or len(tokens) > max_len else follow([*tokens, token])
    return follow([bos])[1:]


@right(lecture_03.greedy_decode)
def kept_and_cut(step, bos, eos, max_len):
    tokens = [bos]
    while len(tokens) <= max_len and tokens[-1] != eos:
        tokens.append(int(np.argsort(step(tokens)[-1])[-1]))
    return tokens[1:-1] if tokens[-1] == eos else tokens[1:]


@right(lecture_03.greedy_decode)
def cut_afterwards_with_tensors(step, bos, eos, max_len):
    tokens = torch.tensor([bos])
    for _ in range(max_len):
        tokens = torch.cat([tokens, torch.from_numpy(step(tokens))[-1].argmax(keepdim=True)])
    words = tokens[1:].tolist()
    return words[:words.index(eos)] if eos in words else words


@right(lecture_03.greedy_decode)
def a_tuple(step, bos, eos, max_len):
    return tuple(greedy(step, bos, eos, max_len))


wrong(lecture_03.greedy_decode, "`.tolist()`")(lambda *a: np.array(greedy(*a)))
wrong(lecture_03.greedy_decode, "Return that list alone")(lambda *a: [greedy(*a), 1.0])
wrong(lecture_03.greedy_decode, "yours is a generator. Collect what it yields")(lambda *a: (t for t in greedy(*a)))
wrong(lecture_03.greedy_decode, "did you forget `return`")(lambda *a: None)
wrong(lecture_03.greedy_decode, "should be [5, 3, 6, 3], but yours is [5, 3, 6, 3, 0]: 1 too many, and those in front")(
    lambda *a: [*greedy(*a), 0])
wrong(lecture_03.greedy_decode, "should be [5, 3, 6, 3], but yours is [9]: 3 too few")(lambda *a: [9])
wrong(lecture_03.greedy_decode, "`tokens[2]` should be 6, yours is 7")(
    lambda *a: [t + (i == 2) for i, t in enumerate(greedy(*a))])
wrong(lecture_03.greedy_decode, "`tokens[0]` is 'tok'")(lambda *a: ["tok"] * len(greedy(*a)))
wrong(lecture_03.greedy_decode, "expected bos and the tokens so far")(lambda step, bos, eos, n: step([]))
wrong(lecture_03.greedy_decode, "0.05 seconds")(lambda step, bos, eos, n: forever(step, bos))


def forever(step, bos):
    while True:
        step([bos])


def simple(feed=lambda t: t, row=lambda s: s[-1].argmax(), end=lambda t, eos: t == eos, keep=False, extra=0):
    def answer(step, bos, eos, max_len):
        tokens = [bos]
        for _ in range(max_len + extra):
            token = int(row(step(feed(tokens))))
            if end(token, eos) and not keep:
                break
            tokens.append(token)
            if end(token, eos):
                break
        return tokens[1:]
    return answer


def without_limit(step, bos, eos, max_len):
    tokens = [bos]
    while True:
        tokens.append(int(step(tokens)[-1].argmax()))
        if tokens[-1] == eos:
            return tokens[1:-1]


def returned_inside(step, bos, eos, max_len):
    tokens = [bos]
    for _ in range(max_len):
        token = int(step(tokens)[-1].argmax())
        if token == eos:
            return tokens[1:]
        tokens.append(token)


written(lecture_03.greedy_decode, {
    "flat argmax": ("whole table", simple(row=np.argmax)),
    "axis 0": ("gives a place instead", simple(row=lambda s: s.argmax(axis=0)[-1])),
    "no stop": ("go on after eos", simple(end=lambda t, eos: False)),
    "bos alone": ("depends on bos alone", simple(feed=lambda t: t[:1])),
    "first row": ("depends on bos alone", simple(row=lambda s: s[0].argmax())),
    "newest": ("keeps no memory", simple(feed=lambda t: t[-1:])),
    "eos kept": ("eos is in your result", simple(keep=True)),
    "bos kept": ("bos is in your result", lambda step, bos, *a: [bos, *greedy(step, bos, *a)]),
    "one less": ("your last token is missing", simple(extra=-1)),
    "starts with 1": ("You start with 1", lambda step, bos, eos, n: greedy(step, 1, eos, n)),
    "no limit": ("don't stop at `max_len`", lambda *a: without_limit(*a)),
    "return inside the loop": ("`return` after the loop, too", lambda *a: returned_inside(*a)),
    "one more": ("beyond the limit", simple(extra=1)),
    "nothing": ("always empty", lambda *a: []),
})

# ---- bleu1 ----------------------------------------------------------------------------------------------------------


@right(lecture_03.bleu1)
def by_counters(candidate, references):
    most = Counter()
    for reference in references:
        most |= Counter(reference)
    c = len(candidate)
    r = sorted((abs(len(reference) - c), len(reference)) for reference in references)[0][1]
    return (Counter(candidate) & most).total() / c * min(1, math.exp(1 - r / c))


@right(lecture_03.bleu1)
def used_up(candidate, references):
    left = {word: max(r.count(word) for r in references) for word in candidate}
    matched = 0
    for word in candidate:
        if left[word] > 0:
            left[word] -= 1
            matched += 1
    c, lengths = len(candidate), np.array(sorted(map(len, references)))
    return np.exp(min(0, 1 - lengths[np.abs(lengths - c).argmin()] / c)) * matched / c


@right(lecture_03.bleu1)
def a_tensor(candidate, references):
    return torch.tensor(bleu(candidate, references), dtype=torch.float64)


wrong(lecture_03.bleu1, "a single number")(lambda c, r: (bleu(c, r), 1.0))
wrong(lecture_03.bleu1, "did you forget `return`")(lambda c, r: None)
wrong(lecture_03.bleu1, "KeyError")(lambda c, r: {}[c[0]])
wrong(lecture_03.bleu1, "precision 2/2")(lambda c, r: 0.5)
wrong(lecture_03.bleu1, "a list of length")(lambda c, r: [bleu([word], r) for word in c])
wrong(lecture_03.bleu1, "the square root of the right value")(lambda c, r: math.sqrt(bleu(c, r)))
wrong(lecture_03.bleu1, "Two things at once")(
    lambda c, r: sum(any(w in x for x in r) for w in c) / len(c) * 100 * (bleu(c, [c, *r]) and penalty(c, r)))
for change in (lambda c, r: r.sort(key=len), lambda c, r: r[0].remove(r[0][0]), lambda c, r: c.clear()):
    wrong(lecture_03.bleu1, "`sorted(a)` and `list(a)` make a new list")(
        lambda c, r, change=change: (bleu(c, r), change(c, r))[0])
wrong(lecture_03.bleu1, "changes its argument `candidate`")(lambda c, r: (bleu(c, r), c.sort(), c.append("x"))[0])


def penalty(c, r):
    n = min(map(len, r), key=lambda n: (abs(n - len(c)), n))
    return min(1.0, math.exp(1 - n / len(c)))


written(lecture_03.bleu1, {
    "strings": ("You count letters", lambda c, r: bleu(" ".join(c), [" ".join(x) for x in r])),
    "not nested": ("for a reference and its letters", lambda c, r: bleu(c, r[0])),
    "one reference": ("overlaps most", lambda c, r: max(
        (Counter(c) & Counter(x)).total() for x in r) / len(c) * penalty(c, r)),
    "not clipped": ("Repeating a word pays off", lambda c, r: sum(
        any(w in x for x in r) for w in c) / len(c) * penalty(c, r)),
    "no penalty": ("brevity penalty is missing", lambda c, r: bleu(c, r) / penalty(c, r)),
    "upside down": ("the quotient is upside down", lambda c, r: bleu(c, r) / penalty(c, r) * (
        math.exp(1 - len(c) / (len(c) * (1 - math.log(penalty(c, r))))))),
    "sets": ("counts twice", lambda c, r: sum(any(w in x for x in r) for w in set(c)) / len(c) * penalty(c, r)),
    "best": ("take the best score", lambda c, r: max(bleu(c, [x]) for x in r)),
    "every occurrence": ("`set(candidate)`", lambda c, r: sum(
        min(c.count(w), max(x.count(w) for x in r)) for w in c) / len(c) * penalty(c, r)),
    "added up": ("largest count in one reference", lambda c, r: sum(
        min(c.count(w), x.count(w)) for x in r for w in set(c)) / len(c) * penalty(c, r)),
    "added up, not clipped": ("largest count in one reference", lambda c, r: sum(
        w in x for x in r for w in c) / len(c) * penalty(c, r)),
    "places": ("at the same place", lambda c, r: sum(
        any(i < len(x) and x[i] == w for x in r) for i, w in enumerate(c)) / len(c) * penalty(c, r)),
    "first of a tie": ("or the one listed first", lambda c, r: bleu(c, r) / penalty(c, r) * min(1, math.exp(
        1 - min(map(len, r), key=lambda n: abs(n - len(c))) / len(c)))),
    "percent": ("in percent", lambda c, r: 100 * bleu(c, r)),
})

# ---- beam_search ----------------------------------------------------------------------------------------------------


def log_p(step, tokens):
    return torch.log_softmax(torch.from_numpy(step(tokens)[-1]), dim=0).tolist()


@right(lecture_03.beam_search)
def with_a_heap_and_an_early_stop(step, bos, eos, max_len, width):
    heap = [(0.0, [bos], False)]
    for _ in range(max_len):
        if heap[0][2]:  # totals only fall: a finished best stays the best
            break
        grown = [(t + p, [*h, k], k == eos) for t, h, done in heap if not done for k, p in enumerate(log_p(step, h))]
        heap = heapq.nlargest(width, [item for item in heap if item[2]] + grown)
    return [token for token in heap[0][1][1:] if token != eos or not heap[0][2]]


@right(lecture_03.beam_search)
def top_of_each_first(step, bos, eos, max_len, width):
    """The best `width` of each hypothesis are enough for the best `width` of all; costs instead of totals; base 2."""
    beam = [(0.0, [])]
    for _ in range(max_len):
        new = []
        for cost, words in beam:
            if words[-1:] == [eos]:
                new.append((cost, words))
            else:
                each = sorted((cost - p / math.log(2), [*words, k]) for k, p in enumerate(log_p(step, [bos, *words])))
                new += each[:width]
        beam = sorted(new)[:width]
    return beam[0][1][:-1] if beam[0][1][-1] == eos else beam[0][1]


@right(lecture_03.beam_search)
def with_arrays_and_parents(step, bos, eos, max_len, width):
    tokens, totals = [[bos]], np.zeros(1)
    for _ in range(max_len):
        rows = []
        for h, total in zip(tokens, totals):
            if h[-1] == eos:
                rows.append(np.where(np.arange(rows_of(step, bos)) == 0, total, -np.inf))
            else:
                rows.append(total + np.array(log_p(step, h)))
        flat = np.concatenate(rows)
        best = [k for k in np.argsort(-flat)[:width] if flat[k] > -np.inf]
        parents, new = np.divmod(best, len(rows[0]))
        tokens = [tokens[p] if tokens[p][-1] == eos else [*tokens[p], int(k)] for p, k in zip(parents, new)]
        totals = flat[best]
    return tokens[0][1:-1] if tokens[0][-1] == eos else tokens[0][1:]


def rows_of(step, bos):
    return step([bos]).shape[1]


wrong(lecture_03.beam_search, "Return that list alone")(lambda *a: [beam(*a)])
wrong(lecture_03.beam_search, "Return that list alone")(lambda *a: (beam(*a), -1.5))
wrong(lecture_03.beam_search, "did you forget `return`")(lambda *a: None)
wrong(lecture_03.beam_search, "yours is a number")(lambda *a: 3)
wrong(lecture_03.beam_search, "should be [4, 0, 0], but yours is [9]: 2 too few")(lambda *a: [9])
wrong(lecture_03.beam_search, "0.4 · 0.9 = 0.36 beats")(lambda *a: [(t + 1) % 5 for t in beam(*a)])
wrong(lecture_03.beam_search, "`tokens[0]` should be 4, yours is 0")(lambda *a: beam(*a)[::-1])


def student(gain=log_p, kept=lambda h, eos: h[1][-1] == eos, prune=lambda done, new, n: sorted(done + new)[::-1][:n],
            final=lambda h, eos: h[1][1:-1] if h[1][-1] == eos else h[1][1:], pick=lambda hs, eos: hs[0]):
    def answer(step, bos, eos, max_len, width):
        hs = [(0.0, [bos])]
        for _ in range(max_len):
            done = [h for h in hs if kept(h, eos)]
            new = [(h[0] + p, [*h[1], k]) for h in hs if not kept(h, eos) for k, p in enumerate(gain(step, h[1]))]
            hs = prune(done, new, width)
        return final(pick(hs, eos), eos)
    return answer


def one_for_each(done, new, n):
    if len({tuple(h[1][:-1]) for h in new}) == 1 and not done:
        return sorted(new)[::-1][:n]
    best = {}
    for h in sorted(new):
        best[tuple(h[1][:-1])] = h
    return sorted(done + [*best.values()])[::-1]


written(lecture_03.beam_search, {
    "nothing": ("always empty", lambda *a: []),
    "raw": ("raw scores", student(gain=lambda step, t: step(t)[-1].tolist())),
    "probabilities": ("You add probabilities", student(gain=lambda step, t: np.exp(log_p(step, t)).tolist())),
    "per hypothesis": ("side by side", student(prune=one_for_each)),
    "greedy": ("greedy decoding", lambda step, bos, eos, n, width: greedy(step, bos, eos, n)),
    "ascending": ("least probable", student(prune=lambda done, new, n: sorted(done + new)[:n])),
    "expanded": ("writing after eos", student(kept=lambda h, eos: False)),
    "lost": ("get lost", lambda *a: lost(*a)),
    "apart": ("make room", student(prune=lambda done, new, n: sorted(done + sorted(new)[::-1][:n])[::-1])),
    "eos kept": ("eos is in your result", student(final=lambda h, eos: h[1][1:])),
    "finished only": ("finished hypotheses only", student(
        pick=lambda hs, eos: next((h for h in hs if h[1][-1] == eos), hs[0]))),
    "last gain": ("newest token alone", lambda *a: newest(*a)),
    "mean": ("without length normalization", student(
        prune=lambda done, new, n: sorted(done + new, key=lambda h: -h[0] / (len(h[1]) - 1))[:n])),
    "at the limit": ("one step too few", lambda step, bos, eos, n, width: beam(
        step, bos, eos, n - 1, width) if n > 1 else []),
    "expanded, filtered": ("writing after eos", student(
        kept=lambda h, eos: False, final=lambda h, eos: [t for t in h[1][1:] if t != eos])),
    "shared list": ("same list", lambda *a: shared(*a)),
    "aside": ("keep their place", lambda *a: aside(*a, all_may_win=True)),
    "aside, the best of the done": ("keep their place", lambda *a: aside(*a, all_may_win=False)),
    "Wu's penalty": ("length penalty", student(prune=lambda done, new, n: sorted(
        done + new, key=lambda h: -h[0] / ((4 + len(h[1])) / 6)**0.6)[:n])),
    "eternal 2": ("keep 2 hypotheses", lambda step, bos, eos, n, width: beam(step, bos, eos, n, 2)),
    "no bos": ("never let bos", lambda step, bos, eos, n, width: student(gain=lambda step, t: [
        p - 1e9 * (k == bos) for k, p in enumerate(log_p(step, t))])(step, bos, eos, n, width)),
    "bos filtered": ("filter bos out", lambda step, bos, eos, n, width: [
        t for t in beam(step, bos, eos, n, width) if t not in (bos, eos)]),
    "shrinking": ("keeps its place for good", lambda *a: shrinking(*a)),
    "wide": ("one hypothesis too many", lambda step, bos, eos, n, width: beam(step, bos, eos, n, width + 1)),
})


def shared(step, bos, eos, n, width):
    hs = [(0.0, [bos])]
    for _ in range(n):
        new = []
        for total, tokens in hs:
            if tokens[-1] == eos:
                new.append((total, tokens))
                continue
            for k, p in enumerate(log_p(step, tokens)):
                tokens.append(k)
                new.append((total + p, tokens))
        hs = sorted(new, key=lambda h: -h[0])[:width]
    return [t for t in hs[0][1][1:]][:-1 if hs[0][1][-1] == eos else None]


def aside(step, bos, eos, n, width, all_may_win):
    hs, done = [(0.0, [bos])], []
    for _ in range(n):
        best = sorted([(t + p, [*h, k]) for t, h in hs for k, p in enumerate(log_p(step, h))])[::-1][:width]
        done += [h for h in best if h[1][-1] == eos]
        hs = [h for h in best if h[1][-1] != eos]
        if len(done) >= width or not hs:
            break
    words = max(done + hs if all_may_win else done or hs)[1][1:]
    return words[:-1] if words[-1] == eos else words


def shrinking(step, bos, eos, n, width):
    hs, done = [(0.0, [bos])], []
    for _ in range(n):
        best = sorted([(t + p, [*h, k]) for t, h in hs for k, p in enumerate(log_p(step, h))])[::-1][:width]
        done += [h for h in best if h[1][-1] == eos]
        hs = [h for h in best if h[1][-1] != eos]
        width = width - (len(best) - len(hs))
        if not hs:
            break
    words = max(done + hs)[1][1:]
    return words[:-1] if words[-1] == eos else words


def lost(step, bos, eos, n, width):
    hs = [(0.0, [bos])]
    for _ in range(n):
        new = [(t + p, [*h, k]) for t, h in hs if h[-1] != eos for k, p in enumerate(log_p(step, h))]
        hs = sorted(new)[::-1][:width]
        if not hs:
            return []
    return hs[0][1][1:-1] if hs[0][1][-1] == eos else hs[0][1][1:]


def newest(step, bos, eos, n, width):
    hs = [(0.0, [bos])]
    for _ in range(n):
        new = [h for h in hs if h[1][-1] == eos]
        new += [(p, [*h, k]) for t, h in hs if h[-1] != eos for k, p in enumerate(log_p(step, h))]
        hs = sorted(new, key=lambda h: -h[0])[:width]
    return hs[0][1][1:-1] if hs[0][1][-1] == eos else hs[0][1][1:]


# ---- tests ----------------------------------------------------------------------------------------------------------


(
    test_right_but_unusual_answers_pass,
    test_wrong_answers_in_no_list_get_a_useful_sentence,
    test_what_students_write_gets_the_hint_about_it,
    test_every_exercise_has_enough_of_each,
) = ANSWERS.tests(EXERCISES)


def test_the_loops_of_these_tests_are_right_where_no_knob_is_turned():
    assert lecture_03.greedy_decode.check(simple()).passed
    assert lecture_03.beam_search.check(student()).passed
