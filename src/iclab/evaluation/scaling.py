"""Scaling laws: slopes on log-log axes with an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from iclab.errors import InputError
from iclab.evaluation.intervals import check_level


@dataclass(frozen=True)
class Slope:
    """A fit ``log y = intercept + slope log x``.

    Attributes:
        slope, low, high: the exponent and its interval; ``nan`` ends where there are too few points for one.
        intercept: natural logarithm of y at x = 1.
        level: coverage.
        kind: ``seeds`` (Student's interval of the slopes of the seeds) or ``regression`` (of one curve's residuals).
        num_points: points used.
    """

    slope: float
    low: float
    high: float
    intercept: float
    level: float
    kind: str
    num_points: int


def scaling_slope(x: Sequence[float], y: np.ndarray, *, level: float = 0.95) -> Slope:
    """Fit the exponent of a power law.

    With several seeds each gives a slope; the result is their mean, with Student's interval over seeds (kind
    ``seeds``). With one curve the interval is that of the regression, which knows the scatter around a line and nothing
    else.

    Args:
        x: ``(k,)`` positive, at least two different values.
        y: ``(k,)``, or ``(seeds, k)`` with at least one seed; columns with an entry that is not finite and positive, or
            an x that is not, are left out.
        level: coverage of the interval.

    Raises:
        InputError: when fewer than two usable points remain, or for a level outside (0, 1).
    """
    values = np.atleast_2d(np.asarray(y, dtype=float))
    abscissae = np.asarray(x, dtype=float)
    if abscissae.ndim != 1 or values.ndim != 2 or values.shape[1] != len(abscissae) or not len(values):
        raise InputError(
            f"x has shape {abscissae.shape} and y {values.shape}; expected one y for each x, in rows of seeds"
        )
    level = check_level(level)
    usable = (np.isfinite(values) & (values > 0)).all(0) & (abscissae > 0) & np.isfinite(abscissae)
    if usable.sum() < 2 or len(np.unique(abscissae[usable])) < 2:
        raise InputError(f"a slope needs two usable points and has {int(usable.sum())}; widen the grid")
    log_x, log_y = np.log(abscissae[usable]), np.log(values[:, usable])
    centred = log_x - log_x.mean()
    slopes = log_y @ centred / (centred @ centred)
    slope, intercept = float(slopes.mean()), float(log_y.mean() - slopes.mean() * log_x.mean())
    seeds, points = len(values), int(usable.sum())
    if seeds > 1:
        margin = stdtrit(seeds - 1, (1 + level) / 2) * slopes.std(ddof=1) / np.sqrt(seeds)
        return Slope(slope, slope - margin, slope + margin, intercept, level, "seeds", points)
    if points < 3:
        return Slope(slope, float("nan"), float("nan"), intercept, level, "regression", points)
    residual = log_y[0] - intercept - slope * log_x
    error = np.sqrt((residual @ residual) / (points - 2) / (centred @ centred))
    margin = stdtrit(points - 2, (1 + level) / 2) * error
    return Slope(slope, slope - margin, slope + margin, intercept, level, "regression", points)
