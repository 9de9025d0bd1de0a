"""The configuration of a cell of the outlier training experiments."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iclab.experiments.kind import Config
from iclab.experiments.sections.outliers import AttentionLearner, OutlierPromptsSection


class Vary(Config):
    """What is varied, one at a time, all else as configured; nothing where all lists are empty.

    ``num_examples`` is l_tr of every learner, ``outlier_fraction`` p_a and ``relevant`` M1.

    Attributes:
        num_examples: l_tr of every learner.
        outlier_fraction: p_a of the prompts.
        relevant: M1 of the prompts.
    """

    num_examples: list[Annotated[int, Field(ge=1, le=1_000_000)]] = Field(default_factory=list)
    outlier_fraction: list[Annotated[float, Field(ge=0, lt=1)]] = Field(default_factory=list)
    relevant: list[Annotated[int, Field(ge=2)]] = Field(default_factory=list)


class OutlierTrainingConfig(Config):
    """Trainings, looked at on the way.

    Where nothing is varied, losses, errors and attention are recorded: attention at ``probes`` moments and before the
    first step, on ``probe_prompts`` fresh prompts of each learner's training law. Where something is varied, a training
    ends at the lowest of ``levels``, and the steps to each level are recorded.

    Attributes:
        seed: of all randomness of a cell.
        prompts: what is trained on.
        learners: learners by a short key.
        levels: losses whose first steps are recorded.
        vary: what is varied, one at a time.
        probes: moments at which attention is recorded.
        probe_prompts: fresh prompts that it is recorded on.
    """

    seed: int = Field(0, ge=0)
    prompts: OutlierPromptsSection = OutlierPromptsSection(outlier_fraction=0.4)
    learners: dict[str, AttentionLearner] = Field(
        {"mamba": AttentionLearner(), "linear": AttentionLearner(kind="linear")}, min_length=1
    )
    levels: list[Annotated[float, Field(gt=0, lt=1)]] = Field([0.5, 0.3], min_length=1)
    vary: Vary = Vary()
    probes: int = Field(12, ge=1, le=1000)
    probe_prompts: int = Field(240, ge=8)
