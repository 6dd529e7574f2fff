"""The LSTM explorer: what Python computes against torch, what the browser computes against Python, and the view."""

import math
import re

import numpy as np
import pytest
import torch
import traitlets
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer_page
from course_utils.explorers import LSTMUnit
from course_utils.explorers.lstm_cell import LAG, PULSES, T
from explorer_page import change, curve, frame, said, set_to

SETTINGS = [
    (0.95, 1.0, 1.0, 0),
    (1.0, 0.4, 1.0, 0),  # nothing fades
    (0.5, 1.0, 1.0, 0),
    (1.0, 1.0, 1.0, 12),  # the second pulse takes the place of the first
    (0.9, 0.0, 0.3, 0),  # nothing is written
    (0.0, 1.0, 0.5, 0),  # nothing is kept
    (0.97, 0.33, 0.77, 1),  # a reset before the first pulse
    (0.97, 0.33, 0.77, 3),  # and at it
    (1.0, 1.0, 0.0, 40),
]
GATE = st.floats(0, 1)


# ---- What Python computes ---------------------------------------------------------------------------------------


def logit(p: float) -> float:
    """The argument at which a sigmoid is p; saturated (exactly 0 or 1 in float64) at the ends."""
    return math.log(p / (1 - p)) if 0 < p < 1 else math.copysign(800, p - 0.5)


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s[3] == 0])
def test_cell_and_gradient_equal_those_of_torchs_lstm(setting):
    """Set the gates through the biases of nn.LSTMCell, feed the pulses, and differentiate c_T by each c_t."""
    f, i, o, _ = setting
    unit = LSTMUnit(*setting)
    result = unit.compute()
    cell = torch.nn.LSTMCell(1, 1, dtype=torch.float64)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.zero_()
        cell.weight_ih[2] = 1.0  # candidate g = tanh(x), torch's order being i, f, g, o
        cell.bias_ih[:] = torch.tensor([logit(i), logit(f), 0.0, logit(o)], dtype=torch.float64)
    h, c = torch.zeros(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    hs, cs = [h], [c]
    for candidate in unit.candidates:
        x = torch.full((1, 1), math.atanh(candidate), dtype=torch.float64)
        h, c = cell(x, (h, c))
        hs.append(h)
        cs.append(c)
    np.testing.assert_allclose(result["c"], torch.cat(cs).detach().numpy()[:, 0], atol=1e-14)
    np.testing.assert_allclose(result["h"], torch.cat(hs).detach().numpy()[:, 0], atol=1e-14)
    by_step = [gradient.item() for gradient in torch.autograd.grad(c, cs)]
    np.testing.assert_allclose(result["gradient"], by_step[::-1], rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("setting", SETTINGS)
def test_tanh_network_equals_torchs_with_weight_f_and_no_reset(setting):
    f, i, _, _ = setting
    unit = LSTMUnit(*setting)
    h = torch.zeros((), dtype=torch.float64, requires_grad=True)
    states = [h]
    for candidate in unit.candidates:
        h = torch.tanh(f * h + i * candidate)
        states.append(h)
    by_step = [gradient.item() for gradient in torch.autograd.grad(h, states)]
    np.testing.assert_allclose(unit.compute()["rnn"], by_step[::-1], rtol=1e-12, atol=1e-300)


@settings(deadline=None)
@given(f=GATE, i=GATE, o=GATE, reset=st.integers(0, T))
def test_the_cell_keeps_what_the_gradient_says(f, i, o, reset):
    """c_T is the sum of what was written, each times the gradient at its lag; no squashed path keeps more."""
    result = LSTMUnit(f, i, o, reset).compute()
    kept = sum(written * result["gradient"][T - step] for step, written in enumerate(result["written"], start=1))
    assert result["c"][-1] == pytest.approx(kept, rel=1e-9, abs=1e-12)
    assert result["left"] == result["gradient"][LAG]
    assert np.all(np.abs(result["h"]) <= o) and np.all(np.diff(result["gradient"]) <= 0)
    if reset == 0:
        assert np.all(result["rnn"] <= result["gradient"] * (1 + 1e-9))
    else:
        assert np.all(result["gradient"][T - reset + 1 :] == 0)
        assert result["c"][reset] == result["written"][reset - 1]


def test_a_reset_at_the_second_pulse_overwrites_the_first():
    result = LSTMUnit(1, 1, 1, 12).compute()
    assert result["c"][11] == PULSES[3] and result["c"][12] == PULSES[12]
    assert result["left"] == 0 and result["gradient"][T - 12] == 1


def test_pulses_are_candidates_that_tanh_can_give():
    candidates = LSTMUnit().candidates
    assert len(candidates) == T == 40
    assert {step for step, g in enumerate(candidates, start=1) if g} == set(PULSES) == {3, 12, 25}
    assert max(map(abs, candidates)) < 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"f": 1.1}, r"f: expected a number in \[0, 1\], got 1.1"),
        ({"f": math.nan}, "f: expected a number"),
        ({"i": -0.1}, r"i: expected a number in \[0, 1\], got -0.1"),
        ({"o": "1"}, "o: expected a number"),
        ({"o": True}, "o: expected a number"),
        ({"reset": 41}, r"reset: expected an integer in \[0, 40\], got 41"),
        ({"reset": 1.5}, "reset: expected an integer"),
        ({"reset": -1}, "reset: expected an integer"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LSTMUnit(**arguments)


def test_settings_stay_in_range_later():
    unit = LSTMUnit()
    for name, value in (("f", 1.5), ("i", -1), ("o", 2), ("reset", 41)):
        with pytest.raises(traitlets.TraitError):
            setattr(unit, name, value)
    assert repr(unit) == repr(LSTMUnit())


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text():
    explorer_page.gives_view_picture_and_text(LSTMUnit(0.5), "LSTMUnit(f=0.5, i=1.0, o=1.0, reset=0)")


def test_png_is_the_same_each_time_and_follows_the_settings():
    unit = LSTMUnit()
    first = unit.png()
    assert unit.png() == first == LSTMUnit().png()
    assert b"Software" not in first and len(first) < 150_000
    for name, value in (("f", 0.8), ("i", 0.5), ("o", 0.5), ("reset", 12)):
        assert LSTMUnit(**{name: value}).png() != first, name


@pytest.mark.parametrize("setting", SETTINGS)
def test_png_has_the_computed_curves(setting):
    unit = LSTMUnit(*setting)
    upper, lower = unit.figure().axes
    result = unit.compute()
    drawn = {line.get_label(): line for axes in (upper, lower) for line in axes.get_lines()}
    np.testing.assert_array_equal(drawn["cell $c_t$"].get_ydata(), result["c"])
    np.testing.assert_array_equal(drawn["output $h_t$"].get_ydata(), result["h"])
    seen = np.nan_to_num(drawn["cell path"].get_ydata())
    np.testing.assert_array_equal(seen, result["gradient"])
    np.testing.assert_array_equal(drawn["cell path"].get_xdata(), T - np.arange(T + 1))
    assert len(upper.texts) == (unit.reset > 0)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ((0.95,), "At step 40, 0.15 of the first pulse is left; gradient 10 to the power -0.8 over 37 steps."),
        ((0.5,), "At step 40, less than 0.01 of the first pulse is left; gradient 10 to the power -11.1 over"),
        ((1, 0.4), "At step 40, all of the first pulse is left; gradient 1 over 37 steps."),
        ((0.9999,), "At step 40, 1.00 of the first pulse is left; gradient 1.00 over 37 steps."),
        ((1, 1, 1, 12), "At step 40, nothing of the first pulse is left; gradient 0 over 37 steps."),
        ((1, 1, 1, 3), "At step 40, all of the first pulse is left; gradient 1 over 37 steps."),
        ((0.95, 0), "The input gate is 0, so nothing is written; gradient 10 to the power -0.8 over 37 steps."),
    ],
)
def test_alt_names_the_finding(setting, words):
    assert LSTMUnit(*setting).alt.startswith(words)


def test_state_is_small_and_needs_nothing_from_elsewhere():
    explorer_page.stands_alone(LSTMUnit(), 50_000)


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def test_browser_and_python_say_and_compute_the_same(show):
    page = show(LSTMUnit())
    for setting in [*SETTINGS, (0.9999, 1.0, 1.0, 0), (0.13, 0.7, 1.0, 26)]:
        unit = LSTMUnit(*setting)
        expected = unit.compute()
        set_to(page, LSTMUnit, setting)
        got = page.evaluate("view.compute(model)")
        for name in ("c", "h", "written", "gradient", "rnn"):
            np.testing.assert_allclose(np.array(got[name], float), expected[name], rtol=1e-9, atol=0, err_msg=name)
        assert (got["left"], got["lag"], got["pulses"]) == (expected["left"], LAG, sorted(PULSES))
        assert said(page) == unit.alt, setting


@pytest.mark.parametrize("setting", SETTINGS)
def test_title_reads_like_the_alt_text(show, setting):
    page = show(LSTMUnit(*setting))
    title = page.locator(".finding").evaluate("p => p.innerHTML").replace("\N{MINUS SIGN}", "-")
    spoken = re.sub(r"<span>10<sup>(.*?)</sup></span>", r"10 to the power \1", title)
    assert LSTMUnit(*setting).alt.startswith(spoken + ".")


def test_arrow_keys_move_every_slider_the_model_and_the_words(show):
    page = show(LSTMUnit(0.9, 0.5, 0.5, 11))
    sliders = {"forget gate f": "f", "input gate i": "i", "output gate o": "o", "reset at step": "reset"}
    for label, name in sliders.items():
        before, words = page.evaluate("n => model.get(n)", name), said(page)
        page.get_by_role("slider", name=label).focus()
        page.keyboard.press("ArrowRight")
        frame(page)
        moved = 1 if name == "reset" else 0.01
        assert page.evaluate("n => model.get(n)", name) == pytest.approx(before + moved)
        assert said(page) != words
    assert page.evaluate("model.saves") == 4


def test_the_reset_is_read_as_a_step_or_never(show):
    page = show(LSTMUnit())
    slider = page.get_by_role("slider", name="reset at step")
    assert slider.get_attribute("aria-valuetext") == "never"
    assert page.locator("svg text", has_text="reset: f = 0").count() == 0
    change(page, reset=30)
    assert slider.get_attribute("aria-valuetext") == "30"
    assert page.locator("svg text", has_text="reset: f = 0").count() == 1
    assert page.locator("line.radius").count() == 2  # one a panel, at the same place
    assert len({tuple(line.get_attribute(x) for x in ("x1", "x2")) for line in page.locator("line.radius").all()}) == 1


def test_every_control_is_reached_by_tab_in_reading_order(show):
    assert explorer_page.reached_by_tab(show(LSTMUnit())) == [
        "forget gate f", "input gate i", "output gate o", "reset at step", "remember", "forget", "overwrite",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "setting", "share"),
    [("remember", (1, 0.4, 1, 0), "all"), ("forget", (0.5, 1, 1, 0), "less"), ("overwrite", (1, 1, 1, 12), "nothing")],
)
def test_things_to_try_do_what_they_say(show, name, setting, share):
    page = show(LSTMUnit(0.3, 0.2, 0.1, 7))
    page.get_by_role("button", name=name, exact=True).press("Enter")
    frame(page)
    assert tuple(page.evaluate("['f', 'i', 'o', 'reset'].map(n => model.get(n))")) == setting
    assert f"At step 40, {share}" in page.locator(".finding").inner_text()
    assert page.get_by_role("slider", name="forget gate f").input_value() == f"{setting[0]:g}"


def test_the_reason_fits_the_numbers(show):
    page = show(LSTMUnit())
    reasons = {}
    for setting in SETTINGS:
        set_to(page, LSTMUnit, setting)
        reasons[setting] = page.locator(".finding + p").inner_text()
    starts = {(0.95, 1.0, 1.0, 0): "Each step keeps 0.95", (1.0, 0.4, 1.0, 0): "f = 1: the cell only adds",
              (0.5, 1.0, 1.0, 0): "Each step keeps 0.50", (1.0, 1.0, 1.0, 12): "f is 0 at step 12",
              (0.9, 0.0, 0.3, 0): "No pulse gets past", (0.0, 1.0, 0.5, 0): "f = 0: the cell is emptied",
              (0.97, 0.33, 0.77, 3): "Each step keeps 0.97"}  # fmt: skip
    for setting, start in starts.items():
        assert reasons[setting].startswith(start), setting
    assert "gone" in reasons[0.5, 1.0, 1.0, 0] and "product" in reasons[0.95, 1.0, 1.0, 0]


def test_numbers_are_announced(show):
    page = show(LSTMUnit(1, 1, 1, 12))
    live = page.locator("[aria-live=polite]")
    assert live.inner_text().startswith("At lag 37: cell path 0, tanh RNN with weight f ")
    assert "c40 = 0.20, h40 = 0.20" in live.inner_text()
    change(page, o=0.5)
    assert "c40 = 0.20, h40 = 0.10" in live.inner_text()


def test_curves_lie_where_the_numbers_say(show):
    """Both panels have one time axis; the gradient ends at the reset, and its dots are the pulses after it."""
    page = show(LSTMUnit(0.9, 1, 1, 12))
    points = [tuple(map(float, point.split(","))) for point in re.split("[ML]", curve(page))[1:]]
    assert len(points) == T - 12 + 1  # steps 40 to 12
    panel = page.locator("svg svg").nth(1)
    width = float(panel.get_attribute("width"))
    assert points[0][0] == pytest.approx(width, abs=0.1) and points[-1][0] == pytest.approx(width * 12 / T, abs=0.1)
    dots = [float(dot.get_attribute("cx")) for dot in panel.locator("circle").all()]
    assert dots == pytest.approx([width * step / T for step in (12, 25)], abs=0.1)
    decades = -28 * math.log10(0.9)  # over which the curve falls, on an axis of 6.5
    fall = float(panel.get_attribute("height")) * decades / 6.5
    assert points[-1][1] - points[0][1] == pytest.approx(fall, abs=0.2)


def test_nothing_is_cut_or_overlaps(show):
    cases = [*SETTINGS, (1.0, 1.0, 1.0, 20), (1.0, 1.0, 1.0, 21)]
    explorer_page.nothing_is_cut(show(LSTMUnit()), LSTMUnit, cases, (390, 600, 760, 1000, 1168, 1200))


@pytest.mark.parametrize("setting", SETTINGS)
def test_fits_a_slide_under_its_heading(show, setting):
    page = show(LSTMUnit(*setting), 1168, 720)
    assert page.evaluate("el.getBoundingClientRect().height") <= 560


def test_curves_take_the_courses_colors_on_white_and_on_dark(show):
    page = show(LSTMUnit())
    for light, state, gradient in (
        ("true", "rgb(142, 91, 181)", "rgb(200, 16, 46)"),
        ("false", "rgb(185, 139, 220)", "rgb(255, 107, 120)"),
    ):
        page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
        strokes = page.evaluate("[...document.querySelectorAll('svg svg path')].map(p => getComputedStyle(p).stroke)")
        assert strokes[:2] == [state, state] and strokes[3] == gradient
        assert page.evaluate("getComputedStyle(document.querySelector('svg svg circle')).fill") == gradient


def test_closing_a_view_removes_its_listeners(show):
    explorer_page.closing_removes_listeners(show(LSTMUnit()))
