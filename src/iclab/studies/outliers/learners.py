"""What a report needs to know of the learners of an outlier experiment, from their configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from iclab.errors import InputError
from iclab.experiments.kind import Config, learner_names
from iclab.experiments.roles import Role
from iclab.experiments.sections.outliers import AttentionLearner

_ATTENTION = get_args(AttentionLearner.model_fields["kind"].annotation)


@dataclass(frozen=True)
class Trained:
    """An attention model of a configuration, of those that the theorems and claims are about.

    Attributes:
        name: as the tables have it.
        section: its configuration.
        fraction: p_a of its own training prompts.
        changed: what its training prompts have otherwise than the section ``prompts``.
    """

    name: str
    section: AttentionLearner
    fraction: float
    changed: dict[str, Any]

    @property
    def role(self) -> Role:
        """How figures draw it."""
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
    """The attention models of a cell's configuration, in its order."""
    found = []
    for raw in config["learners"].values():
        if raw["kind"] not in _ATTENTION:
            continue
        section = AttentionLearner.model_validate(raw)
        changed = section.prompts.model_dump(exclude_none=True)
        fraction = changed.get("outlier_fraction", config["prompts"]["outlier_fraction"])
        found.append(Trained(section.name, section, fraction, changed))
    return found


def roles_of(config: dict[str, Any]) -> dict[str, Role]:
    """The role of every learner of a cell's configuration, by its name."""
    sections = config["learners"].items()
    attention = {key: AttentionLearner.model_validate(raw) for key, raw in sections if raw["kind"] in _ATTENTION}
    return {attention[key].name if key in attention else raw["label"] or key: raw["role"] for key, raw in sections}


def check_names(config: Config, reserved: str = "") -> None:
    """Refuse two learners of one name, and one with the name of what every run measures itself."""
    names = list(learner_names(config).values())
    if reserved in names:
        raise InputError(f"a learner is called {reserved!r}, which every run measures itself; choose another label")
    if len(set(names)) < len(names):
        raise InputError(f"learners are called {', '.join(names)}; expected distinct names: give each a label")
