"""Error experiments that the types allow, and the mathematics or the machine does not; and their forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.config.limits import check_bytes, check_duration, check_lengths
from iclab.errors import InputError
from iclab.experiments.sections.single_index import check_prompts_fit
from iclab.studies.error.names import THEORY, ZERO
from iclab.studies.error.theory import check_theory

if TYPE_CHECKING:
    from iclab.experiments.sections.base import LearnerSection
    from iclab.studies.error.config import ErrorConfig

EVALUATION_BATCH = 32
"""Prompts that are measured at a time."""

_NUM_METRICS = 4


def check(config: ErrorConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    setting = config.setting
    check_lengths("num_examples", config.num_examples, 0)
    if max(config.num_examples) == 0:
        raise InputError("num_examples is [0]; expected a length >= 1 beside it, to learn something in context")
    _ = setting.distribution  # refuses what cannot be drawn
    _check_evaluation(config)
    _check_labels(config)
    for key, section in config.learners.items():
        _check_reach(f"learners.{key}", section, config)
        section.check(f"learners.{key}", setting)
    check_theory(config)


def _check_evaluation(config: ErrorConfig) -> None:
    setting = config.setting
    check_prompts_fit("num_examples", EVALUATION_BATCH, setting.longest + config.num_queries, setting.dimension)
    curves = _NUM_METRICS * (len(config.learners) + 1) * len(config.num_examples)
    check_bytes("num_prompts", config.num_prompts, 8.0 * config.num_prompts * curves)
    seconds = config.prompts.draw_seconds(config.seed, config.num_prompts, setting.longest)
    check_duration("num_prompts", config.num_prompts, seconds)


def _check_labels(config: ErrorConfig) -> None:
    labels = list(config.names.values())
    taken = {ZERO, THEORY} & set(labels)
    if taken:
        raise InputError(f"a learner is called {taken.pop()!r}, which every run measures itself; choose another label")
    if len(set(labels)) < len(labels):
        raise InputError(f"two learners have the same label in {labels}; give each its own")


def _check_reach(key: str, section: LearnerSection, config: ErrorConfig) -> None:
    longest, shortest = section.longest_context, min(config.num_examples)
    if longest is not None and longest < shortest:
        raise InputError(
            f"{key}.max_examples is {longest} and num_examples starts at {shortest}: the curve would have no point; "
            "raise max_examples or leave the learner out"
        )


def seconds(config: ErrorConfig) -> float:
    """Rough CPU seconds of a cell; NaN where nobody knows those of a learner."""
    setting = config.setting
    return 0.3 + sum(
        section.fit_seconds(setting) + section.predict_seconds(setting) for section in config.learners.values()
    )


def gpu_seconds(config: ErrorConfig) -> float:
    """Rough seconds of the trainings on one GPU."""
    return sum(section.gpu_seconds() for section in config.learners.values())
