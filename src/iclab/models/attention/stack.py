"""Several layers of attention on tokens ``(x, y)``: the deep counterpart of the models of arXiv 2510.00399.

    h_t <- h_t + W_V sum_{i<t} G_ti h_i (h_i' W_B' W_C h_t)          F = last coordinate of h_q after the last layer

(softmax attention has its weights in the place of ``G_ti h_i' W_B' W_C h_t``). The paper does not print its wiring.
This is the plainest one whose single layer is the one-layer model: a residual stream of whole tokens, each reading
those before it and not itself, with no norm, no bias and no feed-forward part. ``W_V`` starts by copying labels alone.
Shapes: B prompts, N examples, Q queries, R readers, d ambient, D = d + 1 size of a token, m size of the state.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from iclab.errors import InputError, check_integer, check_positive
from iclab.models.attention.attention import Attention
from iclab.models.attention.mixers import KINDS, MIXERS, GatedTokenMixer, TokenMixer
from iclab.models.attention.one_layer import check_dtype, check_sizes, fill_gate
from iclab.models.attention.token_model import TokenModel
from iclab.models.cache import Cache, Entries
from iclab.prompts import Stream

_TOKENS = slice(None)  # every coordinate of a token is summed
STARTS = {"gated": 0.2, "linear": 0.05, "softmax": 0.2}
NAMES = {"gated": "Mamba (gated linear attention)", "linear": "linear Transformer", "softmax": "softmax attention"}


class StackLayer(nn.Module):
    """One layer: a mixer and the map ``W_V`` of what it has read."""

    def __init__(self, mixer: TokenMixer, size: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.mixer = mixer
        value = torch.zeros(size, size, dtype=dtype)
        value[-1, -1] = 1
        self.W_V = nn.Parameter(value)


class AttentionStack(TokenModel):
    """A residual stack of gated linear (Mamba), linear or softmax attention on tokens ``(x, y)``.

    Args:
        ambient_dim: d.
        mixer: ``gated``, ``linear`` or ``softmax``.
        depth: number of layers.
        start: the first d diagonal entries of every ``W_B`` and ``W_C`` at the start. ``None`` is 0.2, the paper's,
            for ``gated`` and ``softmax``, and 0.05 for ``linear``, whose sums over the examples multiply labels by
            about ``1 + N start^2 |x|^2 / 2`` in every layer: at 0.2 the first gradients make plain SGD diverge.
        state_size: m; ``None`` is d + 1.
        stream: of the gates' ``w``, each layer's drawn from ``N(0, I/(d + 1))``.
        dtype: of the parameters and of all computation.

    Raises:
        InputError: for an unknown mixer, and sizes out of range; for prompts of another dimension; when predicting, for
            numbers that are not finite.
    """

    def __init__(
        self,
        ambient_dim: int,
        mixer: str = "gated",
        depth: int = 3,
        *,
        start: float | None = None,
        state_size: int | None = None,
        stream: Stream = Stream(0),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.depth = check_integer("depth", depth, 1, 1000)
        self.ambient_dim, self.state_size = check_sizes(ambient_dim, state_size, self.depth)
        if mixer not in MIXERS:
            raise InputError(f"the mixer is {mixer!r}; expected one of {', '.join(MIXERS)}")
        self.mixer = mixer
        self.start = STARTS[mixer] if start is None else check_positive("start", start)
        size = self.ambient_dim + 1
        mixers = [
            KINDS[mixer](size, self.state_size, self.start, self.ambient_dim, check_dtype(dtype))
            for _ in range(self.depth)
        ]
        for number, part in enumerate(mixers):
            if isinstance(part, GatedTokenMixer):
                fill_gate(part, None, stream.child(f"layer {number}"))
        self.layers = nn.ModuleList(StackLayer(part, size, dtype) for part in mixers)

    @property
    def name(self) -> str:
        """As legends show it."""
        return f"{NAMES[self.mixer]}, {self.depth} layer{'s' if self.depth > 1 else ''}"

    def settings(self) -> dict[str, object]:
        """Return the constructor's arguments, for saving."""
        return {
            "ambient_dim": self.ambient_dim,
            "mixer": self.mixer,
            "depth": self.depth,
            "start": self.start,
            "state_size": self.state_size,
        }

    def read(self, context: Tensor, queries: Tensor, after: Tensor | None) -> tuple[Tensor, Attention]:
        """Pass once over the context with the queries behind it; the last layer reads for the queries alone.

        Args:
            context, queries, after: as in `TokenModel.read`.

        Returns:
            As `TokenModel.read`.
        """
        length = context.shape[1]
        stream = torch.cat([context, queries], 1)
        behind = torch.full(queries.shape[1:2], length, device=context.device) if after is None else after
        order = torch.cat([torch.arange(length, device=context.device), behind])
        seen: list[Attention] = []
        for layer in self._layers()[:-1]:
            attention = layer.mixer.attend(stream[:, :length], stream, order)
            stream = stream + (attention.weights[0] @ stream[:, :length]) @ layer.W_V.T
            seen.append(attention.queries(length))
        last, queries = self._layers()[-1], stream[:, length:]
        attention = last.mixer.attend(stream[:, :length], queries, after)
        read = (attention.weights[0] @ stream[:, :length]) @ last.W_V[-1]
        return queries[..., -1] + read, Attention.stack([*seen, attention])

    def cache_entries(self) -> Entries:
        """Describe what `chunk` carries for each layer, as `TokenModel.cache_entries`."""
        return [(layer.mixer.cache_entry(_TOKENS),) for layer in self._layers()]

    def read_chunk(self, context: Tensor, readers: Tensor, after: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Pass over a chunk as `read` does, with its tokens reading those of earlier chunks too.

        Args:
            context, readers, after, cache: as in `TokenModel.read_chunk`.

        Returns:
            As `TokenModel.read_chunk`.
        """
        length = context.shape[1]
        stream = torch.cat([context, readers], 1)
        positions = torch.cat([torch.arange(length, device=context.device), after])
        behind = []
        for layer, (before,) in zip(self._layers(), cache, strict=True):
            read, state = layer.mixer.read_chunk(stream[:, :length], _TOKENS, stream, positions, before)
            stream = stream + read @ layer.W_V.T
            behind.append((state,))
        return stream[:, length:, -1], tuple(behind)

    def _layers(self) -> Sequence[StackLayer]:
        return list(self.layers)  # type: ignore[arg-type]

    def _readers(self, num_examples: int, asked: int) -> int:
        return num_examples + asked
