"""The root mean square norm by the compiled core."""

from __future__ import annotations

from torch import Tensor

from iclab.ops.core import NormJob, Pointers, run, sum_first

_SLABS = 64  # of rows, each with a sum of its own for the gradient of the weight


def _prepared(x: Tensor, weight: Tensor, eps: float) -> Pointers[NormJob]:
    width = x.shape[-1]
    rows = x.numel() // max(width, 1)
    prepared = Pointers(NormJob(tasks=min(rows, _SLABS), rows=rows, width=width, epsilon=eps))
    prepared.point("x", x)
    prepared.point("weight", weight)
    return prepared


def forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """``weight x scale (..., W)``, and ``scale = 1/sqrt(mean(x^2) + eps)`` of each row ``(...)``."""
    prepared = _prepared(x, weight, eps)
    y, scale = prepared.fresh("y", x, x.shape), prepared.fresh("scale", x, x.shape[:-1])
    run("norm_forward", x.dtype, prepared.job, x.numel())
    return y, scale


def backward(grad_y: Tensor, x: Tensor, weight: Tensor, scale: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Gradients of ``x`` and ``weight``."""
    prepared = _prepared(x, weight, eps)
    prepared.point("grad_y", grad_y)
    prepared.point("scale", scale)
    grad_x = prepared.fresh("grad_x", x, x.shape)
    parts = prepared.fresh("grad_weight", x, (prepared.job.tasks, x.shape[-1]))
    run("norm_backward", x.dtype, prepared.job, 2 * x.numel())
    return grad_x, sum_first(parts)
