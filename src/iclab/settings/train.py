"""Settings of `iclab.pretraining.train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from iclab.errors import InputError
from iclab.settings.curriculum import Curriculum
from iclab.settings.fields import Count, Limits, Positive, as_json, check_fields
from iclab.settings.schedule import LearningRate


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Everything that the result of `iclab.pretraining.train` depends on, beside the model, prompts and stream.

    Defaults are the field's usual recipe (arXiv 2208.01066): Adam at 1e-4, batches of 64, the loss on every prefix.
    That recipe has 500,001 steps and a curriculum besides.

    Attributes:
        num_examples: N, examples of a prompt that training ends with.
        steps: steps of the optimiser.
        batch_size: prompts of a step, over all processes and micro-batches; a multiple of 8, the unit in which they are
            drawn.
        learning_rate: of the optimiser, after the warm-up.
        optimiser: Adam, or Adam with decoupled weight decay.
        betas: of the optimiser: decays of its two moments.
        epsilon: of the optimiser: added to the root of the second moment.
        weight_decay: of the optimiser. It spares vectors and what the model's groups spare; with ``adam`` it is the
            gradient of a squared norm, as in torch.
        warmup_steps: steps of linear growth of the rate, fewer than ``steps``; Transformers need them where Mamba does
            not.
        schedule: shape of the rate after the warm-up.
        final_scale: share of the rate that the schedule ends at.
        clip_norm: largest norm of the gradient; ``None`` does not clip. One is the usual choice: rare prompts with huge
            labels (any link that is a polynomial has them) would otherwise decide a step.
        loss_on: ``prefixes``, where column k predicts example k from those before it (every example teaches), or
            ``queries``, with ``num_queries`` after the whole context, as in the theory.
        num_queries: Q, queries of a prompt where the loss is on queries.
        curriculum: scalars of the prompt distribution that grow, see `Curriculum`; ``None`` or an empty one trains on
            the final distribution throughout.
        average: decay of an exponential moving average of the weights, such as 0.999; then the model is evaluated with
            and returned with the averages.
        autocast: precision of the model's matrix products; the loss stays in float32.
        evaluate_every: steps between evaluations on ``evaluation_prompts`` fixed prompts of the final distribution,
            which choose the best checkpoint; ``None`` for none.
        evaluation_prompts: number of those prompts.
        log_every: steps of a line of metrics, which holds means over them. On a GPU, numbers are read only then.

    Raises:
        InputError: for values out of range.
    """

    num_examples: Count
    steps: Count
    batch_size: Annotated[int, Limits(ge=8, multiple_of=8)] = 64
    learning_rate: Positive = 1e-4
    optimiser: Literal["adam", "adamw"] = "adam"
    betas: tuple[Annotated[float, Limits(ge=0, lt=1)], Annotated[float, Limits(ge=0, lt=1)]] = (0.9, 0.999)
    epsilon: Positive = 1e-8
    weight_decay: Annotated[float, Limits(ge=0)] = 0.0
    warmup_steps: Annotated[int, Limits(ge=0)] = 0
    schedule: Literal["constant", "cosine", "linear"] = "constant"
    final_scale: Annotated[float, Limits(ge=0, le=1)] = 0.0
    clip_norm: Positive | None = 1.0
    loss_on: Literal["prefixes", "queries"] = "prefixes"
    num_queries: Count = 1
    curriculum: Curriculum = Curriculum()  # noqa: RUF009 (it is frozen)
    average: Annotated[float, Limits(gt=0, lt=1)] | None = None
    autocast: Literal["bfloat16"] | None = None
    evaluate_every: Count | None = None
    evaluation_prompts: Count = 256
    log_every: Count = 10

    def __post_init__(self) -> None:
        if self.curriculum is None:
            object.__setattr__(self, "curriculum", Curriculum())
        check_fields(self)
        if self.warmup_steps >= self.steps:
            raise InputError(
                f"warmup_steps is {self.warmup_steps} and steps {self.steps}; expected a warm-up that ends in training"
            )

    @property
    def rate(self) -> LearningRate:
        """The learning rate of each step."""
        return LearningRate(self.learning_rate, self.steps, self.warmup_steps, self.schedule, self.final_scale)

    @property
    def drawn_queries(self) -> int:
        """Queries of each prompt: none where the loss is on prefixes."""
        return self.num_queries if self.loss_on == "queries" else 0

    def asdict(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        return as_json(self)
