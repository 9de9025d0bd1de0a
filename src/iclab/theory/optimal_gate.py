"""The gate that maximises the exact alignment at a given context length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import maximum_filter
from scipy.optimize import minimize

from iclab.errors import InputError, check_integer
from iclab.links import Link, make_link
from iclab.theory.gate_moments import GateMoments

_RHOS = np.geomspace(0.05, 200.0, 18)
_BIASES = np.linspace(-25.0, 5.0, 16)
_STARTS = 4


@dataclass(frozen=True)
class OptimalGate:
    """The best gate found.

    Attributes:
        rho, b: of the gate ``sigmoid(y/rho + b)``.
        alignment: its exact alignment (see `GateMoments.alignment`), with the sign it has; 0 where no gate helps, and
            then rho and b are arbitrary.
        num_examples, intrinsic_dim, degree: what it is best for.
        at_edge: whether it lies at an end of the range searched, so that a better one may lie beyond.
    """

    rho: float
    b: float
    alignment: float
    num_examples: int
    intrinsic_dim: int
    degree: int
    at_edge: bool


def optimal_gate(
    link: Link | str | Sequence[float] | Callable,
    num_examples: int,
    intrinsic_dim: int,
    *,
    noise: float = 0.0,
    decay: bool = True,
    degree: int = 1,
) -> OptimalGate:
    """Find the gate ``(rho, b)`` with the largest ``|alignment|`` at context length N.

    The alignment is the pooled one of `GateMoments.alignment`, which is not the error of any model. A grid over ``rho``
    in [0.05, 200] root mean squares of the label and ``b`` in [-25, 5], then Nelder-Mead from its best local maxima,
    within the same ranges. No sampling: every evaluation is exact. Ties are real: once ``b`` is so negative that the
    gate never saturates, it is an exponential tilt and ``b`` no longer matters.

    Args:
        link: anything that `iclab.links.make_link` takes.
        num_examples: N, at least 1.
        intrinsic_dim: coordinates on which the alignment is taken.
        noise: ``tau`` of the two-point label noise.
        decay: with ``False``, nothing is forgotten.
        degree: of the block that is aligned, 1 or 2.

    Raises:
        InputError: for sizes or a degree out of range.
    """
    return optimal_gate_curve(link, [num_examples], intrinsic_dim, noise=noise, decay=decay, degree=degree)[0]


def optimal_gate_curve(
    link: Link | str | Sequence[float] | Callable,
    num_examples: Sequence[int],
    intrinsic_dim: int,
    *,
    noise: float = 0.0,
    decay: bool = True,
    degree: int = 1,
) -> list[OptimalGate]:
    """Find the `optimal_gate` at each context length; the grid's integrals are computed once for all of them.

    Args:
        link, intrinsic_dim, noise, decay, degree: as in `optimal_gate`.
        num_examples: context lengths, at least one.

    Raises:
        InputError: for no context length, and for sizes or a degree out of range.
    """
    g = make_link(link)
    lengths = [check_integer("num_examples", n, 1) for n in num_examples]
    if not lengths:
        raise InputError("num_examples is empty; expected at least one context length")
    # Only y/rho matters, so the range of rho follows the size of the labels.
    rhos = _RHOS * (g.variance + g.mean**2 + noise**2) ** 0.5
    gates = [[GateMoments(g, noise, rho, b, 1, decay) for b in _BIASES] for rho in rhos]

    def inside(point: np.ndarray) -> tuple[float, float]:
        return (
            float(np.exp(np.clip(point[0], np.log(rhos[0]), np.log(rhos[-1])))),
            float(np.clip(point[1], _BIASES[0], _BIASES[-1])),
        )

    def loss(point: np.ndarray, length: int) -> float:
        rho, b = inside(point)
        return -abs(GateMoments(g, noise, rho, b, length, decay).alignment(intrinsic_dim, degree))

    best = []
    for length in lengths:
        scores = np.array([[abs(m.at(length).alignment(intrinsic_dim, degree)) for m in row] for row in gates])
        ends = [
            minimize(
                loss,
                np.array([np.log(rho), b]),
                args=(length,),
                method="Nelder-Mead",
                options={"xatol": 1e-3, "fatol": 1e-7, "maxfev": 80, "initial_simplex": _simplex(rho, b)},
            )
            for rho, b in _starts(scores, rhos)
        ]
        rho, b = inside(min(ends, key=lambda end: end.fun).x)
        value = GateMoments(g, noise, rho, b, length, decay).alignment(intrinsic_dim, degree)
        edge = not rhos[0] * 1.001 < rho < rhos[-1] * 0.999 or b in _BIASES[[0, -1]]
        best.append(OptimalGate(rho, b, value, length, intrinsic_dim, degree, bool(edge)))
    return best


def _starts(scores: np.ndarray, rhos: np.ndarray) -> list[tuple[float, float]]:
    """The highest local maxima of the grid: a steep and a shallow gate can each be best in their own region."""
    peaks = np.argwhere(scores >= maximum_filter(scores, size=3, mode="nearest"))
    order = sorted(peaks, key=lambda index: -scores[tuple(index)])[:_STARTS]
    return [(float(rhos[i]), float(_BIASES[j])) for i, j in order]


def _simplex(rho: float, b: float) -> np.ndarray:
    return np.array([[np.log(rho), b], [np.log(rho) + 0.2, b], [np.log(rho), b + 1.0]])
