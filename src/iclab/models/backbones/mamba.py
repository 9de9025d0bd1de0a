"""Deep Mamba as a backbone (arXiv 2312.00752). Shapes: B prompts, L tokens, M width."""

from __future__ import annotations

import math

from iclab.errors import check_integer, check_positive
from iclab.models.backbones.backbone import check_size
from iclab.models.backbones.mamba_mixer import MambaMixer, MixerSettings
from iclab.models.backbones.residual import ResidualStack


class Mamba(ResidualStack):
    """A stack of Mamba layers on given token vectors, ``(B, L, width) -> (B, L, width)``, causal, any length.

    Args:
        width: M.
        depth: number of layers. A Transformer of half as many has about as many parameters.
        state_size: S, numbers of state a channel.
        expand: D = ``expand`` M channels inside a layer.
        conv_width: tokens that the convolution sees.
        dt_rank: R, rank of the time steps; ``None`` takes ``ceil(M/16)``.
        dt_min, dt_max: ends of the log-uniform law of the initial time steps ``softplus(b_dt)``.
        dt_floor: initial time steps are raised to it.
        norm_eps: added to the mean square in the norms.
        channels: D where it is no multiple of M; ``None`` takes ``expand`` M.
        bias: whether ``in_proj`` and ``out_proj`` have biases, at zero in the beginning.
        conv_bias: whether the convolution has.
        activation: behind the convolution, one of `ACTIVATIONS` of `activations`. The output gate is silu
            always, as in every published Mamba.
        mixer_norm_eps: divide the rank-R time step, B and C of each token by their root mean squares, with this added
            to the mean square, as FalconMamba does (arXiv 2410.05355); ``None`` does not.
        residual_in_fp32: keep the residual stream, and the outputs, in float32 where the weights are narrower.
        selectivity: ``full``, or ``constant_delta``, where the time step, and so the gate on state and input, is one
            learned number a channel that no token can change (B and C still depend on the token).
        scan_backend: as for `iclab.ops.selective_scan`; no property of the model, so it is not saved.

    ``A_log`` starts at ``log(1, ..., S)``, ``D`` at one, and weights into the residual stream are divided by
    ``sqrt(depth)``. On equal weights it agrees with transformers' ``MambaModel`` and, with ``mixer_norm_eps``,
    ``FalconMambaModel`` (`iclab.models.from_transformers`).

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
        dt_rank: int | None = None,
        dt_min: float = 1e-3,
        dt_max: float = 0.1,
        dt_floor: float = 1e-4,
        norm_eps: float = 1e-5,
        selectivity: str = "full",
        channels: int | None = None,
        bias: bool = False,
        conv_bias: bool = True,
        activation: str = "silu",
        mixer_norm_eps: float | None = None,
        residual_in_fp32: bool = False,
        scan_backend: str = "auto",
    ) -> None:
        width, depth = check_integer("width", width, 1), check_integer("depth", depth, 1, 1000)
        rank = math.ceil(width / 16) if dt_rank is None else dt_rank
        mixer = MixerSettings(
            state_size,
            expand,
            conv_width,
            rank,
            dt_min,
            dt_max,
            dt_floor,
            selectivity,
            None if channels == expand * width else channels,
            bias,
            conv_bias,
            activation,
            mixer_norm_eps,
            residual_in_fp32,
        )
        numbers = depth * float(mixer.num_channels(width)) * (3 * width + 2 * rank + 3 * state_size)
        check_size("Mamba", width, depth, numbers)
        super().__init__(
            [MambaMixer(width, depth, mixer, scan_backend) for _ in range(depth)],
            width,
            check_positive("norm_eps", norm_eps),
        )
        self.depth, self.norm_eps, self.mixer = depth, norm_eps, mixer

    @property
    def name(self) -> str:
        """As legends show it."""
        frozen = "" if self.mixer.selectivity == "full" else ", constant time steps"
        return f"Mamba ({self.depth} layers, width {self.width}, state {self.mixer.state_size}{frozen})"

    def settings(self) -> dict[str, object]:
        """Return the constructor's arguments, for saving."""
        return {"width": self.width, "depth": self.depth, "norm_eps": self.norm_eps, **self.mixer.asdict()}
