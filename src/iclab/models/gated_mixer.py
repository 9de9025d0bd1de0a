"""What Mamba's mixer and its ablations share: projections, a short convolution, a skip, an output gate.

    x, z = W_in token;  u = silu(conv(x));  y = mix(u, W_x u) + D u;  out = W_out (y silu(z))

Parameter names are those of transformers' ``MambaMixer``. Everything is ``(B, L, channels)``, so nothing is transposed.
Shapes: L tokens, M width, D channels, K tokens that the convolution sees, P places.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from iclab.models.residual import Mixer
from iclab.scan import causal_conv

State = tuple[Tensor, ...]


class GatedMixer(Mixer):
    """A mixer whose memory is `mix`. The cache is the last K - 1 inputs ``(B, K-1, D)`` of the convolution and a state.

    Args:
        width: M.
        depth: layers of the stack; ``out_proj`` starts divided by ``sqrt(depth)``, as published for Mamba.
        expand: D/M.
        conv_width: K.
        features: numbers that ``x_proj`` makes of each token for `mix`.
        scan_backend: as for `iclab.scan.selective_scan`.
    """

    def __init__(
        self, width: int, depth: int, expand: int, conv_width: int, features: int, scan_backend: str = "auto"
    ) -> None:
        super().__init__()
        channels = expand * width
        self.scan_backend = scan_backend
        self.in_proj = nn.Linear(width, 2 * channels, bias=False)
        self.conv1d = nn.Conv1d(channels, channels, conv_width, groups=channels)
        self.x_proj = nn.Linear(channels, features, bias=False)
        self.D = nn.Parameter(torch.ones(channels))
        self.out_proj = nn.Linear(channels, width, bias=False)
        with torch.no_grad():
            if self.conv1d.bias is not None:
                self.conv1d.bias.zero_()
            self.out_proj.weight.div_(math.sqrt(depth))

    @abstractmethod
    def mix(self, u: Tensor, gate: Tensor, state: State | None, places: Sequence[int]) -> tuple[Tensor, State]:
        """Tokens ``u (B, L, D)`` behind ``state`` -> ``(y + D u) silu(gate)`` and states ``(B, P, ...)``.

        The states are those behind the first ``places[p]`` tokens for each p; places rise.
        """

    @abstractmethod
    def initial_state(self, batch: int) -> State:
        """The state before any token, ``(B, ...)``."""

    def forward(self, x: Tensor) -> Tensor:
        """``(B, L, M) -> (B, L, M)``."""
        stream, gate = self._project(x)
        u = self._convolve(stream)
        return self.out_proj(self.mix(u, gate, None, ())[0])

    def initial_cache(self, batch: int) -> tuple[Tensor, ...]:
        """Zeros: nothing was seen."""
        window = self.D.new_zeros(batch, self.conv1d.kernel_size[0] - 1, self.D.shape[0])
        return window, *self.initial_state(batch)

    def extend(self, x: Tensor, cache: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The next tokens ``(B, T, M)`` -> outputs, and the cache behind the last of them."""
        window, *state = cache
        stream, gate = self._project(x)
        u, window = causal_conv(
            stream, *self._filter(), initial_state=window, return_last_state=True, backend=self.scan_backend
        )
        y, states = self.mix(u, gate, tuple(state), [x.shape[1]])
        return self.out_proj(y), (window, *(after[:, 0] for after in states))

    def trace(self, x: Tensor, places: Sequence[int]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Outputs of a whole sequence; its caches ``(B, P, ...)`` behind the first ``places[p]`` tokens, rising."""
        stream, gate = self._project(x)
        before = self.conv1d.kernel_size[0] - 1
        padded = F.pad(stream, (0, 0, before, 0))
        tokens = torch.tensor(places, device=x.device)[:, None] + torch.arange(before, device=x.device)
        windows = padded.index_select(1, tokens.flatten()).unflatten(1, tokens.shape)
        u = self._convolve(stream)
        y, states = self.mix(u, gate, None, places)
        return self.out_proj(y), (windows, *states)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` and ``z``, each contiguous ``(B, L, D)``: two products, not the halves of one."""
        stream, gate = self.in_proj.weight.chunk(2)
        return F.linear(x, stream), F.linear(x, gate)

    def _convolve(self, stream: Tensor) -> Tensor:
        return cast(Tensor, causal_conv(stream, *self._filter(), backend=self.scan_backend))

    def _filter(self) -> tuple[Tensor, Tensor | None]:
        return self.conv1d.weight.squeeze(1), self.conv1d.bias
