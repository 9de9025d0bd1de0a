"""Bounds of an expression on many panels at once: on the real panels, and on complex discs around them."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace

import numpy as np

from iclab.links import discs, intervals
from iclab.links.discs import Disc
from iclab.links.hermite import hermite_functions
from iclab.links.intervals import Interval
from iclab.links.syntax import HERMITE, KINKED, evaluate

Array = np.ndarray

DISC = 5 / 3  # radius of the disc over half the width of the panel; see `discs`
_LARGEST_INTEGER_POWER = 10_000


@dataclass(frozen=True)
class Enclosure:
    """A sub-expression ``f`` on ``n`` panels.

    Attributes:
        real: bounds of ``f`` on the real panel.
        value: of ``f`` on the disc, continued analytically from the panel: no kink of the expression is inside it.
        slope: of ``f'`` on the disc.
    """

    real: Interval
    value: Disc
    slope: Disc

    def tightened(self, half: Array) -> Enclosure:
        """With the real bounds cut to those that follow from the disc and from the slope."""
        x = self.value.centre
        steepest = half * (np.abs(self.slope.centre) + self.slope.radius)
        reach = np.fmin(self.value.radius, np.where(np.isnan(steepest), np.inf, steepest))
        low, high = np.fmax(self.real.low, x - reach), np.fmin(self.real.high, x + reach)
        ordered = low <= high  # rounding may cross them
        low, high = np.where(ordered, low, self.real.low), np.where(ordered, high, self.real.high)
        return replace(self, real=Interval(low, high))


class PanelAnalysis:
    """Encloses sub-expressions of a checked tree on the panels ``[left, right]``, arrays ``(n,)``.

    Attributes:
        switches: pairs of a boolean array ``(n,)`` and an argument: the panels inside which the argument of an ``abs``,
            ``sign``, ``relu`` or ``step`` surely changes its sign once.
        signs: for each such function, in the order in which it is met, the signs ``(n,)`` of its argument.
    """

    def __init__(self, left: Array, right: Array) -> None:
        self.left, self.right = left, right
        self.centre, self.half = 0.5 * (left + right), 0.5 * (right - left)
        self.switches: list[tuple[Array, ast.expr]] = []
        self.signs: list[Array] = []

    def enclose(self, node: ast.expr) -> Enclosure:
        """The `Enclosure` of ``node``."""
        found = self._enclose(node)
        # Where it saturates (tanh(50 z), exp(-1e6 z^2)), it is a constant for every rule on the real line.
        flat = found.real.low == found.real.high
        if not flat.any():
            return found
        value = Disc(np.where(flat, found.real.low, found.value.centre), np.where(flat, 0.0, found.value.radius))
        slope = Disc(np.where(flat, 0.0, found.slope.centre), np.where(flat, 0.0, found.slope.radius))
        return Enclosure(found.real, value, slope)

    def _enclose(self, node: ast.expr) -> Enclosure:
        if is_constant(node):
            return self._constant(float(evaluate(node, 0.0, "numpy")))
        match node:
            case ast.Name():
                one = np.ones_like(self.centre)
                real = Interval(self.left, self.right)
                return Enclosure(real, Disc(self.centre, DISC * self.half), Disc(one, 0 * one))
            case ast.UnaryOp(op=op, operand=operand):
                u = self.enclose(operand)
                return Enclosure(-u.real, -u.value, -u.slope) if isinstance(op, ast.USub) else u
            case ast.Call(func=ast.Name(id=name), args=[argument]):
                return self._call(name, self.enclose(argument), argument)
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return self._power(base, exponent)
            case ast.BinOp(left=left, op=op, right=right):
                return _combined(op, self.enclose(left), self.enclose(right))
        raise TypeError(f"unchecked node {ast.dump(node)}")

    def _constant(self, value: float) -> Enclosure:
        zero = Disc.constant(0.0, self.centre)
        return Enclosure(Interval.constant(value, self.centre), Disc.constant(value, self.centre), zero)

    def _power(self, base: ast.expr, exponent: ast.expr) -> Enclosure:
        u = self.enclose(base)
        if not is_constant(exponent):
            # u^v = exp(v log u)
            log = _analytic("log", u)
            return _analytic("exp", _product(self.enclose(exponent), log))
        p = float(evaluate(exponent, 0.0, "numpy"))
        if p.is_integer() and abs(p) <= _LARGEST_INTEGER_POWER:
            n = int(abs(p))
            if n == 0:
                return self._constant(1.0)
            slope = u.value.integer_power(n - 1) * Disc.constant(float(n), self.centre) * u.slope
            power = Enclosure(u.real.integer_power(n), u.value.integer_power(n), slope)
            return power if p > 0 else _reciprocal(power)
        slope = u.value.real_power(p - 1) * Disc.constant(p, self.centre) * u.slope
        return Enclosure(u.real.real_power(p), u.value.real_power(p), slope)

    def _call(self, name: str, u: Enclosure, argument: ast.expr) -> Enclosure:
        if name in HERMITE:
            return _hermite(HERMITE[name].degree(), u)
        return self._kinked(name, u, argument) if name in KINKED else _analytic(name, u)

    def _kinked(self, name: str, u: Enclosure, argument: ast.expr) -> Enclosure:
        u = u.tightened(self.half)
        sign = self._sign(u, argument)
        self.signs.append(sign)
        zero, one = Disc.constant(0.0, self.centre), Disc.constant(1.0, self.centre)
        positive, negative = {
            "abs": (u.value, -u.value),
            "relu": (u.value, zero),
            "sign": (one, -one),
            "step": (one, zero),
        }[name]
        up, down = {"abs": (u.slope, -u.slope), "relu": (u.slope, zero)}.get(name, (zero, zero))
        none = np.zeros_like(self.centre)
        value, slope = u.value.branch(sign, none, positive, negative), u.slope.branch(sign, none, up, down)
        return Enclosure(intervals.FUNCTIONS[name](u.real), value, slope)

    def _sign(self, u: Enclosure, argument: ast.expr) -> Array:
        """Sign of ``u`` on each open panel; NaN where it is not known or changes."""
        low, high = u.real.low, u.real.high
        sign = np.full(low.shape, np.nan)
        sign[(low == 0) & (high == 0)] = 0.0
        sign[(low >= 0) & (high > 0)] = 1.0
        sign[(high <= 0) & (low < 0)] = -1.0
        monotone = np.isnan(sign) & (np.abs(u.slope.centre) > u.slope.radius)
        if monotone.any():
            # An end may be the zero itself, found to one float by bisection.
            left, right = self.left[monotone], self.right[monotone]
            first = np.sign(values(argument, left + 4 * np.spacing(np.abs(left))))
            last = np.sign(values(argument, right - 4 * np.spacing(np.abs(right))))
            sign[monotone] = np.where(first == last, first, np.nan)
            changes = monotone.copy()
            changes[monotone] = first * last < 0
            if changes.any():
                self.switches.append((changes, argument))
        return sign


def values(tree: ast.expr, z: Array) -> Array:
    """The expression at the points ``z``, as an array of their shape."""
    with np.errstate(all="ignore"):
        return np.broadcast_to(np.asarray(evaluate(tree, z, "numpy"), dtype=float), z.shape)


def is_constant(node: ast.expr) -> bool:
    """Whether ``z`` does not occur in ``node``."""
    return not any(isinstance(part, ast.Name) and part.id == "z" for part in ast.walk(node))


def _combined(op: ast.operator, u: Enclosure, v: Enclosure) -> Enclosure:
    match op:
        case ast.Add():
            return Enclosure(u.real + v.real, u.value + v.value, u.slope + v.slope)
        case ast.Sub():
            return Enclosure(u.real - v.real, u.value - v.value, u.slope - v.slope)
        case ast.Mult():
            return _product(u, v)
    return _product(u, _reciprocal(v))


def _product(u: Enclosure, v: Enclosure) -> Enclosure:
    return Enclosure(u.real * v.real, u.value * v.value, u.slope * v.value + u.value * v.slope)


def _reciprocal(u: Enclosure) -> Enclosure:
    value = u.value.reciprocal()
    return Enclosure(u.real.reciprocal(), value, -(u.slope * value.integer_power(2)))


def _analytic(name: str, u: Enclosure) -> Enclosure:
    slope = discs.SLOPES[name](u.value) * u.slope
    return Enclosure(intervals.FUNCTIONS[name](u.real), discs.FUNCTIONS[name](u.value), slope)


def _hermite(degree: int, u: Enclosure) -> Enclosure:
    """``h_k(u)`` from the Taylor series at the centre: ``h_k^(j) = sqrt(k!/(k-j)!) h_(k-j)``."""

    def taylor(k: int, x: Array, reach: Array) -> tuple[Array, Array]:
        basis = hermite_functions(x, k)
        terms = [(math.perm(k, j) ** 0.5 / math.factorial(j), basis[:, k - j]) for j in range(k + 1)]
        return basis[:, k], sum((c * np.abs(h) * reach**j for j, (c, h) in enumerate(terms) if j), np.zeros_like(x))

    middle, half = 0.5 * (u.real.low + u.real.high), 0.5 * (u.real.high - u.real.low)
    x, reach = taylor(degree, middle, half)
    slope = Disc(*taylor(degree - 1, u.value.centre, u.value.radius)) * Disc.constant(degree**0.5, x) * u.slope
    return Enclosure(Interval(x - reach, x + reach), Disc(*taylor(degree, u.value.centre, u.value.radius)), slope)
