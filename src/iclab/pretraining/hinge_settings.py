"""The arguments of `iclab.pretraining.hinge_sgd` that its result depends on, checked."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from torch import nn

from iclab.errors import InputError, check_integer, check_positive
from iclab.prompts import Stream
from iclab.prompts.stream import check_stream

GRADIENTS = ("auto", "autograd")


@dataclass(frozen=True, kw_only=True)
class HingeSettings:
    """Explained at `hinge_sgd`.

    Raises:
        InputError: for values out of range.
    """

    stream: Stream
    num_examples: int
    steps: int
    batch_size: int
    learning_rate: float
    gate_learning_rate: float | None
    num_queries: int
    log_every: int
    until_loss: float | None
    gradients: str

    def __post_init__(self) -> None:
        check_stream(self.stream)
        for name in ("num_examples", "steps", "batch_size", "num_queries", "log_every"):
            check_integer(name, getattr(self, name), 1)
        check_positive("learning_rate", self.learning_rate)
        if self.gate_learning_rate is not None and not _is_rate(self.gate_learning_rate):
            raise InputError(
                f"gate_learning_rate is {self.gate_learning_rate!r}; expected a finite number >= 0, or None for ten "
                "times learning_rate"
            )
        if self.until_loss is not None:
            check_positive("until_loss", self.until_loss)
        if self.gradients not in GRADIENTS:
            raise InputError(f"gradients is {self.gradients!r}; expected one of {', '.join(GRADIENTS)}")

    @property
    def gate_rate(self) -> float:
        """The step size of weights in gates."""
        return 10 * self.learning_rate if self.gate_learning_rate is None else self.gate_learning_rate

    def rates(self, model: nn.Module) -> dict[nn.Parameter, float]:
        """The step size of each trained weight."""
        gates = {id(parameter) for parameter in gate_parameters(model)}
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        return {p: self.gate_rate if id(p) in gates else self.learning_rate for p in trained}

    def describe(self, model: nn.Module) -> dict[str, object]:
        """These settings and the model's own."""
        own = getattr(model, "settings", None)
        return {
            **asdict(self),
            "gate_learning_rate": self.gate_rate if gate_parameters(model) else None,
            "model": type(model).__name__,
            "model_settings": own() if callable(own) else {},
        }


def gate_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Weights inside gates, where a model says which they are."""
    listed = getattr(model, "gate_parameters", None)
    return list(listed()) if callable(listed) else []


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
