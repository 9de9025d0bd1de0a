"""From the panels of a figure to what is drawn: checked curves, and axes that panels to be compared share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from iclab.errors import InputError
from iclab.report.curves import Curve, clean_panel
from iclab.report.text import plain
from iclab.report.ticks import LOGARITHMIC, AxisPlan, plan_axis
from iclab.results.page import Figure, Panel

Line = tuple[float, str]
_MOST_X_TICKS, _MOST_Y_TICKS = 7, 6


@dataclass(frozen=True)
class PreparedPanel:
    """A panel ready to draw.

    Attributes:
        panel: where it comes from.
        curves: its series, in order.
        vertical, horizontal: the reference lines that lie on the axes' scales.
        x, y: the axes.
        notes: what cannot be drawn.
    """

    panel: Panel
    curves: tuple[Curve, ...]
    vertical: tuple[Line, ...]
    horizontal: tuple[Line, ...]
    x: AxisPlan
    y: AxisPlan
    notes: tuple[str, ...]


def prepare(figure: Figure) -> list[PreparedPanel]:
    """The panels of ``figure``. Axes with one label and one scale have the same limits and ticks throughout.

    Raises:
        InputError: data or limits of a panel make no sense.
    """
    cleaned = [clean_panel(panel) for panel in figure.panels]
    curves = [found for found, _ in cleaned]
    notes = [list(found) for _, found in cleaned]
    parts = list(zip(figure.panels, notes, strict=True))
    vertical = [_on_scale(panel.vertical, panel.x_scale, said) for panel, said in parts]
    horizontal = [_on_scale(panel.horizontal, panel.y_scale, said) for panel, said in parts]
    limits = [_y_limits(panel, said) for panel, said in parts]
    x_values = [_x_values(*both) for both in zip(curves, vertical, strict=True)]
    y_values = [_y_values(*both) for both in zip(curves, horizontal, strict=True)]

    def x_axes(members: Sequence[int]) -> AxisPlan:
        scale = figure.panels[members[0]].x_scale
        return plan_axis(scale, np.concatenate([x_values[i] for i in members]), most=_MOST_X_TICKS)

    def y_axes(members: Sequence[int]) -> AxisPlan:
        scale, values = figure.panels[members[0]].y_scale, np.concatenate([y_values[i] for i in members])
        fixed = None
        if any(limits[i] for i in members):
            ends = [limits[i] or _ends(plan_axis(scale, y_values[i])) for i in members]
            fixed = min(low for low, _ in ends), max(high for _, high in ends)
        return plan_axis(scale, values, limits=fixed, most=_MOST_Y_TICKS)

    x_plans = _shared([(panel.x_label, panel.x_scale) for panel in figure.panels], x_axes)
    y_keys = [(panel.y_label, panel.y_scale, 0 if figure.share_y else i) for i, panel in enumerate(figure.panels)]
    y_plans = _shared(y_keys, y_axes)
    prepared = zip(figure.panels, curves, vertical, horizontal, x_plans, y_plans, notes, strict=True)
    return [PreparedPanel(p, tuple(c), v, h, x, y, tuple(said)) for p, c, v, h, x, y, said in prepared]


def cut_off(panels: Sequence[PreparedPanel]) -> str:
    """A sentence for the caption: which curves leave the axes at which end, and in which panels; empty if none does."""
    sentences = []
    for end in ("top", "bottom"):
        panels_of: dict[str, list[int]] = {}
        for i, panel in enumerate(panels):
            for curve in panel.curves:
                if _leaves(curve, panel.y, end):
                    panels_of.setdefault(plain(curve.series.label), []).append(i)
        by_panels: dict[tuple[int, ...], list[str]] = {}
        for label, where in panels_of.items():
            by_panels.setdefault(tuple(dict.fromkeys(where)), []).append(f"“{label}”")
        named = [f"{', '.join(labels)}{_in_panels(panels, where)}" for where, labels in by_panels.items()]
        if named:
            sentences.append(f"Curves that leave the axes at the {end}: {'; '.join(named)}.")
    return " ".join(sentences)


def _in_panels(panels: Sequence[PreparedPanel], where: Sequence[int]) -> str:
    if len(panels) == 1:
        return ""
    if len(where) == len(panels):
        return " in every panel"
    titles = [plain(panels[i].panel.title) for i in where]
    return " in " + ", ".join(
        f"“{title}”" if title else f"panel {i + 1}" for i, title in zip(where, titles, strict=True)
    )


def _leaves(curve: Curve, plan: AxisPlan, end: str) -> bool:
    y = curve.y[curve.drawn]
    slack = 1e-9 * (plan.high - plan.low)
    return bool((y > plan.high + slack).any() if end == "top" else (y < plan.low - slack).any())


def _shared(keys: Sequence[Hashable], plan: Callable[[Sequence[int]], AxisPlan]) -> list[AxisPlan]:
    """One plan for all panels with the same key, which ``plan`` makes from their positions."""
    plans = {key: plan([i for i, other in enumerate(keys) if other == key]) for key in dict.fromkeys(keys)}
    return [plans[key] for key in keys]


def _ends(plan: AxisPlan) -> tuple[float, float]:
    return plan.low, plan.high


def _on_scale(lines: Sequence[Line], scale: str, notes: list[str]) -> tuple[Line, ...]:
    kept = []
    for value, label in lines:
        if np.isfinite(value) and abs(value) < 1e200 and not (scale in LOGARITHMIC and value <= 0):
            kept.append((float(value), plain(label)))
        else:
            notes.append(f"The reference line “{plain(label)}” at {value:g} cannot be drawn on a {plain(scale)} axis.")
    return tuple(kept)


def _y_limits(panel: Panel, notes: list[str]) -> tuple[float, float] | None:
    if panel.y_limits is None:
        return None
    low, high = (float(v) for v in panel.y_limits)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"y_limits of panel {plain(panel.title)!r} are ({low}, {high}); expected low < high, finite")
    if panel.y_scale in LOGARITHMIC and low <= 0:
        notes.append(f"The limits ({low:g}, {high:g}) do not fit a logarithmic axis; those of the data are used.")
        return None
    return low, high


def _x_values(curves: Sequence[Curve], lines: Sequence[Line]) -> np.ndarray:
    # x counts where y is missing too: a gap at the end of a curve is part of the picture.
    return np.concatenate([np.array([v for v, _ in lines], dtype=np.float64), *(c.x[np.isfinite(c.x)] for c in curves)])


def _y_values(curves: Sequence[Curve], lines: Sequence[Line]) -> np.ndarray:
    parts = [np.array([v for v, _ in lines], dtype=np.float64)]
    for curve in curves:
        parts += [values[curve.drawn & np.isfinite(values)] for values in (curve.y, curve.low, curve.high)]
        parts += [values[np.isfinite(curve.x) & np.isfinite(values)] for values in (curve.most, curve.least)]
        parts += [values[np.isfinite(curve.x) & np.isfinite(values)] for values in curve.seeds]
    return np.concatenate(parts)
