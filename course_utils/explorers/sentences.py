"""A sentence of `phrases` chosen word by word: what can be chosen next to what, and the clauses that it comes to.

The grammar writes both languages from the clauses, so that the German of a chosen sentence is right. Only a part of
what `phrases.generate` says can be chosen here: one clause, a reason whose pronoun stands for one of its nouns, and
up to three more clauses from a list.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from course_utils import phrases_lexicon as lexicon
from course_utils.phrases_choices import ATTRIBUTES, CHOICES, NOUNS, Dice
from course_utils.phrases_clauses import ARTICLE, BE, Clause, NounPhrase, english, german, verb_group
from course_utils.phrases_lexicon import Adjective, Noun, Verb
from course_utils.shapes import in_range

Options = list[tuple[str, str]]  # what is shown, and the value of the setting
NONE = ("–", "")
SHORTEST, LONGEST = 4, 30  # words of a sentence that `draw` is asked for

_PLURAL = ("these", "two", "some", "many")  # articles; those that are not here go with the singular
_NOUN = {noun.en: noun for noun in (*lexicon.NOUNS, *lexicon.NAMES)}
_ADJECTIVE = {adjective.en: adjective for adjective in lexicon.ADJECTIVES}
_FORMS = {  # tense and modal verb
    "past": ("past", ""),
    "present": ("present", ""),
    **{modal.name: ("present", modal.name) for modal in lexicon.MODALS["present"]},
}
# Conjunction, subject, verb, negated or not, object: a clause that can be added at the end.
_MORE = {
    "buy": ("and", ("the", "old", "woman"), "buy", False, ("two", "", "apple")),
    "hear": ("but", ("the", "lazy", "dog"), "hear", True, ("the", "", "radio")),
    "switch off": ("and", ("", "", "anna"), "switch off", False, ("this", "new", "computer")),
    "drink": ("but", ("our", "", "uncle"), "drink", True, ("the", "cold", "milk")),
    "invite": ("and", ("my", "", "aunt"), "invite", False, ("a", "friendly", "farmer")),
    "see": ("and", ("a", "", "horse"), "see", False, ("the", "wild", "lion")),
    "throw away": ("and", ("the", "nervous", "king"), "throw away", False, ("many", "boring", "letter")),
    "clean": ("but", ("the", "", "boy"), "clean", True, ("the", "dirty", "window")),
}


class Settings(NamedTuple):
    """The chosen words, in the order in which one limits the next; "" stands for none.

    form: "past", "present", or the name of a modal verb in the present; reason: "subject" or "object", which the
    pronoun stands for, and an adjective; more_1 to more_3: keys of the list of clauses.
    """

    noun: str = "animal"
    article: str = "the"
    adjective: str = ""
    verb: str = "cross"
    negated: bool = True
    form: str = "past"
    object: str = "street"
    object_article: str = "the"
    object_adjective: str = ""
    reason: str = "subject tired"
    more_1: str = ""
    more_2: str = ""
    more_3: str = ""


def options(settings: Settings, field: str) -> Options | None:
    """What `field` can be, given the settings before it: pairs (text, value), the first by default; None: yes or no."""
    return _OPTIONS[field](settings) if field in _OPTIONS else None


def repaired(settings: Settings) -> Settings:
    """The same settings, where each that doesn't go with those before it has its default."""
    for field, choose in _OPTIONS.items():
        values = [value for _, value in choose(settings)]
        if getattr(settings, field) not in values:
            settings = settings._replace(**{field: values[0]})
    return settings._replace(negated=bool(settings.negated))


def sentence(settings: Settings) -> tuple[list[str], list[str]]:
    """The English words of repaired settings and their German translation."""
    clauses = _clauses(settings)
    source = english(clauses)
    return source, [word for word, _ in german(clauses)]


def draw(length: int, seed: int) -> Settings:
    """Random settings of a sentence with `length` English words, or as close to it as a few hundred draws come.

    Raises ValueError unless length is 4 to 30, and for a negative seed.
    """
    in_range(length, "length", low=SHORTEST, high=LONGEST, integer=True)
    in_range(seed, "seed", low=0, integer=True)
    dice, best, distance = Dice(seed), Settings(), LONGEST
    share = 100 * (length - SHORTEST) // (LONGEST - SHORTEST)  # of what can be left out, percent
    for _ in range(400):
        settings = _drawn(dice, share)
        away = abs(len(sentence(settings)[0]) - length)
        if away < distance:
            best, distance = settings, away
        if not distance:
            break
    return best


def _drawn(dice: Dice, share: int) -> Settings:
    settings = Settings(negated=dice.percent(min(share, 40)), reason="")
    for field, choose in _OPTIONS.items():
        if field in _OPTIONAL and not dice.percent(share):
            continue
        values = [value for _, value in choose(settings)]
        usual = "article" in field and dice.percent(60)  # the first one is "the"
        settings = settings._replace(**{field: values[0] if usual else dice.pick(values)})
    return settings


# What can be chosen


def _nouns(settings: Settings) -> Options:
    return _all_subjects()


@cache
def _all_subjects() -> Options:
    names = [noun.en for kind in ("person", "animal") for noun in NOUNS[kind]] + [name.en for name in lexicon.NAMES]
    return [(_shown(name), name) for name in sorted(names)]


def _articles(settings: Settings) -> Options:
    return _choose_articles(_NOUN[settings.noun], "known")


def _adjectives(settings: Settings) -> Options:
    return _choose_adjectives(_NOUN[settings.noun])


def _verb_options(settings: Settings) -> Options:
    return [(key, key) for key in sorted(_verbs(_NOUN[settings.noun].kind))]


def _forms(settings: Settings) -> Options:
    """A negated "must" is none in German, and "need" goes with "will" alone."""
    verb, person = _verb(settings).verb, _subject(settings).person
    names = [name for name in _FORMS if not (name == "must" and settings.negated)]
    if verb.en == "need":
        names = [name for name in names if name in ("past", "present", "will")]
    return [(" ".join(verb_group(verb, *_FORMS[name], settings.negated, person).en), name) for name in names]


def _objects(settings: Settings) -> Options:
    nouns = [noun.en for kind in _verb(settings).objects for noun in NOUNS[kind]]
    return [(noun, noun) for noun in sorted(nouns) if noun != settings.noun]


def _object_articles(settings: Settings) -> Options:
    """Where "not" would stand before a preposition, "kein" is none; else "not a" is "kein"."""
    context = ("definite" if _verb(settings).preposition else "negated") if settings.negated else "known"
    return _choose_articles(_NOUN[settings.object], context)


def _object_adjectives(settings: Settings) -> Options:
    return _choose_adjectives(_NOUN[settings.object])


def _reasons(settings: Settings) -> Options:
    """Adjectives that fit one of the nouns, and none that the same pronoun could stand for; none said of it before."""
    found, be = [NONE], lexicon.EN_BE[_FORMS[settings.form][0]]
    roles = {"subject": _subject(settings), "object": _object(settings)}
    if settings.negated and not roles["object"].is_definite:
        return found  # a pronoun can't stand for what isn't there
    for role, phrase in roles.items():
        rivals = [p.noun.kind for p in roles.values() if p is not phrase and p.pronoun[0] == phrase.pronoun[0]]
        start = f"{phrase.pronoun[0]} {be[lexicon.PERSONS.index(phrase.person)]} {_degree(settings)}"
        for adjective in _predicates(phrase.noun.kind, settings.negated):
            said = any(adjective.scale == other.scale for other in phrase.adjectives)
            if not (said or any(kind in adjective.kinds for kind in rivals)):
                found.append((f"{start} {adjective.en} ({_form(phrase)})", f"{role} {adjective.en}"))
    return found


def _more(number: int) -> Callable[[Settings], Options]:
    """The clauses that can be added at place 1, 2 or 3: none unless the place before is taken, none twice."""

    def choose(settings: Settings) -> Options:
        before = [getattr(settings, f"more_{i}") for i in range(1, number)]
        keys = [key for key in _MORE if key not in before] if all(before) else []
        return [NONE, *((_added_text(key, _FORMS[settings.form][0]), key) for key in keys)]

    return choose


_OPTIONS: dict[str, Callable[[Settings], Options]] = {
    "noun": _nouns,
    "article": _articles,
    "adjective": _adjectives,
    "verb": _verb_options,
    "form": _forms,
    "object": _objects,
    "object_article": _object_articles,
    "object_adjective": _object_adjectives,
    "reason": _reasons,
    "more_1": _more(1),
    "more_2": _more(2),
    "more_3": _more(3),
}
_OPTIONAL = ("adjective", "object_adjective", "reason", "more_1", "more_2", "more_3")  # what a sentence can do without


@cache
def _choose_articles(noun: Noun, context: str) -> Options:
    """Singular articles, then plural ones; "the" is the singular here."""
    if noun in lexicon.NAMES:
        return [NONE]
    singular = CHOICES[context, "singular" if noun.en_plural else "mass"]
    words = [article.en for article in singular if article]
    if noun.en_plural:
        words += [article.en_plural for article in CHOICES[context, "plural"] if article]
    return [(word, word) for word in dict.fromkeys(words)]


@cache
def _choose_adjectives(noun: Noun) -> Options:
    fitting = [] if noun in lexicon.NAMES else sorted(adjective.en for adjective in ATTRIBUTES[noun.kind])
    return [NONE, *((word, word) for word in fitting)]


@cache
def _predicates(kind: str, too: bool) -> list[Adjective]:
    return sorted(a for a in ATTRIBUTES[kind] if a.usage == "too" or (a.usage == "very" and not too))


# What the settings come to


class _Verb(NamedTuple):
    verb: Verb
    preposition: tuple[str, str] | None
    objects: tuple[str, ...]


@cache
def _verbs(kind: str) -> dict[str, _Verb]:
    """The verbs with an object that a subject of this kind takes: "switch on", "run through"."""
    transitive = [verb for verb in lexicon.TRANSITIVE if kind in verb.subjects]
    found = {f"{verb.en} {verb.particle}".strip(): _Verb(verb, None, verb.objects) for verb in transitive}
    for verb in lexicon.MOTION:
        for place, prepositions in lexicon.PREPOSITIONS.items():
            found |= {f"{verb.en} {pair[0]}": _Verb(verb, pair, (place,)) for pair in prepositions}
    return found


def _verb(settings: Settings) -> _Verb:
    return _verbs(_NOUN[settings.noun].kind)[settings.verb]


def _phrase(article: str, adjective: str, noun: str) -> NounPhrase:
    plural = article in _PLURAL
    meant = ARTICLE["this" if article == "these" else article] if article else None
    described = (_ADJECTIVE[adjective],) if adjective else ()
    return NounPhrase(_NOUN[noun], "p" if plural else _NOUN[noun].gender, meant, adjectives=described)


def _subject(settings: Settings) -> NounPhrase:
    return _phrase(settings.article, settings.adjective, settings.noun)


def _object(settings: Settings) -> NounPhrase:
    return _phrase(settings.object_article, settings.object_adjective, settings.object)


def _reason(settings: Settings, phrase: NounPhrase, adjective: Adjective) -> Clause:
    pronoun = NounPhrase(phrase.noun, phrase.gender, refers_to=phrase)
    return Clause(pronoun, BE, _FORMS[settings.form][0], complement=adjective, degree=_degree(settings))


def _degree(settings: Settings) -> str:
    return "too" if settings.negated else "very"


@cache
def _added_text(key: str, tense: str) -> str:
    return " ".join(english([_added(key, tense)]))


def _added(key: str, tense: str) -> Clause:
    link, subject, verb, negated, thing = _MORE[key]
    meant = _verbs(_NOUN[subject[2]].kind)[verb].verb
    return Clause(_phrase(*subject), meant, tense, negated=negated, object=_phrase(*thing), link=link)


def _clauses(settings: Settings) -> list[Clause]:
    chosen = _verb(settings)
    phrases = {"subject": _subject(settings), "object": _object(settings)}
    tense, modal = _FORMS[settings.form]
    main = Clause(phrases["subject"], chosen.verb, tense, modal, settings.negated, phrases["object"])
    main.preposition = chosen.preposition
    clauses = [main]
    if settings.reason:
        role, adjective = settings.reason.split()
        clauses.append(_reason(settings, phrases[role], _ADJECTIVE[adjective]))
        clauses[-1].link = "because"
    return clauses + [_added(key, tense) for key in settings[-3:] if key]


def _form(phrase: NounPhrase) -> str:
    return _shown(phrase.noun.en_plural if phrase.gender == "p" else phrase.noun.en)


def _shown(noun: str) -> str:
    return noun.capitalize() if _NOUN.get(noun) in lexicon.NAMES else noun
