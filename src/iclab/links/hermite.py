"""Normalised probabilists' Hermite polynomials ``h_k = He_k / sqrt(k!)``, and links that are finite series of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np
from numpy.polynomial import hermite_e

from iclab.errors import InputError, cut
from iclab.links.link import ArrayLike, Link


def hermite_functions(z: np.ndarray, max_degree: int) -> np.ndarray:
    """Compute the normalised Hermite polynomials ``h_0(z) .. h_K(z)``, which are orthonormal under ``N(0, 1)``.

    The recurrence ``sqrt(k+1) h_{k+1} = z h_k - sqrt(k) h_{k-1}`` is stable.

    Args:
        z: points ``(n,)``.
        max_degree: K.

    Returns:
        Array ``(n, max_degree + 1)``, float64.
    """
    values = np.empty((len(z), max_degree + 1))
    values[:, 0] = 1.0
    if max_degree >= 1:
        values[:, 1] = z
    for k in range(1, max_degree):
        values[:, k + 1] = (z * values[:, k] - np.sqrt(k) * values[:, k - 1]) / np.sqrt(k + 1)
    return values


class HermiteSeries(Link):
    """``g(z) = sum_k c_k h_k(z)`` with normalised coefficients: ``E g = c_0`` and ``Var g = sum_{k>=1} c_k^2``.

    >>> HermiteSeries([0, 0, 0, 1])      # He_3 / sqrt(6), the paper's main example
    HermiteSeries('hermite:0,0,0,1')
    """

    sums_and_products = True

    def __init__(self, coefficients: Sequence[float] | np.ndarray, name: str | None = None) -> None:
        try:
            # A conversion would drop an imaginary part, and take True for 1.
            if np.iscomplexobj(coefficients) or any(isinstance(v, bool | np.bool_ | str) for v in coefficients):
                raise TypeError
            c = np.asarray(coefficients, dtype=float)
        except (TypeError, ValueError, OverflowError):
            c = np.empty(0)
        if c.ndim != 1 or len(c) == 0 or not np.isfinite(c).all():
            raise InputError(
                f"Hermite coefficients are {cut(coefficients)}; expected a list of finite numbers c_0, c_1 .."
            )
        if len(c) > 61:
            raise InputError(f"{len(c)} Hermite coefficients; expected at most 61 (degree 60)")
        c = np.trim_zeros(c, "b") if c.any() else c[:1]
        self.coefficients = c
        super().__init__(name or "hermite:" + ",".join(f"{float(v)!r}".removesuffix(".0") for v in c))

    @property
    def mean(self) -> float:
        return float(self.coefficients[0])

    @property
    def variance(self) -> float:
        with np.errstate(over="ignore"):
            return float((self.coefficients[1:] ** 2).sum())

    @property
    def hermite_coefficients(self) -> np.ndarray:
        return self.coefficients

    @property
    def _moments(self) -> tuple[float, float]:
        return self.mean, self.variance

    def standardised(self) -> HermiteSeries:
        scale = self.variance**0.5
        c = self.coefficients.copy()
        c[0] = 0.0
        if self.mean == 0 and abs(scale - 1) < 1e-14:
            return self
        return HermiteSeries(c / scale, f"standardised({self.name})")

    @cached_property
    def _monomials(self) -> np.ndarray:
        return hermite_e.herme2poly(
            self.coefficients / np.sqrt([float(math.factorial(k)) for k in range(len(self.coefficients))])
        )

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        """Evaluate by Horner's rule up to degree 8, and by Clenshaw's recurrence beyond.

        The recurrence is stable: ``b_k = c_k + z b_{k+1}/sqrt(k+1) - sqrt((k+1)/(k+2)) b_{k+2}``.
        """
        c = self.coefficients
        if len(c) <= 9:
            value = z * 0 + float(self._monomials[-1])
            for coefficient in self._monomials[-2::-1]:
                value = value * z + float(coefficient) if coefficient else value * z
            return cast(ArrayLike, value)
        after, after2 = z * 0 + float(c[-1]), z * 0
        for k in range(len(c) - 2, -1, -1):
            current = float(c[k]) + z * after / (k + 1) ** 0.5 - ((k + 1) / (k + 2)) ** 0.5 * after2
            after, after2 = current, after
        return cast(ArrayLike, after)
