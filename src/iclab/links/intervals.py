"""Interval arithmetic over arrays: bounds of an expression on each of many ranges of its argument."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special

Array = np.ndarray


class Interval:
    """Bounds ``low <= f <= high``, arrays ``(n,)``, on ``n`` ranges; infinite where nothing is known.

    Rounding is not added to the bounds: they serve to find where a function varies, not to prove a digit.
    """

    def __init__(self, low: Array, high: Array) -> None:
        self.low = np.where(np.isnan(low), -np.inf, low)
        self.high = np.where(np.isnan(high), np.inf, high)

    @classmethod
    def constant(cls, value: float, like: Array) -> Interval:
        return cls(np.full(like.shape, value), np.full(like.shape, value))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        products = np.stack([a * b for a in (self.low, self.high) for b in (other.low, other.high)])
        products[np.isnan(products)] = 0.0  # an infinite bound times an exact zero
        return Interval(products.min(0), products.max(0))

    def reciprocal(self) -> Interval:
        """``1/f``, unbounded where ``f`` changes sign."""
        inside = (self.low < 0) & (self.high > 0)
        low = np.where(self.high == 0, -np.inf, 1 / self.high)
        high = np.where(self.low == 0, np.inf, 1 / self.low)
        return Interval(np.where(inside, -np.inf, low), np.where(inside, np.inf, high))

    def integer_power(self, exponent: int) -> Interval:
        """``f**exponent`` for ``exponent >= 0``."""
        low, high = self.low**exponent, self.high**exponent
        if exponent % 2:
            return Interval(low, high)
        straddles = (self.low <= 0) & (self.high >= 0)
        return Interval(np.where(straddles & (exponent > 0), 0.0, np.minimum(low, high)), np.maximum(low, high))

    def real_power(self, exponent: float) -> Interval:
        """``f**exponent`` where ``f >= 0``, for an exponent that is no integer."""
        at_low, at_high = np.maximum(self.low, 0.0) ** exponent, self.high**exponent
        return Interval(np.minimum(at_low, at_high), np.maximum(at_low, at_high))

    def monotone(self, function: Callable[[Array], Array]) -> Interval:
        """An increasing function of ``f``."""
        return Interval(function(self.low), function(self.high))

    def even(self, function: Callable[[Array], Array]) -> Interval:
        """A function of ``|f|`` that increases with it."""
        straddles = (self.low <= 0) & (self.high >= 0)
        first, second = np.abs(self.low), np.abs(self.high)
        least = np.where(straddles, 0.0, np.minimum(first, second))
        return Interval(function(least), function(np.maximum(first, second)))

    def cosine(self) -> Interval:
        """``cos f``."""
        turns_low, turns_high = self.low / (2 * np.pi), self.high / (2 * np.pi)
        has_top = np.floor(turns_high) >= np.ceil(turns_low)
        has_bottom = np.floor(turns_high - 0.5) >= np.ceil(turns_low - 0.5)
        # Of a large argument the phase is rounding; a range as wide as a turn has both.
        unknown = ~(np.abs(turns_low) + np.abs(turns_high) < 1e12)
        ends = np.cos(self.low), np.cos(self.high)
        low = np.where(has_bottom | unknown, -1.0, np.minimum(*ends))
        return Interval(low, np.where(has_top | unknown, 1.0, np.maximum(*ends)))

    def sine(self) -> Interval:
        """``sin f``."""
        quarter = np.pi / 2
        return Interval(self.low - quarter, self.high - quarter).cosine()

    def tangent(self) -> Interval:
        """``tan f``, unbounded where a pole lies inside."""
        poles = np.floor(self.high / np.pi - 0.5) >= np.ceil(self.low / np.pi - 0.5)
        poles |= ~np.isfinite(self.low + self.high)
        low, high = np.tan(self.low), np.tan(self.high)
        return Interval(np.where(poles, -np.inf, low), np.where(poles, np.inf, high))


def softplus(u: Array) -> Array:
    """``log(1 + exp(u))``."""
    return np.logaddexp(u, 0.0)


FUNCTIONS: dict[str, Callable[[Interval], Interval]] = {
    "sin": Interval.sine,
    "cos": Interval.cosine,
    "tan": Interval.tangent,
    "tanh": lambda u: u.monotone(np.tanh),
    "sinh": lambda u: u.monotone(np.sinh),
    "cosh": lambda u: u.even(np.cosh),
    "atan": lambda u: u.monotone(np.arctan),
    "exp": lambda u: u.monotone(np.exp),
    "log": lambda u: u.monotone(lambda v: np.log(np.maximum(v, 0.0))),
    "sqrt": lambda u: u.monotone(lambda v: np.sqrt(np.maximum(v, 0.0))),
    "erf": lambda u: u.monotone(scipy.special.erf),
    "sigmoid": lambda u: u.monotone(scipy.special.expit),
    "softplus": lambda u: u.monotone(softplus),
    "abs": lambda u: u.even(lambda v: v),
    "sign": lambda u: u.monotone(np.sign),
    "relu": lambda u: u.monotone(lambda v: np.maximum(v, 0.0)),
    "step": lambda u: u.monotone(lambda v: (v > 0) * 1.0),
}
"""Bounds of each function of an expression, from bounds of its argument."""
