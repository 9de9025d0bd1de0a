"""The one-layer model's gate and state by the compiled core of `iclab.ops`, where it is there and gradients are not
asked for. Shapes as in `iclab.models.one_layer.model`; the same numbers as torch's operations give, but for rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter

from iclab.ops.backends import core_wanted
from iclab.ops.core import GateJob, Pointers, StateJob, run
from iclab.ops.transforms import transformed

LARGEST_DIM = 512  # beyond, a product of matrices that a library cuts for all caches is faster


def serves(*tensors: Tensor) -> bool:
    """Whether the core is here and can take these tensors: `plain` ones."""
    return core_wanted() and plain(*tensors)


def plain(*tensors: Tensor) -> bool:
    """Whether these are numbers in the CPU's memory and nothing else: no part of a graph that is recorded, without
    tangents, no subclass, not those of ``torch.func`` or ``torch.compile``, which stand for others; and whether nothing
    watches or changes operations: a tracer, a mode, autocast."""
    if transformed() or torch._C._len_torch_dispatch_stack() or torch.is_autocast_enabled("cpu"):
        return False
    return all(map(_plain, tensors))


def _plain(tensor: Tensor) -> bool:
    if type(tensor) not in (Tensor, Parameter) or tensor.is_neg() or tensor._is_zerotensor():
        return False
    if tensor.device.type != "cpu" or tensor.dtype not in (torch.float32, torch.float64):
        return False
    return not (tensor.requires_grad and torch.is_grad_enabled())


def hermite_state(x: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over the examples of ``c``, ``c x`` and ``c (x x' - I)/sqrt 2``: ``(B,)``, ``(B, d)``, ``(B, d, d)``.

    Args:
        x: ``(B, N, d)``.
        c: ``(B, N)``.
    """
    batch, length, dim = x.shape
    prepared = Pointers(StateJob(tasks=batch, examples=length, dim=dim))
    prepared.rows("x", x)
    prepared.point("weights", c)
    zeroth = prepared.fresh("zeroth", x, (batch,))
    first = prepared.fresh("first", x, (batch, dim))
    second = prepared.fresh("second", x, (batch, dim, dim))
    run("hermite_state", x.dtype, prepared.job, x.numel() * dim)
    return zeroth, first, second


def gate_weights(
    labels: Tensor, rho: float, bias: float, unit: float, query: float, *, weighted: bool = False
) -> Tensor:
    """``log(G_j / s(0))`` of the zero-order hold at the query, or ``weighted``, ``G_j y_j / (s(0) N)``.

    Args:
        labels: ``(..., N)``, finite.
        rho, bias: the gate is open by ``sigmoid(y/rho + bias)``.
        unit, query: ``log sigmoid(bias)`` and ``log(1 - sigmoid(bias))``.
        weighted: which of the two, both of the shape of ``labels``.
    """
    length = labels.shape[-1]
    tasks, share = labels.numel() // max(length, 1), 1 / max(length, 1)
    numbers = {"rho": rho, "bias": bias, "unit": unit, "query": query, "share": share}
    prepared = Pointers(GateJob(tasks=tasks, examples=length, weighted=weighted, **numbers))
    prepared.point("labels", labels)
    results = prepared.fresh("results", labels, labels.shape)
    run("gate_weights", labels.dtype, prepared.job, labels.numel() * 16)
    return results
