"""English sentences with their German translations, made by a grammar that knows what words mean and where they go.

Tokens are words in lower case, without punctuation: `written` gives the sentence as one would print it. A translation
follows from its sentence alone, so there is one right answer. What German does differently from English is here:
gender, case and the endings of adjectives; "nicht" and "kein"; the perfect, its participle at the end, with "haben" or
"sein"; separable verbs; the verb second in a main clause, whatever comes first, and last after "weil", "obwohl" and
"dass"; and "it", which is "er", "sie" or "es" by the gender of what it stands for. English says that by meaning alone:

    the animal did not cross the street because it was too tired   das tier … weil es zu müde war
    the animal did not cross the street because it was too wide    das tier … weil sie zu breit war

A pronoun refers to a noun in the clause that its own is joined to, and what is said about it fits no other one there.
The simple past becomes the perfect, except for "was" and modal verbs. "and", "but" and "for" join main clauses.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from course_utils import phrases_lexicon as lexicon
from course_utils.phrases_choices import ATTRIBUTES, CHOICES, NOUNS, Dice, change_nouns, draw_clauses
from course_utils.phrases_clauses import Clause, english, german
from course_utils.shapes import in_range

PARTS = ("train", "validation", "test")

_MAX_SEED = 2**63 - 1
_TRIES = 50
_CONJUNCTIONS = {*lexicon.CONJUNCTIONS, *lexicon.CONJUNCTIONS.values()}
_SUBORDINATING = {*lexicon.SUBORDINATING, *(lexicon.CONJUNCTIONS[word] for word in lexicon.SUBORDINATING)}
_COMMA = {"en": {"and", "but", "for"}, "de": {"aber", "denn", "weil", "obwohl", "dass"}}
_CAPITALIZED = {
    "en": {"i", *(name.en for name in lexicon.NAMES)},
    "de": {form for n in (*lexicon.NOUNS, *lexicon.NAMES) for form in (n.de, n.de_accusative, n.de_plural) if form},
}


class Pair(NamedTuple):
    """A sentence and its translation, as tuples of words.

    alignment: pairs (i, j), sorted: target[j] translates source[i], alone or with others. The auxiliary of a perfect is
    linked to the verb ("crossed" to "hat" and "überquert") or to "did"; "kein" to "not" and to the article.
    antecedents: pairs (position of a pronoun, position of the noun that it stands for), both in the source.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]
    antecedents: tuple[tuple[int, int], ...]


def generate(n: int, *, seed: int, min_len: int = 4, max_len: int = 40, part: str = "train") -> list[Pair]:
    """Return `n` pairs whose source has `min_len` to `max_len` words, each length about as often as any other.

    The hash of a sentence decides its part ("train" 90 %, "validation" and "test" 5 % each), so that parts share no
    sentence, whatever the seeds and lengths. Within a part, a short sentence may occur more than once.
    Raises ValueError unless n >= 0, 0 <= seed < 2**63, 4 <= min_len <= max_len <= 100 and `part` is one of the three.
    """
    in_range(n, "n", low=0, integer=True)
    in_range(seed, "seed", low=0, high=_MAX_SEED, integer=True)
    in_range(min_len, "min_len", low=4, high=100, integer=True)
    in_range(max_len, "max_len", low=min_len, high=100, integer=True)
    if part not in PARTS:
        raise ValueError(f"part: expected one of {', '.join(PARTS)}, got {part!r}")
    dice = Dice(int(seed))
    pairs: list[Pair] = []
    while len(pairs) < n:
        clauses = draw_clauses(dice, min_len + dice.below(max_len - min_len + 1))
        for _ in range(_TRIES):  # other nouns are drawn faster than another sentence
            source = english(clauses)
            if part_of(source) == part:
                pairs.append(_pair(clauses, source))
                break
            change_nouns(dice, clauses)
    return pairs


def part_of(source: Sequence[str]) -> str:
    """Return the part that a sentence of `generate` belongs to: "train", "validation" or "test"."""
    digest = hashlib.sha256(f"0:{' '.join(source)}".encode()).digest()  # as corpora.split does
    percent = int.from_bytes(digest[:8], "big") % 100
    return "train" if percent < 90 else "validation" if percent < 95 else "test"


def written(tokens: Sequence[str], language: str) -> str:
    """Return the words of a sentence of `generate` as it is printed, with capitals, commas and a full stop.

    Raises ValueError unless `language` is "en" or "de", and there are words.
    """
    if language not in ("en", "de"):
        raise ValueError(f'language: expected "en" or "de", got {language!r}')
    if not tokens:
        raise ValueError("tokens: expected at least one word, got none")
    text, subordinate = "", False
    for word in tokens:
        if word in _COMMA[language] or (word == "und" and subordinate):
            text += ","
        if word in _CONJUNCTIONS:
            subordinate = word in _SUBORDINATING
        text += " " + (word.capitalize() if word in _CAPITALIZED[language] else word)
    return text[1].upper() + text[2:] + "."


def count_sentences() -> int:
    """Return a lower bound of the number of different source sentences: those of one or two clauses of one kind.

    These clauses have a subject, a verb in the simple past and an object, at most two adjectives with each noun, and no
    negation, adverb or modal verb; two of them are joined by "and" or "but". They have 3 to 21 words.
    """
    clauses = sum(
        _count_phrases(verb.subjects, subject=True) * _count_phrases(verb.objects, subject=False)
        for verb in lexicon.TRANSITIVE
    )
    return clauses + 2 * clauses**2


def phrasebook() -> list[tuple[str, str]]:
    """Return about 40 pairs of texts, English to English: small talk and questions with their answers.

    They are written for this course, to show that a translation or an answer needn't be aligned word by word.
    """
    return list(_PHRASEBOOK)


def _pair(clauses: list[Clause], source: list[str]) -> Pair:
    items = german(clauses)
    alignment = [(i, j) for j, (_, positions) in enumerate(items) for i in positions]
    alignment.sort()
    phrases = [phrase for clause in clauses for phrase in (clause.subject, clause.object) if phrase]
    antecedents = [(phrase.position, phrase.refers_to.position) for phrase in phrases if phrase.refers_to]
    return Pair(tuple(source), tuple([word for word, _ in items]), tuple(alignment), tuple(antecedents))


def _count_phrases(kinds: Sequence[str], subject: bool) -> int:
    """Return how many noun phrases of `kinds` there are, as subjects or as objects of what any subject does."""
    n = 0
    for kind in kinds:
        adjectives = ATTRIBUTES[kind]
        pairs = [(a, b) for a in adjectives for b in adjectives if a.scale != b.scale and a.usage != "color"]
        described = 1 + len(adjectives) + len(pairs)
        for noun in NOUNS[kind]:
            forms = ("singular", "plural") if noun.en_plural else ("mass",)
            articles = sum(len(set(map(id, CHOICES["free" if subject else "known", form]))) for form in forms)
            n += articles * described
        if kind == "person":
            n += len(lexicon.NAMES) + 2 * subject  # "i" and "we"
    return n


_PHRASEBOOK = (
    # What people say, and what they mean
    ("Bless your little heart.", "You are sorely mistaken."),
    ("We should have lunch some time.", "Goodbye."),
    ("I'm nearly there.", "I haven't left the house yet."),
    ("How interesting.", "Please stop talking."),
    ("With all due respect.", "You are wrong."),
    ("It's not you, it's me.", "It's you."),
    ("I'll think about it.", "No."),
    ("Let's agree to disagree.", "I'm right, but I'm tired."),
    ("That's a brave choice.", "I wouldn't have done that."),
    ("I hear what you say.", "I don't agree, and I don't want to discuss it."),
    ("Not bad.", "This is the best thing I've eaten all year."),
    ("It's only a scratch.", "Call an ambulance, but don't worry anyone."),
    ("The dog ate my homework.", "I forgot that we had any."),
    ("It will be ready in five minutes.", "It will be ready in half an hour."),
    ("It's raining cats and dogs.", "Take an umbrella."),
    ("Break a leg!", "Good luck!"),
    ("A penny for your thoughts.", "What are you thinking about?"),
    ("That ship has sailed.", "It's too late for that."),
    ("He kicked the bucket.", "He died."),
    ("Speak of the devil.", "Here comes the person we were talking about."),
    # Questions and answers
    ("My screen is blank.", "Please check if the computer is plugged in."),
    ("The printer doesn't print.", "Is there any paper in it?"),
    ("I forgot my password.", "Click on the link below the form to set a new one."),
    ("It worked yesterday.", "What have you changed since then?"),
    ("The internet is slow today.", "Restart the router and wait for a minute."),
    ("How are you?", "Fine, thanks. And you?"),
    ("What time is it?", "Half past three."),
    ("Do you know what time it is?", "You are late, and you know it."),
    ("Where is the station?", "Go straight ahead and turn left at the church."),
    ("Is this seat taken?", "No, please sit down."),
    ("Could you pass the salt?", "Here you are."),
    ("Have you got any brothers or sisters?", "Two brothers, both older than me."),
    ("What do you do for a living?", "I teach children to swim."),
    ("Did you sleep well?", "The neighbors had a party."),
    ("Would you like some tea?", "Only if you are making some anyway."),
    ("Is it far from here?", "Ten minutes on foot, less if you run."),
    ("Are you still open?", "We close at six, so come in quickly."),
    ("How was the exam?", "Let's talk about something else."),
    ("Who left the window open?", "It was warm when I went out."),
    ("Why is the cat on the table?", "Because that's where the fish was."),
)
