"""Where an expression has kinks, jumps and narrow features, from its bounds rather than from samples.

The line is cut into panels of width 1, and a panel is halved until its expression is enclosed on a complex disc around
it: then a Gauss-Legendre rule on the panel has an error bound that samples cannot give, and nothing hides between its
nodes (see `discs`; the scheme is that of Petras 2002, "Self-validating integration and approximation of piecewise
analytic functions"). Panels on which the expression is too small to matter are left as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iclab.links.bisection import switching_points
from iclab.links.enclosures import Enclosure, PanelAnalysis, values

Array = np.ndarray

_RADIUS = 37
_MAX_PANELS = 30_000
_FINEST = 2.0**-48  # of a panel over the size of its points: 16 floats
_FINEST_AT_ZERO = 1e-290
_FINEST_UNBOUNDED = 1e-12
_VARIATION = 1e4
_NEGLIGIBLE = 1e-18
_CERTIFIED = 1e1  # times the error 4e-19 of the rule, in the same units
_UNSEEN = 1e-12
_POWERS = (1, 2)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True)
class Features:
    """What the analysis of an expression found.

    Attributes:
        breakpoints: kinks and jumps, sorted.
        panels: edges of the panels that it needed, sorted; empty if panels of width 1 between the breakpoints do.
        unresolved: why features may remain unseen; empty if none do.
    """

    breakpoints: tuple[float, ...]
    panels: Array
    unresolved: str


def find_features(tree: ast.expr, declared: Sequence[float] = ()) -> Features:
    """The `Features` of a checked expression; ``declared`` are breakpoints that are known."""
    edges = np.unique([*np.arange(-_RADIUS, _RADIUS + 1.0), *(b for b in declared if abs(b) < _RADIUS)])
    left, right = edges[:-1], edges[1:]
    finished = [(left[:0], right[:0])]
    signs: list[list[tuple[Array, Array]]] = []
    scales = _Scales()
    unresolved = ""
    while len(left):
        if len(left) + sum(len(ends) for ends, _ in finished) > _MAX_PANELS:
            return Features(
                _kinks(signs),
                np.empty(0),
                f"it needs more than {_MAX_PANELS} panels, near z = {left[np.argmin(np.abs(left))]:.4g} and beyond: it "
                "oscillates too fast, or its bounds are too wide to exclude narrow features",
            )
        with np.errstate(all="ignore"):
            analysis = PanelAnalysis(left, right)
            found = analysis.enclose(tree).tightened(analysis.half)
            done, unseen = _assess(tree, analysis, found, scales)
            roots = _roots(analysis, ~done)
        unresolved = unresolved or unseen
        finished.append((left[done], right[done]))
        signs.append([(left[done], sign[done]) for sign in analysis.signs])
        middle = np.where(np.isnan(roots), 0.5 * (left + right), roots)[~done]
        left, right = left[~done], right[~done]
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    lefts, rights = (np.concatenate(ends) for ends in zip(*finished, strict=True))
    is_narrow = bool((rights - lefts < 1).any())
    panels = np.unique(np.concatenate([lefts, rights])) if is_narrow else np.empty(0)
    return Features(_kinks(signs), panels, unresolved)


class _Scales:
    """Running ``E |g - c|^p``, ``p`` in `_POWERS`, from the nodes seen so far: small until a feature is met."""

    def __init__(self) -> None:
        self.finished = np.zeros(len(_POWERS))
        self.reference: float | None = None


def _assess(tree: ast.expr, analysis: PanelAnalysis, found: Enclosure, scales: _Scales) -> tuple[Array, str]:
    """Which panels need no halving, and why one that cannot be halved any more is not resolved."""
    centre, half = analysis.centre, analysis.half
    z = centre[:, None] + half[:, None] * _NODES
    g = values(tree, z.ravel()).reshape(z.shape)
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    mass = half[:, None] * _WEIGHTS * density
    if scales.reference is None:
        usable = np.isfinite(g * mass)
        scales.reference = float((g * mass)[usable].sum())
    off = np.abs(g - scales.reference)
    parts = np.stack([np.nan_to_num(mass * off**p, nan=0.0, posinf=0.0).sum(1) for p in _POWERS])
    scale = scales.finished + parts.sum(1)
    seen = np.abs(g - found.value.centre[:, None]).max(1)
    nearest = np.minimum(np.abs(analysis.left), np.abs(analysis.right)) * (analysis.left * analysis.right > 0)
    weight = 2 * half * np.exp(-0.5 * nearest**2) / np.sqrt(2 * np.pi)
    varied, spread = found.value.radius, found.real.high - found.real.low
    certified, negligible = np.ones((2, len(half)), dtype=bool)
    for p, size in zip(_POWERS, scale, strict=True):
        certified &= varied**p * weight <= _CERTIFIED * size
        negligible &= spread**p * weight <= _NEGLIGIBLE * size
    done = certified | negligible | (varied <= _VARIATION * seen) | ~np.isfinite(seen)
    finest = np.maximum(_FINEST * np.abs(centre), _FINEST_AT_ZERO)
    bounded = np.isfinite(spread)
    finest = np.where(bounded, finest, np.maximum(finest, _FINEST_UNBOUNDED * (1 + np.abs(centre))))
    stuck = ~done & (2 * half <= finest)
    unseen = stuck & bounded & (spread * weight > _UNSEEN * scale[0])
    done |= stuck
    scales.finished = scales.finished + parts[:, done].sum(1)
    if not unseen.any():
        return done, ""
    return done, (
        f"it varies by {spread[unseen][0]:.3g} within rounding of z = {centre[unseen][0]:.6g}, where float64 cannot "
        "resolve it"
    )


def _roots(analysis: PanelAnalysis, wanted: Array) -> Array:
    """Where an argument of a kinked function changes sign inside each wanted panel; NaN in panels without."""
    roots = np.full(analysis.left.shape, np.nan)
    for changes, argument in analysis.switches:
        chosen = np.flatnonzero(changes & wanted & np.isnan(roots))
        if not len(chosen):
            continue
        left, right = analysis.left[chosen], analysis.right[chosen]
        left, right = left + 4 * np.spacing(np.abs(left)), right - 4 * np.spacing(np.abs(right))
        roots[chosen] = switching_points(lambda z, a=argument: values(a, z) > 0, left, right)[0]
    return roots


def _kinks(levels: list[list[tuple[Array, Array]]]) -> tuple[float, ...]:
    """Edges at which the argument of a kinked function changes its sign.

    ``levels`` holds, for each level of the halving and each such function, the left edges of panels and the signs on
    them.
    """
    found = []
    for parts in zip(*levels, strict=True):
        left, sign = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.argsort(left)
        order = order[~np.isnan(sign[order])]
        found.append(left[order][1:][np.diff(sign[order]) != 0])
    points = np.unique(np.concatenate(found)) if found else np.empty(0)
    # Several functions may have a kink at one point, which each finds to a few floats.
    apart = np.diff(points) > 64 * np.spacing(np.abs(points[1:]))
    return tuple(float(p) for p in points[np.concatenate([[True], apart])[: len(points)]])
