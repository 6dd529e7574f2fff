"""Choosing what the sentences of `phrases` say: clauses of a given length in all, and pronouns that can be understood.

A pronoun refers to a noun in the clause that its own is joined to. What is said about it can be said of that noun's
kind, and of no other that the same pronoun could stand for there.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain

import numpy as np

from course_utils import phrases_lexicon as lexicon
from course_utils.phrases_clauses import ARTICLE, BE, SPEAKER, Clause, NounPhrase
from course_utils.phrases_lexicon import Adjective, Noun, Verb

# What is drawn from; what occurs twice in a row comes up twice as often.
KINDS = tuple(dict.fromkeys(noun.kind for noun in lexicon.NOUNS))
NOUNS = {kind: [noun for noun in lexicon.NOUNS if noun.kind == kind] for kind in KINDS}
ATTRIBUTES = {kind: [adjective for adjective in lexicon.ADJECTIVES if kind in adjective.kinds] for kind in KINDS}
_PREDICATES = {kind: [a for a in adjectives if a.usage != "color"] for kind, adjectives in ATTRIBUTES.items()}
_VERBS = {"do": lexicon.INTRANSITIVE, "act": lexicon.TRANSITIVE, "motion": lexicon.MOTION, "report": lexicon.REPORTING}
_ANY = ("act", "act", "act", "act", "motion", "motion", "do", "be")
_REPORT = ("report",)
_LINKS = ("because", "because", "because", "although", "for", "and", "but")
_QUANTIFIERS = (ARTICLE["every"], ARTICLE["all"], ARTICLE["no"])  # with a negated verb they would be ambiguous
# The articles that a noun takes: under "nicht", under "kein" or "nicht", where a pronoun may refer to it, anywhere.
CHOICES = {
    ("definite", "singular"): "the the the the this my our",
    ("definite", "mass"): "the the the the this my our",
    ("definite", "plural"): "the the the the this my our",
    ("negated", "singular"): "the the the the this my our a a",
    ("negated", "mass"): "the the the the this my our - -",
    ("negated", "plural"): "the the the the this my our - -",
    ("known", "singular"): "the the the the this my our a a a",
    ("known", "mass"): "the the the the this my our - - -",
    ("known", "plural"): "the the the the this my our - - two some many",
    ("free", "singular"): "the the the the this my our a a a every no",
    ("free", "mass"): "the the the the this my our - - - no",
    ("free", "plural"): "the the the the this my our - - two some many all no",
}
CHOICES = {key: [ARTICLE.get(word) for word in words.split()] for key, words in CHOICES.items()}


class Dice:
    """Random choices by whole numbers, the same on every machine; drawn in blocks, because single draws are slow."""

    def __init__(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        blocks = iter(lambda: generator.integers(2**32, size=1024).tolist(), None)
        self._next = chain.from_iterable(blocks).__next__

    def below(self, n: int) -> int:
        return self._next() % n

    def pick(self, options: Sequence):
        return options[self._next() % len(options)]

    def percent(self, share: int) -> bool:
        return self._next() % 100 < share


def draw_clauses(dice: Dice, length: int) -> list[Clause]:
    """Return the clauses of a sentence of `length` English words."""
    while True:
        tense = dice.pick(("past", "past", "present"))
        share = dice.pick((20, 50, 80))  # of the places for adjectives and adverbs that are to be used, percent
        clauses: list[Clause] = []
        words, slots, ended, failures = 0, [], False, 0
        while not ended and failures < 3 and length - words > len(slots) * share // 100:
            unit, last = _unit(dice, tense, length - words - bool(clauses))
            if clauses:
                unit[0].link = dice.pick(("and", "and", "but"))
            n = sum([clause.length for clause in unit])
            if words + n > length or _repeats_a_noun(unit):
                failures += 1
                continue
            clauses += unit
            words, ended = words + n, last
            slots += [slot for clause in unit for slot in _slots(clause)]
        if length <= words + len(slots):
            _fill(dice, clauses, slots, length - words)
            return clauses


def _repeats_a_noun(unit: list[Clause]) -> bool:
    """Whether a noun or name occurs twice, where English would say "himself", or "another dog"."""
    nouns = [p.noun.en for c in unit for p in (c.subject, c.object) if p and not p.refers_to and p.noun is not SPEAKER]
    return len(set(nouns)) < len(nouns)


def _unit(dice: Dice, tense: str, room: int) -> tuple[list[Clause], bool]:
    """Return clauses that belong together, with `room` words in mind, and whether the sentence ends with them.

    A clause, or two of which the second says more about the first; "anna said that" may lead, at the end of a sentence.
    """
    unit = []
    reported = 7 <= room <= 20 and dice.percent(20)
    if reported:
        unit.append(_fresh_clause(dice, tense, _REPORT, linked=True))
    linked = room - sum(clause.length for clause in unit) >= 7 and dice.percent(70)
    unit.append(_fresh_clause(dice, tense, _ANY, linked))
    if reported:
        unit[1].link = "that"
    if linked:
        unit.append(_linked_clause(dice, unit, dice.pick(_LINKS[:4] if reported else _LINKS)))
    return unit, reported


def _fresh_clause(dice: Dice, tense: str, kinds: tuple[str, ...], linked: bool) -> Clause:
    """Return a clause without pronouns, except "i" and "we"; if `linked`, a pronoun may refer to its nouns."""
    kind = dice.pick(kinds)
    if kind == "be":
        subject = _noun_phrase(dice, dice.pick(KINDS), "known" if linked else "free")
        clause = Clause(subject, BE, tense, negated=subject.article not in _QUANTIFIERS and dice.percent(20))
        _say_of(clause, dice.pick(_PREDICATES[subject.noun.kind]), subject)
        return clause
    verb = dice.pick(_VERBS[kind])
    negated = dice.percent(35) and kind != "report"
    subject = _subject(dice, dice.pick(verb.subjects), "known" if linked or negated else "free")
    clause = Clause(subject, verb, tense, negated=negated)
    if kind != "report":
        clause.modal = _modal(dice, verb, tense, negated)
    if verb.objects:
        thing = dice.pick(verb.objects)
        motion = kind == "motion"
        context = ("definite" if linked or motion else "negated") if negated else "known"
        plain = not (linked or motion or clause.modal or subject.article in _QUANTIFIERS)
        if context == "known" and plain:
            context = "free"
        clause.object = _noun_phrase(dice, thing, context)
        clause.preposition = dice.pick(lexicon.PREPOSITIONS[thing]) if motion else None
    return clause


def _linked_clause(dice: Dice, unit: list[Clause], link: str) -> Clause:
    """Return a clause joined to the last of `unit` by `link`, whose pronouns refer to the nouns there if they can."""
    before = unit[-1]
    phrases = [p for clause in unit for p in (clause.subject, clause.object) if p and p.noun is not SPEAKER]
    clause = None
    if phrases and not dice.percent(10):
        makers = (_about, _about, _deed, _seen, _seen, _both)
        clause = dice.pick(makers)(dice, before, phrases, link)
    clause = clause or _fresh_clause(dice, before.tense, _ANY, linked=True)
    clause.link = link
    return clause


def _about(dice: Dice, before: Clause, phrases: list[NounPhrase], link: str) -> Clause | None:
    """… because it was too wide: an adjective that fits one of the nouns."""
    topic, others = _topic(dice, phrases)
    too = before.negated and link in ("because", "for")
    fitting = [a for a in _fitting_adjectives(topic.noun.kind, others, too) if a.scale not in topic.scales]
    if not fitting:
        return None
    clause = Clause(_pronoun(topic), BE, before.tense, negated=not too and dice.percent(20))
    clause.degree = "too" if too else ""
    _say_of(clause, dice.pick(fitting), topic)
    return clause


def _deed(dice: Dice, before: Clause, phrases: list[NounPhrase], link: str) -> Clause | None:
    """… because it slept: a verb that fits one of the nouns."""
    topic, others = _topic(dice, phrases)
    fitting = [
        verb
        for verb in lexicon.INTRANSITIVE
        if verb is not before.verb and _fits(topic.noun.kind, others, verb.subjects)
    ]
    return _pronoun_clause(dice, _pronoun(topic), dice.pick(fitting), before.tense) if fitting else None


def _seen(dice: Dice, before: Clause, phrases: list[NounPhrase], link: str) -> Clause | None:
    """… but the woman did not see it: a verb whose object one of the nouns can be."""
    topic, others = _topic(dice, phrases)
    fitting = [verb for verb in _fitting_verbs(topic.noun.kind, others) if verb is not before.verb]
    if not fitting:
        return None
    clause = _pronoun_clause(dice, _subject(dice, "person", "known"), dice.pick(fitting), before.tense)
    clause.object = _pronoun(topic)
    return clause


def _both(dice: Dice, before: Clause, phrases: list[NounPhrase], link: str) -> Clause | None:
    """… because he could not see it: pronouns for a person and something else."""
    subject, others = _topic(dice, phrases)
    if subject.noun.kind != "person" or "person" in others or len(phrases) < 2:
        return None
    topic, others = _topic(dice, [phrase for phrase in phrases if phrase is not subject])
    if topic.pronoun[0] == subject.pronoun[0]:
        others = (*others, "person")
    fitting = [verb for verb in _fitting_verbs(topic.noun.kind, others) if verb is not before.verb]
    if topic.noun.kind == "person" or not fitting:
        return None
    clause = _pronoun_clause(dice, _pronoun(subject), dice.pick(fitting), before.tense)
    clause.object = _pronoun(topic)
    return clause


def _pronoun_clause(dice: Dice, subject: NounPhrase, verb: Verb, tense: str) -> Clause:
    negated = dice.percent(35)
    return Clause(subject, verb, tense, _modal(dice, verb, tense, negated), negated)


def _topic(dice: Dice, phrases: list[NounPhrase]) -> tuple[NounPhrase, tuple[str, ...]]:
    """Return one of the phrases, and the kinds of the others that the same English pronoun could stand for."""
    topic = dice.pick(phrases)
    word = topic.pronoun[0]
    return topic, tuple(p.noun.kind for p in phrases if p is not topic and p.pronoun[0] == word)


def _fits(kind: str, others: tuple[str, ...], kinds: tuple[str, ...]) -> bool:
    """Whether what is said of `kinds` can be said of `kind` and of none of the `others`."""
    return kind in kinds and not any(other in kinds for other in others)


@cache
def _fitting_adjectives(kind: str, others: tuple[str, ...], too: bool) -> tuple[Adjective, ...]:
    usages = ("too",) if too else ("too", "very")
    return tuple(a for a in lexicon.ADJECTIVES if a.usage in usages and _fits(kind, others, a.kinds))


@cache
def _fitting_verbs(kind: str, others: tuple[str, ...]) -> tuple[Verb, ...]:
    return tuple(v for v in lexicon.TRANSITIVE if "person" in v.subjects and _fits(kind, others, v.objects))


def _say_of(clause: Clause, adjective: Adjective, topic: NounPhrase) -> None:
    clause.complement = adjective
    topic.scales.append(adjective.scale)


def _modal(dice: Dice, verb: Verb, tense: str, negated: bool) -> str:
    """Return a modal verb, or mostly "": "must not" isn't said here, nor "can need"."""
    modal = dice.pick(lexicon.MODALS[tense])
    fits = dice.percent(25) and (modal.en_negated or not negated) and (verb.en != "need" or modal.name == "will")
    return modal.name if fits else ""


def _subject(dice: Dice, kind: str, context: str) -> NounPhrase:
    if kind == "person" and dice.percent(15):
        return NounPhrase(SPEAKER, dice.pick("mp"))
    return _noun_phrase(dice, kind, context)


def _noun_phrase(dice: Dice, kind: str, context: str) -> NounPhrase:
    if kind == "person" and dice.percent(25):
        name = dice.pick(lexicon.NAMES)
        return NounPhrase(name, name.gender)
    noun = dice.pick(NOUNS[kind])
    plural = noun.en_plural != "" and dice.percent(25)
    form = "plural" if plural else "singular" if noun.en_plural else "mass"
    return NounPhrase(noun, "p" if plural else noun.gender, dice.pick(CHOICES[context, form]))


def change_nouns(dice: Dice, clauses: list[Clause]) -> None:
    """Exchange nouns for others of their kind that take the same forms, and the same English pronoun."""
    phrases = [p for clause in clauses for p in (clause.subject, clause.object) if p and not p.refers_to]
    used = {phrase.noun.en for phrase in phrases}
    for phrase in phrases:
        if phrase.noun is SPEAKER or phrase.is_name:
            continue
        noun = dice.pick(_alike(phrase.noun))
        if noun.en not in used:
            used.add(noun.en)
            phrase.noun = noun
            phrase.gender = "p" if phrase.gender == "p" else noun.gender


@cache
def _alike(noun: Noun) -> tuple[Noun, ...]:
    return tuple(
        other
        for other in NOUNS[noun.kind]
        if bool(other.en_plural) == bool(noun.en_plural) and (noun.kind != "person" or other.gender == noun.gender)
    )


def _pronoun(topic: NounPhrase) -> NounPhrase:
    return NounPhrase(topic.noun, topic.gender, refers_to=topic)


# Filling a sentence to its length


def _slots(clause: Clause) -> list[tuple[str, Clause | NounPhrase]]:
    """Return where one more English word can go: each place takes one, at most two adjectives to a noun."""
    slots: list[tuple[str, Clause | NounPhrase]] = [("adverb", clause)]
    if clause.complement and not clause.degree:
        slots.append(("degree", clause))
    for phrase in (clause.subject, clause.object):
        if phrase and not (phrase.refers_to or phrase.is_name or phrase.noun is SPEAKER):
            slots += [("adjective", phrase)] * 2
    return slots


def _fill(dice: Dice, clauses: list[Clause], slots: list[tuple], n: int) -> None:
    """Use `n` of the slots."""
    for i in range(n):
        j = i + dice.below(len(slots) - i)
        slots[i], slots[j] = slots[j], slots[i]
        kind, target = slots[i]
        if kind == "adverb":
            _set_adverb(dice, target)
        elif kind == "degree":
            target.degree = "very"
        else:
            target.wanted += 1
    for clause in clauses:
        for phrase in (clause.subject, clause.object):
            if phrase and phrase.wanted:
                _set_adjectives(dice, phrase)


def _set_adverb(dice: Dice, clause: Clause) -> None:
    clause.adverb = dice.pick(lexicon.ADVERBS["future" if clause.modal == "will" else clause.tense])
    clause.adverb_first = not clause.is_final and dice.percent(50)


def _set_adjectives(dice: Dice, phrase: NounPhrase) -> None:
    """Draw the wanted adjectives: of different scales, none that contradicts what is said elsewhere, colors last."""
    chosen: list[Adjective] = []
    while len(chosen) < phrase.wanted:
        adjective = dice.pick(ATTRIBUTES[phrase.noun.kind])
        if adjective.scale not in phrase.scales and all(adjective.scale != other.scale for other in chosen):
            chosen.append(adjective)
    phrase.adjectives = tuple(sorted(chosen, key=lambda adjective: adjective.usage == "color"))
