"""0-1 error of models trained in context with outliers, over a product of test laws, on the same prompts for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from iclab.experiments.kind import ExperimentKind
from iclab.studies.outliers.error.checks import check, seconds
from iclab.studies.outliers.error.config import OutlierErrorConfig, TestPoint, no_clean_example
from iclab.studies.outliers.names import ERROR, FLOOR, NO_CLEAN_EXAMPLE, TRAINING_LOSS

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.models import TokenModel
    from iclab.prompts import OutlierClassification, OutlierPrompts


def run_cell(config: OutlierErrorConfig) -> list[Measurement]:
    """Train every learner, then measure all of them under every test law."""
    from iclab.evaluation import Measurement

    distribution = config.prompts.build(config.seed)
    models: dict[str, TokenModel] = {}
    measured: list[Measurement] = []
    for section in config.learners.values():
        models[section.name], record = section.fit(config.prompts, config.seed)
        measured.append(Measurement(section.name, TRAINING_LOSS, np.array([[record.final_loss]])))
    for point in config.points():
        measured.extend(_test(config, point, distribution, models))
    return measured


def _test(
    config: OutlierErrorConfig, point: TestPoint, distribution: OutlierClassification, models: Mapping[str, TokenModel]
) -> list[Measurement]:
    from iclab.evaluation import Measurement

    length, keys = point.distribution.num_examples, point.keys
    prompts = evaluation_prompts(config, point, distribution)
    floor = no_clean_example(point.distribution.outlier_fraction, length, point.distribution.sampling)
    measured = [Measurement.exact(NO_CLEAN_EXAMPLE, FLOOR, floor, length, keys)]
    for name, model in models.items():
        # An output of zero is no answer, hence an error.
        wrong = (model.predict(prompts) * prompts.query_targets <= 0).double().mean(1)
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


KIND = ExperimentKind(OutlierErrorConfig, run_cell, seconds, "iclab.studies.outliers.error.report:summarise", check)
