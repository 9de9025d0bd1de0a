"""A stack of mixers on a residual stream: ``x + mixer(norm x)`` for each layer, a last norm on top.

Mamba and its ablations differ in the mixer alone. Names are those of transformers' ``MambaModel``: ``layers.i.norm``,
``layers.i.mixer`` and ``norm_f``. Shapes: B prompts, L tokens, Q branches, M width.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from iclab.models.backbones.backbone import at_least, check_tokens
from iclab.models.backbones.chunked import ChunkedBackbone, of_layers
from iclab.models.cache import Cache, Entries, Entry
from iclab.ops.norm.rms_norm import rms_norm


class Mixer(nn.Module, ABC):
    """What mixes tokens. ``forward`` is ``(B, L, M) -> (B, L, M)``, causal; tensors of a cache have B first."""

    @abstractmethod
    def cache_entries(self) -> tuple[Entry, ...]:
        """What it carries from token to token."""

    @abstractmethod
    def extend(self, x: Tensor, cache: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The next tokens ``(B, T, M)`` -> outputs, and the cache behind the last of them; ``None`` is that of none."""

    @abstractmethod
    def trace(
        self, x: Tensor, positions: Sequence[int], cache: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The same, and the caches ``(B, P, ...)`` behind the first ``positions[p]`` of these tokens; they rise."""


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


class ResidualStack(ChunkedBackbone):
    """Layers of given mixers, fed whole, in chunks, or with branches."""

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

    def cache_entries(self) -> Entries:
        """For each layer what its mixer carries."""
        return [layer.mixer.cache_entries() for layer in self._layers()]

    def last_norm(self) -> nn.Module:
        """``norm_f``."""
        return self.norm_f

    def _chunk(self, x: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        behind = []
        for layer, before in zip(self._layers(), of_layers(cache), strict=False):
            mixed, after = layer.mixer.extend(layer.norm(x), before)
            x = x + mixed
            behind.append(after)
        return self.norm_f(x), tuple(behind)

    def _chunk_with_branches(
        self, x: Tensor, queries: Tensor, after: Sequence[int], cache: Cache | None
    ) -> tuple[Tensor, Tensor, Cache]:
        """One pass over the chunk, then one token for each query from the caches on the way."""
        positions = sorted({*after, x.shape[1]})
        chosen = torch.tensor([positions.index(position) for position in after], device=x.device)
        if x.shape[1] == 0 and cache is None:
            cache = self.initial_cache(len(x))
        behind = []
        for layer, before in zip(self._layers(), of_layers(cache), strict=False):
            if x.shape[1] or before is None:
                mixed, caches = layer.mixer.trace(layer.norm(x), positions, before)
                x = x + mixed
            else:
                caches = tuple(tensor[:, None] for tensor in before)
            behind.append(tuple(tensor[:, -1].clone() for tensor in caches))
            if list(after) != positions:
                caches = tuple(tensor.index_select(1, chosen) for tensor in caches)
            rows = tuple(tensor.flatten(0, 1) for tensor in caches)
            answered, _ = layer.mixer.extend(layer.norm(queries).flatten(0, 1)[:, None], rows)
            queries = queries + answered.reshape(queries.shape)
        return self.norm_f(x), self.norm_f(queries), tuple(behind)

    def _layers(self) -> Iterator[Layer]:
        return iter(self.layers)  # type: ignore[return-value]
