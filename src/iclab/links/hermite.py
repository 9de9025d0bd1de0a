"""Normalised probabilists' Hermite polynomials ``h_k = He_k / sqrt(k!)``, and links that are finite series of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iclab.errors import InputError
from iclab.links.link import ArrayLike, Link


def hermite_functions(z: np.ndarray, max_degree: int) -> np.ndarray:
    """``(n, max_degree + 1)``: ``h_0(z) .. h_K(z)`` by the stable recurrence
    ``sqrt(k+1) h_{k+1} = z h_k - sqrt(k) h_{k-1}``. They are orthonormal under ``N(0, 1)``."""
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

    def __init__(self, coefficients: Sequence[float] | np.ndarray, name: str | None = None) -> None:
        c = np.asarray(coefficients, dtype=float)
        if c.ndim != 1 or len(c) == 0 or not np.isfinite(c).all():
            raise InputError(f"Hermite coefficients are {coefficients!r}; expected a list of finite numbers c_0, c_1, ...")
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
        return float((self.coefficients[1:] ** 2).sum())

    @property
    def hermite_coefficients(self) -> np.ndarray:
        return self.coefficients

    @property
    def _moments(self) -> tuple[float, float]:
        return self.mean, float((self.coefficients**2).sum())

    def standardised(self) -> HermiteSeries:
        scale = self.variance**0.5
        c = self.coefficients.copy()
        c[0] = 0.0
        if self.mean == 0 and abs(scale - 1) < 1e-14:
            return self
        return HermiteSeries(c / scale, f"standardised({self.name})")

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        """Clenshaw's recurrence: ``b_k = c_k + z b_{k+1}/sqrt(k+1) - sqrt((k+1)/(k+2)) b_{k+2}``."""
        c = self.coefficients
        after, after2 = z * 0 + float(c[-1]), z * 0
        for k in range(len(c) - 2, -1, -1):
            current = float(c[k]) + z * after / (k + 1) ** 0.5 - ((k + 1) / (k + 2)) ** 0.5 * after2
            after, after2 = current, after
        return after
