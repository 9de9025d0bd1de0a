"""The operators in PyTorch's own operations: slow, and differentiable any number of times, in either mode.

They are what derivatives of the kernels come from where a kernel has none: forward ones and second ones. Arguments and
results are those of the operators in `iclab.scan.operators`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from iclab.scan import reference
from iclab.scan.kernel import Options, ScanInputs, filled

_INPUTS = len(ScanInputs._fields)


def pullback(
    function: Callable[..., Any], arguments: Sequence[Any], grads: Tensor | tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients by the tensors among the ``arguments``, ``None`` for the others; differentiable in turn."""
    # What torch.func.vjp has saved for its function is dead when that is called: torch.func cannot nest it again.
    tensors = {
        place: torch._C._functorch.unwrap_if_dead(argument)  # no public way exists
        for place, argument in enumerate(arguments)
        if isinstance(argument, Tensor)
    }

    def of_tensors(*given: Tensor) -> Any:
        replaced = dict(zip(tensors, given, strict=True))
        return function(*[replaced.get(place, argument) for place, argument in enumerate(arguments)])

    found = dict(zip(tensors, torch.func.vjp(of_tensors, *tensors.values())[1](grads), strict=True))
    return tuple(found.get(place) for place in range(len(arguments)))


def scan_backward(
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


def conv_backward(grad_y: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    """Gradients of ``x``, ``weight``, ``bias`` and ``initial_state``."""
    *tensors, silu = arguments

    def output(*given: Any) -> Tensor:
        everything: list[Any] = [*given, silu]
        return reference.convolution(*everything).to(grad_y.dtype)

    return filled(pullback(output, tensors, grad_y), grad_y)


def norm_backward(grad_y: Tensor, x: Tensor, weight: Tensor, scale: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Gradients of ``x`` and ``weight``; ``scale`` is computed again, since it depends on ``x``."""
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    normed, scaled = x * scale, weight * grad_y
    grad_x = scale * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
    return grad_x, (normed * grad_y).flatten(0, -2).sum(0)
