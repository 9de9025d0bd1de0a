"""The one-layer Mamba as configuration: how it is pretrained, and the oracles that bound it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from iclab.config.limits import check_bytes, check_duration
from iclab.errors import InputError
from iclab.experiments.sections.base import LearnerSection, Setting, support_of
from iclab.experiments.sections.derived import derived
from iclab.experiments.sections.single_index import Gate, check_gate, check_prompts_fit, sampling_seconds
from iclab.settings import JointSettings, TwoStageSettings

if TYPE_CHECKING:
    from iclab.estimators.base import Learner
    from iclab.evaluation.measurement import Measurement
    from iclab.models import OneLayerMamba
    from iclab.prompts import PromptDistribution, Stream

_CHUNK = 8


_TWO_STAGE: Any = derived(
    TwoStageSettings,
    num_examples=512,
    stage1_tasks=6000,
    stage2_tasks=4000,
)
_JOINT: Any = derived(JointSettings, num_examples=512, steps=150)


class TwoStage(_TWO_STAGE):
    """Algorithm 1; see `iclab.pretraining.two_stage`."""

    kind: Literal["two_stage"] = "two_stage"

    def fit(self, model: OneLayerMamba, prompts: PromptDistribution, stream: Stream) -> None:
        """Pretrain ``model`` in place."""
        from iclab.pretraining import two_stage

        degrees = (1,) if model.embedding == "identity" else self.degrees
        two_stage(model, prompts, self.settings(degrees=degrees), stream=stream)

    def seconds(self, dim: int, width: int) -> float:
        """Rough seconds on one core."""
        lengths = self.settings().stage2_lengths
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
        try:
            lengths = self.settings().stage2_lengths
        except InputError as error:
            raise InputError(f"{key}.{error}") from None
        if embedding == "identity" and degrees not in ((0, 1, 2), (1,)):
            raise InputError(
                f"{key}.degrees is {list(degrees)} with the identity embedding, which has degree 1 alone; expected "
                "[1], or leave degrees unset"
            )
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


class Joint(_JOINT):
    """Joint training by Adam; see `iclab.pretraining.joint`."""

    kind: Literal["joint"] = "joint"

    def fit(self, model: OneLayerMamba, prompts: PromptDistribution, stream: Stream) -> None:
        """Train ``model`` in place."""
        from iclab.pretraining import joint

        joint(model, prompts, self.settings(), stream=stream)

    def seconds(self, dim: int, width: int) -> float:
        """Rough seconds on one core."""
        del width
        return sampling_seconds(self.steps * self.batch_size, self.num_examples, dim) + self.steps * 4e-3

    def check(self, key: str, embedding: str, setting: Setting) -> None:
        """Refuse what cannot be trained."""
        del embedding
        dim, tokens = setting.dimension, self.num_examples + self.num_queries
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
