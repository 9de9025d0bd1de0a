"""The learning rate as a pure function of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iclab.errors import InputError, check_integer, check_positive

SCHEDULES = ("constant", "cosine", "linear")


@dataclass(frozen=True)
class LearningRate:
    """``peak * min(1, (step + 1) / warmup_steps) * shape(step)``.

    With ``p = (step - warmup_steps) / (steps - warmup_steps)`` in [0, 1) after the warm-up, the shape falls from 1 to
    ``f = final_scale`` as ``f + (1 - f) (1 + cos(pi p)) / 2`` for ``cosine`` and ``1 - (1 - f) p`` for ``linear``; for
    ``constant`` it is 1.

    Attributes:
        peak: the rate after the warm-up.
        steps: of the whole training.
        warmup_steps: steps of linear growth, 0 for none.
        schedule: the shape.
        final_scale: f, in [0, 1].

    Raises:
        InputError: for values out of range and an unknown shape.
    """

    peak: float
    steps: int
    warmup_steps: int = 0
    schedule: str = "constant"
    final_scale: float = 0.0

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.peak)
        check_integer("steps", self.steps, 1)
        check_integer("warmup_steps", self.warmup_steps, 0)
        if self.warmup_steps >= self.steps:
            raise InputError(
                f"warmup_steps is {self.warmup_steps} and steps {self.steps}; expected a warm-up that ends in training"
            )
        if self.schedule not in SCHEDULES:
            raise InputError(f"the schedule is {self.schedule!r}; expected one of {', '.join(SCHEDULES)}")
        if not isinstance(self.final_scale, int | float) or not 0 <= self.final_scale <= 1:
            raise InputError(f"final_scale is {self.final_scale!r}; expected a number between 0 and 1")

    def at(self, step: int) -> float:
        """Return the rate of the step number ``step``, counted from 0."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / (self.steps - self.warmup_steps)
        match self.schedule:
            case "constant":
                shape = 1.0
            case "cosine":
                shape = self.final_scale + (1 - self.final_scale) * 0.5 * (1 + math.cos(math.pi * progress))
            case _:
                shape = 1 - (1 - self.final_scale) * progress
        return self.peak * shape
