"""The causal convolution written out: slow, obvious, differentiable by anything. Everything is computed in float64."""

from __future__ import annotations

import torch
from torch import Tensor


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, initial_state: Tensor | None, activate: bool) -> Tensor:
    """``y_t = sum_k w_k x_{t-K+1+k} + bias`` for each channel, then SiLU; float64 ``(B, L, D)``.

    ``initial_state (B, K - 1, D)`` are the inputs before the first.
    """
    width, length = weight.shape[1], x.shape[1]
    before = x.new_zeros(x.shape[0], width - 1, x.shape[2]) if initial_state is None else initial_state
    padded = torch.cat([before.double(), x.double()], 1)
    windows = torch.stack([padded[:, t : t + width] for t in range(length)], 1)
    y = torch.einsum("bldk,dk->bld", windows.transpose(2, 3), weight.double())
    if bias is not None:
        y = y + bias.double()
    return silu(y) if activate else y


def silu(x: Tensor) -> Tensor:
    """``x sigmoid(x)``; PyTorch's own has no forward derivative of its gradient."""
    return x * torch.sigmoid(x)
