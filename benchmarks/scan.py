"""The selective scan and the causal convolution alone: the core beside the PyTorch loop, forward and backward."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from iclab.ops import backend_in_use, causal_conv, selective_scan

BATCH, LENGTH, CHANNELS, STATES = 64, 65, 512, 16
_REPEATS = 7


def run() -> list[dict[str, object]]:
    """Rows of `case, ours_ms, peer, peer_ms, ratio`, medians of paired repeats; the first pair is not counted."""
    return _scan() + _convolution()


def _scan() -> list[dict[str, object]]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).requires_grad_()

    u, z, delta = (normal(BATCH, LENGTH, CHANNELS) for _ in range(3))
    B, C = (normal(BATCH, LENGTH, STATES) for _ in range(2))
    A = (-torch.arange(1.0, STATES + 1)).repeat(CHANNELS, 1).requires_grad_()
    D, bias = normal(CHANNELS), torch.full((CHANNELS,), -3.0).requires_grad_()

    def scan(backend: str) -> Tensor:
        return selective_scan(u, delta, A, B, C, D, delta_bias=bias, delta_softplus=True, z=z, backend=backend)

    return _rows(f"scan, S={STATES},", scan, (u, delta, A, B, C, D, bias, z))


def _convolution() -> list[dict[str, object]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, LENGTH, CHANNELS, generator=generator).requires_grad_()
    weight = torch.randn(CHANNELS, 4, generator=generator).requires_grad_()
    bias = torch.randn(CHANNELS, generator=generator).requires_grad_()
    return _rows("convolution, K=4,", lambda backend: causal_conv(x, weight, bias, backend=backend), (x, weight, bias))


def _rows(what: str, function: Callable[[str], Tensor], leaves: tuple[Tensor, ...]) -> list[dict[str, object]]:
    """Forward and backward apart, ours and the loop in turn."""
    times: dict[tuple[str, str], list[float]] = {}
    load = os.getloadavg()[0]
    for repeat in range(_REPEATS + 1):
        for backend in ("auto", "torch"):
            start = time.perf_counter()
            y = function(backend)
            middle = time.perf_counter()
            torch.autograd.grad(y, leaves, torch.ones_like(y))
            end = time.perf_counter()
            if repeat:
                times.setdefault(("forward", backend), []).append(1e3 * (middle - start))
                times.setdefault(("backward", backend), []).append(1e3 * (end - middle))
    rows: list[dict[str, object]] = []
    for direction in ("forward", "backward"):
        ours, peer = (statistics.median(times[direction, backend]) for backend in ("auto", "torch"))
        case = f"{what} {direction}, B={BATCH}, L={LENGTH}, D={CHANNELS}"
        note = f"{backend_in_use()}; load average {load:.2f}"
        rows.append(
            {"case": case, "ours_ms": ours, "peer": "PyTorch loop", "peer_ms": peer, "ratio": peer / ours, "note": note}
        )
    return rows
