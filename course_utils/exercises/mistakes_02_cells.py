"""Wrong answers to the exercises of lecture 2 about one step of a cell, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import itertools

import numpy as np

from course_utils.exercises.engine import Mistake, pairs, variations
from course_utils.gated import sigmoid


def _upside_down(z):
    return 1 / (1 + np.exp(z))


def _no_parentheses(z):
    return 1 + np.exp(-z)


def _plain(z):
    return z


def _blocks(order, right):
    """Split as if the blocks were stacked in `order`, and hand them over in the right one."""
    return lambda z: [np.split(z, len(right))[order.index(letter)] for letter in right]


def _orders(right, names, ends):
    """All wrong orders of the blocks, each with its hint: `ends` has more to say about some."""
    found = {}
    for letters in itertools.permutations(right):
        order = "".join(letters)
        moved = [names[a] for a, b in zip(right, order) if a != b]
        if len(moved) == 2:
            start = f"Your {moved[0]} and your {moved[1]} are exchanged: you read the blocks"
        else:
            start = "You read the blocks"
        text = (f"{start} in the order {', '.join(order)}. Here W, U and b are stacked {', '.join(right)}, as in "
                f"PyTorch; other libraries have other orders.{ends.get(order, '')}")
        if order != right:
            found[f"order {order}"] = (dict(blocks=_blocks(order, right)), text)
    return found


_SIGN = "The sign in your sigmoid is wrong: it is 1 / (1 + exp(-z)). With exp(z) a gate opens where it should close."
_PARENTHESES = ("Your gates are larger than 1: `1 / 1 + np.exp(-z)` divides first and adds then. A sigmoid needs "
                "parentheses, `1 / (1 + np.exp(-z))`.")
_INTERLEAVED = ("You take every {} row for a gate. The gates are stacked as whole blocks of d_h rows, one below the "
                "other: `np.split(z, {})`.")
_PRODUCT = ("Your products add up over the units, so that one number stands for all of them: `@` and `np.dot` do that. "
            "Gates act entry by entry, each unit has its own: `*`.")
_SWAPPED = ("Your W and U are exchanged, which raises no error when d_in equals d_h. W multiplies the input x, U the "
            "old state h.")


# ---- lstm_step ------------------------------------------------------------------------------------------------------


def _lstm(x, h, c, W, U, b, *, z=lambda x, h, c, W, U, b: W @ x + U @ h + b, blocks=lambda z: np.split(z, 4),
          act_i=sigmoid, act_f=sigmoid, act_g=np.tanh, act_o=sigmoid, update=lambda i, f, g, c, h: f * c + i * g,
          show=lambda o, new, c, h: o * np.tanh(new), finish=lambda h, c, old_h, old_c: (h, c)):
    i, f, g, o = blocks(z(x, h, c, W, U, b))
    i, f, g, o = act_i(i), act_f(f), act_g(g), act_o(o)
    new = update(i, f, g, c, h)
    return finish(show(o, new, c, h), new, h, c)


def _bias_of_one(block, gates_only):
    """The bias of one block is used in all of them; with gates_only the candidate keeps its own."""
    def z(x, h, c, W, U, b):
        parts = np.split(b, 4)
        mine = [parts[2] if gates_only and k == 2 else parts[block] for k in range(4)]
        return W @ x + U @ h + np.concatenate(mine)
    return z


def _into(name):
    """Right values, written into the argument c or h (or both)."""
    def lstm_step(x, h, c, W, U, b):
        new_h, new_c = _lstm(x, h, c, W, U, b)
        if "c" in name:
            c[:] = new_c
        if "h" in name:
            h[:] = new_h
        return new_h, new_c
    return lstm_step


_GATES = {"i": "input gate", "f": "forget gate", "g": "candidate", "o": "output gate"}
_LSTM_ORDERS = _orders("ifgo", _GATES, {"figo": " (Or the formula has them the wrong way round: f multiplies the old "
                                                "cell, i the candidate.)"})
_RAW = ("You pass the new cell through tanh and carry that on. Carry the raw sum, c = f c + i g: with a tanh at every "
        "step the additive path is gone, and with it what lets the gradient through. tanh belongs to h alone.")
_OWN_BIAS = ("You use one bias for several blocks, so you are right as long as all biases are equal. Each block has "
             "its own slice of b, d_h long.")
_OWN_WEIGHTS = ("You use the rows of one block for all four, so your gates i, f and o are always equal. Each block has "
                "its own d_h rows of W and U.")
_IN_PLACE = ("Your values are right, but you change the caller's {} (`*=`, `+=` and `{}[:] =` work in place): the step "
             "before loses its state, which back-propagation through time needs. Make new arrays, as in "
             "`c = f * c + i * g`.")
_LSTM = {
    "no bias": (dict(z=lambda x, h, c, W, U, b: W @ x + U @ h), (
        "The bias b is missing in the blocks: each is a part of W x + U h + b.")),
    "bias twice": (dict(z=lambda x, h, c, W, U, b: W @ x + U @ h + 2 * b), (
        "The bias is added twice. PyTorch's two bias vectors are summed in b already: W x + U h + b.")),
    "input ignored": (dict(z=lambda x, h, c, W, U, b: U @ h + b), (
        "Your result does not depend on x: the term `W @ x` is missing, so no gate sees the input.")),
    "state ignored": (dict(z=lambda x, h, c, W, U, b: W @ x + b), (
        "Your gates do not depend on h: the term `U @ h` is missing, so the cell can't decide by what it has read.")),
    "gates see the cell": (dict(z=lambda x, h, c, W, U, b: W @ x + U @ c + b), (
        "Your gates read the cell, `U @ c`. They see the state h, what the cell showed last: `U @ h`.")),
    "W and U exchanged": (dict(z=lambda x, h, c, W, U, b: U @ x + W @ h + b), _SWAPPED),
    "bias of o": (dict(z=_bias_of_one(3, gates_only=True)), _OWN_BIAS),
    "rows of one block": (dict(blocks=lambda z: [np.split(z, 4)[0]] * 4), _OWN_WEIGHTS),
    "interleaved": (dict(blocks=lambda z: z.reshape(-1, 4).T), _INTERLEAVED.format("fourth", 4)),
    **{name: _LSTM_ORDERS[name] for name in ("order ifog", "order figo", "order fiog", "order igfo")},
    "sigmoid upside down": (dict(act_i=_upside_down, act_f=_upside_down, act_o=_upside_down), _SIGN),
    "no parentheses": (dict(act_i=_no_parentheses, act_f=_no_parentheses, act_o=_no_parentheses), _PARENTHESES),
    "gates not squashed": (dict(act_i=_plain, act_f=_plain, act_o=_plain), (
        "Your gates are the sums themselves: the sigmoid is missing. A gate is a share between 0 (closed) and 1 "
        "(open).")),
    "tanh for all gates": (dict(act_i=np.tanh, act_f=np.tanh, act_o=np.tanh), (
        "All your blocks go through tanh. A gate is a share between 0 and 1, a sigmoid; tanh is for the candidate "
        "alone.")),
    "tanh for i": (dict(act_i=np.tanh), (
        "Your input gate is a tanh: where it is negative, it turns the sign of what is written. Gates are sigmoids, "
        "between 0 and 1; tanh is for the candidate alone.")),
    "tanh for f": (dict(act_f=np.tanh), (
        "Your forget gate is a tanh: where it is negative, the memory changes its sign. Gates are sigmoids, between 0 "
        "and 1.")),
    "1 - f": (dict(act_f=_upside_down), (
        "Your forget gate keeps what it should drop: you use 1 - f. In spite of its name, f is the part of the old "
        "cell that is kept.")),
    "1 in the forget gate": (dict(act_f=lambda z: sigmoid(z + 1)), (
        "You add 1 to the forget gate inside the step. A forget bias of 1 is a way to initialize b; the step uses b "
        "as it is given.")),
    "sigmoid for g": (dict(act_g=sigmoid), (
        "Your candidate is a sigmoid, never negative, so that nothing can be subtracted from the cell. The candidate "
        "g uses tanh, from -1 to 1.")),
    "g not squashed": (dict(act_g=_plain), (
        "Your candidate has no activation: g is the tanh of its block, so that one step adds at most 1.")),
    "tanh for o": (dict(act_o=np.tanh), (
        "Your output gate is a tanh, which can be negative. Gates are sigmoids, between 0 and 1.")),
    "o activated twice": (dict(act_o=lambda z: sigmoid(np.tanh(z))), (
        "Your output gate is activated twice, tanh and then the sigmoid, so it never leaves (0.27, 0.73): it can "
        "neither open nor close. One sigmoid.")),
    "gates activated twice": (dict(zip(["act_i", "act_f", "act_o"], [lambda z: sigmoid(sigmoid(z))] * 3)), (
        "Your gates go through the sigmoid twice, so they stay between 0.5 and 0.73 and can neither open nor close.")),
    "f for the candidate": (dict(update=lambda i, f, g, c, h: f * c + f * g), (
        "Your result does not depend on the input gate: f multiplies the candidate too. What is written is i g.")),
    "i for the cell": (dict(update=lambda i, f, g, c, h: i * c + i * g), (
        "Your result does not depend on the forget gate: i multiplies the old cell too. What is kept is f c.")),
    "i added": (dict(update=lambda i, f, g, c, h: f * c + i + g), (
        "You add the input gate to the candidate. A gate multiplies: i g. With i = 0, nothing may enter the cell.")),
    "f added": (dict(update=lambda i, f, g, c, h: f + c + i * g), (
        "You add the forget gate to the cell. A gate multiplies: f c. With f = 0, nothing of the old cell may stay.")),
    "product of both": (dict(update=lambda i, f, g, c, h: f * c * i * g), (
        "You multiply what is kept by what is written. The cell is a sum, f c + i g: adding is what gives the gradient "
        "a straight path.")),
    "f for the sum": (dict(update=lambda i, f, g, c, h: f * (c + i * g)), (
        "Your forget gate multiplies the sum, new content included. It acts on the old cell alone: f c + i g.")),
    "subtracted": (dict(update=lambda i, f, g, c, h: f * c - i * g), (
        "You subtract what is written. The cell is a sum, f c + i g; tanh gives the candidate its sign.")),
    "f = 1 - i": (dict(update=lambda i, f, g, c, h: (1 - i) * c + i * g), (
        "This is the coupled variant, f = 1 - i. Here the forget gate has a block of its own, the second: a cell can "
        "keep everything and write, too.")),
    "i = 1 - f": (dict(update=lambda i, f, g, c, h: f * c + (1 - f) * g), (
        "This is the coupled variant, i = 1 - f. Here the input gate has a block of its own, the first: a cell can "
        "keep everything and write, too.")),
    "no forget gate": (dict(update=lambda i, f, g, c, h: c + i * g), (
        "The forget gate is missing: this is the cell of 1997, which never forgets. What is kept is f c.")),
    "no input gate": (dict(update=lambda i, f, g, c, h: f * c + g), (
        "The input gate is missing: every candidate is written in full. What is written is i g.")),
    "old cell missing": (dict(update=lambda i, f, g, c, h: i * g), (
        "The old cell is missing in the new one: nothing is remembered. Add what is kept, f c.")),
    "candidate missing": (dict(update=lambda i, f, g, c, h: f * c + i), (
        "The candidate is missing: i says how much is written, g what. Write i g.")),
    "nothing written": (dict(update=lambda i, f, g, c, h: f * c), (
        "Nothing is written into your cell, it only fades: add i g to f c.")),
    "old state kept": (dict(update=lambda i, f, g, c, h: f * h + i * g), (
        "Your forget gate multiplies the old state h. The memory is the cell: f c.")),
    "tanh of the old cell": (dict(update=lambda i, f, g, c, h: f * np.tanh(c) + i * g), (
        "You squash the old cell before you keep it. It is carried on as it is, f c: a tanh at every step would close "
        "the additive path that lets the gradient through.")),
    "cell squashed": (dict(update=lambda i, f, g, c, h: np.tanh(f * c + i * g), show=lambda o, new, c, h: o * new),
                      _RAW),
    "cell squashed, and again": (dict(update=lambda i, f, g, c, h: np.tanh(f * c + i * g)), _RAW),
    "dot products": (dict(update=lambda i, f, g, c, h: f @ c + i @ g), _PRODUCT),
    "no tanh on the way out": (dict(show=lambda o, new, c, h: o * new), (
        "c is right, h is not: it is o tanh(c). Without the tanh your h can leave (-1, 1) as the cell grows.")),
    "old cell shown": (dict(show=lambda o, new, c, h: o * np.tanh(c)), (
        "c is right, but your h shows the cell from before the step. h is o tanh(c) with the new c, which comes "
        "first.")),
    "tanh outside": (dict(show=lambda o, new, c, h: np.tanh(o * new)), (
        "c is right, h is not: the output gate multiplies after the tanh, o tanh(c), and not inside it.")),
    "no output gate": (dict(show=lambda o, new, c, h: np.tanh(new)), (
        "c is right, but the output gate is missing in h: it decides what the cell shows, o tanh(c).")),
    "o added": (dict(show=lambda o, new, c, h: o + np.tanh(new)), (
        "c is right, but you add the output gate. A gate multiplies: o tanh(c).")),
    "sigmoid of the cell": (dict(show=lambda o, new, c, h: o * sigmoid(new)), (
        "c is right, but h squashes it with a sigmoid, so that h is never negative. It is o tanh(c).")),
    "h added": (dict(show=lambda o, new, c, h: h + o * np.tanh(new)), (
        "c is right, but you add the old h to the new one. What is carried on by adding is the cell; h = o tanh(c) is "
        "made anew at every step.")),
    "h not updated": (dict(show=lambda o, new, c, h: h), (
        "c is right, but you return the old h. The new one shows the new cell: o tanh(c).")),
    "c not updated": (dict(finish=lambda h, c, old_h, old_c: (h, old_c)), (
        "h is right, but you return the old c: the next step would know nothing of this one. Return the new cell.")),
    "h twice": (dict(finish=lambda h, c, old_h, old_c: (h, h)), (
        "You return h twice. The second result is the cell c, from before the output gate.")),
    "c first": (dict(finish=lambda h, c, old_h, old_c: (c, h)), (
        "Your two results are exchanged: return (h, c), in this order, as PyTorch does.")),
}
LSTM_STEP = [
    *variations(_lstm, _LSTM),
    *variations(_lstm, {name: entry for name, entry in _LSTM_ORDERS.items() if name not in _LSTM}),
    *variations(_lstm, {f"bias of block {k}, {gates}": (dict(z=_bias_of_one(k, gates)), _OWN_BIAS)
                        for k in range(4) for gates in (False, True) if (k, gates) != (3, True)}),
    *variations(_lstm, {f"rows of block {k}": (dict(blocks=lambda z, k=k: [np.split(z, 4)[k]] * 4), _OWN_WEIGHTS)
                        for k in (1, 2, 3)}),
    Mistake(_into("c"), _IN_PLACE.format("cell", "c"), "cell in place"),
    Mistake(_into("h"), _IN_PLACE.format("state", "h"), "state in place"),
    Mistake(_into("hc"), _IN_PLACE.format("cell and state", "c"), "both in place"),
]
_SELDOM = ("order fiog", "order igfo", "interleaved", "gates see the cell", "gates activated twice", "product of both",
           "f for the sum", "subtracted", "candidate missing", "nothing written", "tanh of the old cell",
           "dot products", "o added", "sigmoid of the cell", "h added", "h twice")
LSTM_STEP_PAIRS = pairs(_lstm, {name: entry for name, entry in _LSTM.items() if name not in _SELDOM})


# ---- gru_step -------------------------------------------------------------------------------------------------------


def _gru(x, h, W, U, b, bn, *, read=lambda W, x, b: W @ x + b, recall=lambda U, h: U @ h,
         blocks=lambda z: np.split(z, 3), see=lambda x_part, h_part: x_part + h_part, act_r=sigmoid, act_z=sigmoid,
         act_n=np.tanh, inside=lambda x_n, h_n, r, bn, b_n, past: x_n + r * (h_n + bn),
         mix=lambda r, z, n, h: (1 - z) * n + z * h):
    (x_r, x_z, x_n), (h_r, h_z, h_n) = blocks(read(W, x, b)), blocks(recall(U, h))
    r, z = act_r(see(x_r, h_r)), act_z(see(x_z, h_z))
    past = blocks(recall(U, r * h))[2]  # U_n (r h), with r before the product
    n = act_n(inside(x_n, h_n, r, bn, blocks(b)[2], past))
    return mix(r, z, n, h)


def _gru_exchanged(x, h, W, U, b, bn):
    return _gru(x, h, U, W, b, bn)


def _state_overwritten(x, h, W, U, b, bn):
    h[:] = _gru(x, h, W, U, b, bn)
    return h


_BEFORE = ("You apply r before the matrix product, U_n (r h), as in Cho et al. (2014). That is another network: in "
           "PyTorch's convention r multiplies the product, r (U_n h + bn), entry by entry.")
_GRU_ORDERS = _orders("rzn", {"r": "reset gate", "z": "update gate", "n": "candidate"},
                      {"zrn": " (Or the formulas have them the wrong way round: z in the candidate, r in the "
                              "mixture.)"})
_GRU = {
    "z the other way round": (dict(mix=lambda r, z, n, h: (1 - z) * h + z * n), (
        "Your z is the part that is replaced: (1 - z) h + z n, a convention of other texts. In PyTorch z is the part "
        "of the old state that is kept: (1 - z) n + z h.")),
    "r before the product": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n + past + bn), _BEFORE),
    "r before and on bn": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n + past + r * bn), _BEFORE),
    "r before, no bn": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n + past), (
        _BEFORE + " The bias bn is missing, too.")),
    "bn outside r": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n + r * h_n + bn), (
        "Your bn stands outside of r. It belongs to the product with the old state, which r scales as a whole: "
        "r (U_n h + bn). That is why bn is handed in apart from b.")),
    "no bn": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n + r * h_n), (
        "Your result does not depend on bn, the candidate's second bias: r (U_n h + bn).")),
    "bn for b_n": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n - b_n + r * (h_n + bn)), (
        "The third block of b is missing: the candidate has two biases, b_n beside W_n x and bn inside r.")),
    "b_n inside r": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n - b_n + r * (h_n + bn + b_n)), (
        "You put both biases of the candidate inside r. The third block of b goes with W_n x, outside; bn alone is "
        "inside.")),
    "biases exchanged": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n - b_n + bn + r * (h_n + b_n)), (
        "The two biases of the candidate are exchanged: the third block of b goes with W_n x, and bn inside r.")),
    "b inside and outside": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n + r * (h_n + bn + b_n)), (
        "The third block of b is added twice, with W_n x and inside r. It goes with W_n x; inside r there is bn.")),
    "r for everything": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: r * (x_n + h_n + bn)), (
        "Your reset gate scales the input, too. It says how much of the past the candidate sees: W_n x + b_n stays "
        "outside, r (U_n h + bn).")),
    "r for the input": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: r * x_n + h_n + bn), (
        "Your reset gate scales the input. It says how much of the past the candidate sees: r (U_n h + bn).")),
    "no r": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n + h_n + bn), (
        "The reset gate is missing: it says how much of the past the candidate sees, r (U_n h + bn).")),
    "r on the state itself": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n + r * past + r * bn), (
        "Your reset gate is applied twice, to h before the product and to the product after it. Once: "
        "r (U_n h + bn).")),
    "candidate without past": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: x_n), (
        "Your candidate sees the input only. It also sees the old state, as far as the reset gate lets it: "
        "r (U_n h + bn).")),
    "candidate without input": (dict(inside=lambda x_n, h_n, r, bn, b_n, past: r * (h_n + bn)), (
        "Your candidate does not see the input: add W_n x and its bias, the third block of b.")),
    "no bias": (dict(read=lambda W, x, b: W @ x), "The bias b is missing: each block is W x + b, plus what comes from "
                "the old state."),
    "bias twice": (dict(read=lambda W, x, b: W @ x + 2 * b), "The bias b is added twice. For the gates, PyTorch's two "
                   "bias vectors are summed in b already."),
    "input ignored": (dict(read=lambda W, x, b: b), "Your result does not depend on x: the term `W @ x` is missing."),
    "state ignored": (dict(recall=lambda U, h: 0 * U[:, 0]), (
        "The term `U @ h` is missing: neither the gates nor the candidate see the old state.")),
    "gates see the input only": (dict(see=lambda x_part, h_part: x_part), (
        "Your gates see the input only. r and z depend on the old state, too: add their blocks of `U @ h`.")),
    "gates see the state only": (dict(see=lambda x_part, h_part: h_part), (
        "Your gates see the old state only. r and z are sigmoids of their blocks of W x + U h + b.")),
    "interleaved": (dict(blocks=lambda z: z.reshape(-1, 3).T), _INTERLEAVED.format("third", 3)),
    "rows of one block": (dict(blocks=lambda z: [np.split(z, 3)[0]] * 3), (
        "You use the rows of one block for all three. r, z and n have d_h rows of W, U and b each.")),
    **_GRU_ORDERS,
    "sigmoid upside down": (dict(act_r=_upside_down, act_z=_upside_down), _SIGN),
    "no parentheses": (dict(act_r=_no_parentheses, act_z=_no_parentheses), _PARENTHESES),
    "gates not squashed": (dict(act_r=_plain, act_z=_plain), (
        "Your gates are the sums themselves: the sigmoid is missing. A gate is a share between 0 and 1.")),
    "tanh for the gates": (dict(act_r=np.tanh, act_z=np.tanh), (
        "Your gates are tanh. A gate is a share between 0 and 1, a sigmoid; tanh is for the candidate alone.")),
    "tanh for r": (dict(act_r=np.tanh), "Your reset gate is a tanh, which can be negative. Gates are sigmoids."),
    "tanh for z": (dict(act_z=np.tanh), (
        "Your update gate is a tanh, so that the new state can leave the range between n and h. Gates are sigmoids.")),
    "1 - r": (dict(act_r=_upside_down), "You use 1 - r, as if reset meant to drop. r is the part of the past that the "
              "candidate sees: r (U_n h + bn)."),
    "sigmoid for n": (dict(act_n=sigmoid), (
        "Your candidate is a sigmoid, so that states are never pulled below 0. The candidate n uses tanh.")),
    "n not squashed": (dict(act_n=_plain), (
        "Your candidate has no activation: n is a tanh, so that the state stays between -1 and 1.")),
    "no old state": (dict(mix=lambda r, z, n, h: (1 - z) * n), (
        "The old state is missing in the new one. The new state lies between n and h: (1 - z) n + z h.")),
    "candidate alone": (dict(mix=lambda r, z, n, h: n), (
        "You return the candidate. The update gate decides how much of the old state is kept: (1 - z) n + z h.")),
    "nothing new": (dict(mix=lambda r, z, n, h: z * h), (
        "Nothing new enters the state, it only fades. The candidate comes in with the rest, 1 - z: (1 - z) n + z h.")),
    "n in full": (dict(mix=lambda r, z, n, h: n + z * h), (
        "Your candidate comes in full, so the state can grow. The shares add up to 1: (1 - z) n + z h.")),
    "h in full": (dict(mix=lambda r, z, n, h: (1 - z) * n + h), (
        "The old state stays in full, so the state can grow. The shares add up to 1: (1 - z) n + z h.")),
    "z for both": (dict(mix=lambda r, z, n, h: z * n + z * h), (
        "You multiply both by z. The shares add up to 1: what is not kept, 1 - z, comes from the candidate.")),
    "r n + z h": (dict(mix=lambda r, z, n, h: r * n + z * h), (
        "You use r as an input gate, as an LSTM has one. A GRU has a single gate for both: (1 - z) n + z h.")),
    "r in the mixture": (dict(mix=lambda r, z, n, h: (1 - r) * n + r * h), (
        "You mix with the reset gate, so z is never used. r is for the candidate; the mixture is (1 - z) n + z h.")),
    "r on the old state": (dict(mix=lambda r, z, n, h: (1 - z) * n + z * r * h), (
        "Your reset gate also multiplies the old state in the mixture. It acts inside the candidate alone: "
        "(1 - z) n + z h.")),
    "tanh of the mixture": (dict(mix=lambda r, z, n, h: np.tanh((1 - z) * n + z * h)), (
        "You pass the new state through tanh once more. What is kept is kept as it is: a tanh at every step would "
        "close the path that lets the gradient through.")),
    "tanh of the mixture alone": (dict(act_n=_plain, mix=lambda r, z, n, h: np.tanh((1 - z) * n + z * h)), (
        "Your tanh is around the whole mixture. It belongs to the candidate alone: what is kept is kept as it is.")),
    "dot products": (dict(mix=lambda r, z, n, h: (1 - z) @ n + z @ h), _PRODUCT),
}
GRU_STEP = [
    *variations(_gru, _GRU),
    *variations(_gru, {f"rows of block {k}": (dict(blocks=lambda z, k=k: [np.split(z, 3)[k]] * 3),
                                              _GRU["rows of one block"][1]) for k in (1, 2)}),
    Mistake(_gru_exchanged, _SWAPPED, "W and U exchanged"),
    Mistake(_state_overwritten, "Your values are right, but you change the caller's h (`*=`, `+=` and `h[:] =` work in "
            "place): the step before loses its state, which back-propagation through time needs. Make a new array.",
            "state overwritten"),
]
_SELDOM = ("order rnz", "order znr", "order nrz", "order nzr", "interleaved", "rows of one block", "h in full",
           "n in full", "r n + z h", "r on the state itself", "r for the input", "nothing new", "dot products")
GRU_STEP_PAIRS = pairs(_gru, {name: entry for name, entry in _GRU.items() if name not in _SELDOM})
