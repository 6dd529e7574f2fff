"""The explorer of a soft dictionary: its numbers against independent ones, the browser's against Python's, the view."""

import math
import re

import numpy as np
import pytest
import torch
import traitlets
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer_page
from course_utils.explorers import SoftLookup
from course_utils.explorers.soft_lookup import ENTRIES, NAMES
from explorer_page import change, frame, said

SETTINGS = [
    (0.2, 0.3),
    (0.9, 0.01),  # between D and E: a tie at the lowest temperature
    (0.45, 0.01),
    (-3.0, 100.0),
    (3.0, 0.01),
    (0.0, 1.0),
    (1.35, 10.0),
    (-1.5, 0.0251),
]
KEYS, VALUES = (np.array(column) for column in zip(*ENTRIES.values(), strict=True))
QUERY, TEMPERATURE = st.floats(-3, 3), st.floats(0.01, 100)


# ---- What Python computes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_weights_and_output_equal_those_of_torchs_attention(setting):
    """Keys (k, -k²/2) and query (q, 1) have the dot product qk - k²/2, which is the score but for a constant."""
    q, tau = setting
    result = SoftLookup(*setting).compute()
    query = torch.tensor([[q, 1.0]], dtype=torch.float64)
    keys = torch.tensor(np.stack([KEYS, -(KEYS**2) / 2], axis=1))
    values = torch.tensor(np.stack([VALUES, KEYS], axis=1))
    output = torch.nn.functional.scaled_dot_product_attention(query, keys, values, scale=1 / tau)
    assert result["output"] == pytest.approx(output[0, 0].item(), abs=1e-12)
    assert result["weights"] @ KEYS == pytest.approx(output[0, 1].item(), abs=1e-12)


@pytest.mark.parametrize("setting", SETTINGS)
def test_curve_is_gaussian_kernel_regression(setting):
    """Densities of a normal distribution as the kernel, written out; far from all keys 0/0, where it isn't defined."""
    _, tau = setting
    result = SoftLookup(*setting).compute()
    kernel = torch.distributions.Normal(torch.tensor(KEYS), math.sqrt(tau))
    densities = kernel.log_prob(torch.tensor(result["queries"])[:, None]).exp().numpy()
    with np.errstate(invalid="ignore"):
        expected = densities @ VALUES / densities.sum(axis=1)
    seen = np.isfinite(expected)
    assert seen.mean() > 0.9
    np.testing.assert_allclose(result["curve"][seen], expected[seen], atol=1e-9)


@settings(deadline=None)
@given(q=QUERY, tau=TEMPERATURE)
def test_the_output_is_a_weighted_mean_on_the_curve(q, tau):
    result = SoftLookup(q, tau).compute()
    assert result["weights"].sum() == pytest.approx(1) and result["weights"].min() >= 0
    assert VALUES.min() - 1e-9 <= result["output"] <= VALUES.max() + 1e-9
    near = np.abs(result["queries"] - q).argmin()
    at_grid = SoftLookup(float(np.clip(result["queries"][near], -3, 3)), tau).compute()
    assert result["curve"][near] == pytest.approx(at_grid["output"], abs=1e-9)


@settings(deadline=None)
@given(q=QUERY)
def test_low_temperature_is_a_hard_lookup_and_high_the_mean(q):
    first, second = np.sort(np.abs(q - KEYS))[:2]
    nearest = VALUES[np.abs(q - KEYS).argmin()]
    if second**2 - first**2 > 0.2:  # then the scores are 10 apart
        assert SoftLookup(q, 0.01).compute()["output"] == pytest.approx(nearest, abs=1e-3)
    assert SoftLookup(q, 100).compute()["output"] == pytest.approx(VALUES.mean(), abs=0.03)


def test_a_query_at_equal_distance_takes_both_alike():
    weights = SoftLookup(0.9, 0.01).compute()["weights"]
    assert weights[3] == pytest.approx(0.5) and weights[4] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": 3.1}, r"query: expected a number in \[-3.0, 3.0\], got 3.1"),
        ({"query": math.nan}, "query: expected a number"),
        ({"query": "0"}, "query: expected a number"),
        ({"temperature": 0}, r"temperature: expected a number in \[0.01, 100.0\], got 0"),
        ({"temperature": 101}, "temperature: expected a number"),
        ({"temperature": True}, "temperature: expected a number"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SoftLookup(**arguments)


def test_settings_stay_in_range_later():
    lookup = SoftLookup()
    for name, value in (("query", 4), ("temperature", 0), ("entries", [])):
        with pytest.raises(traitlets.TraitError):
            setattr(lookup, name, value)
    assert repr(lookup) == "SoftLookup(query=0.2, temperature=0.3)"


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text():
    explorer_page.gives_view_picture_and_text(SoftLookup(0.5), "SoftLookup(query=0.5, temperature=0.3)")


def test_png_is_the_same_each_time_and_follows_the_settings():
    first = SoftLookup().png()
    assert SoftLookup().png() == first and len(first) < 150_000
    assert SoftLookup(0.3).png() != first and SoftLookup(temperature=0.4).png() != first


@pytest.mark.parametrize("setting", SETTINGS)
def test_png_has_the_computed_numbers(setting):
    lookup = SoftLookup(*setting)
    result = lookup.compute()
    left, right = lookup.figure().axes
    drawn = {line.get_label(): line for line in left.get_lines()}
    np.testing.assert_array_equal(drawn["output for each query"].get_ydata(), result["curve"])
    assert (drawn["output"].get_xdata()[0], drawn["output"].get_ydata()[0]) == (lookup.query, result["output"])
    np.testing.assert_array_equal([bar.get_width() for bar in right.patches], result["weights"])


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ((0.45, 0.01), "τ = 0.010 returns -0.60, the value of D alone. Query at 0.45. Weights: A 0.00, B 0.00,"),
        ((0.2, 0.3), "τ = 0.30 returns 0.01, with most weight on D (0.55) and C (0.35). Query at 0.20. Weights: A"),
        ((-3, 100), "τ = 100 returns 0.64, near the mean: all keys count alike. Query at -3.00. Weights: A 0.18,"),
        ((-0.0, 1), "τ = 1.0 returns 0.37, with most weight on C (0.35) and D (0.33). Query at 0.00. Weights: A 0.02"),
    ],
)  # fmt: skip
def test_alt_names_the_finding(setting, words):
    assert SoftLookup(*setting).alt.startswith(words)


def test_state_is_small_and_needs_nothing_from_elsewhere():
    explorer_page.stands_alone(SoftLookup(), 50_000)


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def test_browser_and_python_say_and_compute_the_same(show):
    page = show(SoftLookup())
    for setting in SETTINGS:
        lookup = SoftLookup(*setting)
        expected = lookup.compute()
        change(page, query=setting[0], temperature=setting[1])
        got = page.evaluate("view.compute(model)")
        for name in expected:
            np.testing.assert_allclose(np.array(got[name], float), expected[name], rtol=1e-9, atol=1e-12, err_msg=name)
        assert got["names"] == list(NAMES)
        assert said(page) == lookup.alt, setting
        assert lookup.alt.startswith(page.locator(".finding").inner_text().replace("\N{MINUS SIGN}", "-") + ".")


def test_arrow_keys_move_both_sliders_the_model_and_the_words(show):
    page = show(SoftLookup(0.2, 0.1))
    page.get_by_role("slider", name="query q").press("ArrowRight")
    frame(page)
    assert page.evaluate("model.get('query')") == pytest.approx(0.25)
    before, slider = said(page), page.get_by_role("slider", name="temperature")
    assert slider.input_value() == "-1" and slider.get_attribute("aria-valuetext") == "0.10"
    for _ in range(3):
        slider.press("ArrowRight")
    frame(page)
    assert page.evaluate("model.get('temperature')") == pytest.approx(10**-0.85)
    assert slider.get_attribute("aria-valuetext") == "0.14" and said(page) != before
    for key, value in (("Home", 0.01), ("End", 100)):
        slider.press(key)
        temperature = page.evaluate("model.get('temperature')")
        assert temperature == value
        SoftLookup(temperature=temperature)  # Python accepts what the browser sends


def test_every_control_is_reached_by_tab_in_reading_order(show):
    assert explorer_page.reached_by_tab(show(SoftLookup())) == [
        "query q", "temperature τ (log scale)", "hard look-up", "soft look-up", "mean of all",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "title", "why"),
    [
        ("hard look-up", "the value of D alone", "nearly a hard look-up"),
        ("soft look-up", "with most weight on D", "kernel of width √τ = 0.55"),
        ("mean of all", "near the mean", "the query no longer matters"),
    ],
)
def test_things_to_try_do_what_they_say(show, name, title, why):
    page = show(SoftLookup(0.25, 3.3))
    page.get_by_role("button", name=name).press("Enter")
    frame(page)
    assert title in page.locator(".finding").inner_text()
    assert why in page.locator(".finding + p").inner_text()


def test_marks_lie_where_the_numbers_say(show):
    page = show(SoftLookup(1.0, 0.3))
    result = SoftLookup(1.0, 0.3).compute()
    panel = page.locator("svg svg")
    width, height = (float(panel.get_attribute(name)) for name in ("width", "height"))
    x, y = (lambda q: width * (q + 3.2) / 6.4), (lambda v: height * (2.4 - v) / 3.8)
    places = [[float(dot.get_attribute(name)) for name in ("cx", "cy")] for dot in panel.locator("circle").all()]
    np.testing.assert_allclose(places, np.stack([x(KEYS), y(VALUES)], axis=1), atol=0.01)
    points = re.split("[ML]", panel.locator("path.output").get_attribute("d"))[1:]
    curve = np.array([[float(number) for number in point.split(",")] for point in points])
    np.testing.assert_allclose(curve, np.stack([x(result["queries"]), y(result["curve"])], axis=1), atol=0.06)
    query = panel.locator("line.query")
    assert float(query.get_attribute("x1")) == pytest.approx(x(1.0)) == float(query.get_attribute("x2"))
    corner = re.match("M([^,]+),([^l]+)", panel.locator("path.returned").get_attribute("d"))
    assert [float(n) for n in corner.groups()] == pytest.approx([x(1.0), y(result["output"]) - 10])
    bars = np.array([float(bar.get_attribute("width")) for bar in page.locator("svg rect.weight").all()])
    np.testing.assert_allclose(bars / bars.sum(), result["weights"], atol=1e-9)


def test_query_key_and_value_have_their_colors(show):
    page = show(SoftLookup())
    styles = page.evaluate(
        """() => [['line.query', 'stroke'], ['rect.weight', 'fill'], ['circle.value', 'fill'],
                   ['path.output', 'stroke']]
            .map(([mark, part]) => getComputedStyle(document.querySelector(mark))[part])"""
    )
    assert styles == ["rgb(0, 114, 178)", "rgb(230, 159, 0)", "rgb(0, 158, 115)", "rgb(0, 158, 115)"]


def test_nothing_is_cut_or_overlaps(show):
    cases = [*SETTINGS, (1.4, 0.3), (1.45, 0.3)]
    explorer_page.nothing_is_cut(show(SoftLookup()), SoftLookup, cases, (390, 600, 899, 900, 1000, 1168, 1200))


def test_fits_a_slide_under_its_heading_and_states_its_formula(show):
    page = show(SoftLookup())
    for q, tau in SETTINGS:
        change(page, query=q, temperature=tau)
        assert page.evaluate("el.getBoundingClientRect().height") <= 560, (q, tau)
    assert (
        page.locator(".formula").inner_text().startswith("αi = softmax(ei), score ei = −(q − ki)² / 2τ, output = Σ αi")
    )


def test_closing_a_view_removes_its_listeners(show):
    explorer_page.closing_removes_listeners(show(SoftLookup()))
