"""Activation functions by the names that Hugging Face transformers gives them: those without weights of their own.

Reference: ``transformers.activations.ACT2FN``, where ``prelu`` and ``xielu`` alone have weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from iclab.errors import InputError

_gelu_tanh = partial(F.gelu, approximate="tanh")


def _gelu_fast(x: Tensor) -> Tensor:
    """The tanh form of gelu with ``sqrt(2/pi)`` cut after ten digits."""
    return 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))


def _laplace(x: Tensor) -> Tensor:
    """The distribution function of ``N(0.707107, 0.282095^2)``, arXiv 2209.10655."""
    return 0.5 * (1 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2))))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_10": lambda x: F.gelu(x).clip(-10, 10),
    "gelu_accurate": _gelu_tanh,
    "gelu_fast": _gelu_fast,
    "gelu_new": _gelu_tanh,
    "gelu_python": F.gelu,
    "gelu_python_tanh": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "hardswish": F.hardswish,
    "laplace": _laplace,
    "leaky_relu": F.leaky_relu,
    "linear": lambda x: x,
    "mish": F.mish,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": torch.relu,
    "relu2": lambda x: torch.relu(x).square(),
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "sqrtsoftplus": lambda x: F.softplus(x).sqrt(),
    "swish": F.silu,
    "tanh": torch.tanh,
}


def check_activation(name: object) -> str:
    """Return ``name``; raise `InputError` unless it is one of `ACTIVATIONS`."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise InputError(f"the activation is {name!r}; expected one of {', '.join(ACTIVATIONS)}")
    return name
