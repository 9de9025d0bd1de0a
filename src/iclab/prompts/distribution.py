"""`PromptDistribution`: sampled in fixed chunks, so data never depend on how they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from iclab.errors import InputError, check_integer, check_positive
from iclab.memory import check_memory
from iclab.parallel import map_in_order
from iclab.prompts.arguments import described
from iclab.prompts.batch import Prompts
from iclab.prompts.drawn import CHUNK, check_drawn
from iclab.prompts.stream import Stream, check_stream
from iclab.prompts.values import check_dtype


class PromptDistribution(ABC):
    """A distribution of prompts. A family implements `draw_chunks`; `sample` does the rest.

    What studies and learners ask of a family has a default, which a class, an object or a property may replace.

    Attributes:
        ambient_dim: d, the dimension of an input.
        label_variance: variance of the clean labels, by which errors are divided; ``None`` where it is not known, see
            `label_variance`.
        label_support: the input coordinates that labels depend on; ``None`` where there are no such, or nobody knows
            them. Learners that are told the support need it.
        binary_labels: whether labels are +1 and -1: then a prediction is also scored by its sign.
        chunks_at_once: the most generators that `draw_chunks` is given; small operations cost the same for one chunk as
            for several.
    """

    ambient_dim: int
    label_variance: float | None = None
    label_support: tuple[int, ...] | None = None
    binary_labels: bool = False
    chunks_at_once: int = 1

    @abstractmethod
    def draw_chunks(
        self,
        generators: Sequence[torch.Generator],
        num_examples: int,
        num_queries: int,
        dtype: torch.dtype,
        buffer: Tensor | None = None,
    ) -> Prompts:
        """Draw exactly ``CHUNK`` prompts from each generator, in order.

        The prompts of a generator are the same to the bit whichever others are given with it.

        Args:
            generators: at most `chunks_at_once`: a single one, unless a family says otherwise.
            num_examples, num_queries: N and Q of each prompt.
            dtype: of inputs and labels.
            buffer: an optional ``(len(generators) * CHUNK, N+Q, d)`` tensor to hold the inputs, for loops that use one
                draw after another and save the allocation.
        """

    def identity(self) -> Mapping[str, object]:
        """Return what the prompts are a function of, by name.

        A stored training is resumed only where all of it is equal. Numbers, strings, ``None``, and lists, tuples and
        dictionaries of these are compared exactly; arrays and tensors by type, shape and hash; functions and other
        objects by the names of their classes alone. By default these are the public attributes. A family whose
        attributes say too little, or change as it is used, writes its own.
        """
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def scalars(self) -> Mapping[str, float]:
        """Return the numbers that a curriculum can lower, by name, with final values; none unless a family says so."""
        return {}

    def adjusted(self, **values: float) -> PromptDistribution:
        """Return this distribution with other values of its `scalars`; its prompts keep their dimension.

        Args:
            values: of scalars, by name.

        Raises:
            InputError: for a name that is none of `scalars`, and a value out of range.
        """
        raise InputError(
            f"a curriculum of {', '.join(values)} is asked of a {type(self).__name__}; give that class a method "
            "adjusted(**values) that returns a prompt distribution"
        )

    def prompt_bytes(self, num_examples: int, num_queries: int) -> int:
        """Return the bytes that drawing one prompt writes, in float32.

        They are its cost, in memory and, up to a factor, in time.

        Args:
            num_examples, num_queries: N and Q of the prompt.
        """
        return 4 * (num_examples + num_queries) * (self.ambient_dim + 2)

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
        """Draw the prompts number ``start`` to ``start + num_prompts - 1`` of a stream.

        A prompt is a function of (stream, its number, ``num_examples``, ``num_queries``, dtype) alone: batches may be
        split, skipped or drawn by any number of workers. Chunks are drawn by ``torch.get_num_threads()`` threads.

        Args:
            stream: what the draws come from.
            num_prompts: B, at least 1.
            num_examples, num_queries: N and Q of each prompt, at least 0.
            start: number of the first prompt, at least 0.
            dtype: of inputs and labels.

        Raises:
            InputError: for sizes below zero, above this machine's memory, or a dtype that is no float.
        """
        check_stream(stream)
        check_dtype(dtype)
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
        chunks = self._chunks(stream, first, last - first + 1, num_examples, num_queries, dtype)
        whole = chunks[0] if len(chunks) == 1 else Prompts.cat(chunks)
        offset = start - first * CHUNK
        return whole if num_prompts == whole.batch_size else whole[offset : offset + num_prompts]

    def _chunks(
        self, stream: Stream, first: int, count: int, num_examples: int, num_queries: int, dtype: torch.dtype
    ) -> list[Prompts]:
        """The chunks number ``first`` to ``first + count - 1`` of a stream, in order, one or more in each batch."""

        at_once = min(max(1, self.chunks_at_once), -(-count // torch.get_num_threads()))

        def draw(group: int) -> Prompts:
            chunks = range(first + group * at_once, first + min((group + 1) * at_once, count))
            return draw_checked(self, [stream.at(chunk) for chunk in chunks], num_examples, num_queries, dtype)

        return list(map_in_order(draw, -(-count // at_once)))


def label_variance(prompts: PromptDistribution, stream: Stream) -> float:
    """Return the variance of the clean labels: the family's own, else that of drawn prompts.

    Args:
        prompts: the distribution.
        stream: where the family has no value, the labels of 1024 prompts are drawn from it.

    Raises:
        InputError: where it is no finite number above zero.
    """
    variance = prompts.label_variance
    if variance is None:
        drawn = sample_checked(prompts, stream, 1024, 1, 1)
        labels = drawn.labels if drawn.targets is None else drawn.targets
        variance = float(labels[labels.isfinite()].double().var())
    return check_positive(f"label_variance of {type(prompts).__name__}", variance)


def check_distribution(prompts: object, name: str = "prompts") -> PromptDistribution:
    """Return ``prompts`` if it is a prompt distribution with an ``ambient_dim``; raise `InputError` otherwise."""
    if not isinstance(prompts, PromptDistribution):
        raise InputError(
            f"{name} is {described(prompts)}; expected a prompt distribution, such as SingleIndex(16, 4) or an "
            "instance of a class derived from PromptDistribution"
        )
    dim = getattr(prompts, "ambient_dim", None)
    check_integer(f"ambient_dim of {type(prompts).__name__}", dim, 1)
    return prompts


def draw_checked(
    distribution: PromptDistribution,
    generators: Sequence[torch.Generator],
    num_examples: int,
    num_queries: int,
    dtype: torch.dtype,
    buffer: Tensor | None = None,
) -> Prompts:
    """``distribution.draw_chunks(...)``, checked; the arguments are those of `PromptDistribution.draw_chunks`.

    Raises:
        InputError: where something else than the prompts asked for is returned; see `check_drawn`.
    """
    sizes = num_examples, num_queries, dtype
    drawn = distribution.draw_chunks(generators, *sizes, buffer)
    return check_drawn(distribution, "draw_chunks", drawn, len(generators) * CHUNK, *sizes)


def sample_checked(
    distribution: PromptDistribution,
    stream: Stream,
    num_prompts: int,
    num_examples: int,
    num_queries: int,
    *,
    start: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Prompts:
    """``prompts.sample(...)``, checked also where the family has written that method anew; see `check_drawn`."""
    drawn = distribution.sample(stream, num_prompts, num_examples, num_queries, start=start, dtype=dtype)
    return check_drawn(distribution, "sample", drawn, num_prompts, num_examples, num_queries, dtype)
