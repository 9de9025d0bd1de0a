"""The scan's kernels as operators, and its gradient in PyTorch's own operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.memory import MemoryShortage, shortage
from iclab.ops.operators import call, define, define_gradient, filled, pullback
from iclab.ops.scan import compiled, gpu, reference, torch_loop
from iclab.ops.scan.kernel import Kernel, Options, ScanInputs

KERNELS = {
    "c": Kernel(compiled.forward, compiled.backward, compiled.checkpoint_shape),
    "torch": Kernel(torch_loop.forward, torch_loop.backward, torch_loop.checkpoint_shape),
    "triton": Kernel(gpu.forward, gpu.backward, gpu.checkpoint_shape),
}

_TENSORS = (
    "Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D, Tensor? delta_bias, Tensor? z, "
    "Tensor? initial_state"
)
_OPTIONS = "bool softplus, bool zero_order_hold, bool last_state, bool all_states, bool checkpoints, str kernel"
_INPUTS = len(ScanInputs._fields)
FAILURES = (RuntimeError, MemoryError, MemoryShortage)
"""What `explained` may have a better word for."""


def explained(error: Exception, inputs: ScanInputs, what: str = "") -> Exception:
    """The ``error`` itself, or where it is about memory, one that says of which scan and what to lower."""
    called = f"{what}the selective scan of u {tuple(inputs.u.shape)} with {inputs.A.shape[1]} states a channel"
    advice = "lower the batch, the tokens, the channels or the state size, or ask for fewer states"
    return shortage(error, called, inputs.u.device, advice) or error


def _split(arguments: Sequence[Any]) -> tuple[ScanInputs, Options, Kernel]:
    """The arguments of an operator from ``u`` on, in three."""
    inputs, options = arguments[:_INPUTS], arguments[_INPUTS:-1]
    return ScanInputs(*inputs), Options(*options), KERNELS[arguments[-1]]


def _forward(*arguments: Any) -> tuple[Tensor, ...]:
    inputs, options, kernel = _split(arguments)
    try:
        return tuple(kernel.forward(inputs, options))
    except FAILURES as error:
        raise explained(error, inputs) from None


def _shapes(*arguments: Any) -> tuple[Tensor, ...]:
    inputs, options, kernel = _split(arguments)
    u = inputs.u
    (batch, length, channels), states = u.shape, inputs.A.shape[1]
    return (
        u.new_empty(u.shape),
        u.new_empty((batch, channels, states) if options.last_state else (0,)),
        u.new_empty((batch, length, channels, states) if options.all_states else (0,)),
        u.new_empty(kernel.checkpoint_shape(batch, length, channels, states) if options.checkpoints else (0,)),
    )


def _backward(
    kept: Tensor, grad_y: Tensor, grad_last: Tensor | None, grad_states: Tensor | None, *arguments: Any
) -> tuple[Tensor, ...]:
    inputs, options, kernel = _split(arguments)
    try:
        return filled(kernel.backward(inputs, options, kept, grad_y, grad_last, grad_states), inputs.u)
    except FAILURES as error:
        raise explained(error, inputs, "the gradient of ") from None


def _backward_shapes(*arguments: Any) -> tuple[Tensor, ...]:
    inputs, _, _ = _split(arguments[4:])
    return filled([None if tensor is None else tensor.new_empty(tensor.shape) for tensor in inputs], inputs.u)


def _context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:_INPUTS], output[3])
    ctx.options = inputs[_INPUTS:]


def _gradients(
    ctx: Any, grad_y: Tensor | None, grad_last: Tensor | None, grad_states: Tensor | None, _: Tensor | None
) -> tuple[Tensor | None, ...]:
    *inputs, kept = ctx.saved_tensors
    _, _, last_state, all_states, checkpoints, _ = ctx.options
    if not checkpoints:
        raise InputError("the scan was run without keeping states; expected checkpoints=True for a backward pass")
    if grad_y is None:
        grad_y = torch.zeros_like(inputs[0])
    given = (grad_last if last_state else None, grad_states if all_states else None)
    grads = call("selective_scan_backward", kept, grad_y, *given, *inputs, *ctx.options)
    found = [None if tensor is None else grad for tensor, grad in zip(inputs, grads, strict=True)]
    return *found, *[None] * len(ctx.options)


def _backward_in_operations(
    kept: Tensor, grad_y: Tensor, grad_last: Tensor | None, grad_states: Tensor | None, *arguments: Any
) -> tuple[Tensor, ...]:
    """Gradients of all inputs of the scan; ``kept`` is not needed."""
    inputs, options = ScanInputs(*arguments[:_INPUTS]), Options(*arguments[_INPUTS:-1])
    grads = {"y": grad_y, "last": grad_last, "states": grad_states}
    asked = {name: grad for name, grad in grads.items() if grad is not None}

    def outputs(*tensors: Any) -> tuple[Tensor, ...]:
        given: list[Any] = [*tensors, options.softplus, options.zero_order_hold]
        y, states = reference.scan(*given)
        results = {"y": y, "last": states[:, -1], "states": states}
        return tuple(results[name].to(inputs.u.dtype) for name in asked)

    return filled(pullback(outputs, inputs, tuple(asked.values())), inputs.u)


define(
    f"selective_scan({_TENSORS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)",
    _forward,
    _shapes,
    _gradients,
    _context,
)
define_gradient(
    "selective_scan_backward(Tensor kept, Tensor grad_y, Tensor? grad_last, Tensor? grad_states, "
    f"{_TENSORS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _backward_shapes,
    _backward_in_operations,
)
