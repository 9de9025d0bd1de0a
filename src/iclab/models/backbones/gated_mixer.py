"""What Mamba's mixer and its ablations share: projections, a short convolution, a skip, an output gate.

    x, z = W_in token;  u = a(conv(x));  y = mix(u, W_x u) + D u;  out = W_out (y silu(z))

with ``a`` silu unless the settings say otherwise.
Parameter names are those of transformers' ``MambaMixer``. Everything is ``(B, L, channels)``, so nothing is transposed.
Shapes: L tokens, M width, D channels, K tokens that the convolution sees, P positions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from iclab.models.backbones.activations import ACTIVATIONS
from iclab.models.backbones.residual import Mixer
from iclab.models.cache import Entry
from iclab.ops import causal_conv

State = tuple[Tensor, ...]


class GatedMixer(Mixer):
    """A mixer whose memory is `mix`. The cache is the last K - 1 inputs ``(B, K-1, D)`` of the convolution and a state.

    Args:
        width: M.
        depth: layers of the stack; ``out_proj`` starts divided by ``sqrt(depth)``, as published for Mamba.
        channels: D.
        conv_width: K.
        features: numbers that ``x_proj`` makes of each token for `mix`.
        scan_backend: as for `iclab.ops.selective_scan`.
        bias: of ``in_proj`` and ``out_proj``.
        conv_bias: of the convolution.
        activation: ``a``, one of `iclab.models.backbones.activations`.
        residual_in_fp32: outputs are float32 at least, and so is the residual stream that they are added to.
    """

    def __init__(
        self,
        width: int,
        depth: int,
        channels: int,
        conv_width: int,
        features: int,
        scan_backend: str = "auto",
        *,
        bias: bool = False,
        conv_bias: bool = True,
        activation: str = "silu",
        residual_in_fp32: bool = False,
    ) -> None:
        super().__init__()
        self.scan_backend, self.activation, self.residual_in_fp32 = scan_backend, activation, residual_in_fp32
        self.in_proj = nn.Linear(width, 2 * channels, bias=bias)
        self.conv1d = nn.Conv1d(channels, channels, conv_width, groups=channels, bias=conv_bias)
        self.x_proj = nn.Linear(channels, features, bias=False)
        self.D = nn.Parameter(torch.ones(channels))
        self.out_proj = nn.Linear(channels, width, bias=bias)
        with torch.no_grad():
            for layer in (self.in_proj, self.conv1d, self.out_proj):
                if layer.bias is not None:
                    layer.bias.zero_()
            self.out_proj.weight.div_(math.sqrt(depth))

    @abstractmethod
    def mix(self, u: Tensor, gate: Tensor, state: State | None, positions: Sequence[int]) -> tuple[Tensor, State]:
        """Tokens ``u (B, L, D)`` behind ``state`` -> ``(y + D u) silu(gate)`` and states ``(B, P, ...)``.

        The states are those behind the first ``positions[p]`` tokens for each p; positions rise.
        """

    @abstractmethod
    def state_entries(self) -> tuple[Entry, ...]:
        """What the state ``(B, ...)`` holds, zeros before any token."""

    def forward(self, x: Tensor) -> Tensor:
        """``(B, L, M) -> (B, L, M)``."""
        stream, gate = self._project(x)
        u = self._convolve(stream)
        return self._project_out(self.mix(u, gate, None, ())[0])

    def cache_entries(self) -> tuple[Entry, ...]:
        """The convolution's last inputs, in the dtype of the weights under autocast too, and the state."""
        return Entry((self.conv1d.kernel_size[0] - 1, self.D.shape[0]), self.D.dtype), *self.state_entries()

    def extend(self, x: Tensor, cache: tuple[Tensor, ...] | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The next tokens ``(B, T, M)`` -> outputs, and the cache behind the last of them."""
        window, state = _parts(cache)
        stream, gate = self._project(x)
        u, window = causal_conv(
            stream,
            *self._filter(),
            activation=self._fused(),
            initial_state=window,
            return_last_state=True,
            backend=self.scan_backend,
        )
        y, states = self.mix(self._activate(u), gate, state, [x.shape[1]])
        return self._project_out(y), (window.to(self.D.dtype), *(after[:, 0] for after in states))

    def trace(
        self, x: Tensor, positions: Sequence[int], cache: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The same; the caches ``(B, P, ...)`` behind the first ``positions[p]`` of these tokens, rising."""
        window, state = _parts(cache)
        stream, gate = self._project(x)
        before = self.conv1d.kernel_size[0] - 1
        padded = F.pad(stream, (0, 0, before, 0)) if window is None else torch.cat([window, stream], 1)
        tokens = torch.tensor(positions, device=x.device)[:, None] + torch.arange(before, device=x.device)
        windows = padded.index_select(1, tokens.flatten()).unflatten(1, tokens.shape)
        u = self._convolve(stream, window)
        y, states = self.mix(u, gate, state, positions)
        return self._project_out(y), (windows.to(self.D.dtype), *states)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` and ``z``, each contiguous ``(B, L, D)``: two products, not the halves of one."""
        weight, bias = self.in_proj.weight, self.in_proj.bias
        x = x.to(weight.dtype)
        stream, gate = zip(weight.chunk(2), (None, None) if bias is None else bias.chunk(2), strict=True)
        return F.linear(x, *stream), F.linear(x, *gate)

    def _project_out(self, y: Tensor) -> Tensor:
        output = self.out_proj(y)
        return output.to(torch.promote_types(output.dtype, torch.float32)) if self.residual_in_fp32 else output

    def _convolve(self, stream: Tensor, window: Tensor | None = None) -> Tensor:
        convolved = causal_conv(
            stream, *self._filter(), activation=self._fused(), initial_state=window, backend=self.scan_backend
        )
        return self._activate(cast(Tensor, convolved))

    def _fused(self) -> str | None:
        """The activation that the convolution computes itself."""
        return "silu" if self.activation in ("silu", "swish") else None

    def _activate(self, u: Tensor) -> Tensor:
        return u if self._fused() else ACTIVATIONS[self.activation](u)

    def _filter(self) -> tuple[Tensor, Tensor | None]:
        return self.conv1d.weight.squeeze(1), self.conv1d.bias


def _parts(cache: tuple[Tensor, ...] | None) -> tuple[Tensor | None, State | None]:
    """The last inputs of the convolution and the state."""
    return (None, None) if cache is None else (cache[0], cache[1:])
