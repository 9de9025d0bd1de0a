"""An exponential moving average of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """``w_bar <- m w_bar + (1 - m) w`` after each step, with ``m = min(decay, (1 + t) / (10 + t))`` at step t.

    The decay grows from small values, so the first weights are soon forgotten. Buffers are not averaged.

    Args:
        model: its trained parameters are averaged, from their present values on.
        decay: m after the first steps; ``1 / (1 - decay)`` steps is the memory.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Take in the weights after the step number ``step``, counted from 0."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.weights[name].lerp_(parameter, share)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from stored averages."""
        for name, weight in self.weights.items():
            weight.copy_(weights[name])

    @torch.no_grad()
    def put(self, model: nn.Module) -> None:
        """Give the model the averaged weights."""
        for name, parameter in model.named_parameters():
            if name in self.weights:
                parameter.copy_(self.weights[name])

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """The model has the averaged weights in here, and its own again afterwards, bit for bit."""
        own = {name: p.detach().clone() for name, p in model.named_parameters() if name in self.weights}
        self.put(model)
        try:
            yield
        finally:
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if name in own:
                        parameter.copy_(own[name])
