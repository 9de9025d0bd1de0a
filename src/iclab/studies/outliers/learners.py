"""What a reading needs to know of the learners of an outlier experiment, from their configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iclab.experiments.roles import Role
from iclab.experiments.sections.outliers import AttentionLearner


@dataclass(frozen=True)
class Trained:
    """A learner of a configuration.

    Attributes:
        name: as the tables have it.
        section: its configuration.
        fraction: p_a of its own training law.
        changed: what its training law has otherwise than the section ``prompts``.
    """

    name: str
    section: AttentionLearner
    fraction: float
    changed: dict[str, Any]

    @property
    def role(self) -> Role:
        """Its stroke in figures."""
        return self.section.role

    def guarantee(self, num_examples: int) -> float | None:
        """The share of test outliers that the theorems of arXiv 2510.00399 tolerate in prompts of ``num_examples``
        examples; ``None`` for models that they do not treat."""
        if self.section.depth > 1 or self.section.kind == "softmax":
            return None
        if self.section.kind == "linear":
            return 0.5
        return min(1.0, self.fraction * self.section.training.num_examples / num_examples)


def learners_of(config: dict[str, Any]) -> list[Trained]:
    """The learners of a cell's configuration, in its order."""
    found = []
    for raw in config["learners"].values():
        section = AttentionLearner.model_validate(raw)
        changed = section.prompts.model_dump(exclude_none=True)
        fraction = changed.get("outlier_fraction", config["prompts"]["outlier_fraction"])
        found.append(Trained(section.name, section, fraction, changed))
    return found
