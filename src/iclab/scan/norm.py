"""`rms_norm`: the norm between layers, as one operator where the compiled core is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

import iclab.scan.operators  # noqa: F401 - defines torch.ops.iclab
from iclab.scan.backends import core_wanted

_LEAST = 1 << 15  # numbers; fewer take less time in PyTorch's own operations than in a call of ours


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``weight * x / sqrt(mean(x^2) + eps)`` over the last dimension, differentiable any number of times.

    Without the core, for few numbers, and under ``torch.compile``, ``torch.func`` and forward differentiation, which
    know PyTorch's own operations best, it is ``torch.nn.functional.rms_norm``: the same numbers but for rounding.

    Args:
        x: ``(..., W)``.
        weight: ``(W,)``.
        eps: added to the mean square.

    Source: arXiv 1910.07467.
    """
    if _fuses(x, weight):
        return torch.ops.iclab.rms_norm(x, weight, eps)[0]
    return F.rms_norm(x, weight.shape, weight, eps)


def _fuses(x: Tensor, weight: Tensor) -> bool:
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or x.device.type != "cpu":
        return False
    if x.dtype != weight.dtype or x.dtype not in (torch.float32, torch.float64):
        return False
    if x.shape[-1:] != weight.shape or x.numel() < _LEAST or not core_wanted():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return all(forward_ad.unpack_dual(tensor).tangent is None for tensor in (x, weight))
