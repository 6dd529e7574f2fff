"""Wrong answers to lecture 3's exercise greedy_decode, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import numpy as np

from course_utils.exercises.engine import Mistake, pairs, variations


def _last_best(scores, bos, eos):
    return int(np.argmax(scores[-1]))


def _is_eos(token, bos, eos):
    return token == eos


def _new(tokens, end):
    return tokens[1:]


def _greedy(step, bos, eos, max_len, *, feed=lambda tokens: tokens, pick=_last_best, stop=_is_eos,
            steps=lambda max_len: max_len, start=lambda bos: bos, finish=_new):
    """finish: from all tokens with bos and the list [eos] (or [] if the end was not reached) to the result."""
    tokens = [start(bos)]
    for _ in range(steps(max_len)):
        token = pick(step(feed(tokens)), bos, eos)
        if stop(token, bos, eos):
            return finish(tokens, [token])
        tokens.append(token)
    return finish(tokens, [])


def _without(banned):
    """The best token other than bos or eos."""
    def pick(scores, bos, eos):
        row = scores[-1].copy()
        row[{"bos": bos, "eos": eos}[banned]] = -np.inf
        return int(np.argmax(row))
    return pick


def _best_positive(scores, bos, eos):
    """The usual loop for a maximum, which starts at 0."""
    best, token = 0.0, 0
    for k, score in enumerate(scores[-1]):
        if score > best:
            best, token = score, k
    return token


def _second(scores, bos, eos):
    return int(np.argsort(scores[-1])[-2])


def _one_pass(step, bos, eos, max_len):
    """The best token of each row, for a prefix that is guessed once."""
    tokens = [int(token) for token in np.argmax(step([bos] * max_len), axis=-1)]
    return tokens[:tokens.index(eos)] if eos in tokens else tokens


def _none_at_the_limit(step, bos, eos, max_len):
    tokens = _greedy(step, bos, eos, max_len + 1, finish=lambda tokens, end: tokens + end)
    return tokens[1:-1] if tokens[-1] == eos and len(tokens) <= max_len + 1 else None


def _filtered(step, bos, eos, max_len):
    tokens = _greedy(step, bos, eos, max_len, stop=lambda *_: False)
    return [token for token in tokens if token != eos]


_ROW = "step(tokens)[-1] scores the token after the whole prefix"
_BOS_ALONE = (f"Your choice depends on bos alone: you feed [bos] every time, or read the first row of the scores. Feed "
              f"the whole prefix, grown by each new token; {_ROW}.")
_GREEDY = {
    "argmax over everything": (dict(pick=lambda scores, bos, eos: int(np.argmax(scores))), (
        "Your argmax runs over the whole table of scores, so that it numbers all its entries and not the tokens. Take "
        "the last row first, the scores of the next token.")),
    "argmax over positions": (dict(pick=lambda scores, bos, eos: int(np.argmax(scores, axis=0)[-1])), (
        "Your argmax runs over the positions, axis 0, and gives a place instead of a token. Take the last row, then "
        "the argmax over the vocabulary.")),
    "first row": (dict(pick=lambda scores, bos, eos: int(np.argmax(scores[0]))), (
        _BOS_ALONE)),
    "row before the last": (dict(pick=lambda scores, bos, eos: int(np.argmax(scores[max(len(scores) - 2, 0)]))), (
        f"You read the row before the last one, which scores the newest token itself. The last one counts: {_ROW}.")),
    "sum of the rows": (dict(pick=lambda scores, bos, eos: int(np.argmax(scores.sum(axis=0)))), (
        f"You add up the scores of all positions. Only the last row counts: {_ROW}.")),
    "argmin": (dict(pick=lambda scores, bos, eos: int(np.argmin(scores[-1]))), (
        "You take the token with the lowest score. Greedy means the highest: argmax.")),
    "second best": (dict(pick=_second), (
        "You take the second best token. After sorting upwards the best is the last entry, -1.")),
    "largest absolute score": (dict(pick=lambda scores, bos, eos: int(np.argmax(np.abs(scores[-1])))), (
        "You compare absolute values. A score far below zero means unlikely: take the argmax of the scores "
        "themselves.")),
    "only positive scores": (dict(pick=_best_positive), (
        "Your search for the maximum starts at 0, so that nothing is found where all scores are negative, as "
        "log-probabilities are. Start with the first entry, or use argmax.")),
    "eos left out": (dict(pick=_without("eos")), (
        "You never choose eos, so your sequences don't end. It competes with the other tokens: stop when it wins.")),
    "bos left out": (dict(pick=_without("bos")), (
        "You never choose bos. Here every token may win, whatever its id: leave the scores as they are.")),
    "never stops": (dict(stop=lambda *_: False), (
        "You go on after eos until the limit, and what comes then is junk. Stop at the first eos.")),
    "stops at bos": (dict(stop=lambda token, bos, eos: token == bos), (
        "You stop at bos, which is where a sequence starts. It ends with eos.")),
    "stops at 2": (dict(stop=lambda token, bos, eos: token == 2), (
        "You stop at token 2, whatever `eos` is. Compare with the argument: in one of the cases 2 is a word.")),
    "prefix not grown": (dict(feed=lambda tokens: tokens[:1]), (
        _BOS_ALONE)),
    "last token only": (dict(feed=lambda tokens: tokens[-1:]), (
        "You feed the newest token alone, but step keeps no memory of the others. Feed the whole prefix; one token is "
        "enough only where a state is handed on.")),
    "bos not fed": (dict(feed=lambda tokens: tokens[1:] or tokens), (
        "After the first step your prefix lacks bos. step wants all tokens so far, with bos in front.")),
    "fed in reverse": (dict(feed=lambda tokens: tokens[::-1]), (
        "You feed the tokens in reverse, the newest in front. step reads from left to right: append at the end.")),
    "two tokens": (dict(feed=lambda tokens: tokens[-2:]), (
        "You feed the two newest tokens. step keeps no memory: feed the whole prefix, with bos in front.")),
    "one step too few": (dict(steps=lambda max_len: max_len - 1), (
        "Where the limit comes before eos, your last token is missing: you count bos as a token, or drop the last one "
        "as if it were eos. `max_len` counts new tokens, and at the limit all of them are words.")),
    "one step too many": (dict(steps=lambda max_len: max_len + 1), (
        "You go one token beyond the limit. `max_len` is the largest number of new tokens: `range(max_len)` steps.")),
    "no limit": (dict(steps=lambda max_len: 40), (  # more than the cases need until eos comes
        "You don't stop at `max_len`. Where eos is late or never comes, writing ends after `max_len` new tokens.")),
    "starts with 1": (dict(start=lambda bos: 1), (
        "You start with 1, whatever `bos` is. Use the argument: in one of the cases bos is another token.")),
    "one step": (dict(steps=lambda max_len: 1), (
        "You return after the first token: is `return` inside the loop? Go on until eos or the limit.")),
    "eos kept": (dict(finish=lambda tokens, end: tokens[1:] + end), (
        "eos is in your result. It says that the end is reached and is not a word: leave it out.")),
    "bos kept": (dict(finish=lambda tokens, end: tokens), (
        "bos is in your result. It starts the prefix, but the result holds the new tokens only.")),
    "both kept": (dict(finish=lambda tokens, end: tokens + end), (
        "bos and eos are in your result. They mark where a sequence starts and ends: only what lies between them "
        "counts.")),
    "last dropped twice": (dict(finish=lambda tokens, end: tokens[1:-1]), (
        "The last word is missing in your result: you drop one more than bos and eos. Check what the list holds when "
        "the loop ends.")),
    "reversed": (dict(finish=lambda tokens, end: tokens[:0:-1]), (
        "Your tokens are in reverse order. New tokens are appended at the end of the list, not inserted in front.")),
    "no repetition": (dict(finish=lambda tokens, end: list(dict.fromkeys(tokens[1:]))), (
        "You drop tokens that came before. A word may occur several times: return the sequence as it is.")),
    "repetitions merged": (dict(finish=lambda tokens, end: [b for a, b in zip(tokens, tokens[1:]) if a != b]), (
        "You drop a token that equals the one before. A word may follow itself: return the sequence as it is.")),
    "length": (dict(finish=lambda tokens, end: [len(tokens) - 1]), (
        "You return the number of tokens. The tokens themselves are wanted, as a list.")),
    "last token": (dict(finish=lambda tokens, end: tokens[1:][-1:]), (
        "You return the last token only. Collect all new ones in a list.")),
    "empty if not finished": (dict(finish=lambda tokens, end: tokens[1:] if end else []), (
        "You return nothing if the limit comes before eos. Return what has been written until then.")),
}
GREEDY_DECODE = [*variations(_greedy, _GREEDY), *(Mistake(*row) for row in [
    (_one_pass, "You call step once and take the best token of each row. Later rows depend on earlier choices: one "
     "call for each new token, with the prefix grown by it.", "one pass"),
    (_none_at_the_limit, "Your function returned None where the limit comes before eos: did you forget `return` after "
     "the loop, too? Return what has been written until then.", "none at the limit"),
    (_filtered, "You go on after eos and take the eos out of the result, so that junk from behind the end stays in. "
     "Stop at the first eos.", "eos filtered"),
    (lambda step, bos, eos, max_len: _greedy(step, bos, eos, max_len) + [eos], "You append eos to every result. It is "
     "not a word, and where the limit comes first the model hasn't even written it: return the words alone.",
     "eos always appended"),
    (lambda step, bos, eos, max_len: [], "Your list is always empty. Append each new token to the list that you "
     "return, as long as it isn't eos.", "empty"),
])]
GREEDY_DECODE_PAIRS = pairs(_greedy, _GREEDY)
