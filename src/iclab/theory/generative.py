"""Generative exponent: least ``k`` with ``E[(E[h_k(z) | g(z)])^2] > 0``, from level sets and without derivatives.

``F_k(t) = E[h_k(z) 1{g(z) <= t}]`` is a sum over the end points of the level set, because
``int_a^b h_k phi = [-h_{k-1} phi / sqrt(k)]_a^b``; and ``E[h_k | g] = 0`` almost surely iff ``F_k = 0`` at all levels.
Atoms, kinks and jumps need no special case. Proofs and error logic: docs/theory/exponents.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri

from iclab.errors import InputError, check_integer
from iclab.links import Link, LinkLike, hermite_functions, make_link, switching_points
from iclab.links.quadrature import gaussian_density
from iclab.theory.exponents import TOLERANCE, Exponent, check_tolerance, decide
from iclab.theory.monotone import RESOLVED_RADIUS, monotone_nodes, rounding_noise, turning_cells

Array = np.ndarray

_EPS = float(np.finfo(float).eps)
_SMALLEST_BIN = 1e-8
_LEVELS = 256
_FEWEST_LEVELS = 16
_MAX_CROSSINGS = 500_000
_MANY_TURNS = 2_000
_CHUNK = 2**21  # numbers in the largest array of `level_set_integrals`
_MAX_DEGREE = 40


def generative_exponent(
    link: LinkLike, max_degree: int = 8, tolerance: float = TOLERANCE, method: str = "auto", num_levels: int = _LEVELS
) -> Exponent:
    """Find ``ge(g)``, the least ``ie(T o g)`` over label maps ``T``.

    The coefficients are ``sqrt(e_k)``, ``e_k = E[(E[h_k|g])^2]``: the largest degree-k coefficient that a label map of
    unit variance can reach. They are computed on finitely many levels, so they are lower bounds that grow to it: a
    non-zero is certain, a zero says that ``F_k`` vanishes at every level looked at.

    Args:
        link: anything that `iclab.links.make_link` takes.
        max_degree: the last degree looked at, at most 40.
        tolerance: as in `Exponent`.
        method: ``"rule"`` (polynomials only), ``"levels"``, or ``"auto"``: the rule where it applies. The rule is 2 if
            ``g`` is even up to a constant, else 1.
        num_levels: how many levels of ``g`` are looked at.

    Raises:
        InputError: for an unknown method, ``"rule"`` with a link that is no polynomial, or sizes out of range.

    Reference: Damian, Pillaud-Vivien, Lee and Bruna 2024, arXiv 2403.05529; for polynomials arXiv 2510.12026.
    """
    check_integer("max_degree", max_degree, 1, _MAX_DEGREE)
    check_tolerance(tolerance)
    link = make_link(link)
    exact = link.hermite_coefficients
    if method not in ("auto", "rule", "levels"):
        raise InputError(f"method is {method!r}; expected 'auto', 'rule' or 'levels'")
    if method == "rule" and exact is None:
        raise InputError(f"the link {link.name!r} is no polynomial; expected one for method 'rule': use 'levels'")
    strengths, errors, resolved = label_map_strengths(link, max_degree, num_levels)
    what = f"generative exponent of {link.name}"
    found = decide(what, strengths, errors, np.ones(max_degree), tolerance, link.unresolved)
    if exact is not None and method != "levels":
        odd = float(np.sqrt((exact[1::2] ** 2).sum()))
        value = 2 if odd <= tolerance * link.variance**0.5 else 1
        kept = value if value <= max_degree else None
        return replace(found, value=kept, undecided=False, reason="", what=what + " (polynomial: by parity)")
    if resolved:
        return found
    reason = link.unresolved or "its level sets are not resolved"
    return replace(found, value=None, undecided=True, reason=reason)


def label_map_strengths(link: Link, max_degree: int, num_levels: int = _LEVELS) -> tuple[Array, Array, bool]:
    """Compute ``sqrt(e_k)`` for ``k = 1 .. max_degree`` from the level sets of a link.

    ``e_k`` is the sum over bins ``(t_{j-1}, t_j]`` of labels of ``(F_k(t_j) - F_k(t_{j-1}))^2 / P(bin)``, a lower bound
    of ``E[(E[h_k|g])^2]`` by Jensen.

    Args:
        link: ``g``.
        max_degree: the last degree.
        num_levels: how many levels are looked at, 8 to 4096; fewer are used where ``g`` turns often.

    Returns:
        Strengths ``(max_degree,)``, error estimates ``(max_degree,)``, and whether the level sets were resolved. An
        error covers rounding, not the gap of the bound.

    Raises:
        InputError: for a number of levels out of range.

    Reference: ``docs/theory/exponents.md``.
    """
    check_integer("num_levels", num_levels, 8, 4096)
    nodes, critical, resolved = monotone_nodes(link)
    num_turns = len(turning_cells(_values(link, nodes))[0])
    if num_turns > _MANY_TURNS:
        nodes = nodes[np.abs(nodes) < RESOLVED_RADIUS]
    num_levels = min(num_levels, max(_FEWEST_LEVELS, _MAX_CROSSINGS // max(num_turns, 1)))
    levels = _levels(link, critical, num_levels)
    cumulative, mass, errors = level_set_integrals(link, nodes, levels, max_degree)
    chosen = _bins(mass, errors.max(1))
    # Without a level that splits the distribution (a step where the Gaussian has no mass) nothing has been looked at.
    resolved = resolved and len(chosen) > 0
    edges = np.concatenate([[0.0], mass[chosen], [1.0]])
    zero = np.zeros((1, max_degree))
    steps = np.diff(np.concatenate([zero, cumulative[chosen], zero]), axis=0)
    both = np.concatenate([zero, errors[chosen], zero])
    weights = 1.0 / np.diff(edges)[:, None]
    strengths = np.sqrt((steps**2 * weights).sum(0))
    # Triangle inequality in the weighted l2 norm: errors of the steps move the square root by at most their own norm.
    return strengths, np.sqrt(((both[1:] + both[:-1]) ** 2 * weights).sum(0)), resolved


def level_set_integrals(link: Link, nodes: Array, levels: Array, max_degree: int) -> tuple[Array, Array, Array]:
    """``F_k(t)`` of shape ``(levels, max_degree)``, ``P(g <= t)`` of shape ``(levels,)``, and the errors of ``F_k``.

    ``nodes`` are sorted points between which ``g`` is monotone or jumps at most once.
    """
    chunk = max(_CHUNK // (len(nodes) * max_degree), 1)
    if len(levels) > chunk:
        parts = [
            level_set_integrals(link, nodes, levels[i : i + chunk], max_degree) for i in range(0, len(levels), chunk)
        ]
        cumulative, mass, errors = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return cumulative, mass, errors
    values = _values(link, nodes)
    below = values[None, :] <= levels[:, None]
    row, cell = np.nonzero(below[:, 1:] != below[:, :-1])
    level = levels[row]
    left, right = switching_points(lambda z: _values(link, z) <= level, nodes[cell], nodes[cell + 1])
    point = 0.5 * (left + right)
    # Leaving the level set at c adds the antiderivative there; entering it subtracts it.
    sign = np.where(below[row, cell], 1.0, -1.0)
    basis = hermite_functions(point, max_degree)
    density = gaussian_density(point)[:, None]
    antiderivative = -basis[:, :-1] * density / np.sqrt(np.arange(1, max_degree + 1))
    shift = _place_errors(link, left, right, level)
    noise = shift[:, None] * np.abs(basis[:, 1:]) * density + 4 * _EPS * np.abs(antiderivative)
    cumulative, errors = np.zeros((2, len(levels), max_degree))
    np.add.at(cumulative, row, sign[:, None] * antiderivative)
    np.add.at(errors, row, noise)
    mass = below[:, -1].astype(float)
    np.add.at(mass, row, sign * ndtr(point))
    return cumulative, mass, errors


def _place_errors(link: Link, left: Array, right: Array, level: Array) -> Array:
    """How far rounding of ``g`` can move each crossing: its noise over its slope; one float where ``g`` jumps."""
    with np.errstate(all="ignore"):
        noise = rounding_noise(link, left, right, level)
        jumps = np.abs(_values(link, right) - level) > 4 * noise
        jumps &= np.abs(_values(link, left) - level) > 4 * noise
        reach = 1e-6 * (1 + np.abs(left))
        slope = np.abs(_values(link, right + reach) - _values(link, left - reach)) / (2 * reach)
        drift = np.where(jumps, 0.0, noise / slope)
    return np.where(np.isfinite(drift), np.minimum(drift, 1.0), 1.0) + 2 * _EPS * np.abs(left) + (right - left)


def _levels(link: Link, critical: Array, num_levels: int) -> Array:
    """Levels between neighbouring distinct values of ``g`` at Gaussian quantiles and, for the tails, at even steps."""
    half = num_levels // 2
    points = np.concatenate([ndtri((np.arange(half) + 0.5) / half), np.linspace(-5.5, 5.5, num_levels - half)])
    points = points + 0.00137
    if len(link.panels):  # values that are taken on narrow panels alone
        width = np.diff(link.panels)
        inside = (link.panels[:-1] + 0.637 * width)[width < 2.0 / num_levels]
        points = np.concatenate([points, inside[:: max(len(inside) // num_levels, 1)]])
    values = np.sort(_values(link, points))
    values = values[np.isfinite(values)]
    spread = link.variance**0.5
    low, high = values[:-1], values[1:]
    gap = high - low
    # Off-centre, so that symmetric links do not put a level on a critical value.
    levels = low + 0.4871 * gap
    distance = np.abs(levels[:, None] - critical).min(1) if len(critical) else np.full(len(levels), np.inf)
    # Near a critical value a crossing moves by the square root of the rounding error.
    usable = (gap > 1e-9 * spread) & (distance > 1e-6 * gap)
    return levels[usable]


def _bins(mass: Array, error: Array) -> list[int]:
    """Indices of well-conditioned levels that cut the label's distribution into bins of at least `_SMALLEST_BIN`."""
    chosen: list[int] = []
    last = 0.0
    largest = max(10 * float(np.median(error)), 1e-14) if len(error) else 0.0
    for index, reached in enumerate(mass):
        wide = reached - last >= _SMALLEST_BIN and 1.0 - reached >= _SMALLEST_BIN
        if wide and error[index] <= largest:
            chosen.append(index)
            last = reached
    return chosen


def _values(link: Link, z: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(link(z), dtype=float)
