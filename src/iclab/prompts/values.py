"""Checks of numbers: finite, in range, of unit length, and real when they come from a user's arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError, did_you_mean

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""What prompts may be drawn in."""


def is_finite(tensor: Tensor) -> bool:
    """Whether every entry is finite: one pass without a temporary, and a second only where the sum overflows."""
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def check_finite(name: str, tensor: Tensor, advice: str = "remove or impute them") -> Tensor:
    """Return ``tensor``; raise `InputError` naming the first entry that is not finite."""
    if is_finite(tensor):
        return tensor
    index = tuple(int(i) for i in (~torch.isfinite(tensor)).nonzero()[0])
    raise InputError(f"{name} is {float(tensor[index])} at {index}; expected finite numbers ({advice})")


def check_real(name: str, value: object, low: float = -float("inf"), high: float = float("inf")) -> float:
    """Return ``value`` as a finite ``float`` in ``[low, high]``; raise `InputError` otherwise, also for booleans."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool | np.bool_) else float("nan")
    if math.isfinite(number) and low <= number <= high:
        return number
    bounds = {
        (True, True): f"in [{low:g}, {high:g}]",
        (True, False): f">= {low:g}",
        (False, True): f"<= {high:g}",
    }
    wanted = bounds.get((math.isfinite(low), math.isfinite(high)), "")
    raise InputError(f"{name} is {value!r}; expected a finite number {wanted}".rstrip())


def check_dtype(dtype: object) -> torch.dtype:
    """Return ``dtype`` if prompts can have it; raise `InputError` otherwise."""
    if dtype not in DTYPES:
        raise InputError(f"dtype is {dtype!r}; expected a floating point type such as torch.float32")
    return dtype  # type: ignore[return-value]


def check_held(sizes: Mapping[str, float], dtype: torch.dtype) -> None:
    """Raise `InputError` naming the first of the ``sizes``, given by what they are, that ``dtype`` cannot hold.

    Zero is held, and what lies between the smallest number of full precision and the largest number of ``dtype``.
    """
    low, high = torch.finfo(dtype).tiny, torch.finfo(dtype).max
    for name, size in sizes.items():
        if size and not low <= abs(size) <= high:
            other = "" if dtype == torch.float64 else ", or torch.float64"
            raise InputError(
                f"{name} is {size:.6g}, which {dtype} cannot hold; expected a size from {low:.2g} to {high:.2g}{other}"
            )


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``; raise `InputError` otherwise, with the nearest one."""
    if isinstance(value, str) and value in choices:
        return value
    raise InputError(f"{name} is {value!r}{did_you_mean(str(value), choices)}; expected one of {', '.join(choices)}")


def check_unit(name: str, vectors: Tensor) -> None:
    """Raise `InputError` naming the first row of ``vectors (B, d)`` whose length is not 1.

    The tolerance is 16 rounding units of the dtype, and at least 1e-6, since directions are often made in float32.
    """
    lengths = vectors.detach().double().norm(dim=1)
    tolerance = max(1e-6, 16 * torch.finfo(vectors.dtype).eps)
    bad = ~((lengths - 1).abs() <= tolerance)
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        raise InputError(f"{name} {row} has length {float(lengths[row]):.6g}; expected unit vectors (divide by it)")


def tensor_hash(tensor: Tensor) -> str:
    """Hexadecimal hash of the bytes of a tensor's entries."""
    content = tensor.detach().cpu().to_dense().contiguous().flatten().view(torch.uint8)
    return blake2b(content.numpy().data, digest_size=8).hexdigest()


def real_tensor(name: str, value: object, ndim: int, dtype: torch.dtype) -> Tensor:
    """A user's array, tensor or nested list as a finite tensor with ``ndim`` dimensions (a batch is added if missing).

    Arrays may have any strides, byte order and real type, and be read-only; they are copied.

    Raises:
        InputError: for what is no rectangular array, strings, complex numbers, masked entries, values that are not
            finite or that float64 or ``dtype`` cannot hold, and tensors without data.
    """
    if _is_masked(value):
        raise InputError(f"{name} has masked entries; expected numbers everywhere (remove or impute them)")
    try:
        tensor = _real(value) if isinstance(value, Tensor) else torch.from_numpy(_real_array(np.asarray(value)))
    except _ComplexError:
        raise InputError(f"{name} is complex; expected real numbers (take .real if that is what you mean)") from None
    except OverflowError:
        raise InputError(f"{name} has a number beyond float64; expected at most 1.8e308 in size") from None
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"{name} is no rectangular array of numbers; expected {ndim - 1} or {ndim} dimensions"
        ) from None
    if tensor.is_complex():
        raise InputError(f"{name} is complex; expected real numbers (take .real if that is what you mean)")
    if tensor.is_meta:
        raise InputError(f"{name} is a tensor on {tensor.device}, which holds no numbers; expected one with data")
    if tensor.ndim == ndim - 1:
        tensor = tensor.unsqueeze(0)
    if tensor.ndim != ndim:
        raise InputError(f"{name} has {tensor.ndim} dimensions; expected {ndim - 1} or {ndim} (with a batch)")
    check_finite(name, tensor)
    converted = tensor.to(dtype)
    if not is_finite(converted):
        index = tuple(int(i) for i in (~torch.isfinite(converted)).nonzero()[0])
        raise InputError(
            f"{name} is {float(tensor[index]):.6g} at {index}, which {dtype} cannot hold; scale it, or use float64"
        )
    return converted


class _ComplexError(TypeError):
    """Complex numbers, which would lose their imaginary part."""


def _real_array(array: np.ndarray) -> np.ndarray:
    """A float64 copy in the usual layout; raises a ``TypeError`` for what holds no real numbers."""
    if array.dtype.kind == "O":
        if any(isinstance(entry, str | bytes) for entry in array.flat):
            raise TypeError
        if any(isinstance(entry, complex | np.complexfloating) for entry in array.flat):
            raise _ComplexError
    elif array.dtype.kind == "c":
        raise _ComplexError
    elif array.dtype.kind not in "fiub":
        raise TypeError
    return np.array(array, dtype=np.float64, order="C")


def _real(tensor: Tensor) -> Tensor:
    """A plain dense tensor of the same numbers."""
    if tensor.is_quantized:
        return tensor.dequantize()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _is_masked(value: object) -> bool:
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.is_masked(value))
    # Joining masked arrays in a list drops their masks.
    return isinstance(value, list | tuple) and any(
        _is_masked(part) for part in value if isinstance(part, list | tuple | np.ma.MaskedArray)
    )
