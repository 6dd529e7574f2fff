"""The explorer of the cache: its counts against a count of real products, and the view."""

import numpy as np
import pytest
import torch
import traitlets
from torch.utils.flop_counter import FlopCounterMode

import explorer_page
from course_utils.explorers import CacheStepper
from explorer_page import change, frame, said, set_to

SETTINGS = [(1, 12, 256), (2, 2, 64), (7, 12, 256), (12, 12, 256), (16, 16, 1024), (5, 16, 512), (3, 7, 128)]


# ---- What Python computes ---------------------------------------------------------------------------------------


def multiplications(new: int, total: int, D: int) -> int:
    """Those of torch's own products, for `new` tokens of `total` (a product and a sum count as two operations)."""
    with FlopCounterMode(display=False) as counter:
        x, W = torch.zeros(new, D), torch.zeros(D, D)
        q, k, v = x @ W, x @ W, x @ W
        k, v = (torch.cat([torch.zeros(total - new, D), part]) for part in (k, v))  # the rest is read
        _ = (torch.softmax(q @ k.T, dim=-1) @ v) @ W
    return counter.get_total_flops() // 2


@pytest.mark.parametrize("setting", SETTINGS)
def test_counts_are_those_of_the_products(setting):
    step, T, D = setting
    result = CacheStepper(*setting).compute()
    assert result["without"] == [multiplications(t, t, D) for t in range(1, T + 1)]
    assert result["with_cache"] == [multiplications(1, t, D) for t in range(1, T + 1)]
    in_all = [2 * step * (step + 1) * D**2 + step * (step + 1) * (2 * step + 1) * D // 3]  # sums in closed form
    in_all += [4 * step * D**2 + step * (step + 1) * D]
    assert result["so_far"] == in_all and result["ratio"] == pytest.approx(in_all[0] / in_all[1])
    cache = [torch.zeros(step, D), torch.zeros(step, D)]
    assert result["bytes"] == sum(part.nbytes for part in cache)


def test_the_first_step_costs_the_same_and_the_ratio_grows_with_the_length():
    ratios = [CacheStepper(step, 16).compute()["ratio"] for step in range(1, 17)]
    assert ratios[0] == 1 and (np.diff(ratios) > 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 0}, r"step: expected an integer in \[1, 12\], got 0"),
        ({"step": 13}, r"step: expected an integer in \[1, 12\], got 13"),
        ({"T": 1}, r"T: expected an integer in \[2, 16\], got 1"),
        ({"d_model": 100}, "d_model: expected one of 64, 128, 256, 512, 1024, got 100"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        CacheStepper(**arguments)


def test_settings_stay_in_range_later():
    stepper = CacheStepper(10)
    for name, value in (("step", 0), ("step", 17), ("T", 17), ("d_model", 65)):
        with pytest.raises(traitlets.TraitError):
            setattr(stepper, name, value)
    stepper.T = 4  # of a smaller T the last step is shown
    assert stepper.compute()["step"] == 4


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text():
    explorer_page.gives_view_picture_and_text(CacheStepper(3, 8), "CacheStepper(step=3, T=8, d_model=256)")


def test_png_is_the_same_each_time_and_has_the_computed_numbers():
    first = CacheStepper().png()
    assert CacheStepper().png() == first and len(first) < 150_000
    for setting in SETTINGS[:4]:
        stepper = CacheStepper(*setting)
        result = stepper.compute()
        left, right = stepper.figure().axes
        marks = [label.get_text() for label in left.texts]
        assert marks.count("●") == 3 * result["step"] + 3 and marks.count("○") == 2 * (result["step"] - 1)
        for curve, name in zip(right.get_lines()[::2], ("without", "with_cache"), strict=True):
            np.testing.assert_allclose(curve.get_ydata(), np.cumsum(result[name]) / 1e6)


def test_alt_says_what_the_picture_shows():
    assert CacheStepper(7).alt == (
        "Step 7: 6 keys and values read, 1 computed; 4.0 times cheaper so far. Multiplications: this step 1.9 million "
        "without and 265,728 with a cache, so far 7.4 million and 1.8 million. Cache: 14.0 KiB. Left: tokens 1 to 12; "
        "without a cache 7 queries, keys and values are computed, with a cache 1 of each, and 6 keys and values are "
        "read. Right: multiplications so far against the step, for both."
    )
    assert CacheStepper().alt.startswith("Step 1: nothing to read yet, with and without a cache the same is computed.")


def test_state_is_small_and_needs_nothing_from_elsewhere():
    explorer_page.stands_alone(CacheStepper(), 50_000)


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def test_browser_and_python_say_and_compute_the_same(show):
    page = show(CacheStepper())
    for setting in SETTINGS:
        stepper = CacheStepper(*setting)
        set_to(page, CacheStepper, setting)
        got = page.evaluate("view.compute(model)")
        for name, value in stepper.compute().items():
            assert got[name] == (pytest.approx(value, abs=1e-12) if name == "ratio" else value), name
        assert said(page) == stepper.alt, setting
        assert (
            page.locator(".finding").inner_text() in stepper.alt
            and page.locator(".numbers").inner_text() in stepper.alt
        )


def test_cells_are_computed_read_or_empty(show):
    page = show(CacheStepper(5, 8))
    for panel, row, computed, read in (
        ("uncached", "query", range(5), ()), ("uncached", "key", range(5), ()), ("uncached", "value", range(5), ()),
        ("cached", "query", [4], ()), ("cached", "key", [4], range(4)), ("cached", "value", [4], range(4)),
    ):  # fmt: skip
        cells = [cell.get_attribute("class").split() for cell in page.locator(f"g.{panel} rect.{row}").all()]
        assert [t for t, names in enumerate(cells) if "computed" in names] == list(computed), (panel, row)
        assert [t for t, names in enumerate(cells) if "read" in names] == list(read), (panel, row)
        assert len(cells) == 8
    fills = page.evaluate(
        "['query', 'key', 'value'].map(r => getComputedStyle(document.querySelector(`rect.${r}.computed`)).fill)"
    )
    assert fills == ["rgb(0, 114, 178)", "rgb(230, 159, 0)", "rgb(0, 158, 115)"]


def test_buttons_and_arrow_keys_go_step_by_step_and_stop_at_the_ends(show):
    page = show(CacheStepper(1, 3))
    on, back = page.get_by_role("button", name="next step"), page.get_by_role("button", name="back")
    slider = page.get_by_role("slider", name="step t")
    assert slider.get_attribute("max") == "3"
    for key, step in ((on, 2), (on, 3), (on, 3), (back, 2)):
        key.press("Enter")
        assert page.evaluate("model.get('step')") == step
    slider.press("ArrowRight")
    frame(page)
    assert slider.get_attribute("aria-valuetext") == "3 of 3" and "Step 3" in said(page)
    change(page, T=16, d_model=64)
    assert slider.get_attribute("max") == "16" and "tokens 1 to 16" in said(page)


def test_play_goes_to_the_end_and_can_be_paused_and_started_again(show):
    page = show(CacheStepper(2, 4))
    page.evaluate(
        """() => { window.ticks = []; window.setInterval = call => ticks.push(call);
                   window.clearInterval = number => { if (number) ticks[number - 1] = null; }; }"""
    )

    def tick() -> int:
        page.evaluate("ticks.forEach(call => call && call())")
        return page.evaluate("model.get('step')")

    button = page.get_by_role("button", name="play")
    button.press("Enter")
    pause = page.get_by_role("button", name="pause")
    assert tick() == 3
    pause.press("Space")
    assert tick() == 3 and button.count() == 1
    button.press("Enter")
    assert tick() == 4 and button.count() == 1  # it has stopped by itself
    assert tick() == 4
    button.press("Enter")
    assert page.evaluate("model.get('step')") == 1 and tick() == 2
    page.evaluate("end()")
    assert tick() == 2


def test_every_control_is_reached_by_tab_in_reading_order(show):
    names = explorer_page.reached_by_tab(show(CacheStepper()))
    assert names == ["step t", "tokens T", "width D", "← back", "next step →", "play"]


def test_nothing_is_cut_or_overlaps_and_it_fits_a_slide(show):
    page = show(CacheStepper())
    explorer_page.nothing_is_cut(page, CacheStepper, SETTINGS, (390, 899, 900, 1168))
    for setting in SETTINGS:
        set_to(page, CacheStepper, setting)
        assert page.evaluate("el.getBoundingClientRect().height") <= 560, setting


def test_closing_a_view_removes_its_listeners(show):
    explorer_page.closing_removes_listeners(show(CacheStepper()))
