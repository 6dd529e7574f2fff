"""The translator: sentences that the grammar would write, verdicts on models with known probabilities, and the view."""

import io
import math
import re
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from ipywidgets import Button, Checkbox, Dropdown
from matplotlib.image import imread

import test_phrases as rules
from course_utils import phrases
from course_utils.corpora import EOS, Vocabulary
from course_utils.decoding import beam, greedy
from course_utils.explorers import sentences, translation, translator
from course_utils.explorers.sentences import Settings, draw, options, repaired, sentence
from course_utils.explorers.translation import CUT, MODEL, RIGHT, SEARCH, differences, translate
from course_utils.explorers.translator import LENGTHS, WIDTHS, Translator
from course_utils.phrases_choices import Dice, draw_clauses
from course_utils.phrases_clauses import BE, SPEAKER, english, german
from course_utils.seq2seq import EncoderDecoder

QUICKLY = hypothesis(deadline=None, derandomize=True, max_examples=25)
FIELDS = [field for field in Settings._fields if field != "negated"]
CHANGES = [*FIELDS, "negated", "width", "random"]
ANY_SETTINGS = st.builds(draw, st.sampled_from(range(4, 31)), st.integers(0, 500))


@pytest.fixture(scope="module")
def drawn() -> list[Settings]:
    return [draw(4 + seed % 27, seed) for seed in range(400)]


@pytest.fixture(scope="module")
def generated() -> list[phrases.Pair]:
    return phrases.generate(6000, seed=11)


@pytest.fixture(scope="module")
def vocabularies(drawn) -> tuple[Vocabulary, Vocabulary]:
    pairs = [sentence(settings) for settings in drawn]
    return tuple(Vocabulary.from_sequences(side) for side in zip(*pairs))


@pytest.fixture(scope="module")
def network(vocabularies) -> EncoderDecoder:
    torch.manual_seed(0)
    return EncoderDecoder(*map(len, vocabularies), 8, 8)


@pytest.fixture
def explorer(network, vocabularies) -> Translator:
    return Translator(network, *vocabularies)


# ---- The sentences ------------------------------------------------------------------------------------------------


def settings_of(clauses) -> Settings | None:
    """The settings of clauses that the grammar drew, read off their parts; None if there are none."""
    main, *more = clauses
    subject, thing = main.subject, main.object
    if thing is None or thing.is_name or SPEAKER in (subject.noun, thing.noun) or main.adverb or main.verb is BE:
        return None
    if (main.modal and main.tense == "past") or any(len(p.adjectives) > 1 for p in (subject, thing)):
        return None
    reason = ""
    if more:
        why = more[0]
        if len(more) > 1 or why.link != "because" or why.verb is not BE or why.adverb or why.negated:
            return None
        if why.subject.refers_to is None or (not main.negated and why.degree != "very"):
            return None
        reason = ("subject " if why.subject.refers_to is subject else "object ") + why.complement.en

    def article(phrase):
        if phrase.article is None:
            return ""
        return phrase.article.en_plural if phrase.gender == "p" else phrase.article.en

    if any(p.gender == "p" and article(p) in ("the", "my", "our", "all", "no") for p in (subject, thing)):
        return None
    verb = f"{main.verb.en} {main.preposition[0] if main.preposition else main.verb.particle}".strip()
    adjectives = [p.adjectives[0].en if p.adjectives else "" for p in (subject, thing)]
    words = (subject.noun.en, article(subject), adjectives[0], verb, main.negated, main.modal or main.tense)
    return Settings(*words, thing.noun.en, article(thing), adjectives[1], reason)


def test_what_the_grammar_draws_can_be_chosen_and_gives_the_same_pair():
    dice, seen = Dice(5), Counter()
    for n in range(12_000):
        clauses = draw_clauses(dice, 4 + n % 14)
        settings = settings_of(clauses)
        if settings is None or repaired(settings) != settings:
            continue
        source = english(clauses)
        assert sentence(settings) == (source, [word for word, _ in german(clauses)]), settings
        seen["all"] += 1
        seen["because"] += bool(settings.reason)
        seen["kein"] += settings.negated and settings.object_article == "a"
        seen["plural"] += settings.object_article in ("these", "two", "some", "many")
        seen[settings.form] += 1
    assert seen["all"] > 500 and min(seen.values()) >= 5, seen


def test_what_generate_writes_is_translated_alike():
    """The pairs of `generate` as a dictionary: what both can say, they say alike."""
    known = {pair.source: pair.target for pair in phrases.generate(8000, seed=3, min_len=4, max_len=4)}
    short = [sentence(draw(4, seed)) for seed in range(400)]
    both = [(source, gold) for source, gold in short if tuple(source) in known]
    assert len(both) >= 10
    assert all(known[tuple(source)] == tuple(gold) for source, gold in both)


def test_the_german_obeys_the_rules_of_a_grammar_book(drawn, generated):
    """The rules that hold for what `generate` writes, which is here too, as they ask for words that can't be chosen."""
    clauses = [sentences._clauses(settings) for settings in drawn]
    pairs = [phrases._pair(some, english(some)) for some in clauses] + generated
    rules.test_the_verb_is_last_after_weil_obwohl_and_dass(pairs)
    rules.test_the_verb_is_second_in_main_clauses(pairs)
    rules.test_haben_or_sein(pairs)
    rules.test_each_not_becomes_nicht_or_kein_once_and_where_it_belongs(pairs)
    rules.test_a_pronoun_has_the_gender_of_its_antecedent_and_the_case_of_its_place(pairs)
    rules.test_what_is_said_of_it_fits_its_antecedent_alone(pairs)
    rules.test_every_word_is_linked_on_both_sides(pairs)
    rules.test_written_changes_nothing_but_capitals_and_punctuation(pairs)


def test_words_are_those_of_the_grammar(drawn, generated):
    """A model trained on `generate` has seen every word."""
    known = {w for pair in generated for w in pair.source}, {w for pair in generated for w in pair.target}
    for settings in drawn:
        source, gold = sentence(settings)
        assert known[0] >= set(source) and known[1] >= set(gold)
        assert phrases.part_of(source) in phrases.PARTS


@pytest.mark.parametrize("length", LENGTHS)
def test_random_sentences_have_the_length_asked_for(length):
    assert [len(sentence(draw(length, seed))[0]) for seed in range(8)] == [length] * 8
    assert draw(length, 1) == draw(length, 1) != draw(length, 2)


@QUICKLY
@given(start=ANY_SETTINGS, field=st.sampled_from(Settings._fields), other=ANY_SETTINGS)
def test_a_changed_word_is_kept_and_the_others_go_with_it(start, field, other):
    changed = start._replace(**{field: getattr(other, field)})
    result = repaired(changed)
    assert repaired(result) == result
    for name in FIELDS:
        values = [value for _, value in options(result, name)]
        assert getattr(result, name) in values
        assert len(set(values)) == len(values) == len({text for text, _ in options(result, name)})
    before = Settings._fields[: Settings._fields.index(field)]
    assert all(getattr(result, name) == getattr(start, name) for name in before)
    source, gold = sentence(result)
    assert 4 <= len(source) <= 45 and gold


def test_the_sentences_of_the_lecture():
    german = phrases.written(sentence(Settings())[1], "de")
    assert german == "Das Tier hat die Straße nicht überquert, weil es zu müde war."
    wide = Settings(reason="object wide")
    assert sentence(wide)[1][-4:] == ["sie", "zu", "breit", "war"]
    assert options(Settings(object_article="a"), "reason") == [("–", "")]  # "it" can't stand for what isn't there
    assert "must" not in dict(map(reversed, options(Settings(), "form")))


@pytest.mark.parametrize(
    ("length", "seed", "name"), [(3, 0, "length"), (31, 0, "length"), (5.0, 0, "length"), (5, -1, "seed")]
)
def test_draw_refuses(length, seed, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        draw(length, seed)


# ---- Verdicts -----------------------------------------------------------------------------------------------------

ENGLISH, GERMAN = Vocabulary(["s"]), Vocabulary(["a", "b", "c"])


class Table:
    """A model whose next word depends on the words before alone: probabilities by beginning; else the end."""

    def __init__(self, table: dict[str, dict[str, float]]):
        self.table = table

    class State(list):
        def select(self, rows):
            return type(self)(self[int(row)] for row in rows)

    def start(self, source):
        return self.State([""] * len(source))

    def step(self, token, state):
        names = [GERMAN.tokens[int(i)] for i in token]
        read = [old + (name if len(name) == 1 else "") for old, name in zip(state, names, strict=True)]
        p = torch.full((len(read), len(GERMAN)), 1e-30, dtype=torch.float64)
        for row, beginning in zip(p, read, strict=True):
            for word, value in self.table.get(beginning, {"<eos>": 1.0}).items():
                row[GERMAN.tokens.index(word)] = value
        return p.log(), self.State(read)


# "a" is likelier than "b" at first, but "b c" is likelier than anything that begins with "a".
GARDEN = Table({"": {"a": 0.6, "b": 0.4}, "a": {"a": 0.6, "b": 0.4}, "b": {"c": 1.0}})


def of(gold: str, width: int, model=GARDEN) -> translation.Translation:
    return translate(model, ENGLISH, GERMAN, ["s"], list(gold), width)


@pytest.mark.parametrize(
    ("gold", "width", "verdicts"),
    [
        ("bc", 1, (SEARCH, SEARCH)),  # 0.4 is more than 0.36
        ("bc", 2, (SEARCH, RIGHT)),
        ("aa", 1, (RIGHT, RIGHT)),
        ("aa", 2, (RIGHT, MODEL)),  # the wider beam finds what the model prefers
        ("cc", 2, (MODEL, MODEL)),
    ],
)
def test_search_errors_and_model_errors_are_told_apart(gold, width, verdicts):
    result = of(gold, width)
    assert (result.greedy.verdict, result.beam.verdict) == verdicts
    assert result.greedy.words == ["a", "a"] and result.greedy.log_prob == pytest.approx(math.log(0.36))
    if gold == "bc":
        assert result.gold_log_prob == pytest.approx(math.log(0.4))


def test_an_output_without_end_is_not_compared():
    babble = Table({"a" * n: {"a": 1.0} for n in range(100)})
    result = of("b", 2, babble)
    assert result.greedy.verdict == result.beam.verdict == CUT
    assert len(result.beam.words) == 2 + translation.SPARE == len(result.steps)


def test_steps_are_the_probabilities_along_the_output():
    steps = of("bc", 2).steps
    assert [step.written for step in steps] == ["b", "c", "<eos>"]
    words, values = zip(*steps[0].candidates)
    assert words[:2] == ("a", "b") and np.allclose(values[:2], (0.6, 0.4)) and len(values) == 5
    assert dict(steps[1].candidates)["c"] == pytest.approx(1)


def test_the_written_word_is_always_a_candidate():
    row = {word: 0.1 for word in "abcdefg"} | {"g": 0.01}
    vocab = Vocabulary(list("abcdefg"))
    log_p = torch.tensor([[1e-9] * 4 + [row[w] for w in "abcdefg"]]).log()
    (step,) = translation._steps(log_p, [4 + 6], vocab)
    assert step.written == "g" and len(step.candidates) == 6 and "g" in dict(step.candidates)


def test_numbers_are_those_of_decoding(network, vocabularies, drawn):
    for settings in drawn[:6]:
        source, gold = sentence(settings)
        result = translate(network, *vocabularies, source, gold, 4)
        ids, n = torch.tensor([vocabularies[0].encode(source)]), len(gold) + 1 + translation.SPARE
        searched = (greedy(network, ids, n)[0], beam(network, ids, 4, n)[0][0])
        for output, found in zip(result[:2], searched, strict=True):
            assert vocabularies[1].encode(output.words) == found.tokens
            assert output.log_prob == pytest.approx(found.log_prob, abs=1e-4)
        target = torch.tensor([vocabularies[1].encode(gold, eos=True)])
        logits = network(ids, torch.cat([torch.tensor([[1]]), target[:, :-1]], dim=1))
        own = logits.log_softmax(-1).gather(2, target[..., None]).sum().item()
        assert result.gold_log_prob == pytest.approx(own, abs=1e-4)


def test_the_network_keeps_its_mode(network, vocabularies):
    for mode in (True, False):
        network.train(mode)
        translate(network, *vocabularies, *sentence(Settings()), 2)
        assert network.training is mode


@pytest.mark.parametrize(
    ("words", "gold", "wrong", "missing"),
    [("abc", "abc", "", 0), ("axc", "abc", "x", 0), ("ac", "abc", "", 1), ("abxc", "abc", "x", 0), ("", "ab", "", 2)],
)
def test_differences(words, gold, wrong, missing):
    marks, gaps = differences(list(words), list(gold))
    assert "".join(word for word, mark in zip(words, marks, strict=True) if mark) == wrong and gaps == missing


# ---- What is shown ------------------------------------------------------------------------------------------------


class Fixed:
    """A model that writes the same words whatever it reads, each with probability 0.9; word 0 with 0.1 instead."""

    def __init__(self, ids: list[int], size: int):
        self.ids, self.size = [*ids, EOS], size

    class State(list):
        def select(self, rows):
            return type(self)(self[int(row)] for row in rows)

    def start(self, source):
        return self.State([0] * len(source))

    def step(self, token, state):
        p = torch.full((len(state), self.size), 0.1 / (self.size - 1))
        for row, n in zip(p, state, strict=True):
            row[self.ids[min(n, len(self.ids) - 1)]] = 0.9
        return p.log(), self.State(n + 1 for n in state)


def fixed(vocabularies, words: list[str]) -> Translator:
    return Translator(Fixed(vocabularies[1].encode(words), len(vocabularies[1])), *vocabularies, width=2)


def test_a_right_translation_is_shown_as_right(vocabularies):
    gold = sentence(Settings())[1]
    shown = fixed(vocabularies, gold).texts.value
    assert shown.count("Das Tier hat die Straße nicht überquert, weil es zu müde war.") == 3
    assert shown.count("✓ right") == 2 and "<mark>" not in shown and "12 words" in shown
    assert shown.count(f"log p = −{-(len(gold) + 1) * math.log(0.9):.2f}") == 3
    assert "The output is the gold translation." in shown


def test_what_differs_is_marked_in_brackets(vocabularies):
    gold = sentence(Settings())[1]
    wrong = ["sie" if word == "es" else word for word in gold if word != "nicht"]
    explorer = fixed(vocabularies, wrong)
    shown = explorer.texts.value
    assert "Das Tier hat die Straße überquert, weil <mark>[sie]</mark> zu müde war. <mark>[1 missing]</mark>" in shown
    assert "✗ model error" in shown and "No search can mend that." in shown
    assert re.findall(r"<b>(\d+) ✗</b>", explorer.steps.value) == ["8"]
    boxed = re.findall(r'style="--p: ([\d.]+)" class=written>(.*?)<span>(.*?)</span>', explorer.steps.value)
    assert boxed == [("0.900", word, "90") for word in wrong] + [("0.900", "&lt;eos&gt;", "90")]


def test_an_empty_output_and_unknown_words_are_shown(vocabularies):
    assert "(nothing)" in fixed(vocabularies, []).texts.value
    few = Vocabulary(["das", "tier"])
    explorer = Translator(Fixed([4], 6), vocabularies[0], few)
    assert "Not in the network's vocabulary: hat, die, straße," in explorer.texts.value
    assert explorer.png().startswith(b"\x89PNG")


def test_every_control_has_a_label(explorer):
    controls = [*explorer.words.values(), explorer.beam_width, explorer.target_length, explorer.random]
    assert all(isinstance(control, Dropdown | Checkbox | Button) for control in controls)
    labels = [control.description for control in controls]
    assert all(labels) and len(set(labels)) == len(labels)


def count_translations(monkeypatch) -> list:
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return translate(*arguments)

    monkeypatch.setattr(translator, "translate", counted)
    return calls


@QUICKLY
@given(steps=st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 99)), max_size=6))
def test_any_sequence_of_changes_works_and_redraws_once_each(network, vocabularies, steps):
    with pytest.MonkeyPatch.context() as patch:
        calls = count_translations(patch)
        explorer = Translator(network, *vocabularies, width=1)
        for control, n in steps:
            before = len(calls)
            if control == "random":
                explorer.target_length.value = LENGTHS[n % len(LENGTHS)]
                assert len(calls) == before, "the length is for the next random sentence"
                explorer.random.click()
                changed = True
            else:
                widget = explorer.beam_width if control == "width" else explorer.words[control]
                values = [not widget.value] if control == "negated" else [value for _, value in widget.options]
                value = values[n % len(values)]
                changed = value != widget.value
                widget.value = value
                assert widget.value == value, "what is offered goes with what was chosen before it"
            assert len(calls) == before + changed
            assert (explorer.source, explorer.gold) == sentence(explorer.settings)
            assert repaired(explorer.settings) == explorer.settings
            assert phrases.written(explorer.gold, "de") in explorer.texts.value


def test_the_beam_width_is_used(network, vocabularies, monkeypatch):
    calls = count_translations(monkeypatch)
    explorer = Translator(network, *vocabularies, width=2)
    for width in WIDTHS:
        explorer.beam_width.value = width
    assert [call[-1] for call in calls] == [2, 1, 2, 4, 8]
    assert "Beam, width 8" in explorer.texts.value


def test_random_sentences_are_the_same_each_time(network, vocabularies):
    seen = []
    for _ in range(2):
        explorer = Translator(network, *vocabularies, seed=3)
        for _ in range(3):
            explorer.random.click()
            seen.append(explorer.settings)
    assert seen[:3] == seen[3:] and len(set(seen)) == 3
    assert len(explorer.source) == 12


def test_the_picture_is_a_png_that_changes_with_the_sentence(explorer):
    first, again = explorer.png(), explorer.png()
    assert first == again
    explorer.words["object"].value = "river"
    assert explorer.png() != first
    image = imread(io.BytesIO(first), format="png")
    assert image.shape[0] > 300 and image.shape[1] == 1160 and len(np.unique(image)) > 100


def test_it_is_live_view_picture_and_a_text_without_the_models_numbers(explorer, vocabularies):
    data, metadata = explorer._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"} <= set(data)
    assert data["text/plain"] == (
        "Translator('The animal did not cross the street because it was too tired.', width=4)"
    )
    assert metadata["image/png"]["alt"].startswith("Least sure at step") and metadata["needs_kernel"]
    torch.manual_seed(1)
    other = Translator(EncoderDecoder(*map(len, vocabularies), 8, 8, "gru"), *vocabularies)
    assert repr(other) == repr(explorer) and other.png() != explorer.png()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": object()}, "model: expected one with start and step, got object"),
        ({"source_vocab": ["a"]}, "source_vocab: expected a Vocabulary, got list"),
        ({"target_vocab": None}, "target_vocab: expected a Vocabulary, got NoneType"),
        ({"width": 3}, "width: expected one of 1, 2, 4, 8, got 3"),
        ({"seed": -1}, "seed: expected an integer"),
    ],
)
def test_bad_arguments_are_refused(network, vocabularies, change, message):
    arguments = {"model": network, "source_vocab": vocabularies[0], "target_vocab": vocabularies[1]}
    with pytest.raises(ValueError, match=re.escape(message)):
        Translator(**arguments | change)
