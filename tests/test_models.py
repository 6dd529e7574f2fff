"""The shipped models: recipes, batches and measures; every card says what its weights do."""

import json
from dataclasses import asdict

import pytest
import torch

from course_utils import corpora, metrics, models, phrases
from course_utils.corpora import EOS, UNK, Vocabulary
from course_utils.decoding import greedy
from course_utils.seq2seq import EncoderDecoder, shift_right, teacher_forced_loss
from course_utils.seq2seq_attention import AttentionEncoderDecoder
from course_utils.training import CheckpointError, save_checkpoint
from course_utils.transformer import Transformer

CARDS = sorted(models.MODELS.glob("*.json"))
SIZES = {"d_embed": 6, "d_h": 10}
TRANSFORMER = {"d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1}
SMALL = {
    "phrases": models.Recipe("tiny", "phrases", SIZES, steps=5, batch_size=8, max_len=10),
    "pronunciations": models.Recipe("tiny", "pronunciations", SIZES, steps=5, batch_size=8),
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=SMALL)
def recipe(request):
    return SMALL[request.param]


@pytest.fixture(scope="module")
def vocabularies(recipe):
    return models.vocabularies(recipe.data)


@pytest.fixture
def trained(recipe, vocabularies):
    """A model that was never trained, but writes what it likes."""
    model = models.build(recipe, *map(len, vocabularies)).eval()
    return models.Trained(model, *vocabularies, models.make_card(recipe, model, *vocabularies))


@pytest.fixture
def short_epochs(monkeypatch):
    """Epochs of about twelve batches; returns the pronunciations."""
    listed = dict(list(corpora.load_pronunciations().items())[::1000])
    monkeypatch.setattr(models, "_POOL", 100)
    monkeypatch.setattr(corpora, "load_pronunciations", lambda: listed)
    return listed


# Recipes


def test_recipes_are_found_by_their_names():
    assert all(name == recipe.name for name, recipe in models.RECIPES.items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "poems"}, "data: expected one of phrases, pronunciations, got 'poems'"),
        ({"max_len": None}, "max_len"),
        ({"max_len": 5}, "max_len"),
        ({"steps": 0}, "steps"),
        ({"batch_size": 0.5}, "batch_size"),
        ({"warmup": -1}, "warmup: expected an integer"),
        ({"warmup": 0.5}, "warmup: expected an integer"),
        ({"label_smoothing": 1.1}, r"label_smoothing: expected a number in \[0, 1\], got 1.1"),
    ],
)
def test_a_recipe_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        models.Recipe(**asdict(SMALL["phrases"]) | changes)


def test_the_seed_decides_the_initial_weights_and_no_other_draw_is_touched():
    torch.manual_seed(5)
    expected = torch.randint(1000, (3,)).tolist()
    torch.manual_seed(5)
    first, again = (models.build(SMALL["phrases"], 7, 8).state_dict() for _ in range(2))
    assert torch.randint(1000, (3,)).tolist() == expected
    other = models.build(models.Recipe(**asdict(SMALL["phrases"]) | {"seed": 1}), 7, 8).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["out.weight"], other["out.weight"])
    torch.manual_seed(0)
    assert torch.equal(first["out.weight"], EncoderDecoder(7, 8, **SIZES).out.weight)


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [(SIZES, EncoderDecoder), (SIZES | {"attention": "dot"}, AttentionEncoderDecoder), (TRANSFORMER, Transformer)],
)
def test_the_arguments_of_a_model_say_of_which_kind_it_is(sizes, kind):
    recipe = models.Recipe(**asdict(SMALL["phrases"]) | {"model": sizes})
    first, again = (models.build(recipe, 7, 8) for _ in range(2))
    assert type(first) is kind
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))


def test_a_recipe_has_neither_warm_up_nor_label_smoothing_unless_it_says_so():
    assert (SMALL["phrases"].warmup, SMALL["phrases"].label_smoothing) == (0, 0)
    assert models.Recipe(**asdict(SMALL["phrases"]) | {"warmup": 2, "label_smoothing": 0.1}) != SMALL["phrases"]


# Data


def test_no_token_is_unknown(recipe, vocabularies):
    if recipe.data == "phrases":
        pairs = [pair for bucket in models.held_out_sentences(200) for pair in bucket]
        pairs += [pair[:2] for pair in phrases.generate(5000, seed=7, part="validation")]
        pairs.append(((), ("aufwache", "ankomme", "einschlafe", "einschalte", "ausschalte")))  # the rarest
    else:
        pairs = [(word, listed) for word, several in corpora.load_pronunciations().items() for listed in several]
    for side, vocabulary in enumerate(vocabularies):
        known = set(vocabulary.tokens)
        assert all(known.issuperset(pair[side]) for pair in pairs)


def test_batches_hold_pairs_of_the_training_part(recipe, vocabularies, short_epochs):
    training_words = set(corpora.split(short_epochs).train)
    stream = models.batches(recipe, *vocabularies)
    for _ in range(20):
        source, target = next(stream)
        assert len(source) == len(target) == recipe.batch_size
        assert UNK not in source and UNK not in target
        assert ((target == EOS).sum(dim=1) == 1).all() and EOS not in source
        for i in range(recipe.batch_size):
            tokens, written = vocabularies[0].decode(source[i]), tuple(vocabularies[1].decode(target[i]))
            if recipe.data == "phrases":
                assert phrases.part_of(tokens) == "train" and 4 <= len(tokens) <= recipe.max_len
            else:
                assert "".join(tokens) in training_words and written == short_epochs["".join(tokens)][0]


def same(batch, other):
    return all(torch.equal(a, b) for a, b in zip(batch, other, strict=True))


def test_a_batch_depends_on_its_step_alone(recipe, vocabularies, short_epochs):
    stream = models.batches(recipe, *vocabularies)
    expected = [next(stream) for _ in range(30)]
    assert not any(same(expected[0], other) for other in expected[1:])
    for first in (0, 1, 11, 12, 13, 14, 29):
        later = models.batches(recipe, *vocabularies, first=first)
        assert all(same(next(later), batch) for batch in expected[first:])


def test_words_come_once_an_epoch_in_another_order_each_time(monkeypatch):
    listed = {word: [tuple(word.upper())] for word in ("".join(chr(97 + i % 26) * (1 + i // 26)) for i in range(104))}
    monkeypatch.setattr(corpora, "load_pronunciations", lambda: listed)
    words = corpora.split(listed).train
    recipe, pair = SMALL["pronunciations"], models.vocabularies("pronunciations")
    per_epoch = len(words) // recipe.batch_size
    assert len(words) % recipe.batch_size
    stream = models.batches(recipe, *pair)
    epochs = [["".join(pair[0].decode(row)) for _ in range(per_epoch) for row in next(stream)[0]] for _ in range(6)]
    for epoch in epochs:
        assert len(set(epoch)) == len(epoch) == per_epoch * recipe.batch_size
    assert len(set(map(tuple, epochs))) == 6
    assert set().union(*epochs) == set(words)  # what is left out differs


def test_a_batch_size_larger_than_an_epoch_is_refused(vocabularies, recipe, short_epochs):
    large = models.Recipe(**asdict(recipe) | {"batch_size": 200})
    with pytest.raises(ValueError, match="batch_size"):
        next(models.batches(large, *vocabularies))


def test_the_checksum_of_pronunciations_is_that_of_the_file():
    assert (corpora.DATA / corpora.CHECKSUMS).read_text().split()[0] == models.data_sha256("pronunciations")


def test_the_checksum_of_phrases_changes_with_the_grammar(monkeypatch):
    before = models.data_sha256("phrases")
    assert models.data_sha256("phrases") == before
    plain = phrases.generate
    monkeypatch.setattr(phrases, "generate", lambda n, **options: plain(n, **options)[:-1])
    assert models.data_sha256("phrases") != before


def test_held_out_sentences_have_the_lengths_of_their_bucket_and_are_no_training_sentences():
    for (low, high), pairs in zip(models.BUCKETS, models.held_out_sentences(20), strict=True):
        assert len(pairs) == 20
        assert all(low <= len(source) <= high and phrases.part_of(source) == "test" for source, _ in pairs)


# Measures


def one_by_one(trained, source, max_len):
    tokens = torch.tensor([trained.source_vocab.encode(source)])
    return trained.target_vocab.decode(greedy(trained.model, tokens, max_len)[0].tokens)


def test_predictions_are_those_of_each_source_alone_in_the_same_order(trained, monkeypatch):
    monkeypatch.setattr(models, "_ROWS", 3)
    source = trained.source_vocab.tokens[4:]
    sources = [list(source[i : i + n]) for i, n in enumerate((3, 1, 7, 2, 5, 5, 4))]
    assert models.predict(trained, sources, 6) == [one_by_one(trained, source, 6) for source in sources]
    assert max(map(len, models.predict(trained, sources))) == models._MAX_WRITTEN[trained.card["recipe"]["data"]]


def mean_nll(trained, pairs):
    total = tokens = 0
    for source, target in pairs:
        ids = torch.tensor([trained.target_vocab.encode(target, eos=True)])
        with torch.no_grad():
            batch = torch.tensor([trained.source_vocab.encode(source)]), ids
            total += float(teacher_forced_loss(trained.model, batch)) * ids.numel()
        tokens += ids.numel()
    return total / tokens


def test_evaluation_equals_a_computation_pair_by_pair(trained, monkeypatch):
    monkeypatch.setattr(models, "_ROWS", 4)
    monkeypatch.setattr(models, "_MAX_WRITTEN", {"phrases": 8, "pronunciations": 8})
    found = models.evaluate(trained, 6)
    if trained.card["recipe"]["data"] == "pronunciations":
        listed = corpora.load_pronunciations()
        words = corpora.split(sorted(listed)).test[:6]
        written = [one_by_one(trained, tuple(word), 8) for word in words]
        references = [listed[word] for word in words]
        assert found["words"] == 6
        assert found["per"] == pytest.approx(metrics.error_rate(written, references), abs=1e-6)
        assert found["wer"] == 1 - metrics.exact_match(written, references)
        pairs = [(tuple(word), listed[word][0]) for word in words]
    else:
        buckets = models.held_out_sentences(6)
        pairs = [pair for bucket in buckets[:2] for pair in bucket]  # the lengths trained on
        written = [one_by_one(trained, source, 8) for source, _ in pairs]
        assert found["bleu"] == pytest.approx(metrics.corpus_bleu(written, [t for _, t in pairs]).score, abs=1e-3)
        assert list(found["exact_match_by_length"]) == ["4-6", "7-9", "10-12", "13-15", "16-20", "21-25", "26-30"]
        assert found["free_running_loss"] != found["loss"]
    assert found["loss"] == pytest.approx(mean_nll(trained, pairs), abs=2e-6)


def test_exact_match_counts_within_each_bucket(monkeypatch):
    examples = phrases.generate(20, seed=0)
    pair = [Vocabulary.from_sequences(example[side] for example in examples) for side in (0, 1)]
    model = models.build(SMALL["phrases"], *map(len, pair))
    trained = models.Trained(model, *pair, {"recipe": asdict(SMALL["phrases"])})
    known = {tuple(source): list(target) for bucket in models.held_out_sentences(8) for source, target in bucket}

    def predict(trained, sources):  # right up to 8 words
        return [known[source] if len(source) <= 8 else known[source][1:] for source in sources]

    monkeypatch.setattr(models, "predict", predict)
    found = models.evaluate(trained, 8)
    short = [source for source, _ in models.held_out_sentences(8)[1] if len(source) <= 8]
    assert found["exact_match_by_length"] == {
        "4-6": 1.0, "7-9": len(short) / 8, "10-12": 0, "13-15": 0, "16-20": 0, "21-25": 0, "26-30": 0
    }  # fmt: skip
    assert 0 < len(short) < 8
    assert found["exact_match"] == (1 + len(short) / 8) / 2


# Loading


@pytest.fixture
def saved(trained, recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(models, "RECIPES", {"tiny": recipe})
    save_checkpoint(tmp_path / "tiny.safetensors", trained.model, trained.card)
    return tmp_path


def test_loading_gives_the_model_and_its_vocabularies_back(saved, trained):
    state = torch.random.get_rng_state()
    loaded = models.load("tiny", saved)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not loaded.model.training
    expected = trained.model.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.model.state_dict().items())
    assert [v.tokens for v in loaded[1:3]] == [v.tokens for v in trained[1:3]]
    assert {**trained.card, "sha256": loaded.card["sha256"]} == loaded.card


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="name: expected one of phrases-fixed-64, .* got 'phrases'"):
        models.load("phrases")


def test_a_damaged_model_is_refused(saved):
    path = saved / "tiny.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="truncated or altered"):
        models.load("tiny", saved)
    path.with_suffix(".json").unlink()
    with pytest.raises(CheckpointError, match="tiny.json: the file is missing"):
        models.load("tiny", saved)


# The models in data/models


def test_every_recipe_has_a_model_and_every_model_a_recipe():
    assert {path.stem for path in CARDS} == set(models.RECIPES)
    assert {path.stem for path in models.MODELS.glob("*.safetensors")} == set(models.RECIPES)


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_a_card_describes_its_model(path):
    trained = models.load(path.stem)  # compares the checksum of the weights
    card = json.loads(path.read_text("utf-8"))
    assert models.Recipe(**card["recipe"]) == models.RECIPES[path.stem]
    assert card["parameters"] == sum(p.numel() for p in trained.model.parameters())
    assert card["data_sha256"] == models.data_sha256(card["recipe"]["data"])
    assert card["command"].endswith(f"tools/train {path.stem}") and card["seconds"] > 0
    assert [v.tokens for v in trained[1:3]] == [v.tokens for v in models.vocabularies(card["recipe"]["data"])]


def test_a_model_with_attention_is_scored_against_the_gold_alignments(monkeypatch):
    monkeypatch.setattr(models, "_ROWS", 4)
    monkeypatch.setattr(models, "_MAX_WRITTEN", {"phrases": 8})
    recipe = models.Recipe("tiny", "phrases", SIZES | {"attention": "dot"}, steps=5, batch_size=8, max_len=10)
    pair = models.vocabularies("phrases")
    model = models.build(recipe, *map(len, pair)).eval()
    trained = models.Trained(model, *pair, models.make_card(recipe, model, *pair))
    pairs = [pair for bucket in models._held_out(5)[:2] for pair in bucket]  # the lengths trained on
    links = []
    for example, weights in zip(pairs, models.attention_weights(trained, pairs), strict=True):
        assert weights.shape == (len(example.target) + 1, len(example.source))
        source = torch.tensor([pair[0].encode(example.source)])
        _, alone = model.attend(source, shift_right(torch.tensor([pair[1].encode(example.target, eos=True)])))
        torch.testing.assert_close(weights, alone[0], atol=1e-6, rtol=0)
        links.append([(int(row.argmax()), j) for j, row in enumerate(alone[0, : len(example.target)])])
    expected = metrics.alignment_error_rate(links, [example.alignment for example in pairs])
    assert models.evaluate(trained, 5)["alignment_error_rate"] == pytest.approx(expected, abs=1e-6)


def test_a_transformer_is_measured_without_alignments(monkeypatch):
    monkeypatch.setattr(models, "_ROWS", 4)
    monkeypatch.setattr(models, "_MAX_WRITTEN", {"phrases": 8})
    recipe = models.Recipe(**asdict(SMALL["phrases"]) | {"model": TRANSFORMER})
    examples = phrases.generate(20, seed=0)
    pair = [Vocabulary.from_sequences(example[side] for example in examples) for side in (0, 1)]
    trained = models.Trained(models.build(recipe, *map(len, pair)).eval(), *pair, {"recipe": asdict(recipe)})
    pairs = [pair for bucket in models.held_out_sentences(4)[:2] for pair in bucket]  # the lengths trained on
    sources = [source for source, _ in pairs]
    assert models.predict(trained, sources, 6) == [one_by_one(trained, source, 6) for source in sources]
    found = models.evaluate(trained, 4)
    assert found["loss"] == pytest.approx(mean_nll(trained, pairs), abs=2e-6)
    assert "bleu" in found and "alignment_error_rate" not in found


# Another processor rounds in another way, which may change a token where two are equally likely.
ONE_SENTENCE, FEW_WORDS = 1 / 200 + 1e-9, 5e-4
TOLERANCE = {
    "exact_match": 2e-3, "bleu": 0.2, "loss": 1e-4, "free_running_loss": 2e-2, "per": FEW_WORDS, "wer": 1e-3,
    "alignment_error_rate": 1e-3,
}  # fmt: skip


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_the_measures_on_a_card_are_those_of_its_weights(path):
    trained = models.load(path.stem)
    found, stated = models.evaluate(trained), dict(trained.card["metrics"])
    assert found.keys() == stated.keys()
    by_length = stated.pop("exact_match_by_length", {})
    assert found.get("exact_match_by_length", {}) == pytest.approx(by_length, abs=ONE_SENTENCE)
    for name, value in stated.items():
        if name == "bleu_signature":  # but for the version of sacrebleu
            assert found[name].split("|version")[0] == value.split("|version")[0]
        else:
            assert found[name] == pytest.approx(value, abs=TOLERANCE.get(name, 0)), name
