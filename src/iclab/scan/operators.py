"""The kernels as operators of ``torch.library``: under autograd, ``torch.compile`` and ``torch.func.vmap``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from iclab.errors import InputError
from iclab.memory import MemoryShortage, shortage
from iclab.scan import cpu, cpu_convolution, cpu_norm, differentiable, gpu, torch_loop
from iclab.scan.kernel import Kernel, Options, ScanInputs, filled
from iclab.scan.transforms import differentiates_forward

KERNELS = {
    "c": Kernel(cpu.forward, cpu.backward, cpu.checkpoint_shape),
    "torch": Kernel(torch_loop.forward, torch_loop.backward, torch_loop.checkpoint_shape),
    "triton": Kernel(gpu.forward, gpu.backward, gpu.checkpoint_shape),
}

_TENSORS = (
    "Tensor u, Tensor delta, Tensor A, Tensor B, Tensor C, Tensor? D, Tensor? delta_bias, Tensor? z, "
    "Tensor? initial_state"
)
_OPTIONS = "bool softplus, bool zero_order_hold, bool last_state, bool all_states, bool checkpoints, str kernel"
_library = torch.library.Library("iclab", "DEF")
_library.define(f"selective_scan({_TENSORS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)")
_library.define(
    "selective_scan_backward(Tensor kept, Tensor grad_y, Tensor? grad_last, Tensor? grad_states, "
    f"{_TENSORS}, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_library.define("causal_conv(Tensor x, Tensor weight, Tensor? bias, Tensor? initial_state, bool silu) -> Tensor")
_library.define(
    "causal_conv_backward(Tensor grad_y, Tensor x, Tensor weight, Tensor? bias, Tensor? initial_state, bool silu) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)
_library.define("rms_norm(Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)")
_library.define(
    "rms_norm_backward(Tensor grad_y, Tensor x, Tensor weight, Tensor scale, float eps) -> (Tensor, Tensor)"
)
_INPUTS = len(ScanInputs._fields)
FAILURES = (RuntimeError, MemoryError, MemoryShortage)
"""What `told` may have a better word for."""


def told(error: Exception, inputs: ScanInputs, what: str = "") -> Exception:
    """The ``error`` itself, or where it is about memory, one that says of which scan and what to lower."""
    called = f"{what}the selective scan of u {tuple(inputs.u.shape)} with {inputs.A.shape[1]} states a channel"
    advice = "lower the batch, the tokens, the channels or the state size, or ask for fewer states"
    return shortage(error, called, inputs.u.device, advice) or error


def _split(arguments: Sequence[Any]) -> tuple[ScanInputs, Options, Kernel]:
    """The arguments of an operator from ``u`` on, in three."""
    inputs, options = arguments[:_INPUTS], arguments[_INPUTS:-1]
    return ScanInputs(*inputs), Options(*options), KERNELS[arguments[-1]]


def _scan(*arguments: Any) -> tuple[Tensor, ...]:
    inputs, options, kernel = _split(arguments)
    try:
        return tuple(kernel.forward(inputs, options))
    except FAILURES as error:
        raise told(error, inputs) from None


def _scan_shapes(*arguments: Any) -> tuple[Tensor, ...]:
    inputs, options, kernel = _split(arguments)
    u = inputs.u
    (batch, length, channels), states = u.shape, inputs.A.shape[1]
    return (
        u.new_empty(u.shape),
        u.new_empty((batch, channels, states) if options.last_state else (0,)),
        u.new_empty((batch, length, channels, states) if options.all_states else (0,)),
        u.new_empty(kernel.checkpoint_shape(batch, length, channels, states) if options.checkpoints else (0,)),
    )


def _scan_backward(
    kept: Tensor, grad_y: Tensor, grad_last: Tensor | None, grad_states: Tensor | None, *arguments: Any
) -> tuple[Tensor, ...]:
    inputs, options, kernel = _split(arguments)
    try:
        return filled(kernel.backward(inputs, options, kept, grad_y, grad_last, grad_states), inputs.u)
    except FAILURES as error:
        raise told(error, inputs, "the gradient of ") from None


def _scan_backward_shapes(*arguments: Any) -> tuple[Tensor, ...]:
    inputs, _, _ = _split(arguments[4:])
    return filled([None if tensor is None else tensor.new_empty(tensor.shape) for tensor in inputs], inputs.u)


def _scan_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:_INPUTS], output[3])
    ctx.options = inputs[_INPUTS:]


def _scan_gradients(
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


def _conv(x: Tensor, weight: Tensor, bias: Tensor | None, initial_state: Tensor | None, silu: bool) -> Tensor:
    return cpu_convolution.convolution(x, weight, bias, initial_state, silu)


def _conv_shapes(x: Tensor, weight: Tensor, bias: Tensor | None, initial_state: Tensor | None, silu: bool) -> Tensor:
    return x.new_empty(x.shape)


def _conv_backward(grad_y: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return filled(cpu_convolution.convolution_backward(grad_y, x, weight, *rest), x)


def _conv_backward_shapes(grad_y: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    tensors = arguments[:4]
    return filled([None if tensor is None else tensor.new_empty(tensor.shape) for tensor in tensors], grad_y)


def _conv_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.silu = inputs[4]


def _conv_gradients(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
    tensors = ctx.saved_tensors
    grads = call("causal_conv_backward", grad_y, *tensors, ctx.silu)
    return *[None if tensor is None else grad for tensor, grad in zip(tensors, grads, strict=True)], None


def _norm_shapes(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[:-1])


def _norm_backward_shapes(grad_y: Tensor, x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape)


def _norm_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output[1])
    ctx.eps = inputs[2]
    ctx.mark_non_differentiable(output[1])


def _norm_gradients(ctx: Any, grad_y: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    x, weight, scale = ctx.saved_tensors
    return *call("rms_norm_backward", grad_y, x, weight, scale, ctx.eps), None


def _backward_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*[given if isinstance(given, Tensor) else None for given in inputs])
    ctx.others = [None if isinstance(given, Tensor) else given for given in inputs]


def _second(in_operations: Callable[..., Any]) -> Callable[..., Any]:
    """Gradients of an operator that is itself a gradient: those of the same in PyTorch's operations."""

    def gradients(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
        arguments = [other if tensor is None else tensor for tensor, other in pairs]
        asked = [place for place, grad in enumerate(grads) if grad is not None]
        if not asked:
            return (None,) * len(arguments)

        def results(*given: Any) -> tuple[Tensor, ...]:
            computed = in_operations(*given)
            return tuple(computed[place] for place in asked)

        return differentiable.pullback(results, arguments, tuple(grad for grad in grads if grad is not None))

    return gradients


def _one_by_one(name: str) -> Callable[..., Any]:
    """A rule of ``vmap`` for an operator: one call for each entry of the mapped dimension."""

    def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        if info.batch_size == 0:
            raise InputError(f"vmap maps {name} over a dimension of no entries; expected at least one")
        operator = getattr(torch.ops.iclab, name)
        calls = [
            operator(*[a if dim is None else a.select(dim, entry) for a, dim in zip(arguments, in_dims, strict=True)])
            for entry in range(info.batch_size)
        ]
        if isinstance(calls[0], Tensor):
            return torch.stack(calls), 0
        return tuple(torch.stack(results) for results in zip(*calls, strict=True)), (0,) * len(calls[0])

    return rule


def _as_function(name: str, gradients: Callable[..., Any], context: Callable[..., None]) -> type[Function]:
    class Transformable(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*arguments: Any) -> Any:
            return getattr(torch.ops.iclab, name)(*arguments)

        setup_context = staticmethod(context)
        backward = staticmethod(gradients)

    return Transformable


def _refusing_tangents(name: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    def kernel(*arguments: Any) -> Any:
        if differentiates_forward():
            raise InputError(
                f"torch.ops.iclab.{name} was called under forward differentiation, of which it knows nothing; call "
                "the functions of iclab.scan instead, or compile them anew"
            )
        return implementation(*arguments)

    return kernel


_functions: dict[str, type[Function]] = {}
_GRADIENTS: dict[str, Callable[..., Any]] = {
    "selective_scan_backward": differentiable.scan_backward,
    "causal_conv_backward": differentiable.conv_backward,
    "rms_norm_backward": differentiable.norm_backward,
}


def call(name: str, *arguments: Any) -> Any:
    """The operator of that name.

    Inside ``torch.func.grad``, which does not know the gradients of ``torch.library``, as an autograd function; a
    gradient under forward differentiation, of which the kernels know nothing, in PyTorch's own operations.
    """
    if name in _GRADIENTS and differentiates_forward():
        return _GRADIENTS[name](*arguments)
    if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
        return _functions[name].apply(*arguments)
    return getattr(torch.ops.iclab, name)(*arguments)


def _register(
    name: str,
    implementation: Callable[..., Any],
    shapes: Callable[..., Any],
    gradients: Callable[..., Any] | None = None,
    context: Callable[..., None] = _backward_context,
) -> None:
    gradients = gradients or _second(_GRADIENTS[name])
    _library.impl(name, _refusing_tangents(name, implementation), "CompositeExplicitAutograd")
    torch.library.register_fake(f"iclab::{name}", shapes, lib=_library)
    torch.library.register_autograd(f"iclab::{name}", gradients, setup_context=context, lib=_library)
    torch.library.register_vmap(f"iclab::{name}", _one_by_one(name), lib=_library)
    _functions[name] = _as_function(name, gradients, context)


_register("selective_scan", _scan, _scan_shapes, _scan_gradients, _scan_context)
_register("selective_scan_backward", _scan_backward, _scan_backward_shapes)
_register("causal_conv", _conv, _conv_shapes, _conv_gradients, _conv_context)
_register("causal_conv_backward", _conv_backward, _conv_backward_shapes)
_register("rms_norm", cpu_norm.norm, _norm_shapes, _norm_gradients, _norm_context)
_register("rms_norm_backward", cpu_norm.norm_backward, _norm_backward_shapes)
