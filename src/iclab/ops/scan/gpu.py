"""The scan by Triton kernels: tensors to pointers and back. Triton itself is imported at the first call.

With the environment variable ``TRITON_INTERPRET=1``, set before Python starts, Triton runs its kernels on the CPU.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from iclab.ops.scan.kernel import Gradients, Options, ScanInputs, ScanOutputs

CHUNK = 16
# Numbers of a program's state for each warp, 8 a thread, and its most warps: float32 compiles without spilling.
_WARP, _MOST_WARPS = 256, 8
# Looked for here and not at the call: torch.compile cannot trace the import machinery.
INSTALLED = importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Whether Triton runs kernels in Python on the CPU."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "on", "true", "y", "yes")


def checkpoint_shape(batch: int, length: int, channels: int, states: int) -> tuple[int, ...]:
    """The state before each chunk."""
    return batch, -(-length // CHUNK), channels, states


@functools.cache
def _kernels() -> Any:
    return importlib.import_module("iclab.ops.scan.gpu_kernels")


def _power_of_two(number: int) -> int:
    """The first one that is not smaller."""
    return 1 << (number - 1).bit_length()


def block_shape(channels: int, states: int) -> tuple[int, int]:
    """Channels and states of a program."""
    width = _power_of_two(states)
    return min(_power_of_two(channels), max(1, _WARP // width)), width


def _launch(
    name: str, given: ScanInputs, options: Options, pointers: Sequence[Tensor | None], *more_rows: Tensor
) -> None:
    """Run a kernel on all rows and channel blocks.

    Its arguments are ``pointers``, then the strides by row and token of ``u, delta, B, C, z`` and ``more_rows``.
    """
    (batch, length, channels), states = given.u.shape, given.A.shape[1]
    if batch == 0:
        return
    block_D, block_S = block_shape(channels, states)
    rows = (given.u, given.delta, given.B, given.C, given.z, *more_rows)
    strides = [stride for tensor in rows for stride in ((0, 0) if tensor is None else tensor.stride()[:2])]
    kernel = getattr(_kernels(), name)[(batch, -(-channels // block_D))]
    with torch.cuda.device_of(given.u):
        kernel(
            *pointers,
            *strides,
            length,
            channels,
            states,
            SOFTPLUS=options.softplus,
            HOLD=options.zero_order_hold,
            PRECISE=given.u.dtype == torch.float64,
            CHUNK=CHUNK,
            BLOCK_D=block_D,
            BLOCK_S=block_S,
            num_warps=min(_MOST_WARPS, max(1, block_D * block_S // _WARP)),
            enable_fp_fusion=True,
        )


def _with_contiguous_ends(inputs: ScanInputs) -> ScanInputs:
    """Tensors ``(B, L, D or S)`` keep their strides as far as the kernels know them; all others become contiguous."""

    def row(tensor: Tensor) -> Tensor:
        return tensor if tensor.stride(-1) == 1 else tensor.contiguous()

    return ScanInputs(
        u=row(inputs.u),
        delta=row(inputs.delta),
        A=inputs.A.contiguous(),
        B=row(inputs.B),
        C=row(inputs.C),
        D=None if inputs.D is None else inputs.D.contiguous(),
        delta_bias=None if inputs.delta_bias is None else inputs.delta_bias.contiguous(),
        z=None if inputs.z is None else row(inputs.z),
        initial_state=None if inputs.initial_state is None else inputs.initial_state.contiguous(),
    )


def forward(inputs: ScanInputs, options: Options) -> ScanOutputs:
    """As `iclab.ops.scan.compiled.forward`."""
    given = _with_contiguous_ends(inputs)
    (batch, length, channels), states = given.u.shape, given.A.shape[1]

    def wanted(asked: bool, *shape: int) -> Tensor | None:
        return given.u.new_empty(shape) if asked else None

    results = (
        wanted(True, batch, length, channels),
        wanted(options.last_state, batch, channels, states),
        wanted(options.all_states, batch, length, channels, states),
        wanted(options.checkpoints, *checkpoint_shape(batch, length, channels, states)),
    )
    _launch("scan_forward", given, options, (*given, *results))
    return ScanOutputs(*[given.u.new_empty(0) if result is None else result for result in results])


def backward(
    inputs: ScanInputs,
    options: Options,
    checkpoints: Tensor,
    grad_y: Tensor,
    grad_last: Tensor | None,
    grad_states: Tensor | None,
) -> Gradients:
    """As `iclab.ops.scan.compiled.backward`."""
    given = _with_contiguous_ends(inputs)
    (batch, _, channels), states = given.u.shape, given.A.shape[1]
    block_D, block_S = block_shape(channels, states)
    blocks = -(-channels // block_D)

    def fresh(like: Tensor | None, *shape: int) -> Any:
        return None if like is None else given.u.new_empty(shape or like.shape)

    grad_y = grad_y if grad_y.stride(-1) == 1 else grad_y.contiguous()
    grad_last, grad_states = (None if grad is None else grad.contiguous() for grad in (grad_last, grad_states))
    grad_u, grad_delta, grad_z = fresh(given.u), fresh(given.delta), fresh(given.z)
    grad_initial = fresh(given.initial_state)
    part_A = fresh(given.A, batch, channels, states)
    part_B, part_C = fresh(given.B, blocks, *given.B.shape), fresh(given.C, blocks, *given.C.shape)
    part_D, part_bias = fresh(given.D, batch, channels), fresh(given.delta_bias, batch, channels)
    scratch = fresh(given.u, batch, blocks, CHUNK, block_D, block_S)
    pointers = (
        *given[:-1], checkpoints.contiguous(), grad_y, grad_last, grad_states, grad_u, grad_delta, grad_z, grad_initial,
        part_A, part_B, part_C, part_D, part_bias, scratch,
    )  # fmt: skip
    _launch("scan_backward", given, options, pointers, grad_y)
    return Gradients(
        u=grad_u,
        delta=grad_delta,
        A=part_A.sum(0),
        B=part_B.sum(0),
        C=part_C.sum(0),
        D=None if part_D is None else part_D.sum(0),
        delta_bias=None if part_bias is None else part_bias.sum(0),
        z=grad_z,
        initial_state=grad_initial,
    )
