"""In-context error of pretrained models, estimators and oracles against the number of examples, on the same prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iclab.experiments.kind import ExperimentKind
from iclab.experiments.sections.deep import DeepLearner
from iclab.experiments.sections.learners import KernelRidgeLearner, OneLayer
from iclab.studies.error.checks import EVALUATION_BATCH, check
from iclab.studies.error.config import ErrorConfig
from iclab.studies.error.names import ZERO
from iclab.studies.error.theory import theory_measurements
from iclab.studies.error.tuning import tuning_measurements

if TYPE_CHECKING:
    from iclab.evaluation import Measurement
    from iclab.prompts import Prompts


def run_cell(config: ErrorConfig) -> list[Measurement]:
    """Pretrain or tune every learner, then measure all of them on the same prompts."""
    from iclab.estimators import Zero
    from iclab.evaluation import error_curve
    from iclab.prompts import Stream

    prompts = config.prompts.build(config.seed)
    stream = Stream(config.seed)
    fitted = {name: section.learner(prompts, stream, config.num_examples) for name, section in config.learners.items()}
    zero = {ZERO: Zero()}

    def batches() -> Iterator[Prompts]:
        for start in range(0, config.num_prompts, EVALUATION_BATCH):
            size = min(EVALUATION_BATCH, config.num_prompts - start)
            yield prompts.sample(
                stream.child("evaluation"), size, max(config.num_examples), config.num_queries, start=start
            )

    measured: list[Measurement] = []
    # Learners that stop early (kernels cost N^3) are measured on the beginning of the very same prompts.
    for reach in sorted({_reach(config, name) for name in config.learners} | {max(config.num_examples)}):
        group = {_label(config, name): fitted[name] for name in config.learners if _reach(config, name) == reach}
        lengths = [n for n in config.num_examples if n <= reach]
        group |= zero if reach == max(config.num_examples) else {}
        curves = error_curve(group, batches(), lengths, label_variance=prompts.link.variance)
        measured.extend(m for by_name in curves.values() for curve in by_name.values() for m in curve.measurements())
    return (
        measured
        + _training(config, fitted)
        + _recovery(config, fitted, prompts)
        + _tuning(config, fitted)
        + theory_measurements(config)
    )


def _label(config: ErrorConfig, name: str) -> str:
    return config.learners[name].label or name


def _reach(config: ErrorConfig, name: str) -> int:
    longest = max(config.num_examples)
    return min(longest, getattr(config.learners[name], "max_examples", longest))


def _training(config: ErrorConfig, fitted: dict) -> list[Measurement]:
    """The error of each deep model over all prefixes of training's own evaluation prompts while it was trained, divided
    by that of predicting zero there."""
    import numpy as np

    from iclab.evaluation import Measurement

    measured = []
    for name, section in config.learners.items():
        if isinstance(section, DeepLearner):
            for step, error in fitted[name].training_curve:
                keys = {"step": step}
                measured.append(Measurement(_label(config, name), "training_error", np.array([[error]]), keys=keys))
    return measured


def _tuning(config: ErrorConfig, fitted: dict) -> list[Measurement]:
    """What each kernel was tuned to."""
    return [
        measurement
        for name, section in config.learners.items()
        if isinstance(section, KernelRidgeLearner)
        for measurement in tuning_measurements(_label(config, name), fitted[name])
    ]


def _recovery(config: ErrorConfig, fitted: dict, prompts) -> list[Measurement]:
    """How well each pretrained ``gamma`` singles out the support, where there is one to find."""
    import numpy as np

    from iclab.evaluation import Measurement, support_auc

    if prompts.rotation is not None or prompts.intrinsic_dim == prompts.ambient_dim:
        return []
    measured = []
    for name, section in config.learners.items():
        if isinstance(section, OneLayer):
            model = fitted[name]
            auc = support_auc(model.gamma, model.embedding, prompts.support, prompts.ambient_dim, 1)
            measured.append(Measurement(_label(config, name), "support_auc", np.array([[auc]])))
    return measured


def seconds(config: ErrorConfig) -> float:
    """Rough CPU seconds of a cell."""
    return 0.3 + sum(
        section.seconds(config.prompts.ambient_dim, config.num_examples, config.num_prompts)
        for section in config.learners.values()
    )


def gpu_seconds(config: ErrorConfig) -> float:
    """Rough seconds of the deep models' trainings on one GPU."""
    return sum(section.gpu_seconds() for section in config.learners.values() if isinstance(section, DeepLearner))


KIND = ExperimentKind(ErrorConfig, run_cell, seconds, "iclab.studies.error.report:summarise", check, gpu_seconds)
