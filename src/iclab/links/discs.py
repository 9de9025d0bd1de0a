"""Disc arithmetic over arrays: how much an analytic expression can vary on complex discs around real centres.

A function that is analytic on the disc ``|z - c| <= R`` and varies there by at most ``V`` is integrated over the panel
``[c - h, c + h]``, ``R = 5h/3``, by the 20-node Gauss-Legendre rule with an error of at most ``4e-19 V h`` (Trefethen,
Approximation Theory and Approximation Practice, theorem 19.3, ellipse of sum 3). So a bounded ``V`` excludes a feature
between the nodes, which no sampling of the function can. The bounds follow from power series: where all terms of
``f(x + t) - f(x)`` have one sign, ``t = r`` or ``t = -r`` is the worst.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special

from iclab.links.intervals import softplus

Array = np.ndarray


class Disc:
    """``|f(z) - centre| <= radius`` on ``n`` complex discs of ``z``; arrays ``(n,)``.

    The centre is the value at the centre, real. The radius is infinite where ``f`` may be singular. Rounding is not
    added.
    """

    def __init__(self, centre: Array, radius: Array) -> None:
        self.centre = centre
        self.radius = np.where(np.isfinite(centre) & ~np.isnan(radius), radius, np.inf)

    @classmethod
    def constant(cls, value: float, like: Array) -> Disc:
        return cls(np.full(like.shape, value), np.zeros(like.shape))

    def __neg__(self) -> Disc:
        return Disc(-self.centre, self.radius)

    def __add__(self, other: Disc) -> Disc:
        return Disc(self.centre + other.centre, self.radius + other.radius)

    def __sub__(self, other: Disc) -> Disc:
        return Disc(self.centre - other.centre, self.radius + other.radius)

    def __mul__(self, other: Disc) -> Disc:
        x, y = self.centre, other.centre
        return Disc(x * y, _times(np.abs(x), other.radius) + _times(np.abs(y) + other.radius, self.radius))

    def reciprocal(self) -> Disc:
        """``1/f``."""
        size = np.abs(self.centre)
        left = size - self.radius
        return Disc(1 / self.centre, np.where(left > 0, self.radius / left / size, np.inf))

    def integer_power(self, exponent: int) -> Disc:
        """``f**exponent`` for ``exponent >= 0``."""
        size = np.abs(self.centre)
        # (s + r)^n - s^n without cancellation, where r is small.
        growth = np.expm1(exponent * np.log1p(self.radius / size))
        radius = np.where(self.radius <= size, _times(size**exponent, growth), (size + self.radius) ** exponent)
        return Disc(self.centre**exponent, np.where(self.radius == 0, 0.0, radius))

    def real_power(self, exponent: float) -> Disc:
        """``f**exponent`` for an exponent that is no integer: analytic off the negative axis."""
        left = self.centre - self.radius
        steepest = np.where(exponent >= 1, self.centre + self.radius, left) ** (exponent - 1)
        return Disc(self.centre**exponent, np.where(left > 0, abs(exponent) * self.radius * steepest, np.inf))

    def branch(self, sign: Array, at_zero: Array, positive: Disc, negative: Disc) -> Disc:
        """``positive`` or ``negative`` by the sign of this disc on the real panel (NaN: not known)."""
        centre = np.where(sign > 0, positive.centre, np.where(sign < 0, negative.centre, at_zero))
        radius = np.where(sign > 0, positive.radius, np.where(sign < 0, negative.radius, 0.0))
        return Disc(centre, np.where(np.isnan(sign), np.inf, radius))


def _times(size: Array, radius: Array) -> Array:
    """``size * radius``, zero where either is."""
    return np.where((size == 0) | (radius == 0), 0.0, size * radius)


def _exp(u: Disc) -> Disc:
    value = np.exp(u.centre)
    return Disc(value, np.where(u.radius < 1, value * np.expm1(u.radius), np.exp(u.centre + u.radius) - value))


def _log(u: Disc) -> Disc:
    ratio = u.radius / u.centre
    return Disc(np.log(u.centre), np.where((u.centre > 0) & (ratio < 1), -np.log1p(-ratio), np.inf))


def _sin(u: Disc) -> Disc:
    sine, cosine = np.sin(u.centre), np.cos(u.centre)
    return Disc(sine, np.abs(cosine) * np.sinh(u.radius) + _times(np.abs(sine), _cosh_less_one(u.radius)))


def _cos(u: Disc) -> Disc:
    sine, cosine = np.sin(u.centre), np.cos(u.centre)
    return Disc(cosine, np.abs(sine) * np.sinh(u.radius) + _times(np.abs(cosine), _cosh_less_one(u.radius)))


def _cosh_less_one(r: Array) -> Array:
    return 2 * np.sinh(r / 2) ** 2


def _tan(u: Disc) -> Disc:
    # tan(x + t) - tan(x) = sin(t) / (cos(x) cos(x + t))
    cosine = _cos(u)
    least = np.abs(cosine.centre) - cosine.radius
    radius = np.where(least > 0, np.sinh(u.radius) / (np.abs(cosine.centre) * least), np.inf)
    return Disc(np.tan(u.centre), radius)


def _sinh(u: Disc) -> Disc:
    return Disc(np.sinh(u.centre), np.sinh(np.abs(u.centre) + u.radius) - np.sinh(np.abs(u.centre)))


def _cosh(u: Disc) -> Disc:
    return Disc(np.cosh(u.centre), np.cosh(np.abs(u.centre) + u.radius) - np.cosh(u.centre))


def _tanh(u: Disc) -> Disc:
    # tanh(x + t) - tanh(x) = sinh(t) / (cosh(x) cosh(x + t)), and |cosh(a + ib)|^2 = sinh(a)^2 + cos(b)^2.
    size, r = np.abs(u.centre), u.radius
    small = np.minimum(r, 1.57)
    near = np.where(r < 1.57, np.sinh(small) / np.cosh(size) / np.cos(small), np.inf)
    # For |x| > r: sinh r <= e^r/2, cosh x >= e^|x|/2 and |cosh(x + t)| >= sinh(|x| - r).
    decay = np.exp(-2 * np.maximum(size - r, 0.0))
    far = np.where(size > r, 2 * decay / (1 - decay), np.inf)
    return Disc(np.tanh(u.centre), np.where(r == 0, 0.0, np.minimum(near, far)))


def _sigmoid(u: Disc) -> Disc:
    half = _tanh(Disc(0.5 * u.centre, 0.5 * u.radius))
    return Disc(scipy.special.expit(u.centre), 0.5 * half.radius)


def _softplus(u: Disc) -> Disc:
    slope = _sigmoid(u)
    return Disc(softplus(u.centre), _times(u.radius, slope.centre + slope.radius))


def _erf(u: Disc) -> Disc:
    # The slope is 2/sqrt(pi) exp(-w^2), and Re w^2 on the disc is least at a real part of x/2, or at its edge.
    size, r = np.abs(u.centre), u.radius
    least = np.where(r >= size / 2, size * size / 2 - r * r, (size - r) ** 2)
    return Disc(scipy.special.erf(u.centre), _times(r, 2 / math.sqrt(math.pi) * np.exp(-least)))


def _atan(u: Disc) -> Disc:
    # The slope is 1/(1 + w^2) = 1/((w - i)(w + i)), whose poles are sqrt(1 + x^2) away.
    left = np.hypot(1.0, u.centre) - u.radius
    return Disc(np.arctan(u.centre), np.where(left > 0, u.radius / left**2, np.inf))


FUNCTIONS: dict[str, Callable[[Disc], Disc]] = {
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "tanh": _tanh,
    "sinh": _sinh,
    "cosh": _cosh,
    "atan": _atan,
    "exp": _exp,
    "log": _log,
    "sqrt": lambda u: u.real_power(0.5),
    "erf": _erf,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
}
"""Each function of an expression that is analytic around the real axis."""


def _square_less(u: Disc, one: float) -> Disc:
    square = u.integer_power(2)
    return Disc(one - square.centre, square.radius)


SLOPES: dict[str, Callable[[Disc], Disc]] = {
    "sin": _cos,
    "cos": lambda u: -_sin(u),
    "tan": lambda u: -_square_less(_tan(u), -1.0),
    "tanh": lambda u: _square_less(_tanh(u), 1.0),
    "sinh": _cosh,
    "cosh": _sinh,
    "atan": lambda u: (-_square_less(u, -1.0)).reciprocal(),
    "exp": _exp,
    "log": Disc.reciprocal,
    "sqrt": lambda u: u.real_power(-0.5) * Disc.constant(0.5, u.centre),
    "erf": lambda u: _exp(_square_less(u, 0.0)) * Disc.constant(2 / math.sqrt(math.pi), u.centre),
    "sigmoid": lambda u: _sigmoid(u) * _sigmoid(-u),
    "softplus": _sigmoid,
}
"""Their derivatives."""
