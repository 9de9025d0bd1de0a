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
from iclab.links.quadrature import gaussian_integrals

ArrayLike = TypeVar("ArrayLike", np.ndarray, Tensor)


_SMALLEST_VARIANCE, _LARGEST_VARIANCE = 1e-200, 1e200


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
        self.breakpoints = _sorted_breakpoints(breakpoints)
        mean, variance = self._moments
        if not _SMALLEST_VARIANCE < mean * mean + variance < _LARGEST_VARIANCE and (mean or variance):
            raise InputError(
                f"the link {name!r} has mean {mean:.3g} and variance {variance:.3g}; expected a size that float64 can "
                "square: multiply the link by a constant"
            )
        # A constant that rounding makes rough has a standard deviation of about 1e-16 of its size.
        if variance <= 1e-28 * mean * mean:
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
        return self._moments[1]

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
        """Mean and variance; in two passes, since ``E g^2 - (E g)^2`` loses digits when the mean is large."""
        try:
            (mean, square), _, _ = gaussian_integrals(self._with_square(0.0), self.breakpoints)
            noise = 4 * np.finfo(float).eps * abs(mean)
            floor = np.array([noise, noise * (noise + 2 * max(square - mean * mean, 0.0) ** 0.5)])
            (rest, variance), _, _ = gaussian_integrals(self._with_square(float(mean)), self.breakpoints, floor=floor)
        except InputError as error:
            raise InputError(f"the link {self.name!r} cannot be used: {error}") from None
        return float(mean + rest), float(variance)

    def _with_square(self, shift: float) -> Callable[[np.ndarray], np.ndarray]:
        def integrand(z: np.ndarray) -> np.ndarray:
            g = self.evaluate(z) - shift
            return np.stack([g, g * g], 1)

        return integrand


class FunctionLink(Link):
    """A link from any Python callable that acts elementwise on torch tensors or on NumPy arrays.

    Declare kinks and jumps as ``breakpoints``; without them quadrature still converges, only more slowly.
    """

    def __init__(self, function: Callable, breakpoints: Sequence[float] = (), name: str | None = None) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "function")
        self._on_tensors = _accepts_tensors(function)
        super().__init__(self.name, breakpoints)

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        if isinstance(z, Tensor):
            if self._on_tensors:
                return cast(ArrayLike, self.function(z).to(z.dtype))
            return cast(ArrayLike, torch.as_tensor(self._on_array(z.detach().cpu().numpy())).to(z))
        if self._on_tensors:
            value = self.function(torch.as_tensor(z))
            return cast(ArrayLike, value.detach().cpu().numpy())
        return cast(ArrayLike, self._on_array(z))

    def _on_array(self, z: np.ndarray) -> np.ndarray:
        value = np.asarray(self.function(z))  # may be a Python number, a list, or an array
        if value.dtype.kind not in "fiub" or value.shape not in ((), z.shape):
            raise InputError(
                f"the link {self.name!r} maps an array of shape {z.shape} to {value.dtype} of shape {value.shape}; "
                "expected real values of the same shape (wrap a scalar function in numpy.vectorize)"
            )
        return value if value.shape == z.shape else np.full(z.shape, value)


class _Affine(Link):
    def __init__(self, link: Link, shift: float, scale: float) -> None:
        self.link, self.shift, self.scale = link, shift, scale
        super().__init__(f"standardised({link.name})", link.breakpoints)

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        return cast(ArrayLike, (self.link(z) - self.shift) / self.scale)


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
    return isinstance(value, Tensor) and value.shape == probe.shape and not value.is_complex()


def _sorted_breakpoints(breakpoints: Sequence[float]) -> tuple[float, ...]:
    try:
        places = sorted({float(b) for b in breakpoints})
    except (TypeError, ValueError):
        places = [float("nan")]
    if not np.isfinite(places).all():
        raise InputError(f"breakpoints are {breakpoints!r}; expected a list of finite numbers")
    return tuple(places)
