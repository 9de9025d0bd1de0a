"""A stack of mixers on a residual stream: ``x + mixer(norm x)`` for each layer, a last norm on top.

Mamba and its ablations differ in the mixer alone. Names are those of transformers' ``MambaModel``: ``layers.i.norm``,
``layers.i.mixer`` and ``norm_f``. Shapes: B prompts, L tokens, Q branches, M width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from iclab.models.backbone import Cache, at_least, check_cache, check_tokens
from iclab.scan.norm import rms_norm


class Mixer(nn.Module, ABC):
    """What mixes tokens. ``forward`` is ``(B, L, M) -> (B, L, M)``, causal; tensors of a cache have B first."""

    @abstractmethod
    def initial_cache(self, batch: int) -> tuple[Tensor, ...]:
        """The cache of ``batch`` empty sequences."""

    @abstractmethod
    def extend(self, x: Tensor, cache: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The next tokens ``(B, T, M)`` -> outputs, and the cache behind the last of them."""

    @abstractmethod
    def trace(self, x: Tensor, places: Sequence[int]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Outputs of a whole sequence, and its caches ``(B, P, ...)`` behind the first ``places[p]`` tokens, each p."""


class RMSNorm(nn.Module):
    """``weight * x / sqrt(mean(x^2) + eps)`` over the last dimension (arXiv 1910.07467)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Any shape whose last dimension is the width. The result has the wider dtype of ``x`` and the weight."""
        return rms_norm(x, self.weight.to(torch.promote_types(x.dtype, self.weight.dtype)), self.eps)


class Layer(nn.Module):
    """``x + mixer(norm x)``."""

    def __init__(self, mixer: Mixer, width: int, norm_eps: float) -> None:
        super().__init__()
        self.norm = RMSNorm(width, norm_eps)
        self.mixer = mixer

    def forward(self, x: Tensor) -> Tensor:
        """``(B, L, M) -> (B, L, M)``."""
        return x + self.mixer(self.norm(x))


class ResidualStack(nn.Module):
    """Layers of given mixers, fed whole, token by token, or with branches."""

    def __init__(self, mixers: Sequence[Mixer], width: int, norm_eps: float) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(Layer(mixer, width, norm_eps) for mixer in mixers)
        self.norm_f = RMSNorm(width, norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, L, M) -> (B, L, M)``; output t depends on tokens up to t. Any L >= 1."""
        check_tokens(x, self.width)
        x = at_least(x, self.norm_f.weight)
        for layer in self._layers():
            x = layer(x)
        return self.norm_f(x)

    def initial_cache(self, batch: int) -> Cache:
        """The cache of ``batch`` empty sequences, for each layer what its mixer carries."""
        return tuple(layer.mixer.initial_cache(batch) for layer in self._layers())

    def step(self, x: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """The next tokens ``(B, M)`` -> outputs ``(B, M)`` and the cache behind them. No cache changes in place."""
        check_tokens(x[:, None], self.width)
        check_cache(x, cache, len(self.layers))
        x = at_least(x[:, None], self.norm_f.weight)
        behind = []
        for layer, before in zip(self._layers(), cache, strict=True):
            mixed, after = layer.mixer.extend(layer.norm(x), before)
            x = x + mixed
            behind.append(after)
        return self.norm_f(x)[:, 0], tuple(behind)

    def branch(self, context: Tensor, queries: Tensor, after: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Outputs of ``context (B, L, M)`` and of ``queries (B, Q, M)``; query q follows ``after[q]`` context tokens.

        One pass over the context, then one token for each query from the caches on the way.
        """
        check_tokens(context, self.width)
        check_tokens(queries, self.width)
        context, queries = (at_least(x, self.norm_f.weight) for x in (context, queries))
        places = sorted(set(after))
        chosen = torch.tensor([places.index(place) for place in after], device=context.device)
        for layer in self._layers():
            mixed, caches = layer.mixer.trace(layer.norm(context), places)
            if list(after) != places:
                caches = tuple(tensor.index_select(1, chosen) for tensor in caches)
            rows = tuple(tensor.flatten(0, 1) for tensor in caches)
            answered, _ = layer.mixer.extend(layer.norm(queries).flatten(0, 1)[:, None], rows)
            context = context + mixed
            queries = queries + answered.reshape(queries.shape)
        return self.norm_f(context), self.norm_f(queries)

    def _layers(self) -> Iterator[Layer]:
        return iter(self.layers)  # type: ignore[return-value]
