"""The batch of each step: a function of (stream, step) alone.

Step t of a training with batches of C chunks takes the chunks ``t C, ..., t C + C - 1`` of its stream. How they are
split over processes and micro-batches, and from where a training was resumed, changes no prompt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import torch

from iclab.errors import InputError
from iclab.memory import check_memory
from iclab.parallel import map_in_order
from iclab.pretraining.trainer.phases import Plan
from iclab.prompts import CHUNK, Prompts, Stream
from iclab.prompts.distribution import draw_checked


@dataclass(frozen=True)
class MicroBatch:
    """A part of the batch of one step.

    Attributes:
        prompts: the prompts.
        first_chunk: number of their first chunk in the stream: a name for this part of all data.
    """

    prompts: Prompts
    first_chunk: int


class Batches:
    """The batches of one process; ``parts`` is how many micro-batches all processes split a batch into.

    Args:
        plan: says what distribution a step is drawn from.
        stream: of the prompts.
        batch_size: prompts of a step over all processes; a multiple of CHUNK.
        num_queries: of each prompt.
        dtype: of the prompts.
        accumulate: micro-batches of this process.
        rank, size: number of this process, and of processes.

    Raises:
        InputError: where there are more micro-batches than chunks, or a batch does not fit this machine's memory.
    """

    def __init__(
        self,
        plan: Plan,
        stream: Stream,
        batch_size: int,
        num_queries: int,
        dtype: torch.dtype,
        accumulate: int = 1,
        rank: int = 0,
        size: int = 1,
    ) -> None:
        self.plan, self.stream, self.num_queries, self.dtype = plan, stream, num_queries, dtype
        self.chunks, self.parts = batch_size // CHUNK, accumulate * size
        parts = self.parts
        if parts > self.chunks:
            raise InputError(
                f"a batch of {batch_size} prompts is {self.chunks} chunks of {CHUNK} and is split {parts} times "
                f"({size} processes of {accumulate} micro-batches); raise batch_size or lower accumulate"
            )
        bounds = [self.chunks * part // parts for part in range(parts + 1)]
        self._bounds = bounds[rank * accumulate : (rank + 1) * accumulate + 1]
        largest = max((phase.num_examples + num_queries) * phase.prompts.ambient_dim for phase in plan.phases)
        check_memory(f"a batch of {batch_size} prompts", 2.0 * batch_size * largest * dtype.itemsize)

    def draw(self, step: int) -> list[MicroBatch]:
        """The micro-batches of this process, on the CPU."""
        phase, bounds = self.plan.at(step), self._bounds
        start = step * self.chunks + bounds[0]

        def chunk(number: int) -> Prompts:
            generator = self.stream.at(start + number)
            return draw_checked(phase.prompts, [generator], phase.num_examples, self.num_queries, self.dtype)

        chunks = list(map_in_order(chunk, bounds[-1] - bounds[0]))
        return [
            MicroBatch(Prompts.cat(chunks[low - bounds[0] : high - bounds[0]]), step * self.chunks + low)
            for low, high in pairwise(bounds)
        ]

    def iterate(self, first: int, stop: int, ahead: bool, pin: bool = False) -> Iterator[list[MicroBatch]]:
        """The batches of the steps ``first`` to ``stop - 1``.

        ``ahead`` draws the next one in a thread of its own meanwhile, which pays where the model runs on another device
        and not where it needs the same cores. ``pin`` puts them in memory that a GPU reads by itself.
        """
        if not ahead:
            yield from map(self.draw, range(first, stop))
            return

        def draw(step: int) -> list[MicroBatch]:
            parts = self.draw(step)
            return [MicroBatch(part.prompts.pinned(), part.first_chunk) for part in parts] if pin else parts

        with ThreadPoolExecutor(1, "iclab-prefetch") as pool:
            waiting = deque(pool.submit(draw, step) for step in range(first, min(first + 1, stop)))
            for step in range(first, stop):
                batch = waiting.popleft().result()
                if step + 1 < stop:
                    waiting.append(pool.submit(draw, step + 1))
                yield batch
