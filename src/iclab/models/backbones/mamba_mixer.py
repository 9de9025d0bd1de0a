"""The Mamba mixer (arXiv 2312.00752, section 3.4): a gated selective state space layer behind a short convolution.

    (r, B, C) = W_x u;  delta = softplus(W_dt r + b_dt)
    h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t;  y_t = C_t h_t

FalconMamba (arXiv 2410.05355) divides r, B and C by their root mean squares first. The rest is in
`iclab.models.backbones.gated_mixer`. Shapes: L tokens, D channels, S state, R rank of the time step, P positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from iclab.errors import InputError, check_flag, check_integer, check_positive
from iclab.models.backbones.activations import check_activation
from iclab.models.backbones.gated_mixer import GatedMixer, State
from iclab.models.cache import Entry
from iclab.ops import selective_scan

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
    channels: int | None = None
    bias: bool = False
    conv_bias: bool = True
    activation: str = "silu"
    mixer_norm_eps: float | None = None
    residual_in_fp32: bool = False

    def __post_init__(self) -> None:
        for name in ("state_size", "expand", "conv_width", "dt_rank"):
            check_integer(name, getattr(self, name), 1, 65536)
        if self.channels is not None:
            check_integer("channels", self.channels, 1)
        for name in ("bias", "conv_bias", "residual_in_fp32"):
            check_flag(name, getattr(self, name))
        check_activation(self.activation)
        if self.mixer_norm_eps is not None:
            check_positive("mixer_norm_eps", self.mixer_norm_eps)
        for name in ("dt_min", "dt_max", "dt_floor"):
            check_positive(name, getattr(self, name))
        if self.dt_min > self.dt_max:
            raise InputError(f"dt_min is {self.dt_min:g} and dt_max {self.dt_max:g}; expected dt_min <= dt_max")
        if self.selectivity not in SELECTIVITIES:
            raise InputError(f"the selectivity is {self.selectivity!r}; expected one of {', '.join(SELECTIVITIES)}")

    def asdict(self) -> dict[str, object]:
        """Sizes, time steps and selectivity, and the options that are not at their defaults: a description from before
        there was an option equals one that leaves it alone."""
        defaults = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != defaults[name]}

    def num_channels(self, width: int) -> int:
        """D in a model of ``width``."""
        return self.expand * width if self.channels is None else self.channels


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
        channels = settings.num_channels(width)
        super().__init__(
            width,
            depth,
            channels,
            settings.conv_width,
            sum(sizes),
            scan_backend,
            bias=settings.bias,
            conv_bias=settings.conv_bias,
            activation=settings.activation,
            residual_in_fp32=settings.residual_in_fp32,
        )
        self.sizes, self.norm_eps = sizes, settings.mixer_norm_eps
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

    def state_entries(self) -> tuple[Entry, ...]:
        """``(B, D, S)``."""
        return (Entry(tuple(self.A_log.shape), self._kept()),)

    def mix(self, u: Tensor, gate: Tensor, state: State | None, positions: Sequence[int]) -> tuple[Tensor, State]:
        """The scan, in float32 also under autocast; softplus, skip and gate are part of its one pass.

        A state behind the last token costs nothing; elsewhere the states of all tokens are kept, B L D S numbers.
        """
        parts: Iterable[Tensor] = self.x_proj(u).split(self.sizes, -1)
        if self.norm_eps is not None:
            parts = (F.rms_norm(part, part.shape[-1:], eps=self.norm_eps) for part in parts)
        *ranks, B, C = parts
        if isinstance(self.dt_proj, nn.Linear):
            delta, bias = F.linear(ranks[0], self.dt_proj.weight), self.dt_proj.bias
        else:
            delta, bias = F.softplus(self.dt_proj.bias).expand_as(u), None
        at_end = list(positions) == [u.shape[1]]
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
            return_states=len(positions) > 0 and not at_end,
            backend=self.scan_backend,
        )
        if isinstance(result, Tensor):
            return result, ()
        y, states = result
        if at_end:
            return y, (states[:, None],)
        before = torch.zeros_like(states[:, 0]) if state is None else state[0]
        chosen = torch.tensor(positions, device=u.device)
        return y, (torch.cat([before[:, None], states], 1).index_select(1, chosen),)

    def _rates(self) -> Tensor:
        """``A = -exp(A_log) (D, S)``, which stays below 0 also where a training has diverged."""
        kept = self._kept()
        return -torch.exp(self.A_log.to(kept).clamp(min=_LOWEST_LOG[kept]))

    def _kept(self) -> torch.dtype:
        """The dtype of the state."""
        return torch.promote_types(self.A_log.dtype, torch.float32)
