"""The configuration of a cell of the outlier attack experiment."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iclab.experiments.kind import Config
from iclab.experiments.sections.base import Setting
from iclab.experiments.sections.outliers import (
    ONE_LAYER_MODELS,
    AttentionLearner,
    OutlierPromptsSection,
    TestDistribution,
)


class OutlierAttackConfig(Config):
    """Learners attacked on the same prompts of the section ``test``: one example of each gets ``delta`` added.

    ``sizes`` are bounds of ``|delta|`` in lengths of an outlier pattern, so that kappa_a is comparable. The example
    shows the label that ``test.label_rule`` gives outliers. The gradient search makes ``restarts`` searches of
    ``steps`` steps at each example of the context; the random search asks the model as often.
    """

    seed: int = Field(0, ge=0)
    prompts: OutlierPromptsSection = OutlierPromptsSection()
    learners: dict[str, AttentionLearner] = Field(ONE_LAYER_MODELS, min_length=1)
    test: TestDistribution = TestDistribution(outlier_fraction=0.0)
    sizes: list[Annotated[float, Field(gt=0, le=1e6)]] = Field([0.5, 1.0, 2.0, 4.0, 8.0], min_length=1)
    prompts_per_task: int = Field(4, ge=1)
    steps: int = Field(30, ge=1, le=100_000)
    restarts: int = Field(3, ge=1, le=10_000)

    @property
    def setting(self) -> Setting:
        """What the learners are fitted for."""
        return Setting(self.prompts, self.seed, (self.test.num_examples,))

    @property
    def draws(self) -> int:
        """Random directions at each example: the evaluations of the gradient search."""
        return self.restarts * (self.steps + 1)
