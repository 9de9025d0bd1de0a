"""The convolution's kernel as an operator, and its gradient in PyTorch's own operations."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from iclab.ops.convolution import compiled, reference
from iclab.ops.operators import call, define, define_gradient, filled, pullback


def _shapes(x: Tensor, weight: Tensor, bias: Tensor | None, initial_state: Tensor | None, silu: bool) -> Tensor:
    return x.new_empty(x.shape)


def _backward(grad_y: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return filled(compiled.backward(grad_y, x, weight, *rest), x)


def _backward_shapes(grad_y: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    tensors = arguments[:4]
    return filled([None if tensor is None else tensor.new_empty(tensor.shape) for tensor in tensors], grad_y)


def _context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.silu = inputs[4]


def _gradients(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
    tensors = ctx.saved_tensors
    grads = call("causal_conv_backward", grad_y, *tensors, ctx.silu)
    return *[None if tensor is None else grad for tensor, grad in zip(tensors, grads, strict=True)], None


def _backward_in_operations(grad_y: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    """Gradients of ``x``, ``weight``, ``bias`` and ``initial_state``."""
    *tensors, silu = arguments

    def output(*given: Any) -> Tensor:
        everything: list[Any] = [*given, silu]
        return reference.convolution(*everything).to(grad_y.dtype)

    return filled(pullback(output, tensors, grad_y), grad_y)


define(
    "causal_conv(Tensor x, Tensor weight, Tensor? bias, Tensor? initial_state, bool silu) -> Tensor",
    compiled.forward,
    _shapes,
    _gradients,
    _context,
)
define_gradient(
    "causal_conv_backward(Tensor grad_y, Tensor x, Tensor weight, Tensor? bias, Tensor? initial_state, bool silu) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _backward_shapes,
    _backward_in_operations,
)
