"""Single-index prompts and label gates as configuration, and how each becomes the object it describes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from iclab.config.limits import check_bytes
from iclab.errors import InputError
from iclab.experiments.kind import Config
from iclab.experiments.sections.base import PromptsSection, Setting

if TYPE_CHECKING:
    from torch import Tensor

    from iclab.links import Link
    from iclab.models import OneLayerMamba
    from iclab.prompts import SingleIndex

LinkSpec = str | list[float]


class SingleIndexPrompts(PromptsSection):
    """Gaussian single-index prompts; see `iclab.prompts.SingleIndex`."""

    kind: Literal["single_index"] = "single_index"
    ambient_dim: int = Field(16, ge=1, le=100_000)
    intrinsic_dim: int = Field(2, ge=1)
    link: LinkSpec = "he3"
    standardise: bool = True
    noise: float = Field(0.0, ge=0, le=1e6)
    rotation: Literal["random"] | None = None
    inputs: Literal["gaussian", "rademacher", "uniform", "student_t"] = "gaussian"
    df: float = Field(5.0, gt=2)

    def make_link(self) -> Link:
        """The link, standardised if asked for."""
        return _link(self.link if isinstance(self.link, str) else tuple(self.link), self.standardise)

    def build(self, seed: int) -> SingleIndex:
        """The prompt distribution; its support and rotation are drawn from ``seed``."""
        from iclab.prompts import InputDistribution, SingleIndex

        if self.rotation is not None:
            check_bytes("prompts.ambient_dim", self.ambient_dim, 24.0 * self.ambient_dim**2)
        return SingleIndex(
            self.ambient_dim,
            self.intrinsic_dim,
            self.make_link(),
            self.noise,
            rotation=self.rotation,
            inputs=InputDistribution(self.inputs, self.df),
            seed=seed,
        )

    def dimension(self, seed: int) -> int:
        return self.ambient_dim

    def typical_labels(self, seed: int) -> Tensor:
        """Labels at ``|z| <= 4``, with either sign of the noise."""
        import torch

        z = torch.linspace(-4, 4, 801, dtype=torch.float64).numpy()
        labels = torch.as_tensor(self.make_link()(z)).float()
        return torch.stack([labels - self.noise, labels + self.noise])

    def draw_seconds(self, seed: int, num_prompts: float, length: float) -> float:
        return sampling_seconds(num_prompts, length, self.ambient_dim)


@lru_cache(maxsize=64)
def _link(spec: str | tuple[float, ...], standardise: bool) -> Link:
    """A link is a value: the cells of a grid, thousands at times, share the few that it has."""
    from iclab.links import make_link

    return make_link(spec if isinstance(spec, str) else list(spec), standardise=standardise)


class Gate(Config):
    """A label gate; see `iclab.models.LabelGate`. ``b: null`` is ``-bias_scale * log d``."""

    gate: Literal["mamba", "no_decay", "exp", "linear"] = "mamba"
    rho: float = Field(0.3, ge=1e-6, le=1e6)
    b: float | None = Field(-15.0, gt=-1e4, lt=1e4)
    bias_scale: float = Field(3.0, gt=0, lt=1e4)
    clip: float | None = Field(None, gt=0, le=1e30)

    def build(self, ambient_dim: int, width: int = 512, embedding: str = "hermite2") -> OneLayerMamba:
        """A one-layer model with this gate, not yet pretrained."""
        from iclab.models import OneLayerMamba

        return OneLayerMamba(
            ambient_dim,
            width,
            embedding=embedding,
            gate=self.gate,
            rho=self.rho,
            b=self.b,
            bias_scale=self.bias_scale,
            clip=self.clip,
        )


def check_prompts_fit(what: str, num_prompts: int, length: int, ambient_dim: int) -> None:
    """Refuse a batch of prompts that this machine cannot hold (inputs, weighted inputs and one copy, float32)."""
    from iclab.memory import check_memory

    check_memory(f"{what} ({num_prompts} prompts of {length} tokens in dimension {ambient_dim})",
                 12.0 * num_prompts * length * ambient_dim)  # fmt: skip


def check_gate(key: str, gate: Gate, setting: Setting) -> None:
    """Refuse a gate that overflows on labels that every run meets, naming its ``key``."""
    import torch

    labels = setting.prompts.typical_labels(setting.seed)
    if gate.clip is not None:
        limit = min(gate.clip, torch.finfo(labels.dtype).max)
        labels = labels.clamp(-limit, limit)
    try:
        gate.build(setting.dimension, 1).label_gate.log_gain(labels)
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


def sampling_seconds(num_prompts: float, num_examples: float, ambient_dim: int) -> float:
    """Rough seconds on one core to draw prompts and compute the state of the one-layer model on them."""
    per_example = 12e-9 + ambient_dim * 3.3e-9 + ambient_dim**2 * 2.6e-11
    return num_prompts * num_examples * per_example
