"""Settings of `iclab.pretraining.hinge_sgd`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from iclab.settings.fields import Count, Limits, Positive, as_json, check_fields


@dataclass(frozen=True, kw_only=True)
class HingeSettings:
    """Everything that the result of `iclab.pretraining.hinge_sgd` depends on, beside the model, prompts and stream.

    Attributes:
        num_examples: N, examples of a prompt.
        steps: steps of gradient descent, at most.
        batch_size: B, prompts of a step.
        learning_rate: step size; the paper asks for at most 1.
        gate_learning_rate: step size of the weights in gates; ``None`` is ten times ``learning_rate``, which brings
            about the suppression of outliers sooner. The paper's single step size is ``learning_rate`` again.
        num_queries: Q, queries of each prompt.
        log_every: steps of a window of the record.
        until_loss: stop after the first window whose mean loss is at most this; ``None`` takes all steps.
        gradients: ``auto`` (written out where they are known) or ``autograd``. They agree to rounding.

    Raises:
        InputError: for values out of range.
    """

    num_examples: Count = 20
    steps: Count = 8000
    batch_size: Count = 64
    learning_rate: Positive = 0.02
    gate_learning_rate: Annotated[float, Limits(ge=0)] | None = None
    num_queries: Count = 1
    log_every: Count = 100
    until_loss: Positive | None = None
    gradients: Literal["auto", "autograd"] = "auto"

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def gate_rate(self) -> float:
        """The step size of weights in gates."""
        return 10 * self.learning_rate if self.gate_learning_rate is None else self.gate_learning_rate

    def asdict(self) -> dict[str, Any]:
        """Return the settings as JSON holds them."""
        return as_json(self)
