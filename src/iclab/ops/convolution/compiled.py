"""The causal convolution by the compiled core."""

from __future__ import annotations

from torch import Tensor

from iclab.ops.core import PANEL, ConvolutionJob, Pointers, run, shares, sum_first


def _prepared(
    x: Tensor, weight: Tensor, bias: Tensor | None, initial_state: Tensor | None, silu: bool
) -> Pointers[ConvolutionJob]:
    batch, length, channels = x.shape
    job = ConvolutionJob(length=length, taps=weight.shape[1], silu=silu, **shares(batch, channels))
    prepared = Pointers(job)
    prepared.rows("x", x)
    prepared.point("weight", weight.t())
    prepared.point("bias", bias)
    prepared.point("initial", initial_state)
    return prepared


def forward(x: Tensor, weight: Tensor, bias: Tensor | None, initial_state: Tensor | None, silu: bool) -> Tensor:
    """``(B, L, D)`` from ``x (B, L, D)``, ``weight (D, K)``, ``bias (D,)`` and ``initial_state (B, K - 1, D)``."""
    prepared = _prepared(x, weight, bias, initial_state, silu)
    y = prepared.fresh("y", x, x.shape)
    run("convolution_forward", x.dtype, prepared.job, x.numel() * weight.shape[1])
    return y


def backward(
    grad_y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, initial_state: Tensor | None, silu: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Gradients of ``x``, ``weight``, ``bias`` and ``initial_state``; ``None`` for those not given."""
    prepared = _prepared(x, weight, bias, initial_state, silu)
    job, channels, taps = prepared.job, x.shape[2], weight.shape[1]
    prepared.rows("grad_y", grad_y)
    grad_x = prepared.fresh("grad_x", x, x.shape)
    grad_initial = None if initial_state is None else prepared.fresh("grad_initial", x, initial_state.shape)
    parts = prepared.fresh("grad_weight", x, (job.slabs, taps + 1, job.panels * PANEL))
    run("convolution_backward", x.dtype, job, 2 * x.numel() * taps)
    totals = sum_first(parts)[:, :channels]
    grad_bias = None if bias is None else totals[taps].clone()
    return grad_x, totals[:taps].t().contiguous(), grad_bias, grad_initial
