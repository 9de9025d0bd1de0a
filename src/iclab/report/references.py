"""Labelled reference lines: labels of vertical ones stand above the axes, of horizontal ones where data are sparse."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.textpath import TextPath

from iclab.report.coincide import covers_of_level, fractions
from iclab.report.curves import Curve
from iclab.report.palette import MUTED, PAPER
from iclab.report.terms import as_mathtext
from iclab.report.text import wrapped

_FONT_SIZE = 9.0
_LONGEST_LABEL = 40
# Lines nearer than this fraction of the axes are drawn as one, with both labels.
_SAME = 0.012
# Between a label above the axes and what is beside it.
_GAP = 0.015
# In the order of a panel's lines.
_VERTICAL_DASHES: tuple[Any, ...] = ((0, (1.2, 1.8)), (0, (5, 1.6, 1.2, 1.6)), (0, (8, 2.4)))
_HORIZONTAL_DASHES: tuple[Any, ...] = ((0, (4, 2.5)), (0, (9, 2, 2, 2)), (0, (1.2, 2.4)))

Line = tuple[float, str]


@dataclass(frozen=True)
class LabelRows:
    """Geometry of the rows of labels above the axes, in points."""

    height: float = 12.5
    offset: float = 3.0


label_rows = LabelRows()


def draw_vertical(axes: Axes, lines: Sequence[Line]) -> int:
    """Draw vertical lines with their labels above the axes; return how many rows the labels take.

    A label that does not stand on its line is joined to it by a line of the same dashes.
    """
    ends: list[float] = []
    merged = _merged(axes, lines, "x")
    positions = [*fractions(axes, [value for value, _ in merged], "x"), 1.0]
    for i, (value, labels) in enumerate(merged):
        dashes = _VERTICAL_DASHES[i % len(_VERTICAL_DASHES)]
        axes.axvline(value, color=MUTED, linewidth=1.1, linestyle=dashes, zorder=1.2)
        position = positions[i]
        for label in labels:
            half = _text_width(axes, label) / 2
            # Not across the next line, whose label may stand in a higher row.
            centre = max(half, min(position, positions[i + 1] - _GAP - half))
            row = next((r for r, end in enumerate(ends) if centre - half > end), len(ends))
            ends[row : row + 1] = [centre + half + _GAP]
            shift = (centre - position) * 72 * _axes_size(axes)[0]
            joined = row > 0 or abs(centre - position) > half + _GAP
            axes.annotate(
                as_mathtext(label), (position, 1), xycoords="axes fraction",
                xytext=(shift, label_rows.offset + row * label_rows.height), textcoords="offset points",
                ha="center", va="bottom", fontsize=_FONT_SIZE, color=MUTED, zorder=4 - 0.01 * row, path_effects=_HALO,
                arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 1.1, "linestyle": dashes, "shrinkA": 0,
                            "shrinkB": 0, "zorder": 1} if joined else None,
            )  # fmt: skip
    return len(ends)


def draw_horizontal(axes: Axes, lines: Sequence[Line], curves: Sequence[Curve]) -> None:
    """Draw horizontal lines, each label at the end and on the side of its line where it covers least."""
    crowd = _crowd(axes, curves)
    merged = _merged(axes, lines, "y")
    for i, (value, _) in enumerate(merged):
        hidden = covers_of_level(axes, value, curves)
        # Under curves that run along it, the line is a broad pale ribbon that shows on both sides of them.
        look = {"linewidth": 3.6 + 1.6 * min(hidden, 3), "alpha": 0.35} if hidden else {"linewidth": 1.1}
        dashes = "-" if hidden else _HORIZONTAL_DASHES[i % len(_HORIZONTAL_DASHES)]
        axes.axhline(value, color=MUTED, linestyle=dashes, zorder=1.2, **look)
        level = fractions(axes, [value], "y")[0]
        crowd = np.concatenate([crowd, np.stack([np.linspace(0, 1, 60), np.full(60, level)], 1)])
    height = 1.25 * _FONT_SIZE / (72 * _axes_size(axes)[1])
    for value, labels in merged:
        label = ", ".join(labels)
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
            as_mathtext(label), (1 if right else 0, value), xycoords=("axes fraction", "data"),
            xytext=(-2 if right else 2, 1.8 if above else -1.8), textcoords="offset points",
            ha="right" if right else "left", va="bottom" if above else "top",
            fontsize=_FONT_SIZE, color=MUTED, zorder=4, path_effects=_HALO,
        )  # fmt: skip
        text.set_in_layout(False)


_HALO = [withStroke(linewidth=2.4, foreground=PAPER)]


def _merged(axes: Axes, lines: Sequence[Line], which: str) -> list[tuple[float, list[str]]]:
    """Lines in ascending order with their labels; those that could not be told apart are one."""
    merged: list[tuple[float, list[str]]] = []
    for value, label in sorted(lines):
        near = merged and np.ptp(fractions(axes, [merged[-1][0], value], which)) < _SAME
        if not near:
            merged.append((value, []))
        short = wrapped(label, _LONGEST_LABEL, 1)
        if short and short not in merged[-1][1]:
            merged[-1][1].append(short)
    return merged


Box = tuple[float, float, float, float]


def _box(level: float, width: float, height: float, *, above: bool, right: bool) -> Box:
    left, bottom = (1 - width if right else 0.0), (level + 0.012 if above else level - height - 0.012)
    return left, bottom, left + width, bottom + height


def _cost(crowd: np.ndarray, box: Box) -> float:
    left, bottom, right, top = box
    # Curves and markers are wider than the points that stand for them.
    near_x = (crowd[:, 0] >= left - 0.02) & (crowd[:, 0] <= right + 0.02)
    inside = near_x & (crowd[:, 1] >= bottom - 0.025) & (crowd[:, 1] <= top + 0.025)
    outside = max(0.0, -bottom) + max(0.0, top - 1.0)
    return float(np.count_nonzero(inside)) + 1000 * outside


def _filled(box: Box) -> np.ndarray:
    """Points that make a drawn label as unattractive as a bundle of curves."""
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
        points = np.stack([fractions(axes, x, "x"), fractions(axes, y, "y")], 1)
        steps = np.linspace(0, 1, 16)[:, None]
        parts += [points, *(a + steps * (b - a) for a, b in itertools.pairwise(points))]
    return np.concatenate(parts)


def _text_width(axes: Axes, label: str) -> float:
    """The width of a label as a fraction of the axes."""
    return TextPath((0, 0), as_mathtext(label), size=_FONT_SIZE).get_extents().width / (72 * _axes_size(axes)[0])


def _axes_size(axes: Axes) -> tuple[float, float]:
    """Width and height of the axes in inches."""
    bounds, position = axes.figure.bbox, axes.get_position()
    dpi = axes.figure.dpi
    return position.width * float(bounds.width) / dpi, position.height * float(bounds.height) / dpi
