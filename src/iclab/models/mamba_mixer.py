"""The Mamba mixer (arXiv 2312.00752, section 3.4): a gated selective state space layer behind a short convolution.

    (r, B, C) = W_x u;  delta = softplus(W_dt r + b_dt)
    h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t;  y_t = C_t h_t

The rest is in `iclab.models.gated_mixer`. Shapes: L tokens, D channels, S state, R rank of the time step, P places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from iclab.errors import InputError, check_integer, check_positive
from iclab.models.gated_mixer import GatedMixer, State
from iclab.scan import selective_scan

# exp of it is just above the smallest normal number; further down it comes to 0, which is no rate of a scan.
_LOWEST_LOG = {torch.float32: -87.0, torch.float64: -708.0}
SELECTIVITIES = ("full", "constant_delta")


@dataclass(frozen=True)
class MixerSettings:
    """Sizes and initial time steps of a mixer, as `Mamba` explains them.

    Raises:
        InputError: for sizes that are no positive integers, and time steps that are not ``0 < dt_min <= dt_max``.
    """

    state_size: int
    expand: int
    conv_width: int
    dt_rank: int
    dt_min: float
    dt_max: float
    dt_floor: float
    selectivity: str

    def __post_init__(self) -> None:
        for name in ("state_size", "expand", "conv_width", "dt_rank"):
            check_integer(name, getattr(self, name), 1, 65536)
        for name in ("dt_min", "dt_max", "dt_floor"):
            check_positive(name, getattr(self, name))
        if self.dt_min > self.dt_max:
            raise InputError(f"dt_min is {self.dt_min:g} and dt_max {self.dt_max:g}; expected dt_min <= dt_max")
        if self.selectivity not in SELECTIVITIES:
            raise InputError(f"the selectivity is {self.selectivity!r}; expected one of {', '.join(SELECTIVITIES)}")

    def asdict(self) -> dict[str, object]:
        """Every field by its name."""
        return asdict(self)


class Constant(nn.Module):
    """A projection of which the bias alone is left."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs))


class MambaMixer(GatedMixer):
    """See the head of this file. With ``constant_delta`` the time step is ``softplus(b_dt)``, the same at every token.

    The state ``(B, D, S)`` is float32, or float64 in a float64 model.
    """

    no_decay = ("A_log",)

    def __init__(self, width: int, depth: int, settings: MixerSettings, scan_backend: str) -> None:
        state, rank = settings.state_size, settings.dt_rank
        selective = settings.selectivity == "full"
        sizes = [rank, state, state] if selective else [state, state]
        super().__init__(width, depth, settings.expand, settings.conv_width, sum(sizes), scan_backend)
        self.sizes = sizes
        channels = settings.expand * width
        self.dt_proj = nn.Linear(rank, channels) if selective else Constant(channels)
        self.A_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(channels, 1))
        self._draw_time_steps(settings)

    @torch.no_grad()
    def _draw_time_steps(self, settings: MixerSettings) -> None:
        if isinstance(self.dt_proj, nn.Linear):
            bound = settings.dt_rank**-0.5
            self.dt_proj.weight.uniform_(-bound, bound)
        low, high = math.log(settings.dt_min), math.log(settings.dt_max)
        delta = torch.empty_like(self.dt_proj.bias).uniform_(low, high).exp_().clamp_(min=settings.dt_floor)
        self.dt_proj.bias.copy_(delta + torch.log(-torch.expm1(-delta)))  # the inverse of softplus

    def initial_state(self, batch: int) -> State:
        """Zeros ``(B, D, S)``."""
        return (self.A_log.new_zeros(batch, *self.A_log.shape, dtype=self._kept()),)

    def mix(self, u: Tensor, gate: Tensor, state: State | None, places: Sequence[int]) -> tuple[Tensor, State]:
        """The scan, in float32 also under autocast; softplus, skip and gate are part of its one pass.

        A state behind the last token costs nothing; elsewhere the states of all tokens are kept, B L D S numbers.
        """
        *ranks, B, C = self.x_proj(u).split(self.sizes, -1)
        if isinstance(self.dt_proj, nn.Linear):
            delta, bias = F.linear(ranks[0], self.dt_proj.weight), self.dt_proj.bias
        else:
            delta, bias = F.softplus(self.dt_proj.bias).expand_as(u), None
        at_end = list(places) == [u.shape[1]]
        result = selective_scan(
            u,
            delta,
            self._rates(),
            B,
            C,
            self.D,
            delta_bias=bias,
            delta_softplus=bias is not None,
            z=gate,
            initial_state=None if state is None else state[0],
            return_last_state=at_end,
            return_states=len(places) > 0 and not at_end,
            backend=self.scan_backend,
        )
        if isinstance(result, Tensor):
            return result, ()
        y, states = result
        if at_end:
            return y, (states[:, None],)
        before = torch.zeros_like(states[:, 0]) if state is None else state[0]
        chosen = torch.tensor(places, device=u.device)
        return y, (torch.cat([before[:, None], states], 1).index_select(1, chosen),)

    def _rates(self) -> Tensor:
        """``A = -exp(A_log) (D, S)``, which stays below 0 also where a training has diverged."""
        kept = self._kept()
        return -torch.exp(self.A_log.to(kept).clamp(min=_LOWEST_LOG[kept]))

    def _kept(self) -> torch.dtype:
        """The dtype of the state."""
        return torch.promote_types(self.A_log.dtype, torch.float32)
