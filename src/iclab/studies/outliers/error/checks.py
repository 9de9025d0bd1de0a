"""Outlier error experiments that the types allow and the mathematics or the machine does not, and their forecast."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iclab.config.limits import check_bytes, check_duration
from iclab.errors import InputError
from iclab.experiments.sections.single_index import check_prompts_fit
from iclab.studies.outliers.error.config import VECTORS
from iclab.studies.outliers.learners import check_names
from iclab.studies.outliers.names import NO_CLEAN_EXAMPLE

if TYPE_CHECKING:
    from iclab.experiments.sections.base import LearnerSection, Setting
    from iclab.studies.outliers.error.config import OutlierErrorConfig, TestPoint

_MOST_POINTS = 10_000


def check(config: OutlierErrorConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    _check_axes(config)
    points = list(config.points())
    # Sizes first: patterns in a dimension that cannot be meant take minutes to draw.
    _check_size(config, points)
    setting, distribution = config.setting, config.prompts.build(config.seed)
    check_names(config, NO_CLEAN_EXAMPLE)
    for key, section in config.learners.items():
        _check_reach(f"learners.{key}", section, setting)
        section.check(f"learners.{key}", setting)
    for point in points:
        try:
            point.distribution.build(distribution)
        except InputError as error:
            raise InputError(f"the test distribution {_format_keys(point)}: {error}") from None


def _check_axes(config: OutlierErrorConfig) -> None:
    size = 1
    usual = type(config.test)()
    for name, values in config.axes:
        if values is None:
            continue
        decided = ("coefficients", "orthogonal") if name == VECTORS else (name,)
        for key in decided:
            given = getattr(config.test, key)
            if given != getattr(usual, key):
                raise InputError(
                    f"test.{key} is {given} and changes nothing, since axes.{name} has its values; "
                    f"leave it out, or give axes.{name}=null"
                )
        size *= len(values)
        if isinstance(values, list) and len(set(values)) < len(values):
            raise InputError(f"axes.{name} is {values}; expected distinct values")
    if size > _MOST_POINTS:
        raise InputError(
            f"axes make {size:,} test distributions; expected at most {_MOST_POINTS:,}, so give fewer values"
        )


def _check_reach(key: str, section: LearnerSection, setting: Setting) -> None:
    if section.longest_context is not None and section.longest_context < setting.longest:
        raise InputError(
            f"{key}.max_examples is {section.longest_context} and contexts have up to {setting.longest} examples; "
            "raise max_examples or leave the learner out"
        )


def _check_size(config: OutlierErrorConfig, points: list[TestPoint]) -> None:
    longest = max(point.distribution.num_examples for point in points)
    prompts = config.num_prompts
    length = longest + config.num_queries
    check_prompts_fit("prompts_per_task", prompts, length, config.prompts.ambient_dim)
    samples = 8.0 * len(config.learners) * len(points)
    check_bytes("prompts_per_task", config.prompts_per_task, samples * prompts)
    check_duration("prompts_per_task", config.prompts_per_task, _testing_seconds(config))


def _format_keys(point: TestPoint) -> str:
    return ", ".join(f"{key}={value}" for key, value in point.keys.items()) or "of the section test"


def _testing_seconds(config: OutlierErrorConfig) -> float:
    tasks, setting = config.prompts.num_tasks(config.test.tasks), config.setting
    total = 0.0
    for point in config.points():
        examples = point.distribution.num_examples
        drawing = config.prompts.draw_seconds(config.seed, config.num_prompts, examples + config.num_queries)
        mine = replace(setting, num_examples=(examples,))
        total += tasks * 1.2e-3 + drawing + sum(s.predict_seconds(mine) for s in config.learners.values())
    return total


def seconds(config: OutlierErrorConfig) -> float:
    """Rough CPU seconds of a cell; NaN where nobody knows those of a learner."""
    setting = config.setting
    return 0.3 + _testing_seconds(config) + sum(section.fit_seconds(setting) for section in config.learners.values())


def gpu_seconds(config: OutlierErrorConfig) -> float:
    """Rough seconds of the trainings of deep models on one GPU."""
    return sum(section.gpu_seconds() for section in config.learners.values())
