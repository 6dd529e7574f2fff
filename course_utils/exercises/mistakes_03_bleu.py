"""Wrong answers to the exercise of lecture 3 about BLEU, each with the hint for whoever wrote it.

Most are one function with a knob turned: the knobs are keyword arguments, so that two mistakes combine to a third.
"""

import math
from collections import Counter

from course_utils.exercises.engine import Mistake, pairs, variations


def _clipped(candidate, references):
    return sum(min(n, max(r.count(word) for r in references)) for word, n in Counter(candidate).items())


def _clipped_by(limit):
    """Clip by `limit` of the counts of a word in the references."""
    return lambda candidate, references: sum(
        min(n, limit([r.count(word) for r in references])) for word, n in Counter(candidate).items())


def _closest(candidate, references):
    return min(map(len, references), key=lambda n: (abs(n - len(candidate)), n))


def _exponential(c, r):
    return 1.0 if c >= r else math.exp(1 - r / c)


def _bleu(candidate, references, *, units=lambda words: words, hits=_clipped,
          total=lambda candidate, references: len(candidate), length=_closest, penalty=_exponential,
          finish=lambda precision, brevity: precision * brevity):
    candidate, references = units(candidate), [units(r) for r in references]
    precision = hits(candidate, references) / total(candidate, references)
    return finish(precision, penalty(len(candidate), length(candidate, references)))


def _joined_references(candidate, references):
    return sum((Counter(candidate) & Counter(sum(references, []))).values())


def _one_reference(candidate, references):
    return max(sum((Counter(candidate) & Counter(r)).values()) for r in references)


def _hits_added_up(candidate, references):
    return sum(sum((Counter(candidate) & Counter(r)).values()) for r in references)


def _unclipped_hits_added_up(candidate, references):
    return sum(word in r for r in references for word in candidate)


def _places_in_any(candidate, references):
    return sum(any(r[i:i + 1] == [word] for r in references) for i, word in enumerate(candidate))


def _places(candidate, references):
    return max(sum(a == b for a, b in zip(candidate, r)) for r in references)


def _mean_length(candidate, references):
    return sum(map(len, references)) / len(references)


def _mean_of_references(candidate, references):
    return sum(_bleu(candidate, [r]) for r in references) / len(references)


def _best_reference(candidate, references):
    return max(_bleu(candidate, [r]) for r in references)


_LETTERS = ("You count letters: “tac eht” gets 1 against “the cat”. The units of BLEU are words, the entries of the "
            "lists, so don't join them to a string.")
_UNIQUE = ("You count each word once, as in a set. A word that the candidate has twice counts twice, up to its count "
           "in a reference.")
_PLACES = ("You compare word by word at the same place, so that one missing word makes all later ones wrong. BLEU-1 "
           "counts words wherever they stand.")
_ADDED = ("You add up the matches with all references, so that a word in two of them counts twice. For each word, take "
          "its largest count in one reference.")
_PENALTY = "The brevity penalty is exp(1 - r / c) for a short candidate; yours is {}."
_NOT_NESTED = ("You take each word of a reference for a reference and its letters for words. `references` is a list of "
               "references, each a list of words: one loop more.")
_BLEU = {
    "characters": (dict(units=lambda words: list(" ".join(words))), _LETTERS),
    "characters without spaces": (dict(units=lambda words: list("".join(words))), _LETTERS),
    "bigrams": (dict(units=lambda words: list(zip(words, words[1:], strict=False)),
                     total=lambda candidate, references: max(len(candidate), 1)), (
        "You count pairs of neighboring words. BLEU-1 counts single words; BLEU-4 goes up to four in a row.")),
    "sets": (dict(units=lambda words: sorted(set(words))), _UNIQUE),
    "lower case": (dict(units=lambda words: [word.lower() for word in words]), (
        "You ignore upper and lower case. Words are compared as they are: whether “Cat” equals “cat” is decided before "
        "scoring.")),
    "single best reference": (dict(hits=_one_reference), (
        "You clip by the one reference that overlaps most. Each word is clipped by its largest count in any reference, "
        "and different words may find theirs in different references.")),
    "first reference only": (dict(hits=_clipped_by(lambda counts: counts[0])), (
        "You look for words in the first reference only. Each word is clipped by its largest count in any of them.")),
    "last reference only": (dict(hits=_clipped_by(lambda counts: counts[-1])), (
        "You look for words in the last reference only: is the count overwritten in a loop? Each word is clipped by "
        "its largest count in any of them.")),
    "smallest count": (dict(hits=_clipped_by(min)), (
        "You clip by the smallest count of a word, so that it must be in all references. The largest count in any one "
        "reference is enough.")),
    "counts added up": (dict(hits=_joined_references), (
        "You add up a word's counts over the references, so that more references allow more repetition. Clip by its "
        "largest count in one reference.")),
    "not clipped": (dict(hits=lambda candidate, references: sum(any(word in r for r in references)
                                                                for word in candidate)), (
        "Repeating a word pays off in yours: “the the the the” gets the full precision. Clip the count of each word by "
        "its largest count in a reference.")),
    "words once in the hits": (dict(hits=lambda candidate, references: sum(
        any(word in r for r in references) for word in set(candidate))), _UNIQUE),
    "reference's count": (dict(hits=lambda candidate, references: sum(
        max(r.count(word) for r in references) for word in set(candidate))), (
        "You count how often a word is in a reference, even where the candidate has it less often. Take the smaller of "
        "both counts.")),
    "every occurrence": (dict(hits=lambda candidate, references: sum(
        min(candidate.count(word), max(r.count(word) for r in references)) for word in candidate)), (
        "You count a repeated word once for each time it occurs. Its clipped count is to be added once: go through "
        "`set(candidate)`.")),
    "hits added up": (dict(hits=_hits_added_up), _ADDED),
    "hits added up, not clipped": (dict(hits=_unclipped_hits_added_up), _ADDED),
    "places": (dict(hits=_places), _PLACES),
    "places in any reference": (dict(hits=_places_in_any), _PLACES),
    "recall": (dict(total=_closest), (
        "You divide by the length of a reference: that is recall. Precision is the share of the candidate's words, so "
        "divide by its length.")),
    "unique words below": (dict(total=lambda candidate, references: len(set(candidate))), (
        "You divide by the number of different words. Divide by all words of the candidate, repeated ones too.")),
    "hits alone": (dict(total=lambda candidate, references: 1), (
        "You don't divide: the number of matched words is a count. Precision is their share: divide by the length of "
        "the candidate.")),
    "longest reference": (dict(length=lambda candidate, references: max(map(len, references))), (
        "You compare with the length of the longest reference. The brevity penalty takes the one whose length is "
        "closest to the candidate's.")),
    "shortest reference": (dict(length=lambda candidate, references: min(map(len, references))), (
        "You compare with the length of the shortest reference. The brevity penalty takes the one whose length is "
        "closest to the candidate's.")),
    "length of the first": (dict(length=lambda candidate, references: len(references[0])), (
        "You compare with the length of the first reference. The brevity penalty takes the one whose length is closest "
        "to the candidate's.")),
    "length of the last": (dict(length=lambda candidate, references: len(references[-1])), (
        "You compare with the length of the last reference: is it overwritten in a loop? The brevity penalty takes the "
        "one whose length is closest to the candidate's.")),
    "mean length": (dict(length=_mean_length), (
        "You compare with the mean length of the references. The brevity penalty takes the one whose length is closest "
        "to the candidate's.")),
    "number of references": (dict(length=lambda candidate, references: len(references)), (
        "You compare with the number of references, `len(references)`. The brevity penalty needs the length of one of "
        "them: the closest.")),
    "ties to the longer": (dict(length=lambda candidate, references: min(
        map(len, references), key=lambda n: (abs(n - len(candidate)), -n))), (
        "Of two references that are equally close in length you take the longer one, or the one listed first. The "
        "shorter one counts: take the minimum by (distance, length).")),
    "no brevity": (dict(penalty=lambda c, r: 1.0), (
        "The brevity penalty is missing: one safe word would get a perfect score. A candidate shorter than the "
        "reference is multiplied by exp(1 - r / c).")),
    "brevity inverted": (dict(penalty=lambda c, r: 1.0 if c >= r else math.exp(1 - c / r)), (
        "Your penalty raises the score of a short candidate, it is above 1: the quotient is upside down. It is "
        "exp(1 - r / c), with r the length of the reference.")),
    "penalty for all": (dict(penalty=lambda c, r: math.exp(1 - r / c)), (
        "Your penalty rewards candidates that are longer than the reference, it is above 1 for them. It holds for "
        "short ones only: else the factor is 1.")),
    "penalty for the long": (dict(penalty=lambda c, r: 1.0 if c <= r else math.exp(1 - c / r)), (
        "You lower the score of long candidates: precision takes care of those. The penalty is for candidates shorter "
        "than the reference.")),
    "condition turned around": (dict(penalty=lambda c, r: math.exp(1 - r / c) if c > r else 1.0), (
        "Your condition is the wrong way round: the factor exp(1 - r / c) is for candidates shorter than the "
        "reference. Longer ones have the factor 1.")),
    "quotient": (dict(penalty=lambda c, r: min(1.0, c / r)), _PENALTY.format("the quotient c / r")),
    "no 1": (dict(penalty=lambda c, r: 1.0 if c >= r else math.exp(-r / c)), _PENALTY.format(
        "exp(-r / c), which is not 1 for equal lengths")),
    "difference of lengths": (dict(penalty=lambda c, r: 1.0 if c >= r else math.exp(c - r)), _PENALTY.format(
        "exp(c - r), which goes by the difference and not by the quotient")),
    "no exponential": (dict(penalty=lambda c, r: 1.0 if c >= r else 1 - r / c), _PENALTY.format(
        "1 - r / c, which is negative: exp is missing")),
    "zero for the short": (dict(penalty=lambda c, r: float(c >= r)), _PENALTY.format("0")),
    "logarithm": (dict(penalty=lambda c, r: min(0.0, 1 - r / c), finish=lambda precision, brevity: (
        -math.inf if precision == 0 else math.log(precision) + brevity)), (
        "You return the logarithm of the score. Take exp in the end, or multiply precision and penalty directly.")),
    "percent": (dict(finish=lambda precision, brevity: 100 * precision * brevity), (
        "Yours is in percent, as tools print it. Here 1 is the best score.")),
    "precision and penalty added": (dict(finish=lambda precision, brevity: precision + brevity), (
        "You add precision and brevity penalty. The penalty is a factor: multiply.")),
    "penalty alone": (dict(finish=lambda precision, brevity: brevity), (
        "You return the brevity penalty alone. It is a factor: multiply it by the clipped precision.")),
    "rounded": (dict(finish=lambda precision, brevity: round(precision * brevity, 2)), (
        "You round the score. Return it as it is: whoever shows it decides on the digits.")),
}
BLEU1 = [*variations(_bleu, _BLEU), *(Mistake(*row) for row in [
    (lambda candidate, references: _bleu(candidate, [list(word) for word in references[0]]), _NOT_NESTED,
     "reference not nested"),
    (lambda candidate, references: _bleu(candidate, references[0]), _NOT_NESTED, "reference not nested, strings"),
    (lambda candidate, references: _bleu(candidate, references[:1]), "You use the first reference only. Clip each word "
     "by its largest count in any of them, and compare with the length that is closest.", "one reference"),
    (_best_reference, "You score against each reference alone and take the best score. All references work together: "
     "each word is clipped by its largest count in any of them.", "best score"),
    (_mean_of_references, "You average the scores of the single references. All references work together: each word is "
     "clipped by its largest count in any of them.", "mean of scores"),
    (lambda candidate, references: float(candidate in references), "You ask whether the candidate equals a reference: "
     "that is exact match. BLEU-1 gives credit for each word that is in a reference.", "exact match"),
    (lambda candidate, references: _bleu(references[0], [candidate]), "Candidate and reference are exchanged: you "
     "count how many words of the reference are in the candidate. Precision is the share of the candidate's words.",
     "exchanged"),
])]
# Two kinds of finish can't be combined with the logarithm's own penalty, and bigrams have their own total.
BLEU1_PAIRS = pairs(_bleu, {name: entry for name, entry in _BLEU.items() if name not in ("logarithm", "bigrams",
                                                                                        "penalty alone", "rounded")})
