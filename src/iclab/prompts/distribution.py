"""`PromptDistribution`: a law of prompts, sampled in fixed chunks, so data never depend on how they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer
from iclab.memory import check_memory
from iclab.parallel import map_in_order
from iclab.prompts.batch import Prompts
from iclab.prompts.stream import Stream

CHUNK = 8
"""Prompts drawn from one generator. Prompt ``i`` is row ``i % CHUNK`` of chunk ``i // CHUNK``, whatever the batch."""


class PromptDistribution(ABC):
    """A law of prompts. A family implements `draw_chunk`; `sample` does the rest.

    One whose small operations take longer than its drawing implements `draw_chunks` too.
    """

    ambient_dim: int
    chunks_at_once = 1
    """The most chunks that `sample` and Stage I draw by one call of `draw_chunks`."""

    def __init_subclass__(cls, **options: Any) -> None:
        """A class that says anew how one chunk is drawn draws several one by one, unless it says that anew too."""
        super().__init_subclass__(**options)
        if "draw_chunk" in vars(cls) and "draw_chunks" not in vars(cls):
            cls.draw_chunks = PromptDistribution.draw_chunks
            cls.chunks_at_once = 1

    @abstractmethod
    def draw_chunk(
        self,
        generator: torch.Generator,
        num_examples: int,
        num_queries: int,
        dtype: torch.dtype,
        buffer: Tensor | None = None,
    ) -> Prompts:
        """Draw exactly ``CHUNK`` prompts from ``generator``.

        ``buffer`` is an optional ``(CHUNK, N+Q, d)`` tensor to hold the inputs, for loops that use one chunk after
        another and save the allocation.
        """

    def draw_chunks(
        self,
        generators: Sequence[torch.Generator],
        num_examples: int,
        num_queries: int,
        dtype: torch.dtype,
        buffer: Tensor | None = None,
    ) -> Prompts:
        """The chunks of several generators as one batch, equal to the bit to those that `draw_chunk` draws one by one.

        A family implements it where small operations cost the same for one chunk as for all, and then sets
        ``chunks_at_once``. ``buffer`` as for `draw_chunk`, ``(len(generators) * CHUNK, N+Q, d)``.
        """
        if len(generators) == 1:
            return self.draw_chunk(generators[0], num_examples, num_queries, dtype, buffer)
        parts = buffer.split(CHUNK) if buffer is not None else [None] * len(generators)
        chunks = zip(generators, parts, strict=True)
        return Prompts.cat([self.draw_chunk(g, num_examples, num_queries, dtype, part) for g, part in chunks])

    def sample(
        self,
        stream: Stream,
        num_prompts: int,
        num_examples: int,
        num_queries: int = 1,
        *,
        start: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> Prompts:
        """Prompts number ``start`` to ``start + num_prompts - 1`` of a stream.

        A prompt is a function of (stream, its number, ``num_examples``, ``num_queries``, dtype) alone: batches may be
        split, skipped or drawn by any number of workers. Chunks are drawn by ``torch.get_num_threads()`` threads.

        Raises:
            InputError: for sizes below zero, above this machine's memory, or a dtype that is no float.
        """
        if not isinstance(stream, Stream):
            raise InputError(f"stream is {stream!r}; expected a Stream, such as Stream(0).child('evaluation')")
        if not dtype.is_floating_point:
            raise InputError(f"dtype is {dtype}; expected a floating point type such as torch.float32")
        num_prompts = check_integer("num_prompts", num_prompts, 1)
        num_examples = check_integer("num_examples", num_examples, 0)
        num_queries = check_integer("num_queries", num_queries, 0)
        start = check_integer("start", start, 0)
        size = (num_prompts + CHUNK) * (num_examples + num_queries) * (self.ambient_dim + 2) * dtype.itemsize
        check_memory(
            f"{num_prompts} prompts of {num_examples} examples and {num_queries} queries "
            f"in dimension {self.ambient_dim}",
            2 * size,
        )
        first, last = start // CHUNK, (start + num_prompts - 1) // CHUNK
        chunks = self._draw_chunks(stream, first, last - first + 1, num_examples, num_queries, dtype)
        whole = chunks[0] if len(chunks) == 1 else Prompts.cat(chunks)
        offset = start - first * CHUNK
        return whole if num_prompts == whole.batch_size else whole[offset : offset + num_prompts]

    def _draw_chunks(
        self, stream: Stream, first: int, count: int, num_examples: int, num_queries: int, dtype: torch.dtype
    ) -> list[Prompts]:
        """The chunks number ``first`` to ``first + count - 1`` of a stream, in order, one or more in each batch."""

        at_once = min(self.chunks_at_once, -(-count // torch.get_num_threads()))

        def draw(group: int) -> Prompts:
            chunks = range(first + group * at_once, first + min((group + 1) * at_once, count))
            return self.draw_chunks([stream.at(chunk) for chunk in chunks], num_examples, num_queries, dtype)

        return list(map_in_order(draw, -(-count // at_once)))
