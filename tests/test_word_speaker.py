"""The explorer that says typed words: what it says against the model's own decoding, and what it stores."""

import re

import numpy as np
import pytest
import torch

from course_utils import models
from course_utils.corpora import Vocabulary, load_pronunciations
from course_utils.explorers import WordSpeaker
from course_utils.explorers.word_speaker import speak
from course_utils.transformer import Transformer


@pytest.fixture(scope="module")
def recurrent() -> models.Trained:
    return models.load("pronunciations-fixed-256")


@pytest.fixture(scope="module")
def transformer(recurrent) -> models.Trained:
    """A small network with random weights."""
    source, target = recurrent.source_vocab, recurrent.target_vocab
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Transformer(len(source), len(target), 16, 2, 16, 1, 2).eval()
    return models.Trained(model, source, target, {})


def test_it_says_what_the_model_writes(recurrent):
    for word in ("knight", "though", "cat"):
        assert [speak(recurrent, word).sounds] == models.predict(recurrent, [tuple(word)])
    p = [probability for _, probability in speak(recurrent, "though").others]
    assert sorted(p, reverse=True) == p and 0 < sum(p) <= 1


def test_weights_are_those_of_each_head_while_the_model_reads_what_it_wrote(transformer):
    spoken = speak(transformer, "knight")
    ids = [transformer.target_vocab.tokens.index(sound) for sound in spoken.rows]
    source = torch.tensor([transformer.source_vocab.encode("knight")])
    _, seen = transformer.model.attend(source, torch.tensor([[1, *ids[:-1]]]))
    assert spoken.weights.shape == (2, 2, len(ids), 6)
    for layer, weights in enumerate(seen.cross):
        np.testing.assert_array_equal(spoken.weights[layer], weights[0].detach())


def test_typing_says_the_new_word_and_leaves_out_what_is_no_letter(recurrent):
    speaker = WordSpeaker(recurrent, "cat")
    assert "K AE T" in speaker.texts.value and speaker.map.value == ""
    speaker.word.value = "Kni gh7t!"
    assert repr(speaker) == "WordSpeaker('knight')"
    assert " ".join(speak(recurrent, "knight").sounds) in speaker.texts.value
    before = speaker.texts.value
    speaker.word.value = "7"  # nothing is left: the last word stays
    assert speaker.texts.value == before
    speaker.word.value = "a" * 30
    assert repr(speaker) == f"WordSpeaker({'a' * 20!r})"
    assert "not in it" in speaker.texts.value


def test_the_dictionary_stands_beside_it(recurrent):
    listed = load_pronunciations()
    speaker = WordSpeaker(recurrent, "cat")
    assert " ".join(listed["cat"][0]) in re.search("Dictionary</th><td>(.*?)</td>", speaker.texts.value)[1]


def test_the_map_has_the_weights_of_the_chosen_head(transformer):
    speaker = WordSpeaker(transformer, "knight")
    assert speaker.head.value == (1, 0)
    for layer, head in ((0, 1), (1, 1)):
        speaker.head.value = (layer, head)
        shown = [float(p) for p in re.findall(r">(\d\.\d\d)</td>", speaker.map.value)]
        np.testing.assert_allclose(shown, speaker.spoken.weights[layer, head].ravel(), atol=0.0051)
        (axes,) = speaker.figure().axes
        np.testing.assert_array_equal(axes.images[0].get_array(), speaker.spoken.weights[layer, head])
    assert "&lt;eos&gt;" in speaker.map.value or "<eos>" not in speaker.spoken.rows


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_output_has_view_picture_and_text_and_says_that_it_needs_a_kernel(name, request):
    speaker = WordSpeaker(request.getfixturevalue(name), "knight")
    data, metadata = speaker._repr_mimebundle_()
    assert data["text/plain"] == "WordSpeaker('knight')" and data["image/png"].startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" in data
    assert metadata["needs_kernel"] and metadata["image/png"]["alt"] == speaker.alt
    assert speaker.png() == data["image/png"] and len(data["image/png"]) < 150_000
    assert speaker.alt.startswith(f"“knight” is said {' '.join(speaker.spoken.sounds)}. Dictionary: N AY T.")


def test_bad_words_and_models_are_refused(recurrent):
    for word in ("", "Knight", "a" * 21, "naïve", 3):
        with pytest.raises(ValueError, match="word: expected 1 to 20 letters that the model knows"):
            WordSpeaker(recurrent, word)
    words = recurrent._replace(source_vocab=Vocabulary(["<pad>", "<bos>", "<eos>", "<unk>", "cat", "dog"]))
    with pytest.raises(ValueError, match="trained: expected a model that reads letters"):
        WordSpeaker(words)
