"""The configuration of a cell of the outlier error experiment, and the test distributions that it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated

from pydantic import Field

from iclab.experiments.kind import Config
from iclab.experiments.sections.base import Setting
from iclab.experiments.sections.learners import AnyLearner
from iclab.experiments.sections.outliers import (
    ONE_LAYER_MODELS,
    Coefficients,
    Fraction,
    LabelRule,
    OutlierPromptsSection,
    Placement,
    Sampling,
    Size,
    TestDistribution,
)

VECTORS = "outlier_vectors"
"""The column that holds which of the named outliers of ``axes.outlier_vectors`` a number is of."""


class OutlierVectors(Config):
    """Outliers of a test distribution: combinations of the patterns (``null``: each pattern alone) and the length of
    what they have orthogonal to all patterns."""

    coefficients: Coefficients | None = None
    orthogonal: Size = 0.0


class TestAxes(Config):
    """What is varied at test time: the product of all axes. An axis that is ``null`` stays as ``test`` has it."""

    __test__ = False  # pytest takes classes called Test... for tests

    num_examples: list[Annotated[int, Field(ge=1, le=1_000_000)]] | None = Field(None, min_length=1)
    outlier_fraction: list[Fraction] | None = Field([0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], min_length=1)
    label_rule: list[LabelRule] | None = Field(None, min_length=1)
    outlier_size: list[Size] | None = Field(None, min_length=1)
    irrelevant_range: list[Size] | None = Field(None, min_length=1)
    placement: list[Placement] | None = Field(None, min_length=1)
    sampling: list[Sampling] | None = Field(None, min_length=1)
    input_noise: list[Size] | None = Field(None, min_length=1)
    outlier_vectors: dict[str, OutlierVectors] | None = Field(None, min_length=1)


@dataclass(frozen=True)
class TestPoint:
    """A test distribution, and what a measurement says of it as keys: the values of all axes, varied or not."""

    __test__ = False

    distribution: TestDistribution
    keys: dict[str, str | int | float]


class OutlierErrorConfig(Config):
    """Learners by a short key, trained on ``prompts`` and tested on the same prompts of every test distribution.

    The errors are means over all tasks: every task has ``prompts_per_task`` prompts of ``num_queries``
    queries.
    """

    seed: int = Field(0, ge=0)
    prompts: OutlierPromptsSection = OutlierPromptsSection()
    learners: dict[str, AnyLearner] = Field({**ONE_LAYER_MODELS}, min_length=1)
    test: TestDistribution = TestDistribution()
    axes: TestAxes = TestAxes()
    prompts_per_task: int = Field(16, ge=1)
    num_queries: int = Field(4, ge=1)

    @property
    def num_prompts(self) -> int:
        """Of each test distribution."""
        return self.prompts.num_tasks(self.test.tasks) * self.prompts_per_task

    @property
    def setting(self) -> Setting:
        """What the learners are fitted for."""
        lengths = sorted({point.distribution.num_examples for point in self.points()})
        return Setting(self.prompts, self.seed, tuple(lengths), self.num_prompts, self.num_queries)

    def points(self) -> Iterator[TestPoint]:
        """The product of the axes, in their order."""
        axes = {name: values for name in TestAxes.model_fields if (values := getattr(self.axes, name)) is not None}
        for values in product(*axes.values()):
            chosen = dict(zip(axes, values, strict=True))
            changes = dict(chosen)
            if self.axes.outlier_vectors is not None:
                changes |= self.axes.outlier_vectors[changes.pop(VECTORS)].model_dump()
            distribution = self.test.model_copy(update=changes)
            # Every number says what it was tested on, varied or not: no column can be taken for one of training.
            keys = {name: chosen.get(name, getattr(distribution, name, None)) for name in TestAxes.model_fields}
            # `num_examples` is a column of every table and no further key.
            del keys["num_examples"]
            yield TestPoint(distribution, {name: value for name, value in keys.items() if value is not None})


def no_clean_example(fraction: float, num_examples: int, sampling: str) -> float:
    """The probability that all of ``num_examples`` are outliers."""
    if sampling == "iid":
        return fraction**num_examples
    return float(int(fraction * num_examples + 0.5) == num_examples)
