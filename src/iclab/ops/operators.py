"""Operators of ``torch.library``: what makes a kernel known to autograd, ``torch.compile`` and ``torch.func``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from iclab.errors import InputError
from iclab.ops.transforms import differentiates_forward

_library = torch.library.Library("iclab", "DEF")
_functions: dict[str, type[Function]] = {}
_in_operations: dict[str, Callable[..., Any]] = {}


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

        return pullback(results, arguments, tuple(grad for grad in grads if grad is not None))

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
                "the functions of iclab.ops instead, or compile them anew"
            )
        return implementation(*arguments)

    return kernel


def call(name: str, *arguments: Any) -> Any:
    """The operator of that name.

    Inside ``torch.func.grad``, which does not know the gradients of ``torch.library``, as an autograd function; a
    gradient under forward differentiation, of which the kernels know nothing, in PyTorch's own operations.
    """
    if name in _in_operations and differentiates_forward():
        return _in_operations[name](*arguments)
    if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
        return _functions[name].apply(*arguments)
    return getattr(torch.ops.iclab, name)(*arguments)


def define(
    signature: str,
    implementation: Callable[..., Any],
    shapes: Callable[..., Any],
    gradients: Callable[..., Any],
    context: Callable[..., None],
) -> None:
    """Define an operator that has a gradient.

    Args:
        signature: name, arguments and results in the words of ``torch.library``.
        implementation: what it computes.
        shapes: results of the right shapes without the numbers.
        gradients, context: as for ``torch.library.register_autograd``.
    """
    name = signature.partition("(")[0]
    _library.define(signature)
    _library.impl(name, _refusing_tangents(name, implementation), "CompositeExplicitAutograd")
    torch.library.register_fake(f"iclab::{name}", shapes, lib=_library)
    torch.library.register_autograd(f"iclab::{name}", gradients, setup_context=context, lib=_library)
    torch.library.register_vmap(f"iclab::{name}", _one_by_one(name), lib=_library)
    _functions[name] = _as_function(name, gradients, context)


def define_gradient(
    signature: str,
    implementation: Callable[..., Any],
    shapes: Callable[..., Any],
    in_operations: Callable[..., Any],
) -> None:
    """Define an operator that is the gradient of another.

    Args:
        signature, implementation, shapes: as for `define`.
        in_operations: the same in PyTorch's own operations: slow, and differentiable any number of times, in either
            mode. Forward and second derivatives, which the kernels do not have, come from it.
    """
    define(signature, implementation, shapes, _second(in_operations), _backward_context)
    _in_operations[signature.partition("(")[0]] = in_operations


def filled(tensors: Sequence[Tensor | None], like: Tensor) -> tuple[Tensor, ...]:
    """Operators return tensors only: an empty one stands for none."""
    return tuple(like.new_empty(0) if tensor is None else tensor for tensor in tensors)


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
