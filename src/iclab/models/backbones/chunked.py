"""`ChunkedBackbone`: what `Mamba`, `LinearAttention` and `GPT2` share as sequences that come in chunks.

The tokens of a sequence may come whole (``forward``), in chunks with a cache carried from one to the next (``chunk``),
or one by one (``step``, a chunk of one); outputs and gradients are the same.
Shapes: B prompts, L tokens of a chunk, Q branches, M width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import repeat

from torch import Tensor, nn

from iclab.models.backbones.backbone import at_least, check_after, check_tokens
from iclab.models.cache import Cache, Entries, check_cache, initial_cache


class ChunkedBackbone(nn.Module, ABC):
    """A causal backbone ``(B, L, M) -> (B, L, M)`` that carries a cache, which no method changes in place.

    Raises:
        InputError: for tokens of another width or in a wider dtype than the weights; for a cache of another number of
            sequences, of another model, dtype or device; for more tokens than there are positions.
    """

    width: int

    @abstractmethod
    def cache_entries(self) -> Entries:
        """What the cache holds for each layer."""

    @abstractmethod
    def last_norm(self) -> nn.Module:
        """The norm on top; its weight has the dtype and device of the model."""

    @abstractmethod
    def _chunk(self, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """`chunk` of at least one token; everything was checked but positions."""

    @abstractmethod
    def _chunk_with_branches(
        self, x: Tensor, queries: Tensor, after: Sequence[int], cache: Cache | None
    ) -> tuple[Tensor, Tensor, Cache]:
        """`chunk_with_branches`; everything was checked but positions."""

    def initial_cache(self, batch: int) -> Cache:
        """The cache of ``batch`` empty sequences."""
        return initial_cache(self.cache_entries(), batch, self._weight().device)

    def chunk(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """The next tokens of B sequences.

        Args:
            x: ``(B, L, M)``; a chunk without tokens leaves the cache as it is.
            cache: what the chunk before returned; ``None`` at the beginning.

        Returns:
            Outputs ``(B, L, M)``, those of ``forward`` on all tokens so far at these positions, and the cache behind
            them. Gradients flow through it into the chunks before, unless `iclab.models.detach_cache` cuts it off.
        """
        x = self._checked(x, cache, 0)
        if x.shape[1] == 0:
            return x, self.initial_cache(len(x)) if cache is None else cache
        return self._chunk(x, cache)

    def step(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """The next tokens ``(B, M)`` -> outputs ``(B, M)`` and the cache behind them: a chunk of one token."""
        outputs, cache = self._chunk(self._checked(x[:, None], cache, 1), cache)
        return outputs[:, 0], cache

    def branch(self, context: Tensor, queries: Tensor, after: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Outputs of ``context (B, L, M)`` and ``queries (B, Q, M)``; query q follows ``after[q]`` context tokens."""
        return self.chunk_with_branches(context, queries, after)[:2]

    def chunk_with_branches(
        self, x: Tensor, queries: Tensor, after: Sequence[int], cache: Cache | None = None
    ) -> tuple[Tensor, Tensor, Cache]:
        """A chunk, and branches on the way, in one pass over the chunk.

        Args:
            x, cache: as for `chunk`.
            queries: ``(B, Q, M)``.
            after: tokens of the chunk that each query follows, from 0 to L.

        Returns:
            Outputs ``(B, L, M)``, answers ``(B, Q, M)``, and the cache behind the chunk, which no query has touched.
        """
        x, queries = self._checked(x, cache, 0), self._checked(queries, None, 0)
        check_after(after, queries, x)
        if queries.shape[1] == 0:
            outputs, cache = self.chunk(x, cache)
            return outputs, queries, cache
        return self._chunk_with_branches(x, queries, after, cache)

    def _checked(self, x: Tensor, cache: Cache | None, least: int) -> Tensor:
        check_tokens(x, self.width, least)
        if cache is not None:
            check_cache(x, cache, self.cache_entries())
        return at_least(x, self._weight())

    def _weight(self) -> Tensor:
        return self.last_norm().weight  # type: ignore[return-value]


def of_layers(cache: Cache | None) -> Iterator[tuple[Tensor, ...] | None]:
    """What each layer finds before a chunk."""
    return repeat(None) if cache is None else iter(cache)
