"""Lecture 1's exercises: wrong answers as students wrote them, and ones that are right only in easy cases."""

import math

import numpy as np
import torch

from answers import Answers, fails, fails_by_values
from course_utils.exercises import lecture_01

ANSWERS = Answers()
says, degenerate = ANSWERS.wrong, ANSWERS.degenerate

# ---- rnn_forward ----------------------------------------------------------------------------------------------------

forward = lecture_01.rnn_forward.reference


@says(lecture_01.rnn_forward, "has dtype int64, which holds whole numbers only")
def integer_table(x, Wx, Wh, b, h0):
    hs, h = np.zeros((len(x), len(h0)), dtype=int), h0
    for t, x_t in enumerate(x):
        hs[t] = h = np.tanh(Wx @ x_t + Wh @ h + b)
    return hs


@says(lecture_01.rnn_forward, "Your row 0 is `h0` itself")
def row_0_is_h0(x, Wx, Wh, b, h0):
    o = np.zeros((len(x), len(h0)))
    o[0] = h0
    for t in range(1, len(x)):
        o[t] = np.tanh(Wx @ x[t] + Wh @ o[t - 1] + b)
    return o


@says(lecture_01.rnn_forward, "joined end to end", "np.stack")
def concatenated(x, Wx, Wh, b, h0):
    return np.concatenate(list(forward(x, Wx, Wh, b, h0)))


def forget_every(steps):
    def answer(x, Wx, Wh, b, h0):
        h, hs = h0, []
        for t, x_t in enumerate(x):
            h = np.tanh(Wx @ x_t + Wh @ (h if t % steps else h0) + b)
            hs.append(h)
        return np.stack(hs)
    return answer


def two_passes(x, Wx, Wh, b, h0):
    """Every state from two steps alone."""
    before = np.tanh(x @ Wx.T + h0 @ Wh.T + b)
    return np.tanh(x @ Wx.T + np.vstack([h0, before[:-1]]) @ Wh.T + b)


degenerate(
    lecture_01.rnn_forward,
    squeezed=lambda *a: forward(*a).squeeze(),
    as_many_inputs_as_units=lambda x, Wx, Wh, b, h0: forward(x[:, :len(h0)], Wx[:, :len(h0)], Wh, b, h0),
    three_inputs=lambda x, Wx, Wh, b, h0: forward(x[:, :3], Wx[:, :3], Wh, b, h0),
    forgets_after_four_steps=forget_every(4),
    forgets_after_five_steps=forget_every(5),
    two_steps=two_passes,
    symmetric=lambda x, Wx, Wh, b, h0: forward(x, Wx, (Wh + Wh.T) / 2, b, h0),
    positive_start=lambda x, Wx, Wh, b, h0: forward(x, Wx, Wh, b, abs(h0)),
    first_five_rows=lambda *a: forward(*a)[:5],
    h0_twice=lambda x, Wx, Wh, b, h0: forward(x, Wx, Wh, b, np.tanh(h0)),
)


# ---- rnn_backward ---------------------------------------------------------------------------------------------------

backward = lecture_01.rnn_backward.reference


@says(lecture_01.rnn_backward, "`Wh.T @ dz + dhs[t - 1]`")
def loss_of_the_same_step_handed_on(x, hs, h0, Wx, Wh, dhs):
    dWx, dWh, db, dh = np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(h0), dhs[-1]
    for t in reversed(range(len(x))):
        dz = dh * (1 - hs[t] ** 2)
        dWx += np.outer(dz, x[t])
        dWh += np.outer(dz, hs[t - 1] if t else h0)
        db += dz
        dh = Wh.T @ dz + dhs[t]
    return dWx, dWh, db


def with_start(start, carry=True):
    def answer(x, hs, h0, Wx, Wh, dhs):
        dWx, dWh, db, dh_next = np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(h0), start(dhs)
        for t in reversed(range(len(x))):
            dz = (dhs[t] + dh_next) * (1 - hs[t] ** 2)
            dWx += np.outer(dz, x[t])
            dWh += np.outer(dz, hs[t - 1] if t else h0)
            db += dz
            dh_next = carry * (Wh.T @ dz)
        return dWx, dWh, db
    return answer


says(lecture_01.rnn_backward, "counted twice")(with_start(lambda dhs: dhs[-1]))
says(lecture_01.rnn_backward, "in a variable such as dh_next", "without changing `dhs`")(
    with_start(lambda dhs: 0 * dhs[0], carry=False))


@says(lecture_01.rnn_backward, "summed over the units")
def bias_gradient_is_a_number(*arguments):
    dWx, dWh, db = backward(*arguments)
    return dWx, dWh, db.sum()


def truncated_after(steps):
    def answer(x, hs, h0, Wx, Wh, dhs):
        total = [np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(h0)]
        for last in range(len(x)):
            dh, first = dhs[last], max(0, last + 1 - steps)
            for t in range(last, first - 1, -1):
                dz = dh * (1 - hs[t] ** 2)
                total = [g + d for g, d in zip(total, (np.outer(dz, x[t]), np.outer(dz, hs[t - 1] if t else h0), dz))]
                dh = Wh.T @ dz
        return tuple(total)
    return answer


degenerate(
    lecture_01.rnn_backward,
    one_step_back=truncated_after(1),
    four_steps_back=truncated_after(4),
    five_steps_back=truncated_after(5),
    symmetric=lambda x, hs, h0, Wx, Wh, dhs: backward(x, hs, h0, Wx, (Wh + Wh.T) / 2, dhs),
    equal_losses=lambda x, hs, h0, Wx, Wh, dhs: backward(x, hs, h0, Wx, Wh, 0 * dhs + dhs.mean(axis=0)),
    last_loss_alone=lambda x, hs, h0, Wx, Wh, dhs: backward(
        x, hs, h0, Wx, Wh, np.vstack([0 * dhs[:-1], dhs[-1:]])),
    three_inputs=lambda x, hs, h0, Wx, Wh, dhs: backward(x[:, :3], hs, h0, Wx[:, :3], Wh, dhs),
    transposed_if_square=lambda *a: (lambda g: (g[0].T if g[0].shape == g[1].shape else g[0], *g[1:]))(backward(*a)),
    negative_slopes=lambda x, hs, h0, Wx, Wh, dhs: backward(x, abs(hs), h0, Wx, Wh, dhs),
)


# ---- clip_gradients -------------------------------------------------------------------------------------------------


@says(lecture_01.clip_gradients, "`return` inside the loop")
def returned_in_the_loop(grads, max_norm):
    norm = math.sqrt(sum((g**2).sum() for g in grads))
    for g in grads:
        return g * min(1.0, max_norm / norm)


@says(lecture_01.clip_gradients, "`return` inside the loop")
def list_returned_in_the_loop(grads, max_norm):
    norm, out = math.sqrt(sum((g**2).sum() for g in grads)), []
    for g in grads:
        out.append(g * min(1.0, max_norm / norm))
        return out


@says(lecture_01.clip_gradients, "different lengths or shapes")
def ragged_gradients(grads, max_norm):
    return np.array(grads) * min(1.0, max_norm / np.linalg.norm(np.array(grads)))


def clip_if(condition, norm=lambda v, grads: np.linalg.norm(v)):
    def answer(grads, max_norm):
        v = np.concatenate([g.ravel() for g in grads])
        if not condition(v, grads, max_norm):
            return [g.copy() for g in grads]
        return [g * (max_norm / norm(v, grads)) for g in grads]
    return answer


def too_long(v, grads, limit):
    return np.linalg.norm(v) > limit


def root_of_squares(norms):
    return math.sqrt(sum(float(n) ** 2 for n in norms))


def matrices_alone(v, grads):
    return root_of_squares(np.linalg.norm(g) for g in grads if g.ndim > 1) or np.linalg.norm(v)


def spectral(v, grads):
    return root_of_squares(np.linalg.norm(g, 2) if g.ndim == 2 else np.linalg.norm(g) for g in grads)


def long_arrays_alone(grads, max_norm):
    clipped = lecture_01.clip_gradients.reference(grads, max_norm)
    return [c if np.linalg.norm(g) > max_norm else g.copy() for g, c in zip(grads, clipped)]


degenerate(
    lecture_01.clip_gradients,
    an_entry_too_long=clip_if(lambda v, grads, limit: abs(v).max() > limit),
    a_positive_entry_too_long=clip_if(lambda v, grads, limit: v.max() > limit),
    squares_too_long=clip_if(lambda v, grads, limit: v @ v > limit),
    sum_too_long=clip_if(lambda v, grads, limit: abs(v).sum() > limit),
    an_array_too_long=clip_if(lambda v, grads, limit: max(map(np.linalg.norm, grads)) > limit),
    every_array_too_long=clip_if(lambda v, grads, limit: min(map(np.linalg.norm, grads)) > limit),
    norms_too_long=clip_if(lambda v, grads, limit: sum(map(np.linalg.norm, grads)) > limit),
    first_two_arrays=clip_if(too_long, lambda v, grads: root_of_squares(map(np.linalg.norm, grads[:2]))),
    spectral=clip_if(too_long, spectral),
    matrices=clip_if(too_long, matrices_alone),
    largest_of_norms=clip_if(too_long, lambda v, grads: max(map(np.linalg.norm, grads))),
    long_arrays_alone=long_arrays_alone,
    limit_at_least_one=lambda grads, limit: lecture_01.clip_gradients.reference(grads, max(limit, 1.0)),
)


# ---- sgd_step -------------------------------------------------------------------------------------------------------


def sgd(clip, *, loss=None, lr=None):
    def answer(w, loss_fn, learning_rate, max_norm):
        (g,) = torch.autograd.grad((loss or loss_fn)(w), w)
        return w.detach() - (lr or learning_rate) * clip(g, max_norm)
    return answer


def scaled_to(norm, condition=None):
    def clip(g, limit):
        n = norm(g)
        return g * (limit / n) if (condition(g, limit) if condition else n > limit) else g
    return clip


def norm_by_rows(g, limit):
    n = g.norm(dim=-1, keepdim=True)
    return torch.where(n > limit, g * limit / n, g)


euclid = scaled_to(torch.Tensor.norm)
says(lecture_01.sgd_step, "one norm for each row")(sgd(norm_by_rows))
says(lecture_01.sgd_step, "spectral norm")(
    sgd(scaled_to(lambda g: torch.linalg.matrix_norm(g, 2) if g.ndim == 2 else g.norm())))
says(lecture_01.sgd_step, "only if an entry exceeds")(
    sgd(scaled_to(torch.Tensor.norm, lambda g, limit: g.abs().max() > limit)))


@says(lecture_01.sgd_step, "are swapped")
def limits_swapped(w, loss_fn, lr, max_norm):
    return lecture_01.sgd_step.reference(w, loss_fn, max_norm, lr)


@says(lecture_01.sgd_step, "or backward was never called")
def no_backward(w, loss_fn, lr, max_norm):
    w.grad = None
    loss_fn(w)
    return w.detach() - lr * w.grad


@says(lecture_01.sgd_step, "was backward never called")
def no_backward_but_clipped(w, loss_fn, lr, max_norm):
    w.grad = None
    scale = min(1.0, max_norm / w.grad.norm())
    return w.detach() - lr * scale * w.grad


@says(lecture_01.sgd_step, "Backward was never called")
def no_backward_not_cleared(w, loss_fn, lr, max_norm):
    loss = loss_fn(w)  # noqa: F841
    scale = max_norm / w.grad.norm() if w.grad.norm() > max_norm else 1.0
    return w.detach() - lr * scale * w.grad


@says(lecture_01.sgd_step, "minus lr times the clipped gradient")
def in_place(w, loss_fn, lr, max_norm):
    new = lecture_01.sgd_step.reference(w, loss_fn, lr, max_norm)
    with torch.no_grad():
        w.copy_(new)
    return w.detach()


@says(lecture_01.sgd_step, "You return lr times the gradient")
def step_alone(w, loss_fn, lr, max_norm):
    return w.detach() - lecture_01.sgd_step.reference(w, loss_fn, lr, max_norm)


degenerate(
    lecture_01.sgd_step,
    norm_of_two_entries=sgd(scaled_to(lambda g: g.flatten()[:2].norm())),
    norm_of_the_first_row=sgd(scaled_to(lambda g: g[0].norm())),
    norm_of_the_last_row=sgd(scaled_to(lambda g: g[-1].norm())),
    longest_row=sgd(scaled_to(lambda g: g.norm(dim=-1).max())),
    by_columns=sgd(lambda g, limit: g * (limit / g.norm(dim=0)).clamp(max=1) if g.ndim == 2 else euclid(g, limit)),
    nuclear=sgd(scaled_to(lambda g: torch.linalg.matrix_norm(g, "nuc") if g.ndim == 2 else g.norm())),
    sum_decides=sgd(scaled_to(torch.Tensor.norm, lambda g, limit: g.abs().sum() > limit)),
    squares_decide=sgd(scaled_to(torch.Tensor.norm, lambda g, limit: (g * g).sum() > limit)),
    signed_entry_decides=sgd(scaled_to(torch.Tensor.norm, lambda g, limit: g.max() > limit)),
    mean_of_squares=sgd(scaled_to(lambda g: (g * g).mean().sqrt())),
    always_the_bowl=sgd(euclid, loss=lecture_01.bowl),
    fixed_rate=sgd(euclid, lr=0.1),
    weights_decide=lambda w, f, lr, m: sgd(scaled_to(torch.Tensor.norm, lambda g, _: w.norm() > m))(w, f, lr, m),
    flattened=lambda *a: lecture_01.sgd_step.reference(*a).flatten(),
)


# ---- perplexity -----------------------------------------------------------------------------------------------------


@says(lecture_01.perplexity, "different lengths or shapes")
def ragged_losses(nlls):
    return math.exp(np.array(nlls).mean())


def exp_of(select, mean=np.mean):
    return lambda nlls: math.exp(mean(np.concatenate(select(nlls))))


degenerate(
    lecture_01.perplexity,
    mean_of_means=lambda nlls: math.exp(np.mean([n.mean() for n in nlls])),
    length_of_the_first=lambda nlls: math.exp(sum(n.sum() for n in nlls) / (len(nlls) * len(nlls[0]))),
    length_of_the_longest=lambda nlls: math.exp(sum(n.sum() for n in nlls) / (len(nlls) * max(map(len, nlls)))),
    first_two=exp_of(lambda nlls: nlls[:2]),
    first_and_last=exp_of(lambda nlls: [nlls[0], *nlls[1:][-1:]]),
    long_arrays=exp_of(lambda nlls: [n for n in nlls if len(n) > 1]),
    distinct=exp_of(lambda nlls: nlls, lambda v: np.mean(np.unique(v))),
    cut_at_ten=exp_of(lambda nlls: [n.clip(max=10) for n in nlls]),
    without_the_largest=exp_of(lambda nlls: nlls, lambda v: np.sort(v)[:-1].mean()),
    likely_tokens=exp_of(lambda nlls: [n[n < 20] for n in nlls]),
    rounded=lambda nlls: round(math.exp(np.concatenate(nlls).mean()), 2),
)


# ---- tbptt ----------------------------------------------------------------------------------------------------------


def train(*, every=None, border=torch.Tensor.detach, leaf=lambda Wh: Wh.clone().requires_grad_(), inside=None,
          hand_on=-1, counted=slice(1, None), length=None, result=lambda loss, W: (loss.detach(), W.grad)):
    """A loop like a student's: `every` detaches within a chunk, `inside` is the weight in the formula."""
    def answer(chunks, Wx, Wh, b, h0):
        h, out = h0, []
        for chunk in chunks:
            W, states = leaf(Wh), [border(h)]
            for t, x_t in enumerate(chunk[:length(chunks)] if length else chunk):
                before = states[-1].detach() if every and t % every == 0 else states[-1]
                states.append(torch.tanh(Wx @ x_t + (W if inside is None else inside(Wh)) @ before + b))
            loss = sum((s**2).sum() for s in states[counted])
            loss.backward()
            out.append(result(loss, W))
            h = states[hand_on]
        return out
    return answer


def all_at_once(detach):
    def answer(chunks, Wx, Wh, b, h0):
        W, h, losses = Wh.clone().requires_grad_(), h0, []
        for chunk in chunks:
            h, loss = h.detach() if detach else h, 0.0
            for x_t in chunk:
                h = torch.tanh(Wx @ x_t + W @ h + b)
                loss = loss + (h**2).sum()
            losses.append(loss)
        sum(losses).backward()
        return [(loss.detach(), W.grad) for loss in losses]
    return answer


def under_no_grad(*arguments):
    with torch.no_grad():
        return train()(*arguments)


def detached_without_effect(h):
    h.detach()
    return h


def not_a_leaf(Wh):
    return Wh.requires_grad_().clone()


for wrong, *phrases in [
    (train(border=detached_without_effect), "`h.detach()` alone changes nothing", "`h = h.detach()`"),
    (train(leaf=not_a_leaf), "isn't a leaf", "Clone first"),
    (train(leaf=not_a_leaf, result=lambda loss, W: (loss.item(), W.grad.clone())), "isn't a leaf"),
    (train(inside=lambda Wh: Wh), "the one in your formula, and not the argument itself"),
    (under_no_grad, "no `torch.no_grad()` on the way"),
    (all_at_once(detach=True), "backward is called once on the sum of all losses"),
    (all_at_once(detach=False), "on the sum of all losses", "through all chunks"),
    (train(counted=slice(0, None)), "counts the state that a chunk starts from"),
    (train(hand_on=1), "Chunk 0 is right: look at the state that is handed on"),
    (train(hand_on=-2), "Chunk 0 is right: look at the state that is handed on"),
    (train(hand_on=0), "Chunk 0 is right", "nothing is remembered across the border"),
    (train(leaf=lambda Wh: Wh.requires_grad_(), result=lambda loss, W: (loss.detach(), W.grad.clone())),
     "Gradients pile up"),
    (lambda *a: lecture_01.tbptt.reference(*a[:2], a[2].requires_grad_(), *a[3:]), "`requires_grad` of its argument"),
    (lambda *a: lecture_01.tbptt.reference(*a)[0], "`return` inside the loop"),
]:
    says(lecture_01.tbptt, *phrases)(wrong)

degenerate(
    lecture_01.tbptt,
    detached_every_step=train(every=1),
    detached_every_two_steps=train(every=2),
    detached_every_three_steps=train(every=3),
    detached_every_five_steps=train(every=5),
    length_of_the_first_chunk=train(length=lambda chunks: len(chunks[0])),
    zero_start=lambda chunks, Wx, Wh, b, h0: lecture_01.tbptt.reference(chunks, Wx, Wh, b, 0 * h0),
    first_chunk_repeated=lambda *a: [lecture_01.tbptt.reference(*a)[0]] * len(a[0]),
    sorted_chunks=lambda chunks, *rest: lecture_01.tbptt.reference(sorted(chunks, key=len), *rest),
    equal_chunks=lambda chunks, *rest: lecture_01.tbptt.reference(list(torch.cat(chunks).chunk(len(chunks))), *rest),
    each_from_h0=lambda chunks, *rest: [lecture_01.tbptt.reference([c], *rest)[0] for c in chunks],
)


# ---- tests ----------------------------------------------------------------------------------------------------------


@ANSWERS.each_wrong
def test_what_students_wrote_gets_a_sentence_about_it(exercise, answer, phrase):
    fails(exercise, answer, phrase)


@ANSWERS.each_degenerate
def test_answers_that_are_right_in_easy_cases_alone_fail(exercise, answer):
    fails_by_values(exercise, answer)


def test_the_loops_of_these_tests_are_right_where_no_knob_is_turned():
    assert lecture_01.tbptt.check(train()).passed
    assert lecture_01.sgd_step.check(sgd(euclid)).passed
    assert lecture_01.rnn_backward.check(with_start(lambda dhs: 0 * dhs[0])).passed
    assert lecture_01.rnn_backward.check(truncated_after(100)).passed
    assert lecture_01.rnn_forward.check(forget_every(100)).passed
    assert lecture_01.perplexity.check(exp_of(lambda nlls: nlls)).passed


def test_a_list_may_be_handed_back_as_it_is_where_nothing_is_clipped():
    def answer(grads, max_norm):
        norm = math.sqrt(sum((g**2).sum() for g in grads))
        return grads if norm <= max_norm else [g * (max_norm / norm) for g in grads]

    assert lecture_01.clip_gradients.check(answer).passed


def test_the_first_hint_of_sgd_step_does_not_give_the_order_away():
    words = ["clear", "backward", "clip", "update"]
    places = [lecture_01.sgd_step.hints[0].index(word) for word in words]
    assert places != sorted(places)
