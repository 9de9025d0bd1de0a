"""Backbones of deep models as configuration, with what a training step of each costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from iclab.errors import InputError
from iclab.experiments.kind import Config
from iclab.experiments.sections.gpu_cost import StepCost

if TYPE_CHECKING:
    from torch import nn


class _Backbone(Config):
    def check(self, key: str) -> None:
        """Refuse what cannot be built, naming the ``key`` of this section."""


class MambaBackbone(_Backbone):
    """See `iclab.models.Mamba`. ``selectivity: constant_delta`` freezes what makes it selective."""

    kind: Literal["mamba"] = "mamba"
    width: int = Field(64, ge=1)
    depth: int = Field(4, ge=1)
    state_size: int = Field(16, ge=1)
    selectivity: Literal["full", "constant_delta"] = "full"

    def build(self, length: int) -> nn.Module:
        """The backbone, for any length."""
        from iclab.models import Mamba

        del length
        return Mamba(self.width, self.depth, state_size=self.state_size, selectivity=self.selectivity)

    def kept_bytes(self, tokens: float, prompts: float) -> float:
        """Rough bytes that a training step keeps beside the residual stream: what makes the state, and states."""
        per_token = math.ceil(self.width / 16) + 2.0 * self.state_size
        return 4.0 * self.depth * (3 * tokens * per_token + 2 * prompts * 2 * self.width * self.state_size)

    def token_seconds(self) -> float:
        """Rough seconds on one core for a token, forward and backward."""
        channels = 2 * self.width
        return self.depth * channels * (1e-9 * self.state_size + 3e-8 + 18 * self.width * 1.2e-11)

    def step_cost(self, tokens: float, length: int) -> StepCost:
        """Of a training step on ``tokens`` tokens."""
        del length
        return gated_cost(self.width, self.depth, tokens)


class LinearAttentionBackbone(_Backbone):
    """See `iclab.models.LinearAttention`: the same blocks with linear attention in the place of the scan."""

    kind: Literal["linear_attention"] = "linear_attention"
    width: int = Field(64, ge=1)
    depth: int = Field(4, ge=1)
    state_size: int = Field(16, ge=1)

    def build(self, length: int) -> nn.Module:
        """The backbone, for any length."""
        from iclab.models import LinearAttention

        del length
        return LinearAttention(self.width, self.depth, state_size=self.state_size)

    def kept_bytes(self, tokens: float, prompts: float) -> float:
        """Rough bytes that a training step keeps beside the residual stream: keys, queries and states."""
        return 4.0 * self.depth * self.state_size * (6 * tokens + 2 * prompts * 2 * self.width)

    def token_seconds(self) -> float:
        """Rough seconds on one core for a token, forward and backward."""
        channels = 2 * self.width
        return self.depth * channels * (6e-8 + 18 * self.width * 1.2e-11)

    def step_cost(self, tokens: float, length: int) -> StepCost:
        """Of a training step on ``tokens`` tokens."""
        del length
        return gated_cost(self.width, self.depth, tokens)


class GPT2Backbone(_Backbone):
    """See `iclab.models.GPT2`. Learned positions beyond the training length stay as they were initialised."""

    kind: Literal["gpt2"] = "gpt2"
    width: int = Field(64, ge=1)
    depth: int = Field(4, ge=1)
    heads: int = Field(4, ge=1)
    positions: Literal["learned", "none", "rotary"] = "learned"
    initial_std: float = Field(0.02, gt=0)

    def check(self, key: str) -> None:
        if self.width % self.heads:
            raise InputError(f"{key} has width {self.width} and {self.heads} heads; expected heads that divide it")

    def build(self, length: int) -> nn.Module:
        """The backbone, with positions for ``length`` tokens."""
        from iclab.models import GPT2

        return GPT2(
            self.width,
            self.depth,
            heads=self.heads,
            max_positions=length,
            positions=self.positions,
            initial_std=self.initial_std,
        )

    def kept_bytes(self, tokens: float, prompts: float) -> float:
        """Nothing beside the residual stream: attention is computed in blocks."""
        del tokens, prompts
        return 0.0

    def token_seconds(self) -> float:
        """Rough seconds on one core for a token, forward and backward."""
        return self.depth * self.width * (4e-8 + 72 * self.width * 1.2e-11)

    def step_cost(self, tokens: float, length: int) -> StepCost:
        """Of a training step on ``tokens`` tokens in sequences of ``length``."""
        products = 6.0 * 12 * self.width**2 + 12.0 * length * self.width
        return StepCost(self.depth * tokens * products, self.depth * tokens * 240.0 * self.width, 80.0 * self.depth)


Backbone = Annotated[MambaBackbone | GPT2Backbone | LinearAttentionBackbone, Field(discriminator="kind")]


def gated_cost(width: int, depth: int, tokens: float) -> StepCost:
    """Of a step of `iclab.models.Mamba`, whose blocks have twice as many channels as the residual stream."""
    channels = 2.0 * width
    return StepCost(depth * tokens * 18.0 * width * channels, depth * tokens * 160.0 * channels, 70.0 * depth)
