"""Explorers: what Python computes against autograd, what the browser computes against Python, and the view itself."""

import base64
import math
import re

import numpy as np
import pytest
import torch
import traitlets

import explorer_page
from course_utils.explorers import GradientFlow, gradient_flow
from course_utils.explorers.base import Explorer, _read
from course_utils.plots import COLORS
from explorer_page import change, curve, frame, set_to

SETTINGS = [
    (0.9, 0.5, 0, False),
    (0.2, 3.0, 1, False),  # the smallest gradients: about 1e-70
    (1.0, 0.0, 2, False),  # no input: the states stay at 0
    (1.5, 0.1, 3, False),
    (1.5, 3.0, 4, False),
    (2.0, 0.1, 5, False),
    (3.0, 0.1, 6, False),  # chaotic: rounding differences grow
    (3.0, 3.0, 7, False),
    (0.2, 1.0, 0, True),
    (0.9, 0.5, 2, True),
    (3.0, 3.0, 6, True),  # the largest: above 1e28
]


# ---- What Python computes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s[0] < 3])
def test_norms_equal_those_of_autograd(setting):
    """Differentiate the whole recurrence with torch, from scratch, for several lags."""
    gain, scale, seed, linear = setting
    flow = GradientFlow(*setting)
    result = flow.compute()
    base = gradient_flow.base_arrays(seed)
    G, U, x = (torch.tensor(array) for array in (base.G, base.U, base.x))

    def last_state(h, first):
        for x_t in x[first:]:
            h = gain * G @ h + scale * U @ x_t
            h = h if linear else torch.tanh(h)
        return h

    h, states = torch.zeros(32, dtype=torch.float64), []
    for x_t in x:
        h = gain * G @ h + scale * U @ x_t
        h = h if linear else torch.tanh(h)
        states.append(h)
    np.testing.assert_allclose(result["states"], torch.stack(states).numpy(), rtol=1e-9, atol=1e-12)
    for lag in (0, 1, 2, 10, 60):
        start = len(x) - lag  # the inputs still to read
        J = torch.autograd.functional.jacobian(lambda h, start=start: last_state(h, start), states[start - 1])
        assert result["norms"][lag] == pytest.approx(torch.linalg.matrix_norm(J, 2).item(), rel=1e-7)


@pytest.mark.parametrize("setting", SETTINGS)
def test_norms_stay_below_the_bound(setting):
    result = GradientFlow(*setting).compute()
    assert np.all(result["norms"] <= result["bound"] * (1 + 1e-9))
    assert result["norms"][0] == 1 and result["lags"][-1] == 60 == len(result["norms"]) - 1


@pytest.mark.parametrize("seed", range(8))
def test_gain_is_the_spectral_radius_and_eigenvalues_are_those_of_the_matrix(seed):
    result = GradientFlow(1.5, 1.0, seed).compute()
    true = np.linalg.eigvals(result["Wh"])
    assert abs(true).max() == pytest.approx(1.5, rel=2e-3)  # base arrays are rounded
    for value in result["eigenvalues"]:
        assert abs(true - value).min() < 0.01


@pytest.mark.parametrize("seed", range(8))
def test_numbers_survive_the_packing(seed):
    base = gradient_flow.base_arrays(seed)
    assert max(abs(array).max() for array in base) * gradient_flow.UNIT < 2**15 - 1
    unpacked = np.frombuffer(base64.b64decode(GradientFlow().packed), "<i2") / gradient_flow.UNIT
    flat = np.concatenate([np.ravel(a) for a in (base.G, base.eigenvalues.real, base.eigenvalues.imag, base.U, base.x)])
    np.testing.assert_array_equal(unpacked.reshape(8, -1)[seed], flat)


def test_seeds_give_different_networks():
    firsts = {gradient_flow.base_arrays(seed).G[0, 0] for seed in range(8)}
    assert len(firsts) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gain": 5}, r"gain: expected a number in \[0.2, 3.0\], got 5"),
        ({"gain": math.nan}, "gain: expected a number"),
        ({"gain": "1"}, "gain: expected a number"),
        ({"input_scale": -0.1}, "input_scale: expected a number"),
        ({"seed": 8}, r"seed: expected an integer in \[0, 7\], got 8"),
        ({"seed": 1.5}, "seed: expected an integer"),
        ({"linear": 1}, "linear: expected True or False, got 1"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        GradientFlow(**arguments)


def test_settings_stay_in_range_later():
    flow = GradientFlow()
    with pytest.raises(traitlets.TraitError):
        flow.gain = 9
    assert flow.gain == 0.9


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text():
    flow = GradientFlow(2, 0.1)
    explorer_page.gives_view_picture_and_text(flow, "GradientFlow(gain=2.0, input_scale=0.1, seed=0, linear=False)")
    assert flow.alt.startswith("Gradient grows by 10 to the power 3.5 over 60 steps")


@pytest.mark.parametrize("linear", [False, True])
def test_png_is_the_same_each_time_and_follows_the_settings(linear):
    flow = GradientFlow(linear=linear)
    first = flow.png()
    assert flow.png() == first == GradientFlow(linear=linear).png()
    assert b"Software" not in first and len(first) < 150_000
    flow.gain = 1.5
    assert flow.png() != first


def test_alt_names_the_finding():
    assert GradientFlow(0.9, 0.5).alt.startswith("Gradient falls by 10 to the power 9.9")
    assert "within a factor of 10" in GradientFlow(1.0, 0.0).alt
    assert "eigenvalues" in GradientFlow(linear=True).alt


def test_state_is_small_and_needs_nothing_from_elsewhere():
    explorer_page.stands_alone(GradientFlow(), 100_000)


def test_colors_are_those_of_the_course():
    style = _read("explorer.css")
    light = style[: style.index("}")]
    assert f"--gradient: {COLORS['gradient']};" in light
    assert f"--state: {COLORS['state']};" in light
    assert f"--muted: {COLORS['muted']};" in light


def test_an_explorer_without_picture_says_so():
    class Empty(Explorer):
        script = "gradient_flow.js"
        settings = ()

    with pytest.raises(NotImplementedError, match="Empty needs a figure"):
        Empty().figure()
    with pytest.raises(NotImplementedError, match="Empty needs an alt text"):
        Empty().alt  # noqa: B018


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def test_browser_and_python_compute_the_same_numbers(show):
    page = show(GradientFlow())
    for setting in SETTINGS:
        flow = GradientFlow(*setting)
        expected = flow.compute()
        set_to(page, GradientFlow, setting)
        got = page.evaluate("view.compute(model)")
        np.testing.assert_allclose(np.array(got["norms"], float), expected["norms"], rtol=1e-6, err_msg=str(setting))
        np.testing.assert_allclose(np.array(got["bound"], float), expected["bound"], rtol=1e-10)
        states = expected["states"].ravel()
        np.testing.assert_allclose(np.array(got["values"], float), states, rtol=1e-6, atol=1e-7, err_msg=str(setting))
        assert got["saturated"] == pytest.approx(expected["saturated"], abs=1e-3)
        assert got["slope"] == pytest.approx(expected["slope"], rel=1e-6)
        eigenvalues = [complex(*pair) for pair in got["eigenvalues"]]
        np.testing.assert_allclose(eigenvalues, expected["eigenvalues"], rtol=1e-12)


def hard_matrices() -> list[np.ndarray]:
    """Matrices on which a spectral norm goes wrong: zero, equal singular values, tiny, huge, diagonal, rank one."""
    generator = np.random.default_rng(0)
    A = generator.standard_normal((16, 16))
    Q = np.linalg.qr(A)[0]
    nearly_equal = Q @ np.diag(1 - 1e-9 * np.arange(16)) @ Q.T
    return [np.zeros((16, 16)), np.eye(16), Q, nearly_equal, A * 1e-200, A * 1e200, np.diag(np.arange(16.0)),
            np.outer(A[0], A[1]), np.triu(np.ones((16, 16))), -A]  # fmt: skip


def test_spectral_norm_of_difficult_matrices(show):
    flow = GradientFlow()
    page = show(flow)
    page.add_script_tag(content=_read("algebra.js"))
    for matrix in hard_matrices():
        got = page.evaluate("m => spectralNorm(Float64Array.from(m), 16)", matrix.ravel().tolist())
        assert got == pytest.approx(np.linalg.norm(matrix, 2), rel=1e-12, abs=0)


def test_arrow_keys_move_the_slider_the_model_and_the_picture(show):
    page = show(GradientFlow())
    slider = page.get_by_role("slider", name="gain")
    before, words = curve(page), page.get_by_role("img").get_attribute("aria-label")
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    frame(page)
    assert page.evaluate("model.get('gain')") == pytest.approx(1.1)
    assert page.evaluate("model.saves") == 4
    assert page.locator("label", has_text="gain").locator("output").inner_text() == "1.10"
    assert curve(page) != before
    assert page.get_by_role("img").get_attribute("aria-label") != words


def test_every_control_is_reached_by_tab_in_reading_order_with_visible_focus(show):
    names = explorer_page.reached_by_tab(show(GradientFlow()))
    assert names == ["gain", "input scale", "seed", "linear (no tanh)", "vanish", "explode", "saturate"]


@pytest.mark.parametrize(("name", "verb"), [("vanish", "falls"), ("explode", "grows"), ("saturate", "falls")])
def test_things_to_try_do_what_they_say(show, name, verb):
    page = show(GradientFlow(0.4, 1.7, 5, True))
    page.get_by_role("button", name=name).press("Enter")
    frame(page)
    assert f"Gradient {verb} by" in page.locator(".finding").inner_text()
    settings = page.evaluate("['gain', 'input_scale', 'seed', 'linear'].map(n => model.get(n))")
    flow = GradientFlow(*settings)
    assert verb in flow.alt
    if name == "saturate":
        assert flow.compute()["saturated"] > 0.5
    assert page.get_by_role("slider", name="gain").input_value() == f"{settings[0]:g}"


def test_space_switches_tanh_off_and_shows_eigenvalues(show):
    page = show(GradientFlow())
    assert page.locator("g.eigenvalue circle").count() == 0
    page.get_by_role("checkbox").press("Space")
    frame(page)
    assert page.locator("g.eigenvalue circle").count() == 32
    assert page.locator("g.state rect").count() == 0
    assert "Eigenvalues" in page.get_by_role("img").get_attribute("aria-label")


def test_picture_and_words_say_the_same(show):
    page = show(GradientFlow(2, 0.1))
    assert page.locator(".finding").inner_text() == "Gradient grows by 103.5 over 60 steps"  # 3.5 is raised
    assert page.locator(".finding sup").inner_text() == "3.5"
    assert page.get_by_role("img").get_attribute("aria-label").startswith("Gradient grows by 10 to the power 3.5")
    live = page.locator("[aria-live=polite]")
    first = live.inner_text()
    assert "3.36" in first
    change(page, gain=1)
    assert "1.68" in live.inner_text()


def test_nothing_is_cut_or_overlaps(show):
    settings = [(0.9, 0.5, 0, False), (3.0, 0.0, 0, False), (0.2, 3.0, 0, False), (3.0, 1.0, 0, True)]
    explorer_page.nothing_is_cut(show(GradientFlow()), GradientFlow, settings, (390, 600, 760, 1000, 1200))


def test_fits_a_slide_under_its_heading(show):
    page = show(GradientFlow(), 1200, 720)
    assert page.evaluate("el.getBoundingClientRect().height") <= 600


def test_picture_follows_the_width(show):
    page = show(GradientFlow(), 1200)
    page.set_viewport_size({"width": 500, "height": 900})
    frame(page)
    frame(page)
    width = float(page.get_by_role("img").get_attribute("width"))
    assert 400 < width < 500


def test_curves_beyond_the_axis_are_named_at_its_edge(show):
    page = show(GradientFlow(0.2, 3.0))
    labels = page.locator("svg text").all_text_contents()
    exponent = round(math.log10(GradientFlow(0.2, 3.0).compute()["norms"][-1]))
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    assert f"↓ 10{raised}" in labels


def test_text_and_curves_stand_out_on_white_and_on_dark(show):
    def luminance(color: str) -> float:
        channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    page = show(GradientFlow())
    for light, background in (("true", 1.0), ("false", luminance("rgb(17, 17, 17)"))):
        page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
        page.evaluate(
            "t => document.body.style.setProperty('--jp-content-font-color1', t)", "#222" if light == "true" else "#eee"
        )
        styles = page.evaluate(
            """() => [['svg text', 'fill'], ['path.gradient', 'stroke'], ['path.bound', 'stroke'], ['g.state', 'fill'],
                      ['p.finding', 'color']].map(([s, p]) => getComputedStyle(document.querySelector(s))[p])"""
        )
        for color, least in zip(styles, (4.5, 3, 3, 3, 4.5), strict=True):
            pair = sorted((luminance(color), background))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= least, (light, color)


def test_closing_a_view_removes_its_listeners(show):
    explorer_page.closing_removes_listeners(show(GradientFlow()))


def test_two_views_of_one_model_stay_together(show):
    page = show(GradientFlow())
    page.evaluate("() => view.default.render({ model, el: document.body.appendChild(document.createElement('div')) })")
    page.get_by_role("slider", name="gain").first.press("ArrowRight")
    frame(page)
    curves = page.locator("svg path.gradient")
    assert curves.nth(0).get_attribute("d") == curves.nth(1).get_attribute("d")
    assert page.get_by_role("slider", name="gain").nth(1).input_value() == "0.95"
