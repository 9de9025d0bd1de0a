"""What a backend's kernel is: two functions over one set of inputs, and the shape of what it keeps between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

# The zero-order hold divides by A. Nearer to 0 than this, A = 0 gives the same to rounding, and 1/A might overflow.
LARGEST_RATE = {torch.float32: -1e-12, torch.float64: -1e-24}


class ScanInputs(NamedTuple):
    """``u, delta, z (B, L, D)``, ``A (D, S)``, ``B, C (B, L, S)``, ``D, delta_bias (D,)``, ``initial_state (B, D, S)``.

    All of one type, float32 or float64, on one device; the last dimension need not be contiguous.
    """

    u: Tensor
    delta: Tensor
    A: Tensor
    B: Tensor
    C: Tensor
    D: Tensor | None
    delta_bias: Tensor | None
    z: Tensor | None
    initial_state: Tensor | None

    def to(self, dtype: torch.dtype) -> ScanInputs:
        """All of them in that type."""

        def cast(tensor: Tensor | None) -> Any:
            return None if tensor is None else tensor.to(dtype)

        return ScanInputs(*[cast(tensor) for tensor in self])


class Options(NamedTuple):
    """How to compute, and what beside the outputs."""

    softplus: bool
    zero_order_hold: bool
    last_state: bool
    all_states: bool
    checkpoints: bool


class ScanOutputs(NamedTuple):
    """``y (B, L, D)``; empty unless asked for: ``last_state (B, D, S)``, ``all_states (B, L, D, S)``, checkpoints."""

    y: Tensor
    last_state: Tensor
    all_states: Tensor
    checkpoints: Tensor


class Gradients(NamedTuple):
    """Of `ScanInputs`, field by field; ``None`` where there was no input."""

    u: Tensor
    delta: Tensor
    A: Tensor
    B: Tensor
    C: Tensor
    D: Tensor | None
    delta_bias: Tensor | None
    z: Tensor | None
    initial_state: Tensor | None


@dataclass(frozen=True)
class Kernel:
    """A backend with an explicit backward pass.

    ``forward(inputs, options)``; ``backward(inputs, options, checkpoints, grad_y, grad_last, grad_states)``, the last
    two perhaps ``None``; ``checkpoint_shape(batch, length, channels, states)``.
    """

    forward: Callable[[ScanInputs, Options], ScanOutputs]
    backward: Callable[[ScanInputs, Options, Tensor, Tensor, Tensor | None, Tensor | None], Gradients]
    checkpoint_shape: Callable[[int, int, int, int], tuple[int, ...]]
