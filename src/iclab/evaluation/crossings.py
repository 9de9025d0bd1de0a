"""Where a curve first reaches a level: a number, or only a bound where the measured range does not hold the crossing.

A bound is no measurement. `crossing_slope` fits the values of the abscissa at which every crossing was measured, names
those that it leaves out, and says what the slope through the bounds is worth.
Shapes: S seeds, k values of the abscissa.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from iclab.errors import InputError, check_positive
from iclab.evaluation.scaling import Slope, scaling_slope

State = Literal["measured", "left", "right"]
Bound = Literal["lower", "upper", "none"]

_NO_WEIGHT = 1e-9


@dataclass(frozen=True)
class Crossing:
    """Where a curve first reaches a level.

    Attributes:
        value: the abscissa, or the bound of it.
        state: ``measured``; ``left`` (left-censored: the curve is at the level from the first measured point on, so the
            crossing is at most ``value``); ``right`` (right-censored: not reached up to ``value``, the last point).
    """

    value: float
    state: State = "measured"

    @property
    def measured(self) -> bool:
        """Whether ``value`` is the crossing and no bound of it."""
        return self.state == "measured"

    def __str__(self) -> str:
        """``32``, ``<= 32`` or ``> 4096``, to four digits."""
        return {"measured": "", "left": "<= ", "right": "> "}[self.state] + f"{self.value:.4g}"


def examples_to_reach(num_examples: Sequence[int], errors: Sequence[float], target: float) -> Crossing:
    """Find the context length at which an error curve first reaches ``target``, interpolated on log-log axes.

    Where the curve is at or below the target at the first length, the crossing is left-censored there; where it never
    gets there, right-censored at the last. A length 0 has no logarithm: a curve that is above the target there and at
    or below it at the next length is left-censored at that one. Towards an error of exactly 0, which has no logarithm
    either, the interpolation is linear in the error.

    Args:
        num_examples: increasing lengths, at least one.
        errors: one for each, finite and at least 0.
        target: positive.

    Raises:
        InputError: for lengths and errors that do not match, or errors that are negative or not finite.
    """
    target = check_positive("target", target)
    lengths, values = np.asarray(num_examples, dtype=float), np.asarray(errors, dtype=float)
    if lengths.ndim != 1 or lengths.shape != values.shape or not len(lengths) or not (np.diff(lengths) > 0).all():
        raise InputError("num_examples and errors do not match; expected as many errors as increasing lengths")
    if not (np.isfinite(values) & (values >= 0)).all() or not np.isfinite(lengths).all() or lengths[0] < 0:
        raise InputError("num_examples or errors hold negative or non-finite numbers; leave these lengths out")
    reached = np.flatnonzero(values <= target)
    if len(reached) == 0:
        return Crossing(float(lengths[-1]), "right")
    i = int(reached[0])
    if i == 0 or lengths[i - 1] <= 0:
        return Crossing(float(lengths[i]), "left")
    x0, x1 = np.log(lengths[i - 1 : i + 1])
    above, below = values[i - 1 : i + 1]
    share = np.log(above / target) / np.log(above / below) if below > 0 else 1 - target / above
    return Crossing(float(np.exp(x0 + (x1 - x0) * share)))


def mean_crossing(crossings: Iterable[Crossing]) -> Crossing | None:
    """Average some crossings; a bound among them makes the mean a bound.

    Returns:
        The mean; ``None`` where there are no crossings, or bounds in both directions, whose mean bounds nothing.
    """
    listed = list(crossings)
    states = {c.state for c in listed} - {"measured"}
    if not listed or len(states) > 1:
        return None
    return Crossing(float(np.mean([c.value for c in listed])), states.pop() if states else "measured")


@dataclass(frozen=True)
class CrossingSlope:
    """The exponent of crossings in the abscissa.

    Attributes:
        slope: over ``used`` alone; ``None`` where these are fewer than two.
        used: the values of the abscissa at which the crossing of every seed was measured.
        left_out: the others.
        bound: what ``bound_slope`` is to the slope over all values: ``lower``, ``upper``, or ``none`` where nothing is
            left out or no direction follows.
        bound_slope: through all values, each censored crossing at its bound; ``None`` where ``bound`` is ``none``.
        num_seeds: seeds behind it.
    """

    slope: Slope | None
    used: tuple[float, ...]
    left_out: tuple[float, ...]
    bound: Bound
    bound_slope: Slope | None
    num_seeds: int


def crossing_slope(
    x: Sequence[float], crossings: Sequence[Sequence[Crossing]], *, level: float = 0.95
) -> CrossingSlope:
    """Fit the exponent of a power law to crossings, some of which may be bounds.

    The least squares slope is ``sum_i w_i log y_i`` with weights ``w_i`` that increase with ``log x_i`` and sum to 0. A
    crossing that is known to be smaller than its bound raises the true slope where its weight is negative (at small x)
    and lowers it where that is positive, and one that is larger does the opposite. Where all bounds act in one
    direction, the slope through them bounds the slope over all values.

    Args:
        x: ``(k,)`` positive and increasing.
        crossings: ``S`` rows of ``k``.
        level: coverage of the interval over seeds (see `scaling_slope`).

    Raises:
        InputError: for shapes that do not match, or values of x that are not positive and increasing.
    """
    abscissae = np.asarray(x, dtype=float)
    if not len(crossings) or any(len(row) != len(abscissae) for row in crossings):
        raise InputError(f"x has {len(abscissae)} values; expected a row of as many crossings for each seed")
    if not (abscissae > 0).all() or not (np.diff(abscissae) > 0).all():
        raise InputError(f"x is {list(x)}; expected positive, increasing values")
    values = np.array([[c.value for c in row] for row in crossings], dtype=float)
    usable = np.array([[c.measured for c in row] for row in crossings], dtype=bool).all(0)
    slope = scaling_slope(abscissae[usable].tolist(), values[:, usable], level=level) if usable.sum() > 1 else None
    bound = _direction(abscissae, crossings)
    return CrossingSlope(
        slope,
        tuple(map(float, abscissae[usable])),
        tuple(map(float, abscissae[~usable])),
        bound,
        None if bound == "none" else scaling_slope(abscissae.tolist(), values, level=level),
        len(crossings),
    )


def _direction(abscissae: np.ndarray, crossings: Sequence[Sequence[Crossing]]) -> Bound:
    """Which way every censored crossing moves the slope through the bounds away from the true one."""
    if len(abscissae) < 2 or any(c.value <= 0 for row in crossings for c in row):
        return "none"
    weights = np.log(abscissae) - np.log(abscissae).mean()
    weights[np.abs(weights) < _NO_WEIGHT * np.abs(weights).max()] = 0
    signs = {
        float(np.sign(weight)) * (1 if crossing.state == "left" else -1)
        for row in crossings
        for weight, crossing in zip(weights, row, strict=True)
        if not crossing.measured and weight != 0
    }
    if len(signs) != 1:
        return "none"
    return "lower" if signs == {-1.0} else "upper"
