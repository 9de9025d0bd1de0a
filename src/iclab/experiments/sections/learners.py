"""Learners as configuration: each kind has a section, and ``build`` returns something with ``predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from iclab.experiments.kind import Config
from iclab.experiments.sections.deep import DeepLearner
from iclab.experiments.sections.single_index import Gate, sampling_seconds

if TYPE_CHECKING:
    from iclab.estimators.base import Learner
    from iclab.estimators.tuning import Tuned
    from iclab.models import OneLayerMamba
    from iclab.prompts import SingleIndex, Stream


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

    def fit(self, model: OneLayerMamba, prompts: SingleIndex, stream: Stream) -> None:
        """Pretrain ``model`` in place."""
        from iclab.pretraining import two_stage

        degrees = [1] if model.embedding == "identity" else self.degrees
        arguments = self.model_dump(exclude={"kind", "degrees"})
        two_stage(model, prompts, stream=stream, degrees=degrees, **arguments)

    def seconds(self, ambient_dim: int, width: int) -> float:
        """Rough seconds on one core."""
        lengths = self.stage2_examples or [self.num_examples]
        rows = self.stage2_tasks * self.stage2_queries
        return (
            sampling_seconds(self.stage1_tasks, self.num_examples, ambient_dim)
            + sampling_seconds(self.stage2_tasks, sum(lengths) / len(lengths), ambient_dim)
            + rows * width**2 * 2e-11
            + width**3 * 3e-9
        )


class Joint(Config):
    """Joint training by Adam; see `iclab.pretraining.joint`."""

    kind: Literal["joint"] = "joint"
    num_examples: int = Field(512, ge=1)
    steps: int = Field(150, ge=1)
    batch_size: int = Field(64, ge=8)
    num_queries: int = Field(8, ge=1)
    learning_rate: float = Field(3e-3, gt=0)
    start_scale: float = Field(0.2, ge=1e-6, le=1e6)

    def fit(self, model: OneLayerMamba, prompts: SingleIndex, stream: Stream) -> None:
        """Train ``model`` in place."""
        from iclab.pretraining import joint

        joint(model, prompts, stream=stream, **self.model_dump(exclude={"kind"}))

    def seconds(self, ambient_dim: int, width: int) -> float:
        """Rough seconds on one core."""
        del width
        return sampling_seconds(self.steps * self.batch_size, self.num_examples, ambient_dim) + self.steps * 4e-3


class OneLayer(Gate):
    """A pretrained one-layer Mamba. ``label`` is what figures call it; its key in the configuration where empty."""

    label: str = ""
    kind: Literal["one_layer"] = "one_layer"
    role: Literal["model", "ablation"] = "model"
    embedding: Literal["hermite2", "identity"] = "hermite2"
    width: int = Field(512, ge=1)
    pretraining: Annotated[TwoStage | Joint, Field(discriminator="kind")] = TwoStage()

    def learner(self, prompts: SingleIndex, stream: Stream, lengths: list[int]) -> OneLayerMamba:
        """Pretrain and return the model."""
        del lengths
        model = self.build(prompts.ambient_dim, self.width, self.embedding)
        self.pretraining.fit(model, prompts, stream.child("pretraining"))
        return model

    def seconds(self, ambient_dim: int, lengths: list[int], num_prompts: int) -> float:
        """Rough seconds on one core, pretraining and evaluation."""
        return self.pretraining.seconds(ambient_dim, self.width) + sampling_seconds(
            num_prompts, sum(lengths), ambient_dim
        )


class KernelRidgeLearner(Config):
    """Kernel ridge regression on the prompt; see `iclab.estimators.KernelRidge`.

    The bandwidth (times the square root of the dimension seen) and the penalty are chosen on tuning prompts of their
    own, once for each of ``tune_examples``.
    """

    label: str = ""
    kind: Literal["kernel_ridge"] = "kernel_ridge"
    role: Literal["baseline"] = "baseline"
    coordinates: Literal["all", "support"] = "all"
    bandwidths: list[Annotated[float, Field(gt=0)]] = Field([0.5, 1.0, 2.0, 4.0], min_length=1)
    penalties: list[Annotated[float, Field(gt=0)]] = Field([1e-4, 1e-2, 1.0], min_length=1)
    tune_prompts: int = Field(32, ge=1)
    tune_examples: list[Annotated[int, Field(ge=1)]] = Field([64, 256, 1024], min_length=1)
    max_examples: int = Field(1024, ge=1)

    def learner(self, prompts: SingleIndex, stream: Stream, lengths: list[int]) -> Tuned:
        """Tune and return the estimator."""
        from iclab.estimators import KernelRidge, tune

        coordinates = None if self.coordinates == "all" else tuple(prompts.support)
        seen = prompts.ambient_dim if coordinates is None else len(coordinates)
        grid = [
            KernelRidge("rbf", penalty, coordinates=coordinates, bandwidth=factor * seen**0.5)
            for factor in self.bandwidths
            for penalty in self.penalties
        ]
        sizes = self.tuning_lengths(lengths)
        batch = prompts.sample(stream.child("tuning"), self.tune_prompts, max(sizes), 8)
        return tune(grid, batch, sizes, source="prompts of its own stream")

    def seconds(self, ambient_dim: int, lengths: list[int], num_prompts: int) -> float:
        """Rough seconds on one core."""
        longest = max([n for n in lengths if n <= self.max_examples], default=1)
        tuned = max(self.tuning_lengths(lengths))
        per_grid = self.tune_prompts * (tuned**3 * 1.2e-11 + tuned**2 * 2e-8)
        return len(self.bandwidths) * len(self.penalties) * per_grid + num_prompts * longest**3 * 3e-11

    def tuning_lengths(self, lengths: list[int]) -> list[int]:
        """The lengths that are tuned at: those of ``tune_examples`` that the curve reaches."""
        longest = max(1, min(self.max_examples, max(lengths)))
        return sorted({min(n, longest) for n in self.tune_examples})


class Oracle(Gate):
    """A learner that is told the support: ``direction_readout`` reads the direction of ``S_1`` optimally,
    ``head_readout`` has the best fixed head; see `iclab.evaluation.DirectionReadout` and `HeadReadout`."""

    label: str = ""
    kind: Literal["direction_readout", "head_readout"] = "direction_readout"
    role: Literal["ceiling"] = "ceiling"
    calibration_tasks: int = Field(512, ge=3)

    def learner(self, prompts: SingleIndex, stream: Stream, lengths: list[int]) -> Learner:
        """The oracle, calibrated on tasks of its own stream."""
        from iclab.evaluation import DirectionReadout, HeadReadout

        model = self.build(prompts.ambient_dim, 1)
        oracle = DirectionReadout if self.kind == "direction_readout" else HeadReadout
        # Without examples the prediction is a constant, which needs no calibration.
        calibrated = [n for n in lengths if n > 0]
        return oracle(model, prompts, stream.child("calibration"), calibrated, self.calibration_tasks)

    def seconds(self, ambient_dim: int, lengths: list[int], num_prompts: int) -> float:
        """Rough seconds on one core."""
        return sampling_seconds(num_prompts + self.calibration_tasks, sum(lengths), ambient_dim)


class SimpleEstimator(Config):
    """An estimator with fixed settings: `iclab.estimators.LeastSquares`, `NearestNeighbours` or `Zero`."""

    label: str = ""
    kind: Literal["least_squares", "nearest_neighbours", "zero"] = "zero"
    role: Literal["baseline"] = "baseline"
    coordinates: Literal["all", "support"] = "all"
    num_neighbours: int = Field(3, ge=1)

    def learner(self, prompts: SingleIndex, stream: Stream, lengths: list[int]) -> Learner:
        """The estimator; nothing is fitted before the prompt."""
        from iclab.estimators import LeastSquares, NearestNeighbours, Zero

        del stream, lengths
        coordinates = None if self.coordinates == "all" else tuple(prompts.support)
        match self.kind:
            case "zero":
                return Zero()
            case "least_squares":
                return LeastSquares(coordinates=coordinates)
            case _:
                return NearestNeighbours(self.num_neighbours, coordinates=coordinates)

    def seconds(self, ambient_dim: int, lengths: list[int], num_prompts: int) -> float:
        """Rough seconds on one core."""
        return num_prompts * max(lengths) * ambient_dim**2 * 2e-9


LearnerSection = Annotated[
    OneLayer | DeepLearner | KernelRidgeLearner | Oracle | SimpleEstimator, Field(discriminator="kind")
]
