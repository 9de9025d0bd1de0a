"""The scan by the compiled core: tensors to pointers and back."""

from __future__ import annotations

import math

from torch import Tensor

from iclab.ops.core import CHUNK, PANEL, Pointers, ScanJob, panelled, run, shares, sum_first, unpanelled
from iclab.ops.scan.kernel import LARGEST_RATE, Gradients, Options, ScanInputs, ScanOutputs


def checkpoint_shape(batch: int, length: int, channels: int, states: int) -> tuple[int, ...]:
    """Shape of the states kept for the backward pass, in the core's layout."""
    return batch, -(-channels // PANEL), -(-length // CHUNK), states, PANEL


def _prepared(inputs: ScanInputs, options: Options) -> Pointers[ScanJob]:
    batch, length, channels = inputs.u.shape
    job = ScanJob(length=length, states=inputs.A.shape[1], **shares(batch, channels))
    job.softplus, job.zero_order_hold = options.softplus, options.zero_order_hold
    prepared = Pointers(job)
    for name in ("u", "delta", "z", "B", "C"):
        prepared.rows(name, getattr(inputs, name))
    A = inputs.A
    if options.zero_order_hold:
        A = A.clamp(max=LARGEST_RATE[A.dtype])
        prepared.point("inverses", panelled(1 / A))
    prepared.point("rates", panelled(A * math.log2(math.e)))
    prepared.point("skip", inputs.D)
    prepared.point("bias", inputs.delta_bias)
    prepared.point("initial", inputs.initial_state)
    return prepared


def forward(inputs: ScanInputs, options: Options) -> ScanOutputs:
    """Outputs, and the last state, all states and checkpoints as far as the options ask for them (else empty)."""
    u = inputs.u
    (batch, length, channels), states = u.shape, inputs.A.shape[1]
    prepared = _prepared(inputs, options)

    def wanted(name: str, asked: bool, shape: tuple[int, ...]) -> Tensor:
        return prepared.fresh(name, u, shape) if asked else u.new_empty(0)

    outputs = ScanOutputs(
        wanted("y", True, (batch, length, channels)),
        wanted("last", options.last_state, (batch, channels, states)),
        wanted("all_states", options.all_states, (batch, length, channels, states)),
        wanted("checkpoints", options.checkpoints, checkpoint_shape(batch, length, channels, states)),
    )
    if options.checkpoints and channels % PANEL:
        outputs.checkpoints[:, -1] = 0.0  # vectors narrower than a panel leave out lanes that no channel has
    run("scan_forward", u.dtype, prepared.job, u.numel() * states)
    return outputs


def backward(
    inputs: ScanInputs,
    options: Options,
    checkpoints: Tensor,
    grad_y: Tensor,
    grad_last: Tensor | None,
    grad_states: Tensor | None,
) -> Gradients:
    """Gradients of all inputs; ``None`` for those not given."""
    u, states, channels = inputs.u, inputs.A.shape[1], inputs.u.shape[2]
    prepared = _prepared(inputs, options)
    job = prepared.job
    prepared.rows("grad_y", grad_y)
    prepared.point("grad_last", grad_last)
    prepared.point("grad_states", grad_states)
    prepared.point("checkpoints", checkpoints)

    def like(name: str, tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else prepared.fresh(name, u, tensor.shape)

    grad_u, grad_delta = prepared.fresh("grad_u", u, u.shape), prepared.fresh("grad_delta", u, u.shape)
    grad_z, grad_initial = like("grad_z", inputs.z), like("grad_initial", inputs.initial_state)
    grad_A = prepared.fresh("grad_A", u, (job.slabs, job.panels, states, PANEL))
    grad_skip = prepared.fresh("grad_skip", u, (job.slabs, job.panels * PANEL))
    grad_bias = prepared.fresh("grad_bias", u, (job.slabs, job.panels * PANEL))
    grad_B = prepared.fresh("grad_B", u, (job.groups, *inputs.B.shape))
    grad_C = prepared.fresh("grad_C", u, (job.groups, *inputs.C.shape))
    run("scan_backward", u.dtype, job, 2 * u.numel() * states)
    return Gradients(
        u=grad_u,
        delta=grad_delta,
        A=unpanelled(sum_first(grad_A), channels).contiguous(),
        B=sum_first(grad_B),
        C=sum_first(grad_C),
        D=None if inputs.D is None else sum_first(grad_skip)[:channels].clone(),
        delta_bias=None if inputs.delta_bias is None else sum_first(grad_bias)[:channels].clone(),
        z=grad_z,
        initial_state=grad_initial,
    )
