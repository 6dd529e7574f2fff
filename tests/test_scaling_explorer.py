"""The explorer of √d_k: what Python computes against torch, what the browser computes against Python, and the view."""

import base64
import math
import re

import numpy as np
import pytest
import torch
import traitlets
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page

import explorer_page
from course_utils.explorers import DotProductScale
from course_utils.explorers.scaling import SCALES, SEEDS, UNIT, WIDTHS, S, draw, entropy, jacobian_norm, logits, sums
from explorer_page import change, frame, said, set_to

NONE, ROOT, FULL = SCALES
SETTINGS = [
    (64, NONE, 0.0, 0),
    (256, NONE, 0.0, 0),  # saturated
    (256, NONE, 0.0, 2),  # another key comes close to the first
    (256, ROOT, 0.0, 0),
    (1024, FULL, 0.0, 0),  # the flattest
    (1024, NONE, 1.0, 2),  # logits near 1000
    (1024, NONE, 1.0, 0),
    (1024, ROOT, 0.7, 255),
    (512, FULL, 0.3, 17),
    (1, NONE, 0.0, 3),
    (1, FULL, 1.0, 4),
    (4, NONE, 0.0, 1),
    (2, ROOT, 0.1, 5),
]
FACTOR = {NONE: lambda d_k: 1.0, ROOT: lambda d_k: 1 / math.sqrt(d_k), FULL: lambda d_k: 1 / d_k}


# ---- What Python computes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_numbers_equal_those_of_torch(setting):
    """Dot products of the entries themselves, softmax and its Jacobian by torch; the sums were rounded on their way."""
    d_k, scale, mean, seed = setting
    result = DotProductScale(*setting).compute()
    q, k = (torch.tensor(array[..., :d_k]) + mean for array in draw(seed))
    factor = FACTOR[scale](d_k)
    expected = k @ q * factor
    error = factor * (math.sqrt(d_k) * (1 + 2 * mean)) / UNIT / 2 + 1e-9
    np.testing.assert_allclose(result["logits"], expected.numpy(), rtol=0, atol=error)
    values = torch.tensor(result["logits"])
    p = torch.softmax(values, dim=0)
    np.testing.assert_allclose(result["weights"], p.numpy(), rtol=1e-12)
    J = torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=0), values)
    assert result["norm"] == pytest.approx(torch.linalg.matrix_norm(J, 2).item(), rel=1e-9, abs=1e-15)
    assert result["entropy"] == pytest.approx(torch.special.entr(p).sum().item(), rel=1e-9, abs=1e-12)
    assert result["share"] == pytest.approx(result["entropy"] / math.log(8))
    assert (result["center"], result["spread"]) == pytest.approx((values.mean().item(), values.std().item()))


@settings(deadline=None)
@given(st.lists(st.floats(-700, 700), min_size=S, max_size=S))
def test_norm_and_entropy_keep_to_their_bounds(values):
    p = torch.softmax(torch.tensor(values, dtype=torch.float64), dim=0).numpy()
    first, second = np.sort(p)[::-1][:2]
    norm = jacobian_norm(p)
    assert second * (1 - 1e-9) <= norm <= min(first, 0.5) * (1 + 1e-9)  # eigenvalues interlace with the weights
    assert norm >= first * (1 - first) * (1 - 1e-9) - 1e-16  # the largest entry on the diagonal
    assert -1e-12 <= entropy(p) <= math.log(S) + 1e-12


def test_known_norms_and_entropies():
    even, one, two = np.full(S, 1 / S), np.eye(S)[3], (np.eye(S)[3] + np.eye(S)[5]) / 2
    np.testing.assert_allclose(jacobian_norm(np.stack([even, one, two])), [1 / S, 0, 1 / 2], atol=1e-15)
    np.testing.assert_allclose(entropy(np.stack([even, one, two])), [math.log(S), 0, math.log(2)], atol=1e-15)
    tiny = np.array([1.0, 1e-20, *np.zeros(S - 2)])
    assert jacobian_norm(tiny) == pytest.approx(2e-20, abs=0)  # 1 - p would have been 0


@pytest.mark.parametrize("mean", [0.0, 0.4, 1.0])
def test_curves_are_the_mean_and_the_median_over_all_seeds(mean):
    result = DotProductScale(mean=mean).compute()
    for i, scale in enumerate(SCALES):
        p = torch.softmax(torch.tensor(logits(mean, scale)), dim=-1)  # (SEEDS, widths, S)
        shares = torch.special.entr(p).sum(-1).mean(0) / math.log(S)
        norms = np.median(torch.linalg.matrix_norm(torch.diag_embed(p) - p[..., None] * p[..., None, :], 2), axis=0)
        np.testing.assert_allclose(result["shares"][i], shares, rtol=1e-9)
        np.testing.assert_allclose(result["norms"][i], norms, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(result["shares"][1:, 0], result["shares"][0, 0])  # all scales are 1 at d_k = 1


def test_the_median_norm_is_that_of_the_distribution():
    """40 to 60 % of 2000 other draws lie below it; with 64 seeds, at d_k = 1024, only 35 % would."""
    rng = np.random.default_rng(256)
    q, k = rng.standard_normal((2000, 1, 1024), np.float32), rng.standard_normal((2000, S, 1024), np.float32)
    sums_so_far = np.cumsum(q * k, axis=2)  # (2000, S, 1024)
    for width, median in zip(WIDTHS, DotProductScale().compute()["norms"][0], strict=True):
        p = torch.softmax(torch.tensor(sums_so_far[..., width - 1], dtype=torch.float64), dim=-1).numpy()
        assert (jacobian_norm(p) < median).mean() == pytest.approx(0.5, abs=0.1), width


def test_what_the_lecture_says_of_the_three_scales():
    result = DotProductScale().compute()
    shares, norms = (dict(zip(SCALES, result[name], strict=True)) for name in ("shares", "norms"))
    assert np.all(np.diff(shares[NONE]) < 0) and shares[NONE][-1] < 0.05
    assert norms[NONE][-1] < 1e-5 and np.all(np.diff(norms[NONE][4:]) < 0)
    assert np.ptp(shares[ROOT][1:]) < 0.1 and np.all((norms[ROOT] > 0.2) & (norms[ROOT] < 0.3))
    assert np.all(np.diff(shares[FULL]) > 0) and shares[FULL][-1] > 0.999
    assert norms[FULL][-1] == pytest.approx(1 / S, abs=0.01)


@pytest.mark.parametrize("mean", [0.0, 0.5, 1.0])
def test_spread_and_shift_are_those_of_the_derivation(mean):
    """Among the keys of a query the variance is d_k (1 + m²), and the logits lie around d_k m²."""
    values = logits(mean, NONE)[:, -1]  # (SEEDS, S) at d_k = 1024
    assert values.var(axis=1, ddof=1).mean() == pytest.approx(1024 * (1 + mean**2), rel=0.2)
    assert values.mean() == pytest.approx(1024 * mean**2, abs=4 * math.sqrt(1024 / SEEDS * (1 / S + 2 * mean**2)))


@pytest.mark.parametrize("setting", [(d_k, FULL, mean, 0) for d_k in (64, 256, 1024) for mean in (0.0, 1.0)])
def test_a_division_by_d_k_leaves_the_query_a_share_of_one_over_the_root(setting):
    """∂p/∂q = J K / d_k, whose norm is about that of J over √d_k."""
    d_k, _, mean, _ = setting
    ratios = []
    for seed in range(16):
        q, k = (torch.tensor(array[..., :d_k]) + mean for array in draw(seed))
        J = torch.autograd.functional.jacobian(lambda q, k=k: torch.softmax(k @ q / d_k, dim=0), q)
        ratios.append(torch.linalg.matrix_norm(J, 2).item() / DotProductScale(d_k, FULL, mean, seed).compute()["norm"])
    assert np.mean(ratios) * math.sqrt(d_k) == pytest.approx(1, abs=0.25)


def test_numbers_survive_the_packing():
    unpacked = np.frombuffer(base64.b64decode(DotProductScale().packed), "<i2") / UNIT
    np.testing.assert_array_equal(unpacked.reshape(SEEDS, len(WIDTHS), 2 * S + 1), sums())
    assert abs(sums()).max() * UNIT < 2**15 - 1


def test_seeds_differ_and_a_wider_vector_goes_on_from_a_narrower_one():
    assert len({draw(seed)[0][0] for seed in range(SEEDS)}) == SEEDS
    q, k = draw(7)
    for width, row in zip(WIDTHS, sums()[7], strict=True):
        np.testing.assert_allclose(row[:S] * math.sqrt(width), k[:, :width] @ q[:width], atol=0.01)
    with pytest.raises(ValueError, match=r"seed: expected an integer in \[0, 255\], got 256"):
        draw(256)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d_k": 3}, "d_k: expected one of 1, 2, 4, .*1024, got 3"),
        ({"d_k": 2048}, "d_k: expected one of"),
        ({"d_k": True}, "d_k: expected one of .*, got True"),
        ({"d_k": "64"}, "d_k: expected one of .*, got '64'"),
        ({"scale": "sqrt"}, r"scale: expected one of none, 1/sqrt\(d_k\), 1/d_k, got 'sqrt'"),
        ({"scale": None}, "scale: expected one of"),
        ({"mean": 1.1}, r"mean: expected a number in \[0, 1\], got 1.1"),
        ({"mean": math.nan}, "mean: expected a number"),
        ({"seed": 256}, r"seed: expected an integer in \[0, 255\], got 256"),
        ({"seed": 0.5}, "seed: expected an integer"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DotProductScale(**arguments)


def test_settings_stay_in_range_later():
    explorer = DotProductScale()
    for name, value in (("d_k", 3), ("scale", "half"), ("mean", 2), ("seed", -1)):
        with pytest.raises(traitlets.TraitError):
            setattr(explorer, name, value)
    assert repr(explorer) == repr(DotProductScale())


# ---- What a notebook stores --------------------------------------------------------------------------------------


def test_output_has_view_picture_and_text():
    words = "DotProductScale(d_k=256, scale='1/sqrt(d_k)', mean=0.0, seed=0)"
    explorer_page.gives_view_picture_and_text(DotProductScale(256, ROOT), words)


def test_png_is_the_same_each_time_and_follows_the_settings():
    first = DotProductScale().png()
    assert DotProductScale().png() == first
    assert b"Software" not in first and len(first) < 150_000
    for name, value in (("d_k", 128), ("scale", FULL), ("mean", 0.5), ("seed", 1)):
        assert DotProductScale(**{name: value}).png() != first, name


@pytest.mark.parametrize("setting", SETTINGS)
def test_png_has_the_computed_bars_and_curves(setting):
    explorer = DotProductScale(*setting)
    result = explorer.compute()
    bars, shares, weights, norms = explorer.figure().axes
    for axes, name in ((bars, "logits"), (weights, "weights")):
        np.testing.assert_array_equal([bar.get_height() for bar in axes.patches], result[name])
    for axes, name, own in ((shares, "shares", "share"), (norms, "norms", "norm")):
        *curves, here, mark = axes.get_lines()
        np.testing.assert_array_equal([curve.get_ydata() for curve in curves], result[name])
        widths = [curve.get_linewidth() for curve in curves]
        assert SCALES[explorer.scale] == list(SCALES.values())[int(np.argmax(widths))] and len(set(widths)) == 2
        assert len({curve.get_linestyle() for curve in curves}) == 3
        assert here.get_xdata()[0] == mark.get_xdata()[0] == explorer.d_k
        assert mark.get_ydata()[0] == max(result[own], 1e-12 if axes is norms else 0)


def test_alt_names_the_finding():
    assert DotProductScale().alt.startswith(
        "At d_k = 64, unscaled: weights up to 1.00, gradient shrinks to 9 × 10 to the power -4 or less. Left: 8 logits"
    )
    divided = DotProductScale(256, ROOT, 0.5).alt
    assert divided.startswith("At d_k = 256, divided by √d_k: weights up to 0.")
    assert "Mean of the entries: 0.5." in divided
    assert DotProductScale(1024, FULL).alt.startswith("At d_k = 1024, divided by d_k: weights up to 0.13, gradient")


def test_state_is_small_and_needs_nothing_from_elsewhere():
    explorer_page.stands_alone(DotProductScale(), 180_000)


# ---- The view in Chromium ----------------------------------------------------------------------------------------


chromium, show = explorer_page.chromium, explorer_page.show


def why(page: Page) -> str:
    return page.locator(".finding + p").inner_text()


def test_browser_and_python_say_and_compute_the_same(show):
    page = show(DotProductScale())
    for setting in SETTINGS:
        explorer = DotProductScale(*setting)
        expected = explorer.compute()
        set_to(page, DotProductScale, setting)
        got = page.evaluate(
            """() => { const r = view.compute(model), { curves } = r;
                return { ...r, logits: [...r.logits], weights: [...r.weights],
                         shares: curves.map(c => c.shares), norms: curves.map(c => c.norms) }; }"""
        )
        for name in ("logits", "weights", "center", "spread", "norm", "shares", "norms"):
            np.testing.assert_allclose(got[name], expected[name], rtol=1e-9, atol=0, err_msg=f"{setting} {name}")
        for name in ("entropy", "share"):
            assert got[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-14), (setting, name)
        assert said(page) == explorer.alt, setting


@pytest.mark.parametrize("setting", SETTINGS)
def test_title_reads_like_the_alt_text(show, setting):
    title = show(DotProductScale(*setting)).locator(".finding").evaluate("p => p.innerHTML")
    spoken = re.sub(r"<span>10<sup>(.*?)</sup></span>", r"10 to the power \1", title)
    spoken = re.sub(r"<span>d<sub>k</sub></span>", "d_k", spoken).replace("\N{MINUS SIGN}", "-")
    assert DotProductScale(*setting).alt.startswith(spoken + ".")


def test_arrow_keys_move_every_control_the_model_and_the_words(show):
    page = show(DotProductScale(64, NONE, 0.3, 5))
    for label, name, moved in (("width d_k", "d_k", 128), ("mean of entries", "mean", 0.4), ("seed", "seed", 6)):
        before = said(page)
        page.get_by_role("slider", name=label).press("ArrowRight")
        frame(page)
        assert page.evaluate("n => model.get(n)", name) == pytest.approx(moved)
        assert said(page) != before
    before = said(page)
    page.get_by_role("combobox", name="scale").press("ArrowDown")
    frame(page)
    assert page.evaluate("model.get('scale')") == ROOT and said(page) != before
    assert page.evaluate("model.saves") == 4


def test_the_width_is_read_as_a_number_not_as_its_exponent(show):
    page = show(DotProductScale(256))
    slider = page.get_by_role("slider", name="width d_k")
    assert (slider.input_value(), slider.get_attribute("aria-valuetext")) == ("8", "256")
    seen = [256]
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Home"):
        slider.press(key)
        seen.append(page.evaluate("model.get('d_k')"))
    assert seen == [256, 512, 1024, 1024, 1]
    assert set(seen) < set(WIDTHS)


def test_every_control_is_reached_by_tab_in_reading_order(show):
    assert explorer_page.reached_by_tab(show(DotProductScale())) == [
        "width d_k", "scale", "mean of entries", "seed", "saturate", "divide by √d_k", "divide by d_k",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "scale", "reason"),
    [("saturate", NONE, "one key"), ("divide by √d_k", ROOT, "gradient passes"), ("divide by d_k", FULL, "equal")],
)
def test_things_to_try_do_what_they_say(show, name, scale, reason):
    page = show(DotProductScale(4, FULL if scale != FULL else NONE, 0.6, 9))
    page.get_by_role("button", name=name, exact=True).press("Enter")
    frame(page)
    assert page.evaluate("['d_k', 'scale', 'mean', 'seed'].map(n => model.get(n))") == [256, scale, 0, 0]
    assert reason in why(page)
    assert page.get_by_role("combobox", name="scale").input_value() == str(list(SCALES).index(scale))


def test_the_reason_fits_the_numbers(show):
    page = show(DotProductScale())
    reasons = {
        (256, NONE, 0.0, 0): r"Logits spread by about √d_k = 16 \(here 19\): .* one key takes nearly all the weight",
        (256, NONE, 0.0, 2): "With this seed another key comes close to the first; .* under 0.0011",
        (4, NONE, 0.0, 1): r"Logits spread by about √d_k = 2.0 \(here 1.4\): softmax is not saturated yet",
        (256, ROOT, 0.0, 0): "Dividing by 16 keeps the spread near 1, .* gradient passes",
        (1024, FULL, 0.0, 0): "A spread of about 1/32 makes the weights nearly equal; .* about 1/32 reaches the query",
        (1, NONE, 0.0, 3): "the three scales are the same",
        (1024, NONE, 1.0, 0): "Mean 1.0 adds about 1024 to all logits, .* 1.41 times as far: one key takes nearly all",
        (1024, ROOT, 0.5, 0): "Mean 0.5 adds about 8.0 to all logits, .* 1.12 times as far: the same at every d_k",
        (1024, FULL, 0.5, 0): "Mean 0.5 adds about 0.25 to all logits, .* still tiny",
    }
    for setting, pattern in reasons.items():
        set_to(page, DotProductScale, setting)
        assert re.search(pattern, why(page)), (setting, why(page))


def test_what_the_reasons_claim_holds_for_every_seed(show):
    """Whichever seed and width a class tries, "nearly all the weight" and the others are true."""
    page = show(DotProductScale())
    for seed in range(0, SEEDS, 28):
        for d_k in WIDTHS[1::2]:
            for scale in (NONE, ROOT):
                set_to(page, DotProductScale, (d_k, scale, 0.0, seed))
                said, largest = why(page), DotProductScale(d_k, scale, 0.0, seed).compute()["weights"].max()
                if "takes nearly all" in said or "far ahead" in said:
                    assert largest > 0.85, (seed, d_k, scale)
                else:
                    assert largest < 0.95, (seed, d_k, scale)


def test_numbers_are_announced(show):
    page = show(DotProductScale(256, ROOT))
    live = page.locator("[aria-live=polite]")
    assert live.inner_text().startswith("logits: mean 0.5, standard deviation 1.2 · entropy 1.28 of 2.08 nats · norm")
    change(page, mean=1)
    assert live.inner_text().startswith("logits: mean 1")


@pytest.mark.parametrize("mean", [0.0, 0.8])
def test_bars_and_curves_lie_where_the_numbers_say(show, mean):
    page, result = show(DotProductScale(256, ROOT)), DotProductScale(256, ROOT, mean).compute()
    change(page, mean=mean)
    panels = page.locator("svg svg")
    height, width = (float(panels.nth(2).get_attribute(name)) for name in ("height", "width"))
    low, high = min(0, *result["logits"]), max(0, *result["logits"])
    ends = (height - (3 if low else 0), 3)
    places = {"logits": np.interp([0, *result["logits"]], (low, high), ends),
              "weights": height * (1 - np.array([0, *result["weights"]]) / 1.25)}  # fmt: skip
    for panel, (zero, *at) in enumerate(places.values()):
        bars = panels.nth(panel).locator("rect").all()
        for bar, end in zip(bars, at, strict=True):
            y, tall = (float(bar.get_attribute(name)) for name in ("y", "height"))
            assert (y, tall) == pytest.approx((min(zero, end), max(abs(zero - end), 1)))
    for panel, name in ((2, "shares"), (3, "norms")):
        for i, path in enumerate(panels.nth(panel).locator("path").all()):
            points = np.array([p.split(",") for p in re.split("[ML]", path.get_attribute("d"))[1:]], dtype=float)
            share = result[name][i] / 1.08 if name == "shares" else 1 + np.log10(result[name][i]) / 12
            np.testing.assert_allclose(points[:, 1], height * (1 - share), atol=0.06)
            np.testing.assert_allclose(points[:, 0], width * np.arange(11) / 10, atol=0.06)
        here = panels.nth(panel).locator("line.radius")
        assert float(here.get_attribute("x1")) == pytest.approx(width * 0.8)


def test_scales_differ_by_more_than_color_and_the_chosen_one_is_thick(show):
    page = show(DotProductScale(64, ROOT))
    style = "e => { const s = getComputedStyle(e); return [s.strokeDasharray, parseFloat(s.strokeWidth)]; }"
    for panel in (2, 3):
        paths = page.locator("svg svg").nth(panel).locator("path")
        dashes, widths = zip(*(path.evaluate(style) for path in paths.all()), strict=True)
        assert len(set(dashes)) == 3 and widths[1] > widths[0] == widths[2]
    assert page.locator("svg text.strong", has_text="1/√dk").count() == 2


def test_a_norm_below_the_axis_is_shown_by_a_triangle(show):
    page = show(DotProductScale(64, NONE, 0.0, 0))
    mark = page.locator("path.own").nth(1)
    assert "a6.5" in mark.get_attribute("d")
    seed = int(np.argmin(jacobian_norm(torch.softmax(torch.tensor(logits(0.0, NONE)[:, -1]), -1).numpy())))
    set_to(page, DotProductScale, (1024, NONE, 0.0, seed))
    assert DotProductScale(1024, NONE, 0.0, seed).compute()["norm"] < 1e-12
    assert "a6.5" not in mark.get_attribute("d") and "a6.5" in page.locator("path.own").first.get_attribute("d")


def test_nothing_is_cut_or_overlaps(show):
    explorer_page.nothing_is_cut(show(DotProductScale()), DotProductScale, SETTINGS, (390, 600, 760, 1000, 1168, 1200))


def test_fits_a_slide_under_its_heading(show):
    page = show(DotProductScale(), 1168, 720)
    for setting in SETTINGS:
        set_to(page, DotProductScale, setting)
        assert page.evaluate("el.getBoundingClientRect().height") <= 560, setting


def test_curves_take_the_courses_colors_on_white_and_on_dark(show):
    page = show(DotProductScale())
    for light, gradient in (("true", "rgb(200, 16, 46)"), ("false", "rgb(255, 107, 120)")):
        page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", light)
        paths = page.locator("svg svg").nth(3).locator("path")
        strokes = paths.evaluate_all("paths => paths.map(path => getComputedStyle(path).stroke)")
        assert strokes == [gradient] * 3


def test_closing_a_view_removes_its_listeners(show):
    explorer_page.closing_removes_listeners(show(DotProductScale()))
