"""Scaling laws: slopes on log-log axes with an interval, and the context length that reaches an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from iclab.errors import InputError, check_positive


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
    """Exponent of a power law.

    Args:
        x: ``(k,)`` positive, at least two different values.
        y: ``(k,)``, or ``(seeds, k)``; columns with an entry that is not finite and positive are left out.
        level: coverage of the interval.

    With several seeds each gives a slope; the result is their mean, with Student's interval over seeds (kind
    ``seeds``). With one curve the interval is that of the regression, which knows the scatter around a line and
    nothing else.

    Raises:
        InputError: when fewer than two usable points remain, or for a level outside (0, 1).
    """
    values = np.atleast_2d(np.asarray(y, dtype=float))
    places = np.asarray(x, dtype=float)
    if values.shape[1] != len(places):
        raise InputError(f"x has {len(places)} values and y {values.shape[1]}; expected one y for each x")
    if not 0 < level < 1:
        raise InputError(f"level is {level}; expected a number between 0 and 1")
    usable = (np.isfinite(values) & (values > 0)).all(0) & (places > 0)
    if usable.sum() < 2 or len(np.unique(places[usable])) < 2:
        raise InputError(f"a slope needs two usable points and has {int(usable.sum())}; widen the grid")
    log_x, log_y = np.log(places[usable]), np.log(values[:, usable])
    centred = log_x - log_x.mean()
    slopes = log_y @ centred / (centred @ centred)
    slope, intercept = float(slopes.mean()), float(log_y.mean() - slopes.mean() * log_x.mean())
    seeds, points = len(values), int(usable.sum())
    if seeds > 1:
        margin = student_t.ppf((1 + level) / 2, seeds - 1) * slopes.std(ddof=1) / np.sqrt(seeds)
        return Slope(slope, slope - margin, slope + margin, intercept, level, "seeds", points)
    if points < 3:
        return Slope(slope, float("nan"), float("nan"), intercept, level, "regression", points)
    residual = log_y[0] - intercept - slope * log_x
    error = np.sqrt((residual @ residual) / (points - 2) / (centred @ centred))
    margin = student_t.ppf((1 + level) / 2, points - 2) * error
    return Slope(slope, slope - margin, slope + margin, intercept, level, "regression", points)


def examples_to_reach(num_examples: Sequence[int], errors: Sequence[float], target: float) -> float:
    """The context length at which an error curve first reaches ``target``, interpolated on log-log axes.

    NaN where the curve never does; the first length where it starts at or below the target.
    """
    target = check_positive("target", target)
    lengths, values = np.asarray(num_examples, dtype=float), np.asarray(errors, dtype=float)
    if len(lengths) != len(values) or (np.diff(lengths) <= 0).any():
        raise InputError("num_examples and errors do not match; expected as many errors as increasing lengths")
    reached = np.flatnonzero(values <= target)
    if len(reached) == 0:
        return float("nan")
    i = int(reached[0])
    if i == 0 or lengths[i - 1] <= 0:
        return float(lengths[i])
    x0, x1 = np.log(lengths[i - 1 : i + 1])
    y0, y1 = np.log(np.maximum(values[i - 1 : i + 1], 1e-300))
    return float(np.exp(x0 + (x1 - x0) * (np.log(target) - y0) / (y1 - y0)))
