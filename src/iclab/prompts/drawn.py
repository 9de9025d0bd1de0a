"""Checks of what a prompt distribution returns, whoever wrote it: a wrong count would otherwise go unnoticed.

Shapes: B prompts, N context examples, Q queries, d ambient dimension.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from iclab.errors import InputError
from iclab.prompts.batch import Prompts
from iclab.prompts.values import is_finite

CHUNK = 8
"""Prompts drawn from one generator. Prompt ``i`` is row ``i % CHUNK`` of chunk ``i // CHUNK``, whatever the batch."""


def check_drawn(
    distribution: Any,
    method: str,
    drawn: object,
    num_prompts: int,
    num_examples: int,
    num_queries: int,
    dtype: torch.dtype,
) -> Prompts:
    """Return ``drawn``, which ``distribution.method`` gave, if it is what was asked for.

    Args:
        distribution: errors name its class.
        method: ``draw_chunks`` or ``sample``.
        drawn: what the method returned.
        num_prompts, num_examples, num_queries: B, N and Q that were asked for.
        dtype: of inputs and labels that was asked for.

    Raises:
        InputError: for what is no `Prompts`, another B, N, Q, d or dtype, tensors that are not on the CPU, and inputs
            or labels that are not finite (a query label may be NaN: unlabelled).
    """
    name = f"{type(distribution).__name__}.{method}"
    if not isinstance(drawn, Prompts):
        raise InputError(f"{name} returned an object of type {type(drawn).__name__}; expected Prompts")
    found = (drawn.batch_size, drawn.num_examples, drawn.num_queries, drawn.ambient_dim)
    wanted = (num_prompts, num_examples, num_queries, distribution.ambient_dim)
    if found != wanted:
        raise InputError(
            f"{name} returned {_sizes(*found)}; expected {_sizes(*wanted)}: return as many as were asked for"
        )
    for part in ("inputs", "labels"):
        tensor: Tensor = getattr(drawn, part)
        if tensor.dtype != dtype or tensor.device.type != "cpu":
            raise InputError(
                f"{name} returned {part} of {tensor.dtype} on {tensor.device}; expected {dtype} on the CPU, as asked "
                "for by its argument dtype"
            )
    if not (is_finite(drawn.inputs) and is_finite(drawn.labels)):
        _check_finite(name, drawn)
    return drawn


def _check_finite(name: str, drawn: Prompts) -> None:
    for part, tensor, bad in (
        ("an input", drawn.inputs, ~torch.isfinite(drawn.inputs)),
        ("a context label", drawn.example_labels, ~torch.isfinite(drawn.example_labels)),
        ("a query label", drawn.query_labels, torch.isinf(drawn.query_labels)),
    ):
        if bool(bad.any()):
            index = tuple(bad.nonzero()[0].tolist())
            raise InputError(
                f"{name} returned {part} that is {float(tensor[index])} at {index}; expected finite numbers: make its "
                "sizes smaller, or use float64"
            )


def _sizes(prompts: int, examples: int, queries: int, dim: int) -> str:
    return f"{prompts} prompts of {examples} examples and {queries} queries in dimension {dim}"
