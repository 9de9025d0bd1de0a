"""Checks of numbers: finite, in range, of unit length, and real when they come from a user's arrays."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from hashlib import blake2b
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError


def is_finite(tensor: Tensor) -> bool:
    """Whether every entry is finite: one pass without a temporary, and a second only where the sum overflows."""
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def check_finite(name: str, tensor: Tensor, advice: str = "remove or impute them") -> Tensor:
    """Return ``tensor``; raise `InputError` naming the first entry that is not finite."""
    if is_finite(tensor):
        return tensor
    place = tuple(int(i) for i in (~torch.isfinite(tensor)).nonzero()[0])
    raise InputError(f"{name} is {float(tensor[place])} at {place}; expected finite numbers ({advice})")


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


def check_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``choices``; raise `InputError` otherwise, with the nearest one."""
    if isinstance(value, str) and value in choices:
        return value
    near = difflib.get_close_matches(str(value), choices, 1)
    hint = f" (do you mean {near[0]!r}?)" if near else ""
    raise InputError(f"{name} is {value!r}; expected one of {', '.join(choices)}{hint}")


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

    Raises:
        InputError: for what is no rectangular array, complex numbers, masked entries, or values that are not finite.
    """
    if _is_masked(value):
        raise InputError(f"{name} has masked entries; expected numbers at every place (remove or impute them)")
    try:
        if isinstance(value, Tensor):
            tensor = value
        else:
            array = np.asarray(value)
            if array.dtype.kind == "c":
                raise InputError(f"{name} is complex; expected real numbers (take .real if that is what you mean)")
            if array.dtype.kind not in "fiubO":
                raise TypeError
            tensor = torch.as_tensor(np.asarray(array, dtype=np.float64))
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{name} is no rectangular array of numbers; expected {ndim - 1} or {ndim} dimensions"
        ) from None
    if tensor.is_complex():
        raise InputError(f"{name} is complex; expected real numbers (take .real if that is what you mean)")
    tensor = tensor.to(dtype)
    if tensor.ndim == ndim - 1:
        tensor = tensor.unsqueeze(0)
    if tensor.ndim != ndim:
        raise InputError(f"{name} has {tensor.ndim} dimensions; expected {ndim - 1} or {ndim} (with a batch)")
    return check_finite(name, tensor)


def _is_masked(value: object) -> bool:
    if isinstance(value, np.ma.MaskedArray):
        return bool(np.ma.is_masked(value))
    # Joining masked arrays in a list drops their masks.
    return isinstance(value, list | tuple) and any(
        _is_masked(part) for part in value if isinstance(part, list | tuple | np.ma.MaskedArray)
    )
