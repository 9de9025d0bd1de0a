"""Deep sequence models as configuration: backbone, layout, and how it is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from iclab.errors import InputError, cut
from iclab.experiments.kind import Config
from iclab.experiments.sections.backbones import Backbone, MambaBackbone
from iclab.experiments.sections.base import LearnerSection, Setting
from iclab.experiments.sections.derived import derived
from iclab.settings import TrainSettings

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from iclab.estimators.base import Learner
    from iclab.evaluation.measurement import Measurement
    from iclab.models import InContextModel
    from iclab.pretraining import Curriculum, Ramp, TrainRecord
    from iclab.prompts import PromptDistribution, Prompts, Stream

_MOST_LAYERS = 1000
_TEST_PROMPTS = 32  # that are measured at a time
_CHECKPOINTS = 20  # of a training; what is lost on a crash is a part of it


class Growth(Config):
    """A scalar that grows in about ``num_steps`` equal steps from ``start`` to the value that the prompts (for
    ``num_examples``: training) have, which it reaches at step ``until``; see `iclab.pretraining.Ramp`.

    Attributes:
        start: value at step 0.
        until: step at which the final value is reached.
        num_steps: number of increases.
    """

    start: int | float = Field(1, ge=0)
    until: int = Field(ge=1)
    num_steps: int = Field(7, ge=1, le=1000)

    def ramp(self, stop: float) -> Ramp:
        """The ramp up to ``stop``; between whole numbers it takes whole steps, which may be fewer or more by rounding.

        Raises:
            InputError: for a ramp that shrinks.
        """
        from iclab.pretraining import Ramp

        if isinstance(stop, float):
            height = (stop - self.start) / self.num_steps
            return Ramp(self.start, stop, height or 1.0, max(1, self.until // self.num_steps))
        height = max(1, round((stop - self.start) / self.num_steps))
        steps = max(1, -(-(stop - self.start) // height))
        return Ramp(self.start, stop, height, max(1, self.until // steps))


_TRAINING: Any = derived(
    TrainSettings,
    without=("loss_on", "num_queries", "curriculum", "log_every"),
    num_examples=32,
    steps=2000,
    learning_rate=1e-3,
)


class Training(_TRAINING):
    """See `iclab.pretraining.train`: Adam on fresh prompts, the loss on every prefix.

    Attributes:
        evaluate_every: steps between evaluations on fixed prompts of the final distribution.
        curriculum: scalars that grow, by their names: ``num_examples`` and those of the prompts.
    """

    evaluate_every: int = Field(100, ge=1)
    curriculum: dict[str, Growth] = Field(default_factory=dict)

    def settings(self, prompts: PromptDistribution) -> TrainSettings:  # type: ignore[override]
        """Return the settings of a training that ends at ``prompts``.

        Raises:
            InputError: for a curriculum that ``prompts`` cannot take, and values that do not fit each other.
        """
        return super().settings(curriculum=self.make_curriculum(prompts))

    def make_curriculum(self, prompts: PromptDistribution) -> Curriculum:
        """The curriculum that ends at ``prompts``; an empty one trains on them throughout.

        Raises:
            InputError: for what is no scalar of ``prompts``, and a ramp that shrinks.
        """
        from iclab.pretraining import Curriculum

        scalars = prompts.scalars()
        if not isinstance(scalars, Mapping):
            raise InputError(
                f"scalars() of {type(prompts).__name__} returns {cut(scalars)}; expected a mapping of names to numbers"
            )
        stops = {"num_examples": self.num_examples, **scalars}
        for name in self.curriculum:
            if name not in stops:
                raise InputError(
                    f"curriculum.{name} is no scalar of {type(prompts).__name__}; expected one of {', '.join(stops)}"
                )
        return Curriculum(**{name: growth.ramp(stops[name]) for name, growth in self.curriculum.items()})


@dataclass(frozen=True)
class TrainedModel:
    """A learner with the record of its training.

    Attributes:
        model: what was trained.
        training_curve: pairs of a step and the error over all prefixes of the evaluation prompts of training, divided
            by that of predicting zero.
    """

    model: InContextModel
    training_curve: tuple[tuple[int, float], ...]

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    def predict(self, prompts: Prompts) -> Tensor:
        """``(B, Q)``, computed where the model is and returned where the prompts are."""
        return self.model.predict(prompts.to(self._device)).to(prompts.inputs.device)

    def predict_prefixes(self, prompts: Prompts) -> Tensor:
        """``(B, N)``, computed where the model is and returned where the prompts are."""
        return self.model.predict_prefixes(prompts.to(self._device)).to(prompts.inputs.device)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


class DeepLearner(LearnerSection):
    """A deep model between read-in and read-out, trained end to end; see `iclab.models.InContextModel`.

    Attributes:
        backbone: the sequence model between read-in and read-out.
        layout: how examples become tokens.
        training: how the model is trained.
    """

    kind: Literal["deep"] = "deep"
    role: Literal["model", "ablation", "baseline"] = "model"
    backbone: Backbone = MambaBackbone()
    layout: Literal["interleaved", "padded", "concatenated"] = "interleaved"
    training: Training = Training()

    def build(self, input_dim: int, lengths: Sequence[int], stream: Stream) -> InContextModel:
        """The model with its initial weights, drawn from ``stream``; positions reach the longest test prompt."""
        import torch

        seed = int(torch.randint(2**62, (), generator=stream.child("initial").at(0)))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self._assemble(input_dim, lengths)

    def _assemble(self, input_dim: int, lengths: Sequence[int]) -> InContextModel:
        from iclab.models import InContextModel

        longest = max(*lengths, self.training.num_examples)
        return InContextModel(input_dim, self.backbone.build(2 * longest + 1), layout=self.layout)

    def fit(self, name: str, setting: Setting) -> tuple[Learner, list[Measurement]]:
        """Measured is the error over all prefixes of training's own evaluation prompts while the model was trained,
        divided by that of predicting zero there."""
        import numpy as np

        from iclab.evaluation import Measurement

        modules = setting.prompts.own_modules()
        trained = self.learner(setting.distribution, setting.stream, setting.num_examples, sorted(modules))
        return trained, [
            Measurement(name, "training_error", np.array([[error]]), keys={"step": step})
            for step, error in trained.training_curve
        ]

    def learner(
        self, prompts: PromptDistribution, stream: Stream, lengths: Sequence[int], modules: Sequence[str] = ()
    ) -> TrainedModel:
        """Train and return the model, on the device of this run. What is left of an earlier attempt is gone on with,
        unless this code or that of ``modules`` changed."""
        from iclab.code_version import code_version
        from iclab.execution import execution
        from iclab.experiments.sections.training_folder import training_folder
        from iclab.pretraining import train

        own = stream.child("deep")
        model = self.build(prompts.ambient_dim, lengths, own)
        with training_folder(self._description(model, prompts, own), code_version(__name__, *modules)) as folder:
            _, record = train(
                model,
                prompts,
                self.training.settings(prompts),
                stream=own,
                device=execution().device,
                folder=folder,
                checkpoint_every=max(1, self.training.steps // _CHECKPOINTS),
                keep=1,
            )
        return TrainedModel(model, tuple(_evaluations(record)))

    def check(self, key: str, setting: Setting) -> None:
        from iclab.pretraining.trainer.phases import Plan

        prompts = setting.distribution
        self.backbone.check(f"{key}.backbone")
        try:
            settings = self.training.settings(prompts)
            Plan(prompts, settings.num_examples, settings.steps, settings.curriculum)
        except InputError as error:
            raise InputError(f"{key}.training: {error}") from None
        self._check_memory(key, prompts.ambient_dim, setting.num_examples)

    def _check_memory(self, name: str, input_dim: int, lengths: Sequence[int]) -> None:
        """Refuse a model, a training step or a test that this machine cannot hold.

        Parameters are counted from tensors without memory; each has a gradient and two moments of Adam.
        """
        import torch

        from iclab.memory import check_memory

        training, backbone = self.training, self.backbone
        width, depth = backbone.width, backbone.depth
        if depth > _MOST_LAYERS:
            raise InputError(f"{name}.backbone.depth is {depth}; expected at most {_MOST_LAYERS}")
        try:
            with torch.device("meta"):
                parameters = self._assemble(input_dim, lengths).num_parameters()
        except InputError as error:
            raise InputError(f"{name}.backbone: {error}") from None
        check_memory(f"{name}.backbone ({parameters:,} parameters, with gradients and Adam)", 16.0 * parameters)
        tokens = 2.0 * training.num_examples * training.batch_size
        step = 80 * tokens * width * depth + backbone.kept_bytes(tokens, training.batch_size)
        check_memory(f"{name} ({tokens:.0f} tokens a step)", 16.0 * parameters + step)
        longest = max(training.num_examples * training.evaluation_prompts, max(lengths) * _TEST_PROMPTS)
        check_memory(f"{name} ({2 * longest} tokens to predict at once)", 4.0 * parameters + 80.0 * longest * width)

    def fit_seconds(self, setting: Setting) -> float:
        training = self.training
        evaluations = training.steps / training.evaluate_every * training.evaluation_prompts / 3
        tokens = 2 * training.num_examples * (training.steps * training.batch_size + evaluations)
        return (tokens * self.backbone.token_work()).seconds()

    def predict_seconds(self, setting: Setting) -> float:
        tokens = float(setting.num_prompts * sum(setting.num_examples))
        return (tokens * self.backbone.token_work()).seconds()

    def _description(self, model: InContextModel, prompts: PromptDistribution, stream: Stream) -> dict[str, Any]:
        """What decides the training: the section but for what figures call it, the prompts, stream and sizes."""
        from iclab.pretraining.trainer.identity import distribution_digest

        return {
            "section": self.model_dump(mode="json", exclude={"label", "role"}),
            "model": model.settings(),
            "ambient_dim": prompts.ambient_dim,
            "scalars": dict(prompts.scalars()),
            "sample": distribution_digest(prompts, stream),
            "seed": stream.seed,
            "stream": stream.path,
        }

    def checkpoint_bytes(self) -> float:
        parameters = self.backbone.token_work().operations / 6  # forward and backward use each three times, two each
        copies = 4 if self.training.average is None else 6  # weights, two moments and the best weights; averages
        return 4.0 * copies * parameters

    def gpu_seconds(self) -> float:
        """Rough seconds of the training on one GPU; see `iclab.experiments.cost.GPU`."""
        training = self.training
        length = 2 * training.num_examples + 1
        step = self.backbone.step_work(float(length * training.batch_size), length)
        evaluation = self.backbone.step_work(float(length * training.evaluation_prompts), length)
        return training.steps * (step.gpu_seconds + evaluation.gpu_seconds / 3 / training.evaluate_every)


def _evaluations(record: TrainRecord) -> Iterator[tuple[int, float]]:
    zero = record.zero_line
    assert zero is not None  # training evaluates
    for line in record.metrics:
        values: Any = line.get("evaluation")
        if values is not None:
            step: Any = line["step"]
            yield int(step), float(values["loss"]) / zero
