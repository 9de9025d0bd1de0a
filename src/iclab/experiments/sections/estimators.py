"""Estimators as configuration: what learns from the prompt alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from iclab.config.limits import check_bytes, check_duration
from iclab.errors import InputError
from iclab.experiments.sections.base import LearnerSection, Setting, support_of
from iclab.experiments.sections.single_index import check_prompts_fit

if TYPE_CHECKING:
    from iclab.estimators import Estimator
    from iclab.estimators.base import Learner
    from iclab.evaluation.measurement import Measurement

BANDWIDTH, PENALTY = "tuned_bandwidth", "tuned_penalty"
"""Metrics of exact rows: what was chosen at the tuned length ``num_examples``."""


class EstimatorSection(LearnerSection):
    """An estimator with fixed settings, called by its name in `iclab.estimators.ESTIMATORS`.

    ``coordinates: support`` tells it the coordinates that labels depend on.
    """

    kind: str
    role: Literal["model", "baseline"] = "baseline"
    coordinates: Literal["all", "support"] = "all"
    settings: ClassVar[tuple[str, ...]] = ()

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        del name
        return self._make(setting), []

    def check(self, key: str, setting: Setting) -> None:
        if self.coordinates == "support":
            support_of(key, setting)
        try:
            self._make(setting)
        except InputError as error:
            raise InputError(f"{key}: {error}") from None

    def _make(self, setting: Setting) -> Estimator:
        from iclab.estimators import ESTIMATORS

        arguments = {name: getattr(self, name) for name in self.settings}
        coordinates = None if self.coordinates == "all" else setting.distribution.label_support
        return ESTIMATORS[self.kind](coordinates=coordinates, **arguments)

    def fit_seconds(self, setting: Setting) -> float:
        del setting
        return 0.0

    def predict_seconds(self, setting: Setting) -> float:
        return setting.num_prompts * setting.longest * setting.dimension**2 * 2e-9


class LeastSquaresLearner(EstimatorSection):
    """See `iclab.estimators.LeastSquares`."""

    kind: Literal["least_squares"] = "least_squares"


class RidgeLearner(EstimatorSection):
    """Linear ridge regression with a fixed ``penalty``, or ``bayes``: the one that is optimal for linear labels with
    noise of ``noise_variance``; see `iclab.estimators.Ridge`."""

    kind: Literal["ridge"] = "ridge"
    penalty: Annotated[float, Field(ge=0)] | Literal["bayes"] = 1.0
    noise_variance: float | None = Field(None, ge=0)
    signal_variance: float | None = Field(None, gt=0)
    settings: ClassVar[tuple[str, ...]] = ("penalty", "noise_variance", "signal_variance")


class NearestNeighboursLearner(EstimatorSection):
    """See `iclab.estimators.NearestNeighbours`."""

    kind: Literal["nearest_neighbours"] = "nearest_neighbours"
    num_neighbours: int = Field(3, ge=1)
    settings: ClassVar[tuple[str, ...]] = ("num_neighbours",)


class ZeroLearner(LearnerSection):
    """Predicts zero; see `iclab.estimators.Zero`."""

    kind: Literal["zero"] = "zero"
    role: Literal["model", "baseline"] = "baseline"

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        from iclab.estimators import Zero

        return Zero(), []

    def fit_seconds(self, setting: Setting) -> float:
        return 0.0

    def predict_seconds(self, setting: Setting) -> float:
        return 0.0


class KernelRidgeLearner(LearnerSection):
    """Kernel ridge regression on the prompt; see `iclab.estimators.KernelRidge`.

    The bandwidth (times the square root of the dimension seen) and the penalty are chosen on tuning prompts of their
    own, once for each of ``tune_examples``.
    """

    kind: Literal["kernel_ridge"] = "kernel_ridge"
    role: Literal["model", "baseline"] = "baseline"
    coordinates: Literal["all", "support"] = "all"
    bandwidths: list[Annotated[float, Field(gt=0)]] = Field([0.5, 1.0, 2.0, 4.0], min_length=1)
    penalties: list[Annotated[float, Field(gt=0)]] = Field([1e-4, 1e-2, 1.0], min_length=1)
    tune_prompts: int = Field(32, ge=1)
    tune_examples: list[Annotated[int, Field(ge=1)]] = Field([64, 256, 1024], min_length=1)
    max_examples: int = Field(1024, ge=1)

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        """Tune the estimator; measured is what was chosen at each tuned length."""
        from iclab.estimators import KernelRidge, tune
        from iclab.evaluation import Measurement

        prompts = setting.distribution
        coordinates = None if self.coordinates == "all" else prompts.label_support
        seen = prompts.ambient_dim if coordinates is None else len(coordinates)
        grid = [
            KernelRidge("rbf", penalty, coordinates=coordinates, bandwidth=factor * seen**0.5)
            for factor in self.bandwidths
            for penalty in self.penalties
        ]
        sizes = self.tuning_lengths(setting.num_examples)
        batch = prompts.sample(setting.stream.child("tuning"), self.tune_prompts, max(sizes), 8)
        tuned = tune(grid, batch, sizes, source="prompts of its own stream")
        measured = []
        for length, chosen in zip(tuned.record.num_examples, tuned.estimators, strict=True):
            assert isinstance(chosen, KernelRidge)  # of the section's own grid
            bandwidth = float(getattr(chosen.kernel, "bandwidth", float("nan")))
            measured.append(Measurement.exact(name, BANDWIDTH, bandwidth, length))
            measured.append(Measurement.exact(name, PENALTY, chosen.penalty, length))
        return tuned, measured

    def check(self, key: str, setting: Setting) -> None:
        if self.coordinates == "support":
            support_of(key, setting)
        check_bytes(f"{key}.max_examples", self.max_examples, 48.0 * min(self.max_examples, setting.longest) ** 2)
        tuned = max(self.tuning_lengths(setting.num_examples))
        check_prompts_fit(f"{key}.tune_prompts", self.tune_prompts, tuned + 8, setting.dimension)
        grid = len(self.bandwidths) * len(self.penalties)
        check_duration(f"{key}.tune_prompts", self.tune_prompts, grid * self.tune_prompts * tuned**3 * 1.2e-11)

    def fit_seconds(self, setting: Setting) -> float:
        tuned = max(self.tuning_lengths(setting.num_examples))
        per_grid = self.tune_prompts * (tuned**3 * 1.2e-11 + tuned**2 * 2e-8)
        return len(self.bandwidths) * len(self.penalties) * per_grid

    def predict_seconds(self, setting: Setting) -> float:
        longest = max([n for n in setting.num_examples if n <= self.max_examples], default=1)
        return setting.num_prompts * longest**3 * 3e-11

    @property
    def longest_context(self) -> int:
        return self.max_examples

    def tuning_lengths(self, lengths: Sequence[int]) -> list[int]:
        """The lengths that are tuned at: those of ``tune_examples`` that the curve reaches."""
        longest = max(1, min(self.max_examples, max(lengths)))
        return sorted({min(n, longest) for n in self.tune_examples})
