"""The points at which trainings are compared: the configuration itself, or one entry varied at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iclab.experiments.sections.outliers import AttentionLearner, OutlierPromptsSection

if TYPE_CHECKING:
    from iclab.evaluation import Crossing
    from iclab.experiments.sections.outliers import HingeTraining
    from iclab.pretraining import HingeRecord
    from iclab.studies.outliers.training.config import OutlierTrainingConfig


@dataclass(frozen=True)
class Point:
    """One setting of prompts and trainings.

    Attributes:
        prompts: the training law's section.
        num_examples: l_tr of all learners, or ``None`` for each learner's own.
        keys: ``axis`` and ``at`` of its measurements; empty where nothing is varied.
    """

    prompts: OutlierPromptsSection
    num_examples: int | None = None
    keys: dict[str, str | int | float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """``vary.relevant = 12``."""
        return f"vary.{self.keys['axis']} = {self.keys['at']:g}" if self.keys else ""

    def learner(self, section: AttentionLearner) -> AttentionLearner:
        """The learner with the training that it has here."""
        if self.num_examples is None:
            return section
        training = section.training.model_copy(update={"num_examples": self.num_examples})
        return section.model_copy(update={"training": training})


def points_of(config: OutlierTrainingConfig) -> list[Point]:
    """All points of a cell, in the order of the configuration."""
    points = []
    for axis, values in config.vary.model_dump().items():
        for value in values:
            keys = {"axis": axis, "at": float(value)}
            if axis == "num_examples":
                points.append(Point(config.prompts, value, keys))
            else:
                points.append(Point(config.prompts.model_copy(update={axis: value}), None, keys))
    return points or [Point(config.prompts)]


def crossing(record: HingeRecord, level: float, batch_size: int) -> Crossing:
    """Steps until the loss was at most ``level`` for the first time, on a straight line between the middles of two
    windows. A loss that is there in the first window is left-censored at that window's middle; one that never gets
    there is right-censored at the steps taken."""
    from iclab.evaluation import Crossing

    middles = [window.step - window.num_prompts / batch_size / 2 for window in record.windows]
    losses = [window.loss for window in record.windows]
    first = next((index for index, loss in enumerate(losses) if loss <= level), None)
    if first is None:
        return Crossing(float(record.steps), "right")
    if first == 0:
        return Crossing(middles[0], "left")
    share = (losses[first - 1] - level) / (losses[first - 1] - losses[first])
    return Crossing(middles[first - 1] + share * (middles[first] - middles[first - 1]))


def crossing_from(steps: float, reached: float, training: HingeTraining) -> Crossing:
    """The crossing that a run's ``steps_to_level`` and ``reached`` of one seed stand for."""
    from iclab.evaluation import Crossing

    if reached < 1:
        return Crossing(steps, "right")
    return Crossing(steps, "left" if steps <= first_middle(training) else "measured")


def first_middle(training: HingeTraining) -> float:
    """Steps to the middle of the first window. A `crossing` is there if the loss was at the level in that window, and
    later otherwise."""
    return min(training.log_every, training.steps) / 2
