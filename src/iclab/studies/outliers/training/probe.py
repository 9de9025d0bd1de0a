"""Attention of a query on examples of its own pattern and of the other one, while a model is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from iclab.evaluation.measurement import Measurement

if TYPE_CHECKING:
    from torch import Tensor

    from iclab.models import TokenModel
    from iclab.pretraining import TrainProgress
    from iclab.prompts import OutlierPrompts


class AttentionProbe:
    """A callback for `iclab.pretraining.hinge_sgd` that looks at a model before the first step and ``probes`` times,
    evenly spaced, the last time after the last of ``steps`` steps; at every window's end where there are fewer windows.

    Of each layer it records, as means over prompts: the sum over the context of the absolute attention of the query on
    examples of its own pattern (``attention``, group ``same``) and of the other (``different``); the first as a share
    of both (``same_share``); and the same with signs for the last layer (``signed_attention``). Part ``scores`` is
    attention before the gate, ``weights`` after it; where there are no gates, the first alone.

    Attributes:
        measurements: so far.
    """

    def __init__(
        self, learner: str, model: TokenModel, prompts: OutlierPrompts, steps: int, log_every: int, probes: int
    ) -> None:
        self.measurements: list[Measurement] = []
        self._learner, self._model, self._prompts = learner, model, prompts
        windows = -(-steps // log_every)
        looks = min(windows, probes)
        chosen = np.linspace(windows / looks, windows, looks).round()
        self._steps = {min(steps, int(window) * log_every) for window in chosen}
        self.look(0)

    def __call__(self, progress: TrainProgress) -> None:
        if progress.step in self._steps:
            self.look(progress.step)

    @torch.no_grad()
    def look(self, step: int) -> None:
        """Record attention as it is after ``step`` steps."""
        _, attention = self._model(self._prompts, return_attention=True)
        parts = {"scores": attention.scores}
        if self._model.gate_parameters():
            parts["weights"] = attention.weights
        same = self._prompts.same_pattern
        for part, values in parts.items():
            for layer, found in enumerate(values.double(), start=1):
                keys: dict[str, str | int | float] = {"step": step, "layer": layer, "part": part}
                own, other = sums(found.abs(), same)
                self._add("attention", own, {**keys, "group": "same"})
                self._add("attention", other, {**keys, "group": "different"})
                total = own + other
                self._add("same_share", torch.where(total > 0, own / total, 0.5), keys)
                if layer == len(values):
                    for group, signed in zip(("same", "different"), sums(found, same), strict=True):
                        self._add("signed_attention", signed, {**keys, "group": group})

    def _add(self, metric: str, of_prompts: Tensor, keys: dict[str, str | int | float]) -> None:
        self.measurements.append(Measurement(self._learner, metric, of_prompts.mean().reshape(1, 1).numpy(), keys=keys))


def sums(values: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
    """``(B,)`` each: sums over the context of ``values (B, Q, N)`` where ``same`` and where not, queries averaged."""
    return (values * same).sum(-1).mean(-1), (values * ~same).sum(-1).mean(-1)
