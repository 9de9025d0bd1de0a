"""Several chunks of a law as one batch, since small operations cost the same for one chunk as for all of them.

A family that wants it has a method ``draw_chunks``, as `draw_chunk` but for a sequence of generators, whose prompts are
the same to the bit, and a number ``chunks_at_once``. A class that says anew how one chunk is drawn is asked for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from iclab.prompts.batch import Prompts
from iclab.prompts.drawn import check_drawn

CHUNK = 8
"""Prompts drawn from one generator. Prompt ``i`` is row ``i % CHUNK`` of chunk ``i // CHUNK``, whatever the batch."""


def chunks_at_once(distribution: Any) -> int:
    """The most chunks for one call of `draw_together`: 1 where they would be drawn one by one."""
    return max(1, distribution.chunks_at_once) if _joins(distribution) else 1


def draw_together(
    distribution: Any,
    generators: Sequence[torch.Generator],
    num_examples: int,
    num_queries: int,
    dtype: torch.dtype,
    buffer: Tensor | None = None,
) -> Prompts:
    """The chunks of the generators, in order; ``buffer``, ``(len(generators) * CHUNK, N+Q, d)``, holds the inputs.

    Raises:
        InputError: where ``distribution`` returns something else than the prompts asked for; see `check_drawn`.
    """
    sizes = num_examples, num_queries, dtype
    if _joins(distribution):
        drawn = distribution.draw_chunks(generators, *sizes, buffer)
        return check_drawn(distribution, "draw_chunks", drawn, len(generators) * CHUNK, *sizes)
    buffers = [()] * len(generators) if buffer is None else [(part,) for part in buffer.split(CHUNK)]
    chunks = [
        check_drawn(distribution, "draw_chunk", distribution.draw_chunk(generator, *sizes, *part), CHUNK, *sizes)
        for generator, part in zip(generators, buffers, strict=True)
    ]
    return chunks[0] if len(chunks) == 1 else Prompts.cat(chunks)


def _joins(distribution: Any) -> bool:
    """Whether ``draw_chunks`` was written by the class that says how one chunk is drawn."""
    owner = _owner(distribution, "draw_chunks")
    return owner is not None and owner is _owner(distribution, "draw_chunk")


def _owner(distribution: Any, name: str) -> object:
    """Who defines a method of ``distribution``: a class, or the object itself."""
    if name in getattr(distribution, "__dict__", ()):
        return distribution
    return next((kind for kind in type(distribution).__mro__ if name in vars(kind)), None)
