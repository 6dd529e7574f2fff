"""From what a clause says to its words: English first, then German with its cases, endings, verb forms and word order.

`phrases` chooses what is said; here is how. `english` writes the words of clauses and notes where each part stands;
`german` orders the translated parts, and links each word to the positions that it translates.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from course_utils import phrases_lexicon as lexicon
from course_utils.phrases_lexicon import Adjective, Article, Noun, Verb

Items = list[tuple[str, tuple[int, ...]]]  # German words, each with the positions of the English ones it translates

ARTICLE = {article.en or article.en_plural: article for article in lexicon.ARTICLES}
DEFINITE = ("the", "this", "my", "our")  # these keep "nicht"; others become "kein"
SPEAKER = Noun("i", "we", "ich", "", "wir", "", "speaker")
BE = Verb("be", "is", "was", "", "bin", "ist", "sind", "", "gewesen", "sein", (), ())


@dataclass(slots=True, eq=False)
class NounPhrase:
    """A noun with article and adjectives, a name, a pronoun that stands for another phrase, or the speaker."""

    noun: Noun
    gender: str  # of lexicon.GENDERS
    article: Article | None = None
    refers_to: "NounPhrase | None" = None
    adjectives: tuple[Adjective, ...] = ()
    wanted: int = 0  # how many adjectives it is to get
    scales: list[str] = field(default_factory=list)  # those of what is said about it elsewhere
    position: int = -1  # of the noun or pronoun, in the source

    @property
    def person(self) -> str:
        """What its verb agrees with, one of lexicon.PERSONS."""
        return "plural" if self.gender == "p" else "first" if self.noun is SPEAKER else "third"

    @property
    def is_name(self) -> bool:
        return self.noun.kind == "person" and not self.noun.en_plural

    @property
    def is_definite(self) -> bool:
        """Whether "not" becomes "nicht" after it, and doesn't melt into "kein"."""
        article = self.article and self.article.en
        return self.refers_to is not None or article in DEFINITE or self.is_name

    @property
    def pronoun(self) -> tuple[str, str, str, str]:
        """The pronoun that stands for it: English subject and object, German nominative and accusative."""
        if self.gender == "p":
            return lexicon.PRONOUNS["they p"]
        he = {"m": "he", "f": "she"}[self.gender] if self.noun.kind == "person" else "it"
        return lexicon.PRONOUNS[f"{he} {self.gender}"]

    @property
    def length(self) -> int:
        """The number of English words without adjectives."""
        return 1 + (self.article is not None)


@dataclass(slots=True, eq=False)
class Clause:
    """A clause as it is meant, before its words are put in order; `link` is the English conjunction in front."""

    subject: NounPhrase
    verb: Verb
    tense: str  # "past" or "present"
    modal: str = ""  # the name of one of lexicon.MODALS
    negated: bool = False
    object: NounPhrase | None = None
    preposition: tuple[str, str] | None = None
    complement: Adjective | None = None
    degree: str = ""  # one of lexicon.DEGREES
    adverb: tuple[str, str] | None = None
    adverb_first: bool = False
    link: str = ""
    # Positions in the source, known when its English is written:
    link_position: int = -1
    verb_positions: tuple[int, ...] = ()  # of the words of its group
    adverb_position: int = -1
    end: int = -1  # after the complement
    _group: "VerbGroup | None" = None

    @property
    def group(self) -> "VerbGroup":
        if self._group is None:
            self._group = verb_group(self.verb, self.tense, self.modal, self.negated, self.subject.person)
        return self._group

    @property
    def is_final(self) -> bool:
        """Whether German puts the verb at its end."""
        return self.link in lexicon.SUBORDINATING

    @property
    def says_kein(self) -> bool:
        return self.negated and self.object is not None and not self.object.is_definite

    @property
    def length(self) -> int:
        """The number of English words without adjectives and adverb."""
        n = bool(self.link) + self.subject.length + len(self.group.en) + bool(self.degree) + bool(self.complement)
        return n + bool(self.preposition) + (self.object.length if self.object else 0)


class VerbGroup(NamedTuple):
    """The words of a verb: English ones in order; German ones with the indices of the English ones they translate."""

    en: tuple[str, ...]
    finite: Items  # in second place of a main clause
    rest: Items  # at its end
    final: Items  # all of it, at the end of a subordinate clause
    negation: tuple[int, ...]  # where "not" or "cannot" is


@cache
def verb_group(verb: Verb, tense: str, modal: str, negated: bool, person: str) -> VerbGroup:
    """Return the forms of `verb` that agree with `person`: the past is a perfect in German, unless `modal` or "be"."""
    who = lexicon.PERSONS.index(person)
    if verb is BE:
        finite = [(lexicon.BE[tense][who], (0,))]
        return VerbGroup((lexicon.EN_BE[tense][who], *["not"] * negated), finite, [], finite, (1,) * negated)

    helpers, form = _helpers(tense, modal, negated, who)
    if helpers or tense == "present":
        main = verb.en_third if not helpers and person == "third" else verb.en
    else:
        main = verb.en_past
    en = (*helpers, main, verb.particle) if verb.particle else (*helpers, main)
    helping = tuple(i for i, word in enumerate(helpers) if word != "not")
    negation = tuple(i for i, word in enumerate(helpers) if word in ("not", "cannot"))
    whole = tuple(range(len(helpers), len(en)))  # the verb with its particle

    if modal:
        finite, rest = [(form, helping)], [(verb.prefix + verb.de_plural, whole)]
    elif tense == "past":
        auxiliary = (lexicon.HAVE if verb.auxiliary == "haben" else lexicon.BE["present"])[who]
        finite, rest = [(auxiliary, helping or whole[:1])], [(verb.participle, whole)]
    else:
        form = (verb.de_first, verb.de_third, verb.de_plural)[who]
        joined = [(verb.prefix + form, helping + whole)]
        if not verb.prefix:
            return VerbGroup(en, joined, [], joined, negation)
        return VerbGroup(en, [(form, helping + whole[:1])], [(verb.prefix, whole[-1:])], joined, negation)
    return VerbGroup(en, finite, rest, rest + finite, negation)


def _helpers(tense: str, modal: str, negated: bool, who: int) -> tuple[tuple[str, ...], str]:
    """Return the English words before the verb, with "not", and the German modal verb."""
    if modal:
        words = next(m for m in lexicon.MODALS[tense] if m.name == modal)
        return (words.en_negated if negated else words.en)[who], words.de[who]
    if negated:
        return ("did" if tense == "past" else "does" if lexicon.PERSONS[who] == "third" else "do", "not"), ""
    return (), ""


# English


def english(clauses: list[Clause]) -> list[str]:
    """Return the English words of `clauses`, and note in each where its parts stand."""
    source: list[str] = []
    for clause in clauses:
        if clause.link:
            clause.link_position = len(source)
            source.append(clause.link)
        if clause.adverb_first:
            _put_adverb(clause, source)
        _put_phrase(clause.subject, 0, source)
        _put_verb_and_object(clause, source)
        if clause.degree:
            source.append(clause.degree)
        if clause.complement:
            source.append(clause.complement.en)
        clause.end = len(source)
        if clause.adverb and not clause.adverb_first:
            _put_adverb(clause, source)
    return source


def _put_verb_and_object(clause: Clause, source: list[str]) -> None:
    """Write "did not switch off the lamp", but "switch it off": a pronoun stands before the particle."""
    words, at = clause.group.en, len(source)
    divided = bool(clause.verb.particle and clause.object and clause.object.refers_to)
    clause.verb_positions = (*range(at, at + len(words) - 1), at + len(words) - 1 + divided)
    source += words[:-1] if divided else words
    if clause.preposition:
        source.append(clause.preposition[0])
    if clause.object:
        _put_phrase(clause.object, 1, source)
    if divided:
        source.append(words[-1])


def _put_adverb(clause: Clause, source: list[str]) -> None:
    clause.adverb_position = len(source)
    source.append(clause.adverb[0])


def _put_phrase(phrase: NounPhrase, case: int, source: list[str]) -> None:
    plural = phrase.gender == "p"
    if phrase.refers_to:
        words = [phrase.refers_to.pronoun[case]]
    else:
        words = [a.en for a in phrase.adjectives]
        words.append(phrase.noun.en_plural if plural else phrase.noun.en)
        if phrase.article:
            article = phrase.article.en_plural if plural else phrase.article.en
            words.insert(0, "an" if article == "a" and words[0][0] in "aeiou" else article)
    source += words
    phrase.position = len(source) - 1


# German


def german(clauses: list[Clause]) -> Items:
    """Return the German words of `clauses` and what each translates; `english` was called with them before."""
    items: Items = []
    for clause in clauses:
        if clause.link:
            items.append((lexicon.CONJUNCTIONS[clause.link], (clause.link_position,)))
        items += _order(clause)
    return items


def _order(clause: Clause) -> Items:
    """Return the words of a clause: its verb is last after a subordinating conjunction, and second elsewhere."""
    at = clause.verb_positions
    group = clause.group
    subject = _phrase(clause.subject, "nominative")
    middle = _middle(clause, tuple([at[i] for i in group.negation]))
    if clause.is_final:
        return subject + middle + _placed(group.final, at)
    adverb = [(clause.adverb[1], (clause.adverb_position,))] if clause.adverb_first else []
    finite = _placed(group.finite, at)
    start = adverb + finite + subject if adverb else subject + finite
    return start + middle + _placed(group.rest, at)


def _middle(clause: Clause, negation: tuple[int, ...]) -> Items:
    """Return what stands between subject or verb and the verb forms at the end.

    A pronoun leads; an adverb of time stands before the object, and between a definite object and "nicht"; "nicht"
    stands before a preposition and before what is said by "be".
    """
    later = clause.adverb and not clause.adverb_first
    adverb = [(clause.adverb[1], (clause.adverb_position,))] if later else []
    nicht = [("nicht", negation)] if clause.negated and not clause.says_kein else []
    thing = clause.object
    if thing is None:
        return adverb + nicht + _complement(clause)
    words = _phrase(thing, "accusative", negation if clause.says_kein else None)
    if clause.preposition:
        first = thing.position - len(thing.adjectives) - thing.length
        return adverb + nicht + [(clause.preposition[1], (first,))] + words
    if nicht or thing.refers_to:
        return words + adverb + nicht
    return adverb + words


def _complement(clause: Clause) -> Items:
    if not clause.complement:
        return []
    degree = [(lexicon.DEGREES[clause.degree], (clause.end - 2,))] if clause.degree else []
    return [*degree, (clause.complement.de, (clause.end - 1,))]


def _phrase(phrase: NounPhrase, case: str, kein: tuple[int, ...] | None = None) -> Items:
    """Return a noun phrase in a case; `kein` holds where "not" is, which becomes the article."""
    noun, gender, at = phrase.noun, phrase.gender, phrase.position
    if phrase.refers_to:
        return [(phrase.refers_to.pronoun[2 + lexicon.CASES.index(case)], (at,))]
    form = noun.de_plural if gender == "p" else noun.de if case == "nominative" else noun.de_accusative
    first = at - len(phrase.adjectives)
    article = ARTICLE["no"] if kein is not None else phrase.article
    ending = ending_of(article, case, gender)
    items = [(adjective.stem + ending, (first + i,)) for i, adjective in enumerate(phrase.adjectives)]
    if article:
        items.insert(0, (article.de[case, gender], (first - 1,) * bool(phrase.article) + (kein or ())))
    return [*items, (form, (at,))]


@cache
def _endings(declension: str) -> dict[tuple[str, str], str]:
    return lexicon.by_case(*lexicon.ENDINGS[declension])


def ending_of(article: Article | None, case: str, gender: str) -> str:
    """Return the ending of adjectives after `article`; without one it is strong."""
    return _endings(article.declension if article else "strong").get((case, gender), "")


def _placed(items: Items, at: tuple[int, ...]) -> Items:
    """Return items whose indices count the words of a verb group with their positions in the source."""
    return [(word, tuple([at[i] for i in indices])) for word, indices in items]
