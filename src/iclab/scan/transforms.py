"""Whether something is at work that knows PyTorch's own operations alone, and that a call of the core would escape."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transformed(*tensors: Tensor) -> bool:
    """Whether a compiler, a tracer, ``torch.func`` or forward differentiation works on these tensors."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return True
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)
