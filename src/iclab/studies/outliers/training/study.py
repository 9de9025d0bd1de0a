"""How attention learns from prompts with outliers: loss and attention on the way, and how long a level takes.

Reference: arXiv 2510.00399, its claims on iterations and on where attention concentrates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iclab.config.limits import check_bytes, check_duration
from iclab.errors import InputError
from iclab.experiments.kind import ExperimentKind
from iclab.experiments.sections.base import Setting
from iclab.studies.outliers.learners import check_names
from iclab.studies.outliers.training.config import OutlierTrainingConfig
from iclab.studies.outliers.training.points import Point, points_of

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.experiments.sections.outliers import AttentionLearner
    from iclab.pretraining import HingeRecord

_CURVE_POINTS = 60


def run_cell(config: OutlierTrainingConfig) -> list[Measurement]:
    """Train every learner at every point."""
    return [m for point in points_of(config) for m in _measured(config, point)]


def _measured(config: OutlierTrainingConfig, point: Point) -> Iterator[Measurement]:
    from iclab.prompts import OutlierPrompts
    from iclab.studies.outliers.training.probe import AttentionProbe

    setting = Setting(point.prompts, config.seed)
    for section in config.learners.values():
        learner = point.learner(section)
        model = learner.model(setting.dimension, config.seed)
        training = learner.training
        probe = None
        if not point.keys:
            distribution = learner.prompts.apply(setting.distribution)
            stream = setting.stream.child("evaluation")
            batch = distribution.sample(stream, config.probe_prompts, training.num_examples)
            assert isinstance(batch, OutlierPrompts)  # of the section `prompts`
            probe = AttentionProbe(learner.name, model, batch, training.steps, training.log_every, config.probes)
        options = {"until_loss": min(config.levels)} if point.keys else {}
        _, record = learner.train(setting, model, progress=probe, **options)
        if probe is None:
            yield from _levels(config, learner, record, point)
        else:
            yield from _curves(learner.name, record)
            yield from probe.measurements


def _levels(
    config: OutlierTrainingConfig, learner: AttentionLearner, record: HingeRecord, point: Point
) -> Iterator[Measurement]:
    """Steps to each level; where one is not reached, the steps taken, marked."""
    import numpy as np

    from iclab.evaluation import Measurement
    from iclab.studies.outliers.training.points import crossing

    for level in config.levels:
        steps = crossing(record, level, learner.training.batch_size)
        keys = {**point.keys, "loss_level": level}
        reached = float(steps.state != "right")
        yield Measurement(learner.name, "reached", np.array([[reached]]), keys=keys)
        yield Measurement(learner.name, "steps_to_level", np.array([[steps.value]]), keys=keys)


def _curves(name: str, record: HingeRecord) -> Iterator[Measurement]:
    """Loss and 0-1 error of some windows, spaced geometrically, the first and the last among them."""
    import numpy as np

    from iclab.evaluation import Measurement

    last = len(record.windows)
    for point in sorted({round(float(p)) for p in np.geomspace(1, last, min(last, _CURVE_POINTS))}):
        window = record.windows[point - 1]
        for metric, value in (("training_loss", window.loss), ("training_error", window.error)):
            yield Measurement(name, metric, np.array([[value]]), keys={"step": window.step})


def check(config: OutlierTrainingConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    check_names(config)
    if len(set(config.levels)) < len(config.levels):
        raise InputError(f"levels are {config.levels}; expected distinct losses")
    _check_ignored(config)
    for axis, values in config.vary.model_dump().items():
        if len(set(values)) < len(values):
            raise InputError(f"vary.{axis} is {values}; expected distinct values")
    length = max(section.training.num_examples for section in config.learners.values())
    check_bytes(
        "probe_prompts", config.probe_prompts, 32.0 * config.probe_prompts * length * config.prompts.ambient_dim
    )
    setting = Setting(config.prompts, config.seed)
    for key, section in config.learners.items():
        check_duration(f"learners.{key}.training.steps", section.training.steps, section.fit_seconds(setting))
    for point in points_of(config):
        setting = Setting(point.prompts, config.seed)
        try:
            _ = setting.distribution  # refuses what cannot be drawn
        except InputError as error:
            raise InputError(f"{point.title}: {error}" if point.keys else f"prompts: {error}") from None
        for key, section in config.learners.items():
            if point.keys.get("axis") == "outlier_fraction" and section.prompts.outlier_fraction is not None:
                raise InputError(
                    f"learners.{key}.prompts.outlier_fraction is set and vary.outlier_fraction too; "
                    "leave one of them unset"
                )
            point.learner(section).check(f"learners.{key}", setting)


def _check_ignored(config: OutlierTrainingConfig) -> None:
    """Refuse settings that would change nothing, or that would end the trainings of the seeds at different steps."""
    varied = any(config.vary.model_dump().values())
    for key, section in config.learners.items():
        if section.training.until_loss is not None:
            rule = "a training ends at the lowest of levels" if varied else "seeds would stop at different steps"
            raise InputError(
                f"learners.{key}.training.until_loss is {section.training.until_loss:g}; here {rule}, so leave it out"
            )
    reason = "vary is set, so no attention is looked at" if varied else "nothing is varied, so no level is looked for"
    fields = type(config).model_fields
    for key in ("probes", "probe_prompts") if varied else ("levels",):
        if (found := getattr(config, key)) != fields[key].default:
            remedy = "empty the lists of vary" if varied else "set vary"
            raise InputError(f"{key} is {found} and changes nothing: {reason}; leave it out, or {remedy}")


def seconds(config: OutlierTrainingConfig) -> float:
    """Rough CPU seconds of a cell, as if no training ended early."""
    return 0.3 + sum(
        point.learner(section).fit_seconds(Setting(point.prompts, config.seed))
        for point in points_of(config)
        for section in config.learners.values()
    )


KIND = ExperimentKind(
    OutlierTrainingConfig,
    run_cell,
    seconds,
    "iclab.studies.outliers.training.report:summarise",
    check,
    disk=lambda config: 0.0,
)
