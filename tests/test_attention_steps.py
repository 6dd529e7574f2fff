"""The explorer of a decoder's attention: what it takes, what the browser shows of it, and how it is stepped through."""

import re

import numpy as np
import pytest
import torch
import traitlets

import explorer_page
from course_utils import metrics, phrases
from course_utils.explorers import AttentionSteps
from course_utils.explorers.attention_steps import MOST
from course_utils.explorers.base import _read
from course_utils.plots import COLORS
from explorer_page import change, frame, said, set_to

SOURCE, OUTPUT = (
    ("the", "cat", "crossed", "a", "street"),
    ("die", "katze", "hat", "eine", "straße", "überquert", "<eos>"),
)
LINKS = ((0, 0), (1, 1), (2, 2), (2, 5), (3, 3), (4, 4))


def weights(T: int, S: int, seed: int = 0) -> np.ndarray:
    scores = 3 * np.random.default_rng(seed).standard_normal((T, S))
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def examples() -> list[tuple]:
    """A short sentence, the longest that fits, one word without links, and one of two links for a word."""
    long = phrases.generate(1, seed=0, min_len=16, max_len=16, part="test")[0]
    output = (*long.target, *["eingeschaltet"] * MOST)[: MOST - 1] + ("<eos>",)
    links = [(i, j) for i, j in long.alignment if j < MOST - 1]
    return [
        (SOURCE, OUTPUT, weights(7, 5), LINKS),
        (long.source, output, weights(MOST, 16, 1), links),
        (("yes",), ("ja", "<eos>"), [[1.0], [1.0]], None),
        (
            ("did", "not", "cross", "it"),
            ("hat", "nicht"),
            torch.tensor([[0.5, 0.5, 0, 0], [0, 1, 0, 0]]),
            [(0, 0), (2, 0)],
        ),
    ]


SETTINGS = [(0, 1, False), (0, 3, True), (0, 7, True), (1, 1, False), (1, 16, True), (1, 17, True), (2, 2, True),
            (3, 1, True), (3, 2, False)]  # fmt: skip


@pytest.fixture(scope="module")
def given() -> list[tuple]:
    return examples()


# ---- What Python computes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_numbers_are_those_of_the_step(given, setting):
    sentence, step, gold = setting
    source, output, table, links = given[sentence]
    result = AttentionSteps(given, *setting).compute()
    table = np.asarray(table)
    assert (result["source"], result["output"], result["step"]) == (list(source), list(output), step)
    np.testing.assert_allclose(result["weights"], table, atol=5.1e-5)
    np.testing.assert_allclose(result["row"], table[step - 1], atol=5.1e-5)
    named = [table[step - 1][i] for i in result["top"]]
    assert len(named) == min(3, len(source)) and sorted(named, reverse=True) == pytest.approx(named, abs=1e-4)
    assert sum(named) + result["rest"] == pytest.approx(1, abs=1e-3)
    right = [i for i, j in links or () if j == step - 1]
    assert result["linked"] == right
    assert result["on_gold"] == pytest.approx(sum(table[step - 1][i] for i in right), abs=2e-4)


def test_the_weight_on_gold_links_is_that_of_the_metric(given):
    steps = AttentionSteps(given)
    shares = []
    for step in range(1, 7):  # <eos> has no link
        steps.step = step
        shares.append(steps.compute()["on_gold"])
    assert np.mean(shares) == pytest.approx(metrics.attention_on_gold([weights(7, 5)], [LINKS]), abs=1e-4)


def test_the_largest_weights_are_the_links_of_the_metric(given):
    steps = AttentionSteps(given)
    best = []
    for step in range(1, 8):
        steps.step = step
        best.append((steps.compute()["top"][0], step - 1))
    assert sorted(best) == metrics.alignment_links(weights(7, 5), 7)


def test_other_kinds_of_numbers_give_the_same_explorer(given):
    table = weights(7, 5)
    pairs = [[int(i), np.int64(j)] for i, j in reversed(LINKS)]
    for kind in (table.tolist(), torch.tensor(table), [list(row) for row in table]):
        assert (
            AttentionSteps([(list(SOURCE), list(OUTPUT), kind, pairs)]).examples == AttentionSteps(given[:1]).examples
        )


def test_a_shorter_sentence_shows_its_last_step(given):
    steps = AttentionSteps(given, 1, 17)
    steps.sentence = 0
    assert steps.compute()["step"] == 7 and "Step 7 of 7" in steps.alt


GOOD = (("a", "b"), ("x",), [[0.4, 0.6]], [(1, 0)])


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (GOOD[:3], r"examples\[1\]: expected \(source, output, weights, links\)"),
        (("ab", *GOOD[1:]), r"examples\[1\]: source: expected a list of words, got 'ab'"),
        ((("a", ""), *GOOD[1:]), "source: expected a list of words"),
        ((("a", 1), *GOOD[1:]), "source: expected a list of words"),
        (((), *GOOD[1:]), r"source: number of words: expected an integer in \[1, 17\], got 0"),
        ((GOOD[0], ["x"] * 18, *GOOD[2:]), r"output: number of words: expected an integer in \[1, 17\], got 18"),
        ((*GOOD[:2], [[0.4], [0.6]], None), r"weights: expected shape \(T, S\) = \(1, 2\), got \(2, 1\)"),
        ((*GOOD[:2], [[0.4, 0.6], [1.0]], None), "weights: expected rows of 2 numbers"),
        ((*GOOD[:2], [["a", "b"]], None), "weights: expected rows of 2 numbers"),
        ((*GOOD[:2], [[0.4, float("nan")]], None), "weights: expected finite values"),
        (
            (*GOOD[:2], [[0.4, 0.5]], None),
            "weights: expected rows of numbers from 0 to 1 that sum to 1, .* 0.9 as a sum",
        ),
        ((*GOOD[:2], [[1.4, -0.4]], None), "weights: expected rows of numbers from 0 to 1"),
        ((*GOOD[:3], [(2, 0)]), r"links: position in source: expected an integer in \[0, 1\], got 2"),
        ((*GOOD[:3], [(0, 1)]), r"links: position in output: expected an integer in \[0, 0\], got 1"),
        ((*GOOD[:3], [(0.5, 0)]), "links: position in source: expected an integer"),
        ((*GOOD[:3], [(0, 0, 0)]), "links: expected pairs"),
    ],
)
def test_bad_examples_are_refused(example, message):
    with pytest.raises(ValueError, match=message):
        AttentionSteps([GOOD, example])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sentence": 4}, r"sentence: expected an integer in \[0, 3\], got 4"),
        ({"step": 0}, r"step: expected an integer in \[1, 7\], got 0"),
        ({"step": 8}, r"step: expected an integer in \[1, 7\], got 8"),
        ({"step": 1.5}, "step: expected an integer"),
        ({"gold": 1}, "gold: expected True or False, got 1"),
    ],
)
def test_bad_settings_are_refused(given, arguments, message):
    with pytest.raises(ValueError, match=message):
        AttentionSteps(given, **arguments)
    with pytest.raises(ValueError, match="examples: expected a list of at least one"):
        AttentionSteps([])


def test_settings_stay_in_range_later(given):
    steps = AttentionSteps(given)
    for name, value in (("sentence", 4), ("sentence", -1), ("step", 0), ("step", 18), ("examples", [])):
        with pytest.raises(traitlets.TraitError):
            setattr(steps, name, value)
    assert repr(steps) == "AttentionSteps(sentence=0, step=1, gold=False)"


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text(given):
    steps = AttentionSteps(given, 0, 3, True)
    explorer_page.gives_view_picture_and_text(steps, "AttentionSteps(sentence=0, step=3, gold=True)")


def test_png_is_the_same_each_time_and_follows_the_settings(given):
    first = AttentionSteps(given).png()
    assert AttentionSteps(given).png() == first and len(first) < 150_000
    for setting in ((1, 1), (0, 2), (0, 1, True)):
        assert AttentionSteps(given, *setting).png() != first, setting


@pytest.mark.parametrize("setting", SETTINGS)
def test_png_has_the_weights_and_the_gold_boxes(given, setting):
    steps = AttentionSteps(given, *setting)
    result = steps.compute()
    left, right = steps.figure().axes
    assert [bar.get_width() for bar in left.patches] == result["row"]
    np.testing.assert_array_equal(right.images[0].get_array(), result["weights"])
    boxes = [patch for patch in right.patches if patch.get_width() == 1 and patch.get_linewidth() < 2]
    assert len(boxes) == (len(result["links"] or []) if steps.gold else 0)
    assert right.patches[-1].get_y() == result["step"] - 1.5


def test_alt_says_what_the_picture_shows():
    table = [[0.7, 0.2, 0.05, 0.05], [0.1, 0.2, 0.3, 0.4]]
    example = (("did", "not", "cross", "it"), ("hat", "nicht"), table, [(0, 0), (2, 0)])
    assert AttentionSteps([example]).alt == (
        "Step 1 of 2 writes “hat”, looking most at “did” (0.70). Written so far: nothing yet. "
        "Weights: did (1) 0.70, not (2) 0.20, cross (3) 0.05, the other word 0.05. "
        "Heat map: all 2 steps (rows) over 4 source words (columns)."
    )
    with_gold = AttentionSteps([example], gold=True)
    assert "Gold alignment: did (1) and cross (3), with 0.75 of the weight." in with_gold.alt
    with_gold.step = 2
    assert "Written so far: hat." in with_gold.alt and "Gold alignment: this word has no link." in with_gold.alt
    assert "none given" in AttentionSteps([(*example[:3], None)], gold=True).alt


def test_state_is_small_and_needs_nothing_from_elsewhere(given):
    explorer_page.stands_alone(AttentionSteps([given[1]] * 6), 60_000)


def test_colors_of_the_drawings_are_those_of_the_course():
    (line,) = re.findall(r"^const COLORS = .*$", _read("draw.js"), re.MULTILINE)
    assert dict(re.findall(r'(\w+): "(#\w+)"', line)) == {name: COLORS[name] for name in ("query", "key", "value")}


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def test_browser_and_python_say_and_compute_the_same(show, given):
    page = show(AttentionSteps(given))
    for setting in SETTINGS:
        steps = AttentionSteps(given, *setting)
        set_to(page, AttentionSteps, setting)
        got = page.evaluate("view.compute(model)")
        for name, value in steps.compute().items():
            if isinstance(value, float):
                assert got[name] == pytest.approx(value, abs=1e-12), name
            else:
                assert got[name] == value, name
        assert said(page) == steps.alt, setting


def test_bars_and_cells_are_as_large_as_the_weights(show, given):
    page = show(AttentionSteps(given, 0, 3))
    result = AttentionSteps(given, 0, 3).compute()
    widths = np.array([float(bar.get_attribute("width")) for bar in page.locator("svg rect.weight").all()])
    np.testing.assert_allclose(widths / widths.sum(), result["row"], atol=1e-3)
    shades = [[float(cell.get_attribute("fill-opacity")) for cell in line.locator("rect").all()]
              for line in page.locator("svg g.step").all()]  # fmt: skip
    assert shades == result["weights"]
    fills = page.evaluate(
        "[...document.querySelectorAll('rect.weight, g.step rect')].map(r => getComputedStyle(r).fill)"
    )
    assert set(fills) == {"rgb(230, 159, 0)"}
    opacities = [group.get_attribute("opacity") for group in page.locator("svg g.step > g").all()]
    assert opacities == ["1"] * 3 + ["0.35"] * 4  # what is still to come is pale


def test_the_row_of_this_step_is_framed(show, given):
    page = show(AttentionSteps(given, 0, 1))
    for step in (1, 4, 7):
        change(page, step=step)
        now = page.locator("rect.now").bounding_box()
        row = page.locator("svg g.step").nth(step - 1).locator("rect").first.bounding_box()
        assert now["y"] < row["y"] and now["y"] + now["height"] > row["y"] + row["height"]
        assert now["height"] < 1.5 * row["height"]
        assert "0, 114, 178" in page.locator("rect.now").evaluate("r => getComputedStyle(r).stroke")


def test_gold_is_hidden_until_asked_for_and_drawn_where_it_belongs(show, given):
    page = show(AttentionSteps(given, 0, 3))
    assert page.locator("rect.gold").count() == 0 and "Gold" not in page.locator(".numbers").inner_text()
    page.get_by_role("checkbox").press("Space")
    frame(page)
    boxes = [box.bounding_box() for box in page.locator("rect.gold").all()]
    assert len(boxes) == len(LINKS) + 1  # the cells, and one source word
    lines = page.locator("svg g.step").all()
    for (i, j), box in zip(LINKS, boxes[1:], strict=True):
        cell = lines[j].locator("rect").nth(i).bounding_box()
        assert cell["x"] < box["x"] + box["width"] / 2 < cell["x"] + cell["width"]
        assert cell["y"] < box["y"] + box["height"] / 2 < cell["y"] + cell["height"]
    word = page.locator("svg text", has_text="crossed").bounding_box()
    assert boxes[0]["x"] < word["x"] and boxes[0]["y"] - 4 < word["y"] < boxes[0]["y"] + boxes[0]["height"]
    assert page.locator("rect.gold").first.evaluate("r => getComputedStyle(r).stroke") == "rgb(34, 34, 34)"
    assert "Gold alignment: crossed (3), with" in page.locator(".numbers").inner_text()


def test_gold_cannot_be_asked_for_where_there_is_none(show, given):
    page = show(AttentionSteps(given))
    assert page.get_by_role("checkbox").is_enabled()
    change(page, sentence=2)
    assert page.get_by_role("checkbox").is_disabled()
    change(page, sentence=0)
    assert page.get_by_role("checkbox").is_enabled()


def test_buttons_and_arrow_keys_step_through_the_sentence_and_stop_at_its_ends(show, given):
    page = show(AttentionSteps(given))
    on, back = page.get_by_role("button", name="next step"), page.get_by_role("button", name="back")
    slider = page.get_by_role("slider", name="decoder step")
    words = []
    for _ in range(8):
        frame(page)
        words.append(page.locator(".finding span").first.inner_text())
        on.press("Enter")
    assert words == [*OUTPUT, "<eos>"]
    assert slider.get_attribute("aria-valuetext") == "7 of 7" and slider.input_value() == "7"
    assert page.evaluate("model.get('step')") == 7
    back.press("Space")
    slider.press("ArrowLeft")
    frame(page)
    assert page.evaluate("model.get('step')") == 5
    assert "Written so far: die katze hat eine" in page.locator("p", has_text="Written").inner_text()
    slider.press("Home")
    back.press("Enter")
    frame(page)
    assert page.evaluate("model.get('step')") == 1 and "nothing yet" in page.locator(".finding + p").inner_text()


def test_another_sentence_starts_at_its_first_step(show, given):
    page = show(AttentionSteps(given, 1, 12))
    slider, menu = page.get_by_role("slider"), page.get_by_role("combobox", name="sentence")
    assert slider.get_attribute("max") == "17"
    menu.select_option(label="1. the cat crossed a street")
    frame(page)
    assert page.evaluate("['sentence', 'step'].map(n => model.get(n))") == [0, 1]
    assert (slider.get_attribute("max"), slider.input_value()) == ("7", "1")
    change(page, sentence=3, step=9)  # set from Python, beyond the end
    assert slider.get_attribute("aria-valuetext") == "2 of 2" and "Step 2 of 2" in said(page)
    page.get_by_role("button", name="back").press("Enter")
    assert page.evaluate("model.get('step')") == 1


def test_every_control_is_reached_by_tab_in_reading_order(show, given):
    names = explorer_page.reached_by_tab(show(AttentionSteps(given)))
    assert names == ["sentence", "decoder step", "← back", "next step →", "show gold alignment"]


def test_title_reads_like_the_alt_text_and_the_numbers_are_announced(show, given):
    page = show(AttentionSteps(given, 1, 9, True))
    quoted = page.locator(".finding").evaluate(
        "p => [...p.childNodes].map(n => n.nodeType === 3 ? n.data : `“${n.textContent}”`).join('')"
    )
    alt = AttentionSteps(given, 1, 9, True).alt
    assert alt.startswith(quoted + ".")
    assert page.locator("[aria-live=polite]").inner_text() in alt


def test_nothing_is_cut_or_overlaps(show, given):
    page = show(AttentionSteps(given))
    explorer_page.nothing_is_cut(page, AttentionSteps, SETTINGS, (390, 600, 799, 800, 1000, 1168, 1200))


def test_fits_a_slide_under_its_heading(show, given):
    page = show(AttentionSteps(given))
    for setting in SETTINGS:
        set_to(page, AttentionSteps, setting)
        assert page.evaluate("el.getBoundingClientRect().height") <= 560, setting


def test_closing_a_view_removes_its_listeners(show, given):
    explorer_page.closing_removes_listeners(show(AttentionSteps(given)))
