"""Labelled reference lines: the labels of vertical ones stand above the axes, of horizontal ones where data is thin."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from iclab.report.coincide import covers_of_level, fractions
from iclab.report.curves import Curve
from iclab.report.palette import MUTED, PAPER

_FONT_SIZE = 8.5


@dataclass(frozen=True)
class LabelRows:
    """Geometry of the rows of labels above the axes, in points."""

    height: float = 11.0
    offset: float = 3.0


label_rows = LabelRows()


def draw_vertical(axes: Axes, lines: Sequence[tuple[float, str]]) -> int:
    """Dotted vertical lines with their labels above the axes; returns how many rows the labels take."""
    ends: list[float] = []
    for value, label in sorted(lines):
        axes.axvline(value, color=MUTED, linewidth=1.1, linestyle=(0, (1.2, 1.8)), zorder=1.2)
        if not label:
            continue
        place, half = fractions(axes, [value], "x")[0], _text_width(axes, label) / 2
        centre = min(max(place, half), max(1 - half, half))
        row = next((i for i, end in enumerate(ends) if centre - half > end), len(ends))
        ends[row : row + 1] = [centre + half + 0.02]
        axes.annotate(
            label, (centre, 1), xycoords="axes fraction", xytext=(0, label_rows.offset + row * label_rows.height),
            textcoords="offset points", ha="center", va="bottom", fontsize=_FONT_SIZE, color=MUTED,
        )  # fmt: skip
    return len(ends)


def draw_horizontal(axes: Axes, lines: Sequence[tuple[float, str]], curves: Sequence[Curve]) -> None:
    """Dashed horizontal lines, each label at the end and on the side of its line where it covers least."""
    crowd = _crowd(axes, curves)
    for value, _ in lines:
        hidden = covers_of_level(axes, value, curves)
        # Under curves that run along it, the line is a broad pale ribbon that shows on both sides of them.
        look = {"linewidth": 3.6 + 1.6 * min(hidden, 3), "alpha": 0.35} if hidden else {"linewidth": 1.1}
        axes.axhline(value, color=MUTED, linestyle="-" if hidden else (0, (4, 2.5)), zorder=1.2, **look)
        level = fractions(axes, [value], "y")[0]
        crowd = np.concatenate([crowd, np.stack([np.linspace(0, 1, 60), np.full(60, level)], 1)])
    height = _text_height(axes)
    for value, label in lines:
        if not label:
            continue
        level, width = fractions(axes, [value], "y")[0], _text_width(axes, label)
        best, box = min(
            ((_cost(crowd, b), i, above, right), b)
            for i, (above, right) in enumerate(itertools.product((True, False), (True, False)))
            for b in [_box(level, width, height, above=above, right=right)]
        )
        _, _, above, right = best
        crowd = np.concatenate([crowd, _filled(box)])
        text = axes.annotate(
            label, (1 if right else 0, value), xycoords=("axes fraction", "data"),
            xytext=(-2 if right else 2, 1.8 if above else -1.8), textcoords="offset points",
            ha="right" if right else "left", va="bottom" if above else "top",
            fontsize=_FONT_SIZE, color=MUTED, zorder=4,
        )  # fmt: skip
        text.set_in_layout(False)
        text.set_path_effects([withStroke(linewidth=2.4, foreground=PAPER)])


Box = tuple[float, float, float, float]


def _box(level: float, width: float, height: float, *, above: bool, right: bool) -> Box:
    left, bottom = (1 - width if right else 0.0), (level + 0.012 if above else level - height - 0.012)
    return left, bottom, left + width, bottom + height


def _cost(crowd: np.ndarray, box: Box) -> float:
    left, bottom, right, top = box
    # Strokes and markers are wider than the points that stand for them.
    near_x = (crowd[:, 0] >= left - 0.02) & (crowd[:, 0] <= right + 0.02)
    inside = near_x & (crowd[:, 1] >= bottom - 0.025) & (crowd[:, 1] <= top + 0.025)
    outside = max(0.0, -bottom) + max(0.0, top - 1.0)
    return float(np.count_nonzero(inside)) + 1000 * outside


def _filled(box: Box) -> np.ndarray:
    """Points that make a placed label as unattractive as a bundle of curves."""
    left, bottom, right, top = box
    grid = np.meshgrid(np.linspace(left, right, 20), np.linspace(bottom, top, 8))
    return np.stack([g.ravel() for g in grid], 1)


def _crowd(axes: Axes, curves: Sequence[Curve]) -> np.ndarray:
    """Points along all curves, in fractions of the axes."""
    parts = [np.empty((0, 2))]
    for curve in curves:
        x, y = curve.x[curve.drawn], curve.y[curve.drawn]
        if x.size == 0:
            continue
        places = np.stack([fractions(axes, x, "x"), fractions(axes, y, "y")], 1)
        steps = np.linspace(0, 1, 16)[:, None]
        parts += [places, *(a + steps * (b - a) for a, b in itertools.pairwise(places))]
    return np.concatenate(parts)


def _text_width(axes: Axes, label: str) -> float:
    """Estimated width of a label as a fraction of the axes: DejaVu Sans averages 0.56 em a character."""
    return len(label) * 0.56 * _FONT_SIZE / (72 * axes.get_position().width * _figure_size(axes)[0])


def _text_height(axes: Axes) -> float:
    return 1.25 * _FONT_SIZE / (72 * axes.get_position().height * _figure_size(axes)[1])


def _figure_size(axes: Axes) -> tuple[float, float]:
    bounds = axes.figure.bbox
    return float(bounds.width) / axes.figure.dpi, float(bounds.height) / axes.figure.dpi
