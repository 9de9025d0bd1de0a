"""The scan in PyTorch operations, for any device: one step of the loop at a time, and its own backward pass.

Autograd over the same loop would keep every state and, where the loop indexes a tensor of all tokens, add a zero
tensor of full size for each; here the state is kept every `CHUNK` tokens and the chunk computed again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from iclab.ops.scan.kernel import LARGEST_RATE, Gradients, Options, ScanInputs, ScanOutputs

CHUNK = 16
_SERIES_BELOW = 0.35  # |delta A| from which the closed form of the hold's derivative loses no more than a digit


class _Steps(NamedTuple):
    """Of all tokens: step size ``delta``, its derivative by the raw input, and ``sigmoid(z)``."""

    delta: Tensor
    slope: Tensor | None
    open: Tensor | None


def checkpoint_shape(batch: int, length: int, channels: int, states: int) -> tuple[int, ...]:
    """One state for each chunk."""
    return -(-length // CHUNK), batch, channels, states


def _steps(inputs: ScanInputs, options: Options, backward: bool = False) -> _Steps:
    raw = inputs.delta if inputs.delta_bias is None else inputs.delta + inputs.delta_bias
    # The threshold of softplus cuts at 1e-9 by default: at 40 it is exact in float64 as well.
    delta = softplus(raw, threshold=40) if options.softplus else raw
    slope = torch.sigmoid(raw) if options.softplus and backward else None
    return _Steps(delta, slope, None if inputs.z is None else torch.sigmoid(inputs.z))


def _rates(inputs: ScanInputs, options: Options) -> Tensor:
    return inputs.A.clamp(max=LARGEST_RATE[inputs.A.dtype]) if options.zero_order_hold else inputs.A


def _decay(delta_t: Tensor, A: Tensor) -> Tensor:
    return (delta_t.unsqueeze(-1) * A).exp_()


def _hold_gain(delta_t: Tensor, A: Tensor) -> Tensor:
    """``(exp(delta A) - 1)/A (B, D, S)``."""
    return torch.expm1(delta_t.unsqueeze(-1) * A).div_(A)


def _advance(h: Tensor, e: Tensor, x_t: Tensor, B_t: Tensor, gain: Tensor | None) -> None:
    """``h <- e h + gain u B`` in place; without a gain ``x_t`` is ``delta u``, with one it is ``u``."""
    h.mul_(e)
    drive = x_t.unsqueeze(-1) if gain is None else gain * x_t.unsqueeze(-1)
    h.addcmul_(drive, B_t.unsqueeze(1))


def _first_state(inputs: ScanInputs) -> Tensor:
    if inputs.initial_state is not None:
        return inputs.initial_state.clone(memory_format=torch.contiguous_format)
    return inputs.u.new_zeros(inputs.u.shape[0], inputs.u.shape[2], inputs.A.shape[1])


def forward(inputs: ScanInputs, options: Options) -> ScanOutputs:
    """As `iclab.ops.scan.compiled.forward`."""
    u, A, hold = inputs.u, _rates(inputs, options), options.zero_order_hold
    batch, length, channels = u.shape
    steps = _steps(inputs, options)
    h = _first_state(inputs)
    every = u.new_empty((batch, length, *h.shape[1:]) if options.all_states else 0)
    kept = u.new_empty(checkpoint_shape(batch, length, *h.shape[1:]) if options.checkpoints else 0)
    y = u.new_empty(batch, length, channels)
    x = u if hold else steps.delta * u
    for t in range(length):
        if options.checkpoints and t % CHUNK == 0:
            kept[t // CHUNK] = h
        delta_t = steps.delta[:, t]
        gain = _hold_gain(delta_t, A) if hold else None
        _advance(h, _decay(delta_t, A), x[:, t], inputs.B[:, t], gain)
        if options.all_states:
            every[:, t] = h
        y[:, t] = torch.bmm(h, inputs.C[:, t].unsqueeze(-1)).squeeze(-1)
    if inputs.D is not None:
        y.addcmul_(inputs.D, u)
    if steps.open is not None and inputs.z is not None:
        y.mul_(inputs.z).mul_(steps.open)
    return ScanOutputs(y, h if options.last_state else u.new_empty(0), every, kept)


def backward(
    inputs: ScanInputs,
    options: Options,
    checkpoints: Tensor,
    grad_y: Tensor,
    grad_last: Tensor | None,
    grad_states: Tensor | None,
) -> Gradients:
    """As `iclab.ops.scan.compiled.backward`."""
    u, A, hold = inputs.u, _rates(inputs, options), options.zero_order_hold
    length = u.shape[1]
    steps = _steps(inputs, options, backward=True)
    x = u if hold else steps.delta * u
    grad = grad_y if steps.open is None or inputs.z is None else grad_y * inputs.z * steps.open
    ungated = torch.empty_like(u) if steps.open is not None else None
    grad_x, grad_delta = u.new_empty(u.shape), u.new_empty(u.shape)
    grad_B, grad_C = inputs.B.new_empty(inputs.B.shape), inputs.C.new_empty(inputs.C.shape)
    grad_h = torch.zeros_like(_first_state(inputs)) if grad_last is None else grad_last.clone()
    grad_A = torch.zeros_like(grad_h)
    for first in range((length - 1) // CHUNK * CHUNK, -1, -CHUNK):
        tokens = range(first, min(first + CHUNK, length))
        states = [checkpoints[first // CHUNK]]
        decays, gains = [], []
        for t in tokens:
            delta_t = steps.delta[:, t]
            decays.append(_decay(delta_t, A))
            gains.append(_hold_gain(delta_t, A) if hold else None)
            h = states[-1].clone()
            _advance(h, decays[-1], x[:, t], inputs.B[:, t], gains[-1])
            states.append(h)
            if ungated is not None:
                ungated[:, t] = torch.bmm(h, inputs.C[:, t].unsqueeze(-1)).squeeze(-1)
        for t in reversed(tokens):
            e, gain, before, after = decays[t - first], gains[t - first], states[t - first], states[t - first + 1]
            B_t, C_t, g, x_t = inputs.B[:, t].unsqueeze(-1), inputs.C[:, t].unsqueeze(1), grad[:, t], x[:, t]
            delta_t = steps.delta[:, t].unsqueeze(-1)
            grad_h.addcmul_(g.unsqueeze(-1), C_t)
            if grad_states is not None:
                grad_h.add_(grad_states[:, t])
            grad_C[:, t] = torch.bmm(g.unsqueeze(1), after).squeeze(1)
            driven = grad_h if gain is None else grad_h * gain
            grad_B[:, t] = torch.bmm(x_t.unsqueeze(1), driven).squeeze(1)
            grad_x[:, t] = torch.bmm(driven, B_t).squeeze(-1)
            by_gain: Tensor | float = 0.0
            if gain is not None:
                outer = grad_h * x_t.unsqueeze(-1) * inputs.B[:, t].unsqueeze(1)
                grad_A.addcmul_(outer, _hold_curve(delta_t, A, e, gain))
                by_gain = (outer * e).sum(-1)
            grad_h.mul_(e)
            by_exponent = grad_h * before
            grad_A.addcmul_(by_exponent, delta_t)
            grad_delta[:, t] = by_exponent.mul_(A).sum(-1) + by_gain
    grad_delta = grad_delta if hold else grad_delta.addcmul_(grad_x, u)
    grad_u = grad_x if hold else grad_x.mul_(steps.delta)
    if inputs.D is not None:
        grad_u = torch.addcmul(grad_u, inputs.D, grad)
    grad_raw = grad_delta if steps.slope is None else grad_delta.mul_(steps.slope)
    grad_z = None
    if ungated is not None and inputs.z is not None and steps.open is not None:
        ungated = ungated if inputs.D is None else ungated.addcmul_(inputs.D, u)
        grad_z = grad_y * ungated * steps.open * (1 + inputs.z * (1 - steps.open))
    return Gradients(
        u=grad_u,
        delta=grad_raw,
        A=grad_A.sum(0),
        B=grad_B,
        C=grad_C,
        D=None if inputs.D is None else (grad * u).sum((0, 1)),
        delta_bias=None if inputs.delta_bias is None else grad_raw.sum((0, 1)),
        z=grad_z,
        initial_state=None if inputs.initial_state is None else grad_h,
    )


def _hold_curve(delta: Tensor, A: Tensor, e: Tensor, gain: Tensor) -> Tensor:
    """``d/dA (exp(delta A) - 1)/A = delta^2 sum_k (delta A)^k (k + 1)/(k + 2)!``, by that series where it is small."""
    exponent = delta * A
    terms, factorial = (8, 3628800.0) if A.dtype == torch.float32 else (15, 355687428096000.0)
    series = torch.zeros_like(exponent)
    for k in range(terms, -1, -1):
        series.mul_(exponent).add_((k + 1) / factorial)
        factorial /= k + 2
    return torch.where(exponent.abs() < _SERIES_BELOW, delta * delta * series, (delta * e - gain) / A)
