"""What the gates of a trained model leave of outliers and of clean examples, by their distance from the query.

Reference: arXiv 2510.00399: ``G <= O(1/poly(M1))`` on outliers, and ``G >= Theta(2^-(j-1))`` on the j-th nearest clean
example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from iclab.config.limits import check_duration
from iclab.errors import InputError
from iclab.experiments.cost import Work
from iclab.experiments.kind import Config, ExperimentKind
from iclab.experiments.sections.base import Setting
from iclab.experiments.sections.outliers import AttentionLearner, OutlierPromptsSection, Size, TestDistribution
from iclab.experiments.sections.single_index import check_prompts_fit
from iclab.studies.outliers.learners import check_names
from iclab.studies.outliers.names import TRAINING_LOSS

if TYPE_CHECKING:
    from iclab.evaluation import Measurement


class OutlierGatesConfig(Config):
    """Gated learners, looked at on one kind of test prompts with outliers of several sizes (kappa_a').

    The decay is fitted on the nearest ``fitted`` clean examples.

    Attributes:
        seed: of all randomness of a cell.
        prompts: what is trained on.
        learners: learners by a short key.
        test: what is tested on.
        outlier_sizes: kappa_a' of the test prompts.
        num_prompts: prompts that a number rests on.
        fitted: nearest clean examples that the decay is fitted on.
    """

    seed: int = Field(0, ge=0)
    prompts: OutlierPromptsSection = OutlierPromptsSection()
    learners: dict[str, AttentionLearner] = Field({"mamba": AttentionLearner()}, min_length=1)
    test: TestDistribution = TestDistribution(outlier_fraction=0.3)
    outlier_sizes: list[Size] = Field([2.0, 4.0, 6.0], min_length=1)
    num_prompts: int = Field(480, ge=8)
    fitted: int = Field(8, ge=3)

    @property
    def setting(self) -> Setting:
        """What the learners are fitted for."""
        return Setting(self.prompts, self.seed, (self.test.num_examples,), self.num_prompts)

    def distribution(self, size: float) -> TestDistribution:
        """The test prompts with outliers of this size."""
        return self.test.model_copy(update={"outlier_size": size})


def run_cell(config: OutlierGatesConfig) -> list[Measurement]:
    """Train every learner, then look at its gates on the same prompts for each size."""
    import numpy as np
    import torch

    from iclab.evaluation import Measurement
    from iclab.studies.outliers.gates.measure import gate_measurements

    setting = config.setting
    distribution = config.prompts.build(config.seed)
    stream = setting.stream.child("evaluation")
    batches = {
        size: config.distribution(size).build(distribution).sample(stream, config.num_prompts, config.test.num_examples)
        for size in config.outlier_sizes
    }
    measured: list[Measurement] = []
    for section in config.learners.values():
        model, record = section.train(setting)
        measured.append(Measurement(section.name, TRAINING_LOSS, np.array([[record.final_loss]])))
        for size, batch in batches.items():
            with torch.no_grad():
                _, attention = model(batch, return_attention=True)
            log_gates = attention.log_gates[:, :, 0]
            measured.extend(gate_measurements(section.name, log_gates, batch.example_outliers, size, config.fitted))
    return measured


def check(config: OutlierGatesConfig) -> None:
    """Refuse what the types allow and the mathematics does not."""
    check_names(config)
    depth = max(section.depth for section in config.learners.values())
    readers = 1 if depth == 1 else config.test.num_examples
    check_prompts_fit(
        "num_prompts", config.num_prompts * readers, config.test.num_examples, config.prompts.ambient_dim + depth
    )
    check_duration("num_prompts", config.num_prompts, seconds(config))
    setting, distribution = config.setting, config.prompts.build(config.seed)
    for key, section in config.learners.items():
        if section.kind != "gated":
            raise InputError(f"learners.{key}.kind is {section.kind!r}, which has no gates; expected 'gated'")
        section.check(f"learners.{key}", setting)
    sizes = config.outlier_sizes
    if len(set(sizes)) < len(sizes):
        raise InputError(f"outlier_sizes are {sizes}; expected distinct sizes")
    if config.test.outlier_size != TestDistribution().outlier_size:
        raise InputError(
            f"test.outlier_size is {config.test.outlier_size:g} and changes nothing: outlier_sizes, here {sizes}, "
            "decides; leave it out and set outlier_sizes"
        )
    if not 0 < config.test.outlier_fraction < 1:
        raise InputError(
            f"test.outlier_fraction is {config.test.outlier_fraction:g}; expected a number between 0 and 1, since "
            "outliers are compared with clean examples"
        )
    if config.fitted > config.test.num_examples * (1 - config.test.outlier_fraction):
        raise InputError(
            f"fitted is {config.fitted} and a context holds about "
            f"{config.test.num_examples * (1 - config.test.outlier_fraction):.3g} clean examples; expected no more"
        )
    for size in sizes:
        try:
            config.distribution(size).build(distribution)
        except InputError as error:
            raise InputError(f"test: {error}") from None


def seconds(config: OutlierGatesConfig) -> float:
    """Rough CPU seconds of a cell."""
    tokens = config.num_prompts * config.test.num_examples * len(config.outlier_sizes)
    depth = sum(section.depth for section in config.learners.values())
    setting = config.setting
    looked_at = Work(calls=10.0 * tokens * depth).seconds()
    return 0.3 + looked_at + sum(s.fit_seconds(setting) for s in config.learners.values())


def disk(config: OutlierGatesConfig) -> float:
    """Rough bytes of the samples of a cell: about three numbers an example, learner and size."""
    numbers = config.num_prompts * config.test.num_examples * len(config.learners) * len(config.outlier_sizes)
    return 8.0 * 3 * numbers


KIND = ExperimentKind(
    OutlierGatesConfig, run_cell, seconds, "iclab.studies.outliers.gates.report:summarise", check, disk=disk
)
