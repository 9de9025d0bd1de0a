"""The configuration of a cell of the error experiment."""

from __future__ import annotations

from pydantic import Field

from iclab.experiments.kind import Config
from iclab.experiments.sections.learners import KernelRidgeLearner, LearnerSection, OneLayer
from iclab.experiments.sections.single_index import SingleIndexPrompts


class ErrorConfig(Config):
    """Learners by a short key; each section may carry the label that figures show.

    ``theory_gate`` names the learner whose gate the exact curve describes; the curve is left out where there is none.
    The error of predicting zero is always measured, on the same prompts.
    """

    seed: int = Field(0, ge=0)
    prompts: SingleIndexPrompts = SingleIndexPrompts()
    learners: dict[str, LearnerSection] = Field(
        {
            "mamba": OneLayer(label="Mamba, two-stage"),
            "no_gate": OneLayer(label="no gate, two-stage", gate="linear", role="ablation"),
            "kernel_all": KernelRidgeLearner(label="kernel ridge, all inputs"),
        },
        min_length=1,
    )
    theory_gate: str | None = "mamba"
    num_examples: list[int] = Field([16, 32, 64, 128, 256, 512], min_length=1)
    num_prompts: int = Field(128, ge=2)
    num_queries: int = Field(8, ge=1)
