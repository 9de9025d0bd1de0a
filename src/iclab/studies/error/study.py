"""In-context error of pretrained models, estimators and oracles against the number of examples, on the same prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from iclab.experiments.kind import ExperimentKind
from iclab.studies.error.checks import EVALUATION_BATCH, check, gpu_seconds, seconds
from iclab.studies.error.config import ErrorConfig
from iclab.studies.error.names import ZERO
from iclab.studies.error.theory import theory_measurements

if TYPE_CHECKING:
    from iclab.estimators.base import Learner
    from iclab.evaluation import Measurement
    from iclab.prompts import Prompts


def run_cell(config: ErrorConfig) -> list[Measurement]:
    """Pretrain or tune every learner, then measure all of them on the same prompts."""
    from iclab.estimators import Zero
    from iclab.evaluation import error_curve
    from iclab.prompts import label_variance

    setting = config.setting
    prompts, stream, longest = setting.distribution, setting.stream, setting.longest
    groups: dict[int, dict[str, Learner]] = {longest: {}}
    measured: list[Measurement] = []
    fits: list[Measurement] = []
    for key, section in config.learners.items():
        learner, found = section.fit(config.names[key], setting)
        fits += found
        # Learners that stop early (kernels cost N^3) are measured on the beginning of the very same prompts.
        groups.setdefault(min(longest, section.longest_context or longest), {})[config.names[key]] = learner
    groups[longest][ZERO] = Zero()
    variance = label_variance(prompts, stream.child("label variance"))

    def batches() -> Iterator[Prompts]:
        for start in range(0, config.num_prompts, EVALUATION_BATCH):
            size = min(EVALUATION_BATCH, config.num_prompts - start)
            yield prompts.sample(stream.child("evaluation"), size, longest, config.num_queries, start=start)

    for reach, learners in sorted(groups.items()):
        lengths = [n for n in config.num_examples if n <= reach]
        curves = error_curve(learners, batches(), lengths, label_variance=variance, signs=prompts.binary_labels)
        measured.extend(m for by_name in curves.values() for curve in by_name.values() for m in curve.measurements())
    return measured + fits + theory_measurements(config)


KIND = ExperimentKind(ErrorConfig, run_cell, seconds, "iclab.studies.error.report:summarise", check, gpu_seconds)
