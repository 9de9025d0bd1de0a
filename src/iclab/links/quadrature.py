"""Expectations under ``z ~ N(0, 1)`` by adaptive piecewise Gauss-Legendre quadrature, with an error estimate.

One rule serves smooth, kinked, jumping and stiff integrands alike (a steep gate turns a polynomial into a near-step):
panels end at the declared break points, and a panel is halved until its 20-node rule agrees with its two halves.
The result is compared with that of panels with shifted edges; where they disagree, the search starts again from those,
and what remains counts as error.
Gauss-Hermite rules would need hundreds of nodes at a gate and converge like 1/n at a kink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from iclab.errors import InputError

Array = np.ndarray

_NODES = 20
_CHUNK = 4096
_FINE = 0.05  # panels below this width are where the first ones are cut; wider ones are reached by halving
_EPS = float(np.finfo(float).eps)
_LAST_RADIUS = 37.0  # the Gaussian density is 1e-298 there
_NEGLIGIBLE = 1e-24
MAX_PANELS = 60_000
_ROUNDS = 4
_NARROW = 1e-3  # total width of the panels around the poles of a function that is smooth between them
_OFFSET = (3 - 5**0.5) / 2


class ConvergenceError(InputError):
    """An integral that did not settle, though every value was finite."""


def gaussian_expectations(
    integrand: Callable[[Array], Array],
    breakpoints: Sequence[float] = (),
    *,
    tolerance: float = 1e-14,
) -> tuple[Array, Array]:
    """Compute ``E f(z)``, ``z ~ N(0, 1)``, for a vector-valued ``f``, with an error estimate of each component.

    Args:
        integrand: maps nodes ``(n,)`` to values ``(n, k)``.
        breakpoints: points of kinks and jumps of ``f``.
        tolerance: of each panel, relative to ``E |f|`` of the component.

    Returns:
        Values ``(k,)`` and absolute errors ``(k,)`` (sum of panel differences, plus rounding).

    Raises:
        InputError: where ``f`` is not finite or not integrable under the Gaussian.
    """
    values, errors, _ = gaussian_integrals(integrand, breakpoints, tolerance=tolerance)
    return values, errors


def gaussian_integrals(
    integrand: Callable[[Array], Array],
    breakpoints: Sequence[float] = (),
    *,
    tolerance: float = 1e-14,
    floor: Array | float = 0.0,
    panels: Sequence[float] | Array = (),
    max_panels: int = MAX_PANELS,
) -> tuple[Array, Array, Array]:
    """Compute ``E f(z)`` as `gaussian_expectations` does, and ``E |f(z)|`` beside it.

    Args:
        integrand: maps nodes ``(n,)`` to values ``(n, k)``.
        breakpoints: points of kinks and jumps of ``f``.
        tolerance: of each panel, relative to ``E |f|`` of the component.
        floor: a number or ``(k,)``, the rounding noise of ``f`` itself where it was found by a subtraction. A panel is
            not halved for less, and what is left counts in the errors.
        panels: sorted edges of panels of which it is known that nothing hides between the nodes of a rule. Where they
            are given, no wider panel is accepted.
        max_panels: more panels are refused.

    Returns:
        Values, absolute errors, and ``E |f|`` to a few digits, each ``(k,)``. ``E |f|`` is the size before
        cancellation, so ``|E f|`` far below it means that positive and negative parts cancel.

    Raises:
        InputError: where ``f`` is not finite or not integrable under the Gaussian, or the integral does not settle.
    """
    panels = np.asarray(panels, dtype=float)
    radius = _radius(integrand, panels)
    ends = np.unique([-radius, radius, *(b for b in breakpoints if -radius < b < radius)])
    fine = np.flatnonzero(np.diff(panels) < _FINE)
    fine = panels[np.union1d(fine, fine + 1)]
    even = np.linspace(-radius, radius, 2 * int(np.ceil(radius)) + 1)
    edges = np.unique(np.concatenate([even, ends, fine[np.abs(fine) < radius]]))
    floor = np.asarray(floor, dtype=float)
    rounds = 0
    while True:
        value, error, absolute, leaves, points = _adaptive(integrand, edges, tolerance, floor, panels, max_panels)
        rounds += 1
        # A jump between the edge of a panel and its first node is seen by neither the panel nor its halves. Panels
        # whose edges lie inside the first ones have nodes on both sides of it.
        edges = _shifted(leaves, ends)
        again, _ = _panels(integrand, edges[:-1], edges[1:])
        gap = np.abs(again.sum(0) - value)
        if (gap <= 4 * error + 10 * tolerance * absolute + 10 * floor).all() or rounds == _ROUNDS:
            break
    error = error + gap
    if (error > 1e-6 * absolute + 1e3 * floor).any():
        raise ConvergenceError(_diverged(points, points))
    return value, error + 8 * _EPS * absolute, absolute


def _adaptive(
    integrand: Callable[[Array], Array],
    edges: Array,
    tolerance: float,
    floor: Array,
    panels: Array,
    max_panels: int,
) -> tuple[Array, Array, Array, Array, Array]:
    """Value, error, integral of ``|f|``, the edges of the panels that were accepted, and the points among these."""
    left, right = edges[:-1], edges[1:]
    coarse, _ = _panels(integrand, left, right)
    value, error, absolute = np.zeros((3, coarse.shape[1]))
    accepted, points = [edges[-1:]], [edges[:0]]
    used = len(left)
    while len(left):
        middle = 0.5 * (left + right)
        halves_left = np.concatenate([left, middle])
        halves_right = np.concatenate([middle, right])
        fine, fine_abs = _panels(integrand, halves_left, halves_right)
        count = len(left)
        joined = fine[:count] + fine[count:]
        joined_abs = fine_abs[:count] + fine_abs[count:]
        difference = np.abs(joined - coarse)
        scale = absolute + joined_abs.sum(0)
        # At a jump or a pole the halving never ends; the panel is then a point and its difference is its error.
        point = right - left < 1e-13 * np.where(_crowded(left, right, panels), np.abs(left), 1 + np.abs(left))
        # Rounding of the nodes moves a function that varies on the scale of the panel by this.
        width = right - left
        rounding = _EPS * (np.maximum(np.abs(left), np.abs(right)) / width)[:, None] * joined_abs
        allowed = np.maximum(tolerance * np.maximum(scale, 1e-300) + floor, 8 * rounding)
        done = (difference <= allowed).all(1) & ~_too_wide(left, right, panels) | point
        value += joined[done].sum(0)
        # Next to an integrable singularity each halving gains little, so the difference understates what is left.
        error += (difference * np.where(point, 8.0, 2.0)[:, None])[done].sum(0)
        error += rounding[done & ~point & (width < _FINE)].sum(0)
        absolute += joined_abs[done].sum(0)
        accepted.append(left[done])
        points.append(left[done & point])
        keep = np.concatenate([~done, ~done])
        left, right, coarse = halves_left[keep], halves_right[keep], fine[keep]
        used += len(left)
        if used > max_panels:
            raise ConvergenceError(_diverged(left, right))
    return value, error, absolute, np.sort(np.concatenate(accepted)), np.concatenate(points)


def _narrowest(left: Array, right: Array, panels: Array) -> Array:
    """Width of the narrowest of ``panels`` that each interval meets; infinite where it meets none."""
    first = np.clip(np.searchsorted(panels, left, "right") - 1, 0, len(panels) - 2)
    last = np.clip(np.searchsorted(panels, right, "left"), first + 1, len(panels) - 1)
    widths = np.append(np.diff(panels), np.inf)
    return np.minimum.reduceat(widths, np.stack([first, last], 1).ravel())[::2]


def _too_wide(left: Array, right: Array, panels: Array) -> Array:
    """Whether something may hide in a panel: it is wider than one of ``panels`` that it meets."""
    if not len(panels):
        return np.zeros(left.shape, dtype=bool)
    return right - left > (1 + 1e-9) * _narrowest(left, right, panels)


def _crowded(left: Array, right: Array, panels: Array) -> Array:
    """Whether ``panels`` are known to be narrower than the rounding of numbers of size 1."""
    if not len(panels):
        return np.zeros(left.shape, dtype=bool)
    return _narrowest(left, right, panels) < 1e-13


def _diverged(left: Array, right: Array) -> str:
    """Why an integral did not settle: at single points, or because the function is rough over a range."""
    if left.size and float((right - left).sum()) < _NARROW:
        point = float(left[np.argmin(np.abs(left))]) + 0.0
        return (
            f"the integral against the Gaussian did not converge near z = {point:.4g}: a pole there is not integrable, "
            "or too strong for float64; a jump or a kink has to be declared among the breakpoints"
        )
    return (
        "the integral against the Gaussian did not converge to the tolerance: the function oscillates too fast, has "
        "features that float64 cannot resolve, or rounding errors above 1e-14 of its mean size, as a polynomial of "
        "high degree has; lower its frequency or its degree"
    )


def _shifted(edges: Array, ends: Array) -> Array:
    """Edges inside the panels of ``edges``, off their middle, where a rule would again have its nodes in symmetry."""
    return np.unique(np.concatenate([ends, edges[:-1] + _OFFSET * np.diff(edges)]))


def gaussian_density(z: Array) -> Array:
    """Density of the standard normal."""
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


@cache
def _rule() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


def _panels(integrand: Callable[[Array], Array], left: Array, right: Array) -> tuple[Array, Array]:
    """Integral of ``f`` and of ``|f|`` over each panel: two arrays ``(panels, k)``."""
    if len(left) > _CHUNK:  # bounds the memory of the values
        starts = range(0, len(left), _CHUNK)
        parts = [_panels(integrand, left[s : s + _CHUNK], right[s : s + _CHUNK]) for s in starts]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    nodes, weights = _rule()
    half = 0.5 * (right - left)
    z = (0.5 * (right + left))[:, None] + half[:, None] * nodes
    values = _checked(integrand, z.flatten()).reshape(*z.shape, -1)
    mass = (half[:, None] * weights * gaussian_density(z))[:, :, None]
    return (mass * values).sum(1), (mass * np.abs(values)).sum(1)


def _checked(integrand: Callable[[Array], Array], z: Array) -> Array:
    with np.errstate(all="ignore"):
        values = np.asarray(integrand(z), dtype=float)
    if values.ndim == 1:
        values = values[:, None]
    bad = ~np.isfinite(values).all(1)
    if bad.any():
        raise InputError(_not_finite(z[bad][0]))
    return values


def _not_finite(z: float) -> str:
    return f"the function is not finite at z = {z:.6g}; expected finite values on the whole real line"


def _radius(integrand: Callable[[Array], Array], panels: Array) -> float:
    """Half-width of the interval outside of which every component is negligible under the Gaussian."""
    z = np.linspace(0.25, _LAST_RADIUS, 148)
    both = np.concatenate([-z[::-1], z])
    if len(panels):  # features of the tails may lie between the points of this grid
        middle, width = 0.5 * (panels[1:] + panels[:-1]), np.diff(panels)
        both = np.sort(np.concatenate([both, middle[(np.abs(middle) > 8.0) & (width < 0.25)]]))
    with np.errstate(all="ignore"):
        values = np.abs(np.asarray(integrand(both.copy()), dtype=float))
    if values.ndim == 1:
        values = values[:, None]
    near = (np.abs(both) < 8.0) & ~np.isfinite(values).all(1)
    if near.any():
        raise InputError(_not_finite(both[near][0]))
    mass = np.where(np.isfinite(values), values, np.inf) * gaussian_density(both)[:, None]
    # A value that overflows where its neighbours already vanish is met only if the radius reaches it.
    peak = np.where(np.isfinite(mass), mass, 0.0).max(0)
    alive = (mass > _NEGLIGIBLE * np.maximum(peak, 1e-290)).any(1)
    if not alive.any():
        return 10.0
    reach = float(np.abs(both[alive]).max())
    if reach >= _LAST_RADIUS - 0.3:
        overflow = np.abs(both[~np.isfinite(values).all(1)])
        weighty = np.abs(both[((mass > _NEGLIGIBLE * np.maximum(peak, 1e-290)) & np.isfinite(mass)).any(1)])
        if overflow.size and weighty.max(initial=0.0) < overflow.min() - 1.0:
            raise InputError(
                f"its values or their squares overflow float64 from |z| = {overflow.min():.4g} on; integrable though "
                "they may be, they cannot be integrated here: multiply the function by a small constant, or lower its "
                "degree"
            )
        raise InputError(
            f"the function grows too fast: its weight against the Gaussian is not negligible at "
            f"|z| = {_LAST_RADIUS:.0f}, beyond which float64 cannot go, so its moments are infinite, or "
            "finite and out of reach; expected a function that is square-integrable with room to spare"
        )
    return max(reach + 0.5, 8.0)
