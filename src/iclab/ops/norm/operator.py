"""The norm's kernel as an operator, and its gradient in PyTorch's own operations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from iclab.ops.norm import compiled
from iclab.ops.operators import call, define, define_gradient


def _shapes(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1])


def _backward_shapes(grad_y: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output[1])
    ctx.eps = inputs[2]
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, grad_y: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weight, scale = ctx.saved_tensors
    return *call("rms_norm_backward", grad_y, x, weight, scale, ctx.eps), None


def _backward_in_operations(
    grad_y: Tensor, x: Tensor, weight: Tensor, scale: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Gradients of ``x`` and ``weight``; ``scale`` is computed again, since it depends on ``x``."""
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    normed, scaled = x * scale, weight * grad_y
    grad_x = scale * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    return grad_x, (normed * grad_y).flatten(0, -2).sum(0)


define(
    "rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)", compiled.forward, _shapes, _gradients, _context
)
define_gradient(
    "rms_norm_backward(Tensor grad_y, Tensor x, Tensor weight, Tensor scale, float eps) -> (Tensor, Tensor)",
    compiled.backward,
    _backward_shapes,
    _backward_in_operations,
)
