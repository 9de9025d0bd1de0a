"""The scan by the CUDA kernels of the package ``mamba_ssm``, where somebody has installed it."""

from __future__ import annotations

import importlib

from torch import Tensor

from iclab.errors import InputError
from iclab.ops.scan.kernel import Options, ScanInputs


def lacks(inputs: ScanInputs, options: Options) -> str:
    """What the call asks for and those kernels do not have, or ``""``."""
    if inputs.initial_state is not None:
        return "an initial state"
    if options.zero_order_hold:
        return "the exact zero-order hold"
    if options.all_states:
        return "the states of all tokens"
    if options.last_state and options.checkpoints:
        return "a last state with a gradient"
    if inputs.u.dtype.itemsize > 4:
        return "float64"
    return ""


def scan(inputs: ScanInputs, options: Options) -> tuple[Tensor, Tensor | None]:
    """``y (B, L, D)`` and, if asked for, the last state ``(B, D, S)``."""
    missing = lacks(inputs, options)
    if missing:
        raise InputError(f"backend 'mamba_ssm' lacks {missing}; take backend='auto'")
    module = importlib.import_module("mamba_ssm.ops.selective_scan_interface")
    u, delta, A, B, C, D, bias, z, _ = inputs

    def channels_first(tensor: Tensor) -> Tensor:
        return tensor.transpose(1, 2).contiguous()

    results = module.selective_scan_fn(
        channels_first(u),
        channels_first(delta),
        A,
        channels_first(B),
        channels_first(C),
        D,
        z=None if z is None else channels_first(z),
        delta_bias=bias,
        delta_softplus=options.softplus,
        return_last_state=options.last_state,
    )
    y, last = results if options.last_state else (results, None)
    return y.transpose(1, 2), last
