"""The explorer of masks: its rules against masks made otherwise, its weights and polarities against torch, the view."""

import math

import numpy as np
import pytest
import torch
import traitlets
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer_page
from course_utils import attention, corpora
from course_utils.explorers import MaskBuilder
from course_utils.explorers.mask_builder import KINDS, MOST, SENTENCES
from explorer_page import change, frame, said, set_to

SETTINGS = [
    ("decoder", 1, 8, 8, True, True, 0, [], 2),
    ("decoder", 1, 8, 8, True, True, 0, [[2, 3]], 2),  # one look at what comes later
    ("decoder", 0, 8, 8, False, True, 0, [], 7),  # many
    ("decoder", 1, 8, 8, True, True, 2, [], 7),  # one query without keys
    ("decoder", 2, 8, 8, True, True, 2, [], 2),  # three of them
    ("decoder", 1, 2, 6, True, True, 0, [], 5),  # the last two queries of six tokens
    ("encoder", 1, 8, 8, False, False, 0, [[0, 0], [7, 7]], 0),
    ("encoder", 0, 8, 8, False, True, 3, [], 4),
    ("cross", 2, 5, 8, True, True, 1, [], 1),
    ("cross", 1, 8, 7, False, False, 0, [[3, 3], [7, 7]], 1),
    ("encoder", 0, 1, 1, True, True, 1, [], 0),
    ("decoder", 0, 3, 1, True, True, 0, [[0, 0]], 7),
]
CELLS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=5, unique=True)
ANY = st.builds(
    MaskBuilder, st.sampled_from(KINDS), st.integers(0, 2), st.integers(1, 8), st.integers(1, 8), st.booleans(),
    st.booleans(), st.integers(0, 7), CELLS, st.integers(0, 7),
)  # fmt: skip


def rule(builder: MaskBuilder) -> torch.Tensor:
    """The mask without what was done by hand, made of the course's masks and a band."""
    source, target = (text.split() for text in SENTENCES[builder.sentence])
    words = (target if builder.kind == "decoder" else source)[: builder.S]
    mask = torch.ones(builder.S, builder.S, dtype=torch.bool)
    if builder.kind != "cross":
        mask &= attention.causal_mask(builder.S) if builder.causal else mask
        if builder.window:
            mask &= torch.ones_like(mask).triu(1 - builder.window) & torch.ones_like(mask).tril(builder.window - 1)
        mask = mask[max(builder.S - builder.T, 0) :]
    else:
        mask = mask[:1].repeat(builder.T, 1)
    ids = torch.tensor([[5] * len(words) + [corpora.PAD] * (builder.S - len(words))])
    return mask & attention.padding_mask(ids)[0] if builder.padding else mask


# ---- What Python computes ---------------------------------------------------------------------------------------


@settings(deadline=None)
@given(builder=ANY)
def test_the_mask_is_that_of_the_courses_functions_and_clicks_turn_cells_round(builder):
    expected = rule(builder).numpy().copy()
    for t, s in builder.toggled:
        if t < expected.shape[0] and s < expected.shape[1]:
            expected[t, s] = not expected[t, s]
    result = builder.compute()
    np.testing.assert_array_equal(result["mask"], expected)
    assert (len(result["queries"]), len(result["keys"])) == expected.shape
    assert result["empty"] == [t for t, row in enumerate(expected) if not any(row)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_weights_and_both_polarities_are_torchs(setting):
    """With K = S, v = 1 and q k^T / √K = the scores, the output of torch's attention is the weights themselves."""
    builder = MaskBuilder(*setting)
    result = builder.compute()
    mask, weights = torch.tensor(result["mask"]), torch.tensor(result["weights"], dtype=torch.float64)
    T, S = mask.shape
    first = 0 if builder.kind == "cross" else S - T
    scores = torch.tensor(builder.scores, dtype=torch.float64)[first : first + T, :S]
    eye = torch.eye(S, dtype=torch.float64)
    some = mask.any(dim=1)
    fused = torch.nn.functional.scaled_dot_product_attention(scores, eye, eye, attn_mask=mask, scale=1)
    torch.testing.assert_close(weights[some], fused[some])
    heads = torch.nn.MultiheadAttention(S, 1, bias=False, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        heads.in_proj_weight.copy_(torch.cat([eye * math.sqrt(S), eye, eye]))
        heads.out_proj.weight.copy_(eye)
        _, theirs = heads(scores[None], eye[None], eye[None], attn_mask=~mask)
    torch.testing.assert_close(weights[some], theirs[0][some])
    assert not weights[~some].any()
    assert torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1)[~some].isnan().all()
    signs = builder.alt.split("SDPA (True = attend) ")[1].split(", MultiheadAttention (True = ignore) ")
    attend, ignore = ([letter == "T" for letter in part.rstrip(".").split()] for part in signs)
    assert attend == result["mask"][result["row"]] == [not may for may in ignore]


@settings(deadline=None)
@given(builder=ANY)
def test_there_is_a_leak_where_another_later_token_changes_a_decoders_weights(builder):
    """What a query gets depends on a later key exactly where the cell is named as a leak."""
    result = builder.compute()
    found = []
    if builder.kind == "decoder":
        T, S = np.shape(result["mask"])
        scores = np.array(builder.scores)[S - T : S, :S]
        for t in range(T):
            for s in range(S - T + t + 1, S):
                changed = scores.copy()
                changed[t, s] += 3
                values = np.random.default_rng(0).standard_normal((2, S))
                values[1] = np.where(np.arange(S) == s, values[0] + 1, values[0])
                before = attention.softmax(scores, mask=np.array(result["mask"]))[t] @ values[0]
                after = attention.softmax(changed, mask=np.array(result["mask"]))[t] @ values[1]
                found += [[t, s]] * bool(before != after)
    assert result["leaks"] == found
    assert ("Leak" in builder.alt) == bool(found)


def test_rules_alone_never_leak_and_without_the_causal_one_they_do():
    for sentence in range(3):
        for T in range(2, 9):
            assert not MaskBuilder("decoder", sentence, T, 8).compute()["leaks"]
            assert MaskBuilder("decoder", sentence, T, 8, causal=False, padding=False).compute()["leaks"]
    assert not MaskBuilder("encoder", 0, causal=False).compute()["leaks"]


def test_hidden_padding_gets_no_weight_and_open_padding_does():
    for kind in KINDS:
        hidden = MaskBuilder(kind, 1, causal=False).compute()
        assert hidden["on_pads"] == [0] * 8
        opened = MaskBuilder(kind, 1, causal=False, padding=False).compute()
        expected = [
            sum(w for w, key in zip(row, opened["keys"]) if key == "<pad>") * (query != "<pad>")
            for row, query in zip(opened["weights"], opened["queries"], strict=True)
        ]
        assert opened["on_pads"] == pytest.approx(expected) and max(expected) > 0.2


def test_settings_without_meaning_change_nothing():
    plain = MaskBuilder("cross").compute()
    assert MaskBuilder("cross", causal=False, window=1).compute() == plain
    assert MaskBuilder("decoder", T=8, S=5).compute() == MaskBuilder("decoder", T=5, S=5).compute()
    assert MaskBuilder("decoder", T=5, S=5, toggled=[(6, 0)]).compute() == MaskBuilder("decoder", T=5, S=5).compute()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "self"}, "kind: expected one of encoder, decoder, cross, got 'self'"),
        ({"sentence": 3}, r"sentence: expected an integer in \[0, 2\], got 3"),
        ({"T": 0}, r"T: expected an integer in \[1, 8\], got 0"),
        ({"S": 9}, r"S: expected an integer in \[1, 8\], got 9"),
        ({"causal": 1}, "causal: expected True or False, got 1"),
        ({"padding": None}, "padding: expected True or False, got None"),
        ({"window": 8}, r"window: expected an integer in \[0, 7\], got 8"),
        ({"toggled": [(1, 2, 3)]}, r"toggled: expected pairs \(query, key\), got \(1, 2, 3\)"),
        ({"toggled": [(8, 0)]}, r"toggled: query: expected an integer in \[0, 7\], got 8"),
        ({"toggled": [(0, -1)]}, r"toggled: key: expected an integer in \[0, 7\], got -1"),
        ({"row": 8}, r"row: expected an integer in \[0, 7\], got 8"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MaskBuilder(**arguments)


def test_settings_stay_in_range_later():
    builder = MaskBuilder()
    for name, value in (("kind", "self"), ("T", 9), ("S", 0), ("window", -1), ("toggled", [[0, 8]]), ("scores", [])):
        with pytest.raises(traitlets.TraitError):
            setattr(builder, name, value)


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text():
    text = (
        "MaskBuilder(kind='cross', sentence=0, T=3, S=4, causal=True, padding=True, window=0, toggled=[[1, 2]], row=2)"
    )
    explorer_page.gives_view_picture_and_text(MaskBuilder("cross", 0, 3, 4, toggled=[(1, 2)]), text)


def test_png_is_the_same_each_time_and_has_the_computed_numbers():
    first = MaskBuilder().png()
    assert MaskBuilder().png() == first and len(first) < 150_000
    for setting in SETTINGS:
        builder = MaskBuilder(*setting)
        result = builder.compute()
        left, right = builder.figure().axes
        np.testing.assert_array_equal(left.images[0].get_array(), result["mask"])
        np.testing.assert_array_equal(right.images[0].get_array(), result["weights"])
        assert sum(label.get_text() == "!" for label in left.texts) == len(result["leaks"])


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "Each query may attend to 1 to 6 of 8 keys. Keys: 1 <bos>, 2 die, 3 katze,"),
        (1, "Leak: query 3 “katze” sees key 4 “überquerte”, which comes later."),
        (2, "Leak: 28 cells let a query see a key that comes later."),
        (3, "Query 8 “<pad>” may attend to nothing: its weights are zeros."),
        (4, "3 queries may attend to nothing: their weights are zeros."),
        (6, "Query 2 “cat” gives 0.52 of its weight to <pad>."),
        (8, "Each query may attend to 3 of 8 keys."),
    ],
)
def test_alt_names_what_matters_most(number, words):
    assert MaskBuilder(*SETTINGS[number]).alt.startswith(words)


def test_alt_lists_the_mask():
    alt = MaskBuilder(T=2, S=3, padding=False, window=1, toggled=[(1, 2)], row=0).alt
    assert "Which query attends to which keys: 1 to 2; 2 to nothing." in alt
    assert alt.endswith("Query 1 in torch: SDPA (True = attend) F T F, MultiheadAttention (True = ignore) T F T.")


def test_state_is_small_and_needs_nothing_from_elsewhere():
    explorer_page.stands_alone(MaskBuilder(), 50_000)


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def cell(page, t: int, s: int):
    return page.get_by_role("row").nth(t + 1).get_by_role("gridcell").nth(s)


def test_browser_and_python_say_and_compute_the_same(show):
    page = show(MaskBuilder())
    for setting in SETTINGS:
        builder = MaskBuilder(*setting)
        set_to(page, MaskBuilder, setting)
        got = page.evaluate("view.compute(model)")
        for name, value in builder.compute().items():
            if name in ("weights", "on_pads"):
                np.testing.assert_allclose(got[name], value, atol=1e-12, err_msg=name)
            else:
                assert got[name] == value, (setting, name)
        assert said(page) == builder.alt, setting
        assert builder.alt.startswith(page.locator(".finding").inner_text() + ".")
        assert builder.alt.endswith(page.locator(".numbers").inner_text() + ".")


@pytest.mark.parametrize("setting", SETTINGS)
def test_table_and_cells_show_mask_leaks_and_weights(show, setting):
    page = show(MaskBuilder(*setting))
    result = MaskBuilder(*setting).compute()
    T, S = np.shape(result["mask"])
    cells = page.evaluate(
        "[...document.querySelectorAll('td')].map(c => [c.textContent, c.ariaSelected === 'true', c.ariaLabel])"
    )
    assert [may for _, may, _ in cells] == [may for row in result["mask"] for may in row]
    assert [(n // S, n % S) for n, (sign, _, _) in enumerate(cells) if sign == "!"] == [
        (*at,) for at in result["leaks"]
    ]
    hidden, leak = (sum(said in label for _, _, label in cells) for said in (": hidden", "but comes later"))
    assert (hidden, leak) == (sum(not may for _, may, _ in cells), len(result["leaks"]))
    assert cells[-1][2].startswith(f"query {T} {result['queries'][-1]}, key {S} {result['keys'][-1]}: ")
    shades = [float(rect.get_attribute("fill-opacity")) for rect in page.locator("rect.weight").all()]
    np.testing.assert_allclose(shades, np.ravel(result["weights"]))
    assert page.locator("rect.leak").count() == len(result["leaks"])
    assert page.locator("rect.weight").first.evaluate("r => getComputedStyle(r).fill") == "rgb(230, 159, 0)"


def test_cells_of_both_panels_stand_side_by_side(show):
    page = show(MaskBuilder())
    for t, s in ((0, 0), (3, 5), (7, 7)):
        left, right = (
            cell(page, t, s).bounding_box(),
            page.locator("g.row").nth(t).locator("rect").nth(s).bounding_box(),
        )
        assert right["y"] == pytest.approx(left["y"], abs=3) and right["width"] == pytest.approx(left["width"], abs=2)


def test_a_click_turns_a_cell_round_and_back(show):
    page = show(MaskBuilder())
    for toggled, leak in (([[2, 4]], True), ([], False)):
        cell(page, 2, 4).click()
        frame(page)
        assert page.evaluate("model.get('toggled')") == toggled
        assert ("Leak" in page.locator(".finding").inner_text()) == leak
    cell(page, 5, 0).click()
    frame(page)
    assert page.evaluate("[model.get('toggled'), model.get('row')]") == [[[5, 0]], 5]
    assert "Query 6 in torch: SDPA (True = attend) F T" in page.locator(".numbers").inner_text()


def test_the_table_is_one_stop_of_the_tab_key_and_arrows_move_in_it(show):
    page = show(MaskBuilder())
    assert page.locator("td[tabindex='0']").count() == 1
    page.get_by_role("button", name="undo clicks").focus()
    page.keyboard.press("Tab")
    where = "() => { const c = document.activeElement; return [c.parentNode.rowIndex - 1, c.cellIndex - 1]; }"
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(where) == [0, 0] and page.evaluate(outline) == "solid"
    for key, place in (("ArrowDown", [1, 0]), ("ArrowRight", [1, 1]), ("ArrowUp", [0, 1]), ("ArrowUp", [0, 1]),
                       ("End", [0, 7]), ("ArrowRight", [0, 7]), ("Home", [0, 0]), ("ArrowLeft", [0, 0])):  # fmt: skip
        page.keyboard.press(key)
        frame(page)
        assert page.evaluate(where) == place, key
    page.keyboard.press("ArrowDown")
    for key, toggled in (("Space", [[1, 0]]), ("Enter", [])):
        page.keyboard.press(key)
        frame(page)
        assert page.evaluate("[model.get('toggled'), model.get('row')]") == [toggled, 1]
        assert page.evaluate(where) == [1, 0]  # the focus stays through the redraw
    assert page.locator("td[tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") != "TD"
    assert page.locator("table").get_attribute("data-lm-suppress-shortcuts") == "true"


def test_keys_in_the_table_stay_there(show):
    page = show(MaskBuilder())
    page.evaluate("() => { window.keys = []; document.addEventListener('keydown', e => window.keys.push(e.key)); }")
    cell(page, 0, 0).focus()
    for key in ("ArrowRight", "Space", "Tab"):
        page.keyboard.press(key)
    assert page.evaluate("window.keys") == ["Tab"]


def test_a_smaller_table_keeps_its_stop(show):
    page = show(MaskBuilder())
    cell(page, 7, 7).click()
    change(page, S=3)
    assert page.locator("td").count() == 9 and page.locator("td[tabindex='0']").count() == 1
    assert page.locator("td").last.get_attribute("tabindex") == "0"


def test_sliders_and_menus_by_keyboard(show):
    page = show(MaskBuilder())
    page.get_by_role("slider", name="queries T").press("ArrowLeft")
    page.get_by_role("slider", name="window").press("ArrowRight")
    page.get_by_role("checkbox", name="causal").press("Space")
    frame(page)
    assert page.evaluate("['T', 'window', 'causal'].map(n => model.get(n))") == [MOST - 1, 1, False]
    page.get_by_role("combobox", name="attention").select_option(label="cross")
    frame(page)
    assert page.get_by_role("checkbox", name="causal").is_disabled()
    assert page.get_by_role("slider", name="window").is_disabled()
    page.get_by_role("combobox", name="attention").select_option(label="encoder, self")
    assert page.get_by_role("slider", name="window").is_enabled()


@pytest.mark.parametrize(
    ("name", "title", "why"),
    [
        ("causal and padding", "Each query may attend to 1 to 6", "predicts the token after it"),
        ("leak", "Leak: query 3 “katze” sees key 4", "isn't there yet"),
        ("fully masked", "Query 8 “<pad>” may attend to nothing", "torch.softmax of such a row is NaN"),
        ("see the padding", "of its weight to <pad>", "how long the others in its batch are"),
    ],
)
def test_things_to_try_do_what_they_say(show, name, title, why):
    page = show(MaskBuilder("cross", 2, 3, 4, False, False, 3, [[0, 0]]))
    page.get_by_role("button", name=name, exact=True).press("Enter")
    frame(page)
    assert title in page.locator(".finding").inner_text()
    assert why in page.locator(".finding + p").inner_text()


def test_every_control_is_reached_by_tab_in_reading_order(show):
    assert explorer_page.reached_by_tab(show(MaskBuilder())) == [
        "queries T", "keys S", "window", "attention", "sentence", "causal", "hide <pad>",
        "causal and padding", "leak", "fully masked", "see the padding", "undo clicks",
    ]  # fmt: skip


def test_nothing_is_cut_or_overlaps(show):
    explorer_page.nothing_is_cut(show(MaskBuilder()), MaskBuilder, SETTINGS, (390, 600, 699, 700, 1000, 1168, 1200))


def test_fits_a_slide_under_its_heading(show):
    page = show(MaskBuilder())
    for setting in SETTINGS:
        set_to(page, MaskBuilder, setting)
        assert page.evaluate("el.getBoundingClientRect().height") <= 560, setting


def test_closing_a_view_removes_its_listeners(show):
    explorer_page.closing_removes_listeners(show(MaskBuilder()))
