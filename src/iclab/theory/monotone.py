"""Where a link turns: nodes between which it is monotone, and the rounding noise of its values."""

from __future__ import annotations

import numpy as np

from iclab.links import Link

Array = np.ndarray

_RADIUS = 12.0  # the density is 2e-32 there
RESOLVED_RADIUS = 8.5  # 2e-17 of the mass lies beyond
_WEIGHTY_RADIUS = 8.0
_FARTHEST = 37.0  # the density is 1e-298 there
_COARSEST, _FINEST = 4_096, 65_536
_FEWEST = 16  # points on a panel
_GOLDEN = (5**0.5 - 1) / 2


def monotone_nodes(link: Link) -> tuple[Array, Array, bool]:
    """Sorted nodes in [-12, 12], the critical values of ``g``, and whether every turn was resolved.

    The nodes are an even grid, both sides of each break point, and each turning point, refined by golden section. The
    grid is doubled until the number of turns, and of turns that crowd, stays the same: a jump crowds two turns on
    every grid, an oscillation only on one that is too coarse for it.
    """
    cells = _COARSEST
    before = (-1, -1)
    while True:
        nodes = _grid(link, cells)
        values = _finite_values(link, nodes)
        left, right = turning_cells(values)
        # Panels of an expression resolve it as far out as it has weight; the grid need not.
        known = len(link.panels) > 0
        turns = nodes[left][np.abs(nodes[left]) < (_WEIGHTY_RADIUS if known else RESOLVED_RADIUS)]
        now = (len(turns), 0 if known else int((np.diff(turns) < 4 * 2 * _RADIUS / cells).sum()))
        resolved = now == before
        if resolved or cells >= _FINEST:
            break
        before, cells = now, 2 * cells
    rising = values[np.minimum(left + 1, len(values) - 1)] > values[left]
    turning = _golden_section(link, nodes[left], nodes[right], np.where(rising, 1.0, -1.0))
    around = np.array(link.breakpoints)[np.abs(link.breakpoints) < _RADIUS] if link.breakpoints else np.empty(0)
    beside = np.concatenate([around - _beside(around), around + _beside(around)])
    critical = np.unique(np.concatenate([_finite_values(link, turning), _finite_values(link, beside)]))
    return np.unique(np.concatenate([nodes, turning])), critical, resolved


def rounding_noise(link: Link, left: Array, right: Array, level: Array) -> Array:
    """Size of the rounding errors of ``g`` next to brackets ``(n,), (n,)`` of crossings, from second differences.

    Taken on each side separately, so that a jump between them does not count.
    """
    eps = float(np.finfo(float).eps)
    step = 8 * eps * (1 + np.abs(left))
    noise = 4 * eps * np.abs(level)
    for side, direction in ((left, -1.0), (right, 1.0)):
        samples = [_finite_values(link, side + direction * j * step) for j in range(1, 7)]
        for a, b, c in zip(samples, samples[1:], samples[2:], strict=False):
            noise = np.maximum(noise, np.abs(a - 2 * b + c))
    return noise


def _grid(link: Link, cells: int) -> Array:
    # The irrational offset keeps nodes off 0, 1, ... where expressions such as sin(z)/z have no value.
    even = np.linspace(-_RADIUS, _RADIUS, cells + 1) + 0.1 * _RADIUS / cells * _GOLDEN
    points = np.array(link.breakpoints, dtype=float)
    points = points[np.abs(points) < _FARTHEST]
    return np.unique(np.concatenate([even, points - _beside(points), points + _beside(points), _inside(link.panels)]))


def _inside(panels: Array) -> Array:
    """Points inside the narrow panels of a link."""
    left, width = panels[:-1], np.diff(panels)
    chosen = (width < 2 * _RADIUS / _COARSEST * _FEWEST) & (np.abs(left) < _RADIUS)
    count = int(np.clip(_FINEST // max(int(chosen.sum()), 1), 4, _FEWEST))
    return (left[chosen, None] + width[chosen, None] * (np.arange(count) + _GOLDEN) / count).ravel()


def _beside(points: Array) -> Array:
    return 1e-9 * (1 + np.abs(points))


def _finite_values(link: Link, z: Array) -> Array:
    with np.errstate(all="ignore"):
        values = np.asarray(link(z), dtype=float)
    return np.nan_to_num(values, nan=0.0, posinf=1e300, neginf=-1e300)


def turning_cells(values: Array) -> tuple[Array, Array]:
    """Index pairs that bracket each change of direction; steps of rounding size count as flat and are skipped."""
    steps = np.diff(values)
    moving = np.flatnonzero(np.abs(steps) > 16 * np.finfo(float).eps * np.abs(values[1:]))
    direction = np.sign(steps[moving])
    turn = np.flatnonzero(direction[1:] != direction[:-1])
    return moving[turn], moving[turn + 1] + 1


def _golden_section(link: Link, left: Array, right: Array, sign: Array) -> Array:
    """Maximisers of ``sign * g`` in each bracket, to the square root of rounding, where ``g`` is right to rounding.

    ``scipy.optimize.elementwise.find_minimum`` wants an inner point that is lower than both ends, which a jump or a
    flat piece does not give.
    """
    for _ in range(60):
        width = right - left
        first, second = right - _GOLDEN * width, left + _GOLDEN * width
        keep_left = sign * _finite_values(link, first) >= sign * _finite_values(link, second)
        left, right = np.where(keep_left, left, first), np.where(keep_left, second, right)
    return 0.5 * (left + right)
