"""What a gated state keeps of each example, in logs: ``G_i = gain_i * prod_{j>i} keep_j``.

One piece of mathematics for all gates: those of labels alone (`iclab.models.LabelGate`) and those of whole tokens
(`iclab.models.GatedLinearAttention`). Logs, since a product over a long prompt leaves the range of floating point.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_weights(log_gain: Tensor, log_keep: Tensor) -> Tensor:
    """``log G_i`` behind the last example.

    Args:
        log_gain: ``(..., N)``, how much each example writes; the result takes its place.
        log_keep: ``(..., N)``, how much of the state before it each example leaves.

    Returns:
        ``(..., N)``: ``log_gain_i + sum_{j>i} log_keep_j``.
    """
    # Summing from the end keeps a huge value out of the sums of the examples after it.
    after = log_keep.flip(-1).cumsum(-1).flip(-1)
    log_gain[..., :-1] += after[..., 1:]
    return log_gain


def log_weights_behind(log_gain: Tensor, log_keep: Tensor, after: Tensor) -> Tensor:
    """``log G_i`` in the states behind the first ``after[r]`` examples; ``-inf`` for those that come later.

    Every sum is formed by itself, never as a difference of two long ones, which would drown small terms.

    Args:
        log_gain, log_keep: ``(B, N)``.
        after: ``(R,)``, integers from 0 to N.

    Returns:
        ``(B, R, N)``.
    """
    there = torch.arange(log_gain.shape[-1], device=after.device) < after[:, None]
    gains = log_gain[:, None].repeat(1, len(after), 1)
    return log_weights(gains, log_keep[:, None] * there).masked_fill(~there, -torch.inf)
