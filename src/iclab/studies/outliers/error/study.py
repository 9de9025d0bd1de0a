"""0-1 error of learners in context with outliers, over a product of test distributions, each on the same prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iclab.experiments.kind import ExperimentKind, learner_names
from iclab.studies.outliers.error.checks import check, gpu_seconds, seconds
from iclab.studies.outliers.error.config import OutlierErrorConfig, TestPoint, no_clean_example
from iclab.studies.outliers.names import ERROR, FLOOR, NO_CLEAN_EXAMPLE

if TYPE_CHECKING:
    from iclab.estimators.base import Learner
    from iclab.evaluation import Measurement
    from iclab.prompts import OutlierClassification, OutlierPrompts


def run_cell(config: OutlierErrorConfig) -> list[Measurement]:
    """Fit every learner, then measure all of them on every test distribution."""
    setting, names = config.setting, learner_names(config)
    distribution = config.prompts.build(config.seed)
    learners: dict[str, Learner] = {}
    measured: list[Measurement] = []
    for key, section in config.learners.items():
        learners[names[key]], found = section.fit(names[key], setting)
        measured += found
    for point in config.points():
        measured.extend(_test(config, point, distribution, learners))
    return measured


def _test(
    config: OutlierErrorConfig, point: TestPoint, distribution: OutlierClassification, learners: Mapping[str, Learner]
) -> list[Measurement]:
    from iclab.evaluation import Measurement, predict_blind, sign_errors

    length, keys = point.distribution.num_examples, point.keys
    prompts = evaluation_prompts(config, point, distribution)
    floor = no_clean_example(point.distribution.outlier_fraction, length, point.distribution.sampling)
    measured = [Measurement.exact(NO_CLEAN_EXAMPLE, FLOOR, floor, length, keys)]
    for name, learner in learners.items():
        wrong = sign_errors(predict_blind(name, learner, prompts, [length])[0], prompts.query_targets)
        measured.append(Measurement(name, ERROR, wrong.numpy()[None], "mean", length, keys))
    return measured


def evaluation_prompts(
    config: OutlierErrorConfig, point: TestPoint, distribution: OutlierClassification
) -> OutlierPrompts:
    """``prompts_per_task`` prompts of each task, task after task. The prompts of a task are a function of the seed, the
    task and the test law alone, and differ between test laws in nothing but what these say."""
    from iclab.prompts import OutlierPrompts, Stream

    tested = point.distribution.build(distribution)
    stream = Stream(config.seed).child("evaluation")
    sizes = (config.prompts_per_task, point.distribution.num_examples, config.num_queries)
    batches = [
        tested.replace(tasks=[(plus, minus)]).sample(stream.child(f"task {plus} {minus}"), *sizes)
        for plus, minus in tested.task_pairs
    ]
    return OutlierPrompts.cat(batches)


KIND = ExperimentKind(
    OutlierErrorConfig, run_cell, seconds, "iclab.studies.outliers.error.report:summarise", check, gpu_seconds
)
