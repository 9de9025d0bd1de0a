"""Sections of the outlier experiments' configuration (arXiv 2510.00399): training and test distributions, learners.

The defaults are the paper's constants where it states them; the documentation gives reasons for the others.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from iclab.config.limits import check_bytes, check_duration
from iclab.errors import InputError
from iclab.experiments.kind import Config
from iclab.experiments.sections.base import LearnerSection, PromptsSection, Setting, refuse_real_labels
from iclab.experiments.sections.derived import derived
from iclab.settings import HingeSettings

if TYPE_CHECKING:
    from torch import Tensor

    from iclab.estimators.base import Learner
    from iclab.evaluation.measurement import Measurement
    from iclab.models import TokenModel
    from iclab.pretraining import HingeRecord
    from iclab.prompts import OutlierClassification, PromptDistribution

Tasks = Literal["all", "cycle"] | Annotated[int, Field(ge=1)] | list[list[int]]
LabelRule = Literal["random", "flipped", "target"]
Placement = Literal["random", "farthest", "closest"]
Sampling = Literal["iid", "fixed_count"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Size = Annotated[float, Field(ge=0, le=1e6)]
Coefficients = Annotated[list[list[float]], Field(min_length=1)]

TRAINING_LOSS = "training_loss"
"""Metric: the mean hinge loss of the last window of a training."""

PAPER_COEFFICIENTS = [[0.7, 0.6, -0.4], [0.4, 0.7, -0.6], [-0.7, 0.5, 0.5]]
"""The test outliers of the paper's experiments, as combinations of its three outlier patterns."""

_NAMES = {"gated": "Mamba", "linear": "linear Transformer", "softmax": "softmax attention"}


class OutlierPromptsSection(PromptsSection):
    """Two-class prompts with outliers; see `iclab.prompts.OutlierClassification`. ``outlier_fraction`` is p_a,
    ``outlier_size`` kappa_a, ``irrelevant_range`` K."""

    kind: Literal["outlier_classification"] = "outlier_classification"
    ambient_dim: int = Field(30, ge=1, le=10_000)
    relevant: int = Field(6, ge=2)
    irrelevant: int = Field(10, ge=0)
    outliers: int = Field(3, ge=1)
    norm: float = Field(3.0, gt=0, le=1e6)
    outlier_norm: float | None = Field(None, gt=0, le=1e6)
    tasks: Tasks = "all"
    outlier_fraction: Fraction = 0.6
    outlier_size: Size = 2.0
    irrelevant_range: Size = 0.5
    label_rule: LabelRule = "random"
    target_label: Literal[1, -1] = 1
    coefficients: Coefficients | None = None
    orthogonal: Size = 0.0
    placement: Placement = "random"
    sampling: Sampling = "iid"
    input_noise: Size = 0.0

    def build(self, seed: int) -> OutlierClassification:
        """Return the prompt distribution; its patterns, and a random set of tasks, are drawn from ``seed``."""
        # An orthogonal matrix with its decomposition, and a pair of integers for each task.
        check_bytes("prompts.ambient_dim", self.ambient_dim, 24.0 * self.ambient_dim**2)
        check_bytes("prompts.relevant", self.relevant, 150.0 * self.num_tasks(self.tasks))
        return _distribution(self.model_dump_json(exclude={"kind"}), seed)

    def dimension(self, seed: int) -> int:
        return self.ambient_dim

    def typical_labels(self, seed: int) -> Tensor:
        import torch

        return torch.tensor([-1.0, 1.0])

    def draw_seconds(self, seed: int, num_prompts: float, length: float) -> float:
        return num_prompts * length * (1.5e-7 + self.ambient_dim * 3e-9)

    def num_tasks(self, tasks: Tasks) -> int:
        """How many ``tasks`` are, over these patterns."""
        if isinstance(tasks, str):
            return self.relevant * (self.relevant - 1) if tasks == "all" else self.relevant
        return tasks if isinstance(tasks, int) else len(tasks)


@lru_cache(maxsize=1)
def _distribution(settings: str, seed: int) -> OutlierClassification:
    """A distribution is a value: all learners of a cell share one, whose patterns take a while to draw."""
    from iclab.prompts import OutlierClassification

    return OutlierClassification(**json.loads(settings), seed=seed)


class TrainingChanges(Config):
    """What one learner is trained on otherwise than the section ``prompts`` says; ``null`` keeps what stands there."""

    tasks: Tasks | None = None
    outlier_fraction: Fraction | None = None
    outlier_size: Size | None = None
    irrelevant_range: Size | None = None
    label_rule: LabelRule | None = None
    target_label: Literal[1, -1] | None = None
    coefficients: Coefficients | None = None
    orthogonal: Size | None = None
    placement: Placement | None = None
    sampling: Sampling | None = None
    input_noise: Size | None = None

    def apply(self, distribution: PromptDistribution) -> PromptDistribution:
        """Return the changed distribution, over the same patterns.

        Raises:
            InputError: for a distribution without outliers, and what its ``replace`` refuses.
        """
        from iclab.prompts.two_class import TwoClassDistribution

        changes = self.model_dump(exclude_none=True)
        if not changes:
            return distribution
        if not isinstance(distribution, TwoClassDistribution):
            raise InputError(f"a {type(distribution).__name__} has no {next(iter(changes))} to change; leave it out")
        return distribution.replace(**changes)


class TestDistribution(Config):
    """What is tested on: what it has otherwise than the training prompts, whose patterns it shares.

    ``outlier_fraction`` is alpha, ``outlier_size`` kappa_a', ``irrelevant_range`` K' (the paper has K' > 1 and no
    number) and ``num_examples`` l_ts. ``coefficients: null`` takes the training outliers, one pattern each.
    """

    __test__: ClassVar[bool] = False  # pytest takes classes called Test... for tests

    num_examples: int = Field(20, ge=1, le=1_000_000)
    tasks: Tasks = "all"
    outlier_fraction: Fraction = 0.5
    outlier_size: Size = 2.0
    irrelevant_range: Size = 2.0
    label_rule: LabelRule = "flipped"
    target_label: Literal[1, -1] = 1
    coefficients: Coefficients | None = PAPER_COEFFICIENTS
    orthogonal: Size = 0.0
    placement: Placement = "random"
    sampling: Sampling = "iid"
    input_noise: Size = 0.0

    def build(self, training_distribution: OutlierClassification) -> OutlierClassification:
        """Return the test distribution over the patterns of ``training_distribution``, whatever else that has."""
        return training_distribution.replace(**self.model_dump(exclude={"num_examples"}))


_HINGE: Any = derived(HingeSettings, without=("num_queries", "gradients"))


class HingeTraining(_HINGE):
    """Plain SGD on the hinge loss; see `iclab.pretraining.hinge_sgd`. ``num_examples`` is l_tr."""

    num_examples: int = Field(HingeSettings.num_examples, ge=1, le=1_000_000)
    learning_rate: float = Field(HingeSettings.learning_rate, gt=0, le=1e3)
    gate_learning_rate: float | None = Field(None, ge=0, le=1e4)


class AttentionLearner(LearnerSection):
    """A model trained by plain SGD: ``gated`` (Mamba), ``linear`` or ``softmax`` attention, of one layer or several.

    ``start: null`` is the model's own: 0.2 for one layer, the paper's. ``prompts`` changes the training prompts
    of this learner alone.
    """

    kind: Literal["gated", "linear", "softmax"] = "gated"
    depth: int = Field(1, ge=1, le=100)
    start: float | None = Field(None, gt=0, le=100)
    training: HingeTraining = HingeTraining()
    prompts: TrainingChanges = TrainingChanges()

    @property
    def name(self) -> str:
        """The label, or what the model is."""
        layers = "" if self.depth == 1 else f", {self.depth} layers"
        return self.label or f"{_NAMES[self.kind]}{layers}"

    def model(self, ambient_dim: int, seed: int) -> TokenModel:
        """The model before training."""
        from iclab.models import AttentionStack, GatedLinearAttention, SoftmaxAttention
        from iclab.prompts import Stream

        start: dict[str, Any] = {} if self.start is None else {"start": self.start}
        stream = Stream(seed).child("model")
        if self.depth > 1:
            return AttentionStack(ambient_dim, self.kind, self.depth, stream=stream, **start)
        if self.kind == "softmax":
            return SoftmaxAttention(ambient_dim, **start)
        return GatedLinearAttention(ambient_dim, gated=self.kind == "gated", stream=stream, **start)

    def train(
        self, setting: Setting, model: TokenModel | None = None, **options: Any
    ) -> tuple[TokenModel, HingeRecord]:
        """Train a model. All learners of one seed see the same stream of prompts, up to what their prompts differ in.

        Args:
            setting: its prompts and seed are used.
            model: what `model` gave, for those who look at it while it is trained; ``None`` makes one.
            options: of `hinge_sgd`, such as ``progress``; they go before the section's own.

        Returns:
            The trained model and the record of its training.
        """
        from iclab.pretraining import hinge_sgd

        distribution = self.prompts.apply(setting.distribution)
        model = model or self.model(setting.dimension, setting.seed)
        stream = setting.stream.child("pretraining")
        return hinge_sgd(model, distribution, self.training.settings(), stream=stream, **options)

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        """Measured is the loss that the training ended with."""
        import numpy as np

        from iclab.evaluation import Measurement

        model, record = self.train(setting)
        return model, [Measurement(name, TRAINING_LOSS, np.array([[record.final_loss]]))]

    def check(self, key: str, setting: Setting) -> None:
        training, dim = self.training, setting.dimension
        tokens = float(training.batch_size * (training.num_examples + 1))
        readers = 1 if self.depth == 1 else training.num_examples + 1
        check_bytes(f"{key}.depth", self.depth, 4.0 * self.depth * 3 * (dim + 1) ** 2)
        check_bytes(f"{key}.training.batch_size", training.batch_size, 16.0 * tokens * (dim + 3))
        attention = 16.0 * self.depth * training.batch_size * training.num_examples * readers
        check_bytes(f"{key}.training.num_examples", training.num_examples, attention)
        check_duration(f"{key}.training.steps", training.steps, self.fit_seconds(setting))
        refuse_real_labels(key, setting)
        try:
            self.prompts.apply(setting.distribution)
        except InputError as error:
            raise InputError(f"{key}.prompts: {error}") from None

    def fit_seconds(self, setting: Setting) -> float:
        training, dim = self.training, setting.dimension
        numbers = training.batch_size * (training.num_examples + 1.0)
        step = 8e-4 + numbers * (1.5e-7 + dim * 3e-9)
        if self.depth == 1:
            return training.steps * step
        pairs = numbers * (training.num_examples + 1)
        layer = 1.6e-3 + numbers * (dim + 1) ** 2 * 3e-10 + pairs * 1.5e-8
        gates = 1.4 if self.kind == "gated" else 1.0
        return training.steps * (step + gates * self.depth * layer)

    def predict_seconds(self, setting: Setting) -> float:
        dim, total = setting.dimension, 0.0
        for examples in setting.num_examples:
            tokens = setting.num_prompts * float(examples + setting.num_queries)
            total += self.depth * tokens * (dim * dim * 2e-10 + (examples if self.depth > 1 else 1) * 5e-9)
        return total


ONE_LAYER_MODELS = {
    "mamba": AttentionLearner(),
    "linear": AttentionLearner(kind="linear", role="ablation"),
    "softmax": AttentionLearner(kind="softmax", role="baseline"),
}
"""The three models that the paper compares, by a short key."""
