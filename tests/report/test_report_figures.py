"""Drawing: colours, styles, gaps, edge cases, byte-stability."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.markers import CARETDOWNBASE, CARETUPBASE

from iclab.errors import InputError
from iclab.report import drawing
from iclab.report.curves import clean_panel
from iclab.report.drawing import DrawnFigure, column_count, draw_figure
from iclab.report.inline import inline_svg
from iclab.report.palette import DARK_VARIABLES, INK, LIGHT_VARIABLES, MUTED, SERIES_DARK, SERIES_LIGHT
from iclab.report.panel import draw_panel
from iclab.report.prepare import prepare
from iclab.report.styles import assign_styles, legend_keys, of_figure
from iclab.results.page import Figure, Panel, Series

NAN, INF = float("nan"), float("inf")

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour: str) -> np.ndarray:
    """Linear RGB of a hexadecimal colour (IEC 61966-2-1)."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """WCAG 2 contrast ratio."""
    low, high = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


def oklab(rgb: np.ndarray) -> np.ndarray:
    """Ottosson's OKLab of linear RGB."""
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(to_lab) @ np.cbrt(np.array(to_cones) @ np.clip(rgb, 0, 1))


@pytest.mark.parametrize(
    ("colours", "variables", "least"), [(SERIES_LIGHT, LIGHT_VARIABLES, 6), (SERIES_DARK, DARK_VARIABLES, 9)]
)
def test_palette_contrasts_with_the_paper_and_survives_colour_blindness(
    colours: tuple[str, ...], variables: dict[str, str], least: float
) -> None:
    assert all(contrast(colour, variables["paper"]) >= 3 for colour in colours)
    assert contrast(variables["ink"], variables["paper"]) >= 12
    assert contrast(variables["muted"], variables["paper"]) >= 4.5
    for deficiency, matrix in DEFICIENCIES.items():
        seen = [oklab(np.array(matrix) @ linear(colour)) for colour in colours]
        distances = {
            (i, j): 100 * np.linalg.norm(seen[i] - seen[j]) for i, j in itertools.combinations(range(len(seen)), 2)
        }
        assert min(distances.values()) >= least, (deficiency, min(distances, key=lambda pair: distances[pair]))


def panel(*series: Series, **options: object) -> Panel:
    return Panel("title", "N", "error", series, **options)  # type: ignore[arg-type]


def draw(*series: Series, **options: object) -> tuple[DrawnFigure, Figure]:
    figure = Figure("name", "caption", [panel(*series, **options)])
    return draw_figure(figure, assign_styles([figure])), figure


def axes_of(shown: Panel) -> tuple[Axes, list[str]]:
    axes, figure = Canvas().add_subplot(), Figure("f", "", [shown])
    (prepared,) = prepare(figure)
    notes = draw_panel(axes, prepared, of_figure(figure, assign_styles([figure])), title=True)
    return axes, notes


def test_one_label_has_one_colour_and_marker_across_figures_and_roles() -> None:
    a, b = Series("a", [1], [1]), Series("b", [1], [1], role="baseline")
    first, second = Figure("1", "", [panel(b, a)]), Figure("2", "", [panel(Series("a", [1], [1], role="quoted"), b)])
    styles = assign_styles([first, second])
    assert styles["a", "model"].colour == styles["a", "quoted"].colour == SERIES_LIGHT[0]
    assert styles["a", "model"].marker == styles["a", "quoted"].marker
    assert styles["b", "baseline"].colour == SERIES_LIGHT[1]


def test_eight_labels_of_a_report_differ_in_colour_and_twenty_of_a_figure_in_looks() -> None:
    figures = [Figure(str(i), "", [panel(*(Series(f"{i}{j}", [1], [1]) for j in range(4)))]) for i in range(2)]
    assert len({style.colour for style in assign_styles(figures).values()}) == 8
    many = [Figure("f", "", [panel(*(Series(str(i), [1], [1]) for i in range(20)))])]
    assert len({(s.colour, s.marker) for s in assign_styles(many).values()}) == 20


def test_roles_differ_without_colour() -> None:
    roles = ("model", "ablation", "baseline", "theory", "ceiling", "quoted")
    styles = assign_styles([Figure("f", "", [panel(*(Series("x", [1], [1], role=r) for r in roles))])])
    assert len({(str(s.dashes), s.open, bool(s.marker)) for s in styles.values()}) == 6
    assert styles["x", "theory"].dashes == "-"
    assert not styles["x", "theory"].marker
    assert styles["x", "quoted"].open


def test_a_legend_names_each_curve_once() -> None:
    figure = Figure("f", "", [panel(Series("a", [1], [1]), Series("b", [1], [1])), panel(Series("a", [2], [2]))])
    assert legend_keys(figure) == [("a", "model"), ("b", "model")]


def test_two_drawings_are_equal_bytes_whatever_the_user_configured() -> None:
    series = Series("Mamba", [16, 64, 256], [1, 0.5, 0.2], [0.9, 0.4, 0.1], [1.1, 0.6, 0.3], [[1, 0.5, 0.2]])
    options = {"x_scale": "log2", "y_scale": "log", "vertical": [(64, "length")], "horizontal": [(1, "zero")]}
    first, _ = draw(series, **options)
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "svg.hashsalt": "other", "lines.linewidth": 9}):
        second, _ = draw(series, **options)
        assert matplotlib.rcParams["font.size"] == 30
    assert first == second
    assert first.png.startswith(b"\x89PNG")
    assert b"<dc:date>" not in first.svg


def styles_of(axes: Axes, colour: str) -> list[tuple[str, str, float]]:
    return [
        (str(line.get_linestyle()), str(line.get_marker()), line.get_linewidth())
        for line in axes.lines
        if line.get_color() == colour and line.get_alpha() is None
    ]


def test_points_with_an_exact_curve_are_not_joined() -> None:
    points = Series("mamba", [1, 2, 4], [1, 2, 3], [0, 1, 2], [2, 3, 4])
    exact = Series("mamba, exact", [1, 2, 4], [1.5, 2.5, 3.5], role="theory", like="mamba")
    axes, _ = axes_of(panel(points, exact, Series("other", [1, 2], [9, 8])))
    assert [style[:2] for style in styles_of(axes, SERIES_LIGHT[0])] == [("-", "None"), ("None", "o")]
    assert [style[:2] for style in styles_of(axes, SERIES_LIGHT[1])] == [("-", "s")]
    assert len(axes.collections) == 1


def test_points_are_joined_in_a_figure_without_their_exact_curve() -> None:
    points = Series("a", [1, 2, 4], [1, 2, 3])
    with_curve = Figure("1", "", [panel(points, Series("fit", [1, 4], [1, 3], role="theory", like="a"))])
    alone = Figure("2", "", [panel(points)])
    styles = assign_styles([with_curve, alone])
    assert not of_figure(with_curve, styles)["a", "model"].joined
    assert of_figure(alone, styles)["a", "model"].joined
    assert of_figure(with_curve, styles)["fit", "theory"].joined


def test_all_points_that_are_not_joined_are_drawn() -> None:
    places = list(range(1, 101))
    exact = Series("exact", places, places, role="theory", like="a")
    axes, _ = axes_of(panel(Series("a", places, places), exact))
    (points,) = (line for line in axes.lines if line.get_marker() == "o")
    assert points.get_markevery() == 1


def test_ceilings_are_no_colour_of_a_learner_and_differ_from_each_other() -> None:
    learners = [Series(str(i), [1], [1]) for i in range(8)]
    ceilings = [Series(f"oracle {i}", [1], [1], role="ceiling") for i in range(3)]
    theory = [Series(f"theory {i}", [1], [1], role="theory") for i in range(2)]
    styles = assign_styles([Figure("f", "", [panel(*ceilings, *learners, *theory)])])
    bounds = [styles[c.label, "ceiling"] for c in ceilings]
    assert {b.colour for b in bounds} == {INK}
    assert len({str(b.dashes) for b in bounds}) == 3
    assert len({styles[s.label, "model"].colour for s in learners}) == 8
    assert len({(s.colour, str(s.dashes), s.marker) for s in styles.values()}) == 13


def test_of_curves_that_coincide_those_beneath_are_broader() -> None:
    low, near = Series("low", [1, 2, 4], [1, 2, 3]), Series("near", [1, 2, 4], [1, 2, 3.001])
    axes, notes = axes_of(panel(low, near, Series("far", [1, 2, 4], [3, 2, 0])))
    first, second, third = (styles_of(axes, colour)[0][2] for colour in SERIES_LIGHT[:3])
    assert first > second == third
    assert notes == ["Where curves lie on each other, those beneath are drawn broader."]


def test_a_reference_line_shows_on_both_sides_of_a_curve_on_it() -> None:
    def width(y: float) -> float:
        axes, _ = axes_of(panel(Series("a", [1, 2, 4], [y, y, y]), Series("b", [1, 4], [0, 3]), horizontal=[(1, "")]))
        (line,) = (line for line in axes.lines if line.get_color() == MUTED)
        return line.get_linewidth()

    assert width(2.0) < 1.8 < 3 < width(1.0)


def test_gaps_losses_and_single_points() -> None:
    series = Series("a", [1, 2, 3, 4, 5, 6], [1, NAN, 3, 4, INF, -6])
    (curve,), notes = clean_panel(panel(series))
    assert curve.drawn.tolist() == [True, False, True, True, False, True]
    assert curve.isolated().tolist() == [True, False, False, False, False, True]
    assert notes == ["1 point of a not drawn in “title”: infinite."]


def test_bounds_are_open_arrows_that_no_line_joins() -> None:
    series = Series("a", [2, 4, 8, 16], [32, 40, 300, 4096], relations=["<=", "=", "=", ">"])
    axes, _ = axes_of(panel(series, x_scale="log2", y_scale="log2"))
    line, down, up = axes.lines
    np.testing.assert_array_equal(np.asarray(line.get_ydata(), dtype=float), [NAN, 40, 300, NAN])
    assert (np.ravel(down.get_xydata()).tolist(), down.get_marker()) == ([2, 32], CARETDOWNBASE)
    assert (np.ravel(up.get_xydata()).tolist(), up.get_marker()) == ([16, 4096], CARETUPBASE)
    low, high = axes.get_ylim()
    assert low < 32 < 4096 < high
    assert down.get_markerfacecolor() != down.get_markeredgecolor()


def test_a_logarithmic_axis_drops_what_it_cannot_show_and_says_so() -> None:
    series = Series("a", [1, 2, 3], [1, 0, -1], [-0.5, -0.5, -2], [2, 1, 0], [[1, 2, -3]])
    axes, notes = axes_of(panel(series, y_scale="log", horizontal=[(0, "zero")], y_limits=(-1, 2)))
    np.testing.assert_array_equal(np.asarray(axes.lines[-1].get_ydata(), dtype=float), [1, NAN, NAN])
    low, high = axes.get_ylim()
    assert 0 < low < 1 < 2 < high
    assert any("2 points of a" in note for note in notes)
    assert any("“zero” at 0" in note for note in notes)
    assert any("limits (-1, 2)" in note for note in notes)


def test_a_band_reaches_the_floor_of_a_logarithmic_axis() -> None:
    series = Series("a", [1, 2], [1, 0.1], [0.5, -0.1], [2, 0.2])
    axes, _ = axes_of(panel(series, y_scale="log"))
    bottom = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1].min()
    assert bottom == pytest.approx(axes.get_ylim()[0])


@pytest.mark.parametrize("scale", ["linear", "log", "log2", "symlog"])
def test_edge_cases_draw_on_every_scale(scale: str) -> None:
    series = [
        Series("empty", [], []),
        Series("one", [4], [2], [1], [3], [[2], [2.5]]),
        Series("zero width", [1, 2, 4], [1, 1, 1], [1, 1, 1], [1, 1, 1]),
        Series("nothing", [1, 2], [NAN, NAN]),
        Series("alone", [8], [1], role="theory"),
        Series("quoted", [2, 4], [1, 2], [0.5, 1], [2, 3], role="quoted"),
        Series("partial band", [1, 2, 4], [1, 2, 3], [0.5, NAN, 2], [2, NAN, INF]),
        *(Series(f"{i}", [1, 2], [i, i + 1]) for i in range(20)),
    ]
    drawn, _ = draw(*series, x_scale=scale, y_scale=scale)
    ElementTree.fromstring(drawn.svg)
    assert "nothing has nothing to draw in “title”." in drawn.notes
    assert "empty has nothing to draw in “title”." in drawn.notes


def test_a_figure_without_series_or_panels() -> None:
    axes, _ = axes_of(panel())
    assert [text.get_text() for text in axes.texts] == ["nothing to draw"]
    assert draw_figure(Figure("f", "", []), {}).panels == ()


@pytest.mark.parametrize(
    ("series", "message"),
    [
        (Series("a", [1, 2], [1]), "'a' has 2 x values and 1 values of y"),
        (Series("a", [1], [1], [1, 2], [1]), "2 values of low"),
        (Series("a", [1], [1], seeds=[[1], []]), r"0 values of seeds\[1\]"),
        (Series("a", [1, 2], [1, 1], relations=["="]), "relations of series 'a' are"),
        (Series("a", [1], [1], relations=["~"]), "relations of series 'a' are"),  # type: ignore[list-item]
        (Series("a", [1], ["x"]), "not numbers"),  # type: ignore[list-item]
    ],
)
def test_series_that_make_no_sense_are_refused(series: Series, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw(series)


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InputError, match="expected low < high"):
        draw(Series("a", [1], [1]), y_limits=(1, 1))


def test_labels_of_any_length_and_script_leave_room_for_the_axes() -> None:
    long, other = "word " * 80, "漢字 🙂 \x00 " * 30
    lines = {"vertical": [(1, long), (1.5, "x" * 500)], "horizontal": [(1, other)]}
    figure = Figure(
        "f", "", [Panel(long, long, long, [Series(long, [1, 2], [1, 2]), Series(other, [1], [1])], **lines)]
    )
    drawn = draw_figure(figure, assign_styles([figure]))
    assert all(len(ElementTree.fromstring(svg)) for svg in (drawn.svg, *drawn.panels))


def test_dollar_signs_are_text() -> None:
    axes, _ = axes_of(Panel("$\\frac{1}{2$", "$x", "$y$", [Series("$\\bad{$", [1], [1])]))
    assert axes.get_title(loc="left") == "\\$\\frac{1}{2\\$"
    assert axes.get_ylabel() == "\\$y\\$"
    figure = Figure("$f{$", "", [Panel("$\\frac{1}{2$", "$x", "$y$", [Series("$\\bad{$", [1], [1])])])
    ElementTree.fromstring(draw_figure(figure, assign_styles([figure])).svg)


def test_horizontal_labels_avoid_the_curve() -> None:
    shown = panel(Series("a", [0, 1, 2, 3, 4], [0, 0, 0, 0.95, 0.95]), horizontal=[(1.0, "perfect")])
    axes, _ = axes_of(shown)
    (label,) = (text for text in axes.texts if text.get_text() == "perfect")
    assert label.get_horizontalalignment() == "left"


def test_columns_of_a_grid() -> None:
    assert [column_count(n) for n in range(8)] == [1, 1, 2, 3, 2, 3, 3, 3]


@pytest.mark.parametrize("columns", [None, 2])
def test_titles_stay_in_the_figure(columns: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    canvases: list[Canvas] = []

    def remember(canvas: Canvas) -> bytes:
        canvases.append(canvas)
        return b""

    monkeypatch.setattr(drawing, "_png", remember)
    titles = ["flipped labels, outliers closest to the query", "trained closest, flipped labels, random labels"]
    panels = [Panel(title, "N", "error", [Series("a", [0, 1], [0, 1])]) for title in titles * 3]
    figure = Figure("figure", "", panels, columns)
    draw_figure(figure, assign_styles([figure]))
    FigureCanvasAgg(canvases[0]).draw()
    grid = canvases[0].axes[0].get_subplotspec()
    assert grid is not None
    assert grid.get_gridspec().ncols == (columns or 3)
    for axes in canvases[0].axes:
        (title,) = axes.findobj(lambda artist, told=axes.get_title("left"): getattr(artist, "_text", "") == told)
        assert title.get_text()  # type: ignore[attr-defined]
        assert title.get_window_extent().x1 <= canvases[0].bbox.x1


def test_inlined_svg_has_own_ids_variables_and_no_style_of_its_own() -> None:
    drawn, _ = draw(Series("a", [1, 2], [1, 2], [0, 1], [2, 3]))
    one, two = (str(inline_svg(drawn.panels[0], prefix, 'a "name" <b>')) for prefix in ("p", "q"))
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, own in zip((one, two), ids, strict=True):
        targets = set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text))
        assert targets == own
        assert 'aria-label="a &quot;name&quot; &lt;b&gt;"' in text
        assert "var(--s0)" in text
        assert "var(--ink)" in text
        assert not re.search("|".join(LIGHT_VARIABLES.values()), text)
        assert "<style" not in text
        assert "http" not in text
        ElementTree.fromstring(text)
