"""Hermite expansion of a link, of any order, with an error estimate of each coefficient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iclab.errors import check_integer
from iclab.links import Link, LinkLike, hermite_functions, make_link

_EPS = float(np.finfo(float).eps)
MAX_DEGREE = 200


@dataclass(frozen=True)
class Expansion:
    """``g = sum_k c_k h_k + rest`` with normalised Hermite polynomials ``h_k = He_k / sqrt(k!)``.

    Attributes:
        coefficients: ``c_k = E g(z) h_k(z)``, ``k = 0 .. K``.
        errors: absolute error estimates of the coefficients, rounding included.
        second_moment: ``E g(z)^2``.
        remaining_mass: ``1 - sum_{k<=K} c_k^2 / E g^2``, the relative squared L2 error of the series cut at ``K``.
        remaining_mass_error: error estimate of that number; below it nothing is known but that it is small.
    """

    coefficients: np.ndarray
    errors: np.ndarray
    second_moment: float
    remaining_mass: float
    remaining_mass_error: float

    @property
    def max_degree(self) -> int:
        return len(self.coefficients) - 1


def hermite_expansion(link: LinkLike, max_degree: int) -> Expansion:
    """Compute the normalised Hermite coefficients ``H(g, k) = E g(z) h_k(z)`` for ``k = 0 .. max_degree``.

    They are exact (to rounding) for polynomials; for other links they come from adaptive piecewise quadrature.

    Args:
        link: anything that `iclab.links.make_link` takes.
        max_degree: the last degree.

    Raises:
        InputError: if ``max_degree`` is outside ``0 .. 200``, or ``g h_k`` is not integrable.
    """
    check_integer("max_degree", max_degree, 0, MAX_DEGREE)
    link = make_link(link)
    second_moment = link.mean**2 + link.variance
    exact = link.hermite_coefficients
    if exact is not None:
        coefficients = np.zeros(max_degree + 1)
        kept = min(max_degree + 1, len(exact))
        coefficients[:kept] = exact[:kept]
        errors = 4 * _EPS * np.abs(coefficients)
        rest = float((exact[max_degree + 1 :] ** 2).sum()) / second_moment
        return Expansion(coefficients, errors, second_moment, rest, 4 * _EPS * rest)

    def integrand(z: np.ndarray) -> np.ndarray:
        return link(z)[:, None] * hermite_functions(z, max_degree)

    coefficients, errors, _ = link.integrals(integrand)
    # The three-term recurrence loses about one rounding unit a degree, measured against sqrt(E g^2).
    errors = errors + _EPS * np.arange(max_degree + 1) * second_moment**0.5
    rest = 1.0 - float((coefficients**2).sum()) / second_moment
    rest_error = float((2 * np.abs(coefficients) * errors + errors**2).sum()) / second_moment + 16 * _EPS
    return Expansion(coefficients, errors, second_moment, rest, rest_error)


def polynomial_degree(link: Link) -> int | None:
    """Return the degree of a polynomial link, ``None`` for any other link."""
    exact = link.hermite_coefficients
    return None if exact is None else int(np.flatnonzero(exact)[-1])
