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

    Args:
        x: ``(..., W)``.
        weight: ``(W,)``.
        eps: added to the mean square.

    Source: arXiv 1910.07467; the same numbers as ``torch.nn.functional.rms_norm`` but for rounding.
    """
    fused = x.device.type == "cpu" and x.dtype == weight.dtype and x.dtype in (torch.float32, torch.float64)
    if fused and x.numel() >= _LEAST and core_wanted() and not _transformed(x, weight):
        return torch.ops.iclab.rms_norm(x, weight, eps)[0]
    return F.rms_norm(x, weight.shape, weight, eps)


def _transformed(*tensors: Tensor) -> bool:
    """Whether ``torch.func`` or forward differentiation is at work, which know PyTorch's own operations alone."""
    if torch.compiler.is_compiling():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)
