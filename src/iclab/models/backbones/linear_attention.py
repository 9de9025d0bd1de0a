"""Mamba's layers with causal linear attention in place of the selective scan: what is left without any gate on memory.

    y_t = (1/t) sum_{s<=t} <C_t, B_s> u_s + D u_t

is the state space layer with decay 1 and input gain 1, and the mean over tokens for the sum (as the one-layer theory,
arXiv 2510.12026, divides by N), so that the scale does not grow with the prompt. Convolution, projections and output
gate are Mamba's. Shapes: L tokens, M width, D channels, S state.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from iclab.errors import check_integer, check_positive
from iclab.models.backbones.backbone import check_size
from iclab.models.backbones.gated_mixer import GatedMixer, State
from iclab.models.backbones.residual import ResidualStack
from iclab.models.cache import Entry


class LinearAttention(ResidualStack):
    """A stack of linear attention layers, ``(B, L, width) -> (B, L, width)``, causal, any length.

    Args as for `iclab.models.Mamba`; ``state_size`` S is the size of keys and queries, so that the state ``(D, S)`` is
    as large as Mamba's.

    Raises:
        InputError: for sizes out of range, and weights beyond this machine's memory.
    """

    def __init__(
        self,
        width: int,
        depth: int,
        *,
        state_size: int = 16,
        expand: int = 2,
        conv_width: int = 4,
        norm_eps: float = 1e-5,
    ) -> None:
        for label, value in (("state_size", state_size), ("expand", expand), ("conv_width", conv_width)):
            check_integer(label, value, 1, 65536)
        width, depth = check_integer("width", width, 1), check_integer("depth", depth, 1, 1000)
        channels = float(expand * width)
        check_size("linear attention", width, depth, depth * channels * (3 * width + 2 * state_size + conv_width))
        super().__init__(
            [LinearAttentionMixer(width, depth, state_size, expand, conv_width) for _ in range(depth)],
            width,
            check_positive("norm_eps", norm_eps),
        )
        self._settings = {
            "width": width,
            "depth": depth,
            "state_size": state_size,
            "expand": expand,
            "conv_width": conv_width,
            "norm_eps": norm_eps,
        }

    @property
    def name(self) -> str:
        """As legends show it."""
        return "linear attention ({depth} layers, width {width}, state {state_size})".format(**self._settings)

    def settings(self) -> dict[str, object]:
        """Return the constructor's arguments, for saving."""
        return dict(self._settings)


class LinearAttentionMixer(GatedMixer):
    """One layer's mixer. The state: ``sum_s u_s B_s' (B, D, S)`` and the number of tokens ``(B, 1)``.

    Both are float32 at least: in bfloat16 a sum stops to grow at 256 tokens.
    """

    def __init__(self, width: int, depth: int, state_size: int, expand: int, conv_width: int) -> None:
        super().__init__(width, depth, expand * width, conv_width, 2 * state_size)

    def state_entries(self) -> tuple[Entry, ...]:
        """``(B, D, S)`` and ``(B, 1)``."""
        return Entry((self.D.shape[0], self.x_proj.out_features // 2), self._kept()), Entry((1,), self._kept())

    def mix(self, u: Tensor, gate: Tensor, state: State | None, positions: Sequence[int]) -> tuple[Tensor, State]:
        """Masked products among the tokens, O(L^2), and one product with the state before them."""
        keys, queries = self.x_proj(u).chunk(2, -1)
        total = (queries @ keys.transpose(1, 2)).tril() @ u
        seen = torch.arange(1, u.shape[1] + 1, device=u.device, dtype=self._kept())[:, None]
        if state is not None:
            total = total + queries.to(self._kept()) @ state[0].transpose(1, 2)
            seen = seen + state[1][:, :, None]
        y = (total / seen + self.D * u) * F.silu(gate)
        return y.to(self.D.dtype), self._states(u, keys, state, positions)

    def _kept(self) -> torch.dtype:
        """The dtype of the state."""
        return torch.promote_types(self.D.dtype, torch.float32)

    def _states(self, u: Tensor, keys: Tensor, state: State | None, positions: Sequence[int]) -> State:
        if not positions:
            return ()
        if state is None:
            state = tuple(entry.empty(len(u), u.device) for entry in self.state_entries())
        memory, count = state
        sizes = [after - before for before, after in zip([0, *positions], positions, strict=False)]
        pieces = (tensor[:, : positions[-1]].to(memory.dtype).split(sizes, 1) for tensor in (u, keys))
        memories = []
        for values, names in zip(*pieces, strict=True):
            memory = memory + values.transpose(1, 2) @ names
            memories.append(memory)
        counts = count[:, None] + torch.tensor(positions, device=u.device, dtype=count.dtype)[:, None]
        return torch.stack(memories, 1), counts
