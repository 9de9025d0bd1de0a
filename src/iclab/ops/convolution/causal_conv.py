"""`causal_conv`: the short causal convolution before the scan, with its SiLU."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor
from torch.nn.functional import silu

from iclab.ops.arguments import check_convolution
from iclab.ops.backends import choose
from iclab.ops.convolution import reference
from iclab.ops.convolution.operator import call
from iclab.ops.transforms import differentiates_forward


@overload
def causal_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str | None = "silu",
    initial_state: Tensor | None = None,
    return_last_state: Literal[False] = False,
    backend: str = "auto",
) -> Tensor: ...


@overload
def causal_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str | None = "silu",
    initial_state: Tensor | None = None,
    return_last_state: Literal[True],
    backend: str = "auto",
) -> tuple[Tensor, Tensor]: ...


def causal_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str | None = "silu",
    initial_state: Tensor | None = None,
    return_last_state: bool = False,
    backend: str = "auto",
) -> Tensor | tuple[Tensor, Tensor]:
    """Convolve over the last ``K`` tokens, each channel by itself: ``y_t = silu(bias + sum_k w_k x_{t-K+1+k})``.

    Args:
        x: inputs ``(B, L, D)``.
        weight: taps ``(D, K)``, the last one for the present token.
        bias: ``(D,)``.
        activation: ``"silu"`` or ``None``.
        initial_state: the ``K - 1`` inputs before the first ``(B, K - 1, D)``; zero by default.
        return_last_state: also return the last ``K - 1`` inputs, the ``initial_state`` of what follows.
        backend: as for `selective_scan`; ``"triton"`` and ``"mamba_ssm"`` have no convolution and take PyTorch's.

    Returns:
        ``(B, L, D)`` of ``x``'s type, computed in float32 at least; perhaps the last inputs, of ``x``'s type.

    Raises:
        InputError: shapes that disagree, or a backend that is missing.

    Reference: Gu and Dao 2023, section 3.4; the arrangement of taps is that of ``torch.nn.functional.conv1d``.
    """
    check_convolution(x, weight, bias, initial_state, activation)
    length, before = x.shape[1], weight.shape[1] - 1
    given = (x, weight, bias, initial_state)
    precise = any(tensor is not None and tensor.dtype == torch.float64 for tensor in given)
    dtype = torch.float64 if precise else torch.float32
    signal, taps = x.to(dtype), weight.to(dtype)
    offset, start = (None if tensor is None else tensor.to(dtype) for tensor in (bias, initial_state))
    name, activate = choose(backend, x.device.type), activation == "silu"
    if name == "reference" or differentiates_forward():
        y = reference.convolution(signal, taps, offset, start, activate)
    elif name == "c":
        y = call("causal_conv", signal, taps, offset, start, activate)
    else:
        y = _shifted(signal, taps, offset, start, activate)
    if not return_last_state:
        return y.to(x.dtype)
    if length >= before:
        return y.to(x.dtype), x[:, length - before :].clone()  # a view would hold the memory of all of x
    earlier = x.new_zeros(x.shape[0], before, x.shape[2]) if start is None else start.to(x.dtype)
    return y.to(x.dtype), torch.cat([earlier[:, length:], x], 1)


def _shifted(x: Tensor, weight: Tensor, bias: Tensor | None, start: Tensor | None, activate: bool) -> Tensor:
    """The sum over taps of the shifted input; differentiable by autograd, on any device."""
    length, taps = x.shape[1], weight.shape[1]
    start = x.new_zeros(x.shape[0], taps - 1, x.shape[2]) if start is None else start
    padded = torch.cat([start, x], 1)
    y = padded[:, :length] * weight[:, 0]
    for k in range(1, taps):
        y = torch.addcmul(y, padded[:, k : k + length], weight[:, k])
    y = y if bias is None else y + bias
    return silu(y) if activate else y
