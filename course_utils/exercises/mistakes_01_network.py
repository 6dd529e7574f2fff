"""Wrong answers to the exercises of lecture 1 about the network itself, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import numpy as np
import torch

from course_utils.exercises.engine import Mistake, pairs, variations

# ---- rnn_forward ----------------------------------------------------------------------------------------------------


def _forward(x, Wx, Wh, b, h0, *, start=1.0, carry=lambda h, z, new: new, phi=np.tanh, bias=(1, 0), skip=0.0,
             read=lambda Wx, x_t: Wx @ x_t, recall=lambda Wh, h: Wh @ h, order=1,
             keep=lambda before, after: np.stack(after)):
    h, before, after = start * h0, [], []
    for x_t in x[::order]:
        z = read(Wx, x_t) + recall(Wh, h) + bias[0] * b
        new = phi(z) + bias[1] * b + skip * h
        before.append(h)
        after.append(new)
        h = carry(h, z, new)
    return keep(before, after)


def _row_0_is_h0(x, Wx, Wh, b, h0):
    hs = [h0]
    for x_t in x[1:]:
        hs.append(np.tanh(Wx @ x_t + Wh @ hs[-1] + b))
    return np.stack(hs)


_FORWARD = {
    "stale state": (dict(carry=lambda h, z, new: h), (
        "Row 0 is right, but every later row is computed from `h0` again. The state must be fed back: "
        "which variable carries h_t into step t + 1?")),
    "zero start": (dict(start=0.0), (
        "Your result does not depend on `h0`: the recurrence starts from zeros. Its first state is the initial "
        "state `h0` that is handed in.")),
    "Wh transposed": (dict(recall=lambda Wh, h: h @ Wh), (
        "You multiply by the transpose of `Wh`. `Wh[i, j]` is the weight from unit j to unit i, so the product is "
        "`Wh @ h`. `Wh` is square: the wrong side raises no error.")),
    "rows before the update": (dict(keep=lambda before, after: np.stack(before)), (
        "Your row 0 is `h0` itself, and the last state is missing: each row is stored before the update. "
        "Row t must hold the state after x_t was read.")),
    "one buffer": (dict(keep=lambda before, after: np.stack([after[-1]] * len(after))), (
        "All your rows are the last state. Either one array is overwritten in place and stored every time, or only "
        "the last state is kept: store a new array (or a copy) at every step.")),
    "h0 prepended": (dict(keep=lambda before, after: np.stack([before[0], *after])), (
        "You return T + 1 rows, `h0` first. The result holds one state for each input: leave the initial state out.")),
    "last state only": (dict(keep=lambda before, after: after[-1]), (
        "You return the last state only. All T states are wanted, one in each row: collect them as you go.")),
    "units in rows": (dict(keep=lambda before, after: np.stack(after, axis=1)), (
        "Rows and columns are swapped: the result is (T, d_h), one time step in each row. Transpose it.")),
    "no bias": (dict(bias=(0, 0)), "The bias `b` is missing: the state is `np.tanh(Wx @ x_t + Wh @ h + b)`."),
    "bias outside": (dict(bias=(0, 1)), (
        "Your bias is added after tanh, so states can leave (-1, 1). It goes inside: `np.tanh(Wx @ x_t + Wh @ h + b)`."
    )),
    "bias twice": (dict(bias=(2, 0)), (
        "The bias `b` is added twice. There is one bias for both products: `np.tanh(Wx @ x_t + Wh @ h + b)`.")),
    "no activation": (dict(phi=lambda z: z), (
        "The activation is missing: without tanh the network is linear in its input, and its states can grow without "
        "limit.")),
    "sigmoid": (dict(phi=lambda z: 1 / (1 + np.exp(-z))), (
        "Your states are sigmoids, all between 0 and 1. The activation of this network is tanh, from -1 to 1.")),
    "relu": (dict(phi=lambda z: np.maximum(z, 0)), "Your activation is the ReLU, which cuts off negative states. "
             "The activation of this network is tanh."),
    "pre-activation carried": (dict(carry=lambda h, z, new: z), (
        "You store tanh(z) but feed back z itself. The next step reads the state after the activation, "
        "the one you store.")),
    "input ignored": (dict(read=lambda Wx, x_t: 0.0), (
        "Your result does not depend on `x`: the term `Wx @ x_t` is missing, so the network never reads its input.")),
    "state ignored": (dict(recall=lambda Wh, h: 0.0), (
        "The term `Wh @ h` is missing: every state sees its own input alone, so nothing is remembered.")),
    "Wx from the left": (dict(read=lambda Wx, x_t: x_t @ Wx), (
        "`x_t @ Wx` multiplies by the transpose of `Wx`. Weights are stored (out, in), here (d_h, d_in), as in the "
        "formula: `Wx @ x_t`, or `x_t @ Wx.T`.")),
    "reading backward": (dict(order=-1), (
        "Your loop reads the sequence from its end. Step 0 reads `x[0]`, and the state goes forward in time.")),
    "added to the state": (dict(skip=1.0), (
        "You add tanh(...) to the old state. In this recurrence the new state replaces the old one: "
        "h_t = tanh(...), which sees the old one through `Wh` only.")),
}
RNN_FORWARD = [*variations(_forward, _FORWARD), Mistake(_row_0_is_h0, (
    "Your row 0 is `h0` itself, and `x[0]` is never read. Row t must hold the state after x_t was read, row 0 too: "
    "it comes from `x[0]` and `h0`."))]
RNN_FORWARD_PAIRS = pairs(_forward, _FORWARD)


# ---- rnn_backward ---------------------------------------------------------------------------------------------------


def _backward(x, hs, h0, Wx, Wh, dhs, *, arrives=lambda dhs, t: dhs[t], slope=lambda h: 1 - h * h, slope_at=0,
              meet=lambda own, later, slope: (own + later) * slope, back=lambda Wh, dz, dh: Wh.T @ dz,
              previous=lambda hs, h0, t: hs[t - 1] if t else h0, add=True, begin=np.zeros_like,
              steps=lambda T: range(T - 1, -1, -1), spread=lambda old: 0.0, bias=lambda dz, dh: dz, scale=lambda T: 1.0,
              finish=lambda dWx, dWh, db: (dWx, dWh, db)):
    dWx, dWh, db, later = np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(h0), begin(dhs[-1])
    states = np.vstack([h0, hs])  # states[t + 1] is hs[t]
    for t in steps(len(x)):
        dh = arrives(dhs, t) + later
        dz = meet(arrives(dhs, t), later, slope(states[t + 1 + slope_at]))
        dWx = add * dWx + np.outer(dz, x[t])
        dWh = add * dWh + np.outer(dz, previous(hs, h0, t))
        db = add * db + bias(dz, dh)
        later = back(Wh, dz, dh) + spread(later)
    return finish(*(scale(len(x)) * gradient for gradient in (dWx, dWh, db)))


def _into_dhs(x, hs, h0, Wx, Wh, dhs):
    dWx, dWh, db = np.zeros_like(Wx), np.zeros_like(Wh), np.zeros_like(h0)
    for t in reversed(range(len(x))):
        dz = dhs[t] * (1 - hs[t] ** 2)
        dWx += np.outer(dz, x[t])
        dWh += np.outer(dz, hs[t - 1] if t else h0)
        db += dz
        if t > 0:
            dhs[t - 1] += Wh.T @ dz
    return dWx, dWh, db


_BACKWARD = {
    "overwritten": (dict(add=False), (
        "The same weights are used at every step, so each gradient is a sum over all steps. Yours is the term of "
        "t = 0 alone: add with `+=` instead of assigning.")),
    "no carry": (dict(back=lambda Wh, dz, dh: 0 * dz), (
        "The gradient that arrives from the next state is missing: with a loss on the last step alone, yours never "
        "gets further back. Keep `Wh.T @ dz` in a variable such as dh_next, and add it to `dhs[t - 1]` in the next "
        "turn of the loop, without changing `dhs`.")),
    "loss of the last step only": (dict(arrives=lambda dhs, t: dhs[t] if t == len(dhs) - 1 else 0 * dhs[t]), (
        "Right when only the last step has a loss. A state h_t has two consumers, its own loss (`dhs[t]`) and the "
        "next state: add both gradients at every step.")),
    "loss of the next step": (dict(arrives=lambda dhs, t: dhs[min(t + 1, len(dhs) - 1)]), (
        "At every step before the last you add the loss gradient of the step after it: `dhs[t]` is one turn late, and "
        "`dhs[0]` is never used. What you hand on to h_{t-1} is `Wh.T @ dz + dhs[t - 1]`; or add `dhs[t]` at the "
        "start of turn t.")),
    "last loss twice": (dict(begin=np.copy), (
        "The loss of the last step is counted twice: your carried gradient starts as `dhs[-1]`, and the loop adds "
        "`dhs[t]` for the last step again. Nothing comes back from after the end: start with zeros.")),
    "Wh not transposed": (dict(back=lambda Wh, dz, dh: Wh @ dz), (
        "Forward multiplies by `Wh`, so backward multiplies by its transpose, `Wh.T @ dz`. A square matrix raises no "
        "error on the wrong side; a symmetric one even hides it.")),
    "index -1": (dict(previous=lambda hs, h0, t: hs[t - 1]), (
        "At t = 0 your index t - 1 is -1, and in NumPy that is the last row. The state before step 0 is `h0`.")),
    "zeros for h0": (dict(previous=lambda hs, h0, t: hs[t - 1] if t else 0 * h0), (
        "`dWh` lacks the term of t = 0, `np.outer(dz, h0)`. The state before step 0 is `h0`, "
        "which need not be zero.")),
    "current state": (dict(previous=lambda hs, h0, t: hs[t]), (
        "`dWh` pairs dz_t with h_t. At step t `Wh` multiplies the previous state, `hs[t - 1]` (`h0` at t = 0).")),
    "tanh twice": (dict(slope=lambda h: 1 - np.tanh(h) ** 2), (
        "`hs` holds tanh(z) already, so the derivative of tanh is `1 - hs[t]**2`. You apply tanh a second time.")),
    "one plus": (dict(slope=lambda h: 1 + h * h), (
        "Your derivative is 1 + h², which belongs to tan. That of tanh is 1 - h², never larger than 1.")),
    "artanh": (dict(slope=lambda h: 1 / (1 - h * h)), (
        "You divide by 1 - h², the derivative of the inverse function. The chain rule multiplies by the derivative "
        "of tanh, 1 - h².")),
    "sigmoid slope": (dict(slope=lambda h: h * (1 - h)), (
        "h (1 - h) is the derivative of the sigmoid. The activation here is tanh, whose derivative is 1 - h².")),
    "slope not squared": (dict(slope=lambda h: 1 - h), "The derivative of tanh is 1 - h²: the square is missing."),
    "activation skipped": (dict(slope=lambda h: np.ones_like(h)), (
        "The derivative of the activation is missing from the chain: between dh and dz stands tanh, "
        "a factor of 1 - h².")),
    "slope of the state before": (dict(slope_at=-1), (
        "You take the derivative of tanh at the previous state. Step t made h_t = tanh(z_t), so its factor is "
        "`1 - hs[t]**2`.")),
    "slope missing in the carry": (dict(back=lambda Wh, dz, dh: Wh.T @ dh), (
        "What goes back to the previous state passes through tanh first: send `Wh.T @ dz` with dz = dh (1 - h²), not "
        "`Wh.T @ dh`.")),
    "slope for the own loss only": (dict(meet=lambda own, later, slope: own * slope + later), (
        "Both gradients that arrive at h_t, its own and the one from the next state, pass through tanh: "
        "add them first, then multiply by 1 - h².")),
    "carry piles up": (dict(spread=lambda old: old), (
        "The gradient handed to the previous state piles up over the steps. It is replaced at each step: "
        "`dh_next = Wh.T @ dz`, not `+=`; what came earlier is inside dz already.")),
    "forward in time": (dict(steps=range), (
        "Your loop runs forward. The gradient of h_t needs that of h_{t+1} first: go through the steps from the last "
        "to the first.")),
    "step 0 skipped": (dict(steps=lambda T: range(T - 1, 0, -1)), (
        "Your loop stops before t = 0: `range(T - 1, 0, -1)` leaves 0 out. Step 0 uses the weights too.")),
    "mean over steps": (dict(scale=lambda T: 1 / T), (
        "Your gradients are divided by the number of steps T. The total derivative is the sum over steps; a mean "
        "belongs into the loss, and then it is in `dhs` already.")),
    "dWh transposed": (dict(finish=lambda dWx, dWh, db: (dWx, dWh.T, db)), (
        "`dWh` is the transpose of the right gradient: `dWh[i, j]` is dz[i] times h_prev[j], so "
        "`np.outer(dz, h_prev)`.")),
    "dWx transposed": (dict(finish=lambda dWx, dWh, db: (dWx.T, dWh, db)), (
        "`dWx` is the transpose of the right gradient: it has the shape of `Wx`, (d_h, d_in), so "
        "`np.outer(dz, x[t])`.")),
    "both transposed": (dict(finish=lambda dWx, dWh, db: (dWx.T, dWh.T, db)), (
        "`dWx` and `dWh` are transposes of the right gradients: with W stored (out, in) a gradient is "
        "`np.outer(dz, input)`, in that order.")),
    "no db": (dict(finish=lambda dWx, dWh, db: (dWx, dWh, 0 * db)), (
        "`db` is zero. The bias is used at every step, with derivative 1: db is the sum of dz over the steps.")),
    "db before tanh": (dict(bias=lambda dz, dh: dh), (
        "`db` sums dh. The bias is inside tanh, so its gradient is the sum of dz = dh (1 - h²).")),
    "order of the results": (dict(finish=lambda dWx, dWh, db: (dWh, dWx, db)), (
        "The results come in the order (dWx, dWh, db); you return `dWh` first.")),
}
RNN_BACKWARD = [*variations(_backward, _BACKWARD), Mistake(_into_dhs, (
    "Your gradients are right, but you changed `dhs`: `dhs[t] += ...` edits the caller's array, and whoever uses it "
    "afterwards (a numerical check, for instance) gets wrong numbers. Keep the carried gradient in a variable of its "
    "own."))]
RNN_BACKWARD_PAIRS = pairs(_backward, _BACKWARD)


# ---- tbptt ----------------------------------------------------------------------------------------------------------


def _truncated(chunks, Wx, Wh, b, h0, *, start=1.0, border=lambda h, h0: h.detach(), inner=lambda h: h,
               own=lambda h, T: (h**2).sum(), start_counts=False, hand_on=-1, last_only=False, pile_up=False,
               retain=False, one_leaf=False, gradient=lambda W, T: W.grad.clone(),
               keep=lambda loss, g, seen: (loss.detach(), g)):
    h, found, W = start * h0, [], Wh.detach().clone().requires_grad_()
    for chunk in chunks:
        if not one_leaf:
            W = W if pile_up else Wh.detach().clone().requires_grad_()
        elif not pile_up:
            W.grad = None
        states = [border(h, h0)]
        for x_t in chunk:
            states.append(torch.tanh(Wx @ x_t + W @ inner(states[-1]) + b))
        h, losses = states[hand_on], [own(state, len(chunk)) for state in states[not start_counts:]]
        loss = losses[-1] if last_only else sum(losses)
        loss.backward(retain_graph=retain)
        found.append(keep(loss, gradient(W, len(chunk)), found))
    return found


def _shared_gradient(zero):
    """One leaf for all chunks whose gradient is stored without a copy, so that every entry is the same tensor."""
    def tbptt(chunks, Wx, Wh, b, h0):
        found = _truncated(chunks, Wx, Wh, b, h0, pile_up=not zero)
        return [(loss, found[-1][1]) for loss, _ in found]
    return tbptt


def _not_a_leaf(use):
    """The copy is made of a tensor that requires gradients already, so that its own .grad stays None."""
    def tbptt(chunks, Wx, Wh, b, h0):
        Wh.requires_grad_()
        found = _truncated(chunks, Wx, Wh, b, h0)
        return [(loss, use(None)) for loss, _ in found]
    return tbptt


def _one_backward(chunks, Wx, Wh, b, h0):
    """One call of backward on the sum of all losses, through all chunks."""
    found = _full(chunks, Wx, Wh, b, h0)
    return [(loss, found[-1][1]) for loss, _ in found]


def _full(chunks, Wx, Wh, b, h0):
    """The gradient of the losses of all chunks so far, through everything."""
    found, h, W = [], h0, Wh.detach().clone().requires_grad_()
    total = 0.0
    for chunk in chunks:
        before = total
        for x_t in chunk:
            h = torch.tanh(Wx @ x_t + W @ h + b)
            total = total + (h**2).sum()
        (gradient,) = torch.autograd.grad(total, W, retain_graph=True)
        found.append(((total - before).detach(), gradient))
    return found


_PILED = "Gradients pile up from chunk to chunk: backward adds to `.grad`. Start every chunk with a cleared gradient."
_LEAF = ("The gradient of your copy of `Wh` is None: the copy isn't a leaf. torch fills `.grad` of the tensor on which "
         "`requires_grad_()` was called, not of one that is computed from it, such as `Wh.requires_grad_().clone()` "
         "(which changes the argument, too). Clone first: `W = Wh.clone().requires_grad_()`.")
_HANDED = "Chunk 0 is right: look at the state that is handed on. "
_TBPTT = {
    "state reset": (dict(border=lambda h, h0: h0), (
        "Chunk 0 is right, but every later chunk starts from `h0` again, so nothing is remembered across the border. "
        "Carry the last state (detached) into the next chunk.")),
    "first state handed on": (dict(hand_on=1), (
        _HANDED + "The next chunk starts from the last state of this one, and yours from its first.")),
    "state before the last handed on": (dict(hand_on=-2), (
        _HANDED + "The next chunk starts from the last state of this one, and yours from the one before it: is the "
        "state stored before the update?")),
    "start state counted": (dict(start_counts=True), (
        "Your loss counts the state that a chunk starts from. The chunk's own states count, one for each input: the "
        "start state belongs to the chunk before.")),
    "zero start": (dict(start=0.0), "The first chunk starts from zeros: its initial state is `h0`."),
    "not truncated": (dict(border=lambda h, h0: h, retain=True, one_leaf=True), (
        "The gradient of a later chunk reaches back into earlier ones. `retain_graph=True` silences the error and "
        "keeps the whole past in memory: detach the state at the border of a chunk instead.")),
    "graph used twice": (dict(border=lambda h, h0: h), (
        "The state still hangs on the graph of the previous chunk, which backward has freed. The values cross the "
        "border, the gradient must not. `h.detach()` alone changes nothing: write `h = h.detach()` at the start of "
        "each chunk (and no `retain_graph=True`).")),
    "detached at every step": (dict(inner=lambda h: h.detach()), (
        "The losses are right, but the gradient is cut after every step. Detach once at the border of a chunk, not "
        "inside it.")),
    "mean over steps": (dict(own=lambda h, T: (h**2).sum() / T), (
        "Your loss is divided by the number of steps. The loss of a chunk is the sum over its steps.")),
    "mean over units": (dict(own=lambda h, T: (h**2).mean()), (
        "Your loss takes the mean over the units. The loss of a chunk is the sum of all squares.")),
    "no square": (dict(own=lambda h, T: h.sum()), "Your loss sums the states; it is the sum of their squares."),
    "halved": (dict(own=lambda h, T: 0.5 * (h**2).sum()), "Your loss has a factor 1/2 that isn't in the definition."),
    "last step only": (dict(last_only=True), (
        "Your loss is that of the chunk's last state. Every state of the chunk counts: add up the squares over its "
        "steps.")),
    "piled up": (dict(pile_up=True), _PILED),
    "gradient averaged": (dict(gradient=lambda W, T: W.grad / T), (
        "Your gradient is divided by the number of steps. The loss is a sum, so its gradient is one too.")),
    "losses added up": (dict(keep=lambda loss, g, seen: (loss.detach() + (seen[-1][0] if seen else 0.0), g)), (
        "Your losses add up from chunk to chunk. Each entry holds the loss of its own chunk.")),
    "order of a pair": (dict(keep=lambda loss, g, seen: (g, loss.detach())), (
        "The order within each entry is (loss, dWh); you return the gradient first.")),
    "loss on the graph": (dict(keep=lambda loss, g, seen: (loss, g)), (
        "The values are right, but each stored loss keeps the graph of its chunk in memory: store `loss.detach()` "
        "or `loss.item()`.")),
}
TBPTT = [*variations(_truncated, _TBPTT), *(Mistake(*row) for row in [
    (_shared_gradient(zero=True), "Every entry holds the same tensor, the gradient of the last chunk: `W.grad` is "
     "reused. Store a copy, `W.grad.clone()`.", "same tensor"),
    (_shared_gradient(zero=False), "Every entry of yours holds the same gradient, the sum over all chunks: backward "
     "adds to `.grad`, and one tensor is stored for all of them, or backward is called once on the sum of all losses. "
     "Call backward for each chunk, start it with a cleared gradient, and store a copy.", "same tensor, piled up"),
    (_one_backward, "Backward is called once, on the sum of all losses and through all chunks, so that every entry "
     "holds the same full gradient. Detach the state at the border of each chunk, call backward for each chunk, and "
     "store its own gradient.", "one backward for all"),
    (_not_a_leaf(lambda gradient: gradient), _LEAF, "not a leaf"),
    (_not_a_leaf(lambda gradient: gradient.clone()), _LEAF, "not a leaf, cloned"),
    (_not_a_leaf(lambda gradient: gradient.detach()), _LEAF, "not a leaf, detached"),
    (_full, "This is full back-propagation: the gradient runs through all chunks. Truncated means that it stops at the "
            "border of each chunk: detach the state there, and call backward for each chunk.", "full"),
    (lambda chunks, Wx, Wh, b, h0: _truncated([torch.cat(list(chunks))], Wx, Wh, b, h0),
     "You return one entry for the whole sequence. There is one (loss, dWh) for each chunk, and the gradient stops at "
     "its borders.", "one chunk"),
])]
TBPTT_PAIRS = pairs(_truncated, _TBPTT)
