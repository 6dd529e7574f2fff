"""What heads are for: pronouns against the dictionary, measures against loops, one sentence at a time."""

from copy import deepcopy

import pytest
import torch
from torch import nn

from course_utils import corpora, head_roles, models, phrases, phrases_lexicon, training
from course_utils.head_roles import Head, Pronoun, accuracy, heads, looks_at_noun, pronouns, read
from course_utils.phrases import Pair

WORDS = {"m": {"er", "ihn"}, "f": {"sie"}, "n": {"es"}}
GENDER = {noun.en: noun.gender for noun in phrases_lexicon.NOUNS}
SIZES = {"d_model": 16, "n_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0}


def make_pairs():
    """Eight sentences of different lengths: two without "it", and one with two of them at least."""
    generated = phrases.generate(300, seed=5, max_len=24)
    by_number = [[pair for pair in generated if len(pronouns(pair)) == n] for n in (0, 1, 2)]
    return by_number[0][:2] + by_number[1][:5] + by_number[2][:1]


@pytest.fixture(scope="module")
def pairs():
    return make_pairs()


@pytest.fixture(scope="module")
def trained(pairs):
    """A tiny transformer that knows these sentences halfway."""
    vocabularies = [corpora.Vocabulary.from_sequences(pair[side] for pair in pairs) for side in (0, 1)]
    recipe = models.Recipe("tiny", "phrases", SIZES, steps=60, max_len=24)
    model = models.build(recipe, *map(len, vocabularies))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # heads that differ from the start
    found = models.Trained(model, *vocabularies, {})
    batch = head_roles._batch(found, pairs)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    training.fit(model, lambda _: [batch] * 40, loss=models.teacher_forced_loss, steps=40, optimizer=optimizer)
    return found._replace(model=model.eval())


def single(trained, pair):
    """Logits (T, V), target (T,) and weights of one sentence, without pads."""
    source = torch.tensor([trained.source_vocab.encode(pair.source)])
    target = trained.target_vocab.encode(pair.target, eos=True)
    logits, weights = trained.model.attend(source, torch.tensor([[corpora.BOS, *target[:-1]]]))
    return logits[0].detach(), torch.tensor(target), weights


# Pronouns


def test_pronouns_of_a_sentence_written_by_hand():
    source = "the dog saw the street and it liked it because they were wide but it was tired".split()
    target = "der hund hat die straße gesehen und er mochte sie weil sie breit waren aber das tier".split()
    alignment = ((1, 1), (4, 4), (6, 7), (8, 9), (10, 11), (14, 15), (14, 16))
    pair = Pair(tuple(source), tuple(target), alignment, ((6, 1), (8, 4), (10, 4), (14, 1)))
    assert [pair.source[i] for i, _ in pair.antecedents] == ["it", "it", "they", "it"]
    assert pronouns(pair) == [Pronoun(6, 1, 7), Pronoun(8, 4, 9)]  # no "they", and no "it" that became two words
    assert pronouns(pair._replace(antecedents=())) == []
    assert pronouns(pair._replace(alignment=())) == []


def test_pronouns_of_generated_sentences_are_words_of_their_nouns_gender():
    found = {}
    for pair in phrases.generate(400, seed=8):
        these = pronouns(pair)
        assert [p.source for p in these] == [i for i, word in enumerate(pair.source) if word == "it"]
        for p in these:
            gender = GENDER[pair.source[p.noun]]
            assert pair.target[p.target] in WORDS[gender]
            found.setdefault(gender, set()).add(pair.target[p.target])
    assert found == WORDS  # each has occurred


# Heads


def test_all_heads_are_listed_once_in_order(trained):
    listed = heads(trained)
    assert listed[:2] == [Head("encoder", 0, 0), Head("encoder", 0, 1)]
    assert listed[2:6] == [Head("decoder", 0, 0), Head("decoder", 0, 1), Head("decoder", 1, 0), Head("decoder", 1, 1)]
    assert listed[6:] == [head._replace(kind="cross") for head in listed[2:6]]
    model = trained.model
    assert listed[0].attention(trained) is model.encoder[0].attention
    assert listed[5].attention(trained) is model.decoder[1].attention
    assert listed[8].attention(trained) is model.decoder[1].cross


# Measures


def test_reading_a_batch_is_reading_one_sentence_after_another(trained, pairs):
    logits, target, weights = read(trained, pairs)
    assert not logits.requires_grad
    assert target.tolist() == [
        trained.target_vocab.encode(pair.target, eos=True) + [corpora.PAD] * (target.shape[1] - len(pair.target) - 1)
        for pair in pairs
    ]
    for row, pair in enumerate(pairs):
        T, S = len(pair.target) + 1, len(pair.source)
        expected, _, seen = single(trained, pair)
        torch.testing.assert_close(logits[row, :T], expected, atol=1e-4, rtol=0)
        for kind, (t, s) in zip(weights._fields, ((S, S), (T, T), (T, S)), strict=True):
            for block, alone in zip(getattr(weights, kind), getattr(seen, kind), strict=True):
                torch.testing.assert_close(block[row, :, :t, :s], alone[0], atol=1e-5, rtol=0)


def loop(trained, pairs):
    """`accuracy`, sentence by sentence and word by word."""
    counts = {True: [], False: []}
    for pair in pairs:
        logits, target, _ = single(trained, pair)
        special = [p.target for p in pronouns(pair)]
        for t, token in enumerate(target):
            counts[t in special].append(bool(logits[t].argmax() == token))
    assert len(counts[True]) == 7 and len(counts[False]) == sum(len(pair.target) + 1 for pair in pairs) - 7
    return tuple(sum(counts[kind]) / len(counts[kind]) for kind in (True, False))


def test_accuracy_is_that_of_a_loop(trained, pairs):
    found = accuracy(trained, pairs)
    assert found == pytest.approx(loop(trained, pairs), abs=1e-6)
    assert 0 < found.pronouns < 1 and 0 < found.others < 1 and found.pronouns != found.others


def test_without_a_head_its_columns_of_the_output_are_zero_and_come_back(trained, pairs):
    before, whole = deepcopy(trained.model.state_dict()), accuracy(trained, pairs)
    for some in ([head] for head in heads(trained)), [heads(trained)[::3]]:
        found = set()
        for without in some:
            copy = trained._replace(model=deepcopy(trained.model))
            for head in without:
                with torch.no_grad():
                    head.attention(copy).out.weight[:, 8 * head.number : 8 * (head.number + 1)] = 0
            found.add(accuracy(trained, pairs, without))
            assert accuracy(trained, pairs, without) == accuracy(copy, pairs)
            after = trained.model.state_dict()
            assert all(torch.equal(after[name], before[name]) for name in before)
        assert found != {whole}  # heads make a difference
    assert accuracy(trained, pairs) == whole


def test_looks_at_noun_is_the_mean_of_a_loop(trained, pairs):
    found = looks_at_noun(trained, pairs)
    assert [block.shape for block in found] == [(2,)]
    expected = []
    for pair in pairs:
        weights = single(trained, pair)[2].encoder[0][0]  # (H, S, S)
        expected += [[head[p.source, p.noun].item() for head in weights] for p in pronouns(pair)]
    torch.testing.assert_close(found[0], torch.tensor(expected).mean(dim=0), atol=1e-5, rtol=0)
    assert (found[0][0] - found[0][1]).abs() > 1e-3


def test_looks_at_noun_of_heads_that_are_known(pairs, trained):
    """A head whose queries and keys are zero looks everywhere alike."""
    copy = trained._replace(model=deepcopy(trained.model))
    attention = copy.model.encoder[0].attention
    nn.init.zeros_(attention.qkv.weight[:32])
    nn.init.zeros_(attention.qkv.bias[:32])
    shares = torch.tensor([1 / len(pair.source) for pair in pairs for _ in pronouns(pair)])
    torch.testing.assert_close(looks_at_noun(copy, pairs)[0], shares.mean().expand(2))


def test_the_shipped_transformer_has_a_head_that_resolves_pronouns(pairs):
    trained = models.load("phrases-transformer")
    found = looks_at_noun(trained, pairs)
    shares = sum(1 / len(pair.source) for pair in pairs for _ in pronouns(pair)) / 7
    assert max(block.max() for block in found) > 2 * shares
    assert accuracy(trained, pairs).pronouns > 0.7


# Bad input


@pytest.mark.parametrize("measure", [accuracy, looks_at_noun])
def test_sentences_without_a_pronoun_are_refused(trained, pairs, measure):
    with pytest.raises(ValueError, match='^pairs: expected sentences with "it", got none'):
        measure(trained, [pair for pair in pairs if not pronouns(pair)])


def test_a_head_that_does_not_exist_is_refused_and_nothing_changed(trained, pairs):
    before = deepcopy(trained.model.state_dict())
    with pytest.raises(ValueError, match=r"^head: expected an integer in \[0, 1\], got 2"):
        accuracy(trained, pairs, [Head("cross", 1, 0), Head("cross", 1, 2)])
    assert all(torch.equal(value, before[name]) for name, value in trained.model.state_dict().items())
