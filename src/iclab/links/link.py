"""`Link`: a scalar function that works on NumPy arrays and torch tensors alike and knows its Gaussian moments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from numbers import Real
from typing import NoReturn, TypeVar, cast, overload

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.links.quadrature import MAX_PANELS, ConvergenceError, gaussian_integrals

ArrayLike = TypeVar("ArrayLike", np.ndarray, Tensor)


FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a user's function may raise when it is given an array it was not written for."""
_FEW_PANELS = 10_000  # enough for what is not resolved: its exponents are undecided in any case
_SMALLEST_VARIANCE, _LARGEST_VARIANCE = 1e-200, 1e200


class Link:
    """A link ``g`` of a single-index target.

    Attributes:
        name: how results call it; for named links and expressions, `make_link` reads it back.
        breakpoints: points of its kinks and jumps, where quadrature must split.
        panels: edges of panels on which it varies smoothly, where panels of width 1 do not show that; else empty.
        unresolved: why narrow features may have been missed though it is an expression; else empty.

    Raises:
        InputError: at construction, if ``g`` is constant, not finite, or not square-integrable under ``N(0, 1)``.
    """

    sums_and_products = False
    """Whether its values are sums and products alone, which round the same wherever a number lies in its array."""

    def __init__(
        self,
        name: str,
        breakpoints: Sequence[float] = (),
        panels: Sequence[float] | np.ndarray = (),
        unresolved: str = "",
    ) -> None:
        self.name = name
        self.breakpoints = sorted_breakpoints(breakpoints)
        self.panels = np.asarray(panels, dtype=float)
        self.unresolved = unresolved
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
        """Return ``g(z)`` elementwise, in the shape and dtype of ``z``; implemented by each kind of link."""
        raise TypeError(f"{type(self).__name__} does not define evaluate")

    @overload
    def __call__(self, z: float) -> float: ...

    @overload
    def __call__(self, z: ArrayLike) -> ArrayLike: ...

    def __call__(self, z):
        if isinstance(z, Real):
            return float(self.evaluate(np.array([float(z)]))[0])
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

    def integrals(
        self, integrand: Callable[[np.ndarray], np.ndarray], floor: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Integrate a function made of ``g``, as `gaussian_integrals`, on panels that show the features of ``g``.

        The panels are split at its kinks.

        Args:
            integrand: maps nodes ``(n,)`` to values ``(n, k)``.
            floor: rounding noise of the integrand, as in `gaussian_integrals`.

        Returns:
            Values, errors and ``E |f|``, each ``(k,)``.

        Raises:
            InputError: as `gaussian_integrals`.
        """
        limit = _FEW_PANELS if self.unresolved else MAX_PANELS
        return gaussian_integrals(integrand, self.breakpoints, floor=floor, panels=self.panels, max_panels=limit)

    def standardised(self) -> Link:
        """Return the link ``(g - E g) / sqrt(Var g)``, moments under ``N(0, 1)``."""
        mean, scale = self.mean, self.variance**0.5
        if abs(mean) < 1e-14 and abs(scale - 1) < 1e-14:
            return self
        return _Affine(self, mean, scale)

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Mean and variance; in two passes, since ``E g^2 - (E g)^2`` loses digits when the mean is large."""
        try:
            (mean, square), _, _ = self.integrals(self._with_square(0.0))
            noise = 4 * np.finfo(float).eps * abs(mean)
            floor = np.array([noise, noise * (noise + 2 * max(square - mean * mean, 0.0) ** 0.5)])
            (rest, variance), _, _ = self.integrals(self._with_square(float(mean)), floor)
        except InputError as error:
            raise InputError(f"the link {self.name!r} cannot be used: {self._explain(error)}") from None
        return float(mean + rest), float(variance)

    def _explain(self, error: InputError) -> str:
        """Why the moments cannot be computed; a kind of link that knows more says more."""
        return str(error)

    def _with_square(self, shift: float) -> Callable[[np.ndarray], np.ndarray]:
        def integrand(z: np.ndarray) -> np.ndarray:
            g = self.evaluate(z) - shift
            return np.stack([g, g * g], 1)

        return integrand


class FunctionLink(Link):
    """A link from any Python callable that acts elementwise on torch tensors or on NumPy arrays.

    It is given a copy of its argument, so it may write in place.

    Declare its jumps as ``breakpoints``, and kinks and features that are narrow (a bump, a fast oscillation): an
    integral sees the function at its nodes only, and what lies between two of them is missed. A kink that is not
    declared only costs time. Integrals are compared on two sets of nodes, and the difference counts as error, so most
    jumps that slip through one set are noticed; a feature that both sets miss is not.

    Raises:
        InputError: as `Link`; and where the callable fails on arrays or returns something else than real numbers of
            the same shape.
    """

    def __init__(self, function: Callable, breakpoints: Sequence[float] = (), name: str | None = None) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "function")
        self._on_tensors = _accepts_tensors(function)
        super().__init__(self.name, breakpoints)

    def evaluate(self, z: ArrayLike) -> ArrayLike:
        if isinstance(z, Tensor):
            if self._on_tensors:
                return cast(ArrayLike, self._checked(self._call(z.clone()), z).to(z.dtype))
            return cast(ArrayLike, torch.as_tensor(self._on_array(z.detach().cpu().numpy())).to(z))
        array = np.asarray(z)
        if self._on_tensors:
            value = self._checked(self._call(torch.tensor(array)), array)
            return cast(ArrayLike, value.detach().cpu().numpy())
        return cast(ArrayLike, self._on_array(array))

    def _call(self, z: np.ndarray | Tensor) -> object:
        try:
            return self.function(z)
        except FAILURES as error:
            if isinstance(error, InputError):
                raise
            reason = " ".join(str(error).split())[:120]
            raise InputError(
                f"the link {self.name!r} fails on an array of shape {tuple(z.shape)} ({type(error).__name__}: {reason})"
                "; expected a function that acts elementwise on arrays: use numpy functions, or wrap a function of one "
                "number in numpy.vectorize"
            ) from None

    def _on_array(self, z: np.ndarray) -> np.ndarray:
        value = self._call(z.copy())
        try:
            array = np.asarray(value)  # may be a Python number, a list, or an array
        except (ValueError, TypeError, RuntimeError):
            array = np.empty(0, dtype=object)
        if array.dtype.kind not in "fiub" or array.shape not in ((), z.shape):
            self._refuse(array, z)
        if array.shape == z.shape:
            return array
        # One number for a whole array: a constant link gives the same for a part of it, a sum does not.
        if z.size > 1 and not np.array_equal(np.asarray(self._call(z.ravel()[:1].copy())), array, equal_nan=True):
            self._refuse(array, z)
        return np.full(z.shape, array)

    def _checked(self, value: object, z: np.ndarray | Tensor) -> Tensor:
        if not isinstance(value, Tensor) or value.shape != z.shape or value.is_complex():
            self._refuse(value, z)
        return value

    def _refuse(self, value: object, z: np.ndarray | Tensor) -> NoReturn:
        kind = getattr(value, "dtype", type(value).__name__)
        shape = f" of shape {tuple(value.shape)}" if isinstance(value, np.ndarray | Tensor) else ""
        raise InputError(
            f"the link {self.name!r} maps an array of shape {tuple(z.shape)} to {kind}{shape}; "
            "expected real values of the same shape (wrap a scalar function in numpy.vectorize)"
        )

    def _explain(self, error: InputError) -> str:
        if not isinstance(error, ConvergenceError):
            return str(error)
        probe = torch.linspace(-2.0, 2.0, 9, dtype=torch.float64)
        value = self._call(probe if self._on_tensors else probe.numpy())
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if kind not in ("float32", "float16", "bfloat16"):
            return str(error)
        return (
            f"it returns {kind} for float64 input, and rounding of that size keeps its integrals from converging; "
            "compute in the dtype of the input"
        )


class _Affine(Link):
    def __init__(self, link: Link, shift: float, scale: float) -> None:
        self.link, self.shift, self.scale = link, shift, scale
        super().__init__(f"standardised({link.name})", link.breakpoints, link.panels, link.unresolved)

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
    except (*FAILURES, Warning):
        return False
    return isinstance(value, Tensor) and value.shape == probe.shape and not value.is_complex()


def sorted_breakpoints(breakpoints: Sequence[float]) -> tuple[float, ...]:
    """The distinct breakpoints in order.

    Raises:
        InputError: for anything but finite numbers.
    """
    try:
        if any(isinstance(b, bool | np.bool_ | str) for b in breakpoints):
            raise TypeError
        points = sorted({float(b) for b in breakpoints})
    except (TypeError, ValueError, OverflowError):
        points = [float("nan")]
    if not np.isfinite(points).all():
        raise InputError(f"breakpoints are {breakpoints!r}; expected a list of finite numbers")
    return tuple(points)
