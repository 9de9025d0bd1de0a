"""Draws one panel on one pair of axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.markers import CARETDOWNBASE, CARETUPBASE

from iclab.report.coincide import covers
from iclab.report.curves import Curve
from iclab.report.palette import AXIS, GRID, INK, MUTED, PAPER
from iclab.report.prepare import PreparedPanel
from iclab.report.references import draw_horizontal, draw_vertical, label_rows
from iclab.report.styles import Key, Style, key_of
from iclab.report.terms import as_mathtext
from iclab.report.text import wrapped
from iclab.report.ticks import AxisPlan, apply_plan
from iclab.results.page import Panel

_MOST_SEED_POINTS = 4000
# More lines of a label would leave no room for the axes; the page's text has all of it.
_MOST_LINES = 3
_BROADER = "Where curves lie on each other, those beneath are drawn broader."
_BAND_OPACITY, _SEED_OPACITY = 0.2, 0.4


def draw_panel(axes: Axes, prepared: PreparedPanel, styles: dict[Key, Style], *, title: bool) -> list[str]:
    """Draw a panel and return notes on how to read it.

    Args:
        axes: empty axes.
        prepared: what to draw.
        styles: from `assign_styles`.
        title: whether the panel's title is part of the drawing.
    """
    panel, curves, notes = prepared.panel, prepared.curves, list(prepared.notes)
    apply_plan(axes, "x", prepared.x)
    apply_plan(axes, "y", prepared.y)
    _decorate(axes, panel)
    for curve in curves:
        _draw_band(axes, curve, styles[key_of(curve.series)], prepared.y)
    _draw_seeds(axes, curves, styles, notes)
    for joined in (True, False):
        layer = sorted((c for c in curves if styles[key_of(c.series)].joined == joined), key=_layer)
        hidden = covers(axes, layer)
        for curve, others in zip(layer, hidden, strict=True):
            _draw_line(axes, curve, styles[key_of(curve.series)].beneath(others))
        if any(hidden):
            notes.append(_BROADER)
    for curve in curves:
        _draw_bounds(axes, curve, styles[key_of(curve.series)])
    if not any(np.isfinite([curve.y, curve.most, curve.least]).any() for curve in curves):
        axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", va="center", color=MUTED)
    rows = draw_vertical(axes, prepared.vertical)
    draw_horizontal(axes, prepared.horizontal, curves)
    if title and panel.title:
        axes.set_title(as_mathtext(wrapped(panel.title, 40, _MOST_LINES)), loc="left", pad=7 + rows * label_rows.height)
    return list(dict.fromkeys(notes))


def _decorate(axes: Axes, panel: Panel) -> None:
    axes.set_xlabel(as_mathtext(wrapped(panel.x_label, 44, _MOST_LINES)))
    axes.set_ylabel(as_mathtext(wrapped(panel.y_label, 34, _MOST_LINES)))
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(AXIS)
    axes.tick_params(which="both", color=AXIS, labelcolor=INK)


def _draw_band(axes: Axes, curve: Curve, style: Style, plan: AxisPlan) -> None:
    low, high = np.clip(curve.low, plan.low, plan.high), np.clip(curve.high, plan.low, plan.high)
    known = curve.drawn & np.isfinite(low) & np.isfinite(high)
    alone = known & curve.isolated() if style.role != "quoted" else known
    wide = known & ~alone
    if wide.any():
        axes.fill_between(
            curve.x, low, high, where=wide.tolist(), color=style.colour, alpha=_BAND_OPACITY, linewidth=0, zorder=1.5
        )
    if alone.any():
        axes.vlines(curve.x[alone], low[alone], high[alone], color=style.colour, linewidth=1.3, alpha=0.75, zorder=2)


def _draw_bounds(axes: Axes, curve: Curve, style: Style) -> None:
    """Open arrows that point to where the value lies."""
    for bounds, marker in ((curve.most, CARETDOWNBASE), (curve.least, CARETUPBASE)):
        known = np.isfinite(curve.x) & np.isfinite(bounds)
        if known.any():
            axes.plot(
                curve.x[known], bounds[known], linestyle="none", marker=marker, markersize=9, markeredgewidth=1.4,
                markerfacecolor=PAPER, markeredgecolor=style.colour, zorder=3.5,
            )  # fmt: skip


def _draw_seeds(axes: Axes, curves: Sequence[Curve], styles: dict[Key, Style], notes: list[str]) -> None:
    if sum(curve.seeds.size for curve in curves) > _MOST_SEED_POINTS:
        notes.append("Too many seed points to draw; they are in the data behind the figure.")
        return
    for curve in curves:
        style = styles[key_of(curve.series)]
        for values in curve.seeds:
            axes.plot(
                curve.x, values, linestyle="none", marker=".", markersize=4.4, markeredgewidth=0,
                color=style.colour, alpha=_SEED_OPACITY, zorder=2,
            )  # fmt: skip


def _layer(curve: Curve) -> float:
    return {"model": 3.4, "quoted": 3.6, "theory": 3.1}.get(curve.series.role, 3.2)


def _draw_line(axes: Axes, curve: Curve, style: Style) -> None:
    # Exact curves lie under the points that they describe.
    zorder = _layer(curve) if style.joined else 3.5
    # About two dozen markers identify a line; more would hide it.
    spacing = (max(1, len(curve.x) // 24) if style.joined else 1) if style.marker else None
    axes.plot(curve.x, curve.y, **style.line_options(), markevery=spacing, zorder=zorder)
    alone = curve.isolated()
    if alone.any() and (spacing != 1 or not style.marker):
        options = style.marker_options() if style.marker else {"marker": "_", "markersize": 11, "markeredgewidth": 2}
        axes.plot(curve.x[alone], curve.y[alone], linestyle="none", color=style.colour, **options, zorder=zorder)
