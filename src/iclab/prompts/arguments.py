"""What users give distributions of two-class prompts, made plain: one value, entries of a list, a matrix of one's own.

Users hand over Python numbers, NumPy arrays, tensors of any device and type, generators. What comes out of here shares
no memory with them, and what cannot be used is described on one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from numbers import Number, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from iclab.errors import InputError, check_integer, check_positive
from iclab.prompts.values import check_real, real_tensor

_LONGEST = 80  # characters of a value that a message quotes


def described(value: object) -> str:
    """What a message says of a value: its ``repr`` on one line, cut; of arrays and tensors the shape."""
    if isinstance(value, Tensor | np.ndarray) and value.ndim:
        kind = "a tensor" if isinstance(value, Tensor) else "an array"
        return f"{kind} of shape {tuple(value.shape)}"
    try:
        text = one_line(repr(value))
    except ValueError:  # an integer of thousands of digits has no repr
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def one_line(text: str) -> str:
    """``text`` with each run of white space as one blank."""
    return " ".join(text.split())


def one_value(name: str, value: object) -> Any:
    """``value``, taken out of an array or tensor without dimensions if it comes in one.

    Raises:
        InputError: for arrays, tensors and containers of values, masked ones, functions, and numbers beyond float64.
    """
    if np.ma.is_masked(value):
        raise InputError(f"{name} is masked; expected a value")
    if isinstance(value, Tensor | np.ndarray) and not value.ndim:
        try:
            value = value.item()
        except RuntimeError:  # a tensor without data
            raise InputError(f"{name} is a tensor on {value.device}; expected one value") from None
    if not isinstance(value, str | Number | np.generic | None):
        raise InputError(f"{name} is {described(value)}; expected one value")
    if isinstance(value, Real):
        try:
            float(value)
        except OverflowError:
            raise InputError(f"{name} is a number beyond float64; expected at most 1.8e308 in size") from None
    return value


def integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """As `check_integer`, of `one_value`."""
    return check_integer(name, one_value(name, value), low, high)


def positive(name: str, value: object) -> float:
    """As `check_positive`, of `one_value`; text and booleans are refused."""
    return check_positive(name, check_real(name, one_value(name, value)))


def entries(value: object, ordered: bool = True) -> list[Any] | None:
    """The entries of a list, array, tensor or generator; ``None`` of what has none, or, if ``ordered``, no order."""
    if isinstance(value, Tensor):
        try:
            return value.tolist() if value.ndim else None
        except RuntimeError:  # a tensor without data, or a sparse one
            return None
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | type):
        return None
    if (isinstance(value, np.ndarray) and not value.ndim) or (ordered and isinstance(value, Set | Mapping)):
        return None
    return list(value)


def own_matrix(name: str, value: object) -> Tensor:
    """``(rows, columns)`` float64: a copy of a user's matrix, or of a vector as its one row.

    Raises:
        InputError: as `real_tensor`; also for numbers beyond float64 and tensors without data.
    """
    try:
        if isinstance(value, Tensor):
            value = value.detach().to_dense().cpu().clone()
        elif isinstance(value, np.ndarray):
            value = value.copy(order="K")  # keeps a mask, which is refused below
        elif hasattr(value, "__array__"):
            value = np.array(value)
        return real_tensor(name, value, 2, torch.float64)
    except (TypeError, RuntimeError):
        raise InputError(f"{name} is {described(value)}; expected an array of numbers") from None
