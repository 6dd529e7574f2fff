"""Lecture 1's exercises: right answers that look unusual pass, wrong ones that are in no list get a sentence of use."""

import math

import numpy as np
import torch

from answers import Answers, exercises_of, fails_unlisted, passes
from course_utils.exercises import lecture_01

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


# ---- rnn_forward ----------------------------------------------------------------------------------------------------


@right(lecture_01.rnn_forward)
def input_projection_first(x, Wx, Wh, b, h0):
    projected, hs, h = x @ Wx.T + b, np.empty((len(x), len(h0))), h0
    for t, z in enumerate(projected):
        hs[t] = h = np.tanh(z + h @ Wh.T)
    return hs


@right(lecture_01.rnn_forward)
def recursion(x, Wx, Wh, b, h0):
    first = np.tanh(Wx @ x[0] + Wh @ h0 + b)
    return np.vstack([first, recursion(x[1:], Wx, Wh, b, first)]) if len(x) > 1 else first[None]


@right(lecture_01.rnn_forward)
def einsum_into_a_buffer_with_h0(x, Wx, Wh, b, h0):
    hs = np.concatenate([h0[None], np.zeros((len(x), len(h0)))])
    for t in range(len(x)):
        hs[t + 1] = np.tanh(np.einsum("ij,j->i", Wx, x[t]) + np.einsum("ij,j->i", Wh, hs[t]) + b)
    return hs[1:]


@right(lecture_01.rnn_forward)
def one_concatenated_weight(x, Wx, Wh, b, h0):
    W, h, out = np.hstack([Wx, Wh, b[:, None]]), h0.copy(), []
    for x_t in x:
        h[:] = np.tanh(W @ np.concatenate([x_t, h, [1.0]]))
        out.append(h.copy())
    return np.array(out)


@right(lecture_01.rnn_forward)
def single_precision(x, Wx, Wh, b, h0):
    x, Wx, Wh, b, h0 = (a.astype(np.float32) for a in (x, Wx, Wh, b, h0))
    return input_projection_first(x, Wx, Wh, b, h0).astype(np.float32)


@right(lecture_01.rnn_forward)
def tanh_by_exponentials(x, Wx, Wh, b, h0):
    h, out = h0.reshape(-1, 1), []
    for x_t in x:
        z = Wx @ x_t.reshape(-1, 1) + Wh @ h + b.reshape(-1, 1)
        h = (np.exp(z) - np.exp(-z)) / (np.exp(z) + np.exp(-z))
        out.append(h.ravel())
    return np.stack(out)


@wrong(lecture_01.rnn_forward, "np.stack")
def list_of_rows(x, Wx, Wh, b, h0):
    return list(input_projection_first(x, Wx, Wh, b, h0))


@wrong(lecture_01.rnn_forward, "row 0 is all zero")
def loop_from_one(x, Wx, Wh, b, h0):
    hs, h = np.zeros((len(x), len(h0))), h0
    for t in range(1, len(x)):
        hs[t] = h = np.tanh(Wx @ x[t] + Wh @ h + b)
    return hs


@wrong(lecture_01.rnn_forward, "An axis too many")
def columns(x, Wx, Wh, b, h0):
    h, out = h0[:, None], []
    for x_t in x:
        h = np.tanh(Wx @ x_t[:, None] + Wh @ h + b)
        out.append(h)
    return np.array(out)


@wrong(lecture_01.rnn_forward, "Compute row 0 by itself")
def only_the_diagonal(x, Wx, Wh, b, h0):
    h, out = h0, []
    for x_t in x:
        h = np.tanh(Wx @ x_t + np.diag(Wh) * h + b)
        out.append(h)
    return np.stack(out)


@wrong(lecture_01.rnn_forward, "UnboundLocalError")
def no_start(x, Wx, Wh, b, h0):
    for x_t in x:
        h = np.tanh(Wx @ x_t + Wh @ h + b)  # noqa: F821
    return h


@wrong(lecture_01.rnn_forward, "`return` inside the loop")
def returned_too_soon(x, Wx, Wh, b, h0):
    h, out = h0, []
    for x_t in x:
        h = np.tanh(Wx @ x_t + Wh @ h + b)
        out.append(h)
        return np.stack(out)


@wrong(lecture_01.rnn_forward, "stay in NumPy")
def torch_in_numpy(x, Wx, Wh, b, h0):
    return torch.from_numpy(input_projection_first(x, Wx, Wh, b, h0))


@wrong(lecture_01.rnn_forward, "Two things at once")
def two_at_once(x, Wx, Wh, b, h0):
    h, out = np.zeros_like(h0), []
    for x_t in x:
        h = np.tanh(Wx @ x_t + Wh @ h)
        out.append(h)
    return np.stack(out)


# ---- rnn_backward ---------------------------------------------------------------------------------------------------


@right(lecture_01.rnn_backward)
def collected_then_one_product(x, hs, h0, Wx, Wh, dhs):
    dz, after = np.zeros_like(hs), 0.0
    for t in range(len(x) - 1, -1, -1):
        dz[t] = (dhs[t] + after) * (1 - hs[t] * hs[t])
        after = dz[t] @ Wh
    return dz.T @ x, dz.T @ np.vstack([h0, hs[:-1]]), dz.sum(axis=0)


@right(lecture_01.rnn_backward)
def by_autograd(x, hs, h0, Wx, Wh, dhs):
    weights = [torch.tensor(a, requires_grad=True) for a in (Wx, Wh, np.zeros_like(h0))]
    # The bias is not handed in: find it from the states, as arctanh(h_1) - Wx x_1 - Wh h_0.
    bias = torch.tensor(np.arctanh(hs[0]) - Wx @ x[0] - Wh @ h0)
    h, loss = torch.tensor(h0), 0.0
    for x_t, dh in zip(torch.tensor(x), torch.tensor(dhs), strict=True):
        h = torch.tanh(weights[0] @ x_t + weights[1] @ h + weights[2] + bias)
        loss = loss + dh @ h
    return [g.numpy() for g in torch.autograd.grad(loss, weights)]


@right(lecture_01.rnn_backward)
def sum_over_pairs(x, hs, h0, Wx, Wh, dhs):
    dWx, dWh, db = 0.0, 0.0, 0.0
    before = np.vstack([h0, hs[:-1]])
    for loss_at in range(len(x)):
        dh = dhs[loss_at].copy()
        for t in range(loss_at, -1, -1):
            dh *= 1 - hs[t] ** 2
            dWx, dWh, db = dWx + np.multiply.outer(dh, x[t]), dWh + dh[:, None] * before[t], db + dh
            dh = np.einsum("ij,i->j", Wh, dh)
    return dWx, dWh, db


@right(lecture_01.rnn_backward)
def recursive(x, hs, h0, Wx, Wh, dhs):
    def back(t, after):
        if t < 0:
            return np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(h0)
        dz = (dhs[t] + after) * (1 - hs[t] ** 2)
        dWx, dWh, db = back(t - 1, Wh.T @ dz)
        return dWx + np.outer(dz, x[t]), dWh + np.outer(dz, hs[t - 1] if t else h0), db + dz
    return back(len(x) - 1, 0.0)


@wrong(lecture_01.rnn_backward, "`dWx` and `db` are right; `dWh` is not")
def diagonal_of_dWh(x, hs, h0, Wx, Wh, dhs):
    dWx, dWh, db = recursive(x, hs, h0, Wx, Wh, dhs)
    return dWx, np.diag(np.diag(dWh)), db


@wrong(lecture_01.rnn_backward, "opposite sign")
def negative(x, hs, h0, Wx, Wh, dhs):
    return tuple(-g for g in recursive(x, hs, h0, Wx, Wh, dhs))


@wrong(lecture_01.rnn_backward, "Right in the case “one step”, wrong in the others")
def two_steps_back(x, hs, h0, Wx, Wh, dhs):
    dWx, dWh, db = np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(h0)
    for loss_at in range(len(x)):
        dh = dhs[loss_at]
        for t in range(loss_at, max(loss_at - 2, -1), -1):
            dz = dh * (1 - hs[t] ** 2)
            dWx, dWh, db = dWx + np.outer(dz, x[t]), dWh + np.outer(dz, hs[t - 1] if t else h0), db + dz
            dh = Wh.T @ dz
    return dWx, dWh, db


@wrong(lecture_01.rnn_backward, "Compare the shapes")
def inner_product(x, hs, h0, Wx, Wh, dhs):
    dz = dhs[-1] * (1 - hs[-1] ** 2)
    return dz @ x[-1], dz @ hs[-2], dz


@wrong(lecture_01.rnn_backward, "Expected 3 values (dWx, dWh, db), but your function returned 2")
def bias_forgotten(x, hs, h0, Wx, Wh, dhs):
    return recursive(x, hs, h0, Wx, Wh, dhs)[:2]


@wrong(lecture_01.rnn_backward, "`dWh` should be a NumPy array of shape (4, 4)")
def summed_away(x, hs, h0, Wx, Wh, dhs):
    dWx, dWh, db = recursive(x, hs, h0, Wx, Wh, dhs)
    return dWx, dWh.sum(axis=0), db


@wrong(lecture_01.rnn_backward, "changes its argument `hs`")
def slopes_into_hs(x, hs, h0, Wx, Wh, dhs):
    answer = recursive(x, hs, h0, Wx, Wh, dhs)
    hs[:] = 1 - hs**2
    return answer


# ---- clip_gradients -------------------------------------------------------------------------------------------------


@right(lecture_01.clip_gradients)
def norm_of_norms(grads, max_norm):
    norm = np.linalg.norm([np.linalg.norm(g) for g in grads])
    return [g * min(1.0, max_norm / (norm + 1e-9)) for g in grads]


@right(lecture_01.clip_gradients)
def one_long_vector(grads, max_norm):
    norm = np.linalg.norm(np.concatenate([g.ravel() for g in grads]))
    return tuple(g / max(1.0, norm / max_norm) for g in grads)


@right(lecture_01.clip_gradients)
def like_torch(grads, max_norm):
    tensors = [torch.nn.Parameter(torch.zeros(g.shape, dtype=torch.float64)) for g in grads]
    for tensor, g in zip(tensors, grads, strict=True):
        tensor.grad = torch.tensor(g)
    torch.nn.utils.clip_grad_norm_(tensors, max_norm)
    return [tensor.grad.numpy() for tensor in tensors]


@right(lecture_01.clip_gradients)
def in_place_on_copies(grads, max_norm):
    grads = [g.copy() for g in grads]
    norm = sum(np.vdot(g, g) for g in grads) ** 0.5
    for g in grads:
        if norm > max_norm:
            g *= max_norm / norm
    return grads


@wrong(lecture_01.clip_gradients, "the direction is right, the length isn't")
def root_of_the_factor(grads, max_norm):
    norm = float(np.linalg.norm(np.concatenate([g.ravel() for g in grads])))
    return [g * math.sqrt(max_norm / norm) if norm > max_norm else g for g in grads]


@wrong(lecture_01.clip_gradients, "does not depend on `max_norm`")
def limit_one(grads, max_norm):
    norm = float(np.linalg.norm(np.concatenate([g.ravel() for g in grads])))
    return [g / norm if norm > 1 else g for g in grads]


@wrong(lecture_01.clip_gradients, "return that list alone")
def with_the_norm(grads, max_norm):
    return norm_of_norms(grads, max_norm), 1.0


@wrong(lecture_01.clip_gradients, "list(...)")
def generator(grads, max_norm):
    return (g for g in norm_of_norms(grads, max_norm))


@wrong(lecture_01.clip_gradients, "Keep the arrays apart")
def joined(grads, max_norm):
    return np.concatenate([g.ravel() for g in norm_of_norms(grads, max_norm)])


# ---- sgd_step -------------------------------------------------------------------------------------------------------


@right(lecture_01.sgd_step)
def by_autograd_grad(w, loss_fn, lr, max_norm):
    (gradient,) = torch.autograd.grad(loss_fn(w), w)
    return (w - lr * gradient * min(1.0, max_norm / float(gradient.norm()))).detach()


@right(lecture_01.sgd_step)
def by_torch(w, loss_fn, lr, max_norm):
    copy = w.detach().clone().requires_grad_()
    loss_fn(copy).backward()
    torch.nn.utils.clip_grad_norm_([copy], max_norm)
    torch.optim.SGD([copy], lr=lr).step()
    return copy


@right(lecture_01.sgd_step)
def under_no_grad(w, loss_fn, lr, max_norm):
    if w.grad is not None:
        w.grad.zero_()
    loss_fn(w).backward()
    with torch.no_grad():
        norm = (w.grad**2).sum().sqrt()
        if norm > max_norm:
            w.grad *= max_norm / norm
        return w - lr * w.grad


@wrong(lecture_01.sgd_step, "does not depend on `max_norm`")
def signs(w, loss_fn, lr, max_norm):
    w.grad = None
    loss_fn(w).backward()
    return w.detach() - lr * w.grad.sign()


@wrong(lecture_01.sgd_step, "stay in torch")
def numpy_in_torch(w, loss_fn, lr, max_norm):
    return by_torch(w, loss_fn, lr, max_norm).detach().numpy()


@wrong(lecture_01.sgd_step, "should be")
def weights_clipped(w, loss_fn, lr, max_norm):
    w.grad = None
    loss_fn(w).backward()
    return (w.detach() - lr * w.grad).clamp(-max_norm, max_norm)


@wrong(lecture_01.sgd_step, "did you forget `return`")
def no_return_value(w, loss_fn, lr, max_norm):
    by_torch(w, loss_fn, lr, max_norm)


# ---- perplexity -----------------------------------------------------------------------------------------------------


@right(lecture_01.perplexity)
def concatenated(nlls):
    return np.exp(np.concatenate(nlls).mean())


@right(lecture_01.perplexity)
def weighted_means(nlls):
    return math.exp(np.average([n.mean() for n in nlls], weights=[len(n) for n in nlls]))


@right(lecture_01.perplexity)
def geometric_mean(nlls):
    likelihood, tokens = 1.0, 0
    for n in nlls:
        for value in n:
            likelihood, tokens = likelihood * math.exp(-value), tokens + 1
    return likelihood ** (-1 / tokens)


@right(lecture_01.perplexity)
def in_bits(nlls):
    return torch.tensor(2 ** (np.concatenate(nlls).mean() / np.log(2)))


@wrong(lecture_01.perplexity, "Right in the case “one array”")
def worst_batch(nlls):
    return math.exp(max(n.mean() for n in nlls))


@wrong(lecture_01.perplexity, "a single number")
def for_each_token(nlls):
    return np.exp(np.concatenate(nlls))


@wrong(lecture_01.perplexity, "by hand")
def one_token_less(nlls):
    return math.exp(sum(n.sum() for n in nlls) / (sum(n.size for n in nlls) - 1))


@wrong(lecture_01.perplexity, "`.item()`")
def one_number_in_an_array(nlls):
    return np.array([concatenated(nlls)])


# ---- tbptt ----------------------------------------------------------------------------------------------------------


@right(lecture_01.tbptt)
def one_leaf_cleared(chunks, Wx, Wh, b, h0):
    W, h, out = Wh.clone().requires_grad_(), h0, []
    for chunk in chunks:
        states = []
        for x_t in chunk:
            h = torch.tanh(chunk.new_zeros(()) + Wx @ x_t + W @ h + b)
            states.append(h)
        loss = torch.stack(states).square().sum()
        W.grad = None
        loss.backward()
        out.append([loss.item(), W.grad])
        h = h.detach()
    return out


@right(lecture_01.tbptt)
def by_grad(chunks, Wx, Wh, b, h0):
    W, h, out = Wh.clone().requires_grad_(), h0, []
    for chunk in chunks:
        h, loss = h.data, 0.0
        for x_t in chunk:
            h = (Wx @ x_t + W @ h + b).tanh()
            loss = loss + h @ h
        out.append((loss.detach(), torch.autograd.grad(loss, W)[0]))
    return tuple(out)


@right(lecture_01.tbptt)
def by_hand(chunks, Wx, Wh, b, h0):
    out, h = [], h0.numpy()
    Wx, Wh, b = Wx.numpy(), Wh.numpy(), b.numpy()
    for chunk in chunks:
        hs = lecture_01.rnn_forward.reference(chunk.numpy(), Wx, Wh, b, h)
        gradient = collected_then_one_product(chunk.numpy(), hs, h, Wx, Wh, 2 * hs)[1]
        out.append((float((hs**2).sum()), torch.from_numpy(gradient)))
        h = hs[-1]
    return out


@wrong(lecture_01.tbptt, "(loss, dWh) in `result[0]`")
def losses_alone(chunks, Wx, Wh, b, h0):
    return [loss for loss, _ in by_grad(chunks, Wx, Wh, b, h0)]


@wrong(lecture_01.tbptt, "does not require grad")
def no_leaf(chunks, Wx, Wh, b, h0):
    h = h0
    for chunk in chunks:
        for x_t in chunk:
            h = torch.tanh(Wx @ x_t + Wh @ h + b)
        (h**2).sum().backward()


@wrong(lecture_01.tbptt, "float32")
def zeros_of_another_dtype(chunks, Wx, Wh, b, h0):
    return by_grad(chunks, Wx, Wh, b, torch.zeros(len(h0)))


@wrong(lecture_01.tbptt, "look at the state that is handed on")
def mean_state_carried(chunks, Wx, Wh, b, h0):
    W, h, out = Wh.clone().requires_grad_(), h0, []
    for chunk in chunks:
        states = [h.detach()]
        for x_t in chunk:
            states.append(torch.tanh(Wx @ x_t + W @ states[-1] + b))
        h = torch.stack(states[1:]).mean(dim=0)
        loss = sum((s**2).sum() for s in states[1:])
        out.append((loss.detach(), torch.autograd.grad(loss, W)[0]))
    return out


@wrong(lecture_01.tbptt, "`loss` is right; `dWh` is not")
def gradient_transposed(chunks, Wx, Wh, b, h0):
    return [(loss, gradient.T) for loss, gradient in by_grad(chunks, Wx, Wh, b, h0)]


# ---- tests ----------------------------------------------------------------------------------------------------------


@ANSWERS.each_right
def test_right_but_unusual_answers_pass(exercise, answer):
    passes(exercise, answer)


@ANSWERS.each_wrong
def test_wrong_answers_in_no_list_get_a_useful_sentence(exercise, answer, phrase):
    fails_unlisted(exercise, answer, phrase)


def test_every_exercise_has_enough_of_both():
    ANSWERS.enough(exercises_of(lecture_01), right=3, wrong=4)
    assert len(ANSWERS.wrong_ones) >= 20


def test_the_references_taken_from_the_package_are_its_own_functions():
    from course_utils import metrics, recurrent

    assert lecture_01.rnn_forward.reference is recurrent.rnn_forward
    assert lecture_01.rnn_backward.reference is recurrent.rnn_backward
    assert lecture_01.perplexity.reference is metrics.perplexity


def test_truncated_gradients_add_up_to_less_than_the_full_one():
    """tbptt's reference against autograd over the whole sequence: equal in the first chunk, not later."""
    chunks, Wx, Wh, b, h0 = lecture_01.tbptt.probes[0].arguments()
    W, h, losses = Wh.clone().requires_grad_(), h0, []
    for x_t in torch.cat(chunks):
        h = torch.tanh(Wx @ x_t + W @ h + b)
        losses.append((h**2).sum())
    found = lecture_01.tbptt.reference(chunks, Wx, Wh, b, h0)
    start = 0
    for i, (chunk, (loss, gradient)) in enumerate(zip(chunks, found, strict=True)):
        full = sum(losses[start:start + len(chunk)])
        start += len(chunk)
        torch.testing.assert_close(loss, full.detach())
        (expected,) = torch.autograd.grad(full, W, retain_graph=True)
        assert torch.allclose(gradient, expected) == (i == 0)
