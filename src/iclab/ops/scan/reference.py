"""The selective scan as its paper writes it: slow, obvious, differentiable by anything.

Glossary (Gu and Dao 2023, section 3): ``u`` input, ``delta`` step, ``A`` diagonal of the state matrix, ``B`` and ``C``
input and output of the state, ``D`` skip, ``z`` gate, ``h`` state. Everything is computed in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from iclab.ops.convolution.reference import silu


def scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    delta_bias: Tensor | None,
    z: Tensor | None,
    initial_state: Tensor | None,
    softplus: bool,
    zero_order_hold: bool,
) -> tuple[Tensor, Tensor]:
    """``y (B, L, D)`` and the state after each token ``(B, L, D, S)``, both float64.

    ``h_t = exp(delta_t A) h_{t-1} + Bbar_t u_t`` and ``y_t = (C_t h_t + D u_t) silu(z_t)``, where ``Bbar_t`` is
    ``delta_t B_t``, or with the zero-order hold ``(exp(delta_t A) - 1)/A B_t``.
    """
    u, delta, A, B, C = (tensor.double() for tensor in (u, delta, A, B, C))
    if delta_bias is not None:
        delta = delta + delta_bias.double()
    if softplus:
        delta = torch.logaddexp(delta, torch.zeros_like(delta))
    h = torch.zeros_like(u[:, 0, :, None] * A) if initial_state is None else initial_state.double()
    outputs, states = [], []
    for t in range(u.shape[1]):
        step = delta[:, t, :, None]
        exponent = step * A
        gain = step * _mean_exp(exponent) if zero_order_hold else step
        h = torch.exp(exponent) * h + gain * B[:, t, None, :] * u[:, t, :, None]
        states.append(h)
        outputs.append((h * C[:, t, None, :]).sum(-1))
    y = torch.stack(outputs, 1)
    if D is not None:
        y = y + D.double() * u
    if z is not None:
        y = y * silu(z.double())
    return y, torch.stack(states, 1)


def _mean_exp(x: Tensor) -> Tensor:
    """``(exp(x) - 1)/x``; near 0 the series ``sum_k x^k/(k + 1)!``, of which no derivative cancels."""
    small = x.abs() < 0.5
    near, far = torch.where(small, x, 0.0), torch.where(small, 1.0, x)
    series = torch.ones_like(x)
    for k in range(18, 0, -1):
        series = 1 + series * near / (k + 1)
    return torch.where(small, series, torch.expm1(far) / far)
