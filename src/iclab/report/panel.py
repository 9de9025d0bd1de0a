"""Draws one panel on one pair of axes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.markers import CARETDOWNBASE, CARETUPBASE

from iclab.errors import InputError
from iclab.experiments.reading import Panel
from iclab.report.coincide import covers
from iclab.report.curves import Curve, clean_panel
from iclab.report.palette import AXIS, GRID, INK, MUTED, PAPER
from iclab.report.references import draw_horizontal, draw_vertical, label_rows
from iclab.report.strokes import Key, Stroke, key_of
from iclab.report.text import plain, wrapped
from iclab.report.ticks import LOGARITHMIC, AxisPlan, apply_plan, plan_axis

_MOST_SEED_POINTS = 4000
# More lines of a label would leave no room for the axes; the page's text has all of it.
_MOST_LINES = 3
_BROADER = "Where curves lie on each other, those beneath are drawn broader."
_BAND_OPACITY, _SEED_OPACITY = 0.2, 0.4


def draw_panel(axes: Axes, panel: Panel, strokes: dict[Key, Stroke], *, title: bool) -> list[str]:
    """Draw ``panel`` and return notes on what could not be drawn.

    Args:
        axes: empty axes.
        panel: what to draw.
        strokes: from `assign_strokes`.
        title: whether the panel's title is part of the drawing.

    Raises:
        InputError: the panel's data or limits make no sense.
    """
    curves, notes = clean_panel(panel)
    vertical = [(v, wrapped(t, 40, 1)) for v, t in panel.vertical if _has_place(v, panel.x_scale, t, notes)]
    horizontal = [(v, wrapped(t, 40, 1)) for v, t in panel.horizontal if _has_place(v, panel.y_scale, t, notes)]
    x_plan = plan_axis(panel.x_scale, _x_values(curves, [v for v, _ in vertical]), most=7)
    y_values = _y_values(curves, [v for v, _ in horizontal])
    y_plan = plan_axis(panel.y_scale, y_values, limits=_y_limits(panel, notes), most=6)
    apply_plan(axes, "x", x_plan)
    apply_plan(axes, "y", y_plan)
    _decorate(axes, panel)
    for curve in curves:
        _draw_band(axes, curve, strokes[key_of(curve.series)], y_plan)
    _draw_seeds(axes, curves, strokes, notes)
    for joined in (True, False):
        layer = sorted((c for c in curves if strokes[key_of(c.series)].joined == joined), key=_layer)
        hidden = covers(axes, layer)
        for curve, others in zip(layer, hidden, strict=True):
            _draw_line(axes, curve, strokes[key_of(curve.series)].beneath(others))
        if any(hidden):
            notes.append(_BROADER)
    for curve in curves:
        _draw_bounds(axes, curve, strokes[key_of(curve.series)])
    if not any(np.isfinite([curve.y, curve.most, curve.least]).any() for curve in curves):
        axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", va="center", color=MUTED)
    rows = draw_vertical(axes, vertical)
    draw_horizontal(axes, horizontal, curves)
    if title and panel.title:
        axes.set_title(wrapped(panel.title, 40, _MOST_LINES), loc="left", pad=7 + rows * label_rows.height)
    return list(dict.fromkeys(notes))


def _has_place(value: float, scale: str, label: str, notes: list[str]) -> bool:
    if np.isfinite(value) and abs(value) < 1e200 and not (scale in LOGARITHMIC and value <= 0):
        return True
    notes.append(f"The reference line “{plain(label)}” at {value:g} has no place on a {plain(scale)} axis.")
    return False


def _y_limits(panel: Panel, notes: list[str]) -> tuple[float, float] | None:
    if panel.y_limits is None:
        return None
    low, high = (float(v) for v in panel.y_limits)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"y_limits of panel {plain(panel.title)!r} are ({low}, {high}); expected low < high, finite")
    if panel.y_scale in LOGARITHMIC and low <= 0:
        notes.append(f"The limits ({low:g}, {high:g}) have no place on a logarithmic axis; the data's own are used.")
        return None
    return low, high


def _x_values(curves: list[Curve], lines: list[float]) -> np.ndarray:
    # x counts where y is missing too: a gap at the end of a curve is part of the picture.
    return np.concatenate([*(c.x[np.isfinite(c.x)] for c in curves), np.asarray(lines, dtype=np.float64)])


def _y_values(curves: list[Curve], lines: list[float]) -> np.ndarray:
    parts = [np.asarray(lines, dtype=np.float64)]
    for curve in curves:
        parts += [values[curve.drawn & np.isfinite(values)] for values in (curve.y, curve.low, curve.high)]
        parts += [values[np.isfinite(curve.x) & np.isfinite(values)] for values in (curve.most, curve.least)]
        parts += [values[np.isfinite(curve.x) & np.isfinite(values)] for values in curve.seeds]
    return np.concatenate(parts)


def _decorate(axes: Axes, panel: Panel) -> None:
    axes.set_xlabel(wrapped(panel.x_label, 44, _MOST_LINES))
    axes.set_ylabel(wrapped(panel.y_label, 34, _MOST_LINES))
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(AXIS)
    axes.tick_params(which="both", color=AXIS, labelcolor=INK)


def _draw_band(axes: Axes, curve: Curve, stroke: Stroke, plan: AxisPlan) -> None:
    low, high = np.clip(curve.low, plan.low, plan.high), np.clip(curve.high, plan.low, plan.high)
    known = curve.drawn & np.isfinite(low) & np.isfinite(high)
    alone = known & curve.isolated() if stroke.role != "quoted" else known
    wide = known & ~alone
    if wide.any():
        axes.fill_between(
            curve.x, low, high, where=wide.tolist(), color=stroke.colour, alpha=_BAND_OPACITY, linewidth=0, zorder=1.5
        )
    if alone.any():
        axes.vlines(curve.x[alone], low[alone], high[alone], color=stroke.colour, linewidth=1.3, alpha=0.75, zorder=2)


def _draw_bounds(axes: Axes, curve: Curve, stroke: Stroke) -> None:
    """Open arrows that point to where the value lies."""
    for bounds, marker in ((curve.most, CARETDOWNBASE), (curve.least, CARETUPBASE)):
        known = np.isfinite(curve.x) & np.isfinite(bounds)
        if known.any():
            axes.plot(
                curve.x[known], bounds[known], linestyle="none", marker=marker, markersize=9, markeredgewidth=1.4,
                markerfacecolor=PAPER, markeredgecolor=stroke.colour, zorder=3.5,
            )  # fmt: skip


def _draw_seeds(axes: Axes, curves: list[Curve], strokes: dict[Key, Stroke], notes: list[str]) -> None:
    if sum(curve.seeds.size for curve in curves) > _MOST_SEED_POINTS:
        notes.append("Too many seed points to draw; they are in the data behind the figure.")
        return
    for curve in curves:
        stroke = strokes[key_of(curve.series)]
        for values in curve.seeds:
            axes.plot(
                curve.x, values, linestyle="none", marker=".", markersize=4.4, markeredgewidth=0,
                color=stroke.colour, alpha=_SEED_OPACITY, zorder=2,
            )  # fmt: skip


def _layer(curve: Curve) -> float:
    return {"model": 3.4, "quoted": 3.6, "theory": 3.1}.get(curve.series.role, 3.2)


def _draw_line(axes: Axes, curve: Curve, stroke: Stroke) -> None:
    # Exact curves lie under the points that they describe.
    zorder = _layer(curve) if stroke.joined else 3.5
    # About two dozen markers identify a line; more would hide it.
    spacing = (max(1, len(curve.x) // 24) if stroke.joined else 1) if stroke.marker else None
    axes.plot(curve.x, curve.y, **stroke.line_options(), markevery=spacing, zorder=zorder)
    alone = curve.isolated()
    if alone.any() and (spacing != 1 or not stroke.marker):
        options = stroke.marker_options() if stroke.marker else {"marker": "_", "markersize": 11, "markeredgewidth": 2}
        axes.plot(curve.x[alone], curve.y[alone], linestyle="none", color=stroke.colour, **options, zorder=zorder)
