"""Curves that lie on top of each other: those beneath are drawn wider, so that each still shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from iclab.report.curves import Curve

# As a fraction of the axes: about the width of a style.
_NEAR = 0.012


def covers(axes: Axes, curves: Sequence[Curve]) -> list[int]:
    """For each curve, how many later ones lie on it over at least three quarters of its points.

    Args:
        axes: with their final scales and limits.
        curves: in the order in which they are drawn.
    """
    paths = [_path(axes, curve) for curve in curves]
    return [sum(_lies_on(path, later) for later in paths[i + 1 :]) for i, path in enumerate(paths)]


def covers_of_level(axes: Axes, level: float, curves: Sequence[Curve]) -> int:
    """How many curves run for three quarters of their points or more along the horizontal line at ``level``."""
    height = fractions(axes, [level], "y")[0]
    heights = [_path(axes, curve)[1] for curve in curves]
    return sum(bool(y.size) and bool(np.mean(np.abs(y - height) < _NEAR) >= 0.75) for y in heights)


def fractions(axes: Axes, values: Sequence[float] | np.ndarray, which: str) -> np.ndarray:
    """Positions along an axis, 0 at its low and 1 at its high end; independent of the figure's layout."""
    axis, limits = (axes.xaxis, axes.get_xlim()) if which == "x" else (axes.yaxis, axes.get_ylim())
    transform = axis.get_transform()
    low, high = transform.transform(np.asarray(limits, dtype=np.float64))
    return (transform.transform(np.asarray(values, dtype=np.float64)) - low) / (high - low)


def _path(axes: Axes, curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    x, y = (fractions(axes, v[curve.drawn], which) for v, which in ((curve.x, "x"), (curve.y, "y")))
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _lies_on(path: tuple[np.ndarray, np.ndarray], later: tuple[np.ndarray, np.ndarray]) -> bool:
    x, y = path
    if x.size == 0 or later[0].size == 0:
        return False
    shared = (x >= later[0][0] - 1e-9) & (x <= later[0][-1] + 1e-9)
    gap = np.abs(np.interp(x, *later) - y)
    return bool(np.count_nonzero(shared & (gap < _NEAR)) >= max(1.0, 0.75 * x.size))
