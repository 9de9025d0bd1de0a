"""How far one outlier can mislead a model: the worst that a gradient search finds, beside random and training outliers.

Beyond arXiv 2510.00399, whose outliers are drawn at random; see `iclab.evaluation.worst_outliers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iclab.config.limits import check_bytes, check_duration
from iclab.errors import InputError
from iclab.experiments.kind import ExperimentKind
from iclab.experiments.sections.outliers import TestDistribution
from iclab.studies.outliers.attack.config import OutlierAttackConfig
from iclab.studies.outliers.learners import check_names

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.prompts import OutlierClassification, OutlierPrompts


def run_cell(config: OutlierAttackConfig) -> list[Measurement]:
    """Train every learner, then attack all of them on the same prompts."""
    from iclab.prompts import Stream
    from iclab.studies.outliers.attack.measure import Attacks

    setting = config.setting
    distribution = config.prompts.build(config.seed)
    prompts = attacked_prompts(config, distribution)
    measured = []
    for section in config.learners.values():
        model, _ = section.train(setting)
        attacks = Attacks(config, section.name, model, distribution, prompts, Stream(config.seed).child("attack"))
        for size in config.sizes:
            measured.extend(attacks.measurements(size))
    return measured


def attacked_prompts(config: OutlierAttackConfig, distribution: OutlierClassification) -> OutlierPrompts:
    """``prompts_per_task`` prompts of each task, with one query, so that means over prompts are means over tasks."""
    from iclab.prompts import Stream

    tested = config.test.build(distribution)
    stream = Stream(config.seed).child("evaluation")
    batches = [
        tested.replace(tasks=[pair]).sample(
            stream.child(f"task {pair[0]} {pair[1]}"), config.prompts_per_task, config.test.num_examples
        )
        for pair in tested.task_pairs
    ]
    return batches[0].cat(batches)


def check(config: OutlierAttackConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    check_names(config)
    _check_size(config)
    distribution = config.prompts.build(config.seed)
    setting = config.setting
    for key, section in config.learners.items():
        section.check(f"learners.{key}", setting)
    if len(set(config.sizes)) < len(config.sizes):
        raise InputError(f"sizes are {config.sizes}; expected distinct sizes")
    try:
        config.test.build(distribution)
    except InputError as error:
        raise InputError(f"test: {error}") from None
    _check_ignored(config)


def _check_size(config: OutlierAttackConfig) -> None:
    count, length = config.prompts_per_task * config.prompts.num_tasks(config.test.tasks), config.test.num_examples
    deep = max(section.depth for section in config.learners.values()) > 1
    numbers = 16.0 * count * length * (length * (length if deep else 1) + 4 * config.prompts.ambient_dim)
    check_bytes("prompts_per_task", config.prompts_per_task, numbers)
    check_duration("prompts_per_task", config.prompts_per_task, seconds(config))


def _check_ignored(config: OutlierAttackConfig) -> None:
    """Refuse what describes the outliers of a context that has none."""
    if config.test.outlier_fraction > 0:
        return
    usual = TestDistribution()
    for key in ("outlier_size", "orthogonal", "placement"):
        if (found := getattr(config.test, key)) != getattr(usual, key):
            shown = found if isinstance(found, str) else f"{found:g}"
            raise InputError(
                f"test.{key} is {shown} and changes nothing: test.outlier_fraction is 0, and the size of the attack's "
                "outlier is in sizes; leave it out, or set test.outlier_fraction"
            )


def seconds(config: OutlierAttackConfig) -> float:
    """Rough CPU seconds of a cell."""
    count = config.prompts_per_task * config.prompts.num_tasks(config.test.tasks)
    length, dim = config.test.num_examples, config.prompts.ambient_dim
    setting, attack = config.setting, 0.0
    for section in config.learners.values():
        readers = 1 if section.depth == 1 else length
        token = 4e-9 * dim + section.depth * (1.5e-8 * readers + 1e-9 * dim * (dim if readers > 1 else 4))
        attack += config.draws * len(config.sizes) * 4 * count * length * length * token
    return 0.3 + attack + sum(section.fit_seconds(setting) for section in config.learners.values())


KIND = ExperimentKind(OutlierAttackConfig, run_cell, seconds, "iclab.studies.outliers.attack.report:summarise", check)
