"""Kernels of `KernelRidge`, in scikit-learn's conventions where it has the kernel. A new one is one class and one line.

Shapes: inputs ``(B, n, d)`` and ``(B, m, d)`` give ``(B, n, m)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer, check_positive
from iclab.estimators.estimator import short_number

_EXACT = "donot_use_mm_for_euclid_dist"


class Kernel(ABC):
    """A positive semi-definite kernel."""

    @abstractmethod
    def __call__(self, left: Tensor, right: Tensor) -> Tensor:
        """``(B, n, m)``: the kernel between every row of ``left`` and of ``right``."""

    @abstractmethod
    def label(self, dim: int | None) -> str:
        """Return its name in a legend, with its parameters; ``dim`` is the dimension seen, where it is known."""


@dataclass(frozen=True)
class RBF(Kernel):
    """``exp(-|x - x'|^2 / (2 bandwidth^2))``; scikit-learn's ``rbf_kernel(gamma=1 / (2 bandwidth^2))``.

    Attributes:
        bandwidth: positive; ``None`` for ``sqrt(d)`` of the dimension seen, the typical length of a standard input.
    """

    bandwidth: float | None = None

    def __post_init__(self) -> None:
        _check_optional("bandwidth", self.bandwidth)

    def __call__(self, left: Tensor, right: Tensor) -> Tensor:
        scale = _bandwidth(self.bandwidth, left.shape[-1]) * math.sqrt(2)
        # The difference itself, not |x|^2 + |x'|^2 - 2<x,x'>: that form loses close points of large norm.
        distances = torch.cdist(left / scale, right / scale, compute_mode=_EXACT)
        return distances.square_().neg_().exp_()

    def label(self, dim: int | None) -> str:
        return f"rbf({_bandwidth_label(self.bandwidth, dim)})"


@dataclass(frozen=True)
class Laplace(Kernel):
    """``exp(-|x - x'|_1 / bandwidth)``; scikit-learn's ``laplacian_kernel(gamma=1 / bandwidth)``.

    Attributes:
        bandwidth: positive; ``None`` for ``d``, the dimension seen, with which the 1-norm of a difference grows.
    """

    bandwidth: float | None = None

    def __post_init__(self) -> None:
        _check_optional("bandwidth", self.bandwidth)

    def __call__(self, left: Tensor, right: Tensor) -> Tensor:
        scale = float(left.shape[-1]) if self.bandwidth is None else self.bandwidth
        return torch.cdist(left / scale, right / scale, p=1).neg_().exp_()

    def label(self, dim: int | None) -> str:
        if self.bandwidth is None and dim is None:
            return "laplace(d)"
        return f"laplace({short_number(float(dim or 0) if self.bandwidth is None else self.bandwidth)})"


@dataclass(frozen=True)
class Polynomial(Kernel):
    """``(gamma <x, x'> + coef0)^degree``; scikit-learn's ``polynomial_kernel``.

    Attributes:
        degree: at least 1.
        gamma: positive; ``None`` for ``1 / d`` of the dimension seen.
        coef0: at least 0 (a negative one is no kernel).
    """

    degree: int = 3
    gamma: float | None = None
    coef0: float = 1.0

    def __post_init__(self) -> None:
        check_integer("degree", self.degree, 1)
        _check_optional("gamma", self.gamma)
        if isinstance(self.coef0, bool) or not (isinstance(self.coef0, int | float) and 0 <= self.coef0 < math.inf):
            raise InputError(f"coef0 is {self.coef0!r}; expected a finite number >= 0")

    def __call__(self, left: Tensor, right: Tensor) -> Tensor:
        gamma = 1 / left.shape[-1] if self.gamma is None else self.gamma
        return (gamma * left @ right.mT).add_(self.coef0).pow_(self.degree)

    def label(self, dim: int | None) -> str:
        parts = [str(self.degree)]
        if self.gamma is not None:
            parts.append(f"gamma {short_number(self.gamma)}")
        if self.coef0 != 1:
            parts.append(f"coef0 {short_number(self.coef0)}")
        return f"polynomial({', '.join(parts)})"


@dataclass(frozen=True)
class ArcCosine(Kernel):
    """Degree 1: ``|x| |x'| (sin t + (pi - t) cos t) / pi`` with ``t`` the angle between ``x`` and ``x'``.

    It is ``2 E relu(<w, x>) relu(<w, x'>)`` over ``w ~ N(0, I)``: a wide ReLU layer without bias.
    Reference: Cho and Saul, "Kernel methods for deep learning", 2009, equations 1 and 6.
    """

    def __call__(self, left: Tensor, right: Tensor) -> Tensor:
        norms = left.norm(dim=-1)[:, :, None] * right.norm(dim=-1)[:, None, :]
        cosine = (left @ right.mT).div_(norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_(-1, 1)
        angle = cosine.arccos()
        return angle.sin().add_((math.pi - angle).mul_(cosine)).mul_(norms).div_(math.pi)

    def label(self, dim: int | None) -> str:
        return "arc-cosine(1)"


KERNELS: dict[str, type[Kernel]] = {
    "rbf": RBF,
    "laplace": Laplace,
    "polynomial": Polynomial,
    "arc_cosine": ArcCosine,
}


def make_kernel(kernel: Kernel | str, options: dict[str, float | None]) -> Kernel:
    """The kernel that a name and its options describe; a `Kernel` is returned as it is.

    Raises:
        InputError: for an unknown name, and for options that the kernel does not have, naming those that it has.
    """
    if isinstance(kernel, Kernel):
        if options:
            raise InputError(f"options {', '.join(options)} beside a ready kernel; set them in the kernel itself")
        return kernel
    if kernel not in KERNELS:
        raise InputError(f"the kernel is {kernel!r}; expected one of {', '.join(KERNELS)}")
    family = KERNELS[kernel]
    known = [field.name for field in fields(family)]  # type: ignore[arg-type]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise InputError(
            f"the kernel {kernel!r} has no option {unknown[0]!r}; expected {', '.join(known) or 'no options'}"
        )
    return family(**options)


def _check_optional(name: str, value: float | None) -> None:
    if value is not None:
        check_positive(name, value)


def _bandwidth(bandwidth: float | None, dim: int) -> float:
    return math.sqrt(dim) if bandwidth is None else bandwidth


def _bandwidth_label(bandwidth: float | None, dim: int | None) -> str:
    if bandwidth is None and dim is None:
        return "sqrt d"
    return short_number(_bandwidth(bandwidth, dim or 1))
