"""Wrong answers to lecture 4's exercise attention_decoder, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

from functools import partial

import torch

from course_utils.exercises.engine import Mistake, pairs, variations


def _fill(scores, mask, value=-torch.inf):
    return torch.softmax(scores.masked_fill(~mask, value), dim=-1)


def _additive(query, keys, P):
    return torch.tanh((query @ P["W1"].T)[:, None] + keys @ P["W2"].T) @ P["v"]


def _attend(query, keys, mask, P, *, score=_additive, weigh=_fill):
    return (weigh(score(query, keys, P), mask)[..., None] * keys).sum(1)


def _best(scores, mask):
    return (scores == scores.masked_fill(~mask, -torch.inf).amax(1, keepdim=True)).to(scores)


def _affine(y, s, c, Wy, Ws, Wc):
    return y @ Wy + s @ Ws + c @ Wc


def _decoder(ys, s0, keys, mask, P, *, inputs=lambda ys: ys, start=lambda s0: s0,
             matrices=lambda Wy, Ws, Wc: (Wy, Ws, Wc), attend=_attend,
             query=lambda y, s, s0, cell: s, context=lambda c, seen: c, old=lambda s, s0: s, read=_affine,
             act=torch.tanh, finish=lambda states, contexts, s0: torch.stack(states, dim=1)):
    """query: what asks; context: from the new context and all so far; old: the state that the cell reads."""
    matrices = matrices(P["Wy"], P["Ws"], P["Wc"])
    s, states, contexts = start(s0), [], []
    for y in inputs(ys).unbind(1):
        def cell(c, y=y, s=s):
            return act(read(y, old(s, s0), c, *matrices))

        contexts.append(attend(query(y, s, s0, cell), keys, mask, P))
        s = cell(context(contexts[-1], contexts))
        states.append(s)
    return finish(states, contexts, s0)


def _no_context_first(c, contexts):
    return c if len(contexts) > 1 else torch.zeros_like(c)


def _one_late(c, contexts):
    return contexts[-2] if len(contexts) > 1 else torch.zeros_like(c)


def _lagged(ys):
    return torch.cat([torch.zeros_like(ys[:, :1]), ys[:, :-1]], dim=1)


def _before(states, contexts, s0):
    return torch.stack([s0, *states[:-1]], dim=1)


def _transposed(*which):
    return lambda *matrices: [W.T if i in which else W for i, W in enumerate(matrices)]


_NEW_STATE = ("You ask with the new state, one that has read y_t already, as Luong's decoder does. In Bahdanau's the "
              "query is s_{t-1}: attention comes before the cell's update.")
_ORIENTATION = ("{} stored (d, d) for rows, and you multiply by the transpose, which raises no error. The formula is "
                "y_t Wy + s_{{t-1}} Ws + c_t Wc, `y @ Wy` and so on; only W1 and W2 are for columns.")
_MIXED = "{} are exchanged. Wy belongs to the token y_t, Ws to the state s_{{t-1}} and Wc to the context c_t."
_POLARITY = ("Your attention looks at the padding, or gives NaN where there is none. mask is True for real tokens: "
             "fill the scores with -inf where `~mask`.")
_DECODER = {
    "query is the new state": (dict(query=lambda y, s, s0, cell: cell(torch.zeros_like(s))), _NEW_STATE),
    "query is s0": (dict(query=lambda y, s, s0, cell: s0), (
        "Your context never changes: you ask with s0 at every step. Ask again at each step, with the current state "
        "s_{t-1}.")),
    "query is the token": (dict(query=lambda y, s, s0, cell: y), (
        "You ask with the token y_t, so attention ignores what has been decoded before it. The query is the decoder's "
        "state before the step, s_{t-1}.")),
    "query is token and state": (dict(query=lambda y, s, s0, cell: y + s), (
        "You ask with the sum of token and state. The query is the state s_{t-1} alone; the token y_t enters the "
        "cell.")),
    "contexts added up": (dict(context=lambda c, contexts: sum(contexts)), (
        "You add up the contexts of all steps so far. Each step has a context of its own, c_t, and the state carries "
        "what came before.")),
    "contexts averaged": (dict(context=lambda c, contexts: sum(contexts) / len(contexts)), (
        "You average the contexts of all steps so far. Each step has a context of its own, c_t, and the state carries "
        "what came before.")),
    "no context at the first step": (dict(context=_no_context_first), (
        "Your first step has no context: its cell reads zeros. Attention comes before the cell at every step, also the "
        "first, where s0 asks.")),
    "context one step late": (dict(context=_one_late), (
        "Your cell reads the context of the step before. The context c_t is computed from s_{t-1} and read in the same "
        "step, before the state is updated.")),
    "context ignored": (dict(context=lambda c, contexts: torch.zeros_like(c)), (
        "Your states do not depend on the keys: c_t Wc is missing, so this is a decoder without attention. Add what "
        "was looked up: y_t Wy + s_{t-1} Ws + c_t Wc.")),
    "zeros at the start": (dict(start=torch.zeros_like), (
        "You start from zeros, and s0 is never used. It is what the encoder hands over: s0 asks at the first step, and "
        "the first cell reads it.")),
    "state not carried": (dict(old=lambda s, s0: s0), (
        "Your cell reads s0 at every step, so that nothing is remembered. Hand the new state on: `s = tanh(...)` in "
        "the loop.")),
    "state never updated": (dict(old=lambda s, s0: s0, query=lambda y, s, s0, cell: s0), (
        "Your state never changes: each step starts from s0 again and asks with it. Hand the new state on: "
        "`s = tanh(...)` in the loop.")),
    "state ignored": (dict(read=lambda y, s, c, Wy, Ws, Wc: y @ Wy + c @ Wc), (
        "The old state is missing in the cell: add s_{t-1} Ws. Without it the decoder remembers what it wrote only "
        "through its context.")),
    "token ignored": (dict(read=lambda y, s, c, Wy, Ws, Wc: s @ Ws + c @ Wc), (
        "Your states do not depend on ys: y_t Wy is missing. The decoder has to know which token came last.")),
    "context after tanh": (dict(act=lambda z: z, read=lambda y, s, c, Wy, Ws, Wc: torch.tanh(
        y @ Wy + s @ Ws) + c @ Wc), (
        "You add the context after tanh, so that the state can leave (-1, 1). All three terms are inside: "
        "tanh(y_t Wy + s_{t-1} Ws + c_t Wc).")),
    "context not projected": (dict(read=lambda y, s, c, Wy, Ws, Wc: y @ Wy + s @ Ws + c), (
        "You add the context itself: Wc is never used. It enters the cell by a matrix of its own, c_t Wc.")),
    "no tanh": (dict(act=lambda z: z), (
        "The new state is the sum itself: tanh is missing, so states can grow from step to step. It is "
        "tanh(y_t Wy + s_{t-1} Ws + c_t Wc).")),
    "sigmoid": (dict(act=torch.sigmoid), (
        "Your cell uses a sigmoid, so that states are never negative. Its activation is tanh.")),
    "relu": (dict(act=torch.relu), (
        "Your cell uses relu, so that states are never negative and can grow. Its activation is tanh.")),
    "residual": (dict(act=lambda z: z, read=lambda y, s, c, *W: s + torch.tanh(_affine(y, s, c, *W))), (
        "You add the old state to the new one. The cell replaces it: s_t = tanh(y_t Wy + s_{t-1} Ws + c_t Wc).")),
    "Wy transposed": (dict(matrices=_transposed(0)), _ORIENTATION.format("Wy is")),
    "Ws transposed": (dict(matrices=_transposed(1)), _ORIENTATION.format("Ws is")),
    "Wc transposed": (dict(matrices=_transposed(2)), _ORIENTATION.format("Wc is")),
    "all transposed": (dict(matrices=_transposed(0, 1, 2)), _ORIENTATION.format("Wy, Ws and Wc are")),
    "Wy and Ws exchanged": (dict(matrices=lambda Wy, Ws, Wc: (Ws, Wy, Wc)), _MIXED.format("Wy and Ws")),
    "Ws and Wc exchanged": (dict(matrices=lambda Wy, Ws, Wc: (Wy, Wc, Ws)), _MIXED.format("Ws and Wc")),
    "Wy and Wc exchanged": (dict(matrices=lambda Wy, Ws, Wc: (Wc, Ws, Wy)), _MIXED.format("Wy and Wc")),
    "tokens one step late": (dict(inputs=_lagged), (
        "Your step t reads the token of the step before, and zeros at first. ys are shifted already: step t reads "
        "`ys[:, t]`.")),
    "first token at every step": (dict(inputs=lambda ys: ys[:, :1].expand_as(ys)), (
        "Every step reads the first token. Step t reads its own, `ys[:, t]`.")),
    "tokens reversed": (dict(inputs=lambda ys: ys.flip(1)), (
        "You read the tokens from the last to the first. The decoder goes from left to right.")),
    "first token skipped": (dict(inputs=lambda ys: ys[:, 1:]), (
        "Your loop starts one step late and leaves out the first token. Steps count from 0 in code: `range(T)` gives "
        "all T of them.")),
    "last token skipped": (dict(inputs=lambda ys: ys[:, :-1]), (
        "Your loop ends one step early and leaves out the last token. `range(T)` ends at T - 1 by itself: all T states "
        "are wanted.")),
    "steps counted by the batch": (dict(inputs=lambda ys: torch.stack([ys[:, t] for t in range(len(ys))], dim=1)), (
        "Your loop has B steps: `len(ys)` is the size of the batch, axis 0. The number of steps is T, `ys.shape[1]`.")),
    "one step": (dict(inputs=lambda ys: ys[:, :1]), (
        "You return after the first step: is `return` inside the loop? All T states are wanted, (B, T, d).")),
    "contexts returned": (dict(finish=lambda states, contexts, s0: torch.stack(contexts, dim=1)), (
        "You return the contexts c_t. The states s_t are wanted, one for each step.")),
    "states before the step": (dict(finish=_before), (
        "Your states are one step late: s0 comes first, and the last is missing. Append the state after the cell has "
        "updated it.")),
    "s0 returned as well": (dict(finish=lambda states, contexts, s0: torch.stack([s0, *states], dim=1)), (
        "You return s0 as well: T + 1 states. The T states after each step are wanted, s_1 to s_T.")),
    "time in front": (dict(finish=lambda states, contexts, s0: torch.stack(states)), (
        "You stack the states along axis 0: the result is (T, B, d). Stack them along axis 1, `torch.stack(states, "
        "dim=1)`, for (B, T, d).")),
    "side by side": (dict(finish=lambda states, contexts, s0: torch.cat(states, dim=1)), (
        "You join the states side by side, (B, T d). `torch.stack(states, dim=1)` gives them an axis of their own: "
        "(B, T, d).")),
    "stacked and reshaped": (dict(finish=lambda states, contexts, s0: torch.stack(states).reshape(
        len(s0), len(states), -1)), (
        "You bring (T, B, d) to (B, T, d) by `reshape` or `view`, which mixes the rows of the batch. Stack along axis "
        "1 instead, `torch.stack(states, dim=1)`, or swap the axes by `transpose(0, 1)`.")),
    "last state": (dict(finish=lambda states, contexts, s0: states[-1]), (
        "You return the last state only. All T states are wanted: collect them in a list.")),
    "reversed": (dict(finish=lambda states, contexts, s0: torch.stack(states[::-1], dim=1)), (
        "Your states are in reverse order. Append each new one at the end.")),
    "dot product": (dict(attend=partial(_attend, score=lambda s, keys, P: (keys @ s[..., None])[..., 0])), (
        "You score by the dot product of state and key, and W1, W2 and v are never used. The attention is additive: "
        "v · tanh(W1 s_{t-1} + W2 key).")),
    "no tanh in the score": (dict(attend=partial(_attend, score=lambda s, keys, P: (
        (s @ P["W1"].T)[:, None] + keys @ P["W2"].T) @ P["v"])), (
        "The tanh in your scores is missing, so that the state cancels in the softmax and all steps look at the same "
        "places. The score is v · tanh(W1 s_{t-1} + W2 key).")),
    "tanh after v": (dict(attend=partial(_attend, score=lambda s, keys, P: torch.tanh(
        ((s @ P["W1"].T)[:, None] + keys @ P["W2"].T) @ P["v"]))), (
        "The tanh in your scores comes after v and squeezes them into (-1, 1), so that attention is almost uniform. "
        "It belongs inside: v · tanh(W1 s_{t-1} + W2 key).")),
    "W1 and W2 exchanged": (dict(attend=partial(_attend, score=lambda s, keys, P: torch.tanh(
        (s @ P["W2"].T)[:, None] + keys @ P["W1"].T) @ P["v"])), (
        "W1 and W2 are exchanged in your attention. W1 belongs to the query, the decoder's state, and W2 to the keys, "
        "the encoder's states.")),
    "no mask": (dict(attend=partial(_attend, weigh=lambda scores, mask: torch.softmax(scores, -1))), (
        "Your states depend on the keys of the padding: the mask isn't used. Set those scores to -inf before the "
        "softmax.")),
    "mask inverted": (dict(attend=partial(_attend, weigh=lambda scores, mask: _fill(scores, ~mask))), _POLARITY),
    "mask inverted, NaN to 0": (dict(attend=partial(_attend, weigh=lambda scores, mask: _fill(
        scores, ~mask).nan_to_num())), _POLARITY),
    "mask inverted, finite": (dict(attend=partial(_attend, weigh=lambda scores, mask: _fill(
        scores, ~mask, -1e9))), _POLARITY),
    "scores times mask": (dict(attend=partial(_attend, weigh=lambda scores, mask: torch.softmax(scores * mask, -1))), (
        "You set the scores of the padding to 0, and exp(0) = 1 still gives it a weight. Masked scores must become "
        "-inf before the softmax.")),
    "mask after the softmax": (dict(attend=partial(_attend, weigh=lambda scores, mask: torch.softmax(
        scores, -1) * mask)), (
        "Where there is padding, your weights sum to less than 1: you mask after the softmax. Mask the scores before "
        "it, with -inf.")),
    "softmax over the batch": (dict(attend=partial(_attend, weigh=lambda scores, mask: torch.softmax(
        scores.masked_fill(~mask, -torch.inf), 0))), (
        "Your softmax runs over the batch, so that the sentences compete with each other. Each query spreads a weight "
        "of 1 over its S keys: `dim=-1`.")),
    "uniform": (dict(attend=partial(_attend, weigh=lambda scores, mask: mask / mask.sum(1, keepdim=True))), (
        "Your context is the plain mean of the real keys, the same at every step. Weigh them by the softmax of their "
        "scores with the state.")),
    "last key": (dict(attend=lambda query, keys, mask, P: keys[:, -1]), (
        "Your context is the last key at every step, which may be padding: so decoders worked before attention. It is "
        "the sum of all real keys, each times its weight for the state s_{t-1}.")),
    "hard": (dict(attend=partial(_attend, weigh=_best)), (
        "Your context is the best key alone. Attention is soft: it is the sum of all real keys, each times its "
        "weight.")),
}


def _apart(ys, s0, keys, mask, P):
    """The state is carried on without context, which enters only what is returned."""
    s, states = s0, []
    for y in ys.unbind(1):
        new = torch.tanh(y @ P["Wy"] + s @ P["Ws"])
        c = _attend(new, keys, mask, P)
        states.append(torch.tanh(y @ P["Wy"] + s @ P["Ws"] + c @ P["Wc"]))
        s = new
    return torch.stack(states, dim=1)


ATTENTION_DECODER = [*variations(_decoder, _DECODER), Mistake(
    _apart, "You ask with the new state, and the state that you carry on has never read a context. Bahdanau's decoder "
    "asks with s_{t-1}, and the new state, which is carried on, has read c_t.", "context not handed on")]
# To be fast: without gradients, one of each kind (no comma in its name), none that is rarely made with a second one.
_ALONE = ("query is token and state", "contexts averaged", "sigmoid", "relu", "residual", "Wy transposed",
          "Ws transposed", "Wc transposed", "Wy and Ws exchanged", "Ws and Wc exchanged", "Wy and Wc exchanged",
          "first token at every step", "first token skipped", "last token skipped", "steps counted by the batch",
          "stacked and reshaped", "side by side", "uniform", "hard", "last key")
ATTENTION_DECODER_PAIRS = pairs(torch.no_grad()(_decoder), {
    name: entry for name, entry in _DECODER.items() if name not in _ALONE and "," not in name})
