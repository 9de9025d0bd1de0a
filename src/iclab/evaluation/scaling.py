"""Scaling laws: slopes on log-log axes with an interval, and the context length that reaches an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from iclab.errors import InputError, check_positive
from iclab.evaluation.intervals import MIN_SEEDS_FOR_BAND
from iclab.prompts import Stream


@dataclass(frozen=True)
class Slope:
    """A fit ``log y = intercept + slope log x``.

    Attributes:
        slope, low, high: the exponent and its interval; ``nan`` ends where there are too few points for one.
        intercept: natural logarithm of y at x = 1.
        level: coverage.
        kind: ``bootstrap`` over seeds (5 or more) or ``regression`` (Student-t of the residuals of the mean curve).
        num_points: points used.
    """

    slope: float
    low: float
    high: float
    intercept: float
    level: float
    kind: str
    num_points: int


def scaling_slope(x: Sequence[float], y: np.ndarray, *, level: float = 0.95, resamples: int = 2000) -> Slope:
    """Exponent of a power law.

    Args:
        x: ``(k,)`` positive, at least two different values.
        y: ``(k,)``, or ``(seeds, k)``; points that are NaN or not positive in the mean are left out.
        level: coverage of the interval.

    Raises:
        InputError: when fewer than two usable points remain.
    """
    values = np.atleast_2d(np.asarray(y, dtype=float))
    places = np.asarray(x, dtype=float)
    if values.shape[1] != len(places):
        raise InputError(f"x has {len(places)} values and y {values.shape[1]}; expected one y for each x")
    mean = values.mean(0)
    usable = np.isfinite(mean) & (mean > 0) & (places > 0)
    if usable.sum() < 2 or len(np.unique(places[usable])) < 2:
        raise InputError(f"a slope needs two usable points and has {int(usable.sum())}; widen the grid")
    log_x, log_y = np.log(places[usable]), np.log(mean[usable])
    slope, intercept = np.polyfit(log_x, log_y, 1)
    seeds, points = len(values), int(usable.sum())
    if seeds >= MIN_SEEDS_FOR_BAND:
        picks = Stream(0).child("slope").numpy(0).integers(seeds, size=(resamples, seeds))
        curves = values[:, usable][picks].mean(1)
        curves = curves[(curves > 0).all(1)]
        centred = log_x - log_x.mean()
        draws = (np.log(curves) @ centred) / (centred @ centred)
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        return Slope(float(slope), float(low), float(high), float(intercept), level, "bootstrap", points)
    if points < 3:
        return Slope(float(slope), float("nan"), float("nan"), float(intercept), level, "regression", points)
    residual = log_y - intercept - slope * log_x
    error = np.sqrt((residual @ residual) / (points - 2) / ((log_x - log_x.mean()) ** 2).sum())
    margin = student_t.ppf((1 + level) / 2, points - 2) * error
    return Slope(
        float(slope), float(slope - margin), float(slope + margin), float(intercept), level, "regression", points
    )


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
