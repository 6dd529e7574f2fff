"""Wrong answers to lecture 3's exercise beam_search, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

from typing import NamedTuple

import numpy as np

from course_utils.exercises.engine import Mistake, pairs, variations


class _Beginning(NamedTuple):
    """tokens: with bos; total: its log-probability; place: of its parent in the beam."""

    tokens: list
    total: float
    place: int = 0


def _log_probs(scores):
    row = scores[-1]
    return row - np.log(np.exp(row).sum())


def _softmax(scores):
    return np.exp(_log_probs(scores))


def _over_the_table(scores):
    return scores[-1] - np.log(np.exp(scores).sum())


def _ended(h, bos, eos):
    return len(h.tokens) > 1 and h.tokens[-1] == eos


def _total(h):
    return h.total


def _mean(h):
    return h.total / max(len(h.tokens) - 1, 1)


def _wu(h, alpha=0.6):
    """Wu et al. (2016), Google's neural machine translation system, equation 14."""
    return h.total / ((5 + len(h.tokens) - 1) / 6) ** alpha


def _best(hypotheses, n, rank):
    return sorted(hypotheses, key=rank, reverse=True)[:max(n, 0)]


def _flat(children):
    return [child for several in children for child in several]


def _together(done, children, width, rank, beam, eos):
    return _best(done + _flat(children), width, rank)


def _first_of(beam, rank, bos, eos):
    return max(beam, key=rank)


def _words(tokens, bos, eos):
    return tokens[1:-1] if len(tokens) > 1 and tokens[-1] == eos else tokens[1:]


def _beam(step, bos, eos, max_len, width, *, feed=lambda tokens: tokens, gain=_log_probs, start=0.0,
          add=lambda total, gain, token, eos: total + gain, ended=_ended, rank=_total, prune=_together,
          steps=lambda max_len: max_len, stop=lambda beam, eos, width: False, rank_at_end=None, choose=_first_of,
          allowed=lambda token, bos: True, finish=_words):
    beam = [_Beginning([bos], start)]
    for _ in range(steps(max_len)):
        done = [h for h in beam if ended(h, bos, eos)]
        children = []
        for place, h in enumerate(beam):
            if not ended(h, bos, eos):
                gains = gain(step(feed(h.tokens)))
                children.append([_Beginning(h.tokens + [token], add(h.total, gains[token], token, eos), place)
                                 for token in range(len(gains)) if allowed(token, bos)])
        beam = prune(done, children, width, rank, beam, eos)
        if not beam or stop(beam, eos, width):
            break
    return finish(choose(beam, rank_at_end or rank, bos, eos).tokens, bos, eos) if beam else []


def _is_done(h, eos):
    return h.tokens[-1] == eos


def _enough_done(beam, eos, width):
    return sum(_is_done(h, eos) for h in beam) >= width


def _shared_list(step, bos, eos, max_len, width):
    """All continuations of a hypothesis are the same list, to which one token after the other is appended."""
    beam = [([bos], 0.0)]
    for _ in range(max_len):
        candidates = []
        for tokens, total in beam:
            if len(tokens) > 1 and tokens[-1] == eos:
                candidates.append((tokens, total))
                continue
            for token, gain in enumerate(_log_probs(step(tokens))):
                tokens.append(token)
                candidates.append((tokens, total + gain))
        beam = sorted(candidates, key=lambda candidate: candidate[1], reverse=True)[:width]
    return _words(beam[0][0], bos, eos)


def _each_its_best(done, children, width, rank, beam, eos):
    if len(beam) == 1:
        return _together(done, children, width, rank, beam, eos)
    return done + [max(c, key=rank) for c in children]


def _lost_when_done(done, children, width, rank, beam, eos):
    return _best(_flat(children), width, rank)


def _apart(done, children, width, rank, beam, eos):
    """Finished hypotheses are set aside, and the unfinished ones get `width` places of their own."""
    flat = _flat(children)
    return done + _best(flat, width, rank)


def _all_ends_kept(done, children, width, rank, beam, eos):
    flat = _flat(children)
    return done + [h for h in flat if _is_done(h, eos)] + _best(
        [h for h in flat if not _is_done(h, eos)], width, rank)


def _places_reserved(done, children, width, rank, beam, eos):
    return done + _best(_flat(children), width - len(done), rank)


def _wrong_parent(done, children, width, rank, beam, eos):
    """The new tokens are appended in their order of rank to the beam as it stands."""
    kept = _together(done, children, width, rank, beam, eos)
    return [h if h in done else h._replace(tokens=beam[min(k, len(beam) - 1)].tokens + h.tokens[-1:])
            for k, h in enumerate(kept)]


def _only(finished):
    """The best of the finished (unfinished) hypotheses, if there are any."""
    def choose(beam, rank, bos, eos):
        return max([h for h in beam if _is_done(h, eos) == finished] or beam, key=rank)
    return choose


def _until_eos(tokens, bos, eos):
    words = tokens[1:]
    return words[:words.index(eos)] if eos in words else words


def _never(h, bos, eos):
    return False


_NO_LOG = ("You {} probabilities. Along a sequence probabilities multiply, so their logarithms are added: {}.")
_EXPANDED = ("You go on writing after eos, so that a finished hypothesis loses probability with every token of junk. "
             "Carry it on as it is, with its total unchanged.")
_ROOM = ("In yours finished hypotheses leave the beam and make room for others. Here they keep their place: at each "
         "step they compete with all continuations for the same `width` places.")
_LENGTH = ("You divide by the length, which favors long hypotheses. Here the total counts, the sum of all "
           "log-probabilities, without length normalization.")
_LENGTH_PENALTY = ("You divide by a length penalty, which favors long hypotheses. Here the total counts, the sum of "
                   "all log-probabilities, without length normalization.")
_NO_BOS = "You never let bos into the beam. Here every token may be a continuation, whatever its id."
_GREEDY_WIDTH = ("Your result is that of greedy decoding: one hypothesis alone survives. Start with one beginning, "
                 "[bos], and after each step keep the best `width` of all continuations together.")
_BEAM = {
    "raw scores": (dict(gain=lambda scores: scores[-1]), (
        "You add the raw scores, which are comparable only within one row. Turn each row into log-probabilities first, "
        "by log_softmax.")),
    "probabilities added": (dict(gain=_softmax), _NO_LOG.format("add", "add log-probabilities, log_softmax")),
    "probabilities multiplied": (dict(gain=_softmax, start=1.0, add=lambda total, gain, token, eos: total * gain), (
        "You multiply probabilities: right for short sequences, but in the longest case the product underflows to 0 "
        "and all hypotheses are equal. Add logarithms instead.")),
    "raw scores multiplied": (dict(gain=lambda scores: scores[-1], start=1.0,
                                   add=lambda total, gain, token, eos: total * gain), (
        "You multiply raw scores, of which two negative ones make a positive. Turn each row into log-probabilities by "
        "log_softmax, and add.")),
    "log-probabilities multiplied": (dict(start=1.0, add=lambda total, gain, token, eos: total * gain), (
        "You multiply log-probabilities. The logarithm of a product is a sum: start with 0 and add.")),
    "softmax over the table": (dict(gain=_over_the_table), (
        "Your softmax runs over the whole table of scores. Only the last row holds the scores of the next token: its "
        "probabilities add up to 1.")),
    "first row": (dict(gain=lambda scores: _log_probs(scores[:1])), (
        "You read the first row, the scores of the token after bos, again and again. step(tokens)[-1] scores the token "
        "after the whole prefix.")),
    "last token only": (dict(feed=lambda tokens: tokens[-1:]), (
        "You feed the newest token alone, but step keeps no memory of the others. Feed the whole prefix of the "
        "hypothesis.")),
    "bos not fed": (dict(feed=lambda tokens: tokens[1:] or tokens), (
        "After the first step your prefixes lack bos. step wants all tokens so far, with bos in front.")),
    "last gain only": (dict(add=lambda total, gain, token, eos: gain), (
        "You rank by the newest token alone. A hypothesis carries its total along: old total plus log-probability of "
        "the new token.")),
    "eos for free": (dict(add=lambda total, gain, token, eos: total + gain * (token != eos)), (
        "Your result is always empty. Either no tokens are collected, or eos costs nothing, so it is best to end at "
        "once: its log-probability is added like that of any other token.")),
    "eos never": (dict(add=lambda total, gain, token, eos: total + gain - 1e9 * (token == eos)), (
        "You never let eos into the beam, so no hypothesis ends before the limit. It is a continuation like any "
        "other.")),
    "bos never": (dict(allowed=lambda token, bos: token != bos), _NO_BOS),
    "ascending": (dict(rank=lambda h: -h.total), (
        "You keep the least probable hypotheses: sorted upwards, they come first. A log-probability near 0 is good, a "
        "very negative one bad.")),
    "worst at the end": (dict(rank_at_end=lambda h: -h.total), (
        "Your search is right, but in the end you return the least probable hypothesis that is left. Return the one "
        "with the largest total.")),
    "mean log-probability": (dict(rank=_mean), _LENGTH),
    "mean log-probability, bos counted": (dict(rank=lambda h: h.total / len(h.tokens)), _LENGTH),
    "length penalty": (dict(rank=_wu), _LENGTH_PENALTY),
    "length penalty at the end": (dict(rank_at_end=_wu), _LENGTH_PENALTY),
    "mean at the end": (dict(rank_at_end=_mean), (
        "In the end you divide by the length, which favors long hypotheses. Here the total counts, the sum of all "
        "log-probabilities, without length normalization.")),
    "longest at the end": (dict(rank_at_end=lambda h: len(h.tokens) + 1e-6 * h.total), (
        "In the end you return the longest hypothesis. The most probable one is wanted, whatever its length.")),
    "each its best": (dict(prune=_each_its_best), (
        "You keep the best continuation of each hypothesis, so that they run side by side without competing. Put all "
        "continuations into one list and keep the best `width` of it.")),
    "greedy": (dict(prune=lambda done, children, width, rank, beam, eos: _together(
        done, children, 1, rank, beam, eos)), _GREEDY_WIDTH),
    "width + 1": (dict(prune=lambda done, children, width, rank, beam, eos: _together(
        done, children, width + 1, rank, beam, eos)), "You keep one hypothesis too many. After each step `width` of "
        "them are left, finished ones counted."),
    "width - 1": (dict(prune=lambda done, children, width, rank, beam, eos: _together(
        done, children, max(width - 1, 1), rank, beam, eos)), "You keep one hypothesis too few. After each step "
        "`width` of them are left."),
    "always 2": (dict(prune=lambda done, children, width, rank, beam, eos: _together(
        done, children, 2, rank, beam, eos)), (
        "You always keep 2 hypotheses, whatever `width` is. Use the argument.")),
    "never pruned": (dict(prune=lambda done, children, width, rank, beam, eos: done + _flat(children)), (
        "You keep all continuations, whose number is multiplied by V at each step. After each step only the best "
        "`width` stay.")),
    "lost when done": (dict(prune=_lost_when_done), (
        "Your finished hypotheses get lost: only continuations go into the next beam. Put the finished ones into the "
        "same list, as they are.")),
    "apart": (dict(prune=_apart), _ROOM),
    "apart, until enough are done": (dict(prune=_apart, stop=_enough_done), _ROOM),
    "apart, the best of the done": (dict(prune=_apart, stop=_enough_done, choose=_only(True)), _ROOM),
    "all ends kept": (dict(prune=_all_ends_kept), (
        "You keep every hypothesis that reaches eos, however improbable it is, and give `width` places to the others. "
        "Here all compete for the same `width` places.")),
    "places reserved": (dict(prune=_places_reserved), (
        "In yours a finished hypothesis keeps its place for good. It drops out, too, when `width` others are better: "
        "rank finished ones and continuations together.")),
    "wrong parent": (dict(prune=_wrong_parent), (
        "Your new tokens are appended to the wrong prefixes: the best continuation need not come from the best "
        "hypothesis. Take along with each candidate which hypothesis it continues.")),
    "expanded": (dict(ended=_never, finish=_until_eos), _EXPANDED),
    "expanded, eos filtered": (dict(ended=_never, finish=lambda tokens, bos, eos: [
        token for token in tokens[1:] if token != eos]), _EXPANDED),
    "expanded, junk kept": (dict(ended=_never), _EXPANDED),
    "stops at the first": (dict(stop=lambda beam, eos, width: _enough_done(beam, eos, 1), choose=_only(True)), (
        "You return the first hypothesis that reaches eos. Another one may still become better: go on until all in the "
        "beam are finished, or the best is.")),
    "stops when one is done": (dict(stop=lambda beam, eos, width: _enough_done(beam, eos, 1)), (
        "You stop as soon as one hypothesis has reached eos, and return the best of that moment. Only when the best "
        "itself is finished can nothing change any more.")),
    "finished only": (dict(choose=_only(True)), (
        "In the end you look at finished hypotheses only. One that was cut at the limit competes by its total, too.")),
    "unfinished only": (dict(choose=_only(False)), (
        "In the end you prefer hypotheses that were cut at the limit. Finished ones compete by their total, too.")),
    "one step too few": (dict(steps=lambda max_len: max_len - 1), (
        "You take one step too few: you count bos as well. `max_len` counts new tokens, eos among them.")),
    "one step too many": (dict(steps=lambda max_len: max_len + 1), (
        "You take one step too many. There are `max_len` steps, and each adds one token to every unfinished "
        "hypothesis.")),
    "one step": (dict(steps=lambda max_len: 1), (
        "You return after the first step: is `return` inside the loop? Go on until the limit, or until all are "
        "finished.")),
    "eos kept": (dict(finish=lambda tokens, bos, eos: tokens[1:]), (
        "eos is in your result. It says that the end is reached and is not a word: leave it out.")),
    "bos kept": (dict(finish=lambda tokens, bos, eos: [bos] + _words(tokens, bos, eos)), (
        "bos is in your result. It starts every hypothesis, but the result holds the new tokens only.")),
    "bos filtered": (dict(finish=lambda tokens, bos, eos: [token for token in tokens if token not in (bos, eos)]), (
        "You filter bos out of the whole result. Only the first token is dropped, and eos if it is the last: between "
        "them bos is a token like any other.")),
    "both kept": (dict(finish=lambda tokens, bos, eos: tokens), (
        "bos and eos are in your result. They mark where a sequence starts and ends: only what lies between them "
        "counts.")),
    "last always dropped": (dict(finish=lambda tokens, bos, eos: tokens[1:-1]), (
        "You drop the last token without looking. It is eos only if the hypothesis is finished: at the limit it is a "
        "word.")),
    "ends at bos": (dict(ended=lambda h, bos, eos: len(h.tokens) > 1 and h.tokens[-1] == bos,
                         finish=lambda tokens, bos, eos: _words(tokens, bos, bos)), (
        "You take bos for the end. A hypothesis is finished when its last token is eos.")),
    "ends at 2": (dict(ended=lambda h, bos, eos: h.tokens[-1] == 2, finish=lambda tokens, bos, eos: _words(
        tokens, bos, 2)), "You take token 2 for the end, whatever `eos` is. Compare with the argument: in one of the "
        "cases 2 is a word."),
}
BEAM_SEARCH = [*variations(_beam, _BEAM), Mistake(
    _shared_list, "All continuations of a hypothesis are one and the same list, to which you append token after token. "
    "Build a new list for each: `tokens + [token]`.", "shared list")]
# Without those that take long, or are right in short cases.
BEAM_SEARCH_PAIRS = pairs(_beam, {name: entry for name, entry in _BEAM.items() if name not in (
    "never pruned", "probabilities multiplied", "bos filtered", "bos never", "apart, until enough are done",
    "apart, the best of the done", "expanded, eos filtered")})
