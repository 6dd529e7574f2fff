"""The explorer of what length costs: its numbers against course_utils.costs, the browser against Python, the view."""

import itertools
import re

import numpy as np
import pytest
import traitlets

import explorer_page
from course_utils import costs
from course_utils.explorers import CostExplorer
from course_utils.explorers.cost import LENGTHS, NOTE
from explorer_page import change, frame, said, set_to

OURS, BASE, GPT2, GPT3 = costs.DECODERS
LAPTOP, A100 = costs.MACHINES
SETTINGS = [
    (GPT2, A100, 4096, 2, True),
    (OURS, LAPTOP, 16, 4, True),  # looking takes under 1%
    (OURS, A100, 1_048_576, 2, False),  # over 99%
    (OURS, LAPTOP, 32_768, 4, False),  # does not quite fit
    (BASE, A100, 128, 4, True),
    (BASE, LAPTOP, 1024, 2, False),
    (GPT2, A100, 65_536, 2, False),  # limited by memory traffic
    (GPT2, LAPTOP, 256, 4, True),
    (GPT3, LAPTOP, 1_048_576, 4, False),  # two months, and no memory for its parameters
    (GPT3, A100, 16, 2, True),
]


# ---- What Python computes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_numbers_are_those_of_the_formulas(setting):
    decoder, machine, T, each, fused = setting
    size, machine, result = costs.DECODERS[decoder], costs.MACHINES[machine], CostExplorer(*setting).compute()
    at = LENGTHS.index(T)
    assert (result["projections"], result["looking"], result["feed_forward"]) == costs.decoder_flops(size, T)
    assert (result["parameters"], result["cache"], result["weights"]) == costs.decoder_bytes(size, T, each, fused)
    assert result["total"] == result["decoder_bytes"][at] == sum(costs.decoder_bytes(size, T, each, fused))
    own, lstm = costs.decoder_bounds(size, T, machine, each, fused), costs.lstm_bounds(size, T, machine, each)
    assert result["seconds"] == result["decoder_seconds"][at] == own.seconds
    assert result["lstm"] == result["lstm_seconds"][at] == lstm.seconds
    assert (result["limit"], result["lstm_limit"]) == (own.limit, lstm.limit)
    assert result["longest"] == costs.longest_fit(size, machine, each, fused)
    assert (result["share"] > 0.5) == (T > result["crossover"])


def test_all_three_limits_occur():
    found = {CostExplorer(*setting).compute()["limit"] for setting in SETTINGS}
    assert found == {"operations", "traffic", "steps"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decoder": "GPT-5"}, "decoder: expected one of this course's, base of 2017, GPT-2 small, GPT-3, got 'GPT-5'"),
        ({"machine": None}, "machine: expected one of rounded laptop, NVIDIA A100 80 GB, got None"),
        ({"T": 1000}, "T: expected one of 16, 32, .*1048576, got 1000"),
        ({"T": True}, "T: expected one of .*, got True"),
        ({"bytes_per_number": 8}, "bytes_per_number: expected one of 4, 2, got 8"),
        ({"fused": 1}, "fused: expected one of True, False, got 1"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        CostExplorer(**arguments)


def test_settings_stay_in_range_later():
    explorer = CostExplorer()
    for name, value in (("decoder", "x"), ("machine", "x"), ("T", 17), ("bytes_per_number", 3), ("fused", "x")):
        with pytest.raises(traitlets.TraitError):
            setattr(explorer, name, value)
    assert repr(explorer) == repr(CostExplorer())


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text():
    words = "CostExplorer(decoder='GPT-3', machine='rounded laptop', T=64, bytes_per_number=4, fused=False)"
    explorer_page.gives_view_picture_and_text(CostExplorer(GPT3, LAPTOP, 64, 4, False), words)


def test_png_is_the_same_each_time_and_has_the_computed_curves():
    first = CostExplorer().png()
    assert CostExplorer().png() == first and len(first) < 200_000
    for setting in SETTINGS:
        explorer = CostExplorer(*setting)
        result = explorer.compute()
        figure = explorer.figure()
        bar, time, memory = figure.axes
        parts = [result[name] for name in ("looking", "projections", "feed_forward")]
        np.testing.assert_allclose([part.get_width() for part in bar.patches], np.array(parts) / sum(parts))
        np.testing.assert_array_equal(time.get_lines()[0].get_ydata(), result["decoder_seconds"])
        np.testing.assert_array_equal(time.get_lines()[1].get_ydata(), result["lstm_seconds"])
        np.testing.assert_array_equal(memory.get_lines()[0].get_ydata(), result["decoder_bytes"])
        assert NOTE in figure.get_supxlabel().replace("\n", " ")


def test_alt_names_the_finding():
    alt = CostExplorer().alt
    assert alt.startswith(
        "At 4,096 tokens looking takes 47% of the transformer's operations. It takes half at T = 2D + F = 4,608. One "
        "pass takes at least 4.2 ms (operations), an LSTM's 21 ms (serial steps). Parameters 170 MB + keys, values 151 "
        "MB + no weights = 321 MB of 80 GB. Up to 2,165,530 tokens fit."
    )
    assert "= 106 GB of 80 GB, too much. Up to 56,910 tokens fit." in CostExplorer(GPT2, A100, 65_536, 2, False).alt
    assert "Not even one token fits." in CostExplorer(GPT3).alt
    assert CostExplorer(OURS, A100, 16).alt.startswith("At 16 tokens looking takes 3%")
    assert CostExplorer(GPT3, A100, 16).alt.startswith("At 16 tokens looking takes under 1%")
    assert CostExplorer(OURS, A100, 1_048_576).alt.startswith("At 1,048,576 tokens looking takes over 99%")


def test_state_is_small_and_needs_nothing_from_elsewhere():
    explorer_page.stands_alone(CostExplorer(), 50_000)


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def compare(page, setting):
    explorer = CostExplorer(*setting)
    set_to(page, CostExplorer, setting)
    got = page.evaluate("view.compute(model)")
    for name, value in explorer.compute().items():
        if isinstance(value, str):
            assert got[name] == value, (setting, name)
        else:
            np.testing.assert_allclose(got[name], value, rtol=1e-9, atol=0, err_msg=f"{setting} {name}")
    assert said(page) == explorer.alt, setting


def test_browser_and_python_say_and_compute_the_same(show):
    page = show(CostExplorer())
    for setting in SETTINGS:
        compare(page, setting)
        title, why = page.locator(".finding").inner_text(), page.locator(".finding + p").inner_text()
        assert said(page).startswith(f"{title}. {why} {page.locator('.numbers').inner_text()}")
    for setting in itertools.product((OURS, GPT3), (LAPTOP, A100), LENGTHS[3::6], (2,), (True, False)):
        compare(page, setting)


def test_what_is_not_counted_stands_below(show):
    words = show(CostExplorer()).locator("p").all_inner_texts()
    assert words[-1] == NOTE and "Lower bounds" in NOTE and "Not counted" in NOTE
    sizes = "12 layers, D = 768, H = 12, F = 3,072"
    assert words[-2] == f"{sizes} · 312 TFLOP/s, 2.04 TB/s, 5 µs for a serial step (assumed)"


def points(page, panel: int, name: str) -> np.ndarray:
    path = page.locator("svg svg").nth(panel).locator(f"path.{name}").get_attribute("d")
    return np.array([point.split(",") for point in re.split("[ML]", path)[1:]], dtype=float)


@pytest.mark.parametrize("setting", SETTINGS[:4])
def test_curves_marks_and_bar_lie_where_the_numbers_say(show, setting):
    page, result = show(CostExplorer(*setting)), CostExplorer(*setting).compute()
    panels = page.locator("svg svg")
    width, height = (float(panels.first.get_attribute(name)) for name in ("width", "height"))
    values = result["decoder_bytes"], [result["lstm_bytes"]] * len(LENGTHS), [result["capacity"]]
    curves = {0: (result["decoder_seconds"], result["lstm_seconds"]), 1: values}
    for panel, drawn in curves.items():
        logs = [np.log10(values) for values in drawn]
        low, high = np.floor(min(map(min, logs))), np.ceil(max(map(max, logs)))
        for name, log in zip(("transformer", "LSTM"), logs, strict=False):
            got = points(page, panel, name)
            np.testing.assert_allclose(got[:, 0], width * np.arange(17) / 16, atol=0.06)
            np.testing.assert_allclose(got[:, 1], height * (high - log) / (high - low), atol=0.06)
        here = panels.nth(panel).locator("line.radius")
        assert float(here.get_attribute("x1")) == pytest.approx(width * LENGTHS.index(setting[2]) / 16)
    half = float(panels.nth(0).locator("line.bound").get_attribute("x1"))
    assert half == pytest.approx(width * (np.log2(result["crossover"]) - 4) / 16)
    most = float(panels.nth(1).locator("line.bound").get_attribute("y1"))
    assert most == pytest.approx(height * (high - np.log10(result["capacity"])) / (high - low))
    rect, whole = page.locator("rect.looking"), float(page.get_by_role("img").get_attribute("width"))
    assert float(rect.get_attribute("width")) / whole == pytest.approx(result["share"])


def test_keys_move_every_control_the_model_and_the_words(show):
    page = show(CostExplorer(OURS, LAPTOP, 4096, 4, True))
    slider = page.get_by_role("slider", name="length T")
    assert (slider.input_value(), slider.get_attribute("aria-valuetext")) == ("12", "4,096")
    seen = []
    for key in ("ArrowRight", "End", "ArrowRight", "Home"):
        slider.press(key)
        seen.append(page.evaluate("model.get('T')"))
    assert seen == [8192, LENGTHS[-1], LENGTHS[-1], LENGTHS[0]]
    menus = {"model": ("decoder", BASE), "machine": ("machine", A100), "bytes per number": ("bytes_per_number", 2)}
    for label, (name, chosen) in menus.items():
        before = said(page)
        page.get_by_role("combobox", name=label).press("ArrowDown")
        frame(page)
        assert page.evaluate("name => model.get(name)", name) == chosen and said(page) != before, name
    before = said(page)
    page.get_by_role("checkbox", name="fused attention").press("Space")
    frame(page)
    assert page.evaluate("model.get('fused')") is False and said(page) != before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("short text", r"18% .* 681 µs \(operations\), an LSTM's 5.2 ms \(serial steps\)"),
        ("long text", r"93% .* 543 ms \(operations\), an LSTM's 328 ms \(serial steps\)"),
        ("write the weights out", r"93% .* 1.2 s \(memory traffic\).* too much"),
    ],
)
def test_things_to_try_do_what_they_say(show, name, words):
    page = show(CostExplorer(OURS, LAPTOP, 16, 4, True))
    page.get_by_role("button", name=name).press("Enter")
    frame(page)
    assert re.search(words, said(page)), said(page)


def test_every_control_is_reached_by_tab_in_reading_order(show):
    assert explorer_page.reached_by_tab(show(CostExplorer())) == [
        "model", "machine", "length T", "bytes per number", "fused attention", "short text", "long text",
        "write the weights out",
    ]  # fmt: skip


def test_numbers_are_announced(show):
    page = show(CostExplorer())
    live = page.locator("[aria-live=polite]")
    assert live.inner_text().startswith("Parameters 170 MB + keys, values 151 MB + no weights")
    change(page, fused=False)
    assert "weights of a layer 403 MB" in live.inner_text()


def test_nothing_is_cut_or_overlaps(show):
    explorer_page.nothing_is_cut(show(CostExplorer()), CostExplorer, SETTINGS[::2], (390, 759, 760, 1000, 1168))


def test_fits_a_slide_under_its_heading(show):
    page = show(CostExplorer())
    for setting in SETTINGS:
        set_to(page, CostExplorer, setting)
        assert page.evaluate("el.getBoundingClientRect().height") <= 560, setting


def test_curves_take_the_courses_colors_on_white_and_on_dark(show):
    page = show(CostExplorer())
    for light, lstm in (("true", "rgb(142, 91, 181)"), ("false", "rgb(185, 139, 220)")):
        page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
        strokes = page.locator("path.LSTM").evaluate_all("paths => paths.map(path => getComputedStyle(path).stroke)")
        assert strokes == [lstm] * 2
    assert page.locator("rect.looking").evaluate("r => getComputedStyle(r).fill") == "rgb(230, 159, 0)"


def test_closing_a_view_removes_its_listeners(show):
    explorer_page.closing_removes_listeners(show(CostExplorer()))
