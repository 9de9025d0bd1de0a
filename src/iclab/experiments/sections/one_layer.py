"""The one-layer Mamba as configuration: how it is pretrained, and the oracles that bound it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from iclab.config.limits import check_bytes, check_duration
from iclab.errors import InputError
from iclab.experiments.kind import Config
from iclab.experiments.sections.base import LearnerSection, Setting, support_of
from iclab.experiments.sections.single_index import Gate, check_gate, check_prompts_fit, sampling_seconds

if TYPE_CHECKING:
    from iclab.estimators.base import Learner
    from iclab.evaluation.measurement import Measurement
    from iclab.models import OneLayerMamba
    from iclab.prompts import PromptDistribution, Stream

_CHUNK = 8


class TwoStage(Config):
    """Algorithm 1; see `iclab.pretraining.two_stage`."""

    kind: Literal["two_stage"] = "two_stage"
    num_examples: int = Field(512, ge=1)
    stage1_tasks: int = Field(6000, ge=1)
    stage2_tasks: int = Field(4000, ge=1)
    stage2_examples: list[Annotated[int, Field(ge=1)]] | None = Field(None, min_length=1)
    stage2_queries: int = Field(8, ge=1)
    start_scale: float = Field(0.2, ge=1e-6, le=1e6)
    lambda2: float | None = Field(None, gt=0)
    degrees: list[int] = Field([0, 1, 2], min_length=1)

    def fit(self, model: OneLayerMamba, prompts: PromptDistribution, stream: Stream) -> None:
        """Pretrain ``model`` in place."""
        from iclab.pretraining import two_stage

        degrees = [1] if model.embedding == "identity" else self.degrees
        arguments = self.model_dump(exclude={"kind", "degrees"})
        two_stage(model, prompts, stream=stream, degrees=degrees, **arguments)

    def seconds(self, dim: int, width: int) -> float:
        """Rough seconds on one core."""
        lengths = self.stage2_examples or [self.num_examples]
        rows = self.stage2_tasks * self.stage2_queries
        return (
            sampling_seconds(self.stage1_tasks, self.num_examples, dim)
            + sampling_seconds(self.stage2_tasks, sum(lengths) / len(lengths), dim)
            + rows * width**2 * 2e-11
            + width**3 * 3e-9
        )

    def check(self, key: str, embedding: str, setting: Setting) -> None:
        """Refuse what cannot be pretrained."""
        dim, degrees = setting.dimension, self.degrees
        if setting.distribution.binary_labels:
            raise InputError(
                f"{key}.kind is 'two_stage': Algorithm 1 regresses real labels, and those of "
                f"{type(setting.distribution).__name__} are +1 and -1; take {key}.kind=joint, or another learner"
            )
        if not set(degrees) <= {0, 1, 2} or len(set(degrees)) < len(degrees):
            raise InputError(f"{key}.degrees is {degrees}; expected some of 0, 1, 2, each once")
        if embedding == "identity" and degrees not in ([0, 1, 2], [1]):
            raise InputError(
                f"{key}.degrees is {degrees} with the identity embedding, which has degree 1 alone; expected [1], or "
                "leave degrees unset"
            )
        lengths = self.stage2_examples or [self.num_examples]
        rows = self.stage2_tasks * self.stage2_queries
        check_prompts_fit(f"{key}.stage2_examples", 64, max(lengths), dim)
        check_bytes(f"{key}.stage2_queries", self.stage2_queries, 12.0 * _CHUNK * self.stage2_queries * dim)
        seconds = sampling_seconds(self.stage1_tasks, self.num_examples, dim)
        check_duration(f"{key}.stage1_tasks", self.stage1_tasks, seconds)
        seconds = sampling_seconds(self.stage2_tasks, sum(lengths) / len(lengths), dim)
        check_duration(f"{key}.stage2_tasks", self.stage2_tasks, seconds)
        # Value and label of every query are held until the ridge regression, as float32 and, for a quantile, float64.
        costly = "stage2_queries" if self.stage2_queries > self.stage2_tasks else "stage2_tasks"
        check_bytes(f"{key}.{costly}", getattr(self, costly), 24.0 * rows)


class Joint(Config):
    """Joint training by Adam; see `iclab.pretraining.joint`."""

    kind: Literal["joint"] = "joint"
    num_examples: int = Field(512, ge=1)
    steps: int = Field(150, ge=1)
    batch_size: int = Field(64, ge=8)
    num_queries: int = Field(8, ge=1)
    learning_rate: float = Field(3e-3, gt=0)
    start_scale: float = Field(0.2, ge=1e-6, le=1e6)

    def fit(self, model: OneLayerMamba, prompts: PromptDistribution, stream: Stream) -> None:
        """Train ``model`` in place."""
        from iclab.pretraining import joint

        joint(model, prompts, stream=stream, **self.model_dump(exclude={"kind"}))

    def seconds(self, dim: int, width: int) -> float:
        """Rough seconds on one core."""
        del width
        return sampling_seconds(self.steps * self.batch_size, self.num_examples, dim) + self.steps * 4e-3

    def check(self, key: str, embedding: str, setting: Setting) -> None:
        """Refuse what cannot be trained."""
        del embedding
        dim, tokens = setting.dimension, self.num_examples + self.num_queries
        if self.batch_size % _CHUNK:
            raise InputError(f"{key}.batch_size is {self.batch_size}; expected a multiple of {_CHUNK}")
        check_bytes(f"{key}.num_queries", self.num_queries, 12.0 * _CHUNK * tokens * dim)
        check_bytes(f"{key}.batch_size", self.batch_size, 12.0 * self.batch_size * tokens)
        seconds = sampling_seconds(self.steps * self.batch_size, self.num_examples, dim)
        check_duration(f"{key}.steps", self.steps, seconds)


class OneLayer(Gate, LearnerSection):
    """A pretrained one-layer Mamba; see `iclab.models.OneLayerMamba`."""

    kind: Literal["one_layer"] = "one_layer"
    role: Literal["model", "ablation", "baseline"] = "model"
    embedding: Literal["hermite2", "identity"] = "hermite2"
    width: int = Field(512, ge=1)
    pretraining: Annotated[TwoStage | Joint, Field(discriminator="kind")] = TwoStage()

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        """Also measured is how well ``gamma`` singles out the support, where there is one to find."""
        import numpy as np

        from iclab.evaluation import Measurement, support_auc

        prompts = setting.distribution
        model = self.build(prompts.ambient_dim, self.width, self.embedding)
        self.pretraining.fit(model, prompts, setting.stream.child("pretraining"))
        support = prompts.label_support
        if support is None or len(support) == prompts.ambient_dim:
            return model, []
        auc = support_auc(model.gamma, model.embedding, support, prompts.ambient_dim, 1)
        return model, [Measurement(name, "support_auc", np.array([[auc]]))]

    def check(self, key: str, setting: Setting) -> None:
        check_gate(key, self, setting)
        check_prompts_fit(f"{key}.pretraining", 64, self.pretraining.num_examples, setting.dimension)
        check_bytes(f"{key}.width", self.width, 5 * 8.0 * self.width**2)
        self.pretraining.check(f"{key}.pretraining", self.embedding, setting)

    def fit_seconds(self, setting: Setting) -> float:
        return self.pretraining.seconds(setting.dimension, self.width)

    def predict_seconds(self, setting: Setting) -> float:
        return sampling_seconds(setting.num_prompts, sum(setting.num_examples), setting.dimension)


class Oracle(Gate, LearnerSection):
    """A learner that is told the support: ``direction_readout`` reads the direction of ``S_1`` optimally,
    ``head_readout`` has the best fixed head; see `iclab.evaluation.DirectionReadout` and `HeadReadout`."""

    kind: Literal["direction_readout", "head_readout"] = "direction_readout"
    role: Literal["ceiling"] = "ceiling"
    calibration_tasks: int = Field(512, ge=3)

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        """Calibrate the oracle on tasks of its own stream."""
        from iclab.evaluation import DirectionReadout, HeadReadout

        del name
        model = self.build(setting.dimension, 1)
        # Without examples the prediction is a constant, which needs no calibration.
        lengths = [n for n in setting.num_examples if n > 0]
        oracle = DirectionReadout if self.kind == "direction_readout" else HeadReadout
        stream = setting.stream.child("calibration")
        return oracle(model, setting.distribution, stream, lengths, self.calibration_tasks), []  # type: ignore[arg-type]

    def check(self, key: str, setting: Setting) -> None:
        support_of(key, setting)
        if self.kind == "direction_readout":
            _check_gaussian(key, setting)
        check_gate(key, self, setting)
        tasks, lengths = self.calibration_tasks, setting.num_examples
        seconds = sampling_seconds(tasks, sum(lengths), setting.dimension)
        check_duration(f"{key}.calibration_tasks", tasks, seconds)
        check_bytes(f"{key}.calibration_tasks", tasks, 8.0 * 48 * tasks * len(lengths))

    def fit_seconds(self, setting: Setting) -> float:
        return sampling_seconds(self.calibration_tasks, sum(setting.num_examples), setting.dimension)

    def predict_seconds(self, setting: Setting) -> float:
        return sampling_seconds(setting.num_prompts, sum(setting.num_examples), setting.dimension)


def _check_gaussian(key: str, setting: Setting) -> None:
    from iclab.prompts import SingleIndex

    prompts = setting.distribution
    if not isinstance(prompts, SingleIndex):
        raise InputError(
            f"{key} reads a single-index link, which {type(prompts).__name__} does not have; take kind head_readout or "
            "leave it out"
        )
    if prompts.inputs.kind != "gaussian" or prompts.inputs.covariance is not None:
        raise InputError(
            f"{key} is optimal for gaussian inputs and prompts.inputs is {prompts.inputs.kind!r}; take kind "
            "head_readout or leave it out"
        )
