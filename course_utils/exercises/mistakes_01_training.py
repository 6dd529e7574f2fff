"""Wrong answers to the exercises of lecture 1 about training and measuring, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import math
from collections.abc import Callable

import numpy as np
import torch

from course_utils.exercises.engine import Mistake, pairs, variations

# ---- clip_gradients -------------------------------------------------------------------------------------------------


def _entries(grads):
    return np.concatenate([g.ravel() for g in grads])


def _clip(grads, max_norm, *, norm=lambda v: math.sqrt(float(v @ v)), scale=lambda m, n: 1.0 if n <= m else m / n):
    """Norm of all entries in one vector, then one factor for all."""
    factor = scale(max_norm, norm(_entries(grads)))
    return [g * factor for g in grads]


def _in_place(grads, max_norm):
    norm = math.sqrt(sum(float((g**2).sum()) for g in grads))
    for g in grads:
        g *= min(1.0, max_norm / max(norm, 1e-300))
    return grads


def _list_replaced(grads, max_norm):
    clipped = _clip(grads, max_norm)
    for i, g in enumerate(clipped):
        grads[i] = g
    return grads


def _per_array(grads, max_norm):
    return [_clip([g], max_norm)[0] for g in grads]


def _norm_of(group):
    """Clip by a norm that is computed from the norms of the arrays."""
    def clip(grads, max_norm):
        norm = group([float(np.linalg.norm(g)) for g in grads])
        return [g * (max_norm / norm if norm > max_norm else 1.0) for g in grads]
    return clip


_ALWAYS = ("A gradient below the limit must stay as it is; yours is stretched to the norm `max_norm` (and a zero "
           "gradient gives 0/0). The factor is min(1, max_norm / norm).")
_CHANGED = ("Your values are right, but you changed the caller's gradients (`g *= s` or `grads[i] = ...` works in "
            "place). Return a new list of new arrays: `[g * s for g in grads]`.")
_CLIP = {
    "squared norm": (dict(norm=lambda v: float(v @ v)), (
        "You use the squared norm: the root is missing. Norm = sqrt of the sum of all squares.")),
    "root mean square": (dict(norm=lambda v: math.sqrt(float(v @ v) / v.size)), (
        "You divide by the number of entries: that is the root mean square. The norm is the root of the sum of "
        "squares, without a mean.")),
    "mean square": (dict(norm=lambda v: float(v @ v) / v.size), (
        "You use the mean of the squares. The norm is the root of their sum.")),
    "largest entry": (dict(norm=lambda v: float(np.abs(v).max())), (
        "You measure by the largest entry (the maximum norm). Clipping is by the Euclidean norm: the root of the sum "
        "of all squares.")),
    "sum of absolute values": (dict(norm=lambda v: float(np.abs(v).sum())), (
        "You measure by the sum of absolute values (the L1 norm). Clipping is by the Euclidean norm: the root of the "
        "sum of all squares.")),
    "plain sum": (dict(norm=lambda v: float(v.sum())), (
        "You add up the entries themselves, so that signs cancel. The norm is the root of the sum of their squares.")),
    "always rescaled": (dict(scale=lambda m, n: float(np.float64(m) / np.float64(n))), _ALWAYS),
    "always rescaled, plain floats": (dict(scale=lambda m, n: m / n), _ALWAYS),
    "always rescaled, epsilon": (dict(scale=lambda m, n: m / (n + 1e-12)), _ALWAYS),
    "zero norm": (dict(scale=lambda m, n: min(1.0, m / n)), (
        "Right, except when all gradients are zero: then max_norm / norm divides by zero. Divide only if the norm "
        "exceeds the limit.")),
    "upside down": (dict(scale=lambda m, n: 1.0 if n <= m else n / m), (
        "Your factor is norm / max_norm: it makes large gradients larger still. Turn the quotient around.")),
    "condition turned around": (dict(scale=lambda m, n: m / n if 0 < n < m else 1.0), (
        "Your comparison is the wrong way round: you stretch gradients below the limit and leave those above it.")),
    "to norm 1": (dict(scale=lambda m, n: 1.0 if n <= m else 1.0 / n), (
        "What you clip ends with norm 1 instead of `max_norm`: the factor is max_norm / norm.")),
    "max_norm times": (dict(scale=lambda m, n: m if n > m else 1.0), (
        "You multiply by `max_norm` without dividing by the norm: the factor is max_norm / norm.")),
    "set to zero": (dict(scale=lambda m, n: 0.0 if n > m else 1.0), (
        "You throw a gradient away when it is too long. Clipping shortens it to the norm `max_norm` and keeps its "
        "direction.")),
    "nothing clipped": (dict(scale=lambda m, n: 1.0), (
        "Nothing is clipped: you return the gradients as they came. `g = g * s` inside a loop only rebinds the loop "
        "variable: collect the scaled arrays in a new list and return that.")),
}
CLIP_GRADIENTS = [*variations(_clip, _CLIP), *(Mistake(*row) for row in [
    (_per_array, "Each array is clipped by its own norm, which changes the direction of the whole gradient. Compute "
                 "one global norm over all arrays, then scale all of them by the same factor.", "per array"),
    (lambda grads, max_norm: [np.clip(g, -max_norm, max_norm) for g in grads],
     "You cut every entry by value to ±max_norm: (3, 4) becomes (1, 1), another direction. Clipping by norm scales "
     "the whole vector.", "by value"),
    (lambda grads, max_norm: [np.minimum(g, max_norm) for g in grads],
     "You cut off large entries one by one, and only the positive ones. Clipping by norm scales the whole vector and "
     "keeps its direction.", "minimum"),
    (_norm_of(sum), "You add the norms of the arrays (3 + 4 = 7). Norms don't add, their squares do: the norm of all "
                    "entries together is sqrt(3² + 4²) = 5.", "sum of norms"),
    (_norm_of(lambda norms: sum(norms) / len(norms)), "You average the norms of the arrays. The global norm is the "
     "root of the sum of their squares.", "mean of norms"),
    (_norm_of(max), "You use the norm of the longest array alone. The global norm is the root of the sum of squares "
                    "over all arrays.", "largest norm"),
    (_norm_of(lambda norms: norms[0]), "You use the norm of the first array alone. The global norm goes over all "
                                       "arrays.", "first norm"),
    (_norm_of(lambda norms: norms[-1]), "You use the norm of the last array alone: is the sum of squares reset or "
     "assigned in the loop? The global norm goes over all arrays.", "last norm"),
    (_in_place, _CHANGED, "in place"),
    (_list_replaced, _CHANGED, "list replaced"),
])]
CLIP_GRADIENTS_PAIRS = pairs(_clip, _CLIP)


# ---- sgd_step -------------------------------------------------------------------------------------------------------


def _shorten(vector, limit, *, norm=lambda v: v.norm(), always=False):
    length = norm(vector)
    return vector * (limit / length) if always or length > limit else vector


def _step(w, loss_fn, lr, max_norm, *, clear=True, backwards=1, clip=_shorten, sign=-1.0, rate=lambda lr: lr,
          decay=0.0, momentum=0.0, finish=lambda w, new: new):
    old = torch.zeros_like(w) if w.grad is None else w.grad.clone()
    if clear:
        w.grad = None
    for _ in range(backwards):
        loss_fn(w).backward()
    gradient = clip(w.grad + decay * w.detach(), max_norm)
    return finish(w, w.detach() + sign * rate(lr) * (gradient + momentum * old))


def _by_rows(g, limit):
    norms = g.norm(dim=-1, keepdim=True)
    return g * torch.where(norms > limit, limit / norms, torch.ones_like(norms))


def _spectral(g):
    return torch.linalg.matrix_norm(g, 2) if g.ndim == 2 else g.norm()


def _write_back(w, new):
    w.data.copy_(new)
    return w


def _leaf_in_place(w, loss_fn, lr, max_norm):
    w.grad = None
    loss_fn(w).backward()
    w -= lr * _shorten(w.grad, max_norm)
    return w


def _update_clipped(w, loss_fn, lr, max_norm):
    w.grad = None
    loss_fn(w).backward()
    return w.detach() - _shorten(lr * w.grad, max_norm)


def _on_graph(w, loss_fn, lr, max_norm):
    w.grad = None
    loss_fn(w).backward()
    return w - lr * _shorten(w.grad, max_norm)


def _zero_none(w, loss_fn, lr, max_norm):
    w.grad.zero_()
    return _step(w, loss_fn, lr, max_norm)


def _norm_before_backward(w, loss_fn, lr, max_norm):
    w.grad = None
    if w.grad.norm() > max_norm:
        w.grad.mul_(max_norm / w.grad.norm())
    return w


def _never_backward(w, loss_fn, lr, max_norm):
    return w.detach() - lr * _shorten(w.grad, max_norm)


def _never_backward_unclipped(w, loss_fn, lr, max_norm):
    return w.detach() - lr * w.grad


def _cleared_too_late(w, loss_fn, lr, max_norm):
    loss_fn(w).backward()
    w.grad = None
    return w.detach() - lr * w.grad


def _zeroed_too_late(w, loss_fn, lr, max_norm):
    return w.detach().clone()


_ORDER = "The order of a step is: clear the old gradient, backward, clip, step."
_NO_BACKWARD = ("Where does the new gradient come from? Backward was never called: without `loss_fn(w).backward()`, "
                "`w.grad` is None or holds an old gradient. " + _ORDER)
_SGD = {
    "not clipped": (dict(clip=lambda g, limit: g), (
        "Your step uses the unclipped gradient: it is clipped too early (before backward there is nothing to clip), "
        f"too late, or never. {_ORDER}")),
    "not cleared": (dict(clear=False), (
        "Right for the first step, wrong when `w.grad` holds an old gradient: backward adds to `.grad`. Clear it "
        "before each backward.")),
    "uphill": (dict(sign=1.0), (
        "You walk uphill: the gradient points to where the loss grows. Descent subtracts lr times the gradient.")),
    "by value": (dict(clip=lambda g, limit: g.clamp(-limit, limit)), (
        "You clip entry by entry, which changes the direction. Clip by norm: scale the whole gradient by "
        "max_norm / norm.")),
    "always rescaled": (dict(clip=lambda g, limit: _shorten(g, limit, always=True)), (
        "A gradient below the limit must stay as it is; yours is stretched to the norm `max_norm`. Scale only if the "
        "norm exceeds it.")),
    "squared norm": (dict(clip=lambda g, limit: _shorten(g, limit, norm=lambda v: (v**2).sum())), (
        "You compare and divide by the squared norm: the root of the sum of squares is missing.")),
    "by rows": (dict(clip=_by_rows), (
        "You compute one norm for each row (`dim=-1`) and scale the rows by different factors, which changes the "
        "direction. The norm of the gradient goes over all its entries: `w.grad.norm()`.")),
    "spectral norm": (dict(clip=lambda g, limit: _shorten(g, limit, norm=_spectral)), (
        "For a matrix your norm is the spectral norm (its largest singular value). The Euclidean norm is the root of "
        "the sum of the squares of all entries: `w.grad.norm()`.")),
    "sum of absolute values": (dict(clip=lambda g, limit: _shorten(g, limit, norm=lambda v: v.abs().sum())), (
        "You measure by the sum of absolute values (the L1 norm). Clipping is by the Euclidean norm: the root of the "
        "sum of all squares.")),
    "largest entry": (dict(clip=lambda g, limit: _shorten(g, limit, norm=lambda v: v.abs().max())), (
        "You measure by the largest entry (the maximum norm). Clipping is by the Euclidean norm: the root of the sum "
        "of all squares.")),
    "largest entry decides": (dict(clip=lambda g, limit: _shorten(g, limit) if g.abs().max() > limit else g), (
        "You clip only if an entry exceeds `max_norm`. The norm can be too long although every entry is short: "
        "compare the norm with `max_norm`.")),
    "squared norm decides": (dict(clip=lambda g, limit: g * (limit / g.norm()) if (g**2).sum() > limit else g), (
        "You compare the squared norm with `max_norm`, so that a gradient below the limit is rescaled. Compare the "
        "norm itself.")),
    "to norm 1": (dict(clip=lambda g, limit: g / g.norm() if g.norm() > limit else g), (
        "The clipped gradient has norm 1 instead of `max_norm`: the factor is max_norm / norm.")),
    "set to zero": (dict(clip=lambda g, limit: g if g.norm() <= limit else 0 * g), (
        "You skip the step when the gradient is too long. Clipping shortens it and keeps its direction.")),
    "backward twice": (dict(backwards=2), (
        "The gradient is counted twice: each call of backward adds to `.grad`. Call it once.")),
    "no learning rate": (dict(rate=lambda lr: 1.0), "The learning rate `lr` is missing: the step is lr times the "
                         "clipped gradient."),
    "learning rate twice": (dict(rate=lambda lr: lr * lr), (
        "The learning rate `lr` is applied twice: multiply the gradient by it once.")),
    "weight decay": (dict(decay=0.01), "Something is added to the gradient that plain gradient descent doesn't have: "
                     "weight decay."),
    "momentum": (dict(momentum=0.9), (
        "The old gradient takes part in the step: that is momentum. Plain gradient descent uses the new gradient "
        "alone.")),
    "update only": (dict(finish=lambda w, new: new - w.detach()), (
        "You return the change of the weights. The new weights are wanted: w minus lr times the clipped gradient.")),
    "step returned": (dict(sign=1.0, finish=lambda w, new: new - w.detach()), (
        "You return lr times the gradient. The new weights are wanted: w minus lr times the clipped gradient.")),
    "gradient returned": (dict(finish=lambda w, new: w.grad), (
        "You return the gradient. The new weights are wanted: w minus lr times the clipped gradient.")),
    "in place": (dict(finish=_write_back), (
        "The values are right, but you changed `w` itself in place. This function returns new weights and leaves the "
        "old ones: `w.detach()` minus lr times the clipped gradient.")),
}
SGD_STEP = [*variations(_step, _SGD), *(Mistake(*row) for row in [
    (_leaf_in_place, "torch forbids to change a tensor in place that records gradients, as `w -= ...` does. Build new "
                     "weights instead: `w.detach()` minus lr times the clipped gradient.", "leaf in place"),
    (_update_clipped, "You clip the step lr · gradient. Clip the gradient first, then multiply by lr.",
     "update clipped"),
    (_on_graph, "The values are right, but what you return hangs on the graph of `w`: the next step would "
                "differentiate through this one. Use `w.detach()` (or `torch.no_grad()`) for the update.",
     "on the graph"),
    (_zero_none, "Before the first backward `w.grad` is None, which can't be zeroed. Set `w.grad = None` instead.",
     "zero_ on None"),
    (_norm_before_backward, "Before backward there is no gradient: `w.grad` is None, and there is nothing to clip. Is "
     "it clipped too early, cleared after backward, or was backward never called? " + _ORDER, "norm before backward"),
    (_never_backward, _NO_BACKWARD, "never backward"),
    (_never_backward_unclipped, _NO_BACKWARD, "never backward, not clipped"),
    (_cleared_too_late, "`w.grad` is None where you use it: the gradient is cleared after backward, or backward was "
                        "never called. " + _ORDER, "cleared too late"),
    (lambda w, loss_fn, lr, max_norm: _step(w, loss_fn, max_norm, lr),
     "`lr` and `max_norm` are swapped: the gradient is clipped to the norm `lr` and multiplied by `max_norm`. "
     "`max_norm` limits the gradient, `lr` scales the step.", "lr and max_norm swapped"),
    (_zeroed_too_late, "You return `w` as it came. Either nothing is subtracted, or the gradient is zeroed after "
                       "backward, before it was used. " + _ORDER, "no step"),
])]
SGD_STEP_PAIRS = pairs(_step, _SGD)


# ---- perplexity -----------------------------------------------------------------------------------------------------


def _total(nlls):
    return sum(float(n.sum()) for n in nlls)


def _count(nlls):
    return sum(n.size for n in nlls)


def _perplexity(nlls, *, mean: Callable = lambda nlls: _total(nlls) / _count(nlls), power: Callable = math.exp):
    return power(mean(nlls))


_PERPLEXITY = {
    "mean of means": (dict(mean=lambda nlls: float(np.mean([n.mean() for n in nlls]))), (
        "You average the means of the batches, so a batch of 1 token counts as much as one of 3. Divide the total "
        "loss by the total number of tokens.")),
    "divided by batches": (dict(mean=lambda nlls: _total(nlls) / len(nlls)), (
        "You divide the total loss by the number of arrays. The mean is over tokens: divide by their number.")),
    "sum": (dict(mean=_total), (
        "You exponentiate the sum of the losses. Perplexity is per token: divide by the number of tokens first.")),
    "zeros left out": (dict(mean=lambda nlls: _total(nlls) / sum(int((n > 0).sum()) for n in nlls)), (
        "Tokens with a loss of zero are not counted. They are tokens that the model was certain of: every entry "
        "counts.")),
    "first array": (dict(mean=lambda nlls: float(nlls[0].mean())), (
        "Only the first array is used. The mean goes over the tokens of all arrays.")),
    "last array": (dict(mean=lambda nlls: float(nlls[-1].mean())), (
        "Only the last array is used: is the sum assigned instead of added in the loop? The mean goes over the "
        "tokens of all arrays.")),
    "median": (dict(mean=lambda nlls: float(np.median(np.concatenate(nlls)))), (
        "You take the median of the losses. Perplexity is e to their mean.")),
    "base two": (dict(power=lambda v: 2**v), (
        "You compute 2 to the mean loss. The losses are in nats (natural logarithms): use exp.")),
    "base ten": (dict(power=lambda v: 10**v), (
        "You compute 10 to the mean loss. The losses are in nats (natural logarithms): use exp.")),
    "converted to bits": (dict(power=lambda v: math.exp(v / math.log(2))), (
        "You convert to bits and then use exp: nats go with exp, bits with 2**. The losses are in nats, so nothing is "
        "to be converted.")),
    "no exp": (dict(power=lambda v: v), (
        "You return the mean loss, which is the logarithm of the perplexity: the exp is missing.")),
    "bits": (dict(power=lambda v: v / math.log(2)), (
        "You return the mean loss in bits. Perplexity is e to the mean loss in nats.")),
    "sign": (dict(power=lambda v: math.exp(-v)), (
        "Your value is below 1: it is one divided by the perplexity. The losses are negative log-likelihoods already, "
        "so no minus sign is needed.")),
}
PERPLEXITY = [*variations(_perplexity, _PERPLEXITY), *(Mistake(*row) for row in [
    (lambda nlls: float(np.mean([math.exp(n.mean()) for n in nlls])),
     "You average the perplexities of the arrays. Average the losses over all tokens, then exponentiate once.",
     "mean of perplexities"),
    (lambda nlls: float(np.exp(np.concatenate(nlls)).mean()),
     "You exponentiate every token's loss and average then. The mean comes first, exp once at the end.",
     "mean of exponentials"),
    (lambda nlls: [math.exp(n.mean()) for n in nlls],
     "You return one perplexity for each array. One number over all tokens is wanted: add up the losses and the "
     "tokens of all arrays first.", "one for each array"),
])]
PERPLEXITY_PAIRS = pairs(_perplexity, _PERPLEXITY)
