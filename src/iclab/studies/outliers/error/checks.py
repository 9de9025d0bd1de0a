"""Outlier error experiments that the types allow and the mathematics or the machine does not, and their forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.config.limits import check_bytes, check_duration
from iclab.errors import InputError
from iclab.experiments.sections.single_index import check_prompts_fit
from iclab.studies.outliers.error.config import VECTORS
from iclab.studies.outliers.names import NO_CLEAN_EXAMPLE

if TYPE_CHECKING:
    from iclab.studies.outliers.error.config import OutlierErrorConfig, TestPoint

_MOST_POINTS = 10_000


def check(config: OutlierErrorConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    _check_axes(config)
    points = list(config.points())
    # Sizes first: the patterns of a law that cannot be meant take minutes to draw.
    _check_size(config, points)
    distribution = config.prompts.build(config.seed)
    _check_labels(config)
    for name, section in config.learners.items():
        section.check(f"learners.{name}", config.prompts, config.seed)
    for point in points:
        try:
            point.distribution.build(distribution)
        except InputError as error:
            raise InputError(f"the test law {_told(point)}: {error}") from None


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
        raise InputError(f"axes make {size:,} test laws; expected at most {_MOST_POINTS:,}, so give fewer values")


def _check_labels(config: OutlierErrorConfig) -> None:
    labels = [section.name for section in config.learners.values()]
    if NO_CLEAN_EXAMPLE in labels:
        raise InputError(
            f"a learner is called {NO_CLEAN_EXAMPLE!r}, which every run measures itself; choose another label"
        )
    if len(set(labels)) < len(labels):
        raise InputError(f"two learners have the same label in {labels}; give each its own")


def _check_size(config: OutlierErrorConfig, points: list[TestPoint]) -> None:
    longest = max(point.distribution.num_examples for point in points)
    prompts = config.prompts.num_tasks(config.test.tasks) * config.prompts_per_task
    length = longest + config.num_queries
    check_prompts_fit("prompts_per_task", prompts, length, config.prompts.ambient_dim)
    samples = 8.0 * len(config.learners) * len(points)
    check_bytes("prompts_per_task", config.prompts_per_task, samples * prompts)
    check_duration("prompts_per_task", config.prompts_per_task, _testing_seconds(config))


def _told(point: TestPoint) -> str:
    return ", ".join(f"{key}={value}" for key, value in point.keys.items()) or "of the section test"


def _testing_seconds(config: OutlierErrorConfig) -> float:
    dim, tasks = config.prompts.ambient_dim, config.prompts.num_tasks(config.test.tasks)
    prompts = tasks * config.prompts_per_task
    total = 0.0
    for point in config.points():
        examples = point.distribution.num_examples
        tokens = prompts * float(examples + config.num_queries)
        drawing = tasks * 1.2e-3 + tokens * (1.5e-7 + dim * 3e-9)
        layers = sum(
            section.depth * tokens * (dim * dim * 2e-10 + (examples if section.depth > 1 else 1) * 5e-9)
            for section in config.learners.values()
        )
        total += drawing + layers
    return total


def seconds(config: OutlierErrorConfig) -> float:
    """Rough CPU seconds of a cell."""
    training = sum(section.seconds(config.prompts) for section in config.learners.values())
    return 0.3 + training + _testing_seconds(config)
