"""Whether something is at work that knows PyTorch's own operations alone, and that a call of the core would escape."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad


def differentiates_forward() -> bool:
    """Whether forward differentiation is at work: ``torch.autograd.forward_ad``, ``torch.func.jvp``, ``jacfwd``, ...

    Tensors do not say so everywhere: the tangents of ``torch.func`` are out of sight inside ``vmap`` or ``grad``, and
    those of a gradient appear in the backward pass alone. All of them live inside a level of dual numbers.
    """
    return forward_ad._current_level >= 0  # no public test exists; torch.compile guards on this number


def transformed() -> bool:
    """Whether a compiler, a tracer, ``torch.func`` or forward differentiation is at work."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or differentiates_forward():
        return True
    return torch._C._functorch.peek_interpreter_stack() is not None
