"""Values of any type as JSON holds them, so that a stored description and a new one can be compared exactly."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from iclab.links import Link
from iclab.prompts import PromptDistribution
from iclab.prompts.values import tensor_hash

_LONGEST = 1000  # characters of a value that is written out; longer ones are hashed


def described(value: object) -> Any:
    """``value`` as numbers, strings, ``None``, lists and dictionaries.

    Arrays and tensors become their type, shape and hash; links their names and breakpoints; prompt distributions their
    class and `PromptDistribution.identity`; dataclasses their fields; functions their names; other objects the names of
    their classes; what takes more than 1,000 characters becomes a hash.
    """
    plain = _plain(value)
    text = json.dumps(plain, sort_keys=True)
    if len(text) <= _LONGEST or isinstance(value, PromptDistribution):
        return plain
    return f"{type(value).__name__} of hash {blake2b(text.encode(), digest_size=8).hexdigest()}"


def _plain(value: object) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):
        return value
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, Tensor):
        return _array(value)
    if isinstance(value, np.ndarray):
        return _array(_tensor(value)) if value.dtype.kind in "fiub" else _plain(value.tolist())
    if isinstance(value, PromptDistribution):
        settings = {name: described(part) for name, part in value.identity().items()}
        return {"class": type(value).__name__, **settings}
    if isinstance(value, Link):
        return _link(value)
    if isinstance(value, Mapping):
        return {str(key): described(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Set):
        return sorted((_plain(part) for part in value), key=repr)
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__} | {f.name: described(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, functools.partial):
        return {"function": _plain(value.func), "args": _plain(value.args), "keywords": _plain(value.keywords)}
    if isinstance(value, torch.dtype | torch.device):
        return str(value)
    return getattr(value, "__qualname__", type(value).__qualname__)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


def _array(tensor: Tensor) -> str:
    kind = str(tensor.dtype).removeprefix("torch.")
    return f"{kind} of shape {tuple(tensor.shape)} and hash {tensor_hash(tensor)}"


def _link(link: Link) -> dict[str, Any]:
    found: dict[str, Any] = {"name": link.name}
    if link.breakpoints:
        found["breakpoints"] = list(link.breakpoints)
    coefficients = link.hermite_coefficients
    if coefficients is not None:
        # Twelve digits, since those of a standardised link are computed, and processors round differently.
        found["coefficients"] = [float(f"{float(c):.12g}") for c in coefficients]
    return found
