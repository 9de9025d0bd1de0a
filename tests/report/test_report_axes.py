"""Limits that panels share, curves that leave them, and reference lines."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.text import Annotation

from iclab.report.drawing import draw_figure
from iclab.report.palette import MUTED
from iclab.report.panel import draw_panel
from iclab.report.prepare import cut_off, prepare
from iclab.report.styles import assign_styles
from iclab.results.page import Figure, Panel, Series

NAN = float("nan")


def axes_with(**lines: object) -> Axes:
    axes = Canvas().add_subplot()
    figure = Figure("f", "", [Panel("title", "N", "error", [Series("a", [0, 4], [0, 1.2])], **lines)])  # type: ignore[arg-type]
    (prepared,) = prepare(figure)
    draw_panel(axes, prepared, assign_styles([figure]), title=True)
    return axes


def test_vertical_labels_that_would_overlap_are_staggered() -> None:
    lines = [(1.0, "a long label"), (1.05, "another label"), (3.0, "far")]
    axes = axes_with(vertical=lines)
    heights = {text.get_text(): text.xyann[1] for text in axes.texts if isinstance(text, Annotation)}
    assert heights["a long label"] == heights["far"] < heights["another label"]


def test_a_label_keeps_off_the_next_line_and_a_higher_one_is_joined_to_its_own() -> None:
    lines = [(2.0, "a label of the first line"), (2.5, "that of the second"), (2.504, "and of one like it")]
    axes = axes_with(vertical=lines)
    first, second = (line for line in axes.lines if line.get_color() == MUTED)
    assert str(first._unscaled_dash_pattern) != str(second._unscaled_dash_pattern)  # type: ignore[attr-defined]
    found = {text.get_text(): text for text in axes.texts if isinstance(text, Annotation)}
    FigureCanvasAgg(axes.figure).draw()  # type: ignore[arg-type]
    start, end = (axes.transData.transform((x, 0))[0] for x in (2.0, 2.5))
    box = found["a label of the first line"].get_window_extent()
    assert box.x0 < start < box.x1 <= end + 2
    assert found["a label of the first line"].arrow_patch is None
    assert all(found[label].arrow_patch is not None for _, label in lines[1:])
    assert len({text.xyann[1] for text in found.values()}) == 3


def test_horizontal_lines_that_coincide_share_a_label() -> None:
    lines = [(1.0, "guessing"), (1.001, "chance"), (0.5, "half"), (0.503, "half")]
    axes = axes_with(horizontal=lines)
    assert sorted(text.get_text() for text in axes.texts) == ["guessing, chance", "half"]
    assert sum(line.get_color() == MUTED for line in axes.lines) == 2


def compared(**options: object) -> Figure:
    one = Panel("one", "N", "error", [Series("a", [1, 4], [0.2, 3.0]), Series("b", [1, 4], [0.5, 0.7])], "log2")
    two = Panel("two", "N", "error", [Series("a", [2, 64], [0.1, 0.3]), Series("b", [2], [2.5])], "log2")
    other = Panel("other", "r", "loss", [Series("a", [1, 3], [10, 30])])
    shown = [replace(p, y_limits=limits) for p, limits in zip((one, two), ((0, 2), (0, 2.2)), strict=True)]
    return Figure("f", "", [*shown, other], **options)  # type: ignore[arg-type]


def test_panels_share_the_limits_of_axes_with_one_label() -> None:
    one, two, other = prepare(compared())
    assert (one.y.low, one.y.high) == (two.y.low, two.y.high) == (0, 2.2)
    assert one.x == two.x
    assert one.x.low < 1
    assert one.x.high > 64
    assert other.y.low > 2.2
    assert other.x.high < 4
    own, second, _ = prepare(compared(share_y=False))
    assert (own.y.high, second.y.high) == (2, 2.2)
    assert own.x == second.x


def test_a_panel_without_limits_widens_those_that_it_shares() -> None:
    free = Panel("free", "N", "error", [Series("a", [1, 2], [-1, 5])])
    prepared = prepare(Figure("f", "", [replace(free, y_limits=(0, 1)), free]))
    assert all(p.y.low <= -1 and p.y.high >= 5 for p in prepared)


def test_the_caption_names_curves_that_leave_a_panel() -> None:
    figure = compared()
    assert draw_figure(figure, assign_styles([figure])).cut_off == (
        "Curves that leave the axes at the top: “a” in “one”; “b” in “two”."
    )
    low = Panel("", "N", "error", [Series("a", [1, 2], [-1, 0.5]), Series("b", [1], [NAN])], y_limits=(0, 1))
    assert cut_off(prepare(Figure("f", "", [low]))) == "Curves that leave the axes at the bottom: “a”."
    assert cut_off(prepare(Figure("f", "", [low, low]))).endswith("bottom: “a” in every panel.")
    fits = replace(low, series=[Series("a", [1, 2], [0, 1], [-9, -9], [9, 9])])
    assert cut_off(prepare(Figure("f", "", [fits]))) == ""
