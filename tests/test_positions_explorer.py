"""The explorer of sinusoidal positions: its table, dot products and rotation against other computations, the view."""

import base64
import io
import math

import numpy as np
import pytest
import traitlets
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

import explorer_page
from course_utils.explorers import Positions
from course_utils.positions import sinusoidal_positions
from explorer_page import change, frame, said, set_to

SETTINGS = [
    (10, 6, 32, 3),
    (0, 0, 4, 0),
    (63, 64, 64, 31),
    (5, 64, 16, 0),
    (31, 17, 6, 2),
    (20, 1, 62, 30),
    (1, 3, 8, 0),
]
ANY = st.builds(
    lambda p, k, half, pair: Positions(p, k, 2 * half, min(pair, half - 1)),
    st.integers(0, 63), st.integers(0, 64), st.integers(2, 32), st.integers(0, 31),
)  # fmt: skip


# ---- What Python computes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_table_is_that_of_the_course(setting):
    explorer = Positions(*setting)
    table = explorer.compute()["table"]
    np.testing.assert_allclose(table, sinusoidal_positions(128, explorer.D), atol=2e-5)


@settings(deadline=None)
@given(explorer=ANY)
def test_the_dot_product_is_the_sum_of_cosines_at_every_place(explorer):
    result = explorer.compute()
    omegas = [10_000 ** (-2 * i / explorer.D) for i in range(explorer.D // 2)]
    expected = [sum(math.cos(k * omega) for omega in omegas) for k in range(65)]
    np.testing.assert_allclose(result["dots"], expected, atol=1e-9)
    assert result["dot"] == pytest.approx(result["at_zero"], abs=1e-9)
    assert result["dot"] == pytest.approx(expected[explorer.k], abs=1e-9)


@settings(deadline=None)
@given(explorer=ANY)
def test_the_rotation_takes_the_pair_from_each_place_to_that_k_further_on(explorer):
    result = explorer.compute()
    pairs = result["table"][:, 2 * result["pair"] : 2 * result["pair"] + 2]
    np.testing.assert_allclose(pairs[: 128 - explorer.k] @ result["rotation"].T, pairs[explorer.k :], atol=1e-9)
    np.testing.assert_allclose(result["rotation"] @ result["before"], result["after"], atol=1e-9)
    np.testing.assert_allclose(result["rotation"] @ result["rotation"].T, np.eye(2), atol=1e-12)


def test_a_place_moved_with_the_same_distance_changes_the_arrows_and_not_the_numbers():
    near, far = Positions(3, 9).compute(), Positions(50, 9).compute()
    assert near["dot"] == pytest.approx(far["dot"], abs=1e-10)
    np.testing.assert_allclose(near["rotation"], far["rotation"])
    assert abs(near["before"] - far["before"]).max() > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 64}, r"p: expected an integer in \[0, 63\], got 64"),
        ({"k": -1}, r"k: expected an integer in \[0, 64\], got -1"),
        ({"D": 66}, r"D: expected an integer in \[4, 64\], got 66"),
        ({"D": 7}, "D: expected an even number, two for each pair, got 7"),
        ({"pair": 16}, r"pair: expected an integer in \[0, 15\], got 16"),
        ({"p": 1.5}, "p: expected an integer"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Positions(**arguments)


def test_settings_stay_in_range_later():
    explorer = Positions()
    for name, value in (("p", 64), ("k", 65), ("D", 5), ("D", 66), ("pair", 32)):
        with pytest.raises(traitlets.TraitError):
            setattr(explorer, name, value)
    explorer.D = 4  # of a smaller D the last pair is shown
    assert explorer.compute()["pair"] == 1


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text():
    explorer_page.gives_view_picture_and_text(Positions(2, 3, 8, 1), "Positions(p=2, k=3, D=8, pair=1)")


def test_png_is_the_same_each_time_and_has_the_computed_numbers():
    first = Positions().png()
    assert Positions().png() == first and len(first) < 200_000
    for setting in SETTINGS:
        explorer = Positions(*setting)
        result = explorer.compute()
        left, middle, right = explorer.figure().axes
        np.testing.assert_array_equal(left.images[0].get_array(), result["table"])
        np.testing.assert_array_equal(middle.get_lines()[0].get_ydata(), result["dots"])
        for arrow, name in zip(right.get_lines()[1:], ("before", "after"), strict=True):
            assert (arrow.get_ydata()[1], arrow.get_xdata()[1]) == tuple(result[name])


def test_alt_names_the_finding():
    alt = Positions(10, 6, 32, 3).alt
    assert alt.startswith(
        "At distance 6 the dot product is 11.89, at every place. PE(10) · PE(16) = 11.89, PE(0) · PE(6) = 11.89. "
        "Pair 3 turns by 61.1°, from (0.98, -0.21) at place 10 to (0.29, -0.96) at place 16."
    )
    assert "Pair 0 turns by 3666.9°, which is 66.9° after full turns" in Positions(5, 64, 16, 0).alt
    assert Positions(5, 0, 16).alt.startswith("At distance 0 the dot product is D/2 = 8, at every place.")


def test_state_is_small_and_needs_nothing_from_elsewhere():
    explorer_page.stands_alone(Positions(), 50_000)


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def test_browser_and_python_say_and_compute_the_same(show):
    page = show(Positions())
    for setting in SETTINGS:
        explorer = Positions(*setting)
        set_to(page, Positions, setting)
        got = page.evaluate("view.compute(model)")
        for name, value in explorer.compute().items():
            np.testing.assert_allclose(got[name], value, atol=1e-10, err_msg=f"{setting} {name}")
        assert said(page) == explorer.alt, setting
        assert explorer.alt.startswith(page.locator(".finding").inner_text().replace("\N{MINUS SIGN}", "-") + ".")


def test_moving_the_place_alone_leaves_the_curve_and_the_number(show):
    page = show(Positions())

    def seen():
        return [page.locator("path.dots").get_attribute("d"), page.locator(".finding").inner_text()]

    before, arrow = seen(), page.locator("line.before").get_attribute("x2")
    page.get_by_role("slider", name="place p").press("ArrowRight")
    frame(page)
    assert page.evaluate("model.get('p')") == 11
    assert seen()[1] == before[1] and page.locator("line.before").get_attribute("x2") != arrow
    heights = [[float(point.split(",")[1]) for point in path[1:].split("L")] for path in (before[0], seen()[0])]
    np.testing.assert_allclose(*heights, atol=0.11)  # a tenth of a pixel
    page.get_by_role("slider", name="distance k").press("ArrowRight")
    frame(page)
    assert page.locator(".finding").inner_text() != before[1]


def test_marks_lie_where_the_numbers_say(show):
    page = show(Positions(20, 30, 16, 2))
    result = Positions(20, 30, 16, 2).compute()
    circle = page.locator("circle.radius").evaluate("c => [c.cx, c.cy, c.r].map(v => v.baseVal.value)")
    for name in ("before", "after"):
        tip = [float(page.locator(f"line.{name}").get_attribute(end)) for end in ("x2", "y2")]
        sine, cosine = (circle[1] - tip[1]) / circle[2], (tip[0] - circle[0]) / circle[2]
        assert (sine, cosine) == pytest.approx(tuple(result[name]), abs=1e-6)
    high = [float(mark.get_attribute("y1")) for mark in page.locator("line.place").all()]
    height = float(page.locator("svg image").get_attribute("height"))
    assert high == pytest.approx([height * 20.5 / 128, height * 50.5 / 128])
    strokes = page.evaluate(
        "[...document.querySelectorAll('line.place, line.before, line.after')].map(l => getComputedStyle(l).stroke)"
    )
    assert strokes == ["rgb(0, 114, 178)", "rgb(230, 159, 0)"] * 2  # p is blue, q orange


def test_the_image_has_a_pixel_for_each_number(show):
    page = show(Positions(D=16))
    for D in (16, 8):
        change(page, D=D)
        url = page.locator("svg image").get_attribute("href")
        pixels = imread(io.BytesIO(base64.b64decode(url.split(",")[1])), format="png")  # (128, D, 4)
        table = sinusoidal_positions(128, D).numpy()
        np.testing.assert_allclose(pixels[..., 3], abs(table), atol=0.003)
        strong = abs(table) > 0.2
        assert ((pixels[..., 2] > pixels[..., 1] + 0.1) == (table > 0))[strong].all()  # purple, else gray


def test_sliders_by_keyboard_keep_to_what_there_is(show):
    page = show(Positions(D=8, pair=3))
    pair, width = (page.get_by_role("slider", name=name) for name in ("pair i", "width D"))
    assert pair.get_attribute("max") == "3"
    pair.press("ArrowRight")
    assert page.evaluate("model.get('pair')") == 3
    width.press("ArrowRight")
    frame(page)
    assert page.evaluate("model.get('D')") == 10 and pair.get_attribute("max") == "4"
    for key, D in (("Home", 4), ("End", 64)):
        width.press(key)
        frame(page)
        Positions(D=page.evaluate("model.get('D')"), pair=1)  # Python accepts what the browser sends
        assert page.evaluate("model.get('D')") == D
    assert pair.get_attribute("aria-valuetext").startswith("3, ω = ")


@pytest.mark.parametrize(("name", "values"), [("same place", {"k": 0}), ("fastest pair", {"pair": 0})])
def test_things_to_try_do_what_they_say(show, name, values):
    page = show(Positions())
    page.get_by_role("button", name=name).press("Enter")
    frame(page)
    assert page.evaluate("names => names.map(n => model.get(n))", list(values)) == list(values.values())
    page.get_by_role("button", name="slowest pair").press("Enter")
    frame(page)
    assert page.evaluate("view.compute(model).pair") == 15 and "Pair 15 turns by" in said(page)


def test_every_control_is_reached_by_tab_in_reading_order(show):
    assert explorer_page.reached_by_tab(show(Positions())) == [
        "place p", "distance k", "width D", "pair i", "same place", "fastest pair", "slowest pair",
    ]  # fmt: skip


def test_nothing_is_cut_or_overlaps(show):
    explorer_page.nothing_is_cut(show(Positions()), Positions, SETTINGS, (390, 600, 999, 1000, 1168, 1200))


def test_fits_a_slide_under_its_heading(show):
    page = show(Positions())
    for setting in SETTINGS:
        set_to(page, Positions, setting)
        assert page.evaluate("el.getBoundingClientRect().height") <= 560, setting


def test_closing_a_view_removes_its_listeners(show):
    explorer_page.closing_removes_listeners(show(Positions()))
