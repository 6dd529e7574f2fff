"""Figures: the same bytes each time, alternative text in the output, labels that do not overlap."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from course_utils import plots


@pytest.fixture(autouse=True)
def course_style():
    with plt.rc_context():
        plots.style()
        yield
    plt.close("all")


def two_lines(**options):
    x = np.arange(10)
    return plots.lines(x, {"first": x, "second": x + 0.01}, title="t", xlabel="x", ylabel="y", **options)


def test_png_bytes_are_reproducible_and_the_figure_is_closed():
    fig = two_lines()
    first = plots.png(fig)
    assert first.startswith(b"\x89PNG") and not plt.fignum_exists(fig.number)
    assert plots.png(two_lines()) == first


def test_show_carries_the_alternative_text(monkeypatch):
    shown = []
    monkeypatch.setattr(plots, "display", lambda data, **options: shown.append((data, options)))
    plots.show(two_lines(), alt="Two rising lines.")
    ((data, options),) = shown
    assert data["text/plain"] == "Two rising lines." == options["metadata"]["image/png"]["alt"]
    assert data["image/png"].startswith(b"\x89PNG") and options["raw"]


def test_show_refuses_an_empty_alternative_text():
    with pytest.raises(ValueError, match="^alt: expected"):
        plots.show(two_lines(), alt=" ")


@pytest.mark.parametrize("logy", [False, True])
def test_end_labels_do_not_overlap_and_stay_inside_the_picture(logy):
    x = np.arange(1, 11)
    series = {f"line {i}": x + i * 1e-3 for i in range(4)}
    fig = plots.lines(x, series, title="t", xlabel="x", ylabel="y", logy=logy)
    fig.canvas.draw()
    boxes = sorted((text.get_window_extent() for text in fig.axes[0].texts), key=lambda box: box.y0)
    assert len(boxes) == 4
    for lower, upper in zip(boxes, boxes[1:]):
        assert lower.y1 <= upper.y0 + 1
    assert boxes[0].y0 >= 0 and boxes[-1].y1 <= fig.bbox.y1 and max(box.x1 for box in boxes) <= fig.bbox.x1 + 1


def test_lines_refuses_what_cannot_be_told_apart():
    x = np.arange(3)
    with pytest.raises(ValueError, match="^series: expected at most 4"):
        plots.lines(x, {str(i): x for i in range(5)}, title="", xlabel="", ylabel="")
    with pytest.raises(ValueError, match="'long': expected at most 3 values, got 4"):
        plots.lines(x, {"long": np.arange(4)}, title="", xlabel="", ylabel="")


def test_bars_draw_the_values():
    fig = plots.bars({"a": 1.5, "b": 3.0}, highlight=("b",), color="muted", title="t", xlabel="x")
    assert [bar.get_width() for bar in fig.axes[0].patches] == [1.5, 3.0]
    assert [text.get_text() for text in fig.axes[0].texts] == ["1.50", "3.00"]
    assert fig.axes[0].patches[0].get_facecolor() != fig.axes[0].patches[1].get_facecolor()


def test_lines_of_one_color_differ_in_style():
    x = np.arange(3)
    fig = plots.lines(x, {"a": x, "b": x, "c": x}, title="", xlabel="", ylabel="", colors=("state",) * 3, dashed=("c",))
    assert len({line.get_color() for line in fig.axes[0].lines}) == 1
    assert len({str(line.get_linestyle()) for line in fig.axes[0].lines}) == 3


def test_a_label_can_stand_inside_the_picture():
    x = np.arange(10)
    fig = plots.lines(x, {"a": x, "b": x + 1}, title="t", xlabel="x", ylabel="y", labels_at={"a": 5})
    assert {text.get_text(): text.xy[0] for text in fig.axes[0].texts}["a"] == 5


def test_surface_draws_every_path():
    z = np.zeros((3, 4))
    fig = plots.surface(
        range(4),
        range(3),
        z,
        title="t",
        xlabel="x",
        ylabel="y",
        zlabel="z",
        paths={"a": np.zeros((2, 2)), "b": np.ones((2, 2))},
    )
    assert [text.get_text() for text in fig.axes[0].get_legend().get_texts()] == ["a", "b"]


def test_heatmap_shows_the_matrix_and_refuses_another_shape():
    values = np.arange(6).reshape(2, 3) / 5
    fig = plots.heatmap(values, ["a", "b"], list("xyz"), title="t")
    np.testing.assert_array_equal(fig.axes[0].images[0].get_array(), values)
    assert [text.get_text() for text in fig.axes[0].get_xticklabels()] == ["x", "y", "z"]
    with pytest.raises(ValueError, match=r"^values: expected shape \(2, 2\), got \(2, 3\)"):
        plots.heatmap(values, ["a", "b"], ["x", "y"], title="t")


def test_heatmap_frames_the_cells_that_it_is_told():
    fig = plots.heatmap(np.zeros((2, 3)), ["a", "b"], list("xyz"), title="t", boxes=[(1, 2), (0, 0)])
    assert [patch.get_xy() for patch in fig.axes[0].patches] == [(1.5, 0.5), (-0.5, -0.5)]
    for box in [(2, 0), (0, 3), (-1, 0), (0, -1)]:
        with pytest.raises(ValueError, match=r"^boxes: expected cells"):
            plots.heatmap(np.zeros((2, 3)), ["a", "b"], list("xyz"), title="t", boxes=[box])


@pytest.mark.parametrize("count, label, turned", [(40, "(", False), (40, "word", True), (5, "word", False)])
def test_heatmap_turns_the_labels_of_columns_only_where_words_would_collide(count, label, turned):
    fig = plots.heatmap(np.zeros((1, count)), ["a"], [label] * count, title="t")
    assert {text.get_rotation() != 0 for text in fig.axes[0].get_xticklabels()} == {turned}


def test_alignment_joins_the_words_that_are_linked_and_no_words_overlap():
    source = "a king did not switch on the television".split()
    target = "ein könig hat den fernseher nicht eingeschaltet".split()
    links = [(0, 0), (1, 1), (4, 6), (5, 6), (7, 4)]
    fig = plots.alignment(source, target, links, title="t")
    (ax,) = fig.axes
    fig.canvas.draw()
    words = {text.get_text(): text for text in ax.texts}
    drawn = [[round(x, 6) for x in line.get_xdata()] for line in ax.lines]
    ends = [(words[source[i]], words[target[j]]) for i, j in links]
    assert drawn == [[round(word.get_position()[0], 6) for word in pair] for pair in ends]
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == len(source) + len(target)
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


@pytest.mark.parametrize("link", [(2, 0), (0, 1), (-1, 0), (0, -1)])
def test_alignment_refuses_a_link_to_a_word_that_is_not_there(link):
    with pytest.raises(ValueError, match=r"^links: expected i < 2 and j < 1"):
        plots.alignment(["a", "b"], ["c"], [link], title="t")


def test_colors_are_distinct():
    assert len(set(plots.COLORS.values())) == len(plots.COLORS)
