"""The configuration of a cell of the error experiment."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from iclab.experiments.kind import Config
from iclab.experiments.sections.base import Setting
from iclab.experiments.sections.learners import AnyLearner, AnyPrompts, KernelRidgeLearner, OneLayer
from iclab.experiments.sections.single_index import SingleIndexPrompts


class ErrorConfig(Config):
    """Learners by a short key; each section may carry the label that figures show.

    ``theory_gate`` names the learner whose gate the exact curve describes; the curve is left out where there is none.
    The error of predicting zero is always measured, on the same prompts. Prompts without a ``kind`` are single-index.
    """

    seed: int = Field(0, ge=0)
    prompts: AnyPrompts = SingleIndexPrompts()
    learners: dict[str, AnyLearner] = Field(
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

    @field_validator("prompts", mode="before")
    @classmethod
    def _usual_kind(cls, value: Any) -> Any:
        return {"kind": "single_index", **value} if isinstance(value, dict) else value

    @property
    def setting(self) -> Setting:
        """What the learners are fitted for."""
        return Setting(self.prompts, self.seed, tuple(self.num_examples), self.num_prompts, self.num_queries)

    @property
    def names(self) -> dict[str, str]:
        """What tables and figures call each learner, by its key."""
        return {key: section.label or key for key, section in self.learners.items()}
