"""Wrong answers to the exercises of lecture 3 about training, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import torch
import torch.nn.functional as F

from course_utils.exercises.engine import Mistake, pairs, variations

# ---- shift_right ----------------------------------------------------------------------------------------------------


def _column(targets, value):
    return torch.full_like(targets[:, :1], value)


def _right(targets, bos):
    return torch.cat([_column(targets, bos), targets[:, :-1]], dim=1)


def _by_two(targets, bos):
    return _right(_right(targets, bos), bos)


def _last_real_in_front(targets, bos):
    """As some libraries do: the last token that is not 0, usually <eos>, goes to the front."""
    last = (targets != 0).sum(dim=1, keepdim=True) - 1  # (B, 1)
    return torch.cat([targets.gather(1, last.clamp(min=0)), targets[:, :-1]], dim=1)


def _along_the_batch(targets, bos):
    return torch.cat([torch.full_like(targets[:1], bos), targets[:-1]], dim=0)


def _one_after_another(targets, bos):
    """Column t is copied from column t - 1 after that has been overwritten."""
    inputs = targets.clone()
    inputs[:, 0] = bos
    for t in range(1, targets.shape[1]):
        inputs[:, t] = inputs[:, t - 1]
    return inputs


def _without_eos(targets, bos):
    """<eos>, here the token before the pads, is replaced by a pad as well."""
    inputs = _right(targets, bos)
    before_pad = F.pad(targets[:, 1:], (0, 1)) == 0
    return torch.where(_right(before_pad.long(), 0) == 1, 0, inputs)


def _flat(targets, bos):
    return torch.cat([torch.tensor([bos]), targets.flatten()[:-1]]).view_as(targets)


def _into(targets, inputs):
    targets[:] = inputs
    return targets


_NO_SHIFT = ("Your decoder is given the very token that it has to predict, so it learns to copy. Its input at step t "
             "is the target of step t - 1, and bos at the first step.")
_ROLL = ("Your first column holds {}: `torch.roll` is cyclic. In front of every row belongs bos, the only thing that "
         "the decoder knows before it has written anything.")
_NOT_BOS = ("Your first column is {} whatever `bos` is. Use the argument: it is the id of <bos> that says where a row "
            "begins.")
_LENGTH = "Your rows are one token too {}: inputs and targets have the same length T. {}"
SHIFT_RIGHT = [Mistake(*row) for row in [
    (lambda targets, bos: targets.clone(), _NO_SHIFT, "no shift"),
    (lambda targets, bos: torch.cat([_column(targets, bos), targets[:, 1:]], dim=1), (
        "You write bos over the first target instead of putting it in front: the first word is lost, and from step 2 "
        "on the decoder is given the token that it has to predict. Move all tokens one place to the right first."),
     "bos over the first token"),
    (lambda targets, bos: torch.roll(targets, 1, dims=1), _ROLL.format("the last target of its own row"), "roll"),
    (lambda targets, bos: torch.roll(targets, 1),
     _ROLL.format("the last target of the row above (without `dims`, the table is rolled as one long row)"),
     "roll without dims"),
    (_last_real_in_front, "You put the last real token of each row in front, as some libraries do with <eos>. Here bos "
     "belongs there: it stands for “nothing written yet”.", "last real token in front"),
    (lambda targets, bos: torch.cat([targets[:, 1:], _column(targets, bos)], dim=1), (
        "You shift to the left, so that the decoder reads the token after the one it has to predict. Its inputs lag "
        "behind the targets: bos in front, and the last column drops out."), "shift to the left"),
    (lambda targets, bos: torch.roll(targets, -1, dims=1), "You roll to the left, so that the decoder reads the token "
     "after the one it has to predict. Its inputs lag behind the targets: bos in front, and the last column drops "
     "out.", "roll to the left"),
    (lambda targets, bos: torch.cat([targets[:, 1:], _column(targets, 0)], dim=1), (
        "You shift to the left and fill up with 0, so that the decoder reads the token after the one it has to "
        "predict. Its inputs lag behind the targets, with bos in front."), "shift to the left, 0 at the end"),
    (_by_two, "You shift twice: the input at step t is the target of step t - 2. Shift once, so that the decoder "
     "knows all tokens before the one it has to predict.", "shift by two"),
    (lambda targets, bos: torch.cat([_column(targets, bos), targets], dim=1),
     _LENGTH.format("long", "Drop the last column, which nothing comes after."), "last column kept"),
    (lambda targets, bos: targets[:, :-1],
     _LENGTH.format("short", "Put a column of bos in front."), "no bos"),
    (lambda targets, bos: targets[:, 1:],
     _LENGTH.format("short", "Drop the last column, not the first, and put a column of bos in front."),
     "first column dropped"),
    (lambda targets, bos: torch.cat([targets, _column(targets, bos)], dim=1),
     _LENGTH.format("long", "And bos belongs in front, since it stands for what comes before the first token."),
     "bos at the end"),
    (lambda targets, bos: torch.cat([targets[:, :-1], _column(targets, bos)], dim=1), (
        "You write bos over the last target and shift nothing, so that the decoder is given the token that it has to "
        "predict. bos belongs in front, and every token moves one place to the right."), "bos over the last token"),
    (lambda targets, bos: _right(targets, 0), _NOT_BOS.format("0"), "0 in front"),
    (lambda targets, bos: _right(targets, 1), _NOT_BOS.format("1"), "1 in front"),
    (lambda targets, bos: _right(targets, 2), _NOT_BOS.format("2"), "2 in front"),
    (lambda targets, bos: torch.cat([_column(targets, bos), _column(targets, bos), targets[:, 1:-1]], dim=1)
     [:, :targets.shape[1]], (
        "Your first target is lost: bos stands in its place as well. Shift the whole row, `targets[:, :-1]`, and put "
        "one bos in front."), "first token lost"),
    (_along_the_batch, "You shift along the batch, so that a row reads the targets of another sequence. Time runs "
     "along axis 1: shift each row within itself.", "along the batch"),
    (_one_after_another, "All your inputs are bos: you copy each column from the one before after that was overwritten "
     "itself. Build the result from `targets`, which stays as it is.", "copied one after another"),
    (lambda targets, bos: _right(targets.flip(1), bos), "You reverse the rows. The decoder reads the target from left "
     "to right, as it writes it, one step late.", "reversed"),
    (_without_eos, "You take <eos> out of the inputs. Shift whole rows: what is read after the end doesn't matter, "
     "since the loss leaves out the pads that would be predicted there.", "without eos"),
    (_flat, "You shift the table as one long row: each row but the first begins with the last token of the row above. "
     "Every row begins with bos.", "shifted as one row"),
    (lambda targets, bos: targets + 1, "You add 1 to the ids, which makes other tokens of them. Shifting means to move "
     "each token one place to the right within its row.", "ids plus one"),
    (lambda targets, bos: _right(targets, bos).T, "Rows and columns are swapped: the result is (B, T), one sequence "
     "in each row. Its transpose is right.", "transposed"),
    (lambda targets, bos: _into(targets, _right(targets, bos)), (
        "Your values are right, but you change `targets`: the loss still needs the targets as they were. "
        "Build a new tensor, or work on `targets.clone()`."), "targets overwritten"),
]]


# ---- seq2seq_loss ---------------------------------------------------------------------------------------------------


def _nll(logits, targets):
    return _picked(-torch.log_softmax(logits, dim=-1), targets)


def _picked(values, targets):
    return values.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _of_all(losses, keep):
    return (losses * keep).sum() / keep.sum()


def _loss(logits, targets, pad, *, scores=lambda logits: logits, nll=_nll, keep=lambda targets, pad: targets != pad,
          mean=_of_all, finish=lambda loss: loss):
    return finish(mean(nll(scores(logits), targets), keep(targets, pad).to(logits.dtype)))


def _another_order(logits, targets):
    """Logits are flattened step after step, targets row after row."""
    B, T, V = logits.shape
    return _nll(logits.transpose(0, 1).reshape(B, T, V), targets)


def _reshaped(logits, targets):
    """As `cross_entropy` wants the classes in axis 1, but with reshape where transpose is needed."""
    B, T, V = logits.shape
    return _nll(logits.reshape(B, V, T).transpose(1, 2), targets)


def _shifted(logits, targets, pad):
    return _loss(logits[:, :-1], targets[:, 1:], pad)


def _of_rows(losses, keep):
    return ((losses * keep).sum(1) / keep.sum(1)).mean()


def _of_steps(losses, keep):
    counts = keep.sum(0)
    return ((losses * keep).sum(0)[counts > 0] / counts[counts > 0]).mean()


def _whole_rows(targets, pad):
    return (targets != pad).all(dim=1, keepdim=True).expand_as(targets)


_PAD_COUNTED = ("Your loss changes with the logits at padded positions, which no one will ever read. Leave those "
                "positions out of the sum and of the count.")
_MASKED_SCORES = ("You multiply the logits by the mask: zeros are scores, too, and each pad still costs log V nats. "
                  "Take the pads out of the losses, `losses[targets != pad]`, or pass `ignore_index=pad`.")
_AXIS = ("Your softmax runs over {}. The probabilities of one position add up to 1 over the vocabulary, the last axis: "
         "`dim=-1`.")
_LOSS = {
    "pad counted": (dict(keep=lambda targets, pad: torch.ones_like(targets)), _PAD_COUNTED),
    "wrong denominator": (dict(mean=lambda losses, keep: (losses * keep).mean()), (
        "You leave the pads out of the sum, but still divide by all B T positions, so that padding makes the loss "
        "smaller. Divide by the number of real tokens.")),
    "mean of means": (dict(mean=_of_rows), (
        "You average each row first and then the rows, so that a token of a short row counts for more than one of a "
        "long row. Add up over all real tokens of the batch and divide once.")),
    "mean over steps": (dict(mean=_of_steps), (
        "You average each step over the batch first and then the steps, so that late tokens, which few rows have, "
        "count for more. Add up over all real tokens of the batch and divide once.")),
    "sum": (dict(mean=lambda losses, keep: (losses * keep).sum()), (
        "You return the sum, which grows with the batch and with the lengths. Divide by the number of real tokens.")),
    "per row": (dict(mean=lambda losses, keep: (losses * keep).sum() / len(losses)), (
        "You divide by the number of rows: that is the loss of a sequence, and long ones cost more. Divide by the "
        "number of real tokens.")),
    "per step": (dict(mean=lambda losses, keep: (losses * keep).sum() / losses.shape[1]), (
        "You divide by the number of steps T. Divide by the number of real tokens in the whole batch.")),
    "by the pads": (dict(mean=lambda losses, keep: (losses * keep).sum() / (1 - keep).sum()), (
        "You divide by the number of pads. Divide by the number of real tokens, where `targets != pad`.")),
    "one loss per row": (dict(mean=lambda losses, keep: (losses * keep).sum(1) / keep.sum(1)), (
        "You return one loss for each row. One number is wanted: the sum over all real tokens of the batch, divided "
        "by their number.")),
    "one loss per token": (dict(mean=lambda losses, keep: losses * keep), (
        "You return a loss for each position. One number is wanted: the mean over all real tokens of the batch.")),
    "unreduced, without pads": (dict(mean=lambda losses, keep: losses[keep.bool()]), (
        "You return a loss for each real token. One number is wanted: their mean.")),
    "double softmax": (dict(scores=lambda logits: torch.softmax(logits, dim=-1)), (
        "You apply softmax twice: `cross_entropy` and `log_softmax` contain one already. Pass raw logits, else the "
        "loss stays high even for perfect predictions.")),
    "sigmoid first": (dict(scores=torch.sigmoid), (
        "You squash the logits with a sigmoid before the softmax. Pass raw logits: the softmax alone makes "
        "probabilities of them.")),
    "softmax over the steps": (dict(nll=lambda logits, targets: _picked(-torch.log_softmax(logits, 1), targets)),
                               _AXIS.format("the steps, axis 1")),
    "softmax over the batch": (dict(nll=lambda logits, targets: _picked(-torch.log_softmax(logits, 0), targets)),
                               _AXIS.format("the batch, axis 0")),
    "no softmax": (dict(nll=lambda logits, targets: _picked(-logits, targets)), (
        "You average the raw logits with a minus: they are not log-probabilities yet. `log_softmax` over the "
        "vocabulary comes first.")),
    "no log": (dict(nll=lambda logits, targets: _picked(-torch.softmax(logits, -1), targets)), (
        "You average probabilities, with a minus. The likelihood of a sequence is a product of them: its logarithm, "
        "which becomes the sum, is missing.")),
    "plain probability": (dict(nll=lambda logits, targets: _picked(torch.softmax(logits, -1), targets)), (
        "You average probabilities. The loss is the mean of their negative logarithms.")),
    "no minus": (dict(nll=lambda logits, targets: -_nll(logits, targets)), (
        "The minus is missing: yours is the mean log-likelihood, which training should raise. A loss is what it "
        "lowers.")),
    "no minus, no softmax": (dict(nll=_picked), (
        "You average the raw logits of the targets: they are not log-probabilities yet. The loss is the mean of "
        "minus `log_softmax`.")),
    "log of softmax": (dict(nll=lambda logits, targets: _picked(-torch.softmax(logits, -1).log(), targets)), (
        "You take the logarithm of a softmax, in two steps: a tiny probability is rounded to 0 on the way, and its "
        "loss is infinite or nan. `log_softmax` does both at once and is numerically stable.")),
    "base 2": (dict(finish=lambda loss: loss / torch.log(torch.tensor(2.0))), (
        "Your loss is in bits: you use logarithms to base 2. Nats are wanted, natural logarithms.")),
    "perplexity": (dict(finish=torch.exp), (
        "You return the perplexity, e to the loss. The loss itself is wanted, a mean of negative logarithms.")),
    "of the best token": (dict(nll=lambda logits, targets: -torch.log_softmax(logits, -1).amax(-1)), (
        "You score the token that the model likes best. Pick the log-probability of the target at each position, "
        "however small it is.")),
    "whole vocabulary": (dict(nll=lambda logits, targets: -torch.log_softmax(logits, -1).mean(-1)), (
        "Your loss averages over the whole vocabulary and does not depend on which token is the target. Pick the "
        "log-probability of the target at each position.")),
    "order mismatch": (dict(nll=_another_order), (
        "Your predictions and targets are flattened in different orders, one step after step and one row after row, "
        "so that tokens are scored by somebody else's prediction. Flatten both alike.")),
    "reshape for transpose": (dict(nll=_reshaped), (
        "You bring (B, T, V) to (B, V, T) by `reshape` or `view`, which mixes the scores of different positions. Axes "
        "are swapped by `transpose(1, 2)`.")),
    "zero masked": (dict(keep=lambda targets, pad: targets != 0), (
        "You leave out id 0, whatever `pad` is. Compare with the argument `pad`: in one of the cases 0 is a real "
        "token.")),
    "larger ids only": (dict(keep=lambda targets, pad: targets > pad), (
        "You keep the ids above `pad` only. A real token is any id that differs from it: `targets != pad`.")),
    "only pads": (dict(keep=lambda targets, pad: targets == pad), (
        "Your mask is the wrong way round: you average over the pads. Keep the positions where `targets != pad`.")),
    "pad and eos masked": (dict(keep=lambda targets, pad: F.pad(targets[:, 1:] != pad, (0, 1))), (
        "You leave out the last real token of each row. It is <eos>, and to stop is what a decoder must learn as "
        "well.")),
    "first token masked": (dict(keep=lambda targets, pad: (targets != pad) & (torch.arange(targets.shape[1]) > 0)), (
        "You leave out the first step. The targets hold no <bos>: the token of the first step is a real one and "
        "counts.")),
    "whole rows": (dict(keep=_whole_rows), (
        "You leave out every row that has a pad somewhere. Only the padded positions don't count, the tokens before "
        "them do.")),
    "no pads in the scores": (dict(scores=lambda logits: torch.cat([logits[..., :1] - 1e9, logits[..., 1:]], dim=-1)), (
        "You take a token out of the vocabulary before the softmax. All V scores take part in it: it is positions "
        "that are left out, those whose target is pad.")),
}
SEQ2SEQ_LOSS = [*variations(_loss, _LOSS), *(Mistake(*row) for row in [
    (_shifted, "You score each token by the logits of the step before. The inputs were shifted already: logits[b, t] "
     "is the prediction of targets[b, t], so don't shift again.", "shifted again"),
    (lambda logits, targets, pad: _loss(logits[:, 1:], targets[:, :-1], pad), (
        "You score each token by the logits of the step after, which have read it. logits[b, t] is the prediction of "
        "targets[b, t]: nothing is left to shift."), "shifted the other way"),
    (lambda logits, targets, pad: _nll(logits * (targets != pad).unsqueeze(-1), targets).mean(), _MASKED_SCORES,
     "logits masked"),
    (lambda logits, targets, pad: _nll(logits * (targets != pad).unsqueeze(-1), targets).sum() / (targets != pad).sum(),
     _MASKED_SCORES, "logits masked, divided by the real tokens"),
    (lambda logits, targets, pad: (logits.argmax(-1) != targets)[targets != pad].to(logits.dtype).mean(), (
        "You return the share of wrong tokens. It has no gradient and doesn't say how wrong: the loss is the mean of "
        "the targets' negative log-probabilities."), "error rate"),
    (lambda logits, targets, pad: (logits.argmax(-1) == targets)[targets != pad].to(logits.dtype).mean(), (
        "You return the share of right tokens. It has no gradient: the loss is the mean of the targets' negative "
        "log-probabilities."), "accuracy"),
    (lambda logits, targets, pad: _loss(logits[:1], targets[:1], pad), "You return the loss of the first row: is "
     "`return` inside the loop? The mean goes over the real tokens of all rows.", "first row"),
])]
SEQ2SEQ_LOSS_PAIRS = pairs(_loss, _LOSS)
