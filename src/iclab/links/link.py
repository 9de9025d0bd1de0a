"""`Link`: a scalar function that works on NumPy arrays and torch tensors alike and knows its Gaussian moments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.links.quadrature import gaussian_expectations

ArrayLike = TypeVar("ArrayLike", np.ndarray, Tensor)


class Link:
    """A link ``g`` of a single-index target.

    Attributes:
        name: how results call it; for named links and expressions, `make_link` reads it back.
        breakpoints: places of its kinks and jumps, where quadrature must split.

    Raises:
        InputError: at construction, if ``g`` is constant, not finite, or not square-integrable under ``N(0, 1)``.
    """

    def __init__(self, name: str, breakpoints: Sequence[float] = ()) -> None:
        self.name = name
        self.breakpoints = tuple(sorted({float(b) for b in breakpoints}))
        mean, square = self._moments
        if square - mean * mean <= 1e-20 * max(square, 1e-300) or square == 0:
            raise InputError(f"the link {name!r} is constant ({mean:.6g}); expected a function that varies with z")

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        """``g(z)`` elementwise; implemented by each kind of link."""
        raise TypeError(f"{type(self).__name__} does not define evaluate")

    def __call__(self, z: ArrayLike) -> ArrayLike:
        return self.evaluate(z)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def mean(self) -> float:
        """``E g(z)`` under ``z ~ N(0, 1)``."""
        return self._moments[0]

    @property
    def variance(self) -> float:
        """``Var g(z)`` under ``z ~ N(0, 1)``."""
        mean, square = self._moments
        return square - mean * mean

    @property
    def hermite_coefficients(self) -> np.ndarray | None:
        """Normalised Hermite coefficients if ``g`` is a polynomial, exactly known; else ``None``."""
        return None

    def standardised(self) -> Link:
        """``(g - E g) / sqrt(Var g)``."""
        mean, scale = self.mean, self.variance**0.5
        if abs(mean) < 1e-14 and abs(scale - 1) < 1e-14:
            return self
        return _Affine(self, mean, scale)

    @cached_property
    def _moments(self) -> tuple[float, float]:
        def integrand(z: np.ndarray) -> np.ndarray:
            g = self.evaluate(z)
            return np.stack([g, g * g], 1)

        try:
            values, _ = gaussian_expectations(integrand, self.breakpoints)
        except InputError as error:
            raise InputError(f"the link {self.name!r} cannot be used: {error}") from None
        return float(values[0]), float(values[1])


class FunctionLink(Link):
    """A link from any Python callable that acts elementwise on torch tensors or on NumPy arrays.

    Declare kinks and jumps as ``breakpoints``; without them quadrature still converges, only more slowly.
    """

    def __init__(self, function: Callable, breakpoints: Sequence[float] = (), name: str | None = None) -> None:
        self.function = function
        self._on_tensors = _accepts_tensors(function)
        super().__init__(name or getattr(function, "__name__", "function"), breakpoints)

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        if isinstance(z, Tensor):
            if self._on_tensors:
                value = self.function(z)
            else:
                value = torch.as_tensor(np.asarray(self.function(z.detach().cpu().numpy()))).to(z)
        elif self._on_tensors:
            value = self.function(torch.as_tensor(z))
            value = value.numpy() if isinstance(value, Tensor) else value
        else:
            value = self.function(z)
        if np.ndim(value) == 0:
            value = z * 0 + value
        return cast(ArrayLike, value)


class _Affine(Link):
    def __init__(self, link: Link, shift: float, scale: float) -> None:
        self.link, self.shift, self.scale = link, shift, scale
        super().__init__(f"standardised({link.name})", link.breakpoints)

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        return (self.link(z) - self.shift) / self.scale


def _accepts_tensors(function: Callable) -> bool:
    if not callable(function):
        raise InputError(f"the link is {function!r}; expected a name, an expression, coefficients or a callable")
    probe = torch.tensor([-1.25, 0.5, 2.0], dtype=torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy functions take a tensor with a warning
            value = function(probe)
    except (TypeError, AttributeError, ValueError, RuntimeError, Warning):
        return False
    return isinstance(value, Tensor) and value.shape == probe.shape
