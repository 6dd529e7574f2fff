"""The words of `phrases`: English and German nouns, adjectives and verbs with all their forms, and what goes together.

A class says what a noun names: a person, an animal, a way to cross, and so on. Adjectives and verbs list the classes
that they can be said of: animals get tired, streets are wide. German is spelled in lower case, as it is in `phrases`.
"""

from typing import NamedTuple

PERSONS = ("first", "third", "plural")  # what finite verbs agree with: I, he/she/it, we/they
CASES = ("nominative", "accusative")
GENDERS = ("m", "f", "n", "p")  # p: the plural, where German makes no difference


class Noun(NamedTuple):
    """A noun: singular and plural in both languages, the German accusative, gender and class; no plural is ""."""

    en: str
    en_plural: str
    de: str
    de_accusative: str
    de_plural: str
    gender: str
    kind: str


class Adjective(NamedTuple):
    """An adjective: the predicate ("müde"), the stem that endings follow ("müd"), its scale, and what it describes.

    Of one scale (hot, cold) a thing takes one adjective at most. `usage` is "too" for what can be too much of
    something, "very" for other predicates, and "color" for those that only stand before a noun here.
    """

    en: str
    de: str
    stem: str
    scale: str
    usage: str
    kinds: tuple[str, ...]


class Verb(NamedTuple):
    """A verb: English forms (I, he, past, particle), German ones (ich, er, wir, prefix, participle, auxiliary)."""

    en: str
    en_third: str
    en_past: str
    particle: str
    de_first: str
    de_third: str
    de_plural: str
    prefix: str
    participle: str
    auxiliary: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]


class Article(NamedTuple):
    """An article or its like: English singular and plural, its German forms, and the endings that it asks for.

    `declension` is "weak" after words that show the case themselves (der), "mixed" after those that do so in some
    forms (ein), and "strong" after none. `de` maps a case and gender to the form; a gender that is missing there
    doesn't take the article.
    """

    en: str
    en_plural: str
    de: dict[tuple[str, str], str]
    declension: str


class Modal(NamedTuple):
    """A modal verb in one tense: English words for each person, without and with "not", and German forms."""

    name: str
    en: tuple[tuple[str, ...], ...]
    en_negated: tuple[tuple[str, ...], ...]
    de: tuple[str, str, str]


def _rows(table: str) -> list[list]:
    """Return a table as lists: the words before the first bar, "" for a dash; then the words after each bar."""
    rows = [line.split("|") for line in table.strip().splitlines()]
    return [
        ["" if word == "-" else word for word in words.split()] + [tuple(kinds.split()) for kinds in lists]
        for words, *lists in rows
    ]


def _nouns(table: str) -> tuple[Noun, ...]:
    return tuple(Noun(*row) for row in _rows(table))


def _adjectives(table: str) -> tuple[Adjective, ...]:
    return tuple(Adjective(*row) for row in _rows(table))


def _verbs(table: str) -> tuple[Verb, ...]:
    return tuple(Verb(*row) for row in _rows(table))


# English singular and plural; German nominative, accusative and plural; gender; class. A dash: no such form.
NOUNS = _nouns("""
man men mann mann männer m person
woman women frau frau frauen f person
boy boys junge jungen jungen m person
farmer farmers bauer bauern bauern m person
king kings könig könig könige m person
queen queens königin königin königinnen f person
uncle uncles onkel onkel onkel m person
aunt aunts tante tante tanten f person
grandmother grandmothers großmutter großmutter großmütter f person
dog dogs hund hund hunde m animal
cat cats katze katze katzen f animal
horse horses pferd pferd pferde n animal
bear bears bär bären bären m animal
cow cows kuh kuh kühe f animal
lion lions löwe löwen löwen m animal
pig pigs schwein schwein schweine n animal
mouse mice maus maus mäuse f animal
bird birds vogel vogel vögel m animal
animal animals tier tier tiere n animal
street streets straße straße straßen f way
bridge bridges brücke brücke brücken f way
river rivers fluss fluss flüsse m way
canal canals kanal kanal kanäle m way
field fields feld feld felder n way
meadow meadows wiese wiese wiesen f way
table tables tisch tisch tische m thing
bed beds bett bett betten n thing
chair chairs stuhl stuhl stühle m thing
clock clocks uhr uhr uhren f thing
coat coats mantel mantel mäntel m thing
bag bags tasche tasche taschen f thing
picture pictures bild bild bilder n thing
carpet carpets teppich teppich teppiche m thing
shirt shirts hemd hemd hemden n thing
apple apples apfel apfel äpfel m food
pear pears birne birne birnen f food
egg eggs ei ei eier n food
cake cakes kuchen kuchen kuchen m food
soup soups suppe suppe suppen f food
potato potatoes kartoffel kartoffel kartoffeln f food
sausage sausages wurst wurst würste f food
bread - brot brot - n food
cheese - käse käse - m food
water - wasser wasser - n drink
milk - milch milch - f drink
coffee - kaffee kaffee - m drink
tea - tee tee - m drink
juice - saft saft - m drink
beer - bier bier - n drink
book books buch buch bücher n text
letter letters brief brief briefe m text
newspaper newspapers zeitung zeitung zeitungen f text
poem poems gedicht gedicht gedichte n text
story stories geschichte geschichte geschichten f text
house houses haus haus häuser n place
garden gardens garten garten gärten m place
forest forests wald wald wälder m place
park parks park park parks m place
city cities stadt stadt städte f place
church churches kirche kirche kirchen f place
museum museums museum museum museen n place
school schools schule schule schulen f place
door doors tür tür türen f opening
window windows fenster fenster fenster n opening
gate gates tor tor tore n opening
box boxes kiste kiste kisten f opening
cupboard cupboards schrank schrank schränke m opening
suitcase suitcases koffer koffer koffer m opening
lamp lamps lampe lampe lampen f device
radio radios radio radio radios n device
computer computers computer computer computer m device
machine machines maschine maschine maschinen f device
television televisions fernseher fernseher fernseher m device
""")

# The same in both languages, without an article.
NAMES = _nouns("""
anna - anna anna - f person
maria - maria maria - f person
peter - peter peter - m person
paul - paul paul - m person
""")

# English; German predicate and stem; scale; usage | the classes that it describes
ADJECTIVES = _adjectives("""
tired müde müd energy too|person animal
lazy faul faul energy too|person animal
hungry hungrig hungrig hunger too|person animal
thirsty durstig durstig thirst too|person animal
sick krank krank health too|person animal
sad traurig traurig mood too|person animal
nervous nervös nervös nerves too|person animal
clever klug klug wits very|person animal
friendly freundlich freundlich manners very|person animal
wild wild wild manners too|animal
wide breit breit width too|way opening
narrow schmal schmal width too|way opening
long lang lang length too|way text
short kurz kurz length too|way text
dangerous gefährlich gefährlich danger too|animal way place
expensive teuer teur price too|thing food drink text device
cheap billig billig price very|thing food drink text device
heavy schwer schwer weight too|thing opening device
old alt alt age too|person animal thing text place opening device
new neu neu age very|thing text place opening device
big groß groß size too|animal thing place opening device
small klein klein size too|animal thing place opening device
beautiful schön schön beauty very|person animal way thing text place opening
ugly hässlich hässlich beauty too|animal way thing place opening device
dirty schmutzig schmutzig dirt too|person animal way thing place opening
clean sauber sauber dirt very|way thing place opening
fresh frisch frisch freshness very|food drink
sweet süß süß taste too|food drink
salty salzig salzig taste too|food
delicious lecker lecker delight very|food drink
hot heiß heiß heat too|food drink
warm warm warm heat too|food drink
cold kalt kalt heat too|food drink
boring langweilig langweilig interest too|text place
interesting interessant interessant interest very|text place
difficult schwierig schwierig difficulty too|text
funny lustig lustig fun very|person text
loud laut laut noise too|animal place device
quiet ruhig ruhig noise very|person animal place
dark dunkel dunkl light too|place
red rot rot color color|thing opening device
blue blau blau color color|thing opening device
green grün grün color color|thing opening device
white weiß weiß color color|animal thing opening device
black schwarz schwarz color color|animal thing opening device
""")

# English I, he, past, particle; German ich, er, wir, prefix, participle, auxiliary | subjects | objects
# No verb here has a past that looks like its present (read, put): the tense must be seen, as the German depends on it.
TRANSITIVE = _verbs("""
see sees saw - sehe sieht sehen - gesehen haben|person animal|person animal way thing food text place opening device
find finds found - finde findet finden - gefunden haben|person animal|person animal thing food text place
hear hears heard - höre hört hören - gehört haben|person animal|person animal device
cross crosses crossed - überquere überquert überqueren - überquert haben|person animal|way
eat eats ate - esse isst essen - gegessen haben|person|food
eat eats ate - fresse frisst fressen - gefressen haben|animal|food
drink drinks drank - trinke trinkt trinken - getrunken haben|person animal|drink
buy buys bought - kaufe kauft kaufen - gekauft haben|person|animal thing food drink text device
sell sells sold - verkaufe verkauft verkaufen - verkauft haben|person|animal thing food drink text device
love loves loved - liebe liebt lieben - geliebt haben|person|person animal way thing food drink text place
need needs needed - brauche braucht brauchen - gebraucht haben|person|thing food drink device
carry carries carried - trage trägt tragen - getragen haben|person|animal thing device
wash washes washed - wasche wäscht waschen - gewaschen haben|person|animal
clean cleans cleaned - putze putzt putzen - geputzt haben|person|opening device
repair repairs repaired - repariere repariert reparieren - repariert haben|person|thing opening device
write writes wrote - schreibe schreibt schreiben - geschrieben haben|person|text
forget forgets forgot - vergesse vergisst vergessen - vergessen haben|person|thing text
lose loses lost - verliere verliert verlieren - verloren haben|person|thing text
visit visits visited - besuche besucht besuchen - besucht haben|person|person place
open opens opened - öffne öffnet öffnen - geöffnet haben|person|opening
close closes closed - schließe schließt schließen - geschlossen haben|person|opening
invite invites invited - lade lädt laden ein eingeladen haben|person|person
call calls called - rufe ruft rufen an angerufen haben|person|person
switch switches switched on schalte schaltet schalten ein eingeschaltet haben|person|device
switch switches switched off schalte schaltet schalten aus ausgeschaltet haben|person|device
pick picks picked up hebe hebt heben auf aufgehoben haben|person|thing text
throw throws threw away werfe wirft werfen weg weggeworfen haben|person|thing food text
""")
INTRANSITIVE = _verbs("""
sleep sleeps slept - schlafe schläft schlafen - geschlafen haben|person animal|
wait waits waited - warte wartet warten - gewartet haben|person animal|
dance dances danced - tanze tanzt tanzen - getanzt haben|person animal|
laugh laughs laughed - lache lacht lachen - gelacht haben|person|
work works worked - arbeite arbeitet arbeiten - gearbeitet haben|person|
stay stays stayed - bleibe bleibt bleiben - geblieben sein|person animal|
disappear disappears disappeared - verschwinde verschwindet verschwinden - verschwunden sein|person animal|
arrive arrives arrived - komme kommt kommen an angekommen sein|person animal|
wake wakes woke up wache wacht wachen auf aufgewacht sein|person animal|
fall falls fell asleep schlafe schläft schlafen ein eingeschlafen sein|person animal|
""")
MOTION = _verbs("""
run runs ran - renne rennt rennen - gerannt sein|person animal|place way
walk walks walked - gehe geht gehen - gegangen sein|person animal|place way
sneak sneaks sneaked - schleiche schleicht schleichen - geschlichen sein|person animal|place way
""")
REPORTING = _verbs("""
say says said - sage sagt sagen - gesagt haben|person|
think thinks thought - denke denkt denken - gedacht haben|person|
know knows knew - weiß weiß wissen - gewusst haben|person|
hear hears heard - höre hört hören - gehört haben|person|
""")

# Prepositions of motion, all with the accusative.
PREPOSITIONS = {
    "place": (("through", "durch"), ("into", "in"), ("around", "um")),
    "way": (("over", "über"), ("across", "über")),
}

# Adverbs of time that go with a tense; "future" is the present with "will".
ADVERBS = {
    "past": (("yesterday", "gestern"), ("today", "heute"), ("later", "später")),
    "present": (("today", "heute"), ("now", "jetzt")),
    "future": (("tomorrow", "morgen"), ("later", "später"), ("today", "heute")),
}

DEGREES = {"too": "zu", "very": "sehr"}
CONJUNCTIONS = {"and": "und", "but": "aber", "for": "denn", "because": "weil", "although": "obwohl", "that": "dass"}
SUBORDINATING = ("because", "although", "that")

HAVE = ("habe", "hat", "haben")
BE = {"past": ("war", "war", "waren"), "present": ("bin", "ist", "sind")}
EN_BE = {"past": ("was", "was", "were"), "present": ("am", "is", "are")}


def _modal(name: str, en: str, en_negated: str, de: str) -> Modal:
    def people(texts: str) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(text.split()) for text in texts.split(",")) if texts else ()

    return Modal(name, people(en), people(en_negated), tuple(de.split()))


# "must not" is no negation of "must" in German, so "must" isn't negated here.
MODALS = {
    "present": (
        _modal("can", "can,can,can", "cannot,cannot,cannot", "kann kann können"),
        _modal(
            "want", "want to,wants to,want to", "do not want to,does not want to,do not want to", "will will wollen"
        ),
        _modal("must", "must,must,must", "", "muss muss müssen"),
        _modal("will", "will,will,will", "will not,will not,will not", "werde wird werden"),
    ),
    "past": (
        _modal("can", "could,could,could", "could not,could not,could not", "konnte konnte konnten"),
        _modal("want", "wanted to,wanted to,wanted to", ",".join(["did not want to"] * 3), "wollte wollte wollten"),
        _modal("must", "had to,had to,had to", "", "musste musste mussten"),
    ),
}

# (case, gender) -> ending. Rows: nominative, accusative; columns: m, f, n, p.
ENDINGS = {
    "weak": ("e e e en", "en e e en"),
    "mixed": ("er e es en", "en e es en"),
    "strong": ("er e es e", "en e es e"),
}


def by_case(nominative: str, accusative: str) -> dict[tuple[str, str], str]:
    """Return (case, gender) -> form from two rows of forms in the order m, f, n, p; "-" leaves a gender out."""
    rows = zip(CASES, (nominative.split(), accusative.split()), strict=True)
    return {(case, gender): form for case, forms in rows for gender, form in zip(GENDERS, forms) if form != "-"}


ARTICLES = (
    Article("the", "the", by_case("der die das die", "den die das die"), "weak"),
    Article("this", "these", by_case("dieser diese dieses diese", "diesen diese dieses diese"), "weak"),
    Article("every", "", by_case("jeder jede jedes -", "jeden jede jedes -"), "weak"),
    Article("", "all", by_case("- - - alle", "- - - alle"), "weak"),
    Article("a", "", by_case("ein eine ein -", "einen eine ein -"), "mixed"),
    Article("my", "my", by_case("mein meine mein meine", "meinen meine mein meine"), "mixed"),
    Article("our", "our", by_case("unser unsere unser unsere", "unseren unsere unser unsere"), "mixed"),
    Article("no", "no", by_case("kein keine kein keine", "keinen keine kein keine"), "mixed"),
    Article("", "two", by_case("- - - zwei", "- - - zwei"), "strong"),
    Article("", "some", by_case("- - - einige", "- - - einige"), "strong"),
    Article("", "many", by_case("- - - viele", "- - - viele"), "strong"),
)
# English subject and object, German nominative and accusative.
PRONOUNS = {
    "it m": ("it", "it", "er", "ihn"),
    "it f": ("it", "it", "sie", "sie"),
    "it n": ("it", "it", "es", "es"),
    "he m": ("he", "him", "er", "ihn"),
    "she f": ("she", "her", "sie", "sie"),
    "they p": ("they", "them", "sie", "sie"),
}
