"""`rms_norm`: the norm between layers, as one operator where the compiled core is."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from iclab.ops.backends import core_wanted
from iclab.ops.norm.operator import call
from iclab.ops.transforms import transformed

_LEAST = 1 << 15  # numbers; fewer take less time in PyTorch's own operations than in a call of ours


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``weight * x / sqrt(mean(x^2) + eps)`` over the last dimension, differentiable any number of times.

    Without the core, for few numbers, and under ``torch.compile``, ``torch.func`` and forward differentiation, which
    know PyTorch's own operations best, it is ``torch.nn.functional.rms_norm``: the same numbers but for rounding.

    Args:
        x: ``(..., W)``.
        weight: ``(W,)``.
        eps: added to the mean square.

    Reference: arXiv 1910.07467.
    """
    if _fuses(x, weight):
        return call("rms_norm", x, weight, eps)[0]
    return F.rms_norm(x, weight.shape, weight, eps)


def _fuses(x: Tensor, weight: Tensor) -> bool:
    if transformed() or x.device.type != "cpu":
        return False
    if x.dtype != weight.dtype or x.dtype not in (torch.float32, torch.float64):
        return False
    return x.shape[-1:] == weight.shape and x.numel() >= _LEAST and core_wanted()
