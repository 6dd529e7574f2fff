"""The explorer of heads: its numbers against the model asked otherwise, what it takes, and the view."""

from functools import partial

import numpy as np
import pytest
import torch
import traitlets

import explorer_page
from course_utils import models, phrases
from course_utils.corpora import Vocabulary
from course_utils.explorers import HeadViewer
from course_utils.explorers.head_viewer import KINDS, MOST, Heads, look
from course_utils.seq2seq import EncoderDecoder
from course_utils.transformer import Transformer
from explorer_page import change, frame, said, set_to

PAIRS = (
    (tuple("the cat slept because it was tired".split()), tuple("die katze schlief weil sie müde war".split())),
    (("yes",), ("ja",)),
)
SETTINGS = [(0, "cross", 0, 0, 1, 1), (0, "cross", 1, 1, 5, 5), (0, "encoder", 0, 1, 5, 7), (0, "decoder", 1, 0, 8, 2),
            (1, "encoder", 0, 1, 2, 1), (2, "cross", 1, 1, 17, 16), (2, "decoder", 0, 0, 17, 1)]  # fmt: skip


@pytest.fixture(scope="module")
def trained() -> models.Trained:
    """A small network with random weights, large enough to look somewhere; one block reads and two write."""
    pairs = [*PAIRS, *((pair.source, pair.target) for pair in phrases.generate(40, seed=0, max_len=17))]
    pairs += [((), ("er", "sie", "es"))]
    source, target = (Vocabulary.from_sequences(side) for side in zip(*pairs, strict=True))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Transformer(len(source), len(target), 16, 2, 16, 1, 2).eval()
        with torch.no_grad():
            for weights in model.parameters():
                weights.mul_(2.5 if weights.dim() > 1 else 1)
    return models.Trained(model, source, target, {})


@pytest.fixture(scope="module")
def sentences(trained) -> list[Heads]:
    """Seven words, one, and the most that fit."""
    long = phrases.generate(1, seed=0, min_len=16, max_len=16)[0]
    pairs = [*PAIRS, (long.source, (*long.target, *["eingeschaltet"] * MOST)[: MOST - 1])]
    return [look(trained, pair) for pair in pairs]


# ---- What Python computes ---------------------------------------------------------------------------------------


def probabilities(trained: models.Trained, pair: tuple) -> torch.Tensor:
    """Of every word at each step, (T, V), by the model's own steps."""
    state = trained.model.start(torch.tensor([trained.source_vocab.encode(pair[0])]))
    found, token = [], 1
    with torch.no_grad():
        for following in trained.target_vocab.encode(pair[1], eos=True):
            logits, state = trained.model.step(torch.tensor([token]), state)
            found.append(logits[0].softmax(dim=-1))
            token = following
    return torch.stack(found)


def test_the_whole_model_and_its_words_are_those_of_its_steps(trained, sentences):
    p = probabilities(trained, PAIRS[0])
    ids = [trained.target_vocab.encode(words) for words in sentences[0].followed]
    np.testing.assert_allclose(
        sentences[0].whole, [[float(row[i]) for i in some] for row, some in zip(p, ids)], atol=1e-5
    )
    assert [words[0] for words in sentences[0].followed] == [*PAIRS[0][1], "<eos>"] == list(sentences[0].output)
    assert sentences[0].followed[4] == ("sie", "er", "es")  # a pronoun, against the other ones
    for at, words in zip(p, sentences[0].followed, strict=True):
        assert len(set(words)) == 3 and not {"<pad>", "<bos>", "<unk>"} & set(words)
        if words[0] != "sie":  # else what is most probable besides the right word
            order = [trained.target_vocab.tokens[i] for i in at.argsort(descending=True).tolist()]
            assert list(words[1:]) == [w for w in order if w not in ("<pad>", "<bos>", "<unk>", words[0])][:2]


def test_without_a_head_is_the_model_with_that_heads_mask_at_zero(trained, sentences, monkeypatch):
    blocks = {
        "encoder": [block.attention for block in trained.model.encoder],
        "decoder": [block.attention for block in trained.model.decoder],
        "cross": [block.cross for block in trained.model.decoder],
    }
    changed = 0
    for kind in KINDS:
        for layer, attention in enumerate(blocks[kind]):
            for head in range(2):
                mask = torch.ones(2)
                mask[head] = 0
                with monkeypatch.context() as patch:
                    patch.setattr(attention, "attend", partial(attention.attend, head_mask=mask))
                    p = probabilities(trained, PAIRS[0])
                ids = torch.tensor([trained.target_vocab.encode(words) for words in sentences[0].followed])
                expected = p.gather(1, ids).numpy()
                np.testing.assert_allclose(sentences[0].without[kind][layer, head], expected, atol=1e-5)
                changed += abs(expected - sentences[0].whole).max() > 0.01
    assert changed >= 8  # of ten heads: this test would see a head that stays


def test_weights_are_those_of_the_model_and_its_own_are_untouched(trained, sentences):
    before = {name: weights.clone() for name, weights in trained.model.state_dict().items()}
    again = look(trained, PAIRS[0])
    np.testing.assert_array_equal(again.without["cross"], sentences[0].without["cross"])
    assert all(torch.equal(before[name], weights) for name, weights in trained.model.state_dict().items())
    source = torch.tensor([trained.source_vocab.encode(PAIRS[0][0])])
    read = torch.tensor([[1, *trained.target_vocab.encode(PAIRS[0][1])]])
    _, seen = trained.model.attend(source, read)
    for kind in KINDS:
        for layer, weights in enumerate(getattr(seen, kind)):
            np.testing.assert_array_equal(sentences[0].weights[kind][layer], weights[0].detach())


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_numbers_are_those_of_the_setting(sentences, setting):
    sentence, kind, layer, head, step, word = setting
    item = sentences[sentence]
    result = HeadViewer(sentences, *setting).compute()
    query = (word if kind == "encoder" else step) - 1
    row = item.weights[kind][layer, head, query]
    np.testing.assert_allclose(result["row"], row, atol=5.1e-4)
    np.testing.assert_allclose(result["weights"], item.weights[kind][layer, head], atol=5.1e-4)
    assert row[result["top"][0]] == pytest.approx(row.max(), abs=1e-3)
    np.testing.assert_allclose(result["whole"], item.whole[step - 1], atol=5.1e-4)
    np.testing.assert_allclose(result["without"], item.without[kind][layer, head, step - 1], atol=5.1e-4)
    assert result["queries"][query] == (item.source[word - 1] if kind == "encoder" else item.output[step - 1])
    assert (len(result["queries"]), len(result["keys"])) == np.shape(result["weights"])
    lowest = min(item.without[k][:, :, step - 1, 0].min() for k in KINDS)
    worst, n, h = result["worst"]
    assert item.without[worst][n, h, step - 1, 0] == pytest.approx(lowest, abs=1e-3)
    for name, block, numbers in result["table"]:
        np.testing.assert_allclose(numbers, item.without[name][block, :, step - 1, 0], atol=5.1e-4)


def test_what_is_beyond_the_end_is_the_last_one(sentences):
    viewer = HeadViewer(sentences, 2, "decoder", 1, 1, 17, 16)
    viewer.sentence, viewer.kind = 1, "encoder"
    result = viewer.compute()
    assert [result[name] for name in ("layer", "head", "step", "word")] == [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sentence": 3}, r"sentence: expected an integer in \[0, 2\], got 3"),
        ({"kind": "self"}, "kind: expected one of encoder, decoder, cross, got 'self'"),
        ({"kind": "encoder", "layer": 1}, r"layer: expected an integer in \[0, 0\], got 1"),
        ({"head": 2}, r"head: expected an integer in \[0, 1\], got 2"),
        ({"step": 9}, r"step: expected an integer in \[1, 8\], got 9"),
        ({"word": 0}, r"word: expected an integer in \[1, 7\], got 0"),
    ],
)
def test_bad_settings_are_refused(sentences, arguments, message):
    with pytest.raises(ValueError, match=message):
        HeadViewer(sentences, **arguments)


def test_numbers_that_do_not_fit_are_refused(sentences, trained):
    item = sentences[0]
    for wrong, message in (
        (item._replace(source=()), r"sentences\[0\]: source: number of words"),
        (item._replace(output=("x",) * 18), "output: number of words"),
        (item._replace(output=item.output[:-1]), "followed: expected 3 words for each of 7 output words"),
        (item._replace(whole=item.whole[:-1]), "whole: expected shape"),
        (
            item._replace(weights=item.weights | {"cross": item.weights["encoder"]}),
            r"weights\['cross'\]: expected shape",
        ),
        (
            item._replace(weights=item.weights | {"cross": 2 * item.weights["cross"]}),
            r"weights\['cross'\]: expected rows",
        ),
        (
            item._replace(without=item.without | {"cross": item.without["cross"][:1]}),
            r"without\['cross'\]: expected shape",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            HeadViewer([wrong])
    for some, message in (
        ([], "number: expected an integer"),
        ([PAIRS[0]], "sentences: expected a list of what `look`"),
    ):
        with pytest.raises(ValueError, match=message):
            HeadViewer(some)
    recurrent = trained._replace(model=EncoderDecoder(8, 8, 4, 4))
    with pytest.raises(ValueError, match="trained: expected one with a Transformer, got EncoderDecoder"):
        HeadViewer.from_model(recurrent, PAIRS)


def test_settings_stay_in_range_later(sentences):
    viewer = HeadViewer(sentences)
    for name, value in (("sentence", 3), ("kind", "self"), ("layer", -1), ("step", 0), ("word", 18), ("examples", [])):
        with pytest.raises(traitlets.TraitError):
            setattr(viewer, name, value)


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text(trained):
    viewer = HeadViewer.from_model(trained, PAIRS, kind="encoder", head=1, word=5)
    text = "HeadViewer(sentence=0, kind='encoder', layer=0, head=1, step=1, word=5)"
    explorer_page.gives_view_picture_and_text(viewer, text)


def test_png_is_the_same_each_time_and_has_the_computed_numbers(sentences):
    first = HeadViewer(sentences).png()
    assert HeadViewer(sentences).png() == first and len(first) < 150_000
    for setting in SETTINGS[1:4]:
        viewer = HeadViewer(sentences, *setting)
        result = viewer.compute()
        left, middle, right = viewer.figure().axes
        assert [bar.get_width() for bar in left.patches] == result["row"]
        np.testing.assert_array_equal(middle.images[0].get_array(), result["weights"])
        shown = [float(label.get_text()) for label in right.texts]
        np.testing.assert_allclose(shown, [p for *_, row in result["table"] for p in row], atol=0.0051)


def test_alt_says_what_the_picture_shows():
    a = np.array([[[[0.1, 0.9], [0.75, 0.25]]]])
    item = Heads(
        ("it", "sleeps"), ("es", "<eos>"), dict.fromkeys(KINDS, a), [("es", "er", "sie"), ("<eos>", "es", "er")],
        np.array([[0.8, 0.15, 0.05], [0.9, 0.05, 0.05]]),
        {kind: np.array([[[[p, 0.1, 0.1], [0.898, 0.1, 0.0]]]]) for kind, p in zip(KINDS, (0.3, 0.8, 0.81))},
    )  # fmt: skip
    assert HeadViewer([item], kind="encoder").alt == (
        "Encoder, layer 0, head 0: “it” looks most at “sleeps” (0.90). Without this head “es” has probability 0.30 "
        "instead of 0.80. Weights: sleeps (2) 0.90, it (1) 0.10. All heads: es 0.80, er 0.15, sie 0.05; without this "
        "one: es 0.30, er 0.10, sie 0.10. Lowest for “es”: 0.30 without encoder, layer 0, head 0. "
        "Heat map: all 2 rows of this head over 2 words."
    )
    alt = HeadViewer([item], kind="decoder", step=2).alt
    assert alt.startswith("Decoder, layer 0, head 0: writing “<eos>”, it looks most at “<bos>” (0.75).")
    assert "Without this head “<eos>” keeps its probability of 0.90." in alt


def test_state_is_small_and_needs_nothing_from_elsewhere(sentences):
    explorer_page.stands_alone(HeadViewer(sentences), 60_000)
    full = {kind: np.full((2, 4, 17, 17), 1 / 17) for kind in KINDS}  # the largest sentence of the shipped model
    followed, without = [("eingeschaltet",) * 3] * 17, {kind: np.full((2, 4, 17, 3), 0.333) for kind in KINDS}
    item = Heads(("because",) * 17, ("eingeschaltet",) * 17, full, followed, np.full((17, 3), 0.333), without)
    explorer_page.stands_alone(HeadViewer([item] * 5), 300_000)


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def test_browser_and_python_say_and_compute_the_same(show, sentences):
    page = show(HeadViewer(sentences))
    for setting in SETTINGS:
        viewer = HeadViewer(sentences, *setting)
        set_to(page, HeadViewer, setting)
        got = page.evaluate("view.compute(model)")
        assert {name: got[name] for name in viewer.compute()} == viewer.compute(), setting
        assert said(page) == viewer.alt, setting
        assert page.locator(".finding + p").inner_text() in viewer.alt
        assert page.locator(".numbers").inner_text() in viewer.alt


def test_bars_cells_and_frames_are_where_the_numbers_say(show, sentences):
    setting = (0, "cross", 1, 1, 5, 5)
    page = show(HeadViewer(sentences, *setting))
    result = HeadViewer(sentences, *setting).compute()
    widths = np.array([float(bar.get_attribute("width")) for bar in page.locator("rect.weight").all()])
    np.testing.assert_allclose(widths / widths.sum(), np.array(result["row"]) / sum(result["row"]), atol=1e-6)
    shades = [[float(cell.get_attribute("fill-opacity")) for cell in row.locator("rect").all()]
              for row in page.locator("g.row").all()]  # fmt: skip
    assert shades == result["weights"]
    lost = [float(cell.get_attribute("fill-opacity")) for cell in page.locator("rect.lost").all()]
    expected = [0.8 * max(result["whole"][0] - p, 0) for *_, row in result["table"] for p in row]
    np.testing.assert_allclose(lost, expected, atol=1e-12)
    own, cell = page.locator("rect.own").bounding_box(), page.locator("rect.lost").nth(9).bounding_box()
    assert own["x"] == pytest.approx(cell["x"], abs=3) and own["y"] == pytest.approx(
        cell["y"], abs=3
    )  # cross 1, head 1
    now, row = (
        page.locator("rect.now").bounding_box(),
        page.locator("g.row").nth(4).locator("rect").first.bounding_box(),
    )
    assert now["y"] < row["y"] and now["y"] + now["height"] > row["y"] + row["height"]


def test_sliders_keep_to_what_there_is(show, sentences):
    page = show(HeadViewer(sentences))
    writes, reads, layer, head = (page.get_by_role("slider", name=n) for n in ("writes", "reads", "layer", "head"))
    assert [slider.get_attribute("max") for slider in (writes, reads, layer, head)] == ["8", "7", "1", "1"]
    writes.press("End")
    layer.press("ArrowRight")
    head.press("ArrowRight")
    frame(page)
    assert page.evaluate("['step', 'layer', 'head'].map(n => model.get(n))") == [8, 1, 1]
    assert writes.get_attribute("aria-valuetext") == "8 <eos>"
    page.get_by_role("combobox", name="attention").select_option(label="encoder, self")
    frame(page)
    assert layer.is_disabled() and "Encoder, layer 0, head 1" in said(page)
    reads.press("ArrowRight")
    frame(page)
    assert "“cat” looks most" in said(page) and reads.get_attribute("aria-valuetext") == "2 cat"
    page.get_by_role("combobox", name="sentence").select_option(label="2. yes")
    frame(page)
    assert page.evaluate("['step', 'word'].map(n => model.get(n))") == [1, 1]
    assert (writes.get_attribute("max"), reads.is_disabled()) == ("2", True)
    change(page, sentence=0)
    assert writes.get_attribute("aria-valuetext") == "1 die"


def test_a_button_goes_to_the_head_that_the_word_needs_most(show, sentences):
    page = show(HeadViewer(sentences, step=5))
    page.get_by_role("button", name="most needed head").press("Enter")
    frame(page)
    kind, layer, head = HeadViewer(sentences, step=5).compute()["worst"]
    assert page.evaluate("['kind', 'layer', 'head'].map(n => model.get(n))") == [kind, layer, head]
    assert f"{kind.capitalize()}, layer {layer}, head {head}" in page.locator(".finding").inner_text()


def test_every_control_is_reached_by_tab_in_reading_order(show, sentences):
    names = explorer_page.reached_by_tab(show(HeadViewer(sentences)))
    assert names == ["sentence", "writes", "reads", "attention", "layer", "head", "most needed head"]


def test_nothing_is_cut_or_overlaps_and_it_fits_a_slide(show, sentences):
    page = show(HeadViewer(sentences))
    explorer_page.nothing_is_cut(page, HeadViewer, SETTINGS, (390, 999, 1000, 1168))
    for setting in SETTINGS:
        set_to(page, HeadViewer, setting)
        assert page.evaluate("el.getBoundingClientRect().height") <= 560, setting


def test_closing_a_view_removes_its_listeners(show, sentences):
    explorer_page.closing_removes_listeners(show(HeadViewer(sentences)))
